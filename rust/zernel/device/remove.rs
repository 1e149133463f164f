// SPDX-License-Identifier: GPL-2.0
//! Handles of a file, and the end of a subscription or a probe by its handle.

use super::Client;
use crate::{
    error::Failure,
    glue::uapi, //
};
use kernel::{
    prelude::*,
    sync::atomic::{
        ordering::Relaxed,
        Atomic, //
    },
};

/// The handles of a file: one space for all that is named by them, and none is used again.
pub(super) struct Handles(Atomic<u32>);

impl Handles {
    /// None was used.
    pub(super) const fn new() -> Self {
        Self(Atomic::new(0))
    }

    /// The next one, from 1.
    ///
    /// # Errors
    ///
    /// `EDQUOT` every handle was used.
    pub(super) fn next(&self) -> Result<u32> {
        let mut last = self.0.load(Relaxed);
        loop {
            let next = last.checked_add(1).ok_or(Failure::OverQuota)?;
            match self.0.cmpxchg(last, next, Relaxed) {
                Ok(_) => return Ok(next),
                Err(now) => last = now,
            }
        }
    }
}

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
