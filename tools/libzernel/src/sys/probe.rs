// SPDX-License-Identifier: MIT OR Apache-2.0
//! A part of a file that is mapped while it is probed.
#![allow(unsafe_code)]

use std::ffi::c_void;
use std::os::fd::BorrowedFd;
use std::ptr;

use rustix::io::Errno;
use rustix::mm::{mmap, munmap, MapFlags, ProtFlags};
use rustix::param::page_size;

/// A page of a file, mapped privately. Nobody reads it.
///
/// # Invariants
///
/// `base` is the address of a mapping that is a page long, which only dropping this value ends.
#[derive(Debug)]
pub struct Mapped {
    base: *mut c_void,
}

impl Mapped {
    /// The page that `offset` lies in.
    ///
    /// Errors: those of mmap(2).
    pub fn of(file: BorrowedFd<'_>, offset: u64) -> Result<Self, Errno> {
        let page = page_size();
        let start = offset - offset % page as u64;
        // SAFETY: A new mapping at an address that the kernel chooses.
        let base = unsafe {
            mmap(
                ptr::null_mut(),
                page,
                ProtFlags::READ,
                MapFlags::PRIVATE,
                file,
                start,
            )?
        };
        // INVARIANT: Just mapped.
        Ok(Self { base })
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: By the type invariant, and nobody has a reference into it.
        let _ = unsafe { munmap(self.base, page_size()) };
    }
}
