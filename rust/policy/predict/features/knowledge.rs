// SPDX-License-Identifier: GPL-2.0 OR MIT
//! The regression of a key, as long as its epoch lasts.

use super::{
    lessons::Learnt,
    tuning::{
        Epoch,
        Tuning, //
    },
    Features,
    Regression, //
};
use crate::policy::{
    predict::Costs,
    units::{
        Ns,
        Permille, //
    },
};

/// A regression over the features of an epoch. In another one it is as good as none.
#[derive(Debug)]
pub(crate) struct Knowledge {
    epoch: Epoch,
    regression: Regression,
}

impl Knowledge {
    /// Nothing is known.
    pub(crate) const fn new(epoch: Epoch) -> Self {
        Self {
            epoch,
            regression: Regression::NEW,
        }
    }

    /// Learns, anew in a new epoch. A lesson of an older one teaches nothing.
    pub(crate) fn learn(&mut self, learnt: &Learnt, now: Tuning) {
        let Some(memory) = now.memory.filter(|_| learnt.epoch() == now.epoch) else {
            return;
        };
        if self.epoch != now.epoch {
            *self = Self::new(now.epoch);
        }
        learnt.teach(&mut self.regression, memory);
    }

    /// The time from begin at which the GPU shall be free: `fallback` until features of their epoch have
    /// told better ones.
    pub(crate) fn predict(
        &self,
        features: &Features,
        costs: Costs,
        fallback: Option<Ns>,
    ) -> Option<Ns> {
        match self.epoch == features.epoch {
            true => self.regression.predict(features, costs, fallback),
            false => fallback,
        }
    }

    /// The share of recent preparations that features foretold, and whether predictions follow them;
    /// `None` in another epoch.
    pub(crate) fn confidence(&self, now: Epoch) -> Option<(Permille, bool)> {
        let regression = &self.regression;
        (self.epoch == now).then(|| (regression.confidence(), regression.is_used()))
    }
}

#[cfg(any(test, zernel_kunit))]
#[cfg_attr(
    not(test),
    kernel::macros::kunit_tests(zernel_policy_predict_features_knowledge)
)]
mod tests {
    use super::*;
    use crate::policy::predict::features::{
        lessons::{
            Lesson,
            Lessons, //
        },
        Memory, //
    };

    const FALLBACK: Option<Ns> = Some(Ns(50_000));

    fn features(size: i64, epoch: Epoch) -> Features {
        Features {
            given: [size, 0, 0, 0, 0, 0, 0, 0],
            epoch,
            ..Features::NONE
        }
    }

    /// Lessons of an epoch, learned in another one or the same.
    fn teach(knowledge: &mut Knowledge, told: Epoch, now: Tuning) {
        let mut lessons = Lessons::NONE;
        for n in 0..200 {
            let size = n * 389 % 1_000;
            lessons.begin(Some(Lesson {
                features: features(size, told),
                costs: Costs::default(),
                fallback: FALLBACK,
            }));
            lessons.end(true, Ns(50_000 + 700 * size.unsigned_abs()));
            for learnt in lessons.take() {
                knowledge.learn(&learnt, now);
            }
        }
    }

    fn told(knowledge: &Knowledge, epoch: Epoch) -> Option<Ns> {
        knowledge.predict(&features(900, epoch), Costs::default(), FALLBACK)
    }

    #[test]
    fn another_epoch_begins_anew() {
        let tuning = |epoch| Tuning {
            memory: Some(Memory::DEFAULT),
            measured: false,
            epoch: Epoch(epoch),
        };
        let mut knowledge = Knowledge::new(Epoch(1));
        teach(&mut knowledge, Epoch(1), tuning(1));
        assert!(told(&knowledge, Epoch(1)) > Some(Ns(500_000)));
        assert!(knowledge.confidence(Epoch(1)) > Some((Permille(900), false)));
        // It is void at once, before anything is learned.
        assert_eq!(told(&knowledge, Epoch(2)), FALLBACK);
        assert_eq!(knowledge.confidence(Epoch(2)), None);
        // Lessons that were on their way teach nothing, whichever epoch it is by now.
        let before = told(&knowledge, Epoch(1));
        for (lesson, now) in [(1, 2), (2, 1), (0, 1)] {
            teach(&mut knowledge, Epoch(lesson), tuning(now));
            assert_eq!(told(&knowledge, Epoch(1)), before);
        }
        let mut off = tuning(1);
        off.memory = None;
        teach(&mut knowledge, Epoch(1), off);
        assert_eq!(told(&knowledge, Epoch(1)), before);
        teach(&mut knowledge, Epoch(2), tuning(2));
        assert!(told(&knowledge, Epoch(2)) > Some(Ns(500_000)));
        assert_eq!(told(&knowledge, Epoch(1)), FALLBACK);
    }

    #[test]
    fn the_state_of_a_key_is_bounded() {
        assert!(core::mem::size_of::<Knowledge>() <= 2_048);
    }
}
