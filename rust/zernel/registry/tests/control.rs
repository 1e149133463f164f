// SPDX-License-Identifier: GPL-2.0
//! Tests of descriptions that change, of owners that change their TSG through the driver, and of a
//! GPU that forgets.

use super::fixture::{
    self,
    admin,
    in_force,
    process,
    slice,
    work,
    FakeDriver, //
    DEFAULT_US,
};
use crate::{
    error::Failure,
    glue::identity::Viewer,
    policy::{
        control::{
            Policy,
            Verdict, //
        },
        level::Level,
        permit::Change,
        tunables::settings::Why,
        units::{
            Ms,
            Us, //
        },
    },
    registry::{
        class::Named,
        gpu,
        steps::Next,
        tsg::{
            self,
            Hardware,
            Traits, //
        },
        Registry, //
    },
};
use kernel::prelude::*;

/// `ZERNEL_USER_TIMESLICE`: for traces alone.
const WHAT: u32 = 1;

/// A registry, its GPU, a TSG that is unclassed and known, and the driver.
fn lab() -> Result<(Registry, gpu::Id, tsg::Id, FakeDriver)> {
    let (mut r, gpu) = fixture::registry()?;
    let d = FakeDriver::new();
    let id = r.add_tsg(gpu, fixture::tsg(1)?)?;
    work(&mut r, gpu, &d);
    Ok((r, gpu, id, d))
}

fn traits(r: &Registry, id: tsg::Id) -> Result<Traits> {
    r.tsgs.get(&id).map(|tsg| tsg.traits).ok_or(ENOENT)
}

fn tune(r: &mut Registry, policy: Policy) -> Result {
    r.tune(|t| {
        t.set_user_control(policy);
        Ok(())
    })
    .map_err(|_| EINVAL)
}

fn enable(r: &mut Registry, on: bool) -> Result {
    r.tune(|t| {
        t.set_enabled(on);
        Ok(())
    })
    .map_err(|_| EINVAL)
}

/// The owner has the driver set another slice, if zernel lets it.
fn owner_sets(r: &mut Registry, id: tsg::Id, d: &FakeDriver, us: u32) -> Option<Verdict> {
    let verdict = r.judge_control(id, WHAT)?;
    if verdict != Verdict::Deny {
        act(d, us);
    }
    if matches!(verdict, Verdict::Watch | Verdict::Reapply) {
        r.doubt_tsg(id);
    }
    Some(verdict)
}

fn act(d: &FakeDriver, us: u32) {
    d.held.set(Hardware {
        timeslice: Us(us),
        ..d.held.get()
    });
}

fn controls(r: &Registry) -> (u64, u64) {
    let counters = r.counters();
    (counters.controls_denied, counters.controls_reapplied)
}

#[kernel::macros::kunit_tests(zernel_control)]
mod cases {
    use crate::registry::tests::control::*;

    #[test]
    fn a_tsg_that_becomes_compute_gets_its_class_and_gives_it_back() -> Result {
        let (mut r, gpu) = fixture::registry()?;
        let d = FakeDriver::new();
        let before = d.held.get();
        let mut description = fixture::tsg(1)?;
        description.traits.compute = false;
        let id = r.add_tsg(gpu, description)?;
        r.change_class(admin(), process()?, Level::BE)?;
        work(&mut r, gpu, &d);
        assert_eq!(d.slice(), DEFAULT_US);
        let mut now = traits(&r, id)?;
        (now.compute, now.channels, now.hw_tsg) = (true, 8, 99);
        r.change_tsg(id, now);
        assert_eq!(traits(&r, id)?, now);
        work(&mut r, gpu, &d);
        assert_eq!(d.slice(), 200);
        now.compute = false;
        r.change_tsg(id, now);
        work(&mut r, gpu, &d);
        assert_eq!(d.held.get(), before);
        Ok(())
    }

    #[test]
    fn other_numbers_change_no_settings() -> Result {
        let (mut r, gpu, id, d) = lab()?;
        r.change_class(admin(), process()?, Level::BE)?;
        work(&mut r, gpu, &d);
        let calls = d.calls.get();
        let mut now = traits(&r, id)?;
        (now.channels, now.engine, now.runlist) = (3, 9, 4);
        r.change_tsg(id, now);
        assert!(r.queue.first(gpu).is_none());
        assert_eq!(d.calls.get(), calls);
        // Nobody is there to change.
        r.change_tsg(tsg::Id(1), now);
        Ok(())
    }

