// SPDX-License-Identifier: GPL-2.0
//! Types that may be made in zeroed memory, because they are too large for a stack.

use crate::policy::{
    counters::Counters, //
    histogram::Latencies,
};
use pin_init::Zeroable;

// SAFETY: All-zero bytes are a valid counters, by their invariants.
unsafe impl Zeroable for Counters {}

// SAFETY: All-zero bytes are a valid histogram, by its invariants.
unsafe impl Zeroable for Latencies {}
