// SPDX-License-Identifier: MIT OR Apache-2.0
//! Cgroups that a test makes.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use libzernel::Target;

use crate::wait_until;

/// Where cgroup v2 is mounted.
pub const ROOT: &str = "/sys/fs/cgroup";

/// The beginning of the names of all of them.
const PREFIX: &str = "zernel-test-";

/// A cgroup. Dropped, it is removed; the calling process, if it is in it, goes to the root.
pub struct Group(PathBuf);

impl Group {
    /// A new cgroup below the root.
    pub fn new(name: &str) -> Result<Self> {
        Self::make(Path::new(ROOT).join(format!("{PREFIX}{name}")))
    }

    /// A new cgroup below this one.
    pub fn below(&self, name: &str) -> Result<Self> {
        Self::make(self.0.join(name))
    }

    fn make(path: PathBuf) -> Result<Self> {
        fs::create_dir(&path).with_context(|| format!("make {}", path.display()))?;
        Ok(Self(path))
    }

    /// Its id.
    pub fn id(&self) -> Result<u64> {
        Ok(fs::metadata(&self.0)?.ino())
    }

    /// Its directory.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// It as a target.
    pub fn target(&self) -> Result<Target> {
        Ok(Target::cgroup(&self.0)?)
    }

    /// Moves a process here; 0 is the caller.
    pub fn enter(&self, pid: u32) -> Result<()> {
        enter(&self.0, pid)
    }

    /// Hands it over to a user, as a manager of cgroups does.
    pub fn delegate(&self, uid: u32) -> Result<()> {
        for name in [
            "",
            "cgroup.procs",
            "cgroup.subtree_control",
            "cgroup.threads",
        ] {
            std::os::unix::fs::chown(self.0.join(name), Some(uid), Some(uid))?;
        }
        Ok(())
    }

    /// Removes the directory.
    pub fn remove(&self) -> Result<()> {
        // A process that was just killed may be in it for a moment more.
        wait_until(&format!("{} is removed", self.0.display()), || {
            Ok(fs::remove_dir(&self.0).is_ok() || !self.0.exists())
        })
    }

    /// Removes what cases have left.
    pub fn remove_all() -> Result<()> {
        for entry in fs::read_dir(ROOT)? {
            let entry = entry?;
            if entry.file_name().to_string_lossy().starts_with(PREFIX) {
                remove_tree(&entry.path())?;
            }
        }
        Ok(())
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // A cgroup that cannot be removed now is removed after the case.
        let _ = fs::remove_dir(&self.0).or_else(|_| {
            let _ = leave();
            fs::remove_dir(&self.0)
        });
    }
}

/// Moves the calling process to the root.
pub fn leave() -> Result<()> {
    put(0)
}

/// Moves a process to the root; 0 is the caller.
pub fn put(pid: u32) -> Result<()> {
    enter(Path::new(ROOT), pid)
}

fn enter(path: &Path, pid: u32) -> Result<()> {
    fs::write(path.join("cgroup.procs"), pid.to_string())
        .with_context(|| format!("move {pid} to {}", path.display()))
}

fn remove_tree(path: &Path) -> Result<()> {
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            remove_tree(&entry.path())?;
        }
    }
    Group(path.to_owned()).remove()
}
