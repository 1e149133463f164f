// SPDX-License-Identifier: MIT OR Apache-2.0
//! The figures of simulations, as a table and for JSON.

use serde::Serialize;
use zernel_report::figures::{Figures, Table, COLUMNS, HEAD};
use zernel_report::recovery::Recovery;
use zernel_workload::{Deployment, Role, Workload};

use crate::deadlines::Missed;
use crate::outcome::{Deadlines, Outcome, Summary};
use crate::world::nanos;

/// One simulation's figures.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Row {
    /// Workload.
    pub(crate) workload: String,
    /// The value of the parameter that a sweep changed.
    pub(crate) parameter: Option<f64>,
    /// Policy.
    pub(crate) policy: String,
    /// The GPU: that of the run, or another one where its switch is slower than the policy.
    pub(crate) gpu: &'static str,
    /// Which clients shared a TSG.
    pub(crate) deployment: Deployment,
    /// Duration, in simulated seconds.
    pub(crate) seconds: f64,
    /// Latency-critical latencies from the start of the preparation.
    pub(crate) lc: Summary,
    /// The same from the arrival.
    pub(crate) lc_with_queue: Summary,
    /// The same of best-effort requests.
    pub(crate) be_with_queue: Summary,
    /// Mean less the mean alone, in nanoseconds.
    pub(crate) lc_added_mean_ns: f64,
    /// The added latency of each request over the same request alone.
    pub(crate) lc_added: Summary,
    /// Latency-critical requests per second.
    pub(crate) lc_rate: f64,
    /// Latency-critical requests dropped.
    pub(crate) lc_dropped: u64,
    /// The same in percent of those that arrived and were not refused.
    pub(crate) lc_not_served_percent: f64,
    /// Latency-critical requests with a deadline.
    pub(crate) lc_deadlines: Deadlines,
    /// Best-effort requests per second.
    pub(crate) be_rate: f64,
    /// Best-effort requests dropped.
    pub(crate) be_dropped: u64,
    /// Time that best-effort TSGs had the GPU for, in percent.
    pub(crate) be_percent: f64,
    /// The same of latency-critical ones, with their holders.
    pub(crate) lc_percent: f64,
    /// GPU held for requests without their data, in percent.
    pub(crate) held_percent: f64,
    /// GPU switching contexts, in percent.
    pub(crate) switch_percent: f64,
    /// GPU idle, in percent.
    pub(crate) idle_percent: f64,
    /// Context switches per second.
    pub(crate) switches: f64,
    /// Holders that ended by their bound.
    pub(crate) expired: u64,
    /// Requests simulated.
    pub(crate) requests: u64,
    /// Events of the simulation.
    pub(crate) events: u64,
    /// Time that each TSG had the GPU for, in nanoseconds, in the order of the clients.
    pub(crate) busy_ns: Vec<u64>,
    /// Published figures of the same policy: LC mean in ms, added in µs, BE per second.
    pub(crate) published: [Option<f64>; 3],
    /// The requests that missed their deadline, if there are some.
    pub(crate) missed: Option<Missed>,
    /// The recovery from a change of the preparation, if there was one.
    pub(crate) recovery: Option<Recovery>,
    /// Its figures as the cells of a table.
    pub(crate) cells: Vec<String>,
}

impl Row {
    /// The figures of `outcome`; `alone` is the run of the latency-critical clients alone.
    pub(crate) fn new(
        workload: &Workload,
        parameter: Option<f64>,
        outcome: &Outcome,
        alone: &Outcome,
    ) -> Self {
        let lc = Summary::of(&mut outcome.latencies(Role::Lc));
        let alone_mean = Summary::of(&mut alone.latencies(Role::Lc)).mean_ns;
        let percent = |ns: u64| 100.0 * ns as f64 / (outcome.seconds * 1e9);
        let mut row = Self {
            workload: outcome.workload.clone(),
            parameter,
            policy: outcome.policy.clone(),
            gpu: outcome.gpu,
            deployment: outcome.deployment,
            seconds: outcome.seconds,
            lc,
            lc_with_queue: outcome.with_queue(Role::Lc),
            be_with_queue: outcome.with_queue(Role::Be),
            lc_added_mean_ns: lc.mean_ns - alone_mean,
            lc_added: Summary::of(&mut outcome.added(alone)),
            lc_rate: outcome.rate(Role::Lc),
            lc_dropped: outcome.dropped(Role::Lc),
            lc_not_served_percent: 100.0 * outcome.dropped(Role::Lc) as f64
                / (outcome.dropped(Role::Lc) + lc.count).max(1) as f64,
            lc_deadlines: outcome.deadlines(Role::Lc),
            be_rate: outcome.rate(Role::Be),
            be_dropped: outcome.dropped(Role::Be),
            be_percent: 100.0 * outcome.be_share,
            lc_percent: 100.0 * outcome.lc_share,
            held_percent: percent(outcome.engine.held_ns),
            switch_percent: percent(outcome.engine.switch_ns),
            idle_percent: percent(outcome.engine.idle_ns),
            switches: outcome.engine.switches as f64 / outcome.seconds,
            expired: outcome.expired,
            requests: outcome.requests(Role::Lc) + outcome.requests(Role::Be),
            events: outcome.events,
            busy_ns: outcome.busy_ns.clone(),
            published: workload
                .published
                .map_or([None; 3], |known| known.of(&outcome.policy)),
            missed: None,
            recovery: workload
                .change()
                .and_then(|change| outcome.recovery(alone, nanos(change))),
            cells: Vec::new(),
        };
        row.cells = row.figures().cells().to_vec();
        row
    }

