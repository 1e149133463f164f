// SPDX-License-Identifier: GPL-2.0
//! Hints of programs on the phase of a thread.

use super::Client;
use crate::glue::uapi;
use kernel::prelude::*;

/// Takes a hint.
pub(super) fn hint(_: &Client, _: &mut uapi::zernel_hint) -> Result {
    Err(ENOTTY)
}
