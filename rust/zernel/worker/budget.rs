// SPDX-License-Identifier: GPL-2.0
//! Keeps the levels above best-effort within their budgets, from the worker of a GPU: carries out
//! decisions of [`policy::budget`](crate::policy::budget).

use super::{
    activity::{
        behind,
        key,
        Activity,
        Key,
        Looker,
        Walk, //
    },
    follow::Followers, //
};
use crate::{
    glue::time::now_ns,
    policy::{
        budget::{
            Params,
            Server,
            State, //
        },
        deadline::company::Crowd,
        level::{
            self,
            Level, //
        },
        slices::held_for,
        units::Ns, //
    },
    registry::{
        self,
        gpu,
        plan::Change,
        tsg, //
    },
    tuned,
    worker::calls::Calls, //
};
use kernel::{
    prelude::*,
    rbtree::{
        RBTree,
        RBTreeNodeReservation, //
    },
};

/// The part of a TSG in the counts.
#[derive(Clone, Copy)]
struct Part {
    level: Level,
    /// It may keep the engine.
    may_keep: bool,
    user: u32,
}

/// A TSG of a level with a budget.
///
/// # Invariants
///
/// Without `spare` it is one of those that have something to run.
struct Watched {
    tsg: tsg::Id,
    part: Part,
    /// GPU time that it had when it was last looked at.
    ran: Option<Ns>,
    /// It had the slice of best-effort then, as its level is throttled.
    is_lowered: bool,
    /// The node for its place among those.
    spare: Option<RBTreeNodeReservation<Key, ()>>,
}

/// The budgets of a GPU.
pub(crate) struct Budgets {
    /// One per level that has a budget.
    servers: KVec<(Level, Server)>,
    watched: RBTree<Key, Watched>,
    /// Those that have something to run.
    running: RBTree<Key, ()>,
    /// The number of these, by level.
    counts: [usize; level::COUNT],
    /// The number of those that may keep the engine, by level.
    keepers: [usize; level::COUNT],
    /// Their users, by level.
    crowds: [Crowd; level::COUNT],
    /// The order of deadlines knows that these levels are shared.
    told: level::Set,
    throttled: level::Set,
    /// TSGs that are still to follow the last change of these.
    follow: Followers,
    /// Some may still have a slice of before that change.
    is_settling: bool,
    /// The level for which others are kept off the GPU, and since when that is not charged.
    held: Option<(Level, Ns)>,
    walk: Walk,
    /// Those that have something to run are looked at from here on.
    from: Key,
    /// So many of them are still to be looked at until all of their time is charged.
    left: usize,
    /// When all are to be looked at again.
    due: Option<Ns>,
    /// GPU time of each level that was seen and is not charged yet.
    ran: [Ns; level::COUNT],
}

/// The time of the next look.
pub(crate) enum Next {
    /// More TSGs are to be looked at.
    Again,
    /// Then; `None`: when a TSG gets something to run.
    At(Option<Ns>),
}

