// SPDX-License-Identifier: GPL-2.0
//! The ring of a stream that runs, and the events that get there.
//!
//! A slot of a ring takes the largest event, so that the capacity is a number of events, and an
//! event is written without a search for room.

use super::{
    event::{
        Event,
        Filter, //
    },
    inbox::Letter, //
};
use crate::{
    glue::{
        identity::Viewer,
        memory::account_quietly,
        uapi, //
    },
    policy::ring::Ring,
};
use kernel::{
    prelude::*,
    sync::atomic::{
        ordering::Relaxed,
        Atomic, //
    },
};

static LAST_ID: Atomic<u64> = Atomic::new(0);

/// A stream that runs: its ring, and the events that get there.
///
/// # Invariants
///
/// `slots` is as long as `positions` has slots.
pub(crate) struct Running {
    id: u64,
    positions: Ring,
    slots: KVVec<Event>,
    /// One bit each.
    kinds: u64,
    filter: Filter,
}

/// An event, and the numbers of its process and user in the view that was asked for
/// last: most streams have the same.
pub(super) struct Named<'a> {
    letter: &'a Letter,
    last: Option<(&'a Viewer, (u32, u32))>,
}

impl<'a> Named<'a> {
    /// An event.
    pub(super) fn new(letter: &'a Letter) -> Self {
        Self { letter, last: None }
    }

    /// The numbers of the process and of its user as `viewer` sees them.
    fn numbers(&mut self, viewer: &'a Viewer) -> Option<(u32, u32)> {
        let (process, uid) = self.letter.owner.as_ref()?;
        if let Some((last, numbers)) = self.last {
            if viewer.has_numbers_of(last) {
                return Some(numbers);
            }
        }
        let numbers = (viewer.number_of(process), viewer.number_of_user(*uid));
        self.last = Some((viewer, numbers));
        Some(numbers)
    }
}

/// An event that a stream took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Taken {
    /// Another one was lost for it.
    pub(super) overwrote: bool,
}

impl Running {
    /// Room for `capacity` of these events.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(kinds: u64, filter: Filter, capacity: usize) -> Result<Self> {
        let capacity = capacity.max(1);
        let empty = Event::Gpu(uapi::zernel_event_gpu::default());
        // INVARIANT: Both have `capacity` slots.
        Ok(Self {
            id: LAST_ID.fetch_add(1, Relaxed),
            positions: Ring::new(capacity),
            slots: KVVec::from_elem(empty, capacity, account_quietly())?,
            kinds,
            filter,
        })
    }

    /// The number of this run, which no other has.
    pub(super) fn id(&self) -> u64 {
        self.id
    }

    /// Events for which there is room.
    pub(super) fn capacity(&self) -> usize {
        self.slots.len()
    }

    /// Nothing is there to read.
    pub(super) fn is_empty(&self) -> bool {
        self.positions.is_empty()
    }

    /// Takes other events from now on. Returns the filter until now, to be dropped without locks.
    pub(super) fn change(&mut self, kinds: u64, filter: Filter) -> Filter {
        self.kinds = kinds;
        core::mem::replace(&mut self.filter, filter)
    }

    /// Takes an event unless it, or its subject, is not for this stream.
    pub(super) fn push<'a>(&mut self, named: &mut Named<'a>, viewer: &'a Viewer) -> Option<Taken> {
        let letter = named.letter;
        // One of those that were lost may have been for this stream.
        self.positions.lose(letter.lost);
        if self.kinds & letter.event.kind() == 0 || !letter.passes(&self.filter) {
            return None;
        }
        let owner = named.numbers(viewer);
        let is_unknown = owner.is_some_and(|(number, _)| number == 0);
        if is_unknown && letter.tsg == 0 && !viewer.sees_all() {
            return None;
        }
        let place = self.positions.push();
        if let Some(slot) = self.slots.get_mut(place.slot) {
            *slot = letter.event;
            slot.header_mut().seq = place.seq;
            if let Some((number, user)) = owner {
                slot.set_owner(number, user);
            }
        }
        Some(Taken {
            overwrote: place.overwrote,
        })
    }

    /// Moves events that fit into `room` bytes to `batch`, without allocating.
    pub(super) fn take(&mut self, batch: &mut KVec<Event>, mut room: usize) {
        let dropped = self.positions.lost();
        while batch.len() < batch.capacity() {
            let slot = self.positions.peek();
            let Some(event) = slot.and_then(|slot| self.slots.get(slot)) else {
                return;
            };
            let size = event.bytes().len();
            if size > room {
                return;
            }
            let mut event = *event;
            event.header_mut().dropped = dropped;
            if batch.push_within_capacity(event).is_err() {
                return;
            }
            self.positions.pop();
            room -= size;
        }
    }

    /// Counts events as dropped that were taken and did not reach the reader.
    pub(super) fn lose(&mut self, count: u64) {
        self.positions.lose(count);
    }
}
