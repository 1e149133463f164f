// SPDX-License-Identifier: GPL-2.0
//! A cgroup v2 of our own, below the one that we are in.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// A cgroup that was made here; dropping it removes it unless processes are left in it.
#[derive(Debug)]
pub struct Child {
    parent: PathBuf,
    path: PathBuf,
}

impl Child {
    /// Makes a cgroup below the one that this process is in.
    pub fn create() -> Result<Self> {
        let mounts = fs::read_to_string("/proc/self/mountinfo").context("/proc/self/mountinfo")?;
        let own = fs::read_to_string("/proc/self/cgroup").context("/proc/self/cgroup")?;
        let parent = own_path(&mounts, &own).context("no cgroup v2 hierarchy is mounted")?;
        let path = parent.join(format!("zernel-run-{}", std::process::id()));
        fs::create_dir(&path).with_context(|| format!("cannot make cgroup {}", path.display()))?;
        Ok(Self { parent, path })
    }

    /// Its directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Moves this process into it, so that a child is born there.
    pub fn enter(&self) -> Result<()> {
        join(&self.path)
    }

    /// Moves this process back to where it was.
    pub fn leave(&self) -> Result<()> {
        join(&self.parent)
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        match fs::remove_dir(&self.path) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(_) => eprintln!(
                "zernelctl: processes are left in {}; remove it when they have ended",
                self.path.display()
            ),
        }
    }
}

fn join(cgroup: &Path) -> Result<()> {
    let procs = cgroup.join("cgroup.procs");
    fs::write(&procs, "0").with_context(|| format!("cannot move to {}", procs.display()))
}

/// The path of the cgroup v2 that a process is in, from the root of the hierarchy; none if the
/// process has ended.
pub fn path_of(pid: u32) -> Option<String> {
    let groups = fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?;
    groups
        .lines()
        .find_map(|line| Some(line.strip_prefix("0::")?.to_owned()))
}

/// The directory of the cgroup v2 that `/proc/self/cgroup` names, in the first mount of that
/// hierarchy that shows it.
fn own_path(mountinfo: &str, own: &str) -> Option<PathBuf> {
    let own = Path::new(own.lines().find_map(|line| line.strip_prefix("0::"))?);
    mountinfo.lines().find_map(|line| {
        // The fields before " - " are of a fixed order; see proc_pid_mountinfo(5).
        let (mount, kind) = line.split_once(" - ")?;
        let mut fields = mount.split(' ').skip(3);
        let (root, point) = (unescape(fields.next()?), unescape(fields.next()?));
        if kind.split(' ').next() != Some("cgroup2") {
            return None;
        }
        let below = own.strip_prefix(root).ok()?;
        Some(Path::new(&point).join(below))
    })
}

/// Undoes the octal escapes of mountinfo.
fn unescape(field: &str) -> String {
    ["\\040 ", "\\011\t", "\\012\n", "\\134\\"]
        .into_iter()
        .fold(field.to_owned(), |text, pair| {
            let (code, plain) = pair.split_at(4);
            text.replace(code, plain)
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    const UNIFIED: &str = "\
22 1 8:1 / / rw - ext4 /dev/sda1 rw
31 22 0:27 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate";

    #[test]
    fn own_cgroup_is_found_below_its_mount() {
        let own = "0::/user.slice/session-1.scope\n";
        assert_eq!(
            own_path(UNIFIED, own).unwrap(),
            Path::new("/sys/fs/cgroup/user.slice/session-1.scope")
        );
        assert_eq!(
            own_path(UNIFIED, "0::/\n").unwrap(),
            Path::new("/sys/fs/cgroup")
        );
    }

    #[test]
    fn hybrid_and_bind_mounts_are_understood() {
        let hybrid = "\
30 22 0:26 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu
31 22 0:27 /box /run/my\\040cgroup rw - cgroup2 cgroup2 rw";
        let own = "3:cpu:/a\n0::/box/b\n";
        assert_eq!(
            own_path(hybrid, own).unwrap(),
            Path::new("/run/my cgroup/b")
        );
        assert_eq!(own_path(hybrid, "0::/other\n"), None);
    }

    #[test]
    fn without_v2_there_is_none() {
        assert_eq!(
            own_path("22 1 8:1 / / rw - ext4 /dev/sda1 rw", "0::/\n"),
            None
        );
        assert_eq!(own_path(UNIFIED, "3:cpu:/a\n"), None);
    }
}
