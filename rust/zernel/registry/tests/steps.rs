// SPDX-License-Identifier: GPL-2.0
//! Tests of the workers' calls to the driver: in order, once, and back again.

use super::fixture::{
    self,
    admin,
    process,
    slice,
    work,
    FakeDriver, //
    DEFAULT_US,
};
use crate::{
    policy::{
        level::Level,
        permit::Change,
        units::{
            Ms,
            Us, //
        },
    },
    registry::{
        class::Named,
        gpu::Load,
        steps::Next,
        Registry, //
    },
};
use kernel::prelude::*;

#[kernel::macros::kunit_tests(zernel_steps)]
mod cases {
    use crate::registry::tests::steps::*;

    #[test]
    fn a_new_tsg_is_only_asked() -> Result {
        let (mut r, gpu) = fixture::registry()?;
        let d = FakeDriver::new();
        let id = r.add_tsg(gpu, fixture::tsg(1)?)?;
        assert_eq!(slice(&r, id), None);
        assert_eq!(work(&mut r, gpu, &d), Next::Go);
        assert_eq!(d.calls.get(), 1);
        assert_eq!(slice(&r, id), Some(DEFAULT_US));
        assert_eq!(r.counters().applied, 0);
        Ok(())
    }

    #[test]
    fn a_class_reaches_the_driver_and_goes_back() -> Result {
        let (mut r, gpu) = fixture::registry()?;
        let d = FakeDriver::new();
        let before = d.held.get();
        let id = r.add_tsg(gpu, fixture::tsg(1)?)?;
        r.change_class(admin(), process()?, Level::BE)?;
        work(&mut r, gpu, &d);
        assert_eq!(d.slice(), 200);
        assert_eq!(d.held.get().interleave, Some(0));
        assert_eq!(slice(&r, id), Some(200));
        r.change_class(admin(), process()?, Level::LC)?;
        work(&mut r, gpu, &d);
        assert_eq!(d.slice(), 5_000_000);
        assert_eq!(d.held.get().interleave, Some(2));
        r.change_class(admin(), process()?, Change::CLEAR)?;
        work(&mut r, gpu, &d);
        assert_eq!(d.held.get(), before);
        assert_eq!(r.counters().applied, 3);
        Ok(())
    }

    #[test]
    fn the_owners_change_in_between_is_given_back() -> Result {
        let (mut r, gpu) = fixture::registry()?;
        let d = FakeDriver::new();
        r.add_tsg(gpu, fixture::tsg(1)?)?;
        work(&mut r, gpu, &d);
        let mut own = d.held.get();
        own.timeslice = Us(3000);
        d.held.set(own);
        r.change_class(admin(), process()?, Level::BE)?;
        work(&mut r, gpu, &d);
        assert_eq!(d.slice(), 200);
        r.change_class(admin(), process()?, Change::CLEAR)?;
        work(&mut r, gpu, &d);
        assert_eq!(d.held.get(), own);
        Ok(())
    }

    #[test]
    fn many_changes_are_one_call() -> Result {
        let (mut r, gpu) = fixture::registry()?;
        let d = FakeDriver::new();
        r.add_tsg(gpu, fixture::tsg(1)?)?;
        work(&mut r, gpu, &d);
        let calls = d.calls.get();
        for level in Level::ALL {
            r.change_class(admin(), process()?, level)?;
        }
        assert_eq!(r.counters().coalesced, 7);
        work(&mut r, gpu, &d);
        assert_eq!(d.slice(), 200);
        // One to read the settings to restore, one for the slice, one for the interleave.
        assert_eq!(d.calls.get() - calls, 3);
        Ok(())
    }

