// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Slices that follow the slack of a TSG: the time that it can spare before its requests are late.
//!
//! Once in a quantum, for each TSG that has requests with deadlines, the earliest deadline first:
//!
//! ```text
//! remaining(k) = max(expected - ran since it came first, 0) + (k - 1) * expected, k from 1
//! slack(k)     = deadline(k) - now - remaining(k)
//! wanted       = late    where a slack is below late_permille of remaining
//!                soon    else, where one is below soon_permille of remaining
//!                early   else
//! slice        = wanted, from table where the credit is full, to table + credit
//! ```
//!
//! A deadline is the word of its owner, who may tell any; so longer slices are paid for with the time that
//! shorter ones gave ([`account`]).

mod account;
mod open;
mod seen;
mod terms;

use self::{
    account::Account,
    seen::LONGEST, //
};
pub(crate) use self::{
    open::Open,
    seen::Seen,
    terms::Terms, //
};
use crate::policy::units::{
    Ns,
    Permille,
    Us, //
};

/// The urgency of a TSG.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Urgency {
    /// Its requests have time.
    Early,
    /// Less than that.
    Soon,
    /// One is late, or will be.
    Late,
}

/// A TSG with deadlines.
///
/// # Invariants
///
/// `expected` is [`LONGEST`] at most.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Claimant {
    account: Account,
    /// It when requests ended last.
    ended: Option<Mark>,
    /// The GPU time of a request.
    expected: Option<Ns>,
    /// The first deadline, and the GPU time of the TSG when it became that.
    front: Option<(Ns, Ns)>,
}

#[derive(Clone, Copy, Debug)]
struct Mark {
    ran: Ns,
    ended: u64,
}

impl Claimant {
    /// Nothing is known of it.
    pub(crate) const NEW: Self = Self {
        account: Account::NEW,
        ended: None,
        expected: None,
        front: None,
    };

    /// The credit.
    #[allow(dead_code, reason = "the tests ask")]
    pub(crate) fn credit(&self) -> Ns {
        self.account.credit()
    }

    /// The debt.
    #[allow(dead_code, reason = "the tests ask")]
    pub(crate) fn debt(&self) -> Ns {
        self.account.debt()
    }

    /// The GPU time of a request, if any was seen.
    #[allow(dead_code, reason = "the tests ask")]
    pub(crate) fn expected(&self) -> Option<Ns> {
        self.expected
    }

    /// Decides, once in a quantum. Returns the slice in place of that of the table; `None`: that.
    pub(crate) fn step(&mut self, terms: &Terms, seen: &Seen, open: &Open) -> Option<Us> {
        self.learn(seen);
        self.account.look(terms, seen);
        self.follow(seen, open);
        let urgency = self.urgency(terms, seen, open)?;
        let wanted = match urgency {
            Urgency::Late => terms.late,
            Urgency::Soon => terms.soon,
            Urgency::Early => terms.early,
        };
        let slice = if wanted > seen.table {
            self.longer(terms, seen, wanted)
        } else if self.account.credit() >= Ns::from(terms.credit) {
            // It has given others what it can have back.
            seen.table
        } else {
            wanted
        };
        (slice != seen.table).then_some(slice)
    }

    /// A slice above that of the table, as far as the credit goes. It is held until that is spent, or the
    /// TSG was off the GPU, so that no two lengths above the table's follow each other in one turn.
    fn longer(&self, terms: &Terms, seen: &Seen, wanted: Us) -> Us {
        let credit = match seen.may_lengthen {
            true => us(self.account.credit()),
            false => 0,
        };
        let with = |credit: u32| Us(seen.table.0.saturating_add(credit));
        if self.account.was_off() {
            with(credit).min(wanted)
        } else if credit > 0 && seen.slice > seen.table {
            with(terms.credit.0).min(seen.slice)
        } else {
            seen.table
        }
    }

    /// The GPU time of a request: the mean of the last eight or so.
    fn learn(&mut self, seen: &Seen) {
        let mark = Mark {
            ran: seen.ran,
            ended: seen.ended,
        };
        let Some(before) = self.ended else {
            self.ended = Some(mark);
            return;
        };
        let requests = seen.ended.saturating_sub(before.ended);
        let ran = seen.ran.saturating_sub(before.ran);
        let Some(each) = ran.0.checked_div(requests) else {
            return;
        };
        self.ended = Some(mark);
        let each = each.min(LONGEST);
        // INVARIANT: Between two that are no longer.
        self.expected = Some(Ns(match self.expected {
            None => each,
            Some(Ns(old)) => old - old / 8 + each / 8,
        }));
    }

