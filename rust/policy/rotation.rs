// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Turns: one of several best-effort TSGs of a run list is enabled at a time.
//!
//! A GPU that slices time between *k* runnable TSGs pays a save and a restore, about 80 µs, for
//! every slice, and nothing while only one is runnable. So one TSG at a time is left enabled for a
//! quantum of milliseconds, with a short hardware slice: LC finds the GPU within that slice, and
//! nothing is lost to switches between best-effort TSGs.
//!
//! * [`entity::Entity`] is the part of each TSG: its weight, its accounts, its state.
//! * [`order::Order`] compares TSGs by the [`Discipline`], and [`sets::Sets`] keeps them in that
//!   order: a decision looks at a few of them, however many there are.
//! * [`turn::Turn`] gives the next action: enable a TSG, disable one, or look again later.
//!
//! Turns are measured in GPU time of the TSG, not in time that passes: LC's time is no part of a
//! turn.

pub(crate) mod entity;
pub(crate) mod order;
pub(crate) mod run_list;
#[cfg(any(test, zernel_kunit))]
mod scenarios;
mod sets;
mod standing;
mod tree;
pub(crate) mod turn;

pub(crate) use super::weight::Weight;
use super::{
    refused::Refused,
    units::Ns, //
};

/// The order of turns: the tunable `rotation`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Discipline {
    /// By weight: of the TSGs without a negative lag, the one with the earliest end of its next
    /// quantum in virtual time (Stoica and Abdel-Wahab, 1995: EEVDF; Linux' own since 6.6).
    #[default]
    Fair,
    /// By weight: the TSGs with credit left in this round, in the order of a queue (Xen's credit
    /// scheduler, with rounds that end with the last credit, not after 30 ms).
    Credit,
    /// In the order of a queue, without weights.
    RoundRobin,
}

impl Discipline {
    /// All of them.
    pub(crate) const ALL: [Self; 3] = [Self::Fair, Self::Credit, Self::RoundRobin];

    /// Its name for people and programs.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Fair => "fair",
            Self::Credit => "credit",
            Self::RoundRobin => "rr",
        }
    }

    /// The discipline of this name.
    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|d| d.name() == name)
    }

    /// The longest that a TSG with something to run waits from one turn to the next.
    ///
    /// `quantum` and `overrun`: how long a turn is meant to last, and by how much it lasts longer
    /// at most (the worker's lateness, the calls of a hand-over, [`turn::Turn::STEP`]). `own`: its
    /// weight; `others`: those of all that have something to run meanwhile.
    /// The time that LC takes comes on top. With q the sum of quantum and overrun, w weights:
    ///
    /// | discipline | bound |
    /// |---|---|
    /// | fair | sum over the others of q (4 + 2 w / w_own) |
    /// | credit | sum over the others of q + (2 + q / grant(w_own)) grant(w) |
    /// | rr | sum over the others of q |
    ///
    /// fair: after its turn it is at most q ahead of its share and so not eligible; until it is,
    /// another gets the time that brings it to the same virtual time, and until its deadline, one
    /// quantum later, the same again; each of the others is at most three quanta behind before, and
    /// overruns by one turn. credit: its debt of at most q is paid in 1 + q / grant rounds, another
    /// has one grant saved, and overruns by one turn.
    #[allow(
        dead_code,
        reason = "the documented bound, which the tests hold waits against"
    )]
    pub(crate) fn longest_wait(
        self,
        quantum: Ns,
        overrun: Ns,
        own: Weight,
        others: impl Iterator<Item = Weight>,
    ) -> Ns {
        let turn = quantum.saturating_add(overrun);
        let rounds = turn.0.checked_div(own.grant(quantum).0).unwrap_or(0);
        others.fold(Ns::ZERO, |sum, other| {
            let wait = match self {
                Self::Fair => turn
                    .0
                    .saturating_mul(2)
                    .saturating_mul(u64::from(other.number()))
                    .checked_div(u64::from(own.number()))
                    .unwrap_or(u64::MAX)
                    .saturating_add(turn.0.saturating_mul(4)),
                Self::Credit => rounds
                    .saturating_add(2)
                    .saturating_mul(other.grant(quantum).0)
                    .saturating_add(turn.0),
                Self::RoundRobin => turn.0,
            };
            sum.saturating_add(Ns(wait))
        })
    }
}

