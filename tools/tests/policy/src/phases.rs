// SPDX-License-Identifier: MIT OR Apache-2.0
//! Properties of phases and of the prefetch signal, for any input.

use crate::policy::{
    phase::{
        activity::{Activity, Cause, CAUSES},
        detector::Detector,
        meter::{Look, Meter},
        task::Task,
        waits::{Frame, Waits},
        window::Gpu,
        Phase, Sample, Thresholds,
    },
    prefetch::{durations::Durations, Params, Prefetch},
    units::{Ns, Permille, Ppm},
};
use proptest::prelude::*;

fn sample() -> impl Strategy<Value = Sample> {
    let share = || prop_oneof![9 => 0u32..=1000, 1 => any::<u32>()].prop_map(Permille);
    let burst = prop_oneof![0u64..10_000_000, any::<u64>(), Just(0)].prop_map(Ns);
    let flags = any::<[bool; 3]>();
    (share(), share(), burst, flags, 0u64..3).prop_map(
        |(io_wait, gpu, burst, [is_ml, synced, collective], futex_wait)| Sample {
            is_ml,
            io_wait,
            gpu,
            burst,
            synced,
            collective,
            futex_wait: Ns(futex_wait),
        },
    )
}

fn thresholds() -> impl Strategy<Value = Thresholds> {
    (any::<bool>(), any::<[u32; 4]>(), any::<u64>()).prop_map(|(collective, shares, burst)| {
        let mut t = Thresholds::new();
        t.set_collectives(collective);
        // A refused value is as good as one that is taken.
        let _ = t.set_io_wait(Permille(shares[0] % 1100));
        let _ = t.set_gpu_active(Permille(shares[1] % 1100));
        let _ = t.set_gpu_idle(Permille(shares[2] % 1100));
        let _ = t.set_optimizer_burst(Ns(burst % 2_000_000_000));
        let _ = t.set_stability(shares[3] % 5);
        t
    })
}

/// A report of the scheduler about a task: it leaves its CPU, or has one, after so long.
#[derive(Debug, Clone, Copy)]
enum Told {
    Leaves(i32, Option<usize>),
    Enters(i32, u64),
}

fn told() -> impl Strategy<Value = Told> {
    let step = || prop_oneof![9 => 0i32..1_000_000, 1 => any::<i32>()];
    prop_oneof![
        (step(), prop::option::of(0..CAUSES)).prop_map(|(step, cause)| Told::Leaves(step, cause)),
        (step(), 0u64..2_000_000).prop_map(|(step, queued)| Told::Enters(step, queued)),
    ]
}

/// A report about waits for the GPU.
#[derive(Debug, Clone, Copy)]
enum Waiting {
    Nothing,
    Calls(Frame),
    Returns,
    Enters,
    Leaves,
    Ends,
}

fn waiting() -> impl Strategy<Value = Waiting> {
    let frame = (1u64..4, 0u64..6, 0u64..2)
        .prop_map(|(probe, sp, program)| Waiting::Calls(Frame { probe, sp, program }));
    prop_oneof![
        4 => Just(Waiting::Nothing),
        2 => frame,
        2 => Just(Waiting::Returns),
        1 => Just(Waiting::Enters),
        1 => Just(Waiting::Leaves),
        1 => Just(Waiting::Ends),
    ]
}

/// Tells it. `began` is the wait that the last call has begun.
fn tell(waits: &mut Waits, told: Waiting, now: u64, began: &mut Ns) {
    match told {
        Waiting::Nothing => {}
        Waiting::Calls(frame) => *began = waits.calls(Ns(now), frame).unwrap_or(*began),
        Waiting::Returns => waits.returns(Ns(now), *began),
        Waiting::Enters => waits.enters(Ns(now)),
        Waiting::Leaves => waits.leaves(Ns(now)),
        Waiting::Ends => waits.end(Ns(now)),
    }
}

fn hint() -> impl Strategy<Value = Option<u64>> {
    prop_oneof![4 => Just(None), 1 => Just(Some(0)), 1 => (1..1_000_000u64).prop_map(Some)]
}

