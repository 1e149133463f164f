// SPDX-License-Identifier: GPL-2.0
//! What is refused, and with which errno; nothing has changed then.

use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

use bytemuck::Zeroable;
use libzernel::sys::abi;
use libzernel::{Target, Tracking};
use rustix::io::Errno;

use crate::abi::{call, unchanged};
use crate::check_eq;
use crate::child::Child;
use crate::common::{ended_thread, errno, Lab};
use crate::harness::Outcome;

fn own() -> abi::zernel_v0_track {
    abi::zernel_v0_track {
        target: abi::ZERNEL_V0_TARGET_PROCESS,
        ..abi::zernel_v0_track::zeroed()
    }
}

const CALLS: [(&str, u32); 2] = [
    ("track", abi::LIBZERNEL_V0_IOC_TRACK),
    ("untrack", abi::LIBZERNEL_V0_IOC_UNTRACK),
];

pub(super) fn fields() -> Outcome {
    let lab = Lab::open()?;
    let thread = abi::zernel_v0_track {
        target: abi::ZERNEL_V0_TARGET_THREAD,
        ..own()
    };
    let mut wrong = vec![
        abi::zernel_v0_track {
            threads: 1,
            ..own()
        },
        abi::zernel_v0_track {
            reserved: 1,
            ..own()
        },
        // A thread makes no processes of its own.
        abi::zernel_v0_track {
            flags: abi::ZERNEL_V0_TRACK_CHILDREN,
            ..thread
        },
    ];
    for target in [0, 1, 5, 6, 255, u32::MAX] {
        wrong.push(abi::zernel_v0_track { target, ..own() });
    }
    for bit in 3..32 {
        wrong.push(abi::zernel_v0_track {
            flags: 1 << bit,
            ..own()
        });
    }
    for (name, number) in CALLS {
        let mut wrong = wrong.clone();
        if name == "untrack" {
            for flags in [abi::ZERNEL_V0_TRACK_CHILDREN, abi::ZERNEL_V0_TRACK_ML] {
                wrong.push(abi::zernel_v0_track { flags, ..own() });
            }
        }
        for request in wrong {
            let (result, after) = unchanged(&lab.zernel, || {
                Ok(call(lab.zernel.as_fd(), number, &request))
            })?;
            check_eq!(result, Err(Errno::INVAL), "{name} {request:?}");
            check_eq!(bytemuck::bytes_of(&after), bytemuck::bytes_of(&request));
        }
    }
    Ok(())
}

pub(super) fn no_such_task() -> Outcome {
    let lab = Lab::open()?;
    let child = Child::spawn(|| Ok(()))?;
    child.wait_ended(Duration::from_secs(60))?;
    for (what, target) in [
        ("a thread of the kernel", Target::Process(2)),
        ("a thread of the kernel", Target::Thread(2)),
        ("a number too large", Target::Process(1 << 30)),
        ("a zombie", Target::Process(child.pid())),
        ("a thread that has ended", Target::Thread(ended_thread()?)),
    ] {
        let answers = unchanged(&lab.zernel, || {
            let track = errno(lab.zernel.track(&target, Tracking::PLAIN));
            Ok((track, errno(lab.zernel.untrack(&target))))
        })?;
        check_eq!(answers, (Some(Errno::SRCH), Some(Errno::SRCH)), "{what}");
    }
    let null = std::fs::File::open("/dev/null")?;
    for (name, number) in CALLS {
        for id in [null.as_raw_fd() as u64, 999, u64::MAX] {
            let request = abi::zernel_v0_track {
                flags: abi::ZERNEL_V0_TRACK_PIDFD,
                id,
                ..own()
            };
            let (result, _) = unchanged(&lab.zernel, || {
                Ok(call(lab.zernel.as_fd(), number, &request))
            })?;
            check_eq!(result, Err(Errno::BADF), "{name} descriptor {id}");
        }
    }
    Ok(())
}

pub(super) fn not_tracked() -> Outcome {
    let lab = Lab::open()?;
    let (process, thread) = (Target::current_process(), Target::current_thread());
    let nodata = Some(Errno::NODATA);
    check_eq!(errno(lab.zernel.untrack(&process)), nodata);
    check_eq!(errno(lab.zernel.untrack(&thread)), nodata);
    // Another thread of the process is.
    let (stop, wait) = std::sync::mpsc::channel::<()>();
    let (tell, told) = std::sync::mpsc::channel();
    let other = std::thread::spawn(move || {
        tell.send(crate::common::tid()).expect("somebody listens");
        let _ = wait.recv();
    });
    let other_tid = told.recv()?;
    check_eq!(
        lab.zernel
            .track(&Target::Thread(other_tid), Tracking::PLAIN)?,
        1
    );
    check_eq!(errno(lab.zernel.untrack(&thread)), nodata);
    // A thread of a process that is tracked as a whole.
    lab.zernel.track(&process, Tracking::PLAIN)?;
    let answer = unchanged(&lab.zernel, || Ok(errno(lab.zernel.untrack(&thread))))?;
    check_eq!(answer, Some(Errno::BUSY));
    check_eq!(lab.zernel.untrack(&process)?, 0);
    check_eq!(errno(lab.zernel.untrack(&process)), nodata);
    drop(stop);
    other.join().expect("a thread that waits");
    Ok(())
}
