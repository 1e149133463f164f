// SPDX-License-Identifier: GPL-2.0 OR MIT
//! The phase of a task of a machine-learning program, told from the kernel's view of it.
//!
//! * [`Sample`] has the observations since the last one; [`Phase::of`] tells the phase of one
//!   sample.
//! * [`Detector`] takes one sample after the other: a phase holds until enough samples in a row
//!   tell of another one, and the time in each is counted to the nanosecond.

pub(crate) mod account;
pub(crate) mod activity;
pub(crate) mod detector;
pub(crate) mod libraries;
pub(crate) mod meter;
pub(crate) mod running;
pub(crate) mod task;
pub(crate) mod waits;
pub(crate) mod window;

use super::{
    refused::Refused,
    units::{
        Ns,
        Permille, //
    },
};

/// The phase of a task.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Phase {
    /// None of the others, or not a machine-learning task.
    #[default]
    Unknown,
    /// It waits for data that it reads, while the GPU has little to do.
    DataLoading,
    /// The GPU computes, and the task waits for it.
    GpuCompute,
    /// Ranks exchange data.
    Collective,
    /// Short work on the CPU between two batches.
    OptimizerStep,
}

/// The number of phases.
pub(crate) const COUNT: usize = 5;

impl Phase {
    /// All of them, by number.
    pub(crate) const ALL: [Self; COUNT] = [
        Self::Unknown,
        Self::DataLoading,
        Self::GpuCompute,
        Self::Collective,
        Self::OptimizerStep,
    ];

    /// Its number, 0 to 4.
    pub(crate) const fn number(self) -> usize {
        self as usize
    }

    /// The phase that one sample tells of, the first in this order:
    ///
    /// 1. Collective: detection is on, a library of collectives is active, and the task has waited for a futex;
    /// 2. DataLoading: it waited for I/O for more than the threshold, and the GPU was idle;
    /// 3. GpuCompute: the GPU was active, and the task is not in a burst on a CPU;
    /// 4. OptimizerStep: it is in a short burst, and has synchronised with the GPU;
    /// 5. DataLoading beside computation: it waited for I/O for more than half of the threshold,
    ///    and the GPU was neither idle nor active;
    /// 6. Unknown.
    pub(crate) fn of(sample: &Sample, t: &Thresholds) -> Self {
        // Twice, for the half may not be a whole number.
        let twice_io_wait = sample.io_wait.0.saturating_mul(2);
        let in_burst = sample.burst > Ns::ZERO;
        if !sample.is_ml {
            Self::Unknown
        } else if t.collectives && sample.collective && sample.futex_wait > Ns::ZERO {
            Self::Collective
        } else if sample.io_wait > t.io_wait && sample.gpu < t.gpu_idle {
            Self::DataLoading
        } else if sample.gpu > t.gpu_active && !in_burst {
            Self::GpuCompute
        } else if in_burst && sample.burst < t.optimizer_burst && sample.synced {
            Self::OptimizerStep
        } else if twice_io_wait > t.io_wait.0
            && sample.gpu > t.gpu_idle
            && sample.gpu < t.gpu_active
        {
            Self::DataLoading
        } else {
            Self::Unknown
        }
    }
}

/// The observations of a task since the sample before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sample {
    /// True if it belongs to a machine-learning program.
    pub(crate) is_ml: bool,
    /// Share of the time for which it waited for I/O.
    pub(crate) io_wait: Permille,
    /// Share of the time for which the GPU was busy for its process, or the task waited for it.
    pub(crate) gpu: Permille,
    /// CPU time since it last slept or waited for the GPU; nothing if it does that now.
    pub(crate) burst: Ns,
    /// True if it has synchronised with the GPU.
    pub(crate) synced: bool,
    /// True if a library of collectives is active in its process.
    pub(crate) collective: bool,
    /// For how long it waited for futexes.
    pub(crate) futex_wait: Ns,
}

/// The bounds by which phases are told apart.
///
/// # Invariants
///
/// No share is above 1000, `gpu_idle < gpu_active`, `optimizer_burst` and `stability` lie within
/// [`Self::BURST_RANGE`] and [`Self::STABILITY_RANGE`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Thresholds {
    collectives: bool,
    io_wait: Permille,
    gpu_idle: Permille,
    gpu_active: Permille,
    optimizer_burst: Ns,
    stability: u32,
}

impl Thresholds {
    /// Bounds of the longest optimizer burst: 1 µs to 1 s.
    pub(crate) const BURST_RANGE: (Ns, Ns) = (Ns(1_000), Ns(1_000_000_000));
    /// Bounds of the number of equal samples.
    pub(crate) const STABILITY_RANGE: (u32, u32) = (1, 1_000);

