// SPDX-License-Identifier: MIT OR Apache-2.0
//! Keys, needs and lists of a cache: everything but the values. One lock is held around it.
//!
//! An entry is needed by a stream up to the highest batch that asked for it. It is in the list of one
//! batch that does. When that batch is over its list goes behind that of entries that may be evicted,
//! in one step; an entry that another stream needs goes to that one's batch when it is met there.

use std::collections::VecDeque;
use std::hash::{BuildHasher, Hash, RandomState};
use std::time::Instant;

use hashbrown::HashTable;
use smallvec::SmallVec;

use super::lists::{List, Lists};

/// The most batches that a stream may be ahead of its watermark.
pub const MOST_AHEAD: u64 = 1 << 16;

/// The most streams of a cache.
pub const MOST_STREAMS: usize = 1 << 12;

/// A stream of batches. It names that stream until it is closed, and no other ever.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct StreamId {
    at: u32,
    generation: u32,
}

/// A batch that cannot ask.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// The stream is closed.
    #[error("the stream of the batch is closed")]
    Closed,
    /// The batch is over.
    #[error("the batch is over: the stream is at {watermark}")]
    Over {
        /// The first batch that is not.
        watermark: u64,
    },
    /// It is more than [`MOST_AHEAD`] batches ahead.
    #[error("the batch is too far ahead: the stream is at {watermark}")]
    TooFar {
        /// The first batch that is not over.
        watermark: u64,
    },
    /// The bytes fit at no time.
    #[error("the value does not fit into the {most} bytes that the stage may have")]
    TooLarge {
        /// The most bytes of the stage.
        most: u64,
    },
}

/// All streams of a cache are in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("there are {MOST_STREAMS} streams")]
pub struct TooManyStreams;

#[derive(Debug, Clone, Copy)]
struct Need {
    stream: StreamId,
    /// The highest that asked.
    batch: u64,
}

#[derive(Debug)]
struct Stream {
    generation: u32,
    is_open: bool,
    watermark: u64,
    /// Of the batches from the watermark on.
    lists: VecDeque<List>,
}

/// An entry, but for its value.
#[derive(Debug)]
pub struct Node<K> {
    key: K,
    hash: u64,
    pub generation: u64,
    needs: SmallVec<[Need; 1]>,
    pub bytes: u64,
    pins: u32,
    /// No value and no fault yet.
    pub is_pending: bool,
    /// A fault is asked for anew from then on.
    pub stale_at: Option<Instant>,
    /// It is found by its key: else another has taken its place.
    is_listed: bool,
    /// Nobody needs it, but it is pending or pinned.
    is_aside: bool,
}

/// An entry that was evicted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Evicted {
    pub slot: u32,
    pub bytes: u64,
}

#[derive(Debug)]
pub struct Index<K> {
    table: HashTable<u32>,
    hasher: RandomState,
    nodes: Vec<Option<Node<K>>>,
    free: Vec<u32>,
    entries: u32,
    lists: Lists,
    /// Entries that nobody needs, those first that were needed longest ago.
    evictable: List,
    streams: Vec<Stream>,
    generations: u64,
}

impl<K: Hash + Eq> Index<K> {
    pub fn new(entries: u32) -> Self {
        let mut lists = Lists::new(entries);
        let evictable = lists.create();
        Self {
            table: HashTable::new(),
            hasher: RandomState::new(),
            nodes: Vec::new(),
            free: Vec::new(),
            entries,
            lists,
            evictable,
            streams: Vec::new(),
            generations: 0,
        }
    }

    pub fn open(&mut self) -> Result<StreamId, TooManyStreams> {
        let closed = self.streams.iter().position(|stream| !stream.is_open);
        let at = closed.unwrap_or(self.streams.len());
        if at >= MOST_STREAMS {
            return Err(TooManyStreams);
        }
        let generation = match self.streams.get(at) {
            Some(stream) => stream.generation.wrapping_add(1),
            None => 0,
        };
        let stream = Stream {
            generation,
            is_open: true,
            watermark: 0,
            lists: VecDeque::new(),
        };
        match self.streams.get_mut(at) {
            Some(place) => *place = stream,
            None => self.streams.push(stream),
        }
        Ok(StreamId {
            at: at as u32,
            generation,
        })
    }

