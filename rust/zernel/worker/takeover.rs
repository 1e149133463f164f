// SPDX-License-Identifier: GPL-2.0
//! Holds TSGs off the GPU for requests with earlier deadlines, from the worker of a GPU: carries out
//! decisions of [`policy::deadline::preemptive`](crate::policy::deadline::preemptive).
//!
//! A TSG yields first: it has the slice and the interleave level of best-effort, two calls. If it still
//! has something to run after [`BOUND`], it is taken off as for a request without a holder, two more. It gets
//! all back by three. Nothing is tried a second time for the same hold, but what the provider put off. After
//! an answer that tells of more than one TSG the others are left alone.

use super::{
    calls::{
        Calls as _,
        Driver, //
    },
    exclusion::exclude_one,
    rotation::Next, //
};
use crate::{
    glue::time::now_ns,
    ids::TsgId,
    policy::{
        deadline::preemptive::{
            Wish,
            BOUND,
            MOST, //
        },
        level::Level,
        preempt::Verdict,
        units::{
            Ms,
            Ns, //
        },
    },
    registry::{
        self,
        gpu,
        place::Named, //
    },
    request::device::Device,
    tuned, //
};
use kernel::prelude::*;

/// The state of a TSG.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// It yields; it is looked at then, so long after it began to.
    Yields(Ns),
    /// It was taken off the GPU.
    Off,
    /// It could not be.
    Refused,
}

/// The outcome for a TSG.
enum Pressed {
    /// No provider was called. It is to be looked at then.
    Until(Option<Ns>),
    /// The provider was called.
    Called,
    /// The provider cannot take any off now.
    PutOff(Ms),
    /// The GPU does not respond.
    NotResponding,
}

/// A TSG that is held.
#[derive(Clone, Copy)]
struct Held {
    named: Named,
    level: Level,
    since: Ns,
    state: State,
}

/// The TSGs of a GPU that are held.
pub(super) struct Takeover {
    held: [Option<Held>; MOST],
    /// It was told that the provider lacks an operation.
    is_told: bool,
}

impl Takeover {
    /// None.
    pub(super) const fn new() -> Self {
        Self {
            held: [None; MOST],
            is_told: false,
        }
    }

    /// True if none is held.
    pub(super) fn is_empty(&self) -> bool {
        self.held.iter().all(Option::is_none)
    }

    /// Tells of operations that the provider lacks for the order, once for each time that it is tuned.
    pub(super) fn tell_missing(&mut self, gpu: gpu::Id, abilities: gpu::Abilities) {
        if !tuned::order_preempts() {
            self.is_told = false;
            return;
        }
        if core::mem::replace(&mut self.is_told, true) {
            return;
        }
        for (name, effect) in missing(abilities).into_iter().flatten() {
            pr_warn!(
                "GPU {}: its provider lacks {}: with edf-preemptive {} there\n",
                gpu.0,
                name,
                effect
            );
        }
    }

    /// Has TSGs yield, and takes one off the GPU or gives one back, as the requests of the GPU have it. Others
    /// that wait for the worker are looked at before the next one.
    pub(super) fn step(&mut self, driver: &Driver<'_>, device: &Device, can_preempt: bool) -> Next {
        let now = Ns(now_ns());
        let (wishes, until) = device.order.wishes(now);
        // First, so that nobody waits for calls for others.
        for place in &mut self.held {
            let is_wanted = |held: &Held| {
                let mut wishes = wishes.iter().flatten();
                wishes.any(|wish| TsgId(wish.tsg) == held.named.id)
            };
            let Some(held) = place.filter(|held| !is_wanted(held)) else {
                continue;
            };
            match held.give_back(driver) {
                Pressed::PutOff(delay) => return Next::Wait(delay),
                Pressed::Called => {
                    *place = None;
                    return Next::Called;
                }
                _ => *place = None,
            }
        }
        let mut is_new = false;
        for wish in wishes.iter().flatten() {
            is_new |= self.take_up(driver.gpu, wish, now);
        }
        if is_new {
            // The worker has it yield, by a step.
            return Next::Again;
        }
        let mut at = until;
        for held in self.held.iter_mut().flatten() {
            match held.press(driver, can_preempt) {
                Pressed::Until(due) => at = [at, due].into_iter().flatten().min(),
                Pressed::Called => return Next::Called,
                Pressed::PutOff(delay) => return Next::Wait(delay),
                // The GPU is left alone until its provider reports it back.
                Pressed::NotResponding => return Next::Idle,
            }
        }
        at.map_or(Next::Idle, Next::At)
    }

