// SPDX-License-Identifier: MIT OR Apache-2.0
//! The class `Prefetcher`: a store with its bounds. Its threads begin with the first load, in each
//! process that has one.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use pyo3::prelude::*;
use pyo3::types::PyDict;
use tokio::runtime::{Builder, Runtime};
use zernel_prefetch::budget::Budget;
use zernel_prefetch::decoders;
use zernel_prefetch::prefetcher::{Format, Options, Prefetcher as Native};
use zernel_prefetch::source::{Bounds, Disk, Hedges, Retries, Source};

use crate::error::{call, Error};
use crate::store::{self, StorageOptions};

/// Threads that wait for a store, and copy chunks to their places.
const MOST_THREADS: usize = 4;

/// The longest time that an argument can say: a century or so.
const MOST_S: f64 = 4e9;

/// A store and its bounds, as they were given.
#[derive(Debug, Clone)]
struct Config {
    url: String,
    storage_options: StorageOptions,
    in_flight: usize,
    retries: u32,
    /// Of all reads; `None`, as 0: none is sent twice.
    hedges: Option<f64>,
    /// A folder of the local disk.
    disk: Option<String>,
    disk_bytes: u64,
    options: Options,
}

impl Config {
    /// The folder of the local disk, with the name of the store.
    fn disk(&self) -> Result<Option<Arc<Disk>>, Error> {
        let Some(folder) = &self.disk else {
            return Ok(None);
        };
        let name = store::name(&self.url, &self.storage_options);
        let disk = Disk::open(folder, self.disk_bytes, name);
        let disk = disk.map_err(|error| Error::misuse(format!("disk={folder:?}: {error}")))?;
        Ok(Some(disk))
    }
}

/// A prefetcher with its threads, of one process.
#[derive(Debug)]
pub(crate) struct Running {
    process: u32,
    /// `None`: dropped.
    parts: Option<(Native, Runtime)>,
}

impl Running {
    fn start(config: &Config) -> Result<Self, Error> {
        let store = store::open(&config.url, &config.storage_options)?;
        let disk = config.disk()?;
        let threads = |error: &dyn std::fmt::Display| {
            Error::Internal(format!("threads cannot be made: {error}"))
        };
        // A fork comes before or behind this: the thread that forks has the lock of the interpreter.
        decoders::prepare().map_err(|error| threads(&error))?;
        let count = std::thread::available_parallelism().map_or(1, usize::from);
        let runtime = Builder::new_multi_thread()
            .worker_threads(count.min(MOST_THREADS))
            .thread_name("zernel-prefetch")
            .enable_io()
            .enable_time()
            .build()
            .map_err(|error| threads(&error))?;
        let hedges = config.hedges.filter(|most| *most > 0.0);
        let bounds = Bounds {
            in_flight: config.in_flight,
            all: None,
            retries: Retries {
                most: config.retries,
                ..Retries::default()
            },
            hedges: hedges.map(|most| Hedges {
                most,
                ..Hedges::default()
            }),
            disk,
        };
        let source = Source::within(store, bounds);
        let native = Native::new(source, config.options, runtime.handle().clone())
            .map_err(|error| Error::misuse(error.to_string()))?;
        Ok(Self {
            process: std::process::id(),
            parts: Some((native, runtime)),
        })
    }

    pub(crate) fn native(&self) -> Result<&Native, Error> {
        let parts = self.parts.as_ref().filter(|_| self.is_here());
        let other = || Error::Internal("threads of another process".to_owned());
        parts.map(|(native, _)| native).ok_or_else(other)
    }

    /// It is of this process, not of the one that this was forked from.
    pub(crate) fn is_here(&self) -> bool {
        self.process == std::process::id()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let Some((native, runtime)) = self.parts.take() else {
            return;
        };
        match self.is_here() {
            // A read of a file is not waited for.
            true => runtime.shutdown_background(),
            // The threads stayed with the parent, and a lock may be held by one of them.
            false => std::mem::forget((native, runtime)),
        }
    }
}

/// A store whose arrays are read ahead, within bounds.
#[pyclass(frozen, weakref, module = "zernel_prefetch")]
pub(crate) struct Prefetcher {
    config: Config,
    /// It is held with the lock of the interpreter alone, so that no child finds it held.
    running: Mutex<Option<Arc<Running>>>,
}

impl Prefetcher {
    /// With the threads of this process, which are made where there are none.
    pub(crate) fn running(&self) -> Result<Arc<Running>, Error> {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(running) = running.as_ref().filter(|running| running.is_here()) {
            return Ok(Arc::clone(running));
        }
        let started = Arc::new(Running::start(&self.config)?);
        *running = Some(Arc::clone(&started));
        Ok(started)
    }
}

fn text(path: PathBuf) -> Result<String, Error> {
    let text = path.into_os_string().into_string();
    text.map_err(|path| Error::misuse(format!("{path:?} is no text")))
}

fn seconds(name: &str, value: f64) -> Result<Duration, Error> {
    match (0.0..=MOST_S).contains(&value) {
        true => Ok(Duration::from_secs_f64(value)),
        false => Err(Error::misuse(format!("{name}={value} is no time"))),
    }
}

