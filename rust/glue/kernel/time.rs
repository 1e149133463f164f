// SPDX-License-Identifier: GPL-2.0
//! Clocks.

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
