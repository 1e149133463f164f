// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Exact accounts: every nanosecond since the start belongs to one state.

use super::measures::Ns;

/// State of an engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EngineState {
    /// A TSG runs.
    Busy,
    /// A context is saved or restored.
    Switch,
    /// Neither.
    Idle,
}

/// State of a TSG.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TsgState {
    /// It has the engine.
    Busy,
    /// Its context is saved or restored.
    Switch,
    /// It could run and has not the engine.
    Wait,
    /// It has nothing to run, or is disabled.
    Inactive,
}

/// Times of an engine. `busy + switch + idle` is the time since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct EngineTimes {
    /// In [`EngineState::Busy`].
    pub(crate) busy: Ns,
    /// In [`EngineState::Switch`].
    pub(crate) switch: Ns,
    /// In [`EngineState::Idle`].
    pub(crate) idle: Ns,
}

/// Times of a TSG. `busy + switch + wait + inactive` is the time since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct TsgTimes {
    /// In [`TsgState::Busy`].
    pub(crate) busy: Ns,
    /// In [`TsgState::Switch`].
    pub(crate) switch: Ns,
    /// In [`TsgState::Wait`].
    pub(crate) wait: Ns,
    /// In [`TsgState::Inactive`].
    pub(crate) inactive: Ns,
    /// Times that a wait began.
    pub(crate) waits: u64,
    /// Longest wait that has ended.
    pub(crate) max_wait: Ns,
}

/// Account of an engine.
pub(crate) struct EngineAccount {
    state: EngineState,
    since: Ns,
    times: EngineTimes,
}

impl EngineAccount {
    /// Starts idle at `now`.
    pub(crate) const fn new(now: Ns) -> Self {
        let times = EngineTimes {
            busy: Ns::ZERO,
            switch: Ns::ZERO,
            idle: Ns::ZERO,
        };
        Self {
            state: EngineState::Idle,
            since: now,
            times,
        }
    }

    /// Changes the state at `now`.
    pub(crate) fn enter(&mut self, state: EngineState, now: Ns) {
        self.times = self.at(now);
        self.since = self.since.max(now);
        self.state = state;
    }

    /// Times up to `now`.
    pub(crate) fn at(&self, now: Ns) -> EngineTimes {
        let mut times = self.times;
        let sum = match self.state {
            EngineState::Busy => &mut times.busy,
            EngineState::Switch => &mut times.switch,
            EngineState::Idle => &mut times.idle,
        };
        *sum = sum.plus(now.since(self.since));
        times
    }
}

/// Account of a TSG.
pub(crate) struct TsgAccount {
    state: TsgState,
    since: Ns,
    times: TsgTimes,
}

impl TsgAccount {
    /// Starts inactive at `now`.
    pub(crate) const fn new(now: Ns) -> Self {
        Self {
            state: TsgState::Inactive,
            since: now,
            times: TsgTimes {
                busy: Ns::ZERO,
                switch: Ns::ZERO,
                wait: Ns::ZERO,
                inactive: Ns::ZERO,
                waits: 0,
                max_wait: Ns::ZERO,
            },
        }
    }

    /// Changes the state at `now`. Entering the state it is in changes nothing.
    pub(crate) fn enter(&mut self, state: TsgState, now: Ns) {
        if state == self.state {
            return;
        }
        let waited = now.since(self.since);
        self.times = self.at(now);
        if self.state == TsgState::Wait {
            self.times.max_wait = self.times.max_wait.max(waited);
        }
        if state == TsgState::Wait {
            self.times.waits = self.times.waits.saturating_add(1);
        }
        self.since = self.since.max(now);
        self.state = state;
    }

    /// Times up to `now`.
    pub(crate) fn at(&self, now: Ns) -> TsgTimes {
        let mut times = self.times;
        let sum = match self.state {
            TsgState::Busy => &mut times.busy,
            TsgState::Switch => &mut times.switch,
            TsgState::Wait => &mut times.wait,
            TsgState::Inactive => &mut times.inactive,
        };
        *sum = sum.plus(now.since(self.since));
        times
    }
}

#[cfg(any(test, zernel_kunit))]
#[cfg_attr(not(test), kernel::macros::kunit_tests(zernel_model_account))]
mod tests {
    use super::*;

    #[test]
    fn engine_times_sum_up_to_the_time_passed() {
        let mut account = EngineAccount::new(Ns(100));
        account.enter(EngineState::Switch, Ns(130));
        account.enter(EngineState::Busy, Ns(150));
        let times = account.at(Ns(220));
        assert_eq!(
            times,
            EngineTimes {
                busy: Ns(70),
                switch: Ns(20),
                idle: Ns(30)
            }
        );
    }

    #[test]
    fn tsg_waits_are_counted_and_the_longest_kept() {
        let mut account = TsgAccount::new(Ns(0));
        account.enter(TsgState::Wait, Ns(10));
        account.enter(TsgState::Wait, Ns(15));
        account.enter(TsgState::Switch, Ns(40));
        account.enter(TsgState::Busy, Ns(45));
        account.enter(TsgState::Wait, Ns(50));
        account.enter(TsgState::Inactive, Ns(60));
        let times = account.at(Ns(61));
        assert_eq!(times.waits, 2);
        assert_eq!(times.max_wait, Ns(30));
        assert_eq!(times.wait, Ns(40));
        assert_eq!(times.inactive, Ns(11));
        assert_eq!(times.busy, Ns(5));
        assert_eq!(times.switch, Ns(5));
    }
}
