// SPDX-License-Identifier: MIT OR Apache-2.0
//! The caches of a prefetcher, as streams and reads of data see them, and the one of data: chunks that
//! were decoded. A chunk is known by the entries that tell of it: of its array, and of the index of its
//! shard. It is found for as long as these are.

use std::sync::Arc;

use super::{Shared, Work};
use crate::array::ShardIndex;
use crate::budget::Budget;
use crate::cache::{Cache, Handle, Limits, Look, StreamId, TooManyStreams};
use crate::region::Numbers;
use crate::sync::{AtomicU64, Ordering};

/// A chunk that was decoded.
pub(crate) type Data = Arc<Vec<u8>>;

/// Bytes that an entry takes beside its elements.
const ENTRY: u64 = 256;

/// A full cache takes one of so many chunks, in place of those that were needed longest ago. Samples come
/// again after an epoch: were all taken, each would be gone before its turn.
const TAKEN: u64 = 16;

/// There is one entry for so many bytes.
const ROOM: u64 = 2 << 10;

/// The most entries: each has a place in a table from the beginning on.
const MOST: u64 = 1 << 18;

/// The entries that tell of a chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Origin {
    array: Handle,
    shard: Option<Handle>,
}

impl Origin {
    pub(super) fn new(array: Handle, shard: Option<Handle>) -> Self {
        Self { array, shard }
    }
}

/// A chunk by its place among those of its shard, or of its array.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Key {
    origin: Origin,
    at: Numbers,
}

/// Data in memory.
#[derive(Debug)]
pub(super) struct Chunks {
    cache: Arc<Cache<Key, Data>>,
    /// Chunks that were offered.
    offered: AtomicU64,
}

impl Chunks {
    /// So many bytes of data. `None` for 0.
    pub(super) fn new(bytes: u64) -> Option<Self> {
        if bytes == 0 {
            return None;
        }
        // No floor is larger than the whole.
        let [stage] = Budget::split(bytes, [0]).ok()?;
        let limits = Limits {
            entries: (bytes / ROOM).clamp(1, MOST) as u32,
            keep_faults: std::time::Duration::ZERO,
        };
        Some(Self {
            cache: Cache::new(limits, stage),
            offered: AtomicU64::new(0),
        })
    }

    /// Bytes in use.
    pub(super) fn used(&self) -> u64 {
        self.cache.used()
    }
}

/// The streams of a stream in each cache.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ids {
    pub(super) arrays: StreamId,
    pub(super) shards: StreamId,
    /// `None`: no data is kept.
    chunks: Option<StreamId>,
}

impl Shared {
    /// Opens a stream in each cache.
    pub(super) fn open(&self) -> Result<Ids, TooManyStreams> {
        let arrays = self.arrays.open()?;
        let shards = self.shards.open().inspect_err(|_| {
            let _was_open = self.arrays.close(arrays);
        })?;
        let chunks = self.chunks.as_ref().map(|chunks| chunks.cache.open());
        let chunks = chunks.transpose().inspect_err(|_| {
            let _was_open = self.arrays.close(arrays);
            let _was_open = self.shards.close(shards);
        })?;
        Ok(Ids {
            arrays,
            shards,
            chunks,
        })
    }

    /// Closes a stream. It is open: nobody else closes it.
    pub(super) fn close(&self, ids: Ids) {
        let _was_open = self.arrays.close(ids.arrays);
        let _was_open = self.shards.close(ids.shards);
        if let Some((chunks, id)) = self.chunks.as_ref().zip(ids.chunks) {
            let _was_open = chunks.cache.close(id);
        }
    }

    /// Has the batches before `watermark` be over. A stream that was closed needs that no more.
    pub(super) fn advance(&self, ids: Ids, watermark: u64) {
        let _is_open = self.arrays.advance(ids.arrays, watermark);
        let _is_open = self.shards.advance(ids.shards, watermark);
        if let Some((chunks, id)) = self.chunks.as_ref().zip(ids.chunks) {
            let _is_open = chunks.cache.advance(id, watermark);
        }
    }

    /// Has those who come read all anew. No chunk is found by entries that are gone.
    pub(super) fn renew(&self) {
        self.root.renew();
        self.arrays.renew();
        self.shards.renew();
        if let Some(chunks) = &self.chunks {
            chunks.cache.renew();
        }
    }
}

/// The caches of a prefetcher, for a batch.
#[derive(Debug, Clone)]
pub(crate) struct Keep {
    shared: Arc<Shared>,
    ids: Ids,
    batch: u64,
}

impl Keep {
    pub(super) fn new(work: &Work) -> Self {
        Self {
            shared: Arc::clone(&work.shared),
            ids: work.ids,
            batch: work.number,
        }
    }

    fn chunks(&self) -> Option<(&Chunks, StreamId)> {
        self.shared.chunks.as_ref().zip(self.ids.chunks)
    }

    /// A chunk that is in memory.
    pub(crate) fn known(&self, origin: Origin, at: &[u64]) -> Option<Data> {
        let (chunks, stream) = self.chunks()?;
        let key = Key {
            origin,
            at: at.into(),
        };
        // One who adds it has not done so yet, or it was evicted.
        let handle = chunks.cache.ask(&key, stream, self.batch).ok()??;
        match chunks.cache.try_get(handle) {
            Ok(Look::Ready(data)) => Some(data),
            _ => None,
        }
    }

    /// Adds a chunk that was decoded, if there is room.
    pub(crate) fn chunk(&self, origin: Origin, at: &[u64], data: Vec<u8>) {
        let Some((chunks, stream)) = self.chunks() else {
            return;
        };
        let key = Key {
            origin,
            at: at.into(),
        };
        let bytes = data.capacity() as u64 + ENTRY;
        let is_taken = chunks.offered.fetch_add(1, Ordering::Relaxed) % TAKEN == 0;
        let value = (&key, Arc::new(data));
        // Without it the chunk is read again.
        let _kept = chunks
            .cache
            .offer(value, (stream, self.batch), bytes, is_taken);
    }

    /// Adds an index that came with its shard. Returns the entries that tell of its chunks, if it is
    /// the one that those who come will find.
    pub(crate) fn index(
        &self,
        origin: Origin,
        key: &str,
        index: &Arc<ShardIndex>,
    ) -> Option<Origin> {
        let (value, bytes) = (Some(Arc::clone(index)), index.bytes());
        let stream = (self.ids.shards, self.batch);
        let shards = &self.shared.shards;
        let key = (origin.array, key.into());
        let shard = shards.offer((&key, value), stream, bytes, true);
        Some(Origin {
            shard: Some(shard.ok()??),
            ..origin
        })
    }
}