    #[test]
    fn a_change_that_was_taken_back_is_no_call() -> Result {
        let (mut r, gpu) = fixture::registry()?;
        let d = FakeDriver::new();
        r.add_tsg(gpu, fixture::tsg(1)?)?;
        r.change_class(admin(), process()?, Level::BE)?;
        work(&mut r, gpu, &d);
        let calls = d.calls.get();
        r.change_class(admin(), process()?, Level::LC)?;
        r.change_class(admin(), process()?, Level::BE)?;
        work(&mut r, gpu, &d);
        assert_eq!(d.calls.get(), calls);
        assert_eq!(r.counters().applied, 1);
        Ok(())
    }

    #[test]
    fn changes_are_applied_in_order() -> Result {
        let (mut r, gpu) = fixture::registry()?;
        let d = FakeDriver::new();
        let mut ids = KVec::new();
        for handle in 1..=4 {
            ids.push(r.add_tsg(gpu, fixture::tsg(handle)?)?, GFP_KERNEL)?;
        }
        work(&mut r, gpu, &d);
        for &i in &[2usize, 0, 3, 1] {
            let id = ids.get(i).copied().ok_or(EINVAL)?;
            // The fake driver has one memory for all, so each level has to differ.
            r.change_class(admin(), Named::Tsg(id), fixture::level(i as u32 + 1))?;
        }
        work(&mut r, gpu, &d);
        assert_eq!(d.order.get(), 3142);
        Ok(())
    }

    #[test]
    fn a_step_under_way_counts_until_it_is_complete() -> Result {
        let (mut r, gpu) = fixture::registry()?;
        let d = FakeDriver::new();
        r.add_tsg(gpu, fixture::tsg(1)?)?;
        let counts = |r: &Registry| r.gpu(gpu).map(|g| (g.pending, g.working));
        assert_eq!(counts(&r), Some((1, false)));
        let step = r.next_step(gpu).ok_or(ENOENT)?;
        assert_eq!(counts(&r), Some((0, true)));
        let outcome = step.perform(&d);
        r.complete(&step, &outcome);
        assert_eq!(counts(&r), Some((0, false)));
        Ok(())
    }

    #[test]
    fn not_now_keeps_the_order_and_backs_off() -> Result {
        let (mut r, gpu) = fixture::registry()?;
        let d = FakeDriver::new();
        let first = r.add_tsg(gpu, fixture::tsg(1)?)?;
        let second = r.add_tsg(gpu, fixture::tsg(2)?)?;
        work(&mut r, gpu, &d);
        r.change_class(admin(), Named::Tsg(first), Level::BE)?;
        r.change_class(admin(), Named::Tsg(second), Level::LC)?;
        d.slice_error.set(Some(EAGAIN));
        assert_eq!(work(&mut r, gpu, &d), Next::Wait(Ms(1)));
        assert_eq!(work(&mut r, gpu, &d), Next::Wait(Ms(2)));
        assert_eq!(work(&mut r, gpu, &d), Next::Wait(Ms(4)));
        assert_eq!(r.gpu(gpu).map(|g| (g.pending, g.retrying)), Some((2, true)));
        assert_eq!(r.counters().retries, 3);
        d.slice_error.set(None);
        assert_eq!(work(&mut r, gpu, &d), Next::Go);
        assert_eq!(d.order.get(), 12);
        assert_eq!(
            r.gpu(gpu).map(|g| (g.pending, g.retrying)),
            Some((0, false))
        );
        Ok(())
    }

    #[test]
    fn a_dead_tsg_is_dropped() -> Result {
        let (mut r, gpu) = fixture::registry()?;
        let d = FakeDriver::new();
        let id = r.add_tsg(gpu, fixture::tsg(1)?)?;
        work(&mut r, gpu, &d);
        d.slice_error.set(Some(ENOENT));
        r.change_class(admin(), Named::Tsg(id), Level::BE)?;
        work(&mut r, gpu, &d);
        assert_eq!(r.tsg_count, 0);
        assert_eq!(r.assignments.count(), 0);
        assert_eq!(r.counters().dead, 1);
        let calls = d.calls.get();
        work(&mut r, gpu, &d);
        assert_eq!(d.calls.get(), calls);
        Ok(())
    }

