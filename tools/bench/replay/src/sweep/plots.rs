// SPDX-License-Identifier: MIT OR Apache-2.0
//! Plots of sweeps that have more than one, or zernel with several settings in one.

use zernel_report::chart::{Axis, Chart, Mark, Series};
use zernel_report::palette;
use zernel_workload::Workload;

use super::objectives::{loaded, LOADS, TARGETS_US};
use super::{by_policy, Kind, Ran};
use crate::deadlines::Deadlines;
use crate::edf;
use crate::policies::Name;
use crate::world::Setting;

/// The cost of being late that zernel has by default, against 1 of being early.
const DEFAULT_LATE: f64 = 6.0;

/// The plots of a sweep of zernel's policies.
pub(super) fn of(
    kind: Kind,
    all: &[Ran],
    workload: &Workload,
    setting: &Setting,
) -> Vec<(&'static str, Chart)> {
    let load = || Axis::fitted("load by LC requests, % of the GPU");
    let of = |what: &str, x: Axis, y: Axis, series: Vec<Series>| Chart {
        title: format!("{what} · workload {}", workload.name),
        x,
        y,
        series,
    };
    let parameter = |ran: &Ran| ran.row.parameter;
    let by = |y: &dyn Fn(&Ran) -> f64| by_label(all, parameter, |ran| Some(y(ran)));
    let be = |x: Axis| {
        let y = Axis::linear("GPU time of BE, %");
        of("BE's share", x, y, by(&|ran| ran.row.be_percent))
    };
    let not_served = || {
        let y = Axis::linear("not served, % of the requests that were not refused");
        let series = by(&|ran| ran.row.lc_not_served_percent);
        of("LC requests that are never served", load(), y, series)
    };
    let percents = |name: &str| Axis::logarithmic(format!("{name}; 0.01: that or less"), 0.01);
    match kind {
        Kind::Deadlines => {
            let mut missed = by_label(all, parameter, |ran| Some(ran.row.missed?.percent));
            let failed = by_label(all, parameter, |ran| Some(ran.row.missed?.failed_percent));
            missed.push(possible(all, workload, setting));
            vec![
                (
                    "-not-in-time",
                    of(
                        "Requests late, refused or never served",
                        load(),
                        percents("not in time, % of all"),
                        failed,
                    ),
                ),
                (
                    "",
                    of(
                        "Requests that miss their deadline, of those that are served",
                        load(),
                        percents("missed, % of those served"),
                        missed,
                    ),
                ),
                ("-not-served", not_served()),
                ("-be", be(load())),
            ]
        }
        Kind::Target => vec![
            ("", target(all, workload)),
            ("-be", be(Axis::fitted("target, µs"))),
        ],
        Kind::Sharing => {
            let clients = || Axis::counts("LC clients");
            let held = by(&|ran| ran.row.held_percent);
            let added = by(&|ran| ran.row.lc_added.p99_ns as f64 / 1e3);
            vec![
                (
                    "",
                    of(
                        "GPU held for data while many LC clients share it",
                        clients(),
                        Axis::linear("GPU held for data, %"),
                        held,
                    ),
                ),
                (
                    "-added",
                    of(
                        "Added latency while many LC clients share it",
                        clients(),
                        Axis::linear("p99 of the added latency, µs"),
                        added,
                    ),
                ),
                ("-be", be(clients())),
            ]
        }
        Kind::Saturation => {
            let p99 = by(&|ran| ran.row.lc.p99_ns as f64 / 1e6);
            vec![
                (
                    "",
                    of(
                        "LC latency near saturation",
                        load(),
                        Axis::fitted("p99 of the LC latency, ms"),
                        p99.clone(),
                    ),
                ),
                (
                    "-against-gpreempt",
                    of(
                        "LC latency near saturation against gpreempt's",
                        load(),
                        Axis::fitted("p99 above gpreempt's, %"),
                        against(p99, "gpreempt"),
                    ),
                ),
                ("-not-served", not_served()),
                ("-be", be(load())),
            ]
        }
        _ => vec![("", features(all, workload))],
    }
}

/// The lowest share of requests that any order misses.
fn possible(all: &[Ran], workload: &Workload, setting: &Setting) -> Series {
    let deadlines = all.first().map_or(Deadlines::NONE, |ran| ran.deadlines);
    let points = LOADS.into_iter().filter_map(|load| {
        let missed = edf::missed(&loaded(workload, load), deadlines, setting.seed);
        Some((load, missed.ok()?))
    });
    let label = "EDF, free preemption, LC alone, all served";
    reference(label, points.collect())
}

fn target(all: &[Ran], workload: &Workload) -> Chart {
    let x = |ran: &Ran| Some(ran.row.parameter? / 1e3);
    let y = |ran: &Ran| Some(ran.row.lc.p99_ns as f64 / 1e6);
    let mut series = by_label(all, x, y);
    let ends = [TARGETS_US[0], TARGETS_US[TARGETS_US.len() - 1]].map(|us| f64::from(us) / 1e3);
    for ran in all.iter().filter(|ran| ran.row.parameter.is_none()) {
        series.push(Series {
            label: ran.row.policy.clone(),
            colour: palette::of_policy(&ran.row.policy),
            points: ends.iter().filter_map(|&x| Some((x, y(ran)?))).collect(),
            mark: Mark::Curve,
        });
    }
    let points = ends.iter().map(|&x| (x, x)).collect();
    series.push(reference("the target", points));
    Chart {
        title: format!(
            "p99 of LC latency against its target · workload {}",
            workload.name
        ),
        x: Axis::logarithmic("target, ms", 1.0),
        y: Axis::logarithmic("p99 of the LC latency, ms", 0.1),
        series,
    }
}

