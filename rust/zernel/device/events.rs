// SPDX-License-Identifier: GPL-2.0
//! Start, change and end of an event stream.

use super::{
    client::Client,
    target::Target, //
};
use crate::{
    glue::{
        identity::Viewer,
        uapi, //
    },
    registry,
    stream::{
        self,
        Changed,
        Filter,
        Running,
        KINDS, //
    },
};
use kernel::prelude::*;

/// Kinds of target that a stream takes as its filter.
const FILTERS: &[u32] = &[
    uapi::ZERNEL_TARGET_NONE,
    uapi::ZERNEL_TARGET_CGROUP,
    uapi::ZERNEL_TARGET_PROCESS,
    uapi::ZERNEL_TARGET_THREAD,
    uapi::ZERNEL_TARGET_TSG,
    uapi::ZERNEL_TARGET_GPU,
];

/// Events that a stream keeps.
const CAPACITIES: core::ops::RangeInclusive<u32> = 16..=65_536;

/// Starts the stream of a file, changes it or ends it.
pub(super) fn start(client: &Client, events: &mut uapi::zernel_events) -> Result {
    let capacity = (events.capacity != 0).then_some(events.capacity);
    let is_in_range = capacity.is_none_or(|capacity| CAPACITIES.contains(&capacity));
    if events.flags != 0 || events.kinds & !KINDS != 0 || !is_in_range {
        return Err(EINVAL);
    }
    let filter = filter(Target::read(&events.filter, FILTERS)?)?;
    let capacity = capacity.map(|capacity| capacity as usize);
    // Held to the end: one call at a time for a file.
    let mut slot = client.stream.lock();
    if events.kinds == 0 {
        if let Some(stream) = &*slot {
            stream::forget(stream);
            stream.stop();
        }
        return Ok(());
    }
    let stream = client.stream_in(&mut slot)?;
    let filter = match stream.change(events.kinds, filter, capacity)? {
        Changed::Done => return Ok(()),
        Changed::Stopped(filter) => filter,
    };
    let capacity = match capacity {
        Some(capacity) => capacity,
        None => registry::with(|r| r.tunables().ring_size() as usize)?,
    };
    let running = Running::new(events.kinds, filter, capacity)?;
    stream::start(&stream, running)
}

/// The filter that a call names.
///
/// # Errors
///
/// `ENOENT` no such GPU; no such TSG, or one that the caller may not see.
fn filter(target: Target) -> Result<Filter> {
    Ok(match target {
        Target::None | Target::Level(_) => Filter::All,
        Target::Cgroup(cgroup, _) => Filter::Cgroup(cgroup.id()),
        Target::Process(pid) => Filter::Process(pid),
        Target::Thread(pid) => Filter::Thread(pid),
        Target::Gpu(id) => {
            registry::with(|r| r.gpu(id).map(|_| Filter::Gpu(id.0)))?.ok_or(ENOENT)?
        }
        Target::Tsg(id) => {
            let viewer = Viewer::current();
            let is_seen = registry::with(|r| r.tsg(id).is_some_and(|t| viewer.sees(t.owner.uid)))?;
            is_seen.then_some(Filter::Tsg(id.0)).ok_or(ENOENT)?
        }
    })
}
