// SPDX-License-Identifier: GPL-2.0
//! The worker of a GPU: it calls the provider, and nobody else does.

pub(crate) mod activity;
pub(crate) mod budget;
pub(crate) mod calls;
pub(crate) mod exclusion;
mod follow;
mod looks;
pub(crate) mod members;
pub(crate) mod pass;
pub(crate) mod perform;
pub(crate) mod provider;
pub(crate) mod rotation;
mod slack;
mod slices;
mod takeover;
#[cfg(zernel_kunit)]
mod tests;
