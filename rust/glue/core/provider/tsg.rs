// SPDX-License-Identifier: GPL-2.0
//! A TSG, as its provider describes it, and its load.

use crate::{
    glue::identity::{
        Pid,
        Uid,
        COMM_LEN, //
    },
    policy::units::{
        Ns,
        Us, //
    },
};

/// The settings that the driver holds for a TSG, or should.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Hardware {
    /// Its time slice.
    pub(crate) timeslice: Us,
    /// Its interleave level, if the provider can set it.
    pub(crate) interleave: Option<u32>,
}

/// A provider's description of a TSG, which it may change later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Traits {
    /// True if it runs on a compute engine.
    pub(crate) compute: bool,
    /// True if it runs on an engine that copies, and does not compute.
    pub(crate) copies: bool,
    /// True if it carries the work of several processes: then no class raises it.
    pub(crate) shared: bool,
    /// Number in the hardware.
    pub(crate) hw_tsg: u32,
    /// Engine type.
    pub(crate) engine: u32,
    /// Run list.
    pub(crate) runlist: u32,
    /// Channels now.
    pub(crate) channels: u32,
}

/// The owner of a TSG.
pub(crate) struct Owner {
    /// The process.
    pub(crate) process: Pid,
    /// The thread that made it.
    pub(crate) thread: Pid,
    /// The user.
    pub(crate) uid: Uid,
    /// Name of the thread.
    pub(crate) comm: [u8; COMM_LEN],
}

/// The work of a TSG since it was added.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Done {
    /// Time that it ran on its engine.
    pub(crate) ran: Ns,
    /// Times that it lost the engine while it had something to run.
    pub(crate) preemptions: u64,
    /// When it did so last; zero: never, or not known.
    pub(crate) preempted_at: Ns,
    /// Memory of its context; 0: not known.
    pub(crate) context_bytes: u64,
}

/// A TSG has got its engine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Start {
    /// The provider's number of it.
    pub(crate) handle: u64,
    /// When.
    pub(crate) at: Ns,
    /// When it got something to run, if it had nothing before.
    pub(crate) woken: Option<Ns>,
    /// Time of the context switch before that; zero without one.
    pub(crate) switch: Ns,
}

/// A TSG and its owner.
pub(crate) struct Description {
    /// The provider's number.
    pub(crate) handle: u64,
    /// Its description.
    pub(crate) traits: Traits,
    /// Its owner.
    pub(crate) owner: Owner,
}
