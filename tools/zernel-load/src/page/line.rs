// SPDX-License-Identifier: GPL-2.0
//! A line of the page: what was measured, beside what is published and what the replay tells.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use zernel_workload::Published;

use super::explain::Explanations;
use crate::outcome::{Deployment, Mode};
use crate::suite::{Done, Section};
use crate::table::Row;

/// A deviation from what is published that is larger is explained, in percent.
pub const EXPLAINED_FROM: f64 = 25.0;

/// How far the replay and the run may be apart, in percent.
pub const AGREE_WITHIN: f64 = 5.0;

/// GPreempt's published added latency in microseconds, against the preparation in microseconds.
pub const PUBLISHED_SWEEP: [(f64, f64); 6] = [
    (0.0, 92.0),
    (50.0, 65.0),
    (100.0, 45.0),
    (150.0, 37.0),
    (200.0, 37.0),
    (250.0, 35.0),
];

/// A figure that is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Figure {
    /// Mean LC latency, in milliseconds.
    Latency,
    /// What is added to it, in microseconds.
    Added,
    /// Best-effort requests per second.
    Be,
}

/// A measured figure beside a published one.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Compared {
    /// Which.
    pub figure: Figure,
    /// What is published.
    pub published: f64,
    /// What was measured.
    pub measured: f64,
    /// By how much it differs, in percent.
    pub deviation_percent: f64,
    /// Why it differs so much, if it does.
    pub why: Option<String>,
}

impl Compared {
    /// Whether it is to be explained and is not.
    pub fn is_unexplained(&self) -> bool {
        self.deviation_percent.abs() > EXPLAINED_FROM && self.why.is_none()
    }
}

/// What the replay tells of the same run.
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
    /// Whether both agree.
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
    /// What was changed.
    pub parameter: Option<f64>,
    /// Which clients shared a TSG.
    pub deployment: Deployment,
    /// How long it ran, in seconds of the guest.
    pub seconds: f64,
    /// What was measured.
    pub row: Row,
    /// What is published.
    pub compared: Vec<Compared>,
    /// What the replay tells.
    pub replayed: Option<Replayed>,
}

/// A row of the replay's JSON, as far as it is compared.
#[derive(Debug, Deserialize)]
struct ReplayRow {
    workload: String,
    policy: String,
    deployment: Deployment,
    parameter: Option<f64>,
    lc: ReplaySummary,
    be_rate: f64,
}

#[derive(Debug, Deserialize)]
struct ReplaySummary {
    mean_ns: f64,
}

#[derive(Debug, Deserialize)]
struct ReplayFile {
    rows: Vec<ReplayRow>,
}

/// What the replay tells of runs.
#[derive(Debug, Default)]
pub struct Replays(Vec<ReplayRow>);

impl Replays {
    /// Reads `replay*.json` in a folder.
    pub fn load(dir: &Path) -> Result<Self> {
        let mut rows = Vec::new();
        let entries =
            fs::read_dir(dir).with_context(|| format!("cannot read {}", dir.display()))?;
        for entry in entries {
            let path = entry?.path();
            let name = path
                .file_name()
                .and_then(|name| name.to_str())
                .unwrap_or("");
            if name.starts_with("replay") && name.ends_with(".json") {
                let text = fs::read_to_string(&path)
                    .with_context(|| format!("cannot read {}", path.display()))?;
                let file: ReplayFile = serde_json::from_str(&text)
                    .with_context(|| format!("{} is not of the replay", path.display()))?;
                rows.extend(file.rows);
            }
        }
        Ok(Self(rows))
    }

    fn find(&self, done: &Done, row: &Row) -> Option<Replayed> {
        if !matches!(
            done.section,
            Section::Workloads | Section::Published | Section::Jitter
        ) {
            return None;
        }
        let policy = match row.mode {
            Mode::Alone => "exclusive",
            mode => mode.name(),
        };
        let found = self.0.iter().find(|one| {
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

/// The lines of what a suite came to.
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

/// What is published of a run.
fn published(done: &Done, mode: Mode) -> Vec<(Figure, f64)> {
    if done.section == Section::Preparation {
        let known = PUBLISHED_SWEEP
            .iter()
            .find(|(us, _)| Some(*us) == done.parameter);
        let known = known.filter(|_| mode == Mode::Gpreempt);
        return known
            .map(|&(_, added)| (Figure::Added, added))
            .into_iter()
            .collect();
    }
    let Some(known) = &done.published else {
        return Vec::new();
    };
    let Published {
        alone_ms,
        default_ms,
        gpreempt_ms,
        gpreempt_added_us,
        classes_added_us,
        default_be,
        gpreempt_be,
        ..
    } = *known;
    let figures = match mode {
        Mode::Alone => [alone_ms, None, None],
        Mode::Default => [default_ms, None, default_be],
        Mode::Classes => [None, classes_added_us, None],
        Mode::Gpreempt => [gpreempt_ms, gpreempt_added_us, gpreempt_be],
        Mode::Zernel => [None; 3],
    };
    [Figure::Latency, Figure::Added, Figure::Be]
        .into_iter()
        .zip(figures)
        .filter_map(|(figure, value)| Some((figure, value?)))
        .collect()
}
