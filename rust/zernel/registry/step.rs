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
