// SPDX-License-Identifier: GPL-2.0
//! Events of GPUs, TSGs and signals, as the streams get them.

use super::{
    gpu::{
        self,
        Gpu, //
    },
    groups::Groups,
    tsg::{
        self,
        Tsg, //
    },
    turns::has_turns,
    Registry, //
};
use crate::{
    glue::{
        cgroup::Cgroup,
        identity::Pid,
        thread::Thread,
        uapi, //
    },
    policy::{
        attribute::Source,
        prefetch::Signal, //
    },
    stream::{
        Event,
        Streams,
        Subject, //
    },
};

/// What happened to a TSG.
#[derive(Clone, Copy, Debug)]
pub(super) enum Tidings {
    /// Its provider reported it.
    Added = uapi::ZERNEL_EVENT_TSG_ADDED as isize,
    /// It is gone.
    Removed = uapi::ZERNEL_EVENT_TSG_REMOVED as isize,
    /// Another level, or source of it, is in force.
    Class = uapi::ZERNEL_EVENT_TSG_CLASS as isize,
    /// The provider took its settings.
    Applied = uapi::ZERNEL_EVENT_TSG_APPLIED as isize,
    /// The provider refused them for good.
    Error = uapi::ZERNEL_EVENT_TSG_ERROR as isize,
}

fn header(kind: u32) -> uapi::zernel_event {
    uapi::zernel_event {
        kind,
        ..Default::default()
    }
}

/// Number of the origin of a value.
pub(crate) fn source(source: Source) -> u32 {
    match source {
        Source::None => uapi::ZERNEL_SOURCE_NONE,
        Source::Cgroup => uapi::ZERNEL_SOURCE_CGROUP,
        Source::Process => uapi::ZERNEL_SOURCE_PROCESS,
        Source::Thread => uapi::ZERNEL_SOURCE_THREAD,
        Source::Tsg => uapi::ZERNEL_SOURCE_TSG,
        Source::Default => uapi::ZERNEL_SOURCE_DEFAULT,
        Source::Level => uapi::ZERNEL_SOURCE_LEVEL,
    }
}

/// Tells what happened to a TSG. `error`: 0, or the negative errno of its provider.
pub(super) fn tell(
    (streams, groups): (&mut Streams, &Groups),
    tidings: Tidings,
    id: tsg::Id,
    tsg: &Tsg,
    error: i32,
) {
    if streams.count() == 0 {
        return;
    }
    let level = tsg.effective.level;
    let event = uapi::zernel_event_tsg {
        event: header(tidings as u32),
        tsg: id.0,
        gpu: tsg.gpu.0,
        level: level.map_or(uapi::ZERNEL_LEVEL_NONE, |level| level.number()),
        source: source(tsg.effective.source()),
        timeslice_us: tsg.current.map_or(0, |hw| hw.timeslice.0),
        error,
        ..Default::default()
    };
    let subject = Subject {
        gpu: tsg.gpu.0,
        tsg: id.0,
        owner: Some((&tsg.owner.process, tsg.owner.uid)),
        thread: Some(&tsg.owner.thread),
        is_private: false,
        is_in_cgroup: &|top| groups.is_within(tsg.cgroup, top),
    };
    streams.push(Event::Tsg(event), &subject);
}

fn tell_gpu(streams: &mut Streams, kind: u32, id: gpu::Id, state: u32) {
    let event = uapi::zernel_event_gpu {
        event: header(kind),
        gpu: id.0,
        state,
        ..Default::default()
    };
    let subject = Subject {
        gpu: id.0,
        tsg: 0,
        owner: None,
        thread: None,
        is_private: false,
        is_in_cgroup: &|_| false,
    };
    streams.push(Event::Gpu(event), &subject);
}

impl Registry {
    /// The state of a GPU, `ZERNEL_GPU_SUSPENDED` and so on.
    pub(crate) fn state_of(&self, gpu: &Gpu) -> u32 {
        gpu.state(has_turns(&self.tunables))
    }

    /// Tells that a GPU was added.
    pub(super) fn tell_added(&mut self, id: gpu::Id) {
        let has_turns = has_turns(&self.tunables);
        if let Some(gpu) = self.gpus.get_mut(&id) {
            gpu.told = gpu.state(has_turns);
            let kind = uapi::ZERNEL_EVENT_GPU_ADDED;
            tell_gpu(&mut self.streams, kind, id, gpu.told);
        }
    }

    /// Tells that a GPU is gone.
    pub(super) fn tell_removed(&mut self, id: gpu::Id, gpu: &Gpu) {
        let state = self.state_of(gpu);
        let kind = uapi::ZERNEL_EVENT_GPU_REMOVED;
        tell_gpu(&mut self.streams, kind, id, state);
    }

    /// Tells the state of a GPU if it is another one than was told.
    pub(super) fn tell_state(&mut self, id: gpu::Id) {
        let has_turns = has_turns(&self.tunables);
        let Some(gpu) = self.gpus.get_mut(&id) else {
            return;
        };
        let state = gpu.state(has_turns);
        if state != gpu.told {
            gpu.told = state;
            let kind = uapi::ZERNEL_EVENT_GPU_STATE;
            tell_gpu(&mut self.streams, kind, id, state);
        }
    }

    /// Does that for all GPUs.
    pub(super) fn tell_states(&mut self) {
        let mut next = self.gpu_from(gpu::Id(0)).map(|(id, _)| id);
        while let Some(id) = next {
            self.tell_state(id);
            next = self.gpu_from(gpu::Id(id.0 + 1)).map(|(id, _)| id);
        }
    }

    /// Tells those who may see it that it is time for a process, which has that id among those that
    /// are tracked, to load its next batch.
    pub(crate) fn signal_prefetch(
        &mut self,
        process: &Pid,
        thread: &Thread,
        id: u64,
        signal: &Signal,
    ) {
        let uid = thread.uid();
        let event = uapi::zernel_event_signal {
            event: header(uapi::ZERNEL_EVENT_SIGNAL),
            process: id,
            signal: uapi::ZERNEL_SIGNAL_PREFETCH,
            elapsed_ns: signal.elapsed.0,
            predicted_ns: signal.predicted.0,
            lead_ns: signal.lead.0,
            ..Default::default()
        };
        let is_in_cgroup = |top| {
            let cgroup = Cgroup::of(process);
            cgroup.is_some_and(|cgroup| cgroup.ids().any(|id| id == top))
        };
        let subject = Subject {
            gpu: 0,
            tsg: 0,
            owner: Some((process, uid)),
            thread: None,
            is_private: !thread.is_of(uid),
            is_in_cgroup: &is_in_cgroup,
        };
        self.streams.push(Event::Signal(event), &subject);
    }
}
