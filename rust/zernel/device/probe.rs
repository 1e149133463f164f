// SPDX-License-Identifier: GPL-2.0
//! Probes of functions in which threads wait for the GPU: begin, end.

use super::{
    track::refused,
    Client, //
};
use crate::{
    error::Failure,
    glue::{
        abi,
        identity,
        uapi, //
    },
};
use kernel::prelude::*;

/// Probes a function of a library.
pub(super) fn probe(_: &Client, _: &mut uapi::zernel_probe) -> Result {
    Err(ENOTTY)
}

/// Probes a function of a file.
pub(super) fn v0_add(client: &Client, arg: usize, size: usize) -> Result {
    let mut probe: uapi::zernel_v0_probe = abi::read(arg, size)?;
    if probe.flags != 0 || probe.probe != 0 || probe.reserved != 0 {
        return Err(EINVAL);
    }
    if !identity::caller_sees_all() {
        return Err(refused(Failure::NotPermitted));
    }
    // Makes sure that the answer can be written, before anything changes.
    abi::write(arg, size, &probe)?;
    let mut probes = client.probes.lock();
    probe.probe = probes.add(probe.fd, probe.offset).map_err(refused)?;
    drop(probes);
    abi::write(arg, size, &probe).inspect_err(|_| {
        // It is there, unless another thread has guessed its number.
        let _ = client.probes.lock().remove(probe.probe);
    })
}

/// Ends that.
pub(super) fn v0_remove(client: &Client, arg: usize, size: usize) -> Result {
    let probe: uapi::zernel_v0_probe = abi::read(arg, size)?;
    if probe.fd != 0 || probe.flags != 0 || probe.offset != 0 || probe.reserved != 0 {
        return Err(EINVAL);
    }
    Ok(client.probes.lock().remove(probe.probe)?)
}
