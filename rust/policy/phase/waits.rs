// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Waits of a thread for the GPU: from a provider's reports, and from probes of a runtime.
//!
//! A wait is from the first begin to the end of that one; nested ones are a part of it. A provider
//! tells of both, in one system call. A function that is probed may be left without its return
//! being seen: by a jump out of it, by another program, or because the kernel lost it. The next
//! look that finds this out ends the wait.

use super::super::units::Ns;

/// A call of a function that is probed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Frame {
    /// The probe that has seen it.
    pub(crate) probe: u64,
    /// The stack pointer at its first instruction. Stacks grow down.
    pub(crate) sp: u64,
    /// Which program the thread executes, as the kernel counts them.
    pub(crate) program: u64,
}

impl Frame {
    /// True if `other`, which is not over, called this one, directly or not.
    fn is_within(&self, other: &Self) -> bool {
        self.program == other.program && self.sp < other.sp
    }
}

/// The source of the news that a thread waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum By {
    Provider,
    Probe(Frame),
}

/// The waits of a thread.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waits {
    /// The one under way: the time of its begin, and its source.
    present: Option<(Ns, By)>,
    /// Waits of a provider that have begun and not ended.
    depth: u32,
    /// Waits that have begun.
    count: u64,
    /// For how long those were that have ended.
    time: Ns,
    /// When the last one ended that was not short.
    synced: Option<Ns>,
}

/// A thread's waits at a moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Waited {
    /// Waits that have begun.
    pub(crate) count: u64,
    /// For how long in all, the one under way included.
    pub(crate) time: Ns,
    /// Since when it waits, if it does.
    pub(crate) since: Option<Ns>,
    /// When it was done waiting the last time, for long enough to be told.
    pub(crate) synced: Option<Ns>,
}

impl Waits {
    /// Shorter waits tell of no phase: it is the shortest time between two samples.
    pub(crate) const SHORT: Ns = Ns(100_000);

    /// None.
    pub(crate) const NONE: Self = Self {
        present: None,
        depth: 0,
        count: 0,
        time: Ns::ZERO,
        synced: None,
    };

    /// The thread calls a function that is probed. Returns when the wait began if it does with that:
    /// [`Self::returns`] takes it.
    pub(crate) fn calls(&mut self, now: Ns, frame: Frame) -> Option<Ns> {
        // It is in user space, and so in no system call in which a provider waits.
        self.depth = 0;
        match self.present {
            Some((_, By::Probe(outer))) if frame.is_within(&outer) => return None,
            _ => self.end(now),
        }
        self.begin(now, By::Probe(frame));
        Some(now)
    }

    /// A probed function returns, with its wait begun at `began`.
    pub(crate) fn returns(&mut self, now: Ns, began: Ns) {
        if let Some((since, By::Probe(_))) = self.present {
            if since == began {
                self.end(now);
            }
        }
    }

    /// A provider begins to wait.
    pub(crate) fn enters(&mut self, now: Ns) {
        if self.present.is_none() {
            self.begin(now, By::Provider);
        }
        self.depth = self.depth.saturating_add(1);
    }

    /// A provider is done waiting. One that has begun before the thread was recorded does not count.
    pub(crate) fn leaves(&mut self, now: Ns) {
        self.depth = self.depth.saturating_sub(1);
        if self.depth == 0 && matches!(self.present, Some((_, By::Provider))) {
            self.end(now);
        }
    }

    /// The call of a function that is probed that is under way.
    pub(crate) fn frame(&self) -> Option<Frame> {
        match self.present {
            Some((_, By::Probe(frame))) => Some(frame),
            _ => None,
        }
    }

    /// Any wait under way is over.
    pub(crate) fn end(&mut self, now: Ns) {
        if let Some((since, _)) = self.present.take() {
            let time = now.saturating_sub(since);
            self.time = self.time.saturating_add(time);
            if time >= Self::SHORT {
                self.synced = Some(now);
            }
        }
    }

    fn begin(&mut self, now: Ns, by: By) {
        self.present = Some((now, by));
        self.count = self.count.saturating_add(1);
    }

    /// The waits at `now`.
    pub(crate) fn at(&self, now: Ns) -> Waited {
        let since = self.present.map(|(since, _)| since);
        let present = since.map_or(Ns::ZERO, |since| now.saturating_sub(since));
        Waited {
            count: self.count,
            time: self.time.saturating_add(present),
            since,
            synced: self.synced,
        }
    }
}

impl Waited {
    /// The rest of a burst at `now`. A thread that waits for the GPU spins, and begins a new burst
    /// afterwards. Short waits do not count.
    pub(crate) fn burst(&self, burst: Ns, now: Ns) -> Ns {
        let waits = |since: Ns| now.saturating_sub(since) >= Waits::SHORT;
        if self.since.is_some_and(waits) {
            return Ns::ZERO;
        }
        self.synced
            .map_or(burst, |at| burst.min(now.saturating_sub(at)))
    }
}

#[cfg(any(test, zernel_kunit))]
#[cfg_attr(not(test), kernel::macros::kunit_tests(zernel_policy_phase_waits))]
mod tests {
    use super::*;

