// SPDX-License-Identifier: GPL-2.0
//! The part of the cgroup tree that matters: cgroups with TSGs or assignments, and all above them.
//!
//! A change of an assignment is one write: the class in force for a cgroup is found by a walk
//! upwards, of [`LEVELS`] steps at most.

use super::view::{
    ForCgroup,
    View, //
};
use crate::{
    glue::{
        cgroup::LEVELS,
        rcu::Writer, //
    },
    policy::class::{
        Assignment,
        Layers,
        Source, //
    },
};
use kernel::{
    prelude::*,
    rbtree::{
        RBTree,
        RBTreeNodeReservation, //
    },
};

struct Node {
    parent: Option<u64>,
    /// TSGs in it, nodes below it, and 1 for an assignment.
    users: u32,
    own: Option<Assignment>,
}

/// Memory for the nodes of a cgroup and of all above it.
pub(crate) struct Reservation(KVec<(RBTreeNodeReservation<u64, Node>, ForCgroup)>);

impl Reservation {
    /// Memory for a use of `chain`.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(chain: &[u64]) -> Result<Self> {
        let mut nodes = KVec::with_capacity(chain.len(), GFP_KERNEL)?;
        for _ in chain {
            let node = RBTreeNodeReservation::new(GFP_KERNEL)?;
            nodes.push((node, ForCgroup::new()?), GFP_KERNEL)?;
        }
        Ok(Self(nodes))
    }
}

/// The tree. Cgroups are named by id.
///
/// # Invariants
///
/// The parent of a node is a node.
pub(crate) struct Groups {
    nodes: RBTree<u64, Node>,
    default: Layers,
}

impl Groups {
    /// An empty tree.
    pub(crate) fn new() -> Self {
        Self {
            nodes: RBTree::new(),
            default: Layers::NONE,
        }
    }

    /// Counts a use of the cgroup `chain[0]`; its ancestors follow in `chain`, [`LEVELS`] ids at
    /// most. Takes the nodes that are missing from `memory`, which was made for this chain.
    pub(crate) fn hold(
        &mut self,
        chain: &[u64],
        memory: &mut Reservation,
        (view, writer): (&View, &mut Writer),
    ) {
        let missing = chain
            .iter()
            .position(|id| self.nodes.get(id).is_some())
            .unwrap_or(chain.len());
        // From the top down, so that a parent is always there first.
        for (depth, &id) in chain.iter().enumerate().take(missing).rev() {
            let Some((node, shown)) = memory.0.pop() else {
                break;
            };
            let parent = chain.get(depth + 1).copied();
            // INVARIANT: The parent was there, or came in the step before.
            self.nodes.insert(node.into_node(
                id,
                Node {
                    parent,
                    users: 0,
                    own: None,
                },
            ));
            view.add_cgroup(id, parent, shown, writer);
            if let Some(parent) = parent.and_then(|parent| self.nodes.get_mut(&parent)) {
                parent.users += 1;
            }
        }
        if let Some(node) = chain.first().and_then(|id| self.nodes.get_mut(id)) {
            node.users += 1;
        }
    }

    /// Takes back a use; a node without any goes, and so on upwards.
    pub(crate) fn release(&mut self, id: u64, (view, writer): (&View, &mut Writer)) {
        let mut next = Some(id);
        while let Some(id) = next.take() {
            let Some(node) = self.nodes.get_mut(&id) else {
                return;
            };
            node.users = node.users.saturating_sub(1);
            if node.users == 0 {
                next = node.parent;
                self.nodes.remove(&id);
                view.remove_cgroup(id, writer);
            }
        }
    }

    /// The layers down to the cgroup `chain[0]`, which need not be a node.
    pub(crate) fn layers(&self, chain: &[u64]) -> Layers {
        let mut found = [None; LEVELS];
        let mut count = 0;
        let mut at = chain.iter().find_map(|id| self.nodes.get(id));
        while let Some(node) = at {
            if let (Some(own), Some(place)) = (&node.own, found.get_mut(count)) {
                *place = Some(own);
                count += 1;
            }
            at = node.parent.and_then(|parent| self.nodes.get(&parent));
        }
        let found = found.iter().take(count).rev().flatten();
        found.fold(self.default, |layers, own| {
            layers.over(Source::Cgroup, Some(**own))
        })
    }

    /// True if a node is a cgroup or below it. Takes a step per level of the tree.
    pub(crate) fn is_within(&self, id: u64, top: u64) -> bool {
        let mut at = Some(id);
        while let Some(id) = at {
            if id == top {
                return true;
            }
            at = self.nodes.get(&id).and_then(|node| node.parent);
        }
        false
    }

    /// Calls `f` for a node and each above it.
    pub(crate) fn each_above(&self, id: u64, f: &mut dyn FnMut(u64)) {
        let mut at = Some(id).filter(|&id| id != 0);
        while let Some(id) = at {
            f(id);
            at = self.nodes.get(&id).and_then(|node| node.parent);
        }
    }

    /// The layers above the cgroup `chain[0]`.
    pub(crate) fn layers_above(&self, chain: &[u64]) -> Layers {
        self.layers(chain.get(1..).unwrap_or_default())
    }

    /// Gives a node an assignment or takes it away.
    pub(crate) fn assign(&mut self, id: u64, own: Option<Assignment>) {
        if let Some(node) = self.nodes.get_mut(&id) {
            node.own = own;
        }
    }

    /// Changes the class in force where nothing is assigned.
    pub(crate) fn set_default(&mut self, default: Layers) {
        self.default = default;
    }

