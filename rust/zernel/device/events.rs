// SPDX-License-Identifier: GPL-2.0
//! Start and change of an event stream.

use super::Client;
use crate::glue::uapi;
use kernel::prelude::*;

/// Starts the stream of a file, or changes it.
pub(super) fn start(_: &Client, _: &mut uapi::zernel_events) -> Result {
    Err(ENOTTY)
}
