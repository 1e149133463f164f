// SPDX-License-Identifier: GPL-2.0
//! The commands of `/dev/zernel-sim`, by type and number.

pub(super) mod arg;
mod context;
mod query;
mod submit;
pub(super) mod trace;

use super::{
    file::File,
    host::commands,
    uapi::*, //
};
use arg::{
    must_be_zero,
    Arg, //
};
use kernel::{
    ioctl::{
        _IOC_NR,
        _IOC_SIZE,
        _IOC_TYPE, //
    },
    prelude::*, //
};

/// Does a command. Those that only this module has are its host's.
pub(super) fn dispatch(file: &File, cmd: u32, address: usize) -> Result {
    if _IOC_TYPE(cmd) != ZERNEL_SIM_IOC_TYPE {
        return Err(ENOTTY);
    }
    let arg = Arg {
        address,
        size: _IOC_SIZE(cmd),
    };
    match _IOC_NR(cmd) {
        ZERNEL_SIM_NR_VERSION => arg.update(|out| query::version(file, out)),
        ZERNEL_SIM_NR_GPU_INFO => arg.update(|io| query::gpu_info(file, io)),
        ZERNEL_SIM_NR_CONTEXT_DESTROY => context::destroy(file, &arg.read()?),
        ZERNEL_SIM_NR_SUBMIT => submit::submit(file, arg),
        ZERNEL_SIM_NR_WAIT => arg.update(|io| submit::wait(file, io)),
        ZERNEL_SIM_NR_EVENTFD => context::eventfd(file, &arg.read()?),
        ZERNEL_SIM_NR_DOORBELL => submit::doorbell(file, &arg.read()?),
        ZERNEL_SIM_NR_COMPLETIONS => submit::completions(file, arg),
        ZERNEL_SIM_NR_TSG_STATS => arg.update(|io| query::tsg_stats(file, io)),
        ZERNEL_SIM_NR_ENGINE_STATS => arg.update(|io| query::engine_stats(file, io)),
        ZERNEL_SIM_NR_TRACE_START => trace::start(file, &arg.read()?),
        ZERNEL_SIM_NR_TRACE_READ => trace::read(file, arg),
        ZERNEL_SIM_NR_MEMORY => context::memory(file, &arg.read()?),
        number => commands::dispatch(file, number, arg),
    }
}
