// SPDX-License-Identifier: GPL-2.0
//! What queueing theory says of latency-critical requests that preempt best-effort work, to be
//! drawn beside what is simulated.
//!
//! # Latency-critical requests
//!
//! They arrive at random with rate λ and are served in their order, each by a process of its own.
//! Whatever runs below them is preempted and goes on later (preemptive resume), so that it concerns
//! them in two ways only: the GPU has to switch, and it does so at the end of a slice.
//!
//! With S the time that a request has the GPU for, its mean time there is that of an M/G/1 queue
//! (Pollaczek, Khinchine):
//!
//! ```text
//! T = E[S] + λ E[S²] / (2 (1 - λ E[S]))
//! ```
//!
//! Nothing is faster without knowing the future: with S the service alone this is the *ideal*.
//!
//! With switches S is the service and one switch, a save and a restore: the TSG before it was that
//! of another client. A request that finds no other one waits besides for the rest V of the slice
//! that runs. That is the queue with an exceptional first service of Welch (1964):
//!
//! ```text
//! T = E[S] + λ E[S²] / (2 (1 - λ E[S])) + (2 E[V] + λ E[V²]) / (2 (1 + λ E[V]))
//! ```
//!
//! V is evenly spread over a slice of length s while best-effort work runs, which is taken to be
//! always: E[V] = s / 2, E[V²] = s² / 3.
//!
//! # Best-effort requests
//!
//! One client that always has work gets what is left. Each busy period of latency-critical work
//! costs two switches, one of which is in S already; there are λ (1 - λ E[S]) of these a second at
//! most, those that find no other request. With B the service of a best-effort request:
//!
//! ```text
//! rate = (1 - λ E[S] - λ (1 - λ E[S]) * switch) / B
//! ```

use crate::world::{nanos, Setting};
use zernel_workload::{Role, Workload};

/// What the formulas are given; times in seconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Queue {
    /// Latency-critical requests per second.
    pub(crate) rate: f64,
    /// Mean of their service time.
    pub(crate) service: f64,
    /// Mean of its square.
    pub(crate) square: f64,
    /// A save and a restore.
    pub(crate) switch: f64,
    /// Best-effort time slice.
    pub(crate) slice: f64,
    /// Service time of a best-effort request.
    pub(crate) below: f64,
    /// What a request takes besides the GPU's computing: preparation and copies.
    pub(crate) besides: f64,
}

impl Queue {
    /// Of the clients of a workload, whatever their arrivals are.
    pub(crate) fn of(workload: &Workload, setting: &Setting, slice_us: u32, rate: f64) -> Self {
        let mean = |role, value: &dyn Fn(f64, f64) -> f64| {
            let clients = workload.clients.iter().filter(|one| one.role == role);
            let values: Vec<f64> = clients
                .map(|one| {
                    let service = one.network.service().as_secs_f64();
                    value(service, one.latency_alone().as_secs_f64())
                })
                .collect();
            values.iter().sum::<f64>() / values.len().max(1) as f64
        };
        Self {
            rate,
            service: mean(Role::Lc, &|service, _| service),
            square: mean(Role::Lc, &|service, _| service * service),
            switch: 2.0 * setting.preset.switch_cost().0 as f64 / 1e9,
            slice: f64::from(slice_us) / 1e6,
            below: mean(Role::Be, &|service, _| service),
            besides: mean(Role::Lc, &|service, all| all - service),
        }
    }

    /// Mean latency from the arrival, with preemption at no cost; `None` if there are more requests
    /// than can be served.
    pub(crate) fn ideal(&self) -> Option<f64> {
        let wait = pollaczek_khinchine(self.rate, self.service, self.square)?;
        Some(self.besides + self.service + wait)
    }

    /// Mean latency from the arrival, with switches and slices.
    pub(crate) fn with_switches(&self) -> Option<f64> {
        let (service, square) = self.switched();
        let wait = pollaczek_khinchine(self.rate, service, square)?;
        let (first, first_square) = (self.slice / 2.0, self.slice * self.slice / 3.0);
        let setup = (2.0 * first + self.rate * first_square) / (2.0 * (1.0 + self.rate * first));
        Some(self.besides + service + wait + setup)
    }

