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
            exclusion::{
                self,
                Found, //
            },
            Change, //
        },
        tsg, //
    },
    request::device::Device,
    worker::calls::Driver, //
};
use kernel::prelude::*;

/// The TSGs that are excluded from a GPU.
pub(crate) struct Exclusion {
    /// The TSGs that are kept off, by their ids.
    excluded: KVVec<Named>,
    /// Those that cannot be, by their ids: they are not tried again until this exclusion is over, as
    /// each try may change the TSGs that there are to try.
    refused: KVVec<tsg::Id>,
    /// The level of the requests.
    level: Option<Level>,
    /// The TSGs that were there when the exclusion began, as far as it has come with them.
    begun: Begun,
    /// TSGs that have come or changed since.
    news: [Option<Named>; news::PIECE],
    /// It failed for the requests that had come until then.
    failed: Option<u64>,
    /// The begin of an exclusion that is under way.
    began: Option<Ns>,
    /// The time that its parts took.
    took: Ns,
}

/// TSGs that are excluded or let in, before the worker looks at other things.
const AT_ONCE: usize = 32;

/// The outcome of a part of an exclusion, or of its end.
enum Part {
    /// All is done.
    All,
    /// There is more.
    More,
    /// The provider cannot be called now.
    Later(Ms),
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
    /// The TSGs that are kept off, for requests of this level, stay so for now: since then at least.
    Below(Level, Ns),
    /// The provider cannot be called now: come back after a delay.
    Wait(Ms),
    /// Come back at once; some are kept off for requests of this level, since then at least.
    Again(Option<(Level, Ns)>),
}