    #[test]
    fn no_class_raises_a_shared_tsg_whoever_gives_it() -> Result {
        let (mut r, gpu) = fixture::registry()?;
        let d = FakeDriver::new();
        let mut description = fixture::tsg(1)?;
        description.traits.shared = true;
        let id = r.add_tsg(gpu, description)?;
        let before = r.counters();
        for level in Level::ALL
            .into_iter()
            .filter(|l| l.is_above(Level::DEFAULT))
        {
            let refused = r.change_class(admin(), Named::Tsg(id), level);
            assert_eq!(refused.err(), Some(Failure::SharedTsg));
            assert_eq!(r.assignments.count(), 0);
            assert_eq!(r.counters().classes_set, before.classes_set);
        }
        r.change_class(admin(), process()?, Level::LC)?;
        assert_eq!(in_force(&r, id), None);
        r.change_class(admin(), fixture::thread()?, fixture::level(5))?;
        assert_eq!(in_force(&r, id), None);
        work(&mut r, gpu, &d);
        assert_eq!(d.slice(), DEFAULT_US);
        // One that holds down does, wherever it comes from.
        r.change_class(admin(), fixture::thread()?, Level::BE)?;
        work(&mut r, gpu, &d);
        assert_eq!((in_force(&r, id), d.slice()), (Some(Level::BE), 200));
        r.change_class(admin(), Named::Tsg(id), Level::DEFAULT)?;
        assert_eq!(in_force(&r, id), Some(Level::DEFAULT));
        Ok(())
    }

    #[test]
    fn sharing_sheds_no_class_that_holds_down() -> Result {
        for named in [true, false] {
            for level in [Level::DEFAULT, Level::BE] {
                let (mut r, gpu, id, d) = lab()?;
                let target = if named { Named::Tsg(id) } else { process()? };
                r.change_class(admin(), target, level)?;
                work(&mut r, gpu, &d);
                let held = d.held.get();
                let mut now = traits(&r, id)?;
                now.shared = true;
                r.change_tsg(id, now);
                assert_eq!(in_force(&r, id), Some(level));
                assert_eq!(owner_sets(&mut r, id, &d, 9_000), Some(Verdict::Deny));
                work(&mut r, gpu, &d);
                assert_eq!(d.held.get(), held);
                assert_eq!(controls(&r), (1, 0));
            }
        }
        // The same where everything is held down from the start.
        let (mut r, gpu) = fixture::registry()?;
        let d = FakeDriver::new();
        r.tune(|t| {
            t.set_default_class(Some(Level::BE));
            Ok(())
        })
        .map_err(|_| EINVAL)?;
        let mut description = fixture::tsg(1)?;
        description.traits.shared = true;
        let id = r.add_tsg(gpu, description)?;
        work(&mut r, gpu, &d);
        assert_eq!(owner_sets(&mut r, id, &d, 9_000), Some(Verdict::Deny));
        assert_eq!(d.slice(), 200);
        Ok(())
    }

    #[test]
    fn a_tsg_that_becomes_shared_gets_its_own_settings_back() -> Result {
        let (mut r, gpu, id, d) = lab()?;
        let before = d.held.get();
        r.change_class(admin(), Named::Tsg(id), Level::LC)?;
        work(&mut r, gpu, &d);
        let mut now = traits(&r, id)?;
        now.shared = true;
        r.change_tsg(id, now);
        assert_eq!(in_force(&r, id), None);
        work(&mut r, gpu, &d);
        assert_eq!(d.held.get(), before);
        // The assignment is there but has no effect; it can be taken away.
        let answer = r.get_class(admin(), &Named::Tsg(id), &Viewer::current())?;
        assert!(answer.own.is_some_and(|own| own.level.is_some()));
        assert_eq!(answer.level.value, None);
        assert_eq!(answer.level.why, Why::SHARED);
        r.change_class(admin(), Named::Tsg(id), Change::CLEAR)?;
        assert_eq!(r.assignments.count(), 0);
        r.change_class(admin(), process()?, Level::BE)?;
        now.shared = false;
        r.change_tsg(id, now);
        work(&mut r, gpu, &d);
        assert_eq!(d.slice(), 200);
        Ok(())
    }

