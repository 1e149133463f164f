// SPDX-License-Identifier: MIT OR Apache-2.0
//! Properties of slices that follow latencies, for any tunables and any measurements.

use crate::policy::{
    level::{self, Level},
    slices::{
        pid::{Controllers, Gain, Gains, Target, Terms, BOUNDS},
        Instead,
    },
    units::{Ns, Permille, Us},
};
use proptest::prelude::*;

fn gains() -> impl Strategy<Value = Gains> {
    (0..=Gain::MOST.0, 0..=Gain::MOST.0, 0..=Gain::MOST.0).prop_map(|(p, i, d)| Gains {
        proportional: Gain(p),
        integral: Gain(i),
        derivative: Gain(d),
    })
}

fn target() -> impl Strategy<Value = Option<Target>> {
    proptest::option::of(
        (10u32..=10_000_000, 1u32..=1_000).prop_map(|(us, permille)| Target {
            latency: Us(us),
            quantile: Permille(permille),
        }),
    )
}

fn terms() -> impl Strategy<Value = Terms> {
    let targets = proptest::array::uniform8(target());
    let table = proptest::array::uniform8((10u32..=10_000_000).prop_map(Us));
    (gains(), targets, table).prop_map(|(gains, targets, table)| Terms {
        gains,
        targets,
        table,
    })
}

/// Latencies of each level, the extreme ones often.
fn measured() -> impl Strategy<Value = [Option<Ns>; level::COUNT]> {
    let one = prop_oneof![
        Just(0),
        Just(1),
        Just(u64::MAX),
        any::<u64>(),
        0..1u64 << 34
    ];
    proptest::array::uniform8(proptest::option::of(one.prop_map(Ns)))
}

/// Work above a target that waits for one slice of BE: where its latency ends up, after so many
/// periods, in ns. `noise`: added to each.
fn settle(target_us: u32, own: u64, base: u32, noise: &[u64]) -> (Vec<u64>, Vec<u32>) {
    settle_with(Gains::USUAL, target_us, own, base, noise)
}

/// The same with these gains.
fn settle_with(
    gains: Gains,
    target_us: u32,
    own: u64,
    base: u32,
    noise: &[u64],
) -> (Vec<u64>, Vec<u32>) {
    let mut terms = Terms {
        gains,
        targets: [None; level::COUNT],
        table: Level::ALL.map(Level::default_timeslice),
    };
    terms.targets[0] = Some(Target {
        latency: Us(target_us),
        quantile: Permille(990),
    });
    terms.table[7] = Us(base);
    let mut controllers = Controllers::new();
    let mut be = Us(base);
    let (mut latencies, mut slices) = (Vec::new(), Vec::new());
    for noise in noise {
        let latency = own + Ns::from(be).0 + noise;
        let mut measured = [None; level::COUNT];
        measured[0] = Some(Ns(latency));
        be = controllers.step(&terms, &measured).of(Level::BE).unwrap();
        latencies.push(latency);
        slices.push(be.0);
    }
    (latencies, slices)
}

