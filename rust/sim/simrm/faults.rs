// SPDX-License-Identifier: GPL-2.0
//! Registers that lie.

use crate::{
    file::File,
    glue::sim::task,
    ioctl::arg::must_be_zero,
    uapi::*, //
};
use kernel::prelude::*;

/// Makes the registers of a GPU lie, or tell the truth again.
pub(super) fn registers(file: &File, io: &zernel_sim_registers) -> Result {
    if !task::may_administrate() {
        return Err(EPERM);
    }
    must_be_zero(&[io.reserved])?;
    match io.fault {
        ZERNEL_SIM_REGISTERS_TRUE | ZERNEL_SIM_REGISTERS_VALUE => {
            must_be_zero(&[io.context, io.channel])?;
            let lie = io.fault == ZERNEL_SIM_REGISTERS_VALUE;
            if !lie {
                must_be_zero(&[io.value])?;
            }
            let card = file.card(io.gpu)?;
            card.listen(|listener| listener.lie(lie.then_some(io.value)));
            card.at_present(|_| ());
        }
        ZERNEL_SIM_REGISTERS_PENDING | ZERNEL_SIM_REGISTERS_DOORBELL => {
            must_be_zero(&[io.gpu, io.value])?;
            let owned = file.context(io.context)?;
            let card = file.card(owned.gpu)?;
            if io.fault == ZERNEL_SIM_REGISTERS_DOORBELL {
                card.with(|model, now, sink| {
                    model.lose_doorbell(now, owned.tsg, io.channel, sink)
                })?;
                return Ok(());
            }
            card.listen(|listener| listener.lie_pending(owned.tsg, io.channel))?;
            card.at_present(|_| ());
        }
        _ => return Err(EINVAL),
    }
    Ok(())
}
