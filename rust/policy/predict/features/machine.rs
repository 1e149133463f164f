// SPDX-License-Identifier: GPL-2.0 OR MIT
//! The state of the machine: shares of a time that has just passed, from counters that only grow.

use crate::policy::units::{
    Ns,
    Permille,
    Ppm, //
};

/// The state of the machine when a request begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Machine {
    /// The CPUs were busy for this share of the time.
    pub(crate) busy: Ppm,
    /// CPUs were idle and waited for I/O for this share.
    pub(crate) io: Ppm,
    /// Threads that had to reclaim memory themselves, per second and CPU; a thousand at most.
    pub(crate) stalls: Permille,
}

impl Machine {
    /// All in one word.
    pub(crate) fn packed(self) -> u64 {
        u64::from(self.busy.0) << 42 | u64::from(self.io.0) << 21 | u64::from(self.stalls.0)
    }

    /// The state in a word.
    pub(crate) fn unpacked(word: u64) -> Self {
        let part = |by: u32| (word >> by) as u32 & ((1 << 21) - 1);
        Self {
            busy: Ppm(part(42)),
            io: Ppm(part(21)),
            stalls: Permille(part(0)),
        }
    }
}

/// Counters of the machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    /// Time that CPUs were busy for, all together.
    pub(crate) busy: Ns,
    /// Time that they were idle and waited for I/O for.
    pub(crate) io: Ns,
    /// Times that a thread had to reclaim memory itself.
    pub(crate) stalls: u64,
    /// CPUs.
    pub(crate) cpus: u32,
}

/// Counters at two times, and the state that follows.
///
/// A state is that of the last [`Window::LENGTH`] to twice as long, if it was asked for as often; else of
/// the time since the last but one question.
#[derive(Debug)]
pub(crate) struct Window {
    /// The begin of the window, and that of the next one.
    old: (Ns, Counts),
    new: (Ns, Counts),
    last: (Ns, Machine),
}

impl Window {
    /// The shortest time that a state is of.
    pub(crate) const LENGTH: Ns = Ns(100_000_000);
    /// A state is taken as the present one for so long: reading the counters of many CPUs takes its
    /// time.
    const FRESH: Ns = Ns(10_000_000);

    /// It begins at `now`, with these counters.
    pub(crate) fn new(now: Ns, counts: Counts) -> Self {
        Self {
            old: (now, counts),
            new: (now, counts),
            last: (now, Machine::default()),
        }
    }

    /// The present state. `read` tells the counters.
    pub(crate) fn look(&mut self, now: Ns, read: impl FnOnce() -> Counts) -> Machine {
        let (at, state) = self.last;
        if now.saturating_sub(at) < Self::FRESH {
            return state;
        }
        let counts = read();
        if now.saturating_sub(self.new.0) >= Self::LENGTH {
            self.old = self.new;
            self.new = (now, counts);
        }
        let (from, before) = self.old;
        let state = between(before, counts, now.saturating_sub(from));
        self.last = (now, state);
        state
    }
}

/// The state from what the counters grew by in some time. Counters of others may go back a little.
fn between(before: Counts, after: Counts, time: Ns) -> Machine {
    let all = time.0.saturating_mul(after.cpus.max(1).into());
    let share = |part: Ns, of: Ns| {
        // In µs, so that a day of a thousand CPUs fits.
        let part = (part.saturating_sub(of).0 / 1_000).saturating_mul(1_000_000);
        let share = part.checked_div((all / 1_000).max(1)).unwrap_or(0);
        Ppm(u32::try_from(share).unwrap_or(u32::MAX).min(Ppm::ONE.0))
    };
    let stalls = after.stalls.saturating_sub(before.stalls);
    let seconds = (all / 1_000_000).max(1);
    let stalls = stalls
        .saturating_mul(1_000)
        .checked_div(seconds)
        .unwrap_or(0);
    Machine {
        busy: share(after.busy, before.busy),
        io: share(after.io, before.io),
        stalls: Permille(u32::try_from(stalls).unwrap_or(u32::MAX).min(1_000)),
    }
}

#[cfg(any(test, zernel_kunit))]
#[cfg_attr(
    not(test),
    kernel::macros::kunit_tests(zernel_policy_predict_features_machine)
)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn a_state_fits_into_a_word() {
        for (busy, io, stalls) in [(0, 0, 0), (1_000_000, 1, 999), (7, 1_000_000, 1_000)] {
            let state = Machine {
                busy: Ppm(busy),
                io: Ppm(io),
                stalls: Permille(stalls),
            };
            assert_eq!(Machine::unpacked(state.packed()), state);
        }
    }

    /// Two CPUs, of which one is busy, at this time; each stalls 10 times a second.
    fn counts(ms: u64) -> Counts {
        Counts {
            busy: Ns(ms * MS),
            io: Ns(ms * MS / 2),
            stalls: ms / 50,
            cpus: 2,
        }
    }

    #[test]
    fn shares_are_of_all_cpus() {
        let mut window = Window::new(Ns(0), counts(0));
        let half = window.look(Ns(1_000 * MS), || counts(1_000));
        let expected = Machine {
            busy: Ppm(500_000),
            io: Ppm(250_000),
            stalls: Permille(10),
        };
        assert_eq!(half, expected);
    }

    #[test]
    fn a_state_is_of_the_last_time_alone() {
        let mut window = Window::new(Ns(0), counts(0));
        for ms in (0..1_000).step_by(20) {
            window.look(Ns(ms * MS), || counts(ms));
        }
        // From here on all are idle.
        for ms in (1_000..1_260).step_by(20) {
            window.look(Ns(ms * MS), || counts(1_000));
        }
        let idle = window.look(Ns(1_300 * MS), || counts(1_000));
        assert_eq!(idle, Machine::default());
    }

    #[test]
    fn counters_are_not_read_without_end() {
        let mut window = Window::new(Ns(0), counts(0));
        let mut reads = 0;
        for ms in 0..100 {
            window.look(Ns(ms * MS), || {
                reads += 1;
                counts(ms)
            });
        }
        assert_eq!(reads, 9);
    }

    #[test]
    fn any_counters_have_a_share() {
        let odd = [0, 1, u64::MAX, 1 << 40, 5];
        let mut window = Window::new(Ns(u64::MAX), Counts::default());
        for n in 0..odd.len() * odd.len() {
            let (one, two) = (odd[n % odd.len()], odd[n / odd.len()]);
            let counts = Counts {
                busy: Ns(one),
                io: Ns(two),
                stalls: one,
                cpus: two as u32,
            };
            let state = window.look(Ns(n as u64 * 20 * MS), || counts);
            assert!(state.busy <= Ppm::ONE && state.io <= Ppm::ONE);
            assert!(state.stalls <= Permille(1_000));
            let state = between(counts, Counts::default(), Ns(two));
            assert!(state.busy <= Ppm::ONE);
        }
    }
}
