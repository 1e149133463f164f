// SPDX-License-Identifier: GPL-2.0
//! Contexts: ended, their memory and their eventfds.

use super::must_be_zero;
use crate::{
    file::File,
    glue::eventfd::EventFd,
    uapi::*, //
};
use kernel::prelude::*;

/// Ends a context.
pub(super) fn destroy(file: &File, io: &zernel_sim_context_destroy) -> Result {
    must_be_zero(&[io.reserved])?;
    file.remove(io.context)
}

/// Adds memory of the program to the words of a context.
pub(super) fn memory(file: &File, io: &zernel_sim_memory) -> Result {
    must_be_zero(&[io.reserved])?;
    let owned = file.context(io.context)?;
    owned.context.words.add(io.address, io.length)
}

/// Sets the eventfd of a channel.
pub(super) fn eventfd(file: &File, io: &zernel_sim_eventfd) -> Result {
    must_be_zero(&[io.reserved])?;
    let owned = file.context(io.context)?;
    file.card(owned.gpu)?
        .at_present(|model| model.channel_stats(owned.tsg, io.channel))?;
    let fd = match io.fd {
        -1 => None,
        fd => Some(EventFd::get(fd)?),
    };
    drop(owned.context.set_eventfd(io.channel, fd));
    Ok(())
}
