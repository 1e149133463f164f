// SPDX-License-Identifier: GPL-2.0
//! Threads: their identity, and the threads of a process.

use super::identity::{
    Pid,
    Uid,
    Viewer,
    COMM_LEN, //
};
use crate::{
    glue::time::now_ns,
    policy::phase::libraries::Libraries, //
};
use core::ptr::NonNull;
use kernel::{
    alloc::Flags,
    bindings,
    prelude::*, //
};

/// A time during which the current thread runs.
pub(crate) struct Stint {
    began: u64,
    delay: u64,
}

impl Stint {
    /// One that begins.
    pub(crate) fn new() -> Self {
        Self {
            began: now_ns(),
            // SAFETY: FFI without conditions.
            delay: unsafe { zernel_helper_run_delay() },
        }
    }

    /// Its length so far in ns, without the time for which others had the CPU.
    pub(crate) fn length(&self) -> u64 {
        let now = Self::new();
        let waited = now.delay.saturating_sub(self.delay);
        now.began.saturating_sub(self.began).saturating_sub(waited)
    }
}

/// `struct zernel_charge` of `rust/helpers/threads.h`.
#[repr(C)]
struct Charge {
    memcg: *mut c_void,
    before: *mut c_void,
}

extern "C" {
    fn zernel_helper_run_delay() -> u64;
    fn zernel_helper_thread_of(pid: *mut bindings::pid) -> *mut bindings::task_struct;
    fn zernel_helper_living_thread_of(process: *mut bindings::pid) -> *mut bindings::task_struct;
    fn zernel_helper_thread_get(task: *mut bindings::task_struct);
    fn zernel_helper_thread_put(task: *mut bindings::task_struct);
    fn zernel_helper_thread_process(task: *mut bindings::task_struct) -> *mut bindings::pid;
    fn zernel_helper_thread_numbers(
        task: *mut bindings::task_struct,
        ns: *mut bindings::pid_namespace,
        tid: *mut u32,
        pid: *mut u32,
    );
    fn zernel_helper_thread_uid(task: *mut bindings::task_struct) -> u32;
    fn zernel_helper_thread_comm(task: *mut bindings::task_struct, comm: *mut c_char);
    fn zernel_helper_thread_is_of(task: *mut bindings::task_struct, uid: u32) -> bool;
    fn zernel_helper_thread_is_program(task: *mut bindings::task_struct) -> bool;
    fn zernel_helper_thread_maps_any(
        task: *mut bindings::task_struct,
        names: *const c_char,
    ) -> c_int;
    fn zernel_helper_charge_begin(charge: *mut Charge, task: *mut bindings::task_struct) -> bool;
    fn zernel_helper_charge_end(charge: *mut Charge);
    fn zernel_helper_thread_count(process: *mut bindings::pid) -> usize;
    fn zernel_helper_threads_of(
        process: *mut bindings::pid,
        tasks: *mut *mut bindings::task_struct,
        room: usize,
    ) -> usize;
}

/// A reference to a thread. Unlike its number, and its `struct pid`, it stays the same when the
/// thread becomes the only one of its process by `execve(2)`.
///
/// # Invariants
///
/// Holds a reference.
pub(crate) struct Thread(NonNull<bindings::task_struct>);

// SAFETY: Tasks are reference-counted; the fields read here have their own locks.
unsafe impl Send for Thread {}
// SAFETY: As above.
unsafe impl Sync for Thread {}

impl Thread {
    /// The thread with this pid, while it is not reaped.
    pub(crate) fn of(pid: &Pid) -> Option<Self> {
        // INVARIANT: The helper takes a reference.
        // SAFETY: `pid` is valid.
        NonNull::new(unsafe { zernel_helper_thread_of(pid.as_raw()) }).map(Self)
    }

    /// A thread of a process that has not exited.
    pub(crate) fn living_of(process: &Pid) -> Option<Self> {
        // INVARIANT: The helper takes a reference.
        // SAFETY: `process` is valid.
        NonNull::new(unsafe { zernel_helper_living_thread_of(process.as_raw()) }).map(Self)
    }

    /// The calling thread.
    pub(crate) fn current() -> Self {
        // SAFETY: The current task is valid as long as it runs.
        unsafe { Self::share(NonNull::new_unchecked(bindings::get_current())) }
    }

    /// Takes a reference of its own.
    ///
    /// # Safety
    ///
    /// `task` is valid during this call.
    pub(super) unsafe fn share(task: NonNull<bindings::task_struct>) -> Self {
        // SAFETY: By the caller.
        unsafe { zernel_helper_thread_get(task.as_ptr()) };
        // INVARIANT: Just taken.
        Self(task)
    }

