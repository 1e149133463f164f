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
    policy::{
        class::Effective,
        level::Level, //
    },
    registry::{
        self,
        gpu,
        tsg,
        Registry, //
    },
    request::keys::{
        self,
        Key, //
    }, //
};
use kernel::{
    fmt::Write as _,
    prelude::*, //
};

/// The file `state`.
pub(crate) struct State;

impl Show for State {
    fn show(&self, out: &mut Text) -> Result {
        head(out)?;
        let mut gpu = gpu::Id(0);
        while let Some(found) = registry::with(|r| gpu_from(r, gpu))? {
            write_gpu(&found, out)?;
            gpu = gpu::Id(found.id.saturating_add(1));
        }
        let viewer = Viewer::current();
        let mut from = tsg::Id::FIRST;
        while let Some(found) = registry::with(|r| tsg_from(r, from, &viewer))? {
            write_tsg(&found, out)?;
            from = tsg::Id(found.id).after();
        }
        let mut from = Some(keys::FIRST);
        // Keys that come and go meanwhile do not make it longer than a table.
        for _ in 0..keys::MAX {
            let Some(key) = from else { break };
            let Some(((uid, name), key)) = registry::with(|r| r.key_from(key))? else {
                break;
            };
            if viewer.sees_all() || viewer.uid() == uid {
                write_key(viewer.number_of_user(uid), name, &key, out)?;
            }
            from = keys::after((uid, name));
        }
        Ok(())
    }
}

/// A key whose requests have features; of the others there is nothing to tell.
fn write_key(uid: u32, name: u64, key: &Key, out: &mut Text) -> Result {
    if let Some((confidence, follows)) = key.confidence() {
        out.write_fmt(fmt!(
            "key {} uid {} confidence {} follows {}\n",
            name,
            uid,
            confidence.0,
            u8::from(follows)
        ))?;
    }
    Ok(())
}

fn head(out: &mut Text) -> Result {
    let ((gpus, tsgs, assignments), t) = registry::with(|r| (r.population(), *r.tunables()))?;
    out.write_fmt(fmt!(
        "enabled {} user_control {} slice_policy {} gpus {} tsgs {} assignments {}\n",
        u8::from(t.enabled()),
        t.user_control().name(),
        t.slices().policy().name(),
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
    Ok(())
}

/// A GPU, copied with the registry locked and written without: that takes memory.
struct GpuLine {
    id: u64,
    handle: u64,
    tsgs: u32,
    pending: u32,
    suspended: bool,
    retrying: bool,
    calls: [u64; 3],
}

fn gpu_from(registry: &Registry, from: gpu::Id) -> Option<GpuLine> {
    let (id, gpu) = registry.gpu_from(from)?;
    Some(GpuLine {
        id: id.0,
        handle: gpu.handle.0,
        tsgs: gpu.tsgs,
        pending: gpu.pending,
        suspended: gpu.suspended,
        retrying: gpu.retrying,
        calls: [gpu.applied, gpu.retries, gpu.errors],
    })
}

fn write_gpu(gpu: &GpuLine, out: &mut Text) -> Result {
    let [applied, retries, errors] = gpu.calls;
    out.write_fmt(fmt!(
        "gpu {} handle {} tsgs {} pending {} suspended {} retrying {} applied {} retries {} errors {}\n",
        gpu.id,
        gpu.handle,
        gpu.tsgs,
        gpu.pending,
        u8::from(gpu.suspended),
        u8::from(gpu.retrying),
        applied,
        retries,
        errors
    ))?;
    Ok(())
}

/// The same of a TSG.
struct TsgLine {
    id: u64,
    gpu: u64,
    handle: u64,
    pid: u32,
    uid: u32,
    traits: tsg::Traits,
    effective: Effective,
    slices: [u32; 2],
    managed: bool,
    queued: bool,
    failed: bool,
}

fn tsg_from(registry: &Registry, from: tsg::Id, viewer: &Viewer) -> Option<TsgLine> {
    let (id, tsg) = registry.tsg_from(from, viewer)?;
    let slice = |hardware: Option<tsg::Hardware>| hardware.map_or(0, |hw| hw.timeslice.0);
    Some(TsgLine {
        id: id.0,
        gpu: tsg.gpu.0,
        handle: tsg.handle,
        pid: viewer.number_of(&tsg.owner.process),
        uid: tsg.owner.uid.0,
        traits: tsg.traits,
        effective: tsg.effective,
        slices: [slice(tsg.current), slice(tsg.original)],
        managed: tsg.managed,
        queued: tsg.queued.is_some(),
        failed: tsg.failed,
    })
}

fn write_tsg(tsg: &TsgLine, out: &mut Text) -> Result {
    let [current, original] = tsg.slices;
    out.write_fmt(fmt!(
        "tsg {} gpu {} handle {} pid {} uid {} compute {} shared {} level {} source {} \
         timeslice_us {} default_us {} managed {} queued {} failed {}\n",
        tsg.id,
        tsg.gpu,
        tsg.handle,
        tsg.pid,
        tsg.uid,
        u8::from(tsg.traits.compute),
        u8::from(tsg.traits.shared),
        tsg.effective.level.map_or(-1, |l| l.number() as i32),
        tsg.effective.source() as u32,
        current,
        original,
        u8::from(tsg.managed),
        u8::from(tsg.queued),
        u8::from(tsg.failed)
    ))?;
    Ok(())
}
