// SPDX-License-Identifier: GPL-2.0
//! The tunables of slices by level.

use super::{
    number,
    read,
    show_number,
    switch,
    tune, //
};
use crate::{
    glue::sysfs::Attribute,
    policy::{
        level::Level,
        slices::{
            self,
            pid::{
                Gain,
                Gains,
                Target, //
            }, //
        },
        units::{
            Permille,
            Us, //
        },
    },
};
use kernel::{
    fmt::Write as _,
    prelude::*,
    str::Formatter, //
};

/// The policy that gives each level its slice.
pub(super) struct Policy;

impl Attribute for Policy {
    const NAME: &'static CStr = c"slice_policy";

    fn show(out: &mut Formatter<'_>) -> Result {
        out.write_str(read(|t| t.slices().policy())?.name())?;
        Ok(())
    }

    fn store(text: &str) -> Result {
        let policy = slices::Policy::named(text).ok_or(EINVAL)?;
        tune(|t| {
            t.slices_mut().set_policy(policy);
            Ok(())
        })
    }
}

/// More urgent work takes the engine from a level.
pub(super) struct Preemptible<const LEVEL: usize>;

impl<const LEVEL: usize> Attribute for Preemptible<LEVEL> {
    const NAME: &'static CStr = [
        c"level0_preemptible",
        c"level1_preemptible",
        c"level2_preemptible",
        c"level3_preemptible",
        c"level4_preemptible",
        c"level5_preemptible",
    ][LEVEL];

    fn show(out: &mut Formatter<'_>) -> Result {
        let is = read(|t| t.slices().is_preemptible(Level::ALL[LEVEL]))?;
        show_number(out, is.into())
    }

    fn store(text: &str) -> Result {
        let is = switch(text)?;
        tune(|t| t.slices_mut().set_preemptible(Level::ALL[LEVEL], is))
    }
}

/// The control period of slices that follow latencies.
pub(super) struct Period;

impl Attribute for Period {
    const NAME: &'static CStr = c"slice_period_us";

    fn show(out: &mut Formatter<'_>) -> Result {
        show_number(out, read(|t| t.slices().period())?.0)
    }

    fn store(text: &str) -> Result {
        let period = Us(number(text)?);
        tune(|t| t.slices_mut().set_period(period))
    }
}

/// The slice of TSGs that copy.
pub(super) struct Copies;

impl Attribute for Copies {
    const NAME: &'static CStr = c"copy_timeslice_us";

    fn show(out: &mut Formatter<'_>) -> Result {
        show_number(out, read(|t| t.slices().copies())?.0)
    }

    fn store(text: &str) -> Result {
        let slice = Us(number(text)?);
        tune(|t| t.slices_mut().set_copies(slice))
    }
}

/// A gain of controllers: 0 of the error, 1 of the sum of errors, 2 of the change.
pub(super) struct GainOf<const WHICH: usize>;

impl<const WHICH: usize> GainOf<WHICH> {
    fn of(gains: &mut Gains) -> &mut Gain {
        match WHICH {
            0 => &mut gains.proportional,
            1 => &mut gains.integral,
            _ => &mut gains.derivative,
        }
    }
}

impl<const WHICH: usize> Attribute for GainOf<WHICH> {
    const NAME: &'static CStr = [
        c"slice_kp_permille",
        c"slice_ki_permille",
        c"slice_kd_permille",
    ][WHICH];

    fn show(out: &mut Formatter<'_>) -> Result {
        let mut gains = read(|t| t.slices().gains())?;
        show_number(out, Self::of(&mut gains).0)
    }

    fn store(text: &str) -> Result {
        let gain = Gain(number(text)?);
        tune(|t| {
            let mut gains = t.slices().gains();
            *Self::of(&mut gains) = gain;
            t.slices_mut().set_gains(gains)
        })
    }
}

/// The target of a level, or its quantile.
pub(super) struct TargetOf<const LEVEL: usize, const QUANTILE: bool>;

impl<const LEVEL: usize, const QUANTILE: bool> Attribute for TargetOf<LEVEL, QUANTILE> {
    const NAME: &'static CStr = if QUANTILE {
        [
            c"level0_target_permille",
            c"level1_target_permille",
            c"level2_target_permille",
            c"level3_target_permille",
            c"level4_target_permille",
            c"level5_target_permille",
        ][LEVEL]
    } else {
        [
            c"level0_target_us",
            c"level1_target_us",
            c"level2_target_us",
            c"level3_target_us",
            c"level4_target_us",
            c"level5_target_us",
        ][LEVEL]
    };

    fn show(out: &mut Formatter<'_>) -> Result {
        let target = read(|t| t.slices().target(Level::ALL[LEVEL]))?;
        let number = match QUANTILE {
            true => target.quantile.0,
            false => target.latency.0,
        };
        show_number(out, number)
    }

    fn store(text: &str) -> Result {
        let number = number(text)?;
        tune(|t| {
            let level = Level::ALL[LEVEL];
            let before = t.slices().target(level);
            let target = match QUANTILE {
                true => Target {
                    quantile: Permille(number),
                    ..before
                },
                false => Target {
                    latency: Us(number),
                    ..before
                },
            };
            t.slices_mut().set_target(level, target)
        })
    }
}
