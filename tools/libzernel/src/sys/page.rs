// SPDX-License-Identifier: GPL-2.0
//! Pages of memory that others store to as well: semaphore words, slots of requests.
#![allow(unsafe_code)]

use std::ffi::c_void;
use std::mem::{offset_of, size_of};
use std::os::fd::BorrowedFd;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU32, AtomicU64};

use rustix::io::Errno;
use rustix::mm::{mmap, mmap_anonymous, munmap, MapFlags, ProtFlags};

use super::abi;

/// Slots of a page.
pub const SLOTS: usize = abi::ZERNEL_V0_PAGE_SLOTS as usize;

/// `struct zernel_v0_slot`, whose fields others store to at any time.
#[derive(Debug)]
#[repr(C)]
pub struct Slot {
    /// Number of the last request whose time has come.
    pub trigger: AtomicU32,
    /// Number of the last request that is to be held no longer.
    pub release: AtomicU32,
    /// Number of the last request that is done.
    pub done: AtomicU32,
    /// Number of the last request whose holder has run.
    pub held: AtomicU32,
    /// When the release word was stored.
    pub ready_ns: AtomicU64,
    /// When the done word was stored.
    pub done_ns: AtomicU64,
    /// How many signals to load the next batch there were.
    pub prefetch: AtomicU32,
    pad: AtomicU32,
    reserved: [AtomicU64; 3],
}

/// Fails to compile unless a field is where the header has it.
macro_rules! same_layout {
    ($($field:ident),*) => {
        const _: () = assert!(
            size_of::<Slot>() == size_of::<abi::zernel_v0_slot>()
                $(&& offset_of!(Slot, $field) == offset_of!(abi::zernel_v0_slot, $field))*
        );
    };
}

same_layout!(trigger, release, done, held, ready_ns, done_ns, prefetch, pad, reserved);

/// A mapped page that others, such as the kernel, store to.
///
/// # Invariants
///
/// `base` is the address of a readable and writable mapping that is a page long, which only
/// dropping this value ends.
#[derive(Debug)]
pub struct SharedPage {
    base: NonNull<c_void>,
}

// SAFETY: The mapping belongs to the process, not to a thread.
unsafe impl Send for SharedPage {}
// SAFETY: What is in it is reached through atomics only.
unsafe impl Sync for SharedPage {}

impl SharedPage {
    const ACCESS: ProtFlags = ProtFlags::READ.union(ProtFlags::WRITE);

    /// A page of zeroes, of this process alone.
    pub fn anonymous() -> Result<Self, Errno> {
        let len = rustix::param::page_size();
        // SAFETY: A new mapping at an address that the kernel chooses replaces no other.
        let base =
            unsafe { mmap_anonymous(ptr::null_mut(), len, Self::ACCESS, MapFlags::PRIVATE)? };
        Self::new(base)
    }

    /// The page of a file at `offset`, shared with whoever else maps it.
    pub fn of_file(fd: BorrowedFd<'_>, offset: u64) -> Result<Self, Errno> {
        let len = rustix::param::page_size();
        let (access, flags) = (Self::ACCESS, MapFlags::SHARED);
        // SAFETY: As above.
        let base = unsafe { mmap(ptr::null_mut(), len, access, flags, fd, offset)? };
        Self::new(base)
    }

    fn new(base: *mut c_void) -> Result<Self, Errno> {
        // INVARIANT: The callers have just mapped it.
        let base = NonNull::new(base).ok_or(Errno::NOMEM)?;
        Ok(Self { base })
    }

    /// Its address.
    pub fn address(&self) -> u64 {
        self.base.as_ptr() as u64
    }

    /// All of it as words.
    pub fn words(&self) -> &[AtomicU32] {
        let count = rustix::param::page_size() / size_of::<AtomicU32>();
        // SAFETY: By the invariants the mapping holds that many words while `self` lives; it is
        // page aligned, any bytes make a valid word, and all sides reach it atomically.
        unsafe { std::slice::from_raw_parts(self.base.as_ptr().cast(), count) }
    }

    /// The slots in it. Their times are not to be reached as words meanwhile.
    pub fn slots(&self) -> &[Slot; SLOTS] {
        const { assert!(size_of::<[Slot; SLOTS]>() <= 4096) };
        // SAFETY: No page is shorter than these. Otherwise as for the words.
        unsafe { self.base.cast().as_ref() }
    }
}

impl Drop for SharedPage {
    fn drop(&mut self) {
        // SAFETY: The mapping is ours by the invariants and no borrow of it can be left. Failing
        // would leave it mapped, which is harmless.
        let _ = unsafe { munmap(self.base.as_ptr(), rustix::param::page_size()) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering::Relaxed;

    #[test]
    fn slots_are_sixteen_words_each() {
        let page = SharedPage::anonymous().unwrap();
        page.slots()[63].held.store(7, Relaxed);
        page.slots()[1].trigger.store(5, Relaxed);
        page.slots()[2].prefetch.store(3, Relaxed);
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
        let (one, two) = (SharedPage::of_file(fd, 0), SharedPage::of_file(fd, 0));
        let (one, two) = (one.unwrap(), two.unwrap());
        one.slots()[2].ready_ns.store(u64::MAX, Relaxed);
        assert_eq!(two.slots()[2].ready_ns.load(Relaxed), u64::MAX);
    }
}
