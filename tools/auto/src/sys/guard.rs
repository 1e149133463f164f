// SPDX-License-Identifier: MIT OR Apache-2.0
//! The border between the program and this library: the program notices nothing.

use std::cell::Cell;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::atomic::{AtomicU8, Ordering::Acquire, Ordering::Release};

use crate::settings::{Settings, VARIABLE};
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
        let text = read(VARIABLE).to_string_lossy().into_owned();
        let state = match Settings::read(&text) {
            Ok(settings) => {
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

/// Runs something of this library in a call of the program. What it does to `errno`, and a panic,
/// stay here; calls of the driver that it makes are not looked at.
pub fn aside<T>(run: impl FnOnce() -> T) -> Option<T> {
    // SAFETY: It is this thread's, and valid as long as the thread is.
    let errno = unsafe { libc::__errno_location() };
    // SAFETY: As above.
    let kept = unsafe { *errno };
    let was_own = IS_OWN.with(|own| own.replace(true));
    let result = catch_unwind(AssertUnwindSafe(run));
    IS_OWN.with(|own| own.set(was_own));
    // SAFETY: As above.
    unsafe { *errno = kept };
    result.ok()
}

#[cfg(test)]
mod tests {
    use super::*;

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
