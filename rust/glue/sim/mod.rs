// SPDX-License-Identifier: GPL-2.0
//! What `zernel_sim.ko` alone needs of the kernel.

pub(crate) mod hub;
pub(crate) mod params;
pub(crate) mod task;
pub(crate) mod words;
