// SPDX-License-Identifier: GPL-2.0
//! A user's programs: those that the sampler looks at and those that rest.
//!
//! In a tick so many of each user's are visited, from where the last tick has stopped: so a user with
//! many slows down only its own samples and signals.

use crate::{
    policy::units::Ns,
    registry::meters::Meters, //
};
use kernel::{
    rbtree::{
        RBTree,
        RBTreeNode, //
    },
    sync::Arc, //
};

/// Visits for signals in the place of a look, and the number that each user has in any case: they
/// take no more than a glance.
const GLANCES: u64 = 8;
const LEAST_GLANCES: u64 = 64;

/// For so long these are counted.
const WINDOW: Ns = Ns(1_000_000);

/// TSGs, or GPUs, that are added up in the place of a look.
const ADDED: u64 = 8;

/// The price of a search of a program's memory, in looks.
const SEARCH: u64 = 8;

/// The share of each user in a tick.
#[derive(Clone, Copy, Default)]
pub(super) struct Share {
    pub(super) looks: u64,
    pub(super) searches: u64,
}

/// A program of a user.
pub(super) trait Visited {
    /// A visit begins: the GPUs' work for it is added up. Returns the number of its TSGs.
    fn begin(&mut self, meters: &[Arc<Meters>], now: Ns) -> u64;

    /// True if its memory is to be searched now, which is then done.
    fn is_to_search(&mut self, now: Ns) -> bool;

    /// When its signal is due.
    fn due(&self) -> Option<Ns>;

    /// True if nobody looks at it, as nothing happens.
    fn rests(&self) -> bool;
}

/// A program that is visited.
pub(super) struct Visit<'a, P> {
    pub(super) program: &'a mut P,
    /// The looks that are left to its user.
    pub(super) looks: u64,
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

/// A user of programs with phases.
pub(super) struct User<P> {
    awake: RBTree<usize, P>,
    resting: RBTree<usize, P>,
    /// Number of those that are looked at.
    count: u64,
    /// Looks in this tick, and those of earlier ones that went beyond a share.
    used: u64,
    /// Nobody was visited since TSGs were named.
    has_named: bool,
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
            has_named: false,
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

    /// Removes a program, which had so many TSGs.
    pub(super) fn remove(&mut self, key: usize, tsgs: u64) {
        if self.awake.remove(&key).is_some() {
            self.count -= 1;
        }
        self.resting.remove(&key);
        self.used = self.used.saturating_add(tsgs / ADDED);
    }

    /// Has a program looked at again, if it rests. Returns it.
    pub(super) fn wake(&mut self, key: usize) -> Option<&mut P> {
        if let Some(node) = self.resting.remove_node(&key) {
            self.insert(node);
        }
        self.awake.get_mut(&key)
    }

    /// A tick begins; the share of the last one was `before`.
    pub(super) fn begin_tick(&mut self, before: Share) {
        self.used = self.used.saturating_sub(before.looks);
        self.searched = 0;
    }

    /// Calls `f`, which names the TSGs of a program and returns what that took in looks, for some of
    /// those that are looked at. However many TSGs come and go, programs are visited in between.
    pub(super) fn name(&mut self, share: Share, mut f: impl FnMut(&mut P) -> u64) {
        let left = share.looks.saturating_sub(self.used);
        if self.has_named {
            return;
        }
        let (mut visits, mut looks) = (0, 0);
        let Self { awake, resting, .. } = self;
        walk(awake, resting, self.next, |_, program| {
            if visits >= share.looks || looks >= left.min(share.looks / 2) {
                return Then::Stop;
            }
            visits += 1;
            looks += f(program);
            Then::GoOn
        });
        self.has_named = looks > 0;
        self.used = self.used.saturating_add(looks);
    }

