// SPDX-License-Identifier: GPL-2.0
//! The GPU time of a TSG: by looks at registers at once, and by records of context switches once these
//! have come.
//!
//! Looks know the time to the interval between two of them, and records know it exactly, some tens
//! of milliseconds later. Records tell for how long a context was on the engine, which has perhaps
//! nothing to do; so where the engine was seen idle, the shorter one of both counts.

use super::{
    switches::Residence,
    units::Ns, //
};

/// The GPU time of a TSG.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Account {
    /// Records name all its channels.
    is_traced: bool,
    /// Records have named it, so that its silence means that it does not run.
    is_seen: bool,
    residence: Residence,
    /// By records, in all.
    resident: Ns,
    /// Its time until the last interval of records ended.
    settled: Ns,
    /// The time by looks at that moment.
    looks: Ns,
    /// The time that was told last.
    told: Ns,
}

impl Account {
    /// Records name all its channels, or not.
    pub(crate) fn set_traced(&mut self, traced: bool) {
        self.is_traced = traced;
    }

    /// It has had the engine for so long, by records.
    pub(crate) fn has_run(&mut self, ran: Ns) {
        self.is_seen = true;
        self.residence.end(ran);
    }

    /// An interval of records has ended. `looks`: the time by looks in all; `running`: of a run that
    /// goes on; `is_whole`: all records were read; `idle`: the engine was seen idle.
    pub(crate) fn settle(&mut self, looks: Ns, running: Ns, is_whole: bool, idle: bool) {
        let seen = looks.saturating_sub(self.looks);
        let resident = self.residence.take(running);
        if !is_whole {
            self.residence.lose();
        }
        self.resident = self.resident.saturating_add(resident);
        let counted = match (is_whole && self.is_traced && self.is_seen, idle) {
            (false, _) => seen,
            (true, false) => resident,
            (true, true) => resident.min(seen),
        };
        // One that was not named in a ring with gaps may be named in the next one.
        self.is_seen &= is_whole;
        self.told = self.time(looks);
        self.settled = self.settled.saturating_add(counted);
        self.looks = looks;
    }

    /// Its time by records alone.
    pub(crate) fn resident(&self) -> Ns {
        self.resident
    }

    /// True if records tell its time.
    pub(crate) fn is_known(&self) -> bool {
        self.is_traced && self.is_seen
    }

    /// The time in all, which never decreases; `looks`: by looks in all.
    pub(crate) fn time(&self, looks: Ns) -> Ns {
        let since = looks.saturating_sub(self.looks);
        self.told.max(self.settled.saturating_add(since))
    }
}

#[cfg(any(test, zernel_kunit))]
#[cfg_attr(not(test), kernel::macros::kunit_tests(zernel_nvidia_accounts))]
mod tests {
    use super::*;

    /// One that records have named.
    fn traced() -> Account {
        let mut account = Account::default();
        account.set_traced(true);
        account.has_run(Ns::ZERO);
        account
    }

    #[test]
    fn looks_count_until_records_come() {
        let mut account = traced();
        assert_eq!(account.time(Ns(500)), Ns(500));
        account.has_run(Ns(700));
        account.settle(Ns(600), Ns::ZERO, true, false);
        assert_eq!(account.time(Ns(600)), Ns(700));
        assert_eq!(account.time(Ns(650)), Ns(750));
        account.settle(Ns(650), Ns(20), true, false);
        assert_eq!(account.time(Ns(650)), Ns(750));
        account.settle(Ns(650), Ns(100), true, false);
        assert_eq!(account.time(Ns(650)), Ns(800));
    }

    #[test]
    fn time_never_decreases() {
        let mut account = traced();
        assert_eq!(account.time(Ns(900)), Ns(900));
        account.has_run(Ns(100));
        account.settle(Ns(900), Ns::ZERO, true, false);
        assert_eq!(account.time(Ns(900)), Ns(900));
        assert_eq!(account.time(Ns(1_500)), Ns(900));
        assert_eq!(account.time(Ns(1_800)), Ns(1_000));
    }

    #[test]
    fn an_idle_engine_is_nobodys_work() {
        let mut account = traced();
        account.has_run(Ns(1_000));
        account.settle(Ns(300), Ns::ZERO, true, true);
        assert_eq!(account.time(Ns(300)), Ns(300));
        account.has_run(Ns(200));
        account.settle(Ns(600), Ns::ZERO, true, true);
        assert_eq!(account.time(Ns(600)), Ns(600));
        account.settle(Ns(700), Ns::ZERO, true, false);
        account.settle(Ns(700), Ns(400), true, false);
        assert_eq!(account.time(Ns(700)), Ns(900));
    }

    #[test]
    fn without_all_records_looks_count() {
        let mut account = traced();
        account.has_run(Ns(10));
        account.settle(Ns(500), Ns::ZERO, false, false);
        assert_eq!(account.time(Ns(500)), Ns(500));
        // Until records name it again.
        account.settle(Ns(900), Ns::ZERO, true, false);
        assert_eq!(account.time(Ns(900)), Ns(900));
        account.has_run(Ns(50));
        account.settle(Ns(1_000), Ns::ZERO, true, false);
        account.settle(Ns(1_000), Ns::ZERO, true, false);
        account.has_run(Ns(200));
        account.settle(Ns(1_000), Ns::ZERO, true, false);
        assert_eq!(account.time(Ns(1_000)), Ns(1_150));
    }

    #[test]
    fn one_that_records_do_not_name_counts_by_looks() {
        let mut account = Account::default();
        account.set_traced(true);
        account.settle(Ns(400), Ns::ZERO, true, false);
        assert_eq!(account.time(Ns(400)), Ns(400));
        account.set_traced(false);
        account.has_run(Ns(900));
        account.settle(Ns(500), Ns::ZERO, true, false);
        assert_eq!(account.time(Ns(500)), Ns(500));
    }
}
