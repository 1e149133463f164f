// SPDX-License-Identifier: MIT OR Apache-2.0
//! One context after the other: a context's TSG is the one that there was not before, so threads
//! take turns to make contexts.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// A thread that is cancelled in the driver may not give its turn back.
const LONGEST: Duration = Duration::from_secs(2);

/// True if a thread has the turn.
static IS_TAKEN: Mutex<bool> = Mutex::new(false);
static IS_FREE: Condvar = Condvar::new();

fn is_taken() -> MutexGuard<'static, bool> {
    IS_TAKEN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The turn of a thread, until it is dropped.
#[derive(Debug)]
pub struct Turn(());

impl Turn {
    /// Waits for the turns of others, for two seconds at most.
    pub fn take() -> Self {
        Self::take_within(LONGEST)
    }

    fn take_within(longest: Duration) -> Self {
        let waited = IS_FREE.wait_timeout_while(is_taken(), longest, |is_taken| *is_taken);
        let (mut is_taken, _) = waited.unwrap_or_else(PoisonError::into_inner);
        *is_taken = true;
        Self(())
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        *is_taken() = false;
        IS_FREE.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering::SeqCst};

    #[test]
    fn threads_take_turns() {
        let inside = AtomicU32::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..200 {
                        let _turn = Turn::take_within(Duration::from_secs(600));
                        assert_eq!(inside.fetch_add(1, SeqCst), 0);
                        std::thread::yield_now();
                        inside.fetch_sub(1, SeqCst);
                    }
                });
            }
        });
        // One that is never given back is taken all the same.
        std::mem::forget(Turn::take());
        drop(Turn::take_within(Duration::from_millis(1)));
        drop(Turn::take_within(Duration::from_secs(600)));
    }
}
