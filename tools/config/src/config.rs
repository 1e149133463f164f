// SPDX-License-Identifier: MIT OR Apache-2.0
//! The fields, with their ranges and defaults.

use std::ops::RangeInclusive;
use std::path::Path;
use std::time::Duration;

use libzernel::Level;

use crate::error::{Error, Result};
use crate::read::{load, Reader};

/// A configuration. [`Config::default`] is that of an empty file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Config {
    /// Section `scheduler`.
    pub scheduler: Scheduler,
    /// Section `priorities`.
    pub priorities: Priorities,
    /// Section `slices`.
    pub slices: Slices,
    /// Section `preemption`.
    pub preemption: Preemption,
    /// Section `resources`.
    pub resources: Resources,
    /// Section `policy`.
    pub policy: Policy,
    /// Section `monitoring`.
    pub monitoring: Monitoring,
}

/// The GPU.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Scheduler {
    /// `gpu_id`: the number of the device as CUDA counts them, 0 to 255; usually 0.
    pub gpu_id: u32,
}

/// The level of each type of task: 0 (most urgent) to 7, or a name: `lc` or `critical` for 0,
/// `high`, `above-normal`, `normal`, `below-normal`, `low`; `be` or `background` for 7.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Priorities {
    /// `latency_critical`: usually `lc`.
    pub latency_critical: Level,
    /// `best_effort`: usually `be`; not more urgent than `latency_critical`.
    pub best_effort: Level,
}

impl Default for Priorities {
    fn default() -> Self {
        Self {
            latency_critical: Level::LC,
            best_effort: Level::BE,
        }
    }
}

/// The time slice of each type of task; usually that of its level, the tunable
/// `levelN_timeslice_us`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Slices {
    /// `latency_critical_us`: 10 to 10,000,000 microseconds.
    pub latency_critical_us: Option<u32>,
    /// `best_effort_us`: 10 to 10,000,000 microseconds.
    pub best_effort_us: Option<u32>,
}

/// Requests: the GPU is switched to the program before its data is ready.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Preemption {
    /// `enabled`: latency-critical tasks begin requests; usually true.
    pub enabled: bool,
    /// `lanes`: requests that can be under way at once, 1 to 64; usually 4.
    pub lanes: u32,
    /// `linger_us`: time for which a holder stays for the next request of its lane, 0 to
    /// 10,000,000 microseconds; usually 0.
    pub linger: Duration,
    /// `bound_us`: longest time that a holder keeps the GPU if nobody ends it, 1 to 10,000,000
    /// microseconds; usually half as much again as the tunable `lease_us`.
    pub bound: Option<Duration>,
    /// `release_word`: memory of the words that holders wait for; usually `auto`.
    pub release_word: ReleaseWord,
    /// `inline`: wait and holder go into the stream of the task, in place of one of the runtime's
    /// own; usually false.
    pub inline: bool,
}

/// The memory of the words that holders wait for, as the runtime has it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ReleaseWord {
    /// `auto`: the faster one, as far as it was measured.
    #[default]
    Auto,
    /// `host`: pinned memory of the host.
    Host,
    /// `gpu`: memory of the GPU, by GDRCopy.
    Gpu,
}

impl ReleaseWord {
    /// Its words.
    pub const NAMES: [&'static str; 3] = ["auto", "host", "gpu"];

    const ALL: [Self; 3] = [Self::Auto, Self::Host, Self::Gpu];

    /// Its word.
    pub fn name(self) -> &'static str {
        Self::NAMES[self as usize]
    }

    fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|word| word.name() == name)
    }
}

impl Default for Preemption {
    fn default() -> Self {
        Self {
            enabled: true,
            lanes: 4,
            linger: Duration::ZERO,
            bound: None,
            release_word: ReleaseWord::Auto,
            inline: false,
        }
    }
}

/// Threads and memory of the scheduler.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Resources {
    /// `workers`: threads for each type of task, 1 to 256; usually 2.
    pub workers: u32,
    /// `queue`: calls of tasks of each type that may wait for a worker, 1 to 1,048,576; usually
    /// 1,024.
    pub queue: u32,
}

impl Default for Resources {
    fn default() -> Self {
        Self {
            workers: 2,
            queue: 1024,
        }
    }
}

/// The way in which best-effort TSGs take turns, that the program is meant for.
///
/// It is a property of the machine, the tunable `rotation`. A program does not change it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Policy {
    /// `name`: one of [`Policy::NAMES`]; usually `fair`.
    pub name: String,
}

impl Policy {
    /// The values of the tunable `rotation`.
    pub const NAMES: [&'static str; 4] = ["fair", "credit", "rr", "none"];
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            name: Self::NAMES[0].to_owned(),
        }
    }
}

