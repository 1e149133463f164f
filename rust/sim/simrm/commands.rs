// SPDX-License-Identifier: GPL-2.0
//! The commands of `/dev/zernel-sim` for GPUs that belong to NVIDIA's driver.

use super::{
    attach,
    faults, //
};
use crate::{
    file::File,
    glue::errno,
    ioctl::arg::Arg,
    uapi::*, //
};
use kernel::prelude::*;

/// Capabilities that come with them.
pub(crate) const CAPABILITIES: &[u64] = &[ZERNEL_SIM_CAP_ATTACH as u64];

/// Does a command.
pub(crate) fn dispatch(file: &File, number: u32, arg: Arg) -> Result {
    match number {
        ZERNEL_SIM_NR_CONTEXT_ATTACH => attach::attach(file, arg),
        ZERNEL_SIM_NR_REGISTERS => faults::registers(file, &arg.read()?),
        ZERNEL_SIM_NR_CONTEXT_CREATE
        | ZERNEL_SIM_NR_FAULT
        | ZERNEL_SIM_NR_SUSPEND
        | ZERNEL_SIM_NR_TSG_CONTROL
        | ZERNEL_SIM_NR_TSG_DESCRIBE => Err(errno::unsupported()),
        _ => Err(ENOTTY),
    }
}
