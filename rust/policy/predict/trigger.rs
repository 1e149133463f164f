// SPDX-License-Identifier: GPL-2.0 OR MIT
//! The moment of the trigger, as it is tuned: as the published configurations have it.

use super::{
    Choice,
    LONGEST, //
};
use crate::policy::{
    deadline::Order,
    units::Ns, //
};

/// The moment at which the GPU is taken for a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Trigger {
    /// So long before its data is expected that the GPU is free then.
    #[default]
    Predicted,
    /// When it begins.
    AtBegin,
    /// When its data is ready.
    AtReady,
}

impl Trigger {
    const ALL: [Self; 3] = [Self::Predicted, Self::AtBegin, Self::AtReady];

    /// Its number, 0 to 2.
    pub(crate) const fn number(self) -> u32 {
        self as u32
    }

    /// The moment with this number, if there is one.
    pub(crate) fn new(number: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|when| when.number() == number)
    }
}

/// The rule by which the trigger of a request follows from its prediction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Rule {
    /// The moment.
    pub(crate) trigger: Trigger,
    /// A preparation that is expected to be shorter has its trigger at once.
    pub(crate) min_prep: Ns,
    /// The order among requests of a level that are due.
    pub(crate) order: Order,
}

impl Rule {
    /// As [`Choice::lead`], by this rule.
    #[cold]
    #[inline(never)]
    pub(crate) fn lead(self, choice: Choice, predicted: Option<Ns>, switch: Ns) -> Ns {
        match self.trigger {
            Trigger::Predicted => match predicted {
                Some(time) if time < self.min_prep => Ns::ZERO,
                _ => choice.lead(predicted, switch),
            },
            Trigger::AtBegin => Ns::ZERO,
            Trigger::AtReady => LONGEST,
        }
    }
}

#[cfg(any(test, zernel_kunit))]
#[cfg_attr(not(test), kernel::macros::kunit_tests(zernel_policy_predict_trigger))]
mod tests {
    use super::*;
    use crate::policy::predict::{
        fixed::Fixed,
        Kind, //
    };

    const SWITCH: Ns = Ns(50_000);

    /// The lead of a request that is predicted to prepare for so long.
    fn lead(kind: Kind, rule: Rule, predicted: Option<u64>) -> Ns {
        let choice = Choice {
            kind,
            fixed: Fixed(Ns(1)),
            ..Choice::default()
        };
        rule.lead(choice, predicted.map(Ns), SWITCH)
    }

    #[test]
    fn numbers_lead_back() {
        for when in Trigger::ALL {
            assert_eq!(Trigger::new(when.number()), Some(when));
        }
        assert_eq!(Trigger::new(3), None);
        assert_eq!(Trigger::default(), Trigger::Predicted);
    }

    #[test]
    fn a_prediction_is_not_asked_at_begin_or_ready() {
        for kind in Kind::ALL {
            for predicted in [None, Some(0), Some(60_000), Some(u64::MAX)] {
                let at = |trigger| {
                    let rule = Rule {
                        trigger,
                        min_prep: Ns(1_000_000),
                        order: Order::Edf,
                    };
                    lead(kind, rule, predicted)
                };
                assert_eq!(at(Trigger::AtBegin), Ns::ZERO);
                assert_eq!(at(Trigger::AtReady), LONGEST);
            }
        }
    }

    #[test]
    fn a_short_preparation_is_not_waited_for() {
        for kind in Kind::ALL {
            let rule = Rule {
                min_prep: Ns(100_000),
                ..Rule::default()
            };
            assert_eq!(lead(kind, rule, Some(99_999)), Ns::ZERO);
            assert_eq!(lead(kind, rule, Some(100_000)), SWITCH);
            assert_eq!(lead(kind, Rule::default(), Some(99_999)), Ns(49_999));
            assert_eq!(lead(kind, rule, None), Ns::ZERO);
        }
    }
}
