// SPDX-License-Identifier: MIT OR Apache-2.0
//! Times of rounds of a call site, with a request and without.
//!
//! They are compared by the signed-rank test (F. Wilcoxon, Individual Comparisons by Ranking Methods,
//! Biometrics Bulletin 1, 1945): it asks nothing of their distribution, and one time that is long for a
//! cause of its own counts no more than its rank.

use std::time::Duration;

use crate::verdict::WINDOW;

/// Pairs of a comparison: each has one of the requests that are judged.
const PAIRS: usize = WINDOW as usize;

/// Fewer tell nothing.
pub const LEAST_PAIRS: usize = 16;

/// Standard deviations beyond the mean of ranks that have no cause, from which on requests count as
/// faster: of ten sites where they change nothing, one is taken for such.
const SURE: f64 = 1.28;

/// Two rounds of a site, one that is to have a request and one that is not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Pair {
    number: u32,
    /// Nanoseconds, with a request and without; 0: not known, or not yet.
    with: u64,
    without: u64,
}

/// The last pairs of rounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pairs([Pair; PAIRS]);

impl Pairs {
    /// None.
    pub const NONE: Self = Self(
        [Pair {
            number: 0,
            with: 0,
            without: 0,
        }; PAIRS],
    );

    fn place(number: u32) -> usize {
        number as usize % PAIRS
    }

    /// A pair begins. Its number counts up, from 1 on.
    pub fn begin(&mut self, number: u32) {
        self.0[Self::place(number)] = Pair {
            number,
            with: 0,
            without: 0,
        };
    }

    /// The time of a round of a pair. One that is not among the last pairs is left out.
    pub fn add(&mut self, number: u32, has_request: bool, time: Duration) {
        let pair = &mut self.0[Self::place(number)];
        let ns = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        match has_request {
            _ if pair.number != number => {}
            true => pair.with = ns.max(1),
            false => pair.without = ns.max(1),
        }
    }

    fn whole(&self) -> impl Iterator<Item = &Pair> + Clone {
        self.0
            .iter()
            .filter(|pair| pair.with != 0 && pair.without != 0)
    }

    /// The number of pairs with both times.
    pub fn count(&self) -> usize {
        self.whole().count()
    }

    /// Nanoseconds by which the round with a request was the shorter one of its pair.
    fn gains(&self) -> impl Iterator<Item = i64> + Clone + '_ {
        let gain = |pair: &Pair| {
            let length = pair.with.abs_diff(pair.without);
            let length = i64::try_from(length).unwrap_or(i64::MAX);
            if pair.with < pair.without {
                length
            } else {
                -length
            }
        };
        // Of equal ones nobody knows.
        self.whole().map(gain).filter(|&gain| gain != 0)
    }

    /// True if rounds with a request take less time, as far as pairs that differ tell.
    pub fn is_gain(&self) -> bool {
        let count = self.gains().count();
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
        let pairs = count as f64;
        let mean = pairs * (pairs + 1.0) / 4.0;
        let deviation = (mean * (2.0 * pairs + 1.0) / 6.0).sqrt();
        count >= LEAST_PAIRS && ranks >= mean + SURE * deviation
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pairs with these times, in microseconds.
    fn pairs(times: impl IntoIterator<Item = (u64, u64)>) -> Pairs {
        let mut pairs = Pairs::NONE;
        for (number, (with, without)) in (1..).zip(times) {
            pairs.begin(number);
            pairs.add(number, true, Duration::from_micros(with));
            pairs.add(number, false, Duration::from_micros(without));
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
    fn ranks_are_those_of_the_lengths() {
        // 16 pairs: 68 is the mean of the ranks, 19.3 their deviation, 92.8 the bound. A loss takes its
        // rank away from 136.
        let sixteen = |loss: u64| {
            let gains = (1..=15).map(|us| (1_000 - 2 * us, 1_000));
            pairs(gains.chain([(1_000 + loss, 1_000)]))
        };
        assert!(sixteen(1).is_gain() && sixteen(99).is_gain());
        let two = |loss: u64| {
            let gains = (1..=14).map(|us| (1_000 - 2 * us, 1_000));
            pairs(gains.chain([(1_000 + loss, 1_000), (1_001 + loss, 1_000)])).is_gain()
        };
        // They are the first two ranks, or the last two.
        assert!(two(1) && two(99));
        let three = |loss: u64| {
            let gains = (1..=13).map(|us| (1_000 - 2 * us, 1_000));
            let losses = (0..3).map(|us| (1_000 + loss + us, 1_000));
            pairs(gains.chain(losses)).is_gain()
        };
        assert!(three(1) && !three(99));
    }

    #[test]
    fn pairs_that_are_equal_tell_nothing() {
        let equal = |count: usize| {
            let gains = vec![(9, 10); PAIRS - count];
            pairs(gains.into_iter().chain(vec![(10, 10); count]))
        };
        assert!(equal(PAIRS - LEAST_PAIRS).is_gain());
        assert!(!equal(PAIRS - LEAST_PAIRS + 1).is_gain());
        assert_eq!(equal(PAIRS).count(), PAIRS);
    }

    #[test]
    fn without_a_cause_few_sites_gain() {
        let shares = [0, 10, 40].map(share);
        assert!((50..150).contains(&shares[0]), "{shares:?}");
        assert!(shares[1] > 2 * shares[0] && shares[2] > 800, "{shares:?}");
    }

    #[test]
    fn a_pair_has_the_times_of_its_rounds() {
        let mut pairs = Pairs::NONE;
        pairs.begin(1);
        pairs.add(1, true, Duration::from_secs(10));
        assert_eq!(pairs.count(), 0);
        // Another one has its place: late times are none of that.
        pairs.begin(1 + PAIRS as u32);
        pairs.add(1, false, Duration::from_secs(20));
        pairs.add(1 + PAIRS as u32, true, Duration::ZERO);
        assert_eq!(pairs.count(), 0);
        pairs.add(1 + PAIRS as u32, false, Duration::MAX);
        assert_eq!((pairs.count(), pairs.gains().next()), (1, Some(i64::MAX)));
        // Long rounds differ, too.
        let long = |with: u64| pairs_of_seconds([(with, 10); PAIRS]);
        assert!(long(9).is_gain() && !long(11).is_gain());
    }

    fn pairs_of_seconds(times: [(u64, u64); PAIRS]) -> Pairs {
        pairs(times.map(|(with, without)| (with * 1_000_000, without * 1_000_000)))
    }
}