impl Exclusion {
    /// Nobody is kept off.
    pub(crate) fn new() -> Self {
        Self {
            excluded: KVVec::new(),
            refused: KVVec::new(),
            level: None,
            begun: Begun::No,
            news: [None; news::PIECE],
            failed: None,
            began: None,
            took: Ns::ZERO,
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
        if let (true, Some(then), Some(level)) = (stays, self.failed, self.level) {
            return self.give_up(driver, level, then);
        }
        if !stays {
            // From one level to another: everybody is let in first, in between.
            match self.let_all_in(driver) {
                Part::All => self.failed = None,
                Part::More => return self.again(),
                Part::Later(delay) => return State::Wait(delay),
            }
        }
        let Some(level) = wanted else {
            return State::Nobody;
        };
        let is_wanted = || device.holder(throttled) == Some(level);
        let began = Ns(now_ns());
        let part = self.exclude(driver, level, can_preempt, is_wanted);
        let now = Ns(now_ns());
        self.took = self.took.saturating_add(now.saturating_sub(began));
        match part {
            Ok(Part::All) => {
                let began = self.began.take();
                if began.is_some() {
                    device.took(self.took);
                }
                State::Below(level, began.unwrap_or(now))
            }
            Ok(Part::More) => self.again(),
            Ok(Part::Later(delay)) => State::Wait(delay),
            Err(()) => self.give_up(driver, level, arrivals),
        }
    }

    /// More is to be done; those that are kept off are so for the requests' level meanwhile.
    fn again(&self) -> State {
        let since = self.began.unwrap_or_else(|| Ns(now_ns()));
        State::Again(self.level.map(|level| (level, since)))
    }

    /// Everybody is let in again, and nothing is tried again for these requests.
    fn give_up(&mut self, driver: &Driver<'_>, level: Level, arrivals: u64) -> State {
        let waits = registry::with(|r| r.waits_until(driver.gpu)).unwrap_or(None);
        let part = match waits.map(|until| until.saturating_sub(Ns(now_ns()))) {
            // The provider has said "not now" to the last call.
            Some(left) => Part::Later(Ms(left.0.div_ceil(1_000_000) as u32)),
            None => self.let_all_in(driver),
        };
        let state = match part {
            Part::All => State::Nobody,
            Part::More => self.again(),
            Part::Later(delay) => State::Wait(delay),
        };
        self.level = Some(level);
        self.failed = Some(arrivals);
        state
    }

    /// Lets everybody in again.
    fn let_all_in(&mut self, driver: &Driver<'_>) -> Part {
        // Even if this stops half-way.
        self.begun = Begun::No;
        self.began = None;
        self.news = [None; news::PIECE];
        self.refused = KVVec::new();
        let part = self.let_in(driver, |_| true);
        if let Part::All = part {
            self.level = None;
            self.excluded = KVVec::new();
        }
        part
    }

    /// Lets in some of the TSGs that `may` names, the newest first.
    fn let_in(&mut self, driver: &Driver<'_>, may: impl Fn(&Named) -> bool) -> Part {
        let (mut at, mut left) = (self.excluded.len(), AT_ONCE);
        while let Some(before) = at.checked_sub(1) {
            at = before;
            if !self.excluded.get(at).is_some_and(&may) {
                continue;
            }
            if left == 0 {
                return Part::More;
            }
            left -= 1;
            if let Some(delay) = self.let_in_one(driver, at) {
                return Part::Later(delay);
            }
        }
        Part::All
    }

    /// Lets one in. Returns when to come back if the provider cannot do so now.
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

    /// Excludes some of the less urgent TSGs, as long as that is wanted, and lets in those that no
    /// longer are.
    fn exclude(
        &mut self,
        driver: &Driver<'_>,
        level: Level,
        can_preempt: bool,
        is_wanted: impl Fn() -> bool,
    ) -> Result<Part, ()> {
        if let Begun::No = self.begun {
            // Some are left that could not be let in when the last one was over.
            let rose = |excluded: &Named| {
                registry::with(|r| !r.is_less_urgent(excluded.id, level)).unwrap_or(false)
            };
            match self.let_in(driver, rose) {
                Part::All => {}
                part => return Ok(part),
            }
            self.begun = Begun::Behind(None);
            self.began = Some(Ns(now_ns()));
            self.took = Ns::ZERO;
        }
        self.level = Some(level);
        let victim = (level, can_preempt);
        for _ in 0..AT_ONCE / exclusion::PIECE {
            let Begun::Behind(last) = self.begun else {
                break;
            };
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
                    return Ok(Part::More);
                }
                self.exclude_one(driver, named, victim, found.timeout)?;
            }
            self.begun = Begun::Behind(found.last);
        }
        if let Begun::Behind(_) = self.begun {
            return Ok(Part::More);
        }
        for at in 0..self.news.len() {
            let Some(named) = self.news.get(at).copied().flatten() else {
                continue;
            };
            if !is_wanted() {
                return Ok(Part::More);
            }
            let now = registry::with(|r| r.exclusion_of(named.id, level)).map_err(|_| ())?;
            if let (None, Ok(at)) = (now, self.find(named.id)) {
                if let Some(delay) = self.let_in_one(driver, at) {
                    return Ok(Part::Later(delay));
                }
            }
            if let Some(Some(timeout)) = now {
                self.exclude_one(driver, named, victim, timeout)?;
            }
            if let Some(place) = self.news.get_mut(at) {
                *place = None;
            }
        }
        Ok(Part::All)
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
pub(super) fn exclude_one(
    driver: &Driver<'_>,
    victim: Named,
    timeout: Us,
    can_preempt: bool,
) -> Verdict {
    let mut attempt = Attempt::new(can_preempt);
    loop {
        let result = match attempt.next() {
            Next::Preempt => driver.ops.preempt(driver.handle, victim.handle, timeout),
            Next::Disable => {
                let refused = registry::with(|r| {
                    let may = r.will_exclude(victim.id, true);
                    (!may).then(|| r.why_not(victim.id))
                });
                // Without a registry nobody is there.
                if let Some(answer) = refused.unwrap_or(Some(Answer::Gone)) {
                    attempt.answered(answer);
                    continue;
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
            Err(EINVAL | EBUSY) => Answer::Refused,
            Err(EAGAIN) => Answer::InvalidState,
            Err(ENOENT) => Answer::Gone,
            Err(_) => Answer::Failed,
        });
    }
}
