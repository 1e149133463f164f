// SPDX-License-Identifier: GPL-2.0 OR MIT
//! The next preparation takes as long as its features say: a regression, and the quantile of its
//! errors on top.
//!
//! A caller tells up to eight numbers that its preparations depend on, in units of its own; zernel
//! adds what it measures itself. [`linear`] tells an expected time from them, [`residual`] the time
//! at which the GPU shall be free, from the ratios of past times to the expected ones. The
//! prediction is that of the key's quantile until this one has cost less.

pub(crate) mod knowledge;
pub(crate) mod lessons;
mod linear;
pub(crate) mod machine;
pub(crate) mod residual;
pub(crate) mod tuning;

use super::Costs;
use crate::policy::units::{
    Ns,
    Permille,
    Ppm, //
};
use linear::{
    Linear,
    ALL, //
};
pub(crate) use linear::{
    Memory,
    GIVEN, //
};
use machine::Machine;
use residual::Residuals;
use tuning::Epoch;

/// The features of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Features {
    /// Those that the caller gives; the rest is zero.
    pub(crate) given: [i64; GIVEN],
    /// Those that zernel adds.
    pub(crate) machine: Machine,
    /// The epoch in which they were told.
    pub(crate) epoch: Epoch,
}

impl Features {
    /// None are told, nothing is measured.
    pub(crate) const NONE: Self = Self {
        given: [0; GIVEN],
        machine: Machine {
            busy: Ppm(0),
            io: Ppm(0),
            stalls: Permille(0),
        },
        epoch: Epoch(0),
    };

    fn all(&self) -> [i64; ALL] {
        let mut all = [0; ALL];
        let Machine { busy, io, stalls } = self.machine;
        let measured = [busy.0, io.0, stalls.0].map(i64::from);
        for (to, from) in all.iter_mut().zip(self.given.into_iter().chain(measured)) {
            *to = from;
        }
        all
    }
}

/// The dependence of one key's preparations on their features.
#[derive(Debug)]
pub(crate) struct Regression {
    linear: Linear,
    residuals: Residuals,
}

impl Regression {
    /// Nothing is known.
    pub(crate) const NEW: Self = Self {
        linear: Linear::NEW,
        residuals: Residuals::NEW,
    };

    /// Learns from a preparation that has ended. `fallback`: what the key's quantile told, at these
    /// costs.
    pub(crate) fn observe(
        &mut self,
        features: &Features,
        took: Ns,
        costs: Costs,
        fallback: Option<Ns>,
        memory: Memory,
    ) {
        let expected = self.linear.expected(features.all());
        self.residuals.observe(expected, took, costs, fallback);
        if self.linear.observe(features.all(), took, memory) {
            // They are of expectations that are gone.
            self.residuals = Residuals::NEW;
        }
    }

    /// The time from begin at which the GPU shall be free: `fallback` until features have told
    /// better ones.
    pub(crate) fn predict(
        &self,
        features: &Features,
        costs: Costs,
        fallback: Option<Ns>,
    ) -> Option<Ns> {
        match self.residuals.is_better() {
            true => self
                .residuals
                .told(self.linear.expected(features.all()), costs),
            false => fallback,
        }
    }

    /// True if predictions follow the features.
    pub(crate) fn is_used(&self) -> bool {
        self.residuals.is_better()
    }

    /// The share of the last 32 or so preparations that took what was expected to within 20 %.
    pub(crate) fn confidence(&self) -> Permille {
        self.residuals.confidence()
    }
}

#[cfg(any(test, zernel_kunit))]
#[cfg_attr(not(test), kernel::macros::kunit_tests(zernel_policy_predict_features))]
mod tests {
    use super::*;
    use crate::policy::predict::{
        quantile::Quantile,
        Predictor,
        LONGEST, //
    };

    /// A key as the kernel keeps it.
    struct Key {
        quantile: Quantile,
        regression: Regression,
    }

    impl Key {
        fn new() -> Self {
            Self {
                quantile: Quantile::NEW,
                regression: Regression::NEW,
            }
        }

