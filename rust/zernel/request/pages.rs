// SPDX-License-Identifier: GPL-2.0
//! The pages of slots of an open file.

use super::slot::Slot;
use crate::{
    error::Failure,
    glue::{
        identity::{
            self,
            Uid, //
        },
        memory::with_memory,
        pinned::{
            PinnedPage,
            SLOTS, //
        },
        uapi, //
    },
    policy::request::record::Cause,
    registry,
};
use kernel::{
    prelude::*,
    rbtree::{
        RBTree,
        RBTreeNode, //
    },
    sync::Arc, //
};

/// Most pages of a user.
pub(crate) const MAX_PER_USER: u32 = uapi::ZERNEL_V0_MAX_PAGES_PER_USER;

/// A page that counts against its user's share.
///
/// # Invariants
///
/// The registry counts it for `user`.
struct Charge {
    user: Uid,
}

impl Charge {
    fn new() -> Result<Self> {
        let (user, unbound) = (identity::caller_uid(), identity::caller_is_unbound());
        with_memory(|| {
            registry::with(|r| {
                let charged = r.charge_page(user, unbound);
                r.count_denied(&charged);
                charged
            })?
        })?;
        // INVARIANT: Just counted.
        Ok(Self { user })
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        // Without a registry nothing is counted.
        let _ = registry::with(|r| r.uncharge_page(self.user));
    }
}

/// A page of slots.
pub(crate) struct Page {
    words: Arc<PinnedPage>,
    slots: KVec<Option<Arc<Slot>>>,
    _charge: Charge,
}

impl Page {
    /// Pins the caller's page at `address`.
    ///
    /// # Errors
    ///
    /// As [`PinnedPage::new`], and [`Failure::OverQuota`].
    pub(crate) fn new(address: u64) -> Result<Self> {
        let charge = Charge::new()?;
        let mut slots = KVec::with_capacity(SLOTS, GFP_KERNEL_ACCOUNT)?;
        for _ in 0..SLOTS {
            slots.push(None, GFP_KERNEL_ACCOUNT)?;
        }
        Ok(Self {
            words: Arc::new(PinnedPage::new(address)?, GFP_KERNEL_ACCOUNT)?,
            slots,
            _charge: charge,
        })
    }

    /// A slot, which the first use makes.
    fn slot(&mut self, number: u32) -> Result<&Arc<Slot>> {
        let place = self.slots.get_mut(number as usize).ok_or(ENOENT)?;
        if place.is_none() {
            *place = Some(Slot::make(self.words.clone(), number)?);
        }
        place.as_ref().ok_or(ENOENT)
    }

    fn end(&mut self, cause: Cause) {
        // First, so that one look at those whose threads are preferred is enough.
        for slot in self.slots.iter().flatten() {
            slot.end(cause);
        }
        for place in &mut self.slots {
            if let Some(slot) = place.take() {
                slot.close(cause);
            }
        }
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        // For what was not ended on purpose; nothing happens to the rest.
        self.end(Cause::Closed);
    }
}

/// The pages of a file.
pub(crate) struct Pages {
    pages: RBTree<u32, Page>,
    last: u32,
}

impl Pages {
    /// None.
    pub(crate) fn new() -> Self {
        Self {
            pages: RBTree::new(),
            last: 0,
        }
    }

    /// Takes a page in and returns its number, from 1.
    ///
    /// # Errors
    ///
    /// [`Failure::OverQuota`] every number was used, `ENOMEM`.
    pub(crate) fn add(&mut self, page: Page) -> Result<u32> {
        let number = self.last.checked_add(1).ok_or(Failure::OverQuota)?;
        let node = RBTreeNode::new(number, page, GFP_KERNEL_ACCOUNT)?;
        self.pages.insert(node);
        self.last = number;
        Ok(number)
    }

    /// Ends the requests of a page. What is returned must be dropped without a lock.
    ///
    /// # Errors
    ///
    /// `ENOENT`.
    pub(crate) fn remove(&mut self, number: u32) -> Result<Page> {
        let mut page = self.pages.remove(&number).ok_or(ENOENT)?;
        page.end(Cause::Unregistered);
        Ok(page)
    }

    /// The memory of a page that has this slot.
    ///
    /// # Errors
    ///
    /// `ENOENT` there is no such page or slot.
    pub(crate) fn words(&self, page: u32, slot: u32) -> Result<Arc<PinnedPage>> {
        let words = &self.pages.get(&page).ok_or(ENOENT)?.words;
        words.slot(slot).ok_or(ENOENT)?;
        Ok(words.clone())
    }

    /// A slot of a page.
    ///
    /// # Errors
    ///
    /// `ENOENT` there is no such page or slot, `ENOMEM`.
    pub(crate) fn slot(&mut self, page: u32, slot: u32) -> Result<&Arc<Slot>> {
        self.pages.get_mut(&page).ok_or(ENOENT)?.slot(slot)
    }
}
