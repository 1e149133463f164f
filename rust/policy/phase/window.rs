// SPDX-License-Identifier: GPL-2.0
//! What was seen of a task from one sample to the next.

use super::{
    super::units::{
        Ns,
        Permille, //
    },
    activity::{
        Activity,
        Cause,
        Doing, //
    },
    Sample,
};

/// What the GPU did for a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Gpu {
    /// Share of the time for which it was busy for it.
    pub(crate) share: Permille,
    /// When its work was done last, if that was seen.
    pub(crate) synced: Option<Ns>,
    /// Since when there is some now.
    pub(crate) pending: Option<Ns>,
}

/// Where the last sample of a task ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Window {
    /// Time for which it is recorded.
    time: Ns,
    /// The part of it in which it waited for I/O.
    io: Ns,
    /// Waits for a futex.
    futex: u64,
    /// Sleeps and bursts, so that it shows whether it did anything.
    changes: u64,
}

impl Window {
    /// One that begins at `now`.
    pub(crate) fn new(activity: &Activity, now: Ns) -> Self {
        let totals = activity.totals(now);
        let count = |sum: u64, count: u64| sum.saturating_add(count);
        let sleeps = totals.sleeps.iter().map(|s| s.count).fold(0, count);
        Self {
            time: totals.time(),
            io: totals.slept(Cause::Io).time,
            futex: totals.slept(Cause::Futex).count,
            changes: sleeps.saturating_add(totals.bursts.count),
        }
    }

    /// Goes on to `now`. Returns what was seen of the task since, and whether it did anything but
    /// sleep.
    pub(crate) fn advance(
        &mut self,
        activity: &Activity,
        now: Ns,
        gpu: Gpu,
        nccl: bool,
    ) -> (Sample, bool) {
        let next = Self::new(activity, now);
        let time = next.time.saturating_sub(self.time);
        let io = next.io.saturating_sub(self.io);
        let waits = next.futex.saturating_sub(self.futex);
        let awake = matches!(activity.present(now).0, Doing::Running | Doing::Queued);
        let moved = awake || next.changes != self.changes;
        *self = next;
        let sample = Sample {
            is_ml: true,
            io_wait: Permille::of(io.0, time.0),
            gpu: gpu.share,
            burst: activity.burst(now),
            synced: gpu.synced.is_some(),
            nccl,
            futex_waits: u32::try_from(waits).unwrap_or(u32::MAX),
        };
        (sample, moved)
    }
}

#[cfg(any(test, zernel_kunit))]
#[cfg_attr(not(test), kernel::macros::kunit_tests(zernel_policy_phase_window))]
mod tests {
    use super::*;

    const GPU: Gpu = Gpu {
        share: Permille(250),
        synced: None,
        pending: None,
    };

    #[test]
    fn each_sample_begins_where_the_last_ended() {
        let mut activity = Activity::new(Ns(1_000));
        let mut window = Window::new(&activity, Ns(1_000));
        activity.leave(Ns(1_200), Some(Cause::Io));
        let (sample, moved) = window.advance(&activity, Ns(2_000), GPU, false);
        assert_eq!(sample.io_wait, Permille(800));
        assert_eq!((sample.gpu, sample.burst), (Permille(250), Ns(0)));
        assert!(moved && sample.is_ml && !sample.synced);
        // It goes on to wait: all of the time, and nothing moves.
        let (sample, moved) = window.advance(&activity, Ns(3_000), GPU, false);
        assert_eq!(sample.io_wait, Permille(1000));
        assert!(!moved);
        activity.enter(Ns(3_500), Ns(0));
        let (sample, moved) = window.advance(&activity, Ns(4_000), GPU, false);
        assert_eq!((sample.io_wait, sample.burst), (Permille(500), Ns(500)));
        assert!(moved);
        // A burst goes on without a change.
        let (sample, moved) = window.advance(&activity, Ns(5_000), GPU, false);
        assert_eq!((sample.io_wait, sample.burst), (Permille(0), Ns(1_500)));
        assert!(moved);
    }

    #[test]
    fn waits_for_a_futex_are_counted_once() {
        let mut activity = Activity::new(Ns(1_000));
        let mut window = Window::new(&activity, Ns(1_000));
        for begin in [2_000, 3_000] {
            activity.leave(Ns(begin), Some(Cause::Futex));
            activity.enter(Ns(begin + 500), Ns(0));
        }
        let synced = Gpu {
            synced: Some(Ns(7)),
            ..GPU
        };
        let (sample, _) = window.advance(&activity, Ns(4_000), synced, true);
        assert_eq!(sample.futex_waits, 2);
        assert!(sample.nccl && sample.synced);
        let (sample, _) = window.advance(&activity, Ns(5_000), GPU, false);
        assert_eq!(sample.futex_waits, 0);
    }

    #[test]
    fn no_time_is_no_share() {
        let mut activity = Activity::new(Ns(1_000));
        activity.leave(Ns(1_000), Some(Cause::Io));
        let mut window = Window::new(&activity, Ns(1_000));
        let (sample, moved) = window.advance(&activity, Ns(1_000), GPU, false);
        assert_eq!(sample.io_wait, Permille(0));
        assert!(!moved);
    }
}
