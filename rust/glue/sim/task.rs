// SPDX-License-Identifier: GPL-2.0
//! The caller and its rights.

#[cfg(zernel_sim)]
use crate::glue::provider_side::Task;
use core::ptr::NonNull;
use kernel::{
    bindings,
    prelude::*, //
};

extern "C" {
    fn zernel_sim_helper_current_pid(process: bool) -> *mut bindings::pid;
    fn zernel_sim_helper_pid_global(pid: *mut bindings::pid) -> bindings::pid_t;
    fn zernel_sim_helper_pid_alive(pid: *mut bindings::pid, process: bool) -> bool;
    fn zernel_sim_helper_perfmon_capable() -> bool;
}

/// A process or a thread, by reference: its number can be told even when it is gone.
///
/// # Invariants
///
/// Holds a reference to the `struct pid`.
pub(crate) struct Pid {
    pid: NonNull<bindings::pid>,
    process: bool,
}

// SAFETY: `struct pid` is reference counted and may be used from any thread.
unsafe impl Send for Pid {}
// SAFETY: As above.
unsafe impl Sync for Pid {}

impl Pid {
    fn current(process: bool) -> Result<Self> {
        // SAFETY: Called by a task.
        let pid = unsafe { zernel_sim_helper_current_pid(process) };
        // INVARIANT: The helper takes a reference.
        Ok(Self {
            pid: NonNull::new(pid).ok_or(ESRCH)?,
            process,
        })
    }

    /// The calling process.
    pub(crate) fn current_process() -> Result<Self> {
        Self::current(true)
    }

    /// The calling thread.
    pub(crate) fn current_thread() -> Result<Self> {
        Self::current(false)
    }

    /// Number in the initial namespace.
    pub(crate) fn global(&self) -> i32 {
        // SAFETY: Valid by the type invariant.
        unsafe { zernel_sim_helper_pid_global(self.pid.as_ptr()) }
    }

    /// Number in the caller's namespace; 0 if it is not in it or gone.
    pub(crate) fn seen(&self) -> i32 {
        // SAFETY: Valid by the type invariant.
        unsafe {
            if zernel_sim_helper_pid_alive(self.pid.as_ptr(), self.process) {
                bindings::pid_vnr(self.pid.as_ptr())
            } else {
                0
            }
        }
    }

    /// For a description of a TSG.
    #[cfg(zernel_sim)]
    pub(crate) fn task(&self) -> Task<'_> {
        // SAFETY: Valid by the type invariant while `self` is borrowed.
        unsafe { Task::from_raw(self.pid.as_ptr()) }
    }
}

impl Drop for Pid {
    fn drop(&mut self) {
        // SAFETY: Held by the type invariant.
        unsafe { bindings::put_pid(self.pid.as_ptr()) };
    }
}

/// The caller's user id, in the initial namespace.
pub(crate) fn uid() -> u32 {
    kernel::task::Kuid::current_euid().into_raw().val
}

/// True if the caller may see the activity of others.
pub(crate) fn may_observe() -> bool {
    // SAFETY: Called by a task.
    unsafe { zernel_sim_helper_perfmon_capable() }
}

/// True if the caller may inject faults.
pub(crate) fn may_administrate() -> bool {
    // SAFETY: Called by a task.
    unsafe { bindings::capable(bindings::CAP_SYS_ADMIN as c_int) }
}

/// True if the caller's quotas are lifted.
pub(crate) fn has_resources() -> bool {
    // SAFETY: Called by a task.
    unsafe { bindings::capable(bindings::CAP_SYS_RESOURCE as c_int) }
}
