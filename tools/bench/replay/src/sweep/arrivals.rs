// SPDX-License-Identifier: MIT OR Apache-2.0
//! Workloads whose requests arrive at random, from several processes: what the formulas are about.

use anyhow::{ensure, Result};
use zernel_workload::{Arrival, Role, Workload};

/// Checks that all requests of a workload can arrive at random.
///
/// # Errors
///
/// A client counts sizes, which arrivals at random do not have. A best-effort client has no rate to
/// take a share of.
pub(super) fn check(workload: &Workload, shares: bool) -> Result<()> {
    for one in &workload.clients {
        let name = one.network.name();
        ensure!(
            !one.counts_size(),
            "{name} counts the size of its requests, and requests that arrive at random have none; \
             this sweep takes workloads without us_per_size and bytes_per_size"
        );
        ensure!(
            !shares || one.role == Role::Lc || one.arrival.rate(workload.duration()).is_some(),
            "{name} is a best-effort client in a closed loop, which has no rate for this sweep to \
             change; give it one, such as {{poisson: 100}}"
        );
    }
    Ok(())
}

/// `workload` with each client in several processes and a share of the best-effort rates.
pub(super) fn loaded(workload: &Workload, percent: f64, processes: usize) -> Workload {
    let mut changed = workload.clone();
    changed.clients.clear();
    for client in &workload.clients {
        let share = match client.role {
            Role::Lc => 1.0,
            Role::Be => percent / 100.0,
        };
        let mut one = client.clone();
        if let Some(rate) = one.arrival.rate(workload.duration()) {
            one.arrival = Arrival::Poisson(rate * share / processes as f64);
        }
        changed.clients.extend(std::iter::repeat_n(one, processes));
    }
    changed
}

/// `workload` with its first latency-critical client in several processes, whose requests arrive at
/// random with this rate in all.
pub(crate) fn at_random(workload: &Workload, rate: f64, processes: usize) -> Workload {
    let mut changed = workload.clone();
    let lc = workload.clients.iter().find(|one| one.role == Role::Lc);
    changed.clients.retain(|one| one.role == Role::Be);
    for _ in 0..processes {
        changed.clients.extend(lc.cloned().map(|mut one| {
            one.arrival = Arrival::Poisson(rate / processes as f64);
            one
        }));
    }
    changed
}
