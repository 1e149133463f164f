// SPDX-License-Identifier: MIT OR Apache-2.0
//! The one thing that this program needs of the kernel and that no safe crate has.
#![allow(unsafe_code)]

use std::io;

/// Gives the calling thread, and those that it starts, the lowest real-time priority.
///
/// Errors: as `sched_setscheduler()`.
pub fn run_in_real_time() -> io::Result<()> {
    let param = libc::sched_param { sched_priority: 1 };
    // SAFETY: `param` is valid for reads for the length of the call; 0 is the calling thread.
    match unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &param) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
