// SPDX-License-Identifier: GPL-2.0
//! The state of the registry as text, in `zernel/state` of debugfs.

use crate::{
    glue::{
        debugfs::{
            Show,
            Text, //
        },
        identity::Viewer, //
    },
    policy::level::Level,
    registry::{
        self,
        gpu,
        tsg,
        Registry, //
    },
};
use kernel::{
    fmt::Write as _,
    prelude::*, //
};

/// TSGs written with the registry locked once.
const BATCH: usize = 64;

/// The file `state`.
pub(crate) struct State;

impl Show for State {
    fn show(out: &mut Text) -> Result {
        registry::with(|r| head(r, out))??;
        let viewer = Viewer::current();
        let mut from = Some(tsg::Id::FIRST);
        while let Some(id) = from {
            from = registry::with(|r| tsgs(r, id, &viewer, out))??;
        }
        Ok(())
    }
}

fn head(registry: &Registry, out: &mut Text) -> Result {
    let (gpus, tsgs, assignments) = registry.population();
    let t = registry.tunables();
    out.write_fmt(fmt!(
        "enabled {} user_control {} gpus {} tsgs {} assignments {}\n",
        u8::from(t.enabled()),
        t.user_control().name(),
        gpus,
        tsgs,
        assignments
    ))?;
    for level in Level::ALL {
        out.write_fmt(fmt!(
            "level {} timeslice_us {} interleave {}\n",
            level.number(),
            t.timeslice(level).0,
            level.interleave().number()
        ))?;
    }
    let mut from = gpu::Id(0);
    while let Some((id, gpu)) = registry.gpu_from(from) {
        out.write_fmt(fmt!(
            "gpu {} handle {} tsgs {} pending {} suspended {} retrying {} applied {} retries {} errors {}\n",
            id.0,
            gpu.handle.0,
            gpu.tsgs,
            gpu.pending,
            u8::from(gpu.suspended),
            u8::from(gpu.retrying),
            gpu.applied,
            gpu.retries,
            gpu.errors
        ))?;
        from = gpu::Id(id.0 + 1);
    }
    Ok(())
}

/// Writes some TSGs from `from` on; returns where to go on.
fn tsgs(
    registry: &Registry,
    from: tsg::Id,
    viewer: &Viewer,
    out: &mut Text,
) -> Result<Option<tsg::Id>> {
    let mut from = from;
    for _ in 0..BATCH {
        let Some((id, tsg)) = registry.tsg_from(from, viewer) else {
            return Ok(None);
        };
        let level = tsg.effective.level.map_or(-1, |l| l.number() as i32);
        out.write_fmt(fmt!(
            "tsg {} gpu {} handle {} pid {} uid {} compute {} shared {} level {} source {} \
             timeslice_us {} default_us {} managed {} queued {} failed {}\n",
            id.0,
            tsg.gpu.0,
            tsg.handle,
            viewer.number_of(&tsg.owner.process),
            tsg.owner.uid.0,
            u8::from(tsg.traits.compute),
            u8::from(tsg.traits.shared),
            level,
            tsg.effective.source() as u32,
            tsg.current.map_or(0, |hw| hw.timeslice.0),
            tsg.original.map_or(0, |hw| hw.timeslice.0),
            u8::from(tsg.managed),
            u8::from(tsg.queued.is_some()),
            u8::from(tsg.failed)
        ))?;
        from = id.after();
    }
    Ok(Some(from))
}
