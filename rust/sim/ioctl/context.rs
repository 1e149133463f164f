// SPDX-License-Identifier: GPL-2.0
//! Contexts: made, ended, and their eventfds.

use super::{
    must_be_zero,
    Arg, //
};
use crate::{
    context::Context,
    file::{
        mmap_offset,
        File,
        Owned, //
    },
    glue::{
        eventfd::EventFd,
        provider_side::{
            Setting,
            Tsg,
            Verdict, //
        },
        sim::words::Words, //
    },
    model::{
        arena::Index,
        gpu::MAX_CHANNELS,
        measures::Us, //
        tsg::Interleave,
    },
    provider::Change, //
    uapi::*,
};
use kernel::{
    prelude::*,
    sync::Arc, //
};

/// Makes a context.
pub(super) fn create(file: &File, arg: Arg) -> Result {
    let mut io: zernel_sim_context_create = arg.read()?;
    let share = io.flags & ZERNEL_SIM_CONTEXT_SHARE_WORDS != 0;
    must_be_zero(&[io.flags & !ZERNEL_SIM_CONTEXT_SHARE_WORDS, io.reserved])?;
    if (!share && io.share_context != 0) || io.nr_channels == 0 || io.nr_channels > MAX_CHANNELS {
        return Err(EINVAL);
    }
    let copy = match io.engine_type {
        ZERNEL_SIM_ENGINE_COMPUTE => false,
        ZERNEL_SIM_ENGINE_COPY => true,
        _ => return Err(EINVAL),
    };
    let engine = match io.engine {
        ZERNEL_SIM_ENGINE_ANY => None,
        number if (number != 0) == copy => Some(number),
        _ => return Err(ENOENT),
    };
    file.card(io.gpu)?;
    let sharer = match share {
        true => Some(file.context(io.share_context)?),
        false => None,
    };
    if sharer.as_ref().is_some_and(|sharer| sharer.gpu != io.gpu) {
        return Err(EINVAL);
    }
    file.inbox.prepare()?;
    let owned = file.add(|id| {
        let owned = make(file, &mut io, id, copy, engine, sharer.as_ref())?;
        let tsg = description(&owned, io.engine_type, io.engine, io.nr_channels);
        // One that zernel cannot take is not managed; it works all the same.
        let _ = file.hub.tsg_added(u64::from(io.gpu), &tsg);
        Ok(owned)
    })?;
    io.context = owned.context.id;
    io.tsg = owned.tsg.0;
    io.mmap_offset = mmap_offset(owned.context.id);
    let written = arg.write(&io);
    if written.is_err() {
        // Nobody knows of it. It may be gone already if the caller guessed its id.
        let _ = file.remove(owned.context.id);
    }
    written
}

/// The description of a TSG for `zernel.ko`.
pub(super) fn description(owned: &Owned, engine_type: u32, engine: u32, channels: u32) -> Tsg<'_> {
    Tsg {
        handle: owned.tsg.0,
        compute: engine_type == ZERNEL_SIM_ENGINE_COMPUTE,
        shared: false,
        place: owned.tsg.ix().raw(),
        engine_type,
        runlist: engine,
        channels,
        process: owned.context.process.task(),
        thread: owned.context.thread.task(),
    }
}

/// Makes the TSG of a context.
fn make(
    file: &File,
    io: &mut zernel_sim_context_create,
    id: u32,
    copy: bool,
    engine: Option<u32>,
    sharer: Option<&Owned>,
) -> Result<Owned> {
    let sim = file.hub.inner();
    let words = match sharer {
        Some(sharer) => sharer.context.words.clone(),
        None => Arc::new(Words::new()?, GFP_KERNEL_ACCOUNT)?,
    };
    let user = &file.user;
    user.contexts.charge(1, sim.settings.user_contexts)?;
    let made = Context::new(id, words, file.inbox.clone(), user.clone()).and_then(|context| {
        let card = sim.card(io.gpu)?;
        let sharer = sharer.map(|sharer| sharer.tsg);
        let serial = sim.next_serial();
        let (tsg, engine) = card.create(serial, &context, copy, engine, io.nr_channels, sharer)?;
        io.engine = engine;
        Ok(Owned {
            gpu: io.gpu,
            tsg,
            context,
        })
    });
    if made.is_err() {
        user.contexts.release(1);
    }
    made
}

/// Ends a context.
pub(super) fn destroy(file: &File, io: &zernel_sim_context_destroy) -> Result {
    must_be_zero(&[io.reserved])?;
    file.remove(io.context)
}

/// Adds memory of the program to the words of a context.
pub(super) fn memory(file: &File, io: &zernel_sim_memory) -> Result {
    must_be_zero(&[io.reserved])?;
    let owned = file.context(io.context)?;
    owned.context.words.add(io.address, io.length)
}

/// Sets the eventfd of a channel.
pub(super) fn eventfd(file: &File, io: &zernel_sim_eventfd) -> Result {
    must_be_zero(&[io.reserved])?;
    let owned = file.context(io.context)?;
    file.card(owned.gpu)?
        .at_present(|model| model.channel_stats(owned.tsg, io.channel))?;
    let fd = match io.fd {
        -1 => None,
        fd => Some(EventFd::get(fd)?),
    };
    drop(owned.context.set_eventfd(io.channel, fd));
    Ok(())
}

/// Changes a setting of the caller's own TSG, if `zernel.ko` does not mind.
pub(super) fn control(file: &File, io: &zernel_sim_tsg_control) -> Result {
    must_be_zero(&[io.reserved])?;
    let (setting, change) = match io.setting {
        ZERNEL_SIM_SETTING_TIMESLICE if io.value != 0 => {
            (Setting::Timeslice, Change::Timeslice(Us(io.value)))
        }
        ZERNEL_SIM_SETTING_INTERLEAVE => {
            let level = Interleave::new(io.value).ok_or(EINVAL)?;
            (Setting::Interleave, Change::Interleave(level))
        }
        _ => return Err(EINVAL),
    };
    let owned = file.context(io.context)?;
    let (gpu, tsg) = (u64::from(owned.gpu), owned.tsg.0);
    if file.hub.user_control(gpu, tsg, setting) == Verdict::Deny {
        return Err(EPERM);
    }
    let changed = file.hub.inner().change(gpu, tsg, change);
    // After any answer: it may be too old by now.
    file.hub.refresh(gpu, tsg);
    changed
}
