// SPDX-License-Identifier: MIT OR Apache-2.0
//! The output of `make bench`: a table, a page that needs no other file, and all figures as JSON.

mod charts;
mod explain;
mod html;
mod line;
mod policies;
mod seeds;
mod systems;
mod verdict;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde_json::{json, Value};
use zernel_workload::Deployment;

use self::explain::Explanations;
use self::line::{Figure, Line, Replays};
pub use self::verdict::{Check, Verdict};
use crate::figures::{self, Table, COLUMNS};
use crate::queues;
use crate::suite::{self, Section};
use crate::training::{self, Training};

/// The costs of calls, as `bench --json --out` writes them.
const COSTS: &str = "costs.json";

/// Sections in the order of the page, with their headings and what is to be known of them.
const SECTIONS: [(Section, &str, &str); 7] = [
    (
        Section::Workloads,
        "Workloads, a process per client",
        "As programs are deployed: each client is a process, so a TSG, of its own. Published figures \
         of C, D, E and Z are of another deployment, with all BE clients in one TSG: see the next \
         table.",
    ),
    (
        Section::Published,
        "Workloads in the published deployment",
        "All BE clients share a process and a TSG, and all LC clients another. Their kernels overlap \
         on the GPU.",
    ),
    (
        Section::Preparation,
        "Preparation time",
        "Workload B1 with another preparation time (the number behind it, in µs). gpreempt is told it; \
         zernel is not. Published: GPreempt's added latency.",
    ),
    (
        Section::Jitter,
        "Preparations that vary",
        "An LC client at 100 requests/s whose preparation takes now this long and now that, beside a \
         BE client that always has work. After a step the level is that of the last 500 requests; it \
         is reached at the first request from which on 20 in a row have a mean added latency and a \
         mean idle time within three standard errors of the level's, and at most one of each above \
         its p99.",
    ),
    (
        Section::Frontier,
        "Waiting against keeping the GPU idle",
        "The same workloads, where zernel weighs being early against being late otherwise (early : \
         late; the default is 1 : 6) and gpreempt has other constants (preparation / switch in µs). \
         Only the difference of the constants matters: preparations of 0 to 500 µs and switches of \
         50 to 200 µs, in steps of 25 µs, come to 19 leads of 0 to 450 µs, each of which is replayed \
         once. A point dominates another one if it is not worse in both figures and better in one; \
         points alone count, as the p99 of a mix of two settings lies on no line between theirs.",
    ),
    (
        Section::Processes,
        "Number of BE processes",
        "LC vgg at 100 requests/s beside so many BE clients (the number behind) that always have work \
         and prepare nothing. Ideal is a GPU that switches at no cost and is never idle: BE has all \
         the time that LC does not need itself, which is 1 - 100/s × 2.2 ms = 78 %. With default \
         slices BE has more than that where LC has to drop requests.",
    ),
    (
        Section::Weights,
        "Weights",
        "LC vgg at 100 requests/s beside BE clients of different weights that always have work.",
    ),
];

/// The files written, and the verdicts.
pub struct Written {
    /// The files.
    pub files: Vec<PathBuf>,
    /// The table.
    pub table: String,
    /// Verdicts: the agreement of runs with their replays, and the goals.
    pub verdicts: Vec<Verdict>,
}

/// Writes `bench.html` and `bench.json` to the folder that a suite was written to, or sweeps of policies.
pub fn write(dir: &Path) -> Result<Written> {
    let replays = Replays::load(dir)?;
    let all = match replays.has_objectives() && !dir.join(suite::FILE).exists() {
        true => Vec::new(),
        false => suite::load(dir)?,
    };
    let lines = line::lines(&all, &replays, &Explanations::load()?);
    let costs = costs(dir)?;
    let trainings = training::load(dir)?;
    let beside_queues = queues::load(dir)?;
    let mut verdicts = verdict::goals(&all, &replays);
    verdicts.extend(trainings.iter().flat_map(verdict::of_training));
    verdicts.extend(beside_queues.iter().flat_map(verdict::of_queues));
    verdicts.extend(policies::verdicts(&replays));
    verdicts.extend(costs.as_ref().and_then(verdict::begin));
    verdicts.extend(lines.iter().filter_map(agreement));
    let html = dir.join("bench.html");
    let page = html::Content {
        all: &all,
        lines: &lines,
        replays: &replays,
        verdicts: &verdicts,
        costs: costs.as_ref(),
        trainings: &trainings,
        queues: &beside_queues,
    };
    fs::write(&html, page.text()?).with_context(|| format!("cannot write {}", html.display()))?;
    let path = dir.join("bench.json");
    let unexplained: Vec<String> = unexplained(&lines).collect();
    let value = json!({
        "lines": lines,
        "costs": costs,
        "unexplained": unexplained,
        "verdicts": verdicts,
        "queues": beside_queues,
        "training": trainings.iter().map(Training::summary).collect::<Vec<_>>(),
        "shares": all.iter().flat_map(|done| &done.shares).collect::<Vec<_>>(),
        "recovery": all.iter().flat_map(|done| &done.recovery).collect::<Vec<_>>(),
    });
    fs::write(&path, serde_json::to_string_pretty(&value)? + "\n")
        .with_context(|| format!("cannot write {}", path.display()))?;
    Ok(Written {
        files: vec![html, path],
        table: table(&lines, &replays)
            + &training::tables(&trainings)
            + &queues::tables(&beside_queues),
        verdicts,
    })
}

