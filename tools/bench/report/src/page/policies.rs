// SPDX-License-Identifier: MIT OR Apache-2.0
//! Policies in the replay, beside the default and the reference of each.

use super::html::{Row, Section, Table};
use super::line::{Missed, ReplayRow, Replays};
use super::verdict::{Check, Verdict};

/// The sweeps, in the order of the page.
pub const SWEEPS: [&str; 5] = ["deadlines", "target", "features", "sharing", "saturation"];

/// Least length of runs for a verdict, in simulated seconds: goals are of p99s and of rare misses.
pub(super) const JUDGED_FROM: f64 = 30.0;
/// The ratio of costs that features are compared at: the default.
const LATE: f64 = 6.0;
/// Most that requests with a promise may miss, in percent.
const PROMISED_PERCENT: f64 = 0.1;
/// The load up to which goals of deadlines hold, in percent of the GPU.
const LOAD_PERCENT: f64 = 95.0;
/// Most that a latency may be above its target, in percent.
const TARGET_PERCENT: f64 = 5.0;
/// By how much less is to be held where features explain preparations, in percent.
const HELD_PERCENT: f64 = 40.0;
/// Most that may be lost where they do not, in percent.
const LOST_PERCENT: f64 = 2.0;
/// Most GPU time that many clients may hold, in percent; and p99 to that of the oracle.
const SHARING: (f64, f64) = (2.0, 1.3);

