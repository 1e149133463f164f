// SPDX-License-Identifier: MIT OR Apache-2.0
//! Policies: changes of the GPU when requests begin, are ready and are done.

mod bound;
mod gpreempt;
mod oracle;
mod reset;
mod sequential;
mod slices;
pub(crate) mod suspend;
mod zernel;

use anyhow::Result;
use zernel_workload::Workload;

pub(crate) use self::gpreempt::Constants;
use self::suspend::Latency;
pub(crate) use self::zernel::estimate::Estimator;
use crate::world::{Launch, Operation, Setting, World};

/// The addition to a client's stream at the begin of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stream {
    /// Nothing.
    Plain,
    /// A wait for the trigger and a holder.
    Holder,
    /// The request does not begin, as its deadline cannot be met: it is served elsewhere.
    Refused,
}

/// A policy. Called at the time of each event.
pub(crate) trait Policy {
    /// Its name, with its parameters.
    fn name(&self) -> String;

    /// Checks that it can run this.
    fn accepts(&self, _workload: &Workload) -> Result<()> {
        Ok(())
    }

    /// True if best-effort clients stay away.
    fn lc_only(&self) -> bool {
        false
    }

    /// The way in which inferences are given to the GPU.
    fn launch(&self) -> Launch {
        Launch::Whole
    }

    /// The setting in which it runs.
    fn setting(&self, setting: Setting) -> Setting {
        setting
    }

    /// Before the first request.
    fn start(&mut self, _world: &mut World) {}

    /// A client begins to prepare the data of a request.
    fn begin(&mut self, _world: &mut World, _client: usize) -> Stream {
        Stream::Plain
    }

    /// The data is on the GPU. The policy launches the kernels, now or later.
    fn ready(&mut self, world: &mut World, client: usize) {
        submit(world, client);
    }

    /// The kernels are done.
    fn done(&mut self, world: &mut World, client: usize) {
        retire(world, client);
    }

    /// A timer has fired.
    fn timer(&mut self, _world: &mut World, _token: u64) {}

    /// The driver has done an operation.
    fn operated(&mut self, _world: &mut World, _operation: Operation) {}
}

/// Launches the kernels of a client. Returns whether its TSG had none before.
fn submit(world: &mut World, client: usize) -> bool {
    let group = world.clients[client].group;
    let group = &mut world.groups[group];
    group.active += 1;
    let first = group.active == 1;
    world.launch(client);
    first
}

/// The kernels of a client are done. Returns whether its TSG has none any more.
fn retire(world: &mut World, client: usize) -> bool {
    let group = world.clients[client].group;
    let group = &mut world.groups[group];
    group.active -= 1;
    group.active == 0
}

/// A policy by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, clap::ValueEnum)]
pub(crate) enum Name {
    /// Latency-critical clients alone.
    Exclusive,
    /// The driver's default slices.
    Default,
    /// One request after the other, latency-critical ones first, none interrupted.
    Sequential,
    /// Best-effort work stops where its running kernel ends.
    Block,
    /// Best-effort kernels are killed and start again; idempotent ones only.
    Reset,
    /// Slices of 5 s and 200 us, no hints.
    Classes,
    /// The same with hints: a constant preparation and a constant switch.
    Gpreempt,
    /// zernel's own.
    Zernel,
    /// Knows when the data will be ready, to within an error.
    Oracle,
    /// Knows arrivals, preparations and bursts, and tells the GPU at no cost which TSG is to run.
    Bound,
    /// Preempts best-effort work in 40 us, as a trap handler does; no hints.
    #[value(name = "suspend-40")]
    Suspend40,
    /// The same in 100 us, as the end of a slice does.
    #[value(name = "suspend-100")]
    Suspend100,
    /// The same in 140 us, as kernels that look for a flag do.
    #[value(name = "suspend-140")]
    Suspend140,
    /// The same in 5 ms, as a wait for the kernels that were launched does.
    #[value(name = "suspend-5000")]
    Suspend5000,
}

/// The options of the policies.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Options {
    /// GPreempt's.
    pub(crate) constants: Constants,
    /// Standard deviation of the oracle's error, in microseconds.
    pub(crate) error_us: f64,
    /// zernel's.
    pub(crate) zernel: ZernelOptions,
    /// Seed of random errors.
    pub(crate) seed: u64,
}

pub(crate) use self::zernel::Options as ZernelOptions;

impl Options {
    /// The published constants, no error, and zernel's own defaults.
    pub(crate) const DEFAULT: Self = Self {
        constants: Constants::PUBLISHED,
        error_us: 0.0,
        zernel: ZernelOptions::DEFAULT,
        seed: 1,
    };
}

impl Name {
    /// Its name.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Exclusive => "exclusive",
            Self::Default => "default",
            Self::Sequential => "sequential",
            Self::Block => "block",
            Self::Reset => "reset",
            Self::Classes => "classes",
            Self::Gpreempt => "gpreempt",
            Self::Zernel => "zernel",
            Self::Oracle => "oracle",
            Self::Bound => "bound",
            Self::Suspend40 => "suspend-40",
            Self::Suspend100 => "suspend-100",
            Self::Suspend140 => "suspend-140",
            Self::Suspend5000 => "suspend-5000",
        }
    }

    /// The policy itself.
    pub(crate) fn policy(self, options: &Options) -> Box<dyn Policy> {
        match self {
            Self::Exclusive => Box::new(slices::Slices::exclusive()),
            Self::Default => Box::new(slices::Slices::defaults()),
            Self::Block => Box::new(slices::Slices::block()),
            Self::Classes => Box::new(slices::Slices::classes()),
            Self::Sequential => Box::new(sequential::Sequential::default()),
            Self::Reset => Box::new(reset::Reset),
            Self::Gpreempt => Box::new(gpreempt::Gpreempt::new(options.constants)),
            Self::Zernel => Box::new(zernel::Zernel::new(options.zernel)),
            Self::Oracle => Box::new(oracle::Oracle::new(options.error_us, options.seed)),
            Self::Bound => Box::new(bound::Bound::default()),
            Self::Suspend40 => suspend(Latency::TRAP),
            Self::Suspend100 => suspend(Latency::SLICE),
            Self::Suspend140 => suspend(Latency::FLAG),
            Self::Suspend5000 => suspend(Latency::WAIT),
        }
    }
}

fn suspend(latency: Latency) -> Box<dyn Policy> {
    Box::new(suspend::Suspend::new(latency))
}
