// SPDX-License-Identifier: GPL-2.0
//! The clock of a GPU beside that of the kernel.
//!
//! The GPU is asked for its time, and the kernel's is taken before and after: the offset is known to
//! half of the time that the question took. Two questions that lie far enough apart tell how fast
//! one clock drifts from the other, with an error as well.

use super::units::Ns;

/// The two clocks at a moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pair {
    /// The time of the GPU.
    pub(crate) gpu: Ns,
    /// `CLOCK_MONOTONIC`, in the middle of the question.
    pub(crate) cpu: Ns,
    /// Half of the time that the question took.
    pub(crate) error: Ns,
}

impl Pair {
    /// The lead of the GPU's clock.
    fn offset(&self) -> i128 {
        i128::from(self.gpu.0) - i128::from(self.cpu.0)
    }
}

/// The rate at which the GPU's clock goes away from the kernel's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Drift {
    /// In 10^-9; positive: it is fast.
    pub(crate) ppb: i64,
    /// The error of that.
    pub(crate) error_ppb: u64,
}

/// The clock of a GPU.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Clock {
    /// The first pair since the clock was set, and the last one.
    pairs: Option<(Pair, Pair)>,
    /// Times that the clock was set to another time.
    pub(crate) jumps: u64,
}

impl Clock {
    /// The largest drift of a clock that is not broken, in 10^-6. That of a quartz is a tenth.
    const DRIFT: u64 = 500;

    /// The GPU starts or resumes: its clock may be another one.
    pub(crate) fn forget(&mut self) {
        self.pairs = None;
    }

    /// Takes a pair. Returns whether the clock has jumped since the last one: times from before
    /// cannot be compared with those from now.
    pub(crate) fn take(&mut self, pair: Pair) -> bool {
        let Some((first, last)) = self.pairs else {
            self.pairs = Some((pair, pair));
            return false;
        };
        let passed = pair.cpu.saturating_sub(last.cpu);
        let error = pair.error.saturating_add(last.error);
        let most = error.saturating_add(Ns(passed.0.saturating_mul(Self::DRIFT) / 1_000_000 + 1));
        let jumped = (pair.offset() - last.offset()).unsigned_abs() > u128::from(most.0);
        let first = if jumped { pair } else { first };
        self.pairs = Some((first, pair));
        self.jumps = self.jumps.saturating_add(jumped.into());
        jumped
    }

    /// The lead of the GPU's clock in ns, and the error of that.
    pub(crate) fn offset(&self) -> Option<(i64, Ns)> {
        let (_, last) = self.pairs?;
        Some((i64::try_from(last.offset()).ok()?, last.error))
    }

    /// The drift, as far as the first pair and the last one tell it.
    pub(crate) fn drift(&self) -> Option<Drift> {
        const MILLION: i64 = 1_000_000;
        let (first, last) = self.pairs?;
        let passed_us = i64::try_from(last.cpu.saturating_sub(first.cpu).0 / 1_000).ok()?;
        let error = i64::try_from(last.error.saturating_add(first.error).0).ok()?;
        let gone = i64::try_from(last.offset() - first.offset()).ok()?;
        // In 64 bits: the kernel divides no more.
        let rate = |ns: i64| ns.checked_mul(MILLION)?.checked_div(passed_us);
        Some(Drift {
            ppb: rate(gone)?,
            error_ppb: rate(error)?.unsigned_abs(),
        })
    }

    /// `CLOCK_MONOTONIC` at a time of the GPU that is not long ago.
    pub(crate) fn cpu(&self, gpu: Ns) -> Option<Ns> {
        let (offset, _) = self.offset()?;
        u64::try_from(i128::from(gpu.0) - i128::from(offset))
            .ok()
            .map(Ns)
    }
}

#[cfg(any(test, zernel_kunit))]
#[cfg_attr(not(test), kernel::macros::kunit_tests(zernel_nvidia_clock))]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn pair(gpu: u64, cpu: u64) -> Pair {
        Pair {
            gpu: Ns(gpu),
            cpu: Ns(cpu),
            error: Ns(1_000),
        }
    }

    #[test]
    fn offset_and_drift_have_errors() {
        let mut clock = Clock::default();
        assert_eq!((clock.offset(), clock.drift()), (None, None));
        assert_eq!(clock.cpu(Ns(1)), None);
        assert!(!clock.take(pair(7_000, 5_000)));
        assert_eq!(clock.offset(), Some((2_000, Ns(1_000))));
        assert_eq!(clock.drift(), None);
        assert_eq!(clock.cpu(Ns(7_500)), Some(Ns(5_500)));
        assert_eq!(clock.cpu(Ns(1_500)), None);
        // 20 µs in a second.
        assert!(!clock.take(pair(27_000 + SECOND, 5_000 + SECOND)));
        let drift = Drift {
            ppb: 20_000,
            error_ppb: 2_000,
        };
        assert_eq!(clock.drift(), Some(drift));
        assert_eq!(clock.offset(), Some((22_000, Ns(1_000))));
        // The longer the time, the smaller the error.
        assert!(!clock.take(pair(207_000 + 10 * SECOND, 5_000 + 10 * SECOND)));
        let drift = Drift {
            ppb: 20_000,
            error_ppb: 200,
        };
        assert_eq!(clock.drift(), Some(drift));
    }

    #[test]
    fn a_clock_that_is_behind_has_a_negative_offset() {
        let mut clock = Clock::default();
        clock.take(pair(1_000, 9_000));
        assert_eq!(clock.offset(), Some((-8_000, Ns(1_000))));
        assert_eq!(clock.cpu(Ns(2_000)), Some(Ns(10_000)));
        clock.take(pair(SECOND - 99_000, 9_000 + SECOND));
        assert_eq!(clock.drift().map(|drift| drift.ppb), Some(-100_000));
    }

    #[test]
    fn a_jump_sets_the_clock_anew() {
        let mut clock = Clock::default();
        assert!(!clock.take(pair(5_000, 5_000)));
        // 500 µs and the errors may be drift, in a second.
        assert!(!clock.take(pair(SECOND + 506_900, SECOND + 5_000)));
        assert!(clock.take(pair(2 * SECOND + 1_010_000, 2 * SECOND + 5_000)));
        assert_eq!((clock.jumps, clock.drift()), (1, None));
        assert!(clock.take(pair(4_000, 3 * SECOND)));
        assert_eq!(clock.jumps, 2);
        clock.forget();
        assert_eq!(clock.offset(), None);
        assert!(!clock.take(pair(4_000, 4 * SECOND)));
        assert_eq!(clock.jumps, 2);
    }
}
