// SPDX-License-Identifier: GPL-2.0
//! A high-resolution timer with the state that drives it and that it drives: absolute
//! `CLOCK_MONOTONIC` times, armed anew under the lock of the state, by its own callback too.

use super::irqlock::{
    IrqBackend,
    IrqLock, //
};
use core::{
    cell::Cell,
    ops::{
        Deref,
        DerefMut, //
    },
};
use kernel::{
    bindings,
    container_of,
    prelude::*,
    sync::{
        lock::Guard,
        LockClassKey, //
    },
    types::Opaque, //
};

/// The answer of a callback whose timer does not expire again by itself.
#[cfg(not(zernel_linux_7_2))]
pub(crate) const NO_RESTART: bindings::hrtimer_restart =
    bindings::hrtimer_restart::HRTIMER_NORESTART;
#[cfg(not(zernel_linux_7_2))]
const RESTART: bindings::hrtimer_restart = bindings::hrtimer_restart::HRTIMER_RESTART;
/// The answer of a callback whose timer does not expire again by itself.
#[cfg(zernel_linux_7_2)]
pub(crate) const NO_RESTART: bindings::hrtimer_restart =
    bindings::hrtimer_restart_HRTIMER_NORESTART;
#[cfg(zernel_linux_7_2)]
const RESTART: bindings::hrtimer_restart = bindings::hrtimer_restart_HRTIMER_RESTART;

extern "C" {
    fn zernel_helper_timer_again(timer: *mut bindings::hrtimer, at: i64) -> bool;
}

/// Something that a timer drives.
pub(crate) trait Timed: Send + Sync + Sized {
    /// The state that decides when the timer expires.
    type State: Send + Unpin;

    /// The time has come. In interrupt context, with `PREEMPT_RT` in the thread of soft timers: must
    /// not sleep, but for spinlocks.
    fn expired(this: Expired<'_, Self>);
}

/// The timer is not armed.
const NOT_ARMED: u64 = u64::MAX;

/// The state that the lock of a [`Driven`] protects.
pub(crate) struct Armed<S> {
    state: S,
    /// The expiry that the timer is armed for.
    at: u64,
}

/// A `T` with its timer.
///
/// # Invariants
///
/// `timer` is set up and is embedded in this structure, which is pinned. Only holders of `armed`
/// arm it.
#[pin_data(PinnedDrop)]
pub(crate) struct Driven<T: Timed> {
    #[pin]
    timer: Opaque<bindings::hrtimer>,
    #[pin]
    armed: IrqLock<Armed<T::State>>,
    #[pin]
    inner: T,
}

/// The state of a [`Driven`], locked.
pub(crate) struct Locked<'a, T: Timed> {
    driven: &'a Driven<T>,
    guard: Guard<'a, Armed<T::State>, IrqBackend>,
    /// In the callback of the timer: whether it is to expire again.
    again: Option<&'a Cell<bool>>,
}

/// A [`Driven`] at its time.
pub(crate) struct Expired<'a, T: Timed> {
    driven: &'a Driven<T>,
    again: &'a Cell<bool>,
}

// SAFETY: Timers may be armed and cancelled from any thread.
unsafe impl<T: Timed> Send for Driven<T> {}
// SAFETY: The timer core and the lock serialise; `T` is `Sync`.
unsafe impl<T: Timed> Sync for Driven<T> {}

impl<T: Timed> Driven<T> {
    /// A timer that is not armed. Most easily made with [`new_driven`].
    pub(crate) fn new(
        state: T::State,
        name: &'static CStr,
        key: Pin<&'static LockClassKey>,
        inner: impl PinInit<T, Error>,
    ) -> impl PinInit<Self, Error> {
        let armed = Armed {
            state,
            at: NOT_ARMED,
        };
        // INVARIANT: Set up in place.
        try_pin_init!(Self {
            timer <- Opaque::ffi_init(|timer: *mut bindings::hrtimer| {
                // SAFETY: `timer` is valid for writes. Neither a hard nor a soft timer by name: in
                // its interrupt, and with PREEMPT_RT in a thread, as the lock of the state sleeps
                // there (Documentation/locking.rst, "Contexts").
                unsafe {
                    bindings::hrtimer_setup(
                        timer,
                        Some(Self::callback),
                        bindings::CLOCK_MONOTONIC as i32,
                        bindings::hrtimer_mode_HRTIMER_MODE_ABS,
                    )
                }
            }),
            armed <- IrqLock::new(armed, name, key),
            inner <- inner,
        })
    }

