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
    /// Others wait for it.
    fn watch(&self, place: Place, now: Ns);
}

/// Nobody has a place. It is too large for a stack.
static EMPTY: Line = Line::EMPTY;

/// The places, and who has them.
struct Places {
    line: KBox<Line>,
    waiters: [Option<Arc<dyn Waiter>>; Line::ROOM],
    /// A request is held, or not any more, and the worker does not know.
    is_news: bool,
}

/// Room for decisions about a lane at a time: a turn of each request, and holds that begin and end.
const STEPS: usize = Line::ROOM + 2 * MOST;

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
            is_news: false,
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
        drop(places.settle(place, Ns(now_ns())));
        self.note_news(places);
        true
    }

    /// Something happened to the request that has, or had, this place.
    pub(super) fn settle(&self, place: Place) {
        let mut places = self.places.lock();
        // Dropped with the lock held, after which alone the page of a slot goes: not the last one.
        drop(places.settle(place, Ns(now_ns())));
        self.note_news(&mut places);
    }

    fn note_news(&self, places: &mut Places) {
        if core::mem::take(&mut places.is_news) {
            self.is_news.store(true, Relaxed);
        }
    }

    /// True if holds have changed since this was asked last.
    pub(super) fn has_news(&self) -> bool {
        self.is_news.load(Relaxed) && self.is_news.xchg(false, Relaxed)
    }

    /// The TSGs that are to be off the GPU, and when the next of them is not, at the latest. Requests that
    /// are held for no longer go on.
    pub(crate) fn wishes(&self, now: Ns) -> ([Option<Wish>; MOST], Option<Ns>) {
        let mut places = self.places.lock();
        let is_on = tuned::order_preempts();
        // Each of them is held no longer.
        for _ in 0..MOST {
            let (due, _) = places.line.released(now);
            let off = places.line.held_lane().filter(|_| !is_on);
            let Some(lane) = due.or(off) else {
                break;
            };
            places.serve(lane, now);
        }
        places.is_news = false;
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
    fn settle(&mut self, place: Place, now: Ns) -> Option<Arc<dyn Waiter>> {
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
            self.serve(lane, now);
        }
        unused
    }

    fn note(&mut self, place: Place, standing: Standing, now: Ns) -> Option<Lane> {
        match standing {
            Standing::Apart => self.line.rests(place),
            Standing::Waits => self.line.waits(place),
            Standing::Runs(until) => self.line.runs(place, until, now),
        }
    }

    /// Has the next request of a lane go, and the one after it wait.
    fn serve(&mut self, lane: Lane, now: Ns) {
        let is_on = tuned::order_preempts();
        // Each that waits goes, or does not wait any more.
        for _ in 0..STEPS {
            let next = match self.line.step(lane, now, is_on) {
                Step::Go(next) => next,
                Step::Held(_) | Step::Resumed(_) | Step::Charged => {
                    self.is_news = true;
                    continue;
                }
                Step::Rest => break,
            };
            let standing = self.waiter(next).map(|waiter| waiter.grant(next, now));
            self.note(next, standing.unwrap_or(Standing::Apart), now);
        }
        let (Some(first), Some(until)) = (self.line.first(lane), self.line.busy_until(lane, now))
        else {
            return;
        };
        if let Some(waiter) = self.waiter(first) {
            waiter.wait_until(first, until);
        }
        let mut from = 0;
        while let Some(runner) = self.line.runner(lane, from) {
            if let Some(waiter) = self.waiter(runner) {
                waiter.watch(runner, now);
            }
            from = runner.number() + 1;
        }
    }
}

#[cfg(zernel_kunit)]
#[kernel::macros::kunit_tests(zernel_request_order)]
mod tests {
    use super::*;
    use crate::policy::level::Level;

    /// It has a size, so that two have two addresses.
    struct Stub(#[allow(dead_code, reason = "for its size")] u64);

    impl Waiter for Stub {
        fn standing(&self, _: Place) -> Result<Standing, Option<Ended>> {
            Ok(Standing::Apart)
        }

        fn grant(&self, _: Place, _: Ns) -> Standing {
            Standing::Apart
        }

        fn wait_until(&self, _: Place, _: Ns) {}

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
        let one = Arc::new(Stub(1), GFP_KERNEL)?;
        let other = Arc::new(Stub(2), GFP_KERNEL)?;
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
}
