// SPDX-License-Identifier: GPL-2.0
//! The part of the cgroup tree that matters: cgroups with TSGs or assignments, and all above them.
//!
//! Each node knows the class in force for it, so that a TSG's class is found without a walk, and a
//! change walks exactly the nodes below it.

use crate::policy::class::{
    Assignment,
    Layers,
    Source, //
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
    layers: Layers,
}

/// The tree. Cgroups are named by id.
///
/// # Invariants
///
/// The parent of a node is a node, and `children` holds exactly the pairs (parent, node).
/// `layers` of a node is `own` over `layers` of its parent, or over the default class.
pub(crate) struct Groups {
    nodes: RBTree<u64, Node>,
    children: RBTree<(u64, u64), ()>,
    default: Layers,
}

impl Groups {
    /// An empty tree.
    pub(crate) fn new() -> Self {
        Self {
            nodes: RBTree::new(),
            children: RBTree::new(),
            default: Layers::NONE,
        }
    }

    /// Counts a use of the cgroup `chain[0]`; its ancestors follow in `chain`.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, and nothing has changed.
    pub(crate) fn hold(&mut self, chain: &[u64]) -> Result {
        let missing = chain
            .iter()
            .position(|id| self.nodes.get(id).is_some())
            .unwrap_or(chain.len());
        // Everything is allocated before anything changes.
        let mut memory = KVec::with_capacity(missing, GFP_KERNEL)?;
        for _ in 0..missing {
            let node = RBTreeNodeReservation::new(GFP_KERNEL)?;
            let child = RBTreeNodeReservation::new(GFP_KERNEL)?;
            memory.push((node, child), GFP_KERNEL)?;
        }
        // From the top down, so that a parent is always there first.
        for (depth, &id) in chain.iter().enumerate().take(missing).rev() {
            let Some((node, child)) = memory.pop() else {
                break;
            };
            let parent = chain.get(depth + 1).copied();
            let layers = match parent {
                Some(parent) => self.layers(&[parent]),
                None => self.default,
            };
            // INVARIANT: Nothing of its own, so the class of its parent is in force; that is there.
            self.nodes.insert(node.into_node(
                id,
                Node {
                    parent,
                    users: 0,
                    own: None,
                    layers,
                },
            ));
            if let Some(parent) = parent {
                self.children.insert(child.into_node((parent, id), ()));
                if let Some(parent) = self.nodes.get_mut(&parent) {
                    parent.users += 1;
                }
            }
        }
        if let Some(node) = chain.first().and_then(|id| self.nodes.get_mut(id)) {
            node.users += 1;
        }
        Ok(())
    }

    /// Takes back a use; a node without any goes, and so on upwards.
    pub(crate) fn release(&mut self, id: u64) {
        let mut next = Some(id);
        while let Some(id) = next.take() {
            let Some(node) = self.nodes.get_mut(&id) else {
                return;
            };
            node.users = node.users.saturating_sub(1);
            if node.users == 0 {
                next = node.parent;
                if let Some(parent) = next {
                    self.children.remove(&(parent, id));
                }
                self.nodes.remove(&id);
            }
        }
    }

