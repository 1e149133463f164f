// SPDX-License-Identifier: GPL-2.0
//! Threads and pollers that wait for a condition under a spinlock, and that are woken in short holds
//! of the lock of their queue, however many they are.

use crate::policy::units::Ns;
use kernel::{
    bindings,
    fs::File,
    new_poll_condvar,
    prelude::*,
    sync::{
        lock::{
            spinlock::SpinLockBackend,
            Guard, //
        },
        poll::{
            PollCondVar,
            PollTable, //
        }, //
    },
};

extern "C" {
    fn zernel_helper_waiters_any(queue: *mut bindings::wait_queue_head) -> bool;
    fn zernel_helper_waiters_wake(queue: *mut bindings::wait_queue_head) -> u64;
}

/// Threads and pollers that wait. Dropped, it lets go of pollers and waits for a grace period of RCU.
#[pin_data]
pub(crate) struct Waiters {
    #[pin]
    queue: PollCondVar,
}

// A condition variable is its queue, and nothing else.
kernel::prelude::static_assert!(size_of::<PollCondVar>() == size_of::<bindings::wait_queue_head>());

impl Waiters {
    /// Nobody.
    pub(crate) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            queue <- new_poll_condvar!("zernel_waiters"),
        })
    }

    fn as_raw(&self) -> *mut bindings::wait_queue_head {
        core::ptr::from_ref(&self.queue).cast_mut().cast()
    }

    /// Has a poll wait, if it does. It is to look at the condition afterwards.
    pub(crate) fn register(&self, file: &File, table: &PollTable<'_>) {
        table.register_wait(file, &self.queue);
    }

    /// Lets go of the lock and waits for a wake-up. Returns true if a signal is pending.
    #[must_use]
    pub(crate) fn wait<T: ?Sized>(&self, guard: &mut Guard<'_, T, SpinLockBackend>) -> bool {
        self.queue.wait_interruptible(guard)
    }

    /// True if somebody waits who looked at the condition before. The lock of the condition is held.
    pub(crate) fn is_any(&self) -> bool {
        // SAFETY: The queue is valid as long as this.
        unsafe { zernel_helper_waiters_any(self.as_raw()) }
    }

    /// Wakes everybody who waits now. Returns the time that it took, less pauses. May sleep.
    pub(crate) fn wake(&self) -> Ns {
        // SAFETY: The queue is valid as long as this. Its entries are as others that a kernel
        // function for wake-ups calls, under its lock.
        Ns(unsafe { zernel_helper_waiters_wake(self.as_raw()) })
    }
}
