// SPDX-License-Identifier: MIT OR Apache-2.0
//! The tenants of an attack: processes that make ready, begin at one time, and are killed.

use std::cell::Cell;
use std::fs;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{bail, ensure, Result};
use rustix::event::{eventfd, EventfdFlags};
use rustix::io::{read, write, Errno};
use testkit::child::Child;
use testkit::group::Group;
use testkit::wait_until;

use crate::ground;

/// Longest time that a tenant makes ready.
const PATIENCE: Duration = Duration::from_secs(600);

thread_local! {
    /// Share of the full sizes of attacks.
    static SHARE: Cell<f64> = const { Cell::new(1.0) };
}

/// Has attacks be smaller.
pub fn set_share(share: f64) {
    SHARE.set(share);
}

/// A number of objects of an attack, of which there are so many in full.
pub fn size(full: usize) -> usize {
    ((full as f64 * SHARE.get()) as usize).max(1)
}

/// Start of an attack, as a tenant sees it.
pub struct Stage {
    ready: OwnedFd,
    go: OwnedFd,
}

impl Stage {
    fn new() -> Result<Self> {
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::SEMAPHORE;
        Ok(Self {
            ready: eventfd(0, flags | EventfdFlags::NONBLOCK)?,
            go: eventfd(0, flags)?,
        })
    }

    /// The caller is ready; returns when all are.
    pub fn wait(&self) -> Result<()> {
        write(&self.ready, &1u64.to_ne_bytes())?;
        read(&self.go, &mut [0; 8])?;
        Ok(())
    }
}

/// The tenants.
pub struct Troop {
    stage: Stage,
    next_user: u32,
    tenants: Vec<Child>,
    // After the tenants, who are in them.
    groups: Vec<Group>,
}

impl Troop {
    /// Nobody.
    pub fn new() -> Result<Self> {
        Ok(Self {
            stage: Stage::new()?,
            next_user: ground::BOB,
            tenants: Vec::new(),
            groups: Vec::new(),
        })
    }

    /// A user that no other attack has.
    pub fn user(&mut self) -> u32 {
        self.next_user += 1;
        self.next_user - 1
    }

    /// A process of `user`, which makes ready, waits on the stage, and attacks until it is killed.
    /// Returns when it is ready.
    pub fn tenant(&mut self, user: u32, attack: impl FnOnce(&Stage) -> Result<()>) -> Result<()> {
        self.tenant_from(user, || Ok(()), attack)
    }

    /// As [`Self::tenant`]; it does `before` while it is still root.
    pub fn tenant_from(
        &mut self,
        user: u32,
        before: impl FnOnce() -> Result<()>,
        attack: impl FnOnce(&Stage) -> Result<()>,
    ) -> Result<()> {
        self.start(|stage| {
            before()?;
            ground::become_tenant(user, &[])?;
            attack(stage)
        })
    }

    /// As [`Self::tenant`]; it may raise what it has lowered.
    pub fn member(&mut self, user: u32, attack: impl FnOnce(&Stage) -> Result<()>) -> Result<()> {
        self.start(|stage| {
            ground::become_tenant(user, &[ground::LC_GROUP])?;
            attack(stage)
        })
    }

    fn start(&mut self, run: impl FnOnce(&Stage) -> Result<()>) -> Result<()> {
        let stage = &self.stage;
        let child = Child::session(|| run(stage))?;
        let end = Instant::now() + PATIENCE;
        while let Err(errno) = read(&self.stage.ready, &mut [0; 8]) {
            ensure!(errno == Errno::AGAIN, "read an eventfd: {errno}");
            ensure!(Instant::now() < end, "not ready within {PATIENCE:?}");
            if child.wait_ended(Duration::from_millis(5)).is_ok() {
                child.join()?;
                bail!("it ended before it was ready");
            }
        }
        self.tenants.push(child);
        Ok(())
    }

    /// A cgroup that is handed over to `user`.
    pub fn group(&mut self, user: u32, name: &str) -> Result<&Group> {
        let group = Group::new(name)?;
        group.delegate(user)?;
        self.groups.push(group);
        Ok(&self.groups[self.groups.len() - 1])
    }

    /// All begin.
    pub fn go(&self) -> Result<()> {
        let count = self.tenants.len() as u64;
        write(&self.stage.go, &count.to_ne_bytes())?;
        Ok(())
    }

    /// Ends them all. An attack that has ended by itself has failed.
    pub fn end(mut self) -> Result<()> {
        let mut ended = Ok(());
        for tenant in self.tenants.drain(..) {
            if tenant.wait_ended(Duration::ZERO).is_ok() {
                ended = tenant.join().and_then(|()| bail!("a tenant stopped"));
            }
        }
        testkit::sys::end_all();
        for group in self.groups.drain(..) {
            // A process that was just killed may be in one for a moment more.
            wait_until("a tenant's cgroups are removed", || {
                Ok(remove_below(group.path()).is_ok())
            })?;
            group.remove()?;
        }
        ended
    }
}

/// Removes the cgroups that a tenant has made in its own.
fn remove_below(group: &Path) -> std::io::Result<()> {
    for entry in fs::read_dir(group)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            remove_below(&entry.path())?;
            fs::remove_dir(entry.path())?;
        }
    }
    Ok(())
}
