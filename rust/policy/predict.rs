// SPDX-License-Identifier: GPL-2.0 OR MIT
//! When the data of a request will be ready: the moment at which the GPU shall be free for it.
//!
//! A request's preparation takes a random time X. We choose a time t, counted from the request's
//! begin, at which the GPU shall be ours. If t < X we are *early*: the GPU idles for X - t. If
//! t > X we are *late*: the request waits for t - X, which is latency added. With a cost per
//! nanosecond of each, this is the newsvendor problem, and the expected cost
//!
//! ```text
//! early * E[max(0, X - t)] + late * E[max(0, t - X)]
//! ```
//!
//! is least where its derivative, late * P(X <= t) - early * P(X > t), passes through zero:
//!
//! ```text
//! P(X <= t) = early / (early + late)
//! ```
//!
//! the *critical fractile* (Arrow, Harris, Marschak: "Optimal inventory policy", 1951).

pub(crate) mod ema;
pub(crate) mod features;
pub(crate) mod fixed;
pub(crate) mod holt;
pub(crate) mod margin;
mod predictor;
pub(crate) mod quantile;
pub(crate) mod sharing;
pub(crate) mod trigger;

use super::units::Ns;
use ema::Ema;
use fixed::Fixed;
use holt::Holt;
use margin::Margin;
pub(crate) use predictor::{Costs, Predictor, LONGEST};
use quantile::Quantile;

/// The predictors there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Always the same duration.
    Fixed,
    /// The exponential moving average.
    Ema,
    /// Level and trend.
    Holt,
    /// The critical fractile of the observations.
    #[default]
    Quantile,
    /// A regression over the features of a request; a request without any has [`Self::Quantile`].
    Features,
}

impl Kind {
    /// All of them.
    pub(crate) const ALL: [Self; 5] = [
        Self::Fixed,
        Self::Ema,
        Self::Holt,
        Self::Quantile,
        Self::Features,
    ];

    /// Its number, 0 to 4.
    pub(crate) const fn number(self) -> u32 {
        self as u32
    }

    /// The predictor with this number, if there is one.
    pub(crate) fn new(number: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.number() == number)
    }

    /// Its name for people and programs.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Fixed => "fixed",
            Self::Ema => "ema",
            Self::Holt => "holt",
            Self::Quantile => "quantile",
            Self::Features => "features",
        }
    }

    /// The predictor of this name.
    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

/// The prediction that a request asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Choice {
    /// By which predictor.
    pub(crate) kind: Kind,
    /// The costs of errors; only [`Kind::Quantile`] and [`Kind::Features`] ask.
    pub(crate) costs: Costs,
    /// The prediction of [`Kind::Fixed`].
    pub(crate) fixed: Fixed,
    /// True if a margin is taken off that follows the errors of such requests. [`Kind::Quantile`] and
    /// [`Kind::Features`] weigh being late by themselves and take nothing off.
    pub(crate) margin: bool,
}

impl Choice {
    /// The same, from features.
    #[cold]
    #[inline(never)]
    pub(crate) fn of_features(self) -> Self {
        Self {
            kind: Kind::Features,
            // Kept with the request, as features are.
            margin: true,
            ..self
        }
    }

    /// The time from begin to trigger of a request with its data predicted ready after `predicted`,
    /// for a switch of an estimated `switch`. Zero without a prediction.
    pub(crate) fn lead(self, predicted: Option<Ns>, switch: Ns) -> Ns {
        let allowance = match self.kind {
            Kind::Fixed | Kind::Ema | Kind::Holt => switch,
            Kind::Quantile | Kind::Features => match self.costs.allowance(switch) {
                Some(allowance) => allowance,
                None => return LONGEST,
            },
        };
        predicted.map_or(Ns::ZERO, |time| time.saturating_sub(allowance))
    }
}

/// The history of the preparations of one key: the state of every predictor, so that each request
/// may choose another one, which then knows as much.
#[derive(Debug)]
pub(crate) struct History {
    quantile: Quantile,
    ema: Ema,
    holt: Holt,
    margins: Margins,
}

/// The margin of each point predictor.
#[derive(Debug)]
struct Margins {
    fixed: Margin,
    ema: Margin,
    holt: Margin,
}

impl Margins {
    /// The margin of a predictor; those that weigh costs have none.
    fn of(&self, kind: Kind) -> Option<&Margin> {
        match kind {
            Kind::Fixed => Some(&self.fixed),
            Kind::Ema => Some(&self.ema),
            Kind::Holt => Some(&self.holt),
            Kind::Quantile | Kind::Features => None,
        }
    }

    fn of_mut(&mut self, kind: Kind) -> Option<&mut Margin> {
        match kind {
            Kind::Fixed => Some(&mut self.fixed),
            Kind::Ema => Some(&mut self.ema),
            Kind::Holt => Some(&mut self.holt),
            Kind::Quantile | Kind::Features => None,
        }
    }
}

impl History {
    /// Nothing is known. Margins begin with this one.
    pub(crate) fn new(margin: Ns) -> Self {
        let margin = || Margin::new(margin);
        Self {
            quantile: Quantile::NEW,
            ema: Ema::new(Ema::ALPHA),
            holt: Holt::new(Holt::ALPHA, Holt::BETA),
            margins: Margins {
                fixed: margin(),
                ema: margin(),
                holt: margin(),
            },
        }
    }

