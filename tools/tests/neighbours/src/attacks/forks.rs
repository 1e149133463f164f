// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tracked processes that make processes and threads all the time.

use anyhow::{Context as _, Result};
use libzernel::{Target, Tracking};
use testkit::sys;

use super::Zernel;
use crate::troop::Troop;

/// Processes that do it, of as many users.
const STORMS: usize = 2;

/// Processes and threads that live for a moment, tracked or not.
pub fn storm(troop: &mut Troop, with: Zernel) -> Result<()> {
    for _ in 0..STORMS {
        let user = troop.user();
        troop.tenant(user, |stage| {
            if with == Zernel::Used {
                let zernel = libzernel::Zernel::open()?;
                zernel.track(&Target::current_process(), Tracking::ML_CHILDREN)?;
            }
            stage.wait()?;
            loop {
                if sys::fork()?.is_none() {
                    let thread = std::thread::spawn(|| {});
                    // It may not have been made.
                    let _ = thread.join();
                    sys::exit(0);
                }
                rustix::process::wait(rustix::process::WaitOptions::empty())
                    .context("wait for a process")?;
            }
        })?;
    }
    Ok(())
}
