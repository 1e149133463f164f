// SPDX-License-Identifier: MIT OR Apache-2.0
//! The prefetcher: it reads the metadata that the samples of a batch need, in stages, and opens the
//! gate of the batch when all is there.
//!
//! A walk goes over the samples of each batch. Stage one is the array of a sample, stage two the index
//! of each shard that its box touches: the names of those come from stage one. What is known is taken
//! from the caches at once; without anything to read a batch is ready when it is submitted.

mod fetch;

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::runtime::Handle as Runtime;

use crate::array::{ArrayMeta, ShardIndex};
use crate::batch::{Batch, Progress, Ticket};
use crate::budget::{Budget, FloorsTooLarge};
use crate::cache::{Cache, Handle, Limits, Look, Refused, StreamId, TooManyStreams};
use crate::plan::Plan;
use crate::region::{Region, Tile};
use crate::source::Source;
use crate::sync::{lock, Mutex};
use crate::{Fault, Kind};

/// The files that describe an array.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Format {
    /// `zarr.json`, and those of version 2 where there is none.
    #[default]
    Any,
    /// `zarr.json` alone.
    V3,
    /// `.zarray` alone.
    V2,
}

/// Sizes of a prefetcher.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// Bytes of all metadata together.
    pub bytes: u64,
    /// Of these, bytes that are kept for arrays.
    pub floor_arrays: u64,
    /// Of these, bytes that are kept for indexes of shards.
    pub floor_shards: u64,
    /// The most arrays that are known at once.
    pub arrays: u32,
    /// The most indexes of shards.
    pub shards: u32,
    /// Faults other than transient ones stand for so long.
    pub keep_faults: Duration,
    /// A batch that waits for room for longer is a fault.
    pub longest_wait: Duration,
    /// Ranges of an object with a gap of so many bytes are read as one.
    pub gap: u64,
    /// The files of arrays.
    pub format: Format,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            bytes: 256 << 20,
            floor_arrays: 16 << 20,
            floor_shards: 64 << 20,
            arrays: 1 << 16,
            shards: 1 << 18,
            keep_faults: Duration::from_secs(60),
            longest_wait: Duration::from_secs(60),
            gap: 64 << 10,
            format: Format::Any,
        }
    }
}

/// A sample: a box of an array.
#[derive(Debug, Clone)]
pub struct Sample {
    /// The array's place in the store.
    pub array: Arc<str>,
    /// Its elements.
    pub region: Region,
}

/// The most objects that a box may touch.
const MOST_TILES: u64 = 1 << 20;

/// An index of a shard by its array and the object's name.
type Shard = Option<Arc<ShardIndex>>;
type ShardKey = Arc<str>;

#[derive(Debug)]
struct Shared {
    source: Arc<Source>,
    arrays: Arc<Cache<Arc<str>, Arc<ArrayMeta>>>,
    shards: Arc<Cache<ShardKey, Shard>>,
    budget: Arc<Budget>,
    options: Options,
    runtime: Runtime,
}

/// Reads metadata ahead.
#[derive(Debug, Clone)]
pub struct Prefetcher(Arc<Shared>);

impl Prefetcher {
    /// A prefetcher for a store. Its work runs on `runtime`.
    ///
    /// # Errors
    ///
    /// [`FloorsTooLarge`].
    pub fn new(
        source: Arc<Source>,
        options: Options,
        runtime: Runtime,
    ) -> Result<Self, FloorsTooLarge> {
        let floors = [options.floor_arrays, options.floor_shards];
        let [arrays, shards] = Budget::split(options.bytes, floors)?;
        let budget = Arc::clone(arrays.budget());
        let limits = |entries| Limits {
            entries,
            keep_faults: options.keep_faults,
        };
        Ok(Self(Arc::new(Shared {
            source,
            arrays: Cache::new(limits(options.arrays), arrays),
            shards: Cache::new(limits(options.shards), shards),
            budget,
            options,
            runtime,
        })))
    }

    /// Opens a stream of batches.
    ///
    /// # Errors
    ///
    /// [`TooManyStreams`].
    pub fn stream(&self) -> Result<Stream, TooManyStreams> {
        let arrays = self.0.arrays.open()?;
        match self.0.shards.open() {
            Ok(shards) => Ok(Stream {
                shared: Arc::clone(&self.0),
                ids: Ids { arrays, shards },
                state: Arc::default(),
            }),
            Err(error) => {
                let _was_open = self.0.arrays.close(arrays);
                Err(error)
            }
        }
    }

    /// The store.
    pub fn source(&self) -> &Source {
        &self.0.source
    }

    /// The runtime that its work runs on.
    pub fn runtime(&self) -> &Runtime {
        &self.0.runtime
    }

