// SPDX-License-Identifier: GPL-2.0 OR MIT
//! The time from a trigger until the GPU runs the TSG, learned from one bit per request.

use super::units::{
    Ns,
    Permille, //
};

/// The observation at the time when the GPU should have switched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Switched {
    /// The holder had run.
    InTime,
    /// It had not.
    NotYet,
}

/// The state of the GPU when a request begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) enum Phase {
    /// No best-effort TSG has anything to run: no slice is waited for.
    Free,
    /// One best-effort TSG may have it, and goes on.
    #[default]
    Settled,
    /// It goes from one best-effort TSG to another: the request may meet that switch first, and a
    /// slice of the other.
    HandingOver,
}

impl Phase {
    /// All of them.
    #[allow(dead_code, reason = "the simulation asks for one at a time")]
    pub(crate) const ALL: [Self; 3] = [Self::Free, Self::Settled, Self::HandingOver];
}

/// The costs of switches, learned apart for each [`Phase`]: observations in a few hand-overs must
/// not make every other request take the GPU too early, nor the reverse; and those while no
/// best-effort work is there say nothing of the slice that others wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Costs {
    free: Cost,
    settled: Cost,
    handing_over: Cost,
}

impl Costs {
    /// Of a GPU of which nothing is known. A hand-over is a switch more.
    pub(crate) fn new(quantile: Permille) -> Self {
        Self {
            free: Cost::new(Cost::PRIOR, quantile),
            settled: Cost::new(Cost::PRIOR, quantile),
            handing_over: Cost::new(Cost::PRIOR.saturating_add(Cost::PRIOR), quantile),
        }
    }

    /// The time after a trigger by which the GPU has switched in most cases.
    pub(crate) fn estimate(&self, phase: Phase) -> Ns {
        let settled = self.settled.estimate();
        match phase {
            Phase::Free => self.free.estimate(),
            Phase::Settled => settled,
            Phase::HandingOver => settled.max(self.handing_over.estimate()),
        }
    }

    /// Learns from what was seen [`Self::estimate`] after a trigger.
    pub(crate) fn learn(&mut self, phase: Phase, seen: Switched) {
        match phase {
            Phase::Free => self.free.learn(seen),
            Phase::Settled => self.settled.learn(seen),
            Phase::HandingOver => self.handing_over.learn(seen),
        }
    }
}

/// A high quantile of the time that a switch takes.
///
/// Nobody tells when the GPU has switched, but whether it has by a given time can be read from a
/// word. So the estimate is tried on each request and moves by one bit, after Robbins and Monro
/// (1951): up by `step * quantile` if the GPU was not ready, else down by `step * (1 - quantile)`,
/// which balances where the GPU is ready in time in `quantile` of all cases. Steps are in
/// proportion to the estimate, since costs of different GPUs are decades apart. The step shrinks
/// whenever the direction turns, as Kesten's does (1958), and grows again in runs too long for
/// chance; it never falls below a bound, so that a change is always followed.
///
/// # Invariants
///
/// `scaled` lies within [`Cost::RANGE`], scaled; `shift` within [`Cost::STEPS`]; `quantile` within
/// [`Cost::QUANTILES`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cost {
    /// The estimate in `2^-FRACTION` ns.
    scaled: u64,
    /// The step is the estimate divided by two to this.
    shift: u32,
    /// Length of the run of equal bits that goes on.
    run: u32,
    last: Switched,
    quantile: Permille,
}

impl Cost {
    /// Bounds of the cost: an idle GPU starts a kernel in some microseconds; the longest slice of
    /// BE that makes sense with latency-critical work is some milliseconds.
    pub(crate) const RANGE: (Ns, Ns) = (Ns(1_000), Ns(10_000_000));
    /// The cost before anything is learned: the constant of GPreempt.
    pub(crate) const PRIOR: Ns = Ns(100_000);
    /// In how many of 1,000 cases the GPU has switched in time when it is as early as is learned.
    pub(crate) const IN_TIME: Permille = Permille(980);
    /// Bounds of the quantile. Lower ones need other rules for an unlikely run.
    pub(crate) const QUANTILES: (Permille, Permille) = (Permille(800), Permille(990));
    /// Shifts of the largest and the smallest step: a quarter while nothing is known, and 1/32,
    /// at which the wobble of an estimate stays at about 3 %.
    const STEPS: (u32, u32) = (2, 5);
    /// The smallest step down of the smallest estimate is 1000 ns / 32 / 100: less than one.
    const FRACTION: u32 = 8;

