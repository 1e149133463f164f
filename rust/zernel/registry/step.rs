// SPDX-License-Identifier: GPL-2.0
//! A step of a worker: its input from the registry, and its outcome.

use super::{
    gpu, queue,
    tsg::{
        self,
        Hardware,
        Want, //
    },
};
use crate::policy::level::Level;
use kernel::prelude::*;

/// The work for one TSG.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    /// Its GPU.
    pub(crate) gpu: gpu::Id,
    /// The TSG.
    pub(crate) tsg: tsg::Id,
    /// The place in the queue that it was taken from.
    pub(crate) place: queue::Place,
    /// The provider's number of the TSG.
    pub(crate) handle: u64,
    /// The settings that the driver should hold; `None`: those before zernel.
    pub(crate) want: Option<Want>,
    /// `original` is its setting without zernel.
    pub(crate) managed: bool,
    /// The settings before zernel, as far as known.
    pub(crate) original: Option<Hardware>,
    /// The settings that it holds now, as far as known.
    pub(crate) current: Option<Hardware>,
    /// True if that is certain.
    pub(crate) sure: bool,
    /// True if the TSG is not to be scheduled.
    pub(crate) disable: bool,
    /// True if it is not scheduled, as far as known.
    pub(crate) disabled: Option<bool>,
    /// Its class changes from one level to another: its GPU time so far counts for the first.
    pub(crate) is_moved: bool,
    /// Its level, if that is above best-effort's.
    pub(crate) urgent: Option<Level>,
}

impl Step {
    /// The level for which the TSG is to be served at once, as it was raised.
    pub(crate) fn raised(&self, outcome: &Outcome) -> Option<Level> {
        let level = |hardware: Option<Hardware>| hardware.and_then(|held| held.interleave);
        // One that zernel had no settings of was read first.
        let before = level(self.current.or(outcome.original));
        let is_raised = outcome.result.is_ok() && level(outcome.current) > before;
        self.urgent.filter(|_| is_raised)
    }
}

/// The outcome of a step.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outcome {
    /// The settings before zernel, as far as known.
    pub(crate) original: Option<Hardware>,
    /// The settings that it holds now, as far as known.
    pub(crate) current: Option<Hardware>,
    /// True if that is certain.
    pub(crate) sure: bool,
    /// True if there is something to give back.
    pub(crate) managed: bool,
    /// True if other settings reached the driver.
    pub(crate) touched: bool,
    /// True if the TSG is not scheduled now, as far as known.
    pub(crate) disabled: Option<bool>,
    /// The answer.
    pub(crate) result: Result,
}
