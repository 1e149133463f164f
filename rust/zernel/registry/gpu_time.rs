// SPDX-License-Identifier: GPL-2.0
//! GPU time and preemptions, of each TSG and of the levels on a GPU.
//!
//! The provider counts for each TSG. A difference between two answers counts for the level that was
//! in force in between: the worker asks whenever it gives a TSG the settings of another level, and
//! at the end of a TSG the provider tells by itself. Otherwise it is asked only for readers.

pub(crate) use crate::glue::provider::tsg::Done;
use crate::policy::{
    level::{
        self,
        Level, //
    },
    units::Ns, //
};

/// The counters of a TSG.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Meter {
    /// The last report of its provider.
    pub(crate) done: Done,
    /// The level that its GPU time counts for.
    pub(crate) level: Option<Level>,
}

/// The work of the TSGs of a level.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counters {
    /// Time that they ran on their engines.
    pub(crate) ran: Ns,
    /// Times that one was taken off the engine while it had work.
    pub(crate) preemptions: u64,
    /// Times that the budget of the level was spent.
    pub(crate) throttles: u64,
    /// Times that one got its turn.
    pub(crate) turns: u64,
    /// TSGs with this level in force, now.
    pub(crate) tsgs: u32,
}

impl Counters {
    /// Counts everything that `other` counted.
    pub(crate) fn add(&mut self, other: &Self) {
        self.ran = self.ran.saturating_add(other.ran);
        self.preemptions = self.preemptions.saturating_add(other.preemptions);
        self.throttles = self.throttles.saturating_add(other.throttles);
        self.turns = self.turns.saturating_add(other.turns);
        self.tsgs = self.tsgs.saturating_add(other.tsgs);
    }
}

/// Counters of all levels, and of TSGs without a class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Levels([Counters; level::COUNT + 1]);

impl Levels {
    fn place(level: Option<Level>) -> usize {
        level.map_or(level::COUNT, |level| level.number() as usize)
    }

    /// The counters of a level; `None`: of TSGs without a class.
    pub(crate) fn of(&self, level: Option<Level>) -> Counters {
        self.0.get(Self::place(level)).copied().unwrap_or_default()
    }

    /// The same, to count.
    pub(crate) fn count(&mut self, level: Option<Level>, f: impl FnOnce(&mut Counters)) {
        if let Some(counters) = self.0.get_mut(Self::place(level)) {
            f(counters);
        }
    }

    /// All of them together.
    pub(crate) fn sum(&self) -> Counters {
        let mut sum = Counters::default();
        for counters in &self.0 {
            sum.add(counters);
        }
        sum
    }

    /// Counts everything that `other` counted.
    pub(crate) fn add(&mut self, other: &Self) {
        for (mine, theirs) in self.0.iter_mut().zip(&other.0) {
            mine.add(theirs);
        }
    }

    /// Takes an answer of the provider about a TSG. Its level is `now` from here on.
    pub(crate) fn take(&mut self, meter: &mut Meter, done: Done, now: Option<Level>) {
        let before = meter.done;
        self.count(meter.level, |counters| {
            let ran = done.ran.saturating_sub(before.ran);
            counters.ran = counters.ran.saturating_add(ran);
            let more = done.preemptions.saturating_sub(before.preemptions);
            counters.preemptions = counters.preemptions.saturating_add(more);
        });
        meter.done = Done {
            // Answers may overtake each other.
            ran: done.ran.max(before.ran),
            preemptions: done.preemptions.max(before.preemptions),
            preempted_at: done.preempted_at.max(before.preempted_at),
            context_bytes: done.context_bytes,
        };
        meter.level = now;
    }

    /// A TSG has another level in force.
    pub(crate) fn moved(&mut self, from: Option<Level>, to: Option<Level>) {
        self.count(from, |counters| {
            counters.tsgs = counters.tsgs.saturating_sub(1)
        });
        self.count(to, |counters| {
            counters.tsgs = counters.tsgs.saturating_add(1)
        });
    }
}

#[cfg(zernel_kunit)]
#[kernel::macros::kunit_tests(zernel_gpu_time)]
mod tests {
    use crate::registry::gpu_time::*;

    fn done(ran: u64, preemptions: u64) -> Done {
        Done {
            ran: Ns(ran),
            preemptions,
            ..Done::default()
        }
    }

    #[test]
    fn what_a_tsg_did_counts_for_the_level_that_it_had() {
        let (mut levels, mut meter) = (Levels::default(), Meter::default());
        levels.take(&mut meter, done(100, 1), Some(Level::BE));
        levels.take(&mut meter, done(350, 4), Some(Level::BE));
        levels.take(&mut meter, done(400, 4), Some(Level::LC));
        levels.take(&mut meter, done(1_000, 9), None);
        let of = |level| {
            let counters = levels.of(level);
            (counters.ran.0, counters.preemptions)
        };
        assert_eq!(of(None), (100, 1));
        assert_eq!(of(Some(Level::BE)), (300, 3));
        assert_eq!(of(Some(Level::LC)), (600, 5));
        assert_eq!(levels.sum().ran, meter.done.ran);
    }

    #[test]
    fn an_answer_that_comes_late_takes_nothing_back() {
        let (mut levels, mut meter) = (Levels::default(), Meter::default());
        levels.take(&mut meter, done(500, 5), None);
        levels.take(&mut meter, done(300, 3), None);
        levels.take(&mut meter, done(600, 6), None);
        assert_eq!(levels.of(None).ran, Ns(600));
        assert_eq!(levels.of(None).preemptions, 6);
    }

    #[test]
    fn levels_count_their_tsgs() {
        let mut levels = Levels::default();
        levels.count(None, |counters| counters.tsgs += 1);
        levels.moved(None, Some(Level::BE));
        assert_eq!(levels.of(None).tsgs, 0);
        assert_eq!(levels.of(Some(Level::BE)).tsgs, 1);
        let mut sum = levels;
        sum.add(&levels);
        assert_eq!(sum.of(Some(Level::BE)).tsgs, 2);
    }
}
