// SPDX-License-Identifier: GPL-2.0 OR MIT
//! From samples to phases that hold for a while.

use super::{
    super::units::Ns,
    account::{
        Account,
        Times, //
    },
    Phase,
    Sample,
    Thresholds, //
};

/// A phase has ended, and another one begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Transition {
    /// The one that has ended.
    pub(crate) from: Phase,
    /// The one that has begun.
    pub(crate) to: Phase,
    /// The time of the first one.
    pub(crate) lasted: Ns,
}

/// The phases of one task.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Detector {
    /// Up to when the phase began.
    account: Account,
    transitions: u32,
    phase: Phase,
    /// Another phase, and how many of the last samples in a row told of it.
    candidate: Phase,
    seen: u16,
}

impl Detector {
    /// Nothing is known of a task that is tracked from `now` on.
    pub(crate) fn new(now: Ns) -> Self {
        Self {
            account: Account::new(now),
            transitions: 0,
            phase: Phase::Unknown,
            candidate: Phase::Unknown,
            seen: 0,
        }
    }

    /// Takes in a sample of `now`.
    pub(crate) fn observe(
        &mut self,
        now: Ns,
        sample: &Sample,
        thresholds: &Thresholds,
    ) -> Option<Transition> {
        let told = Phase::of(sample, thresholds);
        if told == self.phase() {
            self.seen = 0;
            return None;
        }
        self.seen = match told == self.candidate {
            true => self.seen.saturating_add(1),
            false => 1,
        };
        self.candidate = told;
        (u32::from(self.seen) >= thresholds.stability()).then(|| self.enter(now, told))
    }

    /// The phase is `phase` from `now` on, by a hint, against any samples.
    pub(crate) fn set(&mut self, now: Ns, phase: Phase) -> Option<Transition> {
        self.seen = 0;
        (phase != self.phase()).then(|| self.enter(now, phase))
    }

    fn enter(&mut self, now: Ns, to: Phase) -> Transition {
        let transition = Transition {
            from: self.phase(),
            to,
            lasted: now.saturating_sub(self.began()),
        };
        self.account.leave(self.phase, now);
        self.phase = to;
        self.seen = 0;
        self.transitions = self.transitions.saturating_add(1);
        transition
    }

    /// True if the last sample showed the phase that it is in.
    pub(crate) fn is_settled(&self) -> bool {
        self.seen == 0
    }

    /// The phase now.
    pub(crate) fn phase(&self) -> Phase {
        self.phase
    }

    /// When it began.
    pub(crate) fn began(&self) -> Ns {
        self.account.since()
    }

    /// The times up to `now`.
    pub(crate) fn times(&self, now: Ns) -> Times {
        self.account.at(self.phase, now)
    }

    /// Changes of the phase; the count stops at 32 bits.
    pub(crate) fn transitions(&self) -> u64 {
        self.transitions.into()
    }
}

#[cfg(any(test, zernel_kunit))]
#[cfg_attr(not(test), kernel::macros::kunit_tests(zernel_policy_phase_detector))]
mod tests {
    use super::{
        super::super::units::Permille,
        *, //
    };

    const LOADS: Sample = sample(900, 0);
    const COMPUTES: Sample = sample(0, 900);
    const NEITHER: Sample = sample(0, 0);

    const fn sample(io_wait: u32, gpu: u32) -> Sample {
        Sample {
            is_ml: true,
            io_wait: Permille(io_wait),
            gpu: Permille(gpu),
            burst: Ns(0),
            synced: false,
            collective: false,
            futex_wait: Ns(0),
        }
    }

    #[test]
    fn the_third_equal_sample_commits() {
        let t = Thresholds::new();
        let mut d = Detector::new(Ns(0));
        for (now, sample, phase) in [
            (1, LOADS, Phase::Unknown),
            (2, LOADS, Phase::Unknown),
            // Another one begins anew.
            (3, COMPUTES, Phase::Unknown),
            (4, LOADS, Phase::Unknown),
            (5, LOADS, Phase::Unknown),
            (6, LOADS, Phase::DataLoading),
            (7, COMPUTES, Phase::DataLoading),
            (8, COMPUTES, Phase::DataLoading),
            // So does the one that it is in.
            (9, LOADS, Phase::DataLoading),
            (10, COMPUTES, Phase::DataLoading),
            (11, COMPUTES, Phase::DataLoading),
            (12, COMPUTES, Phase::GpuCompute),
        ] {
            let before = d.phase();
            let transition = d.observe(Ns(now), &sample, &t);
            assert_eq!(transition.is_some(), phase != before);
            assert_eq!(d.phase(), phase);
        }
        assert_eq!((d.transitions(), d.began()), (2, Ns(12)));
        let times = d.times(Ns(20));
        assert_eq!(times.of(Phase::Unknown), Ns(6));
        assert_eq!(times.of(Phase::DataLoading), Ns(6));
        assert_eq!(times.of(Phase::GpuCompute), Ns(8));
    }

    #[test]
    fn one_sample_is_enough_where_one_is_asked_for() {
        let mut t = Thresholds::new();
        assert_eq!(t.set_stability(1), Ok(()));
        let mut d = Detector::new(Ns(10));
        let told = d.observe(Ns(15), &COMPUTES, &t);
        let transition = Transition {
            from: Phase::Unknown,
            to: Phase::GpuCompute,
            lasted: Ns(5),
        };
        assert_eq!(told, Some(transition));
        assert_eq!(d.observe(Ns(16), &COMPUTES, &t), None);
        assert!(d.observe(Ns(17), &NEITHER, &t).is_some());
    }

    #[test]
    fn what_the_program_says_holds_at_once() {
        let t = Thresholds::new();
        let mut d = Detector::new(Ns(0));
        d.observe(Ns(1), &LOADS, &t);
        d.observe(Ns(2), &LOADS, &t);
        assert!(d.set(Ns(3), Phase::Collective).is_some());
        assert_eq!(d.set(Ns(4), Phase::Collective), None);
        // And earlier samples do not count any more.
        assert_eq!(d.observe(Ns(5), &LOADS, &t), None);
        assert_eq!(d.transitions(), 1);
    }
}
