// SPDX-License-Identifier: GPL-2.0
//! What a [`Turn`] does next.

use super::{
    super::{
        super::units::Ns,
        entity::Entity,
        group::Group, //
    },
    Action,
    End,
    Turn, //
};

impl<I: Copy + Eq> Turn<I> {
    /// Says what to do at `now`. A call that it asks for is under way until [`Turn::finished`].
    pub(crate) fn next(&mut self, group: &mut impl Group<Id = I>, now: Ns) -> Action<I> {
        if self.under_way.is_some() {
            return Action::Nothing;
        }
        let mut taking_part = 0u32;
        group.each(|_, e| taking_part = taking_part.saturating_add(u32::from(!e.aside)));
        let rotating = self.on && taking_part > 1;
        let restore = Self::restore(group, rotating);
        let action = match restore {
            Some((due, id)) if due <= now => Action::Enable(id),
            _ if rotating => self.rotate(group, now),
            _ => {
                self.current = None;
                self.successor = None;
                Action::Nothing
            }
        };
        let action = match (action, restore) {
            (Action::Nothing, Some((due, _))) => Action::WaitUntil(due),
            (Action::WaitUntil(at), Some((due, _))) => Action::WaitUntil(at.min(due)),
            (action, _) => action,
        };
        if matches!(action, Action::Enable(_) | Action::Disable(_)) {
            self.under_way = Some((action, now));
        }
        action
    }

    /// The TSG that has to be enabled though it is not its turn, the most urgent, and when.
    fn restore<G: Group<Id = I>>(group: &G, rotating: bool) -> Option<(Ns, I)> {
        let mut first: Option<(Ns, I)> = None;
        group.each(|id, e| {
            if !e.enabled && (e.aside || !rotating) {
                let due = if e.aside { e.retry } else { Ns::ZERO };
                if first.is_none_or(|(at, _)| due < at) {
                    first = Some((due, id));
                }
            }
        });
        first
    }

    fn rotate<G: Group<Id = I>>(&mut self, group: &mut G, now: Ns) -> Action<I> {
        self.order.advance(group);
        if !self.current.is_some_and(|id| takes_turns(group, id)) {
            self.current = None;
        }
        if !self.successor.is_some_and(|(id, _)| takes_turns(group, id)) {
            self.successor = None;
        }
        let Some(current) = self.adopt(group) else {
            return self.begin(group);
        };
        let successor = self.successor.map(|(id, _)| id);
        let surplus =
            |id: I, e: &Entity| e.enabled && !e.aside && id != current && Some(id) != successor;
        if let Some((_, id)) = self.order.first(group, surplus) {
            return Action::Disable(id);
        }
        match self.successor {
            Some((id, end)) => self.change(group, now, (current, id, end)),
            None => self.go_on(group, now, current),
        }
    }

    /// The one whose turn it is: the one it was, if it is still enabled and has something to run or
    /// nobody else that is enabled has; else the first of those.
    fn adopt<G: Group<Id = I>>(&mut self, group: &G) -> Option<I> {
        let successor = self.successor.map(|(id, _)| id);
        let stays = |id: I| group.get(id).is_some_and(|e| e.enabled && e.runnable);
        let enabled = |e: &Entity| e.enabled && !e.aside;
        let current = self
            .current
            .filter(|&id| group.get(id).is_some_and(enabled));
        if current.is_some_and(|id| stays(id) || successor.is_some_and(stays)) {
            return current;
        }
        let next = self.order.first(group, |_, e| enabled(e) && e.runnable);
        let next = next.map(|(_, id)| id).or(current);
        let next = next.or_else(|| Some(self.order.first(group, |_, e| enabled(e))?.1));
        if next != self.current {
            self.current = next;
            self.used = Ns::ZERO;
        }
        if let Some(id) = next {
            // INVARIANT: The successor is another one.
            self.drop_successor(id);
        }
        next
    }

    /// Nobody is enabled: the first that can run is, or the first of all.
    fn begin<G: Group<Id = I>>(&mut self, group: &G) -> Action<I> {
        let runnable = self.order.first(group, |_, e| e.contends());
        let first = runnable.or_else(|| self.order.first(group, |_, e| !e.aside));
        first.map_or(Action::Nothing, |(_, id)| Action::Enable(id))
    }

    /// A hand-over has begun.
    fn change<G: Group<Id = I>>(
        &mut self,
        group: &mut G,
        now: Ns,
        (current, successor, end): (I, I, End),
    ) -> Action<I> {
        let (Some(from), Some(to)) = (group.get(current), group.get(successor)) else {
            return Action::Nothing;
        };
        let quantum = self.order.quantum();
        match (to.enabled, to.runnable, end) {
            // His work is gone, so that there is nothing to hand over for.
            (false, false, _) => {
                self.successor = None;
                self.go_on(group, now, current)
            }
            (true, false, _) if from.runnable => Action::Disable(successor),
            (false, true, _) => Action::Enable(successor),
            (true, _, End::Idle { burst })
                if from.runnable
                    && from.burst < burst
                    && self.used.max(self.used_ahead) < quantum =>
            {
                let left = burst.saturating_sub(from.burst);
                self.look_again(now, left.min(quantum.saturating_sub(self.used_ahead)))
            }
            (true, _, _) => Action::Disable(current),
        }
    }

    /// One is enabled, and no hand-over has begun.
    fn go_on<G: Group<Id = I>>(&mut self, group: &mut G, now: Ns, current: I) -> Action<I> {
        let quantum = self.order.quantum();
        let cost = self.enable_cost;
        let others = |id: I, e: &Entity| id != current && e.contends();
        let (Some((rank, other)), Some(e)) =
            (self.order.first(group, others), group.get_mut(current))
        else {
            return match self.poll {
                Some(interval) if self.lc => {
                    Action::WaitUntil(now.saturating_add(interval.max(quantum)))
                }
                Some(interval) => Action::WaitUntil(now.saturating_add(interval)),
                None => Action::Nothing,
            };
        };
        let mut end = None;
        if !e.runnable {
            // The GPU is idle until the other is enabled. Not charged, a sequence of short bursts
            // would cost the others more than their senders.
            self.order.charge(e, cost);
            end = Some(End::Now);
        } else if self.used >= quantum {
            self.order.requeue(e);
            if rank < self.order.rank(e) {
                end = Some(End::Now);
            } else {
                self.used = Ns::ZERO;
            }
        }
        let mut left = quantum.saturating_sub(self.used);
        if let Some(burst_left) = e.burst_left(cost) {
            if burst_left <= cost {
                let burst = e.burst.saturating_add(cost).saturating_add(cost);
                end = end.or(Some(End::Idle { burst }));
            }
            left = left.min(burst_left.saturating_sub(cost));
        }
        let Some(end) = end else {
            return self.look_again(now, left);
        };
        self.order.requeue(e);
        // INVARIANT: `others` leaves the current one out.
        self.successor = Some((other, end));
        self.used_ahead = Ns::ZERO;
        Action::Enable(other)
    }

    /// When the current TSG can have had `left` more of GPU time.
    fn look_again(&self, now: Ns, left: Ns) -> Action<I> {
        let quantum = self.order.quantum();
        let mut wait = left.max(Self::STEP);
        if self.lc {
            wait = wait.max(quantum);
        } else if let Some(interval) = self.poll {
            wait = wait.min(interval);
        }
        Action::WaitUntil(now.saturating_add(wait))
    }
}

fn takes_turns<G: Group>(group: &G, id: G::Id) -> bool {
    group.get(id).is_some_and(|e| !e.aside)
}
