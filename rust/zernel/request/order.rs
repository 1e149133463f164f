// SPDX-License-Identifier: GPL-2.0
//! The requests of a GPU whose triggers wait for their turn.
//!
//! The lock of an order comes before those of its slots, which it takes one after the other: with a
//! slot's own it is never asked for. So each event of a slot is followed by [`Order::settle`], which
//! looks at the slot anew: two events at a time lead to the same end in either order.

use crate::{
    glue::{
        boxed::boxed,
        irqlock::{
            new_irq_lock,
            IrqLock, //
        },
        time::now_ns, //
    },
    policy::{
        deadline::{
            line::{
                Claim,
                Lane,
                Line,
                Place,
                Refused, //
            },
            preemptive::{
                Step,
                Wish,
                MOST, //
            },
        },
        level,
        request::{
            order::Standing,
            record::Ended, //
        },
        units::Ns, //
    },
    tuned, //
};
use kernel::{
    prelude::*,
    sync::{
        atomic::{
            ordering::Relaxed,
            Atomic, //
        },
        Arc, //
    },
};

/// A slot with a request that has a place. Each call takes the lock of the slot.
pub(super) trait Waiter: Send + Sync {
    /// The part of the request at this place.
    ///
    /// # Errors
    ///
    /// Its end, as far as known: it is over, and the slot has the place no more.
    fn standing(&self, place: Place) -> Result<Standing, Option<Ended>>;
    /// Its turn has come. Returns its part then.
    fn grant(&self, place: Place, now: Ns) -> Standing;
    /// It waits, and the order is to be asked again at this time.
    fn wait_until(&self, place: Place, at: Ns);
    /// Others wait for it, or have counted with its end, from then on.
    fn watch(&self, place: Place, from: Ns);
}

/// Nobody has a place. It is too large for a stack.
static EMPTY: Line = Line::EMPTY;

/// The places, and who has them.
struct Places {
    line: KBox<Line>,
    waiters: [Option<Arc<dyn Waiter>>; Line::ROOM],
}

/// Turns in one hold of the lock, with interrupts off; and requests that are watched from then on. More than
/// one turn comes where a process has stored the end of its request before.
const TURNS: usize = 4;
/// The rest follows so long after that, by the timer of the next.
const PAUSE: Ns = Ns(5_000);
/// Room for decisions about a lane at a time: turns, holds that begin and end, and who pays for them.
const STEPS: usize = TURNS + 4 * MOST;

/// The order of a GPU.
///
/// A slot leaves its place before its page goes, and [`Order::part`] comes in between, so that the
/// reference here is never the last.
#[pin_data]
pub(crate) struct Order {
    #[pin]
    places: IrqLock<KBox<Places>>,
    /// The worker is to look at holds.
    is_news: Atomic<bool>,
}

impl Order {
    /// Nobody waits.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn new() -> Result<impl PinInit<Self>> {
        let places = Places {
            line: boxed(&EMPTY)?,
            waiters: [const { None }; Line::ROOM],
        };
        let places = KBox::new(places, GFP_KERNEL)?;
        Ok(pin_init!(Self {
            places <- new_irq_lock!(places, c"zernel_order"),
            is_news: Atomic::new(false),
        }))
    }

    /// A place with a promise for a request that is to begin, until [`Self::join`] or
    /// [`Self::give_back`]. Looks at each place a bounded number of times. `replaced`: the request of
    /// `waiter` that is over then, if it has its place still.
    ///
    /// # Errors
    ///
    /// [`Refused`].
    pub(super) fn admit(
        &self,
        waiter: &dyn Waiter,
        lane: Lane,
        user: u32,
        claim: Claim,
        replaced: Option<Place>,
        now: Ns,
    ) -> Result<Place, Refused> {
        let mut places = self.places.lock();
        let replaced = replaced.filter(|place| places.are_of(*place, waiter));
        places.line.admit(lane, user, claim, replaced, now)
    }

    /// A request that was admitted has not begun.
    pub(super) fn give_back(&self, place: Place) {
        self.places.lock().line.leave(place);
    }

    /// A request of `waiter` gets a place, and its turn if that has come. `enter` is called with the
    /// order locked: it takes the lock of the slot, and makes the place the slot's. Returns whether
    /// there was room for it.
    pub(super) fn join(
        &self,
        waiter: Arc<dyn Waiter>,
        enter: impl FnOnce(&mut Line) -> Option<Place>,
    ) -> bool {
        let mut guard = self.places.lock();
        let places = &mut **guard;
        let Some(place) = enter(&mut places.line) else {
            return false;
        };
        if let Some(free) = places.waiters.get_mut(place.number()) {
            *free = Some(waiter);
        }
        // Should it be over by now. The caller has another reference.
        drop(places.settle(place, Ns(now_ns()), &self.is_news));
        true
    }

    /// Something happened to the request that has, or had, this place.
    pub(super) fn settle(&self, place: Place) {
        let mut places = self.places.lock();
        // Dropped with the lock held, after which alone the page of a slot goes: not the last one.
        drop(places.settle(place, Ns(now_ns()), &self.is_news));
    }

    /// These levels are shared from now on, and no others.
    pub(super) fn share(&self, levels: level::Set) {
        self.places.lock().line.share(levels, Ns(now_ns()));
    }

    /// True if holds have changed since this was asked last.
    pub(super) fn has_news(&self) -> bool {
        self.is_news.load(Relaxed) && self.is_news.xchg(false, Relaxed)
    }

    /// The TSGs that are to be off the GPU, and when the next of them is not, at the latest. Requests that
    /// are held for no longer go on.
    pub(crate) fn wishes(&self, now: Ns) -> ([Option<Wish>; MOST], Option<Ns>) {
        let is_on = tuned::order_preempts();
        // Each of them is held no longer. Others come in between.
        for _ in 0..MOST {
            let mut places = self.places.lock();
            let (due, _) = places.line.released(now);
            let off = places.line.held_lane().filter(|_| !is_on);
            let Some(lane) = due.or(off) else {
                break;
            };
            places.serve(lane, now, &self.is_news);
        }
        let places = self.places.lock();
        self.is_news.store(false, Relaxed);
        let (_, next) = places.line.released(now);
        (places.line.wishes(now), next)
    }

    /// When this returns the order has no reference to slots that have no place.
    pub(super) fn part(&self) {
        drop(self.places.lock());
    }
}

