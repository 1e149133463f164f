// SPDX-License-Identifier: GPL-2.0
//! Clocks.

#[cfg(zernel_core)]
use kernel::prelude::*;

/// `CLOCK_MONOTONIC` in ns.
pub(crate) fn now_ns() -> u64 {
    // SAFETY: FFI without conditions.
    u64::try_from(unsafe { kernel::bindings::ktime_get() }).unwrap_or(0)
}

/// Sleeps for at least `ms` milliseconds, uninterruptibly. Process context.
#[cfg(zernel_core)]
pub(crate) fn sleep_ms(ms: u32) {
    // SAFETY: The caller may sleep.
    unsafe { kernel::bindings::msleep(ms) };
}

/// Waits for about `ms` milliseconds, or until the thread is killed. Process context.
#[cfg(zernel_core)]
pub(crate) fn wait_killable(ms: u32) {
    let jiffies = kernel::time::msecs_to_jiffies(ms);
    let jiffies = c_long::try_from(jiffies).unwrap_or(c_long::MAX);
    // SAFETY: The caller may sleep.
    unsafe { kernel::bindings::schedule_timeout_killable(jiffies) };
}

/// The caller's `CLOCK_MONOTONIC` less the host's, in ns: other than zero in a time namespace.
#[cfg(zernel_core)]
pub(crate) fn offset_of_caller() -> i64 {
    extern "C" {
        fn zernel_helper_clock_offset() -> i64;
    }
    // SAFETY: FFI without conditions.
    unsafe { zernel_helper_clock_offset() }
}