#[pymethods]
impl Prefetcher {
    #[new]
    // Literals, which Python shows: they are the defaults of Options.
    #[pyo3(signature = (
        url,
        *,
        storage_options = None,
        zarr_format = None,
        in_flight = 64,
        retries = 5,
        hedges = 0.05,
        bytes = 268_435_456,
        floor_arrays = 16_777_216,
        floor_shards = 67_108_864,
        arrays = 65_536,
        shards = 262_144,
        keep_faults = 60.0,
        longest_wait = 60.0,
        gap = 65_536,
        longest_range = 8_388_608,
        data = 0,
        consolidated = false,
        disk = None,
        disk_bytes = 17_179_869_184,
    ))]
    #[expect(clippy::too_many_arguments, reason = "Python has them by name")]
    fn new(
        url: PathBuf,
        storage_options: Option<StorageOptions>,
        zarr_format: Option<u64>,
        in_flight: usize,
        retries: u32,
        hedges: Option<f64>,
        bytes: u64,
        floor_arrays: u64,
        floor_shards: u64,
        arrays: u32,
        shards: u32,
        keep_faults: f64,
        longest_wait: f64,
        gap: u64,
        longest_range: u64,
        data: u64,
        consolidated: bool,
        disk: Option<PathBuf>,
        disk_bytes: u64,
    ) -> PyResult<Self> {
        call(|| {
            let mut url = text(url)?;
            if !url.contains("://") {
                // The same folder for a process that is spawned elsewhere.
                let path = std::path::absolute(&url);
                url = text(path.map_err(|error| Error::misuse(format!("{url:?}: {error}")))?)?;
            }
            let format = match zarr_format {
                None => Format::Any,
                Some(2) => Format::V2,
                Some(3) => Format::V3,
                Some(other) => {
                    return Err(Error::misuse(format!("zarr_format={other}: it is 2 or 3")))
                }
            };
            for (name, value) in [
                ("in_flight", in_flight as u64),
                ("arrays", arrays.into()),
                ("shards", shards.into()),
            ] {
                if value == 0 {
                    return Err(Error::misuse(format!("{name}=0: it is 1 at least")));
                }
            }
            if let Some(hedges) = hedges.filter(|hedges| !(0.0..=1.0).contains(hedges)) {
                return Err(Error::misuse(format!(
                    "hedges={hedges}: it is from 0 to 1, or None"
                )));
            }
            // Tokio counts them in fewer bits.
            if in_flight > usize::MAX >> 8 {
                return Err(Error::misuse(format!(
                    "in_flight={in_flight} is out of range"
                )));
            }
            let options = Options {
                bytes,
                floor_arrays,
                floor_shards,
                arrays,
                shards,
                keep_faults: seconds("keep_faults", keep_faults)?,
                longest_wait: seconds("longest_wait", longest_wait)?,
                gap,
                longest_range,
                format,
                data,
                consolidated,
            };
            let storage_options = storage_options.unwrap_or_default();
            // Faults of arguments are told here, not by the first load.
            let floors = Budget::split(bytes, [floor_arrays, floor_shards]);
            floors.map_err(|error| Error::misuse(error.to_string()))?;
            store::open(&url, &storage_options)?;
            let disk = disk.map(|disk| {
                let path = std::path::absolute(&disk);
                text(path.map_err(|error| Error::misuse(format!("{disk:?}: {error}")))?)
            });
            let disk = disk.transpose()?;
            let config = Config {
                url,
                storage_options,
                in_flight,
                retries,
                hedges,
                disk,
                disk_bytes,
                options,
            };
            config.disk()?;
            Ok(Self {
                config,
                running: Mutex::default(),
            })
        })
    }

    /// The URL.
    #[getter]
    fn url(&self) -> &str {
        &self.config.url
    }

    /// Counts of this process, from its first load on.
    fn counts<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        let running = running.as_ref().filter(|running| running.is_here());
        let native = running.map(|running| running.native()).transpose()?;
        let (counts, used) = native
            .map(|native| (native.source().counts(), native.used()))
            .unwrap_or_default();
        let found = PyDict::new(py);
        found.set_item("requests", counts.requests)?;
        found.set_item("retries", counts.retries)?;
        found.set_item("hedges", counts.hedges)?;
        found.set_item("bytes", counts.bytes)?;
        found.set_item("disk", counts.disk)?;
        found.set_item("metadata_bytes", used)?;
        Ok(found)
    }

    /// For a process that is spawned: the same arguments.
    fn __getnewargs_ex__<'py>(&self, py: Python<'py>) -> PyResult<((&str,), Bound<'py, PyDict>)> {
        let Config {
            url,
            storage_options,
            in_flight,
            retries,
            hedges,
            disk,
            disk_bytes,
            options,
        } = &self.config;
        let format = match options.format {
            Format::Any => None,
            Format::V2 => Some(2),
            Format::V3 => Some(3),
        };
        let named = PyDict::new(py);
        named.set_item("storage_options", storage_options.clone())?;
        named.set_item("zarr_format", format)?;
        named.set_item("in_flight", in_flight)?;
        named.set_item("retries", retries)?;
        named.set_item("hedges", hedges)?;
        named.set_item("bytes", options.bytes)?;
        named.set_item("floor_arrays", options.floor_arrays)?;
        named.set_item("floor_shards", options.floor_shards)?;
        named.set_item("arrays", options.arrays)?;
        named.set_item("shards", options.shards)?;
        named.set_item("keep_faults", options.keep_faults.as_secs_f64())?;
        named.set_item("longest_wait", options.longest_wait.as_secs_f64())?;
        named.set_item("gap", options.gap)?;
        named.set_item("longest_range", options.longest_range)?;
        named.set_item("data", options.data)?;
        named.set_item("consolidated", options.consolidated)?;
        named.set_item("disk", disk)?;
        named.set_item("disk_bytes", disk_bytes)?;
        Ok(((url.as_str(),), named))
    }

    fn __repr__(&self) -> String {
        format!(
            "<zernel_prefetch.Prefetcher of {}>",
            store::shown(&self.config.url)
        )
    }
}
