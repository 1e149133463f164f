// SPDX-License-Identifier: MIT OR Apache-2.0
//! Deadlines of latency-critical clients, and the requests that miss them.

use anyhow::{ensure, Context, Result};
use serde::Serialize;
use zernel_workload::Role;

use crate::outcome::{Outcome, Summary};

/// Deadlines that can be told apart.
const MOST: usize = 16;
/// Longest deadline: one is told in microseconds, and is a time of the policy in nanoseconds.
const LONGEST_US: u64 = 10_000_000;

/// The deadlines of latency-critical clients, each from the begin of a request: those of the list in turn.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Deadlines {
    us: [u64; MOST],
    count: usize,
}

impl Deadlines {
    /// None.
    pub(crate) const NONE: Self = Self {
        us: [0; MOST],
        count: 0,
    };

    /// Those of a list in microseconds.
    pub(crate) fn parse(text: &str) -> Result<Self> {
        let mut all = Self::NONE;
        for one in text.split(',') {
            let us: u64 = one
                .parse()
                .with_context(|| format!("'{one}' is no deadline in microseconds"))?;
            ensure!(
                (1..=LONGEST_US).contains(&us),
                "a deadline of {us} us is out of range (1 to {LONGEST_US})"
            );
            ensure!(all.count < MOST, "there are more than {MOST} deadlines");
            all.us[all.count] = us;
            all.count += 1;
        }
        Ok(all)
    }

    /// True if there are none.
    pub(crate) const fn is_empty(self) -> bool {
        self.count == 0
    }

    /// That of the latency-critical client of this rank, in nanoseconds.
    pub(crate) fn of(self, rank: usize) -> Option<u64> {
        (self.count > 0).then(|| self.us[rank % self.count] * 1_000)
    }

    /// The number of shorter ones, of those that differ.
    pub(crate) fn place(self, rank: usize) -> usize {
        let own = self.of(rank).unwrap_or(0);
        let mut shorter: Vec<u64> = self.us[..self.count]
            .iter()
            .map(|us| us * 1_000)
            .filter(|&ns| ns < own)
            .collect();
        shorter.sort_unstable();
        shorter.dedup();
        shorter.len()
    }

    /// The requests of an outcome that were late.
    pub(crate) fn missed(self, outcome: &Outcome) -> Option<Missed> {
        if self.is_empty() {
            return None;
        }
        let lc = outcome.served.iter().filter(|one| one.role == Role::Lc);
        let mut late: Vec<i64> = Vec::new();
        for (rank, one) in lc.enumerate() {
            let deadline = self.of(rank).unwrap_or(u64::MAX);
            let latencies = one.requests.latency_ns.iter();
            late.extend(latencies.map(|&ns| ns.saturating_sub(deadline) as i64));
        }
        let count = late.iter().filter(|&&ns| ns > 0).count();
        let lc = outcome.served.iter().filter(|one| one.role == Role::Lc);
        let refused: u64 = lc.map(|one| one.refused).sum();
        let lc = outcome.served.iter().filter(|one| one.role == Role::Lc);
        let dropped: u64 = lc.map(|one| one.requests.dropped).sum();
        let served = late.len() as u64;
        let asked = refused + served;
        let all = asked + dropped;
        let failed = all - (served - count as u64);
        let lateness = Summary::of(&mut late);
        Some(Missed {
            refused_percent: 100.0 * refused as f64 / asked.max(1) as f64,
            percent: 100.0 * count as f64 / (lateness.count.max(1)) as f64,
            failed_percent: 100.0 * failed as f64 / all.max(1) as f64,
            late_p99_ns: lateness.p99_ns,
            late_max_ns: lateness.max_ns,
        })
    }
}

/// The requests that were late.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(crate) struct Missed {
    /// Their share of those that were served, in percent.
    pub(crate) percent: f64,
    /// All that were not served in time, of all that arrived, in percent: late, refused or dropped.
    pub(crate) failed_percent: f64,
    /// Requests that were refused, of these and those that were served, in percent.
    pub(crate) refused_percent: f64,
    /// The 99th percentile of the time after the deadline, of all requests; one in time has 0.
    pub(crate) late_p99_ns: i64,
    /// The longest.
    pub(crate) late_max_ns: i64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_have_them_in_turn() {
        let all = Deadlines::parse("20000,5000,80000,5000").unwrap();
        let of: Vec<_> = (0..5).map(|rank| all.of(rank).unwrap()).collect();
        assert_eq!(
            of,
            [20_000_000, 5_000_000, 80_000_000, 5_000_000, 20_000_000]
        );
        let places: Vec<_> = (0..4).map(|rank| all.place(rank)).collect();
        assert_eq!(places, [1, 0, 2, 0]);
        assert_eq!(Deadlines::NONE.of(3), None);
    }

    #[test]
    fn others_are_refused() {
        for bad in [
            "",
            "0",
            "-1",
            "1,",
            "x",
            "10000001",
            &"1,".repeat(16),
            &["1"; 17].join(","),
        ] {
            assert!(Deadlines::parse(bad).is_err(), "{bad}");
        }
        assert!(Deadlines::parse(&["1"; 16].join(",")).is_ok());
    }
}