    /// The layers down to the cgroup `chain[0]`, which need not be a node.
    pub(crate) fn layers(&self, chain: &[u64]) -> Layers {
        chain
            .iter()
            .find_map(|id| self.nodes.get(id))
            .map_or(self.default, |node| node.layers)
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

    /// The layers above the cgroup `chain[0]`.
    pub(crate) fn layers_above(&self, chain: &[u64]) -> Layers {
        self.layers(chain.get(1..).unwrap_or_default())
    }

    /// Gives a node an assignment or takes it away. [`Self::update`] changes the class in force,
    /// from this node on.
    pub(crate) fn assign(&mut self, id: u64, own: Option<Assignment>) {
        if let Some(node) = self.nodes.get_mut(&id) {
            node.own = own;
        }
    }

    /// Changes the class in force where nothing is assigned.
    pub(crate) fn set_default(&mut self, default: Layers) {
        self.default = default;
        let mut after = 0;
        // Every root; a hierarchy has one.
        while let Some((id, is_root)) = self.node_from(after) {
            if is_root {
                let mut next = Some(id);
                while let Some(at) = next {
                    next = self.update(id, at).1;
                }
            }
            match id.checked_add(1) {
                Some(next) => after = next,
                None => return,
            }
        }
    }

    fn node_from(&self, id: u64) -> Option<(u64, bool)> {
        let cursor = self.nodes.cursor_lower_bound(&id)?;
        let (&id, node) = cursor.current();
        Some((id, node.parent.is_none()))
    }

    /// Works out the class in force for a node: one step of a walk from `top` downwards, which a
    /// caller begins at `top`. Tells whether it changed, and where the walk goes on: not below a
    /// node that did not change, for nothing changes there.
    pub(crate) fn update(&mut self, top: u64, id: u64) -> (bool, Option<u64>) {
        let parent = self.nodes.get(&id).and_then(|node| node.parent);
        let above = parent.map_or(self.default, |parent| self.layers(&[parent]));
        let mut differs = false;
        if let Some(node) = self.nodes.get_mut(&id) {
            // INVARIANT: Parents come before children in this walk.
            let layers = above.over(Source::Cgroup, node.own);
            differs = layers != node.layers;
            node.layers = layers;
        }
        (differs, self.after(top, id, differs))
    }

    /// The node after `id` in a walk from `top` downwards, parents first, with or without the nodes
    /// below `id`; it needs no memory.
    fn after(&self, top: u64, id: u64, below: bool) -> Option<u64> {
        if let Some(child) = self.child(id, 0).filter(|_| below) {
            return Some(child);
        }
        let mut id = id;
        while id != top {
            let parent = self.nodes.get(&id)?.parent?;
            if let Some(sibling) = id.checked_add(1).and_then(|from| self.child(parent, from)) {
                return Some(sibling);
            }
            id = parent;
        }
        None
    }

    /// The first child of `parent` with an id of at least `from`.
    fn child(&self, parent: u64, from: u64) -> Option<u64> {
        let cursor = self.children.cursor_lower_bound(&(parent, from))?;
        let (&(above, child), ()) = cursor.current();
        (above == parent).then_some(child)
    }

    /// True if there is no node.
    #[cfg(zernel_kunit)]
    pub(crate) fn is_empty(&self) -> bool {
        self.nodes.is_empty() && self.children.is_empty()
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

    const LC: Option<Level> = Some(Level::LC);
    const BE: Option<Level> = Some(Level::BE);

    fn assign(groups: &mut Groups, id: u64, level: Option<Level>) {
        let own = level.map(|level| Assignment {
            level: Some(Own::privileged(level, false)),
            ..Assignment::NONE
        });
        groups.assign(id, own);
    }

    fn set(groups: &mut Groups, id: u64, level: Option<Level>) {
        assign(groups, id, level);
        walk(groups, id);
    }

    /// Updates from `top` on; returns the ids that changed as decimal digits.
    fn walk(groups: &mut Groups, top: u64) -> u64 {
        let mut changed = 0u64;
        let mut next = Some(top);
        while let Some(id) = next {
            let (differs, after) = groups.update(top, id);
            if differs {
                changed = changed.wrapping_mul(10).wrapping_add(id);
            }
            next = after;
        }
        changed
    }

    fn level(groups: &Groups, chain: &[u64]) -> Option<Level> {
        groups.layers(chain).effective(false).level
    }

    #[test]
    fn nodes_live_as_long_as_their_uses() -> Result {
        let mut g = Groups::new();
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
        let mut g = Groups::new();
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
        let mut g = Groups::new();
        g.hold(&[3, 1])?;
        set(&mut g, 3, BE);
        assert_eq!(level(&g, &[9, 8, 3, 1]), Some(Level::BE));
        assert_eq!(level(&g, &[9, 8, 1]), None);
        Ok(())
    }

    #[test]
    fn a_node_made_later_inherits() -> Result {
        let mut g = Groups::new();
        g.hold(&[3, 1])?;
        set(&mut g, 3, BE);
        g.hold(&[7, 4, 3, 1])?;
        assert_eq!(level(&g, &[7]), Some(Level::BE));
        assert_eq!(level(&g, &[4]), Some(Level::BE));
        Ok(())
    }

    #[test]
    fn an_update_tells_what_changed_and_skips_the_rest() -> Result {
        let mut g = Groups::new();
        g.hold(&[4, 2, 1])?;
        g.hold(&[5, 3, 1])?;
        set(&mut g, 3, BE);
        assign(&mut g, 1, LC);
        // 3 has its own class, so neither it nor 5 below it changes.
        assert_eq!(walk(&mut g, 1), 124);
        assign(&mut g, 1, LC);
        assert_eq!(walk(&mut g, 1), 0);
        Ok(())
    }

    #[test]
    fn a_walk_sees_each_node_below_once() -> Result {
        let mut g = Groups::new();
        g.hold(&[4, 2, 1])?;
        g.hold(&[5, 2, 1])?;
        g.hold(&[6, 3, 1])?;
        let mut seen = [0u64; 8];
        let mut count = 0;
        let mut next = Some(2);
        while let Some(id) = next {
            if let Some(slot) = seen.get_mut(count) {
                *slot = id;
            }
            count += 1;
            next = g.after(2, id, true);
        }
        assert_eq!(count, 3);
        assert!(seen.starts_with(&[2, 4, 5]));
        Ok(())
    }

    #[test]
    fn the_default_reaches_everything_unassigned() -> Result {
        let mut g = Groups::new();
        g.hold(&[4, 2, 1])?;
        g.hold(&[5, 2, 1])?;
        set(&mut g, 4, LC);
        g.set_default(Layers::default_class(Some(Level::BE)));
        assert_eq!(level(&g, &[5]), Some(Level::BE));
        assert_eq!(level(&g, &[4]), Some(Level::LC));
        assert_eq!(level(&g, &[77]), Some(Level::BE));
        g.set_default(Layers::NONE);
        assert_eq!(level(&g, &[5]), None);
        Ok(())
    }

    #[test]
    fn depth_does_not_recurse() -> Result {
        let mut g = Groups::new();
        let mut chain = KVec::new();
        for id in (1..=2000u64).rev() {
            chain.push(id, GFP_KERNEL)?;
        }
        g.hold(&chain)?;
        g.hold(chain.get(1999..).unwrap_or_default())?;
        set(&mut g, 1, LC);
        assert_eq!(level(&g, &[2000]), Some(Level::LC));
        g.release(2000);
        g.release(1);
        assert!(g.is_empty());
        Ok(())
    }
}
