// SPDX-License-Identifier: GPL-2.0
//! The tunables as files under `/sys/class/misc/zernel/`.
//!
//! `EINVAL`: not a value of this kind; `ERANGE`: outside its range. Nothing has changed then.

pub(crate) mod nice;
mod phases;
mod slack;
mod slices;
mod triggers;
mod turns;
mod value;

use crate::{
    glue::sysfs::{
        self,
        Attribute, //
    },
    policy::{
        control,
        level::Level,
        nice::Delta,
        tunables::{
            requests::NoHolder as Treatment,
            Refused,
            Tunables, //
        },
        units::{
            Ns,
            Us, //
        },
    },
};
use kernel::{
    fmt::Write as _,
    prelude::*,
    str::Formatter, //
};
use value::{
    delta,
    number,
    read,
    show_delta,
    show_number,
    show_option,
    switch,
    tune, //
    NONE,
};

struct Enabled;

impl Attribute for Enabled {
    const NAME: &'static CStr = c"enabled";

    fn show(out: &mut Formatter<'_>) -> Result {
        show_number(out, read(Tunables::enabled)?.into())
    }

    fn store(text: &str) -> Result {
        let on = switch(text)?;
        tune(|t| {
            t.set_enabled(on);
            Ok(())
        })
    }
}

struct DefaultClass;

impl Attribute for DefaultClass {
    const NAME: &'static CStr = c"default_class";

    fn show(out: &mut Formatter<'_>) -> Result {
        show_option(out, read(Tunables::default_class)?.map(Level::number))
    }

    fn store(text: &str) -> Result {
        let level = match text {
            NONE => None,
            "lc" => Some(Level::LC),
            "be" => Some(Level::BE),
            _ => Some(Level::new(number(text)?).ok_or(ERANGE)?),
        };
        tune(|t| {
            t.set_default_class(level);
            Ok(())
        })
    }
}

struct Timeslice<const LEVEL: usize>;

impl<const LEVEL: usize> Attribute for Timeslice<LEVEL> {
    const NAME: &'static CStr = [
        c"level0_timeslice_us",
        c"level1_timeslice_us",
        c"level2_timeslice_us",
        c"level3_timeslice_us",
        c"level4_timeslice_us",
        c"level5_timeslice_us",
        c"level6_timeslice_us",
        c"level7_timeslice_us",
    ][LEVEL];

    fn show(out: &mut Formatter<'_>) -> Result {
        show_number(out, read(|t| t.timeslice(Level::ALL[LEVEL]))?.0)
    }

    fn store(text: &str) -> Result {
        let slice = Us(number(text)?);
        tune(|t| t.set_timeslice(Level::ALL[LEVEL], slice))
    }
}

struct MinTimeslice;

impl Attribute for MinTimeslice {
    const NAME: &'static CStr = c"min_timeslice_us";

    fn show(out: &mut Formatter<'_>) -> Result {
        show_number(out, read(Tunables::min_timeslice)?.0)
    }

    fn store(text: &str) -> Result {
        let slice = Us(number(text)?);
        tune(|t| t.set_min_timeslice(slice))
    }
}

struct MaxTimeslice;

impl Attribute for MaxTimeslice {
    const NAME: &'static CStr = c"max_timeslice_us";

    fn show(out: &mut Formatter<'_>) -> Result {
        show_number(out, read(Tunables::max_timeslice)?.0)
    }

    fn store(text: &str) -> Result {
        let slice = Us(number(text)?);
        tune(|t| t.set_max_timeslice(slice))
    }
}

struct LcGid;

impl Attribute for LcGid {
    const NAME: &'static CStr = c"lc_gid";

    fn show(out: &mut Formatter<'_>) -> Result {
        show_option(out, read(Tunables::lc_gid)?)
    }

    fn store(text: &str) -> Result {
        let gid = match text {
            NONE => None,
            // The highest number is no group: it says "unchanged" to chown(2).
            _ => Some(number(text)?).filter(|&gid| gid != u32::MAX),
        };
        if gid.is_none() && text != NONE {
            return Err(ERANGE);
        }
        tune(|t| {
            t.set_lc_gid(gid);
            Ok(())
        })
    }
}

struct LcAdmission;

impl Attribute for LcAdmission {
    const NAME: &'static CStr = c"lc_admission";

