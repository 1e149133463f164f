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
        plan::exclusion::Excluded,
        tsg,
        turns,
        Global, //
    },
    request::group::Device,
    worker::rotation::Driver, //
};
use kernel::prelude::*;

/// The TSGs that are excluded from a GPU.
pub(crate) struct Exclusion {
    /// The TSGs that are kept off.
    excluded: KVec<Excluded>,
    /// Those that cannot be: they are not tried again until this exclusion is over, as each try may
    /// change the TSGs that there are to try.
    refused: KVec<tsg::Id>,
    /// The level of the requests.
    level: Option<Level>,
    /// Of the TSGs that were there when the exclusion began; 0: none are excluded.
    generation: u64,
    /// It failed for the requests that had come until then.
    failed: Option<u64>,
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
            generation: 0,
            failed: None,
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
                if !stays && self.generation != 0 {
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
        self.generation = 0;
        self.refused.clear();
        let delay = self.let_in(driver, |_| true);
        if delay.is_none() {
            self.level = None;
        }
        delay
    }

    /// Lets in the TSGs that `may` names, the last excluded first. Returns when to come back if the
    /// provider cannot do so now.
    fn let_in(&mut self, driver: &Driver<'_>, may: impl Fn(&Excluded) -> bool) -> Option<Ms> {
        let mut at = self.excluded.len();
        while let Some(before) = at.checked_sub(1) {
            at = before;
            let Some(excluded) = self.excluded.get(at).copied().filter(&may) else {
                continue;
            };
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
        }
        None
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
        let setup = turns::less_urgent(&mut Global, driver.gpu, level, self.generation);
        let Some(setup) = setup.map_err(|_| ())? else {
            return Ok(None);
        };
        let rose = |excluded: &Excluded| {
            registry::with(|r| !r.is_less_urgent(excluded.id, level)).unwrap_or(false)
        };
        if let Some(delay) = self.let_in(driver, rose) {
            return Ok(Some(delay));
        }
        self.excluded
            .reserve(setup.found.len(), GFP_KERNEL)
            .map_err(|_| ())?;
        self.refused
            .reserve(setup.found.len(), GFP_KERNEL)
            .map_err(|_| ())?;
        self.level = Some(level);
        for victim in &setup.found {
            if self.refused.contains(&victim.id) {
                continue;
            }
            if !is_wanted() {
                // The end of the wish has kicked the worker.
                return Ok(None);
            }
            let verdict = exclude_one(driver, victim, setup.timeout, can_preempt);
            // Without a registry there is nothing to count.
            let _ = registry::with(|r| r.was_excluded(driver.gpu, victim.id, level, verdict));
            if !verdict.concerns_one() {
                return Err(());
            }
            if !verdict.is_off() {
                // There is room.
                let _ = self.refused.push_within_capacity(victim.id);
                continue;
            }
            // One is there already that was to be let in, which the provider could not do then.
            if !self
                .excluded
                .iter()
                .any(|excluded| excluded.id == victim.id)
            {
                // There is room.
                let _ = self.excluded.push_within_capacity(*victim);
            }
        }
        self.generation = setup.generation;
        Ok(None)
    }
}

/// Takes the GPU away from one TSG.
fn exclude_one(driver: &Driver<'_>, victim: &Excluded, timeout: Us, can_preempt: bool) -> Verdict {
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
