// SPDX-License-Identifier: MIT OR Apache-2.0
//! Preparations that compute: a fixed number of steps, so that what interrupts them makes them longer.

use std::hint::black_box;
use std::time::Duration;

use libzernel::Timestamp;

/// Steps by which the speed is measured.
const STEPS: u64 = 200_000;

/// Measurements, of which the fastest counts: it was interrupted least.
const TRIES: usize = 20;

/// The speed of this CPU.
#[derive(Debug, Clone, Copy)]
pub struct Spin {
    steps_per_ms: u64,
}

impl Spin {
    /// Measures it.
    pub fn measured() -> Self {
        let time = |_| {
            let start = Timestamp::now();
            steps(STEPS);
            Timestamp::now().since(start)
        };
        let least = (0..TRIES).map(time).min().unwrap_or_default();
        Self::of(STEPS, least)
    }

    /// So many steps take so long.
    fn of(steps: u64, time: Duration) -> Self {
        let ns = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX).max(1);
        Self {
            steps_per_ms: steps.saturating_mul(1_000_000) / ns,
        }
    }

    /// Computes for so long, if nothing interrupts it.
    pub fn run(self, time: Duration) {
        steps(self.steps_in(time));
    }

    fn steps_in(self, time: Duration) -> u64 {
        let ns = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.steps_per_ms.saturating_mul(ns) / 1_000_000
    }
}

fn steps(count: u64) {
    for step in 0..count {
        black_box(step);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_in_proportion_to_the_time() {
        let spin = Spin::of(2_000, Duration::from_micros(1_000));
        assert_eq!(spin.steps_in(Duration::from_micros(200)), 400);
        assert_eq!(spin.steps_in(Duration::ZERO), 0);
        assert_eq!(Spin::of(1, Duration::ZERO).steps_per_ms, 1_000_000);
        assert!(Spin::measured().steps_per_ms > 0);
    }
}
