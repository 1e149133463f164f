// SPDX-License-Identifier: GPL-2.0
//! Ten thousand requests at a time.

use std::time::Duration;

use anyhow::{ensure, Result};
use libzernel::request::{Slots, Word};
use libzernel::{tsg, Timestamp, Zernel};

use super::{far, in_so_long, longest_lease, Ends, Since};
use crate::check_eq;
use crate::common::{tune, Lab, SOON};
use crate::harness::Outcome;

/// Requests at a time.
const MANY: u64 = 10_000;

/// The number of slots with the word of their request stored.
fn stored(slots: &Slots, word: Word, number: u32) -> usize {
    slots
        .slots()
        .filter(|slot| slot.load(word) == number)
        .count()
}

/// Begins one in each slot, all of which are triggered at the same time.
fn begin_all(slots: &Slots, tsgs: &[tsg::Id], at: Option<Timestamp>) -> Result<()> {
    for (slot, &tsg) in slots.slots().zip(tsgs.iter().cycle()) {
        let begin = match at {
            None => far(tsg).key(1),
            Some(at) => {
                // No prediction would mean at once.
                let left = at.since(Timestamp::now()).max(Duration::from_nanos(1));
                in_so_long(tsg, left).key(1)
            }
        };
        slot.begin(&begin)?;
    }
    Ok(())
}

pub(super) fn ten_thousand_leases() -> Outcome {
    longest_lease()?;
    let patience = 10 * SOON;
    let lab = Lab::open()?;
    let mut contexts = Vec::new();
    for _ in 0..8 {
        contexts.push(lab.compute()?);
    }
    let tsgs: Vec<_> = contexts.iter().map(|(_, tsg)| tsg.id).collect();
    let zernel = Zernel::open()?;
    let slots = Slots::map(&zernel, 0..MANY as u32)?;
    let since = Since::now(&lab.zernel)?;

    let began = Timestamp::now();
    begin_all(&slots, &tsgs, None)?;
    let took = Timestamp::now().since(began);
    since.expect(Ends {
        in_flight: MANY,
        ..Ends::NONE
    })?;
    check_eq!(since.stats()?.triggers, 0, "triggers");
    check_eq!(stored(&slots, Word::Trigger, 0), MANY as usize, "words");

    // The next ones end those, and are all triggered and over at once.
    tune("lease_us", 50_000)?;
    let at = Timestamp::now() + 2 * took + Duration::from_secs(1);
    begin_all(&slots, &tsgs, Some(at))?;
    since.wait_for(
        patience,
        Ends {
            cancelled: MANY,
            expired: MANY,
            ..Ends::NONE
        },
    )?;
    // Those whose time came, and those that were cancelled, unless one store did for both.
    let triggers = since.stats()?.triggers;
    ensure!((MANY..=2 * MANY).contains(&triggers), "{triggers} triggers");
    for word in [Word::Trigger, Word::Release] {
        check_eq!(stored(&slots, word, 2), MANY as usize, "{word:?} words");
    }

    // A third time: the end of their TSG ends an eighth of them, the end of the file the rest.
    longest_lease()?;
    begin_all(&slots, &tsgs, None)?;
    let (context, _) = contexts.swap_remove(0);
    context.destroy()?;
    since.wait_for(
        patience,
        Ends {
            cancelled: MANY,
            expired: MANY,
            gone: MANY / 8,
            in_flight: MANY - MANY / 8,
            ..Ends::NONE
        },
    )?;
    check_eq!(stored(&slots, Word::Release, 3), MANY as usize / 8, "freed");
    drop((slots, zernel));
    since.wait_for(
        patience,
        Ends {
            cancelled: MANY,
            expired: MANY,
            gone: MANY / 8,
            closed: MANY - MANY / 8,
            ..Ends::NONE
        },
    )?;
    Ok(())
}
