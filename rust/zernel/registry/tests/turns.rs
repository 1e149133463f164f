// SPDX-License-Identifier: GPL-2.0
//! Tests of turns, exclusion and budgets: the registry's setups for the workers, and its reaction
//! to outcomes.

use super::fixture::{
    self,
    add,
    add_at,
    admin,
    slice,
    turn_off,
    work,
    FakeDriver, //
};
use crate::{
    policy::{
        counters::Counters,
        level::{
            self,
            Level, //
        },
        preempt::{
            Answer,
            Verdict, //
        },
        units::Ms, //
    },
    registry::{
        class::Named,
        gpu,
        levels::LevelOf,
        plan::{
            exclusion::Found,
            Change,
            Throttle, //
        },
        tests::news::{
            all_news,
            candidates, //
        },
        tsg,
        Registry, //
    },
};
use kernel::prelude::*;

/// A TSG of this level that has got its settings.
pub(super) fn one(level: Level) -> Result<(KBox<Registry>, gpu::Id, tsg::Id, FakeDriver)> {
    let (mut r, gpu) = fixture::registry_with_turns()?;
    let d = FakeDriver::new();
    let id = add_at(&mut r, gpu, 1, level)?;
    work(&mut r, gpu, &d);
    Ok((r, gpu, id, d))
}

/// It was disabled, as its turn was over, or to be kept off the GPU.
fn was_disabled(r: &mut Registry, id: tsg::Id, d: &FakeDriver) {
    d.enabled.set(false);
    assert_eq!(r.was_disabled(id, true, Ok(())), None);
}

/// Brings TSGs in line with levels that have a spent budget.
pub(super) fn throttle(r: &mut Registry, gpu: gpu::Id, levels: level::Set) {
    let changed = r.set_throttled(gpu, levels);
    follow(r, changed);
}

/// Brings TSGs in line with a change of their levels.
pub(super) fn follow(r: &mut Registry, mut left: Option<Throttle>) {
    while let Some(throttle) = left {
        left = r.follow_throttle(throttle);
    }
}

/// TSGs that are to be kept off a GPU for requests of a level.
pub(super) fn less_urgent(r: &Registry, gpu: gpu::Id, level: Level) -> usize {
    let (mut found, mut count) = (Found::behind(None), 0);
    while r.less_urgent(gpu, level, &mut found) {
        count += found.tsgs.iter().flatten().count();
    }
    count
}

fn disabled(r: &Registry, id: tsg::Id) -> Option<(bool, Option<bool>)> {
    r.tsgs.get(&id).map(|tsg| (tsg.disable, tsg.disabled))
}

/// The counters of requests of a level.
fn requests_of(r: &Registry, level: Level) -> Result<KBox<Counters>> {
    let mut counters = KBox::<Counters>::zeroed(GFP_KERNEL)?;
    let of = LevelOf {
        gpu: None,
        level: Some(level),
    };
    r.each_part(of, |part| part.add_to(&mut counters))?;
    Ok(counters)
}

fn throttles(r: &Registry, level: Level) -> u64 {
    let level = Some(level);
    r.level_counters(LevelOf { gpu: None, level }).throttles
}

#[kernel::macros::kunit_tests(zernel_turns)]
mod cases {
    use crate::registry::tests::turns::*;

    #[test]
    fn best_effort_compute_tsgs_take_turns() -> Result {
        let (mut r, gpu) = fixture::registry_with_turns()?;
        add_at(&mut r, gpu, 5, Level::BE)?;
        add_at(&mut r, gpu, 3, Level::LC)?;
        add(&mut r, gpu, 4, 0)?;
        let far = add(&mut r, gpu, 2, 1)?;
        r.change_class(admin(), Named::Tsg(far), Level::BE)?;
        let mut graphics = fixture::tsg(1)?;
        graphics.traits.compute = false;
        let graphics = r.add_tsg(gpu, graphics)?;
        r.change_class(admin(), Named::Tsg(graphics), Level::BE)?;
        let found = candidates(&mut r, gpu)?;
        // In the order of their handles, as look-ups need it.
        assert_eq!(found.len(), 2);
        assert_eq!(found.first().map(|c| (c.handle, c.runlist)), Some((2, 1)));
        assert_eq!(found.get(1).map(|c| (c.handle, c.runlist)), Some((5, 0)));
        Ok(())
    }

