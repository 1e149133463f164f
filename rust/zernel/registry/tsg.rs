// SPDX-License-Identifier: GPL-2.0
//! A channel group in the registry.

use super::{
    gpu,
    gpu_time::Meter,
    queue, //
};
use crate::{
    glue::identity::{
        Pid,
        Uid,
        COMM_LEN, //
    },
    policy::{
        class::Effective,
        tunables::settings::Settings,
        units::Us, //
    },
    request::group::Group,
};
use kernel::sync::Arc;

/// Most TSGs of a GPU at a time.
pub(crate) const MAX_PER_GPU: u32 = 4096;

/// Id of a TSG: never used again, not even after a reload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Id(pub(crate) u64);

impl Id {
    /// Before every id.
    pub(crate) const FIRST: Self = Self(0);

    /// The next possible id.
    pub(crate) fn after(self) -> Self {
        Self(self.0.saturating_add(1))
    }
}

/// The settings that the driver holds for a TSG.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Hardware {
    /// Its time slice.
    pub(crate) timeslice: Us,
    /// Its interleave level, if the provider can set it.
    pub(crate) interleave: Option<u32>,
}

/// The settings that the driver should hold for a TSG.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Want {
    timeslice: Us,
    /// Only where the slice that it held before is longer.
    only_shortens: bool,
    /// `None`: the one that it held before.
    interleave: Option<u32>,
}

impl Want {
    /// The meaning of `settings` on a GPU with these abilities.
    pub(crate) fn new(settings: Settings, abilities: gpu::Abilities) -> Self {
        let interleave = settings.interleave.filter(|_| abilities.interleave);
        Self {
            timeslice: settings.timeslice,
            only_shortens: settings.only_shortens,
            interleave: interleave.map(|interleave| interleave.number()),
        }
    }

    /// The same for a TSG of which the driver held `original`.
    pub(crate) fn over(self, original: Hardware) -> Hardware {
        Hardware {
            timeslice: match self.only_shortens {
                true => self.timeslice.min(original.timeslice),
                false => self.timeslice,
            },
            interleave: self.interleave.or(original.interleave),
        }
    }
}

/// What a provider says about a TSG, and may say otherwise later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Traits {
    /// Whether it runs on a compute engine.
    pub(crate) compute: bool,
    /// Whether it carries the work of several processes: then no class raises it.
    pub(crate) shared: bool,
    /// Number in the hardware.
    pub(crate) hw_tsg: u32,
    /// Engine type.
    pub(crate) engine: u32,
    /// Run list.
    pub(crate) runlist: u32,
    /// Channels now.
    pub(crate) channels: u32,
}

/// Whose a TSG is.
pub(crate) struct Owner {
    /// The process.
    pub(crate) process: Pid,
    /// The thread that made it.
    pub(crate) thread: Pid,
    /// The user.
    pub(crate) uid: Uid,
    /// Name of the thread.
    pub(crate) comm: [u8; COMM_LEN],
}

/// A channel group.
///
/// # Invariants
///
/// Exactly one of `queued` and `spare` is set: the node of the queue is either in use or at hand,
/// so that queueing never allocates.
pub(crate) struct Tsg {
    /// Its GPU.
    pub(crate) gpu: gpu::Id,
    /// The provider's number.
    pub(crate) handle: u64,
    /// What the provider says about it.
    pub(crate) traits: Traits,
    /// Whose it is.
    pub(crate) owner: Owner,
    /// Cgroup of the owner, 0 if unknown.
    pub(crate) cgroup: u64,
    /// `CLOCK_MONOTONIC` time of its arrival, ns.
    pub(crate) added_ns: u64,
    /// The class in force.
    pub(crate) effective: Effective,
    /// What the driver should hold; `None`: what it held before.
    pub(crate) want: Option<Want>,
    /// What the driver held before zernel changed it, as far as known.
    pub(crate) original: Option<Hardware>,
    /// What the driver holds, as far as known.
    pub(crate) current: Option<Hardware>,
    /// `current` is certain; not so after a call that failed and may have had its effect, nor
    /// after a refresh.
    pub(crate) sure: bool,
    /// A refresh came since the last step was taken, so that what comes of it makes nothing certain.
    pub(crate) doubted: bool,
    /// Its owner was let through once without being followed: nothing is certain any more, except
    /// what was just read.
    pub(crate) loose: bool,
    /// A provider's call for it is under way.
    pub(crate) busy: bool,
    /// zernel changed it, or is about to: `original` is what it gets back.
    pub(crate) managed: bool,
    /// It is not to be scheduled for now.
    pub(crate) disable: bool,
    /// It is kept off the GPU for a request.
    pub(crate) excluded: bool,
    /// Whether it is not, as far as known: not known after a call that failed.
    pub(crate) disabled: Option<bool>,
    /// The last change failed for good.
    pub(crate) failed: bool,
    /// Its requests, once it had one.
    pub(crate) requests: Option<Arc<Group>>,
    /// Settings the provider took.
    pub(crate) applied: u64,
    /// Settings it refused for good.
    pub(crate) errors: u64,
    /// The negative errno of the last of these; 0: none.
    pub(crate) last_error: i32,
    /// What it has done.
    pub(crate) meter: Meter,
    /// Its place in the queue of the worker.
    pub(crate) queued: Option<queue::Place>,
    /// The node for its next place.
    pub(crate) spare: Option<queue::Reservation>,
}

impl Tsg {
    /// Whether zernel has settings in force on it or is about to: from the moment a class applies
    /// until its own settings are back. A TSG that refused to take them back is its owner's again.
    pub(crate) fn is_held(&self) -> bool {
        self.want.is_some() || (self.managed && !self.failed)
    }

    /// Whether the driver has, or may have, something of it that is to be given back.
    pub(crate) fn is_changed(&self) -> bool {
        self.managed || self.disabled != Some(false)
    }
}
