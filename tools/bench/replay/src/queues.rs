// SPDX-License-Identifier: MIT OR Apache-2.0
//! Queueing theory of two roles on one GPU, for latency-critical requests: with preemption at no
//! cost, and with none.
//!
//! Requests of both arrive at random, numbered 1 (latency-critical) and 2 (best-effort), with rates
//! λ, services S and loads ρ = λ E[S].
//!
//! # Preemptive resume
//!
//! Those above do not notice those below: they see an M/G/1 queue of their own (Pollaczek 1930,
//! Khinchine 1932; Kleinrock, Queueing Systems, vol. 1, 1975, chapter 5):
//!
//! ```text
//! W1 = λ1 E[S1²] / (2 (1 - ρ1))
//! ```
//!
//! Where all services last D the distribution of the wait is known (Erlang 1909; Crommelin 1932), and
//! with it its 99th percentile:
//!
//! ```text
//! P(W1 <= t) = (1 - ρ1) sum over k = 0 ... floor(t / D) of (-x)^k / k! * exp(x), x = λ1 (t - k D)
//! ```
//!
//! It is wrong where the GPU switches: the switch takes time, and the rest of a slice comes before it.
//! Both are left out.
//!
//! # Without preemption
//!
//! One that arrives waits for the request that runs, too (Cobham 1954; Kleinrock, vol. 2, 1976,
//! chapter 3):
//!
//! ```text
//! W1 = (λ1 E[S1²] + λ2 E[S2²]) / (2 (1 - ρ1))
//! ```
//!
//! It holds for ρ1 + ρ2 < 1. Above, those below are served at the rate (1 - ρ1) / E[S2] that is left,
//! which takes the place of λ2. It is wrong where best-effort work can be interrupted at all: a wait
//! for the rest of a request takes the place of one for the rest of a slice and a switch.

use crate::bound::{Arriving, Priorities};

/// Largest load for which the sum is exact enough in floating point.
const MOST: f64 = 0.8;

impl Priorities {
    /// Mean response above from the arrival, with preemption at no cost.
    pub(crate) fn preemptive(&self) -> Option<f64> {
        response(&self.above, self.above.rate * self.above.square)
    }

    /// Mean response above from the arrival, without preemption.
    pub(crate) fn uninterrupted(&self) -> Option<f64> {
        let (above, below) = (&self.above, &self.below);
        let left = (1.0 - above.load()).max(0.0);
        let served = match below.service > 0.0 {
            true => below.rate.min(left / below.service),
            false => 0.0,
        };
        response(above, above.rate * above.square + served * below.square)
    }

    /// Response above from the arrival that a share of the requests is not above, with preemption that
    /// adds a constant to each service. None unless all services above are equally long, or where the
    /// load is too high for the sum.
    pub(crate) fn quantile(&self, share: f64, switch: f64) -> Option<f64> {
        let above = &self.above;
        let spread = above.square - above.service * above.service;
        if spread > 1e-9 * above.square {
            return None;
        }
        let each = above.service + switch;
        let wait = wait(above.rate, each, share)?;
        Some(above.besides + each + wait)
    }
}

fn response(above: &Arriving, residual: f64) -> Option<f64> {
    let left = 1.0 - above.load();
    (left > 0.0).then(|| above.besides + above.service + residual / (2.0 * left))
}

/// The wait in an M/D/1 queue that a share of the requests is not above.
fn wait(rate: f64, each: f64, share: f64) -> Option<f64> {
    if rate * each > MOST {
        return None;
    }
    let (mut low, mut high) = (0.0, each);
    if within(rate, each, 0.0) >= share {
        return Some(0.0);
    }
    while within(rate, each, high) < share {
        (low, high) = (high, 2.0 * high);
        if high > 64.0 * each {
            return None;
        }
    }
    for _ in 0..60 {
        let middle = 0.5 * (low + high);
        match within(rate, each, middle) < share {
            true => low = middle,
            false => high = middle,
        }
    }
    Some(high)
}

