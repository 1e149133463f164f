// SPDX-License-Identifier: MIT OR Apache-2.0
//! Results of a run, as they are written to and read from JSON.

use std::fmt;
use std::fs::{self, File};
use std::io::{BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use libzernel::sim::{Activity, GpuInfo};
use serde::{Deserialize, Serialize};
use zernel_workload::{ClientSpec, Deployment, Role};

use crate::breakdown::Stamps;
use crate::recovery;
use crate::requests::Requests;
use crate::stats::{Buckets, Latencies, Summary};

/// Modes: the clients that run, and their time slices.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, clap::ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// Latency-critical clients alone.
    Alone,
    /// All clients, with the driver's default slices.
    Default,
    /// All clients, each with the class of its role: slices, and nothing else.
    Classes,
    /// The same, and LC clients take the GPU ahead by two constants, as in GPreempt.
    Gpreempt,
    /// Classes, requests and turns, with the tunables as they are.
    Zernel,
}

impl Mode {
    /// All of them in the order in which they are compared.
    pub const ALL: [Self; 5] = [
        Self::Alone,
        Self::Default,
        Self::Classes,
        Self::Gpreempt,
        Self::Zernel,
    ];

    /// True if clients have the class of their role.
    pub const fn has_classes(self) -> bool {
        matches!(self, Self::Classes | Self::Gpreempt | Self::Zernel)
    }

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Alone => "alone",
            Self::Default => "default",
            Self::Classes => "classes",
            Self::Gpreempt => "gpreempt",
            Self::Zernel => "zernel",
        }
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Time of the compute engine during a run, in nanoseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EngineUse {
    /// Ran work.
    pub busy_ns: u64,
    /// Saved or restored contexts.
    pub switch_ns: u64,
    /// Had nothing to do.
    pub idle_ns: u64,
    /// Contexts restored.
    pub switches: u64,
}

impl EngineUse {
    /// Share of `part` in all of it, in percent.
    pub fn percent(&self, part: u64) -> f64 {
        let all = self.busy_ns + self.switch_ns + self.idle_ns;
        100.0 * part as f64 / all.max(1) as f64
    }
}

/// Counters of the hints of a process.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HintUse {
    /// Requests that began.
    pub requests: u64,
    /// Triggers that zernel stored.
    pub triggers: u64,
    /// Requests with the GPU free before their data was ready, as far as zernel can tell.
    pub early: u64,
    /// By how much in all, in nanoseconds.
    pub early_ns: u64,
    /// Requests with their data ready before the GPU was free.
    pub late: u64,
    /// By how much in all, in nanoseconds.
    pub late_ns: u64,
    /// Leases that ended.
    pub expired: u64,
    /// Cost of a switch, as learned by zernel, in nanoseconds.
    pub switch_ns: u64,
}

impl HintUse {
    /// The difference to `before`.
    pub fn since(&self, before: &Self) -> Self {
        Self {
            requests: self.requests - before.requests,
            triggers: self.triggers - before.triggers,
            early: self.early - before.early,
            early_ns: self.early_ns - before.early_ns,
            late: self.late - before.late,
            late_ns: self.late_ns - before.late_ns,
            expired: self.expired - before.expired,
            switch_ns: self.switch_ns,
        }
    }
}

/// A process of a run, so a TSG on the compute engine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessUse {
    /// Role of its clients.
    pub role: Role,
    /// Nanoseconds that it had the compute engine for, with its holders.
    pub busy_ns: u64,
    /// Times that it was restored.
    pub switches: u64,
    /// Nanoseconds that its holders had the engine for.
    pub held_ns: u64,
    /// The same for each request, in the order in which they were over.
    #[serde(default)]
    pub held_each_ns: Vec<u64>,
    /// Holders that ended by their bound.
    pub holds_expired: u64,
    /// Counters of its hints.
    pub hints: Option<HintUse>,
}

/// A client and the outcome of its requests.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ClientOutcome {
    /// Its order.
    pub spec: ClientSpec,
    /// Time slice of its TSG, in microseconds.
    pub timeslice_us: u32,
    /// Its requests.
    pub requests: Requests,
    /// Histogram of their latencies.
    pub histogram: Buckets,
    /// Their time stamps, if they were kept.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stamps: Vec<Stamps>,
}

