// SPDX-License-Identifier: GPL-2.0
//! Probes of functions in which threads wait for the GPU.

use super::client::Client;
use crate::{
    error::Failure,
    glue::{
        probe,
        uapi, //
    },
};
use kernel::prelude::*;

/// Probes a function of a library.
pub(super) fn probe(client: &Client, asked: &mut uapi::zernel_probe) -> Result {
    if asked.flags != 0 {
        return Err(EINVAL);
    }
    if !probe::caller_may() {
        return Err(EPERM);
    }
    let handle = client.handles.next()?;
    let mut probes = client.probes.lock();
    probes
        .add(handle, asked.fd, asked.offset)
        .map_err(Failure::errno)?;
    asked.handle = handle;
    Ok(())
}