    const fn frame(probe: u64, sp: u64) -> Frame {
        Frame {
            probe,
            sp,
            program: 1,
        }
    }

    fn sum(waits: &Waits, now: u64) -> (u64, u64, bool) {
        let waited = waits.at(Ns(now));
        (waited.count, waited.time.0, waited.since.is_some())
    }

    #[test]
    fn what_lies_within_a_wait_is_a_part_of_it() {
        let mut waits = Waits::NONE;
        assert_eq!(waits.calls(Ns(100), frame(1, 1_000)), Some(Ns(100)));
        assert_eq!(waits.calls(Ns(110), frame(2, 900)), None);
        waits.enters(Ns(120));
        waits.enters(Ns(125));
        waits.leaves(Ns(130));
        waits.leaves(Ns(140));
        assert_eq!(sum(&waits, 150), (1, 50, true));
        waits.returns(Ns(160), Ns(100));
        assert_eq!(sum(&waits, 999), (1, 60, false));
        // It is over.
        waits.returns(Ns(170), Ns(100));
        waits.leaves(Ns(180));
        assert_eq!(sum(&waits, 999), (1, 60, false));
    }

    #[test]
    fn a_provider_waits_on_its_own() {
        let mut waits = Waits::NONE;
        // Begun before anybody looked.
        waits.leaves(Ns(5));
        assert_eq!(sum(&waits, 6), (0, 0, false));
        waits.enters(Ns(10));
        waits.enters(Ns(20));
        waits.leaves(Ns(30));
        assert_eq!(sum(&waits, 40), (1, 30, true));
        waits.leaves(Ns(50));
        assert_eq!(sum(&waits, 60), (1, 40, false));
        // One that never said that it was done: the thread is in user space again.
        waits.enters(Ns(100));
        assert_eq!(waits.calls(Ns(120), frame(1, 500)), Some(Ns(120)));
        waits.enters(Ns(125));
        waits.leaves(Ns(126));
        waits.returns(Ns(130), Ns(120));
        assert_eq!(sum(&waits, 200), (3, 70, false));
    }

    #[test]
    fn a_return_that_was_missed_ends_with_the_next_call() {
        for sp in [1_000, 1_001, u64::MAX] {
            let mut waits = Waits::NONE;
            waits.calls(Ns(10), frame(1, 1_000));
            assert_eq!(waits.calls(Ns(30), frame(1, sp)), Some(Ns(30)));
            // A late report of the first one does not end the second.
            waits.returns(Ns(35), Ns(10));
            assert_eq!(sum(&waits, 40), (2, 30, true));
            waits.returns(Ns(45), Ns(30));
            assert_eq!(sum(&waits, 50), (2, 35, false));
        }
        // Another program: its stack lies elsewhere.
        let mut waits = Waits::NONE;
        waits.calls(Ns(10), frame(1, 1_000));
        let other = Frame {
            program: 2,
            ..frame(1, 10)
        };
        assert_eq!(waits.calls(Ns(30), other), Some(Ns(30)));
        assert_eq!(waits.frame(), Some(other));
    }

    #[test]
    fn who_finds_out_ends_it() {
        let mut waits = Waits::NONE;
        assert_eq!(waits.frame(), None);
        waits.calls(Ns(10), frame(7, 1_000));
        assert_eq!(waits.frame(), Some(frame(7, 1_000)));
        waits.end(Ns(25));
        waits.end(Ns(99));
        assert_eq!(sum(&waits, 99), (1, 15, false));
        waits.enters(Ns(100));
        assert_eq!(waits.frame(), None);
        // A clock that stands or turns back adds nothing.
        waits.leaves(Ns(90));
        assert_eq!(sum(&waits, 99), (2, 15, false));
    }

    #[test]
    fn a_burst_begins_anew_after_a_wait_that_is_not_short() {
        let mut waits = Waits::NONE;
        let burst = |waits: &Waits, now| waits.at(Ns(now)).burst(Ns(now), Ns(now)).0;
        waits.calls(Ns(1_000_000), frame(1, 1_000));
        assert_eq!(burst(&waits, 1_050_000), 1_050_000);
        waits.returns(Ns(1_099_999), Ns(1_000_000));
        assert_eq!(burst(&waits, 1_100_000), 1_100_000);
        assert_eq!(waits.at(Ns(1_100_000)).synced, None);
        waits.calls(Ns(2_000_000), frame(1, 1_000));
        assert_eq!(burst(&waits, 2_099_999), 2_099_999);
        assert_eq!(burst(&waits, 2_100_000), 0);
        waits.returns(Ns(2_100_000), Ns(2_000_000));
        assert_eq!(burst(&waits, 2_100_007), 7);
        assert_eq!(waits.at(Ns(2_200_000)).synced, Some(Ns(2_100_000)));
        // It slept since: the burst is shorter than that.
        let waited = waits.at(Ns(3_000_000));
        assert_eq!(waited.burst(Ns(5), Ns(3_000_000)), Ns(5));
    }
}
