// SPDX-License-Identifier: MIT OR Apache-2.0
//! Several simulations beside each other: policies of a workload, and the effect of a parameter.

mod arrivals;
mod frontier;
mod load;
mod objectives;
mod plots;

use anyhow::{Context, Result};
use rayon::prelude::*;
use zernel_report::chart::{distribution, distributions, Axis, Chart, Mark, Series};
use zernel_report::palette;
use zernel_workload::{Arrival, Preparation, Published, Role, Workload};

pub(crate) use self::arrivals::at_random;
use self::arrivals::loaded;
pub(crate) use self::load::Load;
use crate::bound::{Priorities, Queue};
use crate::deadlines::Deadlines;
use crate::model::measures::Us;
use crate::model::preset::Preset;
use crate::policies::{Name, Options};
use crate::policy::level::Level;
use crate::sim;
use crate::table::Row;
use crate::world::Setting;

/// Points of a distribution that are drawn.
const POINTS: usize = 1_500;

/// Best-effort rates of [`Kind::BeRate`], in percent of those of the workload.
const BE_PERCENT: [f64; 6] = [2.5, 5.0, 10.0, 15.0, 20.0, 25.0];

/// Errors of [`Kind::Error`], in microseconds.
const ERRORS_US: [f64; 9] = [0.0, 10.0, 20.0, 40.0, 70.0, 100.0, 150.0, 200.0, 300.0];

/// Processes that the latency-critical requests of a sweep of the rate come from.
const PROCESSES: usize = 16;

/// A run to be made.
#[derive(Debug, Clone)]
pub(crate) struct Job {
    /// The parameter that a sweep changes.
    pub(crate) parameter: Option<f64>,
    /// The workload.
    pub(crate) workload: Workload,
    /// The policies, with the parameters of each.
    pub(crate) policies: Vec<(Name, Options)>,
}

/// The outcome of a run.
#[derive(Debug, Clone)]
pub(crate) struct Ran {
    /// The policy.
    pub(crate) policy: Name,
    /// Its figures.
    pub(crate) row: Row,
    /// Distribution of its latency-critical latencies.
    pub(crate) distribution: Vec<(f64, f64)>,
    /// The deadlines of its clients.
    pub(crate) deadlines: Deadlines,
}

/// Makes all runs, as many at a time as there are processors; the results are in order, and the
/// same for any number.
pub(crate) fn run(jobs: &[Job], setting: Setting) -> Result<Vec<Ran>> {
    let rows: Result<Vec<Vec<Ran>>> = jobs.par_iter().map(|job| one(job, setting)).collect();
    Ok(rows?.into_iter().flatten().collect())
}

fn one(job: &Job, setting: Setting) -> Result<Vec<Ran>> {
    let name = &job.workload.name;
    let simulate = |policy: Name, options: &Options| {
        sim::run(&job.workload, setting, policy.policy(options))
            .with_context(|| format!("cannot replay workload {name}"))
    };
    let alone = simulate(Name::Exclusive, &Options::DEFAULT)?;
    job.policies
        .par_iter()
        .map(|(policy, options)| {
            let outcome = match policy {
                Name::Exclusive => alone.clone(),
                _ => simulate(*policy, options)?,
            };
            let latencies = outcome.sorted_latencies(Role::Lc);
            Ok(Ran {
                policy: *policy,
                row: Row {
                    missed: options.zernel.deadlines.missed(&outcome),
                    ..Row::new(&job.workload, job.parameter, &outcome, &alone)
                },
                distribution: distribution(&latencies, POINTS),
                deadlines: options.zernel.deadlines,
            })
        })
        .collect()
}

/// The parameter that a sweep changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Kind {
    /// The preparation time of the latency-critical clients, 0 to 250 us. GPreempt is told.
    Prep,
    /// The rate of latency-critical requests, which arrive at random: as `poisson`, in place of a
    /// trace or of any other arrival of the workload.
    Rate,
    /// The error of a policy that knows the future otherwise.
    Error,
    /// The cost of being early against being late, and GPreempt's two constants.
    Frontier,
    /// The rate of best-effort requests: their response. All requests arrive at random, in place of
    /// any other arrival with a rate.
    BeRate,
    /// The same from none to more than there is time for: the response of latency-critical ones.
    BeLoad,
    /// The load by latency-critical requests with deadlines, 30 to 130 %: those that miss them.
    Deadlines,
    /// The target of slices that follow the latency.
    Target,
    /// The cost of being early against being late, with prediction from features and without.
    Features,
    /// The number of latency-critical clients, with a cost of its own for those that share and without.
    Sharing,
    /// The load by many latency-critical clients, with a budget of their level and without.
    Saturation,
}

