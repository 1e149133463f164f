// SPDX-License-Identifier: GPL-2.0
//! A high-resolution timer with what it drives: absolute `CLOCK_MONOTONIC` times, armed anew from
//! anywhere, its own callback included.

use core::ops::Deref;
use kernel::{
    bindings,
    container_of,
    prelude::*,
    types::Opaque, //
};

#[cfg(not(zernel_linux_7_2))]
const NO_RESTART: bindings::hrtimer_restart = bindings::hrtimer_restart::HRTIMER_NORESTART;
#[cfg(zernel_linux_7_2)]
const NO_RESTART: bindings::hrtimer_restart = bindings::hrtimer_restart_HRTIMER_NORESTART;

/// Something that a timer drives.
pub(crate) trait Timed: Send + Sync + Sized {
    /// The time has come. In interrupt context: must not sleep.
    fn expired(this: &Driven<Self>);
}

/// A `T` with its timer.
///
/// # Invariants
///
/// `timer` is set up and is embedded in this structure, which is pinned.
#[pin_data(PinnedDrop)]
pub(crate) struct Driven<T: Timed> {
    #[pin]
    timer: Opaque<bindings::hrtimer>,
    #[pin]
    inner: T,
}

// SAFETY: Timers may be armed and cancelled from any thread.
unsafe impl<T: Timed> Send for Driven<T> {}
// SAFETY: The timer core serialises; `T` is `Sync`.
unsafe impl<T: Timed> Sync for Driven<T> {}

impl<T: Timed> Driven<T> {
    /// A timer that is not armed.
    pub(crate) fn new(inner: impl PinInit<T, Error>) -> impl PinInit<Self, Error> {
        // INVARIANT: Set up in place.
        try_pin_init!(Self {
            timer <- Opaque::ffi_init(|timer: *mut bindings::hrtimer| {
                // SAFETY: `timer` is valid for writes. Not a hard timer: its callback takes
                // sleeping locks where spinlocks sleep.
                unsafe {
                    bindings::hrtimer_setup(
                        timer,
                        Some(Self::callback),
                        bindings::CLOCK_MONOTONIC as i32,
                        bindings::hrtimer_mode_HRTIMER_MODE_ABS,
                    )
                }
            }),
            inner <- inner,
        })
    }

    /// Arms the timer for `at`, instead of what it was armed for. A time in the past expires at
    /// once.
    pub(crate) fn arm(&self, at: u64) {
        let at = i64::try_from(at).unwrap_or(i64::MAX);
        // SAFETY: Set up by the type invariant. The core takes its own locks.
        unsafe {
            bindings::hrtimer_start_range_ns(
                self.timer.get(),
                at,
                0,
                bindings::hrtimer_mode_HRTIMER_MODE_ABS,
            )
        };
    }

    /// Takes the timer off, and waits for its callback. Not from there.
    #[cfg(zernel_core)]
    pub(crate) fn disarm(&self) {
        // SAFETY: Set up by the type invariant.
        unsafe { bindings::hrtimer_cancel(self.timer.get()) };
    }

    /// # Safety
    ///
    /// Called by the timer core with the timer of a [`Driven`].
    unsafe extern "C" fn callback(timer: *mut bindings::hrtimer) -> bindings::hrtimer_restart {
        let timer = timer.cast::<Opaque<bindings::hrtimer>>();
        // SAFETY: By the type invariant; `drop` waits for the callback.
        let this = unsafe { &*container_of!(timer, Self, timer) };
        T::expired(this);
        NO_RESTART
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
