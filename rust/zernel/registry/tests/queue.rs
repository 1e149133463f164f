// SPDX-License-Identifier: GPL-2.0
//! Tests of the order in which TSGs are served: users in turn, some after a rest.

use super::{
    fixture::{
        self,
        admin,
        process,
        work,
        FakeDriver, //
    },
    news::news,
};
use crate::{
    glue::{
        identity::Uid,
        time::now_ns, //
    },
    policy::{
        level::Level,
        units::Ns, //
    },
    registry::{
        class::Named,
        reader::Reader,
        steps::Next,
        Registry, //
    },
};
use kernel::prelude::*;

/// A rest of a TSG.
const REST_NS: u64 = 1_000_000;

#[kernel::macros::kunit_tests(zernel_queue)]
mod cases {
    use crate::registry::tests::queue::*;

    #[test]
    fn users_have_turns() -> Result {
        let (mut r, gpu) = fixture::registry()?;
        let d = FakeDriver::new();
        for handle in 1..=4 {
            r.add_tsg(gpu, fixture::tsg(handle)?)?;
        }
        for handle in 5..=6 {
            let other = Uid(fixture::OWNER.0 + 1);
            r.add_tsg(gpu, fixture::tsg_of(handle, other)?)?;
        }
        let mut order = 0;
        while let Some(step) = r.next_step(gpu) {
            order = order * 10 + step.handle;
            let outcome = step.perform(&d);
            r.complete(&step, &outcome);
        }
        assert_eq!(order, 152_634);
        Ok(())
    }

    #[test]
    fn not_now_goes_on_with_the_same_tsg() -> Result {
        let (mut r, gpu) = fixture::registry()?;
        let d = FakeDriver::new();
        let mut ids = KVec::new();
        for (handle, uid) in [(1, 0), (2, 1000), (3, u32::MAX)] {
            let id = r.add_tsg(gpu, fixture::tsg_of(handle, Uid(uid))?)?;
            ids.push(id, GFP_KERNEL)?;
        }
        work(&mut r, gpu, &d);
        for (level, &id) in (1..).zip(&ids) {
            r.change_class(admin(), Named::Tsg(id), fixture::level(level))?;
        }
        // The last one that was served is the superuser's.
        for expected in [2, 3, 1] {
            d.slice_error.set(Some(EAGAIN));
            for _ in 0..3 {
                let step = r.next_step(gpu).ok_or(EINVAL)?;
                assert_eq!(step.handle, expected);
                let outcome = step.perform(&d);
                assert!(matches!(r.complete(&step, &outcome), Next::Wait(_)));
            }
            d.slice_error.set(None);
            let step = r.next_step(gpu).ok_or(EINVAL)?;
            assert_eq!(step.handle, expected);
            let outcome = step.perform(&d);
            assert_eq!(r.complete(&step, &outcome), Next::Go);
        }
        Ok(())
    }

    #[test]
    fn one_that_fails_rests_although_it_was_changed_meanwhile() -> Result {
        let (mut r, gpu) = fixture::registry()?;
        let d = FakeDriver::new();
        let id = r.add_tsg(gpu, fixture::tsg(1)?)?;
        work(&mut r, gpu, &d);
        d.slice_error.set(Some(EIO));
        // The first failure has no rest.
        r.change_class(admin(), Named::Tsg(id), Level::BE)?;
        work(&mut r, gpu, &d);
        r.change_class(admin(), Named::Tsg(id), Level::BE)?;
        let step = r.next_step(gpu).ok_or(EINVAL)?;
        let outcome = step.perform(&d);
        r.change_class(admin(), Named::Tsg(id), Level::LC)?;
        let began = now_ns();
        r.complete(&step, &outcome);
        assert!(r.tsgs.get(&id).is_some_and(|tsg| tsg.rests_until > began));
        assert_eq!(r.gpu(gpu).map(|g| g.pending), Some(1));
        Ok(())
    }

    fn wait_until(due: Ns) {
        while now_ns() <= due.0 {
            core::hint::spin_loop();
        }
    }

    /// Has one TSG fail so many times, each time longer at rest than before, and another one served
    /// meanwhile. Returns false if the last rest was over before that, as the host is slow.
    fn rests_alone(times: u64) -> Result<bool> {
        let (mut r, gpu) = fixture::registry()?;
        let d = FakeDriver::new();
        let busy = r.add_tsg(gpu, fixture::tsg(1)?)?;
        let other = r.add_tsg(gpu, fixture::tsg(2)?)?;
        work(&mut r, gpu, &d);
        r.change_class(admin(), Named::Tsg(busy), fixture::level(1))?;
        d.slice_error.set(Some(EBUSY));
        for _ in 1..times {
            let step = r.next_step(gpu).ok_or(EINVAL)?;
            let outcome = step.perform(&d);
            assert_eq!(r.complete(&step, &outcome), Next::Go);
            if let Some(due) = r.next_due(gpu) {
                wait_until(due);
            }
        }
        let step = r.next_step(gpu).ok_or(EINVAL)?;
        let outcome = step.perform(&d);
        assert_eq!((step.tsg, outcome.result), (busy, Err(EBUSY)));
        // It was changed meanwhile, and is queued once all the same.
        r.change_class(admin(), Named::Tsg(busy), fixture::level(3))?;
        assert_eq!(r.complete(&step, &outcome), Next::Go);
        r.change_class(admin(), Named::Tsg(other), fixture::level(2))?;
        d.slice_error.set(None);
        let Some(due) = r.next_due(gpu) else {
            return Ok(false);
        };
        assert_eq!(work(&mut r, gpu, &d), Next::Go);
        if now_ns() > due.0 {
            return Ok(false);
        }
        assert_eq!(d.order.get(), 2);
        let state = |r: &Registry| {
            let tsg = r.tsgs.get(&busy).map(|tsg| (tsg.failed, tsg.errors));
            (tsg, r.gpu(gpu).map(|g| (g.pending, g.retrying, g.retries)))
        };
        assert_eq!(state(&r), (Some((false, 0)), Some((1, false, times))));
        wait_until(due);
        assert_eq!(work(&mut r, gpu, &d), Next::Go);
        assert_eq!(d.order.get(), 21);
        assert_eq!(state(&r), (Some((false, 0)), Some((0, false, times))));
        Ok(true)
    }

