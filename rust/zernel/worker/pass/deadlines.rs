// SPDX-License-Identifier: GPL-2.0
//! The step of a pass that holds requests for those with earlier deadlines.

use super::{
    calls,
    rotation,
    Pass, //
};
use crate::{
    registry,
    tuned,
    worker::takeover, //
};

impl Pass {
    /// Does one thing about deadlines, exclusion, turns and budgets. Returns the next one.
    pub(super) fn rotate(&self) -> rotation::Next {
        let mut takeover = self.takeover.lock();
        takeover.tell_missing(self.gpu, self.ops.abilities());
        if takeover.is_empty() && !tuned::order_preempts() {
            drop(takeover);
            return self.rotate_turns();
        }
        let held = self.hold(&mut takeover);
        drop(takeover);
        match held {
            rotation::Next::Wait(delay) => {
                self.budgets.lock().release();
                self.stop_looks();
                return rotation::Next::Wait(delay);
            }
            rotation::Next::Again | rotation::Next::Called => {
                // Calls are few, and those of others come in between.
                return match self.rotate_turns() {
                    rotation::Next::Wait(delay) => rotation::Next::Wait(delay),
                    _ => rotation::Next::Again,
                };
            }
            _ => {}
        }
        match (self.rotate_turns(), held) {
            (rotation::Next::At(at), rotation::Next::At(other)) => {
                rotation::Next::At(at.min(other))
            }
            (rotation::Next::Idle, held) => held,
            (next, _) => next,
        }
    }

    fn hold(&self, takeover: &mut takeover::Takeover) -> rotation::Next {
        let abilities = self.ops.abilities();
        if !abilities.enable {
            return rotation::Next::Idle;
        }
        let device = registry::with(|r| {
            let gpu = r.gpu(self.gpu).filter(|gpu| !gpu.unresponsive)?;
            Some(gpu.requests.clone())
        });
        let Ok(Some(device)) = device else {
            return rotation::Next::Idle;
        };
        let driver = calls::Driver {
            ops: &self.ops,
            gpu: self.gpu,
            handle: self.handle,
        };
        takeover.step(&driver, &device, abilities.preempt)
    }
}
