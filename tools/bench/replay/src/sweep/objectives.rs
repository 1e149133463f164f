// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sweeps of zernel's policies against the default and against the reference of each: deadlines, a
//! target, features, many clients.

use anyhow::{ensure, Result};
use zernel_workload::{Arrival, Network, Role, Workload};

use super::{Job, Kind};
use crate::deadlines::Deadlines;
use crate::model::measures::Us;
use crate::policies::{Name, Options};
use crate::policy::deadline::Order;
use crate::policy::predict::Kind as Predictor;
use crate::policy::slices::Policy as Slices;

/// Loads of [`Kind::Deadlines`] by latency-critical requests, in percent.
pub(super) const LOADS: [f64; 7] = [30.0, 50.0, 70.0, 85.0, 95.0, 110.0, 130.0];

/// The same of [`Kind::Saturation`].
const NEAR_LOADS: [f64; 6] = [50.0, 70.0, 80.0, 90.0, 100.0, 110.0];

/// Targets of [`Kind::Target`], in microseconds.
pub(super) const TARGETS_US: [u32; 8] = [2_600, 2_800, 3_000, 3_500, 4_000, 4_500, 5_000, 6_000];

/// Costs of being late against being early of [`Kind::Features`].
const LATE_COSTS: [u32; 9] = [1, 2, 3, 6, 12, 24, 49, 99, 199];

/// Latency-critical clients of [`Kind::Sharing`].
const SHARERS: [usize; 6] = [1, 2, 4, 8, 12, 16];

/// The cost of being early that sharers have there, against 6 of being late.
const SHARED_EARLY: u32 = 12;

/// Latency-critical clients of the workloads unless another number is asked for.
const CLIENTS: usize = 16;

/// The same of that of [`Kind::Saturation`].
const NEAR_CLIENTS: usize = 8;

/// A budget that bounds nothing: the whole period.
const NO_BUDGET: Us = Us(100_000);

/// Deadlines from the begin, of the clients in turn.
const DEADLINES: &str = "6000,15000,40000,120000";

/// The bursts of clients with deadlines, in turn, in microseconds.
const BURSTS_US: [u32; 4] = [800, 2_000, 1_200, 3_000];

/// The best-effort clients of both workloads.
const BE: &str = "  - {role: be, network: resnet152, arrival: closed}\n";

/// The workload of [`Kind::Deadlines`]: clients that together take all time of the GPU, the same part each.
pub(super) fn deadlines(clients: Option<usize>) -> Workload {
    let clients = clients.unwrap_or(CLIENTS);
    let mut text = "name: deadlines\n\
                    about: LC clients with bursts of 0.8 to 3 ms at random beside two BE clients\n\
                    seconds: 60\nclients:\n"
        .to_owned();
    for us in BURSTS_US.iter().cycle().take(clients) {
        let rate = 1e6 / (f64::from(*us) * clients as f64);
        text += &format!(
            "  - {{role: lc, network: {{name: of {us} us, service_us: {us}, kernels: 4}}, \
             arrival: {{poisson: {rate:.5}}}, prepare_us: 200}}\n"
        );
    }
    text += &BE.repeat(2);
    Workload::from_yaml(&text).expect("it is read in a test")
}

/// The workload of [`Kind::Sharing`]: clients whose preparations vary.
pub(super) fn sharing(clients: Option<usize>) -> Workload {
    let text = "name: sharing\n\
                about: LC clients at 15 requests/s with preparations of 20 to 900 us beside two BE \
                clients\nseconds: 60\nclients:\n"
        .to_owned()
        + &"  - {role: lc, network: bert, arrival: {poisson: 15}, \
            prepare_us: {uniform: {low: 20, high: 900}}}\n"
            .repeat(clients.unwrap_or(CLIENTS))
        + BE
        + &BE.replace("resnet152", "densenet");
    Workload::from_yaml(&text).expect("it is read in a test")
}

