// SPDX-License-Identifier: MIT OR Apache-2.0
//! The prefetcher: it reads the metadata that the samples of a batch need, in stages, and opens the
//! gate of the batch when all is there.
//!
//! A walk goes over the samples of each batch. Stage one is the array of a sample, stage two the index
//! of each shard that its box touches: the names of those come from stage one. What is known is taken
//! from the caches at once; without anything to read a batch is ready when it is submitted.

mod fetch;
mod group;
pub(crate) mod keep;
mod walk;

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use event_listener::Event;
use tokio::runtime::Handle as Runtime;

use crate::array::{ArrayMeta, ShardIndex};
use crate::batch::{Batch, Progress};
use crate::budget::{Budget, FloorsTooLarge};
use crate::cache::{Cache, Handle, Limits, Look, Refused, TooManyStreams};
use crate::line::{Line, Spot};
use crate::plan::{Joins, Plan, Planner};
use crate::region::{Region, Tile};
use crate::source::Source;
use crate::sync::{lock, AtomicU64, Mutex, Ordering};
use crate::wave::{Decoding, Waves};
use crate::{Fault, Kind};
use keep::{Chunks, Ids, Keep, Origin};

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
    /// The first open batch of a stream that waits for room for longer is a fault. Batches behind it
    /// wait for its end.
    pub longest_wait: Duration,
    /// Ranges of an object with a gap of so many bytes are read as one.
    pub gap: u64,
    /// Up to so many bytes. A chunk that is larger is read as one. A shard that has no more, with its
    /// index, is read as one where a box has nearly all of it.
    pub longest_range: u64,
    /// The files of arrays.
    pub format: Format,
    /// The group at the root of the store is asked for arrays first.
    pub consolidated: bool,
    /// Bytes of chunks that are kept, decoded, beside all metadata; 0: none are.
    pub data: u64,
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
            longest_range: 8 << 20,
            format: Format::Any,
            consolidated: false,
            data: 0,
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

/// An index of a shard, by the entry of its array and the object's name: an array that is described anew
/// can have other shards of the same names.
type Shard = Option<Arc<ShardIndex>>;
type ShardKey = (Handle, Arc<str>);

#[derive(Debug)]
struct Shared {
    source: Arc<Source>,
    arrays: Arc<Cache<Arc<str>, Arc<ArrayMeta>>>,
    shards: Arc<Cache<ShardKey, Shard>>,
    chunks: Option<Chunks>,
    root: group::Root,
    budget: Arc<Budget>,
    options: Options,
    runtime: Runtime,
    /// Batches that were submitted, of all streams.
    submitted: AtomicU64,
    decoding: OnceLock<Decoding>,
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
            chunks: Chunks::new(options.data),
            root: group::Root::default(),
            budget,
            options,
            runtime,
            submitted: AtomicU64::new(0),
            decoding: OnceLock::new(),
        })))
    }

    /// Opens a stream of batches.
    ///
    /// # Errors
    ///
    /// [`TooManyStreams`].
    pub fn stream(&self) -> Result<Stream, TooManyStreams> {
        Ok(Stream {
            shared: Arc::clone(&self.0),
            ids: self.0.open()?,
            batches: Arc::default(),
        })
    }

    /// Has those who come read all anew: metadata, and data that is kept. It is for a store whose objects
    /// have changed: what is known of them, and is not read again, stands until then.
    pub fn renew(&self) {
        self.0.renew();
    }

    /// The store.
    pub fn source(&self) -> &Source {
        &self.0.source
    }

    /// Has loaders decode in this way from now on, with their own bounds; those that are there, too.
    ///
    /// # Errors
    ///
    /// [`Kind::Misuse`]: it has a way.
    pub fn decode_by(&self, decoding: Decoding) -> Result<(), Fault> {
        let twice = |_| Fault::new(Kind::Misuse, "a prefetcher takes one way to decode");
        self.0.decoding.set(decoding).map_err(twice)
    }

    /// The way in which loaders decode, within these bounds.
    ///
    /// # Errors
    ///
    /// As of [`Decoding::within`].
    pub(crate) fn decoding(&self, waves: Waves) -> Result<Decoding, Fault> {
        match self.0.decoding.get() {
            Some(decoding) => decoding.within(waves),
            None => Ok(waves.into()),
        }
    }

    /// The runtime that its work runs on.
    pub fn runtime(&self) -> &Runtime {
        &self.0.runtime
    }

    /// Bytes of data that is kept.
    pub fn kept(&self) -> u64 {
        self.0.chunks.as_ref().map_or(0, Chunks::used)
    }

    /// Bytes of metadata in memory.
    pub fn used(&self) -> u64 {
        self.0.budget.used()
    }
}

/// The batches of a stream.
#[derive(Debug, Default)]
struct Batches {
    open: Mutex<Open>,
    /// It is notified when the watermark goes up.
    advanced: Event,
    /// Batches that take room for arrays.
    arrays: Arc<Line>,
    /// Batches that take room for indexes of shards.
    shards: Arc<Line>,
}

