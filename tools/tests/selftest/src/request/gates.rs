// SPDX-License-Identifier: MIT OR Apache-2.0
//! Gates of requests: pieces of work that count a word down, and what any other word comes to.

use std::os::fd::AsFd;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{ensure, Context as _, Result};
use libzernel::request::{Begin, Gate, Number, Of, Request, Slot, Slots, Word};
use libzernel::sim::Status;
use libzernel::sys::memory::SharedMemory;
use libzernel::{tsg, Error, Level, Target, Timestamp, Zernel};
use rustix::io::Errno;
use testkit::passing;
use testkit::random::Random;
use testkit::Repeat;

use super::{at_once, far, in_so_long, is_free, lab, slot, words, Client, Since};
use crate::abi::filter;
use crate::check_eq;
use crate::child::{Child, End};
use crate::common::{errno, slice_of, tune, wait_until, SOON};
use crate::harness::Outcome;

/// Requests that are triggered at once, and those that are never triggered by themselves.
const KINDS: [fn(tsg::Id) -> Begin; 2] = [at_once, far];

/// Begins a request whose gate waits for so many pieces.
fn begin(slot: &Slot<'_>, begin: &Begin, pieces: u64) -> Result<Number> {
    slot.gate().arm(pieces)?;
    Ok(slot.begin(&begin.with_gate())?.number)
}

/// Words of a gate that has failed.
const FAILED: [u64; 4] = [Gate::ERROR, Gate::ERROR | 3, u64::MAX - 1, u64::MAX];
/// Words of one that is pending.
const PENDING: [u64; 4] = [1, 2, 1 << 32, Gate::ERROR - 1];

/// Pieces of several threads count a gate down. The last one stores ready, and the GPU goes on, for a
/// request that was triggered as for one that was not.
pub(super) fn opens() -> Outcome {
    const PIECES: u64 = 4;
    let (lab, client) = lab()?;
    ensure!(lab.zernel.info()?.can.gate, "no gates");
    let slot = client.slot(3);
    let since = Since::now(&lab.zernel)?;
    let mut repeat = Repeat::new(100, "requests");
    for (kind, _) in KINDS.into_iter().cycle().zip(&mut repeat) {
        let request = begin(&slot, &kind(client.tsg), PIECES)?;
        let seq = client.submit(&slot, request, Duration::from_micros(20))?;
        for _ in 0..PIECES - 2 {
            ensure!(!slot.leave(request), "it is not the last");
        }
        // zernel looks, and sees that there are more.
        since.stats()?;
        check_eq!(
            slot.load(Word::Release),
            request.get() - 1,
            "released too early"
        );
        let last = std::thread::scope(|scope| {
            let leave = || slot.leave(request);
            let threads = [scope.spawn(leave), scope.spawn(leave)];
            threads.map(|thread| thread.join().unwrap_or(false))
        });
        check_eq!(last.iter().filter(|last| **last).count(), 1, "last ones");
        client.wait(seq)?;
        check_eq!(words(&slot), (request.get(), request.get()), "words");
        slot.done(request);
    }
    slot.cancel(slot.begin(&far(client.tsg))?.number)?;
    since.expect(ends!(done: repeat.done(), cancelled: 1))?;
    let (completions, _) = lab.sim.completions(512)?;
    let all_done = completions.iter().all(|c| c.status == Status::Done);
    ensure!(all_done, "holders gave up");
    Ok(())
}

