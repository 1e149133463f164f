// SPDX-License-Identifier: GPL-2.0
//! Cgroups (version 2), by their ids, which are never used again.

use super::{
    identity::{
        Pid,
        Uid, //
    },
    work::Worker,
};
use crate::janitor::Follower;
use core::ptr::NonNull;
use kernel::{
    bindings,
    error::{
        from_err_ptr,
        to_result, //
    },
    prelude::*,
    sync::Arc,
};

extern "C" {
    fn zernel_helper_cgroup_from_fd(fd: c_int, owner: *mut u32) -> *mut bindings::cgroup;
    fn zernel_helper_cgroup_of(process: *mut bindings::pid) -> *mut bindings::cgroup;
    fn zernel_helper_cgroup_parent(cgroup: *mut bindings::cgroup) -> *mut bindings::cgroup;
    fn zernel_helper_cgroup_id(cgroup: *mut bindings::cgroup) -> u64;
    fn zernel_helper_cgroup_dead(cgroup: *mut bindings::cgroup) -> bool;
    fn zernel_helper_cgroup_put(cgroup: *mut bindings::cgroup);
    fn zernel_helper_cgroup_hooks_add(data: *mut c_void) -> c_int;
    fn zernel_helper_cgroup_hooks_del();
}

/// A reference to a cgroup.
///
/// # Invariants
///
/// Holds a reference, which pins all ancestors too.
pub(crate) struct Cgroup(NonNull<bindings::cgroup>);

// SAFETY: Cgroups are reference-counted; only constant parts and a flag are read.
unsafe impl Send for Cgroup {}
// SAFETY: As above.
unsafe impl Sync for Cgroup {}

impl Cgroup {
    /// The cgroup whose directory `fd` is, and the owner of that directory.
    ///
    /// # Errors
    ///
    /// `EBADF` it is not a cgroup v2 directory, `ESRCH` the cgroup was removed.
    pub(crate) fn from_fd(fd: u64) -> Result<(Self, Uid)> {
        let fd = c_int::try_from(fd).map_err(|_| EBADF)?;
        let mut owner = 0;
        // SAFETY: FFI; the helper takes a reference.
        let cgroup = from_err_ptr(unsafe { zernel_helper_cgroup_from_fd(fd, &mut owner) })
            .map_err(|e| if e == EBADF { e } else { ESRCH })?;
        // INVARIANT: The helper took the reference.
        let cgroup = Self(NonNull::new(cgroup).ok_or(EBADF)?);
        Ok((cgroup, Uid(owner)))
    }

    /// The cgroup of a process; `None` when it was reaped or there are no cgroups.
    pub(crate) fn of(process: &Pid) -> Option<Self> {
        // INVARIANT: The helper takes a reference.
        // SAFETY: `process` is valid.
        NonNull::new(unsafe { zernel_helper_cgroup_of(process.as_raw()) }).map(Self)
    }

    /// Its id: the inode number of its directory.
    pub(crate) fn id(&self) -> u64 {
        // SAFETY: Valid by the type invariant.
        unsafe { zernel_helper_cgroup_id(self.0.as_ptr()) }
    }

    /// Whether its directory was removed.
    pub(crate) fn is_dead(&self) -> bool {
        // SAFETY: Valid by the type invariant.
        unsafe { zernel_helper_cgroup_dead(self.0.as_ptr()) }
    }

    /// The ids from this cgroup up to the root.
    pub(crate) fn ancestry(&self) -> Result<KVec<u64>> {
        let mut chain = KVec::new();
        let mut cgroup = self.0.as_ptr();
        while !cgroup.is_null() {
            // SAFETY: An ancestor lives as long as the cgroup, by the type invariant.
            chain.push(unsafe { zernel_helper_cgroup_id(cgroup) }, GFP_KERNEL)?;
            // SAFETY: As above.
            cgroup = unsafe { zernel_helper_cgroup_parent(cgroup) };
        }
        Ok(chain)
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        // SAFETY: Held by the type invariant.
        unsafe { zernel_helper_cgroup_put(self.0.as_ptr()) };
    }
}

/// Kicks a follower when a process moved to another cgroup or a cgroup was removed.
pub(crate) struct Hooks(#[expect(dead_code, reason = "the probes use it")] Arc<Worker<Follower>>);

impl Hooks {
    /// Hooks into the cgroup tracepoints.
    ///
    /// # Errors
    ///
    /// `ENOENT` the kernel has no such tracepoints.
    pub(crate) fn new(follower: Arc<Worker<Follower>>) -> Result<Self> {
        let data = core::ptr::from_ref(&*follower).cast_mut().cast();
        // SAFETY: The follower lives until `drop` has removed the probes.
        to_result(unsafe { zernel_helper_cgroup_hooks_add(data) })?;
        Ok(Self(follower))
    }
}

impl Drop for Hooks {
    fn drop(&mut self) {
        // SAFETY: Added in `new`. Waits for probes under way.
        unsafe { zernel_helper_cgroup_hooks_del() };
    }
}

/// Called by the probes, with interrupts off.
///
/// # Safety
///
/// `data` is what [`Hooks::new`] handed over.
#[no_mangle]
unsafe extern "C" fn zernel_rust_cgroup_changed(data: *mut c_void) {
    // SAFETY: By the caller.
    let follower = unsafe { &*data.cast::<Worker<Follower>>() };
    follower.kick_after(follower.delay().0);
}
