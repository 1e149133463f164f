// SPDX-License-Identifier: GPL-2.0
//! Tests of owners that have their TSG scheduled, or not, through the driver.

use super::{
    control::{
        act,
        controls,
        tune, //
    },
    fixture::{
        self,
        add_at,
        admin,
        work,
        FakeDriver, //
    },
    news::news,
};
use crate::{
    policy::{
        control::{
            Policy,
            Verdict, //
        },
        level::Level,
        permit::Change,
        rotation::Discipline,
        units::{
            Ms,
            Us, //
        },
    },
    registry::{
        class::Named,
        gpu,
        reader::Reader,
        steps::Next,
        tsg,
        Registry, //
    },
};
use kernel::prelude::*;

/// `ZERNEL_USER_SCHEDULE` and `ZERNEL_USER_START`.
const SCHEDULE: u32 = 3;
const START: u32 = 4;

/// The time slice of a BE TSG that takes no turns.
const BE_SLICE: Us = Us(200);

/// A registry, its GPU, a TSG of this level that has got its settings, and the driver.
fn lab(level: Level) -> Result<(KBox<Registry>, gpu::Id, tsg::Id, FakeDriver)> {
    let (mut r, gpu) = fixture::registry_with_turns()?;
    let d = FakeDriver::new();
    let id = add_at(&mut r, gpu, 1, level)?;
    work(&mut r, gpu, &d);
    Ok((r, gpu, id, d))
}

/// TSGs take turns in this way from now on, with the settings that they have without.
fn rotate(r: &mut Registry, discipline: Option<Discipline>) -> Result {
    r.tune(|t| {
        t.turns_mut().set_discipline(discipline);
        t.turns_mut().set_timeslice(BE_SLICE)
    })
    .map_err(|_| EINVAL)
}

/// Its turn is over.
fn park(r: &mut Registry, id: tsg::Id, d: &FakeDriver) {
    assert!(r.will_disable(id, true));
    d.enabled.set(false);
    assert_eq!(r.was_disabled(id, true, Ok(())), None);
}

/// The owner has the driver schedule it, or not, if zernel lets it.
fn owner_sets(
    r: &mut Registry,
    id: tsg::Id,
    d: &FakeDriver,
    (what, enabled): (u32, bool),
) -> Option<Verdict> {
    let verdict = r.judge_control(id, what)?;
    if verdict != Verdict::Deny {
        d.enabled.set(enabled);
        r.doubt_schedule(id);
    }
    Some(verdict)
}

fn state(r: &Registry, id: tsg::Id) -> Option<(bool, Option<bool>)> {
    r.tsgs.get(&id).map(|tsg| (tsg.disable, tsg.disabled))
}

#[kernel::macros::kunit_tests(zernel_schedule)]
mod cases {
    use crate::registry::tests::schedule::*;

    #[test]
    fn who_waits_for_a_turn_goes_on_waiting() -> Result {
        let (mut r, gpu, id, d) = lab(Level::BE)?;
        park(&mut r, id, &d);
        for (policy, verdict, counted) in [
            (Policy::Deny, Verdict::Deny, (1, 0)),
            (Policy::Reapply, Verdict::Reapply, (1, 1)),
            (Policy::Allow, Verdict::Reapply, (1, 2)),
        ] {
            tune(&mut r, policy)?;
            work(&mut r, gpu, &d);
            let calls = d.calls.get();
            assert_eq!(owner_sets(&mut r, id, &d, (SCHEDULE, true)), Some(verdict));
            assert_eq!(d.enabled.get(), verdict != Verdict::Deny);
            work(&mut r, gpu, &d);
            assert!(!d.enabled.get());
            assert_eq!(state(&r, id), Some((true, Some(true))));
            // No more than that is set.
            let needed = u32::from(verdict != Verdict::Deny);
            assert_eq!(d.calls.get(), calls + needed);
            assert_eq!(controls(&r), counted);
        }
        Ok(())
    }

    #[test]
    fn a_start_is_let_through_and_put_right() -> Result {
        let (mut r, gpu, id, d) = lab(Level::BE)?;
        for policy in Policy::ALL {
            tune(&mut r, policy)?;
            let before = controls(&r);
            // In its turn it is nothing to count.
            let verdict = owner_sets(&mut r, id, &d, (START, true));
            assert_eq!(verdict, Some(Verdict::Watch));
            work(&mut r, gpu, &d);
            assert!(d.enabled.get());
            assert_eq!(controls(&r), before);
            park(&mut r, id, &d);
            let verdict = owner_sets(&mut r, id, &d, (START, true));
            assert_eq!(verdict, Some(Verdict::Reapply));
            assert!(d.enabled.get());
            work(&mut r, gpu, &d);
            assert!(!d.enabled.get());
            assert_eq!(controls(&r), (before.0, before.1 + 1));
            assert!(r.will_disable(id, false));
            d.enabled.set(true);
            r.was_disabled(id, false, Ok(()));
        }
        Ok(())
    }