/// Share of the requests in an M/D/1 queue that wait no longer than this.
fn within(rate: f64, each: f64, time: f64) -> f64 {
    let mut sum = 0.0;
    let mut factorial = 1.0;
    for k in 0..=(time / each).floor() as i32 {
        let x = rate * (time - f64::from(k) * each);
        factorial *= f64::from(k.max(1));
        sum += (-x).powi(k) / factorial * x.exp();
    }
    (1.0 - rate * each) * sum
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policies::{Name, Options};
    use crate::sim;
    use crate::sweep::Load;
    use crate::world::Setting;
    use zernel_workload::Role;

    fn near(value: f64, expected: f64, tolerance: f64) -> bool {
        (value / expected - 1.0).abs() <= tolerance
    }

    fn arriving(rate: f64, service: f64, square: f64) -> Arriving {
        Arriving {
            rate,
            service,
            square,
            besides: 0.0,
        }
    }

    #[test]
    fn special_cases_are_the_textbook_ones() {
        // Exponential services of mean 1 at loads of 0.25 above and 0.5 below.
        let both = Priorities {
            above: arriving(0.25, 1.0, 2.0),
            below: arriving(0.5, 1.0, 2.0),
        };
        assert!(near(both.preemptive().unwrap(), 1.0 / 0.75, 1e-9));
        assert!(near(both.uninterrupted().unwrap(), 1.0 + 1.5 / 1.5, 1e-9));
        // More below than can be served: the GPU is never idle.
        let full = Priorities {
            below: arriving(9.0, 1.0, 2.0),
            ..both
        };
        assert!(near(full.uninterrupted().unwrap(), 1.0 + 2.0 / 1.5, 1e-9));
        let none = Priorities {
            below: Arriving::default(),
            ..both
        };
        assert_eq!(none.uninterrupted(), none.preemptive());
        let over = Priorities {
            above: arriving(1.0, 1.0, 2.0),
            ..both
        };
        assert_eq!((over.preemptive(), over.uninterrupted()), (None, None));
        // The formula of the percentile is that of equal services alone.
        assert_eq!(both.quantile(0.99, 0.0), None);
    }

    #[test]
    fn waits_of_equal_services_have_the_known_distribution() {
        assert!(near(within(0.5, 1.0, 0.0), 0.5, 1e-12));
        assert!(near(within(0.5, 1.0, 1.0), 0.5 * (0.5f64.exp()), 1e-12));
        // Its mean is that of Pollaczek and Khinchine: half a service at half load.
        let steps = 40_000;
        let step = 40.0 / f64::from(steps);
        let tail = |at: i32| 1.0 - within(0.5, 1.0, (f64::from(at) + 0.5) * step);
        let mean: f64 = (0..steps / 2).map(|at| tail(at) * step).sum();
        assert!(near(mean, 0.5, 1e-3), "{mean}");
        assert_eq!(wait(0.5, 1.0, 0.4), Some(0.0));
        let p99 = wait(0.5, 1.0, 0.99).unwrap();
        assert!(near(within(0.5, 1.0, p99), 0.99, 1e-9));
        assert_eq!(wait(0.9, 1.0, 0.99), None);
    }

    /// Mean and 99th percentile of latency-critical responses under a policy, in seconds.
    fn simulated(policy: Name, percent: f64) -> (f64, f64) {
        let workload = Load::workload().lasting(1_000.0).unwrap();
        let setting = Setting {
            preset: &Load::PRESET,
            ..Setting::DEFAULT
        };
        let workload = Load::at(&workload, percent);
        let policy = policy.policy(&Options::DEFAULT);
        let outcome = sim::run(&workload, setting, policy).unwrap();
        let found = outcome.with_queue(Role::Lc);
        (found.mean_ns / 1e9, found.p99_ns as f64 / 1e9)
    }

    /// 10,000 requests, of which some hundred wait: means agree within 4 %, and the percentile within
    /// 6 %. The formulas leave out switches, and requests that find one of their own process.
    #[test]
    fn the_simulation_agrees_with_the_formulas() {
        for percent in [0.0, 50.0] {
            let queue = Priorities::of(&Load::workload(), percent).unwrap();
            let (mean, p99) = simulated(Name::Bound, percent);
            let expected = queue.preemptive().unwrap();
            assert!(near(mean, expected, 0.04), "{percent}: {mean} {expected}");
            let [low, high] = [0.0, 100e-6].map(|switch| queue.quantile(0.99, switch).unwrap());
            assert!(
                (low * 0.94..high * 1.06).contains(&p99),
                "{low} {p99} {high}"
            );
            let (mean, _) = simulated(Name::Sequential, percent);
            let expected = queue.uninterrupted().unwrap();
            assert!(near(mean, expected, 0.04), "{percent}: {mean} {expected}");
        }
    }
}
