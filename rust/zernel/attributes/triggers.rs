// SPDX-License-Identifier: GPL-2.0
//! The tunables of triggers, and of predictions from features.

use super::{
    number,
    read,
    show_number,
    show_option,
    switch,
    tune, //
    NONE,
};
use crate::{
    glue::sysfs::Attribute,
    policy::{
        deadline,
        predict::Kind,
        units::Us, //
    },
    request::share::seat,
};
use kernel::{
    fmt::Write as _,
    prelude::*,
    str::Formatter, //
};

/// The predictor of preparation times.
pub(super) struct Predictor;

impl Attribute for Predictor {
    const NAME: &'static CStr = c"predictor";

    fn show(out: &mut Formatter<'_>) -> Result {
        out.write_str(read(|t| t.requests().predictor())?.name())?;
        Ok(())
    }

    fn store(text: &str) -> Result {
        let kind = Kind::named(text).ok_or(EINVAL)?;
        tune(|t| {
            t.requests_mut().set_predictor(kind);
            Ok(())
        })?;
        if kind != Kind::Features {
            seat::give_back();
        }
        Ok(())
    }
}

/// The observations that a regression over features remembers.
pub(super) struct FeaturesMemory;

impl Attribute for FeaturesMemory {
    const NAME: &'static CStr = c"features_memory";

    fn show(out: &mut Formatter<'_>) -> Result {
        show_number(out, read(|t| t.requests().memory())?.number())
    }

    fn store(text: &str) -> Result {
        let observations = number(text)?;
        tune(|t| t.requests_mut().set_memory(observations))
    }
}

/// The state of the machine counts as features, too.
pub(super) struct FeaturesMeasured;

impl Attribute for FeaturesMeasured {
    const NAME: &'static CStr = c"features_measured";

    fn show(out: &mut Formatter<'_>) -> Result {
        show_number(out, read(|t| t.requests().measured())?.into())
    }

    fn store(text: &str) -> Result {
        let on = switch(text)?;
        tune(|t| {
            t.requests_mut().set_measured(on);
            Ok(())
        })
    }
}

/// The cost of being early while programs share a GPU.
pub(super) struct SharedEarlyCost;

impl Attribute for SharedEarlyCost {
    const NAME: &'static CStr = c"shared_early_cost";

    fn show(out: &mut Formatter<'_>) -> Result {
        show_option(out, read(|t| t.requests().shared_early())?)
    }

    fn store(text: &str) -> Result {
        let cost = match text {
            NONE => None,
            _ => Some(number(text)?),
        };
        tune(|t| t.requests_mut().set_shared_early(cost))
    }
}

/// Requests take the GPU before their data is ready.
pub(super) struct PreemptEnabled;

impl Attribute for PreemptEnabled {
    const NAME: &'static CStr = c"preempt_enabled";

    fn show(out: &mut Formatter<'_>) -> Result {
        show_number(out, read(|t| t.requests().enabled())?.into())
    }

    fn store(text: &str) -> Result {
        let on = switch(text)?;
        tune(|t| {
            t.requests_mut().set_enabled(on);
            Ok(())
        })
    }
}

/// They do so when the prediction says.
pub(super) struct PreemptScheduled;

impl Attribute for PreemptScheduled {
    const NAME: &'static CStr = c"preempt_scheduled";

    fn show(out: &mut Formatter<'_>) -> Result {
        show_number(out, read(|t| t.requests().scheduled())?.into())
    }

    fn store(text: &str) -> Result {
        let on = switch(text)?;
        tune(|t| {
            t.requests_mut().set_scheduled(on);
            Ok(())
        })
    }
}

/// Preparations that are expected to be shorter are not waited for.
pub(super) struct MinPrep;

impl Attribute for MinPrep {
    const NAME: &'static CStr = c"min_prep_us";

    fn show(out: &mut Formatter<'_>) -> Result {
        show_number(out, read(|t| t.requests().min_prep())?.0)
    }

    fn store(text: &str) -> Result {
        let time = Us(number(text)?);
        tune(|t| t.requests_mut().set_min_prep(time))
    }
}

/// The order of triggers among requests of a level.
pub(super) struct Order;

impl Attribute for Order {
    const NAME: &'static CStr = c"order";

    fn show(out: &mut Formatter<'_>) -> Result {
        out.write_str(read(|t| t.requests().order())?.name())?;
        Ok(())
    }

    fn store(text: &str) -> Result {
        let order = deadline::Order::named(text).ok_or(EINVAL)?;
        tune(|t| {
            t.requests_mut().set_order(order);
            Ok(())
        })
    }
}

/// The margin of a key that nothing is known of.
pub(super) struct SafetyMargin;

impl Attribute for SafetyMargin {
    const NAME: &'static CStr = c"safety_margin_us";

    fn show(out: &mut Formatter<'_>) -> Result {
        show_number(out, read(|t| t.requests().safety_margin())?.0)
    }

    fn store(text: &str) -> Result {
        let time = Us(number(text)?);
        tune(|t| t.requests_mut().set_safety_margin(time))
    }
}
