// SPDX-License-Identifier: GPL-2.0
//! Tests of owners that change their TSG through the driver.

use super::fixture::{
    self,
    admin,
    process,
    work,
    FakeDriver,
    DEFAULT_US, //
};
use crate::{
    policy::{
        control::{
            Policy,
            Verdict, //
        },
        level::Level,
        permit::Change,
        units::Us, //
    },
    registry::{
        gpu,
        tsg::{
            self,
            Hardware, //
        },
        Registry, //
    },
};
use kernel::prelude::*;

/// `ZERNEL_USER_TIMESLICE`: for traces alone.
const WHAT: u32 = 1;

/// A registry, its GPU, a TSG that is unclassed and known, and the driver.
pub(super) fn lab() -> Result<(KBox<Registry>, gpu::Id, tsg::Id, FakeDriver)> {
    let (mut r, gpu) = fixture::registry()?;
    let d = FakeDriver::new();
    let id = r.add_tsg(gpu, fixture::tsg(1)?)?;
    work(&mut r, gpu, &d);
    Ok((r, gpu, id, d))
}

pub(super) fn tune(r: &mut Registry, policy: Policy) -> Result {
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
pub(super) fn owner_sets(
    r: &mut Registry,
    id: tsg::Id,
    d: &FakeDriver,
    us: u32,
) -> Option<Verdict> {
    let verdict = r.judge_control(id, WHAT)?;
    if verdict != Verdict::Deny {
        act(d, us);
    }
    if matches!(verdict, Verdict::Watch | Verdict::Reapply) {
        r.doubt_tsg(id);
    }
    Some(verdict)
}

pub(super) fn act(d: &FakeDriver, us: u32) {
    d.held.set(Hardware {
        timeslice: Us(us),
        ..d.held.get()
    });
}

pub(super) fn controls(r: &Registry) -> (u64, u64) {
    let counters = r.counters();
    (counters.controls_denied, counters.controls_reapplied)
}

#[kernel::macros::kunit_tests(zernel_control)]
mod cases {
    use crate::registry::tests::control::*;

    #[test]
    fn what_the_driver_has_done_is_put_right() -> Result {
        let (mut r, gpu, _, _) = lab()?;
        r.gpus.get_mut(&gpu).ok_or(ENODEV)?.tells.control = false;
        r.change_class(admin(), process()?, Level::BE)?;
        tune(&mut r, Policy::Deny)?;
        assert_eq!(r.judge_owner(gpu, 1, WHAT), Verdict::Reapply);
        assert_eq!(controls(&r), (0, 1));
        // Nobody can put an unknown one right.
        r.gpus.get_mut(&gpu).ok_or(ENODEV)?.turned_away = true;
        assert_eq!(r.judge_owner(gpu, 77, WHAT), Verdict::Allow);
        assert_eq!(controls(&r), (0, 1));
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
}
