// SPDX-License-Identifier: GPL-2.0 OR MIT
//! The observations of a task from one sample to the next.

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
    waits::Waited,
    Sample,
};

/// The GPU's work for a process.
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
    /// The part of it in which it waited for I/O, in ns: the low bits, for it is the difference that
    /// counts, of samples less than 4 s apart.
    io: u32,
    /// The part of it in which it waited for the GPU, likewise.
    waited: u32,
    /// The part of it in which it waited for a futex, likewise.
    futex: u32,
    /// Sleeps and bursts, likewise, so that it shows whether it did anything.
    changes: u32,
    /// Sleeps for a futex, likewise.
    futexes: u32,
    /// Length of the sample in ns, 4 s at most.
    length: u32,
}

/// The inputs of a sample, beside those that are shares.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Inputs {
    /// When it was taken.
    pub(crate) at: Ns,
    /// CPU time since the last sleep or wait for the GPU.
    pub(crate) burst: Ns,
    /// Sleep for a block device, in ns.
    pub(crate) io: u32,
    /// Sleeps for a futex, one that had begun before included.
    pub(crate) futexes: u32,
}

impl Window {
    /// One that begins at `now`.
    pub(crate) fn new(activity: &Activity, waited: &Waited, now: Ns) -> Self {
        let totals = activity.totals(now);
        let count = |sum: u64, count: u64| sum.wrapping_add(count);
        let sleeps = totals.sleeps.iter().map(|s| s.count).fold(0, count);
        Self {
            time: totals.time(),
            io: totals.slept(Cause::Io).time.0 as u32,
            waited: waited.time.0 as u32,
            futex: totals.slept(Cause::Futex).time.0 as u32,
            changes: sleeps.wrapping_add(totals.bursts.count) as u32,
            futexes: totals.slept(Cause::Futex).count as u32,
            length: 0,
        }
    }

    /// Another one that begins at `now`, after no sample.
    pub(crate) fn skip(&self, activity: &Activity, waited: &Waited, now: Ns) -> Self {
        Self {
            length: self.length,
            ..Self::new(activity, waited, now)
        }
    }

    /// Length of the last sample.
    pub(crate) fn length(&self) -> Ns {
        Ns(self.length.into())
    }

    /// Goes on to `now`. Returns the observations of the task since, the share of that time in
    /// which it waited for the GPU, whether it did anything but sleep, and the numbers behind that.
    pub(crate) fn advance(
        &mut self,
        activity: &Activity,
        waited: &Waited,
        now: Ns,
        gpu: Gpu,
        collective: bool,
    ) -> (Sample, Permille, bool, Inputs) {
        let mut next = Self::new(activity, waited, now);
        let time = next.time.saturating_sub(self.time);
        let io = next.io.wrapping_sub(self.io);
        let waits = next.waited.wrapping_sub(self.waited);
        let futex = next.futex.wrapping_sub(self.futex);
        let awake = matches!(activity.present(now).0, Doing::Running | Doing::Queued);
        let moved = awake || next.changes != self.changes;
        let began = next.futexes.wrapping_sub(self.futexes);
        next.length = u32::try_from(time.0).unwrap_or(u32::MAX);
        *self = next;
        let waits = Permille::of(waits.into(), time.0);
        let sample = Sample {
            is_ml: true,
            io_wait: Permille::of(io.into(), time.0),
            gpu: gpu.share.max(waits),
            burst: waited.burst(activity.burst(now), now),
            synced: gpu.synced.is_some() || waited.synced.is_some(),
            collective,
            futex_wait: Ns(futex.into()),
        };
        let inputs = Inputs {
            at: now,
            burst: sample.burst,
            io,
            futexes: began.max(u32::from(futex > 0)),
        };
        (sample, waits, moved, inputs)
    }
}

#[cfg(any(test, zernel_kunit))]
#[cfg_attr(not(test), kernel::macros::kunit_tests(zernel_policy_phase_window))]
mod tests {
    use super::*;

    const NEVER: &Waited = &Waited {
        count: 0,
        time: Ns(0),
        since: None,
        synced: None,
    };

    const GPU: Gpu = Gpu {
        share: Permille(250),
        synced: None,
        pending: None,
    };

