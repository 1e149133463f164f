// SPDX-License-Identifier: GPL-2.0
//! The commands of `/dev/zernel-sim` that a provider of `zernel.ko` has.

use super::{
    control,
    create, //
};
use crate::{
    file::File,
    glue::errno,
    ioctl::arg::Arg,
    uapi::*, //
};
use kernel::prelude::*;

/// Capabilities that come with them.
pub(crate) const CAPABILITIES: &[u64] = &[
    ZERNEL_SIM_CAP_FAULTS as u64,
    ZERNEL_SIM_CAP_PROVIDER as u64,
    ZERNEL_SIM_CAP_CONTROL as u64,
];

/// Does a command.
pub(crate) fn dispatch(file: &File, number: u32, arg: Arg) -> Result {
    match number {
        ZERNEL_SIM_NR_CONTEXT_CREATE => create::create(file, arg),
        ZERNEL_SIM_NR_FAULT => arg.update(|io| control::fault(file, io)),
        ZERNEL_SIM_NR_SUSPEND => control::suspend(file, &arg.read()?),
        ZERNEL_SIM_NR_TSG_CONTROL => control::control(file, &arg.read()?),
        ZERNEL_SIM_NR_TSG_DESCRIBE => control::describe(file, &arg.read()?),
        ZERNEL_SIM_NR_CONTEXT_ATTACH | ZERNEL_SIM_NR_REGISTERS => Err(errno::unsupported()),
        _ => Err(ENOTTY),
    }
}
