// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rounds that are under way, with a request or for comparison with those. Each belongs to a thread,
//! and may be ended by any.

use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::underway::{End, Underway};

/// Requests of a process that can be under way.
const SIZE: usize = 64;
/// Events that are known to come after the work of a request.
const EVENTS: usize = 4;

/// The name of a request that is or was under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ticket {
    place: u8,
    generation: u32,
}

impl Ticket {
    /// That of none.
    pub const NONE: Self = Self {
        place: u8::MAX,
        generation: 0,
    };
}

#[derive(Debug)]
struct Entry {
    underway: Mutex<Option<Underway>>,
    /// Counts its ends.
    generation: AtomicU32,
    context: AtomicUsize,
    /// The stream of its last launch.
    stream: AtomicU64,
    events: [AtomicU64; EVENTS],
    next_event: AtomicUsize,
}

impl Entry {
    const fn empty() -> Self {
        Self {
            underway: Mutex::new(None),
            generation: AtomicU32::new(0),
            context: AtomicUsize::new(0),
            stream: AtomicU64::new(0),
            events: [const { AtomicU64::new(0) }; EVENTS],
            next_event: AtomicUsize::new(0),
        }
    }

    fn underway(&self) -> MutexGuard<'_, Option<Underway>> {
        self.underway.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The requests.
#[derive(Debug)]
pub struct Requests {
    entries: [Entry; SIZE],
    /// Bits of entries that are in use.
    used: AtomicU64,
    /// Bits of those without work.
    begun: AtomicU64,
    /// Bits of those whose work is under way.
    launched: AtomicU64,
    /// Bits of those without work that any thread may launch.
    offered: AtomicU64,
}

/// The places of the bits of a mask.
fn places(mask: u64) -> impl Iterator<Item = usize> {
    (0..SIZE).filter(move |place| mask & 1 << place != 0)
}

impl Requests {
    /// Without any.
    pub const fn new() -> Self {
        Self {
            entries: [const { Entry::empty() }; SIZE],
            used: AtomicU64::new(0),
            begun: AtomicU64::new(0),
            launched: AtomicU64::new(0),
            offered: AtomicU64::new(0),
        }
    }

    /// Keeps a round of a context. Without room it is given up.
    pub fn put(&self, underway: Underway, context: usize) -> Option<Ticket> {
        let lowest = |used: u64| Some(used | used.wrapping_add(1)).filter(|&new| new != used);
        let used = self.used.fetch_update(AcqRel, Acquire, lowest).ok()?;
        let place = used.trailing_ones() as usize;
        let entry = &self.entries[place];
        entry.context.store(context, Relaxed);
        entry.stream.store(0, Relaxed);
        for event in &entry.events {
            event.store(0, Relaxed);
        }
        let generation = entry.generation.load(Acquire);
        *entry.underway() = Some(underway);
        self.begun.fetch_or(1 << place, AcqRel);
        Some(Ticket {
            place: place as u8,
            generation,
        })
    }

    fn entry(&self, ticket: Ticket) -> Option<&Entry> {
        let entry = self.entries.get(usize::from(ticket.place))?;
        (entry.generation.load(Acquire) == ticket.generation).then_some(entry)
    }

    /// True if it is under way.
    pub fn is_live(&self, ticket: Ticket) -> bool {
        self.entry(ticket).is_some()
    }

    /// True if there are requests whose work is under way.
    pub fn has_launched(&self) -> bool {
        self.launched.load(Relaxed) != 0
    }

    /// Lets any thread launch the work of a request.
    pub fn offer(&self, ticket: Ticket) {
        if self.is_live(ticket) {
            self.offered.fetch_or(1 << ticket.place, AcqRel);
        }
    }

    /// True if there are requests whose work any thread may launch.
    pub fn has_offered(&self) -> bool {
        self.offered.load(Relaxed) != 0
    }

    /// Takes such a round of a context over. Those that nobody has launched for too long end.
    pub fn adopt(&self, context: usize) -> Option<Ticket> {
        self.reap(context);
        places(self.offered.load(Acquire)).find_map(|place| {
            let entry = &self.entries[place];
            let generation = entry.generation.load(Acquire);
            let bit = 1 << place;
            let is_mine = entry.is_of(context) && self.offered.fetch_and(!bit, AcqRel) & bit != 0;
            is_mine.then_some(Ticket {
                place: place as u8,
                generation,
            })
        })
    }

    /// True if there are requests without work.
    pub fn has_begun(&self) -> bool {
        self.begun.load(Acquire) != 0
    }

    /// The first work of a request is about to be launched in a stream: its data is ready but for
    /// that. False: it has ended.
    pub fn launching(&self, ticket: Ticket, stream: u64) -> bool {
        self.look_at(ticket, |entry, underway| {
            underway.launching();
            entry.stream.store(stream, Release);
        })
    }

    /// That work was launched. False: it has ended.
    pub fn ready(&self, ticket: Ticket) -> bool {
        let bit = 1 << ticket.place;
        self.look_at(ticket, |_, underway| {
            underway.ready();
            self.begun.fetch_and(!bit, AcqRel);
            self.offered.fetch_and(!bit, AcqRel);
            self.launched.fetch_or(bit, AcqRel);
        })
    }

    fn look_at(&self, ticket: Ticket, look: impl FnOnce(&Entry, &mut Underway)) -> bool {
        let Some(entry) = self.entry(ticket) else {
            return false;
        };
        let mut underway = entry.underway();
        // It may have ended, and another one begun, meanwhile.
        let underway = underway.as_mut().filter(|_| self.is_live(ticket));
        underway.map(|underway| look(entry, underway)).is_some()
    }

