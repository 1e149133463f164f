// SPDX-License-Identifier: MIT OR Apache-2.0
//! A client: its slot, what is known of its requests without asking that, and the calls under way.

use super::at;
use crate::policy::{
    deadline::line::Place,
    request::{
        order::Standing,
        succession::Succession,
        words::{Number, Observed},
    },
    units::Ns,
};

/// The words of a page that was used before: the first request is the last before the wrap.
const USED: u32 = u32::MAX - 1;

/// A place that a slot has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Turn {
    pub(super) place: Place,
    pub(super) number: Number,
    pub(super) deadline: Ns,
}

/// A begin that has let go of its slot, and takes a place next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Join {
    pub(super) number: Number,
    /// The place of the request before has been given back.
    pub(super) is_settled: bool,
}

/// The last word to a line on a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) enum Noted {
    #[default]
    Apart,
    Waits,
    Runs(Ns),
}

impl From<Standing> for Noted {
    fn from(standing: Standing) -> Self {
        match standing {
            Standing::Apart => Self::Apart,
            Standing::Waits => Self::Waits,
            Standing::Runs(until) => Self::Runs(until),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Client {
    pub(super) requests: Succession,
    pub(super) words: Observed,
    pub(super) alarm: Option<Ns>,
    /// When the trigger of its last request is due.
    pub(super) due: Ns,
    pub(super) turn: Option<Turn>,
    /// A call or a timer has still to have the line follow.
    pub(super) settles: bool,
    pub(super) joins: Option<Join>,
    pub(super) is_open: bool,
    /// The last request, as the process knows it: so that it says nothing twice.
    pub(super) last: Option<Number>,
    pub(super) begun: u8,
    pub(super) over: u8,
    pub(super) noted: Noted,
    /// The last request with a later deadline that had the GPU while this one waited, and how many
    /// there were.
    pub(super) blocker: Option<(usize, Number)>,
    pub(super) blockers: u8,
}

impl Client {
    pub(super) fn new() -> Self {
        Self {
            requests: Succession::new(),
            words: Observed {
                done: USED,
                trigger: USED,
                release: USED,
                gate: 1,
                ..Observed::default()
            },
            alarm: None,
            due: Ns::ZERO,
            turn: None,
            settles: false,
            joins: None,
            is_open: true,
            last: None,
            begun: 0,
            over: 0,
            noted: Noted::Apart,
            blocker: None,
            blockers: 0,
        }
    }

    /// True if the process has a request that it has not called done.
    pub(super) fn is_active(&self) -> bool {
        self.last.is_some_and(|last| !last.is(self.words.done))
    }

    /// True if something of it happens before time goes on.
    pub(super) fn is_due(&self, now: u8) -> bool {
        let fires = self.is_open && self.alarm.is_some_and(|alarm| alarm <= at(now));
        fires || self.settles || self.joins.is_some()
    }

    /// True if its slot is between two steps of a call or a timer.
    pub(super) fn is_under_way(&self) -> bool {
        self.settles || self.joins.is_some()
    }

    /// True if the stream of a request goes on, for anything that it waits for.
    pub(super) fn is_free(&self, number: Number) -> bool {
        number.is_reached_by(self.words.trigger) && number.is_reached_by(self.words.release)
    }
}
