// SPDX-License-Identifier: GPL-2.0
//! Modules that go, or cannot, while there are requests.

use std::time::Duration;

use anyhow::ensure;
use libzernel::request::{Slots, Word};
use libzernel::Zernel;
use rustix::io::Errno;
use testkit::passing;

use super::{at_once, far, is_free, longest_lease, slot, words, Client, Ends, Since};
use crate::check_eq;
use crate::child::Child;
use crate::common::{errno, load_all, try_unload, unload_all, unload_soon, Lab};
use crate::harness::Outcome;

/// The provider goes: its TSGs do, and their requests. Slots stay, also those that were given to
/// the GPU.
pub(super) fn provider_goes() -> Outcome {
    longest_lease()?;
    let zernel = Zernel::open()?;
    let since = Since::now(&zernel)?;
    let slots = Slots::map(&zernel, 0..64)?;
    {
        let lab = Lab::open()?;
        let (context, tsg) = lab.compute()?;
        context.add_memory(slots.memory())?;
        let waits = slot(&slots, 0).begin(&far(tsg.id))?.number;
        slot(&slots, 1).begin(&at_once(tsg.id))?;
        check_eq!(try_unload("zernel_sim"), Err(Errno::AGAIN), "in use");
        since.expect(Ends {
            in_flight: 2,
            ..Ends::NONE
        })?;
        context.destroy()?;
        since.wait(Ends {
            gone: 2,
            ..Ends::NONE
        })?;
        ensure!(is_free(words(&slot(&slots, 0)), waits), "not given back");
    }
    unload_soon("zernel_sim")?;
    load_all()?;
    let lab = Lab::open()?;
    let (_context, tsg) = lab.compute()?;
    let request = slot(&slots, 1).begin(&at_once(tsg.id))?.number;
    check_eq!(words(&slot(&slots, 1)).0, request.get(), "trigger");
    slot(&slots, 1).done_call(request)?;
    since.expect(Ends {
        gone: 2,
        done: 1,
        ..Ends::NONE
    })
}

/// A process with requests is killed while the provider is about to be unloaded.
pub(super) fn unload_while_killed() -> Outcome {
    longest_lease()?;
    let zernel = Zernel::open()?;
    let since = Since::now(&zernel)?;
    let (ours, theirs) = passing::pair()?;
    let mut begun = 0;
    for round in 0..5 {
        load_all()?;
        let child = Child::spawn(|| {
            let lab = Lab::open()?;
            let client = Client::new(&lab)?;
            for slot in client.slots.slots() {
                let begin = match slot.number() % 2 {
                    0 => far(client.tsg),
                    _ => at_once(client.tsg),
                };
                let request = slot.begin(&begin)?.number;
                if slot.number() % 3 == 0 {
                    client.submit(&slot, request, Duration::from_micros(100))?;
                }
            }
            passing::send_number(&theirs, 64)?;
            loop {
                std::thread::sleep(Duration::from_secs(60));
            }
        })?;
        begun += passing::receive_number(&ours)?;
        check_eq!(try_unload("zernel_sim"), Err(Errno::AGAIN), "round {round}");
        child.kill()?;
        unload_soon("zernel_sim")?;
        child.end()?;
        let ends = since.ends()?;
        // Whichever is closed first.
        check_eq!((ends.in_flight, ends.gone + ends.closed), (0, begun));
    }
    load_all()
}

/// Slots, and a request that is over, keep nothing that the file does not keep; a mapping keeps that.
pub(super) fn open_file_keeps_zernel() -> Outcome {
    let zernel = Zernel::open()?;
    let slots = Slots::map(&zernel, 0..64)?;
    {
        let lab = Lab::open()?;
        let (_context, tsg) = lab.compute()?;
        slot(&slots, 0).begin(&far(tsg.id))?;
        check_eq!(try_unload("zernel"), Err(Errno::AGAIN), "with all of it");
    }
    unload_soon("zernel_sim")?;
    check_eq!(try_unload("zernel"), Err(Errno::AGAIN), "with an open file");
    let number = slot(&slots, 0).load(Word::Release);
    let number = libzernel::request::Number::new(number);
    ensure!(number.is_some(), "the request was not released");
    if let Some(number) = number {
        let answer = errno(slot(&slots, 0).cancel(number));
        check_eq!(
            answer,
            Some(Errno::STALE),
            "a request of a TSG that is gone"
        );
    }
    drop(zernel);
    check_eq!(try_unload("zernel"), Err(Errno::AGAIN), "with slots");
    drop(slots);
    unload_all()?;
    load_all()
}