proptest! {
    /// Slices stay within their bounds, and only levels below one with a target have any.
    #[test]
    fn slices_are_bounded(
        changes in proptest::collection::vec((terms(), proptest::collection::vec(measured(), 1..20)), 1..6),
    ) {
        let mut controllers = Controllers::new();
        for (terms, all) in changes {
            for measured in all {
                let slices = controllers.step(&terms, &measured);
                let mut is_below = false;
                for (level, target) in Level::ALL.into_iter().zip(terms.targets) {
                    let slice = slices.of(level);
                    prop_assert_eq!(slice.is_some(), is_below);
                    prop_assert!(slice.is_none_or(|s| (BOUNDS.0..=BOUNDS.1).contains(&s)));
                    is_below |= target.is_some();
                }
            }
        }
    }

    /// A level whose requests are all late never has longer slices below it than their base.
    #[test]
    fn late_levels_never_lengthen(terms in terms(), rounds in 1usize..100) {
        let mut controllers = Controllers::new();
        let mut last = Instead::NONE;
        for _ in 0..rounds {
            last = controllers.step(&terms, &[Some(Ns(1 << 34)); level::COUNT]);
        }
        for level in Level::ALL {
            let usual = terms.table[level.number() as usize].max(BOUNDS.0);
            prop_assert!(last.of(level).is_none_or(|slice| slice <= usual));
        }
    }

    /// After a step of the load the loop settles at its target where that can be met, whatever was
    /// before, and at the end of its range where it cannot.
    #[test]
    fn steps_settle(
        target in 500u32..5_000,
        base in 100u32..20_000,
        loads in proptest::collection::vec(0u64..8_000, 1..4),
    ) {
        let (target_ns, mut noise) = (u64::from(target) * 1_000, Vec::new());
        // The sum grows by a tenth of the error, so the slice by a tenth of its base at most: four times
        // as long as it takes for the whole of the target.
        let rounds = 600.max(40 * target / base);
        for load in &loads {
            noise.extend((0..rounds).map(|_| load * 1_000));
        }
        let (latencies, slices) = settle(target, 0, base, &noise);
        let own = loads.last().unwrap() * 1_000;
        let (last, slice) = (&latencies[latencies.len() - 50..], slices[slices.len() - 50..].to_vec());
        if own + 100_000 >= target_ns {
            prop_assert!(slice.iter().all(|&s| s == 100), "{:?}", slice);
        } else {
            // A slice changes by a sixteenth at least, so this is how near it comes.
            let near = (target_ns - own) / 8 + 10_000;
            prop_assert!(last.iter().all(|l| l.abs_diff(target_ns) <= near), "{:?}", last);
        }
    }

    /// Gains well within the bound of stability settle at the target, where a slice makes up as much of
    /// the latency as it can.
    #[test]
    fn stable_gains_settle(p in 0u32..900, i in 50u32..400, d in 0u32..200) {
        prop_assume!(2 * p + i + 4 * d <= 1_700);
        let gains = Gains {
            proportional: Gain(p),
            integral: Gain(i),
            derivative: Gain(d),
        };
        let (latencies, _) = settle_with(gains, 2_000, 400_000, 2_000, &[0; 400]);
        let last = &latencies[350..];
        prop_assert!(last.iter().all(|l| l.abs_diff(2_000_000) <= 250_000), "{:?}", last);
    }

    /// Noise is not amplified: the slices swing by no more than the noise and its derivative call for,
    /// and their mean keeps the latency at the target.
    #[test]
    fn noise_is_not_amplified(
        own in 0u64..500_000,
        noise in proptest::collection::vec(0u64..400_000, 1_000..1_200),
    ) {
        let (latencies, slices) = settle(2_000, own, 200, &noise);
        let late = &latencies[500..];
        let mean = late.iter().sum::<u64>() / late.len() as u64;
        prop_assert!(mean.abs_diff(2_000_000) < 200_000, "{mean}");
        let (least, most) = (slices[500..].iter().min().unwrap(), slices[500..].iter().max().unwrap());
        prop_assert!(most - least < 600, "{least} to {most}");
    }
}

/// Gains beyond the bound of stability: the latency swings for ever.
#[test]
fn unstable_gains_swing() {
    for (p, i, d) in [(1_000, 300, 0), (500, 100, 400), (0, 100, 1_000)] {
        let gains = Gains {
            proportional: Gain(p),
            integral: Gain(i),
            derivative: Gain(d),
        };
        let (latencies, _) = settle_with(gains, 2_000, 400_000, 2_000, &[0; 400]);
        let last = &latencies[350..];
        let swing = last.iter().max().unwrap() - last.iter().min().unwrap();
        assert!(swing > 500_000, "{last:?}");
    }
}
