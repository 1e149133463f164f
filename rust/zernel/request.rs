// SPDX-License-Identifier: GPL-2.0
//! Pre-preemption: requests that tell ahead when they will need the GPU.
//!
//! # Locking
//!
//! `slots` of a file → registry → members of a [`group::Group`] → [`order::Order`] of a GPU → state of
//! a [`slot::Slot`] →
//! predictor, switch cost, statistics, new tickets of [`boost::Boosts`]. From the state of a slot
//! on they are spinlocks that keep interrupts off, which timers take too; nothing is allocated,
//! freed or looked up under them. Features are learned from without the lock of a slot: `slots` →
//! features of a key → its history.

pub(crate) mod boost;
pub(crate) mod claims;
pub(crate) mod device;
pub(crate) mod group;
mod holds;
pub(crate) mod keys;
pub(crate) mod kicks;
pub(crate) mod machine;
mod order;
pub(crate) mod share;
mod sharing;
pub(crate) mod sleep;
pub(crate) mod slot;
pub(crate) mod starts;
pub(crate) mod stats;