    fn show(out: &mut Formatter<'_>) -> Result {
        show_number(out, read(Tunables::lc_admission)?)
    }

    fn store(text: &str) -> Result {
        let most = number(text)?;
        tune(|t| t.set_lc_admission(most))
    }
}

struct EventRingSize;

impl Attribute for EventRingSize {
    const NAME: &'static CStr = c"event_ring_size";

    fn show(out: &mut Formatter<'_>) -> Result {
        show_number(out, read(Tunables::ring_size)?)
    }

    fn store(text: &str) -> Result {
        let events = number(text)?;
        tune(|t| t.set_ring_size(events))
    }
}

struct UserControl;

impl Attribute for UserControl {
    const NAME: &'static CStr = c"user_control";

    fn show(out: &mut Formatter<'_>) -> Result {
        out.write_str(read(Tunables::user_control)?.name())?;
        Ok(())
    }

    fn store(text: &str) -> Result {
        let policy = control::Policy::named(text).ok_or(EINVAL)?;
        tune(|t| {
            t.set_user_control(policy);
            Ok(())
        })
    }
}

struct Lease;

impl Attribute for Lease {
    const NAME: &'static CStr = c"lease_us";

    fn show(out: &mut Formatter<'_>) -> Result {
        show_number(out, read(|t| t.requests().lease())?.0)
    }

    fn store(text: &str) -> Result {
        let lease = Us(number(text)?);
        tune(|t| t.requests_mut().set_lease(lease))
    }
}

struct PredictorMargin;

impl Attribute for PredictorMargin {
    const NAME: &'static CStr = c"predictor_margin";

    fn show(out: &mut Formatter<'_>) -> Result {
        show_number(out, read(|t| t.requests().margin())?.into())
    }

    fn store(text: &str) -> Result {
        let margin = switch(text)?;
        tune(|t| {
            t.requests_mut().set_margin(margin);
            Ok(())
        })
    }
}

struct EarlyCost;

impl Attribute for EarlyCost {
    const NAME: &'static CStr = c"early_cost";

    fn show(out: &mut Formatter<'_>) -> Result {
        show_number(out, read(|t| t.requests().costs().early)?)
    }

    fn store(text: &str) -> Result {
        let cost = number(text)?;
        tune(|t| t.requests_mut().set_early_cost(cost))
    }
}

struct LateCost;

impl Attribute for LateCost {
    const NAME: &'static CStr = c"late_cost";

    fn show(out: &mut Formatter<'_>) -> Result {
        show_number(out, read(|t| t.requests().costs().late)?)
    }

    fn store(text: &str) -> Result {
        let cost = number(text)?;
        tune(|t| t.requests_mut().set_late_cost(cost))
    }
}

struct NoHolder;

impl Attribute for NoHolder {
    const NAME: &'static CStr = c"no_holder";

    fn show(out: &mut Formatter<'_>) -> Result {
        out.write_str(read(|t| t.requests().no_holder())?.name())?;
        Ok(())
    }

    fn store(text: &str) -> Result {
        let no_holder = Treatment::named(text).ok_or(EINVAL)?;
        tune(|t| {
            t.requests_mut().set_no_holder(no_holder);
            Ok(())
        })
    }
}

struct PreemptTimeout;

impl Attribute for PreemptTimeout {
    const NAME: &'static CStr = c"preempt_timeout_us";

    fn show(out: &mut Formatter<'_>) -> Result {
        show_number(out, read(|t| t.requests().preempt_timeout())?.0)
    }

    fn store(text: &str) -> Result {
        let timeout = Us(number(text)?);
        tune(|t| t.requests_mut().set_preempt_timeout(timeout))
    }
}

struct RequestNice;

impl Attribute for RequestNice {
    const NAME: &'static CStr = c"request_nice";

    fn show(out: &mut Formatter<'_>) -> Result {
        show_delta(out, read(|t| t.requests().nice())?)
    }

    fn store(text: &str) -> Result {
        let delta = delta(text)?;
        nice::retune(delta != Delta::NONE, || {
            tune(|t| t.requests_mut().set_nice(delta))
        })
    }
}

/// The budget of a level, or its period.
struct Budget<const LEVEL: usize, const PERIOD: bool>;