    /// Has a TSG yield, unless it does. Returns true if it is new.
    fn take_up(&mut self, gpu: gpu::Id, wish: &Wish, now: Ns) -> bool {
        let id = TsgId(wish.tsg);
        let is_known = self.held.iter().flatten().any(|held| held.named.id == id);
        let free = self.held.iter_mut().find(|place| place.is_none());
        let (Some(free), false) = (free, is_known) else {
            return false;
        };
        let found = registry::with(|r| {
            let found = r.yielding(id)?;
            r.set_yielding(gpu, id, true).then_some(found.named)
        });
        let Ok(Some(named)) = found else {
            return false;
        };
        *free = Some(Held {
            named,
            level: wish.level,
            since: now,
            state: State::Yields(BOUND),
        });
        true
    }
}

impl Held {
    /// Takes it off the GPU if it still has something to run.
    fn press(&mut self, driver: &Driver<'_>, can_preempt: bool) -> Pressed {
        let State::Yields(after) = self.state else {
            return Pressed::Until(None);
        };
        let due = self.since.saturating_add(after);
        let now = Ns(now_ns());
        if now < due {
            return Pressed::Until(Some(due));
        }
        let found = registry::with(|r| r.yielding(self.named.id)).unwrap_or(None);
        let Some(found) = found else {
            self.state = State::Refused;
            return Pressed::Until(None);
        };
        let load = driver.load(self.named.handle);
        if found.excluded || load.is_ok_and(|load| !load.runnable) {
            // It has nothing to run, or is off for others: so long again, and twice as long.
            let passed = now.saturating_sub(self.since);
            let after = passed.saturating_add(passed).max(BOUND);
            self.state = State::Yields(after);
            return Pressed::Called;
        }
        let verdict = exclude_one(driver, self.named, found.timeout, can_preempt);
        let delay = registry::with(|r| {
            r.was_excluded(driver.gpu, self.named.id, self.level, verdict);
            let is_put_off = !verdict.concerns_one() && verdict != Verdict::NotResponding;
            is_put_off.then(|| r.put_off(driver.gpu)).flatten()
        });
        if let Ok(Some(delay)) = delay {
            // It yields on, and is tried again then.
            return Pressed::PutOff(delay);
        }
        self.state = match verdict.is_off() {
            true => State::Off,
            false => State::Refused,
        };
        match verdict {
            Verdict::NotResponding => Pressed::NotResponding,
            _ => Pressed::Called,
        }
    }

    /// Gives it back what it had.
    fn give_back(&self, driver: &Driver<'_>) -> Pressed {
        let id = self.named.id;
        let known = self.state == State::Off
            && registry::with(|r| r.will_exclude(id, false)).unwrap_or(false);
        if known {
            let result = driver.set_enabled(self.named.handle, true);
            let delay = registry::with(|r| {
                let delay = r.was_disabled(id, false, result);
                if result.is_err() && delay.is_none() {
                    // It is forgotten here: the worker tries once more.
                    r.let_run(id);
                }
                delay
            });
            if let Ok(Some(delay)) = delay {
                return Pressed::PutOff(delay);
            }
        }
        // Without a registry nothing is in force.
        let _ = registry::with(|r| {
            r.set_yielding(driver.gpu, id, false);
            // It may be one to exclude for others.
            r.add_news(id);
        });
        match known {
            true => Pressed::Called,
            false => Pressed::Until(None),
        }
    }
}

/// The operations that a provider lacks for the order, and the effects. Without the first, the others
/// would not be called.
fn missing(abilities: gpu::Abilities) -> [Option<(&'static str, &'static str)>; 3] {
    if !abilities.enable {
        let all = ("set_enabled", "the order is edf");
        return [Some(all), None, None];
    }
    [
        (
            abilities.interleave,
            "set_interleave",
            "a TSG yields by its slice alone",
        ),
        (
            abilities.preempt,
            "preempt",
            "a TSG is disabled, but not preempted",
        ),
        (
            abilities.tsg_load,
            "query_tsg",
            "a TSG is disabled even if it is idle",
        ),
    ]
    .map(|(has, name, effect)| (!has).then_some((name, effect)))
}

#[cfg(zernel_kunit)]
#[kernel::macros::kunit_tests(zernel_worker_takeover)]
mod tests {
    use super::*;

    const ALL: gpu::Abilities = gpu::Abilities {
        interleave: true,
        preempt: true,
        enable: true,
        load: true,
        tsg_load: true,
        turns: true,
        kick: true,
    };

    /// The names of those that are missing.
    fn named(abilities: gpu::Abilities) -> [Option<&'static str>; 3] {
        missing(abilities).map(|one| one.map(|(name, _)| name))
    }

    #[test]
    fn a_missing_operation_is_named() {
        assert_eq!(named(ALL), [None; 3]);
        let without = gpu::Abilities {
            enable: false,
            preempt: false,
            ..ALL
        };
        assert_eq!(named(without), [Some("set_enabled"), None, None]);
        let some = gpu::Abilities {
            interleave: false,
            preempt: false,
            tsg_load: false,
            ..ALL
        };
        assert_eq!(
            named(some),
            [Some("set_interleave"), Some("preempt"), Some("query_tsg")]
        );
    }
}