    /// Further work of a request is launched in a stream. False: it has ended.
    pub fn launched_in(&self, ticket: Ticket, stream: u64) -> bool {
        let entry = self.entry(ticket);
        entry
            .map(|entry| entry.stream.store(stream, Relaxed))
            .is_some()
    }

    /// An event is recorded in a stream, after work of a request if that was launched there.
    pub fn recorded(&self, ticket: Ticket, event: u64, stream: u64) {
        let entry = self.entry(ticket);
        let Some(entry) = entry.filter(|entry| entry.stream.load(Relaxed) == stream) else {
            return;
        };
        let at = entry.next_event.fetch_add(1, Relaxed) % EVENTS;
        entry.events[at].store(event, Release);
    }

    /// True if an event comes after work of a request.
    pub fn has_event(&self, ticket: Ticket, event: u64) -> bool {
        self.entry(ticket).is_some_and(|entry| entry.has(event))
    }

    /// True if the last work of a request was launched in a stream.
    pub fn is_in(&self, ticket: Ticket, stream: u64) -> bool {
        let entry = self.entry(ticket);
        entry.is_some_and(|entry| entry.stream.load(Relaxed) == stream)
    }

    /// Ends a request.
    pub fn end(&self, ticket: Ticket, end: End) {
        let Some(entry) = self.entry(ticket) else {
            return;
        };
        let mut underway = entry.underway();
        if !self.is_live(ticket) {
            return;
        }
        if let Some(underway) = underway.take() {
            underway.end(end);
        }
        let bit = 1_u64 << ticket.place;
        self.begun.fetch_and(!bit, AcqRel);
        self.offered.fetch_and(!bit, AcqRel);
        self.launched.fetch_and(!bit, AcqRel);
        entry.generation.fetch_add(1, AcqRel);
        self.used.fetch_and(!bit, AcqRel);
    }

    fn end_each(&self, mask: u64, end: End, is_meant: impl Fn(&Entry) -> bool) {
        for place in places(mask) {
            let entry = &self.entries[place];
            let generation = entry.generation.load(Acquire);
            if is_meant(entry) {
                let ticket = Ticket {
                    place: place as u8,
                    generation,
                };
                self.end(ticket, end);
            }
        }
    }

    /// A stream of a context has nothing left to do: requests whose last work was there are done.
    pub fn stream_is_idle(&self, context: usize, stream: u64) {
        self.end_each(self.launched.load(Acquire), End::Done, |entry| {
            entry.is_of(context) && entry.stream.load(Relaxed) == stream
        });
    }

    /// An event has passed: requests with work before it are done.
    pub fn event_has_passed(&self, event: u64) {
        self.end_each(self.launched.load(Acquire), End::Done, |entry| {
            entry.has(event)
        });
    }

    /// A context has nothing left to do.
    pub fn context_is_idle(&self, context: usize) {
        self.end_each(self.launched.load(Acquire), End::Done, |entry| {
            entry.is_of(context)
        });
    }

    /// Gives up the requests of a context that have no work: nothing of theirs is on the GPU then.
    pub fn end_begun(&self, context: usize, end: End) {
        self.end_each(self.begun.load(Acquire), end, |entry| entry.is_of(context));
    }

    /// True if the lease of a request was over before it had work.
    pub fn is_expired(&self, ticket: Ticket) -> bool {
        self.entry(ticket).is_some_and(Entry::is_expired)
    }

    /// True if there is room for another one; those of a context that nobody will launch end, if not.
    pub fn has_room(&self, context: usize) -> bool {
        let is_full = || self.used.load(Relaxed) == u64::MAX;
        !is_full() || (self.reap(context) && !is_full())
    }

    /// Gives the request of a round up whose lease is over; the round goes on.
    pub fn expire(&self, ticket: Ticket) {
        self.look_at(ticket, |_, underway| underway.expire());
    }

    /// Ends the rounds of a context whose leases are over, and those offered that nobody will launch;
    /// true if there were any.
    pub fn reap(&self, context: usize) -> bool {
        let mut has_some = false;
        let offered = self.offered.load(Acquire);
        for place in places(self.begun.load(Acquire)) {
            let entry = &self.entries[place];
            let ticket = Ticket {
                place: place as u8,
                generation: entry.generation.load(Acquire),
            };
            let is_offered = offered & 1 << place != 0;
            if entry.is_of(context) && entry.is_over(is_offered) {
                self.end(ticket, End::Cancelled);
                has_some = true;
            }
        }
        has_some
    }

    /// Gives up all requests of a context, which is about to end.
    pub fn drop_all(&self, context: usize) {
        self.end_each(self.used.load(Acquire), End::Dropped, |entry| {
            entry.is_of(context)
        });
    }
}

impl Entry {
    fn is_of(&self, context: usize) -> bool {
        self.context.load(Relaxed) == context
    }

    fn is_expired(&self) -> bool {
        self.underway().as_ref().is_some_and(Underway::is_expired)
    }

    fn is_over(&self, is_offered: bool) -> bool {
        let is_over = |underway: &Underway| match is_offered {
            true => underway.is_stale(),
            false => underway.is_expired(),
        };
        self.underway().as_ref().is_some_and(is_over)
    }

    fn has(&self, event: u64) -> bool {
        self.events.iter().any(|own| own.load(Acquire) == event)
    }
}

#[cfg(test)]
mod tests;