        fn tell(&self, given: [i64; GIVEN]) -> Option<Ns> {
            let (features, costs) = (of(given), Costs::default());
            let fallback = self.quantile.predict(costs);
            self.regression.predict(&features, costs, fallback)
        }

        fn observe(&mut self, given: [i64; GIVEN], took: u64) {
            let (features, costs) = (of(given), Costs::default());
            let fallback = self.quantile.predict(costs);
            let memory = Memory::default();
            self.regression
                .observe(&features, Ns(took), costs, fallback, memory);
            self.quantile.observe(Ns(took));
        }
    }

    fn of(given: [i64; GIVEN]) -> Features {
        Features {
            given,
            ..Features::NONE
        }
    }

    fn one(size: i64) -> [i64; GIVEN] {
        [size, 0, 0, 0, 0, 0, 0, 0]
    }

    /// Sizes in no order, 1 to 1,000.
    fn size(n: u32) -> i64 {
        i64::from(n * 389 % 1_000) + 1
    }

    fn is_near(told: Option<Ns>, exact: u64, permille: u64) -> bool {
        told.is_some_and(|told| told.0.abs_diff(exact) * 1_000 <= exact * permille)
    }

    #[test]
    fn nothing_is_known_at_first() {
        assert_eq!(Key::new().tell(one(5)), None);
        assert!(!Regression::NEW.is_used());
        assert_eq!(Regression::NEW.confidence(), Permille(0));
    }

    #[test]
    fn a_size_that_explains_the_time_is_learnt() {
        let mut key = Key::new();
        for n in 0..200 {
            key.observe(one(size(n)), 50_000 + 700 * size(n) as u64);
        }
        assert!(key.regression.is_used());
        assert!(key.regression.confidence() > Permille(950));
        for size in [100, 500, 1_000] {
            assert!(is_near(key.tell(one(size)), 50_000 + 700 * size as u64, 20));
        }
    }

    #[test]
    fn units_are_the_callers_own() {
        for (origin, unit) in [(0, 1i64 << 40), (-7, -1), (1 << 60, 1 << 20), (3, 1_000)] {
            let mut key = Key::new();
            let told = |n: u32| one(origin + unit * size(n));
            for n in 0..200 {
                key.observe(told(n), 50_000 + 700 * size(n) as u64);
            }
            for n in [7, 8, 9] {
                assert!(is_near(
                    key.tell(told(n)),
                    50_000 + 700 * size(n) as u64,
                    30
                ));
            }
        }
    }

    #[test]
    fn the_quantile_tells_where_features_do_not_matter() {
        let mut key = Key::new();
        for n in 0..600 {
            key.observe(one(size(n)), 100_000 + 500 * size(n * 7 + 3) as u64);
        }
        // The middle of the sizes, where both must agree that they differ little.
        let fallback = key.quantile.predict(Costs::default());
        let told = key.tell(one(500));
        assert!(told == fallback || !key.regression.is_used() || told > fallback);
    }

    #[test]
    fn the_machine_counts_where_it_matters_alone() {
        for matters in [false, true] {
            let (mut regression, mut quantile) = (Regression::NEW, Quantile::NEW);
            let costs = Costs::default();
            // Busy by up to 4 % while it learns.
            let at = |n: u32, busy: u32| {
                let mut features = of(one(size(n)));
                features.machine.busy = Ppm(busy);
                let slower = if matters {
                    1_000 + u64::from(busy) / 50
                } else {
                    1_000
                };
                let noise = u64::from(n * 613 % 101) + 950;
                let took = (50_000 + 700 * size(n) as u64) * slower / 1_000 * noise / 1_000;
                (features, Ns(took))
            };
            for n in 0..300 {
                let (features, took) = at(n, n * 271 % 40_000);
                let fallback = quantile.predict(costs);
                regression.observe(&features, took, costs, fallback, Memory::DEFAULT);
                quantile.observe(took);
            }
            // Then by 30 %.
            let idle = regression.predict(&at(500, 10_000).0, costs, None);
            let busy = regression.predict(&at(500, 300_000).0, costs, None);
            let change = idle
                .unwrap_or_default()
                .0
                .abs_diff(busy.unwrap_or_default().0);
            let share = change * 100 / idle.unwrap_or_default().0.max(1);
            let is_followed = share > 20;
            assert_eq!(is_followed, matters);
        }
    }

