// SPDX-License-Identifier: MIT OR Apache-2.0
//! Memory at addresses of the program.
//!
//! A program that gives an address to CUDA says with it that the library may read or write there.
//! These functions go through the kernel, so that an address without memory is an error and no
//! fault.

use std::mem::size_of;
use std::ptr;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use bytemuck::Pod;
use rustix::mm::{
    madvise, mlock, mmap_anonymous, mremap, munlock, munmap, Advice, MapFlags, MremapFlags,
    ProtFlags,
};

use crate::status::{Result, Status};

/// The most that the kernel copies at once.
const MOST: usize = 1 << 30;

/// Copies `length` bytes. [`Status::INVALID_VALUE`]: there is no such memory.
pub(crate) fn copy(to: u64, from: u64, length: u64) -> Result<()> {
    let mut done = 0;
    while done < length {
        let part = usize::try_from(length - done).map_or(MOST, |left| left.min(MOST));
        let entry = |base: u64| libc::iovec {
            iov_base: base.wrapping_add(done) as *mut _,
            iov_len: part,
        };
        let (here, there) = (entry(from), entry(to));
        // SAFETY: The kernel looks at all addresses by itself; the program has given them for this.
        let copied = unsafe { libc::process_vm_writev(libc::getpid(), &here, 1, &there, 1, 0) };
        match u64::try_from(copied) {
            Ok(copied) if copied > 0 => done += copied,
            _ => return Err(Status::INVALID_VALUE),
        }
    }
    Ok(())
}

/// Reads `count` values. [`Status::INVALID_VALUE`]: there is no such memory.
pub(crate) fn read<T: Pod>(from: u64, count: usize) -> Result<Vec<T>> {
    let mut values = vec![T::zeroed(); count];
    let length = size_of::<T>() as u64 * count as u64;
    copy(values.as_mut_ptr() as u64, from, length)?;
    Ok(values)
}

/// Writes values. [`Status::INVALID_VALUE`]: there is no such memory.
pub(crate) fn write<T: Pod>(to: u64, values: &[T]) -> Result<()> {
    copy(to, values.as_ptr() as u64, size_of_val(values) as u64)
}

/// Reads one value.
pub(crate) fn read_one<T: Pod>(from: u64) -> Result<T> {
    let mut value = T::zeroed();
    copy(
        ptr::from_mut(&mut value) as u64,
        from,
        size_of::<T>() as u64,
    )?;
    Ok(value)
}

/// Stores a word of 4 or 8 bytes, in release order.
pub(crate) fn store_word(to: u64, value: u64, is_wide: bool) -> Result<()> {
    let size: u64 = if is_wide { 8 } else { 4 };
    if to == 0 || to % size != 0 {
        return Err(Status::INVALID_VALUE);
    }
    // There is memory.
    read_one::<u32>(to)?;
    if is_wide {
        // SAFETY: Aligned; it was there just now. It is writable: so were all pages of the program
        // that were pinned, and those that were mapped here.
        unsafe { &*(to as *const AtomicU64) }.store(value, Ordering::Release);
    } else {
        // SAFETY: As above.
        unsafe { &*(to as *const AtomicU32) }.store(value as u32, Ordering::Release);
    }
    Ok(())
}

/// Pages with zeroes, of this process alone or shared with others of its own. They take memory when they are used.
///
/// # Invariants
///
/// They were mapped here, and only dropping this ends the mapping.
#[derive(Debug)]
pub(crate) struct Pages {
    base: u64,
    length: usize,
}

impl Pages {
    /// Those of this process alone. `length`: in bytes, above 0, rounded up to whole pages.
    pub(crate) fn map(length: u64) -> Result<Self> {
        Self::of(length, MapFlags::PRIVATE)
    }

    /// Those that [`Self::again`] maps a second time.
    pub(crate) fn map_shared(length: u64) -> Result<Self> {
        Self::of(length, MapFlags::SHARED)
    }

    fn of(length: u64, kind: MapFlags) -> Result<Self> {
        let length = usize::try_from(length).map_err(|_| Status::OUT_OF_MEMORY)?;
        let length = length
            .checked_next_multiple_of(rustix::param::page_size())
            .ok_or(Status::OUT_OF_MEMORY)?;
        let access = ProtFlags::READ | ProtFlags::WRITE;
        let flags = kind | MapFlags::NORESERVE;
        // SAFETY: A new mapping at an address that the kernel chooses replaces no other.
        let base = unsafe { mmap_anonymous(ptr::null_mut(), length, access, flags) };
        let base = base.map_err(|_| Status::OUT_OF_MEMORY)? as u64;
        // INVARIANT: It was just mapped.
        Ok(Self { base, length })
    }

    pub(crate) fn base(&self) -> u64 {
        self.base
    }

