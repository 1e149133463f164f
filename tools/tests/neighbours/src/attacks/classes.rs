// SPDX-License-Identifier: MIT OR Apache-2.0
//! Classes of targets with very many TSGs.

use anyhow::{Context as _, Result};
use libzernel::sim::Sim;
use libzernel::{Level, Target, Zernel};

use super::{contexts, set_to_and_fro};
use crate::troop::{size, Troop};

/// Users whose TSGs are in one cgroup, as the subordinate users of a container are.
const USERS: usize = 4;

/// TSGs of each: fewer than a user can have, so that the GPU has places for others.
const CONTEXTS: usize = 960;

/// Processes that change classes at full rate, of as many users.
const STORMS: usize = 4;

/// The owner of a cgroup, in which processes of all users have all TSGs that they can, sets its
/// class to and fro.
pub fn of_cgroup(troop: &mut Troop) -> Result<()> {
    let owner = troop.user();
    let path = troop.group(owner, "classes")?.path().to_owned();
    for _ in 0..USERS {
        let user = troop.user();
        let procs = path.join("cgroup.procs");
        troop.tenant_from(
            user,
            || Ok(std::fs::write(procs, "0")?),
            |stage| {
                let sim = Sim::open()?;
                let _contexts = contexts(&sim, size(CONTEXTS))?;
                stage.wait()?;
                loop {
                    std::thread::sleep(testkit::SOON);
                }
            },
        )?;
    }
    troop.member(owner, |stage| {
        let zernel = Zernel::open()?;
        let group = Target::cgroup(path)?;
        stage.wait()?;
        set_to_and_fro(&zernel, &group)
    })
}

/// Class changes at full rate, of everything that is a tenant's own.
pub fn storm(troop: &mut Troop) -> Result<()> {
    for _ in 0..STORMS {
        let user = troop.user();
        troop.member(user, |stage| {
            let (zernel, sim) = (Zernel::open()?, Sim::open()?);
            let _contexts = contexts(&sim, 1)?;
            let process = Target::current_process();
            let tsg = zernel
                .tsgs_of(&process)
                .next()
                .context("no TSG is listed")??;
            let targets = [process, Target::current_thread(), Target::Tsg(tsg.id)];
            stage.wait()?;
            loop {
                for target in &targets {
                    zernel.set_class(target, Level::BE)?;
                }
                for target in &targets {
                    zernel.clear_class(target)?;
                }
            }
        })?;
    }
    Ok(())
}
