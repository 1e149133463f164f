// SPDX-License-Identifier: GPL-2.0 OR MIT
//! A TSG as it is looked at.

use crate::policy::units::{
    Ns,
    Us, //
};

/// Longest time that is told apart: 10 s, the longest slice.
pub(super) const LONGEST: u64 = 10_000_000_000;

/// A TSG as it is seen.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen {
    /// The time.
    pub(crate) now: Ns,
    /// The GPU time that it had so far.
    pub(crate) ran: Ns,
    /// The requests of it that ended so far.
    pub(crate) ended: u64,
    /// It has something to run.
    pub(crate) is_runnable: bool,
    /// The slice that it has without this policy.
    pub(crate) table: Us,
    /// The slice that the GPU has for it.
    pub(crate) slice: Us,
    /// A longer slice than that of the table is possible: its level is no one's to take.
    pub(crate) may_lengthen: bool,
}
