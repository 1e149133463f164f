// SPDX-License-Identifier: MIT OR Apache-2.0
//! Lists, read a part at a time.

use bytemuck::{Pod, Zeroable};
use rustix::io::Errno;

use crate::sys::{abi, zernel as calls};
use crate::{Call, Error, Result, Zernel};
use std::os::fd::AsFd;

/// Most entries that are asked for at a time; a module may fill fewer.
const ROOM: usize = 64;

/// A list of no target in particular.
pub(crate) const ALL: abi::zernel_target = abi::zernel_target {
    kind: abi::ZERNEL_TARGET_NONE,
    flags: 0,
    id: 0,
};

/// The entries of a list, in the order of their ids. It ends after the first error.
pub(crate) struct Entries<T, F> {
    call: Call,
    read: F,
    cursor: u64,
    part: Vec<T>,
    next: usize,
    filled: usize,
    is_last: bool,
}

impl<T: Pod, F> Entries<T, F>
where
    F: FnMut(u64, &mut [T]) -> std::result::Result<(usize, u64), Errno>,
{
    /// Those that `read` fills from a cursor on. It returns how many there were, and the next
    /// cursor, 0 at the end.
    fn new(call: Call, read: F) -> Self {
        Self {
            call,
            read,
            cursor: 0,
            part: vec![T::zeroed(); ROOM],
            next: 0,
            filled: 0,
            is_last: false,
        }
    }
}

impl<T: Pod, F> Iterator for Entries<T, F>
where
    F: FnMut(u64, &mut [T]) -> std::result::Result<(usize, u64), Errno>,
{
    type Item = Result<T>;

    fn next(&mut self) -> Option<Self::Item> {
        // A part without an entry is not the end.
        while self.next == self.filled && !self.is_last {
            self.next = 0;
            match (self.read)(self.cursor, &mut self.part) {
                Ok((filled, cursor)) => {
                    self.filled = filled.min(self.part.len());
                    self.cursor = cursor;
                    self.is_last = cursor == 0;
                }
                Err(errno) => {
                    (self.filled, self.is_last) = (0, true);
                    return Some(Err(Error::call(self.call)(errno)));
                }
            }
        }
        let entry = *self.part[..self.filled].get(self.next)?;
        self.next += 1;
        Some(Ok(entry))
    }
}

impl Zernel {
    /// The entries of a list (`ZERNEL_LIST_*`) that belong to `filter`. `call` names it in errors.
    pub(crate) fn entries<T: Pod>(
        &self,
        call: Call,
        kind: u32,
        filter: abi::zernel_target,
    ) -> impl Iterator<Item = Result<T>> + use<'_, T> {
        Entries::new(call, move |cursor, part: &mut [T]| {
            let mut list = abi::zernel_list {
                kind,
                filter,
                cursor,
                ..Zeroable::zeroed()
            };
            let filled = calls::list(self.as_fd(), &mut list, part)?;
            Ok((filled, list.next))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Cause;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn parts_join_without_gap_or_repeat(
            ids in prop::collection::btree_set(2u64.., 0..300),
            most in 1usize..70,
            empty in any::<u64>(),
        ) {
            let ids: Vec<u64> = ids.into_iter().collect();
            let mut call = 0u32;
            let read = |cursor: u64, part: &mut [u64]| {
                call += 1;
                if empty >> (call % 64) & 1 == 1 && call < 64 {
                    return Ok((0, cursor.max(1)));
                }
                // The module may fill fewer than there is room for.
                let rest: Vec<u64> = ids.iter().copied().filter(|&id| id > cursor).collect();
                let count = rest.len().min(most).min(part.len());
                part[..count].copy_from_slice(&rest[..count]);
                let next = if count < rest.len() { rest[count] - 1 } else { 0 };
                Ok((count, next))
            };
            let seen: Result<Vec<u64>> = Entries::new(Call::ListTsgs, read).collect();
            prop_assert_eq!(seen.unwrap(), ids.clone());
        }
    }

    #[test]
    fn an_error_in_the_middle_ends_the_list() {
        let mut calls = 0;
        let read = |_: u64, part: &mut [u64]| {
            calls += 1;
            if calls == 1 {
                part[0] = 7;
                Ok((1, 7))
            } else {
                Err(Errno::INTR)
            }
        };
        let seen: Vec<_> = Entries::new(Call::ListGpus, read).collect();
        assert_eq!(seen.len(), 2);
        assert_eq!(seen[0], Ok(7));
        assert_eq!(seen[1].as_ref().unwrap_err().cause(), Cause::Interrupted);
    }
}
