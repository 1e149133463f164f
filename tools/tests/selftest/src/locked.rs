// SPDX-License-Identifier: MIT OR Apache-2.0
//! A kernel that is locked down; it stays so until the machine starts anew.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};
use libzernel::{Target, Tracking};
use rustix::io::Errno;
use rustix::mount::{mount, MountFlags};

use crate::abi::unchanged;
use crate::check_eq;
use crate::common::{errno, Lab};
use crate::gpuwait::{library, Probed};
use crate::harness::{case, suite, Outcome, Suite};

/// The suite.
pub const SUITE: Suite = suite("locked", &[case("no_probe", no_probe)]);

const SECURITY: &str = "/sys/kernel/security";

/// Root sets no probe any more, a probe from before works on and goes, and everything else is as it
/// was.
fn no_probe() -> Outcome {
    let lab = Lab::open()?;
    let before = Probed::new()?;
    lock_down()?;
    let (library, place) = library()?;
    let answer = unchanged(&lab.zernel, || {
        Ok(errno(lab.zernel.add_probe(&library, place)))
    })?;
    check_eq!(answer, Some(Errno::PERM));
    drop(before);
    lab.zernel
        .track(&Target::current_process(), Tracking::CHILDREN)?;
    lab.zernel.untrack(&Target::current_process())?;
    Ok(())
}

/// Locks the kernel down at its lowest level.
fn lock_down() -> Result<()> {
    let file = Path::new(SECURITY).join("lockdown");
    if !file.exists() {
        mount(
            "securityfs",
            SECURITY,
            "securityfs",
            MountFlags::empty(),
            None::<&std::ffi::CStr>,
        )
        .context("mount securityfs; the kernel needs CONFIG_SECURITY_LOCKDOWN_LSM")?;
    }
    fs::write(&file, "integrity").with_context(|| format!("write {}", file.display()))?;
    check_eq!(fs::read_to_string(&file)?.contains("[integrity]"), true);
    Ok(())
}
