// SPDX-License-Identifier: GPL-2.0 OR MIT
//! A GPU that time-slices, as integer arithmetic: runlists, TSGs, channels, context switches.
//!
//! Pure: no clock, no memory of its own, no threads. The caller hands in the storage and the time,
//! calls [`gpu::Gpu::advance`] at the time of [`gpu::Gpu::next_event`], and gets events through an
//! [`event::Sink`]. The number of calls does not change the result.
//!
//! Every operation takes at most the time of 64 events; an event looks at the channels of one TSG
//! (16), or of those that share its semaphore words (8 times 16), for any number of TSGs.

pub(crate) mod account;
pub(crate) mod arena;
pub(crate) mod channel;
pub(crate) mod engine;
pub(crate) mod error;
pub(crate) mod event;
pub(crate) mod gpu;
pub(crate) mod index;
pub(crate) mod list;
pub(crate) mod measures;
mod operate;
pub(crate) mod preset;
#[cfg(any(test, zernel_kunit, zernel_simrm))]
pub(crate) mod registers;
mod run;
pub(crate) mod runlist;
mod schedule;
pub(crate) mod stats;
pub(crate) mod tsg;
pub(crate) mod work;

#[cfg(any(test, zernel_kunit))]
pub(crate) mod fixture;
#[cfg(any(test, zernel_kunit))]
mod scenarios;
