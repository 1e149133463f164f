// SPDX-License-Identifier: GPL-2.0
//! The calls of C: a thread takes its record, runs, sleeps, makes another thread, exits.

use super::{
    places::miss,
    record::{
        activity_of,
        record_of,
        Record, //
    },
};
use crate::{
    glue::{
        identity::Pid,
        memory::account_nowait,
        process::Process,
        thread::Thread, //
    },
    policy::{
        attachment::{
            State,
            Work, //
        },
        phase::activity::{
            Activity,
            Cause, //
        },
        units::Ns, //
    },
};
use core::ptr::NonNull;
use kernel::{
    bindings,
    prelude::*,
    sync::{
        atomic::{
            ordering::{
                Acquire,
                Release, //
            },
            Atomic,
        },
        Arc,
    },
};

/// Takes a record that has come to its thread, once somebody is there for it.
static ARRIVALS: Atomic<usize> = Atomic::new(0);

/// `take` is called with each record that has come to a thread that a tracked one has made; it
/// returns false if the thread is not to have it. Called once, before there is any.
pub(crate) fn hand_arrivals_to(take: fn(Arc<Record>) -> bool) {
    ARRIVALS.store(take as usize, Release);
}

fn arrived(record: Arc<Record>) -> bool {
    let take = ARRIVALS.load(Acquire);
    // SAFETY: Stored before there was any record.
    let take = unsafe { core::mem::transmute::<usize, fn(Arc<Record>) -> bool>(take) };
    take(record)
}

/// The work for task work to do. A record that is to begin anew has `begun` before it is wanted
/// again.
///
/// # Safety
///
/// As [`record_of`], in the thread.
#[no_mangle]
unsafe extern "C" fn zernel_rust_hook_work(hook: *mut c_void, exiting: bool, begun: bool) -> u32 {
    // SAFETY: By the caller.
    let record = unsafe { record_of(hook) };
    let mut taken = !exiting;
    if taken && record.id() == 0 {
        // SAFETY: The thread holds a reference, so that one more can be made here.
        let arc = unsafe { Arc::<Record>::from_raw(record) };
        core::mem::forget(arc.clone());
        taken = arrived(arc);
    }
    if !begun && record.state() == State::Returning {
        record.waits().forget();
    }
    let work = record.change(|state| match state {
        State::Coming if !taken => State::CalledOff.work(),
        State::Returning if !begun => Some((state, Work::BeginAnew)),
        state => state.work(),
    });
    // There is always some: it was queued.
    work.unwrap_or(Work::GiveUp) as u32
}

/// The thread takes the record.
///
/// # Safety
///
/// As [`activity_of`].
#[no_mangle]
unsafe extern "C" fn zernel_rust_hook_begins(hook: *mut c_void, now: u64) {
    // SAFETY: By the caller.
    unsafe { *activity_of(hook) = Activity::new(Ns(now)) };
}

/// The thread has a CPU again, for which it waited for `queued`.
///
/// # Safety
///
/// As [`activity_of`].
#[no_mangle]
unsafe extern "C" fn zernel_rust_hook_enters(hook: *mut c_void, now: u64, queued: u64) {
    // SAFETY: By the caller.
    unsafe { activity_of(hook) }.enter(Ns(now), Ns(queued));
}

/// The thread leaves its CPU. Under the lock of its run queue.
///
/// # Safety
///
/// As [`activity_of`].
#[no_mangle]
unsafe extern "C" fn zernel_rust_hook_leaves(hook: *mut c_void, now: u64, cause: u32) {
    let cause = Cause::ALL.get(cause as usize).copied();
    // SAFETY: By the caller.
    unsafe { activity_of(hook) }.leave(Ns(now), cause);
}

/// The thread has begun to be recorded, or somebody listens and it has a CPU again. Preemption may
/// be off.
///
/// # Safety
///
/// As [`record_of`], in the thread.
#[no_mangle]
unsafe extern "C" fn zernel_rust_hook_rings(hook: *mut c_void) {
    // SAFETY: By the caller.
    let process = unsafe { record_of(hook) }.process();
    if process.setting().ml {
        process.ring();
    }
}

/// The record was taken off: no more time is counted.
///
/// # Safety
///
/// As [`activity_of`].
#[no_mangle]
unsafe extern "C" fn zernel_rust_hook_stops(hook: *mut c_void, now: u64) {
    // SAFETY: By the caller.
    unsafe { activity_of(hook) }.end(Ns(now));
}

/// The thread has taken the record off, and exits. Whether it is over; otherwise that is for task
/// work to say, which comes later.
///
/// # Safety
///
/// As [`record_of`], in the thread.
#[no_mangle]
unsafe extern "C" fn zernel_rust_hook_exits(hook: *mut c_void) -> bool {
    // SAFETY: By the caller.
    let record = unsafe { record_of(hook) };
    record.change(State::exits) == Some(true)
}

/// The record is over.
///
/// # Safety
///
/// As [`record_of`], in the thread, which does not use it any more.
#[no_mangle]
unsafe extern "C" fn zernel_rust_hook_ends(hook: *mut c_void) {
    // SAFETY: By the caller: the thread gives its reference.
    unsafe { Record::end(hook.cast::<Record>()) };
}

/// A thread with a record has made another, of its own process or the first of a new one. Returns
/// whether that has a record, too.
///
/// # Safety
///
/// As [`record_of`], in the thread; `child` has not run yet.
#[no_mangle]
unsafe extern "C" fn zernel_rust_hook_forks(
    hook: *mut c_void,
    child: *mut bindings::task_struct,
    thread: bool,
) -> bool {
    // SAFETY: By the caller.
    let record = unsafe { record_of(hook) };
    let process = record.process();
    if !record.state().is_followed() || !process.follows(thread) {
        return false;
    }
    let Some(child) = NonNull::new(child) else {
        return false;
    };
    // SAFETY: By the caller.
    let child = unsafe { Thread::share(child) };
    let attached = if thread {
        Record::new(child, process.clone(), account_nowait()).and_then(Record::attach)
    } else {
        child
            .process()
            .and_then(|pid: Pid| Process::child_of(process, pid))
            .and_then(|process| Record::new(child, process, account_nowait()))
            .and_then(Record::attach)
    };
    if attached.is_err() {
        miss();
        if thread {
            // There may be memory later.
            process.ask_scan();
        }
    }
    attached.is_ok()
}
