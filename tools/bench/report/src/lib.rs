// SPDX-License-Identifier: GPL-2.0
//! What `zernel-load` and `replay` show alike: tables, plots, and what follows from the figures.

pub mod chart;
pub mod figures;
pub mod frontier;
pub mod palette;
pub mod recovery;

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