    /// The threads of a process that are there now and run programs, and whether those are all.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn all_of(process: &Pid, flags: Flags) -> Result<(KVVec<Self>, bool)> {
        // SAFETY: `process` is valid.
        let count = unsafe { zernel_helper_thread_count(process.as_raw()) };
        // Some may come meanwhile.
        let room = count.saturating_add(count / 8).saturating_add(4);
        let mut found: KVVec<*mut bindings::task_struct> = KVVec::new();
        found.resize(room, core::ptr::null_mut(), flags)?;
        let mut threads = KVVec::with_capacity(room, flags)?;
        // SAFETY: `process` is valid, and `found` has that room.
        let count = unsafe { zernel_helper_threads_of(process.as_raw(), found.as_mut_ptr(), room) };
        for &task in found.iter().take(count) {
            if let Some(task) = NonNull::new(task) {
                // INVARIANT: The helper took a reference. There is room, so nothing is lost.
                threads.push(Self(task), flags)?;
            }
        }
        Ok((threads, count <= room))
    }

    /// Its process.
    pub(crate) fn process(&self) -> Result<Pid> {
        // SAFETY: Valid by the type invariant; the helper takes a reference.
        unsafe { Pid::adopt(zernel_helper_thread_process(self.as_raw())) }.ok_or(ESRCH)
    }

    /// True if it runs a program: it is not one of the kernel's own, nor works for one.
    pub(crate) fn is_program(&self) -> bool {
        // SAFETY: Valid by the type invariant.
        unsafe { zernel_helper_thread_is_program(self.as_raw()) }
    }

    /// True if its process maps objects in shared memory that these libraries made, among its first
    /// mappings; `None` if that cannot be told now. Process context.
    pub(crate) fn maps_any(&self, libraries: &Libraries) -> Option<bool> {
        let names = libraries.bytes().as_ptr().cast();
        // SAFETY: Valid by the type invariant; the names end with a zero.
        match unsafe { zernel_helper_thread_maps_any(self.as_raw(), names) } {
            ..0 => None,
            found => Some(found > 0),
        }
    }

    /// Charges accounted allocations of `f` to the memory cgroup of the thread's process instead of
    /// the caller's. `None` if it has no memory of its own any more. Process context.
    pub(crate) fn pays<T>(&self, f: impl FnOnce() -> T) -> Option<T> {
        let mut charge = Charge {
            memcg: core::ptr::null_mut(),
            before: core::ptr::null_mut(),
        };
        // SAFETY: Valid by the type invariant; ended below by the same task.
        if !unsafe { zernel_helper_charge_begin(&mut charge, self.as_raw()) } {
            return None;
        }
        let made = f();
        // SAFETY: Begun above.
        unsafe { zernel_helper_charge_end(&mut charge) };
        Some(made)
    }

    /// Its real user.
    pub(crate) fn uid(&self) -> Uid {
        // SAFETY: Valid by the type invariant.
        Uid(unsafe { zernel_helper_thread_uid(self.as_raw()) })
    }

    /// Its name, NUL-padded.
    pub(crate) fn comm(&self) -> [u8; COMM_LEN] {
        let mut comm = [0; COMM_LEN];
        // SAFETY: Valid by the type invariant; `comm` has the length that the helper fills.
        unsafe { zernel_helper_thread_comm(self.as_raw(), comm.as_mut_ptr().cast()) };
        comm
    }

    /// Its number and that of its process as a viewer sees them; 0 where it does not.
    pub(crate) fn numbers(&self, viewer: &Viewer) -> (u32, u32) {
        let (mut tid, mut pid) = (0, 0);
        // SAFETY: Both are valid by the type invariants.
        unsafe { zernel_helper_thread_numbers(self.as_raw(), viewer.pid_ns(), &mut tid, &mut pid) };
        (tid, pid)
    }

    /// Its number and that of its process in the initial pid namespace, for traces.
    pub(crate) fn global_numbers(&self) -> (i32, i32) {
        let (mut tid, mut pid) = (0, 0);
        // SAFETY: Valid by the type invariant; the initial namespace always is.
        unsafe {
            let ns = core::ptr::addr_of_mut!(bindings::init_pid_ns);
            zernel_helper_thread_numbers(self.as_raw(), ns, &mut tid, &mut pid);
        }
        (tid as i32, pid as i32)
    }

    /// True if it is of that user alone, and runs with no other rights.
    pub(crate) fn is_of(&self, uid: Uid) -> bool {
        // SAFETY: Valid by the type invariant.
        unsafe { zernel_helper_thread_is_of(self.as_raw(), uid.0) }
    }

    /// True if a viewer may see its activity: it is of that user alone, and runs with no other
    /// rights.
    pub(crate) fn is_seen_by(&self, viewer: &Viewer) -> bool {
        viewer.sees_all() || self.is_of(viewer.uid())
    }

    /// A number that no other thread has as long as this reference is held.
    pub(crate) fn key(&self) -> usize {
        self.0.as_ptr() as usize
    }

    pub(super) fn as_raw(&self) -> *mut bindings::task_struct {
        self.0.as_ptr()
    }
}

impl Clone for Thread {
    fn clone(&self) -> Self {
        // SAFETY: Valid by the type invariant.
        unsafe { Self::share(self.0) }
    }
}

impl Drop for Thread {
    fn drop(&mut self) {
        // SAFETY: Held by the type invariant.
        unsafe { zernel_helper_thread_put(self.as_raw()) };
    }
}