/// An activity of the compute engine, and its time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Span {
    /// From, in nanoseconds since the start of the run.
    pub start_ns: u64,
    /// Until.
    pub end_ns: u64,
    /// For which client, by its place in the list.
    pub client: Option<usize>,
    /// The activity.
    pub activity: Activity,
}

/// A window of the compute engine's execution trace.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TraceWindow {
    /// From, in nanoseconds since the start of the run.
    pub start_ns: u64,
    /// Until.
    pub end_ns: u64,
    /// The activities, in order.
    pub spans: Vec<Span>,
    /// Records lost.
    pub dropped: u64,
}

/// Results of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// Name of the workload.
    pub workload: String,
    /// The mode.
    pub mode: Mode,
    /// The mode's settings, if not its defaults.
    #[serde(default)]
    pub setting: Option<String>,
    /// Which clients shared a TSG.
    #[serde(default)]
    pub deployment: Deployment,
    /// Duration, in seconds.
    pub seconds: f64,
    /// The GPU.
    pub gpu: GpuInfo,
    /// Time of its compute engine.
    pub engine: EngineUse,
    /// The processes.
    #[serde(default)]
    pub processes: Vec<ProcessUse>,
    /// The clients.
    pub clients: Vec<ClientOutcome>,
    /// A window of its execution.
    pub trace: TraceWindow,
}

impl Outcome {
    /// Requests of all clients of a role.
    fn of_role(&self, role: Role) -> impl Iterator<Item = &ClientOutcome> {
        self.clients
            .iter()
            .filter(move |client| client.spec.role == role)
    }

    /// Latencies of a role from the start of the preparation.
    pub fn latency(&self, role: Role) -> Summary {
        let requests = self.of_role(role).flat_map(|client| client.requests.iter());
        Latencies::new(requests.map(|request| request.latency())).summary()
    }

    /// Latencies of a role from the arrival.
    pub fn latency_with_queue(&self, role: Role) -> Summary {
        let requests = self.of_role(role).flat_map(|client| client.requests.iter());
        Latencies::new(requests.map(|request| request.latency_with_queue())).summary()
    }

    /// All latencies of a role in order, in nanoseconds.
    pub fn sorted_latencies(&self, role: Role) -> Vec<u64> {
        let mut all: Vec<u64> = self
            .of_role(role)
            .flat_map(|client| client.requests.latency_ns.iter().copied())
            .collect();
        all.sort_unstable();
        all
    }

    /// Requests of a role that were done within the run, per second.
    pub fn rate(&self, role: Role) -> f64 {
        let end = Duration::from_secs_f64(self.seconds);
        let done = self
            .of_role(role)
            .flat_map(|client| client.requests.iter())
            .filter(|request| request.end <= end)
            .count();
        done as f64 / self.seconds
    }

    /// Added latency of each LC request against the same request in `alone`, in nanoseconds
    /// and in order; those that were served in both.
    pub fn added(&self, alone: &Self) -> Vec<i64> {
        let pairs = self.of_role(Role::Lc).zip(alone.of_role(Role::Lc));
        let each = pairs.flat_map(|(here, there)| here.requests.added(&there.requests));
        let mut all: Vec<i64> = each.map(|(_, added)| added).collect();
        all.sort_unstable();
        all
    }

    /// Recovery of the requests of the first LC client after `change`, where its process has no
    /// other client.
    pub fn recovery(&self, alone: &Self, change: Duration) -> Option<recovery::Recovery> {
        let here = &self.of_role(Role::Lc).next()?.requests;
        let there = &alone.of_role(Role::Lc).next()?.requests;
        let held = &self
            .processes
            .iter()
            .find(|one| one.role == Role::Lc)?
            .held_each_ns;
        recovery::Recovery::after(change, here, there, held)
    }