/// A gate that opens is ready without any other store, where zernel looks: at a call, and when a timer
/// fires. The time of an earlier request is not that of this one.
pub(super) fn opens_alone() -> Outcome {
    let (lab, client) = lab()?;
    let slot = client.slot(1);
    let since = Since::now(&lab.zernel)?;
    slot.ready_at(Number::new(1).context("a number")?, Timestamp::from_ns(1));
    let mut done = 0;
    for kind in KINDS {
        let request = begin(&slot, &kind(client.tsg), 1)?;
        let seq = client.submit(&slot, request, super::SHORTEST)?;
        ensure!(slot.gate().leave(), "the last piece");
        // Statistics look at each slot.
        since.stats()?;
        check_eq!(words(&slot), (request.get(), request.get()), "a look");
        client.wait(seq)?;
        // No word takes that back.
        for word in FAILED.into_iter().chain(PENDING) {
            slot.gate().store(word);
            since.expect(ends!(done: done, in_flight: 1))?;
        }
        slot.done_call(request)?;
        slot.gate().store(0);
        done += 1;
    }
    // The timer of the trigger finds it.
    let soon = in_so_long(client.tsg, Duration::from_millis(300));
    let request = begin(&slot, &soon, 1)?;
    slot.gate().leave();
    wait_until("the trigger finds the gate open", || {
        Ok(is_free(words(&slot), request))
    })?;
    slot.done_call(request)?;
    // It was open when it began: nothing has to be waited for, and nobody is told of a later time.
    slot.gate().arm(0)?;
    let begun = slot.begin(&far(client.tsg).with_gate())?;
    let (request, now) = (begun.number, Timestamp::now());
    check_eq!(words(&slot), (request.get(), request.get()), "at begin");
    ensure!(begun.trigger_at <= now, "{:?} is in the future", begun);
    slot.done_call(request)?;
    since.expect(ends!(done: done + 2))
}

/// A gate that fails ends its request, at a look or by the timer: the GPU goes on, and it was never
/// ready.
pub(super) fn fails() -> Outcome {
    let (lab, client) = lab()?;
    let since = Since::now(&lab.zernel)?;
    let slot = client.slot(5);
    let mut cancelled = 0;
    for word in FAILED {
        for kind in KINDS {
            let request = begin(&slot, &kind(client.tsg), 2)?;
            let seq = client.submit(&slot, request, super::SHORTEST)?;
            slot.gate().store(word);
            cancelled += 1;
            since.expect(ends!(cancelled: cancelled))?;
            ensure!(is_free(words(&slot), request), "{word:#x}: it is held");
            client.wait(seq)?;
            let late = errno(slot.ready_call(request));
            check_eq!(late, Some(Errno::STALE), "{word:#x}");
            slot.gate().store(0);
            since.expect(ends!(cancelled: cancelled))?;
        }
        // By its trigger, of which nobody is told.
        let soon = in_so_long(client.tsg, Duration::from_millis(100));
        let request = begin(&slot, &soon, 1)?;
        slot.gate().fail();
        wait_until("the trigger finds the gate failed", || {
            Ok(is_free(words(&slot), request))
        })?;
        cancelled += 1;
        since.expect(ends!(cancelled: cancelled))?;
    }
    let stats = since.stats()?;
    check_eq!(stats.done, 0, "{stats:?}");
    Ok(())
}

/// The word belongs to a request until its last piece has left: pieces that end behind a failure are
/// taken off no later one.
pub(super) fn has_stragglers() -> Outcome {
    let (lab, client) = lab()?;
    let since = Since::now(&lab.zernel)?;
    let slot = client.slot(6);
    // No timer looks at it before the call.
    let failed = begin(&slot, &far(client.tsg), 3)?;
    ensure!(slot.gate().fail(), "the first that fails");
    slot.cancel(failed)?;
    for pieces in [2, 1] {
        let refused = slot.gate().arm(2);
        check_eq!(refused, Err(Error::GateInUse { pieces }), "too early");
        ensure!(!slot.leave(failed), "a straggler");
    }
    since.expect(ends!(cancelled: 1))?;
    let request = begin(&slot, &far(client.tsg), 2)?;
    since.expect(ends!(cancelled: 1, in_flight: 1))?;
    check_eq!(
        slot.load(Word::Release),
        failed.get(),
        "data that is missing"
    );
    ensure!(
        !slot.leave(request) && slot.leave(request),
        "its own pieces"
    );
    slot.done_call(request)?;
    since.expect(ends!(cancelled: 1, done: 1))
}

