// SPDX-License-Identifier: MIT OR Apache-2.0
//! The parts of a simulation: settings, clients, their TSGs, and events.

use zernel_workload::{ClientSpec, Deployment, Piece, Role, Schedule, Traced};

use super::nanos;
use crate::machine::Words;
use crate::model::measures::{Ns, Us};
use crate::model::preset::{OpCost, Preset};
use crate::model::tsg::{Handle, Interleave};

/// The way in which an inference is given to the GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Launch {
    /// As one piece of work that can be preempted anywhere.
    Whole,
    /// The same, but best-effort work only where a kernel ends.
    Blocks,
    /// Kernel by kernel.
    Kernels,
}

/// The setting of a simulation, for every policy.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Setting {
    /// The GPU.
    pub(crate) preset: &'static Preset,
    /// Which clients share a TSG.
    pub(crate) deployment: Deployment,
    /// Seed of all random numbers.
    pub(crate) seed: u64,
    /// Cost of a provider's operations.
    pub(crate) costs: OpCost,
    /// Time until the GPU sees a store to one of its words.
    pub(crate) flag: Ns,
}

impl Setting {
    /// An A100 with a process per client and published costs.
    pub(crate) const DEFAULT: Self = Self {
        preset: &Preset::A100,
        deployment: Deployment::PerClient,
        seed: 1,
        costs: OpCost::PUBLISHED,
        flag: Ns(1_000),
    };
}

/// Where a client is in its loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Waits for a request.
    Waiting,
    /// Prepares the data of one.
    Preparing,
    /// Copies it to the GPU.
    CopyIn,
    /// Its kernels run, or wait to.
    Inferring,
    /// Copies the result back.
    CopyOut,
    /// Begins no more.
    Finished,
}

/// The request that a client is at; times in nanoseconds since the start of the run.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Request {
    /// Arrivals before it.
    pub(crate) number: u64,
    /// When it arrived.
    pub(crate) tick: u64,
    /// When its preparation began.
    pub(crate) start: u64,
    /// Time of the preparation.
    pub(crate) prepare: u64,
    /// All that a trace tells of it.
    pub(crate) traced: Traced,
    /// Kernels that are done.
    pub(crate) kernels_done: u32,
    /// Time for which holders had the GPU for it.
    pub(crate) held: u64,
}

/// A client.
#[derive(Debug)]
pub(crate) struct Client {
    /// Its specification.
    pub(crate) spec: ClientSpec,
    /// Its number in the workload; its place among the clients of the run is another one.
    pub(crate) number: usize,
    /// Its TSG.
    pub(crate) group: usize,
    /// Its channel in that.
    pub(crate) channel: u32,
    /// Where it is.
    pub(crate) stage: Stage,
    /// The request that it is at.
    pub(crate) request: Request,
    /// The kernels of that.
    pub(crate) pieces: Vec<Piece>,
    /// Requests that it has begun.
    pub(crate) begun: u32,
    /// Its stream has a holder for this request.
    pub(crate) holder: bool,
    /// Its schedule.
    pub(crate) schedule: Schedule,
}

impl Client {
    /// When the data of its request is on the GPU.
    pub(crate) fn ready_at(&self) -> u64 {
        let copy = self.spec.copy_in(self.request.traced.size);
        self.request.start + self.request.prepare + nanos(copy)
    }

    /// Time of its kernels on the GPU alone.
    pub(crate) fn service(&self) -> u64 {
        self.pieces.iter().map(|piece| nanos(piece.time)).sum()
    }
}

/// Clients that share a TSG on the compute engine, and one on a copy engine.
#[derive(Debug)]
pub(crate) struct Group {
    /// Their role.
    pub(crate) role: Role,
    /// Sum of their weights.
    pub(crate) weight: u32,
    /// Its clients.
    pub(crate) clients: Vec<usize>,
    /// Inferences that are submitted and not done.
    pub(crate) active: u32,
    /// Its TSG on the compute engine.
    pub(super) compute: Handle,
    /// Its TSG on a copy engine.
    pub(super) copy: Handle,
    /// Semaphore words of both.
    pub(super) words: Words,
    /// Time on the engine of the TSGs that it had before this one.
    pub(super) busy_before: u64,
}

/// Something that a policy asks of the GPU's driver; one at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operation {
    /// Changes the time slice.
    Slice(usize, Us),
    /// Changes the interleave level.
    Interleave(usize, Interleave),
    /// Lets it run, or not.
    Enable(usize, bool),
}

/// An event at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Event {
    /// A store to a word has reached the GPU: group, word, value.
    Word(usize, u16, u32),
    /// The first of the operations is done.
    Operation,
    /// A client's request arrives.
    Tick(usize),
    /// A client's data is prepared.
    Prepared(usize),
    /// A client whose request was refused is free for the next one.
    Refused(usize),
    /// A timer of the policy: client or anything else that it chose.
    Timer(u64),
    /// The run is over; requests under way are finished.
    End,
}
