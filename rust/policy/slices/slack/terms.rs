// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Decisions of the operator about slices that follow slacks.

use crate::policy::units::{
    Permille,
    Us, //
};

/// The tunables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Terms {
    /// The slice of a TSG that is late.
    pub(crate) late: Us,
    /// That of one that soon is.
    pub(crate) soon: Us,
    /// That of one that has time.
    pub(crate) early: Us,
    /// The slack below which one is late, as a share of what remains.
    pub(crate) late_below: Permille,
    /// The slack below which one soon is.
    pub(crate) soon_below: Permille,
    /// The most credit.
    pub(crate) credit: Us,
    /// The time from one decision to the next.
    pub(crate) quantum: Us,
}

impl Terms {
    /// The usual ones.
    pub(crate) const USUAL: Self = Self {
        late: Us(10_000_000),
        soon: Us(10_000),
        early: Us(1_000),
        late_below: Permille(0),
        soon_below: Permille(100),
        credit: Us(20_000),
        quantum: Us(1_000),
    };
}
