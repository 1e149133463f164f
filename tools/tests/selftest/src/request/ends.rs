// SPDX-License-Identifier: MIT OR Apache-2.0
//! All that ends a request: what it then counts as, and that the GPU is given back.

use anyhow::{ensure, Result};
use libzernel::request::{Number, Of, Slots};
use libzernel::sim::{Context, ContextSpec};
use libzernel::{tsg, Level, Target, Zernel};
use rustix::io::Errno;

use super::{at_once, far, is_free, lab, slot, wait, words, Client, Since, UPDATES};
use crate::check_eq;
use crate::common::{errno, wait_until};
use crate::harness::Outcome;
use crate::sim::turns::Suspended;

/// One that waits for its trigger, one that has the GPU, one that is ready, one that was stored as
/// done.
fn begin_all(slots: &Slots, tsg: tsg::Id) -> Result<[Number; 4]> {
    let mut requests = [Number::new(1).expect("a number"); 4];
    for ((slot, begin), request) in slots
        .slots()
        .zip([far, at_once, far, far])
        .zip(&mut requests)
    {
        *request = slot.begin(&begin(tsg))?.number;
    }
    slot(slots, 2).ready_call(requests[2])?;
    slot(slots, 3).ready(requests[3]);
    slot(slots, 3).done(requests[3]);
    Ok(requests)
}

/// Requests in every state are cancelled, or their file, TSG or GPU goes; those of others stay.
pub(super) fn in_every_state() -> Outcome {
    for (cause, ends) in [
        ("cancelled", ends!(cancelled: 3, done: 1, in_flight: 1)),
        ("closed", ends!(closed: 3, done: 1, in_flight: 1)),
        ("gone", ends!(gone: 3, done: 1, in_flight: 1)),
        ("suspended", ends!(suspended: 3, done: 1, in_flight: 1)),
    ] {
        let more = match cause {
            "gone" => Some(Errno::NOENT),
            "suspended" => Some(Errno::AGAIN),
            _ => None,
        };
        let (lab, client) = lab()?;
        let others = Slots::map(&lab.zernel, 0..64)?;
        let spec = ContextSpec::compute("awake");
        let (_awake, awake) = lab.context(&ContextSpec { gpu: 1, ..spec })?;
        let since = Since::now(&lab.zernel)?;
        let other = slot(&others, 3).begin(&far(awake.id))?.number;
        let requests = begin_all(&client.slots, client.tsg)?;
        let mut last = 0;
        for (number, &request) in (0..).zip(&requests) {
            last = client.submit(&client.slot(number), request, super::SHORTEST)?;
        }
        let Client {
            slots,
            context,
            tsg,
        } = client;
        let (mut slots, mut context, mut asleep) = (Some(slots), Some(context), None);
        match (cause, &slots) {
            ("cancelled", Some(slots)) => {
                for (slot, &request) in slots.slots().zip(&requests[..3]) {
                    slot.cancel(request)?;
                }
            }
            ("closed", _) => slots = None,
            ("gone", _) => context.take().map_or(Ok(()), Context::destroy)?,
            _ => {
                asleep = Some(Suspended::new(&lab.sim, 0)?);
                // zernel learns it from what the provider answers next.
                lab.zernel.set_class(&Target::Tsg(tsg), Level::BE)?;
            }
        }
        since.wait(ends).map_err(|error| error.context(cause))?;
        for (slot, &request) in slots.iter().flat_map(Slots::slots).zip(&requests[..3]) {
            ensure!(is_free(words(&slot), request), "{cause}: {request} is held");
            for (name, call) in UPDATES {
                let answer = errno(call(&slot, request));
                check_eq!(answer, Some(Errno::STALE), "{name} of one that is {cause}");
            }
            if more.is_some() {
                for begin in [far, at_once] {
                    check_eq!(errno(slot.begin(&begin(tsg))), more, "one more: {cause}");
                }
            }
            // The slot is good for another TSG.
            let next = slot.begin(&far(awake.id))?.number;
            check_eq!(next, request.next(), "the next number");
            slot.cancel(next)?;
        }
        if cause == "gone" {
            let answer = errno(lab.zernel.request_stats(Of::Tsg(tsg)));
            check_eq!(
                answer,
                Some(Errno::NOENT),
                "statistics of a TSG that is gone"
            );
        }
        if asleep.is_some() {
            let gpu = lab.zernel.gpus().next().transpose()?;
            check_eq!(gpu.map(|gpu| gpu.suspended), Some(true), "suspended");
        }
        let (trigger, _) = words(&slot(&others, 3));
        ensure!(!other.is_reached_by(trigger), "{cause}: the other's");
        slot(&others, 3).cancel(other)?;
        if asleep.take().is_some() {
            wait_until("the GPU goes on", || {
                Ok(slot(&others, 4).begin(&far(tsg)).is_ok())
            })?;
        }
        if let Some(context) = &context {
            wait(context, last)?;
        }
        drop((slots, others, lab.zernel));
        let zernel = Zernel::open()?;
        wait_until("all are over", || {
            Ok(zernel.request_stats(Of::All)?.in_flight == 0)
        })?;
    }
    Ok(())
}

/// The next one says that the last is over: done if it was ready or done, by call or store, else
/// cancelled.
pub(super) fn next_begin() -> Outcome {
    let (lab, client) = lab()?;
    let (_other, other) = lab.compute()?;
    let since = Since::now(&lab.zernel)?;
    let (mut done, mut cancelled) = (0, 0);
    // For another TSG, or of another key, it is the same.
    for next in [far(client.tsg), far(client.tsg).key(1), far(other.id)] {
        let requests = begin_all(&client.slots, client.tsg)?;
        // Done says ready as well.
        let stored = client.slot(4).begin(&far(client.tsg))?.number;
        client.slot(4).done(stored);
        let mut begun = Vec::new();
        for (slot, request) in client
            .slots
            .slots()
            .zip(requests.into_iter().chain([stored]))
        {
            let later = slot.begin(&next)?.number;
            check_eq!(later, request.next(), "the next number");
            check_eq!(words(&slot), (request.get(), request.get()), "both words");
            begun.push((slot, later));
        }
        (done, cancelled) = (done + 3, cancelled + 2);
        since.expect(ends!(done: done, cancelled: cancelled, in_flight: 5))?;
        for (slot, request) in begun {
            let seq = client.submit(&slot, request, super::SHORTEST)?;
            slot.done_call(request)?;
            client.wait(seq)?;
            done += 1;
        }
    }
    let of_other = lab.zernel.request_stats(Of::Tsg(other.id))?;
    check_eq!((of_other.begun, of_other.done), (5, 5), "the other TSG");
    Ok(())
}
