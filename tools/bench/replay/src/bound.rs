// SPDX-License-Identifier: MIT OR Apache-2.0
//! Queueing theory of latency-critical requests that preempt best-effort work, to be drawn beside
//! the simulation.
//!
//! # Latency-critical requests
//!
//! They arrive at random with rate λ and are served in their order, each by a process of its own.
//! Less urgent work is preempted and goes on later (preemptive resume), so that it concerns them in
//! two ways only: the GPU has to switch, and it does so at the end of a slice.
//!
//! With S the time that a request has the GPU for, its mean time there is that of an M/G/1 queue
//! (Pollaczek, Khinchine):
//!
//! ```text
//! T = E[S] + λ E[S²] / (2 (1 - λ E[S]))
//! ```
//!
//! With S the service alone this is the *ideal*: nothing is faster that serves them in their order, or
//! in one that does not depend on S. E[S] and E[S²] are those of the distributions that a workload
//! names and of the sizes of a trace; where a service moves with the run there is no formula.
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

//! # Best-effort requests that arrive at random
//!
//! With arrivals of both roles at random, numbered 1 (above) and 2 (below), and preemptive resume,
//! the mean response of those below is (Jaiswal, Priority Queues, 1968; Kleinrock, Queueing Systems,
//! vol. 2, 1976, chapter 3):
//!
//! ```text
//! T2 = E[S2] / (1 - ρ1) + (λ1 E[S1²] + λ2 E[S2²]) / (2 (1 - ρ1) (1 - ρ1 - ρ2))
//! ```
//!
//! first come, first served. TSGs that take turns serve them in another order, which does not change
//! the mean where service times are exponential, and lowers it where they vary more.
//!
//! A switch to a request from above and one back are added to S1, and one to S2: as if each of them
//! interrupted somebody, which is more than happens.

use zernel_workload::{ClientSpec, Role, Workload};

use crate::world::Setting;

/// The parameters of the formulas; times in seconds.
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
    /// Time of a request besides the GPU's computing: preparation and copies.
    pub(crate) besides: f64,
}

impl Queue {
    /// Of the clients of a workload, with any arrivals. None where the times of latency-critical
    /// services differ and there is no formula for them.
    pub(crate) fn of(
        workload: &Workload,
        setting: &Setting,
        slice_us: u32,
        rate: f64,
    ) -> Option<Self> {
        let clients = |role| workload.clients.iter().filter(move |one| one.role == role);
        // Clients whose rates are not known count alike.
        let share = |one: &ClientSpec| one.arrival.rate(workload.duration()).unwrap_or(1.0);
        let above = Arriving::of(clients(Role::Lc), share)?;
        let below = clients(Role::Be).map(|one| {
            let all = one.latency_alone() - one.besides_alone();
            all.as_secs_f64()
        });
        Some(Self {
            rate,
            service: above.service,
            square: above.square,
            switch: 2.0 * setting.preset.switch_cost().0 as f64 / 1e9,
            slice: f64::from(slice_us) / 1e6,
            below: below.sum::<f64>() / clients(Role::Be).count().max(1) as f64,
            besides: above.besides,
        })
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

/// Requests of a role that arrive at random; times in seconds.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Arriving {
    /// Requests per second.
    pub(crate) rate: f64,
    /// Mean of their service time.
    pub(crate) service: f64,
    /// Mean of its square.
    pub(crate) square: f64,
    /// Time of a request besides the GPU's computing.
    pub(crate) besides: f64,
}

impl Arriving {
    /// Those of some clients with these rates. None where the times of services differ and there is no
    /// formula for them.
    fn of<'a>(
        clients: impl Iterator<Item = &'a ClientSpec>,
        rate: impl Fn(&ClientSpec) -> f64,
    ) -> Option<Self> {
        let mut sum = Self::default();
        for one in clients {
            let (rate, moments) = (rate(one), one.moments()?);
            sum.rate += rate;
            sum.service += rate * moments.mean;
            sum.square += rate * moments.square;
            sum.besides += rate * one.besides_alone().as_secs_f64();
        }
        let each = |value: f64| match sum.rate > 0.0 {
            true => value / sum.rate,
            false => 0.0,
        };
        Some(Self {
            rate: sum.rate,
            service: each(sum.service),
            square: each(sum.square),
            besides: each(sum.besides),
        })
    }

