// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Slices that follow latencies: a PID controller for each level with a target changes the slices of
//! the levels below it.
//!
//! Once in a control period, with the latency that a quantile of the level's requests had in it:
//!
//! ```text
//! error  = (target - measured) / target                 from -8 to 1
//! sum   += ki * error                                   within the bounds of the output
//! output = kp * error + sum - kd * (measured - measured before) / target
//! slice  = base * (1 + output)                          100 µs to 10 ms
//! ```
//!
//! The base is the slice of the table, but no longer than the target. So a change of the output by 1
//! changes the latency by a share `b` of the target, 1 at most, where a request waits for one slice.
//! The next measurement is that of this output, so that the loop has the characteristic polynomial
//!
//! ```text
//! z^2 (z - 1) + b (kp z (z - 1) + ki z^2 + kd (z - 1)^2)
//! ```
//!
//! By Jury's criterion it is stable where `2 kp + ki + 4 kd` is below 2, 1.3 with the usual gains.
//!
//! A late level shortens the slices below it, never its own, which would give its time away.

use super::Instead;
use crate::policy::{
    level::{
        self,
        Level, //
    },
    units::{
        Ns,
        Permille,
        Us, //
    }, //
};

/// One, in the numbers of the loop: millionths.
const ONE: i64 = 1_000_000;

/// The bounds of the error: a single stall says no more than so many targets.
const ERRORS: (i64, i64) = (-8 * ONE, ONE);

/// Longest latency that is told apart: 17 s, as in the histograms.
const LONGEST: u64 = 1 << 34;

/// A gain in thousandths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Gain(pub(crate) u32);

impl Gain {
    /// The highest: 10.
    pub(crate) const MOST: Self = Self(10_000);

    /// So many times `value`.
    fn times(self, value: i64) -> i64 {
        value.saturating_mul(self.0.into()).saturating_div(1_000)
    }
}

/// The gains of a controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Gains {
    /// Of the error.
    pub(crate) proportional: Gain,
    /// Of the sum of errors, for each control period.
    pub(crate) integral: Gain,
    /// Of the change of the measurement.
    pub(crate) derivative: Gain,
}

impl Gains {
    /// The usual ones: 0.5, 0.1 and 0.05.
    pub(crate) const USUAL: Self = Self {
        proportional: Gain(500),
        integral: Gain(100),
        derivative: Gain(50),
    };
}

/// The target of a level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    /// The latency of its requests, from begin to done; 1 µs at least.
    pub(crate) latency: Us,
    /// The share of them that is not to be slower.
    pub(crate) quantile: Permille,
}

/// The bounds of slices that follow: 100 µs, about a switch of an A100, to 10 ms, a long kernel.
pub(crate) const BOUNDS: (Us, Us) = (Us(100), Us(10_000));

/// The bounds of an output.
#[derive(Clone, Copy)]
struct Range {
    least: i64,
    most: i64,
}

impl Range {
    /// Within which a slice with this base lies within [`BOUNDS`].
    fn of(base: Us) -> Self {
        let output = |slice: Us| {
            let times = i64::from(slice.0).saturating_mul(ONE);
            times.saturating_div(i64::from(base.0.max(1))) - ONE
        };
        Self {
            least: output(BOUNDS.0),
            most: output(BOUNDS.1),
        }
    }

    fn with(self, other: Self) -> Self {
        Self {
            least: self.least.min(other.least),
            most: self.most.max(other.most),
        }
    }
}

/// The loop of one level.
///
/// # Invariants
///
/// `sum` and `output` lie within the last range.
#[derive(Clone, Copy, Debug, Default)]
struct Loop {
    sum: i64,
    output: i64,
    before: Option<Ns>,
}

impl Loop {
    /// One control period, in which requests took so long; without any, all stays.
    fn step(&mut self, gains: Gains, target: Target, measured: Option<Ns>, range: Range) {
        let clamp = |value: i64| value.max(range.least).min(range.most);
        // INVARIANT: The range may have changed.
        (self.sum, self.output) = (clamp(self.sum), clamp(self.output));
        let Some(measured) = measured else {
            return;
        };
        let (error, now) = deviation(target, measured);
        // Both relative to the target of now: another target is no change of the measurement.
        let before = self.before.replace(measured).unwrap_or(measured);
        let change = now.saturating_sub(deviation(target, before).1);
        let sum = self.sum.saturating_add(gains.integral.times(error));
        let output = gains.proportional.times(error).saturating_add(sum);
        let wanted = output.saturating_sub(gains.derivative.times(change));
        // Anti-windup: errors that only push the output further beyond its bounds are not summed up.
        let winds = (wanted > range.most && error > 0) || (wanted < range.least && error < 0);
        if !winds {
            // INVARIANT: Clamped, as the next one.
            self.sum = clamp(sum);
        }
        self.output = clamp(wanted);
    }
}

