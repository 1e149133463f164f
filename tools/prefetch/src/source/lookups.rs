// SPDX-License-Identifier: MIT OR Apache-2.0
//! Look-ups of reads on a local disk, within bounds of their own: none has a place among those who send
//! requests, and no more files are in memory than there are requests.

use std::sync::Arc;

use super::disk::{Disk, Name};
use super::Read;
use crate::turnstile::{Pass, Permit, Turnstile};

/// The most files that are read at once.
const AT_ONCE: usize = 16;

/// A disk, and those who wait to look on it.
#[derive(Debug)]
pub(super) struct Lookups {
    disk: Arc<Disk>,
    reading: Arc<Turnstile>,
    /// Those who have a file for which the store is asked, or look for one.
    held: Arc<Turnstile>,
}

/// A read that is on the disk. Its version is known to the store, or not.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) read: Read,
    _permit: Permit,
}

impl Lookups {
    pub(super) fn new(disk: Arc<Disk>, in_flight: usize) -> Self {
        Self {
            disk,
            reading: Turnstile::new(AT_ONCE),
            held: Turnstile::new(in_flight),
        }
    }

    /// A place among those who look for a read of which the store has to be asked.
    pub(super) fn pass(&self, batch: u64) -> Pass {
        self.held.pass(batch)
    }

    /// A read, by one who has such a place and got it.
    pub(super) async fn held(
        &self,
        name: Name,
        (most, batch): (u64, u64),
        permit: Permit,
    ) -> Option<Held> {
        let read = self.find(name, most, batch).await?;
        let _permit = permit;
        Some(Held { read, _permit })
    }

    /// A read of `most` bytes or fewer.
    pub(super) async fn find(&self, name: Name, most: u64, batch: u64) -> Option<Read> {
        let _reads = self.reading.pass(batch).await;
        self.disk.find(name, most).await
    }

    pub(super) fn keep(&self, name: Name, read: &Read) {
        self.disk.keep(name, read);
    }
}
