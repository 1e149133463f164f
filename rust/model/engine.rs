// SPDX-License-Identifier: GPL-2.0 OR MIT
//! An engine: one TSG at a time, or a switch between two.

use super::{
    account::{
        EngineAccount,
        EngineState, //
    },
    arena::{
        index,
        Index,
        Node, //
    },
    event::Activity,
    measures::{
        Ns,
        Us, //
    }, //
    runlist::Runlist,
    tsg::TsgIx,
};

index!(
    /// Names an [`Engine`].
    EngineIx
);

/// The activity of an engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Nothing; the context that ran last is still loaded.
    Idle,
    /// Saves the loaded context, to make room for the next one.
    Saving,
    /// Restores the next context.
    Restoring,
    /// Runs the loaded TSG.
    Running,
}

impl Phase {
    const fn state(self) -> EngineState {
        match self {
            Self::Idle => EngineState::Idle,
            Self::Saving | Self::Restoring => EngineState::Switch,
            Self::Running => EngineState::Busy,
        }
    }

    /// As the trace calls it.
    pub(crate) const fn activity(self) -> Activity {
        match self {
            Self::Idle => Activity::Idle,
            Self::Saving => Activity::Save,
            Self::Restoring => Activity::Restore,
            Self::Running => Activity::Run,
        }
    }
}

/// An engine.
pub(crate) struct Engine {
    /// Its activity. Changed by [`Engine::enter`].
    phase: Phase,
    /// Since when.
    since: Ns,
    /// Time of a save, and of a restore.
    pub(crate) switch_cost: Ns,
    /// The TSG whose context is in the engine.
    pub(crate) loaded: TsgIx,
    /// The TSG that it switches to.
    pub(crate) next: TsgIx,
    /// When the switch to it began; [`Ns::NEVER`] without one.
    switch_start: Ns,
    /// The others that could run.
    pub(crate) runlist: Runlist,
    /// Until when the progress of the running items is known.
    pub(crate) synced: Ns,
    /// When the slice began.
    slice_start: Ns,
    /// The length of the slice.
    slice: Ns,
    /// The slice is over; blocks that have begun are finished.
    pub(crate) draining: bool,
    /// When something happens next, if nobody intervenes.
    pub(crate) event: Ns,
    /// The slice of the TSG that it switches to is over when it begins.
    pub(crate) cut: bool,
    /// Something has changed: look again before time goes on.
    pub(crate) dirty: bool,
    /// Exact times.
    pub(crate) account: EngineAccount,
    /// TSGs of this engine.
    pub(crate) nr_tsgs: u32,
    /// Contexts restored.
    pub(crate) switches: u64,
    /// Items completed.
    pub(crate) completed: u64,
    rearms: u64,
    free: EngineIx,
}

impl Node for Engine {
    type Ix = EngineIx;

    fn blank() -> Self {
        Self::new(Ns::ZERO, Ns::ZERO)
    }

    fn next_free(&mut self) -> &mut EngineIx {
        &mut self.free
    }
}

impl Engine {
    /// An idle engine with nothing loaded.
    pub(crate) const fn new(switch_cost: Ns, now: Ns) -> Self {
        Self {
            phase: Phase::Idle,
            since: now,
            switch_cost,
            loaded: TsgIx::NIL,
            next: TsgIx::NIL,
            switch_start: Ns::NEVER,
            runlist: Runlist::new(),
            synced: now,
            slice_start: now,
            slice: Ns::ZERO,
            draining: false,
            event: Ns::NEVER,
            cut: false,
            dirty: false,
            account: EngineAccount::new(now),
            nr_tsgs: 0,
            switches: 0,
            completed: 0,
            rearms: 0,
            free: EngineIx::NIL,
        }
    }

    /// Its activity.
    pub(crate) fn phase(&self) -> Phase {
        self.phase
    }

    /// Since when.
    pub(crate) fn since(&self) -> Ns {
        self.since
    }

    /// Does something else from `now` on.
    pub(crate) fn enter(&mut self, phase: Phase, now: Ns) {
        if phase.state() == EngineState::Switch {
            self.switch_start = self.switch_start.min(now);
        }
        self.phase = phase;
        self.since = now;
        self.account.enter(phase.state(), now);
    }

