// SPDX-License-Identifier: GPL-2.0
//! The owner of a task, the rights of the caller, and the view of a viewer.

use core::ptr::NonNull;
use kernel::{
    bindings,
    prelude::*, //
};

extern "C" {
    fn zernel_helper_get_pid(pid: *mut bindings::pid);
    fn zernel_helper_current_pid(process: bool) -> *mut bindings::pid;
    fn zernel_helper_process_of(thread: *mut bindings::pid) -> *mut bindings::pid;
    fn zernel_helper_pid_from_fd(fd: c_int, thread: *mut bool) -> *mut bindings::pid;
    fn zernel_helper_pid_number(pid: *mut bindings::pid, ns: *mut bindings::pid_namespace)
        -> c_int;
    fn zernel_helper_pid_alive(pid: *mut bindings::pid, process: bool) -> bool;
    fn zernel_helper_task_of(
        pid: *mut bindings::pid,
        process: bool,
        uid: *mut u32,
        comm: *mut c_char,
    ) -> c_int;
    fn zernel_helper_same_owner(pid: *mut bindings::pid, process: bool) -> bool;
    fn zernel_helper_is_owner(process: *mut bindings::pid, uid: u32) -> bool;
    fn zernel_helper_get_pid_ns() -> *mut bindings::pid_namespace;
    fn zernel_helper_get_cred() -> *const bindings::cred;
    fn zernel_helper_put_cred(cred: *const bindings::cred);
    fn zernel_helper_uid_seen(cred: *const bindings::cred, uid: u32) -> u32;
    fn zernel_helper_euid() -> u32;
    fn zernel_helper_perfmon_capable() -> bool;
    fn zernel_helper_nice_capable() -> bool;
    fn zernel_helper_resource_capable() -> bool;
    fn zernel_helper_in_group(gid: u32) -> bool;
}

/// The extent of a [`Pid`]: the whole process or one thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    /// The thread group.
    Process,
    /// The thread.
    Thread,
}

impl Scope {
    fn is_process(self) -> bool {
        self == Self::Process
    }
}

/// A user in the initial user namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Uid(pub(crate) u32);

impl Uid {
    /// The superuser.
    pub(crate) const ROOT: Self = Self(0);

    /// The user before this one in a circle of all.
    pub(crate) fn before(self) -> Self {
        Self(self.0.wrapping_sub(1))
    }

    /// The user behind this one in a circle of all.
    pub(crate) fn after(self) -> Self {
        Self(self.0.wrapping_add(1))
    }
}

/// Length of [`Owner::comm`], `TASK_COMM_LEN`.
pub(crate) const COMM_LEN: usize = bindings::TASK_COMM_LEN as usize;

/// The owner of a task when it was looked at.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Owner {
    /// Its real user.
    pub(crate) uid: Uid,
    /// Its name, NUL-padded.
    pub(crate) comm: [u8; COMM_LEN],
}

/// A reference to a `struct pid`: names one task or process for ever, unlike a number.
///
/// # Invariants
///
/// Holds a reference.
pub(crate) struct Pid(NonNull<bindings::pid>);

// SAFETY: `struct pid` is reference-counted and has its own locks.
unsafe impl Send for Pid {}
// SAFETY: As above.
unsafe impl Sync for Pid {}

impl Pid {
    /// Takes over a reference; null is `None`.
    ///
    /// # Safety
    ///
    /// `pid` is null or comes with a reference.
    pub(super) unsafe fn adopt(pid: *mut bindings::pid) -> Option<Self> {
        // INVARIANT: By the caller.
        NonNull::new(pid).map(Self)
    }

    /// Takes a reference of its own; null is `None`.
    ///
    /// # Safety
    ///
    /// `pid` is null or valid during this call.
    pub(super) unsafe fn share(pid: *mut bindings::pid) -> Option<Self> {
        // SAFETY: By the caller; the helper ignores null.
        unsafe { zernel_helper_get_pid(pid) };
        // SAFETY: Just taken.
        unsafe { Self::adopt(pid) }
    }