    /// Bytes of metadata in memory.
    pub fn used(&self) -> u64 {
        self.0.budget.used()
    }
}

#[derive(Debug, Clone, Copy)]
struct Ids {
    arrays: StreamId,
    shards: StreamId,
}

/// The batches of a stream that are not over.
#[derive(Debug, Default)]
struct Open {
    next: u64,
    watermark: u64,
    /// Of the batches from the watermark on: it is over.
    over: std::collections::VecDeque<bool>,
}

/// A stream of batches, each with the number behind that of the last.
#[derive(Debug)]
pub struct Stream {
    shared: Arc<Shared>,
    ids: Ids,
    state: Arc<Mutex<Open>>,
}

impl Stream {
    /// Has the metadata of a batch be read.
    pub fn submit(&self, samples: Vec<Sample>) -> Ahead {
        let number = {
            let mut state = lock(&self.state);
            state.over.push_back(false);
            state.next += 1;
            state.next - 1
        };
        let (batch, guard) = Batch::new();
        let walks = samples.iter().map(|_| OnceLock::new()).collect();
        let work = Arc::new(Work {
            shared: Arc::clone(&self.shared),
            ids: self.ids,
            number,
            samples,
            walks,
        });
        for at in 0..work.samples.len() {
            work.start(at, guard.split());
        }
        guard.done();
        Ahead {
            batch,
            work,
            stream: Arc::clone(&self.state),
        }
    }

    /// The number of batches that were submitted and are not over.
    pub fn open(&self) -> u64 {
        let state = lock(&self.state);
        state.over.iter().filter(|is_over| !**is_over).count() as u64
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        // They are open: nobody else closes them.
        let _was_open = self.shared.arrays.close(self.ids.arrays);
        let _was_open = self.shared.shards.close(self.ids.shards);
    }
}

/// The entries that a sample needs.
#[derive(Debug)]
struct Walk {
    array: Arc<ArrayMeta>,
    tiles: Vec<(Tile, Option<Handle>)>,
}

/// A batch, as its walk sees it.
#[derive(Debug)]
struct Work {
    shared: Arc<Shared>,
    ids: Ids,
    number: u64,
    samples: Vec<Sample>,
    walks: Box<[OnceLock<Walk>]>,
}

impl Work {
    /// Walks over a sample, as far as nothing has to be waited for; a task does the rest.
    fn start(self: &Arc<Self>, at: usize, ticket: Ticket) {
        match self.known(at) {
            Ok(Some(array)) => self.walk(at, array, ticket),
            Err(fault) => ticket.fail(fault),
            Ok(None) => {
                let work = Arc::clone(self);
                self.shared.runtime.spawn(async move {
                    match work.array(at, &ticket).await {
                        Ok(array) => work.walk(at, array, ticket),
                        Err(fault) => ticket.fail(fault),
                    }
                });
            }
        }
    }

    /// The array of a sample, if it is in the cache.
    fn known(&self, at: usize) -> Result<Option<Arc<ArrayMeta>>, Fault> {
        let cache = &self.shared.arrays;
        let Some(handle) = cache.ask(&self.samples[at].array, self.ids.arrays, self.number)? else {
            return Ok(None);
        };
        match cache.try_get(handle) {
            Ok(Look::Ready(array)) => Ok(Some(array)),
            Ok(Look::Failed(fault)) => Err(fault),
            Ok(Look::Pending) | Err(_) => Ok(None),
        }
    }

    /// Asks for the shards that a sample touches.
    fn walk(self: &Arc<Self>, at: usize, array: Arc<ArrayMeta>, ticket: Ticket) {
        let sample = &self.samples[at];
        if let Err(fault) = sample.region.check(&sample.array, array.shape()) {
            return ticket.fail(fault);
        }
        let count = sample.region.tiles(array.tile()).count_within(MOST_TILES);
        if count.is_none() {
            let text = format!(
                "a box of {} touches more than {MOST_TILES} objects",
                sample.array
            );
            return ticket.fail(Fault::new(Kind::TooLarge, text));
        }
        let tiles: Vec<_> = sample.region.tiles(array.tile()).collect();
        if array.sharding().is_none() {
            let tiles = tiles.into_iter().map(|tile| (tile, None)).collect();
            return self.walked(at, Walk { array, tiles }, ticket);
        }
        let mut walk = Walk {
            array,
            tiles: Vec::with_capacity(tiles.len()),
        };
        let mut tiles = tiles.into_iter();
        while let Some(tile) = tiles.next() {
            match self.known_shard(&walk.array, &tile, &ticket) {
                Ok(Some(handle)) => walk.tiles.push((tile, Some(handle))),
                Err(fault) => return ticket.fail(fault),
                // There is no room: the rest of the walk waits for some.
                Ok(None) => {
                    let work = Arc::clone(self);
                    let rest = std::iter::once(tile).chain(tiles);
                    self.shared.runtime.spawn(async move {
                        for tile in rest {
                            match work.shard_in_time(&walk.array, &tile, &ticket).await {
                                Ok(handle) => walk.tiles.push((tile, Some(handle))),
                                Err(fault) => return ticket.fail(fault),
                            }
                        }
                        work.walked(at, walk, ticket);
                    });
                    return;
                }
            }
        }
        self.walked(at, walk, ticket);
    }

