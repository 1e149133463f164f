// SPDX-License-Identifier: GPL-2.0
//! Ten thousand requests at a time.

use std::time::Duration;

use anyhow::{ensure, Result};
use libzernel::request::{Begin, Slots, Word};
use libzernel::{tsg, Timestamp, Zernel};

use super::{far, in_so_long, longest_lease, Since};
use crate::check_eq;
use crate::common::{tune, Lab, SOON};
use crate::harness::Outcome;

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
