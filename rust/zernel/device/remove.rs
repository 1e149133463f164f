// SPDX-License-Identifier: GPL-2.0
//! The end of a subscription or a probe by its handle.

use super::client::Client;
use crate::glue::uapi;
use kernel::prelude::*;

/// Ends the subscription or probe of a handle.
pub(super) fn remove(client: &Client, named: &mut uapi::zernel_remove) -> Result {
    if named.flags != 0 {
        return Err(EINVAL);
    }
    match end(client, named.handle) {
        true => Ok(()),
        false => Err(ENOENT),
    }
}

/// Ends it if there is one: nobody has learnt its handle.
pub(super) fn forget(client: &Client, handle: u32) {
    end(client, handle);
}

/// Returns whether there was one.
fn end(client: &Client, handle: u32) -> bool {
    let subscription = client.subscriptions.lock().remove(handle);
    if subscription.is_some() {
        // Dropped without the lock.
        drop(subscription);
        return true;
    }
    client.probes.lock().remove(handle)
}
