// SPDX-License-Identifier: GPL-2.0
//! What to do next for the best-effort TSGs of a run list: whom to enable or disable, when to look
//! again.
//!
//! The caller, a worker, tells what it sees ([`Turn::observe`], the one that is enabled first), asks
//! what to do ([`Turn::next`]), does it, and tells what came of it ([`Turn::finished`]). What it sees
//! meanwhile it may tell at once; there is one call under way at a time.
//!
//! While the rotation is on and at least two TSGs take part:
//!
//! * Nobody is enabled while two are, or while one is and no hand-over to him has begun. TSGs found
//!   enabled at the start, or new ones, are disabled one by one.
//! * Nobody is disabled who is the only one enabled. So some TSG is always enabled, and if the
//!   one that is has nothing to run while another has, a call to enable that one is under way.
//! * A TSG for which a call failed takes no more turns: it is enabled, and stays so, in slices.
//!
//! In every other case all TSGs are enabled, one by one.

use super::{
    super::units::Ns,
    entity::{
        Entity,
        Sample, //
    },
    group::Group,
    order::Order,
    Discipline,
    Quantum,
    Weight, //
};

/// What to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action<I> {
    /// Let this TSG be scheduled.
    Enable(I),
    /// Do not let this TSG be scheduled.
    Disable(I),
    /// Ask again at this time, or when something was observed.
    WaitUntil(Ns),
    /// Ask again when something was observed, or when the call under way has finished.
    Nothing,
}

/// What came of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// It is done.
    Done,
    /// It is not done, and cannot be done now. What to do instead is said by [`Turn::next`].
    Later,
    /// It failed; it may have had its effect all the same.
    Failed,
}

/// When the turn of the current TSG ends once its successor is enabled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// At once.
    Now,
    /// When it goes idle, as predicted; when its burst reaches `burst`, or at `deadline`, if not.
    Idle { burst: Ns, deadline: Ns },
}

/// The rotation of one run list. `I` names a TSG.
///
/// # Invariants
///
/// `successor` is not `current`.
#[derive(Clone, Debug)]
pub(crate) struct Turn<I> {
    order: Order,
    on: bool,
    poll: Option<Ns>,
    lc: bool,
    /// Whose turn it is: the one that is enabled.
    current: Option<I>,
    /// GPU time that the current TSG had in this turn.
    used: Ns,
    /// Who is enabled next to the current one, or about to be, and when the latter's turn ends.
    successor: Option<(I, End)>,
    /// The call that is under way, and when it began.
    under_way: Option<(Action<I>, Ns)>,
    /// What enabling takes, as learned.
    enable_cost: Ns,
}

impl<I: Copy + Eq> Turn<I> {
    /// The fraction of a quantum, 1 / `STEP`, before which a turn is not looked at again, so that
    /// what is nearly over does not wake the worker twice. A turn may last that much longer.
    pub(crate) const STEP: u64 = 16;

    /// What enabling is taken to cost before one has been measured: the upper end of what a call of
    /// NVIDIA's driver takes.
    const ENABLE_COST: Ns = Ns(250_000);

    /// A rotation that is off.
    pub(crate) fn new(discipline: Discipline, quantum: Quantum) -> Self {
        // INVARIANT: There is no successor.
        Self {
            order: Order::new(discipline, quantum),
            on: false,
            poll: None,
            lc: false,
            current: None,
            used: Ns::ZERO,
            successor: None,
            under_way: None,
            enable_cost: Self::ENABLE_COST,
        }
    }

    /// Changes discipline and quantum, from the next decision on.
    pub(crate) fn tune(&mut self, discipline: Discipline, quantum: Quantum) {
        self.order.tune(discipline, quantum);
    }

    /// Switches the rotation on or off. Off also if the provider cannot enable and disable.
    pub(crate) fn set_on(&mut self, on: bool) {
        self.on = on;
    }

    /// Says how often TSGs have to be looked at; `None` if the provider tells when one goes idle or
    /// gets something to run.
    pub(crate) fn set_poll(&mut self, interval: Option<Ns>) {
        self.poll = interval;
    }

    /// Says whether LC is using the GPU. Nobody's turn goes on then, so that it need not be watched;
    /// ask again when LC is done.
    pub(crate) fn set_lc(&mut self, busy: bool) {
        self.lc = busy;
    }

    /// Takes a TSG in. It gets turns like the others from now on, and is disabled until then.
    pub(crate) fn join(&mut self, e: &mut Entity) {
        self.order.join(e);
    }

    /// Forgets a TSG that is no longer in the group.
    pub(crate) fn leave(&mut self, id: I) {
        if self.current == Some(id) {
            self.current = None;
        }
        self.drop_successor(id);
    }

    /// Changes a weight.
    pub(crate) fn set_weight(&mut self, e: &mut Entity, weight: Weight) {
        self.order.set_weight(e, weight);
    }

    /// Lets a TSG take turns again that was left aside.
    pub(crate) fn readmit(&mut self, e: &mut Entity) {
        e.aside = false;
        self.order.wake(e);
    }