/// The agreement of a run with its replay.
fn agreement(line: &Line) -> Option<Verdict> {
    Some(Verdict {
        check: Check::Replay,
        what: format!("{} agrees with its replay", name(line)),
        good: line.replayed?.agrees(),
        found: replay_text(line)?,
    })
}

fn costs(dir: &Path) -> Result<Option<Value>> {
    let path = dir.join(COSTS);
    if !path.exists() {
        return Ok(None);
    }
    let text = fs::read_to_string(&path)?;
    let value = serde_json::from_str(&text);
    Ok(Some(value.with_context(|| {
        format!("{} is not JSON", path.display())
    })?))
}

/// Deviations that nobody has explained, in words.
fn unexplained(lines: &[Line]) -> impl Iterator<Item = String> + '_ {
    lines.iter().flat_map(|line| {
        let bare = line.compared.iter().filter(|one| one.is_unexplained());
        bare.map(move |one| {
            format!(
                "{}: {:?} {:+.0} %",
                name(line),
                one.figure,
                one.deviation_percent
            )
        })
    })
}

fn name(line: &Line) -> String {
    let parameter = line.parameter.map(|value| format!(" {value}"));
    let deployment = match line.deployment {
        Deployment::PerClient => "",
        Deployment::Published => ", published deployment",
    };
    let (workload, mode) = (&line.row.workload, line.row.mode_and_setting());
    format!(
        "{workload}{}{deployment}, {mode}",
        parameter.unwrap_or_default()
    )
}

/// By how much a run is above its replay.
fn replay_text(line: &Line) -> Option<String> {
    let replayed = line.replayed?;
    let be = replayed.be_rate_percent;
    let be = be.map_or(String::new(), |percent| format!(", BE {percent:+.1} %"));
    Some(format!("LC {:+.1} %{be}", replayed.lc_mean_percent))
}

/// Columns before the figures: the workload and the mode.
const BEFORE: usize = 2;

/// Columns behind them.
const AFTER: usize = 2;

/// Names of the columns of a line.
fn head() -> Vec<String> {
    let before = ["workload", "mode"];
    let after = ["published (deviation)", "against replay"];
    let all = before.into_iter().chain(figures::HEAD).chain(after);
    all.map(str::to_owned).collect()
}

/// The columns of a line.
fn cells(line: &Line) -> Vec<String> {
    let published: Vec<String> = line
        .compared
        .iter()
        .map(|one| {
            let (name, unit) = match one.figure {
                Figure::Latency => ("", " ms"),
                Figure::Added => ("+", " µs"),
                Figure::Be => ("BE ", "/s"),
            };
            let (value, deviation) = (one.published, one.deviation_percent);
            format!("{name}{value}{unit} ({deviation:+.0} %)")
        })
        .collect();
    let parameter = line.parameter.map(|value| format!(" · {value}"));
    let mut cells = vec![
        format!("{}{}", line.row.workload, parameter.unwrap_or_default()),
        line.row.mode_and_setting(),
    ];
    cells.extend(line.row.figures().cells());
    cells.push(published.join(", "));
    cells.push(replay_text(line).unwrap_or_else(|| "-".to_owned()));
    cells
}

/// A row of a table: a run, or a replay beside it of a policy that no run has.
struct Shown<'a> {
    /// The run, or the last one of the same workload.
    line: &'a Line,
    cells: Vec<String>,
    is_run: bool,
}

