// SPDX-License-Identifier: MIT OR Apache-2.0
//! Memory that another thread takes away, for calls with anything for an argument.

use std::os::fd::BorrowedFd;
use std::ptr;
use std::sync::Arc;
use std::time::Duration;

use rustix::mm::{mmap_anonymous, mprotect, MapFlags, MprotectFlags, ProtFlags};

/// Memory for the kernel alone: this process never looks at it, so anything may happen to it.
pub struct Arena {
    base: usize,
}

impl Arena {
    /// Its size.
    pub const SIZE: usize = 16 * 4096;

    /// Memory that comes and goes.
    pub fn flickering() -> rustix::io::Result<Arc<Self>> {
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: A new mapping replaces no other.
        let base =
            unsafe { mmap_anonymous(ptr::null_mut(), Self::SIZE, access, MapFlags::PRIVATE)? };
        let arena = Arc::new(Self {
            base: base as usize,
        });
        let shared = arena.clone();
        std::thread::spawn(move || shared.flicker());
        Ok(arena)
    }

    /// The address of a place.
    pub fn address(&self, offset: usize) -> usize {
        self.base + offset % Self::SIZE
    }

    /// Puts bytes there, if there is memory now: through the kernel, which tells if there is none.
    pub fn put(&self, offset: usize, bytes: &[u8]) {
        let local = libc::iovec {
            iov_base: bytes.as_ptr() as *mut _,
            iov_len: bytes.len().min(Self::SIZE - offset % Self::SIZE),
        };
        let remote = libc::iovec {
            iov_base: self.address(offset) as *mut _,
            iov_len: local.iov_len,
        };
        // SAFETY: Reads `bytes`, writes to the arena alone.
        unsafe { libc::process_vm_writev(libc::getpid(), &local, 1, &remote, 1, 0) };
    }

    /// Any call with any argument; what it comes to is not looked at.
    pub fn call(fd: BorrowedFd<'_>, number: u32, address: usize) {
        // SAFETY: The structure, and what it may point to, is an arena or not accessible; a call
        // that finds another place by chance harms this process alone, which was made for that.
        let _ = unsafe { super::ioctl(fd, number, address) };
    }

    fn flicker(&self) {
        let pages = self.base as *mut std::ffi::c_void;
        loop {
            for (length, access) in [
                (Self::SIZE, MprotectFlags::READ),
                (Self::SIZE / 2, MprotectFlags::empty()),
                (Self::SIZE, MprotectFlags::READ | MprotectFlags::WRITE),
            ] {
                // SAFETY: The arena is ours and nobody but the kernel uses it.
                let _ = unsafe { mprotect(pages, length, access) };
                // SAFETY: As above; its pages come back as zeroes.
                unsafe { libc::madvise(pages, length, libc::MADV_DONTNEED) };
                std::thread::sleep(Duration::from_micros(200));
            }
        }
    }
}
