// SPDX-License-Identifier: GPL-2.0
//! A TSG in the registry.

use super::{
    gpu,
    gpu_time::Meter,
    place,
    view::{
        Found,
        Shown,
        State, //
    }, //
};
pub(crate) use crate::{
    glue::provider::tsg::{
        Description,
        Hardware,
        Owner,
        Traits, //
    },
    ids::TsgId as Id,
};
use crate::{
    glue::rcu::Writer,
    policy::{
        backoff::Backoff,
        class::Effective,
        tunables::settings::{
            Meaning,
            OfTsg,
            Settings, //
        },
        units::Us, //
    },
    request::group::Group,
};
use kernel::{
    rbtree::{
        RBTree,
        RBTreeNode, //
    },
    sync::Arc, //
};

/// Most TSGs of a GPU at a time.
pub(crate) const MAX_PER_GPU: u32 = 4096;

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

/// Others than zernel that may have enabled or disabled a TSG.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sway {
    /// Somebody did since the last step was taken, so that no outcome until the next one makes
    /// anything certain.
    pub(crate) fresh: bool,
    /// Its owner did while that was the owner's to decide.
    pub(crate) own: bool,
    /// Times that its owner did since it had its last turn.
    pub(crate) count: u32,
}

impl Traits {
    /// True if the classes of the thread, process and cgroup of such a TSG, and the default one, count
    /// for it.
    pub(in crate::registry) fn follows_owner(&self, meaning: &Meaning) -> bool {
        self.compute || (self.copies && meaning.has_copies())
    }
}

/// A TSG.
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
    /// The provider's description of it.
    pub(crate) traits: Traits,
    /// Its owner.
    pub(crate) owner: Owner,
    /// Cgroup of the owner, 0 if unknown.
    pub(crate) cgroup: u64,
    /// `CLOCK_MONOTONIC` time of its arrival, ns.
    pub(crate) added_ns: u64,
    /// The class in force.
    pub(crate) effective: Effective,
    /// Its slice in place of that of its level, while that is the policy.
    pub(crate) slice: Option<Us>,
    /// It yields to a request with an earlier deadline.
    pub(crate) yields: bool,
    /// The settings that the driver should hold; `None`: those before zernel.
    pub(crate) want: Option<Want>,
    /// The settings before zernel changed them, as far as known.
    pub(crate) original: Option<Hardware>,
    /// The settings that the driver holds, as far as known.
    pub(crate) current: Option<Hardware>,
    /// `current` is certain; not so after a call that failed and may have had its effect, nor
    /// after a refresh.
    pub(crate) sure: bool,
    /// A refresh came since the last step was taken, so that its outcome makes nothing certain.
    pub(crate) doubted: bool,
    /// Its owner was let through once without being followed: nothing is certain any more, except
    /// the last reading.
    pub(crate) loose: bool,
    /// A provider's call for it is under way.
    pub(crate) busy: bool,
    /// zernel changed it, or is about to: `original` is its setting without zernel.
    pub(crate) managed: bool,
    /// It is not to be scheduled for now.
    pub(crate) disable: bool,
    /// It is kept off the GPU for a request.
    pub(crate) excluded: bool,
    /// True if it is disabled; `None` after a call that failed, and after one of others.
    pub(crate) disabled: Option<bool>,
    /// Others that may have enabled or disabled it.
    pub(crate) sway: Sway,
    /// The last change failed for good.
    pub(crate) failed: bool,
    /// Delays between changes that fail one after another.
    pub(crate) backoff: Option<Backoff>,
    /// When it may be changed again, in ns of `CLOCK_MONOTONIC`.
    pub(crate) rests_until: u64,
    /// Its requests, once it had one.
    pub(crate) requests: Option<Arc<Group>>,
    /// Settings the provider took.
    pub(crate) applied: u64,
    /// Settings it refused for good.
    pub(crate) errors: u64,
    /// The negative errno of the last of these; 0: none.
    pub(crate) last_error: i32,
    /// Its counters.
    pub(crate) meter: Meter,
    /// Its place in the queue of the worker.
    pub(crate) queued: Option<place::Place>,
    /// The node for its next place.
    pub(crate) spare: Option<place::Reservation>,
    /// There is news of it for its worker.
    pub(super) in_news: place::Entry<place::InNews, place::Told>,
    /// Its worker knows of it.
    pub(super) is_told: bool,
    /// It is to be scheduled.
    pub(super) in_schedule: place::Entry<place::InSchedule>,
    /// As others see it.
    pub(super) shown: Arc<Shown>,
}

/// TSGs that are changed at most with the registry locked once.
const CHANGES: usize = 32;

/// All TSGs, and those that were changed and are to be shown so.
pub(super) struct Tsgs {
    tsgs: RBTree<Id, Tsg>,
    changed: [Id; CHANGES],
    count: usize,
    all: bool,
}