/// A column: its name, and the figure in it.
type Column = (&'static str, fn(&ReplayRow) -> String);

const MISSED: Column = ("missed %", |row| {
    row.missed
        .map_or("-".to_owned(), |one| format!("{:.2}", one.percent))
});
const NOT_SERVED: Column = ("not served %", |row| {
    format!("{:.2}", row.lc_not_served_percent)
});
const FAILED: Column = ("not in time %", |row| {
    row.missed
        .map_or("-".to_owned(), |one| format!("{:.2}", one.failed_percent))
});
const LATE_P99: Column = ("p99 after the deadline ms", |row| {
    row.missed.map_or("-".to_owned(), |one| {
        format!("{:.1}", one.late_p99_ns / 1e6)
    })
});
const REFUSED: Column = ("refused %", |row| {
    row.missed
        .map_or("-".to_owned(), |one| format!("{:.1}", one.refused_percent))
});
const MEAN: Column = ("LC mean ms", |row| format!("{:.3}", row.lc.mean_ns / 1e6));
const P99: Column = ("LC p99 ms", |row| format!("{:.3}", row.lc.p99_ns / 1e6));
const ADDED: Column = ("added p99 µs", |row| added_us(row).to_string());
const HELD: Column = ("held %", |row| format!("{:.2}", row.held_percent));
const BE: Column = ("BE GPU %", |row| format!("{:.1}", row.be_percent));

/// The text and the columns of a sweep.
struct About {
    sweep: &'static str,
    heading: &'static str,
    about: &'static str,
    parameter: &'static str,
    columns: &'static [Column],
}

const ALL: [About; 5] = [
    About {
        sweep: SWEEPS[0],
        heading: "Policies: deadlines",
        about: "LC clients with deadlines of 6, 15, 40 and 120 ms from the begin of a request, beside two BE \
                clients that always have work. default: the driver's slices, without zernel; zernel: its \
                defaults, so order fifo; by level: later deadlines have a lower level; exponential, slack: \
                slices of levels, and of TSGs by the time that they can spare; edf: triggers in the order of \
                deadlines; edf-preemptive: an earlier deadline takes the GPU from the request that has it; edf \
                admit: requests whose deadline cannot be met are refused. Missed is of the requests that were \
                served. Not served are those whose client had a newer one by the time it could begin, of those that \
                were not refused. Not in time: late, refused or not served, of all that arrived. The dashed line is \
                preemptive EDF that pays no switch, serves all and has the GPU for LC alone (Horn 1974).",
        parameter: "load %",
        columns: &[FAILED, MISSED, NOT_SERVED, REFUSED, LATE_P99, BE],
    },
    About {
        sweep: SWEEPS[1],
        heading: "Policies: slices that follow a target",
        about: "Slices of the levels below LC follow its p99 (slice_policy pid) where best-effort TSGs take \
                no turns (unrotated). On the dashed line p99 is the target; below it there is room that \
                the longest slice, 10 ms, does not fill.",
        parameter: "target µs",
        columns: &[P99, HELD, BE],
    },
    About {
        sweep: SWEEPS[2],
        heading: "Policies: prediction from features",
        about: "Costs of being early and late from 1:1 to 1:199, with the quantile of the key alone and \
                with features; further down and left is better. The table has the default, 1:6, which has a ring in \
                the plots. oracle knows when the data is ready, and takes off the longest that a switch can take, \
                so that features can hold less than it does. In the F \
                workloads the feature explains the preparation; in the J workloads it has nothing to do \
                with it.",
        parameter: "early : late",
        columns: &[HELD, ADDED, MEAN, BE],
    },
    About {
        sweep: SWEEPS[3],
        heading: "Policies: many LC clients",
        about: "LC clients at 15 requests/s with preparations of 20 to 900 µs beside two BE clients that \
                always have work, with shared_early_cost (12:6) and without. oracle knows when the data is ready, has \
                no turns of BE and takes off the longest that a switch can take. bound tells the GPU at no cost \
                which TSG is to run.",
        parameter: "LC clients",
        columns: &[HELD, ADDED, MEAN, BE],
    },
    About {
        sweep: SWEEPS[4],
        heading: "Policies: many LC clients near saturation",
        about: "Eight LC clients with requests of 2.2 ms at random, preparations of 20 to 900 µs, beside four \
                BE clients that always have work. Beyond its budget, 95 ms in 100 ms, LC goes on for as long as BE \
                has run; budget 100 ms: no bound. Not served are requests whose client had a newer one by the time it \
                could begin; the latencies are of the others.",
        parameter: "load %",
        columns: &[P99, MEAN, NOT_SERVED, HELD, BE],
    },
];

/// The sections of the page.
pub(super) fn sections(replays: &Replays) -> impl Iterator<Item = Section> + '_ {
    ALL.iter().filter_map(move |about| {
        let all = || replays.objectives(about.sweep);
        let seeds: Vec<u64> = all().flat_map(|one| one.seeds.iter().copied()).collect();
        let plots = all().flat_map(|one| one.plots.iter().cloned()).collect();
        let rows: Vec<&ReplayRow> = all()
            .flat_map(|one| &one.rows)
            .filter(|row| about.sweep != "features" || is_usual(row))
            .collect();
        let figures = 3..3 + about.columns.len();
        let head = ["workload", about.parameter, "policy"].into_iter();
        let head = head.chain(about.columns.iter().map(|(name, _)| *name));
        let table = Table {
            head: Row::new(head, &figures).cells,
            rows: rows.iter().map(|row| cells(about, row)).collect(),
            title: None,
        };
        let medians = match (seeds.iter().min(), seeds.iter().max()) {
            (Some(first), Some(last)) if first < last => {
                format!(
                    " The table has medians of the seeds {first} to {last}, the plots are of seed {first}."
                )
            }
            _ => String::new(),
        };
        let mut section = Section::new(about.heading, &(about.about.to_owned() + &medians));
        section.plots = plots;
        section.tables = vec![table];
        (!rows.is_empty()).then_some(section)
    })
}

fn cells(about: &About, row: &ReplayRow) -> Row {
    let parameter = match (about.sweep, row.parameter) {
        (_, None) => "-".to_owned(),
        ("features", Some(late)) => format!("1 : {late}"),
        (_, Some(value)) => value.to_string(),
    };
    let before = [row.workload.clone(), parameter, row.policy.clone()];
    let cells = before
        .into_iter()
        .chain(about.columns.iter().map(|(_, figure)| figure(row)));
    let is_zernel = row.policy.starts_with("zernel ");
    Row {
        class: if is_zernel { "zernel" } else { "" }.to_owned(),
        ..Row::new(cells, &(3..3 + about.columns.len()))
    }
}

fn added_us(row: &ReplayRow) -> f64 {
    (row.lc_added.p99_ns / 1e3).round()
}

/// True without a ratio of costs, and at the usual one.
fn is_usual(row: &ReplayRow) -> bool {
    row.parameter.is_none_or(|late| late == LATE)
}