/// The workload of [`Kind::Saturation`]: clients that together take all time of the GPU.
pub(super) fn saturation(clients: Option<usize>) -> Workload {
    let clients = clients.unwrap_or(NEAR_CLIENTS);
    let rate = 1.0 / (Network::Vgg.service().as_secs_f64() * clients as f64);
    let text = "name: saturation\n\
                about: LC clients whose preparations vary, at random, beside four BE clients\n\
                seconds: 60\nclients:\n"
        .to_owned()
        + &format!(
            "  - {{role: lc, network: vgg, arrival: {{poisson: {rate:.5}}}, \
             prepare_us: {{uniform: {{low: 20, high: 900}}}}}}\n"
        )
        .repeat(clients)
        + &(BE.to_owned() + &BE.replace("resnet152", "densenet")).repeat(2);
    Workload::from_yaml(&text).expect("it is read in a test")
}

/// Checks that the load of a workload can be changed.
pub(super) fn check(workload: &Workload) -> Result<()> {
    for one in workload.clients.iter().filter(|one| one.role == Role::Lc) {
        ensure!(
            matches!(one.arrival, Arrival::Poisson(_)),
            "{} is a latency-critical client whose requests do not arrive at random; this sweep takes \
             {{poisson: …}}",
            one.network.name()
        );
    }
    Ok(())
}

/// The runs of a sweep.
pub(super) fn jobs(
    kind: Kind,
    workload: &Workload,
    policies: &[Name],
    options: Options,
) -> Vec<Job> {
    let job = |parameter, policies: Vec<(Name, Options)>| Job {
        parameter,
        workload: workload.clone(),
        policies,
    };
    match kind {
        Kind::Deadlines => {
            let mut options = options;
            if options.zernel.deadlines.is_empty() {
                options.zernel.deadlines = told();
            }
            let of = |load: f64| Job {
                workload: loaded(workload, load),
                ..job(Some(load), variants(policies, options))
            };
            LOADS.into_iter().map(of).collect()
        }
        Kind::Target => {
            let mut fixed = Vec::new();
            let mut steps = Vec::new();
            for &policy in policies {
                fixed.push((policy, options));
                if policy == Name::Zernel {
                    let mut slices = options;
                    slices.zernel.rotate = false;
                    fixed.push((policy, slices));
                    slices.zernel.slices = Slices::Pid;
                    steps.extend(TARGETS_US.map(|target| {
                        slices.zernel.target = Us(target);
                        job(Some(f64::from(target)), vec![(policy, slices)])
                    }));
                }
            }
            steps.push(job(None, fixed));
            steps
        }
        Kind::Sharing => {
            let all = workload.clients.iter();
            let lc = all.filter(|one| one.role == Role::Lc).count();
            let mut shared = options;
            shared.zernel.shared_early = Some(SHARED_EARLY);
            let each: Vec<_> = policies
                .iter()
                .flat_map(|&policy| {
                    let more = (policy == Name::Zernel).then_some((policy, shared));
                    [Some((policy, options)), more].into_iter().flatten()
                })
                .collect();
            let numbers = SHARERS.into_iter().filter(|&number| number <= lc);
            let of = |number| Job {
                workload: first(workload, number),
                ..job(Some(number as f64), each.clone())
            };
            numbers.map(of).collect()
        }
        Kind::Saturation => {
            let mut unbound = options;
            unbound.zernel.budget = NO_BUDGET;
            let mut shared = unbound;
            shared.zernel.shared_early = Some(SHARED_EARLY);
            let each: Vec<_> = policies
                .iter()
                .flat_map(|&policy| {
                    let more = [unbound, shared].map(|options| (policy, options));
                    let more = more.into_iter().filter(move |_| policy == Name::Zernel);
                    [(policy, options)].into_iter().chain(more)
                })
                .collect();
            let of = |load| Job {
                workload: loaded(workload, load),
                ..job(Some(load), each.clone())
            };
            NEAR_LOADS.into_iter().map(of).collect()
        }
        _ => {
            let (zernel, others): (Vec<Name>, Vec<Name>) = policies
                .iter()
                .copied()
                .partition(|&policy| policy == Name::Zernel);
            let mut all: Vec<Job> = Vec::new();
            for late in LATE_COSTS {
                let with = |predictor| {
                    let mut options = options;
                    options.zernel.late = late;
                    options.zernel.kind = predictor;
                    options
                };
                let kinds = [Predictor::Quantile, Predictor::Features];
                let each = zernel
                    .iter()
                    .flat_map(|&policy| kinds.map(|predictor| (policy, with(predictor))));
                all.push(job(Some(f64::from(late)), each.collect()));
            }
            let others = others.into_iter().map(|policy| (policy, options));
            all.push(job(None, others.collect()));
            all.retain(|job| !job.policies.is_empty());
            all
        }
    }
}

