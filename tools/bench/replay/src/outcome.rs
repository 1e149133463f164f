// SPDX-License-Identifier: MIT OR Apache-2.0
//! The outcome of a simulation.

use std::time::Duration;

use serde::Serialize;
use zernel_report::quantile;
use zernel_report::recovery;
use zernel_report::requests::{self, Requests};
use zernel_workload::{Deployment, Role};

use crate::world::{nanos, Request};

/// The time of the compute engine until the end of the run, in nanoseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Engine {
    /// Had a TSG, be it with a holder alone.
    pub(crate) busy_ns: u64,
    /// Saved or restored contexts.
    pub(crate) switch_ns: u64,
    /// Had nothing to do.
    pub(crate) idle_ns: u64,
    /// Was held for requests without their data.
    pub(crate) held_ns: u64,
    /// Contexts restored.
    pub(crate) switches: u64,
}

/// The outcomes of a client's requests; a column per figure.
#[derive(Debug, Clone)]
pub(crate) struct Served {
    /// The client's number in the workload.
    pub(crate) client: usize,
    /// Its role.
    pub(crate) role: Role,
    /// Its requests.
    pub(crate) requests: Requests,
    /// Nanoseconds that the GPU was held for the data of each.
    pub(crate) held_ns: Vec<u64>,
    /// Requests that were done within the run.
    pub(crate) in_time: u64,
    /// Requests that the policy refused.
    pub(crate) refused: u64,
}

/// Requests with a deadline.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Deadlines {
    /// Those that arrived within the run.
    pub(crate) due: u64,
    /// Those of them whose result was late, or that were never served.
    pub(crate) missed: u64,
}

impl Served {
    /// None yet.
    pub(crate) fn new(client: usize, role: Role) -> Self {
        Self {
            client,
            role,
            requests: Requests::default(),
            held_ns: Vec::new(),
            in_time: 0,
            refused: 0,
        }
    }

    /// A request that is done at `now`, of a run that ends at `end`.
    pub(crate) fn push(&mut self, request: &Request, now: u64, end: u64) {
        if let Some(deadline) = request.traced.deadline {
            self.requests.due += 1;
            let late = now > request.tick.saturating_add(nanos(deadline));
            self.requests.missed += u64::from(late);
        }
        self.requests.push(requests::Request {
            number: request.number,
            tick: Duration::from_nanos(request.tick),
            start: Duration::from_nanos(request.start),
            end: Duration::from_nanos(now),
        });
        self.held_ns.push(request.held);
        self.in_time += u64::from(now <= end);
    }
}

/// The summary of a set of latencies, in nanoseconds. Signed: a difference can be negative.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub(crate) struct Summary {
    /// Their number.
    pub(crate) count: u64,
    /// Mean.
    pub(crate) mean_ns: f64,
    /// Median.
    pub(crate) p50_ns: i64,
    /// 99th percentile.
    pub(crate) p99_ns: i64,
    /// 99.9th percentile.
    pub(crate) p999_ns: i64,
    /// Largest.
    pub(crate) max_ns: i64,
}

impl Summary {
    /// Of these, which it sorts; zeroes if there are none. A percentile is the smallest value that
    /// so many are not above.
    pub(crate) fn of(values: &mut [i64]) -> Self {
        values.sort_unstable();
        let (Some(&max_ns), count) = (values.last(), values.len()) else {
            return Self::default();
        };
        let sum: i128 = values.iter().map(|&value| i128::from(value)).sum();
        let at = |share: f64| quantile(values, share).unwrap_or(max_ns);
        Self {
            count: count as u64,
            mean_ns: sum as f64 / count as f64,
            p50_ns: at(0.5),
            p99_ns: at(0.99),
            p999_ns: at(0.999),
            max_ns,
        }
    }
}

