// SPDX-License-Identifier: MIT OR Apache-2.0
//! Loaders of batches that run: each publishes its counters in memory of its process, where others of the
//! same user, and root, find them.
//!
//! A publication is a file in memory (`memfd_create(2)`) that no folder has: it goes with its process, and
//! there is no name at which another user could put something in its place.

mod find;
mod process;

use std::io;
use std::os::fd::OwnedFd;

use rustix::fs::{memfd_create, MemfdFlags};
use rustix::io::{pwrite, Errno};
use serde::Serialize;

pub use find::{
    all, of_process, Found, Listed, MOST_FILES, MOST_FILES_OF_USER, MOST_OF_PROCESS, MOST_OF_USER,
};

/// Name of the file.
const NAME: &str = "zernel-loader";

/// First word of a record: the name and version of its layout.
const MAGIC: u64 = u64::from_le_bytes(*b"zloader1");

/// Words of a record; the last one is a checksum of the others.
const WORDS: usize = 21;
/// Bytes of a record.
const BYTES: usize = WORDS * 8;

/// The source of a loader's depth.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Pace {
    /// It is as it was set.
    #[default]
    Fixed,
    /// The loader's own measures.
    Own,
    /// Prefetch signals of zernel.
    Zernel,
}

impl Pace {
    /// All of them, by their number in a record.
    pub const ALL: [Self; 3] = [Self::Fixed, Self::Own, Self::Zernel];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Fixed => "fixed",
            Self::Own => "own",
            Self::Zernel => "zernel",
        }
    }
}

/// The counters of a loader, since it began.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Record {
    /// Number of the loader in its process, from 1, as that counts: two copies of the library in a process
    /// count for themselves.
    pub number: u64,
    /// Batches that are to be loaded ahead now.
    pub depth: u64,
    /// The most of these.
    pub depth_max: u64,
    /// Batches that are loaded ahead, or on their way.
    pub ahead: u64,
    /// The source of the depth.
    pub pace: Pace,
    /// Batches that were handed over, faults included.
    pub batches: u64,
    /// Of these, faults.
    pub faults: u64,
    /// Batches that were not there when they were asked for.
    pub late: u64,
    /// The time for which the consumer waited for these, in nanoseconds.
    pub waited_ns: u64,
    /// Prefetch signals that came.
    pub signals: u64,
    /// Bytes of samples that were handed over.
    pub bytes: u64,
    /// Bytes of batches ahead.
    pub bytes_ahead: u64,
    /// The most of these.
    pub bytes_max: u64,
    /// Bytes of metadata in memory, of all loaders with the same prefetcher.
    pub metadata_bytes: u64,
    /// Requests to the store, of all that read from it: as the next three.
    pub requests: u64,
    /// Requests that were sent again.
    pub retries: u64,
    /// Requests that were sent beside another, which took long.
    pub hedges: u64,
    /// Bytes that came.
    pub read_bytes: u64,
}

/// A record that cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Unreadable {
    /// It is none of this version.
    #[error("the record is of another version")]
    Version,
    /// It is too short, or its checksum is another one: it is damaged, or written in this moment.
    #[error("the record is damaged")]
    Damaged,
}

