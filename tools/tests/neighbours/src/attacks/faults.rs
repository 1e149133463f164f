// SPDX-License-Identifier: MIT OR Apache-2.0
//! A tenant whose TSG's driver calls fail, over and over.
//!
//! `EAGAIN` is not among their answers: by it a driver says that the GPU sleeps, which a tenant
//! cannot bring about.

use std::time::Duration;

use anyhow::Result;
use libzernel::sim::{Fault, Operation, Sim};
use libzernel::{Target, Zernel};
use rustix::io::Errno;
use testkit::passing;

use super::{contexts, set_to_and_fro};
use crate::troop::Troop;

/// Every setting of one TSG fails, by its value or by the driver, while its owner sets its class to and fro.
/// That it fails is for root to arrange here; a broken channel does the same on a real GPU.
pub fn failing(troop: &mut Troop) -> Result<()> {
    let user = troop.user();
    for (operation, errno) in [
        (Operation::SetTimeslice, Errno::INVAL),
        (Operation::SetInterleave, Errno::IO),
    ] {
        let (here, there) = passing::pair()?;
        troop.member(user, move |stage| {
            let (zernel, sim) = (Zernel::open()?, Sim::open()?);
            let contexts = contexts(&sim, 1)?;
            passing::send_number(&there, contexts[0].tsg())?;
            stage.wait()?;
            set_to_and_fro(&zernel, &Target::current_process())
        })?;
        let tsg = passing::receive_number(&here)?;
        Sim::open()?.inject(&Fault {
            gpu: 0,
            operation,
            count: u32::MAX,
            error: Some(errno),
            delay: Duration::ZERO,
            tsg: Some(tsg),
        })?;
    }
    Ok(())
}
