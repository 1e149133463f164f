// SPDX-License-Identifier: MIT OR Apache-2.0
//! The common part of the suites: the modules, the devices, contexts, waiting for a condition.

use std::fs;

use anyhow::{bail, Context as _, Result};
use libzernel::request::Of;
use libzernel::sim::{Context, ContextSpec, Sim};
use libzernel::{tsg, Class, Level, LevelInfo, Source, Stats, Target, Tsg, Zernel};
use rustix::io::Errno;
use testkit::check_eq;
use testkit::log::Mark;
use testkit::module::unload_each;
pub use testkit::module::{is_loaded, load, try_unload, unload, unload_soon};
pub use testkit::{wait_until, wait_until_within, SOON};

use crate::group::Group;

/// The slice of a TSG that zernel leaves alone.
pub const DRIVER_SLICE: u32 = 1024;

/// Loads the modules that are not loaded; the software GPU has 2 GPUs.
pub fn load_all() -> Result<()> {
    if !is_loaded("zernel") {
        load("zernel", "")?;
    }
    if !is_loaded("zernel_sim") {
        load("zernel_sim", "gpus=2")?;
    }
    Ok(())
}

/// A software GPU that lacks operations, in place of the one that has all, until this is dropped.
pub struct Lacking(Mark);

impl Lacking {
    /// Without these operations, which commas separate.
    pub fn new(operations: &str) -> Result<Self> {
        let log = Mark::new()?;
        unload_soon("zernel_sim")?;
        let lacking = Self(log);
        load("zernel_sim", &format!("gpus=2 lacks={operations}"))?;
        Ok(lacking)
    }

    /// The lines of the kernel's log about operations that are missing.
    pub fn lines(&self) -> Result<Vec<String>> {
        let mut lines = self.0.lines()?;
        lines.retain(|line| line.contains("its provider lacks"));
        Ok(lines)
    }

    /// Waits until the log has named these operations, and no others, for what `policy` lacks.
    pub fn wait_named(&self, policy: &str, operations: &[&str]) -> Result<()> {
        let mut lines = Vec::new();
        wait_until(&format!("{operations:?} is named"), || {
            lines = self.lines()?;
            lines.retain(|line| line.contains(policy));
            let named = |operation: &&str| {
                let lacks = format!("lacks {operation}:");
                lines.iter().any(|line| line.contains(&lacks))
            };
            Ok(operations.iter().all(named))
        })?;
        let is_one = |line: &&String| {
            let mut all = operations.iter();
            all.any(|operation| line.contains(&format!("lacks {operation}:")))
        };
        check_eq!(lines.iter().find(|line| !is_one(line)), None, "in the log");
        Ok(())
    }
}

impl Drop for Lacking {
    fn drop(&mut self) {
        // A case that leaves it in use has failed, and so do those after it.
        if unload_soon("zernel_sim").is_ok() {
            let _ = load_all();
        }
    }
}

/// Unloads the modules that are loaded.
pub fn unload_all() -> Result<()> {
    unload_each(&["zernel_sim", "zernel"])
}

/// Puts the tunables back and waits until nothing is left of a case.
pub fn settle() -> Result<()> {
    // First out of the way, so that the maximum can be put back, and what the GPU is active above.
    fs::write(tunable_path("min_timeslice_us"), "10")?;
    fs::write(tunable_path("gpu_idle_threshold"), "0")?;
    for (name, value) in crate::tunables::DEFAULTS {
        let path = tunable_path(name);
        if fs::read_to_string(&path)?.trim_end() != *value {
            let of_level = name.strip_suffix("_period_us");
            if let Some(level) = of_level.filter(|name| name.starts_with("level")) {
                // Out of the way of any period.
                tune(&format!("{level}_budget_us"), 1_000)?;
            }
            tune(name, value)?;
        }
    }
    Group::remove_all()?;
    let zernel = Zernel::open()?;
    wait_set(&zernel)?;
    let mut last = None;
    wait_until("nothing is left of the case", || {
        let stats = zernel.stats()?;
        let requests = zernel.request_stats(Of::All)?.in_flight;
        last = Some((stats, requests));
        let there = [
            stats.tsgs,
            stats.classes,
            stats.streams,
            stats.threads,
            stats.subscriptions,
        ];
        Ok(there == [0; 5] && requests == 0)
    })
    .with_context(|| format!("{last:?}"))
}

/// The number of a thread of the caller that has ended.
pub fn ended_thread() -> Result<u32> {
    let ended = std::thread::spawn(tid).join().expect("a thread that ends");
    // It can be joined before the kernel is done with it.
    let task = format!("/proc/self/task/{ended}");
    wait_until("the thread is gone", || Ok(!fs::exists(&task)?))?;
    Ok(ended)
}

pub fn wait_set(zernel: &Zernel) -> Result<()> {
    wait_until("everything is set", || {
        Ok(zernel
            .gpus()
            .all(|gpu| gpu.is_ok_and(|gpu| gpu.pending == 0)))
    })
}

/// The file of a tunable.
pub fn tunable_path(name: &str) -> String {
    format!("{}/{name}", libzernel::tunable::Tunables::PATH)
}

/// Sets a tunable.
pub fn tune(name: &str, value: impl std::fmt::Display) -> Result<()> {
    fs::write(tunable_path(name), value.to_string()).with_context(|| format!("{name}={value}"))
}

