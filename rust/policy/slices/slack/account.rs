// SPDX-License-Identifier: GPL-2.0 OR MIT
//! The time that a TSG gave by shorter slices than that of the table, and had by longer ones.
//!
//! ```text
//! earned = min(ran * (table - slice) / slice so far, time for which it had work and did not run)
//! spent  = ran * (slice - table) / slice
//! ```
//!
//! The slice here is one that the turn under way cannot have exceeded. A slice that is taken back counts
//! until the TSG has run for it once more, or was off the GPU for a look: a turn that began with it just
//! before lasts no longer. The longest of those that came in that time counts likewise then.
//!
//! So for a turn of `r` in parts `r(i)`, with `slice(i) >= r` each,
//!
//! ```text
//! r - table <= r - table * sum(r(i) / slice(i)) = spent - forgone <= spent - earned
//! spent - earned, of all turns                  <= debt - credit
//! ```
//!
//! and a TSG runs for no longer than the slice of the table in each of its turns, and its debt. That has a
//! bound: a longer slice is granted out of the credit, and held until a look finds none of that. What is
//! due for that look is debt, and for a turn that began just before it no more than was granted. Without a
//! credit no slice is longer than the table's, and nothing comes to the debt until it is paid. So it is below
//! the bound of the credit, and a quantum.

use super::{
    seen::{
        Seen,
        LONGEST, //
    },
    terms::Terms, //
};
use crate::policy::units::{
    Ns,
    Us, //
};

/// The account of a TSG.
///
/// # Invariants
///
/// `credit` and `forgone` are [`LONGEST`] at most, `debt` twice that. One of `credit` and `debt` is nothing.
#[derive(Clone, Copy, Debug)]
pub(super) struct Account {
    /// It at the last look.
    last: Option<Mark>,
    credit: Ns,
    /// The time that it spent beyond its credit.
    debt: Ns,
    /// The longest slice that its turn may have begun with.
    loaded: Us,
    /// The GPU time for which it may have that.
    tail: Ns,
    /// The longest slice since that was taken back; 0: it was not.
    since: Us,
    /// It was off the GPU from the look before to the last.
    was_off: bool,
    /// The rest of longer slices that it did not have, and has not earned: others may not have had it.
    forgone: Ns,
}

#[derive(Clone, Copy, Debug)]
struct Mark {
    now: Ns,
    ran: Ns,
    is_runnable: bool,
}

impl Account {
    /// Nothing was given.
    pub(super) const NEW: Self = Self {
        last: None,
        credit: Ns::ZERO,
        debt: Ns::ZERO,
        loaded: Us(0),
        tail: Ns::ZERO,
        since: Us(0),
        was_off: true,
        forgone: Ns::ZERO,
    };

    /// The time that it may have back.
    pub(super) fn credit(&self) -> Ns {
        self.credit
    }

    /// The time that it had without any.
    pub(super) fn debt(&self) -> Ns {
        self.debt
    }

    /// True if it was off the GPU from the look before to the last.
    pub(super) fn was_off(&self) -> bool {
        self.was_off
    }

    /// It may have nothing back.
    pub(super) fn clear_credit(&mut self) {
        self.credit = Ns::ZERO;
    }

    /// Charges, or pays, for the slice since the last look.
    pub(super) fn look(&mut self, terms: &Terms, seen: &Seen) {
        let now = Mark {
            now: seen.now,
            ran: seen.ran,
            is_runnable: seen.is_runnable,
        };
        let Some(last) = self.last.replace(now) else {
            return;
        };
        let passed = seen.now.saturating_sub(last.now).0.min(LONGEST);
        let ran = seen.ran.saturating_sub(last.ran).0.min(passed);
        let has_work = last.is_runnable && seen.is_runnable;
        self.was_off = ran == 0;
        self.settle(seen, ran);
        let waited = match has_work {
            true => passed - ran,
            // It has nothing to run, and gives nothing.
            false => 0,
        };
        self.earn(terms, has_work, waited);
    }

