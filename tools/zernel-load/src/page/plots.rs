// SPDX-License-Identifier: GPL-2.0
//! Which plots the page has.

use anyhow::Result;
use plotters::style::RGBColor;

use super::chart::{Chart, Series};
use super::line::PUBLISHED_SWEEP;
use crate::outcome::{Deployment, Mode};
use crate::report::{colour, label, palette};
use crate::suite::{Done, Section};
use crate::table::Row;

/// Modes in which the GPU is shared.
const SHARED: [Mode; 4] = [Mode::Default, Mode::Classes, Mode::Gpreempt, Mode::Zernel];

/// All plots for which there are results, as SVG.
pub fn all(all: &[Done]) -> Result<Vec<String>> {
    let mut charts = vec![
        workloads(
            all,
            "Mean added LC latency",
            "µs (logarithmic)",
            true,
            |row| row.lc_added_us,
        ),
        workloads(
            all,
            "p99 of the added LC latency",
            "µs (logarithmic)",
            true,
            |row| row.lc_added_at_us.map(|us| us[1]),
        ),
        workloads(all, "GPU time of best-effort clients", "%", false, |row| {
            Some(row.be_gpu_percent)
        }),
        preparation(all),
        frontier(all),
        processes(all, "GPU time of best-effort clients", "%", |row| {
            Some(row.be_gpu_percent)
        }),
        processes(all, "p99 of the added LC latency", "µs", |row| {
            row.lc_added_at_us.map(|us| us[1])
        }),
    ];
    charts.extend(["B1", "C", "Z"].map(|name| latencies(all, name)));
    let mut drawn = Vec::new();
    for chart in &charts {
        drawn.extend(chart.svg()?);
    }
    Ok(drawn)
}

fn of_mode(mode: Mode, points: Vec<(f64, f64)>, line: bool) -> Series {
    Series {
        label: label(mode).to_owned(),
        colour: colour(mode),
        points,
        line,
        hollow: false,
    }
}

fn published(label: &str, points: Vec<(f64, f64)>, colour: RGBColor) -> Series {
    Series {
        label: label.to_owned(),
        colour,
        points,
        line: false,
        hollow: true,
    }
}

fn rows(done: &Done, mode: Mode) -> impl Iterator<Item = &Row> {
    done.rows.iter().filter(move |row| row.mode == mode)
}

/// A figure of every workload with a process per client.
fn workloads(
    all: &[Done],
    title: &str,
    unit: &str,
    logarithmic: bool,
    figure: impl Fn(&Row) -> Option<f64>,
) -> Chart {
    let part: Vec<&Done> = all
        .iter()
        .filter(|done| matches!(done.section, Section::Workloads | Section::Jitter))
        .collect();
    let of = |mode: Mode| {
        let points = part.iter().enumerate().filter_map(|(place, done)| {
            let value = rows(done, mode).find_map(&figure)?;
            Some((place as f64, value))
        });
        of_mode(mode, points.collect(), false)
    };
    Chart {
        title: title.to_owned(),
        axes: ("workload, a process per client".to_owned(), unit.to_owned()),
        names: part.iter().map(|done| done.workload.clone()).collect(),
        logarithmic,
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
        of_mode(mode, points.collect(), true)
    };
    let mut series: Vec<Series> = [Mode::Classes, Mode::Gpreempt, Mode::Zernel].map(of).into();
    if part().next().is_some() {
        let points = PUBLISHED_SWEEP.to_vec();
        series.push(published("GPreempt, published", points, palette::INK));
    }
    Chart {
        title: "Added LC latency against preparation time · B1".to_owned(),
        axes: (
            "preparation, µs".to_owned(),
            "mean added latency, µs".to_owned(),
        ),
        names: Vec::new(),
        logarithmic: false,
        series,
    }
}

/// Of every jitter workload and every variant of it: held GPU time against the tail.
fn frontier(all: &[Done]) -> Chart {
    let point = |row: &Row| Some((row.held_percent, row.lc_added_at_us?[1]));
    let of = |section: Section, mode: Mode| -> Vec<(f64, f64)> {
        let part = all.iter().filter(|done| done.section == section);
        part.flat_map(|done| rows(done, mode))
            .filter_map(point)
            .collect()
    };
    let others = |mode: Mode, what: &str| Series {
        label: format!("{}, {what}", label(mode)),
        hollow: true,
        ..of_mode(mode, of(Section::Frontier, mode), false)
    };
    Chart {
        title: "Waiting for the GPU against keeping it idle · jitter suite".to_owned(),
        axes: (
            "GPU held for data, %".to_owned(),
            "p99 of the added latency, µs".to_owned(),
        ),
        names: Vec::new(),
        logarithmic: false,
        series: vec![
            of_mode(Mode::Gpreempt, of(Section::Jitter, Mode::Gpreempt), false),
            others(Mode::Gpreempt, "other constants"),
            of_mode(Mode::Zernel, of(Section::Jitter, Mode::Zernel), false),
            others(Mode::Zernel, "other costs"),
        ],
    }
}

fn processes(all: &[Done], title: &str, unit: &str, figure: impl Fn(&Row) -> Option<f64>) -> Chart {
    let of = |mode: Mode| {
        let part = all.iter().filter(|done| done.section == Section::Processes);
        let points = part.filter_map(|done| {
            let value = rows(done, mode).find_map(&figure)?;
            Some((done.parameter?, value))
        });
        of_mode(mode, points.collect(), true)
    };
    Chart {
        title: format!("{title} against the number of BE processes"),
        axes: ("BE processes".to_owned(), unit.to_owned()),
        names: Vec::new(),
        logarithmic: false,
        series: [Mode::Gpreempt, Mode::Zernel].map(of).into(),
    }
}

fn latencies(all: &[Done], name: &str) -> Chart {
    let found = all.iter().find(|done| {
        done.workload == name
            && done.section == Section::Workloads
            && done.deployment == Deployment::PerClient
    });
    let curves = found.map(|done| done.curves.as_slice()).unwrap_or_default();
    Chart {
        title: format!("LC latency · {name}"),
        axes: (
            "latency, ms".to_owned(),
            "requests within that time, %".to_owned(),
        ),
        names: Vec::new(),
        logarithmic: false,
        series: curves
            .iter()
            // In its own scale it would hide the others.
            .filter(|(mode, _)| *mode != Mode::Default)
            .map(|(mode, points)| of_mode(*mode, points.clone(), true))
            .collect(),
    }
}
