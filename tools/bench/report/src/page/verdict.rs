// SPDX-License-Identifier: MIT OR Apache-2.0
//! The goals of the suite, and whether it reaches them.

use serde::Serialize;
use serde_json::Value;
use zernel_workload::{Deployment, Role, Workload};

use super::line::{ReplayRow, Replays};
use crate::frontier::{self, Point};
use crate::outcome::Mode;
use crate::queues::{self, Compared};
use crate::recovery::{Recovery, WITHIN};
use crate::suite::{ideal_percent, Done, Section};
use crate::table::Row;
use crate::training::{self, Goal, Training};

/// Kinds of checks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, clap::ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Check {
    /// Each run agrees with its replay.
    Replay,
    /// zernel reaches its goal.
    Goals,
    /// A policy reaches its goal in the replay.
    Policies,
}

/// A verdict.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Verdict {
    /// Its kind.
    pub check: Check,
    /// The goal.
    pub what: String,
    /// True if it is reached.
    pub good: bool,
    /// The finding.
    pub found: String,
}

/// Most that zernel may add to LC latencies beside BE work: mean and 99th percentile, in µs.
const ADDED_US: (f64, f64) = (10.0, 40.0);
/// The workloads for which that holds.
const ADDED_IN: [&str; 9] = ["A", "B", "B0", "B1", "B2", "B3", "B4", "C", "Z"];
/// By how much more BE work is to be served than with GPreempt, in percent.
const BE_GAIN_PERCENT: f64 = 15.0;
/// The workloads for which that holds.
const BE_GAIN_IN: [&str; 2] = ["C", "Z"];
/// By how much less may be served with a single BE TSG, in percent.
const BE_SINGLE_PERCENT: f64 = 2.0;
/// Least share of the ideal, in percent.
const IDEAL_PERCENT: f64 = 95.0;
/// Most that a share may deviate from that of its weight, in percent of that.
const SHARE_PERCENT: f64 = 2.0;
/// Most that zernel may add through the kernel: mean, 99th and 99.9th percentile, in µs.
const TAIL_US: [f64; 3] = [4.0, 12.0, 20.0];
/// The workloads for which that holds.
const TAIL_IN: [&str; 3] = ["A", "B1", "C"];
/// Most instructions that a begin of a request may take over getpid.
const BEGIN: f64 = 1_500.0;
/// Where preparations vary: most that p99 may be, in µs, and the GPU idle, in percent.
const JITTER: (f64, f64) = (60.0, 2.0);

/// All verdicts for which there are results, but those of the replay.
pub fn goals(all: &[Done], replays: &Replays) -> Vec<Verdict> {
    let mut verdicts: Vec<Verdict> = all.iter().flat_map(of_part).collect();
    verdicts.extend(Workload::jitter_suite().filter_map(|name| dominance(replays, name)));
    let measured = all.iter().flat_map(|done| &done.recovery);
    let measured = measured.filter(|(mode, _)| *mode == Mode::Zernel);
    verdicts.extend(measured.map(|(_, found)| recovery(found, "kernel")));
    verdicts.extend(
        replays
            .recovery(Mode::Zernel)
            .map(|found| recovery(found, "replay")),
    );
    verdicts
}

fn goal(what: String, good: bool, found: String) -> Verdict {
    Verdict {
        check: Check::Goals,
        what,
        good,
        found,
    }
}

/// The goals of a training loop.
pub fn of_training(training: &Training) -> Vec<Verdict> {
    verdicts(training::goals(training))
}

/// The goals of loops with the signal beside queues.
pub fn of_queues(compared: &Compared) -> Vec<Verdict> {
    verdicts(queues::goals(compared))
}

fn verdicts(goals: Vec<Goal>) -> Vec<Verdict> {
    let goals = goals.into_iter();
    goals
        .map(|one| goal(one.what, one.good, one.found))
        .collect()
}

fn of_part(done: &Done) -> Vec<Verdict> {
    let row = |mode| done.rows.iter().find(|row| row.mode == mode);
    let (Some(zernel), name) = (row(Mode::Zernel), &done.workload) else {
        return Vec::new();
    };
    let gpreempt = row(Mode::Gpreempt);
    match done.section {
        Section::Workloads if done.deployment == Deployment::PerClient => {
            let mut verdicts = Vec::new();
            if ADDED_IN.contains(&name.as_str()) {
                verdicts.extend(added(name, zernel));
            }
            if TAIL_IN.contains(&name.as_str()) {
                verdicts.extend(tail(name, zernel));
            }
            verdicts.extend(gpreempt.and_then(|other| be(name, zernel, other)));
            verdicts
        }
        Section::Jitter => jitter(name, zernel).into_iter().collect(),
        Section::Processes => {
            let share = 100.0 * zernel.be_gpu_percent / ideal_percent();
            let processes = done.parameter.unwrap_or(0.0);
            vec![goal(
                format!("{processes} BE processes: at least {IDEAL_PERCENT} % of the ideal"),
                share >= IDEAL_PERCENT,
                format!("{share:.1} %"),
            )]
        }
        Section::Weights => {
            let shares = done.shares.iter().filter(|(mode, _)| *mode == Mode::Zernel);
            shares
                .map(|(_, shares)| {
                    let error = shares.iter().map(|one| one.error_percent());
                    let worst = error.fold(0.0, |worst: f64, one| match one.abs() > worst.abs() {
                        true => one,
                        false => worst,
                    });
                    let text = |of: &dyn Fn(usize) -> String| {
                        (0..shares.len()).map(of).collect::<Vec<_>>().join(":")
                    };
                    goal(
                        format!(
                            "weights {}: shares within {SHARE_PERCENT} %",
                            text(&|at| shares[at].weight.to_string())
                        ),
                        worst.abs() <= SHARE_PERCENT,
                        format!(
                            "{} %, off by {worst:+.2} % at most",
                            text(&|at| format!("{:.2}", shares[at].had_percent))
                        ),
                    )
                })
                .collect()
        }
        Section::Workloads | Section::Published | Section::Preparation | Section::Frontier => {
            Vec::new()
        }
    }
}

