// SPDX-License-Identifier: MIT OR Apache-2.0
//! Properties of admission: a simulated GPU that serves the earliest deadline first, without preemption,
//! misses no promise, whatever the requests.

use proptest::prelude::*;

use crate::policy::{
    deadline::{
        burst::Bursts,
        line::{Claim, Lane, Line, Place, Refused},
        trust::{Burst, Trust, Trusts},
        HORIZON,
    },
    level::Level,
    units::Ns,
};

const LANE: Lane = Lane {
    runlist: 0,
    level: Level::LC,
};
const START: u64 = 1_000;

/// A request that arrives.
#[derive(Clone, Copy, Debug)]
struct Arrival {
    /// After the one before.
    pause: u64,
    user: u32,
    slo: u64,
    /// From its begin to its trigger.
    lead: u64,
    burst: u64,
    /// Of what it said, in thousandths.
    used: u64,
    /// Of its lead, likewise.
    waited: u64,
    /// If it is refused, it asks for the deadline that it is told.
    again: bool,
}

fn arrival() -> impl Strategy<Value = Arrival> {
    let times = (0u64..300, 1u64..3_000, 0u64..600, 0u64..400);
    let rest = (0u32..3, 0u64..=1_000, 0u64..=1_000, any::<bool>());
    (times, rest).prop_map(
        |((pause, slo, lead, burst), (user, used, waited, again))| Arrival {
            pause,
            user,
            slo,
            lead,
            burst,
            used,
            waited,
            again,
        },
    )
}

/// An admitted request.
#[derive(Clone, Copy, Debug)]
struct Promise {
    place: Place,
    deadline: u64,
    due: u64,
    takes: u64,
    waits: bool,
}

const SWITCH: u64 = 20;

/// A GPU and its line.
struct Machine {
    now: u64,
    line: Line,
    promises: Vec<Promise>,
    /// The one that has the GPU, and its end.
    running: Option<(Promise, u64)>,
    accepted: usize,
    refused: usize,
}

impl Machine {
    fn new() -> Self {
        Self {
            now: START,
            line: Line::EMPTY,
            promises: Vec::new(),
            running: None,
            accepted: 0,
            refused: 0,
        }
    }

    fn claim(&self, arrival: &Arrival, slo: u64) -> Claim {
        Claim {
            deadline: Ns(self.now + slo),
            due: Ns(self.now + arrival.lead),
            switch: Ns(SWITCH),
            burst: Ns(arrival.burst),
        }
    }

    fn ask(&mut self, arrival: &Arrival, slo: u64) -> Result<(), Refused> {
        let claim = self.claim(arrival, slo);
        let place = self
            .line
            .admit(LANE, arrival.user, claim, None, Ns(self.now))?;
        self.accepted += 1;
        self.promises.push(Promise {
            place,
            deadline: self.now + slo,
            due: self.now + arrival.lead * arrival.waited / 1_000,
            takes: SWITCH + arrival.burst * arrival.used / 1_000,
            waits: false,
        });
        self.serve();
        Ok(())
    }

    fn arrive(&mut self, arrival: &Arrival) {
        self.pass_to(self.now + arrival.pause);
        let Err(refused) = self.ask(arrival, arrival.slo) else {
            return;
        };
        self.refused += 1;
        if let Refused::Late(Some(earliest)) = refused {
            assert!(earliest > Ns(self.now + arrival.slo), "no later one");
            assert!(earliest <= Ns(self.now + HORIZON.0), "beyond the horizon");
            if arrival.again {
                let slo = earliest.0 - self.now;
                assert_eq!(self.ask(arrival, slo), Ok(()), "told, and not kept");
            }
        }
    }

    /// Those that are due wait, and the next one goes.
    fn serve(&mut self) {
        for promise in &mut self.promises {
            if !promise.waits && promise.due <= self.now {
                promise.waits = true;
                self.line.waits(promise.place);
            }
        }
        if self.running.is_some() {
            return;
        }
        let Some(next) = self.line.next(LANE, Ns(self.now)) else {
            return;
        };
        let at = self.promises.iter().position(|one| one.place == next);
        let next = self.promises.swap_remove(at.expect("whose turn is it?"));
        self.line.runs(next.place, Ns(u64::MAX), Ns(self.now));
        self.running = Some((next, self.now + next.takes));
    }

