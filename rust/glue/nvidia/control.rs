// SPDX-License-Identifier: GPL-2.0
//! Calls of zernel to `nvidia.ko`: controls of TSGs with the driver's own privilege.
//!
//! All of it may sleep, waits for the driver's locks, and works whether or not anybody is
//! registered with the hook.

use super::raw;
use crate::status::Status;
use kernel::{
    error::to_result,
    prelude::*, //
};

/// Parameters of the time slice controls.
#[repr(C)]
struct Timeslice {
    us: u64,
}

/// Parameters of the interleave control.
#[repr(C)]
struct Interleave {
    level: u32,
}

/// Parameters of the preemption.
#[repr(C)]
struct Preempt {
    wait: u8,
    manual_timeout: u8,
    zero: u16,
    timeout_us: u32,
}

/// Parameters of the restart of a run list.
#[repr(C)]
struct Restart {
    force: u8,
    bypass_wait: u8,
}

/// A control and its data.
///
/// # Safety
///
/// The type is `repr(C)`, has the size that the header gives for the control, and every bit pattern
/// is a value of it.
unsafe trait Parameters {}

// SAFETY: 8 bytes, one integer.
unsafe impl Parameters for Timeslice {}
// SAFETY: 4 bytes, one integer.
unsafe impl Parameters for Interleave {}
// SAFETY: 8 bytes, integers without padding.
unsafe impl Parameters for Preempt {}
// SAFETY: 2 bytes, integers without padding.
unsafe impl Parameters for Restart {}

static_assert!(size_of::<Timeslice>() == 8);
static_assert!(size_of::<Interleave>() == 4);
static_assert!(size_of::<Preempt>() == 8);
static_assert!(size_of::<Restart>() == 2);

/// Hands a control to the driver. `Ok` has the driver's answer.
fn control<P: Parameters>(tsg: u64, cmd: u32, params: &mut P) -> Result<Status> {
    let mut status = Status::NONE.0;
    let address = core::ptr::from_mut(params).cast();
    // SAFETY: The parameters have the size that is told, and may become any bit pattern.
    to_result(unsafe {
        raw::nv_zernel_tsg_control(tsg, cmd, address, size_of::<P>() as u32, &mut status)
    })?;
    Ok(Status(status))
}

/// Gives a TSG a time slice in µs.
pub(crate) fn set_timeslice(tsg: u64, us: u64) -> Result<Status> {
    control(
        tsg,
        raw::NV_ZERNEL_CTRL_SET_TIMESLICE,
        &mut Timeslice { us },
    )
}

/// The time slice of a TSG in µs, as it was last asked for.
pub(crate) fn timeslice(tsg: u64) -> Result<(Status, u64)> {
    let mut params = Timeslice { us: 0 };
    let status = control(tsg, raw::NV_ZERNEL_CTRL_GET_TIMESLICE, &mut params)?;
    Ok((status, params.us))
}

/// Gives a TSG an interleave level.
pub(crate) fn set_interleave(tsg: u64, level: u32) -> Result<Status> {
    control(
        tsg,
        raw::NV_ZERNEL_CTRL_SET_INTERLEAVE,
        &mut Interleave { level },
    )
}

/// The interleave level that was last given to a TSG.
pub(crate) fn interleave(tsg: u64) -> Result<u32> {
    let mut level = 0;
    // SAFETY: FFI; `level` is valid for writes.
    to_result(unsafe { raw::nv_zernel_tsg_interleave(tsg, &mut level) })?;
    Ok(level)
}

/// Takes the engine away from a TSG and waits for that, `timeout_us` µs at most.
pub(crate) fn preempt(tsg: u64, timeout_us: u32) -> Result<Status> {
    let mut params = Preempt {
        wait: 1,
        manual_timeout: 1,
        zero: 0,
        timeout_us,
    };
    control(tsg, raw::NV_ZERNEL_CTRL_PREEMPT, &mut params)
}

/// Ends the running slice of the run list of a TSG, unless it is that one's, and has the list begin
/// anew. Does not wait for it.
pub(crate) fn restart(tsg: u64) -> Result<Status> {
    let mut params = Restart {
        force: 0,
        bypass_wait: 1,
    };
    control(tsg, raw::NV_ZERNEL_CTRL_RESTART_RUNLIST, &mut params)
}

/// Lets the channels of a TSG run, or not.
pub(crate) fn enable(tsg: u64, enable: bool) -> Result<Status> {
    let mut status = Status::NONE.0;
    // SAFETY: FFI; `status` is valid for writes.
    to_result(unsafe { raw::nv_zernel_tsg_enable(tsg, enable, &mut status) })?;
    Ok(Status(status))
}

/// Has the run lists of a GPU heed interleave levels, or gives them their policy back.
pub(crate) fn heed_interleave(gpu: u32, on: bool) -> Result<Status> {
    let mut status = Status::NONE.0;
    // SAFETY: FFI; `status` is valid for writes.
    to_result(unsafe { raw::nv_zernel_runlists_interleave(gpu, on, &mut status) })?;
    Ok(Status(status))
}

fn count() -> raw::nv_zernel_counts {
    let mut counts = raw::nv_zernel_counts {
        size: size_of::<raw::nv_zernel_counts>() as u32,
        ..Default::default()
    };
    // SAFETY: Valid for writes, and as long as it tells.
    unsafe { raw::nv_zernel_count(&mut counts) };
    counts
}

/// GPUs and TSGs in the table of the hook.
pub(crate) fn population() -> (u32, u32) {
    let counts = count();
    (counts.gpus, counts.tsgs)
}

/// The counts of the hook's table, with the names of the header.
pub(crate) fn counts() -> [(&'static str, u32); 9] {
    let counts = count();
    [
        ("files", counts.files),
        ("clients", counts.clients),
        ("devices", counts.devices),
        ("subdevices", counts.subdevices),
        ("tsg_handles", counts.tsg_handles),
        ("tsgs", counts.tsgs),
        ("channels", counts.channels),
        ("gpus", counts.gpus),
        ("forgotten", counts.forgotten),
    ]
}