    #[test]
    fn who_stops_in_its_turn_goes_on() -> Result {
        let (mut r, gpu, id, d) = lab(Level::BE)?;
        for policy in [Policy::Reapply, Policy::Allow] {
            tune(&mut r, policy)?;
            work(&mut r, gpu, &d);
            let verdict = owner_sets(&mut r, id, &d, (SCHEDULE, false));
            assert_eq!(verdict, Some(Verdict::Reapply));
            assert!(!d.enabled.get());
            work(&mut r, gpu, &d);
            assert!(d.enabled.get());
            assert_eq!(state(&r, id), Some((false, Some(false))));
        }
        assert_eq!(controls(&r), (0, 2));
        Ok(())
    }

    #[test]
    fn who_takes_no_turns_may_stop() -> Result {
        let (mut r, gpu, id, d) = lab(Level::LC)?;
        for (policy, verdict, counted) in [
            (Policy::Deny, Verdict::Deny, (1, 0)),
            (Policy::Reapply, Verdict::Reapply, (1, 1)),
            (Policy::Allow, Verdict::Allow, (1, 1)),
        ] {
            tune(&mut r, policy)?;
            let calls = d.calls.get();
            let answer = owner_sets(&mut r, id, &d, (SCHEDULE, false));
            assert_eq!(answer, Some(verdict));
            work(&mut r, gpu, &d);
            assert_eq!(d.enabled.get(), verdict == Verdict::Deny);
            assert_eq!(d.calls.get(), calls);
            assert_eq!(controls(&r), counted);
            d.enabled.set(true);
        }
        Ok(())
    }

    #[test]
    fn who_stopped_before_it_took_turns_is_let_run() -> Result {
        let (mut r, gpu) = fixture::registry_with_turns()?;
        let d = FakeDriver::new();
        let id = fixture::add(&mut r, gpu, 1, 0)?;
        work(&mut r, gpu, &d);
        let verdict = owner_sets(&mut r, id, &d, (SCHEDULE, false));
        assert_eq!(verdict, Some(Verdict::Watch));
        work(&mut r, gpu, &d);
        assert!(!d.enabled.get());
        assert_eq!(controls(&r), (0, 0));
        r.change_class(admin(), Named::Tsg(id), Level::LC)?;
        work(&mut r, gpu, &d);
        assert!(!d.enabled.get());
        r.change_class(admin(), Named::Tsg(id), Level::BE)?;
        work(&mut r, gpu, &d);
        assert!(d.enabled.get());
        // Once is enough.
        d.enabled.set(false);
        for change in [Change::CLEAR, Level::BE.into()] {
            r.change_class(admin(), Named::Tsg(id), change)?;
            work(&mut r, gpu, &d);
        }
        assert!(!d.enabled.get());
        Ok(())
    }

    #[test]
    fn who_stopped_while_nobody_took_turns_is_let_run() -> Result {
        for (policy, verdict) in [
            (Policy::Allow, Verdict::Allow),
            (Policy::Reapply, Verdict::Reapply),
        ] {
            let (mut r, gpu, id, d) = lab(Level::BE)?;
            let mut reader = Reader::default();
            tune(&mut r, policy)?;
            rotate(&mut r, None)?;
            news(&mut r, gpu, &mut reader)?;
            work(&mut r, gpu, &d);
            assert_eq!(d.held.get().timeslice, BE_SLICE);
            assert_eq!(owner_sets(&mut r, id, &d, (SCHEDULE, false)), Some(verdict));
            // While there are no turns, it stays off.
            r.add_news(id);
            news(&mut r, gpu, &mut reader)?;
            work(&mut r, gpu, &d);
            assert!(!d.enabled.get());
            rotate(&mut r, Some(Discipline::Fair))?;
            news(&mut r, gpu, &mut reader)?;
            work(&mut r, gpu, &d);
            assert!(d.enabled.get());
            assert_eq!(state(&r, id), Some((false, Some(false))));
        }
        Ok(())
    }