    /// Starts from an assumed cost of a switch, clamped to the range.
    pub(crate) fn new(prior: Ns, quantile: Permille) -> Self {
        let (min, max) = Self::QUANTILES;
        // INVARIANT: Clamped, and the largest step.
        Self {
            scaled: Self::in_range(prior.0.saturating_mul(1 << Self::FRACTION)),
            shift: Self::STEPS.0,
            run: 0,
            last: Switched::InTime,
            quantile: quantile.clamp(min, max),
        }
    }

    /// The time after a trigger by which the GPU has switched in `quantile` of all cases.
    pub(crate) fn estimate(&self) -> Ns {
        Ns(self.scaled >> Self::FRACTION)
    }

    /// Learns from what was seen [`Self::estimate`] after a trigger.
    pub(crate) fn learn(&mut self, seen: Switched) {
        self.adapt(seen);
        let step = self.scaled >> self.shift;
        let up = u64::from(self.quantile.0);
        // INVARIANT: Clamped.
        self.scaled = Self::in_range(match seen {
            Switched::NotYet => self.scaled.saturating_add(step.saturating_mul(up) / 1_000),
            Switched::InTime => self
                .scaled
                .saturating_sub(step.saturating_mul(1_000u64.saturating_sub(up)) / 1_000),
        });
    }

    /// Chooses the next step.
    fn adapt(&mut self, seen: Switched) {
        let turned = seen != self.last;
        self.run = if turned {
            1
        } else {
            self.run.saturating_add(1)
        };
        self.last = seen;
        let (largest, smallest) = Self::STEPS;
        // INVARIANT: Both moves stop at a bound.
        if turned && seen == Switched::NotYet {
            self.shift = self.shift.saturating_add(1).min(smallest);
        } else if self.is_unlikely() {
            self.shift = self.shift.saturating_sub(1).max(largest);
        }
    }

    /// True if a run of this length shows that the estimate is wrong.
    ///
    /// Late twice in a row has a probability of `(1 - quantile)^2`, at most 4 %. In time `k` times in
    /// a row has `quantile^k`, about a fifth at `k = 1.6 / (1 - quantile)`; that is asked again each
    /// half of such a run.
    fn is_unlikely(&self) -> bool {
        match self.last {
            Switched::NotYet => self.run >= 2,
            Switched::InTime => {
                let late = 1_000u32.saturating_sub(self.quantile.0).max(1);
                let long = 1_600 / late;
                let again = (long / 2).max(1);
                self.run >= long && self.run.saturating_sub(long).checked_rem(again) == Some(0)
            }
        }
    }

    fn in_range(scaled: u64) -> u64 {
        let (min, max) = Self::RANGE;
        scaled.clamp(min.0 << Self::FRACTION, max.0 << Self::FRACTION)
    }
}

#[cfg(any(test, zernel_kunit))]
#[cfg_attr(not(test), kernel::macros::kunit_tests(zernel_policy_switch_cost))]
mod tests {
    use super::*;

    const HIGH: Permille = Permille(900);

    /// Costs that are uniform within 20 % around a middle, by Marsaglia's xorshift64.
    struct Gpu {
        middle: u64,
        random: u64,
    }

    impl Gpu {
        fn new(middle: Ns) -> Self {
            Self {
                middle: middle.0,
                random: 0x9e37_79b9_7f4a_7c15,
            }
        }

        fn cost(&mut self) -> u64 {
            self.random ^= self.random << 13;
            self.random ^= self.random >> 7;
            self.random ^= self.random << 17;
            // From 80 % to 120 % of the middle.
            (self.middle / 1_000).saturating_mul(800 + self.random % 401)
        }

        /// The 90 % quantile: 80 % + 0.9 * 40 %.
        fn truth(&self) -> u64 {
            self.middle * 116 / 100
        }

        fn teach(&mut self, cost: &mut Cost, samples: usize) -> u32 {
            let mut late = 0;
            for _ in 0..samples {
                let seen = if self.cost() <= cost.estimate().0 {
                    Switched::InTime
                } else {
                    late += 1;
                    Switched::NotYet
                };
                cost.learn(seen);
            }
            late
        }

        fn is_known_to(&self, cost: &Cost) -> bool {
            let (told, truth) = (cost.estimate().0, self.truth());
            (truth * 85 / 100..=truth * 115 / 100).contains(&told)
        }
    }

