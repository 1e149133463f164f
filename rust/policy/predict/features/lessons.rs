// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Lessons that wait: a preparation ends in a timer, and a regression takes too long for that.
//!
//! A slot keeps what it told of its last two requests, and notes how long they took. The next begin
//! learns from both. There are never more: an outcome is known by the begin after the next.
//! The regression has a lock of its own, so that no timer waits for it.

use core::{
    array::IntoIter,
    iter::Flatten, //
};

use super::{
    tuning::Epoch,
    Features,
    Memory,
    Regression, //
};
use crate::policy::{
    predict::Costs,
    units::Ns, //
};

/// A request with features, as it was when it began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Lesson {
    pub(crate) features: Features,
    /// The costs of errors.
    pub(crate) costs: Costs,
    /// The prediction of the key's quantile.
    pub(crate) fallback: Option<Ns>,
}

/// A lesson with its outcome: the time that the preparation took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Learnt {
    lesson: Lesson,
    took: Ns,
}

impl Learnt {
    /// The epoch of its features.
    pub(super) fn epoch(&self) -> Epoch {
        self.lesson.features.epoch
    }

    /// Has the regression of the key learn it.
    pub(super) fn teach(&self, regression: &mut Regression, memory: Memory) {
        let Lesson {
            features,
            costs,
            fallback,
        } = &self.lesson;
        regression.observe(features, self.took, *costs, *fallback, memory);
    }
}

/// Lessons with their outcomes, the oldest first.
pub(crate) type Taken = Flatten<IntoIter<Option<Learnt>, 2>>;

/// The lessons of a slot: those of its last request, and of the one before it.
#[derive(Debug)]
pub(crate) struct Lessons {
    last: Waiting,
    before: Waiting,
}

/// A lesson, and its outcome if that is known.
#[derive(Clone, Copy, Debug)]
enum Waiting {
    /// None, or it was learned.
    Nothing,
    /// The preparation goes on.
    Begun(Lesson),
    Over(Learnt),
}

impl Waiting {
    /// Its preparation took so long.
    fn end(&mut self, took: Ns) {
        if let Self::Begun(lesson) = *self {
            *self = Self::Over(Learnt { lesson, took });
        }
    }

    fn take(&mut self) -> Option<Learnt> {
        let Self::Over(learnt) = *self else {
            return None;
        };
        *self = Self::Nothing;
        Some(learnt)
    }

    fn is_nothing(&self) -> bool {
        matches!(self, Self::Nothing)
    }
}

impl Lessons {
    /// None.
    pub(crate) const NONE: Self = Self {
        last: Waiting::Nothing,
        before: Waiting::Nothing,
    };

    /// True if there is nothing to wait for or to learn.
    pub(crate) fn is_none(&self) -> bool {
        self.last.is_nothing() && self.before.is_nothing()
    }

    /// A request begins, with a lesson if it has features. One that is two requests old goes.
    pub(crate) fn begin(&mut self, lesson: Option<Lesson>) {
        self.before = self.last;
        self.last = lesson.map_or(Waiting::Nothing, Waiting::Begun);
    }

    /// The preparation of the last request, or of the one before it, took so long.
    pub(crate) fn end(&mut self, is_last: bool, took: Ns) {
        match is_last {
            true => self.last.end(took),
            false => self.before.end(took),
        }
    }

    /// Those with an outcome, the oldest first. Each is told once.
    pub(crate) fn take(&mut self) -> Taken {
        [self.before.take(), self.last.take()].into_iter().flatten()
    }
}

#[cfg(any(test, zernel_kunit))]
#[cfg_attr(
    not(test),
    kernel::macros::kunit_tests(zernel_policy_predict_features_lessons)
)]
mod tests {
    use super::*;

    fn lesson(size: i64) -> Lesson {
        Lesson {
            features: Features {
                given: [size, 0, 0, 0, 0, 0, 0, 0],
                ..Features::NONE
            },
            costs: Costs::default(),
            fallback: Some(Ns(7)),
        }
    }

    fn taken(lessons: &mut Lessons) -> [Option<(i64, u64)>; 2] {
        let mut all = lessons.take();
        [all.next(), all.next()].map(|one| {
            let Learnt { lesson, took } = one?;
            let [size, ..] = lesson.features.given;
            Some((size, took.0))
        })
    }

    #[test]
    fn both_are_learnt_once_in_their_order() {
        let mut lessons = Lessons::NONE;
        assert!(lessons.is_none());
        lessons.begin(Some(lesson(1)));
        lessons.begin(Some(lesson(2)));
        assert!(!lessons.is_none());
        assert_eq!(taken(&mut lessons), [None, None]);
        // The outcome of the older one may become known last.
        lessons.end(true, Ns(20));
        lessons.end(false, Ns(10));
        assert_eq!(taken(&mut lessons), [Some((1, 10)), Some((2, 20))]);
        assert_eq!(taken(&mut lessons), [None, None]);
        assert!(lessons.is_none());
        // Nothing ends twice.
        lessons.end(true, Ns(30));
        assert_eq!(taken(&mut lessons), [None, None]);
    }

    #[test]
    fn an_outcome_waits_for_two_begins() {
        let mut lessons = Lessons::NONE;
        lessons.begin(Some(lesson(1)));
        lessons.end(true, Ns(10));
        // This one has no features, and no lesson.
        lessons.begin(None);
        lessons.end(true, Ns(20));
        assert_eq!(taken(&mut lessons), [Some((1, 10)), None]);
        lessons.begin(Some(lesson(2)));
        lessons.end(true, Ns(30));
        lessons.begin(None);
        lessons.begin(None);
        assert_eq!(taken(&mut lessons), [None, None]);
        assert!(lessons.is_none());
    }

    #[test]
    fn a_lesson_teaches_what_was_seen_at_once() {
        let (mut now, mut later, mut lessons) = (Regression::NEW, Regression::NEW, Lessons::NONE);
        for n in 0..200 {
            let one = lesson(n * 389 % 1_000);
            let took = Ns(50_000 + 700 * (n * 389 % 1_000).unsigned_abs());
            now.observe(
                &one.features,
                took,
                one.costs,
                one.fallback,
                Memory::DEFAULT,
            );
            lessons.begin(Some(one));
            lessons.end(true, took);
            for learnt in lessons.take() {
                learnt.teach(&mut later, Memory::DEFAULT);
            }
        }
        let told = |regression: &Regression| {
            let Lesson {
                features, costs, ..
            } = lesson(500);
            regression.predict(&features, costs, None)
        };
        assert!(now.is_used());
        assert_eq!(told(&now), told(&later));
    }
}