    /// With a service that is longer by a constant.
    fn longer(&self, by: f64) -> Self {
        Self {
            service: self.service + by,
            square: self.square + 2.0 * self.service * by + by * by,
            ..*self
        }
    }

    /// The share of the GPU that they need.
    pub(crate) fn load(&self) -> f64 {
        self.rate * self.service
    }
}

/// Two roles whose requests arrive at random.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Priorities {
    /// Those that preempt.
    pub(crate) above: Arriving,
    /// Those that are preempted.
    pub(crate) below: Arriving,
}

impl Priorities {
    /// Of a workload with a share of its best-effort rates, in percent. None where the times of services
    /// differ and there is no formula for them.
    pub(crate) fn of(workload: &Workload, percent: f64) -> Option<Self> {
        let of_role = |role| workload.clients.iter().filter(move |one| one.role == role);
        let rate = |one: &ClientSpec| one.arrival.rate(workload.duration()).unwrap_or(0.0);
        Some(Self {
            above: Arriving::of(of_role(Role::Lc), rate)?,
            below: Arriving::of(of_role(Role::Be), |one| rate(one) * percent / 100.0)?,
        })
    }

    /// Best-effort requests per second at this percentage.
    pub(crate) fn be_rate(workload: &Workload, percent: f64) -> f64 {
        let below = workload.clients.iter().filter(|one| one.role == Role::Be);
        let rates = below.filter_map(|one| one.arrival.rate(workload.duration()));
        rates.sum::<f64>() * percent / 100.0
    }

