// SPDX-License-Identifier: GPL-2.0 OR MIT
//! A task of a machine-learning program: its phases, from samples and hints.

use super::{
    super::units::{
        Ns,
        Permille, //
    },
    account::Times,
    activity::Activity,
    detector::{
        Detector,
        Transition, //
    },
    waits::Waited,
    window::{
        Gpu,
        Inputs,
        Window, //
    },
    Phase,
    Thresholds, //
};

/// The outcome of a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    /// The phase has changed.
    pub(crate) transition: Option<Transition>,
    /// Another sample may tell something else, though nothing wakes the task.
    pub(crate) restless: bool,
    /// The task has a CPU, or had one.
    pub(crate) moved: bool,
    /// Share of the time for which it waited for the GPU.
    pub(crate) waited: Permille,
}

/// The phases of a task.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Task {
    detector: Detector,
    window: Window,
    /// The inputs of the last sample.
    inputs: Inputs,
    /// Until when a hint holds.
    hinted: Ns,
    samples: u32,
    /// It waits for I/O, beside any GPU activity; and the number of samples in a row against that.
    loads: bool,
    doubts: u16,
}

impl Task {
    /// Longest time for which a hint holds.
    pub(crate) const LONGEST_HINT: Ns = Ns(60_000_000_000);

    /// Nothing is known of a task up to `now`, which may be before it began.
    pub(crate) fn new(activity: &Activity, waited: &Waited, now: Ns) -> Self {
        Self {
            detector: Detector::new(activity.began()),
            window: Window::new(activity, waited, now),
            inputs: Inputs::default(),
            hinted: Ns::ZERO,
            samples: 0,
            loads: false,
            doubts: 0,
        }
    }

    /// Nobody has looked for a while: the next sample begins at `now`.
    pub(crate) fn skip(&mut self, activity: &Activity, waited: &Waited, now: Ns) {
        self.window = self.window.skip(activity, waited, now);
    }

    /// Takes a sample at `now`.
    pub(crate) fn observe(
        &mut self,
        activity: &Activity,
        waited: &Waited,
        now: Ns,
        gpu: Gpu,
        collective: bool,
        thresholds: &Thresholds,
    ) -> Seen {
        let (sample, share, moved, inputs) =
            self.window.advance(activity, waited, now, gpu, collective);
        self.inputs = inputs;
        self.samples = self.samples.saturating_add(1);
        self.see_loading(thresholds.has_much(sample.io_wait), thresholds);
        let hinted = self.is_hinted(now);
        let transition = match hinted {
            true => None,
            false => self.detector.observe(now, &sample, thresholds),
        };
        Seen {
            transition,
            moved,
            waited: share,
            restless: hinted
                || moved
                || sample.gpu.0 > 0
                || self.doubts > 0
                || !self.detector.is_settled(),
        }
    }

    /// As phases do, it takes several samples in a row to change.
    fn see_loading(&mut self, loads: bool, thresholds: &Thresholds) {
        self.doubts = match loads == self.loads {
            true => 0,
            false => self.doubts.saturating_add(1),
        };
        if u32::from(self.doubts) >= thresholds.stability() {
            (self.loads, self.doubts) = (loads, 0);
        }
    }

    /// True if it waits for I/O for more than the threshold, also beside a busy GPU.
    pub(crate) fn loads(&self) -> bool {
        self.loads
    }

    /// The task says that it is in `phase` for `duration`; for no time: that no hint holds any
    /// more.
    pub(crate) fn hint(&mut self, now: Ns, phase: Phase, duration: Ns) -> Option<Transition> {
        if duration == Ns::ZERO {
            self.hinted = Ns::ZERO;
            return None;
        }
        self.hinted = now.saturating_add(duration);
        self.detector.set(now, phase)
    }

    /// Nobody looks any more: from `now` on nothing is known of it, and no hint holds.
    pub(crate) fn rest(&mut self, now: Ns) -> Option<Transition> {
        self.hinted = Ns::ZERO;
        (self.loads, self.doubts) = (false, 0);
        self.detector.set(now, Phase::Unknown)
    }

    /// True if a hint holds.
    pub(crate) fn is_hinted(&self, now: Ns) -> bool {
        now < self.hinted
    }

    /// The phase, for how long it is that, and how often it has changed.
    pub(crate) fn phase(&self, now: Ns) -> (Phase, Ns, u64) {
        let d = &self.detector;
        (d.phase(), now.saturating_sub(d.began()), d.transitions())
    }

    /// The phase alone.
    pub(crate) fn present(&self) -> Phase {
        self.detector.phase()
    }

    /// The times up to `now`.
    pub(crate) fn times(&self, now: Ns) -> Times {
        self.detector.times(now)
    }

    /// Samples that were taken.
    pub(crate) fn samples(&self) -> u64 {
        self.samples.into()
    }

    /// The last sample: its length, and its inputs.
    pub(crate) fn sample(&self) -> (Ns, Inputs) {
        (self.window.length(), self.inputs)
    }
}

