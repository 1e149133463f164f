// SPDX-License-Identifier: MIT OR Apache-2.0
//! The page as HTML: a template that needs no other file, and what is filled into it.

use std::ops::Range;

use anyhow::Result;
use askama::Template;
use serde_json::Value;

use super::line::{Figure, Line, Replays, AGREE_WITHIN, EXPLAINED_FROM};
use super::verdict::{Check, Verdict};
use super::{charts, head, name, policies, shown, systems, BEFORE, SECTIONS};
use crate::figures::COLUMNS;
use crate::outcome::Mode;
use crate::plots;
use crate::queues::{self, Compared, Way};
use crate::suite::{self, Done};
use crate::training::{self, Training};

/// Content of the page.
pub(super) struct Content<'a> {
    /// Results of the suite.
    pub(super) all: &'a [Done],
    /// The same as lines.
    pub(super) lines: &'a [Line],
    /// Results of the replay.
    pub(super) replays: &'a Replays,
    /// Verdicts on both.
    pub(super) verdicts: &'a [Verdict],
    /// Costs of calls.
    pub(super) costs: Option<&'a Value>,
    /// Results of training loops.
    pub(super) trainings: &'a [Training],
    /// Results of such loops beside queues.
    pub(super) queues: &'a [Compared],
}

impl Content<'_> {
    /// As HTML.
    pub(super) fn text(&self) -> Result<String> {
        let mut sections = Vec::new();
        for (section, heading, about) in SECTIONS {
            sections.extend(self.section(section, heading, about)?);
        }
        sections.extend(policies::sections(self.replays));
        sections.extend(self.queues());
        sections.extend(self.systems());
        sections.extend(self.trainings()?);
        sections.extend(self.loaders());
        sections.extend(self.costs.map(costs));
        let page = Page {
            policies: (self.all.is_empty() && self.replays.has_objectives())
                .then(|| policies::intro(self.replays)),
            explained_from: EXPLAINED_FROM,
            agree_within: AGREE_WITHIN,
            goals: goals(self.verdicts),
            replayed: replayed(self.verdicts),
            sections,
        };
        Ok(page.render()? + "\n")
    }

    fn section(
        &self,
        section: suite::Section,
        heading: &str,
        about: &str,
    ) -> Result<Option<Section>> {
        let lines = self.lines.iter().filter(|line| line.section == section);
        let lines: Vec<&Line> = lines.collect();
        if lines.is_empty() {
            return Ok(None);
        }
        let mut plots = Vec::new();
        for chart in charts::of(section, self.all, self.replays) {
            plots.extend(chart.svg()?);
        }
        let part = self.all.iter().filter(|done| done.section == section);
        let mut tables = vec![table_of(&lines, self.replays)];
        tables.extend(part.flat_map(shares));
        Ok(Some(Section {
            plots,
            tables,
            deviations: deviations(&lines),
            ..Section::new(heading, about)
        }))
    }

    fn queues(&self) -> Option<Section> {
        let plots = self.replays.plots();
        (!plots.is_empty()).then(|| Section {
            plots: plots.to_vec(),
            ..Section::new(
                "Random arrivals: the replay beside queueing theory",
                "M/G/1 queues with preemptive-resume priorities (Jaiswal 1968; Kleinrock, Queueing \
                 Systems, vol. 2). BE response: both arrive at random, LC as in workload E, BE at a \
                 share of its rates, since all of it is more than a GPU can do. LC latency: LC \
                 arrives at random beside a BE client that always has work; further right is more \
                 BE work at the same LC rate. Without switch costs replay and formula agree within \
                 3 %, which the tests of the replay check. LC p99 against the BE rate: a simulation \
                 that was published, with its numbers (LC 10 requests/s of 5 ms, BE of 10 ms, a switch \
                 of 100 µs, 100 s). The M/G/1 curve with preemption leaves out switches and slices, \
                 the one without (Cobham 1954) takes BE requests for uninterruptible; the published \
                 formula of W_LC is not known here and not drawn.",
            )
        })
    }

    fn systems(&self) -> Option<Section> {
        let all = systems::all(self.all);
        let rows = all.into_iter().map(|cells| Row::new(cells, &(0..0)));
        let table = Table {
            head: Row::new(["system", "what", "published", "here"], &(0..0)).cells,
            rows: rows.collect(),
            ..Table::default()
        };
        (!table.rows.is_empty()).then(|| Section {
            tables: vec![table],
            ..Section::new(
                "Beside other systems",
                "Other programs and other GPUs: sizes, not a comparison.",
            )
        })
    }

    fn trainings(&self) -> Result<Option<Section>> {
        let figures = 1..training::HEAD.len();
        let mut section = Section::new(
            "Training loops",
            &training::LEGEND.trim_end().replace('\n', " "),
        );
        for one in self.trainings {
            section.plots.extend(plots::training_svg(one)?);
            let rows = one.runs.iter().map(|run| Row {
                class: if run.signal { "zernel" } else { "" }.to_owned(),
                ..Row::new(training::cells(one, run), &figures)
            });
            section.tables.push(Table {
                title: Some(one.plan.title()),
                head: Row::new(training::HEAD, &figures).cells,
                rows: rows.collect(),
            });
        }
        Ok((!self.trainings.is_empty()).then_some(section))
    }

    fn loaders(&self) -> Option<Section> {
        let figures = 1..queues::HEAD.len();
        let table = |one: &Compared| Table {
            title: Some(one.setting.title()),
            head: Row::new(queues::HEAD, &figures).cells,
            rows: one
                .rows
                .iter()
                .map(|row| Row {
                    class: if row.way == Way::Signal { "zernel" } else { "" }.to_owned(),
                    ..Row::new(queues::cells(row), &figures)
                })
                .collect(),
        };
        (!self.queues.is_empty()).then(|| Section {
            tables: self.queues.iter().map(table).collect(),
            ..Section::new(
                "The signal beside queues of batches",
                &queues::LEGEND.trim_end().replace('\n', " "),
            )
        })
    }
}