impl Batches {
    /// Waits until no batch before this one is open.
    async fn is_first(&self, number: u64) {
        loop {
            let listener = self.advanced.listen();
            if lock(&self.open).watermark >= number {
                return;
            }
            listener.await;
        }
    }
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
    batches: Arc<Batches>,
}

impl Stream {
    /// Has the metadata of a batch be read.
    pub fn submit(&self, samples: Vec<Sample>) -> Ahead {
        let mut state = lock(&self.batches.open);
        state.over.push_back(false);
        let number = state.next;
        state.next += 1;
        let work = Work {
            shared: Arc::clone(&self.shared),
            ids: self.ids,
            batches: Arc::clone(&self.batches),
            number,
            turn: self.shared.submitted.fetch_add(1, Ordering::Relaxed),
            walks: samples.iter().map(|_| OnceLock::new()).collect(),
            samples,
        };
        let spots = work.enter();
        drop(state);
        let (batch, work) = work.begin(spots);
        Ahead { batch, work }
    }

    /// The number of batches that were submitted and are not over.
    pub fn open(&self) -> u64 {
        let state = lock(&self.batches.open);
        state.over.iter().filter(|is_over| !**is_over).count() as u64
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.shared.close(self.ids);
    }
}

/// The entries that a sample needs.
#[derive(Debug)]
struct Walk {
    entry: Handle,
    array: Arc<ArrayMeta>,
    /// Each with the index of the shard, unless it is read whole.
    tiles: Vec<(Tile, Option<Handle>)>,
}

/// A batch, as its walk sees it.
#[derive(Debug)]
struct Work {
    shared: Arc<Shared>,
    ids: Ids,
    batches: Arc<Batches>,
    /// Its number in its stream.
    number: u64,
    /// Its number among the batches of all streams.
    turn: u64,
    samples: Vec<Sample>,
    walks: Box<[OnceLock<Walk>]>,
}

impl Work {
    /// Puts the batch into the lines for room.
    fn enter(&self) -> [Vec<Spot>; 2] {
        let lines = [&self.batches.arrays, &self.batches.shards];
        lines.map(|line| line.enter(self.number, self.samples.len()))
    }

    /// Begins to read what the batch needs.
    fn begin(self, [arrays, shards]: [Vec<Spot>; 2]) -> (Batch, Arc<Self>) {
        let (batch, guard) = Batch::new();
        let work = Arc::new(self);
        for (at, (array, shard)) in arrays.into_iter().zip(shards).enumerate() {
            work.start(at, guard.split(), array, shard);
        }
        guard.done();
        (batch, work)
    }

    /// The reads of the batch. Its gate is 0.
    fn plan(&self) -> Result<Plan, Fault> {
        let mut planner = Planner::default();
        planner.plan.keep = Some(Keep::new(self));
        for (sample, walk) in self.walks.iter().enumerate() {
            let Some(walk) = walk.get() else {
                return Err(Fault::new(
                    Kind::Misuse,
                    "a gate opened before its walk was over",
                ));
            };
            let plan = &mut planner.plan;
            plan.elements
                .push(Some(walk.array.fill_value().len() as u64));
            plan.arrays.push(Arc::clone(&walk.array));
            for (tile, handle) in &walk.tiles {
                let origin = Origin::new(walk.entry, *handle);
                let Some(handle) = handle else {
                    planner.add_whole(&walk.array, sample, tile.clone(), origin);
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
                planner.add_shard(&walk.array, sample, tile, (index.as_ref(), origin));
            }
        }
        let Options {
            gap, longest_range, ..
        } = self.shared.options;
        Ok(planner.finish(Joins {
            gap,
            longest: longest_range,
        }))
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

    /// Its number among the batches of all streams: the order in which reads go on.
    pub fn turn(&self) -> u64 {
        self.work.turn
    }

    /// Reads its metadata anew: its objects changed. It keeps its place among the batches.
    pub fn again(&mut self) {
        self.forget();
        let samples = self.work.samples.clone();
        let work = Work {
            shared: Arc::clone(&self.work.shared),
            ids: self.work.ids,
            batches: Arc::clone(&self.work.batches),
            number: self.work.number,
            turn: self.work.turn,
            walks: samples.iter().map(|_| OnceLock::new()).collect(),
            samples,
        };
        let spots = work.enter();
        (self.batch, self.work) = work.begin(spots);
    }

    /// Has those who come read anew what this one has read.
    pub fn forget(&self) {
        self.work.shared.root.renew();
        for walk in self.work.walks.iter().filter_map(OnceLock::get) {
            self.work.shared.arrays.forget(walk.entry);
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
            let mut state = lock(&self.work.batches.open);
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
        self.work.batches.advanced.notify(usize::MAX);
        self.work.shared.advance(self.work.ids, watermark);
    }
}
