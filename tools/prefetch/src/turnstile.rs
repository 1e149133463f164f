// SPDX-License-Identifier: MIT OR Apache-2.0
//! A number of permits, for those first whose batch is the earliest.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use crate::sync::{lock, Mutex};

/// The order of those who wait: by batch, then in the order in which they came.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    batch: u64,
    number: u64,
}

#[derive(Debug)]
enum Wait {
    /// It waits; its task is told.
    Waits(Waker),
    /// It has a permit, and has not seen it yet.
    Passed,
}

#[derive(Debug)]
struct State {
    free: usize,
    numbers: u64,
    waits: BTreeMap<Place, Wait>,
    /// Of those who have not passed.
    waiting: BTreeSet<Place>,
}

impl State {
    /// Gives a permit back: to the first who waits.
    fn give(&mut self) -> Option<Waker> {
        let Some(place) = self.waiting.pop_first() else {
            self.free += 1;
            return None;
        };
        match self.waits.insert(place, Wait::Passed) {
            Some(Wait::Waits(waker)) => Some(waker),
            _ => None,
        }
    }
}

/// Permits, given in the order of batches.
#[derive(Debug)]
pub struct Turnstile {
    state: Mutex<State>,
}

impl Turnstile {
    /// So many permits; none would let nobody pass, and is one.
    pub fn new(permits: usize) -> Arc<Self> {
        let state = State {
            free: permits.max(1),
            numbers: 0,
            waits: BTreeMap::new(),
            waiting: BTreeSet::new(),
        };
        Arc::new(Self {
            state: Mutex::new(state),
        })
    }

    /// A wait for a permit, from now on: also before it is awaited. Those with a lower batch go first.
    pub fn pass(self: &Arc<Self>, batch: u64) -> Pass {
        let mut state = lock(&self.state);
        state.numbers += 1;
        let place = Place {
            batch,
            number: state.numbers,
        };
        let wait = match state.free.checked_sub(1) {
            Some(left) => {
                state.free = left;
                Wait::Passed
            }
            None => {
                state.waiting.insert(place);
                Wait::Waits(Waker::noop().clone())
            }
        };
        state.waits.insert(place, wait);
        drop(state);
        Pass {
            turnstile: Arc::clone(self),
            place: Some(place),
        }
    }

    /// Those who wait.
    pub fn waiting(&self) -> usize {
        lock(&self.state).waiting.len()
    }

    fn give(&self) {
        let waker = lock(&self.state).give();
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

/// A wait for a permit.
#[derive(Debug)]
#[must_use = "a permit that nobody takes goes to the next"]
pub struct Pass {
    turnstile: Arc<Turnstile>,
    /// `None`: it is over.
    place: Option<Place>,
}

impl Future for Pass {
    type Output = Permit;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Permit> {
        let turnstile = Arc::clone(&self.turnstile);
        let mut state = lock(&turnstile.state);
        let Some(place) = self.place else {
            // It has given its permit.
            return Poll::Pending;
        };
        if matches!(state.waits.get(&place), Some(Wait::Passed)) {
            state.waits.remove(&place);
            self.place = None;
            drop(state);
            return Poll::Ready(Permit { turnstile });
        }
        state
            .waits
            .insert(place, Wait::Waits(context.waker().clone()));
        Poll::Pending
    }
}

impl Drop for Pass {
    fn drop(&mut self) {
        let Some(place) = self.place else {
            return;
        };
        let mut state = lock(&self.turnstile.state);
        state.waiting.remove(&place);
        let waker = match state.waits.remove(&place) {
            // It was given one that it does not need.
            Some(Wait::Passed) => state.give(),
            _ => None,
        };
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

/// A permit. It is given back when it is dropped.
#[derive(Debug)]
pub struct Permit {
    turnstile: Arc<Turnstile>,
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.turnstile.give();
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::task::Poll;

    use pollster::block_on;

    use super::*;

    fn poll(pass: &mut Pass) -> Option<Permit> {
        match Pin::new(pass).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(permit) => Some(permit),
            Poll::Pending => None,
        }
    }

    #[test]
    fn the_earliest_batch_goes_first() {
        let turnstile = Turnstile::new(1);
        let first = block_on(turnstile.pass(9));
        let mut passes: Vec<_> = [5, 3, 8, 3].map(|batch| turnstile.pass(batch)).into();
        for pass in &mut passes {
            assert!(poll(pass).is_none());
        }
        assert_eq!(turnstile.waiting(), 4);
        let mut permit = Some(first);
        for expected in [1, 3, 0, 2] {
            drop(permit.take());
            let passed: Vec<_> = (0..4)
                .filter_map(|at| Some((at, poll(&mut passes[at])?)))
                .collect();
            let [(at, _)] = passed.as_slice() else {
                panic!("{passed:?}");
            };
            assert_eq!(*at, expected);
            permit = passed.into_iter().next().map(|(_, permit)| permit);
            passes[expected] = turnstile.pass(100);
        }
    }

    #[test]
    fn a_wait_has_its_place_before_it_is_awaited() {
        let turnstile = Turnstile::new(1);
        let (mut first, mut second) = (turnstile.pass(7), turnstile.pass(3));
        assert!(poll(&mut second).is_none());
        let permit = poll(&mut first);
        assert!(permit.is_some());
        // One that has passed passes no second time.
        assert!(poll(&mut first).is_none());
        drop(permit);
        assert!(poll(&mut second).is_some());
        // One that is dropped leaves its permit to the next.
        let (first, mut second) = (turnstile.pass(7), turnstile.pass(3));
        drop(first);
        assert!(poll(&mut second).is_some());
    }

    #[test]
    fn one_who_stops_waiting_takes_no_permit() {
        let turnstile = Turnstile::new(0);
        let permit = block_on(turnstile.pass(0));
        let (mut one, mut two, mut three) =
            (turnstile.pass(1), turnstile.pass(2), turnstile.pass(3));
        for pass in [&mut one, &mut two, &mut three] {
            assert!(poll(pass).is_none());
        }
        drop(two);
        drop(permit);
        // It has passed, and does not look.
        drop(one);
        let permit = poll(&mut three);
        assert!(permit.is_some());
        assert_eq!(turnstile.waiting(), 0);
        drop(permit);
        drop(block_on(turnstile.pass(0)));
    }
}
