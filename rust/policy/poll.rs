// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Looks at the TSGs of a GPU whose driver does not tell when one gets something to run, or runs out
//! of it.

use super::units::Ns;

/// The looks at one GPU. Each look takes in all TSGs, in some steps of the worker.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Poll {
    /// The look that is under way began then.
    began: Option<Ns>,
    /// The next one is due then.
    due: Ns,
    /// Looks in a row that found nothing to run.
    idle: u32,
    /// The number of the look; wraps.
    number: usize,
}

/// The next step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// A look begins.
    Look,
    /// One is under way.
    Go,
    /// The next one is due then.
    At(Ns),
}

impl Poll {
    /// Of the worker's time, looks take one part of so many at most.
    const PARTS: u64 = 4;
    /// Longest pause after a look that took long.
    const LONGEST_PAUSE: Ns = Ns(50_000_000);
    /// While nothing has anything to run, looks become so many times rarer at most, as a power of 2.
    const RARER: u32 = 4;
    /// Looks in a row that find nothing before they become rarer, so that a short pause of a TSG has
    /// none of that.
    const PATIENCE: u32 = 64;

    /// Each look comes to one of so many of the TSGs that wait for their turns.
    const ROUND: usize = 8;

    /// True if this look comes to the TSG in a slot. One that `waits` for its turn, disabled and with
    /// something to run, stays so until it is enabled or its owner gives up: not every look is needed.
    pub(crate) fn comes_to(&self, slot: usize, waits: bool) -> bool {
        !waits || self.number.wrapping_add(slot) % Self::ROUND == 0
    }

    /// Nobody needs looks: the next ones begin anew.
    pub(crate) fn stop(&mut self) {
        *self = Self {
            // The round goes on.
            number: self.number,
            ..Self::default()
        };
    }

    /// `interval`: from one look to the next. `is_over`: the look that is under way, if one is, has
    /// come to all TSGs. `is_busy`: some have something to run.
    pub(crate) fn step(&mut self, now: Ns, interval: Ns, is_over: bool, is_busy: bool) -> Next {
        if let Some(began) = self.began {
            if !is_over {
                return Next::Go;
            }
            self.began = None;
            self.idle = if is_busy {
                0
            } else {
                self.idle.saturating_add(1)
            };
            let took = now.saturating_sub(began);
            let pause = Ns(took.0.saturating_mul(Self::PARTS - 1)).min(Self::LONGEST_PAUSE);
            self.due = began
                .saturating_add(self.rarer(interval))
                .max(now.saturating_add(pause));
        }
        if is_busy && self.idle > 0 {
            // It was seen in between: not as late as it would be.
            self.idle = 0;
            self.due = self.due.min(now.saturating_add(interval));
        }
        if now < self.due {
            return Next::At(self.due);
        }
        self.began = Some(now);
        self.number = self.number.wrapping_add(1);
        Next::Look
    }

    fn rarer(&self, interval: Ns) -> Ns {
        let shift = self.idle.saturating_sub(Self::PATIENCE).min(Self::RARER);
        Ns(interval.0.saturating_mul(1 << shift))
    }
}

#[cfg(any(test, zernel_kunit))]
#[cfg_attr(not(test), kernel::macros::kunit_tests(zernel_policy_poll))]
mod tests {
    use super::*;

    const INTERVAL: Ns = Ns(250_000);

    /// A look that takes `took`. Returns when the next one is due.
    fn look(poll: &mut Poll, at: u64, took: u64, is_busy: bool) -> Next {
        assert_eq!(poll.step(Ns(at), INTERVAL, true, is_busy), Next::Look);
        assert_eq!(poll.step(Ns(at + took), INTERVAL, false, is_busy), Next::Go);
        poll.step(Ns(at + took), INTERVAL, true, is_busy)
    }

    #[test]
    fn looks_come_at_an_interval() {
        let mut poll = Poll::default();
        assert_eq!(look(&mut poll, 1_000, 10, true), Next::At(Ns(251_000)));
        // Not before, also when something else is done.
        assert_eq!(
            poll.step(Ns(250_999), INTERVAL, true, true),
            Next::At(Ns(251_000))
        );
        assert_eq!(look(&mut poll, 251_000, 10, true), Next::At(Ns(501_000)));
    }

    #[test]
    fn long_looks_are_rare() {
        let mut poll = Poll::default();
        let long = 1_000_000;
        assert_eq!(
            look(&mut poll, 0, long, true),
            Next::At(Ns(long * Poll::PARTS))
        );
        // One that was interrupted for long says nothing about the next.
        let begin = long * Poll::PARTS;
        assert_eq!(
            look(&mut poll, begin, 1000 * long, true),
            Next::At(Ns(begin + 1000 * long + Poll::LONGEST_PAUSE.0))
        );
    }

    #[test]
    fn an_idle_gpu_is_looked_at_less_and_less() {
        let mut poll = Poll::default();
        let mut at = 0;
        let mut intervals = [0; Poll::PATIENCE as usize + 10];
        for interval in &mut intervals {
            if let Next::At(Ns(due)) = look(&mut poll, at, 0, false) {
                *interval = due - at;
                at = due;
            }
        }
        let (first, rest) = intervals.split_at(Poll::PATIENCE as usize);
        assert!(first.iter().all(|&interval| interval == INTERVAL.0));
        assert_eq!(rest.first(), Some(&(2 * INTERVAL.0)));
        assert_eq!(rest.last(), Some(&(INTERVAL.0 << Poll::RARER)));
        // A TSG that somebody else finds brings the usual interval back.
        assert_eq!(
            poll.step(Ns(at - 3_000_000), INTERVAL, true, true),
            Next::At(Ns(at - 3_000_000 + INTERVAL.0))
        );
    }

    #[test]
    fn one_that_waits_is_looked_at_in_each_round() {
        let mut poll = Poll::default();
        let mut counts = [[0; 20]; 2];
        for round in 0..Poll::ROUND as u64 * 3 {
            look(&mut poll, 250_000 * round, 10, true);
            for (waits, counts) in [false, true].into_iter().zip(&mut counts) {
                for (slot, count) in counts.iter_mut().enumerate() {
                    *count += u32::from(poll.comes_to(slot, waits));
                }
            }
        }
        assert_eq!(counts, [[24; 20], [3; 20]]);
    }

    #[test]
    fn who_stops_begins_anew() {
        let mut poll = Poll::default();
        look(&mut poll, 1_000, 10, true);
        poll.stop();
        assert_eq!(poll.step(Ns(2_000), INTERVAL, true, true), Next::Look);
        assert_eq!(poll.number, 2);
    }
}
