// SPDX-License-Identifier: GPL-2.0
//! Handles of a file: one space for subscriptions and probes.

use crate::error::Failure;
use kernel::{
    prelude::*,
    sync::atomic::{
        ordering::Relaxed,
        Atomic, //
    }, //
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
