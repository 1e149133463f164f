// SPDX-License-Identifier: GPL-2.0
//! TSGs that yield to requests with earlier deadlines: they have the settings of best-effort.

use super::{
    gpu,
    place::Named,
    tsg,
    Registry, //
};
use crate::policy::units::Us;

/// The part of a TSG that yields, or is to.
pub(crate) struct Yielding {
    /// The TSG.
    pub(crate) named: Named,
    /// It is off the GPU for others.
    pub(crate) excluded: bool,
    /// The longest time for taking the GPU away from it.
    pub(crate) timeout: Us,
}

impl Registry {
    /// A TSG yields from now on, or does not any more. Returns false if there is no such TSG on this GPU,
    /// or too many yield.
    pub(crate) fn set_yielding(&mut self, gpu: gpu::Id, id: tsg::Id, yields: bool) -> bool {
        let is_there = self.tsgs.get(&id).is_some_and(|tsg| tsg.gpu == gpu);
        let Some(known) = self.gpus.get_mut(&gpu) else {
            return false;
        };
        let (from, to) = match yields {
            true => (None, Some(id)),
            false => (Some(id), None),
        };
        if yields && (!is_there || known.yielding.contains(&to)) {
            return is_there;
        }
        let Some(place) = known.yielding.iter_mut().find(|place| **place == from) else {
            return false;
        };
        *place = to;
        if is_there {
            self.refresh(id);
        }
        is_there
    }

    /// A TSG that yields, if it is there and not gone.
    pub(crate) fn yielding(&self, id: tsg::Id) -> Option<Yielding> {
        let tsg = self.tsgs.get(&id)?;
        Some(Yielding {
            named: Named {
                id,
                handle: tsg.handle,
            },
            excluded: tsg.excluded,
            timeout: self.tunables.requests().preempt_timeout(),
        })
    }
}
