// SPDX-License-Identifier: GPL-2.0
//! Refusals and their errno; nothing has changed then.

use std::time::Duration;

use libzernel::{Target, Tracking};
use rustix::io::Errno;

use crate::abi::unchanged;
use crate::check_eq;
use crate::child::Child;
use crate::common::{ended_thread, errno, Lab};
use crate::harness::Outcome;

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