/// The rows of these lines, with the replays behind the runs of each workload.
fn shown<'a>(lines: &[&'a Line], replays: &Replays) -> Vec<Shown<'a>> {
    let same = |a: &&Line, b: &&Line| {
        let of = |line: &Line| (line.section, line.deployment, line.parameter);
        of(a) == of(b) && a.row.workload == b.row.workload
    };
    let mut rows = Vec::new();
    for runs in lines.chunk_by(same) {
        rows.extend(runs.iter().map(|&line| Shown {
            line,
            cells: cells(line),
            is_run: true,
        }));
        let Some(&line) = runs.last() else {
            continue;
        };
        for other in replays.others(line) {
            let mut cells = vec![other.workload.clone(), format!("{} (replay)", other.policy)];
            cells.extend(other.cells.iter().cloned());
            cells.resize(BEFORE + COLUMNS + AFTER, "-".to_owned());
            rows.push(Shown {
                line,
                cells,
                is_run: false,
            });
        }
    }
    rows
}

/// The table for a terminal.
fn table(lines: &[Line], replays: &Replays) -> String {
    if lines.is_empty() {
        return String::new();
    }
    let mut table = Table::new(head(), BEFORE..BEFORE + COLUMNS);
    let mut section = None;
    let lines: Vec<&Line> = lines.iter().collect();
    for Shown { line, cells, .. } in shown(&lines, replays) {
        if section != Some((line.section, line.deployment)) {
            section = Some((line.section, line.deployment));
            table.add([heading(line.section).to_uppercase()]);
        }
        table.add(cells);
    }
    table.to_string()
}