    /// Notes another first request. One that was over in time has lost nothing.
    fn follow(&mut self, seen: &Seen, open: &Open) {
        let first = open.first();
        if self.front.map(|(deadline, _)| deadline) == first {
            return;
        }
        let is_later = |old: Ns| first.is_none_or(|new| new > old);
        if self
            .front
            .is_some_and(|(old, _)| seen.now <= old && is_later(old))
        {
            self.account.clear_credit();
        }
        self.front = first.map(|deadline| (deadline, seen.ran));
    }

    /// `None`: it has no request with a deadline, or none was seen to end.
    fn urgency(&self, terms: &Terms, seen: &Seen, open: &Open) -> Option<Urgency> {
        let expected = self.expected?;
        let (_, since) = self.front?;
        let mut remaining = expected.saturating_sub(seen.ran.saturating_sub(since));
        let mut urgency = Urgency::Early;
        for deadline in open.iter() {
            let end = seen.now.saturating_add(remaining);
            let slack = deadline.saturating_sub(end);
            let is_below = |share: Permille| deadline < end || slack < share.of_time(remaining);
            if is_below(terms.late_below) {
                return Some(Urgency::Late);
            }
            if is_below(terms.soon_below) {
                urgency = Urgency::Soon;
            }
            remaining = remaining.saturating_add(expected);
        }
        Some(urgency)
    }
}

fn us(time: Ns) -> u32 {
    u32::try_from(time.0 / 1_000).unwrap_or(u32::MAX)
}

