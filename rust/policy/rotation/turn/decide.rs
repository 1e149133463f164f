// SPDX-License-Identifier: GPL-2.0 OR MIT
//! The decisions of a [`Turn`].

use super::{
    super::{
        super::units::Ns,
        entity::Entity,
        run_list::RunList,
        standing::{
            Rank,
            Set, //
        },
    },
    Action,
    End,
    Thinking,
    Turn, //
};

impl Turn {
    /// The action at `now`. A call of it is under way until [`Turn::finished`].
    pub(crate) fn next(&mut self, list: &mut impl RunList, now: Ns) -> Action {
        if self.under_way.is_some() {
            return Action::Nothing;
        }
        let rotating = self.on && self.sets.taking_part() > 1;
        let restore = self.restore(list, rotating);
        let due = restore.filter(|&(due, _)| due <= now);
        let due = due.map(|(_, id)| Action::Enable(id));
        let action = if rotating {
            self.rotate(list, now, due)
        } else {
            self.become_current(None, Ns::ZERO);
            self.successor = None;
            self.was_out_of_turn = false;
            due.unwrap_or(Action::Nothing)
        };
        let action = match (action, restore) {
            (Action::Nothing, Some((due, _))) => Action::WaitUntil(due),
            (Action::WaitUntil(at), Some((due, _))) => Action::WaitUntil(at.min(due)),
            (action, _) => action,
        };
        if is_call(action) {
            self.under_way = Some((action, now));
        }
        action
    }

    /// The TSG that has to be enabled though it is not its turn, the most urgent, and when.
    fn restore(&self, list: &impl RunList, rotating: bool) -> Option<(Ns, usize)> {
        if !rotating {
            let one = self.first(list, Set::Waiting);
            if let Some(id) = one.or_else(|| self.first(list, Set::Idle)) {
                return Some((Ns::ZERO, id));
            }
        }
        let id = self.first(list, Set::Aside)?;
        Some((list.get(id)?.retry, id))
    }

    pub(super) fn first(&self, list: &impl RunList, set: Set) -> Option<usize> {
        self.sets.first(&self.order, list, set, |_| false)
    }

    /// The action of the rotation; `due` restores a TSG that is left aside.
    fn rotate(&mut self, list: &mut impl RunList, now: Ns, due: Option<Action>) -> Action {
        self.advance(list);
        if !self.current.is_some_and(|id| takes_turns(list, id)) {
            self.become_current(None, Ns::ZERO);
        }
        if !self.successor.is_some_and(|(id, _)| takes_turns(list, id)) {
            self.successor = None;
        }
        let current = self.adopt(list);
        let out_of_turn = due.or_else(|| self.surplus(list, current?).map(Action::Disable));
        // Others may come out of turn as fast as they are dealt with: the turns go on in between.
        let is_first = out_of_turn.is_some() && !self.was_out_of_turn;
        let of_turns = match (current, self.successor) {
            _ if is_first => Action::Nothing,
            (None, _) => self.begin(list),
            (Some(current), Some((id, end))) => self.hand_on(list, now, (current, id, end)),
            (Some(current), None) => self.go_on(list, now, current),
        };
        let out_of_turn = out_of_turn.filter(|_| !is_call(of_turns));
        self.was_out_of_turn = out_of_turn.is_some();
        self.takes_last ^= matches!(out_of_turn, Some(Action::Disable(_)));
        out_of_turn.unwrap_or(of_turns)
    }

    /// A TSG that is enabled out of turn. The first and the last by turns: so those that come keep
    /// none of the others enabled, wherever they are placed.
    fn surplus(&self, list: &impl RunList, current: usize) -> Option<usize> {
        let successor = self.successor.map(|(id, _)| id);
        let in_turn = |id| id == current || Some(id) == successor;
        let find = |set| match self.takes_last {
            true => self.sets.last(list, set, in_turn),
            false => self.sets.first(&self.order, list, set, in_turn),
        };
        find(Set::Holding).or_else(|| find(Set::Open))
    }

