// SPDX-License-Identifier: MIT OR Apache-2.0
//! Slices by level: the policies of the kernel, and those of best-effort that follow the latencies of
//! latency-critical requests, as by the worker of a GPU.

use super::{Options, SLICES};
use crate::model::measures::Us;
use crate::policy::histogram::Latencies;
use crate::policy::level::{self, Level};
use crate::policy::slices::pid::{Controllers, Target, Terms};
use crate::policy::tunables::Tunables;
use crate::policy::units::{self, Ns, Permille, Ppm};
use crate::world::{Event, Operation, World};

/// The tunables that follow from the options.
pub(super) fn tunables(options: &Options) -> Tunables {
    let mut tunables = Tunables::new();
    let slices = tunables.slices_mut();
    slices.set_policy(options.slices);
    let target = Target {
        latency: units::Us(options.target.0),
        quantile: Permille(990),
    };
    // The command line has checked both.
    let _ = slices.set_target(Level::LC, target);
    // These likewise.
    let _ = tunables.slices_mut().slack_mut().set_terms(options.slack);
    if let Some(slice) = options.be_slice {
        let _ = tunables.set_timeslice(Level::BE, units::Us(slice.0));
    }
    tunables
}

/// Slices that follow.
pub(super) struct Slices {
    terms: Terms,
    period: Ns,
    controllers: Controllers,
    seen: Box<Latencies>,
    before: Box<Latencies>,
    be: Vec<usize>,
    slice: Us,
    is_armed: bool,
}

impl Slices {
    /// Of these best-effort TSGs, which have a slice now.
    pub(super) fn new(terms: Terms, period: Ns, be: Vec<usize>, slice: Us) -> Self {
        Self {
            terms,
            period,
            controllers: Controllers::new(),
            seen: Box::new(Latencies::EMPTY),
            before: Box::new(Latencies::EMPTY),
            be,
            slice,
            is_armed: false,
        }
    }

    /// A latency-critical request is done after so many nanoseconds.
    pub(super) fn done(&mut self, world: &mut World, latency: u64) {
        self.seen.record(Ns(latency));
        // In a control period without requests nothing would change.
        if !self.is_armed {
            self.is_armed = true;
            world.at(world.now + self.period.0, Event::Timer(SLICES));
        }
    }

    /// A control period is over.
    pub(super) fn timer(&mut self, world: &mut World) {
        self.is_armed = false;
        let mut measured = [None; level::COUNT];
        let targets = self.terms.targets.iter();
        for (place, target) in measured.iter_mut().zip(targets) {
            let share = target.map(|target| Ppm(target.quantile.0 * 1_000));
            *place = share.and_then(|share| self.seen.quantile_since(&self.before, share));
        }
        self.before.clear();
        self.before.merge(&self.seen);
        let slices = self.controllers.step(&self.terms, &measured);
        let slice = slices.of(Level::BE).map(|slice| Us(slice.0));
        let Some(slice) = slice.filter(|&slice| slice != self.slice) else {
            return;
        };
        self.slice = slice;
        for &group in &self.be {
            world.operate(Operation::Slice(group, slice));
        }
    }
}
