// SPDX-License-Identifier: GPL-2.0
//! A user's programs: those that the sampler looks at and those that rest.
//!
//! In a tick so many of each user's are visited, from where the last tick has stopped: so a user with
//! many slows down only its own samples and signals.

use crate::{
    policy::units::Ns,
    registry::meters::Meters,
    tracking::{
        process::Process,
        program::Program, //
    },
};
use kernel::{
    rbtree::{
        RBTree,
        RBTreeNode, //
    },
    sync::Arc, //
};

/// Visits for signals in the place of a look: they take no more than a glance.
const GLANCES: u64 = 8;

/// TSGs that are added up in the place of a look.
const ADDED: u64 = 8;

/// What each user has of a tick.
#[derive(Clone, Copy, Default)]
pub(super) struct Share {
    pub(super) looks: u64,
    pub(super) searches: u64,
}

/// A program that is visited.
pub(super) struct Visit<'a> {
    pub(super) program: &'a mut Program,
    /// The looks that are left to its user.
    pub(super) looks: u64,
    /// Its memory is to be looked through.
    pub(super) is_searched: bool,
}

/// After a visit.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Then {
    GoOn,
    /// It is left alone from now on.
    Rest,
    /// This one is to be visited first the next time.
    Stop,
}

/// A user of programs with phases.
pub(super) struct User {
    awake: RBTree<usize, Program>,
    resting: RBTree<usize, Program>,
    /// Number of those that are looked at.
    count: u64,
    /// Looks in this tick, and those of earlier ones that went beyond a share.
    used: u64,
    /// Searches in this tick.
    searched: u64,
    /// Visits for signals in this tick.
    glances: u64,
    /// The key of the program that is visited first.
    next: usize,
    /// No signal is due before.
    due: Option<Ns>,
}

impl User {
    /// One without programs.
    pub(super) fn new() -> Self {
        Self {
            awake: RBTree::new(),
            resting: RBTree::new(),
            count: 0,
            used: 0,
            searched: 0,
            glances: 0,
            next: 0,
            due: None,
        }
    }

    /// True if there are no programs.
    pub(super) fn is_empty(&self) -> bool {
        self.awake.is_empty() && self.resting.is_empty()
    }

    /// True if none is to be looked at.
    pub(super) fn rests(&self) -> bool {
        self.awake.is_empty()
    }

    /// The program with a key.
    pub(super) fn get(&self, key: usize) -> Option<&Program> {
        self.awake.get(&key).or_else(|| self.resting.get(&key))
    }

    /// Adds a program, which is looked at.
    pub(super) fn insert(&mut self, node: RBTreeNode<usize, Program>) {
        if self.awake.insert(node).is_none() {
            self.count += 1;
        }
    }

    /// Removes a program.
    pub(super) fn remove(&mut self, key: usize) {
        if self.awake.remove(&key).is_some() {
            self.count -= 1;
        }
        self.resting.remove(&key);
    }

    /// A process has rung.
    pub(super) fn wake(&mut self, process: &Process) {
        let key = process.pid().key();
        let rests = self.resting.get(&key).is_some_and(|p| p.is_of(process));
        if let Some(node) = rests.then(|| self.resting.remove_node(&key)).flatten() {
            self.insert(node);
        }
        if let Some(program) = self.awake.get_mut(&key).filter(|p| p.is_of(process)) {
            program.wake();
        }
    }

    /// A tick begins; the share of the last one was `before`.
    pub(super) fn begin_tick(&mut self, before: Share) {
        self.used = self.used.saturating_sub(before.looks);
        (self.searched, self.glances) = (0, 0);
    }

    /// Calls `f`, which returns what it took in looks, for some of those that are looked at. So much
    /// is left to look at them.
    pub(super) fn plan(&mut self, share: Share, mut f: impl FnMut(&mut Program) -> u64) {
        let (mut visits, mut looks) = (0, 0);
        let left = share.looks.saturating_sub(self.used);
        let Self { awake, resting, .. } = self;
        walk(awake, resting, self.next, |_, program| {
            if visits >= share.looks || looks >= left.min(share.looks.div_ceil(2)) {
                return Then::Stop;
            }
            visits += 1;
            looks += f(program);
            Then::GoOn
        });
        self.used = self.used.saturating_add(looks);
    }

