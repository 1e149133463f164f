// SPDX-License-Identifier: MIT OR Apache-2.0
//! Bounds of costs, in a guest that counts instructions.

use anyhow::{Context as _, Result};

use super::{requests, switches, Figure, Figures};

/// Bounds of requests, in instructions more than the call that is named with it.
const MOST_OF_BEGIN: u64 = 1_500;
const MOST_OF_TRIGGER: u64 = 528;

/// Most that a begin with eight features takes more than getpid, with a lesson to learn first.
const MOST_OF_BEGIN_FEATURES: u64 = 20_000;

/// Most that features add to the interrupt of a timer with an outcome to learn from: it notes that.
const MOST_OF_TIMER_FEATURES: u64 = 60;

/// Most that a switch of a tracked thread may cost more than one without zernel, in instructions.
const MOST_OF_TRACKED: u64 = 241;

/// Most that one beside something tracked may cost more, in thousandths.
const MOST_OF_BESIDE: u64 = 10;

/// By how much one while nothing is tracked may seem to cost more or less, in instructions: the
/// error of the measurement itself.
const MOST_OF_NONE: u64 = 12;

/// A line for each bound, and whether all hold.
pub fn check(figures: &Figures) -> Result<(String, bool)> {
    let median = |all: &[Figure], name: &str| {
        let figure = all.iter().find(|figure| figure.name == name);
        figure
            .map(|figure| figure.median_ns)
            .with_context(|| format!("'{name}' was not measured"))
    };
    let begin = median(&figures.calls, "REQUEST_BEGIN")?;
    let begin = begin.saturating_sub(median(&figures.calls, "getpid")?);
    let features = median(&figures.calls, requests::BEGIN_FEATURES)?;
    let features = features.saturating_sub(median(&figures.calls, "getpid")?);
    let two_slots = median(&figures.calls, requests::BEGIN_TWO_SLOTS)?;
    let two_slots = two_slots.saturating_sub(median(&figures.calls, "getpid")?);
    let timer = median(&figures.interrupts, requests::TIMER_FEATURES)?;
    let trigger = median(&figures.interrupts, requests::TRIGGER_MORE)?;
    let ready = figures
        .ready_system_calls
        .context("the system calls of a ready store were not counted")?;
    let without = median(&figures.switches, switches::UNLOADED)?;
    let switch = |name| median(&figures.switches, name);
    let more = |name| switch(name).map(|median| median.saturating_sub(without));
    let thousandths = |instructions: u64| (instructions * 1_000).div_ceil(without.max(1));
    let differs = |name| switch(name).map(|median| median.abs_diff(without));
    let beside = |name| more(name).map(thousandths);
    let lines = [
        ("REQUEST_BEGIN, more than getpid", begin, MOST_OF_BEGIN),
        (
            "REQUEST_BEGIN with features and a lesson, the same",
            features,
            MOST_OF_BEGIN_FEATURES,
        ),
        (
            "REQUEST_BEGIN beside another slot of the key, the same",
            two_slots,
            MOST_OF_BEGIN_FEATURES,
        ),
        (
            "timer of a request with features, more than without",
            timer,
            MOST_OF_TIMER_FEATURES,
        ),
        (
            "trigger, more than an empty timer",
            trigger,
            MOST_OF_TRIGGER,
        ),
        ("system calls of readies and dones by store", ready, 0),
        (
            "context switch while nothing is tracked, other than without zernel",
            differs(switches::PLAIN)?,
            MOST_OF_NONE,
        ),
        (
            "context switch when nothing is tracked any more, the same",
            differs(switches::AFTER)?,
            MOST_OF_NONE,
        ),
        (
            "context switch beside a tracked thread, more than without zernel, in thousandths",
            beside(switches::BESIDE)?,
            MOST_OF_BESIDE,
        ),
        (
            "context switch beside a tracked cgroup, the same",
            beside(switches::BESIDE_CGROUP)?,
            MOST_OF_BESIDE,
        ),
        (
            "context switch of a tracked thread, more than without zernel",
            more(switches::TRACKED)?,
            MOST_OF_TRACKED,
        ),
        (
            "context switch of a thread tracked with --ml, the same",
            more(switches::TRACKED_ML)?,
            MOST_OF_TRACKED,
        ),
    ];
    let text = lines.map(|(what, value, most)| {
        let verdict = if value <= most { "ok" } else { "not ok" };
        format!("{verdict} - {what}: {value}, at most {most}\n")
    });
    Ok((
        text.concat(),
        lines.iter().all(|(_, value, most)| value <= most),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    const GETPID: u64 = 200;
    /// Without zernel.
    const SWITCH: u64 = 2_000;

    /// Figures just within all bounds.
    const MOST: [(&str, u64); 12] = [
        ("REQUEST_BEGIN", GETPID + MOST_OF_BEGIN),
        (requests::BEGIN_FEATURES, GETPID + MOST_OF_BEGIN_FEATURES),
        (requests::BEGIN_TWO_SLOTS, GETPID + MOST_OF_BEGIN_FEATURES),
        (requests::TIMER_FEATURES, MOST_OF_TIMER_FEATURES),
        (requests::TRIGGER_MORE, MOST_OF_TRIGGER),
        (switches::UNLOADED, SWITCH),
        (switches::PLAIN, SWITCH + MOST_OF_NONE),
        (switches::AFTER, SWITCH - MOST_OF_NONE),
        (switches::BESIDE, SWITCH + SWITCH * MOST_OF_BESIDE / 1_000),
        (
            switches::BESIDE_CGROUP,
            SWITCH + SWITCH * MOST_OF_BESIDE / 1_000,
        ),
        (switches::TRACKED, SWITCH + MOST_OF_TRACKED),
        (switches::TRACKED_ML, SWITCH + MOST_OF_TRACKED),
    ];

    fn figures(costs: &[(&'static str, u64)], ready_system_calls: Option<u64>) -> Figures {
        let all: Vec<Figure> = costs
            .iter()
            .chain(&[("getpid", GETPID)])
            .map(|&(name, median_ns)| Figure {
                name,
                median_ns,
                max_ns: median_ns,
            })
            .collect();
        Figures {
            repeat: 10,
            clock_ns: 20,
            calls: all.clone(),
            class_change: Vec::new(),
            interrupts: all.clone(),
            waits: Vec::new(),
            switches: all,
            ready_system_calls,
        }
    }

    #[test]
    fn more_than_it_may_cost_is_told() {
        let (text, holds) = check(&figures(&MOST, Some(0))).unwrap();
        assert!(holds, "{text}");
        assert_eq!(text.matches("ok - ").count(), 12, "{text}");
        let one_fails = |costs: &[(&'static str, u64)], ready| {
            let (text, holds) = check(&figures(costs, Some(ready))).unwrap();
            assert!(!holds, "{text}");
            assert_eq!(text.matches("not ok - ").count(), 1, "{text}");
        };
        one_fails(&MOST, 1);
        for at in (0..MOST.len()).filter(|&at| MOST[at].0 != switches::UNLOADED) {
            let mut costs = MOST;
            // A switch that costs less than it can is wrong, too, while nothing is tracked.
            match costs[at].0 {
                switches::AFTER => costs[at].1 -= 1,
                _ => costs[at].1 += 1,
            }
            one_fails(&costs, 0);
        }
    }

    #[test]
    fn what_was_not_measured_is_told() {
        check(&figures(&MOST, None)).unwrap_err();
        for at in 0..MOST.len() {
            let mut costs = MOST.to_vec();
            costs.remove(at);
            check(&figures(&costs, Some(0))).unwrap_err();
        }
    }
}
