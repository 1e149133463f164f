// SPDX-License-Identifier: GPL-2.0 OR MIT
//! The sets of a [`Turn`] against a look at each TSG, for the tests on the host.

use super::{
    super::{
        entity::Entity,
        run_list::RunList,
        standing::Set, //
    },
    Turn, //
};

impl Turn {
    /// Finds what the sets say by a look at each TSG, whose ids are below `end`.
    pub(crate) fn check(&self, list: &impl RunList, end: usize) {
        let all = || (0..end).filter_map(|id| Some((id, list.get(id)?)));
        let is_in = |e: &Entity, set: Set| match set {
            Set::Waiting => e.contends() && !e.enabled,
            Set::Holding => e.contends() && e.enabled,
            Set::Idle => !e.in_slices && !e.runnable && !e.enabled,
            Set::Open => !e.in_slices && !e.runnable && e.enabled,
            Set::Aside => e.in_slices && !e.enabled,
            Set::InSlices => e.in_slices && e.enabled,
        };
        let taking_part = all().filter(|(_, e)| !e.in_slices).count();
        assert_eq!(self.sets.taking_part() as usize, taking_part);
        for set in [Set::Waiting, Set::Holding] {
            let skipped = self.first(list, set);
            for skip in [None, skipped] {
                let of_set = all().filter(|(id, e)| is_in(e, set) && Some(*id) != skip);
                let first = of_set.min_by_key(|(_, e)| self.order.rank(e));
                let found = self
                    .sets
                    .first(&self.order, list, set, |id| Some(id) == skip);
                assert_eq!(found, first.map(|(id, _)| id), "{set:?}");
            }
        }
        for set in [Set::Idle, Set::Open, Set::Aside, Set::InSlices] {
            let of_set = all().filter(|(_, e)| is_in(e, set));
            let first = match set {
                Set::Aside => of_set.min_by_key(|(_, e)| (e.retry, e.place)),
                _ => of_set.min_by_key(|(_, e)| e.place),
            };
            assert_eq!(self.first(list, set), first.map(|(id, _)| id), "{set:?}");
        }
        self.check_sums(list, all().map(|(_, e)| e).filter(|e| e.contends()));
    }

    fn check_sums<'a>(&self, list: &impl RunList, contending: impl Iterator<Item = &'a Entity>) {
        let (mut weights, mut vruntimes, mut ready) = (0, 0u64, None);
        for e in contending {
            let weight = u64::from(e.weight.number());
            weights += weight;
            vruntimes = vruntimes.wrapping_add(e.vruntime.wrapping_mul(weight));
            let own = self.order.ready(e);
            ready = Some(ready.map_or(own, |least: u64| least.min(own)));
        }
        let sums = self.sets.sums(list);
        assert_eq!((sums.weights, sums.vruntimes), (weights, vruntimes));
        assert_eq!(sums.ready, ready);
    }
}
