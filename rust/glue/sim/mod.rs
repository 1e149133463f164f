// SPDX-License-Identifier: GPL-2.0
//! Wrappers that `zernel_sim.ko` alone needs.

pub(crate) mod params;
pub(crate) mod task;
pub(crate) mod words;