    fn pass_to(&mut self, end: u64) {
        loop {
            let due = self.promises.iter().filter(|one| !one.waits);
            let due = due.map(|one| one.due).min().unwrap_or(u64::MAX);
            let done = self.running.map_or(u64::MAX, |(_, end)| end);
            let next = due.min(done);
            if next > end {
                self.now = self.now.max(end);
                return;
            }
            self.now = self.now.max(next);
            if let Some((promise, _)) = self.running.take_if(|(_, end)| *end <= self.now) {
                assert!(
                    self.now <= promise.deadline,
                    "missed: {promise:?} at {}",
                    self.now
                );
                let took = promise.takes - SWITCH;
                assert_eq!(
                    self.line.over(promise.place, Some(Ns(took)), Ns(self.now)),
                    Some(LANE)
                );
            }
            self.serve();
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, ..ProptestConfig::default() })]

    /// Whatever is asked for, no promise is missed while bursts and leads are no longer than told, and a
    /// deadline that a refusal tells is promised.
    #[test]
    fn no_promise_is_missed(arrivals in proptest::collection::vec(arrival(), 1..120)) {
        let mut machine = Machine::new();
        for arrival in &arrivals {
            machine.arrive(arrival);
        }
        machine.pass_to(u64::MAX - 1);
        prop_assert!(machine.promises.is_empty() && machine.running.is_none());
        prop_assert!(machine.accepted + machine.refused >= arrivals.len());
    }

    /// A GPU that nobody uses promises all that fits, to one user.
    #[test]
    fn a_free_gpu_promises_what_fits(slo in 1u64..3_000, lead in 0u64..600, burst in 0u64..400) {
        let arrival = Arrival {
            pause: 0,
            user: 0,
            slo,
            lead,
            burst,
            used: 1_000,
            waited: 1_000,
            again: false,
        };
        let mut machine = Machine::new();
        let fits = lead + SWITCH + burst;
        let expected = match fits <= slo {
            true => Ok(()),
            false => Err(Refused::Late(Some(Ns(START + fits)))),
        };
        prop_assert_eq!(machine.ask(&arrival, slo), expected);
    }

    /// A crowd of requests without a promise has others refused by half of the time at most.
    #[test]
    fn half_of_the_time_is_left(
        crowd in proptest::collection::vec((1u64..5_000, 0u64..1_000_000), 0..40),
        slo in 1u64..3_000,
        burst in 0u64..1_000,
    ) {
        let mut machine = Machine::new();
        for (deadline, burst) in crowd {
            let claim = Claim {
                deadline: Ns(START + deadline),
                due: Ns(START),
                switch: Ns(SWITCH),
                burst: Ns(burst),
            };
            machine.line.join(LANE, 7, claim);
        }
        let claim = Claim {
            deadline: Ns(START + slo),
            due: Ns(START),
            switch: Ns(SWITCH),
            burst: Ns(burst),
        };
        let answer = machine.line.admit(LANE, 1, claim, None, Ns(START));
        prop_assert!(answer.is_ok() || 2 * (SWITCH + burst) + 1 > slo, "{answer:?}");
    }

    /// Any times are taken, and each place is given back.
    #[test]
    fn any_claim_is_answered(
        claims in proptest::collection::vec((any::<[u64; 4]>(), 0u32..4, 0u8..4), 1..150),
        now in any::<u64>(),
    ) {
        let mut line = Line::EMPTY;
        let mut places = Vec::new();
        for ([deadline, due, switch, burst], user, what) in claims {
            let claim = Claim {
                deadline: Ns(deadline),
                due: Ns(due),
                switch: Ns(switch),
                burst: Ns(burst),
            };
            let place = match what {
                0 => line.join(LANE, user, claim),
                _ => line.admit(LANE, user, claim, places.last().copied(), Ns(now)).ok(),
            };
            places.extend(place);
            if let (2, Some(&place)) = (what, places.first()) {
                line.runs(place, Ns(due), Ns(now));
            }
            if what == 3 && places.len() > 2 {
                prop_assert_eq!(line.over(places.remove(1), Some(Ns(burst)), Ns(0)), Some(LANE));
            }
        }
        for place in places {
            prop_assert_eq!(line.leave(place), Some(LANE));
        }
        prop_assert_eq!(line.first(LANE), None);
    }

    /// The bound of a burst is at least that of the longest of the last ones in steady state.
    #[test]
    fn bursts_are_bounded(bursts in proptest::collection::vec(any::<u64>(), 1..200)) {
        let mut known = Bursts::NEW;
        for burst in bursts {
            let bound = known.bound().unwrap_or(Ns::ZERO);
            known.observe(Ns(burst));
            let after = known.bound().unwrap();
            prop_assert!(after <= HORIZON);
            if Ns(burst.min(HORIZON.0)) > bound {
                prop_assert!(after >= Ns(burst.min(HORIZON.0)));
            }
        }
    }

    /// The trust in a user makes no burst shorter, a lie counts from the next one on, none counts for longer than
    /// the longest, and the factor falls by no more than an eighth for the time of the longest lie, and by half in
    /// [`HORIZON`]. Where the time may be others' the factor doubles at most.
    #[test]
    fn trust_is_paid_for(
        notes in proptest::collection::vec(
            (1u64..1 << 34, 0u64..1 << 34, 0u64..1 << 33, 0u8..4, 0u64..3),
            1..200,
        ),
    ) {
        const SAID: Ns = Ns(1_000);
        // From a lie on: its time, when it was, and by how much bursts were counted longer.
        let (mut trusts, mut now) = (Trusts::NONE, Ns(START));
        let mut last: Option<(u64, u64, f64)> = None;
        let mut longest = Ns::ZERO;
        // By which a microsecond is longer, and no lie is that long.
        let factor_of = |trust: Trust| trust.applied(SAID).0 as f64 / SAID.0 as f64;
        for (said, took, pause, what, shared) in notes {
            let (said, took) = (Ns(said), Ns(took.max(1 << 30)));
            let burst = Burst {
                said,
                took,
                shared: Ns(took.0 / 2 * shared),
            };
            let before = trusts.of(1, now);
            last = last.filter(|_| before != Trust::NEW);
            match what {
                0 => drop(trusts.note(1, &burst, now)),
                1 | 2 => drop(trusts.note_least(1, &burst, now)),
                _ => trusts.note_used(1, &burst, now),
            }
            let trust = trusts.of(1, now);
            let told = said.max(SAID);
            let own = Ns(took.0 - burst.shared.0.min(took.0));
            let is_lie = what < 3 && own > before.applied(told) && own.0 <= told.0 << 20;
            prop_assert!(!is_lie || trust.applied(told) >= own.min(HORIZON));
            prop_assert!(trust.applied(said) >= said.min(HORIZON));
            if what < 3 {
                longest = longest.max(took.min(HORIZON));
            }
            prop_assert!(trust.applied(said) <= said.min(HORIZON).max(longest));
            let factor = factor_of(trust);
            let shown = own.min(HORIZON).0 as f64 / told.0 as f64;
            prop_assert!(factor <= (2.0 * factor_of(before)).max(shown) + 0.125);
            if factor > factor_of(before) {
                let lie = last.map_or(took.0, |(lie, ..)| lie.max(took.0));
                last = Some((lie, now.0, factor));
            }
            if let Some((lie, at, worst)) = last {
                let passed = (now.0 - at) as f64;
                let eighths = (passed / lie as f64).floor() as i32 + 1;
                let halves = (passed / HORIZON.0 as f64).floor() as i32;
                let least = (worst - 1.0) * 0.875f64.powi(eighths) * 0.5f64.powi(halves);
                // In steps of sixteenths.
                prop_assert!(factor - 1.0 >= least - 0.75);
            }
            now = now.saturating_add(Ns(pause));
        }
    }

    /// Of bursts that are alike, few are longer than the bound.
    #[test]
    fn few_bursts_are_longer(seed in prop::collection::vec(800u64..1_200, 400)) {
        let mut known = Bursts::NEW;
        let mut longer = 0;
        for burst in &seed {
            longer += u32::from(known.bound().is_some_and(|bound| Ns(*burst) > bound));
            known.observe(Ns(*burst));
        }
        prop_assert!(longer <= 4, "{longer}");
        prop_assert!(known.bound() < Some(Ns(2_000)));
    }
}