    /// Best-effort requests per second of a client that always has work.
    pub(crate) fn left_over(&self) -> f64 {
        let load = self.rate * self.switched().0;
        let back = self.rate * (1.0 - load).max(0.0) * self.switch;
        (1.0 - load - back).max(0.0) / self.below
    }

    /// Mean of the service time with one switch, and of its square.
    fn switched(&self) -> (f64, f64) {
        let service = self.service + self.switch;
        let square = self.square + 2.0 * self.service * self.switch + self.switch * self.switch;
        (service, square)
    }
}

/// Mean wait in an M/G/1 queue.
fn pollaczek_khinchine(rate: f64, service: f64, square: f64) -> Option<f64> {
    let load = rate * service;
    (load < 1.0).then(|| rate * square / (2.0 * (1.0 - load)))
}

/// `workload` with its first latency-critical client in several processes, whose requests arrive at
/// random with this rate in all: what the formulas are about.
pub(crate) fn at_random(workload: &Workload, rate: f64, processes: usize) -> Workload {
    use zernel_workload::Arrival;
    let mut changed = workload.clone();
    let lc = workload.clients.iter().find(|one| one.role == Role::Lc);
    changed.clients.retain(|one| one.role == Role::Be);
    for _ in 0..processes {
        changed.clients.extend(lc.cloned().map(|mut one| {
            one.arrival = Arrival::Poisson(rate / processes as f64);
            one
        }));
    }
    debug_assert!(nanos(changed.duration()) > 0);
    changed
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::governor::{Options, Policy};
    use crate::policy::level::Level;
    use crate::sim;

    fn near(value: f64, expected: f64, tolerance: f64) -> bool {
        (value / expected - 1.0).abs() <= tolerance
    }

    #[test]
    fn special_cases_are_the_textbook_ones() {
        let queue = |rate| Queue {
            rate,
            service: 1.0,
            square: 1.0,
            switch: 0.0,
            slice: 0.0,
            below: 2.0,
            besides: 0.0,
        };
        // M/D/1 at half load: half a service time of waiting.
        assert_eq!(queue(0.5).ideal(), Some(1.5));
        assert_eq!(queue(0.5).with_switches(), Some(1.5));
        assert_eq!(queue(0.5).left_over(), 0.25);
        // M/M/1 at half load: twice the service time.
        let square = 2.0;
        assert_eq!(
            Queue {
                square,
                ..queue(0.5)
            }
            .ideal(),
            Some(2.0)
        );
        assert_eq!(queue(1.0).ideal(), None);
        assert_eq!(queue(2.0).left_over(), 0.0);
        // Nearly no requests: each waits for the rest of a slice alone.
        let slice = 0.2;
        let rare = Queue {
            slice,
            ..queue(1e-9)
        }
        .with_switches()
        .unwrap();
        assert!(near(rare, 1.1, 1e-6), "{rare}");
    }

    /// Mean from the arrival and best-effort rate, simulated and by the formulas: they agree within
    /// 5 %. The formulas leave out what the simulation has: two requests of one process, which are
    /// rare among 32; requests that find the GPU idle between two of the best-effort client.
    #[test]
    fn the_simulation_agrees_with_the_formulas() {
        let base = Workload::from_yaml(
            "
            name: bound
            seconds: 120
            clients:
              - {role: lc, network: vgg, arrival: {poisson: 1}, prepare_us: 0}
              - {role: be, network: resnet152, arrival: closed, prepare_us: 0}
            ",
        )
        .unwrap();
        let setting = Setting::DEFAULT;
        let slice = Level::BE.default_timeslice().0;
        for rate in [50.0, 150.0, 250.0] {
            let workload = at_random(&base, rate, 32);
            let governor = Policy::Classes.governor(&Options::DEFAULT);
            let outcome = sim::run(&workload, setting, governor).unwrap();
            let queue = Queue::of(&workload, &setting, slice, rate);
            let mean = outcome.with_queue(Role::Lc).mean_ns / 1e9;
            let expected = queue.with_switches().unwrap();
            assert!(near(mean, expected, 0.05), "{rate}/s: {mean} {expected}");
            assert!(mean > queue.ideal().unwrap());
            let left = outcome.rate(Role::Be);
            let expected = queue.left_over();
            assert!(near(left, expected, 0.05), "{rate}/s: {left} {expected}");
        }
    }
}
