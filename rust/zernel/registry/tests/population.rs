// SPDX-License-Identifier: GPL-2.0
//! GPUs and TSGs come and go, and leave nothing behind.

use super::fixture;
use crate::{
    glue::identity::Uid,
    registry::{
        gpu,
        tsg,
        Registry, //
    },
};
use kernel::prelude::*;

const ROOT: Uid = Uid(0);

fn turned_away(registry: &Registry, gpu: gpu::Id) -> Option<bool> {
    registry.gpu(gpu).map(|gpu| gpu.turned_away)
}

fn is_empty(registry: &Registry) -> bool {
    registry.tsgs.is_empty()
        && registry.handles.is_empty()
        && registry.users.is_empty()
        && registry.shares.is_empty()
        && registry.members.is_empty()
        && registry.groups.is_empty()
        && registry.news.is_empty()
        && registry.schedule.is_empty()
        && registry.tsg_count == 0
}

#[kernel::macros::kunit_tests(zernel_population)]
mod cases {
    use crate::registry::tests::population::*;

    #[test]
    fn a_tsg_leaves_nothing_behind() -> Result {
        let (mut r, gpu) = fixture::registry()?;
        let id = r.add_tsg(gpu, fixture::tsg(1)?)?;
        assert!(!is_empty(&r));
        assert!(r.remove_tsg(id));
        assert!(is_empty(&r));
        assert!(r.queue.is_empty(gpu));
        assert!(!r.remove_tsg(id));
        assert_eq!(r.gpu(gpu).map(|g| (g.tsgs, g.pending)), Some((0, 0)));
        Ok(())
    }

    #[test]
    fn ids_grow_and_never_come_again() -> Result {
        let (mut r, gpu) = fixture::registry()?;
        let mut last = tsg::Id(gpu.0);
        for _ in 0..100 {
            let id = r.add_tsg(gpu, fixture::tsg(1)?)?;
            assert!(id > last);
            last = id;
            r.remove_tsg(id);
        }
        Ok(())
    }

    #[test]
    fn handles_are_unique_per_gpu() -> Result {
        let (mut r, gpu) = fixture::registry()?;
        let second = r.reserve_gpu_id();
        r.add_gpu(second, fixture::gpu(8)?)?;
        r.add_tsg(gpu, fixture::tsg(1)?)?;
        assert_eq!(r.add_tsg(gpu, fixture::tsg(1)?).err(), Some(EEXIST));
        r.add_tsg(second, fixture::tsg(1)?)?;
        assert_eq!(r.tsg_count, 2);
        Ok(())
    }

    #[test]
    fn an_error_changes_nothing() -> Result {
        let (mut r, gpu) = fixture::registry()?;
        let last = r.last_id;
        assert_eq!(r.add_tsg(gpu::Id(1), fixture::tsg(1)?).err(), Some(ENODEV));
        assert_eq!(r.last_id, last);
        assert!(is_empty(&r));
        assert_eq!(r.add_gpu(gpu::Id(2), fixture::gpu(7)?).err(), Some(EEXIST));
        assert_eq!(r.gpu_count, 1);
        r.close_gpu(gpu);
        assert_eq!(r.add_tsg(gpu, fixture::tsg(1)?).err(), Some(ENODEV));
        Ok(())
    }

    #[test]
    fn there_are_at_most_64_gpus() -> Result {
        let (mut r, _) = fixture::registry()?;
        for handle in 100..163 {
            let id = r.reserve_gpu_id();
            r.add_gpu(id, fixture::gpu(handle)?)?;
        }
        let id = r.reserve_gpu_id();
        assert_eq!(r.add_gpu(id, fixture::gpu(163)?).err(), Some(ENOSPC));
        assert_eq!(r.gpu_count, gpu::MAX);
        Ok(())
    }

    #[test]
    fn there_are_at_most_4096_tsgs_per_gpu() -> Result {
        let (mut r, gpu) = fixture::registry()?;
        for handle in 0..4096 {
            r.add_tsg(gpu, fixture::tsg_of(handle, ROOT)?)?;
        }
        assert_eq!(turned_away(&r, gpu), Some(false));
        for uid in [ROOT, fixture::OWNER] {
            let more = r.add_tsg(gpu, fixture::tsg_of(5000, uid)?);
            assert_eq!(more.err(), Some(ENOSPC));
        }
        assert_eq!(turned_away(&r, gpu), Some(true));
        while r.remove_any_tsg(gpu) {}
        assert!(is_empty(&r));
        assert_eq!(r.counters().tsgs_removed, 4096);
        Ok(())
    }

    #[test]
    fn a_user_has_at_most_a_quarter_of_a_gpu() -> Result {
        let (mut r, gpu) = fixture::registry()?;
        let second = r.reserve_gpu_id();
        r.add_gpu(second, fixture::gpu(8)?)?;
        let mut last = None;
        for handle in 0..1024 {
            last = Some(r.add_tsg(gpu, fixture::tsg(handle)?)?);
        }
        assert_eq!(r.add_tsg(gpu, fixture::tsg(1)?).err(), Some(EEXIST));
        assert_eq!(turned_away(&r, gpu), Some(false));
        assert_eq!(r.add_tsg(gpu, fixture::tsg(5000)?).err(), Some(ENOSPC));
        assert_eq!(turned_away(&r, gpu), Some(true));
        // It takes nothing from others, nor from itself elsewhere.
        r.add_tsg(gpu, fixture::tsg_of(6000, Uid(fixture::OWNER.0 + 1))?)?;
        for handle in 7000..8025 {
            r.add_tsg(gpu, fixture::tsg_of(handle, ROOT)?)?;
        }
        r.add_tsg(second, fixture::tsg(1)?)?;
        assert_eq!(turned_away(&r, second), Some(false));
        // A TSG that goes makes room, once.
        assert!(last.is_some_and(|id| r.remove_tsg(id)));
        r.add_tsg(gpu, fixture::tsg(5000)?)?;
        assert_eq!(r.add_tsg(gpu, fixture::tsg(5001)?).err(), Some(ENOSPC));
        while r.remove_any_tsg(gpu) || r.remove_any_tsg(second) {}
        assert!(is_empty(&r));
        Ok(())
    }

    #[test]
    fn a_gpu_goes_with_its_tsgs() -> Result {
        let (mut r, gpu) = fixture::registry()?;
        r.add_tsg(gpu, fixture::tsg(1)?)?;
        r.add_tsg(gpu, fixture::tsg(2)?)?;
        r.close_gpu(gpu);
        while r.remove_any_tsg(gpu) {}
        assert!(r.take_gpu(gpu).is_some());
        assert!(r.take_gpu(gpu).is_none());
        assert!(is_empty(&r));
        assert_eq!(r.find_gpu(1, gpu::Handle(7)), None);
        Ok(())
    }

    #[test]
    fn providers_do_not_share_handles() -> Result {
        let (mut r, first) = fixture::registry()?;
        let second = r.reserve_gpu_id();
        let mut gpu = fixture::gpu(7)?;
        gpu.provider = 2;
        r.add_gpu(second, gpu)?;
        assert_eq!(r.find_gpu(1, gpu::Handle(7)), Some(first));
        assert_eq!(r.find_gpu(2, gpu::Handle(7)), Some(second));
        assert_eq!(r.next_gpu_of(1, gpu::Id(0)), Some(first));
        assert_eq!(r.next_gpu_of(1, first), None);
        Ok(())
    }
}
