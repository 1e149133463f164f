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
use kernel::{
    prelude::*,
    sync::Arc, //
};

/// A request as the order of its GPU needs to know it.
struct Question {
    gpu: Arc<Device>,
    lane: Lane,
    claim: Claim,
    now: Ns,
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
        gpu: Arc<Device>,
        (runlist, level): (u32, Level),
        ask: &Begin<'_>,
        burst: Ns,
        (mut choice, thought): (Choice, Option<Thought>),
    ) -> Result<Question, Failure> {
        let settings = tuned::requested();
        let rule = settings.rule.unwrap_or_default();
        if rule.order != Order::Edf {
            return Err(Failure::NoOrder);
        }
        if level == Level::BE {
            return Err(Failure::NoLevel);
        }
        let burst = self.burst().or((burst > Ns::ZERO).then_some(burst));
        let burst = burst.ok_or(Failure::NoBurst)?;
        self.catch_up();
        let predicted = match thought {
            Some(thought) => thought.told,
            None => self.predict(choice),
        };
        choice.costs = settings.costs;
        let (switch, _) = gpu.cost(ask.holder);
        let lead = match predicted.filter(|time| *time > Ns::ZERO) {
            // No later than its data.
            Some(time) => rule.lead(choice, Some(time), switch).min(time),
            None => Ns::ZERO,
        };
        let now = Ns(now_ns());
        Ok(Question {
            gpu,
            lane: Lane { runlist, level },
            claim: Claim {
                deadline: now.saturating_add(ask.slo.min(HORIZON)),
                due: now.saturating_add(lead),
                switch,
                burst,
            },
            now,
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
            match self.think(tsg, name, ask, features, choice)? {
                Ok(predicted) => thought = Some(predicted),
                Err(outcome) => return Ok(Err(outcome)),
            }
        }
        let mut state = self.lock();
        let Some(group) = state.bound(tsg, name) else {
            return Ok(Err(Outcome::Unbound));
        };
        group.check(ask.holder)?;
        if let Some(early) = tuned::shared_early() {
            group.weigh(early, &mut choice.costs);
        }
        let level = group.level().ok_or(Failure::NoLevel);
        let (gpu, runlist) = (group.gpu.clone(), group.runlist());
        let question = level
            .and_then(|level| state.question(gpu, (runlist, level), ask, burst, (choice, thought)));
        drop(state);
        let question = question?;
        let Lane { level, .. } = question.lane;
        let place = question.gpu.order.admit(
            question.lane,
            name.1 .0,
            question.claim,
            question.replaced,
            question.now,
        );
        let place = match place {
            Ok(place) => place,
            Err(Refused::NoRoom) => return Err(Failure::NoPlace.into()),
            Err(Refused::OverQuota) => return Err(Failure::OverQuota.into()),
            Err(Refused::Late(earliest)) => {
                self.lock().promise(level, Promise::Refused);
                let slo = earliest.map(|at| at.saturating_sub(question.now));
                return Ok(Err(Outcome::Late(slo.unwrap_or_default())));
            }
        };
        Ok(Ok(Seat {
            gpu: question.gpu,
            place: Some(place),
        }))
    }
}
