// SPDX-License-Identifier: GPL-2.0 OR MIT
//! The late outcome of a request: worked out after the begin of the next one, if it can wait.
//!
//! A request made ready by stores alone needs nothing more for its stream, and zernel learns of it
//! only at the next begin. That keeps the times and words, and the outcome is worked out when no
//! call waits for it; it is the same.

use super::{
    order::Standing,
    record::{
        Cause,
        Ended,
        Record, //
    },
    words::{
        Number,
        Observed, //
    },
    Actions,
    Error,
    Plan,
    Slot, //
};
use crate::policy::units::Ns;

/// The requests of a slot, one after the other.
///
/// # Invariants
///
/// With `before`, the request of the other slot can be retired with nothing to store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Succession {
    even: Slot,
    odd: Slot,
    /// True if the request that is not over is in `odd`.
    is_odd: bool,
    /// The begin of the one after it, and the words at that time.
    before: Option<(Ns, Observed)>,
}

impl Succession {
    /// No request.
    pub(crate) const fn new() -> Self {
        // INVARIANT: There is none before.
        Self {
            even: Slot::new(),
            odd: Slot::new(),
            is_odd: false,
            before: None,
        }
    }

    fn current(&self) -> &Slot {
        match self.is_odd {
            true => &self.odd,
            false => &self.even,
        }
    }

    fn current_mut(&mut self) -> &mut Slot {
        match self.is_odd {
            true => &mut self.odd,
            false => &mut self.even,
        }
    }

    /// The request that is not over.
    #[cfg(any(test, zernel_kunit))]
    fn active(&self) -> Option<Number> {
        self.current().active()
    }

    /// As [`Slot::holds`].
    pub(crate) fn holds(&self) -> bool {
        self.current().holds()
    }

    /// As [`Slot::try_no_more`].
    pub(crate) fn try_no_more(&mut self) {
        self.current_mut().try_no_more();
    }

    /// As [`Slot::runs`].
    pub(crate) fn runs(&self) -> bool {
        self.current().runs()
    }

    /// As [`Slot::holds_until`].
    pub(crate) fn holds_until(&self) -> Ns {
        self.current().holds_until()
    }

    /// True if a request was triggered, and is neither over nor done as far as the words tell.
    pub(crate) fn is_under_way(&self, seen: &Observed) -> bool {
        self.current().is_under_way(seen)
    }

    /// As [`Slot::open_deadline`].
    pub(crate) fn open_deadline(&self, seen: &Observed) -> Option<Ns> {
        self.current().open_deadline(seen)
    }

    /// As [`Slot::ordered`].
    pub(crate) fn ordered(&self) -> Option<Number> {
        self.current().ordered()
    }

    /// As [`Slot::standing`].
    pub(crate) fn standing(&self) -> Standing {
        self.current().standing()
    }

    /// As [`Slot::deadline`].
    pub(crate) fn deadline(&self) -> Ns {
        self.current().deadline()
    }

    /// As [`Slot::due`].
    pub(crate) fn due(&self) -> (Ns, Ns) {
        self.current().due()
    }

    /// As [`Slot::ended`].
    pub(crate) fn ended(&self, number: Number) -> Option<Ended> {
        self.even.ended(number).or(self.odd.ended(number))
    }

    /// As [`Slot::states_deadline`].
    pub(crate) fn states_deadline(&self) -> bool {
        self.current().states_deadline()
    }

    /// As [`Slot::grant`].
    pub(crate) fn grant(&mut self, number: Number, now: Ns, seen: &Observed) -> Actions {
        self.current_mut().grant(number, now, seen)
    }

    /// As [`Slot::wait_until`].
    pub(crate) fn wait_until(&mut self, at: Ns) -> Actions {
        self.current_mut().wait_until(at)
    }

    /// As [`Slot::watch`].
    pub(crate) fn watch(&mut self, from: Ns) -> Actions {
        self.current_mut().watch(from)
    }

    /// True if [`Self::catch_up`] has something to work out.
    pub(crate) fn is_behind(&self) -> bool {
        self.before.is_some()
    }