    /// The values before anybody tunes.
    pub(crate) const fn new() -> Self {
        // INVARIANT: 100 < 800 <= 1000, 5 ms and 3 are within their ranges.
        Self {
            collectives: false,
            io_wait: Permille(300),
            gpu_idle: Permille(100),
            gpu_active: Permille(800),
            optimizer_burst: Ns(5_000_000),
            stability: 3,
        }
    }

    /// The number of samples in a row that must show another phase.
    pub(crate) fn stability(&self) -> u32 {
        self.stability
    }

    /// True if collectives are told.
    pub(crate) fn collectives(&self) -> bool {
        self.collectives
    }

    /// The share of waiting for I/O above which a task loads data.
    pub(crate) fn io_wait(&self) -> Permille {
        self.io_wait
    }

    /// True if it is more than this.
    pub(crate) fn has_much(&self, io_wait: Permille) -> bool {
        io_wait > self.io_wait
    }

    /// The share below which the GPU is idle.
    pub(crate) fn gpu_idle(&self) -> Permille {
        self.gpu_idle
    }

    /// The share above which the GPU is active.
    pub(crate) fn gpu_active(&self) -> Permille {
        self.gpu_active
    }

    /// The longest burst of an optimizer.
    pub(crate) fn optimizer_burst(&self) -> Ns {
        self.optimizer_burst
    }

    /// Changes [`Self::collectives`].
    pub(crate) fn set_collectives(&mut self, on: bool) {
        self.collectives = on;
    }

    /// Changes the share of waiting for I/O above which a task loads data.
    ///
    /// # Errors
    ///
    /// Above 1000.
    pub(crate) fn set_io_wait(&mut self, share: Permille) -> Result<(), Refused> {
        // INVARIANT: Checked.
        self.io_wait = whole_or_less(share)?;
        Ok(())
    }

    /// Changes the share below which the GPU is idle.
    ///
    /// # Errors
    ///
    /// Not below that from which on it is active.
    pub(crate) fn set_gpu_idle(&mut self, share: Permille) -> Result<(), Refused> {
        if share >= self.gpu_active {
            return Err(Refused::OutOfRange);
        }
        // INVARIANT: Just checked.
        self.gpu_idle = share;
        Ok(())
    }

    /// Changes the share above which the GPU is active.
    ///
    /// # Errors
    ///
    /// Above 1000, or not above that below which it is idle.
    pub(crate) fn set_gpu_active(&mut self, share: Permille) -> Result<(), Refused> {
        let share = whole_or_less(share)?;
        if share <= self.gpu_idle {
            return Err(Refused::OutOfRange);
        }
        // INVARIANT: Just checked.
        self.gpu_active = share;
        Ok(())
    }

    /// Changes how long a burst of an optimizer is at most.
    ///
    /// # Errors
    ///
    /// Outside of [`Self::BURST_RANGE`].
    pub(crate) fn set_optimizer_burst(&mut self, most: Ns) -> Result<(), Refused> {
        if most < Self::BURST_RANGE.0 || most > Self::BURST_RANGE.1 {
            return Err(Refused::OutOfRange);
        }
        // INVARIANT: Just checked.
        self.optimizer_burst = most;
        Ok(())
    }

    /// Changes [`Self::stability`].
    ///
    /// # Errors
    ///
    /// Outside of [`Self::STABILITY_RANGE`].
    pub(crate) fn set_stability(&mut self, count: u32) -> Result<(), Refused> {
        if count < Self::STABILITY_RANGE.0 || count > Self::STABILITY_RANGE.1 {
            return Err(Refused::OutOfRange);
        }
        // INVARIANT: Just checked.
        self.stability = count;
        Ok(())
    }
}

fn whole_or_less(share: Permille) -> Result<Permille, Refused> {
    match share.0 {
        0..=1000 => Ok(share),
        _ => Err(Refused::OutOfRange),
    }
}

#[cfg(any(test, zernel_kunit))]
#[cfg_attr(not(test), kernel::macros::kunit_tests(zernel_policy_phase))]
mod tests {
    use super::*;

    const NOTHING: Sample = Sample {
        is_ml: true,
        io_wait: Permille(0),
        gpu: Permille(0),
        burst: Ns(0),
        synced: false,
        collective: false,
        futex_wait: Ns(0),
    };

    fn sees(sample: Sample) -> Phase {
        Phase::of(&sample, &Thresholds::new())
    }

    fn shares(io_wait: u32, gpu: u32) -> Sample {
        Sample {
            io_wait: Permille(io_wait),
            gpu: Permille(gpu),
            ..NOTHING
        }
    }

    #[test]
    fn phases_are_at_their_numbers() {
        for (at, phase) in Phase::ALL.into_iter().enumerate() {
            assert_eq!(phase.number(), at);
        }
    }

