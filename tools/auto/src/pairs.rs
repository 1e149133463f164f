// SPDX-License-Identifier: MIT OR Apache-2.0
//! Times of rounds of a call site, with a request and without.
//!
//! They are compared by the signed-rank test (F. Wilcoxon, Individual Comparisons by Ranking Methods,
//! Biometrics Bulletin 1, 1945): it asks nothing of their distribution, and one time that is long for a
//! cause of its own counts no more than its rank.

use std::time::Duration;

/// Pairs of a comparison.
pub const PAIRS: usize = 32;

/// Fewer tell nothing.
pub const LEAST_PAIRS: usize = 16;

/// Standard deviations beyond the mean of ranks that have no cause, from which on requests count as
/// faster: of ten sites where they change nothing, one is taken for such.
const SURE: f64 = 1.28;

/// Times in nanoseconds, in the order in which the rounds ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Times {
    count: usize,
    ns: [u32; PAIRS],
}

impl Times {
    const NONE: Self = Self {
        count: 0,
        ns: [0; PAIRS],
    };

    /// Further ones than there are pairs are left out.
    fn add(&mut self, time: Duration) {
        if let Some(ns) = self.ns.get_mut(self.count) {
            *ns = u32::try_from(time.as_nanos()).unwrap_or(u32::MAX);
            self.count += 1;
        }
    }
}

/// Pairs of rounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pairs {
    with: Times,
    without: Times,
}

impl Pairs {
    /// None.
    pub const NONE: Self = Self {
        with: Times::NONE,
        without: Times::NONE,
    };

    /// Adds a round, with a request or without.
    pub fn add(&mut self, has_request: bool, time: Duration) {
        match has_request {
            true => self.with.add(time),
            false => self.without.add(time),
        }
    }

    /// The number of pairs.
    pub fn count(&self) -> usize {
        self.with.count.min(self.without.count)
    }

    /// Nanoseconds by which the round with a request was the shorter one of its pair.
    fn gains(&self) -> impl Iterator<Item = i64> + Clone + '_ {
        let pairs = self.without.ns.iter().zip(&self.with.ns);
        let gains = pairs.map(|(&without, &with)| i64::from(without) - i64::from(with));
        // Of equal ones nobody knows.
        gains.take(self.count()).filter(|&gain| gain != 0)
    }

    /// True if rounds with a request take less time.
    pub fn is_gain(&self) -> bool {
        let count = self.gains().count() as f64;
        // Twice the rank of a gain among all by their size, the mean one among equals.
        let rank = |gain: i64| -> u64 {
            let of = |other: i64| match other.abs().cmp(&gain.abs()) {
                std::cmp::Ordering::Less => 2,
                std::cmp::Ordering::Equal => 1,
                std::cmp::Ordering::Greater => 0,
            };
            1 + self.gains().map(of).sum::<u64>()
        };
        let shorter = self.gains().filter(|&gain| gain > 0);
        let ranks = shorter.map(rank).sum::<u64>() as f64 / 2.0;
        let mean = count * (count + 1.0) / 4.0;
        let deviation = (mean * (2.0 * count + 1.0) / 6.0).sqrt();
        count > 0.0 && ranks >= mean + SURE * deviation
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pairs with these times, in microseconds.
    fn pairs(times: impl IntoIterator<Item = (u64, u64)>) -> Pairs {
        let mut pairs = Pairs::NONE;
        for (with, without) in times {
            pairs.add(true, Duration::from_micros(with));
            pairs.add(false, Duration::from_micros(without));
        }
        pairs
    }

    /// The share of 1,000 sites whose requests count as a gain, per mille: times are random, and those
    /// of rounds with a request so much shorter.
    fn share(shorter: u64) -> u64 {
        let mut state = 1_u64;
        let mut random = move || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            // One in eight is ten times as long.
            let us = 100 + (state >> 40) % 100;
            match (state >> 33) % 8 {
                0 => 10 * us,
                _ => us,
            }
        };
        let mut site = || {
            let times = (0..PAIRS).map(|_| (random() - shorter, random()));
            pairs(times.collect::<Vec<_>>()).is_gain()
        };
        (0..1_000).map(|_| u64::from(site())).sum()
    }

    #[test]
    fn shorter_rounds_are_a_gain() {
        let all = |with, without| pairs([(with, without); PAIRS]).is_gain();
        assert!(all(9, 10));
        assert!(!all(10, 9) && !all(10, 10));
        assert!(!Pairs::NONE.is_gain());
        // Ranks of the longer differences weigh more: 11 of 16 here, and 5 of 16.
        let mixed = |larger: u64, smaller: u64| {
            let gains = (1..=11).map(|us| (1_000, 1_000 + us * larger));
            let losses = (1..=5).map(|us| (1_000 + us * smaller, 1_000));
            pairs(gains.chain(losses)).is_gain()
        };
        assert!(mixed(10, 1));
        assert!(!mixed(1, 100));
    }

    #[test]
    fn the_rank_of_a_hundred_is_known() {
        // 6 pairs, the ranks of the gains 2 to 6: 20 of 21, where 10.5 and 1.28 deviations are 16.6.
        let six = |first: u64| {
            pairs([
                (first, 100),
                (98, 100),
                (97, 100),
                (96, 100),
                (95, 100),
                (94, 100),
            ])
        };
        assert!(six(101).is_gain());
        // The longest difference is a loss: 15 of 21.
        assert!(!six(200).is_gain());
    }

    #[test]
    fn without_a_cause_few_sites_gain() {
        let shares = [0, 10, 40].map(share);
        assert!((50..150).contains(&shares[0]), "{shares:?}");
        assert!(shares[1] > 2 * shares[0] && shares[2] > 800, "{shares:?}");
    }

    #[test]
    fn times_beyond_the_pairs_are_left_out() {
        let mut pairs = pairs([(9, 10); PAIRS + 5]);
        assert_eq!(pairs.count(), PAIRS);
        pairs.add(true, Duration::from_secs(100));
        assert!(pairs.is_gain());
        let mut long = Pairs::NONE;
        long.add(true, Duration::from_secs(100));
        assert_eq!((long.count(), long.with.ns[0]), (0, u32::MAX));
    }
}