/// The error, and the measurement, relative to the target.
fn deviation(target: Target, measured: Ns) -> (i64, i64) {
    let target = Ns::from(target.latency).0.max(1);
    // Below 2^34 times 2^20.
    let measured = measured.0.min(LONGEST).saturating_mul(ONE as u64) / target;
    let relative = i64::try_from(measured).unwrap_or(i64::MAX);
    let error = ONE.saturating_sub(relative).max(ERRORS.0).min(ERRORS.1);
    // As the error has it, so that one stall kicks the derivative no harder.
    (error, ONE - error)
}

/// The tunables, and the slices that follow from others.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms {
    /// The gains.
    pub(crate) gains: Gains,
    /// The target of each level that has one.
    pub(crate) targets: [Option<Target>; level::COUNT],
    /// The usual slices.
    pub(crate) table: [Us; level::COUNT],
}

impl Terms {
    /// The base of a level's slice below one with a target.
    fn base(&self, level: Level, target: Target) -> Option<Us> {
        let slice = self.table.get(level.number() as usize).copied();
        Some(slice?.min(target.latency).max(BOUNDS.0).min(BOUNDS.1))
    }

    fn below(level: Level) -> impl Iterator<Item = Level> {
        Level::ALL
            .into_iter()
            .filter(move |&below| level.is_above(below))
    }
}

/// The controllers of a GPU.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Controllers {
    loops: [Loop; level::COUNT],
    slices: Instead,
}

impl Controllers {
    /// Nothing was measured.
    pub(crate) fn new() -> Self {
        Self {
            loops: [Loop::default(); level::COUNT],
            slices: Instead::NONE,
        }
    }

    /// The end of a control period: the latencies that were measured in it, by level. Returns the
    /// slices that are in force then.
    ///
    /// A slice that would change by less than a sixteenth stays: each change is a call of the driver
    /// for each TSG of the level.
    pub(crate) fn step(&mut self, terms: &Terms, measured: &[Option<Ns>; level::COUNT]) -> Instead {
        let mut slices = Instead::NONE;
        let loops = self.loops.iter_mut().zip(Level::ALL);
        for (((control, level), target), measured) in loops.zip(terms.targets).zip(measured) {
            let bases = |target| {
                let base = move |below| Some((below, terms.base(below, target)?));
                Terms::below(level).filter_map(base)
            };
            let range = |target| {
                let ranges = bases(target).map(|(_, base)| Range::of(base));
                ranges.reduce(Range::with)
            };
            let Some((target, range)) = target.and_then(|t| Some((t, range(t)?))) else {
                *control = Loop::default();
                continue;
            };
            control.step(terms.gains, target, *measured, range);
            for (below, base) in bases(target) {
                let slice = slice(base, control.output);
                // Of several levels above, the one that asks for the shortest decides.
                let others = slices.of(below).unwrap_or(slice);
                slices.put(below, Some(slice.min(others)));
            }
        }
        for level in Level::ALL {
            if let (Some(old), Some(new)) = (self.slices.of(level), slices.of(level)) {
                let is_end = new == BOUNDS.0 || new == BOUNDS.1;
                if old.0.abs_diff(new.0) < old.0 / 16 && !is_end {
                    slices.put(level, Some(old));
                }
            }
        }
        self.slices = slices;
        slices
    }
}

/// The slice with a base and an output.
fn slice(base: Us, output: i64) -> Us {
    let factor = ONE.saturating_add(output).max(0);
    let us = i64::from(base.0).saturating_mul(factor).saturating_div(ONE);
    Us(u32::try_from(us).unwrap_or(u32::MAX))
        .max(BOUNDS.0)
        .min(BOUNDS.1)
}

#[cfg(any(test, zernel_kunit))]
#[cfg_attr(not(test), kernel::macros::kunit_tests(zernel_policy_slices_pid))]
mod tests {
    use super::*;

    /// LC wants 2 ms at most.
    const TARGET: Target = Target {
        latency: Us(2_000),
        quantile: Permille(990),
    };

    fn terms() -> Terms {
        let mut targets = [None; level::COUNT];
        targets[0] = Some(TARGET);
        Terms {
            gains: Gains::USUAL,
            targets,
            table: Level::ALL.map(Level::default_timeslice),
        }
    }

    fn lc(measured: u64) -> [Option<Ns>; level::COUNT] {
        let mut all = [None; level::COUNT];
        all[0] = Some(Ns(measured));
        all
    }