    /// The calling thread or its process.
    pub(crate) fn current(scope: Scope) -> Result<Self> {
        // SAFETY: FFI; the helper takes a reference.
        unsafe { Self::adopt(zernel_helper_current_pid(scope.is_process())) }.ok_or(ESRCH)
    }

    /// The task with this number in the caller's pid namespace.
    ///
    /// # Errors
    ///
    /// `ESRCH` there is none.
    pub(crate) fn find(number: u64) -> Result<Self> {
        let number = c_int::try_from(number).map_err(|_| ESRCH)?;
        // SAFETY: FFI; a reference is taken if there is such a pid.
        unsafe { Self::adopt(bindings::find_get_pid(number)) }.ok_or(ESRCH)
    }

    /// The process or the thread that a pidfd names.
    ///
    /// # Errors
    ///
    /// `EBADF` it is not a pidfd, or not one of that kind (`PIDFD_THREAD`).
    pub(crate) fn from_pidfd(fd: u64, scope: Scope) -> Result<Self> {
        let (pid, found) = Self::from_any_fd(fd)?;
        if found != scope {
            return Err(EBADF);
        }
        Ok(pid)
    }

    fn from_any_fd(fd: u64) -> Result<(Self, Scope)> {
        let fd = c_int::try_from(fd).map_err(|_| EBADF)?;
        let mut is_thread = false;
        // SAFETY: FFI; a reference is taken if it is a pidfd.
        let pid = unsafe { Self::adopt(zernel_helper_pid_from_fd(fd, &mut is_thread)) };
        let scope = match is_thread {
            true => Scope::Thread,
            false => Scope::Process,
        };
        Ok((pid.ok_or(EBADF)?, scope))
    }

    /// The process of this thread, while it is not reaped.
    pub(crate) fn process(&self) -> Option<Self> {
        // SAFETY: Valid by the type invariant; the helper takes a reference.
        unsafe { Self::adopt(zernel_helper_process_of(self.as_raw())) }
    }

    /// True if it has not exited.
    pub(crate) fn is_alive(&self, scope: Scope) -> bool {
        // SAFETY: Valid by the type invariant.
        unsafe { zernel_helper_pid_alive(self.as_raw(), scope.is_process()) }
    }

    /// Its owner, while it is not reaped.
    pub(crate) fn owner(&self, scope: Scope) -> Result<Owner> {
        let mut owner = Owner {
            uid: Uid(0),
            comm: [0; COMM_LEN],
        };
        // SAFETY: Valid by the type invariant; `comm` has the length that the helper fills.
        kernel::error::to_result(unsafe {
            zernel_helper_task_of(
                self.as_raw(),
                scope.is_process(),
                &mut owner.uid.0,
                owner.comm.as_mut_ptr().cast(),
            )
        })?;
        Ok(owner)
    }

    /// True if the caller owns it, by the rule of `sched_setscheduler(2)`.
    pub(crate) fn is_callers(&self, scope: Scope) -> bool {
        // SAFETY: Valid by the type invariant.
        unsafe { zernel_helper_same_owner(self.as_raw(), scope.is_process()) }
    }

    /// True if this user owns the process, by the same rule.
    pub(crate) fn is_users(&self, uid: Uid) -> bool {
        // SAFETY: Valid by the type invariant.
        unsafe { zernel_helper_is_owner(self.as_raw(), uid.0) }
    }

    /// A number that no other task has as long as this reference is held.
    pub(crate) fn key(&self) -> usize {
        self.0.as_ptr() as usize
    }

    /// Its number in the initial pid namespace, for traces.
    pub(crate) fn global_number(&self) -> i32 {
        // SAFETY: Valid by the type invariant; the initial namespace always is.
        unsafe {
            bindings::pid_nr_ns(
                self.as_raw(),
                core::ptr::addr_of_mut!(bindings::init_pid_ns),
            )
        }
    }

    pub(super) fn as_raw(&self) -> *mut bindings::pid {
        self.0.as_ptr()
    }
}

impl Clone for Pid {
    fn clone(&self) -> Self {
        // SAFETY: Valid by the type invariant.
        unsafe { zernel_helper_get_pid(self.as_raw()) };
        // INVARIANT: Just taken.
        Self(self.0)
    }
}

