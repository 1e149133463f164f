// SPDX-License-Identifier: MIT OR Apache-2.0
//! Predictions from features: against exact arithmetic, and with values that were chosen to upset them.
//! Overflows and divisions by zero end a test: the build checks both.

use crate::policy::predict::{
    features::{
        knowledge::Knowledge,
        lessons::{Lesson, Lessons},
        machine::{Counts, Machine, Window},
        tuning::Tuning,
        Features, Memory, Regression, GIVEN,
    },
    quantile::Quantile,
    Costs, Predictor, LONGEST,
};
use crate::policy::units::{Ns, Permille, Ppm};
use proptest::prelude::*;

/// Values at the borders of their type, and others.
fn value() -> impl Strategy<Value = i64> {
    prop_oneof![
        Just(0i64),
        Just(i64::MIN),
        Just(i64::MAX),
        -3i64..4,
        (0u32..63, any::<bool>()).prop_map(|(bits, up)| if up { 1 << bits } else { -(1 << bits) }),
        any::<i64>(),
    ]
}

fn time() -> impl Strategy<Value = u64> {
    prop_oneof![Just(0u64), Just(u64::MAX), 0u64..2_000_000, any::<u64>()]
}

fn costs() -> impl Strategy<Value = Costs> {
    let cost = || prop_oneof![0u32..20, any::<u32>()];
    (cost(), cost()).prop_map(|(early, late)| Costs { early, late })
}

fn features() -> impl Strategy<Value = Features> {
    let given = proptest::array::uniform8(value());
    (given, any::<u32>(), any::<u32>(), any::<u32>()).prop_map(|(given, busy, io, stalls)| {
        Features {
            given,
            machine: Machine {
                busy: Ppm(busy),
                io: Ppm(io),
                stalls: Permille(stalls),
            },
            ..Features::NONE
        }
    })
}

/// One number is given.
fn of(size: i64) -> Features {
    let mut given = [0; GIVEN];
    given[0] = size;
    Features {
        given,
        ..Features::NONE
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// No input upsets the regression, whatever came before.
    #[test]
    fn regression_is_total(steps in proptest::collection::vec((features(), time(), time()), 1..80),
                           costs in costs(), memory in any::<u32>(), repeat in 1usize..4) {
        let mut regression = Regression::NEW;
        for _ in 0..repeat {
            for (features, took, fallback) in &steps {
                let fallback = (fallback % 3 > 0).then_some(Ns(*fallback));
                let told = regression.predict(features, costs, fallback);
                prop_assert!(told <= Some(LONGEST) || told == fallback);
                prop_assert!(told.is_some() || fallback.is_none());
                regression.observe(features, Ns(*took), costs, fallback, Memory::new(memory));
                prop_assert!(regression.confidence() <= Permille(1_000));
            }
        }
    }

    /// A line is found in any unit, from any origin.
    #[test]
    fn a_line_is_found(base in 0u64..500_000, slope in 0u64..2_000, bits in 0u32..40,
                       origin in -(1i64 << 50)..(1 << 50), memory in 64u32..1_024) {
        let mut regression = Regression::NEW;
        let mut quantile = Quantile::NEW;
        let costs = Costs::default();
        let take = |n: u64| (n * 7_919 % 1_000, base + slope * (n * 7_919 % 1_000) + 1_000);
        let place = |size: u64| of(origin + ((size as i64) << bits));
        for n in 0..300 {
            let (size, took) = take(n);
            let fallback = quantile.predict(costs);
            regression.observe(&place(size), Ns(took), costs, fallback, Memory::new(memory));
            quantile.observe(Ns(took));
        }
        let fallback = quantile.predict(costs);
        for n in 300..310 {
            let (size, took) = take(n);
            let told = regression.predict(&place(size), costs, fallback).unwrap_or_default();
            // It is a low fractile, of a few that were learnt in the beginning, too.
            let error = told.0.abs_diff(took);
            prop_assert!(error <= took / 5 + 5_000, "{} for {}", told.0, took);
        }
    }

    /// A regression that went through any changes of the tuning tells what one tells that was made anew
    /// when the last epoch began.
    #[test]
    fn an_older_epoch_is_as_good_as_none(
        steps in proptest::collection::vec((any::<u8>(), 0i64..1_000, 1u64..1_000_000), 20..200),
    ) {
        let mut tuning = Tuning::default();
        let mut old = Knowledge::new(tuning.epoch);
        let mut anew = Knowledge::new(tuning.epoch);
        let mut lessons = Lessons::NONE;
        let costs = Costs::default();
        for (change, size, noise) in steps {
            let before = tuning.epoch;
            tuning = match change {
                0..8 => tuning.then(None, tuning.measured),
                8..16 => tuning.then(Some(Memory::DEFAULT), tuning.measured),
                16..20 => tuning.then(tuning.memory, !tuning.measured),
                20..40 => tuning.then(tuning.memory.map(|_| Memory::new(change.into())), tuning.measured),
                _ => tuning,
            };
            if tuning.epoch != before {
                anew = Knowledge::new(tuning.epoch);
            }
            let features = Features { epoch: tuning.epoch, ..of(size) };
            let fallback = Some(Ns(100_000));
            let both = [&old, &anew].map(|one| one.predict(&features, costs, fallback));
            prop_assert_eq!(both[0], both[1]);
            // The lesson ends after up to two more changes.
            lessons.begin(Some(Lesson { features, costs, fallback }));
            lessons.end(change % 2 == 0, Ns(size as u64 * 700 + noise / 100));
            for learnt in lessons.take() {
                old.learn(&learnt, tuning);
                anew.learn(&learnt, tuning);
            }
        }
    }

    /// Counters of any kind have shares.
    #[test]
    fn windows_are_total(looks in proptest::collection::vec(
        (any::<u64>(), any::<u64>(), any::<u64>(), any::<u64>(), any::<u32>()), 1..50,
    )) {
        let mut window = Window::new(Ns(0), Counts::default());
        for (at, busy, io, stalls, cpus) in looks {
            let counts = Counts { busy: Ns(busy), io: Ns(io), stalls, cpus };
            let state = window.look(Ns(at), || counts);
            prop_assert!(state.busy <= Ppm::ONE && state.io <= Ppm::ONE);
            prop_assert!(state.stalls <= Permille(1_000));
        }
    }
}
