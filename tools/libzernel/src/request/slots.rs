// SPDX-License-Identifier: MIT OR Apache-2.0
//! Mapped slots: memory of zernel's, shared with the program and its GPU.

use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::io::Errno;

use super::Slot;
use crate::sys::memory::{self, SharedMemory};
use crate::{Call, Error, Result, Zernel};

/// Bytes of a slot.
const SIZE: usize = size_of::<memory::Slot>();

/// Slots of a file, mapped. Dropping them ends the mapping, but none of their requests: these end
/// with the file, which a mapping keeps open.
#[derive(Debug)]
pub struct Slots {
    file: Arc<OwnedFd>,
    memory: SharedMemory,
    /// Number of the slot at the start of the mapping.
    base: u32,
    numbers: Range<u32>,
}

impl Slots {
    /// Maps slots of a file by their numbers. Pages that nobody has mapped before are made, with
    /// zeroes; others are shared.
    ///
    /// Errors: [`Error::Call`] with `EDQUOT`, `ENOMEM`, `EACCES` for a file that is open for reading
    /// alone, `EINVAL` for no slot or one that a file cannot have.
    pub fn map(zernel: &Zernel, numbers: Range<u32>) -> Result<Self> {
        let per_page = (rustix::param::page_size() / SIZE) as u32;
        let base = numbers.start - numbers.start % per_page;
        if numbers.is_empty() {
            return Err(Error::call(Call::SlotsMap)(Errno::INVAL));
        }
        let length = (numbers.end - base) as usize * SIZE;
        let offset = u64::from(base) * SIZE as u64;
        let memory = SharedMemory::of_file(zernel.as_fd(), offset, length)
            .map_err(Error::call(Call::SlotsMap))?;
        Ok(Self {
            file: zernel.file().clone(),
            memory,
            base,
            numbers,
        })
    }

    /// The numbers of its slots.
    pub fn numbers(&self) -> Range<u32> {
        self.numbers.clone()
    }

    /// A slot by its number, if it is one of these.
    pub fn slot(&self, number: u32) -> Option<Slot<'_>> {
        if !self.numbers.contains(&number) {
            return None;
        }
        let place = number - self.base;
        let words = self.memory.slots().get(place as usize)?;
        Some(Slot::new(self, number, place, words))
    }

    /// All of them.
    pub fn slots(&self) -> impl Iterator<Item = Slot<'_>> {
        self.numbers().filter_map(|number| self.slot(number))
    }

    /// Their memory, for a GPU.
    pub fn memory(&self) -> &SharedMemory {
        &self.memory
    }

    /// The open file that they belong to.
    pub(crate) fn file(&self) -> &Arc<OwnedFd> {
        &self.file
    }

    /// Slots of a page that no file has: calls fail.
    #[cfg(test)]
    pub(crate) fn of_memory(memory: SharedMemory) -> Self {
        let file = std::fs::File::open("/dev/null").unwrap();
        let count = memory.slots().len() as u32;
        Self {
            file: Arc::new(file.into()),
            memory,
            base: 0,
            numbers: 0..count,
        }
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_file_has_no_slots() {
        let zernel = Zernel::open_at("/dev/null").unwrap();
        let error = Slots::map(&zernel, 0..64).unwrap_err();
        assert!(error.to_string().starts_with("map slots: "), "{error}");
    }

    #[test]
    fn no_slot_is_none() {
        let zernel = Zernel::open_at("/dev/null").unwrap();
        let error = Slots::map(&zernel, 7..7).unwrap_err();
        assert_eq!(error.errno(), Some(Errno::INVAL));
    }
}
