// SPDX-License-Identifier: MIT OR Apache-2.0
//! The loader: batches of data, one behind the other, read ahead in their order.
//!
//! Metadata is read for [`Settings::lookahead`] batches, data for [`Settings::depth`] of these, as far
//! as their bytes fit. A batch counts until it is handed over. With [`Settings::paced`] the depth is less
//! where the consumer takes long for a batch, and loads do not.

mod common;
mod published;
mod room;

use std::collections::VecDeque;
use std::pin::pin;
use std::sync::Arc;

use futures_util::{stream, FutureExt as _, StreamExt as _};
use tokio::sync::{mpsc, OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::array::ArrayMeta;
use crate::batch::{Batch, Ready};
use crate::order::Position;
use crate::pace::Signals;
use crate::plan::Plan;
use crate::prefetcher::{Ahead, Prefetcher, Sample, Stream};
use crate::read::{places, read, Decoding, Waves};
use crate::{Fault, Kind};
use common::Common;
pub use common::Counters;
use published::Published;
use room::{room, sizes};

/// Sizes of a loader.
#[derive(Debug, Clone, Copy)]
pub struct Settings {
    /// Batches whose metadata is read ahead; 1 at least.
    pub lookahead: usize,
    /// Batches whose data is read ahead; 1 at least.
    pub depth: usize,
    /// Bytes of these. One batch is read, if it is larger, too.
    pub bytes: u64,
    /// Bounds of decoding.
    pub waves: Waves,
    /// A batch whose objects change is read anew so often.
    pub changes: u32,
    /// The depth follows the times of loads and of the consumer, up to [`Self::depth`].
    pub paced: bool,
    /// Its counters are to be seen by others of the same user, and by root ([`libzernel::loader`]).
    pub published: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            lookahead: 16,
            depth: 4,
            bytes: 1 << 30,
            waves: Waves::default(),
            changes: 3,
            paced: false,
            published: true,
        }
    }
}

/// A batch of data.
#[derive(Debug)]
pub struct Loaded {
    /// The samples, as they were asked for.
    pub samples: Vec<Sample>,
    /// The place in its order behind it: what resumes there. `None`: its loader has no order.
    pub behind: Option<Position>,
    /// The elements of each, in C order, in the byte order of this machine.
    pub data: Vec<Vec<u8>>,
    /// The array of each: it tells the type of the elements.
    pub arrays: Vec<Arc<ArrayMeta>>,
}

/// Bytes of data that wait, counted in units that a semaphore can.
const UNIT: u64 = 4 << 10;

struct Driver {
    prefetcher: Prefetcher,
    stream: Arc<Stream>,
    settings: Settings,
    common: Arc<Common>,
    bytes: Arc<Semaphore>,
}

/// A load on its way. Dropped, it ends.
#[derive(Debug)]
struct Load {
    task: JoinHandle<Result<Loaded, Fault>>,
    /// It is open when the data is there.
    gate: Batch,
}

impl Drop for Load {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// The bytes that a batch takes.
type Permits = OwnedSemaphorePermit;
/// A batch, and its place in an order.
type Placed = (Option<Position>, Vec<Sample>);

/// Batches of data, in their order. Dropped, its work ends.
#[derive(Debug)]
pub struct Loader {
    loads: mpsc::UnboundedReceiver<(Load, Permits)>,
    /// The batch that is waited for: one who stops waiting for it gets it the next time.
    current: Option<(Load, Permits)>,
    /// One who is told of that batch, until it is there to be waited for.
    target: Option<Box<dyn Ready>>,
    /// `None`: its end was seen.
    driver: Option<JoinHandle<()>>,
    common: Arc<Common>,
    /// Its counters are published as long as this is there.
    _published: Option<Published>,
    /// When the last batch was handed over, if the next was not asked for since.
    handed_at: Option<Instant>,
    /// When it was asked for, and that it was not there then.
    asked: Option<(Instant, bool)>,
    signals: Option<Box<dyn Signals>>,
}

impl Loader {
    /// Loads batches, one behind the other. Its work runs on the runtime of the prefetcher.
    ///
    /// # Errors
    ///
    /// [`Kind::Saturated`]: the prefetcher has no stream left.
    pub fn new(
        prefetcher: &Prefetcher,
        settings: Settings,
        batches: impl Iterator<Item = Vec<Sample>> + Send + 'static,
    ) -> Result<Self, Fault> {
        let batches = batches.map(|samples| (None, samples));
        Self::start(prefetcher, settings, stream::iter(batches))
    }