    fn stream(&self, id: StreamId) -> Option<&Stream> {
        let stream = self.streams.get(id.at as usize)?;
        (stream.is_open && stream.generation == id.generation).then_some(stream)
    }

    /// The batches before `to` are over. Those that nobody else needs may be evicted.
    pub fn advance(&mut self, id: StreamId, to: u64) -> Result<(), Refused> {
        self.stream(id).ok_or(Refused::Closed)?;
        let stream = &mut self.streams[id.at as usize];
        while stream.watermark < to {
            let Some(list) = stream.lists.pop_front() else {
                // No batch from here on has asked for anything.
                stream.watermark = to;
                break;
            };
            stream.watermark += 1;
            self.lists.append(list, self.evictable);
            self.lists.end(list);
        }
        Ok(())
    }

    /// All its batches are over.
    pub fn close(&mut self, id: StreamId) -> Result<(), Refused> {
        self.advance(id, u64::MAX)?;
        let stream = &mut self.streams[id.at as usize];
        stream.is_open = false;
        // A stream's name is used again after 2^32 others in its place at the earliest: never.
        Ok(())
    }

    pub fn watermark(&self, id: StreamId) -> Result<u64, Refused> {
        Ok(self.stream(id).ok_or(Refused::Closed)?.watermark)
    }

    /// The batch may ask.
    pub fn check(&self, id: StreamId, batch: u64) -> Result<(), Refused> {
        let watermark = self.watermark(id)?;
        match batch {
            _ if batch < watermark => Err(Refused::Over { watermark }),
            _ if batch - watermark >= MOST_AHEAD => Err(Refused::TooFar { watermark }),
            _ => Ok(()),
        }
    }

    /// The list of a batch that may ask.
    fn list(&mut self, id: StreamId, batch: u64) -> List {
        let stream = &mut self.streams[id.at as usize];
        let at = (batch - stream.watermark) as usize;
        while stream.lists.len() <= at {
            stream.lists.push_back(self.lists.create());
        }
        stream.lists[at]
    }

    fn is_alive(&self, need: &Need) -> bool {
        let stream = self.stream(need.stream);
        stream.is_some_and(|stream| need.batch >= stream.watermark)
    }

    /// A batch that is not over, or a pin, needs the entry. The entry is there.
    pub fn is_needed(&self, slot: u32, generation: u64) -> bool {
        let Some(node) = self.node(slot).filter(|node| node.generation == generation) else {
            return true;
        };
        node.pins > 0 || node.needs.iter().any(|need| self.is_alive(need))
    }

    pub fn hash(&self, key: &K) -> u64 {
        self.hasher.hash_one(key)
    }

    /// The entry of a key with this hash.
    pub fn find(&self, key: &K, hash: u64) -> Option<u32> {
        let is_it = |slot: &u32| {
            let node = self.node(*slot);
            node.is_some_and(|node| node.hash == hash && node.key == *key)
        };
        self.table.find(hash, is_it).copied()
    }

    /// The entry of a key with this hash, unless it is a fault whose time is over.
    pub fn fresh(&self, key: &K, hash: u64) -> Option<(u32, u64)> {
        let slot = self.find(key, hash)?;
        let node = self.node(slot)?;
        let is_fresh = node.stale_at.is_none_or(|at| Instant::now() < at);
        is_fresh.then_some((slot, node.generation))
    }

    pub fn node(&self, slot: u32) -> Option<&Node<K>> {
        self.nodes.get(slot as usize)?.as_ref()
    }

    /// The entry of a handle.
    pub fn entry(&mut self, slot: u32, generation: u64) -> Option<&mut Node<K>> {
        let node = self.nodes.get_mut(slot as usize)?.as_mut()?;
        (node.generation == generation).then_some(node)
    }

    /// A batch that may ask, does, for an entry that is there.
    pub fn ask(&mut self, slot: u32, id: StreamId, batch: u64) {
        let Some(node) = self.nodes[slot as usize].as_mut() else {
            return;
        };
        node.is_aside = false;
        let known = node.needs.iter_mut().find(|need| need.stream == id);
        let batch = match known {
            Some(need) => {
                need.batch = need.batch.max(batch);
                need.batch
            }
            None => {
                let need = Need { stream: id, batch };
                let mut needs = std::mem::take(&mut node.needs);
                needs.retain(|need| self.is_alive(need));
                needs.push(need);
                if let Some(node) = self.nodes[slot as usize].as_mut() {
                    node.needs = needs;
                }
                batch
            }
        };
        let list = self.list(id, batch);
        self.lists.push(list, slot);
    }

