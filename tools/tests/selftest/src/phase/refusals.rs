// SPDX-License-Identifier: GPL-2.0
//! Hints that are refused, and with which errno; nothing has changed then.

use std::os::fd::AsFd;
use std::time::Duration;

use bytemuck::{bytes_of, Zeroable};
use libzernel::phase::HINT_MAX;
use libzernel::sys::abi;
use libzernel::{Phase, Target, Tracking};
use rustix::io::Errno;

use super::own;
use crate::abi::{call, unchanged};
use crate::check_eq;
use crate::child::Child;
use crate::common::{ended_thread, errno, Lab};
use crate::harness::Outcome;
use crate::track::wait_count;

const SECOND: Duration = Duration::from_secs(1);

pub(super) fn fields() -> Outcome {
    let lab = Lab::open()?;
    lab.zernel.track(&Target::current_process(), Tracking::ML)?;
    let good = abi::zernel_v0_phase_hint {
        phase: abi::ZERNEL_V0_PHASE_GPU_COMPUTE,
        duration_ns: abi::ZERNEL_V0_HINT_MAX_NS,
        ..abi::zernel_v0_phase_hint::zeroed()
    };
    let mut wrong = Vec::new();
    for phase in [abi::ZERNEL_V0_NR_PHASES, 6, 255, 256, 1 << 31, u32::MAX] {
        wrong.push(abi::zernel_v0_phase_hint { phase, ..good });
        // Not even when it is to end.
        wrong.push(abi::zernel_v0_phase_hint {
            phase,
            duration_ns: 0,
            ..good
        });
    }
    for duration_ns in [abi::ZERNEL_V0_HINT_MAX_NS + 1, 1 << 63, u64::MAX] {
        wrong.push(abi::zernel_v0_phase_hint {
            duration_ns,
            ..good
        });
    }
    for reserved in [1, 1 << 63] {
        wrong.push(abi::zernel_v0_phase_hint { reserved, ..good });
    }
    for request in wrong {
        lab.zernel.hint(0, Phase::NcclCollective, HINT_MAX)?;
        let before = own(&lab.zernel)?;
        let (result, after) = unchanged(&lab.zernel, || {
            let number = abi::LIBZERNEL_V0_IOC_PHASE_HINT;
            Ok(call(lab.zernel.as_fd(), number, &request))
        })?;
        check_eq!(result, Err(Errno::INVAL), "{request:?}");
        check_eq!(bytes_of(&after) == bytes_of(&request), true, "{request:?}");
        let now = own(&lab.zernel)?;
        check_eq!(
            (now.phase, now.hinted, now.transitions),
            (Phase::NcclCollective, true, before.transitions),
            "after {request:?}"
        );
    }
    let (result, _) = call(
        lab.zernel.as_fd(),
        abi::LIBZERNEL_V0_IOC_PHASE_HINT,
        &abi::zernel_v0_phase_hint {
            tid: crate::common::tid(),
            ..good
        },
    );
    result?;
    check_eq!(own(&lab.zernel)?.phase, Phase::GpuCompute);
    Ok(())
}

/// Threads that are not tracked, not as ones of a machine-learning program, or not any more.
pub(super) fn no_phases() -> Outcome {
    let lab = Lab::open()?;
    let me = Target::current_process();
    let refused = |what: &str| -> Outcome {
        for duration in [SECOND, Duration::ZERO] {
            let answer = unchanged(&lab.zernel, || {
                Ok(errno(lab.zernel.hint(0, Phase::Unknown, duration)))
            })?;
            check_eq!(answer, Some(Errno::NODATA), "{what}");
        }
        check_eq!(lab.zernel.phases().count(), 0, "{what}");
        Ok(())
    };
    refused("not tracked")?;
    let child = Child::spawn(|| loop {
        std::thread::sleep(SECOND);
    })?;
    let answer = errno(lab.zernel.hint(child.pid(), Phase::Unknown, SECOND));
    check_eq!(answer, Some(Errno::NODATA), "a child");
    lab.zernel.track(&me, Tracking::PLAIN)?;
    refused("tracked without phases")?;
    lab.zernel.track(&me, Tracking::ML)?;
    lab.zernel.hint(0, Phase::Unknown, SECOND)?;
    lab.zernel.untrack(&me)?;
    refused("not tracked any more")?;
    lab.zernel.track(&me, Tracking::PLAIN)?;
    refused("tracked again, without phases")
}

pub(super) fn no_such_thread() -> Outcome {
    let lab = Lab::open()?;
    lab.zernel.track(&Target::current_process(), Tracking::ML)?;
    let child = Child::spawn(|| Ok(()))?;
    child.wait_ended(Duration::from_secs(60))?;
    let ended = ended_thread()?;
    wait_count(&lab.zernel, 1)?;
    for (what, tid) in [
        ("a thread of the kernel", 2),
        ("a number too large", 1 << 30),
        ("a zombie", child.pid()),
        ("a thread that has ended", ended),
    ] {
        let answer = unchanged(&lab.zernel, || {
            Ok(errno(lab.zernel.hint(tid, Phase::GpuCompute, SECOND)))
        })?;
        check_eq!(answer, Some(Errno::SRCH), "{what}");
    }
    check_eq!(own(&lab.zernel)?.hinted, false);
    Ok(())
}
