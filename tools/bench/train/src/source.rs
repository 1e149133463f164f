// SPDX-License-Identifier: MIT OR Apache-2.0
//! The source of batches: a file or a block device, never the page cache.

use std::fmt;
use std::num::NonZeroU64;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{ensure, Context as _, Result};
use rustix::fs::{fadvise, fstat, open, seek, Advice, FileType, Mode, OFlags, SeekFrom};
use rustix::io::{pread, Errno};

use crate::disk::{Disk, BLOCK};

/// The most that is read of a file at a time, in bytes.
const MOST: usize = 64 << 10;

/// Memory that a device can write to by itself.
#[repr(align(4096))]
struct Buffer([u8; MOST]);

/// A file or block device that is read from its begin to its end, again and again.
pub struct Source {
    file: OwnedFd,
    /// Its file is closed by then: what is declared above is dropped first.
    _disk: Option<Disk>,
    buffer: Box<Buffer>,
    /// Bytes that are read at a time, and the size of the source.
    chunk: usize,
    size: u64,
    next: u64,
    /// True if the range is to be dropped from the page cache before it is read.
    cached: bool,
    /// A load is as many reads as take so long each while nobody else reads.
    each: Option<Duration>,
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut all = f.debug_struct("Source");
        all.field("chunk", &self.chunk).field("size", &self.size);
        all.finish_non_exhaustive()
    }
}

impl Source {
    /// The file or block device at `path`.
    ///
    /// Errors: those of opening it; a source of another kind, or shorter than 4,096 bytes.
    pub fn open(path: &Path) -> Result<Self> {
        let named = || format!("cannot read batches from {}", path.display());
        let direct = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::DIRECT;
        // Opening a pipe must not wait for its writer.
        let flags = |direct: OFlags| direct | OFlags::NONBLOCK;
        let (file, cached) = match open(path, flags(direct), Mode::empty()) {
            // A file system that has only its cache.
            Err(Errno::INVAL) => {
                let flags = flags(direct - OFlags::DIRECT);
                (open(path, flags, Mode::empty()), true)
            }
            opened => (opened, false),
        };
        Self::of(file.with_context(named)?, cached).with_context(named)
    }

    /// A block device of this process's own, each of whose reads of 4,096 bytes takes `latency`.
    ///
    /// Errors: [`Missing`](crate::Missing) where the kernel has no null_blk; it takes root.
    pub fn throttled(latency: Duration) -> Result<Self> {
        let disk = Disk::new(latency)?;
        let mut source = Self::open(disk.node())?;
        source.chunk = BLOCK as usize;
        source._disk = Some(disk);
        Ok(source)
    }

    /// A block device that programs share, each of whose reads of 4,096 bytes takes `each` if it does not
    /// wait for another one. To read for a time is to read as much as that takes alone.
    ///
    /// Errors: as of [`Self::open`].
    pub fn shared(path: &Path, each: Duration) -> Result<Self> {
        let mut source = Self::open(path)?;
        source.chunk = BLOCK as usize;
        source.each = Some(each);
        Ok(source)
    }

    fn of(file: OwnedFd, cached: bool) -> Result<Self> {
        let kind = FileType::from_raw_mode(fstat(&file)?.st_mode);
        ensure!(
            matches!(kind, FileType::RegularFile | FileType::BlockDevice),
            "the source is neither a file nor a block device"
        );
        let size = seek(&file, SeekFrom::End(0))?;
        ensure!(
            size >= BLOCK,
            "the source has {size} bytes; it needs {BLOCK} at least"
        );
        let chunk = (MOST as u64).min(size - size % BLOCK) as usize;
        Ok(Self {
            file,
            _disk: None,
            buffer: Box::new(Buffer([0; MOST])),
            chunk,
            size,
            next: 0,
            cached,
            each: None,
        })
    }

    /// Reads once and waits for it.
    pub fn read(&mut self) -> Result<()> {
        if self.next + self.chunk as u64 > self.size {
            self.next = 0;
        }
        if self.cached {
            let length = NonZeroU64::new(self.chunk as u64);
            fadvise(&self.file, self.next, length, Advice::DontNeed)?;
        }
        let buffer = &mut self.buffer.0[..self.chunk];
        let read = pread(self.file.as_fd(), buffer, self.next).context("cannot read a batch")?;
        ensure!(
            read == self.chunk,
            "{read} bytes instead of {} at {}: the file has become shorter during the run",
            self.chunk,
            self.next
        );
        self.next += self.chunk as u64;
        Ok(())
    }

    /// Reads for so long, once at least.
    pub fn read_for(&mut self, duration: Duration) -> Result<()> {
        if let Some(each) = self.each {
            let reads = duration.as_nanos().div_ceil(each.as_nanos().max(1));
            return (0..reads.max(1)).try_for_each(|_| self.read());
        }
        let begin = Instant::now();
        loop {
            self.read()?;
            if begin.elapsed() >= duration {
                return Ok(());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(path: &Path) -> String {
        format!("{:#}", Source::open(path).expect_err("it is refused"))
    }

    #[test]
    fn a_file_is_read_again_and_again() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("batches");
        std::fs::write(&path, vec![7; 3 * 4096 + 5]).unwrap();
        let mut source = Source::open(&path).unwrap();
        assert_eq!((source.chunk, source.size), (3 * 4096, 3 * 4096 + 5));
        for _ in 0..4 {
            source.read().unwrap();
            assert_eq!(source.buffer.0[0], 7);
        }
        source.read_for(Duration::from_millis(1)).unwrap();
        std::fs::write(&path, [7]).unwrap();
        let error = source.read().unwrap_err().to_string();
        assert!(error.contains("has become shorter"), "{error}");
    }

    #[test]
    fn a_load_from_a_shared_source_is_a_number_of_reads() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("batches");
        std::fs::write(&path, vec![7; 64 * 4096]).unwrap();
        let mut source = Source::shared(&path, Duration::from_millis(4)).unwrap();
        for (ms, reads) in [(0, 1), (4, 1), (5, 2), (40, 10)] {
            source.next = 0;
            source.read_for(Duration::from_millis(ms)).unwrap();
            assert_eq!(source.next, reads * 4096, "{ms} ms");
        }
    }

    #[test]
    fn what_cannot_be_read_from_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let missing = dir.path().join("missing");
        assert!(
            said(&missing).contains("missing: No such file"),
            "{}",
            said(&missing)
        );
        assert!(said(dir.path()).contains("neither a file nor a block device"));
        let short = dir.path().join("short");
        std::fs::write(&short, [0; 4095]).unwrap();
        assert!(
            said(&short).contains("the source has 4095 bytes"),
            "{}",
            said(&short)
        );
    }
}
