// SPDX-License-Identifier: GPL-2.0
//! A block device that takes its time: the kernel's null_blk, whose requests end by a timer.

use std::fs;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{ensure, Context as _, Result};
use rustix::fs::{Mode, OFlags};
use rustix::mount::{mount, MountFlags};
use testkit::harness::Skip;

use crate::common::wait_until;

const CONFIGFS: &str = "/sys/kernel/config";
const NAME: &str = "zernel-test";

/// Its size.
const MIB: u64 = 16;

/// What is read at a time.
const BLOCK: usize = 4096;

/// Memory that a device can write to by itself.
#[repr(align(4096))]
struct Block([u8; BLOCK]);

/// A block device, open. There is one at a time; dropped, it is removed.
pub struct Disk {
    file: Option<OwnedFd>,
    block: Box<Block>,
    next: u64,
}

impl Disk {
    /// A device each of whose requests takes `latency`.
    ///
    /// Errors: [`Skip`] where the kernel has no null_blk.
    pub fn new(latency: Duration) -> Result<Self> {
        let root = Path::new(CONFIGFS);
        if !root.exists() {
            return Err(Skip("this kernel has no configfs").into());
        }
        if fs::read_dir(root)?.next().is_none() {
            mount("none", root, "configfs", MountFlags::empty(), None).context("mount configfs")?;
        }
        if !root.join("nullb").exists() {
            return Err(Skip("this kernel has no null_blk").into());
        }
        // One that a case has left that was killed.
        remove()?;
        let place = place();
        fs::create_dir(&place).with_context(|| format!("make {}", place.display()))?;
        let disk = Self {
            file: None,
            block: Box::new(Block([0; BLOCK])),
            next: 0,
        };
        for (name, value) in [
            ("size", MIB),
            ("blocksize", BLOCK as u64),
            ("memory_backed", 1),
            // By a timer.
            ("irqmode", 2),
            ("completion_nsec", latency.as_nanos() as u64),
            ("power", 1),
        ] {
            fs::write(place.join(name), value.to_string())
                .with_context(|| format!("{name}={value}"))?;
        }
        disk.open()
    }

    fn open(mut self) -> Result<Self> {
        let node = Path::new("/dev").join(NAME);
        wait_until("the device is there", || Ok(node.exists()))?;
        let flags = OFlags::RDONLY | OFlags::DIRECT | OFlags::CLOEXEC;
        let file = rustix::fs::open(&node, flags, Mode::empty());
        self.file = Some(file.with_context(|| format!("open {}", node.display()))?);
        Ok(self)
    }

    /// Reads one block and waits for it.
    pub fn read(&mut self) -> Result<()> {
        let file = self.file.as_ref().context("the device is open")?;
        let read = rustix::io::pread(file.as_fd(), &mut self.block.0[..], self.next)?;
        ensure!(read == BLOCK, "{read} bytes at {}", self.next);
        self.next = (self.next + BLOCK as u64) % (MIB << 20);
        Ok(())
    }

    /// Reads for so long, one block at least.
    pub fn read_for(&mut self, duration: Duration) -> Result<()> {
        let begin = Instant::now();
        loop {
            self.read()?;
            if begin.elapsed() >= duration {
                return Ok(());
            }
        }
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        self.file = None;
        // What cannot be removed now is removed before the next one is made.
        let _ = remove();
    }
}

fn place() -> PathBuf {
    Path::new(CONFIGFS).join("nullb").join(NAME)
}

fn remove() -> Result<()> {
    let place = place();
    if place.exists() {
        fs::write(place.join("power"), "0").context("power=0")?;
        fs::remove_dir(&place).with_context(|| format!("remove {}", place.display()))?;
    }
    Ok(())
}
