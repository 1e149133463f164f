// SPDX-License-Identifier: MIT OR Apache-2.0
//! Slots that change all the time, by calls of several threads and by stores: nothing is believed
//! that need not be.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use anyhow::{anyhow, bail, ensure, Context as _, Result};
use libzernel::request::{Begin, Number, Of, Slot, Word};
use libzernel::sys::memory::SharedMemory;
use libzernel::{tsg, Timestamp};
use rustix::io::Errno;
use testkit::random::Random;
use testkit::Repeat;

use super::{at_once, lab, slot, Since};
use crate::check_eq;
use crate::common::{errno, tune, wait_until};
use crate::harness::Outcome;

/// The number of steps of each thread that races.
const STEPS: u64 = 3_000;
/// Slots whose contents change, few enough that each is hit often.
const FEW: u64 = 4;

/// Runs `steps`, and `meanwhile` again and again until they are done.
fn race<T: Send>(
    steps: impl FnOnce() -> Result<T> + Send,
    mut meanwhile: impl FnMut() -> Outcome,
) -> Result<T> {
    std::thread::scope(|scope| {
        let steps = scope.spawn(steps);
        let mut result = Ok(());
        while !steps.is_finished() && result.is_ok() {
            result = meanwhile();
        }
        let done = steps.join().map_err(|_| anyhow!("a thread panicked"))?;
        result.and(done)
    })
}

/// Fails unless a call went well, or came too late. True if it went well.
fn in_time(answer: libzernel::Result<()>) -> Result<bool> {
    match errno(answer) {
        None => Ok(true),
        Some(Errno::STALE) => Ok(false),
        other => bail!("answered {other:?}"),
    }
}

/// The answers to threads.
#[derive(Default)]
struct Answers {
    begun: AtomicU64,
    cancelled: AtomicU64,
    done: AtomicU64,
    last: AtomicU32,
}

/// Does anything with the slot.
fn step(slot: &Slot<'_>, tsg: tsg::Id, answers: &Answers, random: &mut Random) -> Outcome {
    let last = Number::new(answers.last.load(Relaxed));
    let count = |counter: &AtomicU64, answer| -> Outcome {
        counter.fetch_add(in_time(answer)?.into(), Relaxed);
        Ok(())
    };
    match (random.below(9), last) {
        (0..=2, _) | (_, None) => {
            let mut begin = Begin::new(tsg)
                .key(1 + random.below(3))
                .expected(Duration::from_nanos(1 + random.below(500_000)))
                .slo(Duration::from_micros(random.below(2_000)));
            if random.one_in(2) {
                begin = begin.exact();
            }
            if random.one_in(3) {
                begin = begin.with_gate();
                // Others have pieces of theirs in it.
                slot.gate().store(1 + random.below(2));
            }
            let begun = match slot.begin(&begin) {
                // Somebody else has had it fail since.
                Err(error) if error.errno() == Some(Errno::CANCELED) => return Ok(()),
                begun => begun?,
            };
            answers.begun.fetch_add(1, Relaxed);
            answers.last.store(begun.number.get(), Relaxed);
        }
        (3, Some(last)) => {
            in_time(slot.ready_call(last))?;
        }
        (4, Some(last)) => count(&answers.done, slot.done_call(last))?,
        (5, Some(last)) => count(&answers.cancelled, slot.cancel(last))?,
        (6, Some(last)) => slot.ready(last),
        (7, Some(last)) => slot.done(last),
        _ => std::thread::sleep(Duration::from_micros(random.below(2_000))),
    }
    Ok(())
}

