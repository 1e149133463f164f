// SPDX-License-Identifier: GPL-2.0
//! Tests of TSGs whose description changes, and of shared ones.

use super::{
    control::{
        controls,
        lab,
        owner_sets, //
    },
    fixture::{
        self,
        admin,
        in_force,
        process,
        work,
        FakeDriver,
        DEFAULT_US, //
    },
};
use crate::{
    error::Failure,
    glue::identity::Viewer,
    policy::{
        control::Verdict,
        level::Level,
        permit::Change,
        tunables::settings::Why, //
    },
    registry::{
        class::Named,
        tsg::{
            self,
            Traits, //
        },
        Registry, //
    },
};
use kernel::prelude::*;

fn traits(r: &Registry, id: tsg::Id) -> Result<Traits> {
    r.tsgs.get(&id).map(|tsg| tsg.traits).ok_or(ENOENT)
}

#[kernel::macros::kunit_tests(zernel_descriptions)]
mod cases {
    use crate::registry::tests::descriptions::*;

    #[test]
    fn a_tsg_that_becomes_compute_gets_its_class_and_gives_it_back() -> Result {
        let (mut r, gpu) = fixture::registry()?;
        fixture::leave_copies(&mut r)?;
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
        assert!(r.queue.is_empty(gpu));
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
        assert!(r.queue.is_empty(gpu));
        assert_eq!(r.tsgs.get(&id).map(|tsg| tsg.failed), Some(true));
        work(&mut r, gpu, &d);
        assert_eq!((d.calls.get(), r.counters().errors), (calls, 1));
        Ok(())
    }
}
