// SPDX-License-Identifier: MIT OR Apache-2.0
//! The border between the program and this library: the program notices nothing.

use std::cell::Cell;
use std::ffi::c_int;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::atomic::{AtomicU8, Ordering::Acquire, Ordering::Release};

use crate::settings::{Settings, BLOCKING, CONNECTIONS, VARIABLE};
use crate::{tell, watch};

/// The driver was not looked for yet.
const UNKNOWN: u8 = 0;
/// Calls are looked at.
const ON: u8 = 1;
/// They go to the driver, and that is all.
const OFF: u8 = 2;

static STATE: AtomicU8 = AtomicU8::new(UNKNOWN);

thread_local! {
    /// Calls of this thread are this library's own.
    static IS_OWN: Cell<bool> = const { Cell::new(false) };
}

/// True if calls of this thread are the program's, and are looked at.
#[inline]
pub fn is_watching() -> bool {
    STATE.load(Acquire) == ON && !is_own()
}

/// True if calls of this thread are this library's own.
#[inline]
pub fn is_own() -> bool {
    IS_OWN.with(Cell::get)
}

/// Reads the wishes of the user, once.
#[cold]
pub fn set_up() {
    if STATE.load(Acquire) != UNKNOWN {
        return;
    }
    aside(|| {
        let read = |name: &str| std::env::var_os(name).unwrap_or_default();
        if read("ZERNEL") == "off" {
            STATE.store(OFF, Release);
            return;
        }
        let text = |name| read(name).to_string_lossy().into_owned();
        let state = match Settings::read(&text(VARIABLE), &text(CONNECTIONS)) {
            Ok(mut settings) => {
                settings.is_blocking = !matches!(text(BLOCKING).trim(), "" | "0");
                watch::set_up(settings);
                ON
            }
            Err(why) => {
                tell::aside(&format!("{VARIABLE}: {why}"));
                OFF
            }
        };
        // SAFETY: The function makes calls alone that are safe in a child.
        unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
        STATE.store(state, Release);
    });
}

/// A child of a program that has used CUDA has none: its calls fail, and nothing is to be done for
/// them.
extern "C" fn in_child() {
    if watch::is_used() {
        STATE.store(OFF, Release);
    }
}

extern "C-unwind" {
    /// Of the C library. A cancellation that was asked for meanwhile may come with the end of it.
    fn pthread_setcancelstate(state: c_int, old: *mut c_int) -> c_int;
}

/// Says whether this thread may be cancelled; what was said before.
fn set_cancel_state(state: c_int) -> c_int {
    let mut old = 0;
    // SAFETY: `old` is valid for writes. It fails for other states alone.
    unsafe { pthread_setcancelstate(state, &mut old) };
    old
}

/// Runs something of this library in a call of the program. What it does to `errno`, and a panic,
/// stay here; calls of the driver that it makes are not looked at. The thread is not cancelled
/// meanwhile: its locks would stay with it.
pub fn aside<T>(run: impl FnOnce() -> T) -> Option<T> {
    const DISABLE: c_int = 1;
    let state = set_cancel_state(DISABLE);
    // SAFETY: It is this thread's, and valid as long as the thread is.
    let errno = unsafe { libc::__errno_location() };
    // SAFETY: As above.
    let kept = unsafe { *errno };
    let was_own = IS_OWN.with(|own| own.replace(true));
    let result = catch_unwind(AssertUnwindSafe(run));
    IS_OWN.with(|own| own.set(was_own));
    // SAFETY: As above.
    unsafe { *errno = kept };
    let result = result.ok();
    if state != DISABLE {
        set_cancel_state(state);
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::c_void;
    use std::mem::transmute;
    use std::sync::atomic::AtomicU32;

    extern "C-unwind" {
        fn pthread_testcancel();
    }

    /// The end of a thread that is cancelled outside alone.
    extern "C-unwind" fn cancelled(steps: *mut c_void) -> *mut c_void {
        // SAFETY: The test gives it, and waits for the end of the thread.
        let steps = unsafe { &*steps.cast::<AtomicU32>() };
        aside(|| {
            // SAFETY: It is this thread, which is cancelled at the next point where it may be.
            unsafe { libc::pthread_cancel(libc::pthread_self()) };
            // SAFETY: Nothing is to be given back.
            unsafe { pthread_testcancel() };
            steps.store(1, Release);
            aside(|| {
                // SAFETY: As above.
                unsafe { pthread_testcancel() };
                steps.store(2, Release);
            });
            // SAFETY: As above.
            unsafe { pthread_testcancel() };
            steps.store(3, Release);
        });
        // SAFETY: As above.
        unsafe { pthread_testcancel() };
        steps.store(4, Release);
        std::ptr::null_mut()
    }

    #[test]
    fn no_thread_is_cancelled_inside() {
        const CANCELED: usize = usize::MAX;
        let steps = AtomicU32::new(0);
        let mut thread = 0;
        let mut result = std::ptr::null_mut();
        let place = (&raw const steps).cast_mut().cast();
        // SAFETY: A function of a thread may be ended by a cancellation, which passes through it.
        let run = unsafe {
            transmute::<
                extern "C-unwind" fn(*mut c_void) -> *mut c_void,
                extern "C" fn(*mut c_void) -> *mut c_void,
            >(cancelled)
        };
        // SAFETY: All places are valid until the thread has ended.
        unsafe {
            assert_eq!(
                libc::pthread_create(&mut thread, std::ptr::null(), run, place),
                0
            );
            assert_eq!(libc::pthread_join(thread, &mut result), 0);
        }
        assert_eq!((steps.load(Acquire), result as usize), (3, CANCELED));
    }

    #[test]
    fn nothing_comes_through() {
        // SAFETY: As above.
        let errno = unsafe { &mut *libc::__errno_location() };
        *errno = 77;
        let inner = aside(|| {
            assert!(is_own());
            // SAFETY: As above.
            unsafe { *libc::__errno_location() = 5 };
            aside(is_own)
        });
        assert_eq!(inner, Some(Some(true)));
        assert!(!is_own());
        assert_eq!(*errno, 77);
        assert_eq!(aside(|| -> i32 { panic!("it stays here") }), None);
        assert!(!is_own());
    }
}
