// SPDX-License-Identifier: GPL-2.0
//! The promise of a deadline to a request that is to begin.
//!
//! The place that comes with it is taken before the request begins, as the lock of an order comes before
//! that of a slot: nothing has begun where it is refused.

use super::{
    begin::{
        Begin,
        Outcome, //
    },
    seat::Seat,
    state::{
        Name,
        State, //
    },
    Slot, //
};
use crate::{
    error::Failure,
    glue::time::now_ns,
    ids::TsgId,
    policy::{
        counters::Promise,
        deadline::{
            line::{
                Claim,
                Lane,
                Place,
                Refused, //
            },
            Order,
            HORIZON, //
        },
        level::Level,
        predict::Choice,
        units::Ns, //
    },
    request::{
        device::Device,
        keys::Thought, //
    },
    tuned, //
};
use kernel::prelude::*;

/// A request as the order of its GPU needs to know it.
struct Question {
    lane: Lane,
    claim: Claim,
    now: Ns,
    /// The time of its trigger, at the latest.
    latest: Ns,
    replaced: Option<Place>,
}

impl State {
    /// The need of the request that is not over.
    pub(super) fn claim(&self) -> Claim {
        let (due, switch) = self.requests.due();
        Claim {
            deadline: self.requests.deadline(),
            due,
            switch,
            burst: self.burst().unwrap_or_default(),
        }
    }

    /// The burst of requests of its key, if any is known.
    fn burst(&self) -> Option<Ns> {
        self.key.as_ref()?.1.burst()
    }

    /// Counts the fate of a promise.
    pub(super) fn promise(&self, level: Level, fate: Promise) {
        let Some(group) = &self.group else {
            return;
        };
        group.stats.count(|counters| counters.promise(fate));
        if let Some(level) = group.gpu.totals.of(Some(level)) {
            level.count(|counters| counters.promise(fate));
        }
    }

    /// The question to the order, of a request that would begin now. Nothing has changed but for
    /// outcomes that were left for later. `thought`: the prediction from its features, if it has some.
    fn question(
        &mut self,
        gpu: &Device,
        lane: Lane,
        ask: &Begin<'_>,
        told: Ns,
        (mut choice, thought): (Choice, Option<&Thought>),
    ) -> Result<Question, Failure> {
        let settings = tuned::requested();
        let rule = settings.rule.unwrap_or_default();
        if rule.order != Order::Edf {
            return Err(Failure::NoOrder);
        }
        if lane.level == Level::BE {
            return Err(Failure::NoLevel);
        }
        self.catch_up();
        let predicted = match thought {
            Some(thought) => thought.told,
            None => self.predict(choice),
        };
        choice.costs = settings.costs;
        let (switch, _) = gpu.cost(ask.holder);
        // As it begins: without anything known as the process expects, and without that at once.
        let ready = predicted.unwrap_or(ask.expected);
        let lead = rule.lead(choice, (ready > Ns::ZERO).then_some(ready), switch);
        let is_by_data = lead > ready;
        // No later than its data.
        let lead = lead.min(ready);
        let burst = match self.burst() {
            Some(burst) => burst,
            None if told == Ns::ZERO => return Err(Failure::NoBurst),
            // A history counts the time for which the GPU is held for data.
            None => told.saturating_add(ready.saturating_sub(lead.saturating_add(switch))),
        };
        let now = Ns(now_ns());
        let due = now.saturating_add(lead);
        Ok(Question {
            lane,
            claim: Claim {
                deadline: now.saturating_add(ask.slo.min(HORIZON)),
                due,
                switch,
                burst,
            },
            now,
            latest: match is_by_data {
                true => Ns(u64::MAX),
                false => due,
            },
            replaced: self.turn.as_ref().map(|turn| turn.place),
        })
    }
}

impl Slot {
    /// A place for a request whose deadline is to be promised, for [`Self::begin`]; `burst`: its burst, if
    /// its key has no history; 0: not known. The inner error is the outcome of that begin.
    ///
    /// # Errors
    ///
    /// [`Failure::NoDeadline`], [`Failure::NoOrder`], [`Failure::NoLevel`], [`Failure::NoBurst`], [`Failure::OverQuota`],
    /// [`Failure::NoPlace`]; nothing has changed then, as with [`Outcome::Late`].
    #[cold]
    #[inline(never)]
    pub(crate) fn admit(
        &self,
        tsg: TsgId,
        name: Name,
        ask: &Begin<'_>,
        burst: Ns,
    ) -> Result<Result<Seat, Outcome>> {
        if ask.slo == Ns::ZERO {
            return Err(Failure::NoDeadline.into());
        }
        let mut choice = ask.choice(&tuned::requested());
        let mut thought = None;
        if let Some(features) = ask.features {
            choice = choice.of_features();
            match self.think(tsg, name, ask, features, choice, None)? {
                Ok(predicted) => thought = Some(predicted),
                Err(outcome) => return Ok(Err(outcome)),
            }
        }
        let Some(mut state) = self.open(tsg, name, ask, &mut choice)? else {
            return Ok(Err(Outcome::Unbound));
        };
        let Some(group) = &state.group else {
            return Ok(Err(Outcome::Unbound));
        };
        let (gpu, runlist, level) = (group.gpu.clone(), group.runlist(), group.level());
        let question = level.ok_or(Failure::NoLevel).and_then(|level| {
            let lane = Lane { runlist, level };
            state.question(&gpu, lane, ask, burst, (choice, thought.as_ref()))
        });
        drop(state);
        let Question {
            lane,
            claim,
            now,
            latest,
            replaced,
        } = question?;
        let place = gpu.order.admit(self, lane, name.1 .0, claim, replaced, now);
        let place = match place {
            Ok(place) => place,
            Err(Refused::NoRoom) => return Err(Failure::NoPlace.into()),
            Err(Refused::OverQuota) => return Err(Failure::OverQuota.into()),
            Err(Refused::Late(earliest)) => {
                self.lock().promise(lane.level, Promise::Refused);
                let slo = earliest.map(|at| at.saturating_sub(now));
                return Ok(Err(Outcome::Late(slo.unwrap_or_default())));
            }
        };
        Ok(Ok(Seat {
            gpu,
            lane,
            place: Some(place),
            due: latest,
            thought,
        }))
    }
}