    /// As [`Self::new`], for batches that come with the position behind them
    /// ([`crate::order::Batches::placed`]). [`Loaded::behind`] tells it.
    ///
    /// # Errors
    ///
    /// As of [`Self::new`].
    pub fn placed(
        prefetcher: &Prefetcher,
        settings: Settings,
        batches: impl Iterator<Item = (Position, Vec<Sample>)> + Send + 'static,
    ) -> Result<Self, Fault> {
        let batches = batches.map(|(behind, samples)| (Some(behind), samples));
        Self::start(prefetcher, settings, stream::iter(batches))
    }

    /// As [`Self::placed`], for batches that come one by one. Each is loaded as soon as those before it
    /// are on their way, and it waits for none behind it.
    ///
    /// # Errors
    ///
    /// As of [`Self::new`].
    pub fn streamed(
        prefetcher: &Prefetcher,
        settings: Settings,
        batches: impl stream::Stream<Item = (Position, Vec<Sample>)> + Send + Unpin + 'static,
    ) -> Result<Self, Fault> {
        let batches = batches.map(|(behind, samples)| (Some(behind), samples));
        Self::start(prefetcher, settings, batches)
    }

    fn start(
        prefetcher: &Prefetcher,
        settings: Settings,
        batches: impl stream::Stream<Item = Placed> + Send + Unpin + 'static,
    ) -> Result<Self, Fault> {
        let stream = prefetcher.stream();
        let stream = stream.map_err(|error| Fault::new(Kind::Saturated, error.to_string()))?;
        let (send, loads) = mpsc::unbounded_channel();
        let common = Arc::new(Common::new(settings));
        let bytes = Arc::new(Semaphore::new(units(settings.bytes) as usize));
        let published = settings.published.then(|| {
            let bytes = Arc::clone(&bytes);
            Published::start(prefetcher, settings, Arc::clone(&common), bytes)
        });
        let driver = Driver {
            prefetcher: prefetcher.clone(),
            stream: Arc::new(stream),
            settings,
            common: Arc::clone(&common),
            bytes,
        };
        let driver = prefetcher.runtime().spawn(driver.run(batches, send));
        Ok(Self {
            loads,
            current: None,
            target: None,
            driver: Some(driver),
            common,
            _published: published.flatten(),
            handed_at: None,
            asked: None,
            signals: None,
        })
    }

    /// Has the depth follow prefetch signals, while they come, with [`Settings::paced`].
    pub fn follow(&mut self, signals: Box<dyn Signals>) {
        self.signals = Some(signals);
    }

    /// Its counts.
    pub fn counters(&self) -> Counters {
        self.common.counters().0
    }

    /// A batch is asked for.
    fn ask(&mut self) {
        let computed = self.handed_at.take().map(|at| at.elapsed());
        let (count, signal) = match &mut self.signals {
            Some(signals) => signals.take(),
            None => (0, None),
        };
        if self.current.is_none() {
            self.current = self.loads.try_recv().ok();
        }
        let is_there = |(load, _): &(Load, Permits)| load.gate.is_over();
        let is_late = !self.current.as_ref().is_some_and(is_there);
        self.asked = Some((Instant::now(), is_late));
        if computed.is_none() && count == 0 {
            return;
        }
        self.common.change(|state| {
            state.counters.signals += count;
            if let Some(took) = computed {
                state.pace.computed(took);
            }
            if let Some(signal) = signal {
                state.pace.signalled(signal);
            }
        });
    }