    /// Calls `f` for those that are looked at, as far as the share goes. `f` takes looks, and returns
    /// false if it is not through with one.
    pub(super) fn look(
        &mut self,
        share: Share,
        meters: &[Arc<Meters>],
        now: Ns,
        mut f: impl FnMut(&mut Visit<'_, P>) -> bool,
    ) {
        let Self { awake, resting, .. } = self;
        let stopped = walk(awake, resting, self.next, |key, program| {
            let looks = share.looks.saturating_sub(self.used);
            if looks == 0 {
                return Then::Stop;
            }
            self.has_named = false;
            let added = program
                .begin(meters, now)
                .saturating_add(meters.len() as u64);
            let is_searched = self.searched < share.searches && program.is_to_search(now);
            let search = u64::from(is_searched);
            let mut visit = Visit {
                program,
                looks,
                is_searched,
            };
            let is_through = f(&mut visit);
            // The visit itself takes about as long as a look.
            let took = looks.saturating_sub(visit.looks) + 1 + added / ADDED + search * SEARCH;
            self.used = self.used.saturating_add(took);
            self.searched += search;
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

    const SHARE: Share = Share {
        looks: 8,
        searches: 1,
    };

    /// A program with a thread.
    #[derive(Default)]
    struct Fake {
        visits: u32,
        tsgs: u64,
        rests: bool,
        due: Option<Ns>,
    }

    impl Visited for Fake {
        fn begin(&mut self, _: &[Arc<Meters>], _: Ns) -> u64 {
            self.visits += 1;
            self.tsgs
        }

        fn is_to_search(&mut self, _: Ns) -> bool {
            false
        }

        fn due(&self) -> Option<Ns> {
            self.due
        }

        fn rests(&self) -> bool {
            self.rests
        }
    }

    /// A user with so many programs.
    fn user(count: usize) -> Result<User<Fake>> {
        let mut user = User::new();
        for key in 1..=count {
            user.insert(RBTreeNode::new(key, Fake::default(), GFP_KERNEL)?);
        }
        Ok(user)
    }

    /// A tick, in which naming takes so many looks for each program. Returns the visits.
    fn tick(user: &mut User<Fake>, share: Share, named: u64) -> u32 {
        let sum = |user: &User<Fake>| user.awake.values().map(|p| p.visits).sum::<u32>();
        let before = sum(user);
        user.begin_tick(share);
        user.name(share, |_| named);
        user.look(share, &[], Ns(0), |visit| {
            visit.looks -= 1;
            true
        });
        sum(user) - before
    }

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

    #[test]
    fn a_tick_visits_as_many_as_the_share_says() -> Result {
        for count in [3, 100] {
            let mut user = user(count)?;
            for _ in 0..100 {
                // A visit and a look each.
                assert!(tick(&mut user, SHARE, 0) <= 4);
            }
            let visits = || user.awake.values().map(|p| p.visits);
            let fewest = 100 * 4 / count as u32;
            assert!(visits().all(|visits| visits >= fewest.min(100) - 1));
        }
        Ok(())
    }

    #[test]
    fn naming_leaves_time_for_visits() -> Result {
        let least = Share { looks: 2, ..SHARE };
        for (share, took) in [(least, 1), (SHARE, 4), (SHARE, 129)] {
            let mut user = user(3)?;
            for _ in 0..1_000 {
                tick(&mut user, share, took);
            }
            assert!(user.awake.values().all(|p| p.visits >= 10));
        }
        Ok(())
    }

    #[test]
    fn a_debt_is_paid_first() -> Result {
        let mut user = user(1)?;
        user.remove(1, 10 * SHARE.looks * ADDED);
        assert!(user.is_empty() && !user.rests());
        user.insert(RBTreeNode::new(1, Fake::default(), GFP_KERNEL)?);
        let mut ticks = 1;
        while tick(&mut user, SHARE, 0) == 0 {
            ticks += 1;
        }
        assert_eq!(ticks, 10);
        Ok(())
    }

    #[test]
    fn signals_come_in_time() -> Result {
        let mut user = user(LEAST_GLANCES as usize)?;
        let due = Ns(5_000_000);
        if let Some(program) = user.awake.get_mut(&7) {
            program.due = Some(due);
        }
        let least = Share { looks: 2, ..SHARE };
        // The visit of the program, with a few others.
        for _ in 0..LEAST_GLANCES {
            tick(&mut user, least, 0);
        }
        let mut given = 0;
        let mut give = |program: &mut Fake, now| {
            given += u32::from(program.due.take_if(|due| *due <= now).is_some());
        };
        let before = Ns(due.0 - 1);
        assert_eq!(user.signal(least, before, |p| give(p, before)), Some(due));
        assert_eq!(user.signal(least, due, |p| give(p, due)), None);
        // The next one comes when the window is over.
        if let Some(program) = user.awake.get_mut(&7) {
            program.due = Some(due);
        }
        user.due = Some(due);
        let end = due.saturating_add(WINDOW);
        assert_eq!(user.signal(least, due, |p| give(p, due)), Some(end));
        assert_eq!(user.signal(least, end, |p| give(p, end)), None);
        assert_eq!(given, 2);
        Ok(())
    }
}