/// Those who name the request know better than its gate.
pub(super) fn is_overruled() -> Outcome {
    let (lab, client) = lab()?;
    let since = Since::now(&lab.zernel)?;
    let slot = client.slot(0);
    let mut done = 0;
    for word in FAILED.into_iter().chain(PENDING) {
        for by_store in [true, false] {
            let request = begin(&slot, &at_once(client.tsg), 1)?;
            match by_store {
                true => slot.ready(request),
                false => slot.ready_call(request)?,
            }
            slot.gate().store(word);
            since.expect(ends!(done: done, in_flight: 1))?;
            slot.done_call(request)?;
            slot.gate().store(0);
            done += 1;
        }
        // No timer looks before the call.
        let request = begin(&slot, &far(client.tsg), 1)?;
        slot.gate().store(word);
        slot.done_call(request)?;
        slot.gate().store(0);
        done += 1;
    }
    since.expect(ends!(done: done))
}

/// A gate that has failed begins no request, nor does one without a holder, and the one before goes on. A
/// wish for a gate is refused where any other begin is; without the wish any word is as good as another.
pub(super) fn is_refused() -> Outcome {
    let (lab, client) = lab()?;
    let since = Since::now(&lab.zernel)?;
    let gated = far(client.tsg).with_gate();
    for (number, word) in (0..).zip(FAILED) {
        let slot = client.slot(number);
        // Of a slot that was never used, of one that is bound, and of one that is bound otherwise.
        slot.gate().store(word);
        let refused = |begin: &Begin| errno(slot.begin(begin));
        check_eq!(refused(&gated), Some(Errno::CANCELED), "{word:#x}");
        let before = slot.begin(&far(client.tsg))?.number;
        check_eq!(refused(&gated), Some(Errno::CANCELED), "{word:#x}");
        check_eq!(refused(&gated.key(77)), Some(Errno::CANCELED), "{word:#x}");
        check_eq!(refused(&gated.without_holder()), Some(Errno::INVAL));
        since.expect(ends!(in_flight: 1, cancelled: number.into()))?;
        slot.cancel(before)?;
    }
    // Whatever is seen of the word meanwhile: after an error the request before goes on.
    let (slot, ends) = (client.slot(59), AtomicBool::new(false));
    std::thread::scope(|scope| -> Outcome {
        scope.spawn(|| {
            while !ends.load(Relaxed) {
                slot.gate().store(Gate::ERROR);
                slot.gate().store(1);
            }
        });
        let outcome = Repeat::new(500, "races").try_for_each(|round| {
            let before = slot.begin(&far(client.tsg).key(1))?.number;
            match slot.begin(&gated.key(2 + round % 2)) {
                Ok(request) => drop(slot.cancel(request.number)),
                Err(error) => {
                    check_eq!(error.errno(), Some(Errno::CANCELED), "{error}");
                    slot.cancel(before).context("the request before is over")?;
                }
            }
            Ok(())
        });
        ends.store(true, Relaxed);
        outcome
    })?;
    check_eq!(since.ends()?.in_flight, 0, "none goes on");
    let slot = client.slot(60);
    for word in FAILED.into_iter().chain(PENDING).chain([0]) {
        slot.gate().store(word);
        let request = slot.begin(&at_once(client.tsg))?.number;
        since.stats()?;
        check_eq!(
            words(&slot),
            (request.get(), request.get() - 1),
            "{word:#x}"
        );
        slot.cancel(request)?;
    }
    let (none, reader) = (
        Slots::map(&Zernel::open()?, 0..64)?,
        Zernel::open_to_read(Zernel::PATH)?,
    );
    slot.gate().store(1);
    let nobody = super::slot(&none, 1).begin(&far(tsg::Id::new(1)).with_gate());
    check_eq!(errno(nobody), Some(Errno::NOENT), "no such TSG");
    check_eq!(errno(Slots::map(&reader, 0..64)), Some(Errno::ACCESS));
    Ok(())
}

/// Without a system call: the thread that stores ready is killed if it makes one, but to read a clock.
pub(super) fn takes_no_call() -> Outcome {
    for by_gate in [true, false] {
        let child = Child::spawn(|| {
            let (_lab, client) = lab()?;
            let slots = Arc::new(client.slots);
            let ask = far(client.tsg);
            let request = Request::begin(&slots, 0, &ask)?;
            let other = slot(&slots, 1);
            let number = begin(&other, &ask, 2)?;
            filter::only(&[libc::SYS_clock_gettime])?;
            let is_stored = if by_gate {
                let last = [other.leave(number), other.leave(number)];
                last == [false, true] && is_free(words(&other), number)
            } else {
                request.ready();
                is_free(words(&slot(&slots, 0)), request.number())
            };
            filter::exit(if is_stored { 0 } else { 7 })
        })?;
        check_eq!(child.end()?, End::Exit(0), "by a gate: {by_gate}");
    }
    Ok(())
}