#[cfg(any(test, zernel_kunit))]
#[cfg_attr(not(test), kernel::macros::kunit_tests(zernel_policy_phase_task))]
mod tests {
    use super::{
        super::{
            activity::Cause,
            waits::{
                Frame,
                Waits, //
            },
            COUNT, //
        },
        *, //
    };

    const NEVER: &Waited = &Waited {
        count: 0,
        time: Ns(0),
        since: None,
        synced: None,
    };

    const IDLE: Gpu = Gpu {
        share: Permille(0),
        synced: None,
        pending: None,
    };

    fn at_once() -> Thresholds {
        let mut thresholds = Thresholds::new();
        assert_eq!(thresholds.set_stability(1), Ok(()));
        thresholds
    }

    fn loader() -> Activity {
        let mut activity = Activity::new(Ns(1_000));
        activity.leave(Ns(1_500), Some(Cause::Io));
        activity
    }

    #[test]
    fn all_of_the_recorded_time_is_in_some_phase() {
        let activity = loader();
        let mut task = Task::new(&activity, NEVER, Ns(3_000));
        let seen = task.observe(&activity, NEVER, Ns(4_000), IDLE, false, &at_once());
        assert!(seen.transition.is_some() && !seen.restless);
        assert_eq!(task.phase(Ns(4_500)), (Phase::DataLoading, Ns(500), 1));
        let times = task.times(Ns(4_500));
        assert_eq!(times.of(Phase::Unknown), Ns(3_000));
        assert_eq!(times.sum(), activity.totals(Ns(4_500)).time());
        assert_eq!(task.samples(), 1);
    }

    #[test]
    fn who_uses_the_gpu_is_looked_at_again() {
        let activity = loader();
        let mut task = Task::new(&activity, NEVER, Ns(3_000));
        task.observe(&activity, NEVER, Ns(4_000), IDLE, false, &at_once());
        let busy = Gpu {
            share: Permille(1),
            ..IDLE
        };
        let mut restless = |now, gpu| {
            let seen = task.observe(&activity, NEVER, Ns(now), gpu, false, &at_once());
            seen.restless
        };
        assert!(!restless(5_000, IDLE));
        assert!(restless(6_000, busy));
    }

    #[test]
    fn whoever_looked_before_it_began_counts_no_time() {
        let activity = Activity::new(Ns(1_000));
        let task = Task::new(&activity, NEVER, Ns(400));
        assert_eq!(task.times(Ns(1_300)).sum(), Ns(300));
    }

    #[test]
    fn a_hint_wins_for_its_time() {
        let activity = loader();
        let mut task = Task::new(&activity, NEVER, Ns(2_000));
        assert!(task
            .hint(Ns(2_000), Phase::OptimizerStep, Ns(1_000))
            .is_some());
        let seen = task.observe(&activity, NEVER, Ns(2_999), IDLE, false, &at_once());
        assert!(seen.transition.is_none() && seen.restless);
        assert_eq!(task.phase(Ns(2_999)).0, Phase::OptimizerStep);
        assert!(task.is_hinted(Ns(2_999)) && !task.is_hinted(Ns(3_000)));
        let seen = task.observe(&activity, NEVER, Ns(3_000), IDLE, false, &at_once());
        assert!(seen.transition.is_some());
        assert_eq!(task.phase(Ns(3_000)).0, Phase::DataLoading);
        // Ended before its time.
        task.hint(Ns(3_000), Phase::GpuCompute, Ns(1_000));
        assert_eq!(task.hint(Ns(3_100), Phase::Unknown, Ns::ZERO), None);
        assert_eq!(task.phase(Ns(3_100)).0, Phase::GpuCompute);
        task.observe(&activity, NEVER, Ns(3_200), IDLE, false, &at_once());
        assert_eq!(task.phase(Ns(3_200)).0, Phase::DataLoading);
    }

    #[test]
    fn who_rests_is_in_no_phase() {
        let activity = loader();
        let mut task = Task::new(&activity, NEVER, Ns(2_000));
        task.hint(Ns(2_000), Phase::GpuCompute, Ns(60_000));
        task.rest(Ns(3_000));
        assert!(!task.is_hinted(Ns(3_000)) && !task.loads());
        let times = task.times(Ns(9_000));
        assert_eq!(times.of(Phase::GpuCompute), Ns(1_000));
        assert_eq!(times.of(Phase::Unknown), Ns(7_000));
    }

    #[test]
    fn restless_is_whoever_may_be_told_otherwise_soon() {
        let sleeps = loader();
        let mut task = Task::new(&sleeps, NEVER, Ns(2_000));
        // It takes three samples to be sure.
        let t = Thresholds::new();
        for (now, restless) in [(3_000, true), (4_000, true), (5_000, false), (6_000, false)] {
            let seen = task.observe(&sleeps, NEVER, Ns(now), IDLE, false, &t);
            assert_eq!(seen.restless, restless);
        }
        let busy = Gpu {
            share: Permille(1),
            ..IDLE
        };
        assert!(
            task.observe(&sleeps, NEVER, Ns(7_000), busy, false, &t)
                .restless
        );
        let runs = Activity::new(Ns(1_000));
        let mut task = Task::new(&runs, NEVER, Ns(2_000));
        assert!(
            task.observe(&runs, NEVER, Ns(3_000), IDLE, false, &t)
                .restless
        );
    }

