// SPDX-License-Identifier: GPL-2.0
//! Cgroups (version 2), by their ids, which are never used again.

use super::{
    identity::{
        Pid,
        Uid, //
    },
    work::Kick, //
};
use core::ptr::NonNull;
use kernel::{
    bindings,
    error::{
        from_err_ptr,
        to_result, //
    },
    prelude::*, //
};

extern "C" {
    fn zernel_helper_cgroup_from_fd(fd: c_int, owner: *mut u32) -> *mut bindings::cgroup;
    fn zernel_helper_cgroup_of(process: *mut bindings::pid) -> *mut bindings::cgroup;
    fn zernel_helper_cgroup_parent(cgroup: *mut bindings::cgroup) -> *mut bindings::cgroup;
    fn zernel_helper_cgroup_above(
        cgroup: *mut bindings::cgroup,
        level: c_int,
    ) -> *mut bindings::cgroup;
    fn zernel_helper_cgroup_id(cgroup: *mut bindings::cgroup) -> u64;
    fn zernel_helper_cgroup_dead(cgroup: *mut bindings::cgroup) -> bool;
    fn zernel_helper_cgroup_put(cgroup: *mut bindings::cgroup);
    fn zernel_helper_cgroup_next_known(cgroup: *mut bindings::cgroup) -> *mut bindings::cgroup;
    fn zernel_helper_cgroup_is_below(
        cgroup: *mut bindings::cgroup,
        top: *mut bindings::cgroup,
    ) -> bool;
    fn zernel_helper_cgroup_known(cgroup: *mut bindings::cgroup, is: bool);
    fn zernel_helper_processes_in(
        cgroup: *mut bindings::cgroup,
        from: *mut c_int,
        found: *mut *mut bindings::pid,
        room: usize,
    ) -> usize;
    fn zernel_helper_cgroup_hooks_add(data: *mut c_void) -> c_int;
    fn zernel_helper_cgroup_hooks_del();
}