    #[test]
    fn who_is_kept_off_without_a_class_stays_off() -> Result {
        let (mut r, gpu) = fixture::registry_with_turns()?;
        let d = FakeDriver::new();
        let id = fixture::add(&mut r, gpu, 1, 0)?;
        work(&mut r, gpu, &d);
        assert!(r.will_exclude(id, true));
        d.enabled.set(false);
        r.was_disabled(id, true, Ok(()));
        let verdict = owner_sets(&mut r, id, &d, (SCHEDULE, true));
        assert_eq!(verdict, Some(Verdict::Deny));
        // Its settings are its own, all the same.
        assert_eq!(r.judge_control(id, 1), Some(Verdict::Watch));
        let verdict = owner_sets(&mut r, id, &d, (START, true));
        assert_eq!(verdict, Some(Verdict::Reapply));
        assert!(d.enabled.get());
        work(&mut r, gpu, &d);
        assert!(!d.enabled.get());
        assert_eq!(controls(&r), (1, 1));
        Ok(())
    }

    #[test]
    fn a_report_during_a_call_is_not_lost() -> Result {
        let (mut r, gpu, id, d) = lab(Level::BE)?;
        tune(&mut r, Policy::Reapply)?;
        // During a step.
        park(&mut r, id, &d);
        owner_sets(&mut r, id, &d, (SCHEDULE, true));
        let step = r.next_step(gpu).ok_or(EINVAL)?;
        let outcome = step.perform(&d);
        owner_sets(&mut r, id, &d, (SCHEDULE, true));
        assert_eq!(r.complete(&step, &outcome), Next::Go);
        assert_eq!(state(&r, id), Some((true, None)));
        work(&mut r, gpu, &d);
        assert!(!d.enabled.get());
        // During the call of a turn, of either kind.
        for disable in [false, true] {
            assert!(r.will_disable(id, disable));
            owner_sets(&mut r, id, &d, (SCHEDULE, disable));
            r.was_disabled(id, disable, Ok(()));
            assert_eq!(state(&r, id), Some((disable, None)));
            work(&mut r, gpu, &d);
            assert_eq!(d.enabled.get(), !disable);
            assert_eq!(state(&r, id), Some((disable, Some(disable))));
        }
        Ok(())
    }

    #[test]
    fn what_fails_is_tried_again() -> Result {
        let (mut r, gpu, id, d) = lab(Level::BE)?;
        park(&mut r, id, &d);
        owner_sets(&mut r, id, &d, (START, true));
        d.enable_error.set(Some(EAGAIN));
        assert!(matches!(work(&mut r, gpu, &d), Next::Wait(_)));
        assert!(d.enabled.get());
        d.enable_error.set(None);
        work(&mut r, gpu, &d);
        assert!(!d.enabled.get());
        // One that was refused for good waits for the next report.
        owner_sets(&mut r, id, &d, (START, true));
        d.enable_error.set(Some(EIO));
        work(&mut r, gpu, &d);
        assert_eq!(state(&r, id), Some((true, None)));
        d.enable_error.set(None);
        owner_sets(&mut r, id, &d, (START, true));
        work(&mut r, gpu, &d);
        assert!(!d.enabled.get());
        Ok(())
    }

    #[test]
    fn who_insists_waits_until_the_next_turn() -> Result {
        let (mut r, gpu, id, d) = lab(Level::BE)?;
        for _ in 0..2 {
            park(&mut r, id, &d);
            for _ in 0..8 {
                assert_eq!(r.doubt_schedule(id), Ms(0));
            }
            assert_eq!(r.doubt_schedule(id), Ms(1));
            assert_eq!(r.doubt_schedule(id), Ms(2));
            work(&mut r, gpu, &d);
            assert_eq!(r.doubt_schedule(id), Ms(4));
            work(&mut r, gpu, &d);
            assert!(r.will_disable(id, false));
            r.was_disabled(id, false, Ok(()));
        }
        // Its owner's own affair costs nothing.
        r.change_class(admin(), Named::Tsg(id), Level::LC)?;
        work(&mut r, gpu, &d);
        for _ in 0..20 {
            assert_eq!(r.doubt_schedule(id), Ms(0));
        }
        assert_eq!(r.doubt_schedule(tsg::Id(1)), Ms(0));
        Ok(())
    }

    #[test]
    fn a_setting_that_is_allowed_stays_beside_turns() -> Result {
        let (mut r, gpu, id, d) = lab(Level::BE)?;
        tune(&mut r, Policy::Allow)?;
        assert_eq!(r.judge_control(id, 1), Some(Verdict::Allow));
        act(&d, 9_000);
        r.doubt_tsg(id);
        work(&mut r, gpu, &d);
        assert_eq!(d.slice(), 9_000);
        Ok(())
    }
}
