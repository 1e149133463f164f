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

    /// Keeps a request of a context. Without room it comes back.
    pub fn put(&self, underway: Underway, context: usize) -> Result<Ticket, Underway> {
        let lowest = |used: u64| Some(used | used.wrapping_add(1)).filter(|&new| new != used);
        let Ok(used) = self.used.fetch_update(AcqRel, Acquire, lowest) else {
            return Err(underway);
        };
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
        Ok(Ticket {
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

    /// Takes such a request of a context over.
    pub fn adopt(&self, context: usize) -> Option<Ticket> {
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

    /// Gives up the requests of a context whose leases are over; true if there were any.
    pub fn reap(&self, context: usize) -> bool {
        let mut has_some = false;
        for place in places(self.begun.load(Acquire)) {
            let entry = &self.entries[place];
            let ticket = Ticket {
                place: place as u8,
                generation: entry.generation.load(Acquire),
            };
            if entry.is_of(context) && entry.is_expired() {
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

    fn has(&self, event: u64) -> bool {
        self.events.iter().any(|own| own.load(Acquire) == event)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    use crate::sites::Sites;
    use zernel_runtime::{Mode, Options, Runtime, Spec};

    static SITES: Sites = Sites::new();

    /// One that does nothing: the bookkeeping is the same.
    fn underway() -> Underway {
        let runtime = Runtime::attach(&Options::default().mode(Mode::Off)).unwrap();
        Underway {
            request: Some(runtime.begin(&Spec::new()).unwrap()),
            site: SITES.find(1),
            begun: Instant::now(),
            cost: Duration::ZERO,
            outcome: None,
        }
    }

    fn launch(requests: &Requests, ticket: Ticket, stream: u64) -> bool {
        requests.launching(ticket, stream) && requests.ready(ticket)
    }

    #[test]
    fn a_ticket_is_of_one_request() {
        let requests = Requests::new();
        let first = requests.put(underway(), 1).unwrap();
        assert!(requests.is_live(first) && requests.has_begun());
        assert!(launch(&requests, first, 7));
        assert!(!requests.has_begun() && requests.has_launched());
        requests.end(first, End::Done);
        assert!(!requests.is_live(first) && !requests.has_launched());
        let second = requests.put(underway(), 1).unwrap();
        assert_ne!(first, second);
        requests.end(first, End::Done);
        assert!(!launch(&requests, first, 7));
        assert!(requests.is_live(second));
        assert!(!requests.is_live(Ticket::NONE));
    }

    #[test]
    fn there_is_room_for_so_many() {
        let requests = Requests::new();
        let all: Vec<_> = (0..SIZE).map(|_| requests.put(underway(), 1)).collect();
        assert!(all.iter().all(Result::is_ok));
        assert!(requests.put(underway(), 1).is_err());
        requests.end(all[17].as_ref().copied().unwrap(), End::Cancelled);
        let again = requests.put(underway(), 1).unwrap();
        assert_eq!(again.place, 17);
    }

    #[test]
    fn other_threads_end_what_they_have_waited_for() {
        let requests = Requests::new();
        let put = |context, stream| {
            let ticket = requests.put(underway(), context).unwrap();
            assert!(launch(&requests, ticket, stream));
            ticket
        };
        let [one, two, other] = [put(1, 10), put(1, 11), put(2, 10)];
        requests.recorded(two, 100, 11);
        requests.recorded(two, 101, 10);
        assert!(requests.has_event(two, 100) && !requests.has_event(two, 101));
        let live = || [one, two, other].map(|ticket| requests.is_live(ticket));
        requests.stream_is_idle(1, 12);
        requests.event_has_passed(101);
        assert_eq!(live(), [true, true, true]);
        requests.stream_is_idle(1, 10);
        assert_eq!(live(), [false, true, true]);
        requests.event_has_passed(100);
        assert_eq!(live(), [false, false, true]);
        requests.context_is_idle(1);
        assert_eq!(live(), [false, false, true]);
        requests.context_is_idle(2);
        assert_eq!(live(), [false; 3]);
    }

    #[test]
    fn one_that_is_offered_is_adopted_once() {
        let requests = Requests::new();
        let [first, second] = [1, 2].map(|context| requests.put(underway(), context).unwrap());
        assert!(!requests.has_offered());
        requests.offer(first);
        requests.offer(second);
        assert_eq!(requests.adopt(1), Some(first));
        assert_eq!(requests.adopt(1), None);
        requests.end(second, End::Cancelled);
        requests.offer(second);
        assert!(!requests.has_offered());
        assert_eq!(requests.adopt(2), None);
        assert!(launch(&requests, first, 0));
    }

    #[test]
    fn those_without_work_are_given_up_alone() {
        let requests = Requests::new();
        let begun = requests.put(underway(), 1).unwrap();
        let other = requests.put(underway(), 2).unwrap();
        let launched = requests.put(underway(), 1).unwrap();
        assert!(launch(&requests, launched, 0));
        requests.end_begun(1, End::Cancelled);
        assert!(!requests.is_live(begun));
        assert!(requests.is_live(launched) && requests.is_live(other));
        requests.drop_all(1);
        assert!(!requests.is_live(launched) && requests.is_live(other));
    }
}
