// SPDX-License-Identifier: GPL-2.0 OR MIT
//! The tunables of requests.

use super::Refused;
use crate::policy::{
    deadline::Order,
    nice::Delta,
    predict::{
        features::Memory,
        margin::Margin,
        trigger::{
            Rule,
            Trigger, //
        },
        Costs,
        Kind, //
    },
    units::Us, //
};

/// The tunables of requests.
///
/// # Invariants
///
/// `lease` lies within [`Requests::LEASE_RANGE`], `preempt_timeout` within
/// [`Requests::TIMEOUT_RANGE`], `safety_margin` within [`Requests::MARGIN_RANGE`]; no cost is above
/// [`Requests::COST_MAX`], and `min_prep` not above [`Requests::MIN_PREP_MAX`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Requests {
    lease: Us,
    predictor: Kind,
    memory: Memory,
    measured: bool,
    margin: bool,
    costs: Costs,
    shared_early: Option<u32>,
    preempt_timeout: Us,
    nice: Delta,
    no_holder: NoHolder,
    enabled: bool,
    scheduled: bool,
    min_prep: Us,
    safety_margin: Us,
    order: Order,
}

/// The treatment of less urgent TSGs for requests without a holder.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum NoHolder {
    /// Their slice is ended where the driver can do that; else as [`Self::Exclude`].
    #[default]
    Kick,
    /// They are kept off the GPU.
    Exclude,
}

impl NoHolder {
    const ALL: [Self; 2] = [Self::Kick, Self::Exclude];

    /// The name of the tunable's value.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Kick => "kick",
            Self::Exclude => "exclude",
        }
    }

    /// The value with a name.
    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|value| value.name() == name)
    }
}

impl Requests {
    /// Bounds of the lease: 100 µs, about one switch, to 10 s.
    pub(crate) const LEASE_RANGE: (Us, Us) = (Us(100), Us(10_000_000));
    /// Bounds of the time of a preemption: 1 µs to 1 s, as in the provider ABI.
    pub(crate) const TIMEOUT_RANGE: (Us, Us) = (Us(1), Us(1_000_000));
    /// Highest cost.
    pub(crate) const COST_MAX: u32 = 1_000_000;
    /// Longest preparation that may count as short: 1 s.
    pub(crate) const MIN_PREP_MAX: Us = Us(1_000_000);
    /// Bounds of the start of a margin, those of the margin itself.
    pub(crate) const MARGIN_RANGE: (Us, Us) = (
        Us((Margin::LEAST.0 / 1_000) as u32),
        Us((Margin::MOST.0 / 1_000) as u32),
    );

    /// The values before anybody tunes.
    pub(crate) fn new() -> Self {
        // INVARIANT: The defaults lie within their ranges.
        Self {
            lease: Us(10_000),
            predictor: Kind::default(),
            memory: Memory::default(),
            measured: false,
            margin: false,
            costs: Costs::default(),
            shared_early: None,
            preempt_timeout: Us(1_000),
            nice: Delta::NONE,
            no_holder: NoHolder::default(),
            enabled: true,
            scheduled: true,
            min_prep: Us(0),
            safety_margin: Us((Margin::USUAL.0 / 1_000) as u32),
            order: Order::default(),
        }
    }

    /// True if a request takes the GPU before its data is ready.
    pub(crate) fn enabled(&self) -> bool {
        self.enabled
    }

    /// Changes [`Self::enabled`].
    pub(crate) fn set_enabled(&mut self, on: bool) {
        self.enabled = on;
    }

    /// True if it does so when the prediction says, and not as soon as it begins.
    pub(crate) fn scheduled(&self) -> bool {
        self.scheduled
    }

    /// Changes [`Self::scheduled`].
    pub(crate) fn set_scheduled(&mut self, on: bool) {
        self.scheduled = on;
    }

    /// Preparations that are expected to be shorter are not waited for.
    pub(crate) fn min_prep(&self) -> Us {
        self.min_prep
    }

    /// Changes [`Self::min_prep`].
    pub(crate) fn set_min_prep(&mut self, time: Us) -> Result<(), Refused> {
        if time > Self::MIN_PREP_MAX {
            return Err(Refused::OutOfRange);
        }
        // INVARIANT: Just checked.
        self.min_prep = time;
        Ok(())
    }

    /// The rule for triggers that follows.
    pub(crate) fn rule(&self) -> Rule {
        let trigger = match (self.enabled, self.scheduled) {
            (false, _) => Trigger::AtReady,
            (true, false) => Trigger::AtBegin,
            (true, true) => Trigger::Predicted,
        };
        Rule {
            trigger,
            min_prep: self.min_prep.into(),
            order: self.order,
        }
    }

    /// The order of triggers among requests of a level.
    pub(crate) fn order(&self) -> Order {
        self.order
    }

    /// Changes [`Self::order`].
    pub(crate) fn set_order(&mut self, order: Order) {
        self.order = order;
    }

