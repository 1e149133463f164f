// SPDX-License-Identifier: GPL-2.0
//! A part of a list, as all kinds of them fill it.
//!
//! A kind is one file beside this one, which implements [`Kind`]. It goes through its objects in the
//! order of their ids and hands each to [`Part::fill`], which bounds the entries and the looks of a
//! call. The cursor of a call is the id of the last object it looked at, shown or not.

use crate::{
    device::target::Target,
    glue::{
        abi::{
            self,
            Abi, //
        },
        identity::Viewer,
        time::now_ns,
        uapi, //
    }, //
};
use kernel::prelude::*;

/// Most entries that a call fills.
pub(in crate::device) const MAX: usize = 64;

/// Objects that a call looks at, shown or not.
const LOOKS: usize = 16 * MAX;

/// Longest entry that a program may know.
const MAX_ENTRY: usize = 4096;

/// A kind of list.
pub(super) trait Kind {
    /// Its entries.
    type Entry: Abi;
    /// Kinds of target (`ZERNEL_TARGET_*`) that it takes as a filter.
    const FILTERS: &'static [u32];
    /// Nothing of it is shown without `CAP_PERFMON`.
    const PRIVATE: bool = false;

    /// Number of entries that have come and gone so far, of all users.
    ///
    /// # Errors
    ///
    /// `ENODEV` the module is on its way out.
    fn changes() -> Result<u64>;

    /// Fills a part with the objects that are visible to `viewer` and pass `filter`.
    ///
    /// # Errors
    ///
    /// Those of targets, `ENOMEM`.
    fn fill(part: &mut Part<Self::Entry>, filter: &Target, viewer: &Viewer) -> Result;
}

/// Fills a part of a list of one kind.
pub(super) fn fill<K: Kind>(list: &mut uapi::zernel_list) -> Result {
    let stride = list.entry_size as usize;
    if list.flags != 0
        || list.room == 0
        || stride % size_of::<u64>() != 0
        || !(K::Entry::FIRST_SIZE..=MAX_ENTRY).contains(&stride)
    {
        return Err(EINVAL);
    }
    let filter = match list.filter.kind {
        uapi::ZERNEL_TARGET_NONE => Target::read(&list.filter, &[uapi::ZERNEL_TARGET_NONE])?,
        _ => Target::read(&list.filter, K::FILTERS)?,
    };
    let viewer = Viewer::current();
    if K::PRIVATE && !viewer.sees_all() {
        return Err(EPERM);
    }
    let room = MAX.min(list.room as usize);
    let mut part = Part {
        cursor: list.cursor,
        room,
        looks: LOOKS,
        is_last: false,
        entries: KVec::with_capacity(room, GFP_KERNEL)?,
    };
    let before = K::changes()?;
    let time_at = now_ns();
    K::fill(&mut part, &filter, &viewer)?;
    let after = K::changes()?;
    let address = usize::try_from(list.entries).map_err(|_| EFAULT)?;
    abi::write_array(address, stride, &part.entries)?;
    list.next = if part.is_last { 0 } else { part.cursor };
    list.time_at = time_at;
    // A change during the first call, or the last one, is one between them.
    list.changes = if list.cursor == 0 { before } else { after };
    list.filled = part.entries.len() as u32;
    list.entry_known = size_of::<K::Entry>() as u32;
    Ok(())
}

/// A part of a list that is filled.
pub(super) struct Part<T> {
    /// The id that was looked at last.
    cursor: u64,
    room: usize,
    /// Objects that may still be looked at.
    looks: usize,
    /// Nothing comes after the cursor.
    is_last: bool,
    entries: KVec<T>,
}

impl<T> Part<T> {
    /// Fills the part with the objects of `find`: the first one with an id of at least its
    /// argument, with its id, and its entry if it is to be shown. `None` ends the list. Looks one
    /// object beyond the room, so that a list that fits ends with the call. May be called again for
    /// the next objects.
    pub(super) fn fill(&mut self, mut find: impl FnMut(u64) -> Option<(u64, Option<T>)>) {
        while self.looks > 0 {
            let Some((id, entry)) = self.cursor.checked_add(1).and_then(&mut find) else {
                self.is_last = true;
                return;
            };
            if let Some(entry) = entry {
                if self.entries.len() >= self.room {
                    return;
                }
                // Never fails: the capacity was allocated.
                let _ = self.entries.push_within_capacity(entry);
            }
            self.cursor = id;
            self.looks -= 1;
        }
    }

    /// As [`Self::fill`]; `find` takes a lock for each object, so that it is held for a short time.
    ///
    /// # Errors
    ///
    /// Those of `find`.
    pub(super) fn fill_each(
        &mut self,
        mut find: impl FnMut(u64) -> Result<Option<(u64, Option<T>)>>,
    ) -> Result {
        let mut result = Ok(());
        self.fill(|from| match find(from) {
            Ok(found) => found,
            Err(error) => {
                result = Err(error);
                None
            }
        });
        result
    }

    /// The id that was looked at last.
    pub(super) fn cursor(&self) -> u64 {
        self.cursor
    }

    /// Goes on behind this id.
    pub(super) fn skip_to(&mut self, cursor: u64) {
        self.cursor = cursor;
    }

    /// The entries so far.
    pub(super) fn entries_mut(&mut self) -> &mut [T] {
        &mut self.entries
    }
}
