// SPDX-License-Identifier: MIT OR Apache-2.0
//! The sweep of the constants that trade latency for GPU time.

use zernel_workload::Workload;

use super::Job;
use crate::model::measures::Us;
use crate::policies::{Name, Options};

/// The cost of being late for each cost of being early, and the reverse: zernel's sweep of a
/// frontier.
const LATE_COSTS: [u32; 29] = [
    0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 14, 16, 19, 23, 28, 34, 41, 49, 58, 67, 76, 86, 99, 149,
    199, 299, 999,
];
const BETWEEN: [(u32, u32); 8] = [
    (9, 10),
    (4, 5),
    (3, 4),
    (2, 3),
    (3, 5),
    (4, 7),
    (2, 5),
    (2, 7),
];
const EARLY_COSTS: [u32; 10] = [2, 3, 4, 6, 9, 14, 24, 49, 99, 999];

/// GPreempt's constants of a frontier, in microseconds.
const PREPARATIONS_US: std::ops::RangeInclusive<u32> = 0..=500;
const SWITCHES_US: std::ops::RangeInclusive<u32> = 50..=200;
const STEP_US: usize = 25;

/// zernel with one ratio of its costs after the other, GPreempt with its constants.
pub(super) fn jobs(workload: &Workload, policies: &[Name], options: Options) -> Vec<Job> {
    let of = |policy: Name| policies.iter().find(|&&one| one == policy).copied();
    let job = |policy, parameter, options| Job {
        parameter,
        workload: workload.clone(),
        policies: vec![(policy, options)],
    };
    let early = EARLY_COSTS.into_iter().rev().map(|early| (early, 1));
    let late = LATE_COSTS.into_iter().map(|late| (1, late));
    let ratios = early.chain(late).chain(BETWEEN);
    let zernel = of(Name::Zernel).into_iter().flat_map(|policy| {
        ratios.clone().map(move |(early, late)| {
            let mut options = options;
            (options.zernel.early, options.zernel.late) = (early, late);
            job(policy, Some(f64::from(late) / f64::from(early)), options)
        })
    });
    // Only the difference of the constants matters, so that each is simulated once.
    let pairs = PREPARATIONS_US.step_by(STEP_US).flat_map(|preparation| {
        let switches = SWITCHES_US.step_by(STEP_US);
        switches.map(move |switch| preparation.saturating_sub(switch))
    });
    let mut leads: Vec<u32> = pairs.collect();
    leads.sort_unstable();
    leads.dedup();
    let gpreempt = of(Name::Gpreempt).into_iter().flat_map(|policy| {
        leads.iter().map(move |&lead| {
            let mut options = options;
            options.constants.preparation = Us(lead);
            options.constants.switch = Us(0);
            job(policy, Some(f64::from(lead)), options)
        })
    });
    let mut jobs: Vec<Job> = zernel.collect();
    let rank = |job: &Job| job.parameter.unwrap_or(0.0);
    jobs.sort_by(|a, b| rank(a).total_cmp(&rank(b)));
    jobs.extend(gpreempt);
    // They have no parameter: a point each.
    let points = [Name::Oracle, Name::Bound].into_iter().filter_map(of);
    jobs.extend(points.map(|policy| job(policy, None, options)));
    jobs
}