    /// LC that computes for so long, in ns, and waits for one slice of BE: the slices of BE, in µs,
    /// and the latencies.
    fn run(
        c: &mut Controllers,
        terms: &Terms,
        rounds: u32,
        own: impl Fn(u32) -> u64,
    ) -> (u32, u64) {
        let (mut be, mut latency) = (Us(200), 0);
        for round in 0..rounds {
            latency = own(round) + Ns::from(be).0;
            be = c.step(terms, &lc(latency)).of(Level::BE).unwrap_or(be);
        }
        (be.0, latency)
    }

    #[test]
    fn without_a_target_nothing_follows() {
        let mut c = Controllers::new();
        let mut none = terms();
        none.targets = [None; level::COUNT];
        assert_eq!(c.step(&none, &lc(1 << 40)), Instead::NONE);
        // Nobody is below best-effort.
        none.targets[7] = Some(TARGET);
        assert_eq!(
            c.step(&none, &[Some(Ns(1 << 40)); level::COUNT]),
            Instead::NONE
        );
    }

    #[test]
    fn a_late_level_shortens_those_below_and_not_its_own() {
        let mut c = Controllers::new();
        let mut t = terms();
        t.targets = [None; level::COUNT];
        t.targets[3] = Some(TARGET);
        let mut all = [None; level::COUNT];
        all[3] = Some(Ns(10_000_000));
        let slices = c.step(&t, &all);
        for level in Level::ALL {
            let got = slices.of(level);
            assert_eq!(got.is_some(), level.number() > 3);
            assert!(got.is_none_or(|slice| slice < t.table[level.number() as usize]));
        }
    }

    #[test]
    fn a_step_of_the_load_settles_at_the_target() {
        let (mut c, t) = (Controllers::new(), terms());
        for own in [500_000, 1_500_000, 200_000, 1_800_000] {
            let (_, latency) = run(&mut c, &t, 400, |_| own);
            // To within the sixteenth by which slices change.
            assert!(latency.abs_diff(2_000_000) < 150_000);
        }
    }

    #[test]
    fn a_target_that_cannot_be_met_gives_the_shortest_slices_and_winds_nothing_up() {
        let (mut c, t) = (Controllers::new(), terms());
        assert_eq!(run(&mut c, &t, 10_000, |_| 3_000_000).0, 100);
        // As soon after as after one period of it.
        let mut fresh = Controllers::new();
        run(&mut fresh, &t, 20, |_| 3_000_000);
        let (long, short) = (
            run(&mut c, &t, 40, |_| 100_000),
            run(&mut fresh, &t, 40, |_| 100_000),
        );
        assert_eq!(long, short);
        assert!(long.0 > 150);
        // And so with one that is always met.
        let mut c = Controllers::new();
        let mut easy = terms();
        easy.targets[0] = Some(Target {
            latency: Us(10_000_000),
            quantile: Permille(500),
        });
        assert_eq!(run(&mut c, &easy, 10_000, |_| 100_000).0, 10_000);
        let hard = run(&mut c, &t, 600, |_| 3_000_000);
        assert_eq!(hard.0, 100);
    }

    #[test]
    fn a_new_target_is_no_kick() {
        let mut t = terms();
        t.gains = Gains {
            proportional: Gain(0),
            integral: Gain(0),
            derivative: Gain(1_000),
        };
        let mut c = Controllers::new();
        let steady = c.step(&t, &lc(3_000_000)).of(Level::BE);
        t.targets[0] = Some(Target {
            latency: Us(1_000),
            ..TARGET
        });
        assert_eq!(c.step(&t, &lc(3_000_000)).of(Level::BE), steady);
        // The measurement is: by one target.
        assert_eq!(c.step(&t, &lc(4_000_000)).of(Level::BE), Some(BOUNDS.0));
    }

    #[test]
    fn without_requests_all_stays() {
        let (mut c, t) = (Controllers::new(), terms());
        let (be, _) = run(&mut c, &t, 100, |_| 1_000_000);
        for _ in 0..1_000 {
            let slices = c.step(&t, &[None; level::COUNT]);
            assert_eq!(slices.of(Level::BE), Some(Us(be)));
        }
    }

    #[test]
    fn one_stall_says_no_more_than_eight_targets() {
        assert_eq!(deviation(TARGET, Ns(u64::MAX)).0, -8 * ONE);
        assert_eq!(deviation(TARGET, Ns(0)), (ONE, 0));
        assert_eq!(deviation(TARGET, Ns(2_000_000)), (0, ONE));
    }
}
