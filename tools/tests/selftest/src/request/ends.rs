// SPDX-License-Identifier: GPL-2.0
//! All that ends a request: what it then counts as, and that the GPU is given back.

use std::time::Duration;

use anyhow::{ensure, Result};
use libzernel::request::{Begin, Number, Of, Slot, Slots, Word};
use libzernel::sim::{Condition, Context, ContextSpec, Item};
use libzernel::{tsg, Level, Target, Timestamp, Zernel};
use rustix::io::Errno;
use testkit::passing;

use super::{at_once, far, is_free, longest_lease, slot, words, Client, Ends, Since};
use crate::check_eq;
use crate::child::{Child, End};
use crate::common::{errno, wait_until, Lab, SOON};
use crate::harness::Outcome;
use crate::sim::turns::Suspended;

/// Fails unless both words have reached a request.
fn freed(slot: &Slot<'_>, request: Number) -> Outcome {
    let words = words(slot);
    ensure!(is_free(words, request), "{request} is held: {words:?}");
    Ok(())
}

/// One that waits for its trigger, one that has the GPU, one that is ready.
fn in_every_state(slots: &Slots, tsg: tsg::Id) -> Result<[Number; 3]> {
    let [waits, holds, runs] = [far(tsg), at_once(tsg), far(tsg)];
    let begin = |number, begin: &Begin| slot(slots, number).begin(begin);
    let requests = [
        begin(0, &waits)?.number,
        begin(1, &holds)?.number,
        begin(2, &runs)?.number,
    ];
    slot(slots, 2).ready_call(requests[2])?;
    Ok(requests)
}

/// Three of one kind of end.
fn three(of: fn(&mut Ends) -> &mut u64) -> Ends {
    let mut ends = Ends::NONE;
    *of(&mut ends) = 3;
    ends
}

pub(super) fn cancel() -> Outcome {
    longest_lease()?;
    let lab = Lab::open()?;
    let client = Client::new(&lab)?;
    let since = Since::now(&lab.zernel)?;
    let requests = in_every_state(&client.slots, client.tsg)?;
    since.expect(three(|ends| &mut ends.in_flight))?;
    for (number, request) in (0..).zip(requests) {
        let slot = client.slot(number);
        let seq = match number {
            // One channel runs one stream after the other.
            0 => Some(client.submit(&slot, request, super::SHORTEST)?),
            _ => None,
        };
        slot.cancel(request)?;
        freed(&slot, request)?;
        if let Some(seq) = seq {
            client.wait(seq)?;
        }
    }
    since.expect(three(|ends| &mut ends.cancelled))
}

/// The next one says that the last is over: done if it was ready, by call or store, else cancelled.
pub(super) fn next_begin() -> Outcome {
    longest_lease()?;
    let lab = Lab::open()?;
    let client = Client::new(&lab)?;
    let (_other, other) = lab.compute()?;
    let since = Since::now(&lab.zernel)?;
    let (mut done, mut cancelled) = (0, 0);
    // For another TSG, or of another key, it is the same.
    for next in [far(client.tsg), far(client.tsg).key(1), far(other.id)] {
        let requests = in_every_state(&client.slots, client.tsg)?;
        let fourth = client.slot(3).begin(&far(client.tsg))?.number;
        client.slot(3).ready(fourth);
        let mut begun = Vec::new();
        for (number, request) in (0..).zip(requests.into_iter().chain([fourth])) {
            let slot = client.slot(number);
            let later = slot.begin(&next)?.number;
            check_eq!(later, request.next(), "the next number");
            freed(&slot, request)?;
            let (trigger, release) = words(&slot);
            let reached = later.is_reached_by(trigger) || later.is_reached_by(release);
            ensure!(!reached, "{later} was reached by {trigger} or {release}");
            begun.push((slot, later));
        }
        (done, cancelled) = (done + 2, cancelled + 2);
        since.expect(Ends {
            done,
            cancelled,
            in_flight: 4,
            ..Ends::NONE
        })?;
        for (slot, request) in begun {
            slot.done_call(request)?;
            done += 1;
        }
    }
    let of_other = lab.zernel.request_stats(Of::Tsg(other.id))?;
    check_eq!((of_other.begun, of_other.done), (4, 4), "the other TSG");
    Ok(())
}