    /// The TSG that has its turn: the last one, if it is still enabled and has work, or no other
    /// enabled TSG has; else the first of the others.
    fn adopt(&mut self, list: &impl RunList) -> Option<usize> {
        let successor = self.successor.map(|(id, _)| id);
        let stays = |id: usize| list.get(id).is_some_and(|e| e.enabled && e.runnable);
        let enabled = |e: &Entity| e.enabled && !e.in_slices;
        let current = self.current.filter(|&id| list.get(id).is_some_and(enabled));
        if current.is_some_and(|id| stays(id) || successor.is_some_and(stays)) {
            return current;
        }
        let next = successor.filter(|&id| stays(id));
        let next = next.or_else(|| self.first(list, Set::Holding));
        let next = next.or(current).or_else(|| self.first(list, Set::Open));
        if next != self.current {
            let used = if next == successor {
                self.succeeds(list, next);
                self.used_ahead
            } else if self.first(list, Set::Waiting).is_some() {
                // One that comes enabled goes before nobody who waits: its turn is over.
                self.longest()
            } else {
                Ns::ZERO
            };
            self.become_current(next, used);
        }
        if let Some(id) = next {
            // INVARIANT: The successor is another one.
            self.drop_successor(id);
        }
        next
    }

    /// Nobody is enabled: the first that can run is, or the first of all.
    fn begin(&mut self, list: &impl RunList) -> Action {
        let first = self.first(list, Set::Waiting);
        let first = first.or_else(|| self.first(list, Set::Idle));
        // INVARIANT: There is no successor.
        self.successor = None;
        self.become_current(first, Ns::ZERO);
        first.map_or(Action::Nothing, Action::Enable)
    }

    /// A hand-over has begun.
    fn hand_on(
        &mut self,
        list: &mut impl RunList,
        now: Ns,
        (current, successor, end): (usize, usize, End),
    ) -> Action {
        let (Some(from), Some(to)) = (list.get(current), list.get(successor)) else {
            return Action::Nothing;
        };
        let quantum = self.order.quantum();
        match (to.enabled, to.runnable, end) {
            // Its work is gone, so that there is nothing to hand over for.
            (false, false, _) => {
                self.successor = None;
                self.go_on(list, now, current)
            }
            (true, false, _) if from.runnable => Action::Disable(successor),
            (false, true, _) => Action::Enable(successor),
            (true, _, End::Idle { burst })
                if from.runnable
                    && from.burst < burst
                    && self.used < self.longest()
                    && self.used_ahead < quantum =>
            {
                let left = burst.saturating_sub(from.burst);
                self.look_again(now, left.min(quantum.saturating_sub(self.used_ahead)))
            }
            // Its burst is longer than usual, and it is still its turn.
            (true, _, End::Idle { .. })
                if from.runnable && self.order.rank(from) < self.order.rank(to) =>
            {
                Action::Disable(successor)
            }
            (true, _, _) => Action::Disable(current),
        }
    }

    /// One is enabled, and no hand-over has begun.
    fn go_on(&mut self, list: &mut impl RunList, now: Ns, current: usize) -> Action {
        let other = self.first(list, Set::Waiting);
        let other = other.and_then(|id| Some((self.order.rank(list.get(id)?), id)));
        let (Some(other), Some(e)) = (other, list.get_mut(current)) else {
            return match self.poll {
                Some(interval) if self.lc.is_on() => {
                    Action::WaitUntil(now.saturating_add(interval.max(self.order.quantum())))
                }
                Some(interval) => Action::WaitUntil(now.saturating_add(interval)),
                None => Action::Nothing,
            };
        };
        let action = self.go_on_beside(e, now, other);
        self.sets.update(&self.order, list, current);
        action
    }

    /// One is enabled, `other` waits, and no hand-over has begun.
    ///
    /// A hand-over costs three switches or so, as both share the GPU in slices until the second of
    /// two calls is done, and none while LC has it. So a turn ends where it costs least: while LC
    /// has the GPU, from half a quantum on; else with the burst that ends nearest to a quantum; in
    /// the middle of a burst only after a quantum, or one and a half, if LC or the end of the burst
    /// is expected by then.
    fn go_on_beside(&mut self, e: &mut Entity, now: Ns, (rank, other): (Rank, usize)) -> Action {
        let quantum = self.order.quantum();
        let cost = self.enable_cost;
        let at = self.beside_lc(e, rank);
        let mut end = at.is_some_and(|at| at <= now).then_some(End::Now);
        if let (Some(back), None) = (self.thinking_ends(e, rank, now), end) {
            return Action::WaitUntil(at.map_or(back, |at| at.min(back)));
        }
        // LC would meet both, and a switch between them.
        let calls = cost.saturating_add(cost);
        if let Some(until) = self.lc.put_off(now, calls, Self::STEP) {
            return Action::WaitUntil(until);
        }
        let burst_left = e.burst_left(cost);
        let longest = self.longest();
        let most = if self.expects_lc()
            || burst_left.is_some_and(|left| self.used.saturating_add(left) <= longest)
        {
            longest
        } else {
            quantum
        };
        if !e.runnable {
            // The GPU is idle until the other is enabled, unless LC has it. Not charged, a sequence
            // of short bursts would cost the others more than their senders.
            if !self.lc.is_on() {
                self.order.charge(e, cost);
            }
            end = Some(End::Now);
        } else if self.used >= most {
            self.order.requeue(e);
            if rank < self.order.rank(e) {
                end = Some(End::Now);
            } else {
                self.used = Ns::ZERO;
            }
        }
        let until = if self.used < quantum { quantum } else { most };
        let mut left = until.saturating_sub(self.used);
        let thinks = e.usual_think_time().is_some();
        let ends = |left: &Ns| !thinks || self.ends_with_burst(e, rank, *left);
        if let Some(burst_left) = burst_left.filter(ends) {
            if burst_left <= cost {
                let burst = e.burst.saturating_add(cost).saturating_add(cost);
                end = end.or(Some(End::Idle { burst }));
            }
            left = left.min(burst_left.saturating_sub(cost));
        }
        let Some(end) = end else {
            return match (self.look_again(now, left), at) {
                (Action::WaitUntil(again), Some(at)) => Action::WaitUntil(again.min(at)),
                (action, _) => action,
            };
        };
        self.order.requeue(e);
        // INVARIANT: The current one is enabled, and so does not wait.
        self.successor = Some((other, end));
        self.used_ahead = Ns::ZERO;
        self.thinking = Thinking::None;
        self.lc.forget();
        Action::Enable(other)
    }

