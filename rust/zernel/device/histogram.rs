// SPDX-License-Identifier: GPL-2.0
//! Histograms of durations.

use super::Client;
use crate::glue::uapi;
use kernel::prelude::*;

/// Fills the buckets of a histogram.
pub(super) fn fill(_: &Client, _: &mut uapi::zernel_histogram) -> Result {
    Err(ENOTTY)
}
