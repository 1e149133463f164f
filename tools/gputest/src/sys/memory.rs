// SPDX-License-Identifier: MIT OR Apache-2.0
//! Words that the CPU and the GPU see, in memory of this process.

use std::os::fd::AsFd;
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::Arc;

use anyhow::Result;
use cuda::{Context, Driver, Registered};
use rustix::fs::MemfdFlags;
use rustix::mm::{MapFlags, ProtFlags};

/// Bytes of a mapping.
pub const PAGE: usize = 4096;

/// A page of words, mapped for good.
#[derive(Debug, Clone, Copy)]
pub struct Page(&'static [AtomicU32]);

impl Page {
    fn map(file: impl AsFd) -> Result<Self> {
        let access = ProtFlags::READ | ProtFlags::WRITE;
        let (any, shared) = (ptr::null_mut(), MapFlags::SHARED);
        // SAFETY: A new mapping at an address that the kernel chooses replaces no other.
        let place = unsafe { rustix::mm::mmap(any, PAGE, access, shared, file, 0) }?;
        // SAFETY: It was just mapped, with so many words, and is never ended; zeroes are valid.
        Ok(Self(unsafe {
            std::slice::from_raw_parts(place.cast(), PAGE / size_of::<AtomicU32>())
        }))
    }

    /// The same page of memory at two addresses.
    pub fn twice() -> Result<(Self, Self)> {
        let file = rustix::fs::memfd_create("zernel-gputest", MemfdFlags::CLOEXEC)?;
        rustix::fs::ftruncate(&file, PAGE as u64)?;
        Ok((Self::map(&file)?, Self::map(&file)?))
    }

    /// Its address.
    pub fn address(self) -> u64 {
        self.0.as_ptr() as u64
    }

    /// The words.
    pub fn words(self) -> &'static [AtomicU32] {
        self.0
    }
}

/// A page of words that the GPU has.
#[derive(Debug)]
pub struct Words {
    page: Page,
    registered: Registered,
}

impl Words {
    /// For a context.
    pub fn new(driver: &Arc<Driver>, context: Context) -> Result<Self> {
        Self::of(Page::twice()?.0, driver, context)
    }

    /// Of a page that is mapped already.
    pub fn of(page: Page, driver: &Arc<Driver>, context: Context) -> Result<Self> {
        let registered = driver.register(context, page.address(), PAGE as u64)?;
        Ok(Self { page, registered })
    }

    /// The address of a word as the GPU sees it.
    pub fn address(&self, word: usize) -> u64 {
        self.registered.base() + (word * size_of::<AtomicU32>()) as u64
    }

    /// A word.
    pub fn load(&self, word: usize) -> u32 {
        self.page.0[word].load(Ordering::Acquire)
    }

    /// Stores to it.
    pub fn store(&self, word: usize, value: u32) {
        self.page.0[word].store(value, Ordering::Release);
    }
}