    #[test]
    fn loading_is_waiting_for_io_beside_an_idle_gpu() {
        assert_eq!(sees(shares(301, 99)), Phase::DataLoading);
        assert_eq!(sees(shares(300, 99)), Phase::Unknown);
        assert_eq!(sees(shares(301, 100)), Phase::Unknown);
        assert_eq!(sees(shares(1000, 0)), Phase::DataLoading);
    }

    #[test]
    fn loading_beside_computation_takes_half_of_that() {
        assert_eq!(sees(shares(151, 101)), Phase::DataLoading);
        assert_eq!(sees(shares(151, 799)), Phase::DataLoading);
        assert_eq!(sees(shares(150, 101)), Phase::Unknown);
        assert_eq!(sees(shares(151, 800)), Phase::Unknown);
        assert_eq!(sees(shares(151, 100)), Phase::Unknown);
        let mut odd = Thresholds::new();
        assert_eq!(odd.set_io_wait(Permille(301)), Ok(()));
        assert_eq!(Phase::of(&shares(150, 500), &odd), Phase::Unknown);
        assert_eq!(Phase::of(&shares(151, 500), &odd), Phase::DataLoading);
    }

    #[test]
    fn computing_is_an_active_gpu_and_no_burst() {
        assert_eq!(sees(shares(0, 801)), Phase::GpuCompute);
        assert_eq!(sees(shares(1000, 801)), Phase::GpuCompute);
        assert_eq!(sees(shares(0, 800)), Phase::Unknown);
        let in_burst = Sample {
            burst: Ns(1),
            ..shares(0, 801)
        };
        assert_eq!(sees(in_burst), Phase::Unknown);
    }

    #[test]
    fn an_optimizer_steps_in_short_bursts_after_the_gpu() {
        let burst = |ns, synced| Sample {
            burst: Ns(ns),
            synced,
            ..shares(0, 900)
        };
        assert_eq!(sees(burst(1, true)), Phase::OptimizerStep);
        assert_eq!(sees(burst(4_999_999, true)), Phase::OptimizerStep);
        assert_eq!(sees(burst(5_000_000, true)), Phase::Unknown);
        assert_eq!(sees(burst(1, false)), Phase::Unknown);
        // Not in a burst it computes.
        assert_eq!(sees(burst(0, true)), Phase::GpuCompute);
    }

    #[test]
    fn collectives_are_told_first_where_that_is_on() {
        let waits = Sample {
            collective: true,
            futex_wait: Ns(1),
            ..shares(900, 0)
        };
        assert_eq!(sees(waits), Phase::DataLoading);
        let mut on = Thresholds::new();
        on.set_collectives(true);
        assert_eq!(Phase::of(&waits, &on), Phase::Collective);
        for other in [
            Sample {
                futex_wait: Ns(0),
                ..waits
            },
            Sample {
                collective: false,
                ..waits
            },
        ] {
            assert_eq!(Phase::of(&other, &on), Phase::DataLoading);
        }
    }

    #[test]
    fn nobody_else_has_a_phase() {
        let mut on = Thresholds::new();
        on.set_collectives(true);
        for sample in [
            shares(1000, 0),
            shares(0, 1000),
            Sample {
                collective: true,
                futex_wait: Ns(9),
                ..NOTHING
            },
        ] {
            let other = Sample {
                is_ml: false,
                ..sample
            };
            assert!(Phase::of(&sample, &on) != Phase::Unknown);
            assert_eq!(Phase::of(&other, &on), Phase::Unknown);
        }
    }

    #[test]
    fn what_makes_no_sense_is_refused_and_changes_nothing() {
        let mut t = Thresholds::new();
        let refused = Err(Refused::OutOfRange);
        assert_eq!(t.set_io_wait(Permille(1001)), refused);
        assert_eq!(t.set_gpu_idle(Permille(800)), refused);
        assert_eq!(t.set_gpu_active(Permille(100)), refused);
        assert_eq!(t.set_gpu_active(Permille(1001)), refused);
        assert_eq!(t.set_optimizer_burst(Ns(999)), refused);
        assert_eq!(t.set_optimizer_burst(Ns(1_000_000_001)), refused);
        assert_eq!(t.set_stability(0), refused);
        assert_eq!(t.set_stability(1_001), refused);
        assert_eq!(t, Thresholds::new());
        assert_eq!(t.set_gpu_idle(Permille(799)), Ok(()));
        assert_eq!(t.set_gpu_active(Permille(1000)), Ok(()));
        assert_eq!(t.set_optimizer_burst(Ns(1_000)), Ok(()));
        assert_eq!(t.optimizer_burst(), Ns(1_000));
        assert_eq!(t.set_stability(1), Ok(()));
        assert_eq!(t.stability(), 1);
    }
}
