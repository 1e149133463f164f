// SPDX-License-Identifier: GPL-2.0 OR MIT
//! The earliest deadline first with preemption: the GPU is taken from a request for one with an earlier
//! deadline, and given back.
//!
//! A request that is taken from is *held*: its TSG yields, and is kept off the GPU after [`BOUND`]. It goes
//! on once nothing with an earlier deadline has the GPU or waits for it, and in any case at its own
//! deadline, at the end of its lease and with another order: no event of others is needed for that. It
//! is held [`HOLDS`] times at most. A TSG is held with all its requests that have the GPU, and goes on with all,
//! also where another request of it has the GPU. A user holds others' requests for half of the time, and no more:
//! deadlines cost nothing to state. The user of the request that has the GPU pays, be it triggered by its
//! turn, at its deadline or by its process; with nothing left those of others go on.
//!
//! That is optimal among all policies where a switch costs nothing (Dertouzos: *Control robotics: the
//! procedural control of physical processes*, IFIP 1974). It does: a deadline that is earlier by less than
//! [`MARGIN`] takes nothing.
//!
//! A request with a promise is not taken from: its end was promised without that.

#[cfg(any(test, zernel_kunit))]
mod scenarios;

use super::{
    entry::{
        Entry,
        Hold,
        Part,
        Terms, //
    },
    line::{
        Lane,
        Line,
        Place, //
    },
};
use crate::policy::{
    level::Level,
    units::Ns, //
};

/// From the moment at which a TSG yields, in slice and interleave, to that at which it is disabled if it
/// still has something to run: about two switches.
pub(crate) const BOUND: Ns = Ns(200_000);
/// A deadline that is earlier by less than this takes nothing from a request: about two switches.
pub(crate) const MARGIN: Ns = Ns(250_000);
/// A request is held so often at most.
pub(crate) const HOLDS: u8 = 4;
/// TSGs of a GPU that are held at a time, of which a user has a [`Quota`](super::quota::Quota).
pub(crate) const MOST: usize = 8;

/// One thing that was decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Nothing, for now.
    Rest,
    /// It is the turn of a request that waits.
    Go(Place),
    /// A request is held from now on, with all of its TSG. There may be more to do.
    Held(Place),
    /// A request is not held any more, and more of its TSG may not be. There may be more to do.
    Resumed(Place),
    /// Another user pays for those that are held, so that they may go on at another time. There may be more
    /// to do.
    Charged,
}

/// A TSG that is to be off the GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wish {
    /// The name of the TSG.
    pub(crate) tsg: u64,
    /// The level of its request.
    pub(crate) level: Level,
}

impl Entry {
    /// When it is held no longer, for anything that others do.
    fn held_until(&self) -> Option<Ns> {
        match self.part {
            Part::Held(hold) => Some(hold.until.min(self.claim.deadline)),
            _ => None,
        }
    }

    /// It goes on if it is held. `at_last`: it is not held again.
    fn go_on(&mut self, at_last: bool) {
        let Part::Held(hold) = self.part else {
            return;
        };
        self.part = Part::Runs(hold.until);
        if let (true, Some(terms)) = (at_last, &mut self.terms) {
            terms.holds = HOLDS;
        }
    }

    /// True if the GPU can be taken from it for another one.
    fn gives_way_to(&self, other: &Self, now: Ns) -> bool {
        let (Some(own), Some(others)) = (self.terms, other.terms) else {
            return false;
        };
        own.tsg != others.tsg
            && own.holds < HOLDS
            && !self.is_promised
            && self.claim.deadline > now
            && other.claim.deadline.saturating_add(MARGIN) < self.claim.deadline
    }
}

impl Line {
    /// A request takes part in preemption. `tsg`: the name of its TSG.
    pub(crate) fn contends(&mut self, place: Place, tsg: u64) {
        if let Some(entry) = self.entry_mut(place) {
            entry.terms = Some(Terms { tsg, holds: 0 });
        }
    }

    /// True if a request is held.
    pub(crate) fn holds(&self, place: Place) -> bool {
        let entry = self.entry(place);
        entry.is_some_and(|entry| matches!(entry.part, Part::Held(_)))
    }

    /// True if a request was held: the time since its trigger is not that of its burst.
    pub(crate) fn was_held(&self, place: Place) -> bool {
        let terms = self.entry(place).and_then(|entry| entry.terms);
        terms.is_some_and(|terms| terms.holds > 0)
    }

    fn entry_mut(&mut self, place: Place) -> Option<&mut Entry> {
        self.entries.get_mut(place.number())?.as_mut()
    }

