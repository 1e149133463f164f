// SPDX-License-Identifier: GPL-2.0
//! Events of TSGs and GPUs, as the streams get them.

use super::{
    gpu,
    groups::Groups,
    tsg::{
        self,
        Tsg, //
    }, //
};
use crate::{
    glue::{
        rcu::Writer,
        uapi, //
    },
    policy::attribute::Source,
    stream::{
        self,
        Event,
        Subject, //
    },
};

/// An event of a TSG.
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

pub(super) fn header(kind: u32) -> uapi::zernel_event {
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

/// Reports an event of a TSG. `error`: 0, or the negative errno of its provider.
///
/// The TSG is shown as it is now first. So a program that has started a stream, and looks at the TSG
/// then, sees the change or gets the event.
pub(super) fn tell(
    (groups, writer): (&Groups, &Writer),
    tidings: Tidings,
    id: tsg::Id,
    tsg: &Tsg,
    error: i32,
) {
    tsg.show(writer);
    if !stream::is_heard() {
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
        each_cgroup: &|f| groups.each_above(tsg.cgroup, f),
    };
    stream::push(Event::Tsg(event), &subject);
}

/// Reports an event of a GPU.
pub(super) fn tell_gpu(kind: u32, id: gpu::Id, state: u32) {
    let event = uapi::zernel_event_gpu {
        event: header(kind),
        gpu: id.0,
        state,
        ..Default::default()
    };
    stream::push(Event::Gpu(event), &Subject::of_gpu(id.0));
}
