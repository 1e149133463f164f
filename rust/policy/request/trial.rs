// SPDX-License-Identifier: GPL-2.0 OR MIT
//! A cost of a switch that is tried on a request, and when its outcome is looked at.
//!
//! The cost was right if the TSG had its engine `cost` after the trigger. A provider that tells of
//! starts tells when it had, whenever that is asked; with others the look has to be in time, and reads
//! from a word only whether it has by now.

use crate::policy::{
    switch_cost::{
        Phase,
        Switched, //
    },
    units::Ns, //
};

/// When the switch of a request is looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) enum Look {
    /// Never.
    #[default]
    Never,
    /// When it should be over, by a timer. That is when the data is ready, too, by the meaning of the
    /// cost: the timer is an interrupt more in the way of the request.
    AtDue,
    /// [`Trial::LATER`], while the kernels run, or at the end of the request: the time of the start is
    /// known then.
    Later,
}

/// A cost of a switch that was tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Trial {
    /// When the request was triggered.
    pub(crate) trigger: Ns,
    /// When the switch should be over.
    pub(crate) due: Ns,
    /// The state of the GPU when the request began.
    pub(crate) phase: Phase,
    /// The holder has run by now: who tells of starts has told of this one.
    pub(crate) has_run: bool,
    /// The outcome, as far as the words tell.
    pub(crate) told: Option<Switched>,
}

impl Trial {
    /// So long after the switch should be over [`Look::Later`] looks.
    pub(crate) const LATER: Ns = Ns(50_000);

    /// The outcome. `start`: when the TSG got its engine, the first time since the trigger, if its
    /// provider tells.
    pub(crate) fn outcome(&self, start: Option<Ns>) -> Option<Switched> {
        match start {
            Some(at) if at <= self.due => Some(Switched::InTime),
            Some(_) => Some(Switched::NotYet),
            None => self.told,
        }
    }
}
