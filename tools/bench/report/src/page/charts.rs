// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which plots the page has, and in which section.

use plotters::style::RGBColor;
use zernel_workload::{Deployment, Published, Workload};

use super::line::{ReplayRow, Replays};
use crate::chart::{distributions, Axis, Chart, Mark, Series};
use crate::outcome::Mode;
use crate::palette;
use crate::plots::{colour, label};
use crate::recovery::{Recovery, Request};
use crate::suite::{ideal_percent, Done, Section};
use crate::table::Row;

/// Modes in which the GPU is shared.
const SHARED: [Mode; 4] = [Mode::Default, Mode::Classes, Mode::Gpreempt, Mode::Zernel];

/// The plots of a section.
pub fn of(section: Section, all: &[Done], replays: &Replays) -> Vec<Chart> {
    let added_p99 = |row: &Row| row.lc_added_at_us.map(|us| us[1]);
    let be_percent = |row: &Row| Some(row.be_gpu_percent);
    match section {
        Section::Workloads => {
            let us = || Axis::logarithmic("µs (logarithmic; what is below 1 is at 1)", 1.0);
            let mut charts = vec![
                workloads(all, "Mean added LC latency", us(), |row| row.lc_added_us),
                workloads(all, "p99 of the added LC latency", us(), added_p99),
                workloads(all, "GPU time of BE clients", Axis::linear("%"), be_percent),
            ];
            charts.extend(["B1", "C", "Z"].map(|name| latencies(all, name)));
            charts
        }
        Section::Preparation => vec![preparation(all)],
        Section::Jitter => {
            let step = |title: &str, y: &str, of: fn(&Request) -> f64, level: usize| {
                change(all, replays, title, Axis::linear(y), of, level)
            };
            vec![
                step(
                    "Added LC latency around a step of the preparation · J-step",
                    "added latency, µs",
                    |one| one.added_us,
                    0,
                ),
                step(
                    "Idle GPU time around a step of the preparation · J-step",
                    "GPU held for data, µs per request",
                    |one| one.idle_us,
                    1,
                ),
            ]
        }
        Section::Frontier => Workload::jitter_suite()
            .map(|name| frontier(all, replays, name))
            .collect(),
        Section::Processes => vec![
            processes(
                all,
                "GPU time of BE clients",
                Axis::linear("%"),
                Some(("ideal: what LC leaves, no switches", ideal_percent())),
                be_percent,
            ),
            processes(
                all,
                "p99 of the added LC latency",
                Axis::logarithmic("µs (logarithmic)", 1.0),
                None,
                added_p99,
            ),
        ],
        Section::Published | Section::Weights => Vec::new(),
    }
}

fn series(label: &str, colour: RGBColor, points: Vec<(f64, f64)>, mark: Mark) -> Series {
    Series {
        label: label.to_owned(),
        colour,
        points,
        mark,
    }
}

fn of_mode(mode: Mode, points: Vec<(f64, f64)>, mark: Mark) -> Series {
    series(label(mode), colour(mode), points, mark)
}

fn rows(done: &Done, mode: Mode) -> impl Iterator<Item = &Row> {
    done.rows.iter().filter(move |row| row.mode == mode)
}

/// A figure of every workload with a process per client.
fn workloads(all: &[Done], title: &str, y: Axis, figure: impl Fn(&Row) -> Option<f64>) -> Chart {
    let part: Vec<&Done> = all
        .iter()
        .filter(|done| matches!(done.section, Section::Workloads | Section::Jitter))
        .collect();
    let of = |mode: Mode| {
        let points = part.iter().enumerate().filter_map(|(place, done)| {
            let value = rows(done, mode).find_map(&figure)?;
            Some((place as f64, value))
        });
        of_mode(mode, points.collect(), Mark::Points)
    };
    let names = part
        .iter()
        .map(|done| done.workload.trim_start_matches("J-"));
    Chart {
        title: title.to_owned(),
        x: Axis::names(
            "workload, a process per client",
            names.map(str::to_owned).collect(),
        ),
        y,
        series: SHARED.map(of).into(),
    }
}

fn preparation(all: &[Done]) -> Chart {
    let part = || {
        all.iter()
            .filter(|done| done.section == Section::Preparation)
    };
    let of = |mode: Mode| {
        let points = part().filter_map(|done| {
            let value = rows(done, mode).find_map(|row| row.lc_added_us)?;
            Some((done.parameter?, value))
        });
        of_mode(mode, points.collect(), Mark::Line)
    };
    let mut all: Vec<Series> = [Mode::Classes, Mode::Gpreempt, Mode::Zernel].map(of).into();
    if part().next().is_some() {
        let points = Published::preparation_sweep();
        all.push(series(
            "GPreempt, published",
            palette::INK,
            points,
            Mark::Hollow,
        ));
    }
    Chart {
        title: "Added LC latency against preparation time · B1".to_owned(),
        x: Axis::linear("preparation, µs"),
        y: Axis::linear("mean added latency, µs"),
        series: all,
    }
}

