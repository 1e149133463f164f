// SPDX-License-Identifier: MIT OR Apache-2.0
//! Memory that others store to as well: semaphore words, slots of requests.
#![allow(unsafe_code)]

use std::ffi::c_void;
use std::mem::{offset_of, size_of};
use std::os::fd::BorrowedFd;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU32, AtomicU64};

use rustix::io::Errno;
use rustix::mm::{mmap, mmap_anonymous, munmap, MapFlags, ProtFlags};

use super::abi;

/// `struct zernel_slot`; others store to its fields at any time.
#[derive(Debug)]
#[repr(C)]
pub struct Slot {
    /// Number of the last triggered request.
    pub trigger: AtomicU32,
    /// Number of the last request that is to be held no longer.
    pub release: AtomicU32,
    /// Number of the last request that is done.
    pub done: AtomicU32,
    /// Number of the last request with a holder that has run.
    pub held: AtomicU32,
    /// When the release word was stored.
    pub ready_at: AtomicU64,
    /// When the done word was stored.
    pub done_at: AtomicU64,
    /// Counts signals.
    pub signals: AtomicU32,
    reserved_a: AtomicU32,
    /// The gate of a request that has one.
    pub gate: AtomicU64,
    reserved_c: AtomicU64,
    reserved_d: AtomicU64,
}

/// Fails to compile unless a field is where the header has it.
macro_rules! same_layout {
    ($($field:ident),*) => {
        const _: () = assert!(
            size_of::<Slot>() == size_of::<abi::zernel_slot>()
                $(&& offset_of!(Slot, $field) == offset_of!(abi::zernel_slot, $field))*
        );
    };
}

same_layout!(
    trigger, release, done, held, ready_at, done_at, signals, reserved_a, gate, reserved_c,
    reserved_d
);

/// Mapped memory that others, such as the kernel, store to.
///
/// # Invariants
///
/// `base` is the address of a readable and writable mapping of `length` bytes, whole pages, which
/// only dropping this value ends.
#[derive(Debug)]
pub struct SharedMemory {
    base: NonNull<c_void>,
    length: usize,
}

// SAFETY: The mapping belongs to the process, not to a thread.
unsafe impl Send for SharedMemory {}
// SAFETY: All accesses to its content are atomic.
unsafe impl Sync for SharedMemory {}

impl SharedMemory {
    const ACCESS: ProtFlags = ProtFlags::READ.union(ProtFlags::WRITE);

    /// A page of zeroes, of this process alone.
    pub fn anonymous() -> Result<Self, Errno> {
        let length = rustix::param::page_size();
        // SAFETY: A new mapping at an address that the kernel chooses replaces no other.
        let base =
            unsafe { mmap_anonymous(ptr::null_mut(), length, Self::ACCESS, MapFlags::PRIVATE)? };
        Self::new(base, length)
    }

    /// Pages of a file, shared with other mappings of them.
    ///
    /// `offset` is a multiple of the page size; `length` is rounded up to one.
    pub fn of_file(fd: BorrowedFd<'_>, offset: u64, length: usize) -> Result<Self, Errno> {
        let length = length.next_multiple_of(rustix::param::page_size());
        let (access, flags) = (Self::ACCESS, MapFlags::SHARED);
        // SAFETY: As above.
        let base = unsafe { mmap(ptr::null_mut(), length, access, flags, fd, offset)? };
        Self::new(base, length)
    }

    fn new(base: *mut c_void, length: usize) -> Result<Self, Errno> {
        // INVARIANT: The callers have just mapped it.
        let base = NonNull::new(base).ok_or(Errno::NOMEM)?;
        Ok(Self { base, length })
    }

    /// Its address.
    pub fn address(&self) -> u64 {
        self.base.as_ptr() as u64
    }

    /// Its length in bytes.
    pub fn length(&self) -> u64 {
        self.length as u64
    }

    /// All of it as words.
    pub fn words(&self) -> &[AtomicU32] {
        let count = self.length / size_of::<AtomicU32>();
        // SAFETY: By the invariants the mapping holds that many words while `self` lives; it is
        // page aligned, any bytes make a valid word, and all sides reach it atomically.
        unsafe { std::slice::from_raw_parts(self.base.as_ptr().cast(), count) }
    }

    /// All of it as words of 64 bits, for memory whose other side has such words too.
    pub fn long_words(&self) -> &[AtomicU64] {
        let count = self.length / size_of::<AtomicU64>();
        // SAFETY: As above.
        unsafe { std::slice::from_raw_parts(self.base.as_ptr().cast(), count) }
    }

    /// The slots in it. Their times are not to be reached as words meanwhile.
    pub fn slots(&self) -> &[Slot] {
        let count = self.length / size_of::<Slot>();
        // SAFETY: As for the words.
        unsafe { std::slice::from_raw_parts(self.base.as_ptr().cast(), count) }
    }
}

impl Drop for SharedMemory {
    fn drop(&mut self) {
        // SAFETY: The mapping is ours by the invariants and no borrow of it can be left. Failing
        // would leave it mapped, which is harmless.
        let _ = unsafe { munmap(self.base.as_ptr(), self.length) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering::Relaxed;

    #[test]
    fn slots_are_sixteen_words_each() {
        let page = SharedMemory::anonymous().unwrap();
        page.slots()[63].held.store(7, Relaxed);
        page.slots()[1].trigger.store(5, Relaxed);
        page.slots()[2].signals.store(3, Relaxed);
        let words = page.words();
        assert_eq!(words[16 * 63 + 3].load(Relaxed), 7);
        assert_eq!(words[16].load(Relaxed), 5);
        assert_eq!(words[16 * 2 + 8].load(Relaxed), 3);
        assert_eq!(words.iter().filter(|w| w.load(Relaxed) != 0).count(), 3);
        assert_eq!(page.address() % rustix::param::page_size() as u64, 0);
    }

    #[test]
    fn a_file_is_shared() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(4096).unwrap();
        let fd = std::os::fd::AsFd::as_fd(&file);
        let (one, two) = (
            SharedMemory::of_file(fd, 0, 64),
            SharedMemory::of_file(fd, 0, 4096),
        );
        let (one, two) = (one.unwrap(), two.unwrap());
        assert_eq!(one.long_words().len(), 512);
        one.slots()[2].ready_at.store(u64::MAX, Relaxed);
        assert_eq!(two.slots()[2].ready_at.load(Relaxed), u64::MAX);
    }
}
