// SPDX-License-Identifier: GPL-2.0
//! Contexts: made of TSGs that the software resource manager has.

use crate::{
    context::Context,
    file::{
        mmap_offset,
        File,
        Owned, //
    },
    glue::{
        sim::words::Words,
        simrm::{
            engine::Tsg,
            raw, //
        }, //
    },
    ioctl::arg::{
        must_be_zero,
        Arg, //
    },
    model::{
        measures::Us,
        tsg::Interleave, //
    },
    uapi::*, //
};
use kernel::{
    prelude::*,
    sync::Arc, //
};

/// Makes a context of a TSG.
///
/// The resource manager's locks come before those of the address space, which come before that of
/// the contexts of a file. So the context has its id, and is put into its file, without them.
pub(super) fn attach(file: &File, arg: Arg) -> Result {
    let mut io: zernel_sim_context_attach = arg.read()?;
    let share = io.flags & ZERNEL_SIM_CONTEXT_SHARE_WORDS != 0;
    must_be_zero(&[io.flags & !ZERNEL_SIM_CONTEXT_SHARE_WORDS])?;
    if !share && io.share_context != 0 {
        return Err(EINVAL);
    }
    let sharer = match share {
        true => Some(file.context(io.share_context)?),
        false => None,
    };
    file.inbox.prepare()?;
    let place = file.reserve()?;
    let words = match &sharer {
        Some(sharer) => sharer.context.words.clone(),
        None => Arc::new(Words::new()?, GFP_KERNEL_ACCOUNT)?,
    };
    let limit = file.hub.inner().settings.user_contexts;
    file.user.contexts.charge(1, limit)?;
    let made = Context::new(place.id, words, file.inbox.clone(), file.user.clone())
        .and_then(|context| make(file, &mut io, &context, sharer.as_ref()));
    let owned = match made {
        Ok(owned) => owned,
        Err(error) => {
            file.user.contexts.release(1);
            return Err(error);
        }
    };
    let id = owned.context.id;
    file.keep(place, owned);
    io.context = id;
    io.mmap_offset = mmap_offset(id);
    let written = arg.write(&io);
    if written.is_err() {
        // Nobody knows of it. It may be gone already if the caller guessed its id.
        let _ = file.remove(id);
    }
    written
}

fn make(
    file: &File,
    io: &mut zernel_sim_context_attach,
    context: &Arc<Context>,
    sharer: Option<&Owned>,
) -> Result<Owned> {
    let mut owned = None;
    file.hub.attach(io.client, io.object, &mut |tsg| {
        let made = run(file, tsg, context, sharer)?;
        let handle = made.tsg.0;
        (io.gpu, io.engine) = (tsg.gpu, engine_of(tsg.runlist).unwrap_or(0));
        (io.nr_channels, io.tsg) = (tsg.channels.len() as u32, handle);
        owned = Some(made);
        Ok(handle)
    })?;
    owned.ok_or(EINVAL)
}

/// The engine behind a run list: the first of each kind of the model's are those of the driver.
fn engine_of(runlist: u32) -> Option<u32> {
    match runlist {
        raw::SIMRM_ENGINE_GR0 => Some(0),
        _ => Some(
            runlist
                .checked_sub(raw::SIMRM_ENGINE_COPY0)?
                .saturating_add(1),
        ),
    }
}

/// Makes the TSG, with the settings that the driver has for it.
fn run(
    file: &File,
    tsg: &Tsg<'_>,
    context: &Arc<Context>,
    sharer: Option<&Owned>,
) -> Result<Owned> {
    let sim = file.hub.inner();
    let card = sim.card(tsg.gpu).map_err(|_| ENODEV)?;
    let engine = engine_of(tsg.runlist)
        .filter(|number| *number <= sim.settings.copy_engines)
        .ok_or(ENODEV)?;
    if sharer.is_some_and(|sharer| sharer.gpu != tsg.gpu) {
        return Err(EINVAL);
    }
    let level = Interleave::new(tsg.state.interleave).ok_or(EINVAL)?;
    let (serial, sharer) = (sim.next_serial(), sharer.map(|sharer| sharer.tsg));
    let channels = tsg.channels.len() as u32;
    let (handle, _) = card.create(serial, context, engine != 0, Some(engine), channels, sharer)?;
    let set = card.with(|model, now, sink| {
        model.set_timeslice(now, handle, Us(tsg.state.slice_us), sink)?;
        model.set_interleave(now, handle, level, sink)?;
        model.set_enabled(now, handle, tsg.state.runs, sink)
    });
    let shown = card.listen(|listener| listener.show(handle, tsg));
    if let Err(error) = set.map_err(Error::from).and(shown) {
        card.destroy(handle);
        return Err(error);
    }
    card.at_present(|_| ());
    Ok(Owned {
        gpu: tsg.gpu,
        tsg: handle,
        context: context.clone(),
    })
}