    /// Locks the state.
    pub(crate) fn lock(&self) -> Locked<'_, T> {
        Locked {
            driven: self,
            guard: self.armed.lock(),
            again: None,
        }
    }

    /// Takes the timer off, and waits for its callback. Not from there. For a state that lets nobody
    /// arm it meanwhile.
    #[cfg(zernel_core)]
    pub(crate) fn disarm(&self) {
        self.armed.lock().at = NOT_ARMED;
        // SAFETY: Set up by the type invariant.
        unsafe { bindings::hrtimer_cancel(self.timer.get()) };
    }

    /// # Safety
    ///
    /// Called by the timer core with the timer of a [`Driven`].
    unsafe extern "C" fn callback(timer: *mut bindings::hrtimer) -> bindings::hrtimer_restart {
        let timer = timer.cast::<Opaque<bindings::hrtimer>>();
        // SAFETY: By the type invariant; `drop` waits for the callback.
        let driven = unsafe { &*container_of!(timer, Self, timer) };
        let again = Cell::new(false);
        T::expired(Expired {
            driven,
            again: &again,
        });
        match again.get() {
            true => RESTART,
            false => NO_RESTART,
        }
    }
}

impl<'a, T: Timed> Expired<'a, T> {
    /// Locks the state. The timer is not armed any more.
    pub(crate) fn lock(self) -> Locked<'a, T> {
        let mut guard = self.driven.armed.lock();
        guard.at = NOT_ARMED;
        Locked {
            driven: self.driven,
            guard,
            again: Some(self.again),
        }
    }
}

impl<'a, T: Timed> Locked<'a, T> {
    /// The timer that the state belongs to.
    pub(crate) fn driven(&self) -> &'a Driven<T> {
        self.driven
    }

    /// True in the callback of the timer.
    #[cfg(zernel_core)]
    pub(crate) fn is_expired(&self) -> bool {
        self.again.is_some()
    }

    /// Arms the timer for `at`, instead of its last time. A time in the past expires at once.
    pub(crate) fn arm(&mut self, at: u64) {
        let timer = self.driven.timer.get();
        let expires = i64::try_from(at).unwrap_or(i64::MAX);
        if let Some(again) = self.again {
            // It has expired: also the same time is another one.
            self.guard.at = at;
            // SAFETY: Called in the timer's callback, and by the type invariant nobody starts it
            // while this holds the lock. The timer core respects a later start.
            if unsafe { zernel_helper_timer_again(timer, expires) } {
                again.set(true);
                return;
            }
        }
        if core::mem::replace(&mut self.guard.at, at) == at && self.again.is_none() {
            return;
        }
        // SAFETY: Set up by the type invariant. The core takes its own locks.
        unsafe {
            bindings::hrtimer_start_range_ns(
                timer,
                expires,
                0,
                bindings::hrtimer_mode_HRTIMER_MODE_ABS,
            )
        };
    }

    /// The guard of the lock, to wait with.
    #[cfg(not(zernel_core))]
    pub(crate) fn guard(&mut self) -> &mut Guard<'a, Armed<T::State>, IrqBackend> {
        &mut self.guard
    }
}

impl<T: Timed> Deref for Locked<'_, T> {
    type Target = T::State;

    fn deref(&self) -> &T::State {
        &self.guard.state
    }
}

impl<T: Timed> DerefMut for Locked<'_, T> {
    fn deref_mut(&mut self) -> &mut T::State {
        &mut self.guard.state
    }
}

impl<T: Timed> Deref for Driven<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.inner
    }
}

#[pinned_drop]
impl<T: Timed> PinnedDrop for Driven<T> {
    fn drop(self: Pin<&mut Self>) {
        // Nobody else can arm it any more, and the callback only does while it runs, which this
        // waits for and then takes the timer off again.
        // SAFETY: Set up by the type invariant.
        unsafe { bindings::hrtimer_cancel(self.timer.get()) };
    }
}

/// Makes a [`Driven`] with a lock of its own class; `name` is a C string.
macro_rules! new_driven {
    ($state:expr, $name:literal, $inner:expr) => {
        $crate::glue::timer::Driven::new($state, $name, kernel::static_lock_class!(), $inner)
    };
}
pub(crate) use new_driven;
