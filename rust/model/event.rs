// SPDX-License-Identifier: GPL-2.0 OR MIT
//! The reports of the model while it advances.

use super::{
    measures::Ns, //
    tsg::Handle,
};

/// The end of an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Status {
    /// As ordered.
    Done,
    /// A hold reached its bound.
    Expired,
}

/// An item has completed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Completion {
    /// Number of the channel in its TSG.
    pub(crate) channel: u32,
    /// Number of the item in its channel.
    pub(crate) seq: u64,
    /// As ordered.
    pub(crate) tag: u64,
    /// As ordered.
    pub(crate) notify: bool,
    /// When it was submitted.
    pub(crate) queued: Ns,
    /// When it first ran; for an item that does not run, when it completed.
    pub(crate) start: Ns,
    /// When it completed.
    pub(crate) end: Ns,
    /// Its end.
    pub(crate) status: Status,
}

/// The activity of an engine for a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Activity {
    /// Ran a TSG.
    Run,
    /// Saved the context of a TSG.
    Save,
    /// Restored the context of a TSG.
    Restore,
    /// Nothing.
    Idle,
}

/// A stretch of time of an engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    /// Number of the engine.
    pub(crate) engine: u32,
    /// Its activity.
    pub(crate) activity: Activity,
    /// For which TSG; [`Handle::NONE`] for [`Activity::Idle`].
    pub(crate) tsg: Handle,
    /// From when.
    pub(crate) start: Ns,
    /// Until when.
    pub(crate) end: Ns,
}

/// A TSG has got its engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Start {
    /// Number of the engine.
    pub(crate) engine: u32,
    /// The TSG.
    pub(crate) tsg: Handle,
    /// When.
    pub(crate) at: Ns,
    /// When it got something to run, if it had nothing before.
    pub(crate) woken: Option<Ns>,
    /// Time of the context switch before that; zero without one.
    pub(crate) switch: Ns,
}

/// Takes the reports. Called in the order of model time.
pub(crate) trait Sink<C> {
    /// An item of a TSG of `context` has completed.
    fn completed(&mut self, context: &C, completion: &Completion);
    /// An engine has begun to do something else. `context` is that of the TSG.
    fn recorded(&mut self, _context: Option<&C>, _record: &Record) {}
    /// A TSG has got its engine.
    fn started(&mut self, _start: &Start) {}
}