fn heading(section: Section) -> &'static str {
    let found = SECTIONS.iter().find(|(one, ..)| *one == section);
    found.map_or("", |(_, heading, _)| heading)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::Mode;
    use crate::suite::Done;
    use crate::table;
    use crate::testdata;

    fn done(name: &str, section: Section) -> Done {
        let comparison = testdata::comparison(name);
        Done {
            section,
            parameter: None,
            workload: name.to_owned(),
            title: table::title(&comparison),
            deployment: Deployment::PerClient,
            seconds: 5.0,
            published: zernel_workload::Workload::built_in(name).and_then(|one| one.published),
            rows: table::rows(&comparison),
            curves: vec![(Mode::Alone, vec![(2.0, 0.0), (3.0, 100.0)])],
            shares: Vec::new(),
            recovery: Vec::new(),
        }
    }

    #[test]
    fn a_suite_becomes_a_page_that_needs_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        let lines = [
            done("C", Section::Workloads),
            done("J-step", Section::Jitter),
        ]
        .map(|one| serde_json::to_string(&one).unwrap() + "\n");
        fs::write(dir.path().join(suite::FILE), lines.concat()).unwrap();
        let replay = json!({"rows": [{
            "workload": "C", "policy": "exclusive", "deployment": "per-client", "parameter": null,
            "lc": {"mean_ns": 2_490_500.0}, "be_rate": 0.0,
        }, {
            "workload": "C", "policy": "default", "deployment": "per-client", "parameter": null,
            "lc": {"mean_ns": 9_000_000.0}, "be_rate": 1.0,
        }, {
            "workload": "C", "policy": "bound", "deployment": "per-client", "parameter": null,
            "lc": {"mean_ns": 2_000_000.0}, "be_rate": 1.0, "cells": ["2.000", "-7.5"],
        }, {
            "workload": "C", "policy": "bound", "deployment": "published", "parameter": null,
            "lc": {"mean_ns": 2_000_000.0}, "be_rate": 1.0, "cells": ["3.000"],
        }]});
        fs::write(dir.path().join("replay-x.json"), replay.to_string()).unwrap();
        let features = |policy: &str, late: f64, held: f64| {
            json!({
                "workload": "F-linear", "policy": policy, "deployment": "per-client",
                "parameter": late, "lc": {"mean_ns": 1.0}, "be_rate": 0.0, "held_percent": held,
                "seconds": 30.0,
            })
        };
        let sweep = json!({
            "sweep": "features", "plots": ["<svg id='features'></svg>"],
            "rows": [
                features("zernel", 6.0, 88.88),
                features("zernel features", 6.0, 66.66),
                features("zernel features", 12.0, 77.77),
            ],
        });
        fs::write(dir.path().join("replay-f.json"), sweep.to_string()).unwrap();
        let costs = json!({"calls": [
            {"name": "getpid", "median_ns": 100, "max_ns": 100},
            {"name": "REQUEST_BEGIN", "median_ns": 1600, "max_ns": 1700},
        ]});
        fs::write(dir.path().join(COSTS), costs.to_string()).unwrap();
        let training = testdata::training(training::Plan::FIXED);
        training::save(&[training], &dir.path().join(training::FILE)).unwrap();
        queues::save(&[testdata::queues(1)], dir.path()).unwrap();
        let written = write(dir.path()).unwrap();
        let of = |check| {
            let verdicts = written.verdicts.iter();
            verdicts
                .filter(move |one| one.check == check)
                .map(|one| one.good)
                .collect::<Vec<_>>()
        };
        assert_eq!(of(Check::Replay), [true, false]);
        // C's added latency and its tail, C's throughput, and the tail of J-step.
        assert_eq!(of(Check::Goals)[..4], [false; 4]);
        // The training loop, the one beside queues, and the begin.
        assert_eq!(of(Check::Goals)[4..], [true; 7]);
        // A quarter less is held, and not two fifths.
        assert_eq!(of(Check::Policies), [false]);
        assert!(
            written.table.contains("A training loop"),
            "{}",
            written.table
        );
        assert!(written.table.contains("WORKLOADS"), "{}", written.table);
        let page = fs::read_to_string(&written.files[0]).unwrap();
        assert!(page.contains("<svg ") && page.contains("4.02 ms"));
        for text in [&page, &written.table] {
            assert_eq!(text.matches("bound (replay)").count(), 1);
            assert!(text.contains("-7.5"));
        }
        // At the usual ratio of costs alone.
        for (text, is_there) in [
            ("<svg id='features'>", true),
            ("66.66", true),
            ("77.77", false),
        ] {
            assert_eq!(page.contains(text), is_there, "{text}");
        }
        for outside in ["src=", "href=", "@import", "url("] {
            assert!(!page.contains(outside), "{outside}");
        }
        let all: Value =
            serde_json::from_str(&fs::read_to_string(&written.files[1]).unwrap()).unwrap();
        assert_eq!(all["lines"].as_array().unwrap().len(), 10);
        assert_eq!(all["training"][0]["with_signal"]["signals"], 8);
        assert!(page.contains("queue of 16 (8 x 2)"));
        assert!(written.table.contains("queue of 16 (8 x 2)"));
        assert_eq!(all["queues"][0]["rows"].as_array().unwrap().len(), 7);
    }

    #[test]
    fn policies_alone_have_a_page_of_their_own_and_no_verdict_if_they_are_short() {
        let row = |seconds: f64, policy: &str, late: f64, failed: f64| {
            json!({
                "workload": "deadlines", "policy": policy, "deployment": "per-client",
                "parameter": 50.0, "lc": {"mean_ns": 1.0}, "be_rate": 0.0, "seconds": seconds,
                "lc_not_served_percent": 44.44,
                "missed": {"percent": late, "failed_percent": failed, "refused_percent": 0.0, "late_p99_ns": 0.0},
            })
        };
        let page = |seconds: f64| {
            let dir = tempfile::tempdir().unwrap();
            let sweep = json!({"sweep": "deadlines", "seed": 1, "plots": [], "rows": [
                row(seconds, "zernel", 2.0, 3.0),
                // Less is late of what is served, and more is not served.
                row(seconds, "zernel edf", 1.0, 4.0),
                row(seconds, "zernel edf-preemptive", 2.0, 2.5),
            ]});
            fs::write(dir.path().join("replay-d.json"), sweep.to_string()).unwrap();
            let written = write(dir.path()).unwrap();
            let text = fs::read_to_string(&written.files[0]).unwrap();
            let good = written.verdicts.iter().map(|one| one.good);
            (good.collect::<Vec<_>>(), text)
        };
        let (verdicts, text) = page(30.0);
        assert_eq!(verdicts, [false, true]);
        assert!(text.contains("44.44") && text.contains("not served %"));
        assert!(text.contains("policies in the replay") && text.contains("30 s of simulated time"));
        assert!(!text.contains("QEMU") && !text.contains("without a verdict"));
        let (verdicts, text) = page(3.0);
        assert!(verdicts.is_empty());
        assert!(text.contains("without a verdict"));
    }

    #[test]
    fn deviations_are_those_of_the_figures() {
        let all = [done("C", Section::Workloads)];
        let texts = Explanations::load().unwrap();
        let lines = line::lines(&all, &Replays::default(), &texts);
        let default = lines
            .iter()
            .find(|line| line.row.mode == Mode::Default)
            .unwrap();
        let latency = &default.compared[0];
        assert_eq!((latency.figure, latency.published), (Figure::Latency, 4.02));
        let expected = 100.0 * (default.row.lc.mean_ns / 4.02e6 - 1.0);
        assert!((latency.deviation_percent - expected).abs() < 1e-9);
        assert!(lines.iter().all(|line| line.replayed.is_none()));
    }
}