/// Done says ready as well, by a call and by a store.
pub(super) fn done_without_ready() -> Outcome {
    longest_lease()?;
    let lab = Lab::open()?;
    let client = Client::new(&lab)?;
    let since = Since::now(&lab.zernel)?;
    for (number, begin) in (0..).zip([far(client.tsg), at_once(client.tsg)]) {
        let slot = client.slot(number);
        let request = slot.begin(&begin)?.number;
        let seq = client.submit(&slot, request, super::SHORTEST)?;
        slot.done_call(request)?;
        freed(&slot, request)?;
        client.wait(seq)?;

        let slot = client.slot(number + 2);
        let request = slot.begin(&begin)?.number;
        let seq = client.submit(&slot, request, super::SHORTEST)?;
        slot.done(request);
        let next = slot.begin(&far(client.tsg))?.number;
        freed(&slot, request)?;
        client.wait(seq)?;
        slot.cancel(next)?;
    }
    since.expect(Ends {
        done: 4,
        cancelled: 2,
        ..Ends::NONE
    })
}

/// Queues the streams of the requests of the first slots. They end when these are held no longer.
fn streams(client: &Client, requests: &[Number]) -> Result<u64> {
    let mut last = 0;
    for (number, &request) in (0..).zip(requests) {
        last = client.submit(&client.slot(number), request, super::SHORTEST)?;
    }
    Ok(last)
}

pub(super) fn close() -> Outcome {
    longest_lease()?;
    let lab = Lab::open()?;
    let client = Client::new(&lab)?;
    let since = Since::now(&lab.zernel)?;
    let requests = in_every_state(&client.slots, client.tsg)?;
    let last = streams(&client, &requests)?;
    // One that the program has stored as done is done.
    let stored = client.slot(3).begin(&far(client.tsg))?.number;
    client.slot(3).ready(stored);
    client.slot(3).done(stored);
    let kept = Slots::map(&lab.zernel, 0..64)?;
    let request = slot(&kept, 0).begin(&far(client.tsg))?.number;
    let Client { slots, context, .. } = client;
    drop(slots);
    since.wait(Ends {
        closed: 3,
        done: 1,
        in_flight: 1,
        ..Ends::NONE
    })?;
    context.wait(0, last, Timestamp::now() + SOON)?;
    slot(&kept, 0).cancel(request)?;
    Ok(())
}

/// Until it is killed.
fn sleep() -> Result<()> {
    loop {
        std::thread::sleep(Duration::from_secs(60));
    }
}

/// A process that is killed gives the GPU back, whatever it had.
pub(super) fn sigkill() -> Outcome {
    longest_lease()?;
    let lab = Lab::open()?;
    let (ours, theirs) = passing::pair()?;
    for begin in [far, at_once] {
        let (context, tsg) = lab.compute()?;
        let since = Since::now(&lab.zernel)?;
        let child = Child::spawn(|| {
            // Of a GPU that goes on without it.
            let slots = Slots::map(&Zernel::open()?, 0..64)?;
            context.add_memory(slots.memory())?;
            let slot = slot(&slots, 0);
            let request = slot.begin(&begin(tsg.id))?.number.get();
            let release = slot.word(Word::Release);
            let wait = Item::wait(release, Condition::AtLeast, request);
            passing::send_number(&theirs, context.submit(0, &[wait])?.last_seq)?;
            sleep()
        })?;
        let seq = passing::receive_number(&ours)?;
        since.expect(Ends {
            in_flight: 1,
            ..Ends::NONE
        })?;
        child.kill()?;
        check_eq!(child.end()?, End::Signal(9));
        since.wait(Ends {
            closed: 1,
            ..Ends::NONE
        })?;
        context.wait(0, seq, Timestamp::now() + SOON)?;
    }
    Ok(())
}

/// The file is closed when the last process has closed it.
pub(super) fn fork_shares_the_file() -> Outcome {
    longest_lease()?;
    let lab = Lab::open()?;
    let client = Client::new(&lab)?;
    let since = Since::now(&lab.zernel)?;
    let request = client.slot(0).begin(&far(client.tsg))?.number;
    let last = streams(&client, &[request])?;
    let first = Child::spawn(sleep)?;
    let second = Child::spawn(sleep)?;
    let Client { slots, context, .. } = client;
    drop(slots);
    let open = Ends {
        in_flight: 1,
        ..Ends::NONE
    };
    since.expect(open)?;
    first.kill()?;
    first.end()?;
    since.expect(open)?;
    let answer = errno(context.wait(0, last, Timestamp::now()));
    check_eq!(answer, Some(Errno::TIME), "given up too early");
    second.kill()?;
    second.end()?;
    since.wait(Ends {
        closed: 1,
        ..Ends::NONE
    })?;
    context.wait(0, last, Timestamp::now() + SOON)?;
    Ok(())
}

