// SPDX-License-Identifier: GPL-2.0
//! Slices that follow the slack of TSGs, from the worker of a GPU: carries out decisions of
//! [`policy::slices::slack`](crate::policy::slices::slack).

use super::calls::{
    Calls,
    Driver, //
};
use crate::{
    glue::{
        provider::Ops,
        time::now_ns, //
    },
    policy::{
        level::Level,
        rotation::entity::Sample,
        slices::slack::{
            Claimant,
            Open,
            Terms, //
        },
        units::{
            Ns,
            Us, //
        },
    },
    registry::{
        self,
        gpu,
        slack::Claim,
        tsg, //
    },
    request::claims::{
        Claims,
        ROOM, //
    },
};
use kernel::prelude::*;

/// TSGs that are looked at in one call of the provider.
const AT_ONCE: usize = 4;
const _: () = assert!(AT_ONCE <= Ops::LOADS);

/// A TSG without a request with a deadline is forgotten after so long.
const FORGOTTEN: Ns = Ns(1_000_000_000);

/// A TSG.
struct Watched {
    id: tsg::Id,
    claimant: Claimant,
    /// The level that its place counts for, once it was looked at.
    level: Option<Level>,
    /// The slice that was decided last.
    slice: Option<Us>,
    /// When it last had a request with a deadline.
    seen: Ns,
    /// It had one at the last look.
    was_open: bool,
}

/// A TSG that is looked at.
struct Looked {
    place: usize,
    claim: Claim,
    open: Open,
    sample: Option<Sample>,
}

/// The slices of a GPU that follow slacks.
pub(super) struct Slack {
    watched: KVec<Watched>,
    /// No look comes before.
    due: Ns,
    /// The look that is under way.
    look: Option<Look>,
}

/// A look at all of them, some at a time.
#[derive(Clone, Copy)]
struct Look {
    /// The next one.
    from: usize,
    /// One has a request with a deadline.
    is_open: bool,
}

impl Slack {
    /// Nothing is watched.
    pub(super) fn new() -> Self {
        Self {
            watched: KVec::new(),
            due: Ns::ZERO,
            look: None,
        }
    }

    /// Has all TSGs have the slices of their levels again.
    pub(super) fn end(&mut self, gpu: gpu::Id) {
        let device = registry::with(|r| Some(r.gpu(gpu)?.requests.clone()));
        if let Ok(Some(device)) = device {
            device.claims.set_watched(false);
            for id in device.claims.all() {
                device.claims.remove(id);
                // Without a registry there is nothing to change.
                let _ = registry::with(|r| r.unclaim(id));
            }
        }
        self.watched.clear();
        self.look = None;
    }

    /// Looks at all of them once in a quantum, while one has a request with a deadline. Returns when to
    /// come back.
    pub(super) fn step(
        &mut self,
        (gpu, handle): (gpu::Id, gpu::Handle),
        ops: &Ops,
        terms: &Terms,
    ) -> Option<Ns> {
        let device = registry::with(|r| Some(r.gpu(gpu)?.requests.clone()));
        let device = device.ok().flatten()?;
        self.go_on(&Driver { ops, gpu, handle }, &device.claims, terms)
    }

    /// The same, for some of them: others that wait for the worker come in between.
    fn go_on(&mut self, driver: &impl Calls, claims: &Claims, terms: &Terms) -> Option<Ns> {
        let now = Ns(now_ns());
        let look = match self.look {
            Some(look) => look,
            None if now < self.due => {
                // Perhaps for a request that has just begun.
                let are_any = claims.all().next().is_some();
                claims.set_watched(are_any);
                return are_any.then_some(self.due);
            }
            None => {
                self.due = now.saturating_add(terms.quantum.into());
                // Before the slots are locked: of a request that begins later, its thread tells.
                claims.set_watched(false);
                if self.welcome(claims, now).is_err() {
                    return Some(self.due);
                }
                // Where it comes in pieces, that thread may tell in between, of one that was looked at.
                Look {
                    from: 0,
                    is_open: self.watched.len() > AT_ONCE,
                }
            }
        };
        let is_open = self.look(driver, claims, (terms, now), look.from) || look.is_open;
        let from = look.from.saturating_add(AT_ONCE);
        if from < self.watched.len() {
            self.look = Some(Look { from, is_open });
            return Some(now);
        }
        self.look = None;
        self.part(claims, now);
        claims.set_watched(is_open);
        is_open.then_some(self.due)
    }

