// SPDX-License-Identifier: MIT OR Apache-2.0
//! Histograms and predictors against exact arithmetic, on random and on published distributions.

use crate::policy::{
    buckets::Scale,
    histogram::Latencies,
    predict::{
        ema::Ema,
        fixed::Fixed,
        holt::Holt,
        quantile::Quantile,
        trigger::{Rule, Trigger},
        Choice, Costs, History, Kind, Predictor, LONGEST,
    },
    units::{Ns, Permille, Ppm},
};
use proptest::prelude::*;

/// splitmix64 (S. Vigna): the statistics below must come out the same on every machine.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    /// The next number.
    pub(crate) fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Evenly in 0..1.
    fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Standard normal (Box-Muller).
    fn normal(&mut self) -> f64 {
        let radius = (-2.0 * self.unit().max(f64::MIN_POSITIVE).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.unit()).cos()
    }
}

/// A distribution of preparation times in µs.
#[derive(Clone, Copy, Debug)]
enum Preparation {
    Constant(f64),
    Uniform(f64, f64),
    /// The first with this probability, else the second.
    Bimodal(f64, f64, f64),
    /// Median and sigma.
    LogNormal(f64, f64),
}

use Preparation::*;

impl Preparation {
    fn draw(self, random: &mut Random) -> f64 {
        match self {
            Constant(x) => x,
            Uniform(from, to) => from + (to - from) * random.unit(),
            Bimodal(share, a, b) => [a, b][usize::from(random.unit() >= share)],
            LogNormal(median, sigma) => median * (sigma * random.normal()).exp(),
        }
    }

    /// The best constant for these costs.
    fn ideal(self, costs: Costs) -> f64 {
        let mut random = Random(1);
        let mut drawn: Vec<f64> = (0..20_000).map(|_| self.draw(&mut random)).collect();
        drawn.sort_by(f64::total_cmp);
        let share = f64::from(costs.fractile().0) / 1e6;
        drawn[((drawn.len() as f64 * share) as usize).min(drawn.len() - 1)]
    }
}

const JITTER: [Preparation; 6] = [
    Uniform(50.0, 500.0),
    Bimodal(0.5, 80.0, 400.0),
    Bimodal(0.3, 80.0, 400.0),
    LogNormal(200.0, 0.3),
    LogNormal(200.0, 0.5),
    Uniform(198.0, 202.0),
];

fn ns(us: f64) -> Ns {
    Ns((us * 1000.0) as u64)
}

fn us(time: Ns) -> f64 {
    time.0 as f64 / 1000.0
}

/// Being early and late, in µs, per request.
#[derive(Default)]
struct Outcome {
    early: Vec<f64>,
    late: Vec<f64>,
}

impl Outcome {
    fn add(&mut self, told: f64, took: f64) {
        self.early.push((took - told).max(0.0));
        self.late.push((told - took).max(0.0));
    }

    fn cost(&self, costs: Costs) -> f64 {
        f64::from(costs.early) * mean(&self.early) + f64::from(costs.late) * mean(&self.late)
    }

    fn p99_late(&self) -> f64 {
        let mut late = self.late.clone();
        late.sort_by(f64::total_cmp);
        late[late.len() * 99 / 100]
    }
}

fn mean(of: &[f64]) -> f64 {
    of.iter().sum::<f64>() / of.len() as f64
}

/// Predicts each of these before it is observed; the first one has no prediction.
fn serve(took: impl IntoIterator<Item = f64>, costs: Costs) -> Outcome {
    let mut quantile = Quantile::NEW;
    let mut outcome = Outcome::default();
    for took in took {
        if let Some(told) = quantile.predict(costs) {
            outcome.add(us(told), took);
        }
        quantile.observe(ns(took));
    }
    outcome
}

fn draws(of: Preparation, seed: u64, count: usize) -> Vec<f64> {
    let mut random = Random(seed);
    (0..count).map(|_| of.draw(&mut random)).collect()
}

