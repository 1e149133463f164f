// SPDX-License-Identifier: MIT OR Apache-2.0
//! A cgroup v2 of our own, below the one that we are in.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
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
        let parent = own_path(&mounts, &own)
            .context("no cgroup v2 hierarchy is mounted; mount one at /sys/fs/cgroup")?;
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
                "zernelctl: {} still has processes; remove it when they have ended",
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

/// The paths of cgroups v2 by their ids, from the root of the hierarchy as far as it is mounted here.
pub fn paths() -> BTreeMap<u64, String> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let mut paths = BTreeMap::new();
    if let Some(point) = mount_point(&mounts) {
        collect(&point, "", &mut paths);
    }
    paths
}

/// A directory that goes meanwhile is left out.
fn collect(directory: &Path, path: &str, paths: &mut BTreeMap<u64, String>) {
    if let Ok(metadata) = fs::metadata(directory) {
        let path = if path.is_empty() { "/" } else { path };
        paths.insert(metadata.ino(), path.to_owned());
    }
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            let below = format!("{path}/{}", entry.file_name().to_string_lossy());
            collect(&entry.path(), &below, paths);
        }
    }
}

/// Where the first mount of cgroup v2 is.
fn mount_point(mountinfo: &str) -> Option<PathBuf> {
    mountinfo.lines().find_map(|line| {
        let (mount, kind) = line.split_once(" - ")?;
        let point = mount.split(' ').nth(4)?;
        (kind.split(' ').next() == Some("cgroup2")).then(|| PathBuf::from(unescape(point)))
    })
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
    fn paths_are_found_by_inode() {
        let root = std::env::temp_dir().join(format!("zernelctl-paths-{}", std::process::id()));
        fs::create_dir_all(root.join("a/b")).unwrap();
        let mut paths = BTreeMap::new();
        collect(&root, "", &mut paths);
        let of = |name: &str| paths[&fs::metadata(root.join(name)).unwrap().ino()].clone();
        assert_eq!(
            (of(""), of("a"), of("a/b")),
            ("/".into(), "/a".into(), "/a/b".into())
        );
        fs::remove_dir_all(&root).unwrap();
    }

    #[test]
    fn without_v2_there_is_none() {
        assert_eq!(
            own_path("22 1 8:1 / / rw - ext4 /dev/sda1 rw", "0::/\n"),
            None
        );
        assert_eq!(own_path(UNIFIED, "3:cpu:/a\n"), None);
        assert_eq!(mount_point("22 1 8:1 / / rw - ext4 /dev/sda1 rw"), None);
        assert_eq!(mount_point(UNIFIED), Some("/sys/fs/cgroup".into()));
    }
}
