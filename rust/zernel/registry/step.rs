// SPDX-License-Identifier: GPL-2.0
//! A step of a worker: what it takes from the registry, and what came of it.

use super::{
    gpu, queue,
    tsg::{
        self,
        Hardware,
        Want, //
    },
};
use kernel::prelude::*;

/// What has to be done for one TSG.
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
    /// What the driver should hold; `None`: what it held before.
    pub(crate) want: Option<Want>,
    /// `original` is what it gets back.
    pub(crate) managed: bool,
    /// What the driver held before, as far as known.
    pub(crate) original: Option<Hardware>,
    /// What it holds now, as far as known.
    pub(crate) current: Option<Hardware>,
    /// Whether that is certain.
    pub(crate) sure: bool,
    /// Whether the TSG is not to be scheduled.
    pub(crate) disable: bool,
    /// Whether it is not, as far as known.
    pub(crate) disabled: Option<bool>,
    /// Its class changes from one level to another: what it has done so far counts for the one.
    pub(crate) is_moved: bool,
}

/// What came of a step.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outcome {
    /// What the driver held before.
    pub(crate) original: Option<Hardware>,
    /// What it holds now, as far as known.
    pub(crate) current: Option<Hardware>,
    /// Whether that is certain.
    pub(crate) sure: bool,
    /// Whether there is something to give back.
    pub(crate) managed: bool,
    /// Whether other settings reached the driver.
    pub(crate) touched: bool,
    /// Whether the TSG is not scheduled now, as far as known.
    pub(crate) disabled: Option<bool>,
    /// What it answered.
    pub(crate) result: Result,
}
