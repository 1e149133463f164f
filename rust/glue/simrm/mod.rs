// SPDX-License-Identifier: GPL-2.0
//! Wrappers that `zernel_simrm.ko` alone needs.

pub(crate) mod engine;
pub(crate) mod raw;
pub(crate) mod registers;
