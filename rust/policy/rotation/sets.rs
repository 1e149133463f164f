// SPDX-License-Identifier: GPL-2.0 OR MIT
//! The TSGs of a run list by their state, each set in the order of turns: so a decision looks at a
//! few of them, however many there are.

use super::{
    entity::Entity,
    order::Order,
    run_list::RunList,
    standing::{
        Key,
        Set,
        Standing,
        Sums, //
    },
    tree::Tree,
};

/// The set that a TSG belongs to.
fn set_of(e: &Entity) -> Set {
    match (e.in_slices, e.runnable, e.enabled) {
        (true, _, false) => Set::Aside,
        (true, _, true) => Set::InSlices,
        (false, true, false) => Set::Waiting,
        (false, true, true) => Set::Holding,
        (false, false, false) => Set::Idle,
        (false, false, true) => Set::Open,
    }
}

/// The standing of a TSG.
fn standing_of(order: &Order, e: &Entity) -> Standing {
    let set = set_of(e);
    let key = match set {
        Set::Waiting | Set::Holding => order.key(e),
        Set::Aside => Key {
            start: e.retry.0,
            place: e.place,
            ..Key::default()
        },
        // Their accounts say nothing about when they have something to run again.
        Set::Idle | Set::Open | Set::InSlices => Key {
            place: e.place,
            ..Key::default()
        },
    };
    Standing {
        set,
        key,
        weight: u64::from(e.weight.number()),
        vruntime: e.vruntime,
    }
}

/// The TSGs of a run list, by their state.
#[derive(Clone, Debug, Default)]
pub(super) struct Sets {
    trees: [Tree; Set::COUNT],
    /// Without `ready`, which the trees know.
    sums: Sums,
}

impl Sets {
    /// TSGs that are not left aside.
    pub(super) fn taking_part(&self) -> u32 {
        [Set::Waiting, Set::Holding, Set::Idle, Set::Open]
            .into_iter()
            .fold(0, |sum, set| sum.saturating_add(self.tree(set).count()))
    }

    /// True if some contend, or are left aside: these may.
    pub(super) fn have_work(&self) -> bool {
        [Set::Waiting, Set::Holding, Set::Aside, Set::InSlices]
            .into_iter()
            .any(|set| self.tree(set).count() > 0)
    }

    /// The TSGs that contend, together, and one more.
    pub(super) fn sums_and(&self, order: &Order, list: &impl RunList, e: &Entity) -> Sums {
        let mut sums = self.sums(list);
        sums.add(&standing_of(order, e));
        let ready = order.ready(e);
        sums.ready = Some(sums.ready.map_or(ready, |least| least.min(ready)));
        sums
    }

    /// The TSGs that contend, together.
    pub(super) fn sums(&self, list: &impl RunList) -> Sums {
        let ready = |set| self.tree(set).ready(list);
        let (waiting, holding) = (ready(Set::Waiting), ready(Set::Holding));
        Sums {
            ready: match (waiting, holding) {
                (Some(a), Some(b)) => Some(a.min(b)),
                (a, b) => a.or(b),
            },
            ..self.sums
        }
    }

    /// The first TSG of a set, but for those that `skip` names: a few.
    pub(super) fn first(
        &self,
        order: &Order,
        list: &impl RunList,
        set: Set,
        skip: impl Fn(usize) -> bool,
    ) -> Option<usize> {
        let now = match set.contends() {
            true => order.reached(),
            false => 0,
        };
        self.tree(set).first(list, now, skip)
    }

    /// The last TSG of a set, but for those that `skip` names: a few.
    pub(super) fn last(
        &self,
        list: &impl RunList,
        set: Set,
        skip: impl Fn(usize) -> bool,
    ) -> Option<usize> {
        self.tree(set).last(list, skip)
    }

    /// Brings a TSG into its set, or to its place there, after a change of it.
    pub(super) fn update(&mut self, order: &Order, list: &mut impl RunList, id: usize) {
        let Some(e) = list.get(id) else {
            return;
        };
        let new = standing_of(order, e);
        if e.standing == Some(new) {
            return;
        }
        self.remove(list, id);
        if new.set.contends() {
            self.sums.add(&new);
        }
        self.tree_mut(new.set).insert(list, id, new.key);
        if let Some(e) = list.get_mut(id) {
            e.standing = Some(new);
        }
    }

    /// Takes a TSG out.
    pub(super) fn remove(&mut self, list: &mut impl RunList, id: usize) {
        let Some(old) = list.get_mut(id).and_then(|e| e.standing.take()) else {
            return;
        };
        if old.set.contends() {
            self.sums.subtract(&old);
        }
        self.tree_mut(old.set).remove(list, id);
    }

    /// Brings all of them to their places in another order. Takes a look at each.
    pub(super) fn rearrange(&mut self, order: &Order, list: &mut impl RunList) {
        let mut old = core::mem::take(self);
        for at in 0..Set::COUNT {
            while let Some(id) = old.trees.get(at).and_then(Tree::any) {
                old.remove(list, id);
                self.update(order, list, id);
            }
        }
    }

    fn tree(&self, set: Set) -> &Tree {
        let [waiting, holding, idle, open, aside, in_slices] = &self.trees;
        match set {
            Set::Waiting => waiting,
            Set::Holding => holding,
            Set::Idle => idle,
            Set::Open => open,
            Set::Aside => aside,
            Set::InSlices => in_slices,
        }
    }

    fn tree_mut(&mut self, set: Set) -> &mut Tree {
        let [waiting, holding, idle, open, aside, in_slices] = &mut self.trees;
        match set {
            Set::Waiting => waiting,
            Set::Holding => holding,
            Set::Idle => idle,
            Set::Open => open,
            Set::Aside => aside,
            Set::InSlices => in_slices,
        }
    }
}
