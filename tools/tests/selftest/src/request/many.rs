// SPDX-License-Identifier: MIT OR Apache-2.0
//! Ten thousand requests at a time.

use std::time::Duration;

use anyhow::{bail, ensure, Context as _, Result};
use libzernel::request::{Begin, Of, Slot, Slots, Word};
use libzernel::{tsg, Timestamp, Zernel};

use super::{far, in_so_long, longest_lease, Since};
use crate::check_eq;
use crate::common::{tune, wait_until, Lab, SOON};
use crate::harness::Outcome;
use crate::sys;

/// Requests at a time.
const MANY: u64 = 10_000;

pub(super) fn ten_thousand_leases() -> Outcome {
    longest_lease()?;
    let patience = 10 * SOON;
    let lab = Lab::open()?;
    let mut contexts = (0..8).map(|_| lab.compute()).collect::<Result<Vec<_>>>()?;
    let tsgs: Vec<_> = contexts.iter().map(|(_, tsg)| tsg.id).collect();
    let slots = Slots::map(&Zernel::open()?, 0..MANY as u32)?;
    let since = Since::now(&lab.zernel)?;
    let begin_all = |begin: &dyn Fn(tsg::Id) -> Begin| -> Outcome {
        for (slot, &tsg) in slots.slots().zip(tsgs.iter().cycle()) {
            slot.begin(&begin(tsg).key(1))?;
        }
        Ok(())
    };
    // The number of slots with the word of their request stored.
    let stored = |word, number| {
        let words = slots.slots().map(|slot| slot.load(word));
        words.filter(|&word| word == number).count() as u64
    };

    let began = Timestamp::now();
    begin_all(&far)?;
    let took = Timestamp::now().since(began);
    since.expect(ends!(in_flight: MANY))?;
    check_eq!(since.stats()?.triggers, 0, "triggers");
    check_eq!(stored(Word::Trigger, 0), MANY, "words");

    // The next ones end those, and are all triggered and over at the same time.
    tune("lease_us", 50_000)?;
    let at = Timestamp::now() + 2 * took + Duration::from_secs(1);
    begin_all(&|tsg| {
        // No prediction would mean at once.
        let left = at.since(Timestamp::now()).max(Duration::from_nanos(1));
        in_so_long(tsg, left)
    })?;
    since.wait_for(patience, ends!(cancelled: MANY, expired: MANY))?;
    // Those whose time came, and those that were cancelled, unless one store did for both.
    let triggers = since.stats()?.triggers;
    ensure!((MANY..=2 * MANY).contains(&triggers), "{triggers} triggers");
    for word in [Word::Trigger, Word::Release] {
        check_eq!(stored(word, 2), MANY, "{word:?} words");
    }

    // A third time: the end of their TSG ends an eighth of them, the end of the file the rest.
    longest_lease()?;
    begin_all(&far)?;
    let (context, _) = contexts.swap_remove(0);
    context.destroy()?;
    let gone = MANY / 8;
    let rest = MANY - gone;
    since.wait_for(
        patience,
        ends!(cancelled: MANY, expired: MANY, gone: gone, in_flight: rest),
    )?;
    check_eq!(stored(Word::Release, 3), gone, "freed");
    drop(slots);
    since.wait_for(
        patience,
        ends!(cancelled: MANY, expired: MANY, gone: gone, closed: rest),
    )
}

/// All slots of a file.
const ALL: u32 = 16_384;

/// Longest that timers keep a program from running at a time: those of all slots at once would take
/// more than ten milliseconds.
const LONGEST: Duration = Duration::from_micros(250);

/// The longest time for which this thread does not run until then.
fn longest_interruption(until: Timestamp) -> Duration {
    let (mut longest, mut before) = (Duration::ZERO, Timestamp::now());
    while before < until {
        let now = Timestamp::now();
        longest = longest.max(now.since(before));
        before = now;
    }
    longest
}

/// Time in which the timers of all slots expire that are set to one instant.
const SPREAD: Duration = Duration::from_millis(750);

/// All slots of a user are triggered at one instant, and other programs still run: in some try, as
/// works of other cases may come in between. Under icount.
pub(super) fn at_one_instant() -> Outcome {
    longest_lease()?;
    let lab = Lab::open()?;
    let (_context, tsg) = lab.compute()?;
    let slots = Slots::map(&Zernel::open()?, 0..ALL)?;
    let begin = Begin::new(tsg.id).key(1).exact();
    for slot in slots.slots() {
        slot.begin(&begin.expected(super::FAR))?;
    }
    let mut longest = Duration::MAX;
    for number in 2..5 {
        wait_until("nothing else runs", || {
            let until = Timestamp::now() + Duration::from_millis(100);
            Ok(longest_interruption(until) <= LONGEST)
        })?;
        let at = Timestamp::now() + Duration::from_millis(500);
        let mut triggers = Vec::new();
        for slot in slots.slots() {
            // Where an interrupt comes in between, it is that much later than `at`.
            let left = at.since(Timestamp::now());
            triggers.push(slot.begin(&begin.expected(left))?.trigger_at);
        }
        let first = triggers.iter().min().context("no slots")?;
        let last = *triggers.iter().max().context("no slots")?;
        ensure!(Timestamp::now() < *first, "it took too long");
        // No thread takes the CPU meanwhile: a trigger that comes from one is missing below.
        sys::set_policy(0, libc::SCHED_FIFO)?;
        let found = longest_interruption(last + SPREAD);
        sys::set_policy(0, libc::SCHED_OTHER)?;
        println!("    # longest interruption: {} ns", found.as_nanos());
        let stored = |slot: &Slot<'_>| slot.load(Word::Trigger) == number;
        check_eq!(slots.slots().filter(stored).count() as u32, ALL, "triggers");
        longest = longest.min(found);
        if longest <= LONGEST {
            return Ok(());
        }
    }
    bail!("kept off for {longest:?}");
}

/// Readers of the counters of a request do not delay its trigger. Under icount.
pub(super) fn readers_do_not_delay() -> Outcome {
    longest_lease()?;
    let lab = Lab::open()?;
    let (_context, tsg) = lab.compute()?;
    let slots = Slots::map(&Zernel::open()?, 0..64)?;
    let slot = super::slot(&slots, 0);
    let begin = Begin::new(tsg.id).key(1).exact();
    let begun = slot.begin(&begin.expected(Duration::from_millis(100)))?;
    for _ in 0..500 {
        lab.zernel.request_stats(Of::Tsg(tsg.id))?;
    }
    let due = begun.trigger_at;
    ensure!(Timestamp::now() < due, "it took too long");
    while Timestamp::now() < due + LONGEST {}
    check_eq!(slot.load(Word::Trigger), begun.number.get(), "trigger");
    Ok(())
}