    #[test]
    fn a_gpu_that_closes_has_no_turns() -> Result {
        let (mut r, gpu) = fixture::registry_with_turns()?;
        let id = add_at(&mut r, gpu, 1, Level::BE)?;
        r.close_gpu(gpu);
        assert!(all_news(&mut r, gpu)?.is_empty());
        assert_eq!(less_urgent(&r, gpu, Level::LC), 0);
        assert!(!r.will_disable(id, true));
        assert!(!r.will_exclude(id, true));
        // It is there, and goes on.
        assert_eq!(r.why_not(id), Answer::InvalidState);
        assert!(all_news(&mut r, gpu::Id(1))?.is_empty());
        r.remove_tsg(id);
        assert!(!r.will_exclude(id, true));
        assert_eq!(r.why_not(id), Answer::Gone);
        Ok(())
    }

    #[test]
    fn only_who_takes_turns_is_parked() -> Result {
        let (mut r, gpu) = fixture::registry_with_turns()?;
        let best = add_at(&mut r, gpu, 1, Level::BE)?;
        let urgent = add_at(&mut r, gpu, 2, Level::LC)?;
        assert!(r.will_disable(best, true));
        assert!(!r.will_disable(urgent, true));
        // To be scheduled is always allowed.
        assert!(r.will_disable(urgent, false));
        assert!(!r.will_disable(tsg::Id(1), false));
        turn_off(&mut r)?;
        assert!(!r.will_disable(best, true));
        Ok(())
    }

    #[test]
    fn what_the_driver_answers_is_remembered() -> Result {
        let (mut r, gpu) = fixture::registry_with_turns()?;
        let id = add_at(&mut r, gpu, 1, Level::BE)?;
        assert_eq!(disabled(&r, id), Some((false, Some(false))));
        assert!(r.will_disable(id, true));
        assert_eq!(r.was_disabled(id, true, Ok(())), None);
        assert_eq!(disabled(&r, id), Some((true, Some(true))));
        assert_eq!(r.counters().turns, 0);
        assert!(r.will_disable(id, false));
        assert_eq!(r.was_disabled(id, false, Ok(())), None);
        assert_eq!(disabled(&r, id), Some((false, Some(false))));
        assert_eq!(r.counters().turns, 1);
        // Not now: nothing is asked for any more, and somebody comes back.
        assert!(r.will_disable(id, true));
        assert_eq!(r.was_disabled(id, true, Err(EAGAIN)), Some(Ms(1)));
        assert_eq!(disabled(&r, id), Some((false, Some(false))));
        assert_eq!(r.counters().retries, 1);
        // A call that failed may have had its effect; one that was refused did not.
        assert!(r.will_disable(id, true));
        assert_eq!(r.was_disabled(id, true, Err(EINVAL)), None);
        assert_eq!(disabled(&r, id), Some((true, Some(false))));
        assert_eq!(r.was_disabled(id, true, Err(EIO)), None);
        assert_eq!(disabled(&r, id), Some((true, None)));
        assert_eq!(r.counters().errors, 2);
        assert_eq!(r.was_disabled(id, true, Err(ENOENT)), None);
        assert_eq!(disabled(&r, id), None);
        assert_eq!(r.counters().dead, 1);
        Ok(())
    }

    #[test]
    fn who_takes_no_turns_any_more_is_scheduled_again() -> Result {
        let (mut r, gpu, id, d) = one(Level::BE)?;
        assert!(r.will_disable(id, true));
        was_disabled(&mut r, id, &d);
        // While it does, nobody schedules it behind the back of the others.
        candidates(&mut r, gpu)?;
        work(&mut r, gpu, &d);
        assert!(!d.enabled.get());
        turn_off(&mut r)?;
        assert_eq!(candidates(&mut r, gpu)?.len(), 0);
        work(&mut r, gpu, &d);
        assert!(d.enabled.get());
        assert_eq!(disabled(&r, id), Some((false, Some(false))));
        Ok(())
    }

    #[test]
    fn a_gpu_that_tells_no_load_has_no_turns() -> Result {
        let (mut r, gpu, id, d) = one(Level::BE)?;
        add_at(&mut r, gpu, 2, Level::LC)?;
        work(&mut r, gpu, &d);
        assert_eq!(slice(&r, id), Some(50));
        assert!(r.will_disable(id, true));
        was_disabled(&mut r, id, &d);
        r.set_blind(gpu, true);
        r.settle();
        let watched = |changes: &[Change]| changes.iter().filter(|c| c.budget.is_some()).count();
        assert!(candidates(&mut r, gpu)?.is_empty());
        work(&mut r, gpu, &d);
        assert_eq!(disabled(&r, id), Some((false, Some(false))));
        assert_eq!(slice(&r, id), Some(200));
        assert!(!r.will_disable(id, true));
        assert_eq!(watched(&all_news(&mut r, gpu)?), 0);
        // Its provider says that it is back.
        r.doubt_gpu(gpu);
        r.settle();
        assert_eq!(candidates(&mut r, gpu)?.len(), 1);
        assert_eq!(watched(&all_news(&mut r, gpu)?), 1);
        work(&mut r, gpu, &d);
        assert_eq!(slice(&r, id), Some(50));
        assert!(r.will_disable(id, true));
        Ok(())
    }

