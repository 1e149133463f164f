// SPDX-License-Identifier: MIT OR Apache-2.0
//! The loader: batches of data, one behind the other, read ahead in their order.
//!
//! Metadata is read for [`Settings::lookahead`] batches, data for [`Settings::depth`] of these, as far
//! as their bytes fit. A batch counts until it is handed over.

use std::sync::Arc;

use tokio::sync::{mpsc, OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinHandle;

use crate::plan::Plan;
use crate::prefetcher::{Ahead, Prefetcher, Sample, Stream};
use crate::read::{read, Waves};
use crate::region::Place;
use crate::{Fault, Kind};

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
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            lookahead: 16,
            depth: 4,
            bytes: 1 << 30,
            waves: Waves::default(),
            changes: 3,
        }
    }
}

/// A batch of data.
#[derive(Debug)]
pub struct Loaded {
    /// The samples, as they were asked for.
    pub samples: Vec<Sample>,
    /// The elements of each, in C order, in the byte order of this machine.
    pub data: Vec<Vec<u8>>,
}

/// Bytes of data that wait, counted in units that a semaphore can.
const UNIT: u64 = 4 << 10;

struct Driver {
    prefetcher: Prefetcher,
    stream: Arc<Stream>,
    settings: Settings,
    depth: Arc<Semaphore>,
    bytes: Arc<Semaphore>,
}

type Load = JoinHandle<Result<Loaded, Fault>>;
/// The depth and the bytes that a batch takes.
type Permits = (OwnedSemaphorePermit, OwnedSemaphorePermit);

/// Batches of data, in their order.
#[derive(Debug)]
pub struct Loader {
    loads: mpsc::UnboundedReceiver<(Load, Permits)>,
    driver: JoinHandle<()>,
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
        let stream = prefetcher.stream();
        let stream = stream.map_err(|error| Fault::new(Kind::Saturated, error.to_string()))?;
        let (send, loads) = mpsc::unbounded_channel();
        let driver = Driver {
            prefetcher: prefetcher.clone(),
            stream: Arc::new(stream),
            settings,
            depth: Arc::new(Semaphore::new(settings.depth.max(1))),
            bytes: Arc::new(Semaphore::new(units(settings.bytes) as usize)),
        };
        let driver = prefetcher.runtime().spawn(driver.run(batches, send));
        Ok(Self { loads, driver })
    }

    /// The next batch; `None`: there are no more. A fault is that of its batch alone.
    pub async fn next(&mut self) -> Option<Result<Loaded, Fault>> {
        let (load, _permits) = self.loads.recv().await?;
        let ended = |error| Fault::new(Kind::Misuse, format!("a load broke off: {error}"));
        Some(load.await.map_err(ended).flatten_())
    }
}

impl Drop for Loader {
    fn drop(&mut self) {
        self.driver.abort();
        while let Ok((load, _permits)) = self.loads.try_recv() {
            load.abort();
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

/// Bytes of the samples of a batch.
fn sizes(plan: &Plan, samples: &[Sample]) -> Result<Vec<u64>, Fault> {
    let bytes = |(at, sample): (usize, &Sample)| {
        let element = plan.element_bytes(at).unwrap_or(0);
        let bytes = sample
            .region
            .elements()
            .and_then(|all| all.checked_mul(element));
        let too_large = || Fault::new(Kind::TooLarge, format!("a box of {} bytes", sample.array));
        bytes
            .filter(|bytes| *bytes <= isize::MAX as u64)
            .ok_or_else(too_large)
    };
    samples.iter().enumerate().map(bytes).collect()
}

impl Driver {
    async fn run(
        self,
        mut batches: impl Iterator<Item = Vec<Sample>> + Send + 'static,
        send: mpsc::UnboundedSender<(Load, Permits)>,
    ) {
        let mut ahead = std::collections::VecDeque::new();
        loop {
            while ahead.len() < self.settings.lookahead.max(1) {
                match batches.next() {
                    Some(samples) => ahead.push_back(self.stream.submit(samples)),
                    None => break,
                }
            }
            let Some(batch) = ahead.pop_front() else {
                return;
            };
            let Some(permits) = self.permits(&batch).await else {
                return;
            };
            let load = self.load(batch);
            if send.send((load, permits)).is_err() {
                return;
            }
        }
    }

    /// Waits until a batch fits. One that is a fault needs no bytes.
    async fn permits(&self, batch: &Ahead) -> Option<Permits> {
        let depth = Arc::clone(&self.depth).acquire_owned().await.ok()?;
        let bytes = match batch.planned().await {
            Ok(plan) => sizes(&plan, batch.samples()).map_or(0, |sizes| sizes.iter().sum()),
            Err(_) => 0,
        };
        let units = units(bytes.min(self.settings.bytes));
        let bytes = Arc::clone(&self.bytes)
            .acquire_many_owned(units)
            .await
            .ok()?;
        Some((depth, bytes))
    }

    fn load(&self, mut batch: Ahead) -> Load {
        let (stream, settings) = (Arc::clone(&self.stream), self.settings);
        let prefetcher = self.prefetcher.clone();
        self.prefetcher.runtime().spawn(async move {
            let mut changes = 0;
            loop {
                let fault = match once(&prefetcher, &batch, settings.waves).await {
                    Ok(loaded) => return Ok(loaded),
                    Err(fault) => fault,
                };
                changes += 1;
                if fault.kind() != Kind::Changed || changes > settings.changes {
                    return Err(fault);
                }
                // Its objects are no more as they are known.
                batch.forget();
                let samples = batch.samples().to_vec();
                batch = stream.submit(samples);
            }
        })
    }
}

async fn once(prefetcher: &Prefetcher, batch: &Ahead, waves: Waves) -> Result<Loaded, Fault> {
    let plan = batch.planned().await?;
    let samples = batch.samples().to_vec();
    let mut data: Vec<Vec<u8>> = sizes(&plan, &samples)?
        .into_iter()
        .map(|bytes| vec![0; bytes as usize])
        .collect();
    let mut places: Vec<_> = data
        .iter_mut()
        .zip(&samples)
        .map(|(bytes, sample)| Place {
            bytes,
            shape: &sample.region.shape,
        })
        .collect();
    read(
        prefetcher.source(),
        &plan,
        batch.number(),
        waves,
        &mut places,
    )
    .await?;
    Ok(Loaded { samples, data })
}
