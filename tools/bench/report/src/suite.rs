// SPDX-License-Identifier: MIT OR Apache-2.0
//! Results of the suite of `make bench`, as its file has them: a line of JSON per part, so that
//! nothing that was measured is lost when the rest fails.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use zernel_workload::{Deployment, Network, Published};

use crate::outcome::{Mode, Share};
use crate::recovery::Recovery;
use crate::table::Row;

/// The file of a suite's results in its folder.
pub const FILE: &str = "suite.jsonl";

/// Sections of the suite.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Section {
    /// The published workloads, a process per client.
    Workloads,
    /// Those with several clients of a role, in the published deployment.
    Published,
    /// Against the preparation time.
    Preparation,
    /// Preparations that take now this long and now that.
    Jitter,
    /// The same with other constants and other costs.
    Frontier,
    /// Against the number of best-effort processes.
    Processes,
    /// Best-effort processes of different weights.
    Weights,
}

impl Section {
    /// Its name, as `--only` takes it.
    pub fn name(self) -> String {
        format!("{self:?}").to_lowercase()
    }
}

/// Result of a part.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Done {
    /// Its kind.
    pub section: Section,
    /// The parameter that was changed: microseconds, a number of processes, a cost.
    pub parameter: Option<f64>,
    /// The workload.
    pub workload: String,
    /// The workload in words.
    pub title: String,
    /// Which clients shared a TSG.
    pub deployment: Deployment,
    /// Duration of each mode, in seconds of the guest.
    pub seconds: f64,
    /// Published figures.
    pub published: Option<Published>,
    /// The figures of each mode.
    pub rows: Vec<Row>,
    /// Points of the distribution of LC latencies of each mode: milliseconds and percent.
    pub curves: Vec<(Mode, Vec<(f64, f64)>)>,
    /// Shares of the BE processes in their GPU time, in each mode.
    #[serde(default)]
    pub shares: Vec<(Mode, Vec<Share>)>,
    /// Recovery from a change of the preparation in each mode, if there was one.
    #[serde(default)]
    pub recovery: Vec<(Mode, Recovery)>,
}

/// LC requests per second beside a number of best-effort processes, and what they serve.
pub const BESIDE: (f64, Network) = (100.0, Network::Vgg);

/// GPU time that is left when those have what they need, in percent: what best-effort work would
/// have on a GPU that switches at no cost and is never idle.
pub fn ideal_percent() -> f64 {
    let (rate, network) = BESIDE;
    100.0 * (1.0 - rate * network.service().as_secs_f64())
}

/// Reads the results of a suite.
pub fn load(dir: &Path) -> Result<Vec<Done>> {
    let path = dir.join(FILE);
    let text =
        fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    text.lines()
        .map(|line| {
            serde_json::from_str(line).with_context(|| {
                format!(
                    "{} holds a line that is no result of a suite",
                    path.display()
                )
            })
        })
        .collect()
}