/// Predicting from 65 observations costs little more than knowing the distribution.
#[test]
fn costs_little_more_than_the_best_constant() {
    for preparation in JITTER {
        for (early, late) in [(1, 1), (1, 4), (1, 9), (1, 19), (4, 1)] {
            let costs = Costs { early, late };
            let took = draws(preparation, 7, 10_000);
            let ideal = preparation.ideal(costs);
            let mut best = Outcome::default();
            took.iter().for_each(|&took| best.add(ideal, took));
            let cost = serve(took, costs).cost(costs);
            // 1 µs: nobody can tell.
            let limit = best.cost(costs) * 1.06 + 1.0;
            assert!(cost <= limit, "{preparation:?} {costs:?}: {cost} > {limit}");
        }
    }
}

/// The figures that the default costs were chosen for.
#[test]
fn default_costs_keep_added_latency_and_idle_time_small() {
    for seed in [1, 2, 3] {
        for preparation in JITTER {
            let outcome = serve(draws(preparation, seed, 20_000), Costs::default());
            let (late, early) = (outcome.p99_late(), mean(&outcome.early));
            assert!(late <= 70.0, "{preparation:?}: {late} us late");
            assert!(early <= 240.0, "{preparation:?}: {early} us early");
            if matches!(preparation, Uniform(50.0, _)) {
                assert!(early <= 175.0, "{early} us early");
            }
        }
    }
}

/// 50 requests after a change, what is told is within 15 % of the new ideal, or no further away
/// than 50 µs. Of a jittering preparation 50 observations tell a little more or less by chance.
#[test]
fn back_within_fifty_after_a_step() {
    let costs = Costs::default();
    let shapes = [
        Constant(60.0),
        Constant(200.0),
        Constant(262.0),
        Constant(400.0),
        Constant(3_000.0),
        Uniform(50.0, 500.0),
        Uniform(500.0, 700.0),
        Uniform(195.0, 205.0),
        Bimodal(0.5, 80.0, 400.0),
        LogNormal(200.0, 0.5),
        LogNormal(1_000.0, 0.3),
    ];
    for before in shapes {
        for after in shapes {
            let ideal = after.ideal(costs);
            let (limit, allowed) = match after {
                Constant(_) => (0.15 * ideal, 0),
                _ => ((0.15 * ideal).max(50.0), 2),
            };
            let misses: Vec<f64> = (0..20)
                .map(|seed| {
                    let mut quantile = Quantile::NEW;
                    let then = draws(before, seed, 300).into_iter();
                    for took in then.chain(draws(after, seed + 1_000, 50)) {
                        quantile.observe(ns(took));
                    }
                    us(quantile.predict(costs).unwrap())
                })
                .filter(|told| (told - ideal).abs() > limit)
                .collect();
            assert!(
                misses.len() <= allowed,
                "{before:?} -> {after:?}: {misses:?} for {ideal}"
            );
        }
    }
}

/// Something that changes slowly is followed: neither late by much nor idle for long.
#[test]
fn drift_is_followed() {
    let mut random = Random(3);
    // From 100 to 1000 µs in 3,000 requests and back, ± 10 %.
    let took: Vec<f64> = (0..6_000)
        .map(|n| f64::from(if n < 3_000 { n } else { 6_000 - n }))
        .map(|way| (100.0 + way * 0.3) * (0.9 + 0.2 * random.unit()))
        .collect();
    let outcome = serve(took.iter().copied(), Costs::default());
    assert!(outcome.p99_late() <= 50.0);
    assert!(mean(&outcome.early) <= 0.2 * mean(&took));
}

/// Durations that the histogram promises its error for, and their neighbours.
fn duration() -> impl Strategy<Value = u64> {
    prop_oneof![
        1_000u64..1_000_000,
        1_000u64..10_000_000_000,
        (0u32..23, 0u64..1000).prop_map(|(octave, way)| (1_000 + way) << octave),
    ]
}

/// Anything, with the borders more often than chance would have it.
fn anything() -> impl Strategy<Value = u64> {
    prop_oneof![
        any::<u64>(),
        duration(),
        Just(0),
        Just(u64::MAX),
        Just(LONGEST.0),
        Just(LONGEST.0 + 1),
        (0u32..64).prop_map(|bit| 1 << bit),
    ]
}

