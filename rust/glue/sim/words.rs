// SPDX-License-Identifier: GPL-2.0
//! The semaphore words of a context: a page that the module shares with user space, and memory of
//! a program, pinned.

use core::ptr::NonNull;
use kernel::{
    bindings,
    error::to_result,
    mm::virt::{
        flags,
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
                Release, //
            },
            Atomic, //
        },
        SetOnce, //
    }, //
};

extern "C" {
    fn zernel_sim_helper_pin(
        address: c_ulong,
        pages: *mut *mut bindings::page,
        count: usize,
        mm: *mut *mut bindings::mm_struct,
    ) -> c_int;
    fn zernel_sim_helper_unpin(
        pages: *mut *mut bindings::page,
        count: usize,
        mm: *mut bindings::mm_struct,
    );
    fn zernel_sim_helper_page_address(page: *mut bindings::page) -> *mut c_void;
}

/// Words of a page.
pub(crate) const WORDS: usize = PAGE_SIZE / 4;

#[repr(C, align(4096))]
struct Page([Atomic<u32>; WORDS]);
static_assert!(size_of::<Page>() == PAGE_SIZE);

/// Most pages of memory: with the own page all words that 16 bits can name.
const MOST: usize = 63;

/// Memory of a program.
///
/// # Invariants
///
/// `pages` are pinned, and accounted to `mm`, until this is dropped; `addresses` are where the
/// kernel has them.
struct Memory {
    pages: KVec<*mut bindings::page>,
    addresses: KVec<NonNull<Page>>,
    mm: *mut bindings::mm_struct,
}

// SAFETY: Pinned memory belongs to no thread.
unsafe impl Send for Memory {}
// SAFETY: It is accessed through atomics alone.
unsafe impl Sync for Memory {}

impl Memory {
    /// Pins memory of the caller. May sleep.
    fn pin(address: usize, count: usize) -> Result<Self> {
        let mut memory = Self {
            pages: KVec::from_elem(core::ptr::null_mut(), count, GFP_KERNEL_ACCOUNT)?,
            addresses: KVec::with_capacity(count, GFP_KERNEL_ACCOUNT)?,
            mm: core::ptr::null_mut(),
        };
        let (pages, mm) = (memory.pages.as_mut_ptr(), &mut memory.mm);
        // SAFETY: There is room for so many pages; any address may be asked for.
        to_result(unsafe { zernel_sim_helper_pin(address, pages, count, mm) })?;
        // INVARIANT: Just pinned; these are their addresses.
        for &page in &memory.pages {
            // SAFETY: A pinned page is there.
            let address = unsafe { zernel_sim_helper_page_address(page) };
            if let Some(address) = NonNull::new(address.cast()) {
                memory.addresses.push(address, GFP_KERNEL_ACCOUNT)?;
            }
        }
        Ok(memory)
    }

    fn page(&self, number: usize) -> Option<&Page> {
        let address = self.addresses.get(number)?;
        // SAFETY: By the type invariant the page is there as long as `self`; others only store to
        // whole words.
        Some(unsafe { address.as_ref() })
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        if !self.mm.is_null() {
            // SAFETY: Pinned by the type invariant, and nobody has the addresses any more.
            unsafe {
                zernel_sim_helper_unpin(self.pages.as_mut_ptr(), self.pages.len(), self.mm);
            }
        }
    }
}

/// The words. User space may write to them at any time: only atomic accesses.
pub(crate) struct Words {
    own: VBox<Page>,
    memory: SetOnce<Memory>,
}

impl Words {
    /// A page of zeroes.
    pub(crate) fn new() -> Result<Self> {
        let page = VBox::<Page>::new_uninit(GFP_KERNEL_ACCOUNT | __GFP_ZERO)?;
        Ok(Self {
            // SAFETY: Zeroes are valid.
            own: unsafe { page.assume_init() },
            memory: SetOnce::new(),
        })
    }

    /// Adds memory of the caller; its words are numbered behind those of the page.
    ///
    /// # Errors
    ///
    /// `EINVAL` not whole pages, or too many; `EBUSY` there is some already; `EFAULT`, `ENOMEM`.
    pub(crate) fn add(&self, address: u64, length: u64) -> Result {
        let address = usize::try_from(address).map_err(|_| EFAULT)?;
        let length = usize::try_from(length).map_err(|_| EINVAL)?;
        let count = length / PAGE_SIZE;
        if (address | length) % PAGE_SIZE != 0 || count == 0 || count > MOST {
            return Err(EINVAL);
        }
        if self.memory.as_ref().is_some() || !self.memory.populate(Memory::pin(address, count)?) {
            return Err(EBUSY);
        }
        Ok(())
    }

    /// Number of words.
    pub(crate) fn count(&self) -> usize {
        let added = self.memory.as_ref();
        WORDS + added.map_or(0, |memory| memory.addresses.len() * WORDS)
    }

    fn word(&self, word: u16) -> Option<&Atomic<u32>> {
        let (page, word) = (usize::from(word) / WORDS, usize::from(word) % WORDS);
        let page = match page.checked_sub(1) {
            None => &*self.own,
            Some(number) => self.memory.as_ref()?.page(number)?,
        };
        page.0.get(word)
    }

    /// Reads a word; 0 if there is no such word.
    pub(crate) fn load(&self, word: u16) -> u32 {
        self.word(word).map_or(0, |word| word.load(Acquire))
    }

    /// Writes a word; nothing happens if there is no such word.
    pub(crate) fn store(&self, word: u16, value: u32) {
        if let Some(word) = self.word(word) {
            word.store(value, Release);
        }
    }

    /// Maps the page.
    ///
    /// # Errors
    ///
    /// `EINVAL` another length than one page, private, or executable.
    pub(crate) fn map(&self, vma: &VmaNew) -> Result {
        let length = vma.end().checked_sub(vma.start()).ok_or(EINVAL)?;
        if length != PAGE_SIZE || vma.flags() & flags::SHARED == 0 {
            return Err(EINVAL);
        }
        vma.try_clear_mayexec()?;
        // A fixed size makes the mapping special: madvise(MADV_DOFORK) is refused then.
        vma.set_dontcopy();
        vma.set_dontexpand();
        vma.set_dontdump();
        let mixed = vma.set_mixedmap();
        // SAFETY: The address of memory from vmalloc.
        let page = unsafe { bindings::vmalloc_to_page(core::ptr::from_ref(&*self.own).cast()) };
        let page = NonNull::new(page).ok_or(EFAULT)?;
        // SAFETY: Valid while `self` is; the mapping takes its own reference.
        let page = unsafe { BorrowedPage::from_raw(page) };
        mixed.vm_insert_page(vma.start(), &page)
    }
}

/// Offset of a mapping in its file, in bytes.
pub(crate) fn offset(vma: &VmaNew) -> u64 {
    // SAFETY: The VMA is valid while there is a reference to it.
    let pages = unsafe { (*vma.as_ptr()).vm_pgoff };
    (pages as u64).saturating_mul(PAGE_SIZE as u64)
}