    /// Shares of the BE processes in their GPU time, beside their weights, in percent.
    pub fn shares(&self) -> Vec<Share> {
        let all = self.sum(Role::Be, |one| one.busy_ns).max(1);
        let clients = self.of_role(Role::Be).map(|client| client.spec.weight);
        let weights: Vec<u32> = clients.collect();
        let sum: u32 = weights.iter().sum();
        let processes = self.processes.iter().filter(|one| one.role == Role::Be);
        weights
            .iter()
            .zip(processes)
            .map(|(&weight, process)| Share {
                weight,
                due_percent: 100.0 * f64::from(weight) / f64::from(sum),
                had_percent: 100.0 * process.busy_ns as f64 / all as f64,
            })
            .collect()
    }

    /// Sum of something over the processes of a role.
    pub fn sum(&self, role: Role, of: impl Fn(&ProcessUse) -> u64) -> u64 {
        let processes = self.processes.iter().filter(|one| one.role == role);
        processes.map(of).sum()
    }

    /// A sum of nanoseconds as a share of the run, in percent.
    pub fn percent(&self, ns: u64) -> f64 {
        ns as f64 / 1e7 / self.seconds
    }

    /// Requests of a role that a newer one took the place of.
    pub fn dropped(&self, role: Role) -> u64 {
        self.of_role(role)
            .map(|client| client.requests.dropped)
            .sum()
    }

    /// The file of this outcome in `dir`.
    pub fn path(dir: &Path, workload: &str, mode: Mode) -> PathBuf {
        dir.join(format!("{workload}-{mode}.json"))
    }

    /// Writes it to its file in `dir`.
    pub fn save(&self, dir: &Path) -> Result<()> {
        let path = Self::path(dir, &self.workload, self.mode);
        let write = || -> Result<()> {
            let mut file = BufWriter::new(File::create(&path)?);
            serde_json::to_writer(&mut file, self)?;
            file.write_all(b"\n")?;
            Ok(file.flush()?)
        };
        write().with_context(|| format!("cannot write {}", path.display()))
    }

    /// Reads it from `path`.
    pub fn load(path: &Path) -> Result<Self> {
        let file = File::open(path).with_context(|| format!("cannot open {}", path.display()))?;
        serde_json::from_reader(BufReader::new(file))
            .with_context(|| format!("{} is not the result of a run", path.display()))
    }
}

/// Share of a process.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Share {
    /// Its weight.
    pub weight: u32,
    /// Its share by that, in percent.
    pub due_percent: f64,
    /// Its actual share, in percent.
    pub had_percent: f64,
}

impl Share {
    /// By how much it had more than its share, in percent of that.
    pub fn error_percent(&self) -> f64 {
        100.0 * (self.had_percent / self.due_percent - 1.0)
    }
}

/// The runs of one workload that can be compared.
#[derive(Debug, Default)]
pub struct Comparison {
    /// Name of the workload.
    pub workload: String,
    /// Runs in the order of their modes.
    pub runs: Vec<Outcome>,
}

impl Comparison {
    /// The run of this mode.
    pub fn run(&self, mode: Mode) -> Option<&Outcome> {
        self.runs.iter().find(|run| run.mode == mode)
    }

    /// Reads all results in `dir`, workloads by name.
    pub fn load_all(dir: &Path) -> Result<Vec<Self>> {
        let mut all: Vec<Self> = Vec::new();
        let entries =
            fs::read_dir(dir).with_context(|| format!("cannot read {}", dir.display()))?;
        for entry in entries {
            let path = entry?.path();
            let stem = path
                .file_stem()
                .and_then(|stem| stem.to_str())
                .unwrap_or("");
            let modes = Mode::ALL.map(|mode| format!("-{mode}"));
            let json = path
                .extension()
                .is_some_and(|extension| extension == "json");
            if !json || !modes.iter().any(|mode| stem.ends_with(mode)) {
                continue;
            }
            let run = Outcome::load(&path)?;
            match all.iter_mut().find(|one| one.workload == run.workload) {
                Some(one) => one.runs.push(run),
                None => all.push(Self {
                    workload: run.workload.clone(),
                    runs: vec![run],
                }),
            }
        }
        all.sort_by(|a, b| a.workload.cmp(&b.workload));
        for one in &mut all {
            one.runs.sort_by_key(|run| run.mode as u8);
        }
        Ok(all)
    }
}
