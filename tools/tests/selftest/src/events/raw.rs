// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads to wrong addresses, and signal handlers.
#![allow(unsafe_code)]

use std::os::fd::{AsRawFd, BorrowedFd};

use rustix::io::Errno;

/// Reads `length` bytes to an address of which this process cannot access all, or that belongs to
/// a page that is there for this.
pub fn read_at(fd: BorrowedFd<'_>, address: usize, length: usize) -> Result<usize, Errno> {
    // SAFETY: What the kernel can write to belongs to a page that nothing else uses.
    let read = unsafe { libc::read(fd.as_raw_fd(), address as *mut _, length) };
    usize::try_from(read)
        .map_err(|_| Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO))
}

extern "C" fn nothing(_: libc::c_int) {}

/// Has SIGUSR1 do nothing but interrupt; system calls go on afterwards if `restart`.
pub fn catch_usr1(restart: bool) {
    let handler: extern "C" fn(libc::c_int) = nothing;
    // SAFETY: All zeroes are a valid action, the handler touches nothing.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler as usize;
        action.sa_flags = if restart { libc::SA_RESTART } else { 0 };
        libc::sigaction(libc::SIGUSR1, &action, std::ptr::null_mut());
    }
}
