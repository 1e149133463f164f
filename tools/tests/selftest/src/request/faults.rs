// SPDX-License-Identifier: MIT OR Apache-2.0
//! Every step of a call that can fail, one after the other: no memory, or a copy that comes to
//! nothing. The call says so and has changed nothing, and goes well the next time.

use std::fmt::Debug;

use anyhow::{ensure, Result};
use libzernel::request::{Durations, Of, Slots};
use libzernel::{Level, Zernel};
use rustix::io::Errno;
use testkit::faults::{Faults, OneByOne};

use super::slots::{allocated, MOST};
use super::{far, lab, words, Since, UPDATES};
use crate::abi::unchanged;
use crate::check_eq;
use crate::child::in_child;
use crate::common::Lab;
use crate::harness::Outcome;
use crate::permit::ALICE;
use crate::sys;

/// Fails unless a call failed for one of the reasons that were made up.
fn is_made_up(answer: Option<Errno>, failed: bool) -> Outcome {
    ensure!(failed, "{answer:?} of itself");
    let made_up = matches!(answer, Some(Errno::NOMEM | Errno::FAULT));
    ensure!(made_up, "{answer:?}");
    Ok(())
}

/// Has a round made with the failure of each step of a call.
fn walk(thread: &OneByOne, what: &str, round: impl FnMut(u32) -> Result<bool>) -> Outcome {
    let count = thread.each(round)?;
    println!("    # {what}: {count} steps that can fail");
    ensure!(count > 0, "{what} cannot fail");
    Ok(())
}

/// Slots: nothing of the user's share is lost.
pub(super) fn of_mmap() -> Outcome {
    let faults = Faults::of_module("zernel")?;
    in_child(|| {
        let thread = faults.one_by_one()?;
        sys::become_user(ALICE, ALICE, &[])?;
        let before = allocated()?;
        walk(&thread, "mmap", |n| {
            let zernel = Zernel::open()?;
            let (result, failed) = thread.nth(n, || Slots::map(&zernel, 10..200))?;
            if let Err(error) = result {
                is_made_up(error.errno(), failed)?;
                check_eq!(allocated()?, before, "slots");
            }
            Slots::map(&zernel, 0..256)?;
            check_eq!(allocated()?, before + 256, "slots");
            Ok(failed)
        })?;
        let _all = Slots::map(&Zernel::open()?, 0..MOST)?;
        Ok(())
    })
}

/// The first request of a TSG, a key and a slot, for which all of it is made; and of a slot whose
/// request of another TSG and key goes on.
pub(super) fn of_begin() -> Outcome {
    let faults = Faults::of_module("zernel")?;
    let thread = faults.one_by_one()?;
    for in_use in [0, 1] {
        walk(&thread, "begin", |n| {
            let (lab, client) = lab()?;
            let (_context, tsg) = lab.compute()?;
            let slot = client.slot(n % 64);
            let since = Since::now(&lab.zernel)?;
            let before = match in_use {
                0 => None,
                _ => Some(slot.begin(&far(client.tsg))?.number),
            };
            let (was, begin) = (words(&slot), far(tsg.id));
            let (result, failed) = thread.nth(n, || slot.begin(&begin))?;
            match result {
                Ok(begun) => slot.cancel(begun.number)?,
                Err(error) => {
                    is_made_up(error.errno(), failed)?;
                    // That of which nobody was told the number had begun, after the one before had
                    // ended.
                    let untold = since.ends()? == ends!(cancelled: 1 + in_use)
                        && error.errno() == Some(Errno::FAULT);
                    if !untold {
                        since.expect(ends!(in_flight: in_use))?;
                        check_eq!(words(&slot), was, "words");
                    }
                    if let (Some(request), false) = (before, untold) {
                        slot.ready_call(request)?;
                        slot.done_call(request)?;
                    }
                }
            }
            let number = slot.begin(&begin)?.number;
            check_eq!(since.ends()?.in_flight, 1, "in flight");
            slot.done_call(number)?;
            check_eq!(since.ends()?.in_flight, 0, "in flight");
            Ok(failed)
        })?;
    }
    Ok(())
}

/// Ready, done and cancel.
pub(super) fn of_the_other_calls() -> Outcome {
    let faults = Faults::of_module("zernel")?;
    let thread = faults.one_by_one()?;
    let (lab, client) = lab()?;
    let slot = client.slot(0);
    for (name, call) in UPDATES {
        walk(&thread, name, |n| {
            let request = slot.begin(&far(client.tsg))?.number;
            let state = || anyhow::Ok((lab.zernel.request_stats(Of::All)?, words(&slot)));
            let before = state()?;
            let (result, failed) = thread.nth(n, || call(&slot, request))?;
            if let Err(error) = result {
                is_made_up(error.errno(), failed)?;
                check_eq!(state()?, before, "{name} that failed");
                call(&slot, request)?;
            }
            if name == "ready" {
                slot.done_call(request)?;
            }
            Ok(failed)
        })?;
    }
    Ok(())
}

/// A call that only tells something.
fn only_tells<T: Debug + PartialEq>(
    thread: &OneByOne,
    zernel: &Zernel,
    name: &str,
    call: impl Fn() -> libzernel::Result<T>,
) -> Outcome {
    let told = call()?;
    walk(thread, name, |n| {
        let (result, failed) = unchanged(zernel, || thread.nth(n, &call))?;
        match result {
            Ok(now) => check_eq!(now, told, "{name}"),
            Err(error) => is_made_up(error.errno(), failed)?,
        }
        check_eq!(call()?, told, "{name}, once more");
        Ok(failed)
    })
}

/// Statistics and lists, while there are requests.
pub(super) fn of_what_is_told() -> Outcome {
    let faults = Faults::of_module("zernel")?;
    let thread = faults.one_by_one()?;
    let (lab, client) = lab()?;
    client.slot(0).begin(&far(client.tsg))?;
    let over = client.slot(1).begin(&far(client.tsg))?.number;
    client.slot(1).done_call(over)?;
    lab.wait_set()?;
    let zernel = &lab.zernel;
    for of in [Of::All, Of::Level(Level::LC), Of::Tsg(client.tsg)] {
        only_tells(&thread, zernel, "statistics", || zernel.request_stats(of))?;
        only_tells(&thread, zernel, "a histogram", || {
            let histogram = zernel.histogram(of, Durations::Latency)?;
            Ok(histogram.buckets().collect::<Vec<_>>())
        })?;
    }
    only_tells(&thread, zernel, "the list of TSGs", || {
        // The context bytes come with the load of the GPU, in their own time.
        let tsgs = zernel.tsgs().map(|tsg| {
            tsg.map(|mut tsg| {
                tsg.context_bytes = 0;
                tsg
            })
        });
        tsgs.collect::<libzernel::Result<Vec<_>>>()
    })
}

/// A file: nothing of one that could not be opened stays.
pub(super) fn of_open() -> Outcome {
    let faults = Faults::of_module("zernel")?;
    let thread = faults.one_by_one()?;
    let lab = Lab::open()?;
    walk(&thread, "open", |n| {
        let (result, failed) = unchanged(&lab.zernel, || thread.nth(n, Zernel::open))?;
        if let Err(error) = result {
            is_made_up(error.errno(), failed)?;
        }
        Ok(failed)
    })
}
