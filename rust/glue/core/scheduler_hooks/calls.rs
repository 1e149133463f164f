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
        identity::{
            Pid,
            Scope, //
        },
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

extern "C" {
    fn zernel_helper_hook_put_on(hook: *mut c_void) -> u64;
    fn zernel_helper_hook_begin_anew(hook: *mut c_void) -> u64;
    fn zernel_helper_hook_take_off(hook: *mut c_void) -> u64;
}

/// A change of a record by its thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// Its time counts from then on.
    Begun(Ns),
    /// Its time counts up to then.
    Ended(Ns),
}

/// The table of records, as threads with one need it. Each may be called where preemption is on and
/// no lock is held, in the thread.
pub(crate) struct Table {
    /// Takes in a record that has come to a thread that a tracked one has made. Returns false if the
    /// thread is not to have it.
    pub(crate) arrived: fn(Arc<Record>) -> bool,
    /// Does this with the table locked, so that nobody who sums up times meets it half done.
    pub(crate) change: fn(&Record, &mut dyn FnMut() -> Option<Change>),
    /// The record of a thread of a process, by their keys.
    pub(crate) find: fn(usize, usize) -> Option<Arc<Record>>,
}

/// The address of the [`Table`], once there is one.
static TABLE: Atomic<usize> = Atomic::new(0);

/// Records belong to this table. Called once, before there is any.
pub(crate) fn belong_to(table: &'static Table) {
    TABLE.store(core::ptr::from_ref(table) as usize, Release);
}

fn table() -> Option<&'static Table> {
    let table = TABLE.load(Acquire) as *const Table;
    // SAFETY: Null, or the address of a static.
    unsafe { table.as_ref() }
}

/// Has a record changed by its thread with the table locked.
fn change(record: &Record, mut by: impl FnMut() -> Option<Change>) {
    // There was a table before any record.
    if let Some(table) = table() {
        (table.change)(record, &mut by);
    }
}

/// Task work: the thread takes a record, begins it anew, or lets it go.
///
/// # Safety
///
/// As [`record_of`], in the thread.
#[no_mangle]
unsafe extern "C" fn zernel_rust_hook_work(hook: *mut c_void, exiting: bool) {
    // SAFETY: By the caller.
    let record = unsafe { record_of(hook) };
    let mut taken = !exiting;
    if taken && !record.is_listed() {
        // SAFETY: The thread holds a reference, so that one more can be made here.
        let arc = unsafe { Arc::<Record>::from_raw(record) };
        core::mem::forget(arc.clone());
        taken = table().is_some_and(|table| (table.arrived)(arc));
    }
    let mut work = Work::GiveUp;
    change(record, || {
        if record.state() == State::Returning {
            record.waits().forget();
        }
        let next = record.change(|state| match state {
            State::Coming if !taken => State::CalledOff.work(),
            state => state.work(),
        });
        // There is always some: it was queued.
        work = next.unwrap_or(Work::GiveUp);
        // SAFETY: By the caller; the thread has it, or takes it now, by the state.
        unsafe {
            match work {
                Work::PutOn => Some(Change::Begun(Ns(zernel_helper_hook_put_on(hook)))),
                Work::BeginAnew => Some(Change::Begun(Ns(zernel_helper_hook_begin_anew(hook)))),
                Work::TakeOff => Some(Change::Ended(Ns(zernel_helper_hook_take_off(hook)))),
                Work::GiveUp => None,
            }
        }
    });
    match work {
        Work::PutOn | Work::BeginAnew => rings(record),
        // SAFETY: By the caller: the thread gives its reference.
        Work::TakeOff | Work::GiveUp => unsafe { Record::end(record) },
    }
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
    let cause = Cause::new(cause);
    // SAFETY: By the caller.
    unsafe { activity_of(hook) }.leave(Ns(now), cause);
}

/// Somebody listens, and the thread has a CPU again. Preemption may be off.
///
/// # Safety
///
/// As [`record_of`], in the thread.
#[no_mangle]
unsafe extern "C" fn zernel_rust_hook_rings(hook: *mut c_void) {
    // SAFETY: By the caller.
    rings(unsafe { record_of(hook) });
}

fn rings(record: &Record) {
    let process = record.process();
    if process.setting().ml {
        Process::ring(process);
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

/// The thread exits with its record.
///
/// # Safety
///
/// As [`record_of`], in the thread.
#[no_mangle]
unsafe extern "C" fn zernel_rust_hook_exits(hook: *mut c_void) {
    // SAFETY: By the caller.
    let record = unsafe { record_of(hook) };
    let mut over = false;
    change(record, || {
        // SAFETY: By the caller; the thread has it.
        let now = unsafe { zernel_helper_hook_take_off(hook) };
        // Otherwise that is for task work to say, which comes later.
        over = record.change(State::exits) == Some(true);
        Some(Change::Ended(Ns(now)))
    });
    if over {
        // SAFETY: By the caller: the thread gives its reference.
        unsafe { Record::end(record) };
    }
}

/// A thread with a record has made another, of its own process or the first of a new one. Returns
/// whether that has a record, too. Without a hook the record may be on its way to the thread.
///
/// # Safety
///
/// `hook` is null, or as [`record_of`] in the thread; `child` has not run yet.
#[no_mangle]
unsafe extern "C" fn zernel_rust_hook_forks(
    hook: *mut c_void,
    child: *mut bindings::task_struct,
    thread: bool,
) -> bool {
    let found;
    let record = if hook.is_null() {
        found = own_record();
        match &found {
            Some(record) => record,
            None => return false,
        }
    } else {
        // SAFETY: By the caller.
        unsafe { record_of(hook) }
    };
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
            Process::ask_scan(process);
        }
    }
    attached.is_ok()
}

/// The record of the current thread, as the table has it.
fn own_record() -> Option<Arc<Record>> {
    let process = Pid::current(Scope::Process).ok()?;
    let thread = Thread::current();
    (table()?.find)(process.key(), thread.key())
}
