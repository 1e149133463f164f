// SPDX-License-Identifier: GPL-2.0
//! States of GPUs, and signals of processes, as the streams get them.

use super::{
    gpu::{
        self,
        Gpu, //
    },
    told::{
        header,
        tell_gpu, //
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
    policy::prefetch::Signal,
    stream::{
        self,
        Event,
        Subject, //
    },
};

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
            tell_gpu(kind, id, gpu.told);
        }
    }

    /// Tells that a GPU is gone.
    pub(super) fn tell_removed(&mut self, id: gpu::Id, gpu: &Gpu) {
        let state = self.state_of(gpu);
        let kind = uapi::ZERNEL_EVENT_GPU_REMOVED;
        tell_gpu(kind, id, state);
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
            tell_gpu(kind, id, state);
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

    /// Tells the streams that may see it that it is time for a process, with that id among tracked
    /// ones, to load its next batch.
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
        let each_cgroup = |f: &mut dyn FnMut(u64)| {
            if let Some(cgroup) = Cgroup::of(process) {
                cgroup.ids().for_each(f);
            }
        };
        let subject = Subject {
            gpu: 0,
            tsg: 0,
            owner: Some((process, uid)),
            thread: None,
            is_private: !thread.is_of(uid),
            each_cgroup: &each_cgroup,
        };
        stream::push(Event::Signal(event), &subject);
    }
}