/// Threads that use one slot at the same time.
pub(super) fn racing_calls() -> Outcome {
    let (lab, client) = lab()?;
    tune("lease_us", 200)?;
    let (slot, tsg) = (client.slot(11), client.tsg);
    let since = Since::now(&lab.zernel)?;
    let answers = Answers::default();
    let thread = &|seed| {
        let mut random = Random::new(seed);
        Repeat::new(STEPS, "steps").try_for_each(|_| step(&slot, tsg, &answers, &mut random))
    };
    let steps = || {
        std::thread::scope(|scope| {
            let threads = [1, 2, 3, 4].map(|seed| scope.spawn(move || thread(seed)));
            let mut results = threads.into_iter().map(|thread| thread.join());
            results.try_for_each(|result| result.map_err(|_| anyhow!("a thread panicked"))?)
        })
    };
    // All the time the sum is right.
    race(steps, || since.ends().map(drop))?;
    let begun = answers.begun.load(Relaxed);
    ensure!(begun > 0, "nothing was begun");
    drop(client);
    let (ends, stats) = (since.ends()?, since.stats()?);
    check_eq!((stats.begun, ends.in_flight), (begun, 0), "{stats:?}");
    let over = ends.done + ends.cancelled + ends.expired + ends.closed;
    check_eq!(over, begun, "{ends:?}");
    // A request that somebody was told is done is done, unless it was cancelled as it was stored as
    // done.
    let done = answers.done.load(Relaxed);
    let told = done + answers.cancelled.load(Relaxed);
    ensure!(told <= ends.done + ends.cancelled, "{told} of {ends:?}");
    ensure!(ends.done >= done, "{ends:?}");
    ensure!(stats.triggers <= begun, "{} triggers", stats.triggers);
    Ok(())
}

/// Stores anything anywhere, and often what almost makes sense.
fn vandalize(view: &SharedMemory, random: &mut Random) {
    let slot = &view.slots()[random.below(FEW) as usize];
    let trigger = slot.trigger.load(Relaxed);
    let value = match random.below(4) {
        0 => random.draw() as u32,
        1 => random.edge() as u32,
        _ => trigger.wrapping_add(random.below(3) as u32).wrapping_sub(1),
    };
    let time = match random.below(3) {
        0 => random.edge(),
        1 => random.draw(),
        _ => Timestamp::now().as_ns(),
    };
    match random.below(10) {
        8 => slot.gate.store(0, Relaxed),
        9 => slot.gate.store(random.edge(), Relaxed),
        0 | 1 => slot.trigger.store(value, Relaxed),
        2 | 3 => slot.release.store(value, Relaxed),
        4 => slot.done.store(value, Relaxed),
        5 => slot.held.store(value, Relaxed),
        6 => slot.ready_at.store(time, Relaxed),
        _ => slot.done_at.store(time, Relaxed),
    }
}

/// Slots whose contents change all the time.
pub(super) fn hostile_contents() -> Outcome {
    let (lab, client) = lab()?;
    tune("lease_us", 1_000)?;
    let slots = &client.slots;
    let (since, began) = (Since::now(&lab.zernel)?, Timestamp::now());
    let answers = [(); FEW as usize].map(|()| Answers::default());
    let (mut random, mut vandal) = (Random::new(0x7e57), Random::new(0x7e58));
    let steps = || {
        Repeat::new(4 * STEPS, "steps").try_for_each(|_| {
            let number = random.below(FEW) as u32;
            let answers = &answers[number as usize];
            step(&slot(slots, number), client.tsg, answers, &mut random)
        })
    };
    race(steps, || {
        vandalize(slots.memory(), &mut vandal);
        Ok(())
    })?;
    let begun: u64 = answers.iter().map(|slot| slot.begun.load(Relaxed)).sum();

    // Times lie within the time that has passed; those of the slots overlap.
    let passed = Timestamp::now().since(began).as_nanos();
    let stats = lab.zernel.request_stats(Of::Tsg(client.tsg))?;
    check_eq!(stats.begun, begun, "requests");
    for (what, ns, times) in [
        ("longest", stats.latency_max_ns, 1),
        ("mean", stats.mean_ns().unwrap_or(0), 1),
        ("sum", stats.latency_ns, FEW),
        ("early", stats.early_ns, FEW),
    ] {
        let most = passed * u128::from(times);
        ensure!(u128::from(ns) <= most, "{what}: {ns} of {most} ns");
    }

    // The slots are good again, and so are their leases.
    for slot in slots.slots() {
        for word in [Word::Trigger, Word::Release, Word::Done, Word::Held] {
            slot.store(word, 0);
        }
    }
    let before = since.ends()?;
    for slot in slots.slots().take(FEW as usize) {
        slot.begin(&at_once(client.tsg))?;
    }
    wait_until("leases end", || Ok(since.ends()?.in_flight == 0))
        .context("after it was left alone")?;
    let ends = since.ends()?;
    ensure!(ends.expired >= before.expired + FEW, "{ends:?}");
    check_eq!(since.stats()?.begun, begun + FEW, "requests");
    for slot in slots.slots().take(FEW as usize) {
        let (trigger, release) = super::words(&slot);
        check_eq!(trigger, release, "words of slot {}", slot.number());
    }
    drop(client);
    since.expect(ends)
}
