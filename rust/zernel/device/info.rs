// SPDX-License-Identifier: GPL-2.0
//! The loaded module, and the caller's place in it.

use super::Client;
use crate::glue::uapi;
use kernel::prelude::*;

/// Tells what the module is.
pub(super) fn get(_: &Client, _: &mut uapi::zernel_info) -> Result {
    Err(ENOTTY)
}
