// SPDX-License-Identifier: GPL-2.0 OR MIT
//! The next action for the best-effort TSGs of a run list: a TSG to enable or disable, or a time to
//! look again.
//!
//! The caller, a worker, gives its observations ([`Turn::observe`], of the enabled TSG first), asks
//! for an action ([`Turn::next`]), carries it out, and gives the result ([`Turn::finished`]).
//! Observations may come during a call; one call is under way at a time.
//!
//! While the rotation is on and at least two TSGs take part:
//!
//! * Two TSGs are *in turn* at most: the current one and, once a hand-over has begun, its successor.
//!   No other one gets enabled. TSGs found enabled at the start, or new ones, are disabled one by one.
//! * Calls for TSGs out of turn, to disable them or to enable one for which a call failed, alternate
//!   with those of the turns as long as there are both: so neither keeps the other waiting.
//! * The only enabled TSG is not disabled. So some TSG is always enabled, and if the
//!   one that is has nothing to run while another has, a call to enable that one is under way, or
//!   the think time of the first is about to be over.
//! * A TSG for which a call failed takes no more turns: it is enabled, and stays so, in slices.
//!
//! In every other case all TSGs are enabled, one by one.

#[cfg(test)]
mod check;
mod decide;
mod lc_window;

use self::lc_window::LcWindow;
use super::{
    super::units::Ns,
    entity::{
        Entity,
        Sample, //
    },
    order::Order,
    run_list::RunList,
    sets::Sets,
    standing::Set,
    Discipline,
    Quantum,
    Weight, //
};

/// The next action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// Let this TSG be scheduled.
    Enable(usize),
    /// Do not let this TSG be scheduled.
    Disable(usize),
    /// Ask again at this time, or when something was observed.
    WaitUntil(Ns),
    /// Ask again when something was observed, or when the call under way has finished.
    Nothing,
}

/// The outcome of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// It is done.
    Done,
    /// It is not done, and cannot be done now. [`Turn::next`] gives another action, most often the
    /// same: the caller waits a while first.
    Later,
    /// It failed; it may have had its effect all the same.
    Failed,
}

/// When the turn of the current TSG ends once its successor is enabled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// At once.
    Now,
    /// When it goes idle, as predicted. If it does not: when its burst has become this long, its
    /// turn as long as a turn can be, or when the successor had a quantum.
    Idle { burst: Ns },
}

/// The think time of the current TSG: it is idle for a short time, as usual between its bursts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Thinking {
    /// It does not think.
    None,
    /// It takes part like one that is not idle, for now.
    Begun,
    /// The GPU is left to it.
    Granted,
}

/// The rotation of one run list.
///
/// # Invariants
///
/// `successor` is not `current`.
#[derive(Clone, Debug)]
pub(crate) struct Turn {
    order: Order,
    /// The TSGs in that order, by their state.
    sets: Sets,
    on: bool,
    poll: Option<Ns>,
    lc: LcWindow,
    /// The TSG that has its turn: the enabled one, or the one that is about to be.
    current: Option<usize>,
    /// GPU time that the current TSG had in this turn.
    used: Ns,
    /// The think time of the current TSG.
    thinking: Thinking,
    /// The TSG that is enabled beside the current one, or about to be, and the end of the current
    /// one's turn.
    successor: Option<(usize, End)>,
    /// GPU time that the successor had so far: of the turn that it is about to begin.
    used_ahead: Ns,
    /// The call that is under way, and when it began.
    under_way: Option<(Action, Ns)>,
    /// The learned time of a call to enable.
    enable_cost: Ns,
    /// The last decision of the rotation was a call for a TSG out of turn.
    was_out_of_turn: bool,
    /// The next TSG that is disabled out of turn is the last of them.
    takes_last: bool,
}

impl Turn {
    /// No look at a turn comes before this, so that one that is nearly over does not wake the
    /// worker twice. A turn may last that much longer. A tenth of the shortest quantum, and a
    /// fraction of a call, by which the end of a burst is foreseen.
    pub(crate) const STEP: Ns = Ns(50_000);

    /// The time of a call to enable before one has been measured: the upper end for a call of
    /// NVIDIA's driver.
    const ENABLE_COST: Ns = Ns(250_000);

    /// A rotation that is off.
    pub(crate) fn new(discipline: Discipline, quantum: Quantum) -> Self {
        // INVARIANT: There is no successor.
        Self {
            order: Order::new(discipline, quantum),
            sets: Sets::default(),
            on: false,
            poll: None,
            lc: LcWindow::new(),
            current: None,
            used: Ns::ZERO,
            thinking: Thinking::None,
            successor: None,
            used_ahead: Ns::ZERO,
            under_way: None,
            enable_cost: Self::ENABLE_COST,
            was_out_of_turn: false,
            takes_last: false,
        }
    }

