// SPDX-License-Identifier: MIT OR Apache-2.0
//! Repeating something often, and less often where that was asked for.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// In a short run no more is repeated after this long than what must be.
const ENOUGH: Duration = Duration::from_secs(120);
/// The least share of the wanted rounds that must be done.
const LEAST: u64 = 20;

static SHORT: AtomicBool = AtomicBool::new(false);

/// This run is a short one.
pub fn run_short() {
    SHORT.store(true, Relaxed);
}

/// True if this run is a short one.
pub fn is_short() -> bool {
    SHORT.load(Relaxed)
}

/// Counts from 0 to a number. In a short run it ends after some minutes, if a twentieth was done,
/// and says so.
pub struct Repeat {
    what: &'static str,
    times: u64,
    done: u64,
    begin: Instant,
    enough: Duration,
}

impl Repeat {
    /// So many times; `what` is counted.
    pub fn new(times: u64, what: &'static str) -> Self {
        let enough = if is_short() { ENOUGH } else { Duration::MAX };
        Self {
            what,
            times,
            done: 0,
            begin: Instant::now(),
            enough,
        }
    }

    /// Times that the beginning of a round was passed.
    pub fn done(&self) -> u64 {
        self.done
    }

    /// The report of a run of so many.
    pub fn report(&self) -> String {
        format!(
            "{} {} in {:.0?}",
            self.done,
            self.what,
            self.begin.elapsed()
        )
    }
}

impl Iterator for Repeat {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        if self.done == self.times {
            return None;
        }
        if self.begin.elapsed() >= self.enough && self.done >= self.times.div_ceil(LEAST) {
            println!(
                "    # cut short: {} of {} {}",
                self.done, self.times, self.what
            );
            return None;
        }
        self.done += 1;
        Some(self.done - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_of_it_where_there_is_time() {
        let mut repeat = Repeat::new(40, "rounds");
        assert!((&mut repeat).eq(0..40));
        assert_eq!(repeat.done(), 40);
        assert_eq!(repeat.next(), None);
    }

    #[test]
    fn a_twentieth_at_least() {
        let mut repeat = Repeat::new(41, "rounds");
        repeat.enough = Duration::ZERO;
        assert!((&mut repeat).eq(0..3));
        assert_eq!(repeat.next(), None);
    }
}
