// SPDX-License-Identifier: GPL-2.0
//! Events, their subjects, and filters.

use crate::glue::{
    abi::Abi,
    identity::{
        Pid,
        Uid, //
    },
    uapi, //
};

/// Bytes of the largest event.
pub(crate) const EVENT_MAX: u32 = size_of::<uapi::zernel_event_signal>() as u32;

/// The kinds of event that there are, one bit each.
pub(crate) const KINDS: u64 = 1 << uapi::ZERNEL_EVENT_GPU_ADDED
    | 1 << uapi::ZERNEL_EVENT_GPU_REMOVED
    | 1 << uapi::ZERNEL_EVENT_GPU_STATE
    | 1 << uapi::ZERNEL_EVENT_TSG_ADDED
    | 1 << uapi::ZERNEL_EVENT_TSG_REMOVED
    | 1 << uapi::ZERNEL_EVENT_TSG_CLASS
    | 1 << uapi::ZERNEL_EVENT_TSG_APPLIED
    | 1 << uapi::ZERNEL_EVENT_TSG_ERROR
    | 1 << uapi::ZERNEL_EVENT_SIGNAL;

/// An event. Header, and number of the owner, are filled in for each stream; of the header a writer
/// sets the kind alone.
#[derive(Clone, Copy)]
pub(crate) enum Event {
    /// Of a GPU.
    Gpu(uapi::zernel_event_gpu),
    /// Of a TSG.
    Tsg(uapi::zernel_event_tsg),
    /// A signal for a process.
    Signal(uapi::zernel_event_signal),
}

impl Event {
    pub(super) fn bytes(&self) -> &[u8] {
        match self {
            Self::Gpu(event) => event.bytes(),
            Self::Tsg(event) => event.bytes(),
            Self::Signal(event) => event.bytes(),
        }
    }

    fn header(&self) -> &uapi::zernel_event {
        match self {
            Self::Gpu(event) => &event.event,
            Self::Tsg(event) => &event.event,
            Self::Signal(event) => &event.event,
        }
    }

    pub(super) fn header_mut(&mut self) -> &mut uapi::zernel_event {
        match self {
            Self::Gpu(event) => &mut event.event,
            Self::Tsg(event) => &mut event.event,
            Self::Signal(event) => &mut event.event,
        }
    }

    /// The bit of its kind.
    pub(super) fn kind(&self) -> u64 {
        1u64.checked_shl(self.header().kind).unwrap_or(0)
    }

    pub(super) fn set_owner(&mut self, number: u32, user: u32) {
        match self {
            Self::Gpu(_) => {}
            Self::Tsg(event) => (event.pid, event.uid) = (number, user),
            Self::Signal(event) => (event.pid, event.uid) = (number, user),
        }
    }
}

/// Calls a function for each of some cgroups.
pub(crate) type Cgroups<'a> = &'a dyn Fn(&mut dyn FnMut(u64));

/// The subject of an event: decides the streams that get it.
pub(crate) struct Subject<'a> {
    /// Id of the GPU; 0: none.
    pub(crate) gpu: u64,
    /// Id of the TSG; 0: none.
    pub(crate) tsg: u64,
    /// Its process, and the user of that. A subject without one is everybody's.
    pub(crate) owner: Option<(&'a Pid, Uid)>,
    /// The thread that made it.
    pub(crate) thread: Option<&'a Pid>,
    /// Its user may not see it.
    pub(crate) is_private: bool,
    /// Calls a function for each cgroup that its process is in, from the lowest on.
    pub(crate) each_cgroup: Cgroups<'a>,
}

impl Subject<'_> {
    /// A GPU: everybody's.
    pub(crate) fn of_gpu(gpu: u64) -> Self {
        Self {
            gpu,
            tsg: 0,
            owner: None,
            thread: None,
            is_private: false,
            each_cgroup: &|_| (),
        }
    }
}

/// Events that a stream lets through.
pub(crate) enum Filter {
    /// All.
    All,
    /// Those of a GPU and its TSGs.
    Gpu(u64),
    /// Those of a TSG.
    Tsg(u64),
    /// Those of a process and its TSGs.
    Process(Pid),
    /// Those of the TSGs that a thread made.
    Thread(Pid),
    /// Those of the processes in a cgroup or below.
    Cgroup(u64),
}
