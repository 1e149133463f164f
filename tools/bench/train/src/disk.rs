// SPDX-License-Identifier: MIT OR Apache-2.0
//! A slow block device: the kernel's null_blk, with requests that end by a timer.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{bail, Context as _, Result};
use rustix::mount::{mount, MountFlags};

const CONFIGFS: &str = "/sys/kernel/config";

/// The beginning of its name; the number of the process that has made it follows.
const NAME: &str = "zernel-";

/// Its size.
const MIB: u64 = 16;

/// Bytes that are read of it at a time.
pub(crate) const BLOCK: u64 = 4096;

/// Longest time until its node is there.
const PATIENCE: Duration = Duration::from_secs(60);

/// The kernel lacks a part of the throttled disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("no throttled disk: this kernel has no {0}; name a source with --file")]
pub struct Missing(pub &'static str);

/// A block device. Dropped, it is removed.
#[derive(Debug)]
pub struct Disk {
    place: PathBuf,
    node: PathBuf,
}

impl Disk {
    /// Its size in bytes.
    pub const SIZE: u64 = MIB << 20;

    /// A device each of whose requests takes `latency`; a process has one at a time.
    ///
    /// Errors: [`Missing`]; a lack of permission for users other than root.
    pub fn new(latency: Duration) -> Result<Self> {
        Self::with_depth(latency, None)
    }

    /// As [`Self::new`]; with a depth, with so many requests at a time, of 128 KiB at most.
    ///
    /// Errors: as [`Self::new`].
    pub fn with_depth(latency: Duration, depth: Option<u64>) -> Result<Self> {
        let root = Path::new(CONFIGFS);
        if !root.exists() {
            return Err(Missing("configfs").into());
        }
        if !rustix::process::geteuid().is_root() {
            bail!("a throttled disk takes root; run as root, or name a source with --file");
        }
        if fs::read_dir(root)?.next().is_none() {
            mount("none", root, "configfs", MountFlags::empty(), None)
                .context("cannot mount configfs")?;
        }
        let devices = root.join("nullb");
        if !devices.exists() {
            return Err(Missing("null_blk").into());
        }
        remove_orphans(&devices)?;
        let name = format!("{NAME}{}", std::process::id());
        let (place, node) = (devices.join(&name), Path::new("/dev").join(&name));
        fs::create_dir(&place).with_context(|| format!("cannot make {}", place.display()))?;
        let disk = Self { place, node };
        if let Some(depth) = depth {
            for (name, value) in [("hw_queue_depth", depth), ("max_sectors", 256)] {
                fs::write(disk.place.join(name), value.to_string())
                    .with_context(|| format!("{name}={value}"))?;
            }
        }
        for (name, value) in [
            ("size", MIB),
            ("blocksize", BLOCK),
            ("memory_backed", 1),
            // By a timer.
            ("irqmode", 2),
            ("completion_nsec", latency.as_nanos() as u64),
            ("power", 1),
        ] {
            fs::write(disk.place.join(name), value.to_string())
                .with_context(|| format!("{name}={value}"))?;
        }
        disk.wait()?;
        Ok(disk)
    }

    /// Its node.
    pub fn node(&self) -> &Path {
        &self.node
    }

    fn wait(&self) -> Result<()> {
        let begin = Instant::now();
        while !self.node.exists() {
            if begin.elapsed() > PATIENCE {
                bail!(
                    "the disk {} has not appeared within {PATIENCE:?}",
                    self.node.display()
                );
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // A disk that cannot be removed now is removed before another one is made.
        let _ = remove(&self.place);
    }
}

/// Removes those of processes that are gone, and of this one.
fn remove_orphans(devices: &Path) -> Result<()> {
    for entry in fs::read_dir(devices)? {
        let entry = entry?;
        let name = entry.file_name();
        if let Some(pid) = name.to_str().and_then(owner) {
            if pid == std::process::id() || !Path::new("/proc").join(pid.to_string()).exists() {
                remove(&entry.path())?;
            }
        }
    }
    Ok(())
}

/// The process that has made a device of this name.
fn owner(name: &str) -> Option<u32> {
    name.strip_prefix(NAME)?.parse().ok()
}

fn remove(place: &Path) -> Result<()> {
    fs::write(place.join("power"), "0").context("power=0")?;
    fs::remove_dir(place).with_context(|| format!("cannot remove {}", place.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_tells_whose_it_is() {
        assert_eq!(owner("zernel-77"), Some(77));
        for name in ["zernel-", "zernel-x", "nullb0", "77"] {
            assert_eq!(owner(name), None, "{name}");
        }
    }
}
