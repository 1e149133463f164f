// SPDX-License-Identifier: MIT OR Apache-2.0
//! A line of the page: the measured figure, beside the published one and the replay's.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use zernel_workload::{Deployment, Published};

use super::explain::Explanations;
use super::{policies, seeds};
use crate::outcome::Mode;
use crate::recovery::Recovery;
use crate::suite::{Done, Section};
use crate::table::Row;

/// The largest deviation from a published figure without an explanation, in percent.
pub const EXPLAINED_FROM: f64 = 25.0;

/// Largest difference between replay and run that counts as agreement, in percent.
pub const AGREE_WITHIN: f64 = 5.0;

/// A figure that is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Figure {
    /// Mean LC latency, in milliseconds.
    Latency,
    /// Added to it, in microseconds.
    Added,
    /// Best-effort requests per second.
    Be,
}

/// A measured figure beside a published one.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Compared {
    /// Which.
    pub figure: Figure,
    /// The published figure.
    pub published: f64,
    /// The measured figure.
    pub measured: f64,
    /// By how much it differs, in percent.
    pub deviation_percent: f64,
    /// Why it differs so much, if it does.
    pub why: Option<String>,
}

impl Compared {
    /// True if it needs an explanation and has none.
    pub fn is_unexplained(&self) -> bool {
        self.deviation_percent.abs() > EXPLAINED_FROM && self.why.is_none()
    }
}

/// The replay of the same run.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Replayed {
    /// Mean LC latency, in nanoseconds.
    pub lc_mean_ns: f64,
    /// By how much the run is above that, in percent.
    pub lc_mean_percent: f64,
    /// Best-effort requests per second.
    pub be_rate: f64,
    /// By how much the run is above that, in percent; none alone.
    pub be_rate_percent: Option<f64>,
}

impl Replayed {
    /// True if both agree.
    pub fn agrees(&self) -> bool {
        self.lc_mean_percent.abs() <= AGREE_WITHIN
            && self
                .be_rate_percent
                .is_none_or(|percent| percent.abs() <= AGREE_WITHIN)
    }
}

/// A line of the page.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Line {
    /// Where it belongs.
    pub section: Section,
    /// The parameter that was changed.
    pub parameter: Option<f64>,
    /// Which clients shared a TSG.
    pub deployment: Deployment,
    /// Duration, in seconds of the guest.
    pub seconds: f64,
    /// The measured figure.
    pub row: Row,
    /// The published figure.
    pub compared: Vec<Compared>,
    /// Results of the replay.
    pub replayed: Option<Replayed>,
}

/// A row of the replay's JSON, as far as it is used.
#[derive(Debug, Clone, Deserialize)]
pub struct ReplayRow {
    /// The workload.
    pub workload: String,
    /// The policy, with its parameters.
    pub policy: String,
    /// Which clients shared a TSG.
    pub deployment: Deployment,
    /// The parameter of a sweep.
    pub parameter: Option<f64>,
    /// LC latencies.
    pub lc: ReplaySummary,
    /// By how much each was longer than alone.
    #[serde(default)]
    pub lc_added: ReplaySummary,
    /// GPU held for data, in percent.
    #[serde(default)]
    pub held_percent: f64,
    /// Best-effort requests per second.
    pub be_rate: f64,
    /// Time that best-effort TSGs had the GPU for, in percent.
    #[serde(default)]
    pub be_percent: f64,
    /// Simulated seconds.
    #[serde(default)]
    pub seconds: f64,
    /// LC requests that were never served, in percent of those that were not refused.
    #[serde(default)]
    pub lc_not_served_percent: f64,
    /// Requests that missed their deadline, if there are some.
    #[serde(default)]
    pub missed: Option<Missed>,
    /// Recovery from a change of the preparation.
    #[serde(default)]
    pub recovery: Option<Recovery>,
    /// Its figures as the cells of a table.
    #[serde(default)]
    pub cells: Vec<String>,
}