    /// There is a place for one entry more.
    pub fn has_room(&self) -> bool {
        !self.free.is_empty() || self.nodes.len() < self.entries as usize
    }

    /// Makes an entry, pending, for a batch that may ask. There is room, and none of this key and
    /// hash.
    pub fn insert(&mut self, key: (K, u64), bytes: u64, id: StreamId, batch: u64) -> (u32, u64) {
        self.generations += 1;
        let generation = self.generations;
        let (key, hash) = key;
        let node = Some(Node {
            key,
            hash,
            generation,
            needs: SmallVec::new(),
            bytes,
            pins: 0,
            is_pending: true,
            stale_at: None,
            is_listed: true,
            is_aside: false,
        });
        let slot = match self.free.pop() {
            Some(slot) => {
                self.nodes[slot as usize] = node;
                slot
            }
            None => {
                self.nodes.push(node);
                self.nodes.len() as u32 - 1
            }
        };
        let nodes = &self.nodes;
        let hash_of = |slot: &u32| nodes[*slot as usize].as_ref().map_or(0, |node| node.hash);
        self.table.insert_unique(hash, slot, hash_of);
        self.ask(slot, id, batch);
        (slot, generation)
    }

    /// No entry is found by its key any more.
    pub fn unlist_all(&mut self) {
        self.table.clear();
        for node in self.nodes.iter_mut().flatten() {
            node.is_listed = false;
        }
    }

    /// An entry is found by its key no more: handles keep it.
    pub fn unlist(&mut self, slot: u32) {
        let Some(node) = self.nodes[slot as usize].as_mut() else {
            return;
        };
        if !std::mem::take(&mut node.is_listed) {
            return;
        }
        let hash = node.hash;
        if let Ok(found) = self.table.find_entry(hash, |other| *other == slot) {
            found.remove();
        }
    }

    /// Evicts the entry that was needed longest ago, if one is needed no more.
    pub fn evict(&mut self) -> Option<Evicted> {
        while let Some(slot) = self.lists.first(self.evictable) {
            self.lists.leave(slot);
            let Some(node) = self.node(slot) else {
                continue;
            };
            let needed = node.needs.iter().find(|need| self.is_alive(need)).copied();
            if let Some(need) = needed {
                let list = self.list(need.stream, need.batch);
                self.lists.push(list, slot);
                continue;
            }
            if node.is_pending || node.pins > 0 {
                if let Some(node) = self.nodes[slot as usize].as_mut() {
                    node.is_aside = true;
                }
                continue;
            }
            self.unlist(slot);
            let node = self.nodes[slot as usize].take()?;
            self.free.push(slot);
            let bytes = node.bytes;
            return Some(Evicted { slot, bytes });
        }
        None
    }

    /// An entry that was aside, and is neither pending nor pinned, may be evicted.
    pub fn bring_back(&mut self, slot: u32) -> bool {
        let Some(node) = self.nodes[slot as usize].as_mut() else {
            return false;
        };
        let comes = node.is_aside && !node.is_pending && node.pins == 0;
        if comes {
            node.is_aside = false;
            self.lists.push(self.evictable, slot);
        }
        comes
    }

    /// Pins an entry. `None`: it is gone, or has more pins than can be counted.
    pub fn pin(&mut self, slot: u32, generation: u64) -> Option<()> {
        let node = self.entry(slot, generation)?;
        node.pins = node.pins.checked_add(1)?;
        Some(())
    }

    /// Takes a pin back. Returns whether the entry may be evicted since.
    pub fn unpin(&mut self, slot: u32, generation: u64) -> bool {
        let Some(node) = self.entry(slot, generation) else {
            return false;
        };
        node.pins -= 1;
        self.bring_back(slot)
    }

    /// Entries.
    pub fn len(&self) -> usize {
        self.nodes.len() - self.free.len()
    }
}