    /// A batch is handed over.
    fn hand_over(&mut self, loaded: &Result<Loaded, Fault>) {
        let now = Instant::now();
        let asked = self.asked.take();
        self.handed_at = Some(now);
        self.common.change(|state| {
            state.ahead -= 1;
            let counters = &mut state.counters;
            counters.batches += 1;
            match loaded {
                Ok(loaded) => {
                    let bytes = loaded.data.iter().map(|data| data.len() as u64);
                    counters.bytes += bytes.sum::<u64>();
                }
                Err(_) => counters.faults += 1,
            }
            if let Some((at, true)) = asked {
                counters.late += 1;
                counters.waited += now - at;
            }
        });
    }

    /// The next batch; `None`: there are no more. A fault is that of its batch alone, but for
    /// [`Kind::Misuse`] when the iterator of batches has panicked: that is the last one. Dropped before
    /// its end, this has taken nothing.
    pub async fn next(&mut self) -> Option<Result<Loaded, Fault>> {
        self.wait_for(None).await
    }

    /// As [`Self::next`], with one who is told of the batch's end by the thread that brings it about,
    /// when all of its data is in memory and before this wakes up. A batch that is waited for again
    /// tells the first one alone. It is dropped without a word where there is no batch any more.
    pub async fn next_with(&mut self, target: Box<dyn Ready>) -> Option<Result<Loaded, Fault>> {
        self.wait_for(Some(target)).await
    }

    async fn wait_for(&mut self, target: Option<Box<dyn Ready>>) -> Option<Result<Loaded, Fault>> {
        if self.target.is_none() {
            self.target = target;
        }
        if self.asked.is_none() {
            self.ask();
        }
        if self.current.is_none() {
            self.current = self.loads.recv().await;
        }
        let target = self.target.take();
        if let (Some((load, _)), Some(target)) = (&self.current, target) {
            // The first one stays.
            let _ = load.gate.tell(target);
        }
        let Some((load, _permits)) = &mut self.current else {
            let ended = self.driver.as_mut()?.await;
            self.driver = None;
            let broken = |error| Fault::new(Kind::Misuse, format!("its batches ended: {error}"));
            return ended.map_err(broken).err().map(Err);
        };
        let ended = |error| Fault::new(Kind::Misuse, format!("a load broke off: {error}"));
        let loaded = (&mut load.task).await.map_err(ended).flatten_();
        self.current = None;
        self.hand_over(&loaded);
        Some(loaded)
    }
}

impl Drop for Loader {
    fn drop(&mut self) {
        if let Some(driver) = &self.driver {
            driver.abort();
        }
    }
}

/// `Result::flatten`, which came with a later compiler.
trait Flatten<T> {
    fn flatten_(self) -> Result<T, Fault>;
}

impl<T> Flatten<T> for Result<Result<T, Fault>, Fault> {
    fn flatten_(self) -> Result<T, Fault> {
        self.and_then(|result| result)
    }
}

fn units(bytes: u64) -> u32 {
    let most = u64::from(u32::MAX).min(Semaphore::MAX_PERMITS as u64);
    bytes.div_ceil(UNIT).clamp(1, most) as u32
}

impl Driver {
    async fn run(
        self,
        batches: impl stream::Stream<Item = Placed> + Send + Unpin + 'static,
        send: mpsc::UnboundedSender<(Load, Permits)>,
    ) {
        let most = self.settings.lookahead.max(1);
        let mut batches = batches.fuse();
        let mut ahead = VecDeque::new();
        loop {
            while ahead.len() < most {
                let next = match ahead.is_empty() {
                    true => batches.next().await,
                    // The first of them does not wait for those that are not there.
                    false => batches.next().now_or_never().flatten(),
                };
                let Some((behind, samples)) = next else {
                    break;
                };
                ahead.push_back((behind, self.stream.submit(samples)));
            }
            let Some((behind, batch)) = ahead.pop_front() else {
                return;
            };
            let permits = {
                let mut permits = pin!(self.permits(&batch));
                loop {
                    tokio::select! {
                        biased;
                        permits = &mut permits => break permits,
                        Some((behind, samples)) = batches.next(), if ahead.len() + 1 < most => {
                            ahead.push_back((behind, self.stream.submit(samples)));
                        }
                    }
                }
            };
            let Some(permits) = permits else {
                return;
            };
            let load = self.load(batch, behind);
            if send.send((load, permits)).is_err() {
                return;
            }
        }
    }