fn features(all: &[Ran], workload: &Workload) -> Chart {
    let x = |ran: &Ran| ran.row.held_percent;
    let y = |ran: &Ran| ran.row.lc_added.p99_ns as f64 / 1e3;
    let mut series = by_label(all, |ran| Some(x(ran)), |ran| Some(y(ran)));
    let usual = all
        .iter()
        .filter(|ran| ran.row.parameter == Some(DEFAULT_LATE));
    series.push(Series {
        label: "the default ratio, 1 : 6".to_owned(),
        colour: palette::INK,
        points: usual.map(|ran| (x(ran), y(ran))).collect(),
        mark: Mark::Hollow,
    });
    Chart {
        title: format!(
            "Prediction from features against the key alone · workload {}",
            workload.name
        ),
        x: Axis::linear("GPU held for data, %"),
        y: Axis::linear("p99 of the added latency, µs"),
        series,
    }
}

/// The plots of the error of a prediction: one for each unit.
pub(super) fn of_error(all: &[Ran], workload: &Workload) -> Vec<(&'static str, Chart)> {
    let x = |ran: &Ran| ran.row.parameter.unwrap_or(0.0);
    let series = |what: &str, colour, y: &dyn Fn(&Ran) -> f64| -> Vec<Series> {
        let each = by_policy(all, x, y).into_iter();
        each.map(|one| {
            let is_bound = one.label == Name::Bound.name();
            Series {
                label: format!("{}: {what}", one.label),
                colour: if is_bound { palette::BROWN } else { colour },
                mark: if is_bound { Mark::Hollow } else { one.mark },
                ..one
            }
        })
        .collect()
    };
    let chart = |what: &str, y: &str, series: Vec<Series>| Chart {
        title: format!(
            "{what} against the error of a prediction · workload {}",
            workload.name
        ),
        x: Axis::linear("standard deviation of the error, µs"),
        y: Axis::linear(y),
        series,
    };
    let p99 = |ran: &Ran| ran.row.lc_added.p99_ns as f64 / 1e3;
    let mean = |ran: &Ran| ran.row.lc_added_mean_ns / 1e3;
    let added = [
        series("added p99", palette::BLUE, &p99),
        series("added mean", palette::GREEN, &mean),
    ];
    let held = series("GPU held", palette::ORANGE, &|ran| ran.row.held_percent);
    vec![
        (
            "",
            chart("Added latency", "added latency, µs", added.concat()),
        ),
        (
            "-held",
            chart("GPU held for data", "GPU held for data, %", held),
        ),
    ]
}

/// Each series by how much it is above that of a name, in percent.
fn against(series: Vec<Series>, name: &str) -> Vec<Series> {
    let Some(other) = series.iter().find(|one| one.label == name).cloned() else {
        return series;
    };
    let above = |&(x, y): &(f64, f64)| {
        let (_, base) = other.points.iter().find(|point| point.0 == x)?;
        Some((x, 100.0 * (y / base - 1.0)))
    };
    let each = series.into_iter().map(|one| Series {
        points: one.points.iter().filter_map(above).collect(),
        ..one
    });
    each.collect()
}

fn reference(label: &str, points: Vec<(f64, f64)>) -> Series {
    Series {
        label: label.to_owned(),
        colour: palette::INK,
        points,
        mark: Mark::Dashed,
    }
}

/// The runs of each policy, its parameters included.
fn by_label(
    all: &[Ran],
    x: impl Fn(&Ran) -> Option<f64>,
    y: impl Fn(&Ran) -> Option<f64>,
) -> Vec<Series> {
    let mut series: Vec<Series> = Vec::new();
    for ran in all {
        let Some(point) = x(ran).zip(y(ran)) else {
            continue;
        };
        let label = match ran.row.policy.contains("shared") {
            true => ran.row.policy.clone(),
            false => label(&ran.row.policy),
        };
        match series.iter_mut().find(|one| one.label == label) {
            Some(one) => one.points.push(point),
            None => series.push(Series {
                colour: palette::of_policy(&label),
                label,
                points: vec![point],
                mark: Mark::Line,
            }),
        }
    }
    series
}

/// The policy without the ratio of its costs, which is the parameter.
fn label(policy: &str) -> String {
    let words = policy.split(' ').filter(|word| !word.contains(':'));
    words.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn costs_are_no_part_of_a_label() {
        assert_eq!(label("zernel features 1:99"), "zernel features");
        assert_eq!(label("zernel by level"), "zernel by level");
    }

    #[test]
    fn a_series_against_another_is_a_difference_in_percent() {
        let series = |label: &str, points: &[(f64, f64)]| Series {
            points: points.to_vec(),
            ..reference(label, Vec::new())
        };
        let base = series("base", &[(1.0, 10.0), (2.0, 20.0)]);
        let other = series("other", &[(2.0, 19.0), (3.0, 1.0)]);
        let found = against(vec![base.clone(), other.clone()], "base");
        assert_eq!(found[0].points, [(1.0, 0.0), (2.0, 0.0)]);
        assert_eq!(found[1].points.len(), 1);
        assert!((found[1].points[0].1 + 5.0).abs() < 1e-9);
        assert_eq!(against(vec![other], "base")[0].points.len(), 2);
    }
}