    /// Settles for `ran`, by the longest slice that the turn may have.
    fn settle(&mut self, seen: &Seen, ran: u64) {
        if seen.slice >= self.loaded {
            self.load(seen.slice);
            self.charge(seen.table, seen.slice, ran);
            return;
        }
        self.since = self.since.max(seen.slice);
        let old = ran.min(self.tail.0);
        self.tail = Ns(self.tail.0 - old);
        self.charge(seen.table, self.loaded, old);
        self.charge(seen.table, self.since, ran - old);
        if self.was_off {
            self.load(seen.slice);
        } else if self.tail == Ns::ZERO {
            self.load(self.since);
        }
    }

    /// A turn that begins before now has this slice at most.
    fn load(&mut self, slice: Us) {
        (self.loaded, self.tail, self.since) = (slice, slice.into(), Us(0));
    }

    /// Spends, or forgoes, what is due for `ran` of a turn of `slice`.
    fn charge(&mut self, table: Us, slice: Us, ran: u64) {
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
            // The rest of a turn can be had only in the wait that follows it.
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
}

#[cfg(any(test, zernel_kunit))]
#[cfg_attr(
    not(test),
    kernel::macros::kunit_tests(zernel_policy_slices_slack_account)
)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// Looks at a TSG with work, whose table has 10 ms: a slice, the time, and what it ran for so far.
    fn look(account: &mut Account, slice_ms: u32, now_ms: u64, ran_ms: u64) {
        let seen = Seen {
            now: Ns(now_ms * MS),
            ran: Ns(ran_ms * MS),
            ended: 0,
            is_runnable: true,
            table: Us(10_000),
            slice: Us(slice_ms * 1_000),
            may_lengthen: true,
        };
        account.look(&Terms::USUAL, &seen);
    }

    /// One that has had a slice of 10 ms, was off the GPU, and has so much credit.
    fn with_credit(credit: u64) -> Account {
        let mut account = Account::NEW;
        look(&mut account, 10, 0, 0);
        look(&mut account, 10, 1, 0);
        account.credit = Ns(credit);
        account
    }

    #[test]
    fn a_turn_that_began_with_a_longer_slice_is_charged_for_it() {
        let mut account = with_credit(20 * MS);
        look(&mut account, 30, 31, 30);
        assert_eq!((account.credit(), account.debt()), (Ns::ZERO, Ns::ZERO));
        // One began just before the table's came.
        look(&mut account, 10, 61, 60);
        assert_eq!((account.credit(), account.debt()), (Ns::ZERO, Ns(20 * MS)));
        look(&mut account, 10, 91, 90);
        assert_eq!(account.debt(), Ns(20 * MS));
    }

    #[test]
    fn nothing_is_earned_for_a_slice_that_a_turn_may_not_have() {
        // Two were taken back, one after the other.
        let mut account = with_credit(20 * MS);
        look(&mut account, 30, 31, 30);
        look(&mut account, 10, 60, 59);
        let debt = account.debt();
        // A turn of 10 ms began; it waits for as long.
        look(&mut account, 1, 70, 69);
        look(&mut account, 1, 80, 69);
        assert!(account.debt() > debt);
        assert_eq!(account.credit(), Ns::ZERO);
        // It was off the GPU: the turn has the short slice.
        look(&mut account, 1, 81, 70);
        look(&mut account, 1, 90, 70);
        assert!(account.debt() <= Ns(11 * MS));
    }

    #[test]
    fn a_slice_that_a_turn_had_for_certain_earns() {
        let mut account = with_credit(0);
        // 10 ms at the table's, which nothing is due for; then 1 ms of a millisecond.
        look(&mut account, 1, 11, 10);
        look(&mut account, 1, 12, 11);
        look(&mut account, 1, 32, 11);
        assert_eq!(account.credit(), Ns(9 * MS));
    }
}
