// SPDX-License-Identifier: GPL-2.0
//! The class of a TSG, its source, and its end.

use super::fixture::{
    self,
    admin,
    asker,
    in_force,
    level,
    owner,
    process,
    thread, //
};
use crate::{
    error::Failure,
    glue::{
        cgroup::Cgroup,
        identity::{
            Pid,
            Uid,
            Viewer, //
        },
    },
    policy::{
        level::Level,
        permit::Change,
        units::Us, //
    },
    registry::{
        assignments::Target,
        class::Named, //
    },
};
use kernel::prelude::*;

/// The cgroup of the TSGs of a test.
fn cgroup() -> Result<Named> {
    let cgroup = Cgroup::of(&Pid::find(1)?).ok_or(ESRCH)?;
    Ok(Named::Cgroup {
        cgroup: None,
        chain: cgroup.ancestry()?,
    })
}

#[kernel::macros::kunit_tests(zernel_precedence)]
mod cases {
    use crate::registry::tests::precedence::*;

    #[test]
    fn the_most_specific_wins_and_clearing_uncovers() -> Result {
        let (mut r, gpu) = fixture::registry()?;
        let id = r.add_tsg(gpu, fixture::tsg(1)?)?;
        r.change_class(admin(), cgroup()?, level(1))?;
        assert_eq!(in_force(&r, id), Some(level(1)));
        r.change_class(admin(), process()?, level(2))?;
        assert_eq!(in_force(&r, id), Some(level(2)));
        r.change_class(admin(), thread()?, level(3))?;
        assert_eq!(in_force(&r, id), Some(level(3)));
        r.change_class(admin(), Named::Tsg(id), level(4))?;
        assert_eq!(in_force(&r, id), Some(level(4)));
        r.change_class(admin(), Named::Tsg(id), Change::CLEAR)?;
        assert_eq!(in_force(&r, id), Some(level(3)));
        r.change_class(admin(), thread()?, Change::CLEAR)?;
        assert_eq!(in_force(&r, id), Some(level(2)));
        r.change_class(admin(), process()?, Change::CLEAR)?;
        assert_eq!(in_force(&r, id), Some(level(1)));
        r.change_class(admin(), cgroup()?, Change::CLEAR)?;
        assert_eq!(in_force(&r, id), None);
        assert_eq!(r.assignments.count(), 0);
        Ok(())
    }

    #[test]
    fn later_tsgs_get_the_class_too() -> Result {
        let (mut r, gpu) = fixture::registry()?;
        r.change_class(admin(), process()?, Level::LC)?;
        let id = r.add_tsg(gpu, fixture::tsg(1)?)?;
        assert_eq!(in_force(&r, id), Some(Level::LC));
        r.change_class(admin(), process()?, Change::CLEAR)?;
        r.change_class(admin(), cgroup()?, Level::BE)?;
        let later = r.add_tsg(gpu, fixture::tsg(2)?)?;
        assert_eq!(in_force(&r, later), Some(Level::BE));
        Ok(())
    }

    #[test]
    fn copy_tsgs_are_classed_by_name_alone() -> Result {
        let (mut r, gpu) = fixture::registry()?;
        let mut description = fixture::tsg(1)?;
        description.traits.compute = false;
        let id = r.add_tsg(gpu, description)?;
        r.change_class(admin(), process()?, Level::LC)?;
        r.tune(|t| {
            t.set_default_class(Some(Level::BE));
            Ok(())
        })
        .map_err(|_| EINVAL)?;
        assert_eq!(in_force(&r, id), None);
        r.change_class(admin(), Named::Tsg(id), level(3))?;
        assert_eq!(in_force(&r, id), Some(level(3)));
        Ok(())
    }

    #[test]
    fn copy_tsgs_follow_their_process_where_that_is_tuned() -> Result {
        let (mut r, gpu) = fixture::registry()?;
        let mut description = fixture::tsg(1)?;
        description.traits.compute = false;
        description.traits.copies = true;
        let id = r.add_tsg(gpu, description)?;
        let mut decoder = fixture::tsg(2)?;
        decoder.traits.compute = false;
        let decoder = r.add_tsg(gpu, decoder)?;
        r.change_class(admin(), process()?, Level::LC)?;
        for (copies, told) in [(5, Some(Level::LC)), (0, None), (10, Some(Level::LC))] {
            r.tune(|t| t.slices_mut().set_copies(Us(copies)))
                .map_err(|_| EINVAL)?;
            r.settle();
            assert_eq!(in_force(&r, id), told);
            assert_eq!(in_force(&r, decoder), None);
        }
        r.change_class(admin(), Named::Tsg(id), level(3))?;
        assert_eq!(in_force(&r, id), Some(level(3)));
        Ok(())
    }

    #[test]
    fn the_default_class_is_beneath() -> Result {
        let (mut r, gpu) = fixture::registry()?;
        let id = r.add_tsg(gpu, fixture::tsg(1)?)?;
        r.tune(|t| {
            t.set_default_class(Some(Level::BE));
            Ok(())
        })
        .map_err(|_| EINVAL)?;
        assert_eq!(in_force(&r, id), Some(Level::BE));
        r.change_class(admin(), process()?, level(2))?;
        assert_eq!(in_force(&r, id), Some(level(2)));
        Ok(())
    }

    #[test]
    fn an_owner_lowers_but_does_not_raise() -> Result {
        let (mut r, gpu) = fixture::registry()?;
        let id = r.add_tsg(gpu, fixture::tsg(1)?)?;
        assert!(r.change_class(owner(), Named::Tsg(id), Level::BE).is_ok());
        let raise = r.change_class(owner(), Named::Tsg(id), level(6));
        assert_eq!(raise.err(), Some(Failure::NotPermitted));
        let clear = r.change_class(owner(), Named::Tsg(id), Change::CLEAR);
        assert_eq!(clear.err(), Some(Failure::NotPermitted));
        assert_eq!(in_force(&r, id), Some(Level::BE));
        Ok(())
    }

