// SPDX-License-Identifier: GPL-2.0
//! Every step of a call that can fail, one after the other: no memory, or a copy that comes to
//! nothing. The call says so and has changed nothing, and goes well the next time.

use std::fmt::Debug;

use anyhow::ensure;
use libzernel::request::{Durations, Of, Slots, Word};
use libzernel::Zernel;
use rustix::io::Errno;
use testkit::faults::{Faults, OneByOne};

use super::calls::CALLS;
use super::slots::{allocated, MOST};
use super::{far, longest_lease, new_key, words, Client, Ends, Since};
use crate::abi::unchanged;
use crate::check_eq;
use crate::child::in_child;
use crate::common::Lab;
use crate::harness::Outcome;
use crate::permit::ALICE;
use crate::sys;

/// Fails unless a call failed for one of the reasons that were made up.
fn is_made_up(answer: Option<Errno>, failed: bool) -> Outcome {
    let causes = [Errno::NOMEM, Errno::FAULT];
    ensure!(failed, "{answer:?} of itself");
    ensure!(answer.is_some_and(|e| causes.contains(&e)), "{answer:?}");
    Ok(())
}

fn tell(what: &str, count: u32) -> Outcome {
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
        let count = thread.each(|n| {
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
        tell("mmap", count)?;
        let zernel = Zernel::open()?;
        let _all = Slots::map(&zernel, 0..MOST)?;
        Ok(())
    })
}

/// The first request of a TSG, a key and a slot, for which all of it is made.
pub(super) fn of_begin() -> Outcome {
    longest_lease()?;
    let faults = Faults::of_module("zernel")?;
    let thread = faults.one_by_one()?;
    let lab = Lab::open()?;
    let count = thread.each(|n| {
        let client = Client::new(&lab)?;
        let slot = client.slot(n % 64);
        let begin = far(client.tsg);
        let since = Since::of(&lab.zernel, Of::Tsg(client.tsg))?;
        let (result, failed) = thread.nth(n, || slot.begin(&begin))?;
        let mut cancelled = 0;
        match result {
            Ok(begun) => slot.cancel(begun.number)?,
            Err(error) => is_made_up(error.errno(), failed)?,
        }
        if words(&slot) == (1, 1) {
            // It had begun, and was given up: nobody was told its number.
            cancelled = 1;
        } else {
            check_eq!(words(&slot), (0, 0), "words");
        }
        let ends = Ends {
            cancelled,
            ..Ends::NONE
        };
        since.expect(ends)?;
        let request = slot.begin(&begin)?.number;
        since.expect(Ends {
            in_flight: 1,
            ..ends
        })?;
        slot.done_call(request)?;
        since.expect(Ends { done: 1, ..ends })?;
        Ok(failed)
    })?;
    tell("begin", count)
}

/// A slot whose requests become another TSG's and another key's: the one that it has goes on.
pub(super) fn of_rebinding() -> Outcome {
    longest_lease()?;
    let faults = Faults::of_module("zernel")?;
    let thread = faults.one_by_one()?;
    let lab = Lab::open()?;
    let first = Client::new(&lab)?;
    let count = thread.each(|n| {
        let (_context, second) = lab.compute()?;
        let slot = first.slot(n % 64);
        let (before, after) = (far(first.tsg), far(second.id));
        let since = Since::now(&lab.zernel)?;
        let request = slot.begin(&before)?.number;
        let (result, failed) = thread.nth(n, || slot.begin(&after))?;
        let ends = since.ends()?;
        let goes_on = Ends {
            in_flight: 1,
            ..Ends::NONE
        };
        match result {
            Ok(begun) => {
                check_eq!(begun.number, request.next(), "the next number");
                check_eq!(ends.cancelled, 1, "the one before");
                slot.cancel(begun.number)?;
            }
            Err(error) => {
                is_made_up(error.errno(), failed)?;
                if ends == goes_on {
                    ensure!(!request.is_reached_by(slot.load(Word::Trigger)), "freed");
                    slot.ready_call(request)?;
                    slot.done_call(request)?;
                } else {
                    // That of which nobody was told the number was begun, after the other had
                    // ended.
                    check_eq!(error.errno(), Some(Errno::FAULT));
                    check_eq!((ends.cancelled, ends.in_flight), (2, 0), "{ends:?}");
                }
            }
        }
        let number = slot.begin(&after)?.number;
        slot.cancel(number)?;
        check_eq!(since.ends()?.in_flight, 0, "in flight");
        Ok(failed)
    })?;
    tell("begin of a slot in use", count)
}

/// Ready, done and cancel.
pub(super) fn of_the_other_calls() -> Outcome {
    longest_lease()?;
    let faults = Faults::of_module("zernel")?;
    let thread = faults.one_by_one()?;
    let lab = Lab::open()?;
    let client = Client::new(&lab)?;
    for (name, call) in CALLS {
        let count = thread.each(|n| {
            let slot = client.slot(0);
            let request = slot.begin(&far(client.tsg))?.number;
            let state =
                || Ok::<_, anyhow::Error>((lab.zernel.request_stats(Of::All)?, words(&slot)));
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
        tell(name, count)?;
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
    let count = thread.each(|n| {
        let (result, failed) = unchanged(zernel, || thread.nth(n, &call))?;
        match result {
            Ok(now) => check_eq!(now, told, "{name}"),
            Err(error) => is_made_up(error.errno(), failed)?,
        }
        check_eq!(call()?, told, "{name}, once more");
        Ok(failed)
    })?;
    tell(name, count)
}

/// Statistics and lists, while there are requests.
pub(super) fn of_what_is_told() -> Outcome {
    longest_lease()?;
    let faults = Faults::of_module("zernel")?;
    let thread = faults.one_by_one()?;
    let lab = Lab::open()?;
    let client = Client::new(&lab)?;
    client.slot(0).begin(&far(client.tsg).key(new_key()))?;
    let over = client.slot(1).begin(&far(client.tsg))?.number;
    client.slot(1).done_call(over)?;
    lab.wait_set()?;
    let zernel = &lab.zernel;
    for of in [
        Of::All,
        Of::Level(libzernel::Level::LC),
        Of::Tsg(client.tsg),
    ] {
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
    let count = thread.each(|n| {
        let (result, failed) = thread.nth(n, Zernel::open)?;
        if let Err(error) = result {
            is_made_up(error.errno(), failed)?;
        }
        check_eq!(lab.zernel.request_stats(Of::All)?.in_flight, 0, "in flight");
        Ok(failed)
    })?;
    tell("open", count)
}
