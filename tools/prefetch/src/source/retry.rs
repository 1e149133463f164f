// SPDX-License-Identifier: MIT OR Apache-2.0
//! The time until a store is asked again.

use std::time::Duration;

/// A bound for the times that a store is asked, and for the time between them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retries {
    /// A store is asked so often after the first time.
    pub most: u32,
    /// The time before the second; it doubles from time to time.
    pub first: Duration,
    /// It grows to this.
    pub longest: Duration,
}

impl Default for Retries {
    fn default() -> Self {
        Self {
            most: 5,
            first: Duration::from_millis(50),
            longest: Duration::from_secs(5),
        }
    }
}

impl Retries {
    /// The time before trial `trial`, 1 being the first after the first; `None`: none is left.
    /// `random` is from 0 to 1: half of the time is. A store that asks for more gets it.
    pub fn wait(&self, trial: u32, random: f64, asked: Option<Duration>) -> Option<Duration> {
        if trial > self.most {
            return None;
        }
        let doubled = 2_u32.saturating_pow(trial.saturating_sub(1));
        let grown = self.first.saturating_mul(doubled).min(self.longest);
        let wait = grown.mul_f64(0.5 + 0.5 * random.clamp(0.0, 1.0));
        Some(wait.max(asked.unwrap_or_default()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_double_and_end() {
        let retries = Retries {
            most: 4,
            first: Duration::from_millis(100),
            longest: Duration::from_millis(350),
        };
        let whole: Vec<_> = (1..=5)
            .map(|trial| retries.wait(trial, 1.0, None))
            .collect();
        let ms = |ms| Some(Duration::from_millis(ms));
        assert_eq!(whole, [ms(100), ms(200), ms(350), ms(350), None]);
        assert_eq!(retries.wait(1, 0.0, None), ms(50));
        assert_eq!(retries.wait(1, -7.0, None), ms(50));
        assert_eq!(retries.wait(2, 0.5, ms(9_000)), ms(9_000));
        assert_eq!(retries.wait(2, 0.5, ms(1)), ms(150));
        assert_eq!(retries.wait(5, 0.5, ms(1)), None);
        let many = Retries {
            most: 99,
            ..retries
        };
        assert_eq!(many.wait(99, 1.0, None), ms(350));
    }
}