impl Places {
    /// True if a place is that of a request of this slot.
    fn are_of(&self, place: Place, waiter: &dyn Waiter) -> bool {
        self.waiter(place)
            .is_some_and(|other| core::ptr::addr_eq(other, waiter))
    }

    fn waiter(&self, place: Place) -> Option<&dyn Waiter> {
        self.waiters.get(place.number())?.as_deref()
    }

    /// Looks at the request of a place, and at who goes next. Returns the waiter of a place that is
    /// given back.
    fn settle(&mut self, place: Place, now: Ns, news: &Atomic<bool>) -> Option<Arc<dyn Waiter>> {
        let standing = self.waiter(place)?.standing(place);
        let mut unused = None;
        let lane = match standing {
            Ok(standing) => self.note(place, standing, now),
            Err(ended) => {
                unused = self.waiters.get_mut(place.number())?.take();
                if let Some(least) = ended.and_then(|ended| ended.least) {
                    self.line.lasts(place, least, now);
                }
                if let Some(held) = ended.and_then(|ended| ended.late) {
                    self.line.is_late(place, held, now);
                }
                let burst = ended.and_then(|ended| ended.burst);
                self.line.over(place, burst, now)
            }
        };
        if let Some(lane) = lane {
            self.serve(lane, now, news);
        }
        unused
    }

    fn note(&mut self, place: Place, standing: Standing, now: Ns) -> Option<Lane> {
        match standing {
            Standing::Apart => self.line.rests(place),
            Standing::Waits => self.line.waits(place),
            Standing::Runs(until) => {
                let is_new = !self.line.has_run(place);
                let lane = self.line.runs(place, until, now);
                if let (Some(end), Some(waiter)) =
                    (self.line.promised_end(place), self.waiter(place))
                {
                    if is_new {
                        waiter.watch(place, end);
                    }
                }
                lane
            }
        }
    }

    /// Has the next request of a lane go, and the one after it wait. `news`: the worker is to look at holds.
    fn serve(&mut self, lane: Lane, now: Ns, news: &Atomic<bool>) {
        let is_on = tuned::order_preempts();
        let mut turns = 0;
        // Each that waits goes, or does not wait any more.
        for _ in 0..STEPS {
            let next = match self.line.step(lane, now, is_on) {
                Step::Go(next) if turns < TURNS => next,
                Step::Held(_) | Step::Resumed(_) | Step::Charged => {
                    news.store(true, Relaxed);
                    continue;
                }
                Step::Go(_) | Step::Rest => break,
            };
            turns += 1;
            let standing = self.waiter(next).map(|waiter| waiter.grant(next, now));
            self.note(next, standing.unwrap_or(Standing::Apart), now);
        }
        let Some(first) = self.line.first(lane) else {
            return;
        };
        let soon = now.saturating_add(PAUSE);
        // It is free, and there is more to do.
        let mut until = self.line.asks_at(lane, now).unwrap_or(soon);
        for watched in 0..=TURNS {
            let Some(runner) = self.line.unwatched(lane) else {
                break;
            };
            if watched == TURNS {
                until = until.min(soon);
                break;
            }
            self.line.is_watched(runner);
            if let Some(waiter) = self.waiter(runner) {
                waiter.watch(runner, now);
            }
        }
        if let Some(waiter) = self.waiter(first) {
            waiter.wait_until(first, until);
        }
    }
}