fn added(name: &str, row: &Row) -> Option<Verdict> {
    let (mean, p99) = (row.lc_added_us?, row.lc_added_at_us?[1]);
    Some(goal(
        format!(
            "{name}: zernel adds at most {} µs, p99 {} µs",
            ADDED_US.0, ADDED_US.1
        ),
        mean <= ADDED_US.0 && p99 <= ADDED_US.1,
        format!("{mean:.1} µs, p99 {p99:.1} µs"),
    ))
}

fn tail(name: &str, zernel: &Row) -> Option<Verdict> {
    let (mean, [_, p99, p999, _]) = (zernel.lc_added_us?, zernel.lc_added_at_us?);
    let found = [mean, p99, p999];
    Some(goal(
        format!(
            "{name}: the tail, zernel adds at most {} µs, p99 {} µs, p99.9 {} µs",
            TAIL_US[0], TAIL_US[1], TAIL_US[2]
        ),
        found
            .iter()
            .zip(TAIL_US)
            .all(|(&found, most)| found <= most),
        format!("{mean:.1} µs, p99 {p99:.1} µs, p99.9 {p999:.1} µs"),
    ))
}

/// The bound of a begin, from the costs of calls.
pub fn begin(costs: &Value) -> Option<Verdict> {
    let calls = costs["calls"].as_array()?;
    let median = |name: &str| {
        let of = calls.iter().find(|one| one["name"] == name)?;
        of["median_ns"].as_f64()
    };
    let found = median("REQUEST_BEGIN")? - median("getpid")?;
    Some(goal(
        format!("REQUEST_BEGIN: at most {BEGIN} instructions over getpid"),
        found <= BEGIN,
        format!("{found}"),
    ))
}

fn be(name: &str, zernel: &Row, gpreempt: &Row) -> Option<Verdict> {
    let gain = 100.0 * (zernel.be_rate / gpreempt.be_rate - 1.0);
    let found = format!(
        "{gain:+.1} % ({:.1}/s to {:.1}/s)",
        gpreempt.be_rate, zernel.be_rate
    );
    if BE_GAIN_IN.contains(&name) {
        let what = format!("{name}: BE throughput at least {BE_GAIN_PERCENT} % above gpreempt's");
        return Some(goal(what, gain >= BE_GAIN_PERCENT, found));
    }
    let workload = Workload::built_in(name)?;
    let be = workload.clients.iter().filter(|one| one.role == Role::Be);
    let what = format!("{name}: BE throughput at most {BE_SINGLE_PERCENT} % below gpreempt's");
    (be.count() == 1).then(|| goal(what, gain >= -BE_SINGLE_PERCENT, found))
}

fn jitter(name: &str, row: &Row) -> Option<Verdict> {
    let (p99, idle) = (row.lc_added_at_us?[1], row.held_percent);
    Some(goal(
        format!(
            "{name}: p99 of the added latency at most {} µs, GPU idle at most {} %",
            JITTER.0, JITTER.1
        ),
        p99 <= JITTER.0 && idle <= JITTER.1,
        format!("{p99:.1} µs, {idle:.2} %"),
    ))
}

/// True if each point of GPreempt is dominated by one of zernel.
fn dominance(replays: &Replays, name: &str) -> Option<Verdict> {
    let points = |mode| -> Vec<Point> {
        let point = |row: &&ReplayRow| Point {
            what: row.policy.clone(),
            idle_percent: row.held_percent,
            p99_us: row.lc_added.p99_ns / 1e3,
        };
        replays.frontier(name, mode).iter().map(point).collect()
    };
    let (ours, theirs) = (points(Mode::Zernel), points(Mode::Gpreempt));
    if ours.is_empty() || theirs.is_empty() {
        return None;
    }
    let open = frontier::open(&ours, &theirs);
    let text = |point: &Point| {
        let Point {
            what,
            idle_percent,
            p99_us,
        } = point;
        format!("{what} ({idle_percent:.3} %, {p99_us:.0} µs)")
    };
    let mut found = format!(
        "{} of {} points by {} of zernel's",
        theirs.len() - open.len(),
        theirs.len(),
        ours.len()
    );
    for one in &open {
        let near = match (&one.no_later, &one.no_more_idle) {
            (Some(near), _) => format!("zernel needs {}", text(near)),
            (None, Some(near)) => format!("zernel's nearest {}", text(near)),
            (None, None) => "zernel has none near".to_owned(),
        };
        found += &format!("; not {}: {near}", text(&one.point));
    }
    Some(goal(
        format!("{name}: zernel's frontier dominates gpreempt's"),
        open.is_empty(),
        found,
    ))
}

fn recovery(found: &Recovery, where_from: &str) -> Verdict {
    let back = found.back_after;
    goal(
        format!("J-step ({where_from}): back within {WITHIN} requests after the step"),
        found.is_soon(),
        format!(
            "{}; level: added {:.1} µs (p99 {:.1}), idle {:.0} µs a request (p99 {:.0})",
            back.map_or("never".to_owned(), |requests| format!("after {requests}")),
            found.added_us[0],
            found.added_us[1],
            found.idle_us[0],
            found.idle_us[1],
        ),
    )
}
