// SPDX-License-Identifier: MIT OR Apache-2.0
//! Owners that have their driver enable or disable a TSG that takes turns.

use std::time::{Duration, Instant};

use anyhow::{ensure, Context as _, Result};
use libzernel::sim::Context;
use libzernel::{Level, Target};
use rustix::io::Errno;

use super::{Crowd, MS};
use crate::check_eq;
use crate::common::{errno, tune, wait_until, Lab};
use crate::harness::Outcome;

/// The values of `user_control`, with the answer to a change of scheduling.
const POLICIES: [(&str, Option<Errno>); 3] = [
    ("deny", Some(Errno::PERM)),
    ("reapply", None),
    ("allow", None),
];

/// Changes that were refused, and those that were put right.
fn counters(lab: &Lab) -> Result<(u64, u64)> {
    let stats = lab.stats()?;
    Ok((stats.controls_denied, stats.controls_reapplied))
}

/// One that waits for its turn.
fn waiting<'a>(crowd: &'a Crowd<'_>) -> Result<&'a Context> {
    let enabled = crowd.enabled()?;
    let mut all = 0..crowd.members.len();
    let at = all.find(|at| !enabled.contains(at));
    Ok(crowd.context(at.context("all are enabled")?))
}

/// One that has its turn.
fn running<'a>(crowd: &'a Crowd<'_>) -> Result<&'a Context> {
    let enabled = crowd.enabled()?;
    Ok(crowd.context(*enabled.first().context("none is enabled")?))
}

pub(super) fn who_enables_itself() -> Outcome {
    let lab = Lab::open()?;
    for (policy, answer) in POLICIES {
        tune("user_control", policy)?;
        let crowd = Crowd::taking_turns(&lab, &[1024; 4])?;
        let before = counters(&lab)?;
        for round in 1..=5 {
            let asked = errno(waiting(&crowd)?.set_enabled(true));
            check_eq!(asked, answer, "{policy}, round {round}");
            crowd.wait_enabled(1)?;
        }
        let counted = match answer {
            Some(_) => (before.0 + 5, before.1),
            None => (before.0, before.1 + 5),
        };
        check_eq!(counters(&lab)?, counted, "{policy}");
        crowd.wait_everybody_runs(10 * MS)?;
    }
    Ok(())
}

/// The GPU is not idle for one that has its turn and stops.
pub(super) fn who_stops_itself() -> Outcome {
    let lab = Lab::open()?;
    for (policy, answer) in POLICIES {
        tune("user_control", policy)?;
        let crowd = Crowd::taking_turns(&lab, &[1024; 3])?;
        for round in 1..=5 {
            let asked = errno(running(&crowd)?.set_enabled(false));
            check_eq!(asked, answer, "{policy}, round {round}");
            crowd.wait_enabled(1)?;
        }
        crowd.wait_everybody_runs(10 * MS)?;
    }
    Ok(())
}

/// Unclassed it may stop, and then it is the first that has a turn.
pub(super) fn who_stopped_before() -> Outcome {
    let lab = Lab::open()?;
    let crowd = Crowd::new(&lab, 2)?;
    crowd.context(0).set_enabled(false)?;
    check_eq!(crowd.context(0).stats()?.enabled, false);
    for at in 0..2 {
        super::keep_busy(crowd.context(at))?;
        lab.zernel.set_class(&crowd.target(at), Level::BE)?;
        wait_until("its settings are set", || {
            Ok(!lab.tsg(crowd.members[at].1)?.pending)
        })?;
    }
    crowd.wait_everybody_runs(20 * MS)
}

pub(super) fn a_start() -> Outcome {
    let lab = Lab::open()?;
    for (policy, _) in POLICIES {
        tune("user_control", policy)?;
        let before = counters(&lab)?;
        // As programs begin.
        let (free, tsg) = lab.compute()?;
        free.start()?;
        lab.zernel.set_class(&Target::Tsg(tsg.id), Level::LC)?;
        free.start()?;
        check_eq!(counters(&lab)?, before, "{policy}");
        drop(free);
        let crowd = Crowd::taking_turns(&lab, &[1024; 4])?;
        for _ in 0..5 {
            waiting(&crowd)?.start()?;
            crowd.wait_enabled(1)?;
        }
        // Some may have had their turns by then.
        let (denied, reapplied) = counters(&lab)?;
        check_eq!(denied, before.0, "{policy}");
        let counted = reapplied - before.1;
        ensure!((1..=5).contains(&counted), "{policy}: {counted} put right");
        crowd.wait_everybody_runs(10 * MS)?;
    }
    Ok(())
}

/// Time that a TSG has beside its turns counts, so that the others have theirs; and it waits for more
/// of it, so that the GPU is not switched all the time.
pub(super) fn starts_without_end() -> Outcome {
    const TIME: Duration = Duration::from_secs(10);
    /// Between two of its turns: those without a wait, and those with one of less than `PAUSE`.
    const FREE: u64 = 8 + 4;
    const PAUSE: Duration = Duration::from_millis(16);
    let lab = Lab::open()?;
    let crowd = Crowd::taking_turns(&lab, &[1024; 3])?;
    let (before, engine) = (crowd.busy()?, lab.sim.engine_stats(0, 0)?);
    let turns = lab.stats()?.turns;
    let begin = Instant::now();
    let mut starts = 0u64;
    while begin.elapsed() < TIME {
        crowd.context(0).start()?;
        starts += 1;
    }
    let paused = (begin.elapsed().as_millis() / PAUSE.as_millis()) as u64;
    let most = (lab.stats()?.turns - turns + 1) * FREE + paused;
    let (now, after) = (crowd.busy()?, lab.sim.engine_stats(0, 0)?);
    let had: Vec<_> = now
        .iter()
        .zip(&before)
        .map(|(now, then)| now - then)
        .collect();
    let all: u64 = had.iter().sum();
    let switches = after.switch_ns - engine.switch_ns;
    println!(
        "    # {starts} starts of at most {most}, of {} ms: {had:?}, switches {} ms",
        all / MS,
        switches / MS
    );
    for others in &had[1..] {
        ensure!(others * 4 >= all, "less than a quarter: {had:?}");
    }
    ensure!(starts <= most, "{starts} starts, at most {most} expected");
    crowd.wait_enabled(1)
}
