// SPDX-License-Identifier: GPL-2.0
//! A spinlock that keeps interrupts off, as a backend of [`kernel::sync::lock::Lock`]: shared by
//! system calls and timers.

use kernel::{
    bindings,
    prelude::*,
    sync::lock::{
        Backend,
        Lock, //
    }, //
};

extern "C" {
    fn zernel_helper_irqlock_init(
        lock: *mut bindings::spinlock_t,
        name: *const c_char,
        key: *mut bindings::lock_class_key,
    );
    fn zernel_helper_irqlock_lock(lock: *mut bindings::spinlock_t) -> c_ulong;
    fn zernel_helper_irqlock_trylock(lock: *mut bindings::spinlock_t, flags: *mut c_ulong) -> bool;
    fn zernel_helper_irqlock_unlock(lock: *mut bindings::spinlock_t, flags: c_ulong);
    fn zernel_helper_irqlock_assert_held(lock: *mut bindings::spinlock_t);
}

/// Backend of [`IrqLock`].
pub(crate) struct IrqBackend;

/// A spinlock that keeps interrupts off while it is held.
pub(crate) type IrqLock<T> = Lock<T, IrqBackend>;

// SAFETY: A spinlock gives mutual exclusion; the default `relock` takes it the same way.
unsafe impl Backend for IrqBackend {
    type State = bindings::spinlock_t;
    type GuardState = c_ulong;

    unsafe fn init(ptr: *mut Self::State, name: *const c_char, key: *mut bindings::lock_class_key) {
        // SAFETY: By the caller.
        unsafe { zernel_helper_irqlock_init(ptr, name, key) }
    }

    unsafe fn lock(ptr: *mut Self::State) -> Self::GuardState {
        // SAFETY: By the caller.
        unsafe { zernel_helper_irqlock_lock(ptr) }
    }

    unsafe fn try_lock(ptr: *mut Self::State) -> Option<Self::GuardState> {
        let mut flags = 0;
        // SAFETY: By the caller.
        unsafe { zernel_helper_irqlock_trylock(ptr, &mut flags) }.then_some(flags)
    }

    unsafe fn unlock(ptr: *mut Self::State, guard_state: &Self::GuardState) {
        // SAFETY: By the caller.
        unsafe { zernel_helper_irqlock_unlock(ptr, *guard_state) }
    }

    unsafe fn assert_is_held(ptr: *mut Self::State) {
        // Without lockdep the call would be one for nothing on each lock.
        if cfg!(CONFIG_LOCKDEP) {
            // SAFETY: By the caller.
            unsafe { zernel_helper_irqlock_assert_held(ptr) }
        }
    }
}

/// Makes an [`IrqLock`] with a lock class of its own; `name` is a C string.
macro_rules! new_irq_lock {
    ($inner:expr, $name:literal) => {
        $crate::glue::irqlock::IrqLock::new($inner, $name, kernel::static_lock_class!())
    };
}
pub(crate) use new_irq_lock;
