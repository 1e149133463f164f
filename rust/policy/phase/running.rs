// SPDX-License-Identifier: GPL-2.0 OR MIT
//! The time of many tasks in each phase, told without a look at any of them.
//!
//! Each task that is in a phase adds to its time as the clock does. So the time in a phase is a
//! number, and the clock as many times as there are tasks in it: both change only when a task
//! begins, changes its phase, or ends. Tasks that have ended stay in the number.

use super::{
    super::units::Ns,
    account::Times,
    Phase,
    COUNT, //
};

/// The tasks in one phase.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Part {
    tasks: u32,
    /// The time in the phase, without the clock of `tasks`; modulo 2^64, as the clock is.
    rest: u64,
}

impl Part {
    fn come(&mut self, tasks: u32, at: Ns) {
        self.tasks = self.tasks.wrapping_add(tasks);
        self.rest = self.rest.wrapping_sub(at.0.wrapping_mul(tasks.into()));
    }

    fn go(&mut self, tasks: u32, at: Ns) {
        self.tasks = self.tasks.wrapping_sub(tasks);
        self.rest = self.rest.wrapping_add(at.0.wrapping_mul(tasks.into()));
    }

    fn at(&self, now: Ns) -> Ns {
        let clock = now.0.wrapping_mul(self.tasks.into());
        Ns(self.rest.wrapping_add(clock))
    }
}

/// The time of tasks, as of one process or cgroup, in each phase. The moments that it is told never
/// go back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Running([Part; COUNT]);

impl Running {
    /// No tasks, and no time.
    pub(crate) const NONE: Self = Self([Part { tasks: 0, rest: 0 }; COUNT]);

    /// A task has changed from one phase to another; `None`: its time does not count before, or
    /// after.
    pub(crate) fn change(&mut self, from: Option<Phase>, to: Option<Phase>, at: Ns) {
        let of = |phase: Phase| phase.number();
        if let Some(part) = from.and_then(|phase| self.0.get_mut(of(phase))) {
            part.go(1, at);
        }
        if let Some(part) = to.and_then(|phase| self.0.get_mut(of(phase))) {
            part.come(1, at);
        }
    }

    /// The tasks of `other`, a process, count here, too, from `at` on.
    pub(crate) fn join(&mut self, other: &Self, at: Ns) {
        for (part, other) in self.0.iter_mut().zip(&other.0) {
            part.come(other.tasks, at);
        }
    }

    /// Balances [`Self::join`]: from `at` on they do not.
    pub(crate) fn leave(&mut self, other: &Self, at: Ns) {
        for (part, other) in self.0.iter_mut().zip(&other.0) {
            part.go(other.tasks, at);
        }
    }

    /// The times up to `now`.
    pub(crate) fn at(&self, now: Ns) -> Times {
        Times::of_phases(self.0.map(|part| part.at(now)))
    }
}

#[cfg(any(test, zernel_kunit))]
#[cfg_attr(not(test), kernel::macros::kunit_tests(zernel_policy_phase_running))]
mod tests {
    use super::{
        super::account::Account,
        *, //
    };

    const LOADS: Option<Phase> = Some(Phase::DataLoading);
    const COMPUTES: Option<Phase> = Some(Phase::GpuCompute);
    const UNKNOWN: Option<Phase> = Some(Phase::Unknown);

    #[test]
    fn the_sum_is_that_of_the_tasks() {
        // So many tasks that each change at their own times, as their accounts have it.
        let mut accounts = [(Account::new(Ns(0)), Phase::Unknown); 7];
        let mut running = Running::NONE;
        let mut now = 1_000_000_007;
        for (account, phase) in &mut accounts {
            now += 13;
            *account = Account::new(Ns(now));
            running.change(None, Some(*phase), Ns(now));
        }
        for step in 0..100usize {
            now += 17 + step as u64 % 3;
            let at = step % accounts.len();
            let to = Phase::ALL
                .get(step * 3 % COUNT)
                .copied()
                .unwrap_or_default();
            if let Some((account, phase)) = accounts.get_mut(at) {
                account.leave(*phase, Ns(now));
                running.change(Some(*phase), Some(to), Ns(now));
                *phase = to;
            }
            now += 5;
            let mut sum = Times::ZERO;
            for (account, phase) in &accounts {
                sum.add(&account.at(*phase, Ns(now)));
            }
            assert_eq!(running.at(Ns(now)), sum);
        }
    }

    #[test]
    fn tasks_that_have_ended_keep_their_time() {
        let mut running = Running::NONE;
        running.change(None, UNKNOWN, Ns(100));
        running.change(UNKNOWN, LOADS, Ns(130));
        running.change(LOADS, None, Ns(137));
        let times = running.at(Ns(9_999));
        assert_eq!(times.of(Phase::Unknown), Ns(30));
        assert_eq!(times.of(Phase::DataLoading), Ns(7));
        assert_eq!(times.sum(), Ns(37));
        // Neither comes nor goes: nothing changes.
        let before = running;
        running.change(None, None, Ns(10_000));
        assert_eq!(running, before);
    }

    #[test]
    fn a_cgroup_counts_a_process_while_it_is_in() {
        let (mut process, mut cgroup) = (Running::NONE, Running::NONE);
        process.change(None, COMPUTES, Ns(10));
        process.change(None, COMPUTES, Ns(20));
        cgroup.join(&process, Ns(100));
        assert_eq!(cgroup.at(Ns(100)).sum(), Ns(0));
        assert_eq!(cgroup.at(Ns(101)).of(Phase::GpuCompute), Ns(2));
        for sums in [&mut process, &mut cgroup] {
            sums.change(COMPUTES, LOADS, Ns(110));
        }
        assert_eq!(cgroup.at(Ns(115)).of(Phase::GpuCompute), Ns(25));
        assert_eq!(cgroup.at(Ns(115)).of(Phase::DataLoading), Ns(5));
        cgroup.leave(&process, Ns(120));
        process.change(LOADS, None, Ns(130));
        let times = cgroup.at(Ns(500));
        assert_eq!(times.of(Phase::GpuCompute), Ns(30));
        assert_eq!(times.of(Phase::DataLoading), Ns(10));
        assert_eq!(process.at(Ns(130)).of(Phase::DataLoading), Ns(20));
    }

    #[test]
    fn a_clock_near_its_end_is_no_matter() {
        let mut running = Running::NONE;
        for _ in 0..1000 {
            running.change(None, LOADS, Ns(u64::MAX - 1_000_000));
        }
        let times = running.at(Ns(u64::MAX));
        assert_eq!(times.of(Phase::DataLoading), Ns(1_000_000_000));
    }
}