    #[test]
    fn what_failed_is_not_tried_again_for_a_channel() -> Result {
        let (mut r, gpu, id, d) = lab()?;
        r.change_class(admin(), process()?, Level::BE)?;
        d.slice_error.set(Some(EIO));
        work(&mut r, gpu, &d);
        let calls = d.calls.get();
        let mut now = traits(&r, id)?;
        for channels in 2..10 {
            now.channels = channels;
            r.change_tsg(id, now);
        }
        // Nor for a trait that leaves the class as it is.
        now.shared = true;
        r.change_tsg(id, now);
        assert!(r.queue.first(gpu).is_none());
        assert_eq!(r.tsgs.get(&id).map(|tsg| tsg.failed), Some(true));
        work(&mut r, gpu, &d);
        assert_eq!((d.calls.get(), r.counters().errors), (calls, 1));
        Ok(())
    }

    #[test]
    fn an_unknown_tsg_is_its_owners_where_none_was_turned_away() -> Result {
        let (mut r, gpu, _, _) = lab()?;
        for policy in Policy::ALL {
            tune(&mut r, policy)?;
            assert_eq!(r.judge_owner(gpu, 77, WHAT), Verdict::Allow);
        }
        assert_eq!(controls(&r), (0, 0));
        r.gpus.get_mut(&gpu).ok_or(ENODEV)?.turned_away = true;
        for (policy, verdict, denied) in [
            (Policy::Deny, Verdict::Deny, 1),
            (Policy::Reapply, Verdict::Deny, 2),
            (Policy::Allow, Verdict::Allow, 2),
        ] {
            tune(&mut r, policy)?;
            assert_eq!(r.judge_owner(gpu, 77, WHAT), verdict);
            assert_eq!(controls(&r), (denied, 0));
        }
        // A known TSG is judged by its settings.
        tune(&mut r, Policy::Deny)?;
        assert_eq!(r.judge_owner(gpu, 1, WHAT), Verdict::Watch);
        r.change_class(admin(), process()?, Level::BE)?;
        assert_eq!(r.judge_owner(gpu, 1, WHAT), Verdict::Deny);
        assert_eq!(controls(&r), (3, 0));
        Ok(())
    }

    #[test]
    fn an_unclassed_tsg_is_its_owners() -> Result {
        let (mut r, gpu, id, d) = lab()?;
        for policy in Policy::ALL {
            tune(&mut r, policy)?;
            let calls = d.calls.get();
            assert_ne!(owner_sets(&mut r, id, &d, 7_000), Some(Verdict::Deny));
            work(&mut r, gpu, &d);
            assert_eq!(d.calls.get(), calls);
            assert_eq!(d.slice(), 7_000);
        }
        assert_eq!(controls(&r), (0, 0));
        assert_eq!(r.judge_control(tsg::Id(1), WHAT), None);
        Ok(())
    }

    #[test]
    fn a_classed_tsg_is_as_tuned() -> Result {
        let (mut r, gpu, id, d) = lab()?;
        let before = d.held.get();
        r.change_class(admin(), process()?, Level::BE)?;
        // From the moment the class is given, not only when the driver has it.
        assert_eq!(owner_sets(&mut r, id, &d, 9_000), Some(Verdict::Deny));
        work(&mut r, gpu, &d);
        assert_eq!(owner_sets(&mut r, id, &d, 9_000), Some(Verdict::Deny));
        assert_eq!(d.slice(), 200);
        assert_eq!(controls(&r), (2, 0));

        tune(&mut r, Policy::Reapply)?;
        assert_eq!(owner_sets(&mut r, id, &d, 9_000), Some(Verdict::Reapply));
        assert_eq!(d.slice(), 9_000);
        work(&mut r, gpu, &d);
        assert_eq!(d.slice(), 200);
        assert_eq!(controls(&r), (2, 1));

        tune(&mut r, Policy::Allow)?;
        assert_eq!(owner_sets(&mut r, id, &d, 9_000), Some(Verdict::Allow));
        work(&mut r, gpu, &d);
        assert_eq!(d.slice(), 9_000);
        assert_eq!(controls(&r), (2, 1));

        r.change_class(admin(), process()?, Change::CLEAR)?;
        work(&mut r, gpu, &d);
        assert_eq!(d.held.get(), before);
        Ok(())
    }

    #[test]
    fn nothing_is_held_while_classes_are_off() -> Result {
        let (mut r, gpu, id, d) = lab()?;
        r.change_class(admin(), process()?, Level::BE)?;
        work(&mut r, gpu, &d);
        enable(&mut r, false)?;
        // Its own settings are not back yet, and would replace the new ones.
        assert_eq!(r.judge_control(id, WHAT), Some(Verdict::Deny));
        work(&mut r, gpu, &d);
        assert_eq!(owner_sets(&mut r, id, &d, 4_000), Some(Verdict::Watch));
        work(&mut r, gpu, &d);
        assert_eq!(d.slice(), 4_000);
        enable(&mut r, true)?;
        work(&mut r, gpu, &d);
        assert_eq!(d.slice(), 200);
        r.change_class(admin(), process()?, Change::CLEAR)?;
        work(&mut r, gpu, &d);
        assert_eq!(d.slice(), 4_000);
        Ok(())
    }

