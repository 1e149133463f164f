// SPDX-License-Identifier: MIT OR Apache-2.0
//! The sweep of the best-effort load from none to more than there is: a simulation that was
//! published, with its numbers.

use zernel_report::chart::{Mark, Series};
use zernel_report::palette;
use zernel_workload::{Role, Workload};

use super::arrivals::loaded;
use crate::bound::Priorities;
use crate::model::preset::Preset;
use crate::policies::Name;

/// Best-effort rates, in percent of those of the workload.
const PERCENT: [f64; 11] = [
    0.0, 10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0, 90.0, 100.0,
];

/// Processes that the requests of each client come from.
const PROCESSES: usize = 16;

/// The workload of the published simulation. A preparation is no part of it.
const WORKLOAD: &str = "
name: be-load
about: LC at 10 requests/s of 5 ms beside BE of 10 ms, both at random
seconds: 100
clients:
  - role: lc
    network: {name: request, service_us: 5000}
    arrival: {poisson: 10}
    prepare_us: 0
  - role: be
    network: {name: batch, service_us: 10000}
    arrival: {poisson: 100}
    prepare_us: 0
";

/// The sweep.
pub(crate) struct Load;

impl Load {
    /// A GPU that saves a context in 50 µs and restores one in as many: a switch takes the published
    /// 100 µs.
    pub(crate) const PRESET: Preset = Preset {
        name: "switch of 100 us",
        sms: 100,
        sm_kib: 500,
        mb_per_s: 1_024_000,
        copy_engines: 3,
    };

    /// The policies that it compares unless others are named.
    pub(super) const POLICIES: [Name; 9] = [
        Name::Sequential,
        Name::Default,
        Name::Suspend5000,
        Name::Suspend140,
        Name::Suspend100,
        Name::Suspend40,
        Name::Zernel,
        Name::Oracle,
        Name::Bound,
    ];

    /// The workload that it changes unless another one is named.
    pub(crate) fn workload() -> Workload {
        Workload::from_yaml(WORKLOAD).expect("it is read in a test")
    }

    /// The workload at each best-effort rate, with that rate.
    pub(super) fn steps(workload: &Workload) -> impl Iterator<Item = (f64, Workload)> + '_ {
        PERCENT.into_iter().map(|percent| {
            let rate = Priorities::be_rate(workload, percent);
            (rate, Self::at(workload, percent))
        })
    }

    /// The workload with a share of its best-effort rates.
    pub(crate) fn at(workload: &Workload, percent: f64) -> Workload {
        let mut rest = workload.clone();
        if percent == 0.0 {
            rest.clients.retain(|one| one.role == Role::Lc);
        }
        loaded(&rest, percent, PROCESSES)
    }

    /// The analytic curves. Those of the percentile are there for latency-critical loads of up to 0.8.
    pub(super) fn curves(workload: &Workload, switch: f64) -> Vec<Series> {
        let points = |of: &dyn Fn(&Priorities) -> Option<f64>| {
            let queues =
                (0..=100).filter_map(|percent| Priorities::of(workload, f64::from(percent)));
            queues
                .filter_map(|queue| Some((queue.below.rate, of(&queue)? * 1e3)))
                .collect()
        };
        let series = |label: &str, colour, points| Series {
            label: label.to_owned(),
            colour,
            points,
            mark: Mark::Dashed,
        };
        vec![
            series(
                "M/D/1, p99, preemption for nothing",
                palette::INK,
                points(&|queue| queue.quantile(0.99, 0.0)),
            ),
            series(
                "the same, a switch in each",
                palette::SKY,
                points(&|queue| queue.quantile(0.99, switch)),
            ),
            series(
                "mean, not p99: M/G/1, preemption for nothing",
                palette::BROWN,
                points(&Priorities::preemptive),
            ),
            series(
                "mean, not p99: M/G/1, no preemption (Cobham)",
                palette::FAINT_INK,
                points(&Priorities::uninterrupted),
            ),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_are_the_published_ones() {
        assert_eq!(2 * Load::PRESET.switch_cost().0, 100_000);
        let workload = Load::workload();
        let steps: Vec<_> = Load::steps(&workload).collect();
        assert_eq!((steps[0].0, steps[10].0), (0.0, 100.0));
        assert_eq!(steps[0].1.clients.len(), PROCESSES);
        assert_eq!(steps[1].1.clients.len(), 2 * PROCESSES);
        let queue = Priorities::of(&workload, 100.0).unwrap();
        assert_eq!((queue.above.rate, queue.below.rate), (10.0, 100.0));
        assert_eq!((queue.above.service, queue.below.service), (5e-3, 10e-3));
        assert_eq!(workload.seconds, 100.0);
    }
}
