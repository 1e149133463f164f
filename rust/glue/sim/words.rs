// SPDX-License-Identifier: GPL-2.0
//! A page of semaphore words that the module shares with user space.

use core::ptr::NonNull;
use kernel::{
    bindings,
    mm::virt::{
        flags,
        VmaNew, //
    },
    page::{
        BorrowedPage,
        PAGE_SIZE, //
    },
    prelude::*,
    sync::atomic::{
        ordering::{
            Acquire,
            Release, //
        },
        Atomic, //
    }, //
};

/// Words of a page.
pub(crate) const WORDS: usize = PAGE_SIZE / 4;

#[repr(C, align(4096))]
struct Page([Atomic<u32>; WORDS]);
static_assert!(size_of::<Page>() == PAGE_SIZE);

/// The page. User space may write to it at any time: only atomic accesses.
pub(crate) struct Words(VBox<Page>);

impl Words {
    /// A page of zeroes.
    pub(crate) fn new() -> Result<Self> {
        let page = VBox::<Page>::new_uninit(GFP_KERNEL_ACCOUNT | __GFP_ZERO)?;
        // SAFETY: Zeroes are valid.
        Ok(Self(unsafe { page.assume_init() }))
    }

    /// Reads a word; 0 if there is no such word.
    pub(crate) fn load(&self, word: u16) -> u32 {
        self.0
             .0
            .get(usize::from(word))
            .map_or(0, |word| word.load(Acquire))
    }

    /// Writes a word; nothing happens if there is no such word.
    pub(crate) fn store(&self, word: u16, value: u32) {
        if let Some(word) = self.0 .0.get(usize::from(word)) {
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
        let page = unsafe { bindings::vmalloc_to_page(core::ptr::from_ref(&*self.0).cast()) };
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