    #[test]
    fn a_class_that_overtakes_a_change_is_not_undone() -> Result {
        let (mut r, gpu, id, d) = lab()?;
        for policy in [Policy::Deny, Policy::Reapply] {
            tune(&mut r, policy)?;
            assert_eq!(r.judge_control(id, WHAT), Some(Verdict::Watch));
            r.change_class(admin(), process()?, Level::BE)?;
            work(&mut r, gpu, &d);
            act(&d, 9_000);
            r.doubt_tsg(id);
            work(&mut r, gpu, &d);
            assert_eq!(d.slice(), 200);
            r.change_class(admin(), process()?, Change::CLEAR)?;
            work(&mut r, gpu, &d);
            assert_eq!(d.slice(), DEFAULT_US);
        }
        assert_eq!(controls(&r), (0, 0));
        Ok(())
    }

    #[test]
    fn what_was_allowed_never_survives_the_class() -> Result {
        let (mut r, gpu, id, d) = lab()?;
        tune(&mut r, Policy::Allow)?;
        // The class asks for the TSG's own settings, so that nothing seems to need a restore.
        r.tune(|t| t.set_timeslice(Level::BE, Us(DEFAULT_US)))
            .map_err(|_| EINVAL)?;
        for late in [false, true] {
            if late {
                // The class comes between the answer and the driver's act.
                assert_eq!(r.judge_control(id, WHAT), Some(Verdict::Allow));
            }
            r.change_class(admin(), process()?, Level::BE)?;
            work(&mut r, gpu, &d);
            if late {
                act(&d, 8_000);
            } else {
                owner_sets(&mut r, id, &d, 8_000);
            }
            r.change_class(admin(), process()?, Change::CLEAR)?;
            work(&mut r, gpu, &d);
            assert_eq!(d.slice(), DEFAULT_US);
        }
        // Nothing was set on the unclassed TSG either.
        act(&d, 6_000);
        let calls = d.calls.get();
        r.doubt_tsg(id);
        r.doubt_gpu(gpu);
        work(&mut r, gpu, &d);
        assert_eq!((d.slice(), d.calls.get()), (6_000, calls));
        Ok(())
    }

    #[test]
    fn the_end_of_allow_puts_right_what_was_allowed() -> Result {
        let (mut r, gpu, id, d) = lab()?;
        r.change_class(admin(), process()?, Level::BE)?;
        work(&mut r, gpu, &d);
        for policy in [Policy::Deny, Policy::Reapply] {
            tune(&mut r, Policy::Allow)?;
            owner_sets(&mut r, id, &d, 8_000);
            work(&mut r, gpu, &d);
            assert_eq!(d.slice(), 8_000);
            tune(&mut r, policy)?;
            work(&mut r, gpu, &d);
            assert_eq!(d.slice(), 200);
        }
        Ok(())
    }

    #[test]
    fn what_is_allowed_stays_however_late_it_happens() -> Result {
        let (mut r, gpu, id, d) = lab()?;
        r.change_class(admin(), process()?, Level::BE)?;
        work(&mut r, gpu, &d);
        tune(&mut r, Policy::Allow)?;
        for next in [Policy::Allow, Policy::Deny] {
            assert_eq!(r.judge_control(id, WHAT), Some(Verdict::Allow));
            tune(&mut r, next)?;
            work(&mut r, gpu, &d);
            // The driver acts when the tunable may be another one, and the provider says so.
            act(&d, 8_000);
            r.doubt_tsg(id);
            work(&mut r, gpu, &d);
            let allowed = next == Policy::Allow;
            assert_eq!(d.slice(), if allowed { 8_000 } else { 200 });
        }
        Ok(())
    }

    #[test]
    fn a_refresh_sets_again_and_keeps_what_to_give_back() -> Result {
        let (mut r, gpu, id, d) = lab()?;
        let before = d.held.get();
        r.change_class(admin(), process()?, Level::BE)?;
        work(&mut r, gpu, &d);
        for _ in 0..3 {
            d.held.set(Hardware {
                timeslice: Us(50),
                interleave: Some(1),
            });
            r.doubt_tsg(id);
            r.doubt_tsg(id);
            work(&mut r, gpu, &d);
            assert_eq!(d.slice(), 200);
            assert_eq!(d.held.get().interleave, Some(0));
        }
        assert_eq!(r.counters().coalesced, 0);
        r.change_class(admin(), process()?, Change::CLEAR)?;
        work(&mut r, gpu, &d);
        assert_eq!(d.held.get(), before);
        Ok(())
    }

