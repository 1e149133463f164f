// SPDX-License-Identifier: MIT OR Apache-2.0
//! The machine: modules, users, limits of the system.

use std::fs;

use anyhow::{Context as _, Result};
use rustix::process::{setrlimit, Resource, Rlimit};
use testkit::module::{is_loaded, load};
use testkit::sys;

/// The victim.
pub const ALICE: u32 = 1000;

/// The first of the tenants' users; each further one has the next number.
pub const BOB: u32 = 1001;

/// The group whose members may raise classes, as an operator would make one.
pub const LC_GROUP: u32 = 2000;

/// Files of the victim.
pub const FOLDER: &str = "/tmp/neighbours";

/// Limits of the system that would end an attack before zernel's own do.
const LIMITS: [(&str, &str); 4] = [
    ("kernel/threads-max", "150000"),
    ("kernel/pid_max", "200000"),
    ("vm/max_map_count", "200000"),
    ("fs/file-max", "1000000"),
];

/// Loads the modules, the software GPU with these parameters, and sets everything up.
pub fn prepare(parameters: &str) -> Result<()> {
    for (name, value) in LIMITS {
        fs::write(format!("/proc/sys/{name}"), value).with_context(|| name.to_owned())?;
    }
    if !is_loaded("zernel") {
        load("zernel", "")?;
    }
    if !is_loaded("zernel_sim") {
        load("zernel_sim", parameters)?;
    }
    fs::write("/sys/class/misc/zernel/lc_gid", LC_GROUP.to_string())?;
    // Where there is such a controller. Tenants' cgroups have no other use for it.
    let _ = fs::write("/sys/fs/cgroup/cgroup.subtree_control", "+memory");
    // The console takes a millisecond of a line, in which nothing else runs.
    fs::write("/proc/sys/kernel/printk", "1")?;
    fs::create_dir_all(FOLDER)?;
    std::os::unix::fs::chown(FOLDER, Some(ALICE), Some(ALICE))?;
    sys::become_subreaper()?;
    // Tenants start as others do.
    sys::set_policy(0, libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK)?;
    Ok(())
}

/// Makes the caller a tenant in these groups, who may have as much of everything as zernel gives.
pub fn become_tenant(uid: u32, groups: &[u32]) -> Result<()> {
    unlimit(&[Resource::Nproc, Resource::Memlock, Resource::Sigpending])?;
    let files = Some(1 << 20);
    setrlimit(Resource::Nofile, limit(files))?;
    Ok(sys::become_user(uid, uid, groups)?)
}

/// Makes the caller the victim, a member of the group that may raise, who may have a real-time
/// priority.
pub fn become_victim() -> Result<()> {
    setrlimit(Resource::Rtprio, limit(Some(1)))?;
    Ok(sys::become_user(ALICE, ALICE, &[LC_GROUP])?)
}

fn unlimit(resources: &[Resource]) -> Result<()> {
    for &resource in resources {
        setrlimit(resource, limit(None))?;
    }
    Ok(())
}

const fn limit(value: Option<u64>) -> Rlimit {
    Rlimit {
        current: value,
        maximum: value,
    }
}
