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
//! A deadline is the word of its owner, who may tell any. So nobody gets time for it that it did not
//! give: a slice shorter than that of the table earns credit, a longer one spends it,
//!
//! ```text
//! earned = min(ran * (table - slice) / slice so far, time for which it had work and did not run)
//! spent  = ran * (slice - table) / slice
//! ```
//!
//! and the credit has a bound. The slice here is the longest that the turn may have begun with: one that
//! is taken back counts until the TSG has run for it once more, or was off the GPU for a quantum. A longer
//! slice is granted only to a TSG that was off the GPU, out of its credit, and held until that is spent. A
//! turn that begins just before makes debt of it: what was granted in one go, and a quantum, at most. So
//! over any n turns a TSG runs for no longer than n times the slice of the table, the bound of the credit,
//! and that debt, whichever deadlines it tells; and it gives others no more than the bound before it has
//! its usual slice again.

mod open;
mod terms;

pub(crate) use self::{
    open::Open,
    terms::Terms, //
};
use crate::policy::units::{
    Ns,
    Permille,
    Us, //
};

/// Longest time that is told apart: 10 s, the longest slice.
const LONGEST: u64 = 10_000_000_000;

/// A TSG as it is seen.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen {
    /// The time.
    pub(crate) now: Ns,
    /// The GPU time that it had so far.
    pub(crate) ran: Ns,
    /// The requests of it that ended so far.
    pub(crate) ended: u64,
    /// It has something to run.
    pub(crate) is_runnable: bool,
    /// The slice that it has without this policy.
    pub(crate) table: Us,
    /// The slice that the GPU has for it.
    pub(crate) slice: Us,
    /// A longer slice than that of the table is possible: its level is no one's to take.
    pub(crate) may_lengthen: bool,
}

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
/// `expected`, `credit` and `forgone` are [`LONGEST`] at most, `debt` twice that. One of `credit` and `debt`
/// is nothing.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Claimant {
    /// It at the last look.
    last: Option<Mark>,
    /// It when requests ended last.
    ended: Option<Mark>,
    /// The GPU time of a request.
    expected: Option<Ns>,
    /// The first deadline, and the GPU time of the TSG when it became that.
    front: Option<(Ns, Ns)>,
    credit: Ns,
    /// What it spent beyond its credit.
    debt: Ns,
    /// The longest slice that its turn may have begun with.
    loaded: Us,
    /// The GPU time for which it may have it.
    tail: Ns,
    /// It was off the GPU from the look before to the last.
    was_off: bool,
    /// The rest of longer slices that it did not have, and has not earned: others may not have had it.
    forgone: Ns,
}

#[derive(Clone, Copy, Debug)]
struct Mark {
    now: Ns,
    ran: Ns,
    ended: u64,
    is_runnable: bool,
}

impl Claimant {
    /// Nothing is known of it.
    pub(crate) const NEW: Self = Self {
        last: None,
        ended: None,
        expected: None,
        front: None,
        credit: Ns::ZERO,
        debt: Ns::ZERO,
        loaded: Us(0),
        tail: Ns::ZERO,
        was_off: true,
        forgone: Ns::ZERO,
    };

    /// The credit.
    #[allow(dead_code, reason = "the tests ask")]
    pub(crate) fn credit(&self) -> Ns {
        self.credit
    }

    /// The debt.
    #[allow(dead_code, reason = "the tests ask")]
    pub(crate) fn debt(&self) -> Ns {
        self.debt
    }

    /// The GPU time of a request, if any was seen.
    #[allow(dead_code, reason = "the tests ask")]
    pub(crate) fn expected(&self) -> Option<Ns> {
        self.expected
    }

    /// Decides, once in a quantum. Returns the slice in place of that of the table; `None`: that.
    pub(crate) fn step(&mut self, terms: &Terms, seen: &Seen, open: &Open) -> Option<Us> {
        self.learn(seen);
        self.account(terms, seen);
        self.follow(seen, open);
        let urgency = self.urgency(terms, seen, open)?;
        let wanted = match urgency {
            Urgency::Late => terms.late,
            Urgency::Soon => terms.soon,
            Urgency::Early => terms.early,
        };
        let slice = if wanted > seen.table {
            self.longer(terms, seen, wanted)
        } else if self.credit >= Ns::from(terms.credit) {
            // It has given others what it can have back.
            seen.table
        } else {
            wanted
        };
        (slice != seen.table).then_some(slice)
    }

