// SPDX-License-Identifier: MIT OR Apache-2.0
//! The options of zernel.

use super::estimate::Estimator;
use crate::deadlines::Deadlines;
use crate::model::measures::Us;
use crate::policy::deadline::Order;
use crate::policy::predict::features::Memory;
use crate::policy::predict::trigger::{Rule, Trigger};
use crate::policy::predict::Kind;
use crate::policy::rotation::Discipline;
use crate::policy::slices::slack::Terms;
use crate::policy::slices::Policy as SlicePolicy;
use crate::policy::switch_cost::Cost;
use crate::policy::units::Ns;

/// The options.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Options {
    /// The predictor of preparations.
    pub(crate) kind: Kind,
    /// The way from features to a time, with [`Kind::Features`].
    pub(crate) estimator: Estimator,
    /// The observations that it remembers.
    pub(crate) memory: Memory,
    /// Cost of a nanosecond of being early.
    pub(crate) early: u32,
    /// The same in predictions while other latency-critical TSGs have requests, if it is another.
    pub(crate) shared_early: Option<u32>,
    /// Cost of a nanosecond of being late.
    pub(crate) late: u32,
    /// True if point predictors take the classic margin off.
    pub(crate) margin: bool,
    /// The margin of a client that nothing is known of.
    pub(crate) safety_margin: Ns,
    /// The trigger that follows from a prediction.
    pub(crate) rule: Rule,
    /// True if best-effort TSGs take turns in software.
    pub(crate) rotate: bool,
    /// The order of their turns.
    pub(crate) discipline: Discipline,
    /// The intended length of a turn.
    pub(crate) quantum: Us,
    /// Time slice of best-effort TSGs, if not that of their level.
    pub(crate) be_slice: Option<Us>,
    /// The slices of levels.
    pub(crate) slices: SlicePolicy,
    /// The terms of slices that follow slacks.
    pub(crate) slack: Terms,
    /// The latency that 99 % of latency-critical requests are to have, if slices follow it.
    pub(crate) target: Us,
    /// GPU time of the latency-critical level in each 100 ms.
    pub(crate) budget: Us,
    /// Share of the switches that the learned cost covers, in thousandths.
    pub(crate) covered: u32,
    /// Deadlines of latency-critical clients.
    pub(crate) deadlines: Deadlines,
    /// True if clients with longer deadlines have lower levels.
    pub(crate) by_level: bool,
    /// True if deadlines are promised, and requests refused.
    pub(crate) admit: bool,
}

impl Options {
    /// zernel's defaults.
    pub(crate) const DEFAULT: Self = Self {
        kind: Kind::Quantile,
        estimator: Estimator::Linear,
        memory: Memory::DEFAULT,
        early: 1,
        shared_early: None,
        late: 6,
        margin: false,
        safety_margin: Ns(20_000),
        rule: Rule {
            trigger: Trigger::Predicted,
            min_prep: Ns(0),
            order: Order::Fifo,
        },
        rotate: true,
        discipline: Discipline::Fair,
        quantum: Us(8_000),
        be_slice: None,
        slices: SlicePolicy::Table,
        slack: Terms::USUAL,
        target: Us(0),
        budget: Us(95_000),
        covered: Cost::IN_TIME.0,
        deadlines: Deadlines::NONE,
        by_level: false,
        admit: false,
    };
}