/// A distribution of latencies, as far as it is used.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
pub struct ReplaySummary {
    /// Mean, in nanoseconds.
    pub mean_ns: f64,
    /// 99th percentile, in nanoseconds.
    #[serde(default)]
    pub p99_ns: f64,
}

/// The requests that missed their deadline, as far as they are used.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
pub struct Missed {
    /// Their share of those that were served, in percent.
    pub percent: f64,
    /// All that were late, refused or never served, in percent of all that arrived.
    #[serde(default)]
    pub failed_percent: f64,
    /// Requests that were refused, in percent of those that asked.
    pub refused_percent: f64,
    /// The 99th percentile of the time after the deadline, in nanoseconds.
    pub late_p99_ns: f64,
}

/// A file of the replay.
#[derive(Debug, Deserialize)]
struct ReplayFile {
    /// The parameter that was swept, if any.
    #[serde(default)]
    sweep: Option<String>,
    rows: Vec<ReplayRow>,
    /// The seed of its arrivals.
    #[serde(default)]
    seed: u64,
    /// Plots as SVG.
    #[serde(default)]
    plots: Vec<String>,
}

/// Replays of runs.
#[derive(Debug, Default)]
pub struct Replays {
    rows: Vec<ReplayRow>,
    frontiers: Vec<ReplayRow>,
    plots: Vec<String>,
    objectives: Vec<Objective>,
}

/// A sweep of policies beside their references.
#[derive(Debug)]
pub struct Objective {
    /// Its name.
    pub sweep: String,
    /// Its runs; with several seeds the median of each figure.
    pub rows: Vec<ReplayRow>,
    /// The seeds of its arrivals, ascending.
    pub seeds: Vec<u64>,
    /// Its plots with the first seed, as SVG.
    pub plots: Vec<String>,
}

impl Replays {
    /// Reads `replay*.json` in a folder.
    pub fn load(dir: &Path) -> Result<Self> {
        let mut all = Self::default();
        let entries =
            fs::read_dir(dir).with_context(|| format!("cannot read {}", dir.display()))?;
        let mut paths = entries
            .map(|entry| Ok(entry?.path()))
            .collect::<Result<Vec<_>>>()?;
        paths.sort_unstable();
        let mut sweeps = Vec::new();
        for path in paths {
            let name = path
                .file_name()
                .and_then(|name| name.to_str())
                .unwrap_or("");
            if name.starts_with("replay") && name.ends_with(".json") {
                let text = fs::read_to_string(&path)
                    .with_context(|| format!("cannot read {}", path.display()))?;
                let file: ReplayFile = serde_json::from_str(&text).with_context(|| {
                    format!("{} is not a result of replay run --json", path.display())
                })?;
                match file.sweep {
                    None => all.rows.extend(file.rows),
                    Some(sweep) if sweep == "frontier" => all.frontiers.extend(file.rows),
                    Some(sweep) if policies::SWEEPS.contains(&sweep.as_str()) => {
                        sweeps.push((sweep, file.seed, file.rows, file.plots));
                    }
                    Some(_) => all.plots.extend(file.plots),
                }
            }
        }
        all.objectives = seeds::together(sweeps);
        Ok(all)
    }

    /// Plots of sweeps beside queueing theory, as SVG.
    pub fn plots(&self) -> &[String] {
        &self.plots
    }

    /// True if there is such a sweep.
    pub fn has_objectives(&self) -> bool {
        !self.objectives.is_empty()
    }

    /// The sweeps of this name of policies beside their references.
    pub fn objectives<'a>(&'a self, sweep: &'a str) -> impl Iterator<Item = &'a Objective> {
        self.objectives.iter().filter(move |one| one.sweep == sweep)
    }

    /// The runs of a policy in a sweep of the frontier of a workload.
    pub fn frontier(&self, workload: &str, mode: Mode) -> Vec<&ReplayRow> {
        let of = |row: &&ReplayRow| {
            let policy = row.policy.split_whitespace().next();
            row.workload == workload && policy == Some(mode.name())
        };
        self.frontiers.iter().filter(of).collect()
    }