impl<const LEVEL: usize, const PERIOD: bool> Attribute for Budget<LEVEL, PERIOD> {
    const NAME: &'static CStr = if PERIOD {
        [
            c"level0_period_us",
            c"level1_period_us",
            c"level2_period_us",
            c"level3_period_us",
            c"level4_period_us",
            c"level5_period_us",
            c"level6_period_us",
        ][LEVEL]
    } else {
        [
            c"level0_budget_us",
            c"level1_budget_us",
            c"level2_budget_us",
            c"level3_budget_us",
            c"level4_budget_us",
            c"level5_budget_us",
            c"level6_budget_us",
        ][LEVEL]
    };

    fn show(out: &mut Formatter<'_>) -> Result {
        let params = read(|t| t.budget(Level::ALL[LEVEL]))?.ok_or(EINVAL)?;
        let time = if PERIOD {
            params.period()
        } else {
            params.budget()
        };
        show_number(out, u32::try_from(time.0 / 1000).unwrap_or(u32::MAX))
    }

    fn store(text: &str) -> Result {
        let time = Ns::from(Us(number(text)?));
        tune(|t| {
            let params = t.budget(Level::ALL[LEVEL]).ok_or(Refused::OutOfRange)?;
            let (budget, period) = match PERIOD {
                true => (params.budget(), time),
                false => (time, params.period()),
            };
            t.set_budget(Level::ALL[LEVEL], budget, period)
        })
    }
}

sysfs::groups! {
    pub(crate) fn groups:
    Enabled,
    DefaultClass,
    Timeslice<0>,
    Timeslice<1>,
    Timeslice<2>,
    Timeslice<3>,
    Timeslice<4>,
    Timeslice<5>,
    Timeslice<6>,
    Timeslice<7>,
    MinTimeslice,
    MaxTimeslice,
    slices::Copies,
    slices::Policy,
    slices::Preemptible<0>,
    slices::Preemptible<1>,
    slices::Preemptible<2>,
    slices::Preemptible<3>,
    slices::Preemptible<4>,
    slices::Preemptible<5>,
    slices::Period,
    slices::GainOf<0>,
    slices::GainOf<1>,
    slices::GainOf<2>,
    slices::TargetOf<0, false>,
    slices::TargetOf<0, true>,
    slices::TargetOf<1, false>,
    slices::TargetOf<1, true>,
    slices::TargetOf<2, false>,
    slices::TargetOf<2, true>,
    slices::TargetOf<3, false>,
    slices::TargetOf<3, true>,
    slices::TargetOf<4, false>,
    slices::TargetOf<4, true>,
    slices::TargetOf<5, false>,
    slices::TargetOf<5, true>,
    slack::Of<0>, slack::Of<1>, slack::Of<2>, slack::Of<3>, slack::Of<4>, slack::Of<5>, slack::Of<6>,
    LcGid,
    LcAdmission,
    EventRingSize,
    UserControl,
    Lease,
    triggers::Predictor,
    PredictorMargin,
    EarlyCost,
    LateCost,
    triggers::SharedEarlyCost,
    PreemptTimeout,
    NoHolder,
    RequestNice,
    triggers::PreemptEnabled,
    triggers::PreemptScheduled,
    triggers::MinPrep,
    triggers::Order,
    triggers::FeaturesMemory,
    triggers::FeaturesMeasured,
    triggers::SafetyMargin,
    turns::Rotation,
    turns::Quantum,
    turns::Timeslice,
    turns::Poll,
    Budget<0, false>,
    Budget<0, true>,
    Budget<1, false>,
    Budget<1, true>,
    Budget<2, false>,
    Budget<2, true>,
    Budget<3, false>,
    Budget<3, true>,
    Budget<4, false>,
    Budget<4, true>,
    Budget<5, false>,
    Budget<5, true>,
    Budget<6, false>,
    Budget<6, true>,
    phases::Tick,
    phases::IoWait,
    phases::GpuIdle,
    phases::GpuActive,
    phases::OptimizerBurst,
    phases::Stability,
    phases::Collectives,
    phases::CollectiveLibraries,
    phases::Owners,
    phases::Lead,
    phases::Predictor,
    phases::History,
    phases::Readahead,
    phases::Nice,
    phases::NiceOf<1>,
    phases::NiceOf<2>,
    phases::NiceOf<3>,
    phases::NiceOf<4>,
}