    /// True if there is no node.
    #[cfg(zernel_kunit)]
    pub(crate) fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }
}

#[cfg(zernel_kunit)]
#[kernel::macros::kunit_tests(zernel_groups)]
mod tests {
    use crate::policy::{
        attribute::Own,
        level::Level, //
    };
    use crate::registry::groups::*;
    use kernel::sync::Arc;

    const LC: Option<Level> = Some(Level::LC);
    const BE: Option<Level> = Some(Level::BE);

    /// The tree with its view.
    struct Tree(Groups, Arc<View>, Writer);

    impl Tree {
        fn new() -> Result<Self> {
            Ok(Self(Groups::new(), View::new(4)?, Writer::new()))
        }

        fn hold(&mut self, chain: &[u64]) -> Result {
            let mut memory = Reservation::new(chain)?;
            self.0.hold(chain, &mut memory, (&self.1, &mut self.2));
            Ok(())
        }

        fn release(&mut self, id: u64) {
            self.0.release(id, (&self.1, &mut self.2));
        }
    }

    impl core::ops::Deref for Tree {
        type Target = Groups;

        fn deref(&self) -> &Groups {
            &self.0
        }
    }

    impl core::ops::DerefMut for Tree {
        fn deref_mut(&mut self) -> &mut Groups {
            &mut self.0
        }
    }

    fn set(groups: &mut Groups, id: u64, level: Option<Level>) {
        let own = level.map(|level| Assignment {
            level: Some(Own::privileged(level, false)),
            ..Assignment::NONE
        });
        groups.assign(id, own);
    }

    fn level(groups: &Groups, chain: &[u64]) -> Option<Level> {
        groups.layers(chain).effective(false).level
    }

    #[test]
    fn nodes_live_as_long_as_their_uses() -> Result {
        let mut g = Tree::new()?;
        g.hold(&[5, 3, 1])?;
        g.hold(&[3, 1])?;
        g.hold(&[5, 3, 1])?;
        g.release(5);
        g.release(3);
        assert!(!g.is_empty());
        g.release(5);
        assert!(g.is_empty());
        Ok(())
    }

    #[test]
    fn nearest_ancestor_decides() -> Result {
        let mut g = Tree::new()?;
        g.hold(&[5, 3, 1])?;
        g.hold(&[3, 1])?;
        set(&mut g, 3, LC);
        assert_eq!(level(&g, &[5, 3, 1]), Some(Level::LC));
        assert_eq!(level(&g, &[1]), None);
        g.hold(&[5, 3, 1])?;
        set(&mut g, 5, BE);
        assert_eq!(level(&g, &[5, 3, 1]), Some(Level::BE));
        set(&mut g, 5, None);
        assert_eq!(level(&g, &[5, 3, 1]), Some(Level::LC));
        Ok(())
    }

    #[test]
    fn a_cgroup_without_node_has_its_ancestors_class() -> Result {
        let mut g = Tree::new()?;
        g.hold(&[3, 1])?;
        set(&mut g, 3, BE);
        assert_eq!(level(&g, &[9, 8, 3, 1]), Some(Level::BE));
        assert_eq!(level(&g, &[9, 8, 1]), None);
        Ok(())
    }

    #[test]
    fn a_node_made_later_inherits() -> Result {
        let mut g = Tree::new()?;
        g.hold(&[3, 1])?;
        set(&mut g, 3, BE);
        g.hold(&[7, 4, 3, 1])?;
        assert_eq!(level(&g, &[7]), Some(Level::BE));
        assert_eq!(level(&g, &[4]), Some(Level::BE));
        Ok(())
    }

    #[test]
    fn a_change_above_counts_at_once_where_nothing_is_nearer() -> Result {
        let mut g = Tree::new()?;
        g.hold(&[4, 2, 1])?;
        g.hold(&[5, 3, 1])?;
        set(&mut g, 3, BE);
        set(&mut g, 1, LC);
        assert_eq!(level(&g, &[4]), LC);
        assert_eq!(level(&g, &[5]), BE);
        set(&mut g, 1, None);
        assert_eq!(level(&g, &[4]), None);
        assert!(g.is_within(5, 3) && g.is_within(5, 1) && g.is_within(5, 5));
        assert!(!g.is_within(5, 2) && !g.is_within(3, 5));
        Ok(())
    }

    #[test]
    fn the_default_reaches_everything_unassigned() -> Result {
        let mut g = Tree::new()?;
        g.hold(&[4, 2, 1])?;
        g.hold(&[5, 2, 1])?;
        set(&mut g, 4, LC);
        g.set_default(Layers::default_class(Some(Level::BE)));
        assert_eq!(level(&g, &[4]), Some(Level::LC));
        assert_eq!(level(&g, &[5]), Some(Level::BE));
        assert_eq!(level(&g, &[77]), Some(Level::BE));
        g.set_default(Layers::NONE);
        assert_eq!(level(&g, &[5]), None);
        Ok(())
    }

    #[test]
    fn every_level_of_the_deepest_tree_counts() -> Result {
        let mut g = Tree::new()?;
        let mut chain = KVec::new();
        for id in (1..=LEVELS as u64).rev() {
            chain.push(id, GFP_KERNEL)?;
        }
        g.hold(&chain)?;
        for id in 2..=LEVELS as u64 {
            set(&mut g, id, BE);
        }
        assert_eq!(level(&g, &[LEVELS as u64]), BE);
        set(&mut g, LEVELS as u64, LC);
        assert_eq!(level(&g, &[LEVELS as u64]), LC);
        g.release(LEVELS as u64);
        assert!(g.is_empty());
        Ok(())
    }
}
