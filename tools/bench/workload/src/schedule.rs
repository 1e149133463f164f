// SPDX-License-Identifier: MIT OR Apache-2.0
//! When a client starts its next request.
//!
//! A client has room for one request that waits: one that arrives while another waits takes its
//! place (the newest wins) and the older is dropped.

use std::time::Duration;

use rand_chacha::rand_core::SeedableRng;
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, Exp};

use crate::workload::Arrival;

/// Times at which requests arrive, from the start of the run.
#[derive(Debug)]
enum Ticks {
    Closed,
    Periodic {
        period_ns: f64,
        phase: Duration,
        next: u64,
    },
    Poisson {
        gap_s: Exp<f64>,
        random: Box<ChaCha8Rng>,
        next: Duration,
    },
}

/// The next request of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Next {
    /// When it arrives or arrived.
    pub tick: Duration,
    /// Arrivals before it, served or dropped.
    pub number: u64,
    /// Requests that it took the place of.
    pub dropped: u64,
}

/// A client's schedule.
#[derive(Debug)]
pub struct Schedule {
    ticks: Ticks,
    popped: u64,
}

impl Schedule {
    /// The schedule of `arrival`, with periodic requests from `phase` on; equal seeds make equal
    /// schedules.
    pub fn new(arrival: Arrival, phase: Duration, seed: u64) -> Self {
        let ticks = match arrival {
            Arrival::Closed => Ticks::Closed,
            Arrival::Periodic(rate) => Ticks::Periodic {
                period_ns: 1e9 / rate,
                phase,
                next: 0,
            },
            Arrival::Poisson(rate) => {
                // Rates are checked to be positive, which is all that it asks for.
                let gap_s = Exp::new(rate).unwrap_or(Exp::new(1.0).expect("1 is positive"));
                let mut random = Box::new(ChaCha8Rng::seed_from_u64(seed));
                let next = phase + Duration::from_secs_f64(gap_s.sample(&mut *random));
                Ticks::Poisson {
                    gap_s,
                    random,
                    next,
                }
            }
        };
        Self { ticks, popped: 0 }
    }

    /// The request that a client which is free at `now` serves next; it may have to wait for it.
    pub fn next(&mut self, now: Duration) -> Next {
        let first = self.pop(now);
        let mut next = Next {
            tick: first,
            number: self.popped - 1,
            dropped: 0,
        };
        while self.peek().is_some_and(|tick| tick <= now) {
            next.tick = self.pop(now);
            next.number += 1;
            next.dropped += 1;
        }
        next
    }

    fn peek(&self) -> Option<Duration> {
        match &self.ticks {
            Ticks::Closed => None,
            Ticks::Periodic {
                period_ns,
                phase,
                next,
            } => Some(*phase + Duration::from_nanos((*next as f64 * period_ns).round() as u64)),
            Ticks::Poisson { next, .. } => Some(*next),
        }
    }

    fn pop(&mut self, now: Duration) -> Duration {
        let tick = self.peek().unwrap_or(now);
        self.popped += 1;
        match &mut self.ticks {
            Ticks::Closed => {}
            Ticks::Periodic { next, .. } => *next += 1,
            Ticks::Poisson {
                gap_s,
                random,
                next,
            } => *next += Duration::from_secs_f64(gap_s.sample(&mut **random)),
        }
        tick
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn closed_loop_is_always_due() {
        let mut closed = Schedule::new(Arrival::Closed, ms(3), 0);
        for now in [0, 1, 50] {
            let next = closed.next(ms(now));
            assert_eq!((next.tick, next.dropped), (ms(now), 0));
        }
    }

    #[test]
    fn the_newest_of_the_waiting_requests_wins() {
        let mut periodic = Schedule::new(Arrival::Periodic(100.0), ms(2), 0);
        let mut next = |now| {
            let next = periodic.next(ms(now));
            (next.tick, next.dropped)
        };
        assert_eq!(next(0), (ms(2), 0), "waits for the first");
        assert_eq!(next(5), (ms(12), 0), "waits for the second");
        assert_eq!(next(45), (ms(42), 2), "22 and 32 gave way to 42");
        assert_eq!(next(46), (ms(52), 0));
    }

    #[test]
    fn rates_that_do_not_divide_a_second_do_not_drift() {
        let mut periodic = Schedule::new(Arrival::Periodic(150.0), Duration::ZERO, 0);
        let ticks: Vec<_> = (0..=150)
            .map(|_| periodic.next(Duration::ZERO).tick)
            .collect();
        assert_eq!(ticks[1], Duration::from_nanos(6_666_667));
        assert_eq!(ticks[150], Duration::from_secs(1));
    }

    #[test]
    fn poisson_has_its_rate_and_its_seed() {
        let ticks = |seed| {
            let mut schedule = Schedule::new(Arrival::Poisson(100.0), Duration::ZERO, seed);
            let mut now = Duration::ZERO;
            (0..5_000)
                .map(|_| {
                    now = schedule.next(now).tick;
                    now
                })
                .collect::<Vec<_>>()
        };
        assert_eq!(ticks(7), ticks(7));
        assert_ne!(ticks(7), ticks(8));
        let last = ticks(7)[4_999].as_secs_f64();
        assert!((45.0..55.0).contains(&last), "5000 took {last} s");
    }

    proptest! {
        #[test]
        fn every_tick_is_served_or_dropped(
            rate in 1.0f64..1000.0,
            busy_us in prop::collection::vec(0u64..20_000, 1..100),
        ) {
            let mut schedule = Schedule::new(Arrival::Periodic(rate), Duration::ZERO, 0);
            let mut now = Duration::ZERO;
            let mut seen = 0u64;
            let mut last = None;
            for busy in busy_us {
                let next = schedule.next(now);
                prop_assert!(last.is_none_or(|last| next.tick > last));
                last = Some(next.tick);
                seen += 1 + next.dropped;
                prop_assert_eq!(next.number, seen - 1);
                let expected = ((seen - 1) as f64 * 1e9 / rate).round() as u64;
                prop_assert_eq!(next.tick, Duration::from_nanos(expected));
                now = now.max(next.tick) + Duration::from_micros(busy);
            }
        }
    }
}
