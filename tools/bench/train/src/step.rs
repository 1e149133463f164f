// SPDX-License-Identifier: MIT OR Apache-2.0
//! The work of each step of a loop.

use std::ops::RangeInclusive;
use std::time::Duration;

use rand_chacha::rand_core::SeedableRng;
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, Uniform};

/// The work of a step, with its times.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    /// It reads.
    pub load: Duration,
    /// The GPU computes.
    pub compute: Duration,
    /// The CPU works.
    pub optimize: Duration,
}

impl Step {
    /// One that loads and computes for so many milliseconds.
    pub const fn of(load: u64, compute: u64) -> Self {
        Self {
            load: Duration::from_millis(load),
            compute: Duration::from_millis(compute),
            optimize: Duration::ZERO,
        }
    }

    /// And whose optimizer takes so many.
    pub const fn optimizing(self, ms: u64) -> Self {
        Self {
            optimize: Duration::from_millis(ms),
            ..self
        }
    }

    /// So many steps that load and compute for random times within `ms`, in milliseconds: the same
    /// for the same seed. None if `ms` is empty.
    pub fn random(count: usize, seed: u64, ms: RangeInclusive<u64>) -> Vec<Self> {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let us = Uniform::new_inclusive(ms.start() * 1_000, ms.end() * 1_000);
        let Ok(us) = us else {
            return Vec::new();
        };
        let mut draw = || Duration::from_micros(us.sample(&mut random));
        (0..count)
            .map(|_| Self {
                load: draw(),
                compute: draw(),
                optimize: Duration::ZERO,
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_steps_are_those_of_their_seed_and_within_their_bounds() {
        let steps = Step::random(500, 7, 1..=200);
        assert_eq!(steps, Step::random(500, 7, 1..=200));
        assert_ne!(steps, Step::random(500, 8, 1..=200));
        let bounds = Duration::from_millis(1)..=Duration::from_millis(200);
        for step in &steps {
            assert!(bounds.contains(&step.load) && bounds.contains(&step.compute));
        }
        let long = steps.iter().filter(|step| step.load.as_millis() > 100);
        assert!((200..300).contains(&long.count()));
    }

    #[test]
    fn a_range_that_holds_nothing_is_no_step() {
        #[allow(clippy::reversed_empty_ranges)]
        let none = 2..=1;
        assert_eq!(Step::random(3, 1, none), []);
    }
}