    fn held(&self) -> impl Iterator<Item = (Place, &Entry)> {
        self.in_order()
            .filter(|(_, entry)| matches!(entry.part, Part::Held(_)))
    }

    /// The lane of a request that is held no longer, and when the next one is not.
    pub(crate) fn released(&self, now: Ns) -> (Option<Lane>, Option<Ns>) {
        let tsgs = self.held_tsgs();
        let own = || {
            let held = self.held();
            held.filter_map(|(_, entry)| Some((entry.lane, entry.held_until()?)))
        };
        // When those that hold others have no credit left.
        let spent = || {
            tsgs.of_others().filter_map(|tsg| {
                let at = self.credits.spent_at(tsg.by, tsgs.paid_by(tsg.by))?;
                Some((tsg.lane, at))
            })
        };
        let all = || own().chain(spent());
        let due = all().find(|(_, at)| *at <= now).map(|(lane, _)| lane);
        (due, all().map(|(_, at)| at).min())
    }

    /// The lane of a request that is held.
    pub(crate) fn held_lane(&self) -> Option<Lane> {
        self.held().next().map(|(_, entry)| entry.lane)
    }

    /// The TSGs that are to be off the GPU: those of requests that are held, and of none that has it.
    pub(crate) fn wishes(&self, now: Ns) -> [Option<Wish>; MOST] {
        let mut wishes = [None; MOST];
        for (_, entry) in self.held() {
            let (Some(terms), Part::Held(_)) = (entry.terms, entry.part) else {
                continue;
            };
            let is_same = |other: &Entry| other.terms.is_some_and(|t| t.tsg == terms.tsg);
            let mut all = self.in_order().map(|(_, other)| other);
            if all.any(|other| other.has_gpu(now) && is_same(other)) {
                continue;
            }
            let known = |wish: &Option<Wish>| wish.is_none_or(|wish| wish.tsg == terms.tsg);
            if let Some(wish) = wishes.iter_mut().find(|wish| known(wish)) {
                *wish = Some(Wish {
                    tsg: terms.tsg,
                    level: entry.lane.level,
                });
            }
        }
        wishes
    }

    /// Decides one thing of a lane, and notes it, but for a turn: that is the caller's to note. `on`: this
    /// order is in force.
    pub(crate) fn step(&mut self, lane: Lane, now: Ns, on: bool) -> Step {
        self.count(now);
        if let Some(place) = self.end_holds(lane, now, on) {
            return Step::Resumed(place);
        }
        if let Some(place) = self.joined(lane, now) {
            return self.resume(place, false);
        }
        let wants = |entry: &Entry| match entry.part {
            Part::Waits => self.may_go(entry, now),
            Part::Held(_) => true,
            _ => false,
        };
        let best = self.of(lane).find(|(_, entry)| wants(entry));
        let Some((place, best)) = best.map(|(place, entry)| (place, *entry)) else {
            return Step::Rest;
        };
        let runner = self.of(lane).find(|(_, entry)| entry.has_gpu(now));
        let waits = best.part == Part::Waits;
        match runner.map(|(place, entry)| (place, entry.user)) {
            None if waits => {
                // It runs with the request that is held, or not at all.
                if let Some(held) = self.own_hold(lane, &best) {
                    return self.resume(held, true);
                }
                match self.overdrawn(lane, best.user) {
                    Some(held) => self.resume(held, false),
                    None => Step::Go(place),
                }
            }
            None => self.resume(place, false),
            Some((runner, _)) if waits && on && self.may_take(lane, &best, now) => {
                self.hold(runner, lane, best.user, now)
            }
            Some((_, user)) => {
                // Nobody is held for later deadlines, nor for a user that cannot pay.
                let held = self.outlasted(lane, now);
                match held.or_else(|| self.overdrawn(lane, user)) {
                    Some(held) => self.resume(held, false),
                    None if self.charge(lane, user) => Step::Charged,
                    None => Step::Rest,
                }
            }
        }
    }

    /// Counts the time of all holds up to now.
    pub(super) fn count(&mut self, now: Ns) {
        let tsgs = self.held_tsgs();
        self.credits.pass(tsgs.of_others().map(|tsg| tsg.by), now);
    }

    /// Those of a lane that are held no longer, for anything that others do, go on. Returns one of them.
    fn end_holds(&mut self, lane: Lane, now: Ns, on: bool) -> Option<Place> {
        let mut first = None;
        for (number, entry) in self.entries.iter_mut().enumerate() {
            let Some(entry) = entry.as_mut().filter(|entry| entry.lane == lane) else {
                continue;
            };
            if entry.held_until().is_some_and(|end| end <= now || !on) {
                entry.go_on(true);
                first = first.or(Some(Place(number)));
            }
        }
        first
    }

