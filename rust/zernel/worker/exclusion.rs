// SPDX-License-Identifier: GPL-2.0
//! Keeps less urgent TSGs off the GPU for requests without a holder, from the worker of a GPU:
//! carries out decisions of [`policy::preempt`](crate::policy::preempt).

use crate::{
    glue::time::now_ns,
    policy::{
        level::{
            self,
            Level, //
        },
        preempt::{
            Answer,
            Attempt,
            Next,
            Verdict, //
        },
        units::{
            Ms,
            Ns,
            Us, //
        },
    },
    registry::{
        self,
        news,
        place::{
            InSchedule,
            Named, //
        },
        plan::{
            exclusion::Found,
            Change, //
        },
        tsg, //
    },
    request::group::Device,
    worker::calls::Driver, //
};
use kernel::prelude::*;

/// The TSGs that are excluded from a GPU.
pub(crate) struct Exclusion {
    /// The TSGs that are kept off, by their ids.
    excluded: KVec<Named>,
    /// Those that cannot be, by their ids: they are not tried again until this exclusion is over, as
    /// each try may change the TSGs that there are to try.
    refused: KVec<tsg::Id>,
    /// The level of the requests.
    level: Option<Level>,
    /// The TSGs that were there when the exclusion began, as far as it has come with them.
    begun: Begun,
    /// TSGs that have come or changed since.
    news: [Option<Named>; news::PIECE],
    /// It failed for the requests that had come until then.
    failed: Option<u64>,
}

/// The progress of an exclusion.
enum Begun {
    /// None are excluded.
    No,
    /// Those behind this one are still to be found.
    Behind(Option<InSchedule>),
    /// Only news are left.
    All,
}

/// The next step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// Nobody is kept off: TSGs may take turns.
    Nobody,
    /// The TSGs that are kept off, for requests of this level, stay so for now.
    Below(Level),
    /// The provider cannot be called now: come back after a delay.
    Wait(Ms),
}

impl Exclusion {
    /// Nobody is kept off.
    pub(crate) fn new() -> Self {
        Self {
            excluded: KVec::new(),
            refused: KVec::new(),
            level: None,
            begun: Begun::No,
            news: [None; news::PIECE],
            failed: None,
        }
    }

    /// True if it can be told of more.
    pub(crate) fn has_room(&self) -> bool {
        matches!(self.begun, Begun::No) || self.news.iter().all(Option::is_none)
    }

    /// A TSG has come or changed.
    pub(crate) fn hear(&mut self, change: &Change) {
        let free = self.news.iter_mut().find(|place| place.is_none());
        // Before it begins there is nothing to keep up with.
        if let (Some(place), false) = (free, matches!(self.begun, Begun::No)) {
            *place = Some(Named {
                id: change.id,
                handle: change.handle,
            });
        }
    }

    /// Excludes TSGs, or lets them in, as the requests of the GPU have it, but for those of levels
    /// with a spent budget. Meanwhile a new TSG is excluded too, and one with a risen level is let
    /// in.
    pub(crate) fn step(
        &mut self,
        driver: &Driver<'_>,
        device: &Device,
        can_preempt: bool,
        throttled: level::Set,
    ) -> State {
        let arrivals = device.arrivals();
        let wanted = device.holder(throttled);
        let again = self.failed.is_some_and(|then| then != arrivals);
        let stays = wanted == self.level && !again;
        if stays && self.failed.is_some() {
            return State::Nobody;
        }
        if !stays {
            // From one level to another: everybody is let in first, in between.
            if let Some(delay) = self.let_all_in(driver) {
                return State::Wait(delay);
            }
            self.failed = None;
        }
        let Some(level) = wanted else {
            return State::Nobody;
        };
        let began = Ns(now_ns());
        let is_wanted = || device.holder(throttled) == Some(level);
        match self.exclude(driver, level, can_preempt, is_wanted) {
            Ok(None) => {
                if !stays && matches!(self.begun, Begun::All) {
                    device.took(Ns(now_ns()).saturating_sub(began));
                }
                State::Below(level)
            }
            Ok(Some(delay)) => State::Wait(delay),
            // Everybody is let in again, and nothing is tried again for these requests.
            Err(()) => {
                let delay = self.let_all_in(driver);
                self.level = Some(level);
                self.failed = Some(arrivals);
                delay.map_or(State::Nobody, State::Wait)
            }
        }
    }

    /// Lets everybody in again. Returns when to come back if the provider cannot do so now.
    fn let_all_in(&mut self, driver: &Driver<'_>) -> Option<Ms> {
        // Even if this stops half-way.
        self.begun = Begun::No;
        self.news = [None; news::PIECE];
        self.refused = KVec::new();
        let delay = self.let_in(driver, |_| true);
        if delay.is_none() {
            self.level = None;
            self.excluded = KVec::new();
        }
        delay
    }

    /// Lets in the TSGs that `may` names, the newest first. Returns when to come back if the provider
    /// cannot do so now.
    fn let_in(&mut self, driver: &Driver<'_>, may: impl Fn(&Named) -> bool) -> Option<Ms> {
        let mut at = self.excluded.len();
        while let Some(before) = at.checked_sub(1) {
            at = before;
            if self.excluded.get(at).is_some_and(&may) {
                if let Some(delay) = self.let_in_one(driver, at) {
                    return Some(delay);
                }
            }
        }
        None
    }