impl Kind {
    /// Its name, which is that of its files too.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Prep => "prep",
            Self::Rate => "rate",
            Self::Error => "error",
            Self::Frontier => "frontier",
            Self::BeRate => "be-rate",
            Self::BeLoad => "be-load",
            Self::Deadlines => "deadlines",
            Self::Target => "target",
            Self::Features => "features",
            Self::Sharing => "sharing",
            Self::Saturation => "saturation",
        }
    }

    /// True if its own workload has any number of latency-critical clients.
    pub(crate) const fn counts_clients(self) -> bool {
        matches!(self, Self::Deadlines | Self::Sharing | Self::Saturation)
    }

    /// The workload that it changes unless another one is named. `clients`: of those that are
    /// latency-critical, where it counts them.
    pub(crate) fn workload(self, clients: Option<usize>) -> Workload {
        let name = match self {
            Self::Prep | Self::Error => "B1",
            Self::Rate => "B0",
            Self::Frontier => "J-uniform",
            Self::BeRate => "E",
            Self::BeLoad => return Load::workload(),
            Self::Deadlines => return objectives::deadlines(clients),
            Self::Sharing => return objectives::sharing(clients),
            Self::Saturation => return objectives::saturation(clients),
            Self::Target => "C",
            Self::Features => "F-linear",
        };
        Workload::built_in(name).expect("each is built in, as every sweep is tested")
    }

    /// The GPU that it is about unless another one is named.
    pub(crate) const fn preset(self) -> &'static Preset {
        match self {
            Self::BeLoad => &Load::PRESET,
            _ => &Preset::A100,
        }
    }

    /// The policies that it compares unless others are named.
    pub(crate) const fn policies(self) -> &'static [Name] {
        match self {
            Self::Prep | Self::BeRate => &[
                Name::Classes,
                Name::Gpreempt,
                Name::Zernel,
                Name::Oracle,
                Name::Bound,
            ],
            Self::Rate => &[
                Name::Default,
                Name::Classes,
                Name::Gpreempt,
                Name::Zernel,
                Name::Oracle,
                Name::Bound,
            ],
            Self::Error => &[Name::Oracle, Name::Bound],
            Self::Frontier => &[Name::Gpreempt, Name::Zernel, Name::Oracle, Name::Bound],
            Self::BeLoad => &Load::POLICIES,
            Self::Deadlines | Self::Target => &[Name::Default, Name::Zernel],
            Self::Features => &[Name::Zernel, Name::Oracle, Name::Bound],
            Self::Sharing => &[Name::Gpreempt, Name::Zernel, Name::Oracle, Name::Bound],
            // The bound is none of several clients: near saturation it has a higher p99 than others.
            Self::Saturation => &[Name::Gpreempt, Name::Zernel, Name::Oracle],
        }
    }

    /// The name of its parameter.
    pub(crate) const fn parameter(self) -> &'static str {
        match self {
            Self::Prep => "prep\nµs",
            Self::Rate => "LC\nreq/s",
            Self::Error => "error\nµs",
            Self::Frontier => "late : early\nor lead µs",
            Self::BeRate => "BE rate\n%",
            Self::BeLoad => "BE\narrive/s",
            Self::Deadlines => "load\n%",
            Self::Target => "target\nµs",
            Self::Features => "late\n: early",
            Self::Sharing => "LC\nclients",
            Self::Saturation => "load\n%",
        }
    }

    /// Checks that it can change this workload.
    pub(crate) fn accepts(self, workload: &Workload) -> Result<()> {
        let shares = match self {
            Self::Rate => false,
            Self::BeRate | Self::BeLoad => true,
            Self::Prep
            | Self::Error
            | Self::Frontier
            | Self::Target
            | Self::Features
            | Self::Sharing => return Ok(()),
            Self::Deadlines | Self::Saturation => {
                return objectives::check(workload).with_context(|| {
                    format!("sweep {} of workload {}", self.name(), workload.name)
                })
            }
        };
        arrivals::check(workload, shares)
            .with_context(|| format!("sweep {} of workload {}", self.name(), workload.name))
    }

    /// The runs that it takes.
    pub(crate) fn jobs(self, workload: &Workload, policies: &[Name], options: Options) -> Vec<Job> {
        let with = |options: Options| -> Vec<(Name, Options)> {
            policies.iter().map(|&policy| (policy, options)).collect()
        };
        match self {
            Self::Prep => Published::PREPARATION_SWEEP
                .into_iter()
                .map(|(us, _)| {
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
            Self::Error => {
                // The bound has no error: one run, without the parameter.
                let (bound, others): (Vec<_>, Vec<_>) = with(options)
                    .into_iter()
                    .partition(|(policy, _)| *policy == Name::Bound);
                let job = |parameter, policies: Vec<(Name, Options)>| Job {
                    parameter,
                    workload: workload.clone(),
                    policies,
                };
                let steps = ERRORS_US.into_iter().map(|error_us| {
                    let changed = |&(policy, options)| {
                        (
                            policy,
                            Options {
                                error_us,
                                ..options
                            },
                        )
                    };
                    job(Some(error_us), others.iter().map(changed).collect())
                });
                let last = (!bound.is_empty()).then(|| job(None, bound));
                steps.chain(last).collect()
            }
            Self::BeRate => BE_PERCENT
                .into_iter()
                .map(|percent| Job {
                    parameter: Some(percent),
                    workload: loaded(workload, percent, PROCESSES),
                    policies: with(options),
                })
                .collect(),
            Self::BeLoad => Load::steps(workload)
                .map(|(rate, workload)| Job {
                    parameter: Some(rate),
                    workload,
                    policies: with(options),
                })
                .collect(),
            Self::Frontier => frontier::jobs(workload, policies, options),
            Self::Deadlines | Self::Target | Self::Features | Self::Sharing | Self::Saturation => {
                objectives::jobs(self, workload, policies, options)
            }
        }
    }

    /// Its plots, each with what the name of its file has behind that of the sweep.
    pub(crate) fn charts(
        self,
        all: &[Ran],
        workload: &Workload,
        setting: &Setting,
    ) -> Vec<(&'static str, Chart)> {
        match self {
            Self::Deadlines | Self::Target | Self::Features | Self::Sharing | Self::Saturation => {
                plots::of(self, all, workload, setting)
            }
            Self::Error => plots::of_error(all, workload),
            _ => vec![("", self.chart(all, workload, setting))],
        }
    }

    fn chart(self, all: &[Ran], workload: &Workload, setting: &Setting) -> Chart {
        let us = |ns: f64| ns / 1e3;
        let title = |what: &str| format!("{what} · workload {}", workload.name);
        let parameter = |ran: &Ran| ran.row.parameter.unwrap_or(0.0);
        match self {
            Self::Prep => Chart {
                title: title("Added LC latency against preparation time"),
                x: Axis::linear("preparation, µs"),
                y: Axis::linear("mean added latency, µs"),
                series: {
                    let mut series = by_policy(all, parameter, |ran| us(ran.row.lc_added_mean_ns));
                    series.push(Series {
                        label: "GPreempt as published".to_owned(),
                        colour: palette::INK,
                        points: Published::preparation_sweep(),
                        mark: Mark::Hollow,
                    });
                    series
                },
            },
            Self::Rate => Chart {
                title: title("LC latency and what is left for BE, at random arrivals"),
                x: Axis::linear("BE throughput, requests/s"),
                y: Axis::logarithmic("LC mean latency from the arrival, ms", 0.1),
                series: {
                    let x = |ran: &Ran| ran.row.be_rate;
                    let y = |ran: &Ran| ran.row.lc_with_queue.mean_ns / 1e6;
                    let mut series = by_policy(all, x, y);
                    series.extend(bounds(all, workload, setting));
                    series
                },
            },
            Self::BeRate => Chart {
                title: title("BE response at random arrivals"),
                x: Axis::linear("BE requests/s that arrive"),
                y: Axis::logarithmic("BE mean response from the arrival, ms", 0.1),
                series: {
                    let x = |ran: &Ran| Priorities::be_rate(workload, parameter(ran));
                    let y = |ran: &Ran| ran.row.be_with_queue.mean_ns / 1e6;
                    let mut series = by_policy(all, x, y);
                    series.extend(responses(workload, setting));
                    series
                },
            },
            Self::BeLoad => Chart {
                title: title("LC latency against the rate of BE requests"),
                x: Axis::linear("BE requests/s that arrive"),
                y: Axis::logarithmic("LC latency from the arrival, p99 but for means, ms", 0.1),
                series: {
                    let y = |ran: &Ran| ran.row.lc_with_queue.p99_ns as f64 / 1e6;
                    let mut series = by_policy(all, parameter, y);
                    let switch = setting.preset.switch_cost().0 as f64 * 2.0 / 1e9;
                    series.extend(Load::curves(workload, switch));
                    series
                },
            },
            _ => Chart {
                title: title("Waiting for the GPU against keeping it idle"),
                x: Axis::linear("GPU held for data, %"),
                y: Axis::linear("p99 of the added latency, µs"),
                series: by_policy(
                    all,
                    |ran| ran.row.held_percent,
                    |ran| us(ran.row.lc_added.p99_ns as f64),
                ),
            },
        }
    }
}

fn by_policy(all: &[Ran], x: impl Fn(&Ran) -> f64, y: impl Fn(&Ran) -> f64) -> Vec<Series> {
    let mut series: Vec<(Name, Series)> = Vec::new();
    for ran in all {
        let point = (x(ran), y(ran));
        match series.iter_mut().find(|(policy, _)| *policy == ran.policy) {
            Some((_, one)) => one.points.push(point),
            None => series.push((
                ran.policy,
                Series {
                    label: ran.policy.name().to_owned(),
                    colour: palette::of_policy(ran.policy.name()),
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
    let queue = |rate| Queue::of(&at_random(workload, rate, 1), setting, slice, rate);
    let points = |latency: &dyn Fn(&Queue) -> Option<f64>, switch: bool| {
        let of = |&rate: &f64| {
            let mut queue = queue(rate)?;
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
            colour: palette::INK,
            points: points(&Queue::ideal, false),
            mark: Mark::Dashed,
        },
        Series {
            label: "M/G/1, with switches and slices".to_owned(),
            colour: palette::PURPLE,
            points: points(&Queue::with_switches, true),
            mark: Mark::Dashed,
        },
    ]
}

/// The analytic curves of best-effort responses.
fn responses(workload: &Workload, setting: &Setting) -> Vec<Series> {
    let points = |switch: f64| {
        let steps = (1..=120).map(|step| f64::from(step) * 0.25);
        let of = |percent| {
            let queue = Priorities::of(workload, percent)?;
            Some((queue.below.rate, queue.response_below(switch)? * 1e3))
        };
        steps
            .filter_map(of)
            .filter(|point| point.1 < 200.0)
            .collect()
    };
    let switch = setting.preset.switch_cost().0 as f64 * 2.0 / 1e9;
    let series = |label: &str, colour, switch| Series {
        label: label.to_owned(),
        colour,
        points: points(switch),
        mark: Mark::Dashed,
    };
    vec![
        series(
            "M/G/1 with priorities, preemption for nothing",
            palette::INK,
            0.0,
        ),
        series("the same, with switches", palette::PURPLE, switch),
    ]
}

/// Plots of the policies of one workload: file names and charts.
pub(crate) fn charts(all: &[Ran], workload: &Workload, setting: &Setting) -> Vec<(String, Chart)> {
    let lc: f64 = workload
        .clients
        .iter()
        .filter(|one| one.role == Role::Lc)
        .filter_map(|one| one.arrival.rate(workload.duration()))
        .sum();
    let slice = Level::BE.default_timeslice().0;
    let queue = Queue::of(workload, setting, slice, lc);
    let mut frontier: Vec<Series> = all
        .iter()
        .map(|ran| Series {
            label: ran.row.policy.clone(),
            colour: palette::of_policy(ran.policy.name()),
            points: vec![(ran.row.be_rate, ran.row.lc.p99_ns as f64 / 1e6)],
            mark: Mark::Points,
        })
        .collect();
    // Best-effort clients that ask for less than is left are not bounded by it.
    let closed = workload
        .clients
        .iter()
        .any(|one| one.role == Role::Be && one.arrival == Arrival::Closed);
    let free = queue.map(|queue| Queue {
        switch: 0.0,
        ..queue
    });
    let ideal = free.and_then(|queue| Some((queue.left_over(), queue.ideal()? * 1e3)));
    if let (true, Some(point)) = (closed, ideal) {
        frontier.push(Series {
            label: "M/G/1 mean, preemption for nothing".to_owned(),
            colour: palette::INK,
            points: vec![point],
            mark: Mark::Hollow,
        });
    }
    let name = &workload.name;
    let curves = all.iter().map(|ran| {
        let colour = palette::of_policy(ran.policy.name());
        (ran.row.policy.clone(), colour, ran.distribution.clone())
    });
    vec![
        (
            format!("frontier-{name}.svg"),
            Chart {
                title: format!("LC p99 against BE throughput · workload {name}"),
                x: Axis::linear("BE throughput, requests/s"),
                y: Axis::logarithmic("LC p99 latency, ms", 0.1),
                series: frontier,
            },
        ),
        (
            format!("latency-{name}.svg"),
            distributions(format!("LC latency · workload {name}"), curves),
        ),
    ]
}