    /// The longest time of a turn.
    fn longest(&self) -> Ns {
        let quantum = self.order.quantum();
        quantum.saturating_add(Ns(quantum.0 / 2))
    }

    /// True if LC is expected to have the GPU before this turn has lasted for too long.
    fn expects_lc(&self) -> bool {
        self.lc.is_expected(self.longest(), self.enable_cost)
    }

    /// When to hand over to one of this `rank` while LC has the GPU, if this turn is to end then.
    fn beside_lc(&self, e: &Entity, rank: Rank) -> Option<Ns> {
        let half = Ns(self.order.quantum().0 / 2);
        // A TSG that would be behind in the middle of its next turn does not begin it.
        let is_over = self.used >= half && rank < self.order.rank_after(e, half);
        self.lc.middle(self.enable_cost).filter(|_| is_over)
    }

    /// True if this turn ends with a burst that has `left` to go: it is long enough, and it is the
    /// other's turn then.
    fn ends_with_burst(&self, e: &Entity, rank: Rank, left: Ns) -> bool {
        self.is_used_up(e, left) && rank < self.order.rank_after(e, left)
    }

    /// True if another burst, after one that has `left` to go, would end farther from the intended
    /// length of this turn: a quantum, or longer if LC is expected.
    fn is_used_up(&self, e: &Entity, left: Ns) -> bool {
        let usual = if self.expects_lc() {
            self.longest()
        } else {
            self.order.quantum()
        };
        let next = Ns(e.mean_burst.unwrap_or_default().0 / 2);
        self.used.saturating_add(left).saturating_add(next) >= usual
    }

    /// The end of the think time for which the GPU is left to the current TSG. Think time is part
    /// of the turn, but not charged: weights share the GPU's work.
    fn thinking_ends(&mut self, e: &mut Entity, rank: Rank, now: Ns) -> Option<Ns> {
        if let (Thinking::Begun, Some(time)) = (self.thinking, e.usual_think_time()) {
            if !self.ends_with_burst(e, rank, Ns::ZERO) {
                if self.is_used_up(e, Ns::ZERO) {
                    // It is its turn once more.
                    self.order.requeue(e);
                    self.used = Ns::ZERO;
                }
                self.used = self.used.saturating_add(time);
                self.thinking = Thinking::Granted;
            }
        }
        let end = (self.thinking == Thinking::Granted).then(|| e.thinking_ends())?;
        if end.is_none_or(|end| end <= now) {
            self.thinking = Thinking::None;
        }
        end.filter(|&end| end > now)
    }

    /// When the current TSG can have had `left` more of GPU time.
    fn look_again(&self, now: Ns, left: Ns) -> Action {
        let quantum = self.order.quantum();
        let mut wait = left.max(Self::STEP);
        if self.lc.is_on() {
            wait = wait.max(quantum);
        } else if let Some(interval) = self.poll {
            wait = wait.min(interval);
        }
        Action::WaitUntil(now.saturating_add(wait))
    }
}

fn is_call(action: Action) -> bool {
    matches!(action, Action::Enable(_) | Action::Disable(_))
}

fn takes_turns(list: &impl RunList, id: usize) -> bool {
    list.get(id).is_some_and(|e| !e.in_slices)
}
