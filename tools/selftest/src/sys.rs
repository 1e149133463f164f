// SPDX-License-Identifier: GPL-2.0
//! The only unsafe code of the crate: forking, credentials and raw calls.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::process::{Pid, WaitOptions};

/// Forks. `None` in the new process.
///
/// The caller has no other threads, so that no lock is held in the new process.
pub fn fork() -> io::Result<Option<Pid>> {
    // SAFETY: By the above, everything can go on as in the parent.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        pid => Ok(Pid::from_raw(pid)),
    }
}

/// Ends the process at once, without running what was registered for its end.
pub fn exit(status: i32) -> ! {
    // SAFETY: Ends the process.
    unsafe { libc::_exit(status) }
}

/// Orphans below this process become its children.
pub fn become_subreaper() -> io::Result<()> {
    // SAFETY: Takes plain numbers.
    check(unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) })
}

/// Reaps every child; those that still run after a while stay.
pub fn reap_all() {
    let end = Instant::now() + Duration::from_secs(5);
    loop {
        match rustix::process::wait(WaitOptions::NOHANG) {
            Ok(Some(_)) => {}
            Ok(None) if Instant::now() < end => std::thread::sleep(Duration::from_millis(5)),
            Ok(None) | Err(_) => return,
        }
    }
}

/// Turns this process into one of user `uid`, group `gid` and the `groups`, for good; it loses
/// all capabilities unless `uid` is 0.
pub fn become_user(uid: u32, gid: u32, groups: &[u32]) -> io::Result<()> {
    // SAFETY: The array is as long as told; the rest are plain numbers.
    unsafe {
        check(libc::setgroups(groups.len(), groups.as_ptr()))?;
        check(libc::setresgid(gid, gid, gid))?;
        check(libc::setresuid(uid, uid, uid))?;
    }
    Ok(())
}

/// As [`become_user`], keeping exactly the capability of number `capability`.
pub fn become_user_with(uid: u32, gid: u32, capability: u32) -> io::Result<()> {
    // SAFETY: Takes plain numbers.
    check(unsafe { libc::prctl(libc::PR_SET_KEEPCAPS, 1, 0, 0, 0) })?;
    become_user(uid, gid, &[])?;
    set_capabilities(1 << capability)
}

/// Sets the real, effective and saved user.
pub fn set_users(real: u32, effective: u32, saved: u32) -> io::Result<()> {
    // SAFETY: Takes plain numbers.
    check(unsafe { libc::setresuid(real, effective, saved) })
}

/// Makes `mask` the permitted and effective capabilities, and nothing inheritable.
pub fn set_capabilities(mask: u64) -> io::Result<()> {
    const VERSION_3: u32 = 0x2008_0522;
    let header = [VERSION_3, 0];
    let (low, high) = (mask as u32, (mask >> 32) as u32);
    let data = [low, low, 0, high, high, 0];
    // SAFETY: The layouts of version 3: two words, and twice three words.
    let result = unsafe { libc::syscall(libc::SYS_capset, header.as_ptr(), data.as_ptr()) };
    check(i32::try_from(result).unwrap_or(-1))
}

/// Any ioctl, for calls that are wrong on purpose.
///
/// # Safety
///
/// If the kernel takes the call, `address` is valid for what it reads and writes there.
pub unsafe fn ioctl(fd: BorrowedFd<'_>, number: u32, address: usize) -> Result<i32, Errno> {
    // SAFETY: By the caller.
    let result = unsafe { libc::ioctl(fd.as_raw_fd(), number.into(), address) };
    if result < 0 {
        Err(last_errno())
    } else {
        Ok(result)
    }
}

/// An ioctl on a buffer that is as long as the number says or longer.
pub fn ioctl_bytes(fd: BorrowedFd<'_>, number: u32, bytes: &mut [u8]) -> Result<i32, Errno> {
    assert!(bytes.len() >= (number >> 16 & 0x3fff) as usize);
    // SAFETY: The kernel reads and writes as many bytes as the number says.
    unsafe { ioctl(fd, number, bytes.as_mut_ptr() as usize) }
}

fn last_errno() -> Errno {
    Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::IO)
}

fn check(result: libc::c_int) -> io::Result<()> {
    if result == -1 {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    }
}