    #[test]
    fn a_failure_is_not_repeated_until_something_changes() -> Result {
        let (mut r, gpu) = fixture::registry()?;
        let d = FakeDriver::new();
        let id = r.add_tsg(gpu, fixture::tsg(1)?)?;
        work(&mut r, gpu, &d);
        d.slice_error.set(Some(EIO));
        r.change_class(admin(), process()?, Level::BE)?;
        work(&mut r, gpu, &d);
        let calls = d.calls.get();
        work(&mut r, gpu, &d);
        assert_eq!(d.calls.get(), calls);
        assert_eq!(r.counters().errors, 1);
        assert_eq!(r.tsgs.get(&id).map(|t| t.failed), Some(true));
        d.slice_error.set(None);
        r.change_class(admin(), process()?, Level::LC)?;
        work(&mut r, gpu, &d);
        assert_eq!(d.slice(), 5_000_000);
        assert_eq!(r.tsgs.get(&id).map(|t| t.failed), Some(false));
        Ok(())
    }

    #[test]
    fn a_failure_that_had_its_effect_is_given_back() -> Result {
        let (mut r, gpu) = fixture::registry()?;
        let d = FakeDriver::new();
        let before = d.held.get();
        let id = r.add_tsg(gpu, fixture::tsg(1)?)?;
        d.slice_error.set(Some(ETIMEDOUT));
        d.acts_anyway.set(true);
        r.change_class(admin(), process()?, Level::BE)?;
        work(&mut r, gpu, &d);
        assert_eq!(d.slice(), 200);
        assert_eq!(r.tsgs.get(&id).map(|t| t.failed), Some(true));
        d.slice_error.set(None);
        r.change_class(admin(), process()?, Change::CLEAR)?;
        work(&mut r, gpu, &d);
        assert_eq!(d.held.get(), before);
        Ok(())
    }

    #[test]
    fn asking_again_tries_again() -> Result {
        let (mut r, gpu) = fixture::registry()?;
        let d = FakeDriver::new();
        r.add_tsg(gpu, fixture::tsg(1)?)?;
        d.slice_error.set(Some(EIO));
        r.change_class(admin(), process()?, Level::BE)?;
        work(&mut r, gpu, &d);
        d.slice_error.set(None);
        r.change_class(admin(), process()?, Level::BE)?;
        work(&mut r, gpu, &d);
        assert_eq!(d.slice(), 200);
        Ok(())
    }

    #[test]
    fn a_half_done_step_is_given_back() -> Result {
        let (mut r, gpu) = fixture::registry()?;
        let d = FakeDriver::new();
        let before = d.held.get();
        let id = r.add_tsg(gpu, fixture::tsg(1)?)?;
        d.interleave_error.set(Some(EIO));
        r.change_class(admin(), process()?, Level::BE)?;
        work(&mut r, gpu, &d);
        assert_eq!(d.slice(), 200);
        assert_eq!(slice(&r, id), Some(200));
        d.interleave_error.set(None);
        r.change_class(admin(), process()?, Change::CLEAR)?;
        work(&mut r, gpu, &d);
        assert_eq!(d.held.get(), before);
        Ok(())
    }

    #[test]
    fn a_change_during_a_call_is_not_lost() -> Result {
        let (mut r, gpu) = fixture::registry()?;
        let d = FakeDriver::new();
        r.add_tsg(gpu, fixture::tsg(1)?)?;
        r.change_class(admin(), process()?, Level::BE)?;
        let step = r.next_step(gpu).ok_or(EINVAL)?;
        r.change_class(admin(), process()?, Level::LC)?;
        let outcome = step.perform(&d);
        assert_eq!(r.complete(&step, &outcome), Next::Go);
        work(&mut r, gpu, &d);
        assert_eq!(d.slice(), 5_000_000);
        r.change_class(admin(), process()?, Change::CLEAR)?;
        work(&mut r, gpu, &d);
        assert_eq!(d.slice(), DEFAULT_US);
        Ok(())
    }

