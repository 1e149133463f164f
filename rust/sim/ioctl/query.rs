// SPDX-License-Identifier: GPL-2.0
//! The properties of the GPUs, and their work so far.

use super::{
    must_be_zero,
    submit::{
        MAX_SUBMIT,
        MAX_WORK,
        MIN_WORK, //
    },
};
use crate::{
    device::CHANNEL_ITEMS,
    file::File,
    glue::sim::{
        task,
        words::WORDS, //
    },
    host::commands::CAPABILITIES,
    inbox,
    model::{
        gpu::MAX_CHANNELS,
        preset::{
            Preset, //
            DEFAULT_TIMESLICE,
        },
        tsg::Handle, //
    },
    uapi::*, //
};
use kernel::prelude::*;

/// Version, capabilities and limits.
pub(super) fn version(file: &File, out: &mut zernel_sim_version) -> Result {
    let settings = &file.hub.inner().settings;
    *out = zernel_sim_version {
        abi_version: ZERNEL_SIM_ABI_VERSION,
        nr_gpus: settings.gpus,
        capabilities: CAPABILITIES
            .iter()
            .fold(u64::from(ZERNEL_SIM_CAP_TRACE), |all, cap| all | cap),
        max_channels: MAX_CHANNELS,
        max_items: CHANNEL_ITEMS,
        max_submit: MAX_SUBMIT,
        nr_words: WORDS as u32,
        user_contexts: settings.user_contexts,
        user_items: settings.user_items,
        min_work_ns: MIN_WORK,
        max_work_ns: MAX_WORK,
        word_poll_ns: settings.word_poll.0,
        completion_ring: inbox::CAPACITY as u32,
        reserved: 0,
    };
    Ok(())
}

/// Describes a GPU.
pub(super) fn gpu_info(file: &File, io: &mut zernel_sim_gpu_info) -> Result {
    let card = file.card(io.gpu)?;
    let settings = &file.hub.inner().settings;
    let (tsgs, suspended) = card.at_present(|model| (model.nr_tsgs(), model.suspended()));
    let mut preset = [0; ZERNEL_SIM_NAME_LEN as usize];
    for (to, from) in preset.iter_mut().zip(card.preset.name.bytes()) {
        *to = from;
    }
    *io = zernel_sim_gpu_info {
        gpu: io.gpu,
        nr_engines: settings.copy_engines.saturating_add(1),
        nr_copy_engines: settings.copy_engines,
        nr_sms: card.preset.sms,
        max_tsgs: settings.max_tsgs,
        nr_tsgs: tsgs,
        default_timeslice_us: DEFAULT_TIMESLICE.0,
        suspended: suspended.into(),
        context_bytes: card.preset.context_bytes(),
        bandwidth: card.preset.bandwidth(),
        save_ns: card.preset.switch_cost().0,
        restore_ns: card.preset.switch_cost().0,
        copy_switch_ns: Preset::COPY_SWITCH_COST.0,
        preempt_op_ns: settings.costs.preempt.0,
        enable_op_ns: settings.costs.enable.0,
        slice_op_ns: settings.costs.slice.0,
        preset,
    };
    Ok(())
}

/// Figures of a TSG.
pub(super) fn tsg_stats(file: &File, io: &mut zernel_sim_tsg_stats) -> Result {
    must_be_zero(&[io.reserved])?;
    let (gpu, tsg) = match io.context {
        0 => (Handle(io.tsg).gpu(), Handle(io.tsg)),
        id => {
            let owned = file.context(id)?;
            (owned.gpu, owned.tsg)
        }
    };
    let found = file.card(gpu)?.at_present(|model| {
        let context = model.context(tsg)?.clone();
        Ok::<_, Error>((model.tsg_stats(tsg)?, context))
    });
    let (stats, context) = found?;
    if io.context == 0 && context.user.uid() != task::uid() && !task::may_observe() {
        return Err(EPERM);
    }
    *io = zernel_sim_tsg_stats {
        context: io.context,
        reserved: 0,
        tsg: tsg.0,
        now_ns: stats.now.0,
        created_ns: stats.created.0,
        busy_ns: stats.times.busy.0,
        switch_ns: stats.times.switch.0,
        wait_ns: stats.times.wait.0,
        inactive_ns: stats.times.inactive.0,
        switches: stats.switches,
        preemptions: stats.preemptions,
        waits: stats.times.waits,
        max_wait_ns: stats.times.max_wait.0,
        completed: stats.completed,
        queued: stats.queued.into(),
        slice_changes: stats.slice_changes,
        slice_changed_ns: stats.slice_changed.0,
        timeslice_us: stats.timeslice.0,
        interleave: stats.interleave.level(),
        enabled: stats.enabled.into(),
        on_engine: stats.on_engine.into(),
        gpu,
        engine: stats.engine,
        pid: context.process.seen(),
        tid: context.thread.seen(),
    };
    Ok(())
}

/// Figures of an engine.
pub(super) fn engine_stats(file: &File, io: &mut zernel_sim_engine_stats) -> Result {
    let stats = file
        .card(io.gpu)?
        .at_present(|model| model.engine_stats(io.engine))?;
    *io = zernel_sim_engine_stats {
        gpu: io.gpu,
        engine: io.engine,
        now_ns: stats.now.0,
        created_ns: stats.created.0,
        busy_ns: stats.times.busy.0,
        switch_ns: stats.times.switch.0,
        idle_ns: stats.times.idle.0,
        switches: stats.switches,
        rearms: stats.rearms,
        completed: stats.completed,
        nr_tsgs: stats.nr_tsgs,
        nr_runnable: stats.nr_runnable,
    };
    Ok(())
}