    fn walked(&self, at: usize, walk: Walk, ticket: Ticket) {
        match self.walks[at].set(walk) {
            Ok(()) => ticket.done(),
            Err(_) => ticket.fail(Fault::new(Kind::Misuse, "a sample was walked over twice")),
        }
    }

    /// The reads of the batch. Its gate is 0.
    fn plan(&self) -> Result<Plan, Fault> {
        let mut plan = Plan::default();
        for (sample, walk) in self.walks.iter().enumerate() {
            let Some(walk) = walk.get() else {
                return Err(Fault::new(
                    Kind::Misuse,
                    "a gate opened before its walk was over",
                ));
            };
            plan.elements
                .push(Some(walk.array.fill_value().len() as u64));
            for (tile, handle) in &walk.tiles {
                let Some(handle) = handle else {
                    plan.add_whole(&walk.array, sample, tile.clone());
                    continue;
                };
                let index = match self.shared.shards.try_get(*handle) {
                    Ok(Look::Ready(index)) => index,
                    Ok(Look::Failed(fault)) => return Err(fault),
                    Ok(Look::Pending) | Err(_) => {
                        let text = "an index of shards went before its batch was over";
                        return Err(Fault::new(Kind::Misuse, text));
                    }
                };
                let gap = self.shared.options.gap;
                plan.add_shard(&walk.array, sample, tile, index.as_deref(), gap);
            }
        }
        Ok(plan)
    }
}

impl From<Refused> for Fault {
    fn from(refused: Refused) -> Self {
        let kind = match refused {
            Refused::Closed | Refused::Over { .. } => Kind::Cancelled,
            Refused::TooFar { .. } => Kind::Saturated,
            Refused::TooLarge { .. } => Kind::TooLarge,
        };
        Self::new(kind, refused.to_string())
    }
}

/// A batch whose metadata is read ahead. Dropped, it is over.
#[derive(Debug)]
pub struct Ahead {
    batch: Batch,
    work: Arc<Work>,
    stream: Arc<Mutex<Open>>,
}

impl Ahead {
    /// The batch's gate.
    pub fn batch(&self) -> &Batch {
        &self.batch
    }

    /// Its number in its stream.
    pub fn number(&self) -> u64 {
        self.work.number
    }

    /// Has the next batch read anew what this one has read: its objects changed.
    pub fn forget(&self) {
        for walk in self.work.walks.iter().filter_map(OnceLock::get) {
            for (_, handle) in &walk.tiles {
                if let Some(handle) = handle {
                    self.work.shared.shards.forget(*handle);
                }
            }
        }
    }

    /// Its samples.
    pub fn samples(&self) -> &[Sample] {
        &self.work.samples
    }

    /// The reads of the batch; `None` while its metadata is on its way.
    ///
    /// # Errors
    ///
    /// The batch's first fault.
    pub fn plan(&self) -> Result<Option<Plan>, Fault> {
        match self.batch.progress() {
            Progress::Pending(_) => Ok(None),
            Progress::Failed(fault) => Err(fault),
            Progress::Ready => self.work.plan().map(Some),
        }
    }

    /// Waits for the metadata. Returns the reads of the batch.
    ///
    /// # Errors
    ///
    /// The batch's first fault.
    pub async fn planned(&self) -> Result<Plan, Fault> {
        self.batch.ready().await?;
        self.work.plan()
    }
}

impl Drop for Ahead {
    fn drop(&mut self) {
        let watermark = {
            let mut state = lock(&self.stream);
            let at = (self.work.number - state.watermark) as usize;
            if let Some(is_over) = state.over.get_mut(at) {
                *is_over = true;
            }
            while state.over.front() == Some(&true) {
                state.over.pop_front();
                state.watermark += 1;
            }
            state.watermark
        };
        // A stream that was closed needs none.
        let _is_open = self
            .work
            .shared
            .arrays
            .advance(self.work.ids.arrays, watermark);
        let _is_open = self
            .work
            .shared
            .shards
            .advance(self.work.ids.shards, watermark);
    }
}