    #[test]
    fn a_tsg_may_go_during_a_call() -> Result {
        let (mut r, gpu) = fixture::registry()?;
        let d = FakeDriver::new();
        let id = r.add_tsg(gpu, fixture::tsg(1)?)?;
        let step = r.next_step(gpu).ok_or(EINVAL)?;
        r.remove_tsg(id);
        d.slice_error.set(Some(EAGAIN));
        let outcome = step.perform(&d);
        assert_eq!(r.complete(&step, &outcome), Next::Go);
        assert!(r.queue.is_empty(gpu));
        Ok(())
    }

    #[test]
    fn switching_off_restores_and_on_applies_again() -> Result {
        let (mut r, gpu) = fixture::registry()?;
        let d = FakeDriver::new();
        r.add_tsg(gpu, fixture::tsg(1)?)?;
        r.change_class(admin(), process()?, Level::BE)?;
        work(&mut r, gpu, &d);
        for (on, slice) in [(false, DEFAULT_US), (true, 200)] {
            r.tune(|t| {
                t.set_enabled(on);
                Ok(())
            })
            .map_err(|_| EINVAL)?;
            work(&mut r, gpu, &d);
            assert_eq!(d.slice(), slice);
        }
        Ok(())
    }

    #[test]
    fn a_tuned_slice_reaches_live_tsgs() -> Result {
        let (mut r, gpu) = fixture::registry()?;
        let d = FakeDriver::new();
        r.add_tsg(gpu, fixture::tsg(1)?)?;
        r.change_class(admin(), process()?, Level::BE)?;
        work(&mut r, gpu, &d);
        r.tune(|t| t.set_timeslice(Level::BE, Us(300)))
            .map_err(|_| EINVAL)?;
        work(&mut r, gpu, &d);
        assert_eq!(d.slice(), 300);
        assert!(r.tune(|t| t.set_timeslice(Level::BE, Us(1))).is_err());
        work(&mut r, gpu, &d);
        assert_eq!(d.slice(), 300);
        Ok(())
    }

    #[test]
    fn a_leaving_provider_gets_everything_back() -> Result {
        let (mut r, gpu) = fixture::registry()?;
        let d = FakeDriver::new();
        let before = d.held.get();
        r.add_tsg(gpu, fixture::tsg(1)?)?;
        r.change_class(admin(), process()?, Level::BE)?;
        work(&mut r, gpu, &d);
        // One change is still under way when the provider leaves.
        r.change_class(admin(), process()?, Level::LC)?;
        r.close_gpu(gpu);
        r.queue_restore(gpu);
        work(&mut r, gpu, &d);
        assert_eq!(d.held.get(), before);
        // Nothing is queued for a closed GPU any more.
        r.change_class(admin(), process()?, Level::BE)?;
        assert!(r.queue.is_empty(gpu));
        Ok(())
    }

    #[test]
    fn load_is_the_share_between_two_answers() -> Result {
        let (mut r, gpu) = fixture::registry()?;
        r.set_load(gpu, Some((50, 100)));
        assert_eq!(
            r.gpu(gpu).and_then(|g| g.load.share).map(|s| s.0),
            Some(500)
        );
        r.set_load(gpu, Some((50, 200)));
        let mut load = Load::default();
        assert!(load.ask(Load::INTERVAL_NS));
        assert!(!load.ask(Load::INTERVAL_NS + 1));
        load.update(0, 0, 1);
        assert!(!load.ask(Load::INTERVAL_NS + 1));
        assert!(load.ask(2 * Load::INTERVAL_NS));
        assert_eq!(r.gpu(gpu).and_then(|g| g.load.share).map(|s| s.0), Some(0));
        Ok(())
    }
}
