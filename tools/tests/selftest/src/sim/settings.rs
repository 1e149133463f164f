// SPDX-License-Identifier: GPL-2.0
//! Changes by the owner of a TSG, and their report to zernel: refusals of the two calls.

use std::os::fd::AsFd;

use bytemuck::Zeroable;
use libzernel::sim::{ContextSpec, Sim};
use libzernel::sys::abi;
use rustix::io::Errno;

use super::raw;
use super::turns::Suspended;
use crate::check_eq;
use crate::common::Lab;
use crate::harness::Outcome;

pub(super) fn refusals() -> Outcome {
    let lab = Lab::open()?;
    let (context, _) = lab.compute()?;
    let control = |context: u32, setting: u32, value: u32| {
        let mut control = abi::zernel_sim_tsg_control {
            context,
            setting,
            value,
            ..Zeroable::zeroed()
        };
        raw::call(
            lab.sim.as_fd(),
            abi::ZERNEL_SIM_NR_TSG_CONTROL,
            &mut control,
        )
    };
    let describe = |context: u32, flags: u32| {
        let mut describe = abi::zernel_sim_tsg_describe {
            context,
            flags,
            ..Zeroable::zeroed()
        };
        raw::call(
            lab.sim.as_fd(),
            abi::ZERNEL_SIM_NR_TSG_DESCRIBE,
            &mut describe,
        )
    };
    let (inval, noent) = (Err(Errno::INVAL), Err(Errno::NOENT));
    let id = context.id();
    let before = context.stats()?;
    for setting in [0, 3, u32::MAX] {
        check_eq!(control(id, setting, 1), inval, "setting {setting}");
    }
    check_eq!(control(id, 1, 0), inval, "no time slice");
    check_eq!(control(id, 2, 3), inval, "interleave level 3");
    for none in [0, id + 1, u32::MAX] {
        check_eq!(control(none, 1, 1_000), noent, "context {none}");
        check_eq!(describe(none, 1), noent, "context {none}");
    }
    check_eq!(describe(id, 4), inval, "flag 2");
    check_eq!(describe(id, 1 << 31), inval, "flag 31");
    // The context of another file is not there.
    let other = Sim::open()?.create_context(&ContextSpec::compute("other"))?;
    check_eq!(other.id(), id, "ids of two files");
    let suspended = Suspended::new(&lab.sim, 0)?;
    check_eq!(control(id, 1, 1_000), Err(Errno::AGAIN), "suspended");
    drop(suspended);
    let after = context.stats()?;
    check_eq!(
        (after.timeslice_us, after.interleave, after.slice_changes),
        (before.timeslice_us, before.interleave, before.slice_changes)
    );
    check_eq!(control(id, 1, u32::MAX), Ok(()), "the longest slice");
    check_eq!(context.stats()?.timeslice_us, u32::MAX);
    check_eq!(other.stats()?.timeslice_us, before.timeslice_us);
    Ok(())
}
