// SPDX-License-Identifier: GPL-2.0
//! The TSGs for which requests may be begun, and the visibility of statistics.

use anyhow::{Context as _, Result};
use libzernel::request::{Of, Slots};
use libzernel::{tsg, Level, Zernel};
use rustix::io::Errno;

use super::{far, slot, Ends, Since};
use crate::check_eq;
use crate::child::in_child;
use crate::common::{errno, Lab};
use crate::harness::Outcome;
use crate::list::PERFMON;
use crate::permit::{owner_process, ALICE, BOB, NICE};
use crate::sys;

/// The answer to a caller that begins a request of a TSG; one that begins is cancelled.
fn begin_as_caller(tsg: tsg::Id) -> Result<Option<Errno>> {
    let zernel = Zernel::open()?;
    let slots = Slots::map(&zernel, 0..64)?;
    let slot = slot(&slots, 0);
    match slot.begin(&far(tsg)) {
        Ok(begun) => {
            slot.cancel(begun.number)?;
            Ok(None)
        }
        Err(error) => Ok(error.errno()),
    }
}

/// Becomes somebody.
type Become = fn() -> std::io::Result<()>;

pub(super) fn tsgs_of_others() -> Outcome {
    let _owner = owner_process(ALICE)?;
    let lab = Lab::open()?;
    let alices = lab.zernel.tsgs().next().context("no TSG")??;
    check_eq!(alices.uid, ALICE);
    let since = Since::now(&lab.zernel)?;
    let callers: [(&str, Become, Option<Errno>); 6] = [
        ("the owner", || sys::become_user(ALICE, ALICE, &[]), None),
        (
            "a stranger",
            || sys::become_user(BOB, BOB, &[]),
            Some(Errno::NOENT),
        ),
        (
            "one who sees all",
            || sys::become_user_with(BOB, BOB, PERFMON),
            Some(Errno::PERM),
        ),
        (
            "one with CAP_SYS_NICE",
            || sys::become_user_with(BOB, BOB, NICE),
            None,
        ),
        ("root", || Ok(()), None),
        (
            "root without capabilities",
            || sys::set_capabilities(0),
            Some(Errno::NOENT),
        ),
    ];
    let mut begun = 0;
    for (who, become_it, want) in callers {
        in_child(|| {
            become_it()?;
            check_eq!(begin_as_caller(alices.id)?, want, "{who}");
            Ok(())
        })?;
        begun += u64::from(want.is_none());
    }
    since.expect(Ends {
        cancelled: begun,
        ..Ends::NONE
    })
}

pub(super) fn stats_of_others() -> Outcome {
    let _owner = owner_process(ALICE)?;
    let lab = Lab::open()?;
    let alices = lab.zernel.tsgs().next().context("no TSG")??.id;
    check_eq!(begin_as_caller(alices)?, None, "root");
    let all = [Of::All, Of::Level(Level::LC), Of::Level(Level::BE)];
    let callers: [(&str, Become, Option<Errno>, Option<Errno>); 4] = [
        (
            "the owner",
            || sys::become_user(ALICE, ALICE, &[]),
            None,
            Some(Errno::PERM),
        ),
        (
            "a stranger",
            || sys::become_user(BOB, BOB, &[]),
            Some(Errno::NOENT),
            Some(Errno::PERM),
        ),
        (
            "one who sees all",
            || sys::become_user_with(BOB, BOB, PERFMON),
            None,
            None,
        ),
        ("root", || Ok(()), None, None),
    ];
    for (who, become_it, of_tsg, of_all) in callers {
        in_child(|| {
            become_it()?;
            let zernel = Zernel::open()?;
            let answer = zernel.request_stats(Of::Tsg(alices));
            if let Ok(stats) = &answer {
                check_eq!((stats.begun, stats.cancelled), (1, 1), "{who}");
            }
            check_eq!(errno(answer), of_tsg, "{who}, one TSG");
            for of in all {
                check_eq!(errno(zernel.request_stats(of)), of_all, "{who}, {of:?}");
            }
            // Where there is nothing, everybody is told the same.
            let none = Of::Tsg(tsg::Id::new(alices.as_u64() + 1_000_000));
            check_eq!(
                errno(zernel.request_stats(none)),
                Some(Errno::NOENT),
                "{who}"
            );
            Ok(())
        })?;
    }
    // The caller matters, not the owner of the file.
    let zernel = Zernel::open()?;
    let slots = Slots::map(&zernel, 0..64)?;
    in_child(|| {
        sys::become_user(BOB, BOB, &[])?;
        let answer = errno(zernel.request_stats(Of::All));
        check_eq!(answer, Some(Errno::PERM), "all, from root's file");
        let answer = errno(zernel.request_stats(Of::Tsg(alices)));
        check_eq!(answer, Some(Errno::NOENT), "alice's TSG, from root's file");
        let answer = errno(slot(&slots, 0).begin(&far(alices)));
        check_eq!(answer, Some(Errno::NOENT), "a request, through root's file");
        Ok(())
    })
}
