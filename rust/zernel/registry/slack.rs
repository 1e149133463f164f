// SPDX-License-Identifier: GPL-2.0
//! Slices of single TSGs in place of those of their levels.

use super::{
    tsg,
    Registry, //
};
use crate::{
    policy::{
        rotation::entity::Sample,
        slices::{
            may_keep,
            slack::Seen, //
        },
        tunables::settings::OfTsg,
        units::{
            Ns,
            Us, //
        },
    },
    request::group::Group,
};
use kernel::sync::Arc;

/// A TSG that has requests with deadlines.
pub(crate) struct Claim {
    /// The provider's number.
    pub(crate) handle: u64,
    /// Its requests.
    pub(crate) group: Arc<Group>,
    /// The slice of its level.
    table: Us,
    /// The slice that the GPU has for it, as far as known.
    slice: Us,
    /// A manager gave it a level that is not anybody's.
    may_lengthen: bool,
}

impl Claim {
    /// The TSG as its provider tells it now.
    pub(crate) fn seen(&self, sample: &Sample, now: Ns) -> Seen {
        Seen {
            now,
            ran: sample.ran,
            ended: self.group.stats.done(),
            is_runnable: sample.runnable,
            table: self.table,
            slice: self.slice,
            may_lengthen: self.may_lengthen,
        }
    }
}

impl Registry {
    /// A TSG with requests; `None`: it is gone, or has no slice of zernel.
    pub(crate) fn claim(&self, id: tsg::Id) -> Option<Claim> {
        let tsg = self.tsgs.get(&id)?;
        let gpu = self.gpus.get(&tsg.gpu).filter(|gpu| !gpu.closing)?;
        // As if it had no slice of its own.
        let on = gpu.conditions().of(OfTsg::NONE);
        let settings = self.tunables.settings(tsg.effective, on)?;
        let level = tsg.effective.level?;
        Some(Claim {
            handle: tsg.handle,
            group: tsg.requests.clone()?,
            table: settings.timeslice,
            slice: tsg.current.map_or(settings.timeslice, |hw| hw.timeslice),
            may_lengthen: tsg.effective.may_keep && may_keep(level),
        })
    }

    /// A TSG has this slice in place of that of its level; `None`: that.
    pub(crate) fn set_slice(&mut self, id: tsg::Id, slice: Option<Us>) {
        let Some(tsg) = self.tsgs.get_mut(&id).filter(|tsg| tsg.slice != slice) else {
            return;
        };
        tsg.slice = slice;
        self.refresh(id);
    }

    /// A TSG is not watched any more.
    pub(crate) fn unclaim(&mut self, id: tsg::Id) {
        self.set_slice(id, None);
        if let Some(group) = self.tsgs.get(&id).and_then(|tsg| tsg.requests.as_ref()) {
            group.unclaim();
        }
    }
}
