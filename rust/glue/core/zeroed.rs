// SPDX-License-Identifier: GPL-2.0
//! What may be made in zeroed memory, because it is too large for a stack.

use crate::policy::{
    histogram::Latencies,
    tally::Tally, //
};
use pin_init::Zeroable;

// SAFETY: All-zero bytes are a valid tally, by its invariants.
unsafe impl Zeroable for Tally {}

// SAFETY: All-zero bytes are a valid histogram, by its invariants.
unsafe impl Zeroable for Latencies {}
