// SPDX-License-Identifier: MIT OR Apache-2.0
//! The cache of one stage.
//!
//! - A [`Handle`] names its entry until that is evicted, also when others are, or come. A handle
//!   of an entry that is gone is [`Stale`], never another entry.
//! - An entry is pending, ready, or a fault, which it keeps.
//! - A batch of a stream asks for a key. The entry stays until all batches that asked are over; then
//!   it may be evicted, the one that was needed longest ago first.
//! - One who is told [`Admission::New`] gets the value. Others wait for the entry, and may stop waiting.

mod flight;
mod index;
mod lists;

use std::cmp::Ordering;
use std::hash::Hash;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use event_listener::Event;
use smallvec::SmallVec;

use crate::budget::{Reclaim, Stage};
use crate::sync::{lock, Mutex, MutexGuard};
use crate::Fault;
pub use flight::{Flight, Pin};
use index::{Evicted, Index};
pub use index::{Refused, StreamId, TooManyStreams, MOST_AHEAD, MOST_STREAMS};

/// A key of a cache.
pub trait Key: Clone + Hash + Eq + Send + 'static {}

impl<T: Clone + Hash + Eq + Send + 'static> Key for T {}

/// A value of a cache. Each look has a copy: what is large is behind an [`Arc`].
pub trait Value: Clone + Send + 'static {}

impl<T: Clone + Send + 'static> Value for T {}

/// Names an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Handle {
    slot: u32,
    generation: u64,
}

/// The entry of a handle is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the entry was evicted")]
pub struct Stale;

/// The state of an entry.
#[derive(Debug, Clone)]
pub enum Look<V> {
    /// Its value is on its way.
    Pending,
    /// Its value.
    Ready(V),
    /// The first fault on the way.
    Failed(Fault),
}

/// The answer to a batch that asks for a key.
#[derive(Debug)]
pub enum Admission<K: Key, V: Value> {
    /// The entry was there.
    Found(Handle),
    /// It was made. The caller gets its value.
    New(Handle, Flight<K, V>),
    /// There is no room, until batches are over.
    Again,
}

/// Sizes of a cache.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// The most entries.
    pub entries: u32,
    /// Faults other than transient ones, and values for now, stand for so long. Then the key is asked for anew.
    pub keep_faults: Duration,
}

#[derive(Debug)]
struct Entry<V> {
    /// 0: none.
    generation: u64,
    /// Somebody waits for its end.
    is_awaited: bool,
    look: Look<V>,
}

impl<V> Entry<V> {
    fn pending(generation: u64) -> Self {
        Self {
            generation,
            is_awaited: false,
            look: Look::Pending,
        }
    }
}

/// A look touches one line of memory, if the value is small.
#[derive(Debug)]
#[repr(align(64))]
struct Slot<V> {
    entry: Mutex<Entry<V>>,
    /// It is notified when the entry is pending no more.
    settled: Event,
}

/// The cache of one stage.
#[derive(Debug)]
pub struct Cache<K, V> {
    slots: Box<[Slot<V>]>,
    index: Mutex<Index<K>>,
    stage: Stage,
    limits: Limits,
    own: Weak<Self>,
}

impl<K: Key, V: Value> Cache<K, V> {
    /// A cache whose bytes are those of a stage of a budget.
    pub fn new(limits: Limits, stage: Stage) -> Arc<Self> {
        let slot = |_| Slot {
            entry: Mutex::new(Entry::pending(0)),
            settled: Event::new(),
        };
        let cache = Arc::new_cyclic(|own: &Weak<Self>| Self {
            slots: (0..limits.entries).map(slot).collect(),
            index: Mutex::new(Index::new(limits.entries)),
            stage,
            limits,
            own: Weak::clone(own),
        });
        let own: Weak<dyn Reclaim> = Arc::downgrade(&cache) as Weak<dyn Reclaim>;
        cache.stage.join(own);
        cache
    }

    /// Opens a stream of batches, from number 0 on.
    ///
    /// # Errors
    ///
    /// [`TooManyStreams`].
    pub fn open(&self) -> Result<StreamId, TooManyStreams> {
        lock(&self.index).open()
    }

    /// Has all batches of a stream be over, and the stream.
    ///
    /// # Errors
    ///
    /// [`Refused::Closed`].
    pub fn close(&self, stream: StreamId) -> Result<(), Refused> {
        lock(&self.index).close(stream)?;
        self.stage.notify();
        Ok(())
    }

    /// Has the batches before `watermark` be over. A watermark that was passed changes nothing.
    ///
    /// # Errors
    ///
    /// [`Refused::Closed`].
    pub fn advance(&self, stream: StreamId, watermark: u64) -> Result<(), Refused> {
        lock(&self.index).advance(stream, watermark)?;
        self.stage.notify();
        Ok(())
    }