#[cfg(any(test, zernel_kunit))]
#[cfg_attr(not(test), kernel::macros::kunit_tests(zernel_policy_slices_slack))]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// A TSG of level 3 that has run for so long, and has had requests of 5 ms.
    fn seen(now: u64, ran: u64) -> Seen {
        Seen {
            now: Ns(now),
            ran: Ns(ran),
            ended: ran / (5 * MS),
            is_runnable: true,
            table: Us(10_000),
            slice: Us(10_000),
            may_lengthen: true,
        }
    }

    fn open(deadlines: &[u64]) -> Open {
        let mut open = Open::NONE;
        for &deadline in deadlines {
            open.add(Ns(deadline), Ns::ZERO);
        }
        open
    }

    /// One whose requests take 5 ms.
    fn known() -> Claimant {
        let mut one = Claimant::NEW;
        let terms = Terms::USUAL;
        assert_eq!(one.step(&terms, &seen(0, 0), &Open::NONE), None);
        assert_eq!(one.step(&terms, &seen(50 * MS, 50 * MS), &Open::NONE), None);
        assert_eq!(one.expected(), Some(Ns(5 * MS)));
        one
    }

    #[test]
    fn the_slack_decides() {
        let terms = Terms::USUAL;
        let at = |deadline: u64| known().urgency_of(&terms, &open(&[50 * MS + deadline]));
        // 5 ms remain, of which 0.5 ms are a tenth.
        assert_eq!(at(5 * MS - 1), Some(Urgency::Late));
        assert_eq!(at(5 * MS), Some(Urgency::Soon));
        assert_eq!(at(5 * MS + 499_999), Some(Urgency::Soon));
        assert_eq!(at(5 * MS + 500_000), Some(Urgency::Early));
        assert_eq!(known().urgency_of(&terms, &Open::NONE), None);
        // Thresholds of others.
        let mut terms = terms;
        (terms.late_below, terms.soon_below) = (Permille(200), Permille(1_000));
        let at = |deadline: u64| known().urgency_of(&terms, &open(&[50 * MS + deadline]));
        assert_eq!(at(6 * MS - 1), Some(Urgency::Late));
        assert_eq!(at(6 * MS), Some(Urgency::Soon));
        assert_eq!(at(10 * MS), Some(Urgency::Early));
    }

    #[test]
    fn later_requests_wait_for_earlier_ones() {
        let terms = Terms::USUAL;
        let two = |second: u64| known().urgency_of(&terms, &open(&[90 * MS, second]));
        assert_eq!(two(200 * MS), Some(Urgency::Early));
        let close = open(&[50 * MS + 8 * MS, 50 * MS + 9 * MS]);
        assert_eq!(known().urgency_of(&terms, &close), Some(Urgency::Late));
    }

    impl Claimant {
        /// At 50 ms.
        fn urgency_of(mut self, terms: &Terms, open: &Open) -> Option<Urgency> {
            let seen = seen(50 * MS, 50 * MS);
            self.follow(&seen, open);
            self.urgency(terms, &seen, open)
        }
    }

    #[test]
    fn without_a_request_that_ended_it_is_the_table() {
        let mut one = Claimant::NEW;
        let mut now = seen(0, 0);
        for _ in 0..10 {
            now.now = now.now.saturating_add(Ns(MS));
            assert_eq!(one.step(&Terms::USUAL, &now, &open(&[1])), None);
        }
    }

    #[test]
    fn one_that_is_always_late_has_the_slice_of_the_table() {
        let mut one = known();
        for ms in 51..1_000 {
            let now = Seen {
                is_runnable: ms % 3 > 0,
                ..seen(ms * MS, ms * MS / 2 + 25 * MS)
            };
            assert_eq!(one.step(&Terms::USUAL, &now, &open(&[now.now.0])), None);
            assert_eq!(one.credit(), Ns::ZERO);
        }
    }

    #[test]
    fn a_short_slice_earns_what_a_long_one_spends() {
        let terms = Terms::USUAL;
        let mut one = known();
        let mut now = seen(50 * MS, 50 * MS);
        now.ended = 10;
        let far = open(&[150 * MS]);
        assert_eq!(one.step(&terms, &now, &far), Some(terms.early));
        // It waits, and runs for 1 ms of 10.
        now.slice = terms.early;
        now.now = Ns(51 * MS);
        assert_eq!(one.step(&terms, &now, &far), Some(terms.early));
        (now.now, now.ran) = (Ns(60 * MS), Ns(51 * MS));
        assert_eq!(one.step(&terms, &now, &far), Some(terms.early));
        assert_eq!(one.credit(), Ns(8 * MS));
        // It stays so for no longer than the credit has room.
        (now.now, now.ran) = (Ns(80 * MS), Ns(53 * MS));
        assert_eq!(one.step(&terms, &now, &far), None);
        assert_eq!(one.credit(), Ns(20 * MS));
        // It is late.
        now.slice = now.table;
        now.now = Ns(149 * MS);
        assert_eq!(one.step(&terms, &now, &far), Some(Us(30_000)));
        now.slice = Us(30_000);
        (now.now, now.ran) = (Ns(164 * MS), Ns(68 * MS));
        // It has it until that is spent.
        assert_eq!(one.step(&terms, &now, &far), Some(Us(30_000)));
        assert_eq!(one.credit(), Ns(10 * MS));
        (now.now, now.ran) = (Ns(180 * MS), Ns(84 * MS));
        assert_eq!(one.step(&terms, &now, &far), None);
        assert_eq!(one.credit(), Ns::ZERO);
        assert!(one.debt() > Ns::ZERO && one.debt() < Ns(MS));
        // Of a level that is anybody's, it has none.
        now.may_lengthen = false;
        assert_eq!(one.step(&terms, &now, &far), None);
    }

    #[test]
    fn only_one_that_has_work_and_waits_gives_anything() {
        let terms = Terms::USUAL;
        for (is_runnable, ran, earned) in [(true, MS, 8 * MS), (false, MS, 0), (true, 9 * MS, 0)] {
            let mut one = known();
            let mut now = seen(50 * MS, 50 * MS);
            now.ended = 10;
            now.slice = terms.early;
            let far = open(&[500 * MS]);
            one.step(&terms, &now, &far);
            now.now = Ns(51 * MS);
            one.step(&terms, &now, &far);
            (now.now, now.ran) = (Ns(60 * MS), Ns(50 * MS + ran));
            now.is_runnable = is_runnable;
            one.step(&terms, &now, &far);
            assert_eq!(one.credit(), Ns(earned));
        }
    }

    #[test]
    fn what_was_in_time_has_lost_nothing() {
        let terms = Terms::USUAL;
        for (end, credit) in [(120, 0), (160, 8 * MS)] {
            let mut one = known();
            let mut now = seen(50 * MS, 50 * MS);
            now.ended = 10;
            now.slice = terms.early;
            let far = open(&[150 * MS]);
            one.step(&terms, &now, &far);
            now.now = Ns(51 * MS);
            one.step(&terms, &now, &far);
            (now.now, now.ran) = (Ns(60 * MS), Ns(51 * MS));
            one.step(&terms, &now, &far);
            now.slice = now.table;
            now.now = Ns(end * MS);
            one.step(&terms, &now, &open(&[500 * MS]));
            assert_eq!(one.credit(), Ns(credit));
        }
    }
}