    /// Time of the switch that ends at `now`, its save and its restore; zero without one.
    pub(crate) fn end_switch(&mut self, now: Ns) -> Ns {
        let start = core::mem::replace(&mut self.switch_start, Ns::NEVER);
        now.since(start)
    }

    /// Starts a slice at `now`.
    pub(crate) fn start_slice(&mut self, length: Us, now: Ns) {
        self.slice_start = now;
        self.slice = length.ns();
    }

    /// When the slice ends that is under way at `now`.
    ///
    /// Slices run on by themselves: one that ended with nobody waiting was followed by another
    /// one, of length `length`, without anybody having looked. At the very end of a slice this is
    /// `now`.
    pub(crate) fn slice_end(&mut self, length: Us, now: Ns) -> Ns {
        if now.since(self.slice_start) > self.slice {
            self.slice_start = self.slice_start.plus(self.slice);
            self.slice = length.ns();
            let passed = now.since(self.slice_start).0.saturating_sub(1);
            let more = passed.checked_div(self.slice.0).unwrap_or(0);
            self.slice_start = self.slice_start.plus(Ns(self.slice.0.saturating_mul(more)));
            self.rearms = self.rearms.saturating_add(1).saturating_add(more);
        }
        self.slice_start.plus(self.slice)
    }

    /// The loaded TSG gets slices of `length` from now on, before `now` ones of `old`. A longer
    /// one counts from the next slice; a shorter one cuts this slice, which ends now if it has
    /// lasted that long.
    pub(crate) fn change_slice(&mut self, old: Us, length: Us, now: Ns) {
        self.slice_end(old, now);
        let length = length.ns();
        if length < self.slice {
            self.slice = now.since(self.slice_start).max(length);
        }
    }

    /// Slices that ended with nobody waiting, up to `now`.
    pub(crate) fn rearms(&self, length: Us, now: Ns) -> u64 {
        let passed = now.since(self.slice_start);
        if self.phase != Phase::Running || !self.runlist.is_empty() || passed <= self.slice {
            return self.rearms;
        }
        let rest = passed.since(self.slice).0.saturating_sub(1);
        let more = rest.checked_div(length.ns().0).unwrap_or(0);
        self.rearms.saturating_add(1).saturating_add(more)
    }
}

#[cfg(any(test, zernel_kunit))]
#[cfg_attr(not(test), kernel::macros::kunit_tests(zernel_model_engine))]
mod tests {
    use super::*;

    #[test]
    fn slices_run_on_by_themselves() {
        let mut engine = Engine::new(Ns::ZERO, Ns::ZERO);
        engine.enter(Phase::Running, Ns(500));
        engine.start_slice(Us(1), Ns(500));
        assert_eq!(engine.slice_end(Us(1), Ns(500)), Ns(1_500));
        assert_eq!(engine.slice_end(Us(1), Ns(1_500)), Ns(1_500));
        assert_eq!(engine.rearms(Us(1), Ns(3_500)), 2);
        assert_eq!(engine.slice_end(Us(1), Ns(3_500)), Ns(3_500));
        assert_eq!(engine.slice_end(Us(1), Ns(3_501)), Ns(4_500));
        assert_eq!(engine.rearms(Us(1), Ns(3_501)), 3);
    }

    #[test]
    fn a_longer_slice_counts_from_the_next_one() {
        let mut engine = Engine::new(Ns::ZERO, Ns::ZERO);
        engine.start_slice(Us(10), Ns::ZERO);
        engine.change_slice(Us(10), Us(100), Ns(5_000));
        assert_eq!(engine.slice_end(Us(100), Ns(5_000)), Ns(10_000));
        assert_eq!(engine.slice_end(Us(100), Ns(10_001)), Ns(110_000));
    }

    #[test]
    fn a_shorter_slice_cuts_this_one() {
        let mut engine = Engine::new(Ns::ZERO, Ns::ZERO);
        engine.start_slice(Us(100), Ns::ZERO);
        engine.change_slice(Us(100), Us(10), Ns(5_000));
        assert_eq!(engine.slice_end(Us(10), Ns(5_000)), Ns(10_000));
        engine.start_slice(Us(100), Ns::ZERO);
        engine.change_slice(Us(100), Us(10), Ns(50_000));
        assert_eq!(engine.slice_end(Us(10), Ns(50_000)), Ns(50_000));
    }
}
