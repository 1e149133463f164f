// SPDX-License-Identifier: GPL-2.0 OR MIT
//! A set of TSGs in the order of their turns, linked through the TSGs themselves.
//!
//! An AVL tree: everything takes as many steps as the tree is deep. Each node knows the best of
//! those below it, so that the next TSG is found without a look at the others.

use super::{
    run_list::RunList,
    standing::{
        is_before,
        Best,
        Key,
        Node, //
    },
};

/// A set of TSGs.
#[derive(Clone, Debug, Default)]
pub(super) struct Tree {
    root: Option<usize>,
    count: u32,
}

impl Tree {
    /// TSGs in it.
    pub(super) fn count(&self) -> u32 {
        self.count
    }

    /// Some TSG of it.
    pub(super) fn any(&self) -> Option<usize> {
        self.root
    }

    /// The least round in which one has credit.
    pub(super) fn ready(&self, list: &impl RunList) -> Option<u64> {
        Some(node(list, self.root?).ready)
    }

    /// Puts a TSG in that is in no tree.
    pub(super) fn insert(&mut self, list: &mut impl RunList, id: usize, key: Key) {
        let Some(e) = list.get_mut(id) else {
            return;
        };
        e.node = Node {
            key,
            ..Node::default()
        };
        self.root = Some(insert(list, self.root, id, key));
        self.count = self.count.saturating_add(1);
    }

    /// Takes a TSG out that is in it.
    pub(super) fn remove(&mut self, list: &mut impl RunList, id: usize) {
        let key = node(list, id).key;
        self.root = remove(list, self.root, id, key);
        self.count = self.count.saturating_sub(1);
    }

    /// The first TSG at `now`, but for those that `skip` names. Each of those costs a look at as many
    /// TSGs again.
    pub(super) fn first(
        &self,
        list: &impl RunList,
        now: u64,
        skip: impl Fn(usize) -> bool,
    ) -> Option<usize> {
        let mut found = None;
        started(list, self.root, now, &skip, &mut found);
        match found {
            Some((_, id)) => Some(id),
            None => outermost(list, self.root, false, &skip),
        }
    }

    /// The TSG that starts last, but for those that `skip` names: a few.
    pub(super) fn last(&self, list: &impl RunList, skip: impl Fn(usize) -> bool) -> Option<usize> {
        outermost(list, self.root, true, &skip)
    }
}

fn node(list: &impl RunList, id: usize) -> Node {
    list.get(id).map(|e| e.node).unwrap_or_default()
}

fn height(list: &impl RunList, at: Option<usize>) -> u8 {
    at.map_or(0, |id| node(list, id).height)
}

/// True if a TSG belongs to the left of another one.
fn is_left(key: (Key, usize), other: (Key, usize)) -> bool {
    let ((a, id), (b, other)) = (key, other);
    match a.start == b.start {
        true => (a.place, id) < (b.place, other),
        false => is_before(a.start, b.start),
    }
}

/// Hangs subtrees on a node, which then knows about them.
fn hang(list: &mut impl RunList, id: usize, left: Option<usize>, right: Option<usize>) {
    let own = node(list, id).key;
    let mut new = Node {
        key: own,
        left,
        right,
        height: 1,
        best: Best {
            end: own.end,
            place: own.place,
        },
        ready: own.ready,
    };
    for child in [left, right].into_iter().flatten() {
        let child = node(list, child);
        new.height = new.height.max(child.height.saturating_add(1));
        new.ready = new.ready.min(child.ready);
        if child.best.is_before(new.best) {
            new.best = child.best;
        }
    }
    if let Some(e) = list.get_mut(id) {
        e.node = new;
    }
}

