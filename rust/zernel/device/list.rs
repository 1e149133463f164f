// SPDX-License-Identifier: GPL-2.0
//! Lists: the call, and its kinds.

mod cgroups;
mod classes;
mod gpus;
mod levels;
mod part;
mod processes;
mod requests;
mod system;
mod threads;
mod tsgs;

use super::client::Client;
use crate::glue::uapi;
use kernel::prelude::*;
pub(super) use part::MAX;

/// Fills a part of a list.
pub(super) fn fill(_: &Client, list: &mut uapi::zernel_list) -> Result {
    match list.kind {
        uapi::ZERNEL_LIST_SYSTEM => part::fill::<system::System>(list),
        uapi::ZERNEL_LIST_GPUS => part::fill::<gpus::Gpus>(list),
        uapi::ZERNEL_LIST_LEVELS => part::fill::<levels::Levels>(list),
        uapi::ZERNEL_LIST_LEVEL_REQUESTS => part::fill::<requests::OfLevels>(list),
        uapi::ZERNEL_LIST_TSGS => part::fill::<tsgs::Tsgs>(list),
        uapi::ZERNEL_LIST_TSG_REQUESTS => part::fill::<requests::OfTsgs>(list),
        uapi::ZERNEL_LIST_PROCESSES => part::fill::<processes::Processes>(list),
        uapi::ZERNEL_LIST_THREADS => part::fill::<threads::Threads>(list),
        uapi::ZERNEL_LIST_CGROUPS => part::fill::<cgroups::Cgroups>(list),
        uapi::ZERNEL_LIST_CLASSES => part::fill::<classes::Classes>(list),
        _ => Err(EINVAL),
    }
}