/// A quantum of software time.
///
/// # Invariants
///
/// It lies within [`Quantum::RANGE`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Quantum(Ns);

impl Quantum {
    /// Range of quanta: 0.5 ms, twice the longest call of a driver, to 1 s.
    pub(crate) const RANGE: (Ns, Ns) = (Ns(500_000), Ns(1_000_000_000));
    /// The quantum until it is tuned: 8 ms, longer than most inferences. A hand-over costs three
    /// switches, since both share the GPU in slices until the call to disable is done: a quarter of
    /// a millisecond, 3 % of 8 ms, where LC does not hide it.
    pub(crate) const DEFAULT: Self = Self(Ns(8_000_000));

    /// A quantum.
    pub(crate) fn new(length: Ns) -> Result<Self, Refused> {
        if length < Self::RANGE.0 || length > Self::RANGE.1 {
            return Err(Refused::OutOfRange);
        }
        // INVARIANT: Just checked.
        Ok(Self(length))
    }

    /// Its length.
    pub(crate) fn length(self) -> Ns {
        self.0
    }
}

#[cfg(any(test, zernel_kunit))]
#[cfg_attr(not(test), kernel::macros::kunit_tests(zernel_policy_rotation))]
mod tests {
    use super::*;

    #[test]
    fn names_lead_back() {
        for discipline in Discipline::ALL {
            assert_eq!(Discipline::named(discipline.name()), Some(discipline));
        }
        for bad in ["", "Fair", "rr ", "r", "roundrobin", "none"] {
            assert_eq!(Discipline::named(bad), None);
        }
        assert_eq!(Discipline::default(), Discipline::Fair);
    }

    #[test]
    fn weights_and_quanta_are_bounded() {
        for bad in [0, 10_001, u32::MAX] {
            assert_eq!(Weight::new(bad), Err(Refused::OutOfRange));
        }
        for good in [1, 1024, 10_000] {
            assert_eq!(Weight::new(good).map(Weight::number), Ok(good));
        }
        for bad in [0, 499_999, 1_000_000_001, u64::MAX] {
            assert_eq!(Quantum::new(Ns(bad)), Err(Refused::OutOfRange));
        }
        for good in [500_000, 1_000_000_000] {
            assert_eq!(Quantum::new(Ns(good)).map(Quantum::length), Ok(Ns(good)));
        }
        assert_eq!(Quantum::DEFAULT.length(), Ns(8_000_000));
    }

    #[test]
    fn heavier_is_slower_and_has_more_credit() {
        let ms = Ns(1_000_000);
        for (number, virtual_time, grant) in [
            (1024, 1_000_000, 1_000_000),
            (2048, 500_000, 2_000_000),
            (512, 2_000_000, 500_000),
            (1, 1_024_000_000, 976),
        ] {
            let weight = Weight(number);
            assert_eq!(weight.slow_down(ms), virtual_time);
            assert_eq!(weight.grant(ms), Ns(grant));
        }
        assert_eq!(Weight(1).grant(Ns(1)), Ns(1));
        assert!(Weight(1).slow_down(Ns(u64::MAX)) > 0);
    }

    #[test]
    fn the_longest_wait_follows_the_formula() {
        let ms = Ns(1_000_000);
        let wait =
            |d: Discipline, own| d.longest_wait(ms, ms, own, [Weight::DEFAULT; 3].into_iter());
        let equal = Weight::DEFAULT;
        assert_eq!(wait(Discipline::RoundRobin, equal), Ns(6_000_000));
        assert_eq!(wait(Discipline::Fair, equal), Ns(36_000_000));
        assert_eq!(wait(Discipline::Credit, equal), Ns(18_000_000));
        assert_eq!(wait(Discipline::Fair, Weight(512)), Ns(48_000_000));
        assert_eq!(wait(Discipline::RoundRobin, Weight(1)), Ns(6_000_000));
        let endless = Ns(u64::MAX);
        for d in Discipline::ALL {
            let wait = d.longest_wait(endless, endless, Weight(1), [equal; 2].into_iter());
            assert_eq!(wait, endless);
        }
    }
}