impl Drop for Pid {
    fn drop(&mut self) {
        // SAFETY: Held by the type invariant.
        unsafe { bindings::put_pid(self.as_raw()) };
    }
}

/// A view of tasks and users: namespaces and capability of its maker, as they were at that time.
///
/// # Invariants
///
/// Holds a reference to both pointers.
pub(crate) struct Viewer {
    cred: *const bindings::cred,
    pid_ns: *mut bindings::pid_namespace,
    uid: Uid,
    perfmon: bool,
}

// SAFETY: Credentials are immutable and reference-counted, pid namespaces reference-counted.
unsafe impl Send for Viewer {}
// SAFETY: As above.
unsafe impl Sync for Viewer {}

impl Viewer {
    /// The caller.
    pub(crate) fn current() -> Self {
        // INVARIANT: The helpers take references.
        // SAFETY: FFI.
        unsafe {
            Self {
                cred: zernel_helper_get_cred(),
                pid_ns: zernel_helper_get_pid_ns(),
                uid: caller_uid(),
                perfmon: caller_sees_all(),
            }
        }
    }

    /// Its effective user.
    pub(crate) fn uid(&self) -> Uid {
        self.uid
    }

    /// True if it sees every user's TSGs (`CAP_PERFMON`).
    pub(crate) fn sees_all(&self) -> bool {
        self.perfmon
    }

    /// True if it sees the TSGs of a user.
    pub(crate) fn sees(&self, owner: Uid) -> bool {
        self.perfmon || owner == self.uid
    }

    /// The number of a task in its pid namespace, 0 if it is not visible there or was reaped.
    pub(crate) fn number_of(&self, pid: &Pid) -> u32 {
        // SAFETY: Both are valid by the type invariants.
        let number = unsafe { zernel_helper_pid_number(pid.as_raw(), self.pid_ns) };
        u32::try_from(number).unwrap_or(0)
    }

    /// True if a process is in its pid namespace, or it sees all.
    pub(crate) fn is_in_reach(&self, process: &Pid) -> bool {
        self.perfmon || self.number_of(process) != 0
    }

    /// True if both see the same numbers of tasks and users.
    pub(crate) fn has_numbers_of(&self, other: &Self) -> bool {
        // SAFETY: Both are valid by the type invariant.
        let users = unsafe { [(*self.cred).user_ns, (*other.cred).user_ns] };
        self.pid_ns == other.pid_ns && users[0] == users[1]
    }

    pub(super) fn pid_ns(&self) -> *mut bindings::pid_namespace {
        self.pid_ns
    }

    /// The number of a user in its user namespace.
    pub(crate) fn number_of_user(&self, uid: Uid) -> u32 {
        // SAFETY: Valid by the type invariant.
        unsafe { zernel_helper_uid_seen(self.cred, uid.0) }
    }
}

impl Drop for Viewer {
    fn drop(&mut self) {
        // SAFETY: Both are held by the type invariant.
        unsafe {
            zernel_helper_put_cred(self.cred);
            bindings::put_pid_ns(self.pid_ns);
        }
    }
}

/// The caller's effective user.
pub(crate) fn caller_uid() -> Uid {
    // SAFETY: FFI.
    Uid(unsafe { zernel_helper_euid() })
}

/// True if the caller sees every user's TSGs (`CAP_PERFMON`).
pub(crate) fn caller_sees_all() -> bool {
    // SAFETY: FFI.
    unsafe { zernel_helper_perfmon_capable() }
}

/// True if the caller has `CAP_SYS_NICE`.
pub(crate) fn caller_is_capable() -> bool {
    // SAFETY: FFI.
    unsafe { zernel_helper_nice_capable() }
}

/// True if quotas do not bind the caller (`CAP_SYS_RESOURCE`).
pub(crate) fn caller_is_unbound() -> bool {
    // SAFETY: FFI.
    unsafe { zernel_helper_resource_capable() }
}

/// True if the caller is a member of this group of the initial user namespace.
pub(crate) fn caller_is_in_group(gid: u32) -> bool {
    // SAFETY: FFI.
    unsafe { zernel_helper_in_group(gid) }
}