    /// Whose turn it is.
    pub(crate) fn current(&self) -> Option<I> {
        self.current
    }

    /// Takes in what is known of a TSG now.
    pub(crate) fn observe(
        &mut self,
        group: &mut impl Group<Id = I>,
        id: I,
        sample: Sample,
    ) {
        if group.get(id).is_some_and(|e| sample.runnable && !e.runnable) {
            // Placed where the others are now, not where they were when somebody last asked.
            self.order.advance(group);
        }
        let Some(e) = group.get_mut(id) else {
            return;
        };
        let ran = e.see(sample.ran);
        if self.on && !e.aside {
            self.order.charge(e, ran);
        }
        if sample.runnable && !e.runnable {
            self.order.wake(e);
            e.burst = Ns::ZERO;
        }
        e.runnable = sample.runnable;
        if self.current == Some(id) {
            self.used = self.used.saturating_add(ran);
        }
    }

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

    /// Takes in what came of the call under way; returns a TSG that takes no more turns for it.
    pub(crate) fn finished(
        &mut self,
        group: &mut impl Group<Id = I>,
        now: Ns,
        outcome: Outcome,
    ) -> Option<I> {
        let (action, began) = self.under_way.take()?;
        let (id, enabling) = match action {
            Action::Enable(id) => (id, true),
            Action::Disable(id) => (id, false),
            Action::WaitUntil(_) | Action::Nothing => return None,
        };
        let e = group.get_mut(id)?;
        let mut newly_aside = false;
        match outcome {
            Outcome::Later => return None,
            Outcome::Done => {
                e.enabled = enabling;
                e.backoff.reset();
            }
            Outcome::Failed => {
                newly_aside = !e.aside;
                e.aside = true;
                // Enabled to be sure: at once when it was not to be, later when that just failed.
                e.enabled = false;
                let delay = if enabling { e.backoff.next().0 } else { 0 };
                e.retry = now.saturating_add(Ns(u64::from(delay).saturating_mul(1_000_000)));
            }
        }
        if enabling && outcome == Outcome::Done {
            self.learn(now.saturating_sub(began));
        } else if self.current == Some(id) {
            self.hand_over(group);
        } else {
            self.drop_successor(id);
        }
        newly_aside.then_some(id)
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
        let surplus = |id: I, e: &Entity| {
            e.enabled && !e.aside && id != current && Some(id) != successor
        };
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
        let current = self.current.filter(|&id| group.get(id).is_some_and(enabled));
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
        match (to.enabled, to.runnable, end) {
            // His work is gone, so that there is nothing to hand over for.
            (false, false, _) => {
                self.successor = None;
                self.go_on(group, now, current)
            }
            (true, false, _) if from.runnable => Action::Disable(successor),
            (false, true, _) => Action::Enable(successor),
            (true, _, End::Idle { burst, deadline })
                if from.runnable
                    && from.burst < burst
                    && now < deadline
                    && self.used < self.order.quantum() =>
            {
                let left = burst.saturating_sub(from.burst);
                self.look_again(now, left.min(deadline.saturating_sub(now)))
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
                Some(interval) if self.lc => Action::WaitUntil(now.saturating_add(interval.max(quantum))),
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
                end = end.or(Some(End::Idle {
                    burst: e.burst.saturating_add(cost).saturating_add(cost),
                    deadline: now.saturating_add(quantum),
                }));
            }
            left = left.min(burst_left.saturating_sub(cost));
        }
        let Some(end) = end else {
            return self.look_again(now, left);
        };
        self.order.requeue(e);
        // INVARIANT: `others` leaves the current one out.
        self.successor = Some((other, end));
        Action::Enable(other)
    }

    /// When the current TSG can have had `left` more of GPU time.
    fn look_again(&self, now: Ns, left: Ns) -> Action<I> {
        let quantum = self.order.quantum();
        let mut wait = left.max(Ns(quantum.0 / Self::STEP));
        if self.lc {
            wait = wait.max(quantum);
        } else if let Some(interval) = self.poll {
            wait = wait.min(interval);
        }
        Action::WaitUntil(now.saturating_add(wait))
    }

    /// The current TSG is not enabled any more.
    fn hand_over(&mut self, group: &impl Group<Id = I>) {
        // INVARIANT: There is no successor then.
        let next = self.successor.take().map(|(id, _)| id);
        self.current = next.filter(|&id| group.get(id).is_some_and(|e| e.enabled));
        self.used = Ns::ZERO;
    }

    fn drop_successor(&mut self, id: I) {
        if self.successor.is_some_and(|(successor, _)| successor == id) {
            self.successor = None;
        }
    }

    /// Learns from a call to enable: an average, in which one call counts for an eighth.
    fn learn(&mut self, took: Ns) {
        let Ns(mean) = self.enable_cost;
        self.enable_cost = Ns(mean.saturating_sub(mean / 8).saturating_add(took.0 / 8));
    }
}

fn takes_turns<G: Group>(group: &G, id: G::Id) -> bool {
    group.get(id).is_some_and(|e| !e.aside)
}
