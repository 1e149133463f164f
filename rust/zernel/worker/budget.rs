// SPDX-License-Identifier: GPL-2.0
//! Keeps the levels above best-effort within their budgets, from the worker of a GPU: carries out
//! decisions of [`policy::budget`](crate::policy::budget).

use crate::{
    glue::time::now_ns,
    policy::{
        budget::{
            Server,
            State, //
        },
        level::{
            self,
            Level, //
        },
        units::Ns, //
    },
    registry::{
        self,
        plan::budgets::{
            Candidate,
            Setup, //
        },
        turns,
        Global, //
    },
    worker::rotation::Driver, //
};
use kernel::prelude::*;

/// A TSG of a level with a budget.
struct Watched {
    candidate: Candidate,
    /// GPU time that it had when it was last looked at.
    ran: Option<Ns>,
}

/// The budgets of a GPU.
pub(crate) struct Budgets {
    /// One per level that has a budget.
    servers: KVec<(Level, Server)>,
    watched: KVec<Watched>,
    throttled: level::Set,
    /// Levels that have something to run.
    runs: level::Set,
    /// The level for which others are kept off the GPU, and since when that is not charged.
    held: Option<(Level, Ns)>,
    generation: u64,
}

impl Budgets {
    /// Nobody is watched.
    pub(crate) fn new() -> Self {
        Self {
            servers: KVec::new(),
            watched: KVec::new(),
            throttled: level::Set::NONE,
            runs: level::Set::NONE,
            held: None,
            generation: 0,
        }
    }

    /// True if nobody is watched.
    pub(crate) fn is_empty(&self) -> bool {
        self.watched.is_empty()
    }

    /// True if a TSG that is not treated like best-effort has something to run.
    pub(crate) fn is_busy(&self) -> bool {
        Level::ALL
            .into_iter()
            .any(|level| self.runs.contains(level) && !self.throttled.contains(level))
    }

    /// Levels with a spent budget.
    pub(crate) fn throttled(&self) -> level::Set {
        self.throttled
    }

    /// Nobody is kept off the GPU any more, or nobody could use it meanwhile: that is not charged.
    pub(crate) fn release(&mut self) {
        self.held = None;
    }

    /// Charges GPU time to the budgets. Returns the time of the next look; `None`: when a TSG gets
    /// something to run.
    ///
    /// `held`: the level for which others are kept off the GPU, since this time or an earlier step.
    pub(crate) fn step(
        &mut self,
        driver: &Driver<'_>,
        held: Option<(Level, Ns)>,
    ) -> Result<Option<Ns>> {
        if let Some(setup) = turns::budget_setup(&mut Global, driver.gpu, self.generation)? {
            self.set_up(setup)?;
        }
        let mut ran = [Ns::ZERO; level::COUNT];
        let mut runs = level::Set::NONE;
        for watched in &mut self.watched {
            // One that is gone is about to be removed.
            let Ok(sample) = driver.ops.tsg_load(driver.handle, watched.candidate.handle) else {
                continue;
            };
            let level = watched.candidate.level;
            let before = watched.ran.replace(sample.ran).unwrap_or(sample.ran);
            if let Some(ran) = ran.get_mut(level.number() as usize) {
                // Work like best-effort is not charged.
                if !self.throttled.contains(level) {
                    *ran = ran.saturating_add(sample.ran.saturating_sub(before));
                }
            }
            if sample.runnable {
                runs.put(level, true);
            }
        }
        self.runs = runs;
        let now = Ns(now_ns());
        let since = self.held.or(held);
        self.held = held.map(|(level, _)| (level, now));
        let kept = since.map(|(level, since)| (level, now.saturating_sub(since)));
        Ok(self.charge(driver, now, &ran, kept))
    }

    /// Charges each level for itself and for those that are more urgent, which keep BE waiting too.
    /// `kept`: how long others were kept off the GPU, all of which BE has waited for, whether or not
    /// something ran.
    fn charge(
        &mut self,
        driver: &Driver<'_>,
        now: Ns,
        ran: &[Ns; level::COUNT],
        kept: Option<(Level, Ns)>,
    ) -> Option<Ns> {
        let mut throttled = level::Set::NONE;
        let mut next: Option<Ns> = None;
        let mut sum = Ns::ZERO;
        let mut busy = false;
        let mut charged = 0;
        for (level, server) in &mut self.servers {
            while charged <= level.number() as usize {
                sum = sum.saturating_add(ran.get(charged).copied().unwrap_or_default());
                busy |= Level::ALL
                    .get(charged)
                    .is_some_and(|&l| self.runs.contains(l));
                charged += 1;
            }
            if let Some((_, time)) = kept.filter(|(by, _)| by.number() <= level.number()) {
                sum = sum.max(time);
                busy = true;
            }
            let at = match server.charge(now, sum) {
                State::Throttled { until } => {
                    throttled.put(*level, true);
                    Some(until)
                }
                State::Free { left } => busy.then(|| now.saturating_add(left)),
            };
            next = match (next, at) {
                (Some(next), Some(at)) => Some(next.min(at)),
                (next, at) => next.or(at),
            };
        }
        if throttled != self.throttled {
            // Without a registry there is nothing to change.
            let _ = registry::with(|r| r.set_throttled(driver.gpu, throttled));
            self.throttled = throttled;
        }
        next
    }

    /// Takes over the watched TSGs. Spent budget stays spent.
    ///
    /// # Errors
    ///
    /// `ENOMEM`; everything is as before then.
    fn set_up(&mut self, setup: Setup) -> Result {
        let mut watched = KVec::with_capacity(setup.candidates.len(), GFP_KERNEL)?;
        for candidate in &setup.candidates {
            let known = self
                .watched
                .binary_search_by_key(&candidate.handle, |old| old.candidate.handle)
                .ok()
                .and_then(|at| self.watched.get(at));
            watched.push(
                Watched {
                    candidate: *candidate,
                    ran: known.and_then(|old| old.ran),
                },
                GFP_KERNEL,
            )?;
        }
        if self.servers.is_empty() {
            let mut servers = KVec::with_capacity(level::COUNT, GFP_KERNEL)?;
            for (level, params) in Level::ALL.into_iter().zip(setup.budgets) {
                if let Some(params) = params {
                    servers.push((level, Server::new(params)), GFP_KERNEL)?;
                }
            }
            self.servers = servers;
        }
        for (level, server) in &mut self.servers {
            if let Some(Some(params)) = setup.budgets.get(level.number() as usize) {
                server.set_params(*params);
            }
        }
        self.watched = watched;
        self.generation = setup.generation;
        Ok(())
    }
}
