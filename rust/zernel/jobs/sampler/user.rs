// SPDX-License-Identifier: GPL-2.0
//! A user's programs: those that the sampler looks at and those that rest.
//!
//! In a tick so many of each user's are visited, from where the last tick has stopped: so a user with
//! many slows down only its own samples and signals.

#[cfg(zernel_kunit)]
mod tests;

use crate::policy::units::Ns;
use kernel::rbtree::{
    RBTree,
    RBTreeNode, //
};

/// Visits for signals in the place of a look, and the number that each user has in any case: they
/// take no more than a glance.
const GLANCES: u64 = 8;
const LEAST_GLANCES: u64 = 64;

/// For so long these are counted.
const WINDOW: Ns = Ns(1_000_000);

/// TSGs, or GPUs, that are added up in the place of a look.
pub(super) const ADDED: u64 = 8;

/// The share of each user in a tick.
#[derive(Clone, Copy, Default)]
pub(super) struct Share {
    pub(super) looks: u64,
    pub(super) searches: u64,
}

/// A program of a user.
pub(super) trait Visited {
    /// A visit begins: the GPUs' work for it is added up. Returns the number of its TSGs and GPUs.
    fn begin(&mut self, now: Ns) -> u64;

    /// True if its memory is to be searched now, which is then done.
    fn is_to_search(&mut self, now: Ns) -> bool;

    /// When its signal is due.
    fn due(&self) -> Option<Ns>;

    /// True if nobody looks at it, as nothing happens.
    fn rests(&self) -> bool;

    /// It is left alone from now on, and so are its TSGs.
    fn leave(&mut self);
}

/// A program that is visited.
pub(super) struct Visit<'a, P> {
    pub(super) program: &'a mut P,
    /// The looks that are left to its user.
    pub(super) looks: u64,
    /// Other work, in looks.
    pub(super) extra: u64,
    /// Its memory is to be searched.
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

/// When TSGs were named last.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Named {
    /// In this tick.
    Now,
    /// Before, and nobody was visited since.
    Before,
    /// Before the last visits.
    Long,
}

/// A user of programs with phases.
pub(super) struct User<P> {
    awake: RBTree<usize, P>,
    resting: RBTree<usize, P>,
    /// Number of those that are looked at.
    count: u64,
    /// Looks in this tick, and those of earlier ones that went beyond a share.
    used: u64,
    /// When the last tick with programs to look at has begun, and whether it rested since.
    ticked: Ns,
    has_rested: bool,
    named: Named,
    /// The key of the program whose TSGs are named first.
    next_named: usize,
    /// Searches in this tick.
    searched: u64,
    /// The key of the program that is visited first.
    next: usize,
    /// No signal is due before.
    due: Option<Ns>,
    /// Visits for signals since the window has begun.
    glances: u64,
    window: Ns,
}

impl<P: Visited> User<P> {
    /// One without programs.
    pub(super) fn new() -> Self {
        Self {
            awake: RBTree::new(),
            resting: RBTree::new(),
            count: 0,
            used: 0,
            ticked: Ns::ZERO,
            has_rested: false,
            named: Named::Long,
            next_named: 0,
            searched: 0,
            next: 0,
            due: None,
            glances: 0,
            window: Ns::ZERO,
        }
    }

    /// True if there are no programs.
    pub(super) fn is_empty(&self) -> bool {
        self.awake.is_empty() && self.resting.is_empty()
    }

    /// True if no program is to be looked at. One without programs is not forgotten before its looks
    /// are paid for.
    pub(super) fn rests(&self) -> bool {
        self.awake.is_empty() && (self.used == 0 || !self.resting.is_empty())
    }

    /// The program with a key.
    pub(super) fn get(&self, key: usize) -> Option<&P> {
        self.awake.get(&key).or_else(|| self.resting.get(&key))
    }

    /// Adds a program, which is looked at.
    pub(super) fn insert(&mut self, node: RBTreeNode<usize, P>) {
        if self.awake.insert(node).is_none() {
            self.count += 1;
        }
    }

