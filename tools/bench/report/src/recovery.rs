// SPDX-License-Identifier: MIT OR Apache-2.0
//! The number of requests from a change of the preparation until latencies are back at their level.
//!
//! The level is that of the last [`STEADY`] requests of the run. It is reached at the first request
//! from which on [`WINDOW`] requests in a row have a mean added latency and a mean idle time that
//! are not above those of the level by more than chance makes them, three standard errors, and at
//! most one of each is above the level's 99th percentile.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::quantile;
use crate::requests::Requests;

/// Requests that show the level.
const STEADY: usize = 500;

/// Requests of a window.
const WINDOW: usize = 20;

/// Within how many requests a change is to be followed.
pub const WITHIN: usize = 50;

/// Requests before and after the change that are kept for a plot.
const SHOWN: (usize, usize) = (60, 160);

/// A mean that is so little above the level is no loss, in microseconds.
const NEGLIGIBLE_US: f64 = 5.0;

/// A request.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Request {
    /// Requests before it since the change; negative before that.
    pub place: i64,
    /// Added latency against the run alone, in microseconds.
    pub added_us: f64,
    /// GPU time held for its data, in microseconds.
    pub idle_us: f64,
}

/// Recovery from a change.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Recovery {
    /// The requests around it.
    pub requests: Vec<Request>,
    /// Mean and 99th percentile of the added latency when all is steady again, in microseconds.
    pub added_us: [f64; 2],
    /// The same of the idle time.
    pub idle_us: [f64; 2],
    /// Requests until it was back at its level, if it ever was.
    pub back_after: Option<usize>,
}

/// A figure of a request.
type Column = fn(&Request) -> f64;

/// A figure when all is steady.
struct Level {
    mean: f64,
    most: f64,
    p99: f64,
}

impl Level {
    fn of(values: &[f64]) -> Option<Self> {
        let count = values.len() as f64;
        let mean = values.iter().sum::<f64>() / count;
        let square = values
            .iter()
            .map(|one| (one - mean) * (one - mean))
            .sum::<f64>()
            / count;
        let mut sorted = values.to_vec();
        sorted.sort_unstable_by(f64::total_cmp);
        Some(Self {
            mean,
            most: mean + (3.0 * (square / WINDOW as f64).sqrt()).max(NEGLIGIBLE_US),
            p99: quantile(&sorted, 0.99)?,
        })
    }

    fn holds(&self, window: &[f64]) -> bool {
        let mean = window.iter().sum::<f64>() / window.len() as f64;
        let above = window
            .iter()
            .filter(|one| **one > self.p99 + NEGLIGIBLE_US)
            .count();
        mean <= self.most && above <= 1
    }
}

impl Recovery {
    /// Of the requests of a run in their order; none if there are too few of them.
    pub fn of(requests: &[Request]) -> Option<Self> {
        let change = requests.iter().position(|one| one.place >= 0)?;
        let after = &requests[change..];
        let steady = &after[after.len().checked_sub(STEADY)?..];
        if after.len() < STEADY + WINDOW {
            return None;
        }
        let column = |of: Column, part: &[Request]| -> Vec<f64> { part.iter().map(of).collect() };
        let columns: [Column; 2] = [|one| one.added_us, |one| one.idle_us];
        let levels = columns.map(|of| (of, Level::of(&column(of, steady))));
        let back_after = after.windows(WINDOW).position(|window| {
            levels.iter().all(|(of, level)| {
                let level = level.as_ref();
                level.is_some_and(|level| level.holds(&column(*of, window)))
            })
        });
        let [added_us, idle_us] =
            levels.map(|(_, level)| level.map_or([0.0; 2], |level| [level.mean, level.p99]));
        let shown = change.saturating_sub(SHOWN.0)..(change + SHOWN.1).min(requests.len());
        Some(Self {
            requests: requests[shown].to_vec(),
            added_us,
            idle_us,
            back_after,
        })
    }

    /// Of what was served `here`, beside the same requests `there`, alone; `held_ns` is for how long
    /// the GPU was held for each.
    pub fn after(
        change: Duration,
        here: &Requests,
        there: &Requests,
        held_ns: &[u64],
    ) -> Option<Self> {
        let change = change.as_nanos() as u64;
        let before = here.start_ns.partition_point(|start| *start < change) as i64;
        let requests = here.added(there).into_iter().map(|(at, added)| Request {
            place: at as i64 - before,
            added_us: added as f64 / 1e3,
            idle_us: held_ns.get(at).map_or(0.0, |ns| *ns as f64 / 1e3),
        });
        Self::of(&requests.collect::<Vec<_>>())
    }

    /// True if it was back soon enough.
    pub fn is_soon(&self) -> bool {
        self.back_after.is_some_and(|requests| requests <= WITHIN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Late by this much for so many requests after the change, and by 0 to 9 µs from then on.
    fn run(off: i64, added_us: f64) -> Vec<Request> {
        (-500..800)
            .map(|place| Request {
                place,
                added_us: match (0..off).contains(&place) {
                    true => added_us,
                    false => (place.rem_euclid(10)) as f64,
                },
                idle_us: 20.0,
            })
            .collect()
    }

    #[test]
    fn requests_until_the_level_are_counted() {
        for off in [0, 7, 30, 49] {
            let recovery = Recovery::of(&run(off, 200.0)).unwrap();
            let back = recovery.back_after.unwrap() as i64;
            assert!((off - 1..=off).contains(&back), "{off} {back}");
            assert!(recovery.is_soon());
            assert_eq!(recovery.added_us, [4.5, 9.0]);
            assert_eq!(recovery.idle_us, [20.0, 20.0]);
        }
        assert!(!Recovery::of(&run(80, 200.0)).unwrap().is_soon());
    }

    #[test]
    fn less_than_the_level_is_no_loss_and_few_requests_tell_nothing() {
        assert_eq!(Recovery::of(&run(40, -100.0)).unwrap().back_after, Some(0));
        assert_eq!(Recovery::of(&run(0, 0.0)[..600]), None);
        assert_eq!(Recovery::of(&[]), None);
    }
}
