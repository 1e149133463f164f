// SPDX-License-Identifier: GPL-2.0
//! Pages of slots: words that programs, GPUs and zernel share. They are zernel's memory, which
//! programs map, as `struct page`s so that drivers can pin them for a GPU.

use super::uapi;
use crate::policy::{
    request::words::Observed,
    units::Ns, //
};
use core::{
    mem::offset_of,
    ops::Range,
    ptr::NonNull, //
};
use kernel::{
    bindings,
    mm::virt::{
        flags,
        VmaMixedMap,
        VmaNew, //
    },
    page::{
        BorrowedPage,
        PAGE_SIZE, //
    },
    prelude::*,
    sync::{
        atomic::{
            ordering::{
                Acquire,
                Relaxed,
                Release, //
            },
            Atomic, //
        },
        Arc, //
    }, //
};

extern "C" {
    fn zernel_helper_slots_alloc() -> *mut bindings::page;
    fn zernel_helper_slots_address(page: *mut bindings::page) -> *mut c_void;
    fn zernel_helper_slots_free(page: *mut bindings::page);
}

/// Slots of a page.
pub(crate) const PER_PAGE: usize = PAGE_SIZE / size_of::<Words>();

/// `struct zernel_slot`. Programs may write to it at any time: only atomic accesses.
#[repr(C)]
pub(crate) struct Words {
    trigger: Atomic<u32>,
    release: Atomic<u32>,
    done: Atomic<u32>,
    held: Atomic<u32>,
    ready_at: Atomic<u64>,
    done_at: Atomic<u64>,
    signals: Atomic<u32>,
    reserved_a: Atomic<u32>,
    gate: Atomic<u64>,
    reserved: [Atomic<u64>; 2],
}
static_assert!(size_of::<Words>() == size_of::<uapi::zernel_slot>());
static_assert!(offset_of!(Words, gate) == offset_of!(uapi::zernel_slot, gate));
static_assert!(PAGE_SIZE % size_of::<Words>() == 0);

impl Words {
    /// Stores the trigger word: the stream of the request may take the GPU.
    pub(crate) fn trigger(&self, request: u32) {
        self.trigger.store(request, Release);
    }

    /// Stores the release word: the holder of the request ends.
    pub(crate) fn release(&self, request: u32) {
        self.release.store(request, Release);
    }

    /// The word that counts signals.
    pub(crate) fn signals(&self) -> u32 {
        self.signals.load(Relaxed)
    }

    /// Stores the word that counts signals.
    pub(crate) fn set_signals(&self, signals: u32) {
        self.signals.store(signals, Release);
    }

    /// The words that the program, and its stream, have stored.
    ///
    /// A program stores the words in the opposite order, so no store is seen here without the ones
    /// before it.
    #[inline(always)]
    pub(crate) fn observe(&self) -> Observed {
        let done = self.done.load(Acquire);
        let done_ns = Ns(self.done_at.load(Relaxed));
        let trigger = self.trigger.load(Acquire);
        let release = self.release.load(Acquire);
        let gate = self.gate.load(Acquire);
        Observed {
            done,
            done_ns,
            trigger,
            release,
            gate,
            ready_ns: Ns(self.ready_at.load(Relaxed)),
            held: self.held.load(Relaxed),
        }
    }
}

/// A page of slots.
///
/// # Invariants
///
/// `page` is there until this is dropped, and `words` is the kernel's address of it.
pub(crate) struct SlotPage {
    page: NonNull<bindings::page>,
    words: NonNull<[Words; PER_PAGE]>,
}

// SAFETY: A page belongs to no thread.
unsafe impl Send for SlotPage {}
// SAFETY: It is accessed through atomics alone.
unsafe impl Sync for SlotPage {}

impl SlotPage {
    /// A page of zeroes, charged to the memory cgroup of the caller. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new() -> Result<Self> {
        // SAFETY: FFI.
        let page = NonNull::new(unsafe { zernel_helper_slots_alloc() }).ok_or(ENOMEM)?;
        // SAFETY: The page is there.
        let words = unsafe { zernel_helper_slots_address(page.as_ptr()) };
        // INVARIANT: Just allocated; every such page has an address.
        Ok(Self {
            page,
            words: NonNull::new(words.cast()).ok_or(ENOMEM)?,
        })
    }

    fn slot(&self, number: usize) -> Option<&Words> {
        // SAFETY: By the type invariant the page is there as long as `self`, aligned and long
        // enough; others only store whole words.
        unsafe { self.words.as_ref() }.get(number)
    }
}

impl Drop for SlotPage {
    fn drop(&mut self) {
        // SAFETY: Allocated by the type invariant, and nobody has `words` any more.
        unsafe { zernel_helper_slots_free(self.page.as_ptr()) };
    }
}

/// The words of one slot. Keeps its page there.
#[derive(Clone)]
pub(crate) struct SlotWords {
    page: Arc<SlotPage>,
    number: usize,
}

impl SlotWords {
    /// Those of slot `number` of a page.
    pub(crate) fn new(page: Arc<SlotPage>, number: usize) -> Self {
        Self { page, number }
    }

    /// The words; `None` if the page has no such slot.
    pub(crate) fn get(&self) -> Option<&Words> {
        self.page.slot(self.number)
    }
}

/// A mapping of slots that is about to be made.
pub(crate) struct Mapping<'a> {
    vma: &'a VmaMixedMap,
    /// Pages of the file that it shows.
    pub(crate) pages: Range<usize>,
}

impl<'a> Mapping<'a> {
    /// Checks and prepares a mapping of a file that has so many pages of slots.
    ///
    /// # Errors
    ///
    /// `EPERM` executable; `EINVAL` private, or beyond the slots.
    pub(crate) fn new(vma: &'a VmaNew, pages: usize) -> Result<Self> {
        if vma.executable() {
            return Err(EPERM);
        }
        if vma.flags() & flags::SHARED == 0 {
            return Err(EINVAL);
        }
        // SAFETY: The VMA is valid while there is a reference to it.
        let first = unsafe { (*vma.as_ptr()).vm_pgoff };
        let count = vma.end().saturating_sub(vma.start()) / PAGE_SIZE;
        let end = first.checked_add(count).ok_or(EINVAL)?;
        if end > pages {
            return Err(EINVAL);
        }
        vma.try_clear_mayexec()?;
        // A child would share requests that it knows nothing of; and a fixed size makes the mapping
        // special, so that madvise(MADV_DOFORK) is refused.
        vma.set_dontcopy();
        vma.set_dontexpand();
        vma.set_dontdump();
        Ok(Self {
            vma: vma.set_mixedmap(),
            pages: first..end,
        })
    }

    /// Maps page `number` of the file.
    ///
    /// # Errors
    ///
    /// `ENOMEM`; `EINVAL` the mapping does not show that page.
    pub(crate) fn insert(&self, number: usize, page: &SlotPage) -> Result {
        let at = number.checked_sub(self.pages.start).ok_or(EINVAL)?;
        let address = self.vma.start() + at * PAGE_SIZE;
        // SAFETY: By the type invariant it is there as long as `page`; the mapping takes its own
        // reference.
        let page = unsafe { BorrowedPage::from_raw(page.page) };
        self.vma.vm_insert_page(address, &page)
    }
}