/// The page.
#[derive(Template)]
#[template(path = "bench.html")]
struct Page {
    /// The first sentence of a page that has policies in the replay alone.
    policies: Option<String>,
    explained_from: f64,
    agree_within: f64,
    goals: Option<Table>,
    replayed: Option<String>,
    sections: Vec<Section>,
}

/// A heading and what belongs to it.
#[derive(Default)]
pub(super) struct Section {
    heading: String,
    about: String,
    /// As SVG.
    pub(super) plots: Vec<String>,
    pub(super) tables: Vec<Table>,
    deviations: Vec<Deviation>,
    note: Option<String>,
}

impl Section {
    pub(super) fn new(heading: &str, about: &str) -> Self {
        Self {
            heading: heading.to_owned(),
            about: about.to_owned(),
            ..Self::default()
        }
    }
}

/// Figures that differ from the published ones for one reason.
struct Deviation {
    figures: String,
    why: Option<String>,
}

/// A table.
#[derive(Default, Template)]
#[template(path = "table.html")]
pub(super) struct Table {
    pub(super) title: Option<String>,
    pub(super) head: Vec<Cell>,
    pub(super) rows: Vec<Row>,
}

/// A row, and the classes that its style follows.
pub(super) struct Row {
    pub(super) class: String,
    pub(super) cells: Vec<Cell>,
}

/// A cell; text is at the left, figures are at the right.
pub(super) struct Cell {
    text: String,
    is_text: bool,
}

impl Row {
    /// Of these cells, of which those in `figures` are numbers.
    pub(super) fn new<T: ToString>(
        cells: impl IntoIterator<Item = T>,
        figures: &Range<usize>,
    ) -> Self {
        let cell = |(at, text): (usize, T)| Cell {
            text: text.to_string(),
            is_text: !figures.contains(&at),
        };
        Self {
            class: String::new(),
            cells: cells.into_iter().enumerate().map(cell).collect(),
        }
    }
}

fn goals(verdicts: &[Verdict]) -> Option<Table> {
    let goals = verdicts.iter().filter(|one| one.check != Check::Replay);
    let rows = goals.map(|one| {
        let (class, word) = match one.good {
            true => ("good", "shown"),
            false => ("bad", "not shown"),
        };
        Row {
            class: class.to_owned(),
            ..Row::new([word, &one.what, &one.found], &(0..0))
        }
    });
    let rows: Vec<_> = rows.collect();
    (!rows.is_empty()).then(|| Table {
        rows,
        ..Table::default()
    })
}

