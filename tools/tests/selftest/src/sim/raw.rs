// SPDX-License-Identifier: GPL-2.0
//! Calls of the software GPU that no safe wrapper offers: wrong addresses and wrong mappings.
#![allow(unsafe_code)]

use std::os::fd::BorrowedFd;
use std::ptr;

use bytemuck::Pod;
use libzernel::sys::abi;
use rustix::io::Errno;
use rustix::mm::{
    madvise, mmap, mmap_anonymous, mprotect, mremap, munmap, Advice, MapFlags, MprotectFlags,
    MremapFlags, ProtFlags,
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

/// Does a call on `value`.
pub fn call<T: Pod>(fd: BorrowedFd<'_>, nr: u32, value: &mut T) -> Result<(), Errno> {
    let size = size_of::<T>();
    sys::ioctl_bytes(fd, number(nr, size), bytemuck::bytes_of_mut(value)).map(drop)
}

/// Does a call with an address that this process cannot access, or cannot write to.
pub fn call_at(fd: BorrowedFd<'_>, number: u32, address: usize) -> Result<(), Errno> {
    // SAFETY: What is there, if anything, belongs to a `Guarded` that nobody else looks at.
    unsafe { sys::ioctl(fd, number, address) }.map(drop)
}

/// One page that can be accessed, and one behind it that cannot.
pub struct Guarded {
    base: usize,
}

impl Guarded {
    /// A page of zeroes.
    pub fn new() -> Result<Self, Errno> {
        // SAFETY: A new mapping replaces no other, and its second page is part of it.
        let base = unsafe {
            let base = mmap_anonymous(
                ptr::null_mut(),
                2 * PAGE,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::PRIVATE,
            )?;
            mprotect(base.byte_add(PAGE), PAGE, MprotectFlags::empty())?;
            base
        };
        Ok(Self {
            base: base as usize,
        })
    }

    /// Puts `bytes` at the end of the page; returns their address.
    pub fn put(&self, bytes: &[u8]) -> usize {
        assert!(bytes.len() <= PAGE);
        let address = self.end() - bytes.len();
        // SAFETY: The page is mapped and long enough.
        unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), address as *mut u8, bytes.len()) };
        address
    }

    /// The address of what cannot be accessed.
    pub fn end(&self) -> usize {
        self.base + PAGE
    }

    /// Makes the page read-only.
    pub fn protect(&self) -> Result<(), Errno> {
        // SAFETY: The page is ours and nobody writes to it any more.
        unsafe { mprotect(self.base as *mut _, PAGE, MprotectFlags::READ) }
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        // SAFETY: Ours, and nobody uses it any more. Failing would leave it mapped.
        let _ = unsafe { munmap(self.base as *mut _, 2 * PAGE) };
    }
}

/// A mapping of semaphore words.
#[derive(Clone, Copy, Debug)]
pub struct Mapping {
    /// Bytes.
    pub length: usize,
    /// Offset in the file.
    pub offset: u64,
    /// Shared rather than private.
    pub shared: bool,
    /// Executable as well.
    pub exec: bool,
}

/// Maps and unmaps again.
pub fn try_map(fd: BorrowedFd<'_>, what: Mapping) -> Result<(), Errno> {
    let flags = if what.shared {
        MapFlags::SHARED
    } else {
        MapFlags::PRIVATE
    };
    let mut access = ProtFlags::READ | ProtFlags::WRITE;
    access.set(ProtFlags::EXEC, what.exec);
    // SAFETY: A new mapping replaces no other; nobody uses it.
    unsafe {
        let base = mmap(ptr::null_mut(), what.length, access, flags, fd, what.offset)?;
        munmap(base, what.length)
    }
}

/// Maps as it should be, asks that a fork copies the mapping, and unmaps again. Returns what the
/// kernel said to that.
pub fn try_do_fork(fd: BorrowedFd<'_>, offset: u64) -> Result<(), Errno> {
    let access = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: A new mapping replaces no other; nobody uses it.
    unsafe {
        let base = mmap(ptr::null_mut(), PAGE, access, MapFlags::SHARED, fd, offset)?;
        let asked = madvise(base, PAGE, Advice::LinuxDoFork);
        munmap(base, PAGE)?;
        asked
    }
}

/// Maps the start of a file, for reading and, if asked, for writing; and unmaps again.
pub fn try_map_to(fd: BorrowedFd<'_>, length: usize, write: bool) -> Result<(), Errno> {
    let mut access = ProtFlags::READ;
    access.set(ProtFlags::WRITE, write);
    // SAFETY: A new mapping replaces no other; nobody uses it.
    unsafe {
        let base = mmap(ptr::null_mut(), length, access, MapFlags::SHARED, fd, 0)?;
        munmap(base, length)
    }
}

/// Maps the start of a file, asks for something, and unmaps again. Returns what the kernel said.
fn with_mapping<T>(
    fd: BorrowedFd<'_>,
    pages: usize,
    ask: impl FnOnce(*mut std::ffi::c_void) -> Result<T, Errno>,
) -> Result<T, Errno> {
    let access = ProtFlags::READ | ProtFlags::WRITE;
    let length = pages * PAGE;
    // SAFETY: A new mapping replaces no other; it is unmapped when nobody uses it any more.
    unsafe {
        let base = mmap(ptr::null_mut(), length, access, MapFlags::SHARED, fd, 0)?;
        let asked = ask(base);
        munmap(base, length)?;
        asked
    }
}

/// Makes a mapping executable.
pub fn try_exec(fd: BorrowedFd<'_>) -> Result<(), Errno> {
    let access = MprotectFlags::READ | MprotectFlags::EXEC;
    // SAFETY: Nobody uses the mapping.
    with_mapping(fd, 1, |base| unsafe { mprotect(base, PAGE, access) })
}

/// Makes a mapping longer.
pub fn try_grow(fd: BorrowedFd<'_>) -> Result<(), Errno> {
    with_mapping(fd, 1, |base| {
        // SAFETY: Nobody uses the mapping, wherever it is then.
        unsafe { mremap(base, PAGE, 2 * PAGE, MremapFlags::MAYMOVE).map(drop) }
    })
}

/// Unmaps the second of three pages. Returns what the first word of the others holds after `value`
/// was stored there.
pub fn try_hole(fd: BorrowedFd<'_>, value: u32) -> Result<(u32, u32), Errno> {
    with_mapping(fd, 3, |base| {
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
