// SPDX-License-Identifier: GPL-2.0
//! Threads that use one slot at the same time.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use anyhow::{anyhow, ensure, Result};
use libzernel::request::{Number, Slot};
use libzernel::tsg;
use rustix::io::Errno;
use testkit::random::Random;
use testkit::Repeat;

use super::{in_so_long, Client, Since};
use crate::check_eq;
use crate::common::{errno, tune, Lab};
use crate::harness::Outcome;

/// Threads.
const THREADS: u64 = 4;
/// The number of steps of each of them.
const STEPS: u64 = 3_000;

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
    let count = |counter: &AtomicU64, answer: libzernel::Result<()>| -> Outcome {
        match errno(answer) {
            None => counter.fetch_add(1, Relaxed),
            Some(Errno::STALE) => 0,
            other => return Err(anyhow!("answered {other:?}")),
        };
        Ok(())
    };
    let last = Number::new(answers.last.load(Relaxed));
    let unused = AtomicU64::new(0);
    match (random.below(8), last) {
        (0..=2, _) | (_, None) => {
            let expected = Duration::from_nanos(1 + random.below(500_000));
            let begun = slot.begin(&in_so_long(tsg, expected).key(random.below(3)))?;
            answers.begun.fetch_add(1, Relaxed);
            answers.last.store(begun.number.get(), Relaxed);
        }
        (3, Some(last)) => count(&unused, slot.ready_call(last))?,
        (4, Some(last)) => count(&answers.done, slot.done_call(last))?,
        (5, Some(last)) => count(&answers.cancelled, slot.cancel(last))?,
        (6, Some(last)) => slot.ready(last),
        (_, Some(last)) => slot.done(last),
    }
    Ok(())
}

/// Runs something in several threads, and something else until they are done.
fn race<T>(
    each: impl Fn(&mut Random) -> Outcome + Sync,
    meanwhile: impl FnOnce(&AtomicBool) -> Result<T>,
) -> Result<T> {
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let threads: Vec<_> = (1..=THREADS)
            .map(|seed| {
                let each = &each;
                scope.spawn(move || {
                    let mut random = Random::new(seed);
                    Repeat::new(STEPS, "steps").try_for_each(|_| each(&mut random))
                })
            })
            .collect();
        let over_ref = &over;
        let waiter = scope.spawn(move || -> Outcome {
            let results: Vec<_> = threads.into_iter().map(|thread| thread.join()).collect();
            over_ref.store(true, Relaxed);
            for result in results {
                result.map_err(|_| anyhow!("a thread panicked"))??;
            }
            Ok(())
        });
        let value = meanwhile(&over);
        waiter
            .join()
            .map_err(|_| anyhow!("the waiter panicked"))??;
        value
    })
}

pub(super) fn calls() -> Outcome {
    tune("lease_us", 200)?;
    let lab = Lab::open()?;
    let client = Client::new(&lab)?;
    let (slot, tsg) = (client.slot(11), client.tsg);
    let since = Since::now(&lab.zernel)?;
    let answers = Answers::default();
    race(
        |random| step(&slot, tsg, &answers, random),
        |over| {
            // All the time the sum is right.
            while !over.load(Relaxed) {
                since.ends()?;
            }
            Ok(())
        },
    )?;
    let begun = answers.begun.load(Relaxed);
    ensure!(begun > 0, "nothing was begun");
    drop(client);
    let (ends, stats) = (since.ends()?, since.stats()?);
    check_eq!((stats.begun, ends.in_flight), (begun, 0), "{stats:?}");
    let over = ends.done + ends.cancelled + ends.expired + ends.closed;
    check_eq!(over, begun, "{ends:?}");
    // A request that somebody was told is done is done, unless it was cancelled as it was stored as
    // done.
    let told = answers.done.load(Relaxed) + answers.cancelled.load(Relaxed);
    ensure!(told <= ends.done + ends.cancelled, "{told} of {ends:?}");
    ensure!(ends.done >= answers.done.load(Relaxed), "{ends:?}");
    ensure!(stats.triggers <= begun, "{} triggers", stats.triggers);
    Ok(())
}
