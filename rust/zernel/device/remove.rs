// SPDX-License-Identifier: GPL-2.0
//! End of what a handle names: a subscription or a probe.

use super::Client;
use crate::glue::uapi;
use kernel::prelude::*;

/// Ends it.
pub(super) fn remove(_: &Client, _: &mut uapi::zernel_remove) -> Result {
    Err(ENOTTY)
}

/// Ends it if there is one: nobody has learnt its handle.
pub(super) fn forget(_: &Client, _handle: u32) {}
