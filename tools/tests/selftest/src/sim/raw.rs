// SPDX-License-Identifier: MIT OR Apache-2.0
//! Calls of the software GPU and mappings of devices that no safe wrapper offers.
#![allow(unsafe_code)]

use std::ffi::c_void;
use std::os::fd::BorrowedFd;
use std::ptr;

use bytemuck::Pod;
use libzernel::sys::abi;
use rustix::io::Errno;
use rustix::mm::{
    madvise, mmap, mprotect, mremap, munmap, Advice, MapFlags, MprotectFlags, MremapFlags,
    ProtFlags,
};

use crate::sys;

/// Size of a page.
pub const PAGE: usize = 4096;

/// Number of a call of the software GPU with a structure of `size` bytes.
pub fn number(nr: u32, size: usize) -> u32 {
    typed(abi::ZERNEL_SIM_IOC_TYPE, nr, size)
}

/// Number of a call of any type.
pub fn typed(group: u32, nr: u32, size: usize) -> u32 {
    // Both directions: the module dispatches on type and number alone.
    3 << 30 | (size as u32) << 16 | group << 8 | nr
}

/// Does a call on `value`, and returns it with the answer.
pub fn call<T: Pod>(fd: BorrowedFd<'_>, nr: u32, mut value: T) -> Result<T, Errno> {
    let bytes = bytemuck::bytes_of_mut(&mut value);
    sys::ioctl_bytes(fd, number(nr, bytes.len()), bytes)?;
    Ok(value)
}

/// A mapping of a device, for reading and writing.
#[derive(Clone, Copy, Debug)]
pub struct Mapping {
    pub length: usize,
    pub offset: u64,
    /// Rather than private.
    pub shared: bool,
    pub exec: bool,
}

/// Maps, asks for something, and unmaps again. Returns what the kernel said.
fn ask<T>(
    fd: BorrowedFd<'_>,
    (offset, length): (u64, usize),
    access: ProtFlags,
    flags: MapFlags,
    ask: impl FnOnce(*mut c_void) -> Result<T, Errno>,
) -> Result<T, Errno> {
    // SAFETY: A new mapping replaces no other; it is unmapped when nobody uses it any more.
    unsafe {
        let base = mmap(ptr::null_mut(), length, access, flags, fd, offset)?;
        let asked = ask(base);
        munmap(base, length)?;
        asked
    }
}

/// As [`ask`], of the start of a file, shared, for reading and writing.
fn ask_start<T>(
    fd: BorrowedFd<'_>,
    pages: usize,
    what: impl FnOnce(*mut c_void) -> Result<T, Errno>,
) -> Result<T, Errno> {
    let access = ProtFlags::READ | ProtFlags::WRITE;
    ask(fd, (0, pages * PAGE), access, MapFlags::SHARED, what)
}

/// Maps and unmaps again.
pub fn try_map(fd: BorrowedFd<'_>, what: Mapping) -> Result<(), Errno> {
    let mut access = ProtFlags::READ | ProtFlags::WRITE;
    access.set(ProtFlags::EXEC, what.exec);
    let flags = match what.shared {
        true => MapFlags::SHARED,
        false => MapFlags::PRIVATE,
    };
    ask(fd, (what.offset, what.length), access, flags, |_| Ok(()))
}

/// Maps the start of a file, for reading and, if asked, for writing; and unmaps again.
pub fn try_map_to(fd: BorrowedFd<'_>, length: usize, write: bool) -> Result<(), Errno> {
    let mut access = ProtFlags::READ;
    access.set(ProtFlags::WRITE, write);
    ask(fd, (0, length), access, MapFlags::SHARED, |_| Ok(()))
}

/// Asks that a fork copies a mapping.
pub fn try_do_fork(fd: BorrowedFd<'_>, offset: u64) -> Result<(), Errno> {
    let access = ProtFlags::READ | ProtFlags::WRITE;
    ask(fd, (offset, PAGE), access, MapFlags::SHARED, |base| {
        // SAFETY: Nobody uses the mapping.
        unsafe { madvise(base, PAGE, Advice::LinuxDoFork) }
    })
}

/// Makes a mapping executable.
pub fn try_exec(fd: BorrowedFd<'_>) -> Result<(), Errno> {
    let access = MprotectFlags::READ | MprotectFlags::EXEC;
    // SAFETY: Nobody uses the mapping.
    ask_start(fd, 1, |base| unsafe { mprotect(base, PAGE, access) })
}

/// Makes a mapping longer.
pub fn try_grow(fd: BorrowedFd<'_>) -> Result<(), Errno> {
    ask_start(fd, 1, |base| {
        // SAFETY: Nobody uses the mapping, wherever it is then.
        unsafe { mremap(base, PAGE, 2 * PAGE, MremapFlags::MAYMOVE).map(drop) }
    })
}

/// Unmaps the second of three pages. Returns what the first word of the others holds after `value`
/// was stored there.
pub fn try_hole(fd: BorrowedFd<'_>, value: u32) -> Result<(u32, u32), Errno> {
    ask_start(fd, 3, |base| {
        // SAFETY: The pages are there until the mapping goes; the one between is not used.
        unsafe {
            munmap(base.byte_add(PAGE), PAGE)?;
            let (first, last) = (base.cast::<u32>(), base.byte_add(2 * PAGE).cast::<u32>());
            first.write_volatile(value);
            last.write_volatile(value);
            Ok((first.read_volatile(), last.read_volatile()))
        }
    })
}