    /// Waits until a batch fits. One that is a fault needs no bytes.
    async fn permits(&self, batch: &Ahead) -> Option<Permits> {
        self.common.enter().await;
        let bytes = match batch.planned().await {
            Ok(plan) => {
                let bytes = sizes(&plan, batch.samples()).map_or(0, |(_, all)| all);
                self.probe(plan, batch.turn());
                bytes
            }
            Err(_) => 0,
        };
        let units = units(bytes.min(self.settings.bytes));
        let bytes = Arc::clone(&self.bytes)
            .acquire_many_owned(units)
            .await
            .ok()?;
        Some(bytes)
    }

    /// Has a back-end be told of the batch. Nobody waits for that.
    fn probe(&self, plan: Plan, turn: u64) {
        let decoding = self.prefetcher.decoding(self.settings.waves);
        if let Some(decoding) = decoding.ok().filter(Decoding::has_backend) {
            let prefetcher = self.prefetcher.clone();
            let probe = async move { decoding.probe(prefetcher.source(), &plan, turn).await };
            self.prefetcher.runtime().spawn(probe);
        }
    }

    fn load(&self, mut batch: Ahead, behind: Option<Position>) -> Load {
        // It closes when all its batches have gone.
        let (stream, settings) = (Arc::clone(&self.stream), self.settings);
        let prefetcher = self.prefetcher.clone();
        let (gate, guard) = Batch::new();
        let common = Arc::clone(&self.common);
        let load = async move {
            let _stream = stream;
            let begin = Instant::now();
            let mut changes = 0;
            loop {
                let fault = match once(&prefetcher, &batch, settings.waves).await {
                    Ok((data, arrays)) => {
                        guard.done();
                        common.change(|state| state.pace.loaded(begin.elapsed()));
                        let samples = batch.samples().to_vec();
                        return Ok(Loaded {
                            samples,
                            behind,
                            data,
                            arrays,
                        });
                    }
                    Err(fault) => fault,
                };
                changes += 1;
                if fault.kind() != Kind::Changed || changes > settings.changes {
                    guard.fail(fault.clone());
                    return Err(fault);
                }
                // Its objects are no more as they are known.
                batch.again();
            }
        };
        Load {
            task: self.prefetcher.runtime().spawn(load),
            gate,
        }
    }
}

/// The data of each sample, and its array.
type Read = (Vec<Vec<u8>>, Vec<Arc<ArrayMeta>>);

async fn once(prefetcher: &Prefetcher, batch: &Ahead, waves: Waves) -> Result<Read, Fault> {
    let plan = batch.planned().await?;
    let samples = batch.samples();
    let (sizes, _) = sizes(&plan, samples)?;
    let mut data: Vec<Vec<u8>> = sizes
        .into_iter()
        .zip(samples)
        .map(|(bytes, sample)| room(bytes, sample))
        .collect::<Result<_, _>>()?;
    let mut places = places(&mut data, samples);
    let decoding = prefetcher.decoding(waves)?;
    read(
        prefetcher.source(),
        &plan,
        batch.turn(),
        decoding,
        &mut places,
    )
    .await?;
    Ok((data, plan.arrays))
}
