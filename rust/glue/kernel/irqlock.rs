// SPDX-License-Identifier: GPL-2.0
//! Spinlocks that keep interrupts off, as backends of [`kernel::sync::lock::Lock`].
//!
//! An [`IrqLock`] is shared by system calls and timers. With `PREEMPT_RT` it sleeps, and the timers
//! run in a thread. A [`RawLock`] is one there, too: for what is called in any context.

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
    #[cfg(CONFIG_PREEMPT_RT)]
    fn zernel_helper_irqlock_lock(lock: *mut bindings::spinlock_t) -> c_ulong;
    fn zernel_helper_irqlock_trylock(lock: *mut bindings::spinlock_t, flags: *mut c_ulong) -> bool;
    #[cfg(CONFIG_PREEMPT_RT)]
    fn zernel_helper_irqlock_unlock(lock: *mut bindings::spinlock_t, flags: c_ulong);
    fn zernel_helper_irqlock_assert_held(lock: *mut bindings::spinlock_t);
    fn zernel_helper_rawlock_init(
        lock: *mut bindings::raw_spinlock_t,
        name: *const c_char,
        key: *mut bindings::lock_class_key,
    );
    fn zernel_helper_rawlock_trylock(
        lock: *mut bindings::raw_spinlock_t,
        flags: *mut c_ulong,
    ) -> bool;
    fn zernel_helper_rawlock_assert_held(lock: *mut bindings::raw_spinlock_t);
}

/// Backend of [`IrqLock`].
pub(crate) struct IrqBackend;

/// A spinlock that keeps interrupts off while it is held; with `PREEMPT_RT` one that sleeps, with
/// interrupts on.
pub(crate) type IrqLock<T> = Lock<T, IrqBackend>;

// SAFETY: A spinlock gives mutual exclusion; the default `relock` takes it the same way.
unsafe impl Backend for IrqBackend {
    type State = bindings::spinlock_t;
    type GuardState = c_ulong;

    unsafe fn init(ptr: *mut Self::State, name: *const c_char, key: *mut bindings::lock_class_key) {
        // SAFETY: By the caller.
        unsafe { zernel_helper_irqlock_init(ptr, name, key) }
    }

    #[inline]
    unsafe fn lock(ptr: *mut Self::State) -> Self::GuardState {
        // SAFETY: By the caller.
        #[cfg(CONFIG_PREEMPT_RT)]
        unsafe {
            zernel_helper_irqlock_lock(ptr)
        }
        // SAFETY: By the caller; the raw spinlock comes first in a spinlock.
        #[cfg(not(CONFIG_PREEMPT_RT))]
        unsafe {
            RawBackend::lock(ptr.cast())
        }
    }

    unsafe fn try_lock(ptr: *mut Self::State) -> Option<Self::GuardState> {
        let mut flags = 0;
        // SAFETY: By the caller.
        unsafe { zernel_helper_irqlock_trylock(ptr, &mut flags) }.then_some(flags)
    }

    #[inline]
    unsafe fn unlock(ptr: *mut Self::State, guard_state: &Self::GuardState) {
        // SAFETY: By the caller.
        #[cfg(CONFIG_PREEMPT_RT)]
        unsafe {
            zernel_helper_irqlock_unlock(ptr, *guard_state)
        }
        // SAFETY: By the caller; as in `lock`.
        #[cfg(not(CONFIG_PREEMPT_RT))]
        unsafe {
            RawBackend::unlock(ptr.cast(), guard_state)
        }
    }

    unsafe fn assert_is_held(ptr: *mut Self::State) {
        // Without lockdep the call would be one for nothing on each lock.
        if cfg!(CONFIG_LOCKDEP) {
            // SAFETY: By the caller.
            unsafe { zernel_helper_irqlock_assert_held(ptr) }
        }
    }
}

/// Backend of [`RawLock`].
pub(crate) struct RawBackend;

/// A spinlock that keeps interrupts off while it is held and never sleeps, for callers in any
/// context. Sections are short, and neither allocate nor free.
#[cfg(not(zernel_simrm))]
pub(crate) type RawLock<T> = Lock<T, RawBackend>;

// SAFETY: A spinlock gives mutual exclusion; the default `relock` takes it the same way.
unsafe impl Backend for RawBackend {
    type State = bindings::raw_spinlock_t;
    type GuardState = c_ulong;

    unsafe fn init(ptr: *mut Self::State, name: *const c_char, key: *mut bindings::lock_class_key) {
        // SAFETY: By the caller.
        unsafe { zernel_helper_rawlock_init(ptr, name, key) }
    }

    #[inline]
    unsafe fn lock(ptr: *mut Self::State) -> Self::GuardState {
        // A helper would be one more call on the way of each request.
        // SAFETY: By the caller.
        unsafe { bindings::_raw_spin_lock_irqsave(ptr) }
    }

    unsafe fn try_lock(ptr: *mut Self::State) -> Option<Self::GuardState> {
        let mut flags = 0;
        // SAFETY: By the caller.
        unsafe { zernel_helper_rawlock_trylock(ptr, &mut flags) }.then_some(flags)
    }

    #[inline]
    unsafe fn unlock(ptr: *mut Self::State, guard_state: &Self::GuardState) {
        // SAFETY: By the caller.
        unsafe { bindings::_raw_spin_unlock_irqrestore(ptr, *guard_state) }
    }

    unsafe fn assert_is_held(ptr: *mut Self::State) {
        if cfg!(CONFIG_LOCKDEP) {
            // SAFETY: By the caller.
            unsafe { zernel_helper_rawlock_assert_held(ptr) }
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

/// Makes a [`RawLock`] with a lock class of its own; `name` is a C string.
#[cfg(not(zernel_simrm))]
macro_rules! new_raw_lock {
    ($inner:expr, $name:literal) => {
        $crate::glue::irqlock::RawLock::new($inner, $name, kernel::static_lock_class!())
    };
}
#[cfg(not(zernel_simrm))]
pub(crate) use new_raw_lock;
