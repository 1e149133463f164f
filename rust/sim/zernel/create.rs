// SPDX-License-Identifier: GPL-2.0
//! Contexts: made, with their TSGs, which `zernel.ko` is told of.

use crate::{
    context::Context,
    file::{
        mmap_offset,
        File,
        Owned, //
    },
    glue::{
        provider_side::Tsg,
        sim::words::Words, //
    },
    ioctl::arg::{
        must_be_zero,
        Arg, //
    },
    model::{
        arena::Index,
        gpu::MAX_CHANNELS, //
    },
    uapi::*, //
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
    let place = file.reserve()?;
    let owned = make(file, &mut io, place.id, copy, engine, sharer.as_ref())?;
    let tsg = description(&owned, io.engine_type, io.engine, io.nr_channels);
    // One that zernel cannot take is not managed; it works all the same.
    let _ = file.hub.tsg_added(u64::from(io.gpu), &tsg);
    let id = owned.context.id;
    io.context = id;
    io.tsg = owned.tsg.0;
    io.mmap_offset = mmap_offset(id);
    file.keep(place, owned);
    let written = arg.write(&io);
    if written.is_err() {
        // Nobody knows of it. It may be gone already if the caller guessed its id.
        let _ = file.remove(id);
    }
    written
}

/// The description of a TSG for `zernel.ko`.
pub(super) fn description(owned: &Owned, engine_type: u32, engine: u32, channels: u32) -> Tsg<'_> {
    Tsg {
        handle: owned.tsg.0,
        compute: engine_type == ZERNEL_SIM_ENGINE_COMPUTE,
        copies: engine_type == ZERNEL_SIM_ENGINE_COPY,
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
