// SPDX-License-Identifier: GPL-2.0
//! The slots of an open file: one area of pages, each made by its first mapping.

use crate::{
    glue::{
        identity,
        memory::account_nowait,
        slots::{
            Mapping,
            SlotPage,
            SlotWords,
            PER_PAGE, //
        }, //
    },
    policy::request::record::Cause,
    request::{
        share::Charge,
        slot::Slot, //
    },
};
use kernel::{
    mm::virt::VmaNew,
    prelude::*,
    sync::Arc, //
};

/// Most slots of a file.
pub(crate) const MAX: u32 = 16_384;

/// A word of 64 bits is read at one moment, as the gate of a request has to be.
pub(crate) const HAVE_GATES: bool = cfg!(target_pointer_width = "64");

/// Most pages of a file.
const MAX_PAGES: usize = MAX as usize / PER_PAGE;

/// Calls `f`, which does not wait for memory; while there is none, it is waited for in between as for
/// a page of slots. At the limit of its memory cgroup the caller is told so, and not killed.
fn with_room<T>(mut f: impl FnMut() -> Result<T>) -> Result<T> {
    const TRIES: usize = 4;
    for _ in 0..TRIES {
        match f() {
            Err(ENOMEM) => drop(SlotPage::new()?),
            result => return result,
        }
    }
    f()
}

/// A page of slots.
struct Page {
    memory: Arc<SlotPage>,
    slots: KVec<Option<Arc<Slot>>>,
    charge: Charge,
}

impl Page {
    /// Does not wait for memory.
    fn new(memory: SlotPage) -> Result<Self> {
        let charge = Charge::new(identity::caller_uid(), identity::caller_is_unbound())?;
        let mut slots = KVec::with_capacity(PER_PAGE, account_nowait())?;
        for _ in 0..PER_PAGE {
            slots.push(None, account_nowait())?;
        }
        Ok(Self {
            memory: Arc::new(memory, account_nowait())?,
            slots,
            charge,
        })
    }

    /// A slot, which the first use makes.
    fn slot(&mut self, number: usize) -> Result<&Arc<Slot>> {
        let place = self.slots.get_mut(number).ok_or(ENXIO)?;
        if place.is_none() {
            let words = SlotWords::new(self.memory.clone(), number);
            *place = Some(Slot::make(words, self.charge.timers.clone())?);
        }
        place.as_ref().ok_or(ENXIO)
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        // First, so that one look at preferred threads is enough.
        for slot in self.slots.iter().flatten() {
            slot.end(Cause::Closed);
        }
        for place in &mut self.slots {
            if let Some(slot) = place.take() {
                slot.close(Cause::Closed);
            }
        }
    }
}

/// The slots of a file.
pub(crate) struct Slots {
    /// By number of page; `None` is not mapped yet.
    pages: KVec<Option<Page>>,
}

impl Slots {
    /// None.
    pub(crate) fn new() -> Self {
        Self { pages: KVec::new() }
    }

    /// Maps pages of slots, and makes those that are not there. May sleep.
    ///
    /// # Errors
    ///
    /// `EPERM` executable; `EINVAL` private, or beyond the slots; `EDQUOT` the user has
    /// its share of pages; `ENOMEM`. No page was made then.
    pub(crate) fn map(&mut self, vma: &VmaNew) -> Result {
        let mapping = Mapping::new(vma, MAX_PAGES)?;
        let pages = mapping.pages.clone();
        while self.pages.len() < pages.end {
            with_room(|| Ok(self.pages.push(None, account_nowait())?))?;
        }
        let mut new = with_room(|| Ok(KVec::with_capacity(pages.len(), account_nowait())?))?;
        for number in pages {
            match self.pages.get(number) {
                Some(Some(page)) => mapping.insert(number, &page.memory)?,
                _ => {
                    let page = with_room(|| Page::new(SlotPage::new()?))?;
                    mapping.insert(number, &page.memory)?;
                    new.push((number, page), account_nowait())?;
                }
            }
        }
        for (number, page) in new {
            if let Some(place) = self.pages.get_mut(number) {
                *place = Some(page);
            }
        }
        Ok(())
    }

    /// The page of a slot, and its number there.
    fn page(&mut self, number: u32) -> Result<(&mut Page, usize)> {
        let number = number as usize;
        let page = self.pages.get_mut(number / PER_PAGE);
        let page = page.and_then(Option::as_mut).ok_or(ENXIO)?;
        Ok((page, number % PER_PAGE))
    }

    /// A slot.
    ///
    /// # Errors
    ///
    /// `ENXIO` its page is not mapped yet, `ENOMEM`.
    pub(crate) fn slot(&mut self, number: u32) -> Result<&Arc<Slot>> {
        let (page, number) = self.page(number)?;
        page.slot(number)
    }

    /// A slot that was used; `None` if it was not.
    ///
    /// # Errors
    ///
    /// `ENXIO` its page is not mapped yet.
    pub(crate) fn used(&mut self, number: u32) -> Result<Option<Arc<Slot>>> {
        let (page, number) = self.page(number)?;
        Ok(page.slots.get(number).cloned().flatten())
    }

    /// The words of a slot.
    ///
    /// # Errors
    ///
    /// `ENXIO` its page is not mapped yet.
    pub(crate) fn words(&mut self, number: u32) -> Result<SlotWords> {
        let (page, number) = self.page(number)?;
        Ok(SlotWords::new(page.memory.clone(), number))
    }
}