/// A request that is told elsewhere that its data is ready: so it is, or it is given up.
pub(super) fn owned() -> Outcome {
    let (lab, client) = lab()?;
    let since = Since::now(&lab.zernel)?;
    let slots = Arc::new(client.slots);
    let view = slot(&slots, 9);
    let ask = at_once(client.tsg).with_gate();
    let request = Request::begin(&slots, 9, &ask)?;
    // Its own gate is elsewhere.
    since.expect(ends!(in_flight: 1))?;
    let number = request.number();
    check_eq!(view.load(Word::Release), number.get() - 1, "too early");
    std::thread::scope(|scope| scope.spawn(|| request.ready()).join()).unwrap_or(());
    check_eq!(words(&view), (number.get(), number.get()), "words");
    drop(request);
    view.done(number);
    let request = Request::begin(&slots, 9, &ask)?;
    let number = request.number();
    drop(request);
    ensure!(is_free(words(&view), number), "it is held");
    // One whose lease is over, and one whose slot has a later one.
    let old = Request::begin(&slots, 9, &ask)?;
    let new = Request::begin(&slots, 9, &ask)?;
    old.ready();
    drop(old);
    check_eq!(
        view.load(Word::Release),
        new.number().get() - 1,
        "the later one"
    );
    drop(new);
    since.expect(ends!(done: 1, cancelled: 3))?;
    let none = Request::begin(&slots, 64, &ask);
    check_eq!(errno(none), Some(Errno::NXIO), "no such slot");
    Ok(())
}

/// Another process that has the page stores anything to the gates, all the time, and is killed. Each
/// request has one outcome, the leases end those that stay pending, and the requests of another file
/// are served beside them.
pub(super) fn hostile() -> Outcome {
    const FEW: u32 = 4;
    let (lab, client) = lab()?;
    tune("lease_us", 2_000)?;
    let zernel = Zernel::open()?;
    let slots = Slots::map(&zernel, 0..FEW)?;
    let victim = Client::new(&lab)?;
    lab.zernel.set_class(&Target::Tsg(victim.tsg), Level::LC)?;
    lab.wait_slice(&victim.context, slice_of(0))?;
    let (ours, theirs) = passing::pair()?;
    passing::send(&ours, zernel.as_fd())?;
    let vandal = Child::spawn(|| {
        let file = passing::receive(&theirs)?;
        let view = SharedMemory::of_file(file.as_fd(), 0, 1)?;
        passing::send_number(&theirs, 0)?;
        let mut random = Random::new(0x9a7e);
        loop {
            let slot = &view.slots()[random.below(FEW.into()) as usize];
            let word = match random.below(6) {
                0 => 0,
                1 => u64::MAX,
                2 => random.draw(),
                3 => random.edge(),
                4 => Gate::ERROR | random.below(3),
                _ => slot.gate.load(Relaxed).wrapping_sub(1),
            };
            slot.gate.store(word, Relaxed);
        }
    })?;
    passing::receive_number(&ours)?;
    let since = Since::of(&lab.zernel, Of::Tsg(client.tsg))?;
    let (mut begun, mut refused) = (0, 0);
    let mut random = Random::new(0x9a7f);
    for round in Repeat::new(2_000, "requests") {
        let slot = slot(&slots, random.below(FEW.into()) as u32);
        let begin = match random.one_in(2) {
            true => at_once(client.tsg),
            false => in_so_long(client.tsg, Duration::from_micros(random.below(500))),
        };
        slot.gate().store(random.below(3));
        match slot.begin(&begin.with_gate()) {
            Ok(request) => {
                begun += 1;
                if random.one_in(3) {
                    slot.leave(request.number);
                }
            }
            Err(error) if error.errno() == Some(Errno::CANCELED) => refused += 1,
            Err(error) => return Err(error.into()),
        }
        if round % 50 == 0 {
            // The sum is checked, and others are served.
            since.stats()?;
            let slot = victim.slot(0);
            let request = slot.begin(&at_once(victim.tsg))?.number;
            let seq = victim.submit(&slot, request, Duration::from_micros(20))?;
            slot.ready(request);
            victim.wait(seq)?;
            // On a slow machine its lease is over by now.
            slot.done(request);
        }
    }
    vandal.kill()?;
    vandal.end()?;
    println!("    # {begun} begun, {refused} refused");
    ensure!(begun > 0, "nothing was begun");
    wait_until("leases end", || {
        // A ready request stays until it is done.
        for slot in slots.slots() {
            let last = Number::new(slot.load(Word::Release));
            if let Some(last) = last {
                slot.done(last);
            }
        }
        Ok(since.ends()?.in_flight == 0)
    })?;
    let stats = since.stats()?;
    check_eq!(stats.begun, begun, "requests");
    // The slots are good again.
    let slot = slot(&slots, 0);
    slot.gate().store(0);
    let request = begin(&slot, &far(client.tsg), 1)?;
    ensure!(slot.leave(request), "the last");
    slot.done_call(request)?;
    check_eq!(since.stats()?.done, stats.done + 1, "done");
    Ok(())
}