#[cfg(zernel_kunit)]
#[kernel::macros::kunit_tests(zernel_request_order)]
mod tests {
    use super::*;
    use crate::policy::level::Level;

    /// Its turns, and the time until which it is to wait.
    struct Stub {
        state: Atomic<u64>,
        until: Atomic<u64>,
    }

    impl Stub {
        const APART: u64 = 0;
        const WAITS: u64 = 1;
        const WENT: u64 = 2;

        fn new(state: u64) -> Result<Arc<Self>> {
            let stub = Self {
                state: Atomic::new(state),
                until: Atomic::new(0),
            };
            Ok(Arc::new(stub, GFP_KERNEL)?)
        }
    }

    impl Waiter for Stub {
        fn standing(&self, _: Place) -> Result<Standing, Option<Ended>> {
            match self.state.load(Relaxed) {
                Self::WAITS => Ok(Standing::Waits),
                _ => Ok(Standing::Apart),
            }
        }

        /// It is over at once.
        fn grant(&self, _: Place, _: Ns) -> Standing {
            self.state.store(Self::WENT, Relaxed);
            Standing::Apart
        }

        fn wait_until(&self, _: Place, at: Ns) {
            self.until.store(at.0, Relaxed);
        }

        fn watch(&self, _: Place, _: Ns) {}
    }

    const LANE: Lane = Lane {
        runlist: 0,
        level: Level::LC,
    };
    const NOW: Ns = Ns(1_000);

    fn claim(demand: u64) -> Claim {
        Claim {
            deadline: Ns(2_000),
            due: NOW,
            switch: Ns::ZERO,
            burst: Ns(demand),
        }
    }

    #[test]
    fn one_replaces_its_own_alone() -> Result {
        let order = KBox::pin_init(Order::new()?, GFP_KERNEL)?;
        let one = Stub::new(Stub::APART)?;
        let other = Stub::new(Stub::APART)?;
        let mut place = None;
        order.join(one.clone(), |line| {
            place = line.admit(LANE, 1, claim(900), None, NOW).ok();
            place
        });
        let admit = |waiter: &Stub| {
            let answer = order.admit(waiter, LANE, 1, claim(900), place, NOW);
            answer.map(|place| order.give_back(place))
        };
        assert!(place.is_some());
        assert_eq!(admit(&one), Ok(()));
        // Its own was given back meanwhile, and another has it.
        assert!(matches!(admit(&other), Err(Refused::Late(_))));
        Ok(())
    }
    #[test]
    fn turns_that_end_at_once_come_in_parts() -> Result {
        let order = KBox::pin_init(Order::new()?, GFP_KERNEL)?;
        let head = Stub::new(Stub::APART)?;
        let mut first = None;
        order.join(head.clone(), |line| {
            first = line.join(LANE, 1, claim(1));
            line.runs(first?, Ns(u64::MAX), NOW);
            first
        });
        let mut waiting = KVec::new();
        for _ in 0..3 * TURNS {
            let one = Stub::new(Stub::WAITS)?;
            let mut place = None;
            order.join(one.clone(), |line| {
                place = line.join(LANE, 1, claim(1));
                place
            });
            let place = place.ok_or(ENOSPC)?;
            waiting.push((place, one), GFP_KERNEL)?;
        }
        let gone = || {
            let all = waiting.iter().map(|(_, one)| one.state.load(Relaxed));
            all.filter(|state| *state == Stub::WENT).count()
        };
        // It was apart all along, so that none of them waited for it.
        assert_eq!(gone(), 3 * TURNS);
        for (_, one) in &waiting {
            one.state.store(Stub::WAITS, Relaxed);
        }
        {
            let mut places = order.places.lock();
            for (place, _) in &waiting {
                places.line.waits(*place);
            }
        }
        for part in 1..=3 {
            order.settle(first.ok_or(ENOSPC)?);
            assert_eq!(gone(), part * TURNS);
            // The next one comes back soon.
            if let Some((_, next)) = waiting.get(part * TURNS) {
                let until = Ns(next.until.load(Relaxed));
                assert!(until <= Ns(now_ns()).saturating_add(PAUSE) && until > Ns::ZERO);
            }
        }
        Ok(())
    }
}