    /// Mean response of those below from the arrival, where a switch takes so long; `None` if there
    /// is more work than can be done.
    pub(crate) fn response_below(&self, switch: f64) -> Option<f64> {
        let (above, below) = (self.above.longer(2.0 * switch), self.below.longer(switch));
        let left = 1.0 - above.load();
        let after = left - below.load();
        let residual = (above.rate * above.square + below.rate * below.square) / 2.0;
        (after > 0.0).then(|| below.besides + below.service / left + residual / (left * after))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::preset::Preset;
    use crate::policies::{Name, Options};
    use crate::policy::level::Level;
    use crate::sim;
    use crate::sweep::at_random;
    use zernel_workload::{Arrival, Own, Preparation, Program};

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
            let policy = Name::Classes.policy(&Options::DEFAULT);
            let outcome = sim::run(&workload, setting, policy).unwrap();
            let queue = Queue::of(&workload, &setting, slice, rate).unwrap();
            let mean = outcome.with_queue(Role::Lc).mean_ns / 1e9;
            let expected = queue.with_switches().unwrap();
            assert!(near(mean, expected, 0.05), "{rate}/s: {mean} {expected}");
            assert!(mean > queue.ideal().unwrap());
            let left = outcome.rate(Role::Be);
            let expected = queue.left_over();
            assert!(near(left, expected, 0.05), "{rate}/s: {left} {expected}");
        }
    }

    /// Services of a log-normal distribution: mean waits agree within 6 %. With the square of the mean in
    /// place of the mean square they would be less than a half.
    #[test]
    fn services_that_vary_wait_for_longer() {
        let workload = Workload::from_yaml(
            "
            name: varying
            seconds: 600
            clients:
              - role: lc
                network: {name: own, service_us: {log-normal: {median: 3000, sigma: 0.9}}}
                arrival: {poisson: 100}
                prepare_us: 0
            ",
        )
        .unwrap();
        let setting = Setting {
            preset: &FREE,
            ..Setting::DEFAULT
        };
        let outcome = sim::run(
            &at_random(&workload, 100.0, 32),
            setting,
            Name::Classes.policy(&Options::DEFAULT),
        )
        .unwrap();
        let queue = Queue::of(&workload, &setting, 0, 100.0).unwrap();
        let wait = queue.ideal().unwrap() - queue.besides - queue.service;
        let found = outcome.with_queue(Role::Lc).mean_ns / 1e9 - queue.besides - queue.service;
        assert!(near(found, wait, 0.06), "{found} {wait}");
        let equal = Queue {
            square: queue.service * queue.service,
            ..queue
        };
        let wait_of_equal = equal.ideal().unwrap() - queue.besides - queue.service;
        assert!(wait_of_equal < 0.5 * wait);
        let priorities = Priorities::of(&workload, 0.0).unwrap();
        assert_eq!(priorities.quantile(0.99, 0.0), None);
        let moving = "{drift: {from: 1000, to: 3000, seconds: 9}}";
        let mut moves = workload;
        moves.clients[0].network =
            serde_yaml_ng::from_str(&format!("{{name: own, service_us: {moving}}}")).unwrap();
        assert_eq!(Queue::of(&moves, &setting, 0, 100.0), None);
        assert_eq!(Priorities::of(&moves, 0.0), None);
    }

    #[test]
    fn responses_below_are_the_textbook_ones() {
        let arriving = |rate, square| Arriving {
            rate,
            service: 1.0,
            square,
            besides: 0.0,
        };
        // Nothing above: M/M/1 at half load.
        let alone = Priorities {
            above: arriving(0.0, 0.0),
            below: arriving(0.5, 2.0),
        };
        assert_eq!(alone.response_below(0.0), Some(2.0));
        // Exponential ones of equal means at loads of 0.25: 1 / (0.75 * 0.5).
        let both = Priorities {
            above: arriving(0.25, 2.0),
            below: arriving(0.25, 2.0),
        };
        assert!(near(both.response_below(0.0).unwrap(), 8.0 / 3.0, 1e-9));
        assert!(both.response_below(0.1) > both.response_below(0.0));
        let full = Priorities {
            below: arriving(0.75, 2.0),
            ..both
        };
        assert_eq!(full.response_below(0.0), None);
    }

    /// A GPU that switches at no cost.
    const FREE: Preset = Preset {
        name: "free",
        sms: 1,
        sm_kib: 1,
        mb_per_s: 1_000_000_000_000,
        copy_engines: 2,
    };

    /// Means of both roles from the arrival on a GPU that switches at no cost: they agree within 3 %.
    /// Below, the service times are those of an exponential distribution, in equal shares, so that
    /// turns do not change the mean.
    #[test]
    fn without_switch_costs_the_simulation_agrees_with_the_formulas() {
        const KINDS: usize = 40;
        let service_us = |kind: usize| {
            // Mean of the kind's part of the distribution: integral of -ln(1 - p) over it.
            let part = |p: f64| match p {
                ..1.0 => (1.0 - p) * (1.0 - p).ln() + p,
                _ => 1.0,
            };
            let (from, until) = (kind as f64 / KINDS as f64, (kind + 1) as f64 / KINDS as f64);
            3_000.0 * KINDS as f64 * (part(until) - part(from))
        };
        let client = |role, service_us: f64, rate| ClientSpec {
            prepare_us: Preparation::Constant(0),
            ..ClientSpec::new(
                role,
                Program::Own(Own::new("own", service_us as u64)),
                Arrival::Poisson(rate),
            )
        };
        for (above, below) in [(100.0, 80.0), (180.0, 100.0)] {
            let lc = (0..32).map(|_| client(Role::Lc, 2_000.0, above / 32.0));
            let be = (0..2 * KINDS).map(|one| {
                client(
                    Role::Be,
                    service_us(one % KINDS),
                    below / (2 * KINDS) as f64,
                )
            });
            let workload = Workload::new("random", 500.0, lc.chain(be).collect()).unwrap();
            let setting = Setting {
                preset: &FREE,
                ..Setting::DEFAULT
            };
            let policy = Name::Classes.policy(&Options::DEFAULT);
            let outcome = sim::run(&workload, setting, policy).unwrap();
            let mean = |role| outcome.with_queue(role).mean_ns / 1e9;
            let slice = Level::BE.default_timeslice().0;
            // A slice is waited for where best-effort work runs, which is not always.
            let queue = Queue {
                switch: 0.0,
                ..Queue::of(&workload, &setting, slice, above).unwrap()
            };
            let (least, most) = (queue.ideal().unwrap(), queue.with_switches().unwrap());
            let lc = mean(Role::Lc);
            assert!(
                (least * 0.97..most * 1.03).contains(&lc),
                "{least} {lc} {most}"
            );
            let queue = Priorities::of(&workload, 100.0).unwrap();
            let expected = queue.response_below(0.0).unwrap();
            let be = mean(Role::Be);
            assert!(near(be, expected, 0.03), "{above} {below}: {be} {expected}");
        }
    }
}
