// SPDX-License-Identifier: MIT OR Apache-2.0
//! Points in time as the kernel tells them.

use std::fmt;
use std::ops::{Add, Sub};
use std::time::Duration;

use rustix::time::{clock_gettime, ClockId, Timespec};
use serde::{Deserialize, Serialize};

const NS_PER_S: u64 = 1_000_000_000;

/// A `CLOCK_MONOTONIC` time in nanoseconds.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Timestamp(u64);

impl Timestamp {
    /// Later than any time.
    pub const NEVER: Self = Self(u64::MAX);

    /// Now.
    pub fn now() -> Self {
        let now = clock_gettime(ClockId::Monotonic);
        Self(now.tv_sec as u64 * NS_PER_S + now.tv_nsec as u64)
    }

    /// From nanoseconds.
    pub const fn from_ns(ns: u64) -> Self {
        Self(ns)
    }

    /// In nanoseconds.
    pub const fn as_ns(self) -> u64 {
        self.0
    }

    /// Time since `earlier`, zero if that is later.
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }

    /// As system calls take it.
    pub fn timespec(self) -> Timespec {
        Timespec {
            tv_sec: (self.0 / NS_PER_S) as i64,
            tv_nsec: (self.0 % NS_PER_S) as _,
        }
    }
}

impl Add<Duration> for Timestamp {
    type Output = Self;

    fn add(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(saturating_ns(duration)))
    }
}

impl Sub<Duration> for Timestamp {
    type Output = Self;

    fn sub(self, duration: Duration) -> Self {
        Self(self.0.saturating_sub(saturating_ns(duration)))
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:09}", self.0 / NS_PER_S, self.0 % NS_PER_S)
    }
}

/// Nanoseconds of `duration`, clamped to the longest possible one.
pub(crate) const fn saturating_ns(duration: Duration) -> u64 {
    let ns = duration.as_nanos();
    if ns > u64::MAX as u128 {
        return u64::MAX;
    }
    ns as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arithmetic_saturates() {
        let start = Timestamp::from_ns(5);
        assert_eq!(start.since(Timestamp::from_ns(9)), Duration::ZERO);
        assert_eq!(start + Duration::MAX, Timestamp::NEVER);
        assert_eq!(start - Duration::from_nanos(7), Timestamp::from_ns(0));
    }

    #[test]
    fn prints_seconds() {
        assert_eq!(Timestamp::from_ns(1_000_000_042).to_string(), "1.000000042");
    }

    #[test]
    fn now_never_goes_back() {
        let first = Timestamp::now();
        assert!(Timestamp::now() >= first);
    }
}
