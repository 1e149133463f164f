// SPDX-License-Identifier: GPL-2.0
//! Work that runs on zernel's own workqueue, one instance at a time.

use crate::{
    glue::timer::{
        new_driven,
        Driven,
        Expired,
        Timed, //
    },
    policy::units::Ns, //
};
use core::marker::PhantomData;
use kernel::{
    bindings,
    prelude::*,
    sync::atomic::{
        ordering::{
            Acquire,
            Release, //
        },
        Atomic,
    },
    types::Opaque,
};

extern "C" {
    fn zernel_helper_wq_create() -> *mut bindings::workqueue_struct;
    fn zernel_helper_work_init(
        work: *mut bindings::delayed_work,
        func: unsafe extern "C" fn(*mut bindings::work_struct),
    );
}

static QUEUE: Atomic<usize> = Atomic::new(0);

/// The workqueue; every [`Worker`] is dropped before it.
pub(crate) struct Queue(*mut bindings::workqueue_struct);

// SAFETY: A workqueue may be destroyed by any thread.
unsafe impl Send for Queue {}
// SAFETY: No `&self` method.
unsafe impl Sync for Queue {}

impl Queue {
    /// Creates the workqueue of this module; called once, before any [`Worker`] is kicked.
    pub(crate) fn new() -> Result<Self> {
        // SAFETY: FFI.
        let queue = unsafe { zernel_helper_wq_create() };
        if queue.is_null() {
            return Err(ENOMEM);
        }
        QUEUE.store(queue as usize, Release);
        Ok(Self(queue))
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        QUEUE.store(0, Release);
        // SAFETY: Created in `new`, and nobody queues on it any more.
        unsafe { bindings::destroy_workqueue(self.0) };
    }
}

/// What a [`Worker`] does. It may sleep.
pub(crate) trait Job: Send + Sync {
    /// Runs once for one or more kicks.
    fn run(worker: &Worker<Self>)
    where
        Self: Sized;
}

/// A job that runs in process context soon after it was kicked, never twice at a time.
#[pin_data(PinnedDrop)]
pub(crate) struct Worker<J: Job> {
    #[pin]
    work: Opaque<bindings::delayed_work>,
    #[pin]
    alarm: Driven<Alarm<J>>,
    job: J,
}

/// Kicks the worker that it is a part of.
struct Alarm<J>(PhantomData<J>);

impl<J: Job> Timed for Alarm<J> {
    type State = ();

    fn expired(this: Expired<'_, Self>) {
        let this = core::ptr::from_ref(this.lock().driven());
        // SAFETY: An alarm is a part of a worker, and its timer is cancelled before that goes.
        let worker = unsafe { &*kernel::container_of!(this, Worker<J>, alarm) };
        worker.kick();
    }
}

// SAFETY: The workqueue synchronises its own state; the job is `Send + Sync`.
unsafe impl<J: Job> Send for Worker<J> {}
// SAFETY: As above.
unsafe impl<J: Job> Sync for Worker<J> {}

impl<J: Job> core::ops::Deref for Worker<J> {
    type Target = J;

    fn deref(&self) -> &J {
        &self.job
    }
}

impl<J: Job> Worker<J> {
    /// A worker that waits to be kicked.
    pub(crate) fn new(job: J) -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            work <- Opaque::ffi_init(|slot: *mut bindings::delayed_work| {
                // SAFETY: `slot` is valid for writes and pinned.
                unsafe { zernel_helper_work_init(slot, Self::callback) }
            }),
            alarm <- new_driven!((), c"zernel_alarm", Ok(Alarm(PhantomData))),
            job,
        })
    }

    /// # Safety
    ///
    /// Called by the workqueue with the work of a live [`Worker`].
    unsafe extern "C" fn callback(work: *mut bindings::work_struct) {
        // SAFETY: By the caller: the work is the first part of the delayed work of a `Worker`,
        // which is not freed before `drop` has cancelled it.
        let worker = unsafe {
            let delayed = kernel::container_of!(work, bindings::delayed_work, work);
            &*kernel::container_of!(Opaque::cast_from(delayed), Self, work)
        };
        J::run(worker);
    }

    /// Runs the job as soon as possible; if it is waiting for a delay, when that is over.
    pub(crate) fn kick(&self) {
        self.kick_after(0);
    }

    /// Runs the job as soon as possible, even if it is waiting for a delay.
    pub(crate) fn kick_now(&self) {
        let queue = QUEUE.load(Acquire) as *mut bindings::workqueue_struct;
        if queue.is_null() {
            return;
        }
        // SAFETY: The queue outlives all workers; the work was initialised in `new`.
        unsafe {
            bindings::mod_delayed_work_on(
                bindings::wq_misc_consts_WORK_CPU_UNBOUND as c_int,
                queue,
                self.work.get(),
                0,
            );
        }
    }

    /// Runs the job in `ms` milliseconds, unless it is waiting already.
    pub(crate) fn kick_after(&self, ms: u32) {
        let queue = QUEUE.load(Acquire) as *mut bindings::workqueue_struct;
        if queue.is_null() {
            return;
        }
        // SAFETY: The queue outlives all workers; the work was initialised in `new`.
        unsafe {
            let delay = bindings::__msecs_to_jiffies(ms);
            bindings::queue_delayed_work_on(
                bindings::wq_misc_consts_WORK_CPU_UNBOUND as c_int,
                queue,
                self.work.get(),
                delay,
            );
        }
    }

    /// Runs the job at this time on `CLOCK_MONOTONIC`, instead of the one that was asked for last.
    pub(crate) fn kick_at(&self, at: Ns) {
        self.alarm.lock().arm(at.0);
    }

    /// Cancels a run that waits and waits for one that is under way. May sleep.
    pub(crate) fn cancel_sync(&self) {
        // The first run that is waited for may have asked for another.
        for _ in 0..2 {
            self.alarm.disarm();
            // SAFETY: Initialised in `new`.
            unsafe { bindings::cancel_delayed_work_sync(self.work.get()) };
        }
    }
}

#[pinned_drop]
impl<J: Job> PinnedDrop for Worker<J> {
    fn drop(self: Pin<&mut Self>) {
        self.cancel_sync();
    }
}