    /// The margin of a key that nothing is known of.
    pub(crate) fn safety_margin(&self) -> Us {
        self.safety_margin
    }

    /// Changes [`Self::safety_margin`].
    pub(crate) fn set_safety_margin(&mut self, margin: Us) -> Result<(), Refused> {
        let (min, max) = Self::MARGIN_RANGE;
        if margin < min || margin > max {
            return Err(Refused::OutOfRange);
        }
        // INVARIANT: Just checked.
        self.safety_margin = margin;
        Ok(())
    }

    /// The addition to the nice value of the thread of an LC request, from its trigger to its end.
    pub(crate) fn nice(&self) -> Delta {
        self.nice
    }

    /// Changes [`Self::nice`].
    ///
    /// # Errors
    ///
    /// Above 0.
    pub(crate) fn set_nice(&mut self, delta: Delta) -> Result<(), Refused> {
        if delta.number() > 0 {
            return Err(Refused::OutOfRange);
        }
        self.nice = delta;
        Ok(())
    }

    /// The treatment of less urgent TSGs for requests without a holder.
    pub(crate) fn no_holder(&self) -> NoHolder {
        self.no_holder
    }

    /// Changes [`Self::no_holder`].
    pub(crate) fn set_no_holder(&mut self, no_holder: NoHolder) {
        self.no_holder = no_holder;
    }

    /// Longest time from the trigger to ready.
    pub(crate) fn lease(&self) -> Us {
        self.lease
    }

    /// The classic margin is taken off the estimate of a point predictor.
    pub(crate) fn margin(&self) -> bool {
        self.margin
    }

    /// Changes [`Self::margin`].
    pub(crate) fn set_margin(&mut self, margin: bool) {
        self.margin = margin;
    }

    /// The predictor of preparation times, unless a request states its own.
    pub(crate) fn predictor(&self) -> Kind {
        self.predictor
    }

    /// The observations that a regression over features remembers.
    pub(crate) fn memory(&self) -> Memory {
        self.memory
    }

    /// Changes [`Self::memory`].
    ///
    /// # Errors
    ///
    /// Outside [`Memory::RANGE`].
    pub(crate) fn set_memory(&mut self, observations: u32) -> Result<(), Refused> {
        let memory = Memory::new(observations);
        if memory.number() != observations {
            return Err(Refused::OutOfRange);
        }
        self.memory = memory;
        Ok(())
    }

    /// True if the state of the machine counts as features beside those of the caller.
    pub(crate) fn measured(&self) -> bool {
        self.measured
    }

    /// Changes [`Self::measured`].
    pub(crate) fn set_measured(&mut self, on: bool) {
        self.measured = on;
    }

    /// The costs of being early and late, relative to each other.
    pub(crate) fn costs(&self) -> Costs {
        self.costs
    }

    /// The cost of being early in predictions while several programs share the GPU; `None`: the usual one.
    pub(crate) fn shared_early(&self) -> Option<u32> {
        self.shared_early
    }

    /// Changes [`Self::shared_early`].
    ///
    /// # Errors
    ///
    /// Above [`Self::COST_MAX`].
    pub(crate) fn set_shared_early(&mut self, cost: Option<u32>) -> Result<(), Refused> {
        self.shared_early = cost.map(in_cost_range).transpose()?;
        Ok(())
    }

    /// The time that the GPU may take to give up a TSG.
    pub(crate) fn preempt_timeout(&self) -> Us {
        self.preempt_timeout
    }

    /// Changes [`Self::preempt_timeout`].
    pub(crate) fn set_preempt_timeout(&mut self, timeout: Us) -> Result<(), Refused> {
        let (min, max) = Self::TIMEOUT_RANGE;
        if timeout < min || timeout > max {
            return Err(Refused::OutOfRange);
        }
        // INVARIANT: Just checked.
        self.preempt_timeout = timeout;
        Ok(())
    }

    /// Changes [`Self::lease`].
    pub(crate) fn set_lease(&mut self, lease: Us) -> Result<(), Refused> {
        let (min, max) = Self::LEASE_RANGE;
        if lease < min || lease > max {
            return Err(Refused::OutOfRange);
        }
        // INVARIANT: Just checked.
        self.lease = lease;
        Ok(())
    }

    /// Changes [`Self::predictor`].
    pub(crate) fn set_predictor(&mut self, kind: Kind) {
        self.predictor = kind;
    }

    /// Changes the cost of being early.
    pub(crate) fn set_early_cost(&mut self, cost: u32) -> Result<(), Refused> {
        self.costs.early = in_cost_range(cost)?;
        Ok(())
    }

    /// Changes the cost of being late.
    pub(crate) fn set_late_cost(&mut self, cost: u32) -> Result<(), Refused> {
        self.costs.late = in_cost_range(cost)?;
        Ok(())
    }
}

fn in_cost_range(cost: u32) -> Result<u32, Refused> {
    if cost > Requests::COST_MAX {
        return Err(Refused::OutOfRange);
    }
    Ok(cost)
}

