// SPDX-License-Identifier: MIT OR Apache-2.0
//! Results as data, and their views: tables, plots, verdicts, the page of `make bench` and the
//! picture of the README. `zernel-load` and `replay` make the data.

pub mod beside;
pub mod breakdown;
pub mod chart;
pub mod figures;
mod frontier;
pub mod outcome;
pub mod page;
pub mod palette;
pub mod plots;
pub mod queues;
pub mod readme;
pub mod recovery;
pub mod requests;
pub mod stats;
pub mod suite;
pub mod table;
#[cfg(test)]
mod testdata;
pub mod training;

/// The smallest of sorted values that this share of them is not above; `None` if there are none.
pub fn quantile<T: Copy>(sorted: &[T], share: f64) -> Option<T> {
    let rank = (share * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.clamp(1, sorted.len().max(1)) - 1).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_the_smallest_that_so_many_are_not_above() {
        let sorted: Vec<i64> = (1..=1_000).collect();
        for (share, value) in [
            (0.0, 1),
            (0.5, 500),
            (0.99, 990),
            (0.999, 999),
            (1.0, 1_000),
        ] {
            assert_eq!(quantile(&sorted, share), Some(value));
        }
        assert_eq!(quantile(&[-3], 0.99), Some(-3));
        assert_eq!(quantile::<i64>(&[], 0.5), None);
    }
}
