// SPDX-License-Identifier: MIT OR Apache-2.0
//! The table that compares the runs of a workload.

use std::fmt::Write;

use serde::{Deserialize, Serialize};
use zernel_workload::Role;

use crate::figures::{Figures, Table, COLUMNS, HEAD};
use crate::outcome::{Comparison, Mode, Outcome};
use crate::quantile;
use crate::stats::Summary;

/// One run's figures.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// Workload.
    pub workload: String,
    /// The mode.
    pub mode: Mode,
    /// The mode's settings, if not its defaults.
    #[serde(default)]
    pub setting: Option<String>,
    /// Latency-critical latencies from the start of the preparation.
    pub lc: Summary,
    /// Mean of the same from the arrival.
    pub lc_mean_with_queue_ns: f64,
    /// Mean less the mean alone, in microseconds.
    pub lc_added_us: Option<f64>,
    /// Added latency of the same requests against the run alone, in microseconds: median, 99th and
    /// 99.9th percentile, longest.
    pub lc_added_at_us: Option<[f64; 4]>,
    /// Latency-critical requests per second.
    pub lc_rate: f64,
    /// Latency-critical requests dropped.
    pub lc_dropped: u64,
    /// Best-effort requests per second.
    pub be_rate: f64,
    /// Share of the best-effort rate with default slices, in percent.
    pub be_kept_percent: Option<f64>,
    /// GPU that best-effort clients had, in percent.
    pub be_gpu_percent: f64,
    /// GPU held for requests without their data, in percent.
    pub held_percent: f64,
    /// The same as zernel counts it, in percent.
    pub early_percent: f64,
    /// Context switches per second.
    pub switches: f64,
    /// Holders that ended by their bound.
    pub holds_expired: u64,
    /// Cost of a switch, as learned by zernel, in microseconds.
    pub switch_cost_us: Option<f64>,
    /// GPU running work, in percent.
    pub gpu_busy_percent: f64,
    /// GPU switching contexts, in percent.
    pub gpu_switch_percent: f64,
    /// GPU idle, in percent.
    pub gpu_idle_percent: f64,
}

/// The figures of every run of a workload.
pub fn rows(comparison: &Comparison) -> Vec<Row> {
    let alone_run = comparison.run(Mode::Alone);
    let alone = alone_run.map(|run| run.latency(Role::Lc).mean_ns);
    let default = comparison
        .run(Mode::Default)
        .map(|run| run.rate(Role::Be))
        .filter(|&rate| rate > 0.0);
    let row = |run: &Outcome| {
        let lc = run.latency(Role::Lc);
        let shared = run.mode != Mode::Alone;
        let be_rate = run.rate(Role::Be);
        Row {
            workload: run.workload.clone(),
            mode: run.mode,
            setting: run.setting.clone(),
            lc,
            lc_mean_with_queue_ns: run.latency_with_queue(Role::Lc).mean_ns,
            lc_added_us: alone
                .filter(|_| shared)
                .map(|alone| (lc.mean_ns - alone) / 1e3),
            lc_added_at_us: alone_run
                .filter(|_| shared)
                .and_then(|alone| percentiles(&run.added(alone))),
            lc_rate: run.rate(Role::Lc),
            lc_dropped: run.dropped(Role::Lc),
            be_rate,
            be_kept_percent: default
                .filter(|_| shared)
                .map(|default| 100.0 * be_rate / default),
            be_gpu_percent: run.percent(run.sum(Role::Be, |one| one.busy_ns)),
            held_percent: run.percent(run.sum(Role::Lc, |one| one.held_ns)),
            early_percent: run
                .percent(run.sum(Role::Lc, |one| one.hints.map_or(0, |hints| hints.early_ns))),
            switches: run.engine.switches as f64 / run.seconds,
            holds_expired: run.sum(Role::Lc, |one| one.holds_expired),
            switch_cost_us: run
                .processes
                .iter()
                .filter_map(|one| one.hints)
                .map(|hints| hints.switch_ns as f64 / 1e3)
                .find(|&us| us > 0.0),
            gpu_busy_percent: run.engine.percent(run.engine.busy_ns),
            gpu_switch_percent: run.engine.percent(run.engine.switch_ns),
            gpu_idle_percent: run.engine.percent(run.engine.idle_ns),
        }
    };
    comparison.runs.iter().map(row).collect()
}

