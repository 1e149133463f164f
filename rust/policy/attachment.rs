// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Where the record of a tracked thread is on its way to the thread and back, and the side that
//! gives it up.
//!
//! The thread alone puts a record on and takes it off: in task work, of which one at most is queued
//! per record, or as it exits, before its last task work. Whether a record is wanted is said by
//! others, at any time. Each of the functions tells the next state, and is for a compare-and-exchange.

/// Where a record is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// Task work is to put it on.
    Coming,
    /// As [`Self::Coming`], and nobody wants it any more.
    CalledOff,
    /// The thread has it.
    On,
    /// The thread has it, and task work is to take it off.
    Leaving,
    /// As [`Self::Leaving`], and it is wanted again: task work is to begin it anew.
    Returning,
    /// The thread has taken it off as it exits, and task work is to give it up.
    TakenOff,
    /// It was given up.
    Over,
}

/// The work of one run of task work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    /// Put it on.
    PutOn,
    /// Begin it anew.
    BeginAnew,
    /// Take it off, and give it up.
    TakeOff,
    /// Give it up.
    GiveUp,
}

impl State {
    const ALL: [Self; 7] = [
        Self::Coming,
        Self::CalledOff,
        Self::On,
        Self::Leaving,
        Self::Returning,
        Self::TakenOff,
        Self::Over,
    ];

    /// Its number.
    pub(crate) const fn number(self) -> u32 {
        self as u32
    }

    /// The state of a number; `Over` for a number that none has.
    pub(crate) fn of(number: u32) -> Self {
        let found = Self::ALL.get(number as usize);
        found.copied().unwrap_or(Self::Over)
    }

    /// Nobody wants it any more. Says also whether task work is to be queued. `None`: it is so
    /// already.
    pub(crate) fn unwanted(self) -> Option<(Self, bool)> {
        match self {
            Self::Coming => Some((Self::CalledOff, false)),
            Self::On => Some((Self::Leaving, true)),
            Self::Returning => Some((Self::Leaving, false)),
            Self::CalledOff | Self::Leaving | Self::TakenOff | Self::Over => None,
        }
    }

    /// It is wanted again. `None`: it is too late for that, or it is.
    pub(crate) fn wanted(self) -> Option<Self> {
        match self {
            Self::CalledOff => Some(Self::Coming),
            Self::Leaving => Some(Self::Returning),
            Self::Coming | Self::On | Self::Returning | Self::TakenOff | Self::Over => None,
        }
    }

    /// Task work runs. `None`: none is queued.
    pub(crate) fn work(self) -> Option<(Self, Work)> {
        match self {
            Self::Coming => Some((Self::On, Work::PutOn)),
            Self::CalledOff => Some((Self::Over, Work::GiveUp)),
            Self::Leaving => Some((Self::Over, Work::TakeOff)),
            Self::Returning => Some((Self::On, Work::BeginAnew)),
            Self::TakenOff => Some((Self::Over, Work::GiveUp)),
            Self::On | Self::Over => None,
        }
    }

    /// The thread exits and takes it off. Says also whether it gives it up at once. `None`: it has
    /// none.
    pub(crate) fn exits(self) -> Option<(Self, bool)> {
        match self {
            Self::On => Some((Self::Over, true)),
            Self::Leaving | Self::Returning => Some((Self::TakenOff, false)),
            Self::Coming | Self::CalledOff | Self::TakenOff | Self::Over => None,
        }
    }

    /// True if somebody wants it, and the thread has it or is about to.
    pub(crate) fn is_followed(self) -> bool {
        matches!(self, Self::Coming | Self::On | Self::Returning)
    }
}

#[cfg(any(test, zernel_kunit))]
#[cfg_attr(not(test), kernel::macros::kunit_tests(zernel_policy_attachment))]
mod tests {
    use super::*;

    /// A record and its thread.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    struct World {
        state: State,
        /// Task work is queued.
        queued: bool,
        /// The thread has the record on its list.
        on: bool,
        /// The thread has passed the probe of its exit.
        exits: bool,
        given_up: u32,
        wanted: bool,
    }

    impl World {
        const START: Self = Self {
            state: State::Coming,
            queued: true,
            on: false,
            exits: false,
            given_up: 0,
            wanted: true,
        };

        fn unwanted(mut self) -> Self {
            if let Some((next, queue)) = self.state.unwanted() {
                self.state = next;
                assert!(!(queue && self.queued));
                self.queued |= queue;
            }
            self.wanted = false;
            self
        }

        fn wanted(mut self) -> Self {
            if let Some(next) = self.state.wanted() {
                self.state = next;
                self.wanted = true;
            }
            self
        }

        fn work(mut self) -> Self {
            assert!(self.queued);
            self.queued = false;
            if self.exits && self.state == State::Coming {
                // The glue looks at the thread first, as nothing takes it off any more.
                self.state = State::CalledOff;
            }
            let done = self.state.work();
            assert!(done.is_some());
            if let Some((next, work)) = done {
                self.state = next;
                match work {
                    Work::PutOn => {
                        assert!(!self.on && !self.exits);
                        self.on = true;
                    }
                    Work::BeginAnew => assert!(self.on),
                    Work::TakeOff => {
                        assert!(self.on);
                        self.on = false;
                        self.given_up += 1;
                    }
                    Work::GiveUp => {
                        assert!(!self.on);
                        self.given_up += 1;
                    }
                }
            }
            self
        }

        fn exit(mut self) -> Self {
            self.exits = true;
            if self.on {
                self.on = false;
                let done = self.state.exits();
                assert!(done.is_some());
                if let Some((next, now)) = done {
                    self.state = next;
                    self.given_up += u32::from(now);
                }
            } else {
                assert_eq!(self.state.exits(), None);
            }
            self
        }

        /// Properties of every state.
        fn check(self) {
            assert_eq!(self.given_up, u32::from(self.state == State::Over));
            assert_eq!(
                self.on,
                matches!(self.state, State::On | State::Leaving | State::Returning)
            );
            assert_eq!(self.queued, self.state.work().is_some());
            if self.state != State::TakenOff && self.state != State::Over {
                assert_eq!(
                    self.wanted,
                    matches!(self.state, State::Coming | State::On | State::Returning)
                );
            }
        }
    }

    /// Everything that can happen, in every order.
    #[test]
    fn a_record_is_given_up_once_and_never_while_it_is_on() {
        const MOST: usize = 64;
        let mut seen = [World::START; MOST];
        let (mut count, mut at) = (1, 0);
        while at < count {
            let world = seen.get(at).copied().unwrap_or(World::START);
            at += 1;
            world.check();
            let steps = [
                Some(world.unwanted()),
                Some(world.wanted()),
                world.queued.then(|| world.work()),
                (!world.exits).then(|| world.exit()),
            ];
            for next in steps.into_iter().flatten() {
                if !seen.iter().take(count).any(|known| *known == next) {
                    assert!(count < MOST);
                    if let Some(slot) = seen.get_mut(count) {
                        *slot = next;
                    }
                    count += 1;
                }
            }
            if world.exits && !world.queued {
                assert_eq!(world.state, State::Over);
            }
        }
        // All states were come to.
        for state in State::ALL {
            assert!(seen.iter().take(count).any(|world| world.state == state));
        }
    }

    #[test]
    fn numbers_lead_back() {
        for (at, state) in State::ALL.into_iter().enumerate() {
            assert_eq!(state.number(), at as u32);
            assert_eq!(State::of(at as u32), state);
        }
        assert_eq!(State::of(7), State::Over);
        assert_eq!(State::of(u32::MAX), State::Over);
    }
}