/// Verdicts on all sweeps that are there, of runs that are long enough.
pub(super) fn verdicts(replays: &Replays) -> Vec<Verdict> {
    let rows = |sweep| {
        let all = replays.objectives(sweep).map(|one| &one.rows[..]);
        all.filter(|rows| rows.iter().all(|row| row.seconds >= JUDGED_FROM))
    };
    let mut all: Vec<Verdict> = rows("deadlines").flat_map(deadlines).collect();
    all.extend(rows("target").filter_map(target));
    all.extend(rows("features").filter_map(features));
    all.extend(rows("sharing").flat_map(sharing));
    all.extend(rows("saturation").flat_map(saturation));
    all
}

fn verdict(what: String, good: bool, found: String) -> Verdict {
    Verdict {
        check: Check::Policies,
        what,
        good,
        found,
    }
}

/// The origin of the figures, for a page that has the replay of policies alone.
pub(super) fn intro(replays: &Replays) -> String {
    let all = || SWEEPS.iter().flat_map(|sweep| replays.objectives(sweep));
    let rows = || all().flat_map(|one| &one.rows);
    let range = |least: f64, most: f64| match least == most {
        true => format!("{least}"),
        false => format!("{least} to {most}"),
    };
    let seconds = || rows().map(|row| row.seconds);
    let least = seconds().fold(f64::INFINITY, f64::min);
    let seeds = || all().flat_map(|one| one.seeds.iter().map(|&seed| seed as f64));
    let short = match least < JUDGED_FROM {
        true => format!(
            " Goals are judged from {JUDGED_FROM} s on; these are figures without a verdict."
        ),
        false => String::new(),
    };
    format!(
        "zernel's policies on a model of an A100, run by replay on this machine: {} s of simulated time, seeds {}. \
         No kernel, no guest and no published figure has a part in it.{short}",
        range(least, seconds().fold(0.0, f64::max)),
        range(
            seeds().fold(f64::INFINITY, f64::min),
            seeds().fold(0.0, f64::max)
        ),
    )
}

/// The run of a policy with a parameter.
fn find<'a>(rows: &'a [ReplayRow], policy: &str, parameter: Option<f64>) -> Option<&'a ReplayRow> {
    let is = |row: &&ReplayRow| row.policy == policy && row.parameter == parameter;
    rows.iter().find(is)
}

fn deadlines(rows: &[ReplayRow]) -> Vec<Verdict> {
    let figures = |policy: &str, figure: fn(&Missed) -> f64| -> Vec<(f64, f64)> {
        let of = rows.iter().filter(|row| row.policy == policy);
        of.filter_map(|row| Some((row.parameter?, figure(row.missed.as_ref()?))))
            .filter(|&(load, _)| load <= LOAD_PERCENT)
            .collect()
    };
    let failed = |policy: &str| figures(policy, |one| one.failed_percent);
    let fifo = failed("zernel");
    let worst = |all: &[(f64, f64)]| all.iter().fold(0.0, |worst: f64, one| worst.max(one.1));
    let ordered = ["zernel by level", "zernel edf", "zernel edf-preemptive"].into_iter();
    let mut verdicts: Vec<Verdict> = ordered
        .filter_map(|policy| {
            let all = failed(policy);
            let pairs = || all.iter().zip(&fifo);
            let found = pairs()
                .map(|(one, other)| format!("{} % load: {:.2} to {:.2} %", one.0, other.1, one.1));
            (!all.is_empty() && all.len() == fifo.len()).then(|| {
                verdict(
                    format!("{policy}: no more requests late or not served than in order fifo"),
                    pairs().all(|(one, other)| one.1 <= other.1),
                    found.collect::<Vec<_>>().join(", "),
                )
            })
        })
        .collect();
    let promised = figures("zernel edf admit", |one| one.percent);
    if !promised.is_empty() {
        let worst = worst(&promised);
        verdicts.push(verdict(
            format!("zernel edf admit: at most {PROMISED_PERCENT} % of the promises are not kept"),
            worst <= PROMISED_PERCENT,
            format!("{worst:.2} % up to a load of {LOAD_PERCENT} %"),
        ));
    }
    verdicts
}

