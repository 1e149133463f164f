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
    /// A TSG yields from now on, or does not any more. Returns false if there is no such TSG on this GPU.
    pub(crate) fn set_yielding(&mut self, gpu: gpu::Id, id: tsg::Id, yields: bool) -> bool {
        let Some(tsg) = self.tsgs.get_mut(&id).filter(|tsg| tsg.gpu == gpu) else {
            return false;
        };
        if core::mem::replace(&mut tsg.yields, yields) != yields {
            self.refresh(id);
        }
        true
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
