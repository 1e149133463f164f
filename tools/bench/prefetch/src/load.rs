// SPDX-License-Identifier: MIT OR Apache-2.0
//! Our loader under measurement: a process of its own, as each of its peers is one.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use object_store::http::HttpBuilder;
use object_store::local::LocalFileSystem;
use object_store::{ClientOptions, ObjectStore, RetryConfig};
use rustix::time::{clock_gettime, ClockId};
use serde::{Deserialize, Serialize};
use tokio::runtime::Handle;
use zernel_prefetch::loader::{Loader, Settings};
use zernel_prefetch::prefetcher::{Options, Prefetcher, Sample};
use zernel_prefetch::region::Region;
use zernel_prefetch::source::{Connector, Retries, Source};

use crate::data;

/// A run of a library.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Run {
    /// A folder, or the address of a store.
    pub place: String,
    /// Batches of each epoch. The first is cold; those behind it find what the first has left.
    pub epochs: Vec<Vec<Vec<data::Sample>>>,
    /// Requests at once.
    pub in_flight: usize,
    /// Batches that are read ahead.
    pub ahead: usize,
    /// Bytes of caches.
    pub bytes: u64,
}

/// An epoch that was read.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Epoch {
    /// From its begin to its last batch.
    pub seconds: f64,
    /// The time until each batch, from that before it.
    pub waits: Vec<f64>,
    /// Time of processors.
    pub cpu: f64,
    /// All bytes of all samples, added up.
    pub sum: u64,
    /// Requests, and bytes that came, as far as they are told.
    #[serde(default)]
    pub requests: u64,
    #[serde(default)]
    pub bytes: u64,
}

/// The result of a run.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Outcome {
    /// The library's version.
    pub version: String,
    /// Epochs that were read to their ends.
    pub epochs: Vec<Epoch>,
    /// The fault that ended the run.
    pub fault: Option<String>,
    /// The most memory of the process, in bytes.
    pub memory: u64,
}

/// Time of all threads on processors.
pub fn cpu() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// The store at an address or in a folder.
pub fn store(place: &str) -> Result<Arc<dyn ObjectStore>> {
    if !place.starts_with("http://") {
        return Ok(Arc::new(LocalFileSystem::new_with_prefix(place)?));
    }
    let no_retries = RetryConfig {
        max_retries: 0,
        ..Default::default()
    };
    let builder = HttpBuilder::new()
        .with_url(place)
        .with_client_options(ClientOptions::new().with_allow_http(true))
        .with_http_connector(Connector)
        .with_retry(no_retries);
    Ok(Arc::new(builder.build()?))
}

/// Samples as the loader takes them.
pub fn samples(batch: &[data::Sample]) -> Vec<Sample> {
    let sample = |(array, start, shape): &data::Sample| Sample {
        array: array.as_str().into(),
        region: Region::new(start, shape),
    };
    batch.iter().map(sample).collect()
}

/// A prefetcher for a run: a quarter of its bytes are for metadata, the others for data.
pub fn prefetcher(run: &Run) -> Result<Prefetcher> {
    let source = Source::new(store(&run.place)?, run.in_flight, Retries::default());
    let bytes = run.bytes / 4;
    let options = Options {
        bytes,
        floor_arrays: bytes / 8,
        floor_shards: bytes / 4,
        data: run.bytes - bytes,
        ..Options::default()
    };
    Ok(Prefetcher::new(source, options, Handle::current())?)
}

/// Reads all epochs.
///
/// # Errors
///
/// The store cannot be reached at all; faults of batches are in the result.
pub async fn load(run: &Run) -> Result<Outcome> {
    let prefetcher = prefetcher(run)?;
    let mut outcome = Outcome {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        ..Outcome::default()
    };
    for batches in &run.epochs {
        match epoch(&prefetcher, run, batches).await {
            Ok(epoch) => outcome.epochs.push(epoch),
            Err(error) => {
                outcome.fault = Some(format!("{error:#}"));
                break;
            }
        }
    }
    outcome.memory = memory()?;
    Ok(outcome)
}

async fn epoch(prefetcher: &Prefetcher, run: &Run, batches: &[Vec<data::Sample>]) -> Result<Epoch> {
    let settings = Settings {
        lookahead: run.ahead.max(16),
        depth: run.ahead,
        ..Settings::default()
    };
    let all: Vec<_> = batches.iter().map(|batch| samples(batch)).collect();
    let (begin, before, counts) = (Instant::now(), cpu(), prefetcher.source().counts());
    let mut epoch = Epoch::default();
    let mut loader = Loader::new(prefetcher, settings, all.into_iter())?;
    let mut last = begin;
    while let Some(loaded) = loader.next().await {
        let loaded = loaded?;
        let now = Instant::now();
        epoch.waits.push((now - last).as_secs_f64());
        last = now;
        let sum = |sample: &Vec<u8>| sample.iter().map(|byte| u64::from(*byte)).sum::<u64>();
        epoch.sum += loaded.data.iter().map(sum).sum::<u64>();
    }
    epoch.seconds = begin.elapsed().as_secs_f64();
    epoch.cpu = (cpu() - before).as_secs_f64();
    let after = prefetcher.source().counts();
    epoch.requests = after.requests - counts.requests;
    epoch.bytes = after.bytes - counts.bytes;
    Ok(epoch)
}

/// The most memory that this process has had.
fn memory() -> Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let number = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    Ok(number.context("the kernel tells no VmHWM")? << 10)
}
