// SPDX-License-Identifier: GPL-2.0
//! The share of a CPU that the interrupts of a GPU may take.
//!
//! All of them may come to one CPU, as with a user bound to it: the shares of all GPUs together are
//! half of one CPU.

/// Time over which a share counts, in ns.
const WINDOW: u64 = 10_000_000;
/// The cost of an interrupt beside its work, in ns: being taken, and arming the timer again.
const OVERHEAD: u64 = 1_000;
/// Most that one interrupt counts for, in ns: beyond that the machine itself stood still.
const LONGEST: u64 = 1_000_000;

/// The share of a CPU that the interrupts of one GPU may take.
pub(super) struct CpuShare {
    /// The share of a window, in ns.
    share: u64,
    /// When the window began.
    window: u64,
    /// Time that was taken and is not yet covered by shares of past windows.
    spent: u64,
}

impl CpuShare {
    /// The share of one of `gpus` GPUs.
    pub(super) fn new(gpus: u32) -> Self {
        Self {
            share: (WINDOW / 2)
                .checked_div(u64::from(gpus))
                .unwrap_or(0)
                .max(1),
            window: 0,
            spent: 0,
        }
    }

    /// An interrupt lasted from `start` to `end`. Returns when the next one may come, if not at any
    /// time: an excess over the share of this window is taken from the next ones.
    pub(super) fn charge(&mut self, start: u64, end: u64) -> Option<u64> {
        let passed = end.saturating_sub(self.window) / WINDOW;
        self.window = self.window.saturating_add(passed.saturating_mul(WINDOW));
        self.spent = self.spent.saturating_sub(passed.saturating_mul(self.share));
        let cost = end.saturating_sub(start).min(LONGEST);
        self.spent = self.spent.saturating_add(cost).saturating_add(OVERHEAD);
        let ahead = self.spent.saturating_sub(1).checked_div(self.share)?;
        (ahead > 0).then(|| self.window.saturating_add(ahead.saturating_mul(WINDOW)))
    }
}

#[cfg(zernel_kunit)]
#[kernel::macros::kunit_tests(zernel_sim_cpu_share)]
mod tests {
    use crate::cpu_share::*;

    /// Interrupts that take `length`, one upon the other for as long as they may, for `windows`
    /// windows. Returns the time that they took.
    fn greedy(gpus: u32, length: u64, windows: u64) -> u64 {
        let mut share = CpuShare::new(gpus);
        let (mut now, mut taken) = (0, 0);
        while now < windows * WINDOW {
            let end = now + length;
            taken += length + OVERHEAD;
            let next = share.charge(now, end).unwrap_or(0);
            now = next.max(end + OVERHEAD);
        }
        taken
    }

    #[test]
    fn all_gpus_together_take_half_of_a_cpu() {
        const WINDOWS: u64 = 200;
        for gpus in [1, 2, 3, 8, 64] {
            for length in [1, 500, 20_000, 150_000, 900_000] {
                let taken = greedy(gpus, length, WINDOWS) * u64::from(gpus);
                let most = WINDOWS * WINDOW / 2 + u64::from(gpus) * (length + OVERHEAD);
                assert!(taken <= most);
                // And no less than that, but for the remainder.
                assert!(taken >= WINDOWS * WINDOW / 2 / 100 * 95);
            }
        }
    }

    #[test]
    fn who_takes_little_never_waits() {
        let mut share = CpuShare::new(2);
        for round in 0..10_000 {
            let now = round * 20_000;
            assert_eq!(share.charge(now, now + 3_000), None);
        }
    }

    #[test]
    fn a_machine_that_stood_still_is_not_held_against_it() {
        let mut share = CpuShare::new(64);
        let end = 3_600_000_000_000;
        let next = share.charge(0, end).unwrap_or(0);
        assert!(next > end);
        assert!(next <= end + 20 * WINDOW);
    }
}
