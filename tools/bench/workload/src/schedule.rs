// SPDX-License-Identifier: MIT OR Apache-2.0
//! When a client starts its next request.
//!
//! A client has room for one request that waits: one that arrives while another waits takes its
//! place (the newest wins) and the older is dropped.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use rand_chacha::rand_core::SeedableRng;
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, Exp, Gamma};

use crate::arrival::{Arrival, OnOff};
use crate::trace::{Row, Traced};
use crate::Draw;

/// Times at which requests arrive, from the start of the run.
#[derive(Debug)]
enum Ticks {
    Closed,
    Periodic {
        period_ns: f64,
        phase: Duration,
        next: u64,
    },
    Random {
        law: Law,
        random: Box<ChaCha8Rng>,
        next: Duration,
    },
    Traced {
        rows: Arc<[Row]>,
        next: usize,
    },
}

/// The law of the gaps from one arrival to the next.
#[derive(Debug)]
enum Law {
    Exponential(Exp<f64>),
    Gamma(Gamma<f64>),
    Bursts {
        gap_s: Exp<f64>,
        on_s: Exp<f64>,
        off_s: Exp<f64>,
        /// The end of the burst.
        until: Duration,
    },
}

/// Exponential times with a mean.
fn exponential(mean_s: f64) -> Exp<f64> {
    // Checked to be positive, which is all that it asks for.
    Exp::new(1.0 / mean_s).unwrap_or(Exp::new(1.0).expect("1 is positive"))
}

impl Law {
    /// The first burst begins at `start`. `None`: arrivals are not at random.
    fn of(arrival: &Arrival, start: Duration, random: &mut ChaCha8Rng) -> Option<Self> {
        match arrival {
            Arrival::Closed | Arrival::Periodic(_) | Arrival::Trace(_) => None,
            Arrival::Poisson(rate) => Some(Self::Exponential(exponential(1.0 / rate))),
            Arrival::Gamma(gamma) => {
                let square = gamma.cv * gamma.cv;
                let law = Gamma::new(1.0 / square, square / gamma.rate);
                // Checked to be positive as well.
                let plain = Self::Exponential(exponential(1.0 / gamma.rate));
                Some(law.map_or(plain, Self::Gamma))
            }
            &Arrival::OnOff(OnOff { rate, on_s, off_s }) => {
                let on_s = exponential(on_s);
                let until = start + Duration::from_secs_f64(on_s.sample(random));
                Some(Self::Bursts {
                    gap_s: exponential(1.0 / rate),
                    on_s,
                    off_s: exponential(off_s),
                    until,
                })
            }
        }
    }

    /// The arrival after one at `last`.
    fn after(&mut self, last: Duration, random: &mut ChaCha8Rng) -> Duration {
        let mut time = |law: &Exp<f64>| Duration::from_secs_f64(law.sample(random));
        match self {
            Self::Exponential(gap_s) => last + time(gap_s),
            Self::Gamma(gap_s) => last + Duration::from_secs_f64(gap_s.sample(random)),
            Self::Bursts {
                gap_s,
                on_s,
                off_s,
                until,
            } => {
                let mut at = last + time(gap_s);
                while at > *until {
                    let start = *until + time(off_s);
                    *until = start + time(on_s);
                    at = start + time(gap_s);
                }
                at
            }
        }
    }
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
    /// Those of them that had a deadline.
    pub overtaken: u64,
    /// All that a trace tells of it.
    pub traced: Traced,
}

impl Traced {
    /// The time that is left of its deadline, if it has one, when it begins `late` after its arrival; at
    /// least `shortest`, as a deadline that is over already is still one.
    pub fn left(&self, late: Duration, shortest: Duration) -> Option<Duration> {
        let deadline = self.deadline?;
        Some(deadline.saturating_sub(late).max(shortest))
    }
}

