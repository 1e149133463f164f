// SPDX-License-Identifier: GPL-2.0 OR MIT
//! The steps to take the GPU away from a TSG that has no reason to give it back, and their outcome.
//!
//! The engine is taken away first, and the TSG is kept from it then. Where the first times out or
//! fails, the second may still succeed. Where that times out too, the GPU does not respond, and is
//! left alone until its provider says that it is back, or leaves. Any other failure tells of this TSG alone: an
//! answer that the provider does not know, which the owner of the TSG may have brought about, must
//! not end the service of the GPU for all.

/// The answer of a call to the provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// Done.
    Done,
    /// The GPU did not do it in time.
    TimedOut,
    /// There was no memory for it.
    OutOfMemory,
    /// The driver failed, in a way that says nothing of the GPU.
    Failed,
    /// The hardware cannot do it to this TSG.
    Refused,
    /// The GPU is in no state for it.
    InvalidState,
    /// The TSG is gone.
    Gone,
}

/// The outcome of an attempt to take the GPU away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The TSG has not the GPU, and does not get it.
    Done,
    /// The same, after the GPU had not answered in time.
    TimedOut,
    /// There was no memory: the TSG goes on.
    OutOfMemory,
    /// The GPU does not respond: nobody calls it any more.
    NotResponding,
    /// The GPU is in no state for it: the TSG goes on.
    InvalidState,
    /// This TSG cannot be taken off: it goes on, and others do not.
    Refused,
}

impl Verdict {
    /// True if the TSG is off the GPU.
    pub(crate) fn is_off(self) -> bool {
        matches!(self, Self::Done | Self::TimedOut)
    }

    /// True if it says nothing of other TSGs.
    pub(crate) fn concerns_one(self) -> bool {
        self.is_off() || self == Self::Refused
    }
}

/// The next step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// Take the engine away from the TSG.
    Preempt,
    /// Keep the TSG from being scheduled.
    Disable,
    /// Nothing: this came of it.
    Over(Verdict),
}

/// One attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Attempt {
    next: Next,
    timed_out: bool,
}

impl Attempt {
    /// An attempt at a TSG. `can_preempt`: the provider can take the engine away, besides keeping
    /// TSGs from being scheduled, which takes it away sooner or later.
    pub(crate) fn new(can_preempt: bool) -> Self {
        Self {
            next: if can_preempt {
                Next::Preempt
            } else {
                Next::Disable
            },
            timed_out: false,
        }
    }

    /// The next step.
    pub(crate) fn next(&self) -> Next {
        self.next
    }

    /// Takes in the answer.
    pub(crate) fn answered(&mut self, answer: Answer) {
        self.next = match (self.next, answer) {
            (Next::Over(verdict), _) => Next::Over(verdict),
            // No other TSG could have the GPU.
            (_, Answer::Gone) => Next::Over(Verdict::Done),
            (Next::Preempt, Answer::Done | Answer::Failed) => Next::Disable,
            (Next::Preempt, Answer::TimedOut) => {
                self.timed_out = true;
                Next::Disable
            }
            (Next::Disable, Answer::Done) if self.timed_out => Next::Over(Verdict::TimedOut),
            (Next::Disable, Answer::Done) => Next::Over(Verdict::Done),
            (_, Answer::OutOfMemory) => Next::Over(Verdict::OutOfMemory),
            (_, Answer::InvalidState) => Next::Over(Verdict::InvalidState),
            (_, Answer::Refused | Answer::Failed) => Next::Over(Verdict::Refused),
            (_, Answer::TimedOut) => Next::Over(Verdict::NotResponding),
        };
    }
}

#[cfg(any(test, zernel_kunit))]
#[cfg_attr(not(test), kernel::macros::kunit_tests(zernel_policy_preempt))]
mod tests {
    use super::*;

    const ANSWERS: [Answer; 7] = [
        Answer::Done,
        Answer::TimedOut,
        Answer::OutOfMemory,
        Answer::Failed,
        Answer::Refused,
        Answer::InvalidState,
        Answer::Gone,
    ];

    fn after(can_preempt: bool, answers: &[Answer]) -> Next {
        let mut attempt = Attempt::new(can_preempt);
        for &answer in answers {
            attempt.answered(answer);
        }
        attempt.next()
    }

    #[test]
    fn the_engine_is_taken_first_and_then_kept() {
        assert_eq!(after(true, &[]), Next::Preempt);
        assert_eq!(after(true, &[Answer::Done]), Next::Disable);
        let done = after(true, &[Answer::Done, Answer::Done]);
        assert_eq!(done, Next::Over(Verdict::Done));
        assert_eq!(after(false, &[]), Next::Disable);
        assert_eq!(after(false, &[Answer::Done]), Next::Over(Verdict::Done));
    }

    #[test]
    fn a_timeout_escalates() {
        assert_eq!(after(true, &[Answer::TimedOut]), Next::Disable);
        let off = after(true, &[Answer::TimedOut, Answer::Done]);
        assert_eq!(off, Next::Over(Verdict::TimedOut));
        let dead = after(true, &[Answer::TimedOut, Answer::TimedOut]);
        assert_eq!(dead, Next::Over(Verdict::NotResponding));
        let dead = after(false, &[Answer::TimedOut]);
        assert_eq!(dead, Next::Over(Verdict::NotResponding));
    }

    #[test]
    fn each_failure_has_its_verdict() {
        for (answer, verdict) in [
            (Answer::OutOfMemory, Verdict::OutOfMemory),
            (Answer::Refused, Verdict::Refused),
            (Answer::InvalidState, Verdict::InvalidState),
            (Answer::Gone, Verdict::Done),
        ] {
            assert_eq!(after(true, &[answer]), Next::Over(verdict));
            assert_eq!(after(true, &[Answer::Done, answer]), Next::Over(verdict));
            assert_eq!(after(false, &[answer]), Next::Over(verdict));
        }
    }

    #[test]
    fn a_failure_concerns_the_tsg_alone() {
        assert_eq!(after(true, &[Answer::Failed]), Next::Disable);
        let off = after(true, &[Answer::Failed, Answer::Done]);
        assert_eq!(off, Next::Over(Verdict::Done));
        for first in [Answer::Done, Answer::Failed, Answer::TimedOut] {
            let failed = after(true, &[first, Answer::Failed]);
            assert_eq!(failed, Next::Over(Verdict::Refused));
        }
        let failed = after(false, &[Answer::Failed]);
        assert_eq!(failed, Next::Over(Verdict::Refused));
        assert!(Verdict::Refused.concerns_one() && !Verdict::Refused.is_off());
        assert!(!Verdict::NotResponding.concerns_one() && !Verdict::OutOfMemory.concerns_one());
    }

    #[test]
    fn it_ends_after_two_answers_and_stays_so() {
        for first in ANSWERS {
            for second in ANSWERS {
                let over = after(true, &[first, second]);
                assert!(matches!(over, Next::Over(_)));
                for third in ANSWERS {
                    assert_eq!(after(true, &[first, second, third]), over);
                }
            }
        }
    }
}
