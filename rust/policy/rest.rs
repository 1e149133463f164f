// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Rests of a job, so that a program that gives it work without end takes a bounded share of a CPU.

use super::units::{
    Ms,
    Ns, //
};

/// The rest that a job owes: ten times what it spent. Short ones add up until a timer can keep
/// them, so that a job that has little to do never rests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Rest {
    /// The time at which all rest will have passed.
    pub(crate) until: Ns,
}

impl Rest {
    /// Rest for each time spent.
    const TIMES: u64 = 10;
    /// A shorter rest is still owed after the next run.
    const SHORTEST: Ns = Ns(1_000_000);
    /// A longer rest is forgiven: a job is not to be lost for long.
    pub(crate) const LONGEST: Ns = Ns(1_000_000_000);

    /// The rest that is left at `now`, if it is one to keep.
    pub(crate) fn left(&self, now: Ns) -> Option<Ms> {
        let left = self.until.saturating_sub(now);
        // At most 1,000.
        (left >= Self::SHORTEST).then_some(Ms(left.0.div_ceil(1_000_000) as u32))
    }

    /// Counts what a run spent that is over `now`. Returns the rest before the next run.
    pub(crate) fn after(&mut self, now: Ns, spent: Ns) -> Option<Ms> {
        let owed = self
            .until
            .saturating_sub(now)
            .saturating_add(Ns(spent.0.saturating_mul(Self::TIMES)))
            .min(Self::LONGEST);
        self.until = now.saturating_add(owed);
        // At most 1,000.
        (owed >= Self::SHORTEST).then_some(Ms((owed.0 / 1_000_000) as u32))
    }
}

#[cfg(any(test, zernel_kunit))]
#[cfg_attr(not(test), kernel::macros::kunit_tests(zernel_policy_rest))]
mod tests {
    use super::*;

    const US: u64 = 1_000;
    const MS: u64 = 1_000_000;

    #[test]
    fn a_long_run_is_followed_by_ten_times_its_length() {
        let mut rest = Rest::default();
        assert_eq!(rest.after(Ns(5 * MS), Ns(2 * MS)), Some(Ms(20)));
        assert_eq!(rest.until, Ns(25 * MS));
        assert_eq!(rest.left(Ns(23 * MS + 1)), Some(Ms(2)));
        assert_eq!(rest.left(Ns(24 * MS + 1)), None);
    }

    #[test]
    fn short_runs_add_up() {
        let mut rest = Rest::default();
        // Back to back: 40 µs each, for which 400 µs are owed.
        assert_eq!(rest.after(Ns(40 * US), Ns(40 * US)), None);
        assert_eq!(rest.after(Ns(80 * US), Ns(40 * US)), None);
        assert_eq!(rest.after(Ns(120 * US), Ns(40 * US)), Some(Ms(1)));
    }

    #[test]
    fn rare_runs_never_rest() {
        let mut rest = Rest::default();
        for at in 1..1_000 {
            assert_eq!(rest.after(Ns(at * MS), Ns(90 * US)), None);
        }
    }

    #[test]
    fn endless_runs_take_one_eleventh() {
        let mut rest = Rest::default();
        let (mut now, mut spent) = (0, 0);
        while now < 10_000 * MS {
            now += 70 * US;
            spent += 70 * US;
            let pause = rest.after(Ns(now), Ns(70 * US));
            now += pause.map_or(0, |pause| u64::from(pause.0) * MS);
        }
        assert!(spent <= now / 10);
        assert!(spent >= now / 13);
    }

    #[test]
    fn no_rest_is_longer_than_the_longest() {
        let mut rest = Rest::default();
        for at in 0..3 {
            assert_eq!(rest.after(Ns(at), Ns(u64::MAX)), Some(Ms(1_000)));
        }
        assert_eq!(rest.until, Ns(2 + Rest::LONGEST.0));
        let mut last = Rest::default();
        assert_eq!(last.after(Ns(u64::MAX), Ns(1)), None);
    }
}