    /// Works out the outcome of the request before this one, if that is left to do.
    pub(crate) fn catch_up(&mut self) -> Option<Record> {
        // INVARIANT: Retired below.
        let (at, seen) = self.before.take()?;
        let earlier = match self.is_odd {
            true => &mut self.even,
            false => &mut self.odd,
        };
        earlier.retire(at, &seen).over
    }

    /// The number of the request that begins next.
    pub(crate) fn next(&self, seen: &Observed) -> Number {
        let last = self.current().number;
        last.map_or_else(|| Number::first(seen), Number::next)
    }

    /// A request begins, with the number that [`Self::next`] told. The one before it is over: done
    /// if it was ready. Its outcome is worked out now, or left for [`Self::catch_up`], which has to
    /// be called before the next one begins. Actions to carry out are added to `actions`.
    pub(crate) fn begin(
        &mut self,
        number: Number,
        now: Ns,
        seen: &Observed,
        plan: &Plan,
        actions: &mut Actions,
    ) {
        if self.current().plan.ordered | plan.ordered {
            return self.begin_in_order(number, now, seen, plan, actions);
        }
        self.begin_as::<false>(number, now, seen, plan, actions);
    }

    /// The same, if this request or the one before it has a place in the order of deadlines.
    #[cold]
    #[inline(never)]
    fn begin_in_order(
        &mut self,
        number: Number,
        now: Ns,
        seen: &Observed,
        plan: &Plan,
        actions: &mut Actions,
    ) {
        self.begin_as::<true>(number, now, seen, plan, actions);
    }

    fn begin_as<const ORDER: bool>(
        &mut self,
        number: Number,
        now: Ns,
        seen: &Observed,
        plan: &Plan,
        actions: &mut Actions,
    ) {
        let slot = self.current_mut();
        if slot.active().is_some() {
            if slot.can_wait(seen) {
                // INVARIANT: As it says.
                self.before = Some((now, *seen));
                self.is_odd = !self.is_odd;
            } else {
                // Not at its gate: the word may be that of this one.
                slot.take_up::<ORDER>(now, seen, actions);
                slot.pass::<ORDER>(now, actions);
            }
        }
        let slot = self.current_mut();
        slot.start::<ORDER>(now, number, seen, plan, actions);
    }

    /// As [`Slot::retire`].
    pub(crate) fn retire(&mut self, now: Ns, seen: &Observed) -> Actions {
        self.current_mut().retire(now, seen)
    }

    /// As [`Slot::poll`].
    pub(crate) fn poll(&mut self, now: Ns, seen: &Observed) -> Actions {
        let mut actions = Actions::default();
        self.poll_into(now, seen, &mut actions);
        actions
    }

    /// The same, with the actions added to `actions`.
    pub(crate) fn poll_into(&mut self, now: Ns, seen: &Observed, actions: &mut Actions) {
        self.current_mut().poll_into(now, seen, actions);
    }

    /// As [`Slot::ready`].
    pub(crate) fn ready(
        &mut self,
        number: Number,
        now: Ns,
        seen: &Observed,
    ) -> Result<Actions, Error> {
        self.current_mut().ready(number, now, seen)
    }

    /// As [`Slot::done`].
    pub(crate) fn done(
        &mut self,
        number: Number,
        now: Ns,
        seen: &Observed,
    ) -> Result<Actions, Error> {
        self.current_mut().done(number, now, seen)
    }

    /// As [`Slot::cancel`].
    pub(crate) fn cancel(
        &mut self,
        number: Number,
        now: Ns,
        seen: &Observed,
    ) -> Result<Actions, Error> {
        self.current_mut().cancel(number, now, seen)
    }

    /// As [`Slot::end`].
    pub(crate) fn end(&mut self, now: Ns, seen: &Observed, cause: Cause) -> Actions {
        self.current_mut().end(now, seen, cause)
    }
}

#[cfg(any(test, zernel_kunit))]
#[cfg_attr(
    not(test),
    kernel::macros::kunit_tests(zernel_policy_request_succession)
)]
mod tests {
    use super::{
        super::trial::Look,
        *, //
    };
    use crate::policy::switch_cost::Phase;