    #[test]
    fn a_refresh_during_a_call_is_not_lost() -> Result {
        let (mut r, gpu, id, d) = lab()?;
        let before = d.held.get();
        r.change_class(admin(), process()?, Level::BE)?;
        let step = r.next_step(gpu).ok_or(EINVAL)?;
        let outcome = step.perform(&d);
        act(&d, 9_000);
        r.doubt_tsg(id);
        assert_eq!(r.complete(&step, &outcome), Next::Go);
        work(&mut r, gpu, &d);
        assert_eq!(d.slice(), 200);
        // The same while its own settings are given back.
        r.change_class(admin(), process()?, Change::CLEAR)?;
        r.doubt_tsg(id);
        work(&mut r, gpu, &d);
        assert_eq!(d.held.get(), before);
        Ok(())
    }

    #[test]
    fn a_refresh_tries_again_what_failed_once() -> Result {
        let (mut r, gpu, id, d) = lab()?;
        r.change_class(admin(), process()?, Level::BE)?;
        d.slice_error.set(Some(EIO));
        work(&mut r, gpu, &d);
        let calls = d.calls.get();
        r.doubt_gpu(gpu);
        assert_eq!(r.tsgs.get(&id).map(|tsg| tsg.failed), Some(false));
        work(&mut r, gpu, &d);
        assert_eq!(d.calls.get(), calls + 1);
        assert_eq!(r.counters().errors, 2);
        d.slice_error.set(None);
        r.doubt_tsg(id);
        work(&mut r, gpu, &d);
        assert_eq!(slice(&r, id), Some(200));
        assert_eq!(d.slice(), 200);
        Ok(())
    }

    #[test]
    fn who_cannot_be_given_back_is_its_owners_until_the_gpu_returns() -> Result {
        let (mut r, gpu, id, d) = lab()?;
        r.change_class(admin(), process()?, Level::BE)?;
        work(&mut r, gpu, &d);
        d.slice_error.set(Some(EIO));
        r.change_class(admin(), process()?, Change::CLEAR)?;
        work(&mut r, gpu, &d);
        let calls = d.calls.get();
        assert_eq!(owner_sets(&mut r, id, &d, 3_000), Some(Verdict::Watch));
        work(&mut r, gpu, &d);
        assert_eq!((d.slice(), d.calls.get()), (3_000, calls));
        d.slice_error.set(None);
        r.doubt_gpu(gpu);
        work(&mut r, gpu, &d);
        assert_eq!(d.slice(), DEFAULT_US);
        Ok(())
    }

    #[test]
    fn a_gpu_that_returns_is_not_kept_waiting() -> Result {
        let (mut r, gpu, _, d) = lab()?;
        r.change_class(admin(), process()?, Level::BE)?;
        d.slice_error.set(Some(EAGAIN));
        for delay in [1, 2, 4] {
            assert_eq!(work(&mut r, gpu, &d), Next::Wait(Ms(delay)));
        }
        assert_eq!(r.gpu(gpu).map(|g| g.retrying), Some(true));
        r.doubt_gpu(gpu);
        assert_eq!(r.gpu(gpu).map(|g| g.retrying), Some(false));
        assert_eq!(r.gpu(gpu).map(|g| g.pending), Some(1));
        assert_eq!(work(&mut r, gpu, &d), Next::Wait(Ms(1)));
        d.slice_error.set(None);
        assert_eq!(work(&mut r, gpu, &d), Next::Go);
        assert_eq!(d.slice(), 200);
        Ok(())
    }

    #[test]
    fn a_leaving_gpu_is_given_back_all_the_same() -> Result {
        let (mut r, gpu, id, d) = lab()?;
        let before = d.held.get();
        r.change_class(admin(), process()?, Level::BE)?;
        work(&mut r, gpu, &d);
        r.close_gpu(gpu);
        d.held.set(Hardware {
            timeslice: before.timeslice,
            interleave: Some(2),
        });
        r.doubt_tsg(id);
        r.doubt_gpu(gpu);
        assert!(r.queue.first(gpu).is_none());
        r.queue_restore(gpu);
        work(&mut r, gpu, &d);
        assert_eq!(d.held.get(), before);
        r.doubt_gpu(gpu::Id(1));
        Ok(())
    }
}