    /// Its figures beside others.
    fn figures(&self) -> Figures {
        let us = |ns: i64| ns as f64 / 1e3;
        let added = &self.lc_added;
        Figures {
            lc_mean_ns: self.lc.mean_ns,
            added_us: Some(self.lc_added_mean_ns / 1e3),
            added_at_us: Some([added.p50_ns, added.p99_ns, added.p999_ns, added.max_ns].map(us)),
            with_queue_ns: self.lc_with_queue.mean_ns,
            lc_rate: self.lc_rate,
            be_rate: Some(self.be_rate),
            be_percent: self.be_percent,
            held_percent: self.held_percent,
            switch_percent: self.switch_percent,
            idle_percent: self.idle_percent,
            switches: self.switches,
        }
    }
}

/// The table of these rows; `parameter` is that of a sweep.
pub(crate) fn render(rows: &[Row], parameter: Option<&str>) -> String {
    let mut head = vec!["", "policy"];
    head.extend(parameter);
    let texts = head.len();
    head.extend(HEAD);
    let shown = rows
        .iter()
        .any(|row| row.published.iter().any(Option::is_some));
    if shown {
        head.extend(["published:\nLC mean ms", "added\nµs", "BE\nreq/s"]);
    }
    let drops = rows.iter().any(|row| row.lc_dropped > 0);
    if drops {
        head.push("LC not\nserved %");
    }
    let misses = rows.iter().any(|row| row.missed.is_some());
    if misses {
        head.extend([
            "refused\n%",
            "missed\n%",
            "not in\ntime %",
            "late p99\nms",
            "max\nms",
        ]);
    }
    let mut table = Table::new(head, texts.min(2)..texts + COLUMNS + 9);
    for row in rows {
        let mut cells = vec![row.workload.clone(), row.policy.clone()];
        if parameter.is_some() {
            let value = row.parameter.map(|value| value.to_string());
            cells.push(value.unwrap_or_default());
        }
        cells.extend(row.cells.iter().cloned());
        if shown {
            let cell = |value: Option<f64>| value.map_or("-".to_owned(), |value| value.to_string());
            cells.extend(row.published.map(cell));
        }
        if drops {
            cells.push(format!("{:.2}", row.lc_not_served_percent));
        }
        if let Some(missed) = &row.missed {
            let ms = |ns: i64| format!("{:.2}", ns as f64 / 1e6);
            let percents = [
                missed.refused_percent,
                missed.percent,
                missed.failed_percent,
            ];
            cells.extend(percents.map(|percent| format!("{percent:.2}")));
            cells.extend([missed.late_p99_ns, missed.late_max_ns].map(ms));
        }
        table.add(cells);
    }
    table.to_string() + &deadlines(rows)
}

/// A line for each run whose latency-critical requests have deadlines.
fn deadlines(rows: &[Row]) -> String {
    let with = rows.iter().filter(|row| row.lc_deadlines.due > 0);
    let line = |row: &Row| {
        let Deadlines { due, missed } = row.lc_deadlines;
        let share = 100.0 * missed as f64 / due as f64;
        format!(
            "{}, {}: {missed} of {due} LC requests were later than their deadline or not served \
             ({share:.2} %)\n",
            row.workload, row.policy
        )
    };
    with.map(line).collect()
}