fn told() -> Deadlines {
    Deadlines::parse(DEADLINES).expect("it is read in a test")
}

/// The workload with so many of its latency-critical clients, and all best-effort ones.
fn first(workload: &Workload, number: usize) -> Workload {
    let mut changed = workload.clone();
    let mut left = number;
    changed.clients.retain(|one| {
        let is_lc = one.role == Role::Lc;
        let stays = !is_lc || left > 0;
        left -= usize::from(is_lc && stays);
        stays
    });
    changed
}

/// The workload with a share of its latency-critical rates, which are those of the whole time.
pub(super) fn loaded(workload: &Workload, percent: f64) -> Workload {
    let mut changed = workload.clone();
    for one in &mut changed.clients {
        if let (Role::Lc, Arrival::Poisson(rate)) = (one.role, &mut one.arrival) {
            *rate *= percent / 100.0;
        }
    }
    changed
}

/// zernel in each way that it has for deadlines; the others as they are.
fn variants(policies: &[Name], options: Options) -> Vec<(Name, Options)> {
    let mut all = Vec::new();
    for &policy in policies {
        all.push((policy, options));
        if policy == Name::Zernel {
            let mut more = [options; 6];
            more[0].zernel.by_level = true;
            more[1].zernel.by_level = true;
            more[1].zernel.slices = Slices::Exponential;
            more[2].zernel.slices = Slices::Slack;
            more[3].zernel.rule.order = Order::Edf;
            more[4].zernel.rule.order = Order::EdfPreemptive;
            more[5].zernel.rule.order = Order::Edf;
            more[5].zernel.admit = true;
            all.extend(more.map(|options| (policy, options)));
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_whole_load_is_the_time_of_the_gpu() {
        for clients in [None, Some(2), Some(7), Some(16)] {
            let workload = deadlines(clients);
            let lc = workload.clients.iter().filter(|one| one.role == Role::Lc);
            assert_eq!(lc.clone().count(), clients.unwrap_or(CLIENTS));
            let load: f64 = lc
                .filter_map(|one| {
                    let rate = one.arrival.rate(workload.duration())?;
                    Some(rate * one.network.service().as_secs_f64())
                })
                .sum();
            assert!((load - 1.0).abs() < 1e-3, "{load}");
            assert!(check(&workload).is_ok());
        }
        let rate = saturation(None).clients[0]
            .arrival
            .rate(Duration::from_secs(60));
        let load = rate.unwrap() * NEAR_CLIENTS as f64 * Network::Vgg.service().as_secs_f64();
        assert!((load - 1.0).abs() < 1e-3, "{load}");
        assert!(!told().is_empty());
        assert!(check(&Workload::built_in("A").unwrap()).is_err());
    }

    #[test]
    fn the_first_sharers_stay_with_all_best_effort_clients() {
        let workload = sharing(Some(5));
        let roles = |workload: &Workload| -> Vec<Role> {
            workload.clients.iter().map(|one| one.role).collect()
        };
        assert_eq!(
            roles(&first(&workload, 2)),
            [Role::Lc, Role::Lc, Role::Be, Role::Be]
        );
        assert_eq!(roles(&first(&workload, 9)), roles(&workload));
    }
}