    /// Takes a program out.
    pub(super) fn remove(&mut self, key: usize) -> Option<P> {
        let awake = self.awake.remove(&key);
        self.count -= u64::from(awake.is_some());
        awake.or_else(|| self.resting.remove(&key))
    }

    /// It has taken so many looks.
    pub(super) fn charge(&mut self, looks: u64) {
        self.used = self.used.saturating_add(looks);
    }

    /// It is left alone from now on.
    pub(super) fn rest(&mut self) {
        self.has_rested = true;
    }

    /// Has a program looked at again, if it rests. Returns it.
    pub(super) fn wake(&mut self, key: usize) -> Option<&mut P> {
        if let Some(node) = self.resting.remove_node(&key) {
            self.insert(node);
        }
        self.awake.get_mut(&key)
    }

    /// A tick of this length begins; the share of the last one was `before`. The time of a rest pays
    /// for looks as ticks do.
    pub(super) fn begin_tick(&mut self, before: Share, now: Ns, tick: Ns) {
        let ticks = match core::mem::take(&mut self.has_rested) {
            true => now.saturating_sub(self.ticked).0.checked_div(tick.0),
            false => None,
        };
        let paid = before.looks.saturating_mul(ticks.unwrap_or(1).max(1));
        self.used = self.used.saturating_sub(paid);
        self.ticked = now;
        self.searched = 0;
    }

    /// Calls `f`, which names the TSGs of a program and returns what that took in looks, for some of
    /// those that are looked at. However many TSGs come and go, programs are visited in between.
    pub(super) fn name(&mut self, share: Share, mut f: impl FnMut(&mut P) -> u64) {
        if self.named != Named::Long {
            self.named = Named::Before;
            return;
        }
        let left = share.looks.saturating_sub(self.used);
        let (mut visits, mut looks) = (0, 0);
        let Self { awake, resting, .. } = self;
        let stopped = walk(awake, resting, self.next_named, |_, program| {
            if visits >= share.looks || looks >= left.min(share.looks / 2) {
                return Then::Stop;
            }
            visits += 1;
            looks += f(program);
            Then::GoOn
        });
        self.next_named = stopped.unwrap_or(0);
        if looks > 0 {
            self.named = Named::Now;
            self.charge(looks);
        }
    }

    /// Calls `f` for those that are looked at, as far as the share goes. `f` takes looks, and returns
    /// false if it is not through with one.
    pub(super) fn look(
        &mut self,
        share: Share,
        now: Ns,
        mut f: impl FnMut(&mut Visit<'_, P>) -> bool,
    ) {
        let Self { awake, resting, .. } = self;
        let stopped = walk(awake, resting, self.next, |_, program| {
            let looks = share.looks.saturating_sub(self.used);
            if looks == 0 {
                return Then::Stop;
            }
            if self.named == Named::Before {
                self.named = Named::Long;
            }
            let added = program.begin(now);
            let is_searched = self.searched < share.searches && program.is_to_search(now);
            let mut visit = Visit {
                program,
                looks,
                extra: 0,
                is_searched,
            };
            let is_through = f(&mut visit);
            // The visit itself takes about as long as a look.
            let took = looks.saturating_sub(visit.looks) + 1 + added / ADDED;
            self.used = self.used.saturating_add(took.saturating_add(visit.extra));
            self.searched += u64::from(is_searched);
            self.due = earlier(self.due, visit.program.due());
            match (is_through, visit.program.rests()) {
                (false, _) => Then::Stop,
                (true, false) => Then::GoOn,
                (true, true) => {
                    self.count -= 1;
                    visit.program.leave();
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
        mut f: impl FnMut(&mut P),
    ) -> Option<Ns> {
        let glances = share.looks.saturating_mul(GLANCES).max(LEAST_GLANCES);
        if self.count > glances {
            // They are signalled when they are looked at.
            return None;
        }
        if self.due? > now {
            return self.due;
        }
        let end = self.window.saturating_add(WINDOW);
        if end <= now {
            (self.window, self.glances) = (now, 0);
        } else if self.glances >= glances {
            return Some(end);
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
    [a, b].into_iter().flatten().min()
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
