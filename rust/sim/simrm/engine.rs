// SPDX-License-Identifier: GPL-2.0
//! The changes of TSGs and GPUs that the software resource manager tells of.

use crate::{
    glue::simrm::{
        engine::{
            Engine,
            State, //
        },
        registers::Registers, //
    },
    model::{
        measures::Us,
        tsg::{
            Handle,
            Interleave, //
        },
    },
    sim::Sim, //
};
use kernel::prelude::*;

impl Sim {
    /// Gives a TSG other settings. One that has ended, or a GPU that is none of these, has none.
    fn set(&self, gpu: u32, tsg: Handle, state: &State) -> Result {
        let level = Interleave::new(state.interleave).ok_or(EINVAL)?;
        self.card(gpu)?.with(|model, now, sink| {
            let stats = model.tsg_stats(tsg)?;
            if stats.timeslice != Us(state.slice_us) {
                model.set_timeslice(now, tsg, Us(state.slice_us), sink)?;
            }
            if stats.interleave != level {
                model.set_interleave(now, tsg, level, sink)?;
            }
            if stats.enabled != state.runs {
                model.set_enabled(now, tsg, state.runs, sink)?;
            }
            Ok(())
        })
    }
}

/// A call that names a TSG that has ended, or a GPU that is none of these, changes nothing.
impl Engine for Sim {
    fn update(&self, gpu: u32, tsg: u64, state: &State) {
        let _ = self.set(gpu, Handle(tsg), state);
    }

    fn preempt(&self, gpu: u32, tsg: u64) {
        if let Ok(card) = self.card(gpu) {
            let _ = card.with(|model, now, sink| model.preempt(now, Handle(tsg), sink));
        }
    }

    fn restart(&self, gpu: u32, tsg: u64, force: bool) {
        if let Ok(card) = self.card(gpu) {
            let _ = card.with(|model, now, sink| model.restart(now, Handle(tsg), force, sink));
        }
    }

    fn leaving(&self, gpu: u32, tsg: u64) -> bool {
        self.card(gpu)
            .is_ok_and(|card| card.at_present(|model| model.leaving(Handle(tsg)) == Ok(true)))
    }

    fn ended(&self, gpu: u32, tsg: u64) {
        if let Ok(card) = self.card(gpu) {
            card.destroy(Handle(tsg));
        }
    }

    fn started(&self, gpu: u32, registers: Registers) {
        if let Ok(card) = self.card(gpu) {
            card.listen(|listener| listener.map(gpu, registers));
            self.suspended(gpu, false);
        }
    }

    fn stopped(&self, gpu: u32) {
        if let Ok(card) = self.card(gpu) {
            card.listen(|listener| listener.unmap());
        }
    }

    fn suspended(&self, gpu: u32, suspended: bool) {
        if let Ok(card) = self.card(gpu) {
            card.with(|model, now, sink| model.set_suspended(now, suspended, sink));
        }
    }

    fn catch_up(&self, gpu: u32) {
        if let Ok(card) = self.card(gpu) {
            card.at_present(|_| ());
        }
    }
}
