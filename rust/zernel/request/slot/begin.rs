// SPDX-License-Identifier: GPL-2.0
//! The begin of a request: its wishes, and the answer.

use crate::{
    policy::{
        predict::{
            features::Features,
            fixed::Fixed,
            Choice,
            Kind, //
        },
        units::Ns, //
    },
    tuned::Requested, //
};

/// The wishes of a request that begins.
pub(crate) struct Begin<'a> {
    /// Its preparation takes as long as expected; else it is predicted as tuned.
    pub(crate) exact: bool,
    /// True if the stream has a holder.
    pub(crate) holder: bool,
    /// It has a gate.
    pub(crate) gate: bool,
    /// The time that the process expects; 0: none.
    pub(crate) expected: Ns,
    /// Longest latency that is no violation; 0: any.
    pub(crate) slo: Ns,
    /// Its features, if it has some that count; never with `exact`.
    pub(crate) features: Option<&'a Features>,
}

impl Begin<'_> {
    /// The prediction that it asks for, but for features.
    #[inline(always)]
    pub(super) fn choice(&self, settings: &Requested) -> Choice {
        Choice {
            kind: match self.exact {
                true => Kind::Fixed,
                false => settings.predictor,
            },
            costs: settings.costs,
            fixed: match self.expected {
                Ns::ZERO if !self.exact => Fixed::default(),
                expected => Fixed(expected),
            },
            margin: settings.margin && !self.exact,
        }
    }
}

/// A request that begins.
#[derive(Default)]
pub(crate) struct Begun {
    /// Its number.
    pub(crate) request: u32,
    /// Its predicted preparation time, 0 if there is no prediction.
    pub(crate) predicted: Ns,
    /// When the GPU is taken for it.
    pub(crate) trigger_at: Ns,
}

/// The outcome of a begin.
pub(crate) enum Outcome {
    /// It has begun.
    Begun,
    /// Nothing: [`Slot::bind`] has to come first.
    Unbound,
    /// Nothing: the process could not be told of it.
    Untold,
    /// Nothing: [`Slot::make_room`] has to come first.
    NoRoom,
    /// Nothing: its TSG is not among those any more that it was admitted among.
    Moved,
    /// Nothing: its deadline cannot be promised. The shortest time to one that can; 0: there is none
    /// now.
    Late(Ns),
}