/// The number of runs that agree with their replay, and those that do not.
fn replayed(verdicts: &[Verdict]) -> Option<String> {
    let all = || verdicts.iter().filter(|one| one.check == Check::Replay);
    let apart: Vec<String> = all()
        .filter(|one| !one.good)
        .map(|one| {
            let run = one.what.replace(" agrees with its replay", "");
            format!("{run} ({})", one.found)
        })
        .collect();
    let which = match &apart[..] {
        [] => String::new(),
        apart => format!(": {}", apart.join("; ")),
    };
    (all().count() > 0).then(|| {
        format!(
            "Of {} runs that were replayed, {} are further than {AGREE_WITHIN} % from their \
             replay{which}.",
            all().count(),
            apart.len()
        )
    })
}

fn table_of(lines: &[&Line], replays: &Replays) -> Table {
    let figures = BEFORE..BEFORE + COLUMNS;
    let mut last = None;
    let rows = shown(lines, replays).into_iter().map(|row| {
        let line = row.line;
        let this = Some((&line.row.workload, line.parameter));
        let first = last != this;
        last = this;
        let classes = [
            first.then_some("first"),
            (row.is_run && line.row.mode == Mode::Zernel).then_some("zernel"),
        ];
        Row {
            class: classes.into_iter().flatten().collect::<Vec<_>>().join(" "),
            ..Row::new(row.cells, &figures)
        }
    });
    Table {
        rows: rows.collect(),
        head: Row::new(head(), &figures).cells,
        title: None,
    }
}

fn shares(done: &Done) -> impl Iterator<Item = Table> + '_ {
    done.shares.iter().map(|(mode, shares)| {
        let head = [
            format!("{mode}: BE process of weight"),
            "is to have, %".to_owned(),
            "had, %".to_owned(),
            "off by, %".to_owned(),
        ];
        let row = |one: &crate::outcome::Share| {
            let cells = [
                one.weight.to_string(),
                format!("{:.2}", one.due_percent),
                format!("{:.2}", one.had_percent),
                format!("{:+.2}", one.error_percent()),
            ];
            Row::new(cells, &(1..4))
        };
        Table {
            head: Row::new(head, &(1..4)).cells,
            rows: shares.iter().map(row).collect(),
            title: None,
        }
    })
}

/// The deviations of these lines, those with the same reason together.
fn deviations(lines: &[&Line]) -> Vec<Deviation> {
    let mut all: Vec<(Option<String>, Vec<String>)> = Vec::new();
    for line in lines {
        for one in &line.compared {
            if one.deviation_percent.abs() <= EXPLAINED_FROM {
                continue;
            }
            let figure = match one.figure {
                Figure::Latency => "LC mean",
                Figure::Added => "added",
                Figure::Be => "BE",
            };
            let what = format!("{} {figure} {:+.0} %", name(line), one.deviation_percent);
            match all.iter_mut().find(|(why, _)| *why == one.why) {
                Some((_, figures)) => figures.push(what),
                None => all.push((one.why.clone(), vec![what])),
            }
        }
    }
    let deviation = |(why, figures): (Option<String>, Vec<String>)| Deviation {
        figures: figures.join("; "),
        why,
    };
    all.into_iter().map(deviation).collect()
}

fn costs(costs: &Value) -> Section {
    let mut section = Section::new("Cost of calls and timers, in instructions", "");
    for (key, heading) in [
        ("calls", "call"),
        ("interrupts", "timer: time taken from a program that runs"),
        (
            "switches",
            "context switch from thread to thread through a pipe, while",
        ),
        ("waits", "wait for the GPU that is over"),
        ("class_change", "class change, until"),
    ] {
        let Some(figures) = costs[key].as_array() else {
            continue;
        };
        let row = |figure: &Value| {
            let name = figure["name"].as_str().unwrap_or("").to_owned();
            let [median, max] = ["median_ns", "max_ns"].map(|key| figure[key].to_string());
            Row::new([name, median, max], &(1..3))
        };
        section.tables.push(Table {
            head: Row::new([heading, "median", "max"], &(1..3)).cells,
            rows: figures.iter().map(row).collect(),
            title: None,
        });
    }
    let count = costs["ready_system_calls"].as_u64();
    section.note =
        count.map(|count| format!("System calls of 1,000 ready and 1,000 done by store: {count}."));
    section
}
