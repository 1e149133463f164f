// SPDX-License-Identifier: GPL-2.0
//! Actions at signals.

use super::Client;
use crate::glue::uapi;
use kernel::prelude::*;

/// Subscribes to the signals of a process.
pub(super) fn subscribe(_: &Client, _: &mut uapi::zernel_subscribe) -> Result {
    Err(ENOTTY)
}