    #[test]
    fn levels_above_best_effort_have_budgets() -> Result {
        let (mut r, gpu) = fixture::registry_with_turns()?;
        add_at(&mut r, gpu, 1, Level::BE)?;
        add_at(&mut r, gpu, 2, fixture::level(3))?;
        add_at(&mut r, gpu, 3, Level::LC)?;
        add(&mut r, gpu, 4, 0)?;
        let mut found = 0;
        for change in &all_news(&mut r, gpu)? {
            if let Some(level) = change.budget {
                found = found * 100 + change.handle * 10 + u64::from(level.number());
            }
        }
        assert_eq!(found, 23_30);
        r.tune(|t| {
            t.set_enabled(false);
            Ok(())
        })
        .map_err(|_| EINVAL)?;
        let has_budget = |change: &Change| change.budget.is_some();
        assert!(!all_news(&mut r, gpu)?.iter().any(has_budget));
        Ok(())
    }

    #[test]
    fn a_level_without_budget_runs_like_best_effort() -> Result {
        let (mut r, gpu, id, d) = one(Level::LC)?;
        assert_eq!(slice(&r, id), Some(5_000_000));
        let mut spent = level::Set::NONE;
        spent.put(Level::LC, true);
        for _ in 0..2 {
            // Twice is once.
            throttle(&mut r, gpu, spent);
        }
        assert_eq!(throttles(&r, Level::LC), 1);
        work(&mut r, gpu, &d);
        let throttled = slice(&r, id).ok_or(EINVAL)?;
        assert!(throttled < 1_000);
        // The level is the same.
        assert_eq!(fixture::in_force(&r, id), Some(Level::LC));
        throttle(&mut r, gpu, level::Set::NONE);
        work(&mut r, gpu, &d);
        assert_eq!(slice(&r, id), Some(5_000_000));
        assert_eq!(throttles(&r, Level::LC), 1);
        assert_eq!(throttles(&r, Level::BE), 0);
        Ok(())
    }

    #[test]
    fn the_gate_is_for_those_who_are_less_urgent() -> Result {
        let (mut r, gpu) = fixture::registry_with_turns()?;
        let best = add_at(&mut r, gpu, 1, Level::BE)?;
        add_at(&mut r, gpu, 2, fixture::level(3))?;
        add_at(&mut r, gpu, 3, Level::LC)?;
        assert_eq!(less_urgent(&r, gpu, Level::LC), 2);
        assert_eq!(less_urgent(&r, gpu, fixture::level(3)), 1);
        assert_eq!(less_urgent(&r, gpu, Level::BE), 0);
        assert!(r.is_less_urgent(best, fixture::level(3)));
        assert!(!r.is_less_urgent(best, Level::BE));
        // A TSG without a turn is off the GPU already.
        assert!(r.will_disable(best, true));
        assert_eq!(less_urgent(&r, gpu, Level::LC), 1);
        assert_eq!(r.exclusion_of(best, Level::LC), Some(None));
        assert_eq!(r.exclusion_of(best, Level::BE), None);
        // It has one again, and another level.
        assert!(r.will_disable(best, false));
        assert_eq!(less_urgent(&r, gpu, Level::LC), 2);
        assert!(r
            .exclusion_of(best, Level::LC)
            .is_some_and(|timeout| timeout.is_some()));
        r.change_class(admin(), Named::Tsg(best), fixture::level(2))?;
        assert_eq!(less_urgent(&r, gpu, fixture::level(3)), 0);
        assert_eq!(less_urgent(&r, gpu, Level::LC), 2);
        // It computes no more, or is gone.
        let mut now = r.tsgs.get(&best).ok_or(ENOENT)?.traits;
        now.compute = false;
        r.change_tsg(best, now);
        assert_eq!(less_urgent(&r, gpu, Level::LC), 1);
        now.compute = true;
        r.change_tsg(best, now);
        assert_eq!(less_urgent(&r, gpu, Level::LC), 2);
        r.remove_tsg(best);
        assert_eq!(less_urgent(&r, gpu, Level::LC), 1);
        Ok(())
    }

    #[test]
    fn the_gate_finds_those_it_has_to_stop_and_no_others() -> Result {
        let (mut r, gpu) = fixture::registry_with_turns()?;
        for handle in 0..40 {
            let level = fixture::level(1 + (handle % 4) as u32);
            add_at(&mut r, gpu, handle, level)?;
        }
        let mut found = Found::behind(None);
        let (mut steps, mut count) = (0, 0);
        while r.less_urgent(gpu, fixture::level(2), &mut found) {
            for tsg in found.tsgs.iter().flatten() {
                assert!(r.is_less_urgent(tsg.id, fixture::level(2)));
                count += 1;
                // As when it is kept off.
                assert!(r.will_exclude(tsg.id, true));
            }
            steps += 1;
        }
        assert_eq!((steps, count), (3, 20));
        assert_eq!(less_urgent(&r, gpu, fixture::level(2)), 0);
        Ok(())
    }