    #[test]
    fn an_outlier_of_a_feature_is_forgotten() {
        for outlier in [0, 1, 100] {
            let mut key = Key::new();
            for n in 0..400 {
                let size = size(n);
                let given = if n == outlier { i64::MAX } else { size };
                key.observe(one(given), 50_000 + 700 * size as u64);
            }
            assert!(key.regression.is_used());
            assert!(is_near(key.tell(one(500)), 400_000, 30));
        }
    }

    #[test]
    fn bursts_of_the_machine_leave_what_is_known_of_sizes() {
        let (mut bursts, mut quiet) = (Regression::NEW, Regression::NEW);
        let (costs, memory) = (Costs::default(), Memory::default());
        for n in 0..3_000 {
            let fallback = Some(Ns(100_000));
            let plain = of(one(size(n)));
            let time = |busy: u32| 50_000 + 700 * size(n) as u64 + u64::from(busy);
            // Busy by up to 4 %, and by 30 % in bursts, of which the first comes late.
            let is_burst = n % 300 >= 290;
            let mut features = plain;
            features.machine.busy = Ppm(n * 271 % 40_000);
            features.machine.stalls = Permille(n % 2);
            if is_burst {
                features.machine.busy = Ppm(300_000);
                features.machine.io = Ppm(900_000);
                features.machine.stalls = Permille(800);
            }
            let took = time(features.machine.busy.0);
            // From the first burst on: it is foretold from the small loads before.
            if n > 200 {
                assert!(bursts.is_used());
                let most = if is_burst { 200 } else { 150 };
                assert!(is_near(bursts.predict(&features, costs, None), took, most));
            }
            bursts.observe(&features, Ns(took), costs, fallback, memory);
            quiet.observe(&plain, Ns(time(0)), costs, fallback, memory);
        }
        for size in [1, 100, 500, 1_000] {
            let plain = of(one(size));
            let told = quiet.predict(&plain, costs, None).unwrap_or_default();
            assert!(is_near(bursts.predict(&plain, costs, None), told.0, 50));
        }
    }

    #[test]
    fn any_input_is_bounded() {
        let values = [0, 1, -1, i64::MAX, i64::MIN, 1 << 40, -(1 << 50), 12_345];
        let times = [0, u64::MAX, 1, LONGEST.0, 300_000];
        let all = [
            Costs::default(),
            Costs { early: 0, late: 0 },
            Costs {
                early: u32::MAX,
                late: u32::MAX,
            },
        ];
        let mut regression = Regression::NEW;
        for n in 0usize..600 {
            let mut given = [0; GIVEN];
            for (at, to) in given.iter_mut().enumerate() {
                *to = values[(n * (at + 3) + n / 7) % values.len()];
            }
            let machine = Machine {
                busy: Ppm(u32::MAX),
                io: Ppm(n as u32),
                stalls: Permille(u32::MAX >> (n % 32)),
            };
            let features = Features {
                given,
                machine,
                ..Features::NONE
            };
            let (took, costs) = (Ns(times[n * 3 % times.len()]), all[n % all.len()]);
            let fallback = (n % 3 > 0).then_some(Ns(times[n % times.len()]));
            regression.observe(&features, took, costs, fallback, Memory::new(n as u32));
            let expected = regression.linear.expected(features.all());
            assert!(expected <= Some(LONGEST));
            assert!(regression.residuals.told(expected, costs) <= Some(LONGEST));
            assert!(regression.confidence() <= Permille(1_000));
        }
    }

    #[test]
    fn memory_stays_within_its_bounds() {
        assert_eq!(Memory::new(0).number(), 16);
        assert_eq!(Memory::new(u32::MAX).number(), 1_024);
        assert_eq!(Memory::new(128), Memory::default());
    }
}