/// A process is killed between the pieces of its gates: its requests end, and the GPU goes on.
pub(super) fn killed() -> Outcome {
    let (lab, client) = lab()?;
    let since = Since::now(&lab.zernel)?;
    let (ours, theirs) = passing::pair()?;
    let child = Child::spawn(|| {
        let (_lab, client) = super::lab()?;
        for (number, kind) in (0..).zip(KINDS) {
            let slot = client.slot(number);
            let request = begin(&slot, &kind(client.tsg), 2)?;
            slot.leave(request);
        }
        passing::send_number(&theirs, 0)?;
        std::thread::sleep(super::FAR);
        Ok(())
    })?;
    passing::receive_number(&ours)?;
    since.expect(ends!(in_flight: 2))?;
    child.kill()?;
    child.end()?;
    wait_until("its requests are over", || Ok(since.ends()?.in_flight == 0))?;
    let ends = since.ends()?;
    check_eq!(ends.closed + ends.gone, 2, "{ends:?}");
    let slot = client.slot(0);
    let request = slot.begin(&far(client.tsg))?.number;
    let seq = client.submit(&slot, request, super::SHORTEST)?;
    slot.ready(request);
    client.wait(seq)?;
    Ok(slot.done_call(request)?)
}

/// From the store of the last piece until the holder has ended: as long by a gate as by ready. Under
/// icount.
pub fn takes_as_long_as_ready() -> Outcome {
    const REQUESTS: u32 = 64;
    let (lab, client) = lab()?;
    let slot = client.slot(0);
    let mut sums = [Duration::ZERO; 2];
    for _ in 0..REQUESTS {
        for (by_gate, sum) in [false, true].into_iter().zip(&mut sums) {
            let request = begin(&slot, &at_once(client.tsg), 1)?;
            let seq = client.submit(&slot, request, super::SHORTEST)?;
            let end = Timestamp::now() + SOON;
            while slot.load(Word::Held) != request.get() {
                ensure!(Timestamp::now() < end, "no holder");
            }
            let stored = Timestamp::now();
            match by_gate {
                true => ensure!(slot.leave(request), "the last piece"),
                false => slot.ready(request),
            }
            client.wait(seq)?;
            let (completions, _) = lab.sim.completions(4)?;
            let holder = completions.first().context("the holder")?;
            *sum += holder.end.since(stored);
            slot.done_call(request)?;
            if !by_gate {
                slot.gate().leave();
            }
        }
    }
    let [ready, gate] = sums.map(|sum| sum / REQUESTS);
    println!(
        "    # ready: {} ns, gate: {} ns",
        ready.as_nanos(),
        gate.as_nanos()
    );
    let most = ready + ready / 20 + Duration::from_nanos(500);
    ensure!(gate <= most, "{gate:?} instead of {ready:?}");
    Ok(())
}