    #[test]
    fn phases_are_learned_apart() {
        let mut costs = Costs::new(HIGH);
        assert_eq!(costs.estimate(Phase::Settled), Cost::PRIOR);
        assert_eq!(costs.estimate(Phase::HandingOver), Ns(200_000));
        for _ in 0..10 {
            costs.learn(Phase::HandingOver, Switched::NotYet);
        }
        assert_eq!(costs.estimate(Phase::Settled), Cost::PRIOR);
        assert!(costs.estimate(Phase::HandingOver) > Ns(800_000));
        for _ in 0..20 {
            costs.learn(Phase::Settled, Switched::NotYet);
        }
        // A hand-over is never expected to take less.
        let settled = costs.estimate(Phase::Settled);
        assert!(settled > Ns(1_000_000));
        assert_eq!(costs.estimate(Phase::HandingOver), settled);
    }

    #[test]
    fn requests_without_best_effort_work_say_nothing_of_its_slices() {
        let mut costs = Costs::new(HIGH);
        for _ in 0..100 {
            costs.learn(Phase::Free, Switched::InTime);
        }
        assert!(costs.estimate(Phase::Free) < Ns(50_000));
        assert_eq!(costs.estimate(Phase::Settled), Cost::PRIOR);
        assert_eq!(costs.estimate(Phase::HandingOver), Ns(200_000));
        for _ in 0..10 {
            costs.learn(Phase::Settled, Switched::NotYet);
        }
        assert!(costs.estimate(Phase::Free) < Ns(50_000));
    }

    #[test]
    fn converges_within_200_samples() {
        for middle in [30_000, 60_000, 100_000, 200_000, 400_000] {
            let mut gpu = Gpu::new(Ns(middle));
            let mut cost = Cost::new(Ns(100_000), HIGH);
            gpu.teach(&mut cost, 200);
            assert!(gpu.is_known_to(&cost));
        }
    }

    #[test]
    fn stays_where_it_should_be() {
        for middle in [30_000, 100_000, 400_000] {
            let mut gpu = Gpu::new(Ns(middle));
            let mut cost = Cost::new(Ns(100_000), HIGH);
            gpu.teach(&mut cost, 200);
            let mut late = 0;
            for _ in 0..200 {
                late += gpu.teach(&mut cost, 10);
                assert!(gpu.is_known_to(&cost));
            }
            // A tenth of 2000, within four standard deviations.
            assert!((147..254).contains(&late));
        }
    }

    #[test]
    fn follows_a_step() {
        for (before, after) in [(30_000, 400_000), (400_000, 30_000)] {
            let mut cost = Cost::new(Ns(100_000), HIGH);
            Gpu::new(Ns(before)).teach(&mut cost, 1_000);
            let mut gpu = Gpu::new(Ns(after));
            gpu.teach(&mut cost, 200);
            assert!(gpu.is_known_to(&cost));
        }
    }

    #[test]
    fn rises_fast_when_late() {
        let mut cost = Cost::new(Ns(100_000), HIGH);
        for _ in 0..10 {
            cost.learn(Switched::NotYet);
        }
        assert!(cost.estimate() > Ns(400_000));
    }

    #[test]
    fn stays_in_range() {
        assert_eq!(Cost::new(Ns(0), HIGH).estimate(), Ns(1_000));
        assert_eq!(Cost::new(Ns(u64::MAX), HIGH).estimate(), Ns(10_000_000));
        let mut cost = Cost::new(Ns(100_000), HIGH);
        for _ in 0..2_000 {
            cost.learn(Switched::InTime);
        }
        assert_eq!(cost.estimate(), Ns(1_000));
        for _ in 0..2_000 {
            cost.learn(Switched::NotYet);
        }
        assert_eq!(cost.estimate(), Ns(10_000_000));
    }

    #[test]
    fn leaves_its_bounds_again() {
        let mut cost = Cost::new(Ns(0), Permille(1_000));
        cost.learn(Switched::InTime);
        cost.learn(Switched::NotYet);
        assert!(cost.estimate() > Ns(1_000));
        let mut cost = Cost::new(Ns(u64::MAX), Permille(1_000));
        cost.learn(Switched::NotYet);
        cost.learn(Switched::InTime);
        assert!(cost.estimate() < Ns(10_000_000));
    }

    #[test]
    fn quantile_is_clamped() {
        let prior = Ns(100_000);
        let (min, max) = Cost::QUANTILES;
        assert_eq!(Cost::new(prior, Permille(0)), Cost::new(prior, min));
        assert_eq!(Cost::new(prior, Permille(1_000)), Cost::new(prior, max));
    }
}