fn rule() -> impl Strategy<Value = Rule> {
    (0u32..3, anything()).prop_map(|(trigger, min_prep)| Rule {
        trigger: Trigger::new(trigger).unwrap(),
        order: crate::policy::deadline::Order::Fifo,
        min_prep: Ns(min_prep),
    })
}

fn costs() -> impl Strategy<Value = Costs> {
    let cost = || prop_oneof![0u32..20, any::<u32>()];
    (cost(), cost()).prop_map(|(early, late)| Costs { early, late })
}

fn recorded(values: &[u64]) -> Box<Latencies> {
    let mut h = Box::new(Latencies::EMPTY);
    values.iter().for_each(|&value| h.record(Ns(value)));
    h
}

proptest! {
    /// Every duration lies in its bucket, whatever the scale.
    #[test]
    fn buckets_hold_what_is_theirs(value in anything(), unit in 0u32..12, sub in 0u32..8) {
        let scale = Scale::new(unit, sub, usize::MAX);
        let index = scale.index(Ns(value));
        let past = value - scale.lower(index).0;
        prop_assert!(past < scale.width(index).0);
        prop_assert!(scale.midpoint(index) >= scale.lower(index));
    }

    /// No scale and no index breaks the arithmetic.
    #[test]
    fn buckets_are_total(value in any::<u64>(), unit in any::<u32>(), sub in any::<u32>(),
                         buckets in any::<usize>(), index in any::<usize>()) {
        let scale = Scale::new(unit, sub, buckets);
        prop_assert!(scale.index(Ns(value)) < buckets.max(1));
        prop_assert!(scale.midpoint(index) >= scale.lower(index));
        scale.width(index);
    }

    /// The promised error of every quantile, against sorting.
    #[test]
    fn histogram_quantiles_are_within_three_percent(
        mut values in proptest::collection::vec(duration(), 1..300), share in 0u32..=1_000_000,
    ) {
        let h = recorded(&values);
        values.sort_unstable();
        let rank = (u64::from(share) * values.len() as u64).div_ceil(1_000_000).max(1);
        let exact = values[rank as usize - 1] as f64;
        let told = h.quantile(Ppm(share)).unwrap().0 as f64;
        prop_assert!((told - exact).abs() <= 0.03 * exact, "{} for {}", told, exact);
        prop_assert_eq!(h.min(), values.first().copied().map(Ns));
        prop_assert_eq!(h.max(), values.last().copied().map(Ns));
        prop_assert_eq!(h.sum().0, values.iter().sum::<u64>());
        prop_assert_eq!(h.buckets().map(|b| b.count).sum::<u64>(), h.count());
    }

    /// Quantiles never fall while the share rises, for any input.
    #[test]
    fn histogram_quantiles_are_ordered(values in proptest::collection::vec(anything(), 1..100)) {
        let h = recorded(&values);
        let told: Vec<_> = (0..=100).map(|n| h.quantile(Ppm(n * 10_000))).collect();
        prop_assert!(told.is_sorted());
        prop_assert_eq!(told[0], h.min());
        prop_assert_eq!(told[100], h.max());
        prop_assert!(h.min() <= h.mean() || h.sum() == Ns(u64::MAX));
    }

    /// Two histograms merged are one of both.
    #[test]
    fn histogram_merge_is_a_union(a in proptest::collection::vec(anything(), 0..50),
                                  b in proptest::collection::vec(anything(), 0..50)) {
        let mut merged = recorded(&a);
        merged.merge(&recorded(&b));
        let both = recorded(&[a, b].concat());
        prop_assert_eq!(format!("{merged:?}"), format!("{both:?}"));
    }

    /// A share in millionths is what 128-bit arithmetic says.
    #[test]
    fn millionths_are_exact(share in 0u32..=1_000_000, whole in anything()) {
        let exact = (u128::from(share) * u128::from(whole)).div_ceil(1_000_000);
        prop_assert_eq!(u128::from(Ppm(share).of_rounded_up(whole)), exact);
    }

    /// The prediction lies between the buckets of the shortest and the longest observation, and
    /// never falls while being early grows cheaper to avoid.
    #[test]
    fn quantile_is_bounded_by_what_it_saw(values in proptest::collection::vec(anything(), 1..200),
                                          costs in costs(), other in costs()) {
        let mut quantile = Quantile::NEW;
        for &value in &values {
            quantile.observe(Ns(value));
            prop_assert!(quantile.predict(costs).is_some());
        }
        let shortest = values.iter().min().unwrap().min(&LONGEST.0);
        let longest = values.iter().max().unwrap().min(&LONGEST.0);
        let told = quantile.predict(costs).unwrap().0;
        prop_assert!(told >= (shortest - shortest / 5).saturating_sub(256));
        prop_assert!(told <= longest + longest / 4 + 256);
        let told_other = quantile.predict(other).unwrap().0;
        match costs.fractile().cmp(&other.fractile()) {
            std::cmp::Ordering::Less => prop_assert!(told <= told_other),
            std::cmp::Ordering::Equal => prop_assert_eq!(told, told_other),
            std::cmp::Ordering::Greater => prop_assert!(told >= told_other),
        }
    }

    /// No input upsets any predictor, and a margin only ever makes it earlier.
    #[test]
    fn history_is_total(values in proptest::collection::vec((anything(), anything()), 0..100),
                        costs in costs(), margin in anything(), rule in rule()) {
        let mut history = History::new(Ns(margin));
        for (n, &(took, fixed)) in values.iter().enumerate() {
            let fixed = Fixed(Ns(fixed));
            for kind in Kind::ALL {
                let choice = Choice { kind, costs, fixed, margin: false };
                let plain = history.predict(choice);
                prop_assert_eq!(plain.is_some(), n > 0 || kind == Kind::Fixed);
                let with = history.predict(Choice { margin: true, ..choice });
                prop_assert!(with <= plain);
                prop_assert!(plain <= Some(LONGEST) || kind == Kind::Fixed);
                // Nor does a rule put the trigger behind the time at which the data is expected.
                let lead = rule.lead(choice, plain, Ns(fixed.0.0));
                if rule == Rule::default() {
                    prop_assert_eq!(lead, choice.lead(plain, Ns(fixed.0.0)));
                }
                let in_advance = rule.trigger != Trigger::AtReady && costs.late > 0;
                prop_assert!(lead <= plain.unwrap_or(Ns(0)) || !in_advance);
            }
            history.observe(Ns(took), Choice { fixed, margin: true, ..Choice::default() });
        }
    }

    /// The moving average is what floats say, to within the rounding of every step.
    #[test]
    fn ema_is_right(values in proptest::collection::vec(0u64..10_000_000_000, 1..100),
                    alpha in 1u32..=1000) {
        let mut ema = Ema::new(Permille(alpha));
        let mut exact = 0.0;
        for (n, &took) in values.iter().enumerate() {
            ema.observe(Ns(took));
            let weight = f64::from((1000 / (n as u32 + 1)).max(alpha)) / 1000.0;
            exact += (took as f64 - exact) * weight;
        }
        let told = ema.predict(Costs::default()).unwrap().0 as f64;
        // Less than 1 ns per step, each of which fades with 1 - alpha.
        let rounding = 1000.0 / f64::from(alpha) + 1.0;
        prop_assert!((told - exact).abs() <= rounding, "{} for {}", told, exact);
    }

    /// Level and trend are what floats say, as long as the bounds are not met.
    #[test]
    fn holt_is_right(values in proptest::collection::vec(100_000_000u64..200_000_000, 1..60)) {
        let (alpha, beta) = (0.3, 0.1);
        let mut holt = Holt::new(Holt::ALPHA, Holt::BETA);
        let (mut level, mut trend) = (values[0] as f64, 0.0);
        holt.observe(Ns(values[0]));
        for &took in &values[1..] {
            holt.observe(Ns(took));
            let next = alpha * took as f64 + (1.0 - alpha) * (level + trend);
            trend = beta * (next - level) + (1.0 - beta) * trend;
            level = next;
        }
        let told = holt.predict(Costs::default()).unwrap().0 as f64;
        prop_assert!((told - (level + trend)).abs() <= 2.0, "{} for {}", told, level + trend);
    }
}
