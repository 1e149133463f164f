// SPDX-License-Identifier: GPL-2.0
//! Records the activity of threads, as the scheduler tells it; other threads pay nothing.
//!
//! A record hangs on the preempt-notifier list of its thread, which that thread alone changes: it
//! is put there by task work, when the thread returns to user space next, and taken off by task
//! work or by a probe of its exit, with the table of records locked: sums of times are exact. A
//! thread alone writes its activity, with preemption off. It is read under a sequence count in
//! process context: no reader ever keeps the scheduler waiting.
//!
//! The scheduler calls the notifiers, which take no lock but the workqueue's own when they ring:
//! that is a raw spinlock with `PREEMPT_RT`, too. The probes of fork and exit run with preemption
//! on, and may take spinlocks.
//!
//! A record on its way belongs to the thread. Once it is over it is put on a lock-free list, and
//! the record reaper takes it from there; until then it holds a reference to the module.

mod calls;
mod places;
mod record;

use super::work::Kick;
pub(crate) use calls::{
    belong_to,
    Change,
    Table, //
};
use kernel::{
    error::to_result,
    prelude::*,
    sync::atomic::{
        ordering::Relaxed,
        Atomic, //
    },
};
pub(crate) use places::{
    init_lock,
    live,
    miss,
    missed, //
};
pub(super) use record::record_of;
pub(crate) use record::{
    take_over,
    Record, //
};

extern "C" {
    fn zernel_helper_hooks_on(cgroup_sync: *mut c_void) -> c_int;
    fn zernel_helper_hooks_off();
    fn zernel_helper_hooks_wait();
}

/// True if this kernel tells when threads are put on and off a CPU.
pub(crate) const IS_SUPPORTED: bool = cfg!(CONFIG_PREEMPT_NOTIFIERS);

/// True if [`Hooks`] were ever on.
static USED: Atomic<bool> = Atomic::new(false);

/// Has the probes and notifiers called as long as it lives; all records are over before that.
///
/// # Invariants
///
/// They are on.
pub(crate) struct Hooks(#[expect(dead_code, reason = "a probe kicks it")] Kick);

impl Hooks {
    /// Turns them on; `cgroup_sync` looks when a process is made in a tracked cgroup that has no
    /// record. May sleep.
    ///
    /// # Errors
    ///
    /// `EOPNOTSUPP` the kernel was built without preempt notifiers, `ENOMEM`.
    pub(crate) fn new(cgroup_sync: Kick) -> Result<Self> {
        USED.store(true, Relaxed);
        // SAFETY: There is one of these at a time, as its switch has it. The cgroup sync lives until
        // `wait_for_all` has waited for the probes.
        to_result(unsafe { zernel_helper_hooks_on(cgroup_sync.as_raw()) })?;
        // INVARIANT: Just turned on.
        Ok(Self(cgroup_sync))
    }
}

impl Drop for Hooks {
    fn drop(&mut self) {
        // SAFETY: On, by the type invariant.
        unsafe { zernel_helper_hooks_off() };
    }
}

/// Waits until no thread runs code of [`calls`] for a record that is over. After all [`Hooks`].
pub(crate) fn wait_for_all() {
    if USED.load(Relaxed) {
        // SAFETY: The caller may sleep.
        unsafe { zernel_helper_hooks_wait() };
    }
}