impl Record {
    fn encode(&self, pid: u32) -> [u8; BYTES] {
        let pace = Pace::ALL.iter().position(|pace| *pace == self.pace);
        let mut words = [
            MAGIC,
            u64::from(pid),
            self.number,
            self.depth,
            self.depth_max,
            self.ahead,
            pace.unwrap_or(0) as u64,
            self.batches,
            self.faults,
            self.late,
            self.waited_ns,
            self.signals,
            self.bytes,
            self.bytes_ahead,
            self.bytes_max,
            self.metadata_bytes,
            self.requests,
            self.retries,
            self.hedges,
            self.read_bytes,
            0,
        ];
        words[WORDS - 1] = checksum(&words[..WORDS - 1]);
        let mut bytes = [0; BYTES];
        for (to, word) in bytes.chunks_exact_mut(8).zip(words) {
            to.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    /// The record in these bytes, and the process that wrote it, as it knows itself.
    ///
    /// # Errors
    ///
    /// [`Unreadable`].
    fn decode(bytes: &[u8]) -> Result<(Self, u32), Unreadable> {
        let mut words = [0; WORDS];
        if bytes.len() < 8 {
            return Err(Unreadable::Damaged);
        }
        for (word, from) in words.iter_mut().zip(bytes.chunks_exact(8)) {
            *word = from
                .try_into()
                .map_or(0, |eight: [u8; 8]| u64::from_le_bytes(eight));
        }
        if words[0] != MAGIC {
            return Err(Unreadable::Version);
        }
        if bytes.len() < BYTES || checksum(&words[..WORDS - 1]) != words[WORDS - 1] {
            return Err(Unreadable::Damaged);
        }
        let pid = u32::try_from(words[1]).map_err(|_| Unreadable::Damaged)?;
        let pace = usize::try_from(words[6]).ok();
        let pace = pace.and_then(|at| Pace::ALL.get(at).copied());
        let record = Self {
            number: words[2],
            depth: words[3],
            depth_max: words[4],
            ahead: words[5],
            pace: pace.ok_or(Unreadable::Damaged)?,
            batches: words[7],
            faults: words[8],
            late: words[9],
            waited_ns: words[10],
            signals: words[11],
            bytes: words[12],
            bytes_ahead: words[13],
            bytes_max: words[14],
            metadata_bytes: words[15],
            requests: words[16],
            retries: words[17],
            hedges: words[18],
            read_bytes: words[19],
        };
        Ok((record, pid))
    }
}

/// FNV-1a over words: it finds a record that was read while it was written, no forgery.
fn checksum(words: &[u64]) -> u64 {
    words.iter().fold(0xcbf2_9ce4_8422_2325, |sum, word| {
        (sum ^ word)
            .wrapping_mul(0x0000_0100_0000_01b3)
            .rotate_left(23)
    })
}

/// The place in which a loader publishes its counters. Dropped, it is gone.
#[derive(Debug)]
pub struct Publication(OwnedFd);

impl Publication {
    /// An empty one: nothing is found in it.
    ///
    /// # Errors
    ///
    /// Those of `memfd_create(2)`: no file descriptor or memory is left, or a filter refuses it.
    pub fn new() -> io::Result<Self> {
        memory().map(Self)
    }

    /// Writes the record. The calling process is the one that it is found in: a child of `fork()` has the
    /// same file, and is not to write to it.
    ///
    /// # Errors
    ///
    /// Those of `pwrite(2)`: no memory is left.
    pub fn write(&self, record: &Record) -> io::Result<()> {
        let bytes = record.encode(std::process::id());
        match pwrite(&self.0, &bytes, 0)? {
            BYTES => Ok(()),
            _ => Err(io::ErrorKind::WriteZero.into()),
        }
    }
}

/// A file in memory. Kernels before 6.3 know no such file that can never be executed.
fn memory() -> io::Result<OwnedFd> {
    let flags = MemfdFlags::CLOEXEC;
    match memfd_create(NAME, flags | MemfdFlags::NOEXEC_SEAL) {
        Err(Errno::INVAL) => Ok(memfd_create(NAME, flags)?),
        file => Ok(file?),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    pub(super) fn record(number: u64) -> Record {
        Record {
            number,
            depth: 3,
            depth_max: 4,
            ahead: 2,
            pace: Pace::Zernel,
            batches: 7,
            faults: 1,
            late: 5,
            waited_ns: 1_500_000_000,
            signals: 6,
            bytes: 70,
            bytes_ahead: 20,
            bytes_max: 1 << 30,
            metadata_bytes: 9,
            requests: 40,
            retries: 2,
            hedges: 3,
            read_bytes: 90,
        }
    }

    #[test]
    fn a_record_is_what_was_written() {
        for pace in Pace::ALL {
            let record = Record { pace, ..record(1) };
            assert_eq!(Record::decode(&record.encode(77)), Ok((record, 77)));
        }
    }

    #[test]
    fn what_is_no_record_is_told() {
        let good = record(1).encode(77);
        let mut other = good;
        other[0] ^= 1;
        assert_eq!(Record::decode(&other), Err(Unreadable::Version));
        assert_eq!(Record::decode(&[0; 8]), Err(Unreadable::Version));
        for short in [0, 7, 8, BYTES - 1] {
            assert_eq!(
                Record::decode(&good[..short]),
                Err(Unreadable::Damaged),
                "{short}"
            );
        }
        // A number that no process, and a pace that no loader, has, with the right checksum.
        for (at, value) in [(1, u64::MAX), (6, 3), (6, u64::MAX)] {
            let mut words: Vec<u64> = good
                .chunks_exact(8)
                .map(|eight| u64::from_le_bytes(eight.try_into().unwrap()))
                .collect();
            words[at] = value;
            words[WORDS - 1] = checksum(&words[..WORDS - 1]);
            let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
            assert_eq!(Record::decode(&bytes), Err(Unreadable::Damaged));
        }
    }

    proptest! {
        #[test]
        fn no_byte_changes_unseen(at in 8..BYTES, by in 1..=255_u8) {
            let mut bytes = record(1).encode(77);
            bytes[at] ^= by;
            prop_assert_eq!(Record::decode(&bytes), Err(Unreadable::Damaged));
        }

        #[test]
        fn a_record_half_written_is_damaged(cut in 1..WORDS, batches in 8..u64::MAX) {
            let (old, new) = (record(1), Record { batches, late: 6, read_bytes: 91, ..record(1) });
            let (old, new) = (old.encode(77), new.encode(77));
            let mut mixed = new;
            mixed[8 * cut..].copy_from_slice(&old[8 * cut..]);
            let is_whole = mixed == old || mixed == new;
            prop_assert_eq!(Record::decode(&mixed).is_ok(), is_whole);
        }
    }
}