    #[test]
    fn an_owner_does_not_clear_what_an_admin_gave() -> Result {
        let (mut r, gpu) = fixture::registry()?;
        let id = r.add_tsg(gpu, fixture::tsg(1)?)?;
        r.change_class(admin(), Named::Tsg(id), Level::BE)?;
        // With this beneath, clearing would not raise at once, but when the thread ends.
        r.change_class(owner(), thread()?, Level::BE)?;
        let clear = r.change_class(owner(), Named::Tsg(id), Change::CLEAR);
        assert_eq!(clear.err(), Some(Failure::NotPermitted));
        // Nor does the owner make it its own by saying the same.
        r.change_class(owner(), Named::Tsg(id), Level::BE)?;
        let clear = r.change_class(owner(), Named::Tsg(id), Change::CLEAR);
        assert_eq!(clear.err(), Some(Failure::NotPermitted));
        Ok(())
    }

    #[test]
    fn an_owner_cannot_escape_its_cgroup() -> Result {
        let (mut r, gpu) = fixture::registry()?;
        let id = r.add_tsg(gpu, fixture::tsg(1)?)?;
        r.change_class(owner(), process()?, level(6))?;
        r.change_class(admin(), cgroup()?, Level::BE)?;
        assert_eq!(in_force(&r, id), Some(Level::BE));
        Ok(())
    }

    #[test]
    fn strangers_do_not_see_tsgs() -> Result {
        let (mut r, gpu) = fixture::registry()?;
        let id = r.add_tsg(gpu, fixture::tsg(1)?)?;
        let stranger = asker(Uid(1001), false, false);
        let set = r.change_class(stranger, Named::Tsg(id), Level::BE);
        assert_eq!(set.err(), Some(Failure::NoTsg));
        let get = r.get_class(stranger, &Named::Tsg(id), &Viewer::current());
        assert_eq!(get.err(), Some(Failure::NoTsg));
        let process = r.get_class(stranger, &process()?, &Viewer::current());
        assert_eq!(process.err(), Some(Failure::NotPermitted));
        Ok(())
    }

    #[test]
    fn members_are_admitted_until_the_budget_is_spent() -> Result {
        let (mut r, gpu) = fixture::registry()?;
        r.tune(|t| t.set_lc_admission(1)).map_err(|_| EINVAL)?;
        let first = r.add_tsg(gpu, fixture::tsg(1)?)?;
        let second = r.add_tsg(gpu, fixture::tsg(2)?)?;
        let member = asker(Uid(1001), false, true);
        r.change_class(member, Named::Tsg(first), Level::LC)?;
        let over = r.change_class(member, Named::Tsg(second), Level::LC);
        assert_eq!(over.err(), Some(Failure::OverQuota));
        // A changed assignment is no second one.
        r.change_class(member, Named::Tsg(first), level(1))?;
        // The end of a target gives its share back.
        r.remove_tsg(first);
        assert_eq!(r.counters().classes_expired, 1);
        r.change_class(member, Named::Tsg(second), Level::LC)?;
        assert_eq!(in_force(&r, second), Some(Level::LC));
        Ok(())
    }

    #[test]
    fn a_user_holds_at_most_its_quota() -> Result {
        let (mut r, gpu) = fixture::registry()?;
        // As many TSGs as a user can have on four GPUs.
        let mut next = gpu;
        for number in 0..4 {
            for handle in 0..1024 {
                let id = r.add_tsg(next, fixture::tsg(handle)?)?;
                r.change_class(owner(), Named::Tsg(id), Level::BE)?;
            }
            next = r.reserve_gpu_id();
            r.add_gpu(next, fixture::gpu(8 + number)?)?;
        }
        let id = r.add_tsg(next, fixture::tsg(1)?)?;
        let over = r.change_class(owner(), Named::Tsg(id), Level::BE);
        assert_eq!(over.err(), Some(Failure::OverQuota));
        r.change_class(admin(), Named::Tsg(id), Level::BE)?;
        r.remove_any_tsg(gpu);
        r.change_class(admin(), Named::Tsg(id), Change::CLEAR)?;
        r.change_class(owner(), Named::Tsg(id), Level::BE)?;
        Ok(())
    }

    #[test]
    fn what_is_not_assigned_cannot_be_cleared() -> Result {
        let (mut r, gpu) = fixture::registry()?;
        let id = r.add_tsg(gpu, fixture::tsg(1)?)?;
        let clear = r.change_class(admin(), Named::Tsg(id), Change::CLEAR);
        assert_eq!(clear.err(), Some(Failure::NotAssigned));
        r.remove_tsg(id);
        let clear = r.change_class(admin(), Named::Tsg(id), Change::CLEAR);
        assert_eq!(clear.err(), Some(Failure::NoTsg));
        Ok(())
    }

    #[test]
    fn the_end_of_a_target_ends_its_class() -> Result {
        let (mut r, gpu) = fixture::registry()?;
        let id = r.add_tsg(gpu, fixture::tsg(1)?)?;
        let pid = Pid::find(1)?;
        r.change_class(admin(), process()?, Level::BE)?;
        r.expire(Target::Process(pid.key()), 1);
        assert_eq!(in_force(&r, id), None);
        assert_eq!(r.counters().classes_expired, 1);
        // Twice is once.
        r.expire(Target::Process(pid.key()), 1);
        assert_eq!(r.counters().classes_expired, 1);
        Ok(())
    }
}
