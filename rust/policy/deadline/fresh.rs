// SPDX-License-Identifier: GPL-2.0 OR MIT
//! An order of deadlines for tests, which is too large for the stack of the kernel, and requests for it.

use super::{
    entry::{
        Claim,
        Lane, //
    },
    line::Line, //
};
use crate::policy::{
    level::Level,
    units::Ns, //
};

/// A lane.
pub(super) const LANE: Lane = Lane {
    runlist: 0,
    level: Level::LC,
};

/// The time of tests.
pub(super) const NOW: Ns = Ns(1_000);

/// A request that is due, a fifth of whose demand is a switch.
pub(super) fn claim(deadline: u64, demand: u64) -> Claim {
    Claim {
        deadline: Ns(deadline),
        due: NOW,
        switch: Ns(demand / 5),
        burst: Ns(demand - demand / 5),
    }
}

/// Nobody has a place.
#[cfg(test)]
pub(super) fn fresh() -> Option<Box<Line>> {
    Some(Box::new(Line::EMPTY))
}

#[cfg(not(test))]
static EMPTY: Line = Line::EMPTY;

/// Nobody has a place; `None`: no memory.
#[cfg(not(test))]
pub(super) fn fresh() -> Option<kernel::alloc::KBox<Line>> {
    crate::glue::boxed::boxed(&EMPTY).ok()
}