    /// Part of shared ones at another address, where it stays when these end. Both are whole pages.
    pub(crate) fn again(&self, offset: u64, length: u64) -> Result<Self> {
        let within = offset
            .checked_add(length)
            .filter(|&end| end <= self.length as u64);
        within.filter(|_| length > 0).ok_or(Status::INVALID_VALUE)?;
        let (from, length) = ((self.base + offset) as *mut _, length as usize);
        // SAFETY: Of no length, it leaves the old mapping as it is; the new one is where the kernel
        // chooses, and replaces no other.
        let base = unsafe { mremap(from, 0, length, MremapFlags::MAYMOVE) };
        let base = base.map_err(|_| Status::OUT_OF_MEMORY)? as u64;
        // INVARIANT: It was just mapped.
        Ok(Self { base, length })
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: Mapped by the invariants; nobody reaches it but by its number.
        let _ = unsafe { munmap(self.base as *mut _, self.length) };
    }
}

/// Pins whole pages of the program. [`Status::INVALID_VALUE`]: they are not there, or cannot be
/// written to.
pub(crate) fn pin(base: u64, length: u64) -> Result<()> {
    let length = usize::try_from(length).map_err(|_| Status::INVALID_VALUE)?;
    // SAFETY: The content stays as it is.
    unsafe { madvise(base as *mut _, length, Advice::LinuxPopulateWrite) }
        .map_err(|_| Status::INVALID_VALUE)?;
    // SAFETY: As above.
    match unsafe { mlock(base as *mut _, length) } {
        Ok(()) => Ok(()),
        // More than RLIMIT_MEMLOCK allows.
        Err(rustix::io::Errno::PERM | rustix::io::Errno::AGAIN) => Err(Status::OUT_OF_MEMORY),
        Err(_) if read_one::<u8>(base).is_ok() => Err(Status::OUT_OF_MEMORY),
        Err(_) => Err(Status::INVALID_VALUE),
    }
}

/// Ends that.
pub(crate) fn unpin(base: u64, length: u64) {
    // SAFETY: As above. Pages that are gone are pinned no more.
    let _ = unsafe { munlock(base as *mut _, length as usize) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_that_is_not_there_is_an_error() {
        let pages = Pages::map(1).unwrap();
        let base = pages.base();
        write(base, &[1u32, 2, 3]).unwrap();
        assert_eq!(read::<u32>(base, 4).unwrap(), [1, 2, 3, 0]);
        copy(base + 8, base, 4).unwrap();
        assert_eq!(read_one::<u32>(base + 8), Ok(1));
        assert_eq!(copy(base, 8, 4), Err(Status::INVALID_VALUE));
        assert_eq!(copy(8, base, 4), Err(Status::INVALID_VALUE));
        assert!(read::<u8>(64, 2).is_err());
        copy(8, 8, 0).unwrap();
        assert_eq!(read_one::<u8>(64), Err(Status::INVALID_VALUE));
    }

    #[test]
    fn words_are_aligned_and_there() {
        let pages = Pages::map(4096).unwrap();
        store_word(pages.base() + 4, 7 << 32 | 5, false).unwrap();
        assert_eq!(read::<u32>(pages.base(), 3).unwrap(), [0, 5, 0]);
        store_word(pages.base() + 8, 7 << 32 | 5, true).unwrap();
        assert_eq!(read::<u32>(pages.base() + 8, 2).unwrap(), [5, 7]);
        for (address, is_wide) in [
            (pages.base() + 4, true),
            (pages.base() + 2, false),
            (0, false),
        ] {
            let refused = store_word(address, 1, is_wide);
            assert_eq!(refused, Err(Status::INVALID_VALUE));
        }
        assert_eq!(store_word(64, 1, false), Err(Status::INVALID_VALUE));
    }

    #[test]
    fn shared_pages_are_mapped_twice() {
        let pages = Pages::map_shared(3 * 4096).unwrap();
        let again = pages.again(4096, 8192).unwrap();
        write(pages.base() + 4096, &[1_u32]).unwrap();
        write(again.base() + 4, &[2_u32]).unwrap();
        assert_eq!(read::<u32>(pages.base() + 4096, 2).unwrap(), [1, 2]);
        assert_eq!(read::<u32>(again.base(), 2).unwrap(), [1, 2]);
        for (offset, length) in [(0, 0), (4096, 3 * 4096), (u64::MAX, 4096)] {
            assert!(pages.again(offset, length).is_err());
        }
        drop(pages);
        let place = again.base();
        assert_eq!(read_one::<u32>(place), Ok(1), "it stays");
        drop(again);
        assert!(read_one::<u32>(place).is_err());
    }

    #[test]
    fn pages_are_pinned_where_they_are() {
        let pages = Pages::map(4096).unwrap();
        pin(pages.base(), 4096).unwrap();
        unpin(pages.base(), 4096);
        assert_eq!(pin(4096, 4096), Err(Status::INVALID_VALUE));
        let length = rustix::param::page_size();
        // SAFETY: A new mapping at an address that the kernel chooses replaces no other.
        let fixed =
            unsafe { mmap_anonymous(ptr::null_mut(), length, ProtFlags::READ, MapFlags::PRIVATE) };
        let fixed = fixed.unwrap();
        assert_eq!(pin(fixed as u64, 1), Err(Status::INVALID_VALUE));
        // SAFETY: It was mapped above, and nobody else knows it.
        unsafe { munmap(fixed, length) }.unwrap();
    }
}