/// Both devices, open.
pub struct Lab {
    /// zernel.
    pub zernel: Zernel,
    /// The software GPU.
    pub sim: Sim,
}

impl Lab {
    /// Opens both.
    pub fn open() -> Result<Self> {
        Ok(Self {
            zernel: Zernel::open()?,
            sim: Sim::open()?,
        })
    }

    /// A new compute context on GPU 0, and its TSG as zernel knows it.
    pub fn compute(&self) -> Result<(Context, Tsg)> {
        self.context(&ContextSpec::compute("test"))
    }

    /// A new context, and its TSG as zernel knows it.
    pub fn context(&self, spec: &ContextSpec<'_>) -> Result<(Context, Tsg)> {
        let last = self.zernel.tsgs().last().transpose()?.map(|tsg| tsg.id);
        let context = self.sim.create_context(spec)?;
        for tsg in self.zernel.tsgs() {
            let tsg = tsg?;
            if Some(tsg.id) > last && tsg.tid == tid() {
                return Ok((context, tsg));
            }
        }
        bail!("zernel does not list the TSG of a new context");
    }

    /// A TSG that is listed.
    pub fn tsg(&self, id: tsg::Id) -> Result<Tsg> {
        let is_it = |tsg: &libzernel::Result<Tsg>| tsg.as_ref().map_or(true, |tsg| tsg.id == id);
        let found = self.zernel.tsgs().find(is_it);
        Ok(found.with_context(|| format!("TSG {id} is not listed"))??)
    }

    /// The level of a TSG that is listed, and the source of it.
    pub fn listed(&self, id: tsg::Id) -> Result<(Option<u8>, Source)> {
        let tsg = self.tsg(id)?;
        Ok((tsg.level.map(Level::number), tsg.source))
    }

    /// The counters.
    pub fn stats(&self) -> Result<Stats> {
        Ok(self.zernel.stats()?)
    }

    /// Waits until the workers have set everything that is to be set.
    pub fn wait_set(&self) -> Result<()> {
        wait_set(&self.zernel)
    }

    /// Waits until the software GPU gives `context` a time slice.
    pub fn wait_slice(&self, context: &Context, slice_us: u32) -> Result<()> {
        let mut seen = 0;
        wait_until(&format!("a time slice of {slice_us} us"), || {
            seen = context.stats()?.timeslice_us;
            Ok(seen == slice_us)
        })
        .with_context(|| format!("the time slice is {seen} us"))
    }
}

/// Fails unless a class of `target` is neither set nor told nor cleared, and changes nothing.
pub fn refuses_class(lab: &Lab, target: &Target, expected: Errno) -> Result<()> {
    crate::abi::unchanged(&lab.zernel, || {
        let set = errno(lab.zernel.set_class(target, level(7)));
        let get = errno(lab.zernel.class(target));
        let clear = errno(lab.zernel.clear_class(target));
        check_eq!([set, get, clear], [Some(expected); 3], "{target:?}");
        Ok(())
    })
}

/// The level in force for a target, and the source of it.
pub fn in_force(class: &Class) -> (Option<u8>, Source) {
    (class.level.value.map(Level::number), class.level.source)
}

/// The level of a number.
pub fn level(number: u8) -> Level {
    Level::new(number).expect("a level from 0 to 7")
}

/// The time slice of a level on the software GPU, in a module that was just loaded: there
/// best-effort TSGs take turns.
pub fn slice_of(number: u8) -> u32 {
    match number {
        7 => default_of("rotation_timeslice_us"),
        _ => told_slice_of(number),
    }
}

/// The time slice that a class is told, in a module that was just loaded: it knows of no GPU.
pub fn told_slice_of(number: u8) -> u32 {
    default_of(&format!("level{number}_timeslice_us"))
}

/// The number that a tunable is in a module that was just loaded.
pub fn default_of(name: &str) -> u32 {
    let default = crate::tunables::DEFAULTS.iter().find(|(n, _)| *n == name);
    default
        .and_then(|(_, value)| value.parse().ok())
        .expect("a tunable that is a number")
}

/// The errno of a call that failed.
pub fn errno<T>(result: libzernel::Result<T>) -> Option<Errno> {
    result.err().and_then(|error| error.errno())
}

/// The calling thread's number.
pub fn tid() -> u32 {
    rustix::thread::gettid()
        .as_raw_nonzero()
        .get()
        .unsigned_abs()
}

/// A level on all GPUs together.
pub fn level_info(zernel: &Zernel, level: Level) -> Result<LevelInfo> {
    let mut levels = zernel.levels();
    let is_asked = |info: &LevelInfo| info.gpu.is_none() && info.level == Some(level);
    let found = levels.find(|info| info.as_ref().map_or(true, is_asked));
    Ok(found.context("a level is not listed")??)
}

/// The switch cost that zernel has learned for the GPU of a TSG, in nanoseconds.
pub fn switch_ns(zernel: &Zernel, id: tsg::Id) -> Result<u64> {
    let tsg = zernel.tsgs_of(&Target::Tsg(id)).next();
    let gpu = tsg.context("no such TSG")??.gpu;
    let gpus: Vec<_> = zernel.gpus().collect::<Result<_, _>>()?;
    let found = gpus.into_iter().find(|known| known.id == gpu);
    Ok(found.context("no such GPU")?.switch_ns)
}
