// SPDX-License-Identifier: GPL-2.0
//! To be written.

use crate::harness::{suite, Suite};

/// The suite.
pub const SUITE: Suite = suite("permit", &[]);
