// SPDX-License-Identifier: GPL-2.0
//! Several simulations beside each other: policies of a workload, and what changes with what.

use anyhow::{Context, Result};
use rayon::prelude::*;
use zernel_workload::{Preparation, Role, Workload};

use crate::bound::{at_random, Queue};
use crate::governor::{Options, Policy};
use crate::model::units::Us;
use crate::plot::{distribution, Chart, Mark, Series};
use crate::policy::level::Level;
use crate::sim;
use crate::table::Row;
use crate::world::Setting;

/// GPreempt's published added latency in µs, against the preparation in µs.
const PUBLISHED_SWEEP: [(f64, f64); 6] = [
    (0.0, 92.0),
    (50.0, 65.0),
    (100.0, 45.0),
    (150.0, 37.0),
    (200.0, 37.0),
    (250.0, 35.0),
];

/// Processes that the latency-critical requests of a sweep of the rate come from.
const PROCESSES: usize = 16;

/// A run to be made.
#[derive(Debug, Clone)]
pub(crate) struct Job {
    /// What a sweep changes.
    pub(crate) parameter: Option<f64>,
    /// The workload.
    pub(crate) workload: Workload,
    /// The policies, with what each is given.
    pub(crate) policies: Vec<(Policy, Options)>,
}

/// What came of a run.
#[derive(Debug, Clone)]
pub(crate) struct Ran {
    /// The policy.
    pub(crate) policy: Policy,
    /// Its figures.
    pub(crate) row: Row,
    /// Distribution of its latency-critical latencies.
    pub(crate) distribution: Vec<(f64, f64)>,
}

/// Makes all runs, as many at a time as there are processors; the results are in order, and the
/// same whatever their number.
pub(crate) fn run(jobs: &[Job], setting: Setting) -> Result<Vec<Ran>> {
    let rows: Result<Vec<Vec<Ran>>> = jobs.par_iter().map(|job| one(job, setting)).collect();
    Ok(rows?.into_iter().flatten().collect())
}

fn one(job: &Job, setting: Setting) -> Result<Vec<Ran>> {
    let name = &job.workload.name;
    let simulate = |policy: Policy, options: &Options| {
        sim::run(&job.workload, setting, policy.governor(options))
            .with_context(|| format!("cannot replay workload {name}"))
    };
    let alone = simulate(Policy::Exclusive, &Options::DEFAULT)?;
    job.policies
        .par_iter()
        .map(|(policy, options)| {
            let outcome = match policy {
                Policy::Exclusive => alone.clone(),
                _ => simulate(*policy, options)?,
            };
            let mut latencies = outcome.latencies(Role::Lc);
            latencies.sort_unstable();
            Ok(Ran {
                policy: *policy,
                row: Row::new(&job.workload, job.parameter, &outcome, &alone),
                distribution: distribution(&latencies),
            })
        })
        .collect()
}

/// What a sweep changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Kind {
    /// The preparation time of the latency-critical clients, 0 to 250 us. GPreempt is told.
    Prep,
    /// The rate of latency-critical requests, which arrive at random.
    Rate,
    /// The error of a policy that knows the future otherwise.
    Error,
    /// What being early costs zernel against being late, and GPreempt's constant.
    CostRatio,
}