    /// Calls `f` for those that are looked at, as far as the share goes. `f` takes looks, and returns
    /// false if it is not through with one.
    pub(super) fn look(
        &mut self,
        share: Share,
        meters: &[Arc<Meters>],
        now: Ns,
        mut f: impl FnMut(&mut Visit<'_>) -> bool,
    ) {
        let Self { awake, resting, .. } = self;
        let stopped = walk(awake, resting, self.next, |key, program| {
            let looks = share.looks.saturating_sub(self.used);
            if looks == 0 {
                return Then::Stop;
            }
            program.begin_look();
            let add = |sum: u64, meters: &Arc<Meters>| sum + meters.add_to(program, now);
            let added = meters.iter().fold(0, add);
            let is_searched = self.searched < share.searches && program.is_to_look(now);
            self.searched += u64::from(is_searched);
            let mut visit = Visit {
                program,
                looks,
                is_searched,
            };
            let is_through = f(&mut visit);
            // The visit itself takes about as long as a look.
            let took = looks.saturating_sub(visit.looks) + 1 + added / ADDED;
            self.used = self.used.saturating_add(took);
            self.due = earlier(self.due, visit.program.due());
            match (is_through, visit.program.rests()) {
                (false, _) => Then::Stop,
                (true, false) => Then::GoOn,
                (true, true) => {
                    self.count -= 1;
                    meters.iter().for_each(|meters| meters.rest(key));
                    Then::Rest
                }
            }
        });
        self.next = stopped.unwrap_or(0);
    }

    /// Calls `f` for each that is looked at if a signal may be due. Returns when to do so again, unless
    /// that comes with the looks.
    pub(super) fn signal(
        &mut self,
        share: Share,
        now: Ns,
        mut f: impl FnMut(&mut Program),
    ) -> Option<Ns> {
        let glances = share.looks.saturating_mul(GLANCES);
        if self.count > glances {
            // They are signalled when they are looked at.
            return None;
        }
        if self.due? > now {
            return self.due;
        }
        if self.glances >= glances {
            return None;
        }
        self.glances += self.count;
        self.due = None;
        for program in self.awake.values_mut() {
            f(program);
            self.due = earlier(self.due, program.due());
        }
        self.due
    }
}

/// The earlier of two times.
pub(super) fn earlier(a: Option<Ns>, b: Option<Ns>) -> Option<Ns> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}

/// Calls `f` for each that is awake, once, from a key on and then from the first on. Returns the key of
/// the one at which it stopped.
fn walk<P>(
    awake: &mut RBTree<usize, P>,
    resting: &mut RBTree<usize, P>,
    from: usize,
    mut f: impl FnMut(usize, &mut P) -> Then,
) -> Option<usize> {
    for (begin, end) in [(from, None), (0, Some(from))] {
        let mut cursor = awake.cursor_lower_bound_mut(&begin);
        while let Some(mut at) = cursor {
            let (&key, program) = at.current_mut();
            if end.is_some_and(|end| key >= end) {
                break;
            }
            cursor = match f(key, program) {
                Then::GoOn => at.move_next(),
                Then::Rest => {
                    resting.insert(at.remove_current().1);
                    awake.cursor_lower_bound_mut(&key.saturating_add(1))
                }
                Then::Stop => return Some(key),
            };
        }
    }
    None
}

#[cfg(zernel_kunit)]
#[kernel::macros::kunit_tests(zernel_sampler_user)]
mod tests {
    use super::*;
    use kernel::prelude::*;

    /// Walks through the programs 2, 4, 6 and 8.
    fn walked(from: usize, then: fn(usize) -> Then) -> Result<(KVec<usize>, Option<usize>, usize)> {
        let (mut awake, mut resting) = (RBTree::new(), RBTree::new());
        for key in [2, 4, 6, 8] {
            awake.try_create_and_insert(key, (), GFP_KERNEL)?;
        }
        let mut keys = KVec::with_capacity(4, GFP_KERNEL)?;
        let stopped = walk(&mut awake, &mut resting, from, |key, ()| {
            let _ = keys.push_within_capacity(key);
            then(key)
        });
        Ok((keys, stopped, resting.keys().count()))
    }

    #[test]
    fn each_once_from_the_turn_on() -> Result {
        for (from, order) in [
            (0, [2, 4, 6, 8]),
            (5, [6, 8, 2, 4]),
            (6, [6, 8, 2, 4]),
            (9, [2, 4, 6, 8]),
        ] {
            let (keys, stopped, resting) = walked(from, |_| Then::GoOn)?;
            assert_eq!((&keys[..], stopped, resting), (&order[..], None, 0));
        }
        Ok(())
    }

    #[test]
    fn until_it_stops() -> Result {
        let stop = |key| match key {
            4 => Then::Stop,
            _ => Then::GoOn,
        };
        let (keys, stopped, _) = walked(6, stop)?;
        assert_eq!((&keys[..], stopped), (&[6, 8, 2, 4][..], Some(4)));
        Ok(())
    }

    #[test]
    fn those_that_rest_leave() -> Result {
        let rest = |key| match key {
            6 | 8 => Then::Rest,
            _ => Then::GoOn,
        };
        let (keys, stopped, resting) = walked(5, rest)?;
        assert_eq!((&keys[..], stopped, resting), (&[6, 8, 2, 4][..], None, 2));
        Ok(())
    }
}