proptest! {
    /// Every nanosecond that the clock advances is in one sum, and none ever leaves it, whatever
    /// the scheduler tells, in whatever order.
    #[test]
    fn what_a_task_does_sums_up(
        start in 0..u64::MAX / 2,
        steps in prop::collection::vec(told(), 0..200),
    ) {
        let mut task = Activity::new(Ns(start));
        let (mut now, mut latest) = (start, start);
        let mut ended = task.totals(Ns(start));
        for step in steps {
            let (Told::Leaves(time, _) | Told::Enters(time, _)) = step;
            now = now.saturating_add_signed(time.into());
            latest = latest.max(now);
            match step {
                Told::Leaves(_, cause) => task.leave(Ns(now), cause.map(|at| Cause::ALL[at])),
                Told::Enters(_, queued) => task.enter(Ns(now), Ns(queued)),
            }
            let totals = task.totals(Ns(latest));
            prop_assert_eq!(totals.time(), Ns(latest - start));
            prop_assert!(totals.bursts.time >= ended.bursts.time);
            prop_assert!(totals.queued.time >= ended.queued.time);
            for cause in Cause::ALL {
                prop_assert!(totals.slept(cause).time >= ended.slept(cause).time);
                prop_assert!(totals.slept(cause).count >= ended.slept(cause).count);
            }
            prop_assert!(task.burst(Ns(latest)) <= totals.bursts.time);
            ended = totals;
        }
    }

    /// The phases of a task add up to the time for which it is recorded, whatever the scheduler, the
    /// GPU and hints tell, and whenever one looks.
    #[test]
    fn phases_of_a_task_sum_up(
        t in thresholds(),
        start in 1..u64::MAX / 2,
        steps in prop::collection::vec(
            (told(), 0..=1000u32, any::<bool>(), 0..5usize, hint(), waiting()),
            0..200,
        ),
    ) {
        let mut activity = Activity::new(Ns(start));
        let mut now = start;
        let (mut waits, mut began) = (Waits::NONE, Ns(0));
        let mut task = Task::new(&activity, &waits.at(Ns(now)), Ns(now));
        for (step, share, synced, phase, hint, told) in steps {
            let (Told::Leaves(time, _) | Told::Enters(time, _)) = step;
            now += u64::from(time.unsigned_abs());
            match step {
                Told::Leaves(_, cause) => {
                    activity.leave(Ns(now), cause.map(|at| Cause::ALL[at]));
                }
                Told::Enters(_, queued) => activity.enter(Ns(now), Ns(queued)),
            }
            tell(&mut waits, told, now, &mut began);
            let waited = waits.at(Ns(now));
            let gpu = Gpu {
                share: Permille(share),
                synced: synced.then_some(Ns(now)),
                pending: None,
            };
            match hint {
                Some(0) => task.skip(&activity, &waited, Ns(now)),
                Some(time) => {
                    task.hint(Ns(now), Phase::ALL[phase], Ns(time));
                    prop_assert!(task.is_hinted(Ns(now)));
                    prop_assert_eq!(task.phase(Ns(now)).0, Phase::ALL[phase]);
                }
                None => {
                    let hinted = task.is_hinted(Ns(now));
                    let seen = task.observe(&activity, &waited, Ns(now), gpu, false, &t);
                    prop_assert!(seen.transition.is_none() || !hinted);
                    prop_assert!(seen.waited <= Permille(1000));
                }
            }
            prop_assert_eq!(task.times(Ns(now)).sum(), activity.totals(Ns(now)).time());
            prop_assert!(task.phase(Ns(now)).1 <= Ns(now - start));
        }
    }

    /// The time of waits never decreases, nor is it more than all of the time; and none goes on that
    /// was called off, whatever is told, in whatever order.
    #[test]
    fn waits_keep_within_bounds(
        steps in prop::collection::vec((waiting(), 0u64..1_000_000), 0..200),
    ) {
        let (mut waits, mut began) = (Waits::NONE, Ns(0));
        let (mut now, mut before) = (1, waits.at(Ns(1)));
        for (told, time) in steps {
            tell(&mut waits, told, now, &mut began);
            let at = waits.at(Ns(now));
            prop_assert_eq!(at.time, before.time);
            prop_assert!(at.count <= before.count + 1 && at.count >= before.count);
            match told {
                Waiting::Calls(frame) => {
                    prop_assert!(waits.frame().is_some_and(|own| own == frame || own.sp > frame.sp));
                }
                Waiting::Enters => prop_assert!(at.since.is_some()),
                Waiting::Ends => prop_assert!(at.since.is_none()),
                _ => {}
            }
            now += time;
            let waited = waits.at(Ns(now));
            let passed = if at.since.is_some() { time } else { 0 };
            prop_assert_eq!(waited.time, at.time.saturating_add(Ns(passed)));
            prop_assert!(waited.time < Ns(now) && waited.synced.is_none_or(|at| at <= Ns(now)));
            prop_assert!(waited.burst(Ns(time), Ns(now)) <= Ns(time));
            before = waited;
        }
    }

    /// No more than all of the time, whatever a provider tells, and the end of work is not ahead.
    #[test]
    fn a_meter_keeps_within_bounds(
        steps in prop::collection::vec((any::<u64>(), any::<u64>(), any::<bool>(), any::<Option<u64>>()), 0..50),
    ) {
        let mut meter = Meter::NEW;
        let mut latest = 0;
        for (now, ran, pending, since) in steps {
            latest = latest.max(now);
            let since = since.map(Ns);
            meter.look(Ns(now), Look { ran: Ns(ran), pending, since });
            prop_assert!(meter.share() <= Permille(1000));
            prop_assert!(meter.synced().is_none_or(|at| at <= Ns(latest)));
        }
    }

    /// Every nanosecond that the clock advances is in one phase, whatever is seen.
    #[test]
    fn phases_sum_up(
        t in thresholds(),
        start in any::<u64>(),
        steps in prop::collection::vec((any::<i32>(), sample()), 0..200),
    ) {
        let mut detector = Detector::new(Ns(start));
        let (mut now, mut latest, mut changes) = (start, start, 0);
        for (step, sample) in steps {
            now = now.saturating_add_signed(step.into());
            latest = latest.max(now);
            let before = detector.phase();
            let transition = detector.observe(Ns(now), &sample, &t);
            changes += u64::from(transition.is_some());
            prop_assert_eq!(transition.map_or(before, |t| t.to), detector.phase());
            prop_assert!(transition.is_none_or(|t| t.from == before && t.to != before));
            prop_assert_eq!(detector.times(Ns(latest)).sum(), Ns(latest - start));
        }
        prop_assert_eq!(detector.transitions(), changes);
    }

    #[test]
    fn nobody_else_has_a_phase(t in thresholds(), sample in sample()) {
        let other = Sample { is_ml: false, ..sample };
        prop_assert_eq!(Phase::of(&other, &t), Phase::Unknown);
    }

    /// As many equal samples as asked for, and not one more or less.
    #[test]
    fn it_takes_as_many_samples_as_asked_for(t in thresholds(), sample in sample()) {
        let told = Phase::of(&sample, &t);
        prop_assume!(told != Phase::Unknown);
        let mut detector = Detector::new(Ns(0));
        for n in 1..t.stability() {
            prop_assert_eq!(detector.observe(Ns(n.into()), &sample, &t), None);
        }
        prop_assert!(detector.observe(Ns(99), &sample, &t).is_some());
        prop_assert_eq!(detector.phase(), told);
    }

    /// Fractiles are those of a plain list of the last ones.
    #[test]
    fn durations_are_the_last_ones(
        all in prop::collection::vec((0u64..50, 0usize..300), 1..600),
        share in 0u32..=1_000_000,
    ) {
        let mut durations = Durations::NEW;
        let mut list = Vec::new();
        for (took, most) in all {
            durations.observe(Ns(took), most);
            list.push(took);
            let most = most.clamp(1, Durations::MOST);
            list.drain(..list.len().saturating_sub(most));
            let mut sorted = list.clone();
            sorted.sort_unstable();
            let rank = (u64::from(share) * sorted.len() as u64).div_ceil(1_000_000).max(1);
            prop_assert_eq!(durations.len(), list.len());
            let told = durations.fractile(Ppm(share));
            prop_assert_eq!(told, Some(Ns(sorted[rank as usize - 1])));
        }
    }

    /// A signal is given once per computation, while it lasts, and when it is due.
    #[test]
    fn signals_are_due(
        steps in prop::collection::vec((0u64..1_000, 1u64..1_000, 0u64..2_000), 1..100),
        lead in prop::option::of(0u64..1_000),
    ) {
        let mut params = Params::new();
            params.lead = lead.map(Ns);
        let mut prefetch = Prefetch::NEW;
        let (mut now, mut given) = (0, 0);
        for (loading, compute, asked) in steps {
            prefetch.loaded(Ns(now), Ns(now + loading), &params);
            now += loading;
            let due = prefetch.compute_begins(Ns(now), &params);
            prop_assert!(due.is_none_or(|due| due >= Ns(now)));
            let at = now + asked.min(compute);
            let is_due = due.is_some_and(|due| due <= Ns(at));
            prop_assert_eq!(prefetch.signal(Ns(at)).is_some(), is_due);
            prop_assert!(prefetch.signal(Ns(at)).is_none());
            given += u64::from(is_due);
            now += compute;
            prefetch.compute_ends(Ns(now), &params);
            prop_assert!(prefetch.signal(Ns(now)).is_none());
        }
        let counts = prefetch.counts();
        prop_assert_eq!(counts.signals, given);
        prop_assert!(counts.early + counts.late + counts.useless <= given);
    }
}