    fn let_in_one(&mut self, driver: &Driver<'_>, at: usize) -> Option<Ms> {
        let excluded = *self.excluded.get(at)?;
        let known = registry::with(|r| r.will_exclude(excluded.id, false)).unwrap_or(false);
        if known {
            let result = driver.ops.set_enabled(driver.handle, excluded.handle, true);
            let delay = registry::with(|r| {
                let delay = r.was_disabled(excluded.id, false, result);
                if result.is_err() && delay.is_none() {
                    // It is forgotten here: the worker tries once more.
                    r.let_run(excluded.id);
                }
                delay
            });
            if let Ok(Some(delay)) = delay {
                return Some(delay);
            }
        }
        let _ = self.excluded.remove(at);
        None
    }

    fn find(&self, id: tsg::Id) -> Result<usize, usize> {
        self.excluded
            .binary_search_by_key(&id, |excluded| excluded.id)
    }

    /// Excludes all less urgent TSGs, as long as that is wanted. Returns when to come back if the
    /// provider cannot let one in now that no longer is.
    fn exclude(
        &mut self,
        driver: &Driver<'_>,
        level: Level,
        can_preempt: bool,
        is_wanted: impl Fn() -> bool,
    ) -> Result<Option<Ms>, ()> {
        if let Begun::No = self.begun {
            // Some are left that could not be let in when the last one was over.
            let rose = |excluded: &Named| {
                registry::with(|r| !r.is_less_urgent(excluded.id, level)).unwrap_or(false)
            };
            if let Some(delay) = self.let_in(driver, rose) {
                return Ok(Some(delay));
            }
            self.begun = Begun::Behind(None);
        }
        self.level = Some(level);
        let victim = (level, can_preempt);
        while let Begun::Behind(last) = self.begun {
            let mut found = Found::behind(last);
            let is_any = registry::with(|r| r.less_urgent(driver.gpu, level, &mut found));
            if !is_any.map_err(|_| ())? {
                self.begun = Begun::All;
                break;
            }
            for named in found.tsgs.into_iter().flatten() {
                if !is_wanted() {
                    // The end of the wish has kicked the worker. Those of this piece that are off
                    // already are not found again.
                    return Ok(None);
                }
                self.exclude_one(driver, named, victim, found.timeout)?;
            }
            self.begun = Begun::Behind(found.last);
        }
        for at in 0..self.news.len() {
            let Some(named) = self.news.get(at).copied().flatten() else {
                continue;
            };
            if !is_wanted() {
                return Ok(None);
            }
            let now = registry::with(|r| r.exclusion_of(named.id, level)).map_err(|_| ())?;
            if let (None, Ok(at)) = (now, self.find(named.id)) {
                if let Some(delay) = self.let_in_one(driver, at) {
                    return Ok(Some(delay));
                }
            }
            if let Some(Some(timeout)) = now {
                self.exclude_one(driver, named, victim, timeout)?;
            }
            if let Some(place) = self.news.get_mut(at) {
                *place = None;
            }
        }
        Ok(None)
    }

    /// Excludes a TSG, unless that was refused before.
    fn exclude_one(
        &mut self,
        driver: &Driver<'_>,
        victim: Named,
        (level, can_preempt): (Level, bool),
        timeout: Us,
    ) -> Result<(), ()> {
        self.excluded.reserve(1, GFP_KERNEL).map_err(|_| ())?;
        self.refused.reserve(1, GFP_KERNEL).map_err(|_| ())?;
        let Err(refused) = self.refused.binary_search(&victim.id) else {
            return Ok(());
        };
        let verdict = exclude_one(driver, victim, timeout, can_preempt);
        // Without a registry there is nothing to count.
        let _ = registry::with(|r| r.was_excluded(driver.gpu, victim.id, level, verdict));
        if !verdict.concerns_one() {
            return Err(());
        }
        // There is room for both.
        if !verdict.is_off() {
            let _ = self.refused.insert_within_capacity(refused, victim.id);
        } else if let Err(at) = self.find(victim.id) {
            // One is there already that was to be let in, which the provider could not do then.
            let _ = self.excluded.insert_within_capacity(at, victim);
        }
        Ok(())
    }
}

/// Takes the GPU away from one TSG.
fn exclude_one(driver: &Driver<'_>, victim: Named, timeout: Us, can_preempt: bool) -> Verdict {
    let mut attempt = Attempt::new(can_preempt);
    loop {
        let result = match attempt.next() {
            Next::Preempt => driver.ops.preempt(driver.handle, victim.handle, timeout),
            Next::Disable => {
                if !registry::with(|r| r.will_exclude(victim.id, true)).unwrap_or(false) {
                    return Verdict::Done;
                }
                let result = driver.ops.set_enabled(driver.handle, victim.handle, false);
                // Without a registry there is nothing to remember.
                let _ = registry::with(|r| r.was_disabled(victim.id, true, result));
                result
            }
            Next::Over(verdict) => return verdict,
        };
        attempt.answered(match result {
            Ok(()) => Answer::Done,
            Err(ETIMEDOUT) => Answer::TimedOut,
            Err(ENOMEM) => Answer::OutOfMemory,
            Err(EINVAL) => Answer::Refused,
            Err(EAGAIN) => Answer::InvalidState,
            Err(ENOENT) => Answer::Gone,
            Err(_) => Answer::Failed,
        });
    }
}