impl Kind {
    /// Its name, which is that of its files too.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Prep => "prep",
            Self::Rate => "rate",
            Self::Error => "error",
            Self::CostRatio => "cost-ratio",
        }
    }

    /// The workload that it changes unless another one is named.
    pub(crate) const fn workload(self) -> &'static str {
        match self {
            Self::Prep | Self::Error => "B1",
            Self::Rate => "B0",
            Self::CostRatio => "J-uniform",
        }
    }

    /// The policies that it compares unless others are named.
    pub(crate) const fn policies(self) -> &'static [Policy] {
        match self {
            Self::Prep => &[Policy::Classes, Policy::Gpreempt, Policy::Zernel],
            Self::Rate => &[
                Policy::Default,
                Policy::Classes,
                Policy::Gpreempt,
                Policy::Zernel,
            ],
            Self::Error => &[Policy::Oracle],
            Self::CostRatio => &[Policy::Gpreempt, Policy::Zernel],
        }
    }

    /// What its parameter is called.
    pub(crate) const fn parameter(self) -> &'static str {
        match self {
            Self::Prep => "prep\nµs",
            Self::Rate => "LC\nreq/s",
            Self::Error => "error\nµs",
            Self::CostRatio => "late : early\nor lead µs",
        }
    }

    /// The runs that it takes.
    pub(crate) fn jobs(
        self,
        workload: &Workload,
        policies: &[Policy],
        options: Options,
    ) -> Vec<Job> {
        let with = |options: Options| policies.iter().map(|&policy| (policy, options)).collect();
        match self {
            Self::Prep => Workload::PREPARATION_SWEEP_US
                .into_iter()
                .map(|us| {
                    let mut options = options;
                    options.constants.preparation = Us(us as u32);
                    Job {
                        parameter: Some(us as f64),
                        workload: workload.clone().preparing(Preparation::Constant(us)),
                        policies: with(options),
                    }
                })
                .collect(),
            Self::Rate => (1..=8)
                .map(|step| f64::from(step) * 45.0)
                .map(|rate| Job {
                    parameter: Some(rate),
                    workload: at_random(workload, rate, PROCESSES),
                    policies: with(options),
                })
                .collect(),
            Self::Error => [0.0, 10.0, 20.0, 40.0, 70.0, 100.0, 150.0, 200.0, 300.0]
                .into_iter()
                .map(|error_us| Job {
                    parameter: Some(error_us),
                    workload: workload.clone(),
                    policies: with(Options {
                        error_us,
                        ..options
                    }),
                })
                .collect(),
            Self::CostRatio => {
                let only = |policy: Policy, parameter, options| Job {
                    parameter: Some(parameter),
                    workload: workload.clone(),
                    policies: policies
                        .iter()
                        .filter(|&&one| one == policy)
                        .map(|&one| (one, options))
                        .collect(),
                };
                let ratios = [1, 2, 4, 9, 19, 49, 99, 199, 999].map(|late| {
                    let mut options = options;
                    (options.zernel.early, options.zernel.late) = (1, late);
                    only(Policy::Zernel, f64::from(late), options)
                });
                // Of the two constants only the difference matters.
                let leads = [0, 50, 100, 150, 200, 250, 300, 350, 400, 500].map(|lead| {
                    let mut options = options;
                    options.constants.preparation = Us(lead);
                    options.constants.switch = Us(0);
                    only(Policy::Gpreempt, f64::from(lead), options)
                });
                ratios.into_iter().chain(leads).collect()
            }
        }
    }

    /// Its plot.
    pub(crate) fn chart(
        self,
        all: &[Ran],
        workload: &Workload,
        setting: &Setting,
    ) -> Chart<'static> {
        let us = |ns: f64| ns / 1e3;
        let title = |what: &str| format!("{what} · workload {}", workload.name);
        match self {
            Self::Prep => Chart {
                title: title("Added LC latency against preparation time"),
                axes: ("preparation, µs", "mean added latency, µs"),
                logarithmic: (false, false),
                series: {
                    let x = |ran: &Ran| ran.row.parameter.unwrap_or(0.0);
                    let mut series = by_policy(all, x, |ran| us(ran.row.lc_added_mean_ns));
                    series.push(Series {
                        label: "GPreempt as published".to_owned(),
                        points: PUBLISHED_SWEEP.to_vec(),
                        mark: Mark::Published,
                    });
                    series
                },
            },
            Self::Rate => Chart {
                title: title("LC latency and what is left for BE, at random arrivals"),
                axes: (
                    "BE throughput, requests/s",
                    "LC mean latency from the arrival, ms",
                ),
                logarithmic: (false, true),
                series: {
                    let x = |ran: &Ran| ran.row.be_rate;
                    let y = |ran: &Ran| ran.row.lc_with_queue.mean_ns / 1e6;
                    let mut series = by_policy(all, x, y);
                    series.extend(bounds(all, workload, setting));
                    series
                },
            },
            Self::Error => Chart {
                title: title("Sensitivity to the error of a prediction"),
                axes: (
                    "standard deviation of the error, µs",
                    "added latency, µs; GPU held, permille",
                ),
                logarithmic: (false, false),
                series: {
                    let x = |ran: &Ran| ran.row.parameter.unwrap_or(0.0);
                    let mut series = by_policy(all, x, |ran| us(ran.row.lc_added.p99_ns as f64));
                    rename(&mut series, "added p99");
                    let mut mean = by_policy(all, x, |ran| us(ran.row.lc_added_mean_ns));
                    rename(&mut mean, "added mean");
                    let mut held = by_policy(all, x, |ran| 10.0 * ran.row.held_percent);
                    rename(&mut held, "GPU held, permille");
                    series.extend(mean);
                    series.extend(held);
                    series
                },
            },
            Self::CostRatio => Chart {
                title: title("Waiting for the GPU against keeping it idle"),
                axes: ("GPU held for data, %", "p99 of the added latency, µs"),
                logarithmic: (false, false),
                series: by_policy(
                    all,
                    |ran| ran.row.held_percent,
                    |ran| us(ran.row.lc_added.p99_ns as f64),
                ),
            },
        }
    }
}