/// Levels of the tree that have a meaning here, the root's included. A process farther down counts
/// as one of its cgroup's ancestor at the last of them, so that no look upwards takes long.
pub(crate) const LEVELS: usize = 32;

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
    /// The cgroup of the directory `fd`, and the owner of that directory.
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

    /// True if its directory was removed.
    pub(crate) fn is_dead(&self) -> bool {
        // SAFETY: Valid by the type invariant.
        unsafe { zernel_helper_cgroup_dead(self.0.as_ptr()) }
    }

    /// The cgroup that its processes count for: itself, or its ancestor on the last of [`LEVELS`].
    fn counted(&self) -> *mut bindings::cgroup {
        // SAFETY: Valid by the type invariant, as are all ancestors.
        unsafe { zernel_helper_cgroup_above(self.0.as_ptr(), LEVELS as c_int - 1) }
    }

    /// True if its processes count for another one.
    pub(crate) fn is_too_deep(&self) -> bool {
        self.counted() != self.0.as_ptr()
    }

    /// The id of the cgroup that its processes count for.
    pub(crate) fn counted_id(&self) -> u64 {
        // SAFETY: Lives as long as this one.
        unsafe { zernel_helper_cgroup_id(self.counted()) }
    }

    /// The ids from the cgroup that its processes count for up to the root; [`LEVELS`] at most.
    pub(crate) fn ids(&self) -> impl Iterator<Item = u64> + '_ {
        let mut cgroup = self.counted();
        core::iter::from_fn(move || {
            if cgroup.is_null() {
                return None;
            }
            // SAFETY: An ancestor lives as long as the cgroup, by the type invariant.
            let id = unsafe { zernel_helper_cgroup_id(cgroup) };
            // SAFETY: As above.
            cgroup = unsafe { zernel_helper_cgroup_parent(cgroup) };
            Some(id)
        })
    }

    /// Those of [`Self::ids`] that may be ids of [`Known`] ones: however many there are, hardly any
    /// others are among them.
    pub(crate) fn known_ids(&self) -> impl Iterator<Item = u64> + '_ {
        let mut cgroup = self.0.as_ptr();
        core::iter::from_fn(move || {
            // SAFETY: Null, or as in `ids`.
            cgroup = unsafe { zernel_helper_cgroup_next_known(cgroup) };
            if cgroup.is_null() {
                return None;
            }
            // SAFETY: As in `ids`.
            let id = unsafe { zernel_helper_cgroup_id(cgroup) };
            // SAFETY: As above.
            cgroup = unsafe { zernel_helper_cgroup_parent(cgroup) };
            Some(id)
        })
    }

    /// True if it is `top`, or below that.
    pub(crate) fn is_below(&self, top: &Self) -> bool {
        // SAFETY: Both are valid by the type invariant.
        unsafe { zernel_helper_cgroup_is_below(self.0.as_ptr(), top.0.as_ptr()) }
    }

    /// As [`Self::ids`].
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn ancestry(&self) -> Result<KVec<u64>> {
        let mut chain = KVec::with_capacity(LEVELS, GFP_KERNEL)?;
        for id in self.ids() {
            chain.push(id, GFP_KERNEL)?;
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

/// A tracked cgroup: while the scheduler hooks are on, a new process in it kicks the cgroup sync,
/// unless it has a record from the start.
pub(crate) struct Known(Cgroup);

impl Known {
    /// From now on.
    pub(crate) fn new(cgroup: Cgroup) -> Self {
        // SAFETY: Valid by the type invariant.
        unsafe { zernel_helper_cgroup_known(cgroup.0.as_ptr(), true) };
        Self(cgroup)
    }
}

impl core::ops::Deref for Known {
    type Target = Cgroup;

    fn deref(&self) -> &Cgroup {
        &self.0
    }
}

impl Drop for Known {
    fn drop(&mut self) {
        // SAFETY: Valid by the type invariant, and counted in `new`.
        unsafe { zernel_helper_cgroup_known(self.0 .0.as_ptr(), false) };
    }
}

/// Processes that are looked for at once.
const ROOM: usize = 64;

/// A walk through all processes that run programs, in the order of their numbers. A process that is
/// there all the time is met once.
pub(crate) struct Walk<'a> {
    within: Option<&'a Known>,
    /// 0 at the end.
    from: c_int,
}

impl<'a> Walk<'a> {
    /// Those that are in a cgroup or below; without one, those that may be in a tracked one.
    pub(crate) fn new(within: Option<&'a Known>) -> Self {
        Self { within, from: 1 }
    }

    /// The next ones, perhaps none; `None` at the end. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn next(&mut self) -> Result<Option<KVec<Pid>>> {
        if self.from == 0 {
            return Ok(None);
        }
        let mut found = KVec::with_capacity(ROOM, GFP_KERNEL)?;
        let mut raw = [core::ptr::null_mut(); ROOM];
        let within = self.within.map(|known| known.0 .0.as_ptr());
        let cgroup = within.unwrap_or(core::ptr::null_mut());
        // SAFETY: The cgroup is null or valid, and `raw` has that room.
        let count = unsafe {
            zernel_helper_processes_in(cgroup, &mut self.from, raw.as_mut_ptr(), raw.len())
        };
        for &pid in raw.iter().take(count) {
            // SAFETY: The helper took a reference.
            if let Some(pid) = unsafe { Pid::adopt(pid) } {
                // There is room, so nothing is lost.
                found.push(pid, GFP_KERNEL)?;
            }
        }
        Ok(Some(found))
    }
}

/// Kicks a worker when a process moved to another cgroup or a cgroup was removed.
pub(crate) struct Hooks(#[expect(dead_code, reason = "the probes use it")] Kick);

impl Hooks {
    /// Hooks into the cgroup tracepoints.
    ///
    /// # Errors
    ///
    /// `ENOENT` the kernel has no such tracepoints.
    pub(crate) fn new(kick: Kick) -> Result<Self> {
        // SAFETY: The worker lives until `drop` has removed the probes.
        to_result(unsafe { zernel_helper_cgroup_hooks_add(kick.as_raw()) })?;
        Ok(Self(kick))
    }
}

impl Drop for Hooks {
    fn drop(&mut self) {
        // SAFETY: Added in `new`. Waits for probes under way.
        unsafe { zernel_helper_cgroup_hooks_del() };
    }
}

/// Called by the probes, perhaps with interrupts off.
///
/// # Safety
///
/// `data` comes from [`Hooks::new`].
#[no_mangle]
unsafe extern "C" fn zernel_rust_cgroup_changed(data: *mut c_void) {
    // SAFETY: By the caller.
    unsafe { Kick::by_hook(data) };
}