    /// Changes discipline and quantum, from the next decision on. Takes a look at each TSG.
    pub(crate) fn tune(
        &mut self,
        list: &mut impl RunList,
        discipline: Discipline,
        quantum: Quantum,
    ) {
        if self.order.tune(discipline, quantum) {
            self.sets.rearrange(&self.order, list);
        }
    }

    /// Switches the rotation on or off. Off also if the provider cannot enable and disable.
    pub(crate) fn set_on(&mut self, on: bool) {
        self.on = on;
    }

    /// Says how often TSGs have to be looked at; `None` if the provider tells when one goes idle or
    /// gets something to run.
    #[allow(dead_code, reason = "the simulation and the tests on the host ask")]
    pub(crate) fn set_poll(&mut self, interval: Option<Ns>) {
        self.poll = interval;
    }

    /// Says whether LC is using the GPU at `now`. Nobody's turn goes on then, so that it need not
    /// be watched; ask again when that changes.
    pub(crate) fn set_lc(&mut self, busy: bool, now: Ns) {
        self.lc.set(busy, now);
    }

    /// Says when a request for LC takes the GPU, or took it.
    #[allow(
        dead_code,
        reason = "the simulation takes LC for busy from its begin on"
    )]
    pub(crate) fn announce_lc(&mut self, trigger: Ns) {
        self.lc.announce(trigger);
    }

    /// Takes a TSG in that was added to the list. It gets turns like the others from now on, and is
    /// disabled until then.
    pub(crate) fn join(&mut self, list: &mut impl RunList, id: usize) {
        self.change(list, id, Order::join);
    }

    /// Forgets a TSG that is about to be removed from the list.
    pub(crate) fn leave(&mut self, list: &mut impl RunList, id: usize) {
        self.sets.remove(list, id);
        if self.current == Some(id) {
            self.become_current(None, Ns::ZERO);
        }
        self.drop_successor(id);
    }

    /// It is another one's turn.
    fn become_current(&mut self, id: Option<usize>, used: Ns) {
        self.current = id;
        self.used = used;
        self.thinking = Thinking::None;
    }

    /// Changes a TSG, and brings it to its place among the others.
    fn change(
        &mut self,
        list: &mut impl RunList,
        id: usize,
        change: impl FnOnce(&mut Order, &mut Entity),
    ) {
        if let Some(e) = list.get_mut(id) {
            change(&mut self.order, e);
            self.sets.update(&self.order, list, id);
        }
    }

    /// Lets virtual time follow the charged time.
    fn advance(&mut self, list: &impl RunList) {
        // It takes part though it is idle.
        let thinking = self.current.filter(|_| self.thinking != Thinking::None);
        let thinking = thinking
            .and_then(|id| list.get(id))
            .filter(|e| !e.contends());
        let sums = match thinking {
            Some(e) => self.sets.sums_and(&self.order, list, e),
            None => self.sets.sums(list),
        };
        self.order.advance(sums);
    }

    /// Changes a weight.
    pub(crate) fn set_weight(&mut self, list: &mut impl RunList, id: usize, weight: Weight) {
        self.change(list, id, |order, e| order.set_weight(e, weight));
    }

    /// Says whether a TSG is enabled, where somebody else has enabled or disabled it.
    pub(crate) fn set_enabled(&mut self, list: &mut impl RunList, id: usize, enabled: bool) {
        self.change(list, id, |_, e| e.enabled = enabled);
    }

    /// Lets a TSG take turns again that was left aside.
    pub(crate) fn readmit(&mut self, list: &mut impl RunList, id: usize) {
        self.change(list, id, |order, e| {
            e.in_slices = false;
            // Time that it missed, or had beside the turns, is not made up for.
            e.was_thinking = false;
            order.wake(e);
        });
    }

    /// The TSG whose turn it is.
    #[allow(dead_code, reason = "the simulation and the tests on the host ask")]
    pub(crate) fn current(&self) -> Option<usize> {
        self.current
    }

    /// TSGs that can have run since they were looked at last, though nothing was reported: the one in
    /// its turn, the one that it hands over to, and the first of those that are still enabled.
    ///
    /// They are to be looked at before the others, so that those are placed where these are now.
    pub(crate) fn running(&self, list: &impl RunList) -> [Option<usize>; 3] {
        let successor = self.successor.map(|(id, _)| id);
        let in_turn = |id| self.current == Some(id) || successor == Some(id);
        let other = self.sets.first(&self.order, list, Set::Holding, in_turn);
        [self.current, successor, other]
    }

    /// True if the GPU is about to go from one TSG to another, or goes back and forth between two.
    pub(crate) fn is_handing_over(&self, list: &impl RunList) -> bool {
        let holds = |e: &Entity| e.enabled && e.runnable;
        let current = self.current.and_then(|id| list.get(id));
        match (self.successor, self.running(list)) {
            (Some((successor, _)), _) => {
                current.is_some_and(holds) || !list.get(successor).is_some_and(holds)
            }
            (None, [_, _, out_of_turn]) => current.is_some_and(holds) && out_of_turn.is_some(),
        }
    }

    /// Takes in an observation of a TSG. Returns its GPU time since the last.
    pub(crate) fn observe(&mut self, list: &mut impl RunList, id: usize, sample: Sample) -> Ns {
        if list.get(id).is_some_and(|e| sample.runnable && !e.runnable) {
            // Placed where the others are now, not where they were when somebody last asked.
            self.advance(list);
        }
        let Some(e) = list.get_mut(id) else {
            return Ns::ZERO;
        };
        let ran = e.see(sample.ran);
        if self.on && !e.in_slices {
            self.order.charge(e, ran);
        }
        if sample.runnable && !e.runnable {
            self.order.wake(e);
            e.burst = Ns::ZERO;
        }
        if !sample.runnable && ran > Ns::ZERO {
            // It still takes part until now: alone, it moves virtual time, and owes nothing.
            e.runnable = true;
            self.sets.update(&self.order, list, id);
            self.advance(list);
        }
        if let Some(e) = list.get_mut(id) {
            if self.current == Some(id) && sample.runnable != e.runnable {
                let thinks = !sample.runnable && e.usual_think_time().is_some();
                self.thinking = if thinks {
                    Thinking::Begun
                } else {
                    Thinking::None
                };
            }
            e.runnable = sample.runnable;
        }
        self.sets.update(&self.order, list, id);
        self.lc.passed(ran);
        if self.current == Some(id) {
            self.used = self.used.saturating_add(ran);
        } else if self.successor.is_some_and(|(s, _)| s == id) {
            self.used_ahead = self.used_ahead.saturating_add(ran);
        }
        ran
    }

    /// Takes in the result of the call under way; returns a TSG that takes no more turns for it.
    pub(crate) fn finished(
        &mut self,
        list: &mut impl RunList,
        now: Ns,
        outcome: Outcome,
    ) -> Option<usize> {
        let (action, began) = self.under_way.take()?;
        let (id, enabling) = match action {
            Action::Enable(id) => (id, true),
            Action::Disable(id) => (id, false),
            Action::WaitUntil(_) | Action::Nothing => return None,
        };
        let e = list.get_mut(id)?;
        let mut newly_failed = false;
        match outcome {
            Outcome::Later => return None,
            Outcome::Done => {
                e.enabled = enabling;
                e.backoff.reset();
            }
            Outcome::Failed => {
                newly_failed = !e.in_slices;
                e.in_slices = true;
                // Enabled to be sure: at once when it was not to be, later when that just failed.
                e.enabled = false;
                let delay = if enabling { e.backoff.next().0 } else { 0 };
                e.retry = now.saturating_add(Ns(u64::from(delay).saturating_mul(1_000_000)));
            }
        }
        self.sets.update(&self.order, list, id);
        if enabling && outcome == Outcome::Done {
            self.learn(now.saturating_sub(began));
        } else if self.current == Some(id) {
            self.hand_over(list);
        } else {
            self.drop_successor(id);
        }
        newly_failed.then_some(id)
    }

    /// The current TSG is not enabled any more.
    fn hand_over(&mut self, list: &impl RunList) {
        // INVARIANT: There is no successor then.
        let next = self.successor.take().map(|(id, _)| id);
        let next = next.filter(|&id| list.get(id).is_some_and(|e| e.enabled));
        self.succeeds(list, next);
        self.become_current(next, self.used_ahead);
    }

    /// A TSG that was chosen ahead begins its turn.
    fn succeeds(&mut self, list: &impl RunList, id: Option<usize>) {
        if let Some(next) = id.and_then(|id| list.get(id)) {
            self.order.goes_on_for(next);
        }
    }

    fn drop_successor(&mut self, id: usize) {
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
