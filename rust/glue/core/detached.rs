// SPDX-License-Identifier: GPL-2.0
//! Work that may take for ever, and that nobody waits for but the end of the module: while it
//! waits or runs it keeps itself, and the module, there.

use crate::glue::module::this_module;
use core::ptr::NonNull;
use kernel::{
    bindings, impl_has_work,
    prelude::*,
    sync::{
        atomic::{
            ordering::{
                Acquire,
                Full,
                Release, //
            },
            Atomic,
        },
        Arc,
    },
    workqueue::{
        self,
        new_work,
        Work,
        WorkItem, //
    },
};

extern "C" {
    fn zernel_helper_detached_wq_create() -> *mut bindings::workqueue_struct;
}

/// A workqueue for [`Detached`] work. Dropped, it waits for the rest of it.
///
/// # Invariants
///
/// The workqueue is there as long as this.
pub(crate) struct Queue(NonNull<bindings::workqueue_struct>);

// SAFETY: A workqueue may be used and destroyed by any thread.
unsafe impl Send for Queue {}
// SAFETY: As above.
unsafe impl Sync for Queue {}

impl Queue {
    /// A workqueue, of which one blocked work keeps nothing from running, here or elsewhere.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new() -> Result<Self> {
        // SAFETY: FFI.
        let queue = unsafe { zernel_helper_detached_wq_create() };
        // INVARIANT: Just created.
        Ok(Self(NonNull::new(queue).ok_or(ENOMEM)?))
    }

    /// Runs a job soon; one that runs already runs once more. Otherwise as [`Self::start`].
    pub(crate) fn start_again<J: Job>(&self, work: &Arc<Detached<J>>) {
        while !self.start(work) {
            if work.state.load(Acquire) == AGAIN || work.state.cmpxchg(BUSY, AGAIN, Full).is_ok() {
                return;
            }
        }
    }

    /// Runs a job soon. Returns false if it waits or runs already. Does not sleep. Something that
    /// the caller can rely on keeps the module there during this call.
    pub(crate) fn start<J: Job>(&self, work: &Arc<Detached<J>>) -> bool {
        if work.state.cmpxchg(IDLE, BUSY, Full).is_err() {
            return false;
        }
        // SAFETY: The module is there, by the contract of this function.
        unsafe { bindings::__module_get(this_module()) };
        // SAFETY: Valid by the type invariant while `self` is borrowed.
        let queue = unsafe { workqueue::Queue::from_raw(self.0.as_ptr()) };
        // Never refused: only the thread that makes it busy queues it, and it is busy until it has
        // run.
        let queued = queue.enqueue(work.clone()).is_ok();
        if !queued {
            work.state.store(IDLE, Release);
            // SAFETY: Taken above; not the last one, by the contract of this function.
            unsafe { bindings::module_put(this_module()) };
        }
        queued
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        // SAFETY: Valid by the type invariant, and nobody queues on it any more.
        unsafe { bindings::destroy_workqueue(self.0.as_ptr()) };
    }
}

/// The work of a [`Detached`]. It may sleep.
pub(crate) trait Job: Send + Sync + 'static {
    /// Its outcome.
    type Done;

    /// Runs once.
    fn run(&self) -> Self::Done;

    /// It has run, and can be started again already.
    fn tell(_done: Self::Done) {}
}

/// It neither waits nor runs.
const IDLE: u32 = 0;
/// It waits or runs.
const BUSY: u32 = 1;
/// It waits or runs, and is to run once more.
const AGAIN: u32 = 2;

/// Work that runs once for each time that it is started, never twice at a time.
///
/// # Invariants
///
/// While `state` is not [`IDLE`], the work holds a reference to the module.
#[pin_data]
pub(crate) struct Detached<J: Job> {
    #[pin]
    work: Work<Self>,
    state: Atomic<u32>,
    job: J,
}

impl_has_work! {
    impl{J: Job} HasWork<Self> for Detached<J> { self.work }
}

impl<J: Job> Detached<J> {
    /// Work that waits to be started.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(job: J) -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                work <- new_work!("zernel_detached"),
                state: Atomic::new(IDLE),
                job,
            }),
            GFP_KERNEL_ACCOUNT,
        )
    }
}

impl<J: Job> core::ops::Deref for Detached<J> {
    type Target = J;

    fn deref(&self) -> &J {
        &self.job
    }
}

impl<J: Job> WorkItem for Detached<J> {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>) {
        loop {
            let done = this.job.run();
            let is_over = this.state.cmpxchg(BUSY, IDLE, Full).is_ok();
            if !is_over {
                // It is to run again; further wishes find it busy.
                this.state.store(BUSY, Release);
            }
            J::tell(done);
            if is_over {
                break;
            }
        }
        drop(this);
        // SAFETY: Taken when it was started. The end of the module waits for the rest of this
        // function, with the workqueue.
        unsafe { bindings::module_put(this_module()) };
    }
}
