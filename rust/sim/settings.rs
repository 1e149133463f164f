// SPDX-License-Identifier: GPL-2.0
//! The meaning of the module parameters.

use crate::{
    glue::sim::params::Params,
    model::{
        measures::Ns, //
        preset::{
            OpCost,
            Preset, //
        },
        tsg,
    },
};
use kernel::prelude::*;

/// Checked parameters.
pub(crate) struct Settings {
    /// GPUs.
    pub(crate) gpus: u32,
    /// The properties of the GPUs.
    pub(crate) preset: &'static Preset,
    /// Copy engines of each.
    pub(crate) copy_engines: u32,
    /// TSGs of each.
    pub(crate) max_tsgs: u32,
    /// Interval at which words are looked at.
    pub(crate) word_poll: Ns,
    /// Contexts of a user.
    pub(crate) user_contexts: u32,
    /// Queued items of a user.
    pub(crate) user_items: u32,
    /// Cost of the provider's operations.
    pub(crate) costs: OpCost,
    /// Names of operations that are not offered; the host checks them.
    pub(crate) lacks: &'static str,
}

fn within<T: Copy + PartialOrd + kernel::fmt::Display>(
    name: &str,
    value: T,
    min: T,
    max: T,
) -> Result<T> {
    if (min..=max).contains(&value) {
        return Ok(value);
    }
    pr_err!("{} is {}; the range is {} to {}\n", name, value, min, max);
    Err(EINVAL)
}

impl Settings {
    /// Checks the parameters; a fault is a line in the kernel log.
    pub(crate) fn new(params: &Params) -> Result<Self> {
        let Some(preset) = Preset::named(params.preset) else {
            pr_err!(
                "no preset {}; take a100, h100, h200, l4 or rtx4090\n",
                params.preset
            );
            return Err(EINVAL);
        };
        let percent = u64::from(within(
            "operation_percent",
            params.operation_percent,
            0,
            10_000,
        )?);
        let copy_engines = within("copy_engines", params.copy_engines, -1, 8)?;
        let cost = |published: Ns| Ns(published.0.saturating_mul(percent) / 100);
        Ok(Self {
            gpus: within("gpus", params.gpus, 1, tsg::Handle::GPUS)?,
            preset,
            copy_engines: u32::try_from(copy_engines).unwrap_or(preset.copy_engines),
            max_tsgs: within("max_tsgs", params.max_tsgs, 1, tsg::Handle::TSGS)?,
            word_poll: Ns(
                u64::from(within("word_poll_us", params.word_poll_us, 1, 1_000_000)?) * 1_000,
            ),
            user_contexts: within("user_contexts", params.user_contexts, 1, 1 << 18)?,
            user_items: within("user_items", params.user_items, 1, 1 << 24)?,
            costs: OpCost {
                preempt: cost(OpCost::PUBLISHED.preempt),
                enable: cost(OpCost::PUBLISHED.enable),
                slice: cost(OpCost::PUBLISHED.slice),
            },
            lacks: params.lacks,
        })
    }
}
