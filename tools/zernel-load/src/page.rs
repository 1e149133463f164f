// SPDX-License-Identifier: GPL-2.0
//! What `make bench` shows: a table, a page that needs nothing but itself, and all figures as JSON.

mod chart;
mod explain;
mod html;
mod line;
mod plots;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use comfy_table::presets::UTF8_FULL_CONDENSED;
use comfy_table::{CellAlignment, Table};
use serde_json::{json, Value};

use self::explain::Explanations;
use self::line::{Figure, Line, Replays};
use crate::outcome::{Deployment, Mode};
use crate::suite::{self, Section};

/// The costs of calls, as `bench --json --out` writes them.
const COSTS: &str = "costs.json";

/// Sections in the order of the page, with their headings and what is to be known of them.
const SECTIONS: [(Section, &str, &str); 6] = [
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
        "Workload B1 with another preparation time (the parameter, in µs). gpreempt is told it; \
         zernel is not. Published: GPreempt's added latency.",
    ),
    (
        Section::Jitter,
        "Preparations that vary",
        "An LC client at 100 requests/s whose preparation takes now this long and now that, beside a \
         BE client that always has work.",
    ),
    (
        Section::Frontier,
        "Waiting against keeping the GPU idle",
        "The same with other costs of being late (zernel; the default is 9) and other leads \
         (gpreempt, in µs; as published it is 100).",
    ),
    (
        Section::Processes,
        "Number of BE processes",
        "LC vgg at 100 requests/s beside so many BE clients (the parameter) that always have work.",
    ),
];

/// What was written, and what is to be said of it.
pub struct Written {
    /// The files.
    pub files: Vec<PathBuf>,
    /// The table.
    pub table: String,
    /// Whether each run that was replayed agrees with its replay, in words.
    pub checks: Vec<(bool, String)>,
}

/// Writes `bench.html` and `bench.json` to the folder that a suite was written to.
pub fn write(dir: &Path) -> Result<Written> {
    let all = suite::load(dir)?;
    let lines = line::lines(&all, &Replays::load(dir)?, &Explanations::load()?);
    let costs = costs(dir)?;
    let html = dir.join("bench.html");
    let text = html::page(&all, &lines, costs.as_ref())?;
    fs::write(&html, text).with_context(|| format!("cannot write {}", html.display()))?;
    let path = dir.join("bench.json");
    let unexplained: Vec<String> = unexplained(&lines).collect();
    let value = json!({"lines": lines, "costs": costs, "unexplained": unexplained});
    fs::write(&path, serde_json::to_string_pretty(&value)? + "\n")
        .with_context(|| format!("cannot write {}", path.display()))?;
    let check = |line: &Line| {
        let agrees = line.replayed?.agrees();
        Some((
            agrees,
            format!("{} and its replay{}", name(line), replay_text(line)),
        ))
    };
    Ok(Written {
        files: vec![html, path],
        table: table(&lines),
        checks: lines.iter().filter_map(check).collect(),
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
    let (workload, mode) = (&line.row.workload, line.row.mode);
    format!(
        "{workload}{}{deployment}, {mode}",
        parameter.unwrap_or_default()
    )
}

fn replay_text(line: &Line) -> String {
    let Some(replayed) = line.replayed else {
        return String::new();
    };
    let be = replayed.be_rate_percent;
    let be = be.map_or(String::new(), |percent| format!(", BE {percent:+.1} %"));
    format!(": LC {:+.1} %{be}", replayed.lc_mean_percent)
}

/// Names of the columns of a line.
const HEAD: [&str; 17] = [
    "workload",
    "mode",
    "LC mean ms",
    "added mean µs",
    "p50",
    "p99",
    "p99.9",
    "max",
    "+queue mean ms",
    "LC /s",
    "BE /s",
    "BE GPU %",
    "held %",
    "switch %",
    "switches /s",
    "published (deviation)",
    "against replay",
];

/// The columns of a line.
fn cells(line: &Line) -> [String; 17] {
    let row = &line.row;
    let dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    let added = |at: usize| dash(row.lc_added_at_us.map(|us| format!("{:.0}", us[at])));
    let alone = row.mode == Mode::Alone;
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
    let replay = line.replayed.map(|_| replay_text(line)[2..].to_owned());
    let parameter = line.parameter.map(|value| format!(" · {value}"));
    [
        format!("{}{}", row.workload, parameter.unwrap_or_default()),
        row.mode.to_string(),
        format!("{:.3}", row.lc.mean_ns / 1e6),
        dash(row.lc_added_us.map(|us| format!("{us:.1}"))),
        added(0),
        added(1),
        added(2),
        added(3),
        format!("{:.3}", row.lc_mean_with_queue_ns / 1e6),
        format!("{:.1}", row.lc_rate),
        dash((!alone).then(|| format!("{:.1}", row.be_rate))),
        dash((!alone).then(|| format!("{:.1}", row.be_gpu_percent))),
        format!("{:.2}", row.held_percent),
        format!("{:.1}", row.gpu_switch_percent),
        format!("{:.0}", row.switches),
        published.join(", "),
        dash(replay),
    ]
}

/// The table for a terminal.
fn table(lines: &[Line]) -> String {
    let mut table = Table::new();
    table.load_preset(UTF8_FULL_CONDENSED).set_header(HEAD);
    let mut section = None;
    for line in lines {
        if section != Some((line.section, line.deployment)) {
            section = Some((line.section, line.deployment));
            table.add_row([heading(line.section).to_uppercase()]);
        }
        table.add_row(cells(line));
    }
    for column in table.column_iter_mut().skip(2).take(13) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    format!("{table}\n")
}

fn heading(section: Section) -> &'static str {
    let found = SECTIONS.iter().find(|(one, ..)| *one == section);
    found.map_or("", |(_, heading, _)| heading)
}

#[cfg(test)]
mod tests {
    use super::*;
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
        }]});
        fs::write(dir.path().join("replay-x.json"), replay.to_string()).unwrap();
        let written = write(dir.path()).unwrap();
        let good: Vec<bool> = written.checks.iter().map(|(good, _)| *good).collect();
        assert_eq!(good, [true, false]);
        assert!(written.table.contains("WORKLOADS"), "{}", written.table);
        let page = fs::read_to_string(&written.files[0]).unwrap();
        assert!(page.contains("<svg ") && page.contains("4.02 ms"));
        for outside in ["src=", "href=", "@import", "url("] {
            assert!(!page.contains(outside), "{outside}");
        }
        let all: Value =
            serde_json::from_str(&fs::read_to_string(&written.files[1]).unwrap()).unwrap();
        assert_eq!(all["lines"].as_array().unwrap().len(), 10);
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