impl Next {
    /// Its random numbers, for a client with this seed.
    pub fn draw(&self, seed: u64) -> Draw {
        Draw {
            seed,
            number: self.number,
            at: self.tick,
            size: self.traced.size,
        }
    }
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
    ///
    /// # Errors
    ///
    /// The file of a trace that has not been read cannot be.
    pub fn new(arrival: &Arrival, phase: Duration, seed: u64) -> Result<Self> {
        let mut random = Box::new(ChaCha8Rng::seed_from_u64(seed));
        let ticks = match (Law::of(arrival, phase, &mut random), arrival) {
            (Some(mut law), _) => {
                let next = law.after(phase, &mut random);
                Ticks::Random { law, random, next }
            }
            (None, Arrival::Periodic(rate)) => Ticks::Periodic {
                period_ns: 1e9 / rate,
                phase,
                next: 0,
            },
            (None, Arrival::Trace(trace)) => Ticks::Traced {
                rows: trace.rows()?,
                next: 0,
            },
            (None, _) => Ticks::Closed,
        };
        Ok(Self { ticks, popped: 0 })
    }

    /// The request that a client which is free at `now` serves next; it may have to wait for it. After
    /// the last of a trace it waits for ever.
    pub fn next(&mut self, now: Duration) -> Next {
        let (first, traced) = self.pop(now);
        let mut next = Next {
            tick: first,
            number: self.popped - 1,
            dropped: 0,
            overtaken: 0,
            traced,
        };
        while self.peek().is_some_and(|tick| tick <= now) {
            next.overtaken += u64::from(next.traced.deadline.is_some());
            (next.tick, next.traced) = self.pop(now);
            next.number += 1;
            next.dropped += 1;
        }
        next
    }

    /// Requests with a deadline that arrive before `until` and are still to be served.
    pub fn awaited(&self, until: Duration) -> u64 {
        match &self.ticks {
            Ticks::Traced { rows, next } => {
                let rest = rows.iter().skip(*next);
                let before = rest.take_while(|row| row.at < until);
                before.filter(|row| row.traced.deadline.is_some()).count() as u64
            }
            _ => 0,
        }
    }

    /// When the next request arrives, [`Duration::MAX`] if there is none; `None`: as soon as the
    /// client is free.
    pub fn upcoming(&self) -> Option<Duration> {
        self.peek()
    }

    fn peek(&self) -> Option<Duration> {
        match &self.ticks {
            Ticks::Closed => None,
            Ticks::Periodic {
                period_ns,
                phase,
                next,
            } => Some(*phase + Duration::from_nanos((*next as f64 * period_ns).round() as u64)),
            Ticks::Random { next, .. } => Some(*next),
            Ticks::Traced { rows, next } => {
                Some(rows.get(*next).map_or(Duration::MAX, |row| row.at))
            }
        }
    }

    fn pop(&mut self, now: Duration) -> (Duration, Traced) {
        let tick = self.peek().unwrap_or(now);
        let mut traced = Traced::default();
        self.popped += 1;
        match &mut self.ticks {
            Ticks::Closed => {}
            Ticks::Periodic { next, .. } => *next += 1,
            Ticks::Random { law, random, next } => *next = law.after(*next, random),
            Ticks::Traced { rows, next } => {
                traced = rows.get(*next).map_or(traced, |row| row.traced);
                *next += 1;
            }
        }
        (tick, traced)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn schedule(arrival: Arrival, phase: Duration, seed: u64) -> Schedule {
        Schedule::new(&arrival, phase, seed).unwrap()
    }

    #[test]
    fn a_trace_is_served_as_it_tells_and_ends() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.csv");
        let text = "time_s,key,size,deadline_us\n0.001,4,10,500\n0.002,5,20,\n0.003,6,,700\n";
        std::fs::write(&path, text).unwrap();
        let arrival = Arrival::Trace(crate::Trace::new(&path));
        let mut traced = schedule(arrival.clone(), ms(9), 0);
        let first = traced.next(ms(0));
        assert_eq!((first.tick, first.number, first.dropped), (ms(1), 0, 0));
        assert_eq!((first.traced.key, first.traced.size), (Some(4), 10));
        let deadline = Some(Duration::from_micros(500));
        assert_eq!(first.traced.deadline, deadline);
        assert_eq!(traced.awaited(ms(3)), 0, "the second has none");
        assert_eq!(traced.awaited(ms(4)), 1);
        let last = traced.next(ms(4));
        assert_eq!((last.tick, last.number, last.dropped), (ms(3), 2, 1));
        assert_eq!((last.overtaken, traced.awaited(ms(9))), (0, 0));
        let both = schedule(arrival.clone(), ms(9), 0).next(ms(2));
        assert_eq!((both.dropped, both.overtaken), (1, 1));
        assert_eq!((last.traced.key, last.traced.size), (Some(6), 0));
        let none = traced.next(ms(5));
        assert_eq!((none.tick, none.dropped), (Duration::MAX, 0));
        std::fs::remove_file(&path).unwrap();
        assert!(Schedule::new(&arrival, ms(0), 0).is_err());
    }

