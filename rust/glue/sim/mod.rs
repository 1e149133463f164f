// SPDX-License-Identifier: GPL-2.0
//! Wrappers that the modules with software GPUs need.

pub(crate) mod params;
pub(crate) mod task;
pub(crate) mod words;