fn target(rows: &[ReplayRow]) -> Option<Verdict> {
    let above = |row: &ReplayRow| {
        let target = row.parameter? * 1e3;
        Some(100.0 * (row.lc.p99_ns / target - 1.0))
    };
    let worst = rows.iter().filter_map(above).reduce(f64::max)?;
    Some(verdict(
        format!("pid: p99 at most {TARGET_PERCENT} % above the target"),
        worst <= TARGET_PERCENT,
        format!("{worst:+.1} % at the worst target"),
    ))
}

fn features(rows: &[ReplayRow]) -> Option<Verdict> {
    let plain = find(rows, "zernel", Some(LATE))?;
    let with = find(rows, "zernel features", Some(LATE))?;
    let name = &with.workload;
    let change = 100.0 * (with.held_percent / plain.held_percent - 1.0);
    let found = format!(
        "{change:+.1} % ({:.2} to {:.2} %), p99 {} to {} µs",
        plain.held_percent,
        with.held_percent,
        added_us(plain),
        added_us(with)
    );
    Some(match name.starts_with("F-") {
        true => verdict(
            format!("{name}: features hold {HELD_PERCENT} % less at no higher p99"),
            change <= -HELD_PERCENT && with.lc_added.p99_ns <= plain.lc_added.p99_ns,
            found,
        ),
        false => verdict(
            format!("{name}: features hold at most {LOST_PERCENT} % more, p99 likewise"),
            change <= LOST_PERCENT
                && with.lc_added.p99_ns <= plain.lc_added.p99_ns * (1.0 + LOST_PERCENT / 100.0),
            found,
        ),
    })
}

fn sharing(rows: &[ReplayRow]) -> Vec<Verdict> {
    let most = rows.iter().filter_map(|row| row.parameter).reduce(f64::max);
    let shared = |row: &&ReplayRow| row.policy.contains("shared") && row.parameter == most;
    let of = |policy| find(rows, policy, most);
    let (Some(with), Some(plain), Some(oracle), Some(gpreempt), Some(most)) = (
        rows.iter().find(shared),
        of("zernel"),
        rows.iter()
            .find(|row| row.policy.starts_with("oracle") && row.parameter == most),
        of("gpreempt"),
        most,
    ) else {
        return Vec::new();
    };
    let p99 = |row: &ReplayRow| row.lc_added.p99_ns;
    let name = format!("{most} LC clients, {}", with.policy);
    let factor = p99(with) / p99(oracle);
    vec![
        verdict(
            format!("{name}: held at most {} %", SHARING.0),
            with.held_percent <= SHARING.0,
            format!(
                "{:.2} % (default {:.2} %)",
                with.held_percent, plain.held_percent
            ),
        ),
        verdict(
            format!("{name}: p99 at most {} times oracle's", SHARING.1),
            factor <= SHARING.1,
            format!(
                "{factor:.2} times ({} to {} µs)",
                added_us(oracle),
                added_us(with)
            ),
        ),
        verdict(
            format!("{name}: BE no less than with the default"),
            with.be_percent >= plain.be_percent,
            format!("{:.1} to {:.1} %", plain.be_percent, with.be_percent),
        ),
        verdict(
            format!("{name}: p99 not above gpreempt's"),
            p99(with) <= p99(gpreempt),
            format!("{} to {} µs", added_us(gpreempt), added_us(with)),
        ),
    ]
}

fn saturation(rows: &[ReplayRow]) -> Vec<Verdict> {
    let with_each = |policy: &str| {
        let own = rows.iter().filter(|row| row.policy == policy);
        let pairs: Vec<(f64, f64, f64)> = own
            .filter_map(|row| {
                let other = find(rows, "gpreempt", row.parameter)?;
                Some((row.parameter?, other.lc.p99_ns / 1e6, row.lc.p99_ns / 1e6))
            })
            .collect();
        let found = pairs
            .iter()
            .map(|(load, other, own)| format!("{load} % load: {other:.2} to {own:.2} ms"));
        (!pairs.is_empty()).then(|| {
            verdict(
                format!("{policy}, near saturation: p99 not above gpreempt's"),
                pairs.iter().all(|(_, other, own)| own <= other),
                found.collect::<Vec<_>>().join(", "),
            )
        })
    };
    let policies = ["zernel", "zernel budget 100 ms"];
    policies.into_iter().filter_map(with_each).collect()
}