    /// Asks for a key, for a batch. `bytes` are taken for a value that is not there yet.
    ///
    /// # Errors
    ///
    /// [`Refused`]: a batch that is over or too far ahead, or a stream that is closed.
    pub fn admit(
        &self,
        key: &K,
        stream: StreamId,
        batch: u64,
        bytes: u64,
    ) -> Result<Admission<K, V>, Refused> {
        let most = self.stage.most();
        if bytes > most {
            return Err(Refused::TooLarge { most });
        }
        loop {
            let admission = self.admit_here(key, (stream, batch), bytes, true)?;
            // Others have bytes that nobody needs.
            let is_again = matches!(admission, Admission::Again);
            if !is_again || !self.lacks_bytes() || !self.stage.reclaim(bytes) {
                return Ok(admission);
            }
        }
    }

    /// Adds a value that is there, for a batch, unless there is one of its key, or no room. `may_evict`:
    /// entries that nobody needs make room for it. Returns its handle.
    ///
    /// # Errors
    ///
    /// As of [`Self::admit`].
    pub fn offer(
        &self,
        (key, value): (&K, V),
        (stream, batch): (StreamId, u64),
        bytes: u64,
        may_evict: bool,
    ) -> Result<Option<Handle>, Refused> {
        let most = self.stage.most();
        if bytes > most {
            return Err(Refused::TooLarge { most });
        }
        match self.admit_here(key, (stream, batch), bytes, may_evict)? {
            Admission::New(handle, flight) => {
                flight.ready(value, bytes);
                Ok(Some(handle))
            }
            Admission::Found(_) | Admission::Again => Ok(None),
        }
    }

    /// Has all keys be asked for anew by those who come, and evicts the entries that nobody needs.
    /// Handles keep the others.
    pub fn renew(&self) {
        lock(&self.index).unlist_all();
        self.reclaim(u64::MAX);
        self.stage.notify();
    }

    /// There are places for entries: it is bytes that are lacking.
    fn lacks_bytes(&self) -> bool {
        lock(&self.index).has_room()
    }

    fn admit_here(
        &self,
        key: &K,
        (stream, batch): (StreamId, u64),
        bytes: u64,
        may_evict: bool,
    ) -> Result<Admission<K, V>, Refused> {
        // Values that are evicted end when no lock is held.
        let mut gone = SmallVec::<[_; 1]>::new();
        let mut index = lock(&self.index);
        index.check(stream, batch)?;
        let hash = index.hash(key);
        if let Some((slot, generation)) = index.fresh(key, hash) {
            index.ask(slot, stream, batch);
            return Ok(Admission::Found(Handle { slot, generation }));
        }
        if let Some(slot) = index.find(key, hash) {
            index.unlist(slot);
        }
        while !index.has_room() || !self.stage.take(bytes) {
            let evicted = may_evict.then(|| index.evict()).flatten();
            match evicted {
                Some(evicted) => gone.push(self.empty(evicted)),
                None => return Ok(Admission::Again),
            }
        }
        let (slot, generation) = index.insert((key.clone(), hash), bytes, stream, batch);
        *lock(&self.slots[slot as usize].entry) = Entry::pending(generation);
        drop(index);
        let handle = Handle { slot, generation };
        Ok(Admission::New(handle, Flight::new(self.own(), handle)))
    }

    /// Asks for a key that is there, for a batch. `None`: it is not, and nothing is changed.
    ///
    /// # Errors
    ///
    /// As of [`Self::admit`].
    pub fn ask(&self, key: &K, stream: StreamId, batch: u64) -> Result<Option<Handle>, Refused> {
        let mut index = lock(&self.index);
        index.check(stream, batch)?;
        let hash = index.hash(key);
        Ok(index.fresh(key, hash).map(|(slot, generation)| {
            index.ask(slot, stream, batch);
            Handle { slot, generation }
        }))
    }

    /// As [`Self::admit`], but waits for room.
    ///
    /// # Errors
    ///
    /// As of [`Self::admit`].
    pub async fn admitted(
        &self,
        key: &K,
        stream: StreamId,
        batch: u64,
        bytes: u64,
    ) -> Result<(Handle, Option<Flight<K, V>>), Refused> {
        loop {
            let listener = self.stage.listen();
            match self.admit(key, stream, batch, bytes)? {
                Admission::Found(handle) => return Ok((handle, None)),
                Admission::New(handle, flight) => return Ok((handle, Some(flight))),
                Admission::Again => listener.await,
            }
        }
    }