/// Hangs subtrees on a node that differ in height by two at most. Returns the root.
fn balance(list: &mut impl RunList, id: usize, left: Option<usize>, right: Option<usize>) -> usize {
    let (on_left, on_right) = (height(list, left), height(list, right));
    match (left, right) {
        (Some(up), _) if on_left > on_right.saturating_add(1) => {
            let child = node(list, up);
            match child.right {
                Some(middle) if height(list, child.left) < height(list, child.right) => {
                    let inner = node(list, middle);
                    hang(list, up, child.left, inner.left);
                    hang(list, id, inner.right, right);
                    hang(list, middle, Some(up), Some(id));
                    middle
                }
                inner => {
                    hang(list, id, inner, right);
                    hang(list, up, child.left, Some(id));
                    up
                }
            }
        }
        (_, Some(up)) if on_right > on_left.saturating_add(1) => {
            let child = node(list, up);
            match child.left {
                Some(middle) if height(list, child.right) < height(list, child.left) => {
                    let inner = node(list, middle);
                    hang(list, id, left, inner.left);
                    hang(list, up, inner.right, child.right);
                    hang(list, middle, Some(id), Some(up));
                    middle
                }
                inner => {
                    hang(list, id, left, inner);
                    hang(list, up, Some(id), child.right);
                    up
                }
            }
        }
        _ => {
            hang(list, id, left, right);
            id
        }
    }
}

/// Returns the root.
fn insert(list: &mut impl RunList, at: Option<usize>, id: usize, key: Key) -> usize {
    let Some(at) = at else {
        hang(list, id, None, None);
        return id;
    };
    let here = node(list, at);
    if is_left((key, id), (here.key, at)) {
        let left = insert(list, here.left, id, key);
        balance(list, at, Some(left), here.right)
    } else {
        let right = insert(list, here.right, id, key);
        balance(list, at, here.left, Some(right))
    }
}

/// Returns the root.
fn remove(list: &mut impl RunList, at: Option<usize>, id: usize, key: Key) -> Option<usize> {
    let at = at?;
    let here = node(list, at);
    if at == id {
        let (Some(left), Some(right)) = (here.left, here.right) else {
            return here.left.or(here.right);
        };
        let (next, right) = take_first(list, right);
        return Some(balance(list, next, Some(left), right));
    }
    Some(if is_left((key, id), (here.key, at)) {
        let left = remove(list, here.left, id, key);
        balance(list, at, left, here.right)
    } else {
        let right = remove(list, here.right, id, key);
        balance(list, at, here.left, right)
    })
}

/// Returns the leftmost node, and the root without it.
fn take_first(list: &mut impl RunList, at: usize) -> (usize, Option<usize>) {
    let here = node(list, at);
    match here.left {
        Some(left) => {
            let (first, left) = take_first(list, left);
            (first, Some(balance(list, at, left, here.right)))
        }
        None => (at, here.right),
    }
}

/// The best of those that have reached their start.
fn started(
    list: &impl RunList,
    at: Option<usize>,
    now: u64,
    skip: &impl Fn(usize) -> bool,
    found: &mut Option<(Best, usize)>,
) {
    let Some(at) = at else {
        return;
    };
    let here = node(list, at);
    let is_better = |best: Best, found: &Option<(Best, usize)>| {
        found
            .as_ref()
            .is_none_or(|(other, _)| best.is_before(*other))
    };
    if !is_better(here.best, found) {
        return;
    }
    if is_before(now, here.key.start) {
        // So is everything on its right.
        started(list, here.left, now, skip, found);
        return;
    }
    let own = Best {
        end: here.key.end,
        place: here.key.place,
    };
    if is_better(own, found) && !skip(at) {
        *found = Some((own, at));
    }
    let best = |at: Option<usize>| at.map(|id| node(list, id).best);
    let (left, right) = (here.left, here.right);
    let children = match (best(left), best(right)) {
        (Some(l), Some(r)) if r.is_before(l) => [right, left],
        _ => [left, right],
    };
    for child in children {
        started(list, child, now, skip, found);
    }
}

/// The one with the earliest start, or with the latest.
fn outermost(
    list: &impl RunList,
    at: Option<usize>,
    is_last: bool,
    skip: &impl Fn(usize) -> bool,
) -> Option<usize> {
    let at = at?;
    let Node { left, right, .. } = node(list, at);
    let (near, far) = if is_last {
        (right, left)
    } else {
        (left, right)
    };
    outermost(list, near, is_last, skip)
        .or_else(|| (!skip(at)).then_some(at))
        .or_else(|| outermost(list, far, is_last, skip))
}
