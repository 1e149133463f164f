// SPDX-License-Identifier: GPL-2.0
//! Tests of turns, exclusion and budgets: the registry's setups for the workers, and its reaction
//! to outcomes.

use super::fixture::{
    self,
    admin,
    slice,
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
        preempt::Verdict,
        units::Ms, //
    },
    registry::{
        class::Named,
        gpu,
        levels::LevelOf,
        plan::turns::Candidate,
        tsg,
        turns::{
            budget_setup,
            less_urgent,
            rotation_setup, //
        },
        Registry, //
    },
};
use kernel::prelude::*;

/// A TSG of this handle and run list.
fn add(r: &mut Registry, gpu: gpu::Id, handle: u64, runlist: u32) -> Result<tsg::Id> {
    let mut description = fixture::tsg(handle)?;
    description.traits.runlist = runlist;
    r.add_tsg(gpu, description)
}

/// The same, with a class.
fn add_at(r: &mut Registry, gpu: gpu::Id, handle: u64, level: Level) -> Result<tsg::Id> {
    let id = add(r, gpu, handle, 0)?;
    r.change_class(admin(), Named::Tsg(id), level)?;
    Ok(id)
}

/// A TSG of this level that has got its settings.
fn one(level: Level) -> Result<(KBox<Registry>, gpu::Id, tsg::Id, FakeDriver)> {
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

fn candidates(r: &mut Registry, gpu: gpu::Id) -> Result<KVec<Candidate>> {
    let setup = rotation_setup(r, gpu, 0)?.ok_or(ENOENT)?;
    Ok(setup.candidates)
}

fn handles(r: &mut Registry, gpu: gpu::Id) -> Result<KVec<u64>> {
    let mut handles = KVec::new();
    for candidate in &candidates(r, gpu)? {
        handles.push(candidate.handle, GFP_KERNEL)?;
    }
    Ok(handles)
}

fn disabled(r: &Registry, id: tsg::Id) -> Option<(bool, Option<bool>)> {
    r.tsgs.get(&id).map(|tsg| (tsg.disable, tsg.disabled))
}

fn turn_off(r: &mut Registry) -> Result {
    r.tune(|t| {
        t.turns_mut().set_discipline(None);
        Ok(())
    })
    .map_err(|_| EINVAL)
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
    fn nothing_new_is_not_told_again() -> Result {
        let (mut r, gpu) = fixture::registry_with_turns()?;
        let id = add_at(&mut r, gpu, 1, Level::BE)?;
        let setup = rotation_setup(&mut r, gpu, 0)?.ok_or(ENOENT)?;
        assert!(rotation_setup(&mut r, gpu, setup.generation)?.is_none());
        assert!(budget_setup(&mut r, gpu, setup.generation)?.is_none());
        r.change_class(admin(), Named::Tsg(id), Level::LC)?;
        assert!(rotation_setup(&mut r, gpu, setup.generation)?.is_some());
        assert_eq!(handles(&mut r, gpu)?.len(), 0);
        r.change_class(admin(), Named::Tsg(id), Level::BE)?;
        assert_eq!(handles(&mut r, gpu)?.len(), 1);
        let setup = rotation_setup(&mut r, gpu, 0)?.ok_or(ENOENT)?;
        r.remove_tsg(id);
        assert!(rotation_setup(&mut r, gpu, setup.generation)?.is_some());
        Ok(())
    }

    #[test]
    fn a_gpu_that_closes_has_no_turns() -> Result {
        let (mut r, gpu) = fixture::registry_with_turns()?;
        let id = add_at(&mut r, gpu, 1, Level::BE)?;
        r.close_gpu(gpu);
        assert!(rotation_setup(&mut r, gpu, 0)?.is_none());
        assert!(budget_setup(&mut r, gpu, 0)?.is_none());
        assert!(!r.will_disable(id, true));
        assert!(!r.will_exclude(id, true));
        assert!(rotation_setup(&mut r, crate::registry::gpu::Id(1), 0)?.is_none());
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
    fn levels_above_best_effort_have_budgets() -> Result {
        let (mut r, gpu) = fixture::registry_with_turns()?;
        add_at(&mut r, gpu, 1, Level::BE)?;
        add_at(&mut r, gpu, 2, fixture::level(3))?;
        add_at(&mut r, gpu, 3, Level::LC)?;
        add(&mut r, gpu, 4, 0)?;
        let setup = budget_setup(&mut r, gpu, 0)?.ok_or(ENOENT)?;
        let mut found = 0;
        for candidate in &setup.candidates {
            found = found * 100 + candidate.handle * 10 + u64::from(candidate.level.number());
        }
        assert_eq!(found, 23_30);
        assert!(setup.budgets.iter().take(7).all(Option::is_some));
        r.tune(|t| {
            t.set_enabled(false);
            Ok(())
        })
        .map_err(|_| EINVAL)?;
        let setup = budget_setup(&mut r, gpu, 0)?.ok_or(ENOENT)?;
        assert_eq!(setup.candidates.len(), 0);
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
            r.set_throttled(gpu, spent);
        }
        assert_eq!(throttles(&r, Level::LC), 1);
        work(&mut r, gpu, &d);
        let throttled = slice(&r, id).ok_or(EINVAL)?;
        assert!(throttled < 1_000);
        // The level is the same.
        assert_eq!(fixture::in_force(&r, id), Some(Level::LC));
        r.set_throttled(gpu, level::Set::NONE);
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
        let count = |r: &mut Registry, level| {
            let setup = less_urgent(r, gpu, level, 0)?;
            Ok::<_, Error>(setup.map(|setup| setup.found.len()))
        };
        assert_eq!(count(&mut r, Level::LC)?, Some(2));
        assert_eq!(count(&mut r, fixture::level(3))?, Some(1));
        assert_eq!(count(&mut r, Level::BE)?, Some(0));
        assert!(r.is_less_urgent(best, fixture::level(3)));
        assert!(!r.is_less_urgent(best, Level::BE));
        // A TSG without a turn is off the GPU already.
        assert!(r.will_disable(best, true));
        assert_eq!(count(&mut r, Level::LC)?, Some(1));
        Ok(())
    }

    #[test]
    fn the_gate_learns_who_comes_and_goes() -> Result {
        let (mut r, gpu) = fixture::registry_with_turns()?;
        let mut seen = 0;
        let mut is_new = |r: &mut Registry| {
            let setup = less_urgent(r, gpu, Level::LC, seen)?;
            seen = setup.as_ref().map_or(seen, |setup| setup.generation);
            Ok::<_, Error>(setup.is_some())
        };
        assert!(is_new(&mut r)?);
        assert!(!is_new(&mut r)?);
        // It has no class, so that nothing else tells of it.
        let id = add(&mut r, gpu, 1, 0)?;
        assert!(is_new(&mut r)?);
        r.remove_tsg(id);
        assert!(is_new(&mut r)?);
        assert!(!is_new(&mut r)?);
        Ok(())
    }

    #[test]
    fn who_takes_no_turns_any_more_runs_although_others_are_kept_off() -> Result {
        let (mut r, gpu, id, d) = one(Level::BE)?;
        assert!(r.will_disable(id, true));
        was_disabled(&mut r, id, &d);
        r.change_class(admin(), Named::Tsg(id), Level::LC)?;
        let setup = less_urgent(&mut r, gpu, Level::LC, 0)?.ok_or(ENOENT)?;
        assert_eq!(setup.found.len(), 0);
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
        assert!(r.will_exclude(id, true));
        r.was_excluded(gpu, id, Level::LC, Verdict::NotResponding);
        assert_eq!(requests_of(&r, Level::LC)?.preempt_unresponsive, 1);
        let told = |r: &Registry| r.gpu(gpu).map(|g| (g.unresponsive, g.retrying));
        assert_eq!(told(&r), Some((true, true)));
        assert!(r.gpu(gpu).is_some_and(|g| g.requests.is_suspended()));
        assert!(!r.will_disable(id, true));
        assert!(!r.will_exclude(id, true));
        let calls = d.calls.get();
        r.change_class(admin(), Named::Tsg(id), Level::LC)?;
        work(&mut r, gpu, &d);
        assert_eq!(d.calls.get(), calls);
        r.doubt_gpu(gpu);
        assert_eq!(told(&r), Some((false, false)));
        work(&mut r, gpu, &d);
        assert!(d.calls.get() > calls);
        assert_eq!(disabled(&r, id), Some((false, Some(false))));
        Ok(())
    }
}
