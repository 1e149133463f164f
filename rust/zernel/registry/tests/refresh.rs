// SPDX-License-Identifier: GPL-2.0
//! Tests of a driver that forgets what a TSG or a whole GPU had.

use super::{
    control::{
        act,
        lab,
        owner_sets, //
    },
    fixture::{
        admin,
        process,
        slice,
        work,
        DEFAULT_US, //
    },
};
use crate::{
    policy::{
        control::Verdict,
        level::Level,
        permit::Change,
        units::{
            Ms,
            Us, //
        },
    },
    registry::{
        gpu,
        steps::Next,
        tsg::Hardware, //
    },
};
use kernel::prelude::*;

#[kernel::macros::kunit_tests(zernel_refresh)]
mod cases {
    use crate::registry::tests::refresh::*;

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
        assert!(r.queue.is_empty(gpu));
        r.queue_restore(gpu);
        work(&mut r, gpu, &d);
        assert_eq!(d.held.get(), before);
        r.doubt_gpu(gpu::Id(1));
        Ok(())
    }
}