    #[test]
    fn each_sample_begins_where_the_last_ended() {
        let mut activity = Activity::new(Ns(1_000));
        let mut window = Window::new(&activity, NEVER, Ns(1_000));
        activity.leave(Ns(1_200), Some(Cause::Io));
        let (sample, _, moved, inputs) = window.advance(&activity, NEVER, Ns(2_000), GPU, false);
        assert_eq!((sample.io_wait, inputs.io), (Permille(800), 800));
        assert_eq!((sample.gpu, sample.burst), (Permille(250), Ns(0)));
        assert!(moved && sample.is_ml && !sample.synced);
        // It goes on to wait: all of the time, and nothing moves.
        let (sample, _, moved, _) = window.advance(&activity, NEVER, Ns(3_000), GPU, false);
        assert_eq!(sample.io_wait, Permille(1000));
        assert!(!moved);
        activity.enter(Ns(3_500), Ns(0));
        let (sample, _, moved, _) = window.advance(&activity, NEVER, Ns(4_000), GPU, false);
        assert_eq!((sample.io_wait, sample.burst), (Permille(500), Ns(500)));
        assert!(moved);
        // A burst goes on without a change.
        let (sample, _, moved, _) = window.advance(&activity, NEVER, Ns(5_000), GPU, false);
        assert_eq!((sample.io_wait, sample.burst), (Permille(0), Ns(1_500)));
        assert!(moved);
    }

    #[test]
    fn waits_for_a_futex_count_while_they_last() {
        let mut activity = Activity::new(Ns(1_000));
        let mut window = Window::new(&activity, NEVER, Ns(1_000));
        for begin in [2_000, 3_000] {
            activity.leave(Ns(begin), Some(Cause::Futex));
            activity.enter(Ns(begin + 500), Ns(0));
        }
        let synced = Gpu {
            synced: Some(Ns(7)),
            ..GPU
        };
        let (sample, _, _, inputs) = window.advance(&activity, NEVER, Ns(4_000), synced, true);
        assert_eq!(sample.futex_wait, Ns(1_000));
        assert_eq!((inputs.at, inputs.futexes), (Ns(4_000), 2));
        assert_eq!(window.length(), Ns(3_000));
        assert!(sample.collective && sample.synced);
        let (sample, _, _, _) = window.advance(&activity, NEVER, Ns(5_000), GPU, false);
        assert_eq!(sample.futex_wait, Ns(0));
        activity.leave(Ns(5_900), Some(Cause::Futex));
        for (now, wait) in [(6_000, 100), (7_000, 1_000), (8_000, 1_000)] {
            let (sample, _, _, inputs) = window.advance(&activity, NEVER, Ns(now), GPU, false);
            assert_eq!((sample.futex_wait, inputs.futexes), (Ns(wait), 1));
        }
    }

    #[test]
    fn a_wait_for_the_gpu_keeps_it_busy() {
        let mut activity = Activity::new(Ns(1_000_000));
        let mut window = Window::new(&activity, NEVER, Ns(1_000_000));
        // It has spun for 600 us, and goes on to.
        let waits = Waited {
            count: 1,
            time: Ns(600_000),
            since: Some(Ns(1_400_000)),
            synced: None,
        };
        let (sample, share, moved, _) =
            window.advance(&activity, &waits, Ns(2_000_000), GPU, false);
        assert_eq!((sample.gpu, share), (Permille(600), Permille(600)));
        assert_eq!((sample.burst, sample.synced, moved), (Ns(0), false, true));
        let waits = Waited {
            time: Ns(700_000),
            since: None,
            synced: Some(Ns(2_100_000)),
            ..waits
        };
        let (sample, share, _, _) = window.advance(&activity, &waits, Ns(3_000_000), GPU, false);
        // The larger of both.
        assert_eq!((sample.gpu, share), (Permille(250), Permille(100)));
        assert_eq!((sample.burst, sample.synced), (Ns(900_000), true));
        activity.leave(Ns(3_000_000), Some(Cause::Io));
        let (sample, share, _, _) = window.advance(&activity, &waits, Ns(4_000_000), GPU, false);
        assert_eq!((sample.gpu, share), (Permille(250), Permille(0)));
        assert_eq!(sample.burst, Ns(0));
    }

    #[test]
    fn no_time_is_no_share() {
        let mut activity = Activity::new(Ns(1_000));
        activity.leave(Ns(1_000), Some(Cause::Io));
        let mut window = Window::new(&activity, NEVER, Ns(1_000));
        let (sample, _, moved, _) = window.advance(&activity, NEVER, Ns(1_000), GPU, false);
        assert_eq!(sample.io_wait, Permille(0));
        assert!(!moved);
    }
}
