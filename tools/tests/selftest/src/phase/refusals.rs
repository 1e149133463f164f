// SPDX-License-Identifier: GPL-2.0
//! Hints that are refused, and with which errno; nothing has changed then.

use std::time::Duration;

use libzernel::{Phase, Target, Tracking};
use rustix::io::Errno;

use super::own;
use crate::abi::unchanged;
use crate::check_eq;
use crate::child::Child;
use crate::common::{ended_thread, errno, Lab};
use crate::harness::Outcome;
use crate::track::wait_count;

const SECOND: Duration = Duration::from_secs(1);

/// Threads that are not tracked, not as ones of a machine-learning program, or not any more.
pub(super) fn no_phases() -> Outcome {
    let lab = Lab::open()?;
    let me = Target::current_process();
    let refused = |what: &str| -> Outcome {
        for duration in [SECOND, Duration::ZERO] {
            let answer = unchanged(&lab.zernel, || {
                Ok(errno(lab.zernel.hint(
                    &Target::CurrentThread,
                    Phase::Unknown,
                    duration,
                )))
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
    let answer = errno(
        lab.zernel
            .hint(&Target::Thread(child.pid()), Phase::Unknown, SECOND),
    );
    check_eq!(answer, Some(Errno::NODATA), "a child");
    lab.zernel.track(&me, Tracking::PLAIN)?;
    refused("tracked without phases")?;
    lab.zernel.track(&me, Tracking::ML)?;
    lab.zernel
        .hint(&Target::CurrentThread, Phase::Unknown, SECOND)?;
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
            Ok(errno(lab.zernel.hint(
                &Target::Thread(tid),
                Phase::GpuCompute,
                SECOND,
            )))
        })?;
        check_eq!(answer, Some(Errno::SRCH), "{what}");
    }
    check_eq!(own(&lab.zernel)?.hinted, false);
    Ok(())
}