    #[test]
    fn who_takes_no_turns_any_more_runs_although_others_are_kept_off() -> Result {
        let (mut r, gpu, id, d) = one(Level::BE)?;
        assert!(r.will_disable(id, true));
        was_disabled(&mut r, id, &d);
        r.change_class(admin(), Named::Tsg(id), Level::LC)?;
        all_news(&mut r, gpu)?;
        assert_eq!(less_urgent(&r, gpu, Level::LC), 0);
        work(&mut r, gpu, &d);
        assert!(d.enabled.get());
        Ok(())
    }

    #[test]
    fn who_is_to_be_let_in_is_tried_once_more() -> Result {
        let (mut r, gpu, id, d) = one(fixture::level(3))?;
        for error in [EIO, ETIMEDOUT, EINVAL] {
            assert!(r.will_exclude(id, true));
            was_disabled(&mut r, id, &d);
            assert!(r.will_exclude(id, false));
            assert_eq!(r.was_disabled(id, false, Err(error)), None);
            r.let_run(id);
            work(&mut r, gpu, &d);
            assert!(d.enabled.get());
            assert_eq!(disabled(&r, id), Some((false, Some(false))));
        }
        Ok(())
    }

    #[test]
    fn a_channel_that_is_added_to_who_is_kept_off_is_stopped_too() -> Result {
        let (mut r, gpu, id, d) = one(Level::BE)?;
        assert!(r.will_exclude(id, true));
        was_disabled(&mut r, id, &d);
        let mut now = r.tsgs.get(&id).ok_or(ENOENT)?.traits;
        now.channels += 1;
        // It can be scheduled.
        d.enabled.set(true);
        r.change_tsg(id, now);
        work(&mut r, gpu, &d);
        assert!(!d.enabled.get());
        // One that goes changes nothing.
        now.channels -= 1;
        d.enabled.set(true);
        r.change_tsg(id, now);
        work(&mut r, gpu, &d);
        assert!(d.enabled.get());
        Ok(())
    }

    #[test]
    fn who_could_not_be_kept_off_is_scheduled() -> Result {
        let (mut r, gpu, id, d) = one(Level::BE)?;
        assert!(r.will_exclude(id, true));
        was_disabled(&mut r, id, &d);
        r.was_excluded(gpu, id, Level::LC, Verdict::Done);
        assert_eq!(disabled(&r, id), Some((true, Some(true))));
        // Turns leave it alone as long.
        turn_off(&mut r)?;
        candidates(&mut r, gpu)?;
        work(&mut r, gpu, &d);
        assert!(!d.enabled.get());
        r.was_excluded(gpu, id, Level::LC, Verdict::OutOfMemory);
        work(&mut r, gpu, &d);
        assert!(d.enabled.get());
        let counters = requests_of(&r, Level::LC)?;
        assert_eq!((counters.preempted, counters.preempt_no_memory), (1, 1));
        Ok(())
    }

    #[test]
    fn a_gpu_that_does_not_respond_is_left_alone_until_it_is_back() -> Result {
        let (mut r, gpu, id, d) = one(Level::BE)?;
        assert!(r.will_exclude(id, true) && r.may_ask(gpu));
        r.was_excluded(gpu, id, Level::LC, Verdict::NotResponding);
        assert_eq!(requests_of(&r, Level::LC)?.preempt_unresponsive, 1);
        let told = |r: &Registry| r.gpu(gpu).map(|g| (g.unresponsive, g.retrying));
        assert_eq!(told(&r), Some((true, true)));
        assert!(r.gpu(gpu).is_some_and(|g| g.requests.is_suspended()));
        assert!(!r.will_disable(id, true));
        assert!(!r.will_exclude(id, true) && !r.may_ask(gpu));
        assert_eq!(r.why_not(id), Answer::InvalidState);
        let calls = d.calls.get();
        r.change_class(admin(), Named::Tsg(id), Level::LC)?;
        work(&mut r, gpu, &d);
        assert_eq!(d.calls.get(), calls);
        r.doubt_gpu(gpu);
        assert_eq!(told(&r), Some((false, false)));
        assert!(r.may_ask(gpu));
        work(&mut r, gpu, &d);
        assert!(d.calls.get() > calls);
        assert_eq!(disabled(&r, id), Some((false, Some(false))));
        Ok(())
    }
}