    /// Recovery from a change of the preparation under a policy.
    pub fn recovery(&self, mode: Mode) -> Option<&Recovery> {
        let of = |row: &&ReplayRow| row.policy == mode.name() && row.recovery.is_some();
        self.rows.iter().find(of)?.recovery.as_ref()
    }

    /// The replays of a line's workload under policies that no run has.
    pub fn others(&self, line: &Line) -> Vec<&ReplayRow> {
        if !is_replayed(line.section) {
            return Vec::new();
        }
        let of = |row: &&ReplayRow| {
            row.workload == line.row.workload
                && row.deployment == line.deployment
                && row.parameter.is_none()
                && row.policy != "exclusive"
                && !Mode::ALL.iter().any(|mode| mode.name() == row.policy)
        };
        self.rows.iter().filter(of).collect()
    }

    fn find(&self, done: &Done, row: &Row) -> Option<Replayed> {
        if !is_replayed(done.section) {
            return None;
        }
        let policy = match row.mode {
            Mode::Alone => "exclusive",
            mode => mode.name(),
        };
        let found = self.rows.iter().find(|one| {
            one.workload == row.workload
                && one.policy == policy
                && one.deployment == done.deployment
                && one.parameter.is_none()
        })?;
        let percent = |here: f64, there: f64| 100.0 * (here / there - 1.0);
        Some(Replayed {
            lc_mean_ns: found.lc.mean_ns,
            lc_mean_percent: percent(row.lc.mean_ns, found.lc.mean_ns),
            be_rate: found.be_rate,
            be_rate_percent: (found.be_rate > 0.0).then(|| percent(row.be_rate, found.be_rate)),
        })
    }
}

/// True if the runs of a section are replayed with the same settings.
const fn is_replayed(section: Section) -> bool {
    matches!(
        section,
        Section::Workloads | Section::Published | Section::Jitter
    )
}

/// The lines of a suite's results.
pub fn lines(all: &[Done], replays: &Replays, explanations: &Explanations) -> Vec<Line> {
    let of = |done: &Done| -> Vec<Line> {
        let line = |row: &Row| Line {
            section: done.section,
            parameter: done.parameter,
            deployment: done.deployment,
            seconds: done.seconds,
            row: row.clone(),
            compared: compared(done, row, explanations),
            replayed: replays.find(done, row),
        };
        done.rows.iter().map(line).collect()
    };
    all.iter().flat_map(of).collect()
}

fn compared(done: &Done, row: &Row, explanations: &Explanations) -> Vec<Compared> {
    let measured = |figure| match figure {
        Figure::Latency => Some(row.lc.mean_ns / 1e6),
        Figure::Added => row.lc_added_us,
        Figure::Be => Some(row.be_rate),
    };
    let one = |(figure, published): (Figure, f64)| {
        let measured = measured(figure)?;
        let deviation_percent = 100.0 * (measured / published - 1.0);
        let why = (deviation_percent.abs() > EXPLAINED_FROM)
            .then(|| explanations.find(done, row.mode, figure))
            .flatten();
        Some(Compared {
            figure,
            published,
            measured,
            deviation_percent,
            why,
        })
    };
    published(done, row.mode)
        .into_iter()
        .filter_map(one)
        .collect()
}

/// Published figures of a run.
fn published(done: &Done, mode: Mode) -> Vec<(Figure, f64)> {
    if done.section == Section::Preparation {
        let sweep = Published::preparation_sweep();
        let known = sweep.iter().find(|(us, _)| Some(*us) == done.parameter);
        let known = known.filter(|_| mode == Mode::Gpreempt);
        return known
            .map(|&(_, added)| (Figure::Added, added))
            .into_iter()
            .collect();
    }
    let Some(known) = &done.published else {
        return Vec::new();
    };
    [Figure::Latency, Figure::Added, Figure::Be]
        .into_iter()
        .zip(known.of(mode.name()))
        .filter_map(|(figure, value)| Some((figure, value?)))
        .collect()
}
