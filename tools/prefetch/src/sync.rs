// SPDX-License-Identifier: MIT OR Apache-2.0
//! Locks and atomics: those of the standard library, or those that a model checker watches.

#[cfg(loom)]
pub use loom::sync::{
    atomic::{AtomicBool, AtomicU64, Ordering},
    Arc, Mutex, MutexGuard,
};
use std::sync::PoisonError;
#[cfg(not(loom))]
pub use std::sync::{
    atomic::{AtomicBool, AtomicU64, Ordering},
    Arc, Mutex, MutexGuard,
};

/// Takes a lock. No panic can leave what is under one half-changed: nothing of a caller runs there.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