impl Row {
    /// Its figures beside others.
    pub fn figures(&self) -> Figures {
        Figures {
            lc_mean_ns: self.lc.mean_ns,
            added_us: self.lc_added_us,
            added_at_us: self.lc_added_at_us,
            with_queue_ns: self.lc_mean_with_queue_ns,
            lc_rate: self.lc_rate,
            be_rate: (self.mode != Mode::Alone).then_some(self.be_rate),
            be_percent: self.be_gpu_percent,
            held_percent: self.held_percent,
            switch_percent: self.gpu_switch_percent,
            idle_percent: self.gpu_idle_percent,
            switches: self.switches,
        }
    }

    /// Its mode, and the parameters of that.
    pub fn mode_and_setting(&self) -> String {
        let setting = self.setting.as_ref().map(|setting| format!(" {setting}"));
        format!("{}{}", self.mode, setting.unwrap_or_default())
    }
}

/// Median, 99th and 99.9th percentile and the last of sorted nanoseconds, in microseconds.
fn percentiles(sorted: &[i64]) -> Option<[f64; 4]> {
    let us = |share| quantile(sorted, share).map(|ns| ns as f64 / 1e3);
    Some([us(0.5)?, us(0.99)?, us(0.999)?, us(1.0)?])
}

/// The workload in words: its clients and their rates.
pub fn title(comparison: &Comparison) -> String {
    let mut title = format!("Workload {}", comparison.workload);
    let Some(run) = comparison.runs.iter().max_by_key(|run| run.clients.len()) else {
        return title;
    };
    for (role, name) in [(Role::Lc, "LC"), (Role::Be, "BE")] {
        let clients: Vec<_> = run
            .clients
            .iter()
            .filter(|client| client.spec.role == role)
            .map(|client| {
                let spec = &client.spec;
                format!("{} {}", spec.network.name(), spec.arrival)
            })
            .collect();
        if !clients.is_empty() {
            let same = clients.iter().all(|one| *one == clients[0]) && clients.len() > 1;
            let clients = match same {
                true => format!("{} × {}", clients.len(), clients[0]),
                false => clients.join(", "),
            };
            // Writing to a string cannot fail.
            let _ = write!(title, " · {name} {clients}");
        }
    }
    let _ = write!(
        title,
        " · {} s on {}",
        run.seconds,
        run.gpu.preset.to_uppercase()
    );
    title
}

/// The table with its title.
pub fn render(comparison: &Comparison) -> String {
    let mut table = Table::new([""].into_iter().chain(HEAD), 1..1 + COLUMNS);
    for row in rows(comparison) {
        let mode = [row.mode_and_setting()];
        table.add(mode.into_iter().chain(row.figures().cells()));
    }
    format!("{}\n{table}", title(comparison))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::testdata;

    #[test]
    fn added_and_kept_compare_with_the_right_runs() {
        let rows = rows(&testdata::comparison("B1"));
        assert_eq!(rows.len(), Mode::ALL.len());
        assert_eq!((rows[0].lc_added_us, rows[0].be_kept_percent), (None, None));
        assert_eq!(rows[1].be_kept_percent, Some(100.0));
        let added = rows[1].lc_added_us.unwrap();
        assert!((added - (rows[1].lc.mean_ns - rows[0].lc.mean_ns) / 1e3).abs() < 1e-6);
        assert!(rows[4].lc_added_us.unwrap() < added);
        let at = rows[4].lc_added_at_us.unwrap();
        assert!(at.is_sorted() && at[3] > 0.0, "{at:?}");
        let sum = rows[2].gpu_busy_percent + rows[2].gpu_switch_percent + rows[2].gpu_idle_percent;
        assert!((sum - 100.0).abs() < 1e-9);
    }

    #[test]
    fn a_missing_run_leaves_dashes() {
        let mut comparison = testdata::comparison("B1");
        comparison.runs.remove(0);
        let rows = rows(&comparison);
        assert!(rows.iter().all(|row| row.lc_added_us.is_none()));
        assert!(render(&comparison).contains('-'));
    }

    #[test]
    fn table_lines_are_equally_wide_and_fit_a_wide_terminal() {
        let text = render(&testdata::comparison("B1"));
        let widths: Vec<_> = text
            .lines()
            .skip(1)
            .map(|line| line.chars().count())
            .collect();
        assert!(widths
            .iter()
            .all(|&width| width == widths[0] && width <= 132));
        assert!(text.starts_with("Workload B1 · LC vgg 150/s · BE resnet152 closed loop · 5 s"));
    }
}