#[cfg(any(test, zernel_kunit))]
#[cfg_attr(
    not(test),
    kernel::macros::kunit_tests(zernel_policy_tunables_requests)
)]
mod tests {
    use super::*;
    use crate::policy::{
        tunables::Tunables,
        units::Ns, //
    };

    #[test]
    fn triggers_are_tuned() {
        let mut r = Requests::new();
        assert_eq!(r.rule(), Rule::default());
        for (enabled, scheduled, trigger) in [
            (true, false, Trigger::AtBegin),
            (false, true, Trigger::AtReady),
            (false, false, Trigger::AtReady),
            (true, true, Trigger::Predicted),
        ] {
            r.set_enabled(enabled);
            r.set_scheduled(scheduled);
            assert_eq!((r.enabled(), r.scheduled()), (enabled, scheduled));
            assert_eq!(r.rule().trigger, trigger);
        }
        let old = r;
        assert_eq!(r.set_min_prep(Us(1_000_001)), Err(Refused::OutOfRange));
        for bad in [0, 501, u32::MAX] {
            assert_eq!(r.set_safety_margin(Us(bad)), Err(Refused::OutOfRange));
        }
        assert_eq!(r, old);
        assert_eq!(r.safety_margin(), Us(20));
        assert_eq!(r.set_safety_margin(Us(500)), Ok(()));
        assert_eq!(r.safety_margin(), Us(500));
        assert_eq!(r.set_min_prep(Us(1_000_000)), Ok(()));
        assert_eq!(r.rule().min_prep, Ns(1_000_000_000));
        assert_eq!(r.rule().order, Order::Fifo);
        for name in ["edf", "edf-preemptive", "fifo"] {
            let order = Order::named(name);
            r.set_order(order.unwrap_or_default());
            assert_eq!(r.rule().order.name(), name);
        }
        assert_eq!(Order::named(""), None);
    }

    #[test]
    fn the_memory_of_features_is_tuned() {
        let mut r = Requests::new();
        let old = r;
        for bad in [0, 15, 1_025, u32::MAX] {
            assert_eq!(r.set_memory(bad), Err(Refused::OutOfRange));
        }
        assert_eq!(r, old);
        for good in [16, 1_024] {
            assert_eq!(r.set_memory(good), Ok(()));
            assert_eq!(r.memory().number(), good);
        }
        // Others move the state of the machine: it counts for those who ask for it.
        assert!(!r.measured());
        r.set_measured(true);
        assert!(r.measured());
    }

    #[test]
    fn requests_are_tuned_within_their_ranges() {
        let mut t = Tunables::new();
        let old = *t.requests();
        assert_eq!(old.lease(), Us(10_000));
        assert_eq!(old.predictor(), Kind::Quantile);
        assert_eq!((old.costs().early, old.costs().late), (1, 6));
        let r = t.requests_mut();
        for bad in [Us(0), Us(99), Us(10_000_001), Us(u32::MAX)] {
            assert_eq!(r.set_lease(bad), Err(Refused::OutOfRange));
        }
        assert_eq!(r.set_early_cost(1_000_001), Err(Refused::OutOfRange));
        assert_eq!(r.set_late_cost(u32::MAX), Err(Refused::OutOfRange));
        for bad in [1_000_001, u32::MAX] {
            assert_eq!(r.set_shared_early(Some(bad)), Err(Refused::OutOfRange));
        }
        assert_eq!(r.shared_early(), None);
        assert_eq!(r.set_preempt_timeout(Us(0)), Err(Refused::OutOfRange));
        assert_eq!(
            r.set_preempt_timeout(Us(1_000_001)),
            Err(Refused::OutOfRange)
        );
        assert_eq!(*r, old);
        let (least, most) = Requests::TIMEOUT_RANGE;
        for timeout in [least, most, Us(300)] {
            assert!(r.set_preempt_timeout(timeout).is_ok());
            assert_eq!(r.preempt_timeout(), timeout);
        }
        assert!(r.set_lease(Us(100)).is_ok());
        assert!(r.set_early_cost(1_000_000).is_ok());
        assert!(r.set_late_cost(0).is_ok());
        for good in [Some(0), Some(1_000_000), None] {
            assert!(r.set_shared_early(good).is_ok());
            assert_eq!(r.shared_early(), good);
        }
        assert_eq!(r.nice(), Delta::NONE);
        let of = |number| Delta::new(number).unwrap_or_default();
        assert_eq!(r.set_nice(of(1)), Err(Refused::OutOfRange));
        assert!(r.set_nice(of(-20)).is_ok());
        assert_eq!(r.nice().number(), -20);
        r.set_predictor(Kind::Ema);
        assert!(!r.margin());
        r.set_margin(true);
        assert!(r.margin());
        assert_eq!(t.requests().lease(), Us(100));
        assert_eq!(t.requests().predictor(), Kind::Ema);
        assert_eq!(t.requests().costs().early, 1_000_000);
        assert_eq!(t.requests().costs().late, 0);
    }
}