    #[test]
    fn one_that_is_busy_rests_alone() -> Result {
        for times in 4..12 {
            if rests_alone(times)? {
                return Ok(());
            }
        }
        Err(EBUSY)
    }

    #[test]
    fn one_that_is_busy_in_a_turn_is_told_of_again() -> Result {
        let (mut r, gpu) = fixture::registry_with_turns()?;
        let d = FakeDriver::new();
        let id = fixture::add_at(&mut r, gpu, 1, Level::BE)?;
        work(&mut r, gpu, &d);
        let mut reader = Reader::default();
        assert_eq!(news(&mut r, gpu, &mut reader)?.0.len(), 1);
        assert!(r.will_disable(id, true));
        assert_eq!(r.was_disabled(id, true, Err(EBUSY)), None);
        news(&mut r, gpu, &mut reader)?;
        if let Some(due) = r.next_due(gpu) {
            wait_until(due);
        }
        assert_eq!(work(&mut r, gpu, &d), Next::Go);
        assert_eq!(news(&mut r, gpu, &mut reader)?.0.len(), 1);
        Ok(())
    }

    #[test]
    fn nothing_waits_for_a_busy_one_of_a_provider_that_leaves() -> Result {
        let (mut r, gpu) = fixture::registry()?;
        let d = FakeDriver::new();
        r.add_tsg(gpu, fixture::tsg(1)?)?;
        r.change_class(admin(), process()?, Level::BE)?;
        work(&mut r, gpu, &d);
        d.slice_error.set(Some(EBUSY));
        r.close_gpu(gpu);
        r.queue_restore(gpu);
        for _ in 0..3 {
            assert!(matches!(work(&mut r, gpu, &d), Next::Wait(_)));
        }
        Ok(())
    }

    #[test]
    fn those_that_rest_get_everything_back_when_their_provider_leaves() -> Result {
        let (mut r, gpu) = fixture::registry()?;
        let d = FakeDriver::new();
        let before = d.held.get();
        let mut ids = KVec::new();
        for handle in 1..=20 {
            ids.push(r.add_tsg(gpu, fixture::tsg(handle)?)?, GFP_KERNEL)?;
        }
        work(&mut r, gpu, &d);
        r.change_class(admin(), process()?, Level::BE)?;
        work(&mut r, gpu, &d);
        assert!(d.held.get() != before);
        for id in &ids {
            r.tsgs.get_mut(id).ok_or(EINVAL)?.rests_until = u64::MAX - 1;
        }
        r.close_gpu(gpu);
        r.queue_restore(gpu);
        assert!(r.next_due(gpu).is_some());
        work(&mut r, gpu, &d);
        assert!(r.queue.is_empty(gpu));
        assert_eq!(d.held.get(), before);
        Ok(())
    }

    #[test]
    fn one_that_rests_keeps_nobody_waiting_and_comes_back_beside_others() -> Result {
        let (mut r, gpu) = fixture::registry()?;
        let d = FakeDriver::new();
        let rests = r.add_tsg(gpu, fixture::tsg(1)?)?;
        let mut others = KVec::new();
        for handle in 2..=8 {
            others.push(r.add_tsg(gpu, fixture::tsg(handle)?)?, GFP_KERNEL)?;
        }
        work(&mut r, gpu, &d);
        let until = u64::MAX - 1;
        r.tsgs.get_mut(&rests).ok_or(EINVAL)?.rests_until = until;
        r.change_class(admin(), Named::Tsg(rests), Level::BE)?;
        assert!(r.next_step(gpu).is_none());
        assert_eq!(r.next_due(gpu).map(|due| due.0), Some(until));
        for &id in &others {
            r.change_class(admin(), Named::Tsg(id), Level::BE)?;
        }
        let until = now_ns() + REST_NS;
        let inner = &mut *r;
        let tsg = inner.tsgs.get_mut(&rests).ok_or(EINVAL)?;
        tsg.rests_until = until;
        inner.queue.push_anew(rests, tsg);
        wait_until(Ns(until));
        // It lines up before the step that follows, and others do not pass it for ever.
        for taken in 0.. {
            assert!(taken <= others.len());
            let step = r.next_step(gpu).ok_or(EINVAL)?;
            let outcome = step.perform(&d);
            r.complete(&step, &outcome);
            if step.tsg == rests {
                break;
            }
            r.change_class(admin(), Named::Tsg(step.tsg), Level::LC)?;
        }
        assert!(r.next_due(gpu).is_none());
        Ok(())
    }
}
