// SPDX-License-Identifier: GPL-2.0
//! Tests of slices in place of those of levels, and of TSGs that keep the engine.

use super::{
    fixture::{
        self,
        add,
        add_at,
        admin,
        slice,
        turn_off,
        work, //
    },
    news::news,
    turns::{
        follow,
        less_urgent,
        one,
        throttle, //
    },
};
use crate::{
    policy::{
        level::{
            self,
            Level, //
        },
        slices::Instead,
        units::Us, //
    },
    registry::{
        class::Named,
        reader::Reader, //
    },
};
use kernel::prelude::*;

#[kernel::macros::kunit_tests(zernel_slices)]
mod cases {
    use crate::registry::tests::slices::*;

    #[test]
    fn a_level_has_another_slice_instead_on_a_gpu() -> Result {
        let three = fixture::level(3);
        let (mut r, gpu, id, d) = one(three)?;
        assert_eq!(slice(&r, id), Some(10_000));
        let mut instead = Instead::NONE;
        instead.put(three, Some(Us(700)));
        instead.put(Level::LC, Some(Us(900)));
        for (slices, expected) in [(instead, 700), (instead, 700), (Instead::NONE, 10_000)] {
            let changed = r.set_instead(gpu, slices);
            follow(&mut r, changed);
            work(&mut r, gpu, &d);
            assert_eq!(slice(&r, id), Some(expected));
        }
        // One that comes later has it from the start.
        let changed = r.set_instead(gpu, instead);
        follow(&mut r, changed);
        let later = add_at(&mut r, gpu, 9, Level::LC)?;
        work(&mut r, gpu, &d);
        assert_eq!(slice(&r, later), Some(900));
        Ok(())
    }

    #[test]
    fn a_level_without_budget_is_lowered_with_its_interleave() -> Result {
        // Where the call for the level is put off, or fails, the slice is that of best-effort all the same.
        for error in [None, Some(EBUSY), Some(EIO)] {
            let (mut r, gpu, id, d) = one(Level::LC)?;
            assert!(r.has_its_slice(id));
            let mut spent = level::Set::NONE;
            spent.put(Level::LC, true);
            throttle(&mut r, gpu, spent);
            assert!(!r.has_its_slice(id));
            d.interleave_error.set(error);
            work(&mut r, gpu, &d);
            assert!(slice(&r, id).is_some_and(|slice| slice < 1_000));
            assert_eq!(r.has_its_slice(id), error.is_none());
        }
        Ok(())
    }

    #[test]
    fn the_gate_leaves_levels_that_keep_the_engine() -> Result {
        let (mut r, gpu) = fixture::registry_with_turns()?;
        let three = fixture::level(3);
        let kept = add_at(&mut r, gpu, 1, three)?;
        add_at(&mut r, gpu, 2, fixture::level(4))?;
        add_at(&mut r, gpu, 3, Level::BE)?;
        r.tune(|t| t.slices_mut().set_preemptible(three, false))
            .map_err(|_| EINVAL)?;
        assert_eq!(less_urgent(&r, gpu, Level::LC), 2);
        assert!(!r.is_less_urgent(kept, Level::LC));
        assert_eq!(r.exclusion_of(kept, Level::LC), None);
        // Without a budget it is like any other.
        let mut reader = Reader::default();
        news(&mut r, gpu, &mut reader)?;
        let mut spent = level::Set::NONE;
        spent.put(three, true);
        throttle(&mut r, gpu, spent);
        assert_eq!(less_urgent(&r, gpu, Level::LC), 3);
        // An exclusion that is under way hears of it.
        let (all, _) = news(&mut r, gpu, &mut reader)?;
        assert!(all.iter().any(|change| change.id == kept));
        assert!(r.exclusion_of(kept, Level::LC).is_some());
        throttle(&mut r, gpu, level::Set::NONE);
        assert_eq!(less_urgent(&r, gpu, Level::LC), 2);
        r.tune(|t| t.slices_mut().set_preemptible(three, true))
            .map_err(|_| EINVAL)?;
        assert_eq!(less_urgent(&r, gpu, Level::LC), 3);
        Ok(())
    }

    #[test]
    fn nothing_is_kept_where_no_budget_bounds_it() -> Result {
        for is_blind in [true, false] {
            let (mut r, gpu) = fixture::registry_with_turns()?;
            let three = fixture::level(3);
            r.tune(|t| t.slices_mut().set_preemptible(three, false))
                .map_err(|_| EINVAL)?;
            let id = add_at(&mut r, gpu, 1, three)?;
            assert_eq!(less_urgent(&r, gpu, Level::LC), 0);
            if is_blind {
                r.set_blind(gpu, true);
            } else {
                r.tune(|t| {
                    t.set_enabled(false);
                    Ok(())
                })
                .map_err(|_| EINVAL)?;
            }
            assert_eq!(r.kept_on(gpu), level::Set::NONE);
            assert_eq!(less_urgent(&r, gpu, Level::LC), 1);
            assert!(r.is_less_urgent(id, Level::LC));
        }
        Ok(())
    }

    #[test]
    fn one_that_no_manager_put_there_keeps_nothing() -> Result {
        let (mut r, gpu) = fixture::registry_with_turns()?;
        let three = fixture::level(3);
        r.tune(|t| t.slices_mut().set_preemptible(three, false))
            .map_err(|_| EINVAL)?;
        let id = add_at(&mut r, gpu, 1, fixture::level(1))?;
        // Its owner lowers it.
        r.change_class(fixture::owner(), Named::Tsg(id), three)?;
        assert_eq!(fixture::in_force(&r, id), Some(three));
        assert_eq!(less_urgent(&r, gpu, Level::LC), 1);
        assert!(r.is_less_urgent(id, Level::LC));
        let mut reader = Reader::default();
        news(&mut r, gpu, &mut reader)?;
        r.change_class(admin(), Named::Tsg(id), three)?;
        assert_eq!(less_urgent(&r, gpu, Level::LC), 0);
        let (all, _) = news(&mut r, gpu, &mut reader)?;
        assert!(all.iter().all(|change| change.may_keep) && all.len() == 1);
        // A default is anybody's.
        r.tune(|t| {
            t.set_default_class(Some(three));
            Ok(())
        })
        .map_err(|_| EINVAL)?;
        add(&mut r, gpu, 2, 0)?;
        assert_eq!(less_urgent(&r, gpu, Level::LC), 1);
        Ok(())
    }

    #[test]
    fn a_throttled_level_follows_best_effort() -> Result {
        let three = fixture::level(3);
        let (mut r, gpu, id, d) = one(three)?;
        turn_off(&mut r)?;
        let mut spent = level::Set::NONE;
        spent.put(three, true);
        throttle(&mut r, gpu, spent);
        let mut instead = Instead::NONE;
        instead.put(Level::BE, Some(Us(120)));
        let changed = r.set_instead(gpu, instead);
        follow(&mut r, changed);
        work(&mut r, gpu, &d);
        assert_eq!(slice(&r, id), Some(120));
        Ok(())
    }
}