    /// A slice above that of the table, as far as the credit goes; what is granted is held until then.
    fn longer(&self, terms: &Terms, seen: &Seen, wanted: Us) -> Us {
        let credit = match seen.may_lengthen {
            true => us(self.credit),
            false => 0,
        };
        let with = |credit: u32| wanted.min(Us(seen.table.0.saturating_add(credit)));
        if self.was_off {
            with(credit)
        } else if credit > 0 && seen.slice > seen.table {
            with(terms.credit.0).min(seen.slice)
        } else {
            seen.table
        }
    }

    /// The GPU time of a request: the mean of the last eight or so.
    fn learn(&mut self, seen: &Seen) {
        let mark = Mark::of(seen);
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

    /// Charges, or pays, for the slice since the last look.
    fn account(&mut self, terms: &Terms, seen: &Seen) {
        let now = Mark::of(seen);
        let Some(last) = self.last.replace(now) else {
            return;
        };
        let passed = seen.now.saturating_sub(last.now).0.min(LONGEST);
        let ran = seen.ran.saturating_sub(last.ran).0.min(passed);
        let waited = match last.is_runnable && seen.is_runnable {
            true => passed - ran,
            // It has nothing to run, and gives nothing.
            false => 0,
        };
        self.was_off = ran == 0;
        if seen.slice >= self.loaded {
            (self.loaded, self.tail) = (seen.slice, Ns::from(seen.slice));
            self.settle(seen.table, seen.slice, ran);
        } else {
            let old = ran.min(self.tail.0);
            self.tail = Ns(self.tail.0 - old);
            self.settle(seen.table, self.loaded, old);
            self.settle(seen.table, seen.slice, ran - old);
        }
        if self.was_off || self.tail == Ns::ZERO {
            (self.loaded, self.tail) = (seen.slice, Ns::from(seen.slice));
        }
        self.earn(terms, last.is_runnable && seen.is_runnable, waited);
    }

    /// Spends, or forgoes, what is due for `ran` of a turn of `slice`.
    fn settle(&mut self, table: Us, slice: Us, ran: u64) {
        let (table, slice) = (u64::from(table.0), u64::from(slice.0));
        // Below 2^34 times 2^32, as is each sum of two.
        let share = |of: u64| ran.saturating_mul(of).checked_div(slice).unwrap_or(0);
        if slice > table {
            let due = share(slice - table);
            let more = due.saturating_sub(self.credit.0);
            // INVARIANT: There is debt only where no credit is left, and no more than that.
            self.credit = Ns(self.credit.0.saturating_sub(due));
            self.debt = Ns(self.debt.0.saturating_add(more).min(2 * LONGEST));
            self.forgone = Ns::ZERO;
        } else {
            // What a turn forgoes can be had only in the wait that follows it.
            let due = share(table - slice);
            let most = due.saturating_add((table - slice) * 1_000).min(LONGEST);
            // INVARIANT: No longer than that.
            self.forgone = Ns(self.forgone.0.saturating_add(due).min(most));
        }
    }

    /// Pays for what was forgone as others ran.
    fn earn(&mut self, terms: &Terms, has_work: bool, waited: u64) {
        let earned = self.forgone.0.min(waited);
        self.forgone = match has_work {
            true => Ns(self.forgone.0 - earned),
            false => Ns::ZERO,
        };
        let rest = earned.saturating_sub(self.debt.0);
        // INVARIANT: Debt goes first. The bound is a tunable of 10 s at most.
        self.debt = Ns(self.debt.0.saturating_sub(earned));
        let credit = self.credit.0.saturating_add(rest);
        self.credit = Ns(credit.min(Ns::from(terms.credit).0).min(LONGEST));
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
            self.credit = Ns::ZERO;
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

impl Mark {
    fn of(seen: &Seen) -> Self {
        Self {
            now: seen.now,
            ran: seen.ran,
            ended: seen.ended,
            is_runnable: seen.is_runnable,
        }
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