    /// Empties the slot of an entry that was evicted. The index is locked.
    fn empty(&self, evicted: Evicted) -> Look<V> {
        self.stage.give(evicted.bytes);
        let mut entry = lock(&self.slots[evicted.slot as usize].entry);
        entry.generation = 0;
        std::mem::replace(&mut entry.look, Look::Pending)
    }

    fn entry(&self, handle: Handle) -> Result<MutexGuard<'_, Entry<V>>, Stale> {
        let slot = self.slots.get(handle.slot as usize).ok_or(Stale)?;
        let entry = lock(&slot.entry);
        match entry.generation == handle.generation {
            true => Ok(entry),
            false => Err(Stale),
        }
    }

    /// Has the key of an entry be asked for anew by those who come. Handles keep the entry.
    pub fn forget(&self, handle: Handle) {
        let mut index = lock(&self.index);
        if index.entry(handle.slot, handle.generation).is_some() {
            index.unlist(handle.slot);
        }
    }

    /// The state of an entry.
    ///
    /// # Errors
    ///
    /// [`Stale`].
    #[inline]
    pub fn try_get(&self, handle: Handle) -> Result<Look<V>, Stale> {
        Ok(self.entry(handle)?.look.clone())
    }

    /// Waits for the value of an entry.
    ///
    /// # Errors
    ///
    /// [`Stale`]. A fault is a state.
    pub async fn settled(&self, handle: Handle) -> Result<Look<V>, Stale> {
        let slot = self.slots.get(handle.slot as usize).ok_or(Stale)?;
        loop {
            let listener = {
                let mut entry = self.entry(handle)?;
                if !matches!(entry.look, Look::Pending) {
                    return Ok(entry.look.clone());
                }
                entry.is_awaited = true;
                slot.settled.listen()
            };
            listener.await;
        }
    }

    /// Keeps an entry, beyond the batches that asked for it, until the pin is dropped.
    ///
    /// # Errors
    ///
    /// [`Stale`].
    pub fn pin(&self, handle: Handle) -> Result<Pin<K, V>, Stale> {
        let pinned = lock(&self.index).pin(handle.slot, handle.generation);
        pinned.ok_or(Stale)?;
        Ok(Pin::new(self.own(), handle))
    }

    fn own(&self) -> Arc<Self> {
        self.own.upgrade().expect("a cache that is called is there")
    }

    fn unpin(&self, handle: Handle) {
        let is_free = lock(&self.index).unpin(handle.slot, handle.generation);
        if is_free {
            self.stage.notify();
        }
    }

    /// Bytes of all stages of its budget.
    #[cfg(not(loom))]
    pub(crate) fn used(&self) -> u64 {
        self.stage.budget().used()
    }

    /// Entries.
    pub fn len(&self) -> usize {
        lock(&self.index).len()
    }

    /// No entries.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn is_needed(&self, handle: Handle) -> bool {
        let mut index = lock(&self.index);
        let is_needed = index.is_needed(handle.slot, handle.generation);
        if !is_needed {
            index.unlist(handle.slot);
        }
        is_needed
    }

    fn settle(&self, handle: Handle, look: Look<V>, bytes: u64, is_for_now: bool) {
        let mut index = lock(&self.index);
        let Some(node) = index.entry(handle.slot, handle.generation) else {
            return;
        };
        if !std::mem::replace(&mut node.is_pending, false) {
            return;
        }
        let taken = std::mem::replace(&mut node.bytes, bytes);
        let is_transient = match &look {
            Look::Failed(fault) => Some(fault.kind().is_transient()),
            _ => is_for_now.then_some(false),
        };
        if let Some(is_transient) = is_transient {
            let keep = match is_transient {
                true => Duration::ZERO,
                false => self.limits.keep_faults,
            };
            node.stale_at = Instant::now().checked_add(keep);
        }
        match bytes.cmp(&taken) {
            Ordering::Greater => self.stage.force(bytes - taken),
            Ordering::Less => self.stage.give(taken - bytes),
            Ordering::Equal => {}
        }
        let is_free = index.bring_back(handle.slot);
        let slot = &self.slots[handle.slot as usize];
        let is_awaited = {
            let mut entry = lock(&slot.entry);
            entry.look = look;
            std::mem::take(&mut entry.is_awaited)
        };
        drop(index);
        if is_awaited {
            slot.settled.notify(usize::MAX);
        }
        if is_free || bytes < taken {
            self.stage.notify();
        }
    }
}

impl<K: Key, V: Value> Reclaim for Cache<K, V> {
    fn reclaim(&self, bytes: u64) -> u64 {
        let mut gone = Vec::new();
        let mut freed = 0;
        let mut index = lock(&self.index);
        while freed < bytes {
            let Some(evicted) = index.evict() else {
                break;
            };
            freed += evicted.bytes;
            gone.push(self.empty(evicted));
        }
        drop(index);
        freed
    }
}