/// The outcome of a simulation.
#[derive(Debug, Clone)]
pub(crate) struct Outcome {
    /// Name of the workload.
    pub(crate) workload: String,
    /// Name of the policy.
    pub(crate) policy: String,
    /// Name of the GPU.
    pub(crate) gpu: &'static str,
    /// Which clients shared a TSG.
    pub(crate) deployment: Deployment,
    /// Its length, in seconds.
    pub(crate) seconds: f64,
    /// The time of the compute engine.
    pub(crate) engine: Engine,
    /// Share of the time that latency-critical TSGs had the engine, with their holders.
    pub(crate) lc_share: f64,
    /// The same of best-effort ones.
    pub(crate) be_share: f64,
    /// Time on the engine of each TSG.
    pub(crate) busy_ns: Vec<u64>,
    /// Holders that ended by their bound.
    pub(crate) expired: u64,
    /// Events simulated.
    pub(crate) events: u64,
    /// The requests of each client.
    pub(crate) served: Vec<Served>,
}

impl Outcome {
    fn of_role(&self, role: Role) -> impl Iterator<Item = &Served> {
        self.served.iter().filter(move |one| one.role == role)
    }

    /// Latencies of a role from the start of the preparation, in no order.
    pub(crate) fn latencies(&self, role: Role) -> Vec<i64> {
        self.of_role(role)
            .flat_map(|one| one.requests.latency_ns.iter().map(|&ns| ns as i64))
            .collect()
    }

    /// The same in order.
    pub(crate) fn sorted_latencies(&self, role: Role) -> Vec<u64> {
        let served = self.of_role(role);
        let mut all: Vec<u64> = served
            .flat_map(|one| one.requests.latency_ns.iter().copied())
            .collect();
        all.sort_unstable();
        all
    }

    /// Latencies of a role from the arrival.
    pub(crate) fn with_queue(&self, role: Role) -> Summary {
        let mut all: Vec<i64> = self
            .of_role(role)
            .flat_map(|one| one.requests.iter())
            .map(|request| request.latency_with_queue().as_nanos() as i64)
            .collect();
        Summary::of(&mut all)
    }

    /// Requests of a role that were done.
    pub(crate) fn requests(&self, role: Role) -> u64 {
        self.of_role(role)
            .map(|one| one.requests.latency_ns.len() as u64)
            .sum()
    }

    /// Requests of a role that were done within the run, per second.
    pub(crate) fn rate(&self, role: Role) -> f64 {
        let done: u64 = self.of_role(role).map(|one| one.in_time).sum();
        done as f64 / self.seconds
    }

    /// Requests of a role that had a deadline.
    pub(crate) fn deadlines(&self, role: Role) -> Deadlines {
        self.of_role(role)
            .fold(Deadlines::default(), |sum, one| Deadlines {
                due: sum.due + one.requests.due,
                missed: sum.missed + one.requests.missed,
            })
    }

    /// Requests of a role that a newer one took the place of.
    pub(crate) fn dropped(&self, role: Role) -> u64 {
        self.of_role(role).map(|one| one.requests.dropped).sum()
    }

    /// For each latency-critical request that was served here and in `alone`, how much longer it
    /// took here. Both have the same arrivals and the same preparations.
    pub(crate) fn added(&self, alone: &Self) -> Vec<i64> {
        let pairs = self.of_role(Role::Lc).filter_map(|here| {
            let there = alone.served.iter().find(|one| one.client == here.client)?;
            Some(here.requests.added(&there.requests))
        });
        pairs.flatten().map(|(_, added)| added).collect()
    }

    /// The requests of the first latency-critical client after `change`, a time in nanoseconds.
    pub(crate) fn recovery(&self, alone: &Self, change: u64) -> Option<recovery::Recovery> {
        let here = self.of_role(Role::Lc).next()?;
        let there = alone.served.iter().find(|one| one.client == here.client)?;
        let change = Duration::from_nanos(change);
        recovery::Recovery::after(change, &here.requests, &there.requests, &here.held_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_the_smallest_that_so_many_are_not_above() {
        let mut values: Vec<i64> = (1..=1_000).rev().collect();
        let summary = Summary::of(&mut values);
        assert_eq!(summary.count, 1_000);
        assert_eq!(summary.mean_ns, 500.5);
        assert_eq!((summary.p50_ns, summary.p99_ns), (500, 990));
        assert_eq!((summary.p999_ns, summary.max_ns), (999, 1_000));
        assert_eq!(Summary::of(&mut []), Summary::default());
        assert_eq!(Summary::of(&mut [-3]).p99_ns, -3);
    }
}