    /// A request that is held though its TSG has the GPU by another one.
    fn joined(&self, lane: Lane, now: Ns) -> Option<Place> {
        let held = self.held_tsgs();
        let mut tsgs = held.all().filter(|tsg| tsg.lane == lane);
        let has_gpu = |name| {
            let mut all = self.of(lane);
            all.any(|(_, entry)| entry.has_gpu(now) && entry.is_of(lane, name))
        };
        let name = tsgs.find(|tsg| has_gpu(tsg.name))?.name;
        self.held_of(lane, name)
    }

    /// A request that is held, with the TSG of another one.
    fn own_hold(&self, lane: Lane, other: &Entry) -> Option<Place> {
        self.held_of(lane, other.terms?.tsg)
    }

    /// The first request of a TSG that is held.
    fn held_of(&self, lane: Lane, tsg: u64) -> Option<Place> {
        let mut held = self.held().filter(|(_, entry)| entry.is_of(lane, tsg));
        held.next().map(|(place, _)| place)
    }

    /// True if the GPU can be taken from all that have it, for this one.
    fn may_take(&mut self, lane: Lane, best: &Entry, now: Ns) -> bool {
        let runners = || self.of(lane).filter(|(_, entry)| entry.has_gpu(now));
        let all = runners().all(|(_, entry)| entry.gives_way_to(best, now));
        let is_held_or_runs = |e: &Entry| e.has_gpu(now) || matches!(e.part, Part::Held(_));
        let others = self
            .of(lane)
            .any(|(_, entry)| entry.user != best.user && is_held_or_runs(entry));
        let has_room = all && self.may_hold(lane, best.user, now);
        let is_held = self.own_hold(lane, best).is_some();
        has_room && !is_held && (!others || self.credits.may_take(best.user))
    }

    /// A request of another user that is held, if this user may not run meanwhile.
    fn overdrawn(&mut self, lane: Lane, user: u32) -> Option<Place> {
        let is_others = |entry: &Entry| entry.lane == lane && entry.user != user;
        let place = self
            .held()
            .find(|(_, entry)| is_others(entry))
            .map(|(place, _)| place)?;
        (!self.credits.may_hold(user)).then_some(place)
    }

    /// Requests are held for one of this user from now on. Returns true if that is another one.
    fn charge(&mut self, lane: Lane, user: u32) -> bool {
        let mut is_other = false;
        for entry in self.entries.iter_mut().flatten() {
            if let (true, Part::Held(hold)) = (entry.lane == lane, &mut entry.part) {
                is_other |= core::mem::replace(&mut hold.by, user) != user;
            }
        }
        is_other
    }

    /// The first that is held while nothing with an earlier deadline has the GPU.
    fn outlasted(&self, lane: Lane, now: Ns) -> Option<Place> {
        self.of(lane)
            .take_while(|(_, entry)| !entry.has_gpu(now))
            .find(|(_, entry)| matches!(entry.part, Part::Held(_)))
            .map(|(place, _)| place)
    }

    /// A request is held, with all others of its TSG that have the GPU.
    fn hold(&mut self, place: Place, lane: Lane, by: u32, now: Ns) -> Step {
        for entry in self.of_tsg(place, lane) {
            if !entry.has_gpu(now) {
                continue;
            }
            if let (Part::Runs(until), Some(terms)) = (entry.part, &mut entry.terms) {
                terms.holds = terms.holds.saturating_add(1);
                entry.part = Part::Held(Hold { until, by });
            }
        }
        Step::Held(place)
    }

    /// A request that is held goes on, with all others of its TSG. `at_last`: they are not held again.
    fn resume(&mut self, place: Place, at_last: bool) -> Step {
        if let Some(lane) = self.entry_mut(place).map(|entry| entry.lane) {
            for entry in self.of_tsg(place, lane) {
                entry.go_on(at_last);
            }
        }
        Step::Resumed(place)
    }

    /// All requests of a lane that are of the TSG of this one, and take part in preemption.
    fn of_tsg(&mut self, place: Place, lane: Lane) -> impl Iterator<Item = &mut Entry> {
        let terms = self.entry_mut(place).and_then(|entry| entry.terms);
        let is_its = move |entry: &&mut Entry| terms.is_some_and(|t| entry.is_of(lane, t.tsg));
        self.entries.iter_mut().flatten().filter(is_its)
    }

    /// The time for which a user may hold others yet, in ns.
    #[cfg(any(test, zernel_kunit))]
    pub(crate) fn credit(&mut self, user: u32, now: Ns) -> i64 {
        self.count(now);
        assert!(self.credits.is_sound());
        self.credits.left(user)
    }
}
