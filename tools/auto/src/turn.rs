// SPDX-License-Identifier: MIT OR Apache-2.0
//! One context after the other: a context's TSG is the one that there was not before, so threads
//! take turns to make contexts.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// A thread that is cancelled in the driver may not give its turn back.
const LONGEST: Duration = Duration::from_secs(2);

/// The turns that were taken.
#[derive(Debug)]
struct Turns {
    /// Their number.
    count: u64,
    /// The last one is not over.
    is_taken: bool,
}

static TURNS: Mutex<Turns> = Mutex::new(Turns {
    count: 0,
    is_taken: false,
});
static IS_FREE: Condvar = Condvar::new();

fn turns() -> MutexGuard<'static, Turns> {
    TURNS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The turn of a thread, by its number, until it is dropped.
#[derive(Debug)]
pub struct Turn(u64);

impl Turn {
    /// Waits for the turns of others, for two seconds at most.
    pub fn take() -> Self {
        Self::take_within(LONGEST)
    }

    fn take_within(longest: Duration) -> Self {
        let waited = IS_FREE.wait_timeout_while(turns(), longest, |turns| turns.is_taken);
        let (mut turns, _) = waited.unwrap_or_else(PoisonError::into_inner);
        turns.count += 1;
        turns.is_taken = true;
        Self(turns.count)
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let mut turns = turns();
        // Another thread may have taken the turn of one that was slow.
        if turns.count == self.0 {
            turns.is_taken = false;
            IS_FREE.notify_one();
        }
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
        // A slow one ends no turn but its own.
        let slow = Turn::take_within(Duration::from_secs(600));
        let next = Turn::take_within(Duration::from_millis(1));
        drop(slow);
        assert!(turns().is_taken);
        drop(next);
        assert!(!turns().is_taken);
    }
}
