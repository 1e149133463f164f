// SPDX-License-Identifier: GPL-2.0
//! Waits of tracked threads for the GPU, as providers and probes tell them.

use super::scheduler_hooks::{
    record_of,
    Record, //
};
use crate::{
    glue::{
        thread::Thread,
        time::now_ns, //
    },
    policy::{
        phase::{
            activity::Activity,
            waits::{
                Frame,
                Waited, //
            },
        },
        units::Ns, //
    },
};
use kernel::{
    bindings,
    prelude::*, //
};

extern "C" {
    fn zernel_helper_thread_has_left(
        task: *mut bindings::task_struct,
        sp: u64,
        program: u64,
    ) -> bool;
}

impl Record {
    /// Its waits for the GPU at `now`. Ends one that the thread has left without being seen.
    /// Process context.
    pub(crate) fn waited(&self, activity: &Activity, now: Ns) -> Waited {
        let Some(waits) = self.waits().get() else {
            return Waited::default();
        };
        let mut waits = waits.lock();
        if let Some(ended) = activity.ended() {
            waits.end(ended);
        } else if waits.frame().is_some_and(|f| has_left(self.thread(), &f)) {
            waits.end(Ns(now_ns()));
        }
        waits.at(now)
    }

    /// Ends a wait that was seen to begin by a probe that is gone.
    pub(crate) fn end_wait_of(&self, is_gone: impl Fn(u64) -> bool) {
        let Some(waits) = self.waits().get() else {
            return;
        };
        let mut waits = waits.lock();
        if waits.frame().is_some_and(|frame| is_gone(frame.probe)) {
            waits.end(Ns(now_ns()));
        }
    }
}

fn has_left(thread: &Thread, frame: &Frame) -> bool {
    // SAFETY: The reference is held.
    unsafe { zernel_helper_thread_has_left(thread.as_raw(), frame.sp, frame.program) }
}

/// A provider begins to wait.
///
/// # Safety
///
/// As [`record_of`], in the thread, outside of the scheduler; may sleep.
#[no_mangle]
unsafe extern "C" fn zernel_rust_wait_enters(hook: *mut c_void) {
    let now = Ns(now_ns());
    // SAFETY: By the caller.
    if let Some(waits) = unsafe { record_of(hook) }.waits().get_or_make() {
        waits.lock().enters(now);
    }
}

/// A provider is done waiting.
///
/// # Safety
///
/// As [`zernel_rust_wait_enters`].
#[no_mangle]
unsafe extern "C" fn zernel_rust_wait_leaves(hook: *mut c_void) {
    // SAFETY: By the caller.
    if let Some(waits) = unsafe { record_of(hook) }.waits().get() {
        let mut waits = waits.lock();
        waits.leaves(Ns(now_ns()));
    }
}

/// The thread calls a function that is probed. Returns when the wait began if it does with that, or 0.
///
/// # Safety
///
/// As [`zernel_rust_wait_enters`].
#[no_mangle]
unsafe extern "C" fn zernel_rust_wait_calls(
    hook: *mut c_void,
    probe: u64,
    sp: u64,
    program: u64,
) -> u64 {
    let frame = Frame { probe, sp, program };
    // SAFETY: By the caller.
    let Some(waits) = unsafe { record_of(hook) }.waits().get_or_make() else {
        return 0;
    };
    let mut waits = waits.lock();
    let began = waits.calls(Ns(now_ns()), frame);
    began.map_or(0, |began| began.0)
}

/// A probed function returns, with its wait begun at `began`.
///
/// # Safety
///
/// As [`zernel_rust_wait_enters`].
#[no_mangle]
unsafe extern "C" fn zernel_rust_wait_returns(hook: *mut c_void, began: u64) {
    // SAFETY: By the caller.
    if let Some(waits) = unsafe { record_of(hook) }.waits().get() {
        let mut waits = waits.lock();
        waits.returns(Ns(now_ns()), Ns(began));
    }
}