impl Budgets {
    /// Nobody is watched.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new() -> Result<Self> {
        Ok(Self {
            servers: KVec::with_capacity(level::COUNT, GFP_KERNEL)?,
            watched: RBTree::new(),
            running: RBTree::new(),
            counts: [0; level::COUNT],
            keepers: [0; level::COUNT],
            crowds: [Crowd::default(); level::COUNT],
            told: level::Set::NONE,
            throttled: level::Set::NONE,
            follow: Followers::none(),
            is_settling: false,
            held: None,
            walk: Walk::new(Looker::Budgets),
            from: (0, 0),
            left: 0,
            due: None,
            ran: [Ns::ZERO; level::COUNT],
        })
    }

    /// True if a look at all TSGs is over.
    pub(crate) fn has_looked(&self, activity: &Activity) -> bool {
        self.walk.is_over(activity)
    }

    /// True if a TSG has something to run.
    pub(crate) fn has_running(&self) -> bool {
        !self.running.is_empty()
    }

    /// True if nobody is watched.
    pub(crate) fn is_empty(&self) -> bool {
        self.watched.is_empty()
    }

    /// Levels that have something to run.
    fn runs(&self) -> level::Set {
        let mut runs = level::Set::NONE;
        for (level, count) in Level::ALL.into_iter().zip(self.counts) {
            runs.put(level, count > 0);
        }
        runs
    }

    /// True if a TSG that is not treated like best-effort has something to run.
    pub(crate) fn is_busy(&self) -> bool {
        let runs = self.runs();
        Level::ALL
            .into_iter()
            .any(|level| runs.contains(level) && !self.throttled.contains(level))
    }

    /// True if a less urgent level than this keeps the engine to the end of its burst: it has
    /// something to run and budget left. `kept`: the levels that do so.
    pub(crate) fn keeps_from(&self, level: Level, kept: level::Set) -> bool {
        let kept = kept.without(self.throttled);
        Level::ALL
            .into_iter()
            .zip(self.keepers)
            .any(|(below, count)| count > 0 && level.is_above(below) && kept.contains(below))
    }

    /// The levels that are shared, where those have changed: TSGs of several users had something to run there or
    /// above when they were looked at last, or its budget is spent. All are while nobody can look (`can_look`).
    pub(crate) fn news_of_shared(&mut self, can_look: bool) -> Option<level::Set> {
        let mut shared = self.throttled;
        let mut all = Crowd::default();
        for (level, crowd) in Level::ALL.into_iter().zip(self.crowds) {
            all = all.with(crowd);
            if !can_look || all.is_mixed() {
                shared.put(level, true);
            }
        }
        let old = core::mem::replace(&mut self.told, shared);
        (old != shared).then_some(shared)
    }

    /// Levels with a spent budget.
    pub(crate) fn throttled(&self) -> level::Set {
        self.throttled
    }

    /// Nobody is kept off the GPU any more, or nobody could use it meanwhile: that is not charged.
    pub(crate) fn release(&mut self) {
        self.held = None;
    }

    /// Takes over the tunables. Spent budget stays spent.
    pub(crate) fn set_params(&mut self, budgets: &[Option<Params>; level::COUNT]) {
        for (level, params) in Level::ALL.into_iter().zip(budgets) {
            let known = self.servers.iter_mut().find(|(of, _)| *of == level);
            match (known, params) {
                (Some((_, server)), Some(params)) => server.set_params(*params),
                (None, Some(params)) => {
                    // There is room, and the levels come in their order.
                    let server = Server::new(*params);
                    let _ = self.servers.push_within_capacity((level, server));
                }
                _ => {}
            }
        }
    }

    /// Takes over a TSG that has come, gone or changed. GPU time of one that leaves a level counts for that
    /// until now.
    ///
    /// # Errors
    ///
    /// `ENOMEM`; it is not watched then.
    pub(crate) fn take(
        &mut self,
        driver: &impl Calls,
        change: &Change,
        activity: &Activity,
    ) -> Result {
        let key = key(change.handle);
        let known = self.watched.get(&key).map(|watched| watched.part);
        let leaves = |old: Part| change.budget != Some(old.level);
        if known.is_some_and(leaves) {
            let ran = match change.ended {
                Some(ran) => Some(ran),
                None => driver.load(key.1).ok().map(|sample| sample.ran),
            };
            self.see(key, ran);
        }
        let part = |level| Part {
            level,
            may_keep: change.may_keep,
            user: change.user,
        };
        match (known, change.budget.map(part)) {
            (Some(old), Some(new)) => {
                if let Some(watched) = self.watched.get_mut(&key) {
                    watched.part = new;
                    if watched.spare.is_none() {
                        self.count(old, false);
                        self.count(new, true);
                    }
                }
            }
            (Some(_), None) => {
                self.set_running(key, false);
                self.watched.remove(&key);
            }
            (None, Some(part)) => {
                let spare = RBTreeNodeReservation::new(GFP_KERNEL)?;
                // INVARIANT: It is looked at before it counts as one that has something to run.
                let new = Watched {
                    tsg: change.id,
                    part,
                    ran: None,
                    is_lowered: false,
                    spare: Some(spare),
                };
                self.watched.try_create_and_insert(key, new, GFP_KERNEL)?;
                activity.put(Looker::Budgets, change.handle);
            }
            (None, None) => {}
        }
        Ok(())
    }

    fn count(&mut self, part: Part, more: bool) {
        let place = part.level.number() as usize;
        if let Some(crowd) = self.crowds.get_mut(place) {
            crowd.count(part.user, more);
        }
        let keepers = self.keepers.get_mut(place).filter(|_| part.may_keep);
        let both = [self.counts.get_mut(place), keepers];
        for count in both.into_iter().flatten() {
            *count = match more {
                true => count.saturating_add(1),
                false => count.saturating_sub(1),
            };
        }
    }

    /// A TSG has something to run, or has not any more.
    fn set_running(&mut self, key: Key, runs: bool) {
        let Some(watched) = self.watched.get_mut(&key) else {
            return;
        };
        let part = watched.part;
        match (runs, watched.spare.take()) {
            (true, Some(spare)) => {
                // INVARIANT: It is one of them.
                self.running.insert(spare.into_node(key, ()));
                self.count(part, true);
            }
            (false, None) => {
                // INVARIANT: It is none of them any more.
                let node = self.running.remove_node(&key);
                watched.spare = node.map(|node| node.into_reservation());
                self.count(part, false);
            }
            (_, spare) => watched.spare = spare,
        }
    }

    /// Looks at a few of the TSGs that were reported.
    pub(crate) fn look(&mut self, driver: &impl Calls, activity: &Activity) {
        self.walk.rest();
        while let Some(key) = self.walk.next(&self.watched, activity) {
            self.look_at(driver, key);
        }
    }

    /// Charges GPU time to the budgets, and looks at a few TSGs for that: those that were reported,
    /// and those that run. Where these are more than a few, it goes through all of them when their
    /// time may have spent a budget, or one may still have a slice of before it was spent, and charges
    /// when it is through.
    ///
    /// `served`: GPU time that best-effort has had, and by when. `held`: the level for which others are
    /// kept off the GPU, since this time or an earlier step.
    pub(crate) fn step(
        &mut self,
        driver: &impl Calls,
        (gpu, activity): (gpu::Id, &Activity),
        served: Option<(Ns, Ns)>,
        held: Option<(Level, Ns)>,
    ) -> Next {
        self.follow.step();
        self.look(driver, activity);
        self.look_at_running(driver);
        if self.left > 0 {
            return Next::Again;
        }
        let now = Ns(now_ns());
        for (_, server) in &mut self.servers {
            let (ran, at) = served.unzip();
            server.serve(at.unwrap_or(now), ran);
        }
        let since = self.held.or(held);
        self.held = held.map(|(level, _)| (level, now));
        let since = since.map(|(level, since)| (level, now.saturating_sub(since)));
        self.due = self.charge(gpu, now, since);
        match self.walk.is_over(activity) && self.follow.are_none() {
            true => Next::At(self.due),
            false => Next::Again,
        }
    }

    fn look_at_running(&mut self, driver: &impl Calls) {
        let all = self.counts.iter().sum();
        let is_due = self.due.is_none_or(|due| due <= Ns(now_ns()));
        if self.left == 0 && (all <= Walk::LOOKS || is_due || self.is_settling) {
            self.left = all;
            self.is_settling = !self.follow.are_none();
        }
        for _ in 0..self.left.min(Walk::LOOKS) {
            let first = |from: &Key| {
                let cursor = self.running.cursor_lower_bound(from);
                cursor.map(|cursor| *cursor.current().0)
            };
            let Some(key) = first(&self.from).or_else(|| first(&(0, 0))) else {
                self.left = 0;
                return;
            };
            self.from = behind(key);
            self.left -= 1;
            self.look_at(driver, key);
        }
    }

    /// Counts GPU time that a TSG has had since it was last looked at for its level.
    fn see(&mut self, key: Key, ran: Option<Ns>) {
        let (Some(watched), Some(ran)) = (self.watched.get_mut(&key), ran) else {
            return;
        };
        let before = watched.ran.replace(ran).unwrap_or(ran);
        // Work like best-effort is not charged.
        let is_charged = !(self.throttled.contains(watched.part.level) && watched.is_lowered);
        let sum = self.ran.get_mut(watched.part.level.number() as usize);
        if let Some(sum) = sum.filter(|_| is_charged) {
            *sum = sum.saturating_add(ran.saturating_sub(before));
        }
    }

    fn look_at(&mut self, driver: &impl Calls, key: Key) {
        // One that is gone is about to be removed.
        let Ok(sample) = driver.load(key.1) else {
            return;
        };
        self.see(key, Some(sample.ran));
        let Some(watched) = self.watched.get_mut(&key) else {
            return;
        };
        // Its work is like best-effort's only once the provider has lowered the slice.
        let is_throttled = self.throttled.contains(watched.part.level);
        let tsg = watched.tsg;
        watched.is_lowered = is_throttled
            && self.follow.are_none()
            && registry::with(|r| Some(r.has_its_slice(tsg))).is_ok_and(|is| is != Some(false));
        self.is_settling |= is_throttled && sample.runnable && !watched.is_lowered;
        self.set_running(key, sample.runnable);
    }

    /// Charges each level for itself and for those that are more urgent, which keep BE waiting too.
    /// `held`: how long others were kept off the GPU, all of which BE has waited for, whether or not
    /// something ran. Less urgent levels that keep the engine pay for their part themselves.
    fn charge(&mut self, gpu: gpu::Id, now: Ns, held: Option<(Level, Ns)>) -> Option<Ns> {
        let ran = core::mem::replace(&mut self.ran, [Ns::ZERO; level::COUNT]);
        let kept = tuned::kept_levels().without(self.throttled);
        let held = held.map(|(by, time)| (by, held_for(by, time, &ran, kept)));
        let runs = self.runs();
        let mut throttled = level::Set::NONE;
        let mut next: Option<Ns> = None;
        let mut sum = Ns::ZERO;
        let mut busy = false;
        let mut charged = 0;
        for (level, server) in &mut self.servers {
            while charged <= level.number() as usize {
                sum = sum.saturating_add(ran.get(charged).copied().unwrap_or_default());
                busy |= Level::ALL.get(charged).is_some_and(|&l| runs.contains(l));
                charged += 1;
            }
            if let Some((_, time)) = held.filter(|(by, _)| by.number() <= level.number()) {
                sum = sum.max(time);
                busy = true;
            }
            let at = match server.charge(now, sum) {
                State::Throttled { until } => {
                    throttled.put(*level, true);
                    Some(until)
                }
                State::Free { left } => busy.then(|| now.saturating_add(left)),
            };
            next = match (next, at) {
                (Some(next), Some(at)) => Some(next.min(at)),
                (next, at) => next.or(at),
            };
        }
        if throttled != self.throttled {
            // Without a registry there is nothing to change.
            let changed = registry::with(|r| r.set_throttled(gpu, throttled)).unwrap_or(None);
            self.follow.change(changed);
            self.throttled = throttled;
            self.is_settling = true;
        }
        next
    }
}
