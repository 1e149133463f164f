// SPDX-License-Identifier: GPL-2.0
//! Tells when a thread or process has exited, at no cost to any other task.
//!
//! A watch hangs on the wait queue that a pidfd's `poll` uses. Its callback runs in the exiting
//! task under that queue's lock: it only puts the watch on a lock-free list and kicks a worker,
//! which then asks whether the task is really gone.

use super::{
    identity::{
        Pid,
        Scope, //
    },
    work::Kick, //
};
use core::{
    cell::UnsafeCell,
    marker::PhantomPinned, //
};
use kernel::{
    alloc::Flags,
    bindings, container_of,
    prelude::*,
    sync::{
        atomic::{
            ordering::{
                Acquire,
                Full,
                Relaxed,
                Release, //
            },
            Atomic,
        },
        Arc,
    },
};

extern "C" {
    fn zernel_helper_watch_init(
        entry: *mut bindings::wait_queue_entry,
        func: unsafe extern "C" fn(
            *mut bindings::wait_queue_entry,
            c_uint,
            c_int,
            *mut c_void,
        ) -> c_int,
    );
    fn zernel_helper_watch_add(pid: *mut bindings::pid, entry: *mut bindings::wait_queue_entry);
    fn zernel_helper_watch_del(pid: *mut bindings::pid, entry: *mut bindings::wait_queue_entry);
}

/// Head of the list of watches that fired: `Arc`s turned into pointers.
static FIRED: Atomic<usize> = Atomic::new(0);

/// A thread or process that is watched.
///
/// # Invariants
///
/// `entry` is on the wait queue of `pid` from `start` until `stop`. While `listed` is set, one
/// reference belongs to the list of fired watches, or to its taker.
#[pin_data]
pub(crate) struct Watch {
    entry: UnsafeCell<bindings::wait_queue_entry>,
    pid: Pid,
    scope: Scope,
    reaper: Kick,
    listed: Atomic<bool>,
    next: Atomic<usize>,
    #[pin]
    _pin: PhantomPinned,
}

// SAFETY: `entry` is only touched by the wait queue under its lock; the rest is atomic or constant.
unsafe impl Send for Watch {}
// SAFETY: As above.
unsafe impl Sync for Watch {}

/// A [`Watch`] that is armed; dropped, it is taken off the wait queue.
pub(crate) struct Armed(Arc<Watch>);

impl Armed {
    /// Watches `pid` and kicks `reaper` when it exits.
    ///
    /// # Errors
    ///
    /// `ESRCH` it has exited already, `ENOMEM`.
    pub(crate) fn new(pid: Pid, scope: Scope, reaper: Kick) -> Result<Self> {
        Self::with_flags(pid, scope, reaper, GFP_KERNEL)
    }

    /// As [`Self::new`]. Sleeps only if the memory does.
    pub(crate) fn with_flags(pid: Pid, scope: Scope, reaper: Kick, flags: Flags) -> Result<Self> {
        let watch = Arc::pin_init(
            pin_init!(Watch {
                entry: UnsafeCell::new(pin_init::zeroed()),
                pid,
                scope,
                reaper,
                listed: Atomic::new(false),
                next: Atomic::new(0),
                _pin: PhantomPinned,
            }),
            flags,
        )?;
        // SAFETY: The entry is pinned in the `Arc` and taken off in `drop`, before it is freed.
        unsafe {
            zernel_helper_watch_init(watch.entry.get(), Watch::callback);
            zernel_helper_watch_add(watch.pid.as_raw(), watch.entry.get());
        }
        let armed = Self(watch);
        // Looked at after the watch is in place, so that no exit falls in between.
        if !armed.is_alive() {
            return Err(ESRCH);
        }
        Ok(armed)
    }

    /// True if the task has not exited.
    pub(crate) fn is_alive(&self) -> bool {
        self.0.pid.is_alive(self.0.scope)
    }

    /// The task.
    pub(crate) fn pid(&self) -> &Pid {
        &self.0.pid
    }
}

impl Drop for Armed {
    fn drop(&mut self) {
        // SAFETY: Added in `new`. When this returns, no callback runs or will run.
        unsafe { zernel_helper_watch_del(self.0.pid.as_raw(), self.0.entry.get()) };
    }
}

impl Watch {
    /// # Safety
    ///
    /// Called by the wait queue, under its lock, for an entry that is part of a live [`Watch`].
    unsafe extern "C" fn callback(
        entry: *mut bindings::wait_queue_entry,
        _mode: c_uint,
        _flags: c_int,
        _key: *mut c_void,
    ) -> c_int {
        // SAFETY: By the caller; `UnsafeCell` is transparent.
        let watch = unsafe {
            &*container_of!(
                entry.cast::<UnsafeCell<bindings::wait_queue_entry>>(),
                Watch,
                entry
            )
        };
        if !watch.listed.xchg(true, Full) {
            // SAFETY: `watch` lies in an `Arc`, and `Armed` holds a reference until the entry is
            // off the queue, so that one more can be made here.
            let arc = unsafe { Arc::<Watch>::from_raw(watch) };
            core::mem::forget(arc.clone());
            // INVARIANT: The list gets the reference that was just forgotten.
            let pointer = Arc::into_raw(arc) as usize;
            let mut head = FIRED.load(Relaxed);
            loop {
                watch.next.store(head, Relaxed);
                match FIRED.cmpxchg(head, pointer, Release) {
                    Ok(_) => break,
                    Err(now) => head = now,
                }
            }
            watch.reaper.kick();
        }
        0
    }
}

/// Calls `gone` for each watched task that has exited since the last call.
///
/// It gets the key of the [`Pid`] and the scope; a task that is not watched any more may be among
/// them.
pub(crate) fn take_fired(mut gone: impl FnMut(&Pid, Scope)) {
    let mut pointer = FIRED.xchg(0, Acquire);
    while pointer != 0 {
        // SAFETY: The list owned a reference to each of its watches; it is ours now.
        let watch = unsafe { Arc::from_raw(pointer as *const Watch) };
        pointer = watch.next.load(Relaxed);
        // INVARIANT: Cleared after `next` was read: from here on it may be listed again, so an
        // exit after the question below is not lost.
        watch.listed.xchg(false, Full);
        if !watch.pid.is_alive(watch.scope) {
            gone(&watch.pid, watch.scope);
        }
    }
}
