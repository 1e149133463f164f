// SPDX-License-Identifier: GPL-2.0
//! The tunables of phases. Shares are in percent.

use super::{
    delta,
    nice,
    number,
    read,
    show_delta,
    show_number,
    switch,
    tune, //
};
use crate::{
    glue::sysfs::Attribute,
    policy::{
        phase::{
            libraries::Libraries,
            Phase,
            Thresholds, //
        },
        prefetch::Kind,
        tunables::Refused,
        units::{
            Ns,
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

fn read_threshold<T>(get: impl FnOnce(&Thresholds) -> T) -> Result<T> {
    read(|t| get(t.phases().thresholds()))
}

fn tune_threshold(change: impl FnOnce(&mut Thresholds) -> Result<(), Refused>) -> Result {
    tune(|t| change(t.phases_mut().thresholds_mut()))
}

fn percent(text: &str) -> Result<Permille> {
    let percent = number(text)?;
    Ok(Permille(percent.saturating_mul(10)))
}

fn show_percent(out: &mut Formatter<'_>, share: Permille) -> Result {
    show_number(out, share.0 / 10)
}

/// `phase_tick_us`.
pub(super) struct Tick;

impl Attribute for Tick {
    const NAME: &'static CStr = c"phase_tick_us";

    fn show(out: &mut Formatter<'_>) -> Result {
        let tick = read(|t| t.phases().tick())?.0 / 1000;
        show_number(out, u32::try_from(tick).unwrap_or(u32::MAX))
    }

    fn store(text: &str) -> Result {
        let tick = Us(number(text)?);
        tune(|t| t.phases_mut().set_tick(tick))
    }
}

/// `io_wait_threshold`.
pub(super) struct IoWait;

impl Attribute for IoWait {
    const NAME: &'static CStr = c"io_wait_threshold";

    fn show(out: &mut Formatter<'_>) -> Result {
        show_percent(out, read_threshold(Thresholds::io_wait)?)
    }

    fn store(text: &str) -> Result {
        let share = percent(text)?;
        tune_threshold(|t| t.set_io_wait(share))
    }
}

/// `gpu_idle_threshold`.
pub(super) struct GpuIdle;

impl Attribute for GpuIdle {
    const NAME: &'static CStr = c"gpu_idle_threshold";

    fn show(out: &mut Formatter<'_>) -> Result {
        show_percent(out, read_threshold(Thresholds::gpu_idle)?)
    }

    fn store(text: &str) -> Result {
        let share = percent(text)?;
        tune_threshold(|t| t.set_gpu_idle(share))
    }
}

/// `gpu_active_threshold`.
pub(super) struct GpuActive;

impl Attribute for GpuActive {
    const NAME: &'static CStr = c"gpu_active_threshold";

    fn show(out: &mut Formatter<'_>) -> Result {
        show_percent(out, read_threshold(Thresholds::gpu_active)?)
    }

    fn store(text: &str) -> Result {
        let share = percent(text)?;
        tune_threshold(|t| t.set_gpu_active(share))
    }
}

/// `optimizer_burst_max_ns`.
pub(super) struct OptimizerBurst;

impl Attribute for OptimizerBurst {
    const NAME: &'static CStr = c"optimizer_burst_max_ns";

    fn show(out: &mut Formatter<'_>) -> Result {
        let most = read_threshold(Thresholds::optimizer_burst)?.0;
        show_number(out, u32::try_from(most).unwrap_or(u32::MAX))
    }

    fn store(text: &str) -> Result {
        let most = Ns(number(text)?.into());
        tune_threshold(|t| t.set_optimizer_burst(most))
    }
}

/// `phase_stability_count`.
pub(super) struct Stability;

impl Attribute for Stability {
    const NAME: &'static CStr = c"phase_stability_count";

    fn show(out: &mut Formatter<'_>) -> Result {
        show_number(out, read_threshold(Thresholds::stability)?)
    }

    fn store(text: &str) -> Result {
        let count = number(text)?;
        tune_threshold(|t| t.set_stability(count))
    }
}

/// `collective_detection`.
pub(super) struct Collectives;

impl Attribute for Collectives {
    const NAME: &'static CStr = c"collective_detection";

    fn show(out: &mut Formatter<'_>) -> Result {
        show_number(out, read_threshold(Thresholds::collectives)?.into())
    }

    fn store(text: &str) -> Result {
        let on = switch(text)?;
        tune_threshold(|t| {
            t.set_collectives(on);
            Ok(())
        })
    }
}

/// `collective_libraries`.
pub(super) struct CollectiveLibraries;

impl Attribute for CollectiveLibraries {
    const NAME: &'static CStr = c"collective_libraries";

    fn show(out: &mut Formatter<'_>) -> Result {
        out.write_str(read(|t| *t.phases().libraries())?.names())?;
        Ok(())
    }

    fn store(text: &str) -> Result {
        let libraries = Libraries::parse(text).ok_or(EINVAL)?;
        tune(|t| {
            t.phases_mut().set_libraries(libraries);
            Ok(())
        })
    }
}

/// `track_owners`.
pub(super) struct Owners;

impl Attribute for Owners {
    const NAME: &'static CStr = c"track_owners";

    fn show(out: &mut Formatter<'_>) -> Result {
        show_number(out, read(|t| t.phases().owners())?.into())
    }

    fn store(text: &str) -> Result {
        let on = switch(text)?;
        tune(|t| {
            t.phases_mut().set_owners(on);
            Ok(())
        })
    }
}

/// `prefetch_lead_ns`.
pub(super) struct Lead;

impl Attribute for Lead {
    const NAME: &'static CStr = c"prefetch_lead_ns";

    fn show(out: &mut Formatter<'_>) -> Result {
        match read(|t| t.phases().prefetch().lead)? {
            Some(lead) => show_number(out, u32::try_from(lead.0).unwrap_or(u32::MAX)),
            None => {
                out.write_str(LEARNED)?;
                Ok(())
            }
        }
    }

    fn store(text: &str) -> Result {
        let lead = match text {
            LEARNED => None,
            _ => Some(Ns(number(text)?.into())),
        };
        tune(|t| {
            t.phases_mut().prefetch_mut().lead = lead;
            Ok(())
        })
    }
}

/// The lead that is as long as loading takes.
const LEARNED: &str = "auto";

/// `prefetch_predictor`.
pub(super) struct Predictor;

impl Attribute for Predictor {
    const NAME: &'static CStr = c"prefetch_predictor";

    fn show(out: &mut Formatter<'_>) -> Result {
        out.write_str(read(|t| t.phases().prefetch().kind)?.name())?;
        Ok(())
    }

    fn store(text: &str) -> Result {
        let kind = Kind::named(text).ok_or(EINVAL)?;
        tune(|t| {
            t.phases_mut().prefetch_mut().kind = kind;
            Ok(())
        })
    }
}

/// `prefetch_readahead_bytes`.
pub(super) struct Readahead;

impl Attribute for Readahead {
    const NAME: &'static CStr = c"prefetch_readahead_bytes";

    fn show(out: &mut Formatter<'_>) -> Result {
        let bytes = read(|t| t.phases().readahead())?;
        show_number(out, u32::try_from(bytes).unwrap_or(u32::MAX))
    }

    fn store(text: &str) -> Result {
        let bytes = number(text)?;
        tune(|t| {
            t.phases_mut().set_readahead(bytes);
            Ok(())
        })
    }
}

/// `prefetch_history`.
pub(super) struct History;

impl Attribute for History {
    const NAME: &'static CStr = c"prefetch_history";

    fn show(out: &mut Formatter<'_>) -> Result {
        show_number(out, read(|t| t.phases().prefetch().history())?)
    }

    fn store(text: &str) -> Result {
        let count = number(text)?;
        tune(|t| t.phases_mut().prefetch_mut().set_history(count))
    }
}

/// `phase_nice`.
pub(super) struct Nice;

impl Attribute for Nice {
    const NAME: &'static CStr = c"phase_nice";

    fn show(out: &mut Formatter<'_>) -> Result {
        show_number(out, read(|t| t.phases().nice())?.into())
    }

    fn store(text: &str) -> Result {
        let on = switch(text)?;
        nice::retune(on, || {
            tune(|t| {
                t.phases_mut().set_nice(on);
                Ok(())
            })
        })
    }
}

/// The addition of a phase to nice values.
pub(super) struct NiceOf<const PHASE: usize>;

impl<const PHASE: usize> Attribute for NiceOf<PHASE> {
    const NAME: &'static CStr = [
        c"",
        c"nice_data_loading",
        c"nice_gpu_compute",
        c"nice_collective",
        c"nice_optimizer_step",
    ][PHASE];

    fn show(out: &mut Formatter<'_>) -> Result {
        show_delta(out, read(|t| t.phases().delta(Phase::ALL[PHASE]))?)
    }

    fn store(text: &str) -> Result {
        let delta = delta(text)?;
        nice::retune(false, || {
            tune(|t| t.phases_mut().set_delta(Phase::ALL[PHASE], delta))
        })
    }
}