fn rename(series: &mut [Series], what: &str) {
    for one in series {
        one.label = format!("{}: {what}", one.label);
    }
}

fn by_policy(all: &[Ran], x: impl Fn(&Ran) -> f64, y: impl Fn(&Ran) -> f64) -> Vec<Series> {
    let mut series: Vec<(Policy, Series)> = Vec::new();
    for ran in all {
        let point = (x(ran), y(ran));
        match series.iter_mut().find(|(policy, _)| *policy == ran.policy) {
            Some((_, one)) => one.points.push(point),
            None => series.push((
                ran.policy,
                Series {
                    label: ran.policy.name().to_owned(),
                    points: vec![point],
                    mark: Mark::Line,
                },
            )),
        }
    }
    series.into_iter().map(|(_, one)| one).collect()
}

/// The analytic curves for the rates of a sweep.
fn bounds(all: &[Ran], workload: &Workload, setting: &Setting) -> Vec<Series> {
    let mut rates: Vec<f64> = all.iter().filter_map(|ran| ran.row.parameter).collect();
    rates.dedup();
    let slice = Level::BE.default_timeslice().0;
    let queue = |rate| Queue::of(workload, setting, slice, rate);
    let points = |latency: &dyn Fn(&Queue) -> Option<f64>, switch: bool| {
        let of = |&rate: &f64| {
            let mut queue = queue(rate);
            if !switch {
                queue.switch = 0.0;
            }
            Some((queue.left_over(), latency(&queue)? * 1e3))
        };
        rates.iter().filter_map(of).collect()
    };
    vec![
        Series {
            label: "M/G/1, preemption for nothing".to_owned(),
            points: points(&Queue::ideal, false),
            mark: Mark::Curve,
        },
        Series {
            label: "M/G/1, with switches and slices".to_owned(),
            points: points(&Queue::with_switches, true),
            mark: Mark::Curve,
        },
    ]
}

/// Plots of the policies of one workload: file names and charts.
pub(crate) fn charts(
    all: &[Ran],
    workload: &Workload,
    setting: &Setting,
) -> Vec<(String, Chart<'static>)> {
    let lc: f64 = workload
        .clients
        .iter()
        .filter(|one| one.role == Role::Lc)
        .map(|one| match one.arrival {
            zernel_workload::Arrival::Periodic(rate) | zernel_workload::Arrival::Poisson(rate) => {
                rate
            }
            zernel_workload::Arrival::Closed => 0.0,
        })
        .sum();
    let slice = Level::BE.default_timeslice().0;
    let mut queue = Queue::of(workload, setting, slice, lc);
    let mut frontier: Vec<Series> = all
        .iter()
        .map(|ran| Series {
            label: ran.row.policy.clone(),
            points: vec![(ran.row.be_rate, ran.row.lc.p99_ns as f64 / 1e6)],
            mark: Mark::Points,
        })
        .collect();
    // Best-effort clients that ask for less than is left are not bounded by it.
    let closed = workload
        .clients
        .iter()
        .any(|one| one.role == Role::Be && one.arrival == zernel_workload::Arrival::Closed);
    queue.switch = 0.0;
    if let (true, Some(ideal)) = (closed, queue.ideal()) {
        frontier.push(Series {
            label: "M/G/1 mean, preemption for nothing".to_owned(),
            points: vec![(queue.left_over(), ideal * 1e3)],
            mark: Mark::Published,
        });
    }
    let name = &workload.name;
    vec![
        (
            format!("frontier-{name}.svg"),
            Chart {
                title: format!("LC p99 against BE throughput · workload {name}"),
                axes: ("BE throughput, requests/s", "LC p99 latency, ms"),
                logarithmic: (false, true),
                series: frontier,
            },
        ),
        (
            format!("latency-{name}.svg"),
            Chart {
                title: format!("LC latency · workload {name}"),
                axes: ("latency, ms (logarithmic)", "requests within that time, %"),
                logarithmic: (true, false),
                series: all
                    .iter()
                    .map(|ran| Series {
                        label: ran.row.policy.clone(),
                        points: ran.distribution.clone(),
                        mark: Mark::Curve,
                    })
                    .collect(),
            },
        ),
    ]
}
