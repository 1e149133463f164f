// SPDX-License-Identifier: GPL-2.0
//! TSGs that are to be served at once, by a run list that begins anew.

use super::{
    Budgets,
    Pass, //
};
use crate::{
    glue::time::now_ns,
    policy::{
        level::{
            self,
            Level, //
        },
        units::{
            Ms,
            Ns, //
        },
    },
    registry::{
        self,
        tsg, //
    },
    request::{
        device::Device,
        kicks::{
            self,
            Urgent, //
        },
    },
};

impl Pass {
    /// A TSG with a risen level is to be served at once, where that is possible.
    pub(super) fn urge(&self, tsg: tsg::Id, level: Level) {
        if !self.ops.abilities().kick {
            return;
        }
        // Without a registry nobody is served.
        let device = registry::with(|r| Some(r.gpu(self.gpu)?.requests.clone()));
        if let Ok(Some(device)) = device {
            if device.can_kick() {
                device.urge(Urgent { tsg, level });
            }
        }
    }

    /// Has run lists begin anew for TSGs that are to be served at once. Where a level keeps the engine
    /// from them, they wait until it does not. Returns when to come back if the provider cannot do so
    /// now.
    pub(super) fn kick_urgent(
        &self,
        device: &Device,
        budgets: &Budgets,
        kept: level::Set,
    ) -> Option<Ms> {
        let throttled = budgets.throttled();
        let mut waits = None;
        // Those that come meanwhile wake the worker once more: others are not to wait for them.
        for _ in 0..kicks::ROOM {
            let urgent = device.urgent()?;
            let Urgent { tsg, level } = urgent;
            let handle = registry::with(|r| r.urgent(tsg)).unwrap_or(None);
            let Some(handle) = handle.filter(|_| !throttled.contains(level)) else {
                continue;
            };
            if budgets.keeps_from(level, kept) {
                device.put_off(urgent);
                if waits == Some(urgent) {
                    // All of them were here once.
                    return None;
                }
                waits.get_or_insert(urgent);
                continue;
            }
            let began = Ns(now_ns());
            let result = self.ops.kick(self.handle, handle);
            device.took(Ns(now_ns()).saturating_sub(began));
            let delay = registry::with(|r| r.was_kicked(self.gpu, tsg, result));
            if let Ok(Some(delay)) = delay {
                return Some(delay);
            }
        }
        None
    }
}