/// Of a jitter workload: held GPU time against the tail, replayed for many settings and measured for
/// some.
fn frontier(all: &[Done], replays: &Replays, name: &str) -> Chart {
    let measured = |mode: Mode| -> Vec<(f64, f64)> {
        let part = all.iter().filter(|done| {
            done.workload == name && matches!(done.section, Section::Jitter | Section::Frontier)
        });
        part.flat_map(|done| rows(done, mode))
            .filter_map(|row| Some((row.held_percent, row.lc_added_at_us?[1])))
            .collect()
    };
    let replayed = |mode: Mode| -> Vec<(f64, f64)> {
        let point = |row: &&ReplayRow| (row.held_percent, row.lc_added.p99_ns / 1e3);
        replays.frontier(name, mode).iter().map(point).collect()
    };
    let of = |mode: Mode, what: &str| {
        [
            Series {
                label: format!("{}, {what} (replay)", label(mode)),
                ..of_mode(mode, replayed(mode), Mark::Line)
            },
            Series {
                label: format!("{} (kernel)", label(mode)),
                ..of_mode(mode, measured(mode), Mark::Hollow)
            },
        ]
    };
    Chart {
        title: format!("Waiting for the GPU against keeping it idle · {name}"),
        x: Axis::linear("GPU held for data, %"),
        y: Axis::linear("p99 of the added latency, µs"),
        series: [
            of(Mode::Gpreempt, "its constants"),
            of(Mode::Zernel, "its cost ratio"),
        ]
        .concat(),
    }
}

/// A figure of the requests around a step; `level`: which one.
fn change(
    all: &[Done],
    replays: &Replays,
    title: &str,
    y: Axis,
    of: fn(&Request) -> f64,
    level: usize,
) -> Chart {
    let points = |recovery: &Recovery| -> Vec<(f64, f64)> {
        let requests = recovery.requests.iter();
        requests.map(|one| (one.place as f64, of(one))).collect()
    };
    let measured = |mode: Mode| {
        let found = all.iter().flat_map(|done| &done.recovery);
        found
            .filter(move |(one, _)| *one == mode)
            .map(|(_, found)| found)
            .next()
    };
    let mut shown = Vec::new();
    for mode in [Mode::Gpreempt, Mode::Zernel] {
        if let Some(found) = measured(mode) {
            let label = format!("{} (kernel)", label(mode));
            shown.push(series(&label, colour(mode), points(found), Mark::Curve));
        }
    }
    if let Some(found) = replays.recovery(Mode::Zernel) {
        shown.push(series(
            "zernel (replay)",
            palette::SKY,
            points(found),
            Mark::Curve,
        ));
    }
    if let Some(found) = measured(Mode::Zernel) {
        let mean = if level == 0 {
            found.added_us[0]
        } else {
            found.idle_us[0]
        };
        let ends = [found.requests.first(), found.requests.last()];
        let line = ends
            .into_iter()
            .flatten()
            .map(|one| (one.place as f64, mean));
        let label = "zernel's mean when all is steady again";
        shown.push(series(label, palette::INK, line.collect(), Mark::Dashed));
    }
    Chart {
        title: title.to_owned(),
        x: Axis::linear("requests since the preparation went from 150 to 400 µs"),
        y,
        series: shown,
    }
}

fn processes(
    all: &[Done],
    title: &str,
    y: Axis,
    ideal: Option<(&str, f64)>,
    figure: impl Fn(&Row) -> Option<f64>,
) -> Chart {
    let of = |mode: Mode| {
        let part = all.iter().filter(|done| done.section == Section::Processes);
        let points = part.filter_map(|done| {
            let value = rows(done, mode).find_map(&figure)?;
            Some((done.parameter?, value))
        });
        of_mode(mode, points.collect(), Mark::Line)
    };
    let mut shown: Vec<Series> = [Mode::Default, Mode::Gpreempt, Mode::Zernel].map(of).into();
    if let Some((name, value)) = ideal {
        let places: Vec<f64> = shown[2].points.iter().map(|point| point.0).collect();
        let line = places.into_iter().map(|place| (place, value));
        shown.push(series(name, palette::INK, line.collect(), Mark::Dashed));
    }
    Chart {
        title: format!("{title} against the number of BE processes"),
        x: Axis::linear("BE processes"),
        y,
        series: shown,
    }
}

fn latencies(all: &[Done], name: &str) -> Chart {
    let found = all.iter().find(|done| {
        done.workload == name
            && done.section == Section::Workloads
            && done.deployment == Deployment::PerClient
    });
    let curves = found.map(|done| done.curves.as_slice()).unwrap_or_default();
    distributions(
        format!("LC latency · {name}"),
        curves
            .iter()
            // With it there the others lie on each other.
            .filter(|(mode, _)| *mode != Mode::Default)
            .map(|(mode, points)| (label(*mode).to_owned(), colour(*mode), points.clone())),
    )
}
