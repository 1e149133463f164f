// SPDX-License-Identifier: GPL-2.0
//! Which level a request counts under: the one that was in force when it began.

use anyhow::Result;
use libzernel::request::Of;
use libzernel::{Level, Target};

use super::{far, longest_lease, Client, Ends, Since};
use crate::common::Lab;
use crate::harness::Outcome;

/// So many done, so many in flight.
fn ends(done: u64, in_flight: u64) -> Ends {
    Ends {
        done,
        in_flight,
        ..Ends::NONE
    }
}

pub(super) fn are_counted_apart() -> Outcome {
    longest_lease()?;
    let lab = Lab::open()?;
    let client = Client::new(&lab)?;
    let slot = client.slot(0);
    let target = Target::Tsg(client.tsg);
    let levels: Vec<_> = Level::all()
        .map(|level| Since::of(&lab.zernel, Of::Level(level)))
        .collect::<Result<_>>()?;
    let (all, of_tsg) = (
        Since::now(&lab.zernel)?,
        Since::of(&lab.zernel, Of::Tsg(client.tsg))?,
    );
    let others_have_none = |busy: &[usize]| -> Outcome {
        for (number, level) in levels.iter().enumerate() {
            if !busy.contains(&number) {
                level.expect(Ends::NONE)?;
            }
        }
        Ok(())
    };

    lab.zernel.set_class(&target, Level::LC)?;
    let first = slot.begin(&far(client.tsg))?.number;
    levels[0].expect(ends(0, 1))?;
    others_have_none(&[0])?;
    // The outcome counts under the level at its begin.
    lab.zernel.set_class(&target, Level::BE)?;
    levels[0].expect(ends(0, 1))?;
    slot.done_call(first)?;
    levels[0].expect(ends(1, 0))?;
    others_have_none(&[0])?;

    let second = slot.begin(&far(client.tsg))?.number;
    levels[7].expect(ends(0, 1))?;
    lab.zernel.clear_class(&target)?;
    slot.done_call(second)?;
    levels[7].expect(ends(1, 0))?;
    others_have_none(&[0, 7])?;

    // Without a class, under none of them.
    let third = slot.begin(&far(client.tsg))?.number;
    all.expect(ends(2, 1))?;
    lab.zernel.set_class(&target, Level::LC)?;
    slot.done_call(third)?;
    levels[0].expect(ends(1, 0))?;
    levels[7].expect(ends(1, 0))?;
    others_have_none(&[0, 7])?;
    all.expect(ends(3, 0))?;
    of_tsg.expect(ends(3, 0))
}
