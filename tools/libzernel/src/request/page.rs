// SPDX-License-Identifier: GPL-2.0
//! Pages of slots: memory that is registered with zernel.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use super::Slot;
use crate::sim::Words;
use crate::sys::page::SharedPage;
use crate::sys::{abi, v0 as calls};
use crate::{Call, Error, Result, Zernel};

/// A page of slots. Dropping it unregisters it, which cancels its requests.
///
/// It keeps the file of its [`Zernel`] open.
#[derive(Debug)]
pub struct Page {
    memory: Arc<SharedPage>,
    registered: Registered,
}

/// A registration, which ends when this is dropped.
#[derive(Debug)]
struct Registered {
    file: Arc<OwnedFd>,
    number: u32,
    ended: bool,
}

impl Page {
    /// A page of memory of its own.
    ///
    /// Errors: [`Error::Call`] with `EDQUOT` or `ENOMEM`.
    pub fn anonymous(zernel: &Zernel) -> Result<Self> {
        let memory = SharedPage::anonymous().map_err(Error::call(Call::PageMap))?;
        Self::register(zernel, Arc::new(memory))
    }

    /// The page of a file at `offset`, a multiple of the page size, which others may map too: a
    /// memfd, or memory that a device can reach.
    ///
    /// Errors: [`Error::Call`] with `EFAULT` when it is memory that cannot be pinned, or as
    /// [`Self::anonymous`] and `mmap()`.
    pub fn of_file(zernel: &Zernel, file: BorrowedFd<'_>, offset: u64) -> Result<Self> {
        let memory = SharedPage::of_file(file, offset).map_err(Error::call(Call::PageMap))?;
        Self::register(zernel, Arc::new(memory))
    }

    /// The page of a context's semaphore words, so that the software GPU waits for what zernel
    /// stores: see [`Slot::word`].
    ///
    /// Errors: as [`Self::anonymous`].
    pub fn of_words(zernel: &Zernel, words: &Words) -> Result<Self> {
        Self::register(zernel, words.page().clone())
    }

    /// Registers the same memory with another file as well.
    ///
    /// Errors: as [`Self::anonymous`].
    pub fn register_with(&self, zernel: &Zernel) -> Result<Self> {
        Self::register(zernel, self.memory.clone())
    }

    fn register(zernel: &Zernel, memory: Arc<SharedPage>) -> Result<Self> {
        let number = calls::page_register(zernel.as_fd(), &memory)
            .map_err(Error::call(Call::PageRegister))?;
        let file = zernel.file().clone();
        Ok(Self {
            memory,
            registered: Registered {
                file,
                number,
                ended: false,
            },
        })
    }

    /// Its number in its file.
    pub fn number(&self) -> u32 {
        self.registered.number
    }

    /// A slot of it, if there is one of that number.
    pub fn slot(&self, number: u32) -> Option<Slot<'_>> {
        let slot = self.memory.slots().get(number as usize)?;
        Some(Slot::new(self, number, slot))
    }

    /// All slots of it.
    pub fn slots(&self) -> impl Iterator<Item = Slot<'_>> {
        let slots = (0..).zip(self.memory.slots());
        slots.map(|(number, slot)| Slot::new(self, number, slot))
    }

    /// Ends the registration now, and tells if that failed.
    pub fn unregister(mut self) -> Result<()> {
        self.registered
            .end()
            .map_err(Error::call(Call::PageUnregister))
    }

    /// Ends the mapping, but not the registration: that lasts until the file is closed.
    pub fn unmap(mut self) {
        self.registered.ended = true;
    }

    /// The open file that it is registered with.
    pub(crate) fn file(&self) -> &Arc<OwnedFd> {
        &self.registered.file
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.registered.file.as_fd()
    }
}

impl Registered {
    fn end(&mut self) -> std::result::Result<(), rustix::io::Errno> {
        if self.ended {
            return Ok(());
        }
        self.ended = true;
        let mut raw = abi::zernel_v0_page {
            address: 0,
            page: self.number,
            flags: 0,
        };
        calls::page_unregister(self.file.as_fd(), &mut raw)
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        // Fails only if it was unregistered behind our back.
        let _ = self.end();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Cause;

    #[test]
    fn another_file_takes_no_page() {
        let zernel = Zernel::open_at("/dev/null").unwrap();
        let error = Page::anonymous(&zernel).unwrap_err();
        assert_eq!(error.cause(), Cause::Unsupported);
        assert!(error.to_string().starts_with("register page: "), "{error}");
    }

    #[test]
    fn what_cannot_be_mapped_says_so() {
        let zernel = Zernel::open_at("/dev/null").unwrap();
        let error = Page::of_file(&zernel, zernel.as_fd(), 1).unwrap_err();
        assert!(error.to_string().starts_with("map page: "), "{error}");
    }
}