    /// Learns from a preparation that has ended. `choice`: how it was predicted; only the margin
    /// that was asked for follows its error.
    pub(crate) fn observe(&mut self, took: Ns, choice: Choice) {
        if choice.margin && self.margins.of(choice.kind).is_some() {
            let estimate = self.estimate(choice);
            if let Some(margin) = self.margins.of_mut(choice.kind) {
                margin.observe(estimate, took);
            }
        }
        self.quantile.observe(took);
        self.ema.observe(took);
        self.holt.observe(took);
    }

    /// The prediction of a predictor, without a margin.
    fn estimate(&self, choice: Choice) -> Option<Ns> {
        let Choice { costs, fixed, .. } = choice;
        match choice.kind {
            Kind::Fixed => fixed.predict(costs),
            Kind::Ema => self.ema.predict(costs),
            Kind::Holt => self.holt.predict(costs),
            // Features come on top, from `features::Regression`.
            Kind::Quantile | Kind::Features => self.quantile.predict(costs),
        }
    }

    /// The time from begin at which the GPU shall be free; `None` if nothing is known.
    pub(crate) fn predict(&self, choice: Choice) -> Option<Ns> {
        let estimate = self.estimate(choice);
        match self.margins.of(choice.kind) {
            Some(margin) if choice.margin => margin.taken_off(estimate),
            _ => estimate,
        }
    }
}

#[cfg(any(test, zernel_kunit))]
#[cfg_attr(not(test), kernel::macros::kunit_tests(zernel_policy_predict))]
mod tests {
    use super::*;
    use crate::policy::units::Ppm;

    fn new() -> History {
        History::new(Margin::USUAL)
    }

    #[test]
    fn fractile_is_the_share_of_early() {
        let fractile = |early, late| Costs { early, late }.fractile();
        assert_eq!(fractile(1, 9), Ppm(100_000));
        assert_eq!(fractile(1, 1), Ppm(500_000));
        assert_eq!(fractile(0, 1), Ppm(0));
        assert_eq!(fractile(1, 0), Ppm::ONE);
        assert_eq!(fractile(0, 0), Ppm(500_000));
        assert_eq!(fractile(u32::MAX, u32::MAX), Ppm(500_000));
        assert_eq!(Costs::default().fractile(), Ppm(142_857));
    }

    #[test]
    fn the_switch_is_allowed_for_as_costs_say() {
        let lead = |early, late| {
            let choice = Choice {
                costs: Costs { early, late },
                ..Choice::default()
            };
            choice.lead(Some(Ns(300_000)), Ns(100_000))
        };
        for (early, late) in [(1, 6), (1, 49), (10, 60), (10, 490), (0, 0)] {
            assert_eq!(lead(early, late), Ns(200_000));
        }
        assert_eq!(lead(1, 3), Ns(250_000));
        assert_eq!(lead(5, 3), Ns(290_000));
        assert_eq!(lead(1, 98), Ns(100_000));
        assert_eq!(lead(1, 999), Ns(0));
        // Only one of the errors matters.
        assert_eq!(lead(0, 1), Ns(0));
        assert_eq!(lead(1, 0), LONGEST);
        assert!(lead(u32::MAX, u32::MAX) >= Ns(200_000));
        for kind in [Kind::Fixed, Kind::Ema, Kind::Holt] {
            let choice = Choice {
                kind,
                costs: Costs { early: 1, late: 0 },
                ..Choice::default()
            };
            assert_eq!(choice.lead(Some(Ns(300_000)), Ns(100_000)), Ns(200_000));
            assert_eq!(choice.lead(Some(Ns(1)), Ns(100_000)), Ns(0));
            assert_eq!(choice.lead(None, Ns(100_000)), Ns(0));
        }
    }

    #[test]
    fn names_and_numbers_lead_back() {
        for kind in Kind::ALL {
            assert_eq!(Kind::named(kind.name()), Some(kind));
            assert_eq!(Kind::new(kind.number()), Some(kind));
        }
        for bad in ["", "Ema", "ema ", "em", "emax", "1", "none"] {
            assert_eq!(Kind::named(bad), None);
        }
        assert_eq!(Kind::new(5), None);
        assert_eq!(Kind::new(u32::MAX), None);
        assert_eq!(Kind::default(), Kind::Quantile);
    }

    #[test]
    fn history_is_small() {
        assert!(core::mem::size_of::<History>() <= 512);
    }

    #[test]
    fn without_history_only_fixed_knows() {
        for kind in Kind::ALL {
            for margin in [false, true] {
                let choice = Choice {
                    kind,
                    margin,
                    ..Choice::default()
                };
                let known = new().predict(choice).is_some();
                assert_eq!(known, kind == Kind::Fixed);
            }
        }
    }

    #[test]
    fn every_predictor_has_learnt_when_it_is_chosen() {
        let mut history = new();
        for _ in 0..50 {
            history.observe(Ns(300_000), Choice::default());
        }
        for kind in [Kind::Ema, Kind::Holt, Kind::Quantile] {
            let choice = Choice {
                kind,
                ..Choice::default()
            };
            let t = history.predict(choice).unwrap_or_default();
            assert!(t <= Ns(300_000) && t >= Ns(299_000));
        }
    }

    #[test]
    fn margin_is_taken_off_on_demand() {
        let mut history = new();
        history.observe(Ns(300_000), Choice::default());
        for kind in [Kind::Fixed, Kind::Ema, Kind::Holt] {
            let plain = Choice {
                kind,
                ..Choice::default()
            };
            let with = Choice {
                margin: true,
                ..plain
            };
            history.observe(Ns(300_000), with);
            assert!(history.predict(with) < history.predict(plain));
            assert!(history.predict(with).is_some());
        }
        let with = Choice {
            margin: true,
            ..Choice::default()
        };
        assert_eq!(history.predict(with), history.predict(Choice::default()));
    }
}
