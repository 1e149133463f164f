// SPDX-License-Identifier: MIT OR Apache-2.0
//! The TSGs for which requests may be begun, the visibility of statistics, and TSGs of others that
//! are busy.

use anyhow::Context as _;
use libzernel::request::{Durations, Of, Slots};
use libzernel::sim::Operation;
use libzernel::{tsg, Level, Target, Zernel};
use rustix::io::Errno;

use super::{far, lab, slot, Since};
use crate::check_eq;
use crate::child::in_child;
use crate::common::{errno, slice_of, wait_until, Lab};
use crate::events::{known, Broken};
use crate::harness::Outcome;
use crate::list::PERFMON;
use crate::permit::{owner_process, ALICE, BOB, NICE};
use crate::sys;

/// Becomes somebody.
type Become = fn() -> std::io::Result<()>;

/// The caller matters, not the owner of the file: each begins a request of alice's TSG through
/// root's file, and asks for the statistics of that TSG and of all.
pub(super) fn of_others() -> Outcome {
    let _owner = owner_process(ALICE)?;
    let lab = Lab::open()?;
    let alices = lab.zernel.tsgs().next().context("no TSG")??;
    check_eq!(alices.uid, ALICE);
    let since = Since::now(&lab.zernel)?;
    let roots = Zernel::open()?;
    let (noent, perm) = (Some(Errno::NOENT), Some(Errno::PERM));
    let stranger: Become = || sys::become_user(BOB, BOB, &[]);
    let mut begun = 0;
    // The answers to: begin, statistics of the TSG, statistics of all.
    let callers: [(&str, Become, [Option<Errno>; 3]); 6] = [
        (
            "the owner",
            || sys::become_user(ALICE, ALICE, &[]),
            [None, None, perm],
        ),
        ("a stranger", stranger, [noent, noent, perm]),
        (
            "one who sees all",
            || sys::become_user_with(BOB, BOB, PERFMON),
            [perm, None, None],
        ),
        (
            "one with CAP_SYS_NICE",
            || sys::become_user_with(BOB, BOB, NICE),
            [None, noent, perm],
        ),
        ("root", || Ok(()), [None; 3]),
        (
            "root without capabilities",
            || sys::set_capabilities(0),
            [noent, noent, perm],
        ),
    ];
    for (who, become_it, answers) in callers {
        begun += u64::from(answers[0].is_none());
        in_child(|| {
            become_it()?;
            for zernel in [&roots, &Zernel::open()?] {
                let slots = Slots::map(zernel, 0..64)?;
                let begin = slot(&slots, 0).begin(&far(alices.id));
                if let Ok(begun) = &begin {
                    slot(&slots, 0).cancel(begun.number)?;
                }
                check_eq!(errno(begin), answers[0], "begin by {who}");
                let stats = zernel.request_stats(Of::Tsg(alices.id));
                if let Ok(stats) = &stats {
                    check_eq!(stats.begun, stats.cancelled, "{who}");
                }
                check_eq!(errno(stats), answers[1], "one TSG, by {who}");
                for durations in [Durations::Latency, Durations::Preemption] {
                    let histogram = zernel.histogram(Of::Tsg(alices.id), durations);
                    check_eq!(errno(histogram), answers[1], "{durations:?}, by {who}");
                }
                for of in [Of::All, Of::Level(Level::LC), Of::Level(Level::BE)] {
                    let answer = errno(zernel.request_stats(of));
                    check_eq!(answer, answers[2], "{of:?} by {who}");
                }
                // Where there is nothing, everybody is told the same.
                let none = Of::Tsg(tsg::Id::new(alices.id.as_u64() + 1_000_000));
                check_eq!(errno(zernel.request_stats(none)), noent, "{who}");
            }
            Ok(())
        })?;
    }
    // Privilege counts at the call: not the one that the slot was used with before.
    begun += 1;
    in_child(|| {
        let slots = Slots::map(&roots, 0..64)?;
        let ask = far(alices.id);
        for answer in [None, None, noent, noent] {
            if answer.is_some() {
                sys::set_capabilities(0)?;
            }
            let begin = slot(&slots, 0).begin(&ask);
            if let Ok(begun) = &begin {
                slot(&slots, 0).cancel(begun.number)?;
            }
            check_eq!(errno(begin), answer, "of a slot that was used before");
        }
        Ok(())
    })?;
    let stats = lab.zernel.request_stats(Of::Tsg(alices.id))?;
    check_eq!((stats.begun, stats.cancelled), (2 * begun, 2 * begun));
    since.expect(ends!(cancelled: 2 * begun))
}

/// While the provider answers "not now" for one TSG, the requests of others go on, and so do changes
/// of their settings; its own follow when it can.
pub(super) fn beside_a_busy_tsg() -> Outcome {
    let (lab, client) = lab()?;
    let (busy_context, busy) = known(&lab)?;
    let (context, other) = known(&lab)?;
    let slot = client.slot(0);
    let begun = slot.begin(&far(client.tsg))?;
    let broken = Broken::new(
        &lab.sim,
        Operation::SetTimeslice,
        Some(&busy_context),
        Errno::BUSY,
    )?;
    lab.zernel.set_class(&Target::Tsg(busy.id), Level::BE)?;
    wait_until("it is tried again", || Ok(broken.hits()? >= 3))?;
    lab.zernel.set_class(&Target::Tsg(other.id), Level::BE)?;
    lab.wait_slice(&context, slice_of(7))?;
    let now = lab.tsg(busy.id)?;
    check_eq!((now.pending, now.failed), (true, false), "pending, failed");
    // It was not ended.
    slot.ready_call(begun.number)?;
    slot.done_call(begun.number)?;
    drop(broken);
    lab.wait_slice(&busy_context, slice_of(7))
}
