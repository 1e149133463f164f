// SPDX-License-Identifier: MIT OR Apache-2.0
//! Published results of others for a workload, to be shown beside the measured ones.

use serde::{Deserialize, Serialize};

/// Figures of GPreempt (USENIX ATC'25) on an A100, read off its plots.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Published {
    /// Mean LC latency alone, in milliseconds.
    pub alone_ms: Option<f64>,
    /// Mean LC latency without preemption, in milliseconds.
    pub default_ms: Option<f64>,
    /// Mean LC latency with GPreempt, in milliseconds.
    pub gpreempt_ms: Option<f64>,
    /// Mean LC latency that GPreempt adds, in microseconds.
    pub gpreempt_added_us: Option<f64>,
    /// The same without the hint.
    pub classes_added_us: Option<f64>,
    /// The same of a wait for the end of the running blocks.
    pub block_added_us: Option<f64>,
    /// Best-effort requests per second without preemption.
    pub default_be: Option<f64>,
    /// The same with GPreempt.
    pub gpreempt_be: Option<f64>,
}

impl Published {
    /// Mean LC latency that GPreempt adds, in microseconds, against the preparation in
    /// microseconds. The workload of this sweep is not named.
    pub const PREPARATION_SWEEP: [(u64, f64); 6] = [
        (0, 92.0),
        (50, 65.0),
        (100, 45.0),
        (150, 37.0),
        (200, 37.0),
        (250, 35.0),
    ];

    /// Of a policy: LC mean in milliseconds, what is added to it in microseconds, and best-effort
    /// requests per second.
    pub fn of(&self, policy: &str) -> [Option<f64>; 3] {
        match policy {
            "alone" | "exclusive" => [self.alone_ms, None, None],
            "default" => [self.default_ms, None, self.default_be],
            "block" => [None, self.block_added_us, None],
            "classes" => [None, self.classes_added_us, None],
            "gpreempt" => [self.gpreempt_ms, self.gpreempt_added_us, self.gpreempt_be],
            _ => [None; 3],
        }
    }

    /// The same as points of a plot.
    pub fn preparation_sweep() -> Vec<(f64, f64)> {
        let points = Self::PREPARATION_SWEEP;
        points.map(|(us, added)| (us as f64, added)).to_vec()
    }
}