pub(super) fn tsg_gone() -> Outcome {
    longest_lease()?;
    let lab = Lab::open()?;
    let (context, tsg) = lab.compute()?;
    let (_other, other) = lab.compute()?;
    let slots = Slots::map(&lab.zernel, 0..64)?;
    let since = Since::now(&lab.zernel)?;
    let requests = in_every_state(&slots, tsg.id)?;
    let of_other = slot(&slots, 3).begin(&far(other.id))?.number;
    context.destroy()?;
    since.wait(Ends {
        gone: 3,
        in_flight: 1,
        ..Ends::NONE
    })?;
    for (number, request) in (0..).zip(requests) {
        let slot = slot(&slots, number);
        freed(&slot, request)?;
        let answer = errno(slot.cancel(request));
        check_eq!(answer, Some(Errno::STALE), "one that is over");
        let answer = errno(slot.begin(&far(tsg.id)));
        check_eq!(answer, Some(Errno::NOENT), "one more of the same TSG");
        // The slot is good for another one.
        let next = slot.begin(&far(other.id))?.number;
        check_eq!(next, request.next(), "the next number");
        slot.cancel(next)?;
    }
    let (trigger, _) = words(&slot(&slots, 3));
    ensure!(!of_other.is_reached_by(trigger), "the other TSG's");
    let answer = errno(lab.zernel.request_stats(Of::Tsg(tsg.id)));
    check_eq!(
        answer,
        Some(Errno::NOENT),
        "statistics of a TSG that is gone"
    );
    slot(&slots, 3).cancel(of_other)?;
    since.expect(Ends {
        gone: 3,
        cancelled: 4,
        ..Ends::NONE
    })
}

/// True if zernel knows that the GPU of a TSG is suspended.
fn is_suspended(lab: &Lab, gpu: libzernel::gpu::Id) -> Result<bool> {
    for known in lab.zernel.gpus() {
        let known = known?;
        if known.id == gpu {
            return Ok(known.suspended);
        }
    }
    anyhow::bail!("GPU {gpu} is not listed")
}

pub(super) fn suspend() -> Outcome {
    longest_lease()?;
    let lab = Lab::open()?;
    let (context, tsg) = lab.compute()?;
    let (_awake, awake) = lab.context(&ContextSpec {
        gpu: 1,
        ..ContextSpec::compute("awake")
    })?;
    let slots = Slots::map(&lab.zernel, 0..64)?;
    let since = Since::now(&lab.zernel)?;
    let requests = in_every_state(&slots, tsg.id)?;
    let other = slot(&slots, 3).begin(&far(awake.id))?.number;
    let asleep = Suspended::new(&lab.sim, 0)?;
    // zernel learns it from what the provider answers next.
    lab.zernel.set_class(&Target::Tsg(tsg.id), Level::BE)?;
    since.wait(Ends {
        suspended: 3,
        in_flight: 1,
        ..Ends::NONE
    })?;
    check_eq!(is_suspended(&lab, tsg.gpu)?, true, "the GPU is suspended");
    for (number, request) in (0..).zip(requests) {
        let slot = slot(&slots, number);
        freed(&slot, request)?;
        for begin in [far(tsg.id), at_once(tsg.id)] {
            let answer = errno(slot.begin(&begin));
            check_eq!(answer, Some(Errno::AGAIN), "one more");
        }
    }
    let (trigger, _) = words(&slot(&slots, 3));
    ensure!(!other.is_reached_by(trigger), "the other GPU's");
    slot(&slots, 3).done_call(other)?;
    drop(asleep);
    wait_awake(&lab, &context, tsg.gpu)?;
    let request = slot(&slots, 0).begin(&far(tsg.id))?.number;
    slot(&slots, 0).cancel(request)?;
    since.expect(Ends {
        suspended: 3,
        done: 1,
        cancelled: 1,
        ..Ends::NONE
    })
}

/// Waits until zernel knows that the GPU goes on.
fn wait_awake(lab: &Lab, context: &Context, gpu: libzernel::gpu::Id) -> Result<()> {
    lab.wait_slice(context, crate::common::slice_of(7))?;
    wait_until("the GPU goes on", || Ok(!is_suspended(lab, gpu)?))
}
