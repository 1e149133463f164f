// SPDX-License-Identifier: GPL-2.0
//! Tells `zernel.ko` of a GPU's work.

use crate::{
    glue::provider_side::{
        Bell,
        Start, //
    },
    model::{
        event,
        gpu::{
            Gpu,
            Store, //
        },
        tsg::Context, //
    },
};
use kernel::prelude::*;

/// Number of the compute engine; nobody takes turns on the others.
const COMPUTE: u32 = 0;

/// Hears of a GPU's work, under its lock.
///
/// The bell rings when a TSG gets something to run, or runs out of it; it is there once `zernel.ko`
/// knows the GPU.
pub(crate) struct Listener(Option<Bell>);

impl Listener {
    /// Tells nobody.
    pub(crate) fn new(_max_tsgs: u32) -> Result<Self> {
        Ok(Self(None))
    }

    /// Tells `zernel.ko`.
    pub(crate) const fn of(bell: Bell) -> Self {
        Self(Some(bell))
    }

    /// A TSG has got its engine.
    pub(crate) fn started(&self, start: &event::Start) {
        if let Some(bell) = self.0.as_ref().filter(|_| start.engine == COMPUTE) {
            bell.started(&Start {
                tsg: start.tsg.0,
                at: start.at.0,
                since: start.woken.map(|since| since.0),
                switch: start.switch.0,
            });
        }
    }

    /// An engine has done something.
    pub(crate) fn recorded(&self, _record: &event::Record) {}

    /// Something may have happened.
    pub(crate) fn moved<C: Context, S: Store<C>>(&mut self, gpu: &mut Gpu<C, S>) {
        while let Some(tsg) = gpu.take_stirred() {
            if let Some(bell) = &self.0 {
                bell.ring(tsg.0);
            }
        }
    }
}
