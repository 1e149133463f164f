// SPDX-License-Identifier: GPL-2.0
//! Turns the scheduler hooks on when something is to be tracked, and off when nothing is any more.
//!
//! That changes the kernel's text and takes its locks, so that a call would hold up others while it
//! has no CPU. The record reaper alone does it, as a worker; calls wait for that.
//!
//! # Locking
//!
//! The switch is a spinlock; the table of records is locked under it, and nothing else. The hooks are
//! the record reaper's, which does not run twice at a time, and the module's, at its exit.

use crate::{
    glue::{
        scheduler_hooks::Hooks,
        work::Kick, //
    },
    policy::units::Ns,
};
use kernel::{
    new_condvar, new_mutex, new_spinlock,
    prelude::*,
    sync::{
        Arc,
        CondVar,
        Mutex,
        SpinLock, //
    },
};

/// For how long nothing has to be tracked until the hooks are turned off.
const REST: Ns = Ns(1_000_000_000);

struct State {
    is_on: bool,
    /// Calls that need the hooks.
    needed: u32,
    /// Times that the record reaper has tried to turn them on, and the last outcome.
    tries: u64,
    outcome: Result,
    /// Since when nothing is tracked.
    idle: Option<Ns>,
}

/// The switch of the scheduler hooks.
#[pin_data]
pub(crate) struct Switch {
    #[pin]
    state: SpinLock<State>,
    #[pin]
    tried: CondVar,
    /// `None` after [`Self::end`].
    #[pin]
    hooks: Mutex<Option<Owned>>,
    reaper: Kick,
}

/// The parts of the hooks, and the hooks while they are on.
struct Owned {
    cgroup_sync: Kick,
    hooks: Option<Hooks>,
}

/// The hooks are on as long as this is there.
pub(super) struct Needed(Arc<Switch>);

impl Switch {
    /// It is off. `reaper` is the record reaper.
    pub(super) fn new(reaper: Kick, cgroup_sync: Kick) -> Result<Arc<Self>> {
        let state = State {
            is_on: false,
            needed: 0,
            tries: 0,
            outcome: Ok(()),
            idle: None,
        };
        let owned = Owned {
            cgroup_sync,
            hooks: None,
        };
        Arc::pin_init(
            pin_init!(Self {
                state <- new_spinlock!(state, "zernel_hook_switch"),
                tried <- new_condvar!(),
                hooks <- new_mutex!(Some(owned), "zernel_hooks"),
                reaper,
            }),
            GFP_KERNEL,
        )
    }

    /// The hooks are needed, and on when this returns.
    ///
    /// # Errors
    ///
    /// Those of [`Hooks::new`].
    pub(super) fn need(self: Arc<Self>) -> Result<Needed> {
        let mut state = self.state.lock();
        state.needed += 1;
        let seen = state.tries;
        while !state.is_on {
            if state.tries != seen {
                // A try that had begun before may have failed for another call.
                let outcome = state.outcome;
                state.needed -= 1;
                outcome?;
                state.needed += 1;
            }
            self.reaper.kick();
            self.tried.wait(&mut state);
        }
        drop(state);
        Ok(Needed(self))
    }

    /// Turns the hooks on if they are needed, or off if nothing was tracked for [`REST`]. Returns
    /// when to ask again. Called by the record reaper. `is_idle` tells whether nothing is tracked.
    pub(super) fn turn(&self, now: Ns, is_idle: impl FnOnce() -> bool) -> Option<Ns> {
        let mut state = self.state.lock();
        if !state.is_on {
            let is_needed = state.needed > 0;
            drop(state);
            if is_needed {
                self.turn_on();
            }
            return None;
        }
        if state.needed > 0 || !is_idle() {
            state.idle = None;
            return None;
        }
        let since = *state.idle.get_or_insert(now);
        let at = since.saturating_add(REST);
        if now < at {
            return Some(at);
        }
        state.idle = None;
        state.is_on = false;
        drop(state);
        let mut owned = self.hooks.lock();
        let hooks = (*owned).as_mut().and_then(|owned| owned.hooks.take());
        drop(hooks);
        None
    }

    fn turn_on(&self) {
        let mut owned = self.hooks.lock();
        let outcome = match &mut *owned {
            Some(owned) => Hooks::new(owned.cgroup_sync.clone()).map(|hooks| {
                owned.hooks = Some(hooks);
            }),
            None => Err(ENODEV),
        };
        drop(owned);
        let mut state = self.state.lock();
        state.is_on = outcome.is_ok();
        state.outcome = outcome;
        state.tries += 1;
        drop(state);
        self.tried.notify_all();
    }

    /// Turns them off for ever.
    pub(super) fn end(&self) {
        let owned = self.hooks.lock().take();
        drop(owned);
    }
}

impl Drop for Needed {
    fn drop(&mut self) {
        self.0.state.lock().needed -= 1;
        // Nobody else may ask whether the hooks are still needed.
        self.0.reaper.kick();
    }
}