    #[test]
    fn closed_loop_is_always_due() {
        let mut closed = schedule(Arrival::Closed, ms(3), 0);
        for now in [0, 1, 50] {
            let next = closed.next(ms(now));
            assert_eq!((next.tick, next.dropped), (ms(now), 0));
        }
    }

    #[test]
    fn the_newest_of_the_waiting_requests_wins() {
        let mut periodic = schedule(Arrival::Periodic(100.0), ms(2), 0);
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
        let mut periodic = schedule(Arrival::Periodic(150.0), Duration::ZERO, 0);
        let ticks: Vec<_> = (0..=150)
            .map(|_| periodic.next(Duration::ZERO).tick)
            .collect();
        assert_eq!(ticks[1], Duration::from_nanos(6_666_667));
        assert_eq!(ticks[150], Duration::from_secs(1));
    }

    #[test]
    fn poisson_has_its_rate_and_its_seed() {
        let ticks = |seed| {
            let mut schedule = schedule(Arrival::Poisson(100.0), Duration::ZERO, seed);
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

    /// The first arrivals of a schedule whose client is always free.
    fn first(arrival: Arrival, count: usize, seed: u64) -> Vec<f64> {
        let mut schedule = schedule(arrival, Duration::ZERO, seed);
        let ticks = (0..count).map(|_| schedule.next(Duration::ZERO).tick.as_secs_f64());
        ticks.collect()
    }

    /// Mean and coefficient of variation of the gaps.
    fn gaps(ticks: &[f64]) -> (f64, f64) {
        let gaps: Vec<f64> = ticks.windows(2).map(|two| two[1] - two[0]).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let square = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>();
        (mean, (square / gaps.len() as f64).sqrt() / mean)
    }

    #[test]
    fn gamma_gaps_have_their_mean_and_variation() {
        for wanted in [0.2, 1.0, 3.0] {
            let gamma = crate::Gamma {
                rate: 100.0,
                cv: wanted,
            };
            let ticks = first(Arrival::Gamma(gamma), 20_000, 7);
            let (mean, cv) = gaps(&ticks);
            assert!((0.0092..0.0108).contains(&mean), "a mean of {mean} s");
            assert!((cv / wanted - 1.0).abs() < 0.08, "{cv} for {wanted}");
            assert_eq!(ticks, first(Arrival::Gamma(gamma), 20_000, 7));
            assert_ne!(ticks, first(Arrival::Gamma(gamma), 20_000, 8));
        }
    }

    #[test]
    fn bursts_have_their_rate_within_and_in_all() {
        let bursts = OnOff {
            rate: 1_000.0,
            on_s: 0.1,
            off_s: 0.4,
        };
        let arrival = Arrival::OnOff(bursts);
        let ticks = first(arrival.clone(), 50_000, 3);
        assert_eq!(ticks, first(arrival.clone(), 50_000, 3));
        // 500 bursts: their number varies by a twentieth or so.
        let rate = 50_000.0 / ticks[49_999];
        let mean = arrival.rate(Duration::MAX).unwrap();
        assert!(
            (mean * 0.85..mean * 1.15).contains(&rate),
            "{rate} a second"
        );
        // Gaps of a burst are a millisecond; nearly all of 20 ms or more are those between two.
        let (within, between): (Vec<f64>, Vec<f64>) = ticks
            .windows(2)
            .map(|two| two[1] - two[0])
            .partition(|&gap| gap < 0.02);
        let within = within.iter().sum::<f64>() / within.len() as f64;
        assert!((0.00095..0.00105).contains(&within), "{within} s");
        assert!(
            (400..600).contains(&between.len()),
            "{} gaps",
            between.len()
        );
        let (_, cv) = gaps(&ticks);
        assert!(cv > 3.0, "a variation of {cv}");
    }

    proptest! {
        #[test]
        fn every_tick_is_served_or_dropped(
            rate in 1.0f64..1000.0,
            busy_us in prop::collection::vec(0u64..20_000, 1..100),
        ) {
            let mut schedule = schedule(Arrival::Periodic(rate), Duration::ZERO, 0);
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