impl Tsgs {
    pub(super) fn new() -> Self {
        Self {
            tsgs: RBTree::new(),
            changed: [Id::FIRST; CHANGES],
            count: 0,
            all: false,
        }
    }

    pub(super) fn get(&self, id: &Id) -> Option<&Tsg> {
        self.tsgs.get(id)
    }

    /// A TSG, to be changed.
    pub(super) fn get_mut(&mut self, id: &Id) -> Option<&mut Tsg> {
        let known = self.changed.get(..self.count).unwrap_or_default();
        if !known.contains(id) {
            match self.changed.get_mut(self.count) {
                Some(place) => {
                    *place = *id;
                    self.count += 1;
                }
                // More than are changed at most.
                None => self.all = true,
            }
        }
        self.tsgs.get_mut(id)
    }

    pub(super) fn insert(&mut self, node: RBTreeNode<Id, Tsg>) {
        self.tsgs.insert(node);
    }

    pub(super) fn remove_node(&mut self, id: &Id) -> Option<RBTreeNode<Id, Tsg>> {
        self.tsgs.remove_node(id)
    }

    /// The first one with an id of at least `from`.
    pub(super) fn from(&self, from: Id) -> Option<Id> {
        Some(*self.tsgs.cursor_lower_bound(&from)?.current().0)
    }

    /// Shows the changes.
    pub(super) fn show(&mut self, writer: &Writer) {
        let count = core::mem::take(&mut self.count);
        for id in self.changed.iter().take(count) {
            if let Some(tsg) = self.tsgs.get(id) {
                tsg.show(writer);
            }
        }
        if core::mem::take(&mut self.all) {
            for tsg in self.tsgs.values() {
                tsg.show(writer);
            }
        }
    }

    #[cfg(zernel_kunit)]
    pub(super) fn is_empty(&self) -> bool {
        self.tsgs.is_empty()
    }
}

impl Tsg {
    /// Shows it to those who read without the lock.
    pub(super) fn show(&self, writer: &Writer) {
        self.shown
            .update((self.gpu, self.added_ns), self.state(), writer);
    }

    /// Has another description.
    pub(super) fn describe(&mut self, traits: Traits) {
        self.traits = traits;
        if let Some(group) = &self.requests {
            group.set_runlist(traits.runlist);
        }
    }

    /// As lists show it.
    pub(crate) fn found(&self) -> Found<'_> {
        Found {
            shown: &self.shown,
            gpu: self.gpu,
            added_ns: self.added_ns,
            state: self.state(),
        }
    }

    /// Its part of the conditions that change the meaning of its class, for its settings and for those who
    /// are told of them.
    pub(super) fn own_conditions(&self) -> OfTsg {
        OfTsg {
            slice: self.slice,
            copies: self.traits.copies,
            yields: self.yields,
        }
    }

    /// Its state, as others see it.
    pub(super) fn state(&self) -> State {
        State {
            traits: self.traits,
            cgroup: self.cgroup,
            effective: self.effective,
            own: self.own_conditions(),
            original: self.original,
            current: self.current,
            done: self.meter.done,
            applied: self.applied,
            errors: self.errors,
            last_error: self.last_error,
            is_pending: self.queued.is_some() || self.busy,
            failed: self.failed,
        }
    }

    /// True if zernel has settings in force on it or is about to: from the moment a class applies
    /// until its own settings are back. A TSG that refused to take them back is its owner's again.
    pub(crate) fn is_held(&self) -> bool {
        self.want.is_some() || (self.managed && !self.failed)
    }

    /// A change failed for good. The next is tried when one is asked for; from then on, more and more
    /// time passes between two: its owner decides how often one is asked for.
    pub(crate) fn fail(&mut self, error: i32, now_ns: u64) {
        self.failed = true;
        self.errors += 1;
        self.last_error = error;
        match self.backoff {
            Some(_) => self.put_off(now_ns),
            None => self.backoff = Some(Backoff::default()),
        }
    }

    /// A change is to be tried later, after more and more time.
    pub(crate) fn put_off(&mut self, now_ns: u64) {
        let backoff = self.backoff.get_or_insert_default();
        let pause = u64::from(backoff.next().0).saturating_mul(1_000_000);
        self.rests_until = now_ns.saturating_add(pause);
    }

    /// Somebody else may have enabled or disabled it.
    pub(crate) fn was_swayed(&mut self) {
        self.disabled = None;
        self.sway.fresh = true;
    }

    /// Takes in that it is disabled, or not, as far as known from a call.
    pub(crate) fn settle(&mut self, disabled: Option<bool>) {
        self.disabled = disabled.filter(|_| !self.sway.fresh);
    }

    /// Changes may go better now.
    pub(crate) fn recover(&mut self) {
        self.failed = false;
        self.backoff = None;
        self.rests_until = 0;
    }

    /// True if the driver has, or may have, settings of zernel that are to be given back.
    pub(crate) fn is_changed(&self) -> bool {
        self.managed || self.disabled != Some(false)
    }
}
