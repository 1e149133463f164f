// SPDX-License-Identifier: MIT OR Apache-2.0
//! Cgroups: processes with TSGs and tracked threads that move, cgroups that go, memory that is
//! used up.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use libzernel::sim::Sim;
use libzernel::{EventStream, Level, Target, Tracking};
use testkit::sys;

use super::{contexts, Zernel};
use crate::troop::{size, Troop};

/// TSGs of the process that moves.
const TSGS: usize = 64;

/// Bytes that the tenants at their limit may use.
const LIMIT: u64 = 24 << 20;

/// A process with many TSGs moves between cgroups with classes, which are made and removed, and
/// are tracked. Or a process without any of that, between others.
pub fn moved(troop: &mut Troop, with: Zernel) -> Result<()> {
    let user = troop.user();
    let path = troop.group(user, "moved")?.path().to_owned();
    // The common ancestor of all cgroups that it moves between is its own.
    let start = path.join("start");
    let procs = own(&start, user)?;
    troop.tenant_from(
        user,
        || Ok(fs::write(&procs, "0")?),
        |stage| {
            let (zernel, sim) = (libzernel::Zernel::open()?, Sim::open()?);
            let count = if with == Zernel::Used { size(TSGS) } else { 0 };
            let _contexts = contexts(&sim, count)?;
            stage.wait()?;
            for number in 0u64.. {
                let place = path.join(number.to_string());
                fs::create_dir(&place)?;
                if with == Zernel::Used {
                    let target = Target::cgroup(&place)?;
                    // Quotas end some of it: what counts is given back a little later.
                    let _ = zernel.set_class(&target, Level::BE);
                    let _ = zernel.track(&target, Tracking::PLAIN);
                }
                fs::write(place.join("cgroup.procs"), "0")?;
                fs::write(&procs, "0")?;
                fs::remove_dir(&place)?;
            }
            Ok(())
        },
    )
}

/// Makes a directory below a cgroup that was handed over; returns its file of processes.
fn own(place: &Path, user: u32) -> Result<PathBuf> {
    fs::create_dir(place)?;
    let procs = place.join("cgroup.procs");
    for path in [place, &procs] {
        std::os::unix::fs::chown(path, Some(user), Some(user))?;
    }
    Ok(procs)
}

/// Processes at the limit of their cgroup's memory, which are killed now and then, make streams
/// with room for many events and track their threads. Or they only take memory.
pub fn full(troop: &mut Troop, with: Zernel) -> Result<()> {
    let user = troop.user();
    let path = troop.group(user, "full")?.path().to_owned();
    fs::write(path.join("cgroup.subtree_control"), "+memory").context("limit memory")?;
    let calm = own(&path.join("calm"), user)?;
    let limited = path.join("limited");
    let procs = own(&limited, user)?;
    fs::write(limited.join("memory.max"), LIMIT.to_string())?;
    troop.tenant_from(
        user,
        || Ok(fs::write(calm, "0")?),
        |stage| {
            stage.wait()?;
            loop {
                if sys::fork()?.is_none() {
                    // Each failure is one of the many that there can be.
                    let _ = match with {
                        Zernel::Used => fill(&procs),
                        Zernel::Unused => take_memory(&procs),
                    };
                    sys::exit(0);
                }
                rustix::process::wait(rustix::process::WaitOptions::empty())?;
            }
        },
    )
}

fn take_memory(procs: &Path) -> Result<()> {
    const PIECE: usize = 1 << 20;
    fs::write(procs, "0")?;
    let mut taken = Vec::new();
    loop {
        taken.push(vec![1u8; PIECE]);
        if sys::fork()?.is_none() {
            sys::exit(0);
        }
        rustix::process::wait(rustix::process::WaitOptions::NOHANG)?;
    }
}

fn fill(procs: &Path) -> Result<()> {
    fs::write(procs, "0")?;
    let zernel = libzernel::Zernel::open()?;
    let me = Target::current_process();
    zernel.track(&me, Tracking::ML_CHILDREN)?;
    let wanted = libzernel::event::Wanted::all().keep(65_536);
    let mut streams = Vec::new();
    loop {
        match EventStream::open_at(libzernel::Zernel::PATH, &wanted) {
            Ok(stream) => streams.push(stream),
            Err(_) => drop(streams.pop()),
        }
        if sys::fork()?.is_none() {
            sys::exit(0);
        }
        rustix::process::wait(rustix::process::WaitOptions::NOHANG)?;
        zernel.set_class(&me, Level::BE)?;
    }
}
