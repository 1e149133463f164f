// SPDX-License-Identifier: MIT OR Apache-2.0
//! The functions of `runtime.h` for counters.

use super::{abi, c_int, call, handle, Place, Sized32};

// SAFETY: Integers.
unsafe impl Sized32 for abi::zernel_counters {}
// SAFETY: Integers.
unsafe impl Sized32 for abi::zernel_stats {}
// SAFETY: Integers.
unsafe impl Sized32 for abi::zernel_usage {}

/// Bytes of the first version of each structure.
pub(super) const COUNTERS: usize = 56;
pub(super) const STATS: usize = 112;
pub(super) const USAGE: usize = 32;

/// # Safety
///
/// As the header says, here and below.
#[no_mangle]
pub(super) unsafe extern "C" fn zernel_get_stats(
    runtime: *mut abi::zernel_runtime,
    stats: *mut abi::zernel_stats,
) -> c_int {
    call(|| {
        // SAFETY: By the caller.
        let handle = unsafe { handle(runtime)? };
        // SAFETY: By the caller.
        let place = unsafe { Place::at(stats, STATS, |stats| stats.reserved)? };
        let read_from = handle.runtime().stats()?.unwrap_or_default();
        let told = abi::zernel_stats {
            size: place.size,
            reserved: 0,
            begun: read_from.begun,
            done: read_from.done,
            cancelled: read_from.cancelled,
            expired: read_from.expired,
            ended: read_from.over() - read_from.done - read_from.cancelled - read_from.expired,
            in_flight: read_from.in_flight,
            triggers: read_from.triggers,
            early: read_from.early,
            late: read_from.late,
            lost_ns: read_from.lost_ns,
            violations: read_from.violations,
            latency_p50_ns: read_from.latency_p50_ns,
            latency_p99_ns: read_from.latency_p99_ns,
        };
        place.store(&told);
        Ok(())
    })
}

#[no_mangle]
pub(super) unsafe extern "C" fn zernel_get_counters(
    runtime: *mut abi::zernel_runtime,
    counters: *mut abi::zernel_counters,
) -> c_int {
    call(|| {
        // SAFETY: By the caller.
        let read_from = unsafe { handle(runtime)? }.runtime().counters();
        // SAFETY: By the caller.
        let place = unsafe { Place::at(counters, COUNTERS, |counters| counters.reserved)? };
        let told = abi::zernel_counters {
            size: place.size,
            reserved: 0,
            begun: read_from.begun,
            no_lane: read_from.no_lane,
            refused: read_from.refused,
            lost: read_from.lost,
            forked: read_from.forked,
            failed_calls: read_from.failed_calls,
        };
        place.store(&told);
        Ok(())
    })
}

#[no_mangle]
pub(super) unsafe extern "C" fn zernel_get_usage(
    runtime: *mut abi::zernel_runtime,
    usage: *mut abi::zernel_usage,
) -> c_int {
    call(|| {
        // SAFETY: By the caller.
        let handle = unsafe { handle(runtime)? };
        // SAFETY: By the caller.
        let place = unsafe { Place::at(usage, USAGE, |usage| usage.reserved)? };
        let read_from = handle.runtime().usage()?.unwrap_or_default();
        place.store(&abi::zernel_usage {
            size: place.size,
            reserved: 0,
            busy_ns: read_from.busy_ns,
            at_ns: read_from.at_ns,
            times_preempted: read_from.times_preempted,
        });
        Ok(())
    })
}

/// The functions have the types that the header declares.
const _: () = {
    let _: [unsafe extern "C" fn(_, _) -> _; 2] = [abi::zernel_get_counters, zernel_get_counters];
    let _: [unsafe extern "C" fn(_, _) -> _; 2] = [abi::zernel_get_stats, zernel_get_stats];
    let _: [unsafe extern "C" fn(_, _) -> _; 2] = [abi::zernel_get_usage, zernel_get_usage];
};