/// Metrics.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Monitoring {
    /// `window`: number of latest latencies of each type of task that percentiles are taken of, 1
    /// to 1,048,576; usually 4,096.
    pub window: u32,
}

impl Default for Monitoring {
    fn default() -> Self {
        Self { window: 4096 }
    }
}

const GPUS: RangeInclusive<u32> = 0..=255;
const SLICES: RangeInclusive<u32> = 10..=10_000_000;
const LANES: RangeInclusive<u32> = 1..=64;
const LINGERS: RangeInclusive<u32> = 0..=10_000_000;
const BOUNDS: RangeInclusive<u32> = 1..=10_000_000;
const WORKERS: RangeInclusive<u32> = 1..=256;
const COUNTS: RangeInclusive<u32> = 1..=1_048_576;

fn us(us: u32) -> Duration {
    Duration::from_micros(us.into())
}

impl Config {
    /// Most bytes of a file.
    pub const MOST_BYTES: u64 = 65_536;

    /// Of a file.
    ///
    /// # Errors
    ///
    /// Each of [`Error`].
    pub fn from_file(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        Self::from_text(path, &load(path)?)
    }

    /// Of the text of a file. `path` is for messages.
    ///
    /// # Errors
    ///
    /// Each of [`Error`], without those of reading.
    pub fn from_text(path: impl AsRef<Path>, text: &str) -> Result<Self> {
        let usual = Self::default();
        let file = Reader::new(path.as_ref(), text)?;

        let section = file.section("scheduler", &["gpu_id"])?;
        let gpu_id = section.number("gpu_id", GPUS)?;
        let scheduler = Scheduler {
            gpu_id: gpu_id.unwrap_or(usual.scheduler.gpu_id),
        };

        let section = file.section("priorities", &["latency_critical", "best_effort"])?;
        let (lc, be) = (
            section.level("latency_critical")?,
            section.level("best_effort")?,
        );
        let priorities = Priorities {
            latency_critical: lc.unwrap_or(usual.priorities.latency_critical),
            best_effort: be.unwrap_or(usual.priorities.best_effort),
        };
        if priorities.best_effort < priorities.latency_critical {
            // The one that is there; the default of the other does not contradict itself.
            let named = if be.is_some() {
                "best_effort"
            } else {
                "latency_critical"
            };
            return Err(Error::Order {
                place: section.place(named),
                latency_critical: priorities.latency_critical,
                best_effort: priorities.best_effort,
            });
        }

        let section = file.section("slices", &["latency_critical_us", "best_effort_us"])?;
        let slices = Slices {
            latency_critical_us: section.number("latency_critical_us", SLICES)?,
            best_effort_us: section.number("best_effort_us", SLICES)?,
        };

        let names = [
            "enabled",
            "lanes",
            "linger_us",
            "bound_us",
            "release_word",
            "inline",
        ];
        let section = file.section("preemption", &names)?;
        let (enabled, lanes) = (section.truth("enabled")?, section.number("lanes", LANES)?);
        let linger = section.number("linger_us", LINGERS)?.map(us);
        let bound = section.number("bound_us", BOUNDS)?.map(us);
        let word = section.word("release_word", &ReleaseWord::NAMES)?;
        let word = word.and_then(|name| ReleaseWord::named(&name));
        let preemption = Preemption {
            enabled: enabled.unwrap_or(usual.preemption.enabled),
            lanes: lanes.unwrap_or(usual.preemption.lanes),
            linger: linger.unwrap_or(usual.preemption.linger),
            bound: bound.or(usual.preemption.bound),
            release_word: word.unwrap_or(usual.preemption.release_word),
            inline: section.truth("inline")?.unwrap_or(usual.preemption.inline),
        };

        let section = file.section("resources", &["workers", "queue"])?;
        let workers = section.number("workers", WORKERS)?;
        let queue = section.number("queue", COUNTS)?;
        let resources = Resources {
            workers: workers.unwrap_or(usual.resources.workers),
            queue: queue.unwrap_or(usual.resources.queue),
        };

        let section = file.section("policy", &["name"])?;
        let name = section.word("name", &Policy::NAMES)?;
        let policy = name.map_or(usual.policy, |name| Policy { name });

        let section = file.section("monitoring", &["window"])?;
        let window = section.number("window", COUNTS)?;
        let monitoring = Monitoring {
            window: window.unwrap_or(usual.monitoring.window),
        };

        Ok(Self {
            scheduler,
            priorities,
            slices,
            preemption,
            resources,
            policy,
            monitoring,
        })
    }
}