    const PLAN: Plan = Plan {
        trigger_at: Ns(1_200),
        lease: Ns(1_000),
        predicted: Ns(300),
        cost: Ns(100),
        slo: None,
        holder: true,
        look: Look::AtDue,
        phase: Phase::Settled,
        gate: false,
        ordered: false,
    };

    /// The words of a process that has stored all of request 1.
    fn stored(ready_ns: u64, done_ns: u64) -> Observed {
        Observed {
            done: 1,
            done_ns: Ns(done_ns),
            trigger: 1,
            release: 1,
            gate: 0,
            ready_ns: Ns(ready_ns),
            held: 1,
        }
    }

    fn begin(requests: &mut Succession, now: u64, seen: &Observed) -> (Number, Actions) {
        let mut actions = Actions::default();
        let number = requests.next(seen);
        requests.begin(number, Ns(now), seen, &PLAN, &mut actions);
        (number, actions)
    }

    #[test]
    fn what_was_stored_is_worked_out_later() {
        let mut slot = Slot::new();
        let mut requests = Succession::new();
        slot.begin(Ns(1_000), &Observed::default(), PLAN);
        begin(&mut requests, 1_000, &Observed::default());
        let seen = stored(1_300, 1_700);
        let (number, at_once) = slot.begin(Ns(2_000), &seen, PLAN);
        assert_eq!(requests.next(&seen), number);
        let (same, later) = begin(&mut requests, 2_000, &seen);
        assert_eq!(same, number);
        assert!(requests.is_behind());
        assert_eq!(later.over, None);
        assert_eq!(later.trigger, at_once.trigger);
        assert_eq!(later.release, at_once.release);
        assert_eq!(later.alarm, at_once.alarm);
        assert!(at_once.over.is_some());
        assert_eq!(requests.catch_up(), at_once.over);
        assert!(!requests.is_behind());
        assert_eq!(requests.catch_up(), None);
        assert_eq!(requests.active(), Some(number));
    }

    #[test]
    fn what_was_not_ready_is_given_back_at_once() {
        let mut requests = Succession::new();
        begin(&mut requests, 1_000, &Observed::default());
        requests.poll(Ns(1_200), &Observed::default());
        let seen = Observed {
            trigger: 1,
            ..Observed::default()
        };
        let (_, actions) = begin(&mut requests, 1_500, &seen);
        assert!(!requests.is_behind());
        assert_eq!(actions.release, Some(Number::ONE));
        assert!(actions
            .over
            .is_some_and(|over| over.cause == Cause::Superseded));
    }

    #[test]
    fn a_request_has_a_deadline_until_it_is_done() {
        let mut requests = Succession::new();
        let (none, some) = (Observed::default(), stored(1_300, 1_700));
        assert_eq!(requests.open_deadline(&none), None);
        begin(&mut requests, 1_000, &none);
        assert_eq!(requests.open_deadline(&none), None);
        let mut actions = Actions::default();
        let plan = Plan {
            slo: Some(Ns(500)),
            ..PLAN
        };
        let number = requests.next(&some);
        requests.begin(number, Ns(2_000), &some, &plan, &mut actions);
        assert_eq!(requests.open_deadline(&some), Some(Ns(2_500)));
        let done = Observed {
            done: number.get(),
            ..some
        };
        assert_eq!(requests.open_deadline(&done), None);
        assert!(requests.cancel(number, Ns(2_100), &some).is_ok());
        assert_eq!(requests.open_deadline(&some), None);
    }

    #[test]
    fn what_is_over_leaves_nothing() {
        let mut requests = Succession::new();
        let (number, _) = begin(&mut requests, 1_000, &Observed::default());
        let done = requests.done(number, Ns(1_500), &Observed::default());
        assert!(done.is_ok_and(|actions| actions.over.is_some()));
        let (next, _) = begin(&mut requests, 2_000, &stored(0, 0));
        assert_eq!(next, number.next());
        assert!(!requests.is_behind());
    }
}
