// SPDX-License-Identifier: GPL-2.0
//! The steps to take the GPU away from a TSG that has no reason to give it back, and their outcome.
//!
//! The engine is taken away first, and the TSG is kept from it then. Where the first times out, the
//! second may still succeed; where that fails too, the GPU does not respond, and is left alone until
//! its provider says that it is back.

/// The answer of a call to the provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// Done.
    Done,
    /// The GPU did not do it in time.
    TimedOut,
    /// There was no memory for it.
    OutOfMemory,
    /// The GPU or its driver failed.
    Failed,
    /// The hardware cannot do it in the state that it is in.
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
}

impl Verdict {
    /// True if the TSG is off the GPU.
    pub(crate) fn is_off(self) -> bool {
        matches!(self, Self::Done | Self::TimedOut)
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
            (Next::Preempt, Answer::Done) => Next::Disable,
            (Next::Preempt, Answer::TimedOut) => {
                self.timed_out = true;
                Next::Disable
            }
            (Next::Disable, Answer::Done) if self.timed_out => Next::Over(Verdict::TimedOut),
            (Next::Disable, Answer::Done) => Next::Over(Verdict::Done),
            (_, Answer::OutOfMemory) => Next::Over(Verdict::OutOfMemory),
            (_, Answer::InvalidState) => Next::Over(Verdict::InvalidState),
            (_, Answer::TimedOut | Answer::Failed) => Next::Over(Verdict::NotResponding),
        };
    }
}

#[cfg(any(test, zernel_kunit))]
#[cfg_attr(not(test), kernel::macros::kunit_tests(zernel_policy_preempt))]
mod tests {
    use super::*;

    const ANSWERS: [Answer; 6] = [
        Answer::Done,
        Answer::TimedOut,
        Answer::OutOfMemory,
        Answer::Failed,
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
            (Answer::Failed, Verdict::NotResponding),
            (Answer::InvalidState, Verdict::InvalidState),
            (Answer::Gone, Verdict::Done),
        ] {
            assert_eq!(after(true, &[answer]), Next::Over(verdict));
            assert_eq!(after(true, &[Answer::Done, answer]), Next::Over(verdict));
            assert_eq!(after(false, &[answer]), Next::Over(verdict));
        }
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