    #[test]
    fn loading_is_seen_beside_a_busy_gpu() {
        let mut activity = loader();
        let busy = Gpu {
            share: Permille(1000),
            ..IDLE
        };
        let mut task = Task::new(&activity, NEVER, Ns(2_000));
        let t = Thresholds::new();
        for (now, loads) in [(3_000, false), (4_000, false), (5_000, true), (6_000, true)] {
            task.observe(&activity, NEVER, Ns(now), busy, false, &t);
            assert_eq!(task.loads(), loads);
        }
        assert_eq!(task.phase(Ns(6_000)).0, Phase::GpuCompute);
        activity.enter(Ns(6_000), Ns(0));
        for (now, loads) in [(7_000, true), (8_000, true), (9_000, false)] {
            task.observe(&activity, NEVER, Ns(now), busy, false, &t);
            assert_eq!(task.loads(), loads);
        }
    }

    /// A loop of one thread that tells nothing but its waits: it reads for 20 ms, spins for 30 ms until
    /// the GPU is done, and works for 4 ms. With `short`, each ms of its work it waits for 3 us, too.
    fn train(short: bool) -> [u32; COUNT] {
        const MS: u64 = 1_000_000;
        let t = Thresholds::new();
        let mut now = MS;
        let mut activity = Activity::new(Ns(now));
        let mut waits = Waits::NONE;
        let mut task = Task::new(&activity, &waits.at(Ns(now)), Ns(now));
        let mut told = [0; COUNT];
        let frame = Frame {
            probe: 1,
            sp: 9_000,
            program: 1,
        };
        for step in 0..540u64 {
            let at = step % 54;
            match at {
                0 => activity.leave(Ns(now), Some(Cause::Io)),
                20 => {
                    activity.enter(Ns(now), Ns(0));
                    waits.calls(Ns(now), frame);
                }
                50 => waits.end(Ns(now)),
                51.. if short => {
                    waits.calls(Ns(now), frame);
                    waits.end(Ns(now + 3_000));
                }
                _ => {}
            }
            now += MS;
            task.observe(&activity, &waits.at(Ns(now)), Ns(now), IDLE, false, &t);
            // From the third sample of each part on, but of the first round.
            if step >= 54 && !matches!(at, 0..3 | 20..23 | 50..53) {
                if let Some(n) = told.get_mut(task.phase(Ns(now)).0.number()) {
                    *n += 1;
                }
            }
            assert_eq!(task.times(Ns(now)).sum(), activity.totals(Ns(now)).time());
        }
        told
    }

    #[test]
    fn waits_alone_tell_of_the_gpu() {
        // 9 rounds of 17, 27 and 1 samples.
        for short in [false, true] {
            let told = train(short);
            assert_eq!(told, [0, 17 * 9, 27 * 9, 0, 9]);
        }
    }

    #[test]
    fn short_waits_are_no_sync() {
        let t = at_once();
        let activity = Activity::new(Ns(1_000));
        let mut waits = Waits::NONE;
        let mut task = Task::new(&activity, &waits.at(Ns(1_000)), Ns(1_000));
        for n in 1..50u64 {
            let now = n * 1_000_000;
            waits.enters(Ns(now - 3_000));
            // In the middle of one, too.
            task.observe(&activity, &waits.at(Ns(now)), Ns(now), IDLE, false, &t);
            waits.leaves(Ns(now));
            assert_eq!(task.phase(Ns(now)).0, Phase::Unknown);
        }
    }

    #[test]
    fn who_sleeps_for_the_gpu_is_not_left_alone() {
        let mut activity = Activity::new(Ns(1_000));
        let mut waits = Waits::NONE;
        let mut task = Task::new(&activity, &waits.at(Ns(1_000)), Ns(1_000));
        waits.enters(Ns(2_000));
        activity.leave(Ns(2_000), Some(Cause::Ioctl));
        for now in [1_000_000, 2_000_000, 3_000_000, 4_000_000] {
            let waited = waits.at(Ns(now));
            let seen = task.observe(&activity, &waited, Ns(now), IDLE, false, &at_once());
            assert!(seen.restless && seen.waited >= Permille(990));
            assert_eq!(task.phase(Ns(now)).0, Phase::GpuCompute);
        }
    }

    #[test]
    fn a_pause_is_no_sample() {
        let mut activity = loader();
        let mut task = Task::new(&activity, NEVER, Ns(2_000));
        activity.enter(Ns(90_000), Ns(0));
        task.skip(&activity, NEVER, Ns(90_000));
        task.observe(&activity, NEVER, Ns(91_000), IDLE, false, &at_once());
        assert_eq!(task.phase(Ns(91_000)).0, Phase::Unknown);
    }
}