    /// Watches those that are new.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    fn welcome(&mut self, claims: &Claims, now: Ns) -> Result {
        for id in claims.all() {
            if self.watched.iter().any(|watched| watched.id == id) {
                continue;
            }
            if self.watched.capacity() < ROOM {
                self.watched.reserve(ROOM, GFP_KERNEL)?;
            }
            let new = Watched {
                id,
                claimant: Claimant::NEW,
                level: None,
                slice: None,
                seen: now,
                was_open: true,
            };
            self.watched.push(new, GFP_KERNEL)?;
        }
        Ok(())
    }

    /// Forgets those that are gone, or have had no request for long.
    fn part(&mut self, claims: &Claims, now: Ns) {
        self.watched.retain(|watched| {
            let stays = now.saturating_sub(watched.seen) < FORGOTTEN;
            if !stays {
                claims.remove(watched.id);
                // Without a registry there is nothing to change.
                let _ = registry::with(|r| r.unclaim(watched.id));
            }
            stays
        });
    }

    /// Looks at some, from this one on. Returns whether one has a request with a deadline.
    fn look(
        &mut self,
        driver: &impl Calls,
        claims: &Claims,
        (terms, now): (&Terms, Ns),
        from: usize,
    ) -> bool {
        let mut looked: [Option<Looked>; AT_ONCE] = [const { None }; AT_ONCE];
        let (mut handles, mut count, mut is_open) = ([0; AT_ONCE], 0, false);
        let some = self.watched.iter_mut().enumerate().skip(from);
        for (place, watched) in some.take(AT_ONCE) {
            let claim = registry::with(|r| r.claim(watched.id));
            let Ok(Some(claim)) = claim else {
                // It is gone.
                watched.seen = Ns::ZERO;
                continue;
            };
            let level = claim.group.level().unwrap_or(Level::BE);
            if watched.level.replace(level) != Some(level) {
                // A class that went leaves its place to others.
                claims.set_level(watched.id, level);
            }
            let Some(open) = claim.group.open(now) else {
                // One of its threads is at them: the last decision holds for this quantum.
                is_open |= watched.was_open;
                continue;
            };
            let has_some = open.first().is_some();
            is_open |= has_some;
            if has_some {
                watched.seen = now;
            }
            if !(has_some || watched.was_open) {
                continue;
            }
            watched.was_open = has_some;
            if let (Some(handle), Some(to)) = (handles.get_mut(count), looked.get_mut(count)) {
                *handle = claim.handle;
                *to = Some(Looked {
                    place,
                    claim,
                    open,
                    sample: None,
                });
                count += 1;
            }
        }
        let asked = handles.get(..count).unwrap_or_default();
        driver.loads(asked, |at, sample| {
            if let Some(Some(one)) = looked.get_mut(at) {
                one.sample = Some(sample);
            }
        });
        for one in looked.iter().flatten() {
            if let Some(watched) = self.watched.get_mut(one.place) {
                watched.decide(one, terms, now);
            }
        }
        is_open
    }
}

impl Watched {
    fn decide(&mut self, looked: &Looked, terms: &Terms, now: Ns) {
        let slice = looked.sample.and_then(|sample| {
            let seen = looked.claim.seen(&sample, now);
            self.claimant.step(terms, &seen, &looked.open)
        });
        if slice != self.slice {
            self.slice = slice;
            // Without a registry there is nothing to change.
            let _ = registry::with(|r| r.set_slice(self.id, slice));
        }
    }
}

#[cfg(zernel_kunit)]
#[kernel::macros::kunit_tests(zernel_worker_slack)]
mod tests {
    use super::*;
    use crate::{
        policy::units::Ms,
        request::device::Device, //
    };

    /// A provider without a TSG.
    struct Nobody;

    impl Calls for Nobody {
        fn load(&self, _tsg: u64) -> Result<Sample> {
            Err(ENOENT)
        }

        fn set_enabled(&self, _tsg: u64, _enabled: bool) -> Result {
            Err(ENOENT)
        }

        fn will_enable(&self, _id: tsg::Id, _enabled: bool) -> bool {
            false
        }

        fn was_enabled(&self, _id: tsg::Id, _enabled: bool, _result: Result) -> Option<Ms> {
            None
        }
    }

    const MANY: usize = 4 * AT_ONCE;

    #[test]
    fn a_look_is_in_pieces() -> Result {
        let device = Device::new(true, false)?;
        let claims = &device.claims;
        for tsg in 0..MANY as u64 {
            assert!(claims.add(tsg::Id(u64::MAX - tsg), Level::LC, 1));
        }
        let terms = Terms {
            quantum: Us(60_000_000),
            ..Terms::USUAL
        };
        let mut slack = Slack::new();
        for _ in 1..MANY / AT_ONCE {
            let due = slack.go_on(&Nobody, claims, &terms);
            assert!(due.is_some_and(|due| due <= Ns(now_ns())));
            assert_eq!(claims.all().count(), MANY);
        }
        let due = slack.go_on(&Nobody, claims, &terms);
        assert!(due.is_some_and(|due| due > Ns(now_ns())));
        assert_eq!(claims.all().count(), 0);
        Ok(())
    }
}
