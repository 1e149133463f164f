// SPDX-License-Identifier: GPL-2.0
//! The requests of a GPU whose triggers wait for their turn.
//!
//! The lock of an order comes before those of its slots, which it takes one after the other: with a
//! slot's own it is never asked for. So each event of a slot is followed by [`Order::settle`], which
//! looks at the slot anew: two events at a time lead to the same end in either order.

#[cfg(zernel_kunit)]
mod scenarios;

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
    /// The part of the request at this place. `was_held`: its burst is not known from its end.
    ///
    /// # Errors
    ///
    /// Its end, as far as known: it is over, and the slot has the place no more.
    fn standing(&self, place: Place, was_held: bool) -> Result<Standing, Option<Ended>>;
    /// Its turn has come. Returns its part then.
    fn grant(&self, place: Place, now: Ns) -> Standing;
    /// It waits, and the order is to be asked again at this time.
    fn wait_until(&self, place: Place, at: Ns);
    /// Others wait, or are held, for it, or have counted with its end, from then on.
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
/// Lanes that the worker looks at: one with holds that end, or with requests that are not watched yet.
const ROUNDS: usize = MOST + Line::ROOM / TURNS;

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
        // Each of them is held no longer, or looked at from then on. Others come in between.
        for _ in 0..ROUNDS {
            let mut places = self.places.lock();
            let (due, _) = places.line.released(now);
            let off = places.line.held_lane().filter(|_| !is_on);
            let Some(lane) = due.or(off).or_else(|| places.line.overlooked()) else {
                break;
            };
            places.serve(lane, now, &self.is_news);
        }
        let places = self.places.lock();
        self.is_news.store(false, Relaxed);
        let rest = places.line.overlooked().map(|_| now);
        let (_, next) = places.line.released(now);
        (places.line.wishes(now), rest.or(next))
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
        let (is_held, was_held) = (self.line.holds(place), self.line.was_held(place));
        let standing = self.waiter(place)?.standing(place, was_held);
        let mut unused = None;
        let lane = match standing {
            Ok(standing) => self.note(place, standing, now),
            Err(ended) => {
                unused = self.waiters.get_mut(place.number())?.take();
                if is_held {
                    news.store(true, Relaxed);
                }
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
        self.serve_as(tuned::order_preempts(), lane, now, news);
    }

    /// The same. `is_on`: with preemption.
    fn serve_as(&mut self, is_on: bool, lane: Lane, now: Ns, news: &Atomic<bool>) {
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
        let first = self.line.first(lane);
        if first.is_none() && !self.line.is_held(lane) {
            return;
        }
        let soon = now.saturating_add(PAUSE);
        // It is free, and there is more to do.
        let mut until = self.line.asks_at(lane, now).unwrap_or(soon);
        for watched in 0..=TURNS {
            let Some(runner) = self.line.unwatched(lane) else {
                break;
            };
            if watched == TURNS {
                until = until.min(soon);
                if first.is_none() {
                    // The worker goes on.
                    news.store(true, Relaxed);
                }
                break;
            }
            self.line.is_watched(runner);
            if let Some(waiter) = self.waiter(runner) {
                waiter.watch(runner, now);
            }
        }
        if let Some((first, waiter)) = first.and_then(|first| Some((first, self.waiter(first)?))) {
            waiter.wait_until(first, until);
        }
    }
}
