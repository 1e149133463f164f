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

/// Calls the driver. `Ok` has its answer.
fn answer(call: impl FnOnce(*mut u32) -> c_int) -> Result<Status> {
    let mut status = Status::NONE.0;
    to_result(call(&mut status))?;
    Ok(Status(status))
}

/// Without any that is meant.
fn settings() -> raw::nv_zernel_tsg_settings {
    raw::nv_zernel_tsg_settings {
        size: size_of::<raw::nv_zernel_tsg_settings>() as u32,
        ..Default::default()
    }
}

fn configure(tsg: u64, mut settings: raw::nv_zernel_tsg_settings) -> Result<Status> {
    // SAFETY: FFI; both are valid for writes, and the settings as long as they tell.
    answer(|status| unsafe { raw::nv_zernel_tsg_configure(tsg, &mut settings, status) })
}

fn query(tsg: u64, field: u32) -> Result<(Status, raw::nv_zernel_tsg_settings)> {
    let mut settings = settings();
    settings.fields = field;
    // SAFETY: FFI; both are valid for writes, and the settings as long as they tell.
    let status = answer(|status| unsafe { raw::nv_zernel_tsg_query(tsg, &mut settings, status) })?;
    Ok((status, settings))
}

/// Gives a TSG a time slice in µs.
pub(crate) fn set_timeslice(tsg: u64, us: u64) -> Result<Status> {
    configure(
        tsg,
        raw::nv_zernel_tsg_settings {
            fields: raw::NV_ZERNEL_TSG_TIMESLICE,
            timeslice_us: us,
            ..settings()
        },
    )
}

/// The time slice of a TSG in µs, as it was last asked for.
pub(crate) fn timeslice(tsg: u64) -> Result<(Status, u64)> {
    let (status, settings) = query(tsg, raw::NV_ZERNEL_TSG_TIMESLICE)?;
    Ok((status, settings.timeslice_us))
}

/// Gives a TSG an interleave level.
pub(crate) fn set_interleave(tsg: u64, level: u32) -> Result<Status> {
    configure(
        tsg,
        raw::nv_zernel_tsg_settings {
            fields: raw::NV_ZERNEL_TSG_INTERLEAVE,
            interleave: level,
            ..settings()
        },
    )
}

/// The interleave level that was last given to a TSG.
pub(crate) fn interleave(tsg: u64) -> Result<u32> {
    let (_, settings) = query(tsg, raw::NV_ZERNEL_TSG_INTERLEAVE)?;
    Ok(settings.interleave)
}

/// Lets the channels of a TSG run, or not.
pub(crate) fn enable(tsg: u64, enable: bool) -> Result<Status> {
    configure(
        tsg,
        raw::nv_zernel_tsg_settings {
            fields: raw::NV_ZERNEL_TSG_ENABLED,
            enabled: u32::from(enable),
            ..settings()
        },
    )
}

/// Takes the engine away from a TSG and waits for that, `timeout_us` µs at most.
pub(crate) fn preempt(tsg: u64, timeout_us: u32) -> Result<Status> {
    // SAFETY: FFI; `status` is valid for writes.
    answer(|status| unsafe { raw::nv_zernel_tsg_preempt(tsg, timeout_us, status) })
}

/// Ends the running slice of the run list of a TSG, unless it is that one's, and has the list begin
/// anew. Does not wait for it.
pub(crate) fn restart(tsg: u64) -> Result<Status> {
    // SAFETY: FFI; `status` is valid for writes.
    answer(|status| unsafe { raw::nv_zernel_tsg_restart(tsg, status) })
}

/// Has the run lists of a GPU heed interleave levels, or gives them their policy back.
pub(crate) fn heed_interleave(gpu: u32, on: bool) -> Result<Status> {
    // SAFETY: FFI; `status` is valid for writes.
    answer(|status| unsafe { raw::nv_zernel_runlists_interleave(gpu, on, status) })
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

#[cfg(zernel_kunit)]
#[kernel::macros::kunit_tests(zernel_nvidia_control)]
mod tests {
    use super::*;

    const ALL: u32 =
        raw::NV_ZERNEL_TSG_TIMESLICE | raw::NV_ZERNEL_TSG_INTERLEAVE | raw::NV_ZERNEL_TSG_ENABLED;

    fn all() -> raw::nv_zernel_tsg_settings {
        raw::nv_zernel_tsg_settings {
            fields: ALL,
            timeslice_us: 1000,
            interleave: 2,
            enabled: 1,
            ..settings()
        }
    }

    /// The errors of both functions.
    fn errors(mut with: raw::nv_zernel_tsg_settings) -> (Option<Error>, Option<Error>) {
        let mut same = with;
        // SAFETY: FFI; both are valid for writes, and the settings are never shorter than needed.
        let configured =
            answer(|status| unsafe { raw::nv_zernel_tsg_configure(0, &mut with, status) });
        // SAFETY: As above.
        let queried = answer(|status| unsafe { raw::nv_zernel_tsg_query(0, &mut same, status) });
        (configured.err(), queried.err())
    }

    #[test]
    fn settings_are_checked_before_the_tsg() {
        let (good, bad) = (Some(ENOENT), Some(EINVAL));
        assert_eq!(errors(all()), (good, good));
        let changed = |change: fn(&mut raw::nv_zernel_tsg_settings)| {
            let mut with = all();
            change(&mut with);
            errors(with)
        };
        assert_eq!(changed(|with| with.size -= 1), (bad, bad));
        assert_eq!(changed(|with| with.fields = 0), (bad, bad));
        assert_eq!(changed(|with| with.reserved = 1), (bad, bad));
        assert_eq!(changed(|with| with.fields = ALL + 1), (bad, bad));
        // A value counts where it is meant.
        assert_eq!(changed(|with| with.interleave = 3), (bad, good));
        assert_eq!(changed(|with| with.enabled = 2), (bad, good));
        let some = |with: &mut raw::nv_zernel_tsg_settings| {
            with.fields = raw::NV_ZERNEL_TSG_TIMESLICE;
            with.interleave = 3;
        };
        assert_eq!(changed(some), (good, good));
    }

    #[test]
    fn a_tsg_that_is_not_there_is_told() {
        assert_eq!(preempt(0, 1000).err(), Some(ENOENT));
        assert_eq!(restart(0).err(), Some(ENOENT));
        assert_eq!(enable(0, false).err(), Some(ENOENT));
        assert_eq!(interleave(0).err(), Some(ENOENT));
    }
}
