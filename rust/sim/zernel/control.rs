// SPDX-License-Identifier: GPL-2.0
//! Control of a TSG by its owner, and of a GPU by tests: faults of the provider, suspend, TSGs that
//! become others.

use super::{
    create::description,
    provider::Change, //
};
use crate::{
    file::File,
    glue::{
        provider_side::{
            Setting,
            Verdict, //
        },
        sim::task, //
    },
    ioctl::arg::must_be_zero,
    model::{
        measures::Us,
        tsg::Interleave, //
    },
    uapi::*, //
};
use kernel::prelude::*;

/// Longest delay of a fault: 10 s.
const MAX_DELAY: u64 = 10_000_000_000;

/// Makes provider operations fail or take longer.
pub(super) fn fault(file: &File, io: &mut zernel_sim_fault) -> Result {
    if !task::may_administrate() {
        return Err(EPERM);
    }
    must_be_zero(&[io.flags & !ZERNEL_SIM_FAULT_QUERY, io.reserved])?;
    let mut faults = file.hub.inner().faults(io.gpu)?.lock();
    let fault = faults.of(io.op)?;
    if io.flags & ZERNEL_SIM_FAULT_QUERY == 0 {
        // -512 to -530 are for the kernel alone.
        let refused = !(-4095..=0).contains(&io.error) || (-530..=-512).contains(&io.error);
        if refused || io.delay_ns > MAX_DELAY {
            return Err(EINVAL);
        }
        fault.count = io.count;
        fault.error = io.error;
        fault.delay = io.delay_ns;
        fault.tsg = io.tsg;
    }
    io.count = fault.count;
    io.injected = fault.injected;
    Ok(())
}

/// Stops a GPU, or lets it go on.
pub(super) fn suspend(file: &File, io: &zernel_sim_suspend) -> Result {
    if !task::may_administrate() {
        return Err(EPERM);
    }
    let card = file.card(io.gpu)?;
    let suspended = match io.suspend {
        ZERNEL_SIM_CONTINUE => false,
        ZERNEL_SIM_SUSPEND => true,
        ZERNEL_SIM_FORGET => {
            file.hub.inner().forget(card)?;
            false
        }
        _ => return Err(EINVAL),
    };
    card.with(|model, now, sink| model.set_suspended(now, suspended, sink));
    if suspended {
        file.hub.gpu_suspended(u64::from(io.gpu));
    } else {
        file.hub.gpu_refresh(u64::from(io.gpu));
    }
    Ok(())
}

/// Tells `zernel.ko` that a TSG is described otherwise now.
pub(super) fn describe(file: &File, io: &zernel_sim_tsg_describe) -> Result {
    if !task::may_administrate() {
        return Err(EPERM);
    }
    let known = ZERNEL_SIM_TSG_COMPUTE | ZERNEL_SIM_TSG_SHARED;
    must_be_zero(&[io.flags & !known, io.reserved])?;
    let owned = file.context(io.context)?;
    let stats = file
        .card(owned.gpu)?
        .at_present(|model| model.tsg_stats(owned.tsg))?;
    let engine_type = match stats.engine {
        0 => ZERNEL_SIM_ENGINE_COMPUTE,
        _ => ZERNEL_SIM_ENGINE_COPY,
    };
    let mut tsg = description(&owned, engine_type, stats.engine, io.channels);
    tsg.compute = io.flags & ZERNEL_SIM_TSG_COMPUTE != 0;
    tsg.shared = io.flags & ZERNEL_SIM_TSG_SHARED != 0;
    file.hub.tsg_changed(u64::from(owned.gpu), &tsg)
}

/// Changes the caller's own TSG, if `zernel.ko` does not mind.
pub(super) fn control(file: &File, io: &zernel_sim_tsg_control) -> Result {
    must_be_zero(&[io.reserved])?;
    let (setting, change) = match io.setting {
        ZERNEL_SIM_SETTING_TIMESLICE if io.value != 0 => {
            (Setting::Timeslice, Change::Timeslice(Us(io.value)))
        }
        ZERNEL_SIM_SETTING_INTERLEAVE => {
            let level = Interleave::new(io.value).ok_or(EINVAL)?;
            (Setting::Interleave, Change::Interleave(level))
        }
        ZERNEL_SIM_SETTING_ENABLED if io.value <= 1 => {
            (Setting::Schedule, Change::Enabled(io.value == 1))
        }
        ZERNEL_SIM_SETTING_START if io.value == 1 => (Setting::Start, Change::Enabled(true)),
        _ => return Err(EINVAL),
    };
    let owned = file.context(io.context)?;
    let (gpu, tsg) = (u64::from(owned.gpu), owned.tsg.0);
    if file.hub.user_control(gpu, tsg, setting) == Verdict::Deny {
        return Err(EPERM);
    }
    let changed = file.hub.inner().change(gpu, tsg, change);
    // After any answer: it may be too old by now.
    file.hub.changed(gpu, tsg, setting);
    changed
}
