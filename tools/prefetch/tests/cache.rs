// SPDX-License-Identifier: MIT OR Apache-2.0
//! The cache, one rule at a time.
#![cfg(not(loom))]

use std::future::Future;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::task::{Context, Poll, Wake};
use std::time::Duration;

use zernel_prefetch::budget::{Budget, FloorsTooLarge};
use zernel_prefetch::cache::{Admission, Cache, Flight, Handle, Limits, Look, Refused, Stale};
use zernel_prefetch::{Fault, Kind};

type Words = Cache<u32, String>;

const KEEP: Duration = Duration::from_secs(3_600);

fn limits(entries: u32) -> Limits {
    Limits {
        entries,
        keep_faults: KEEP,
    }
}

fn cache(entries: u32, bytes: u64) -> Arc<Words> {
    let [stage] = Budget::split(bytes, [0]).expect("no floors");
    Cache::new(limits(entries), stage)
}

fn make(cache: &Words, key: u32, at: (zernel_prefetch::cache::StreamId, u64)) -> Handle {
    let (handle, flight) = made(cache, key, at);
    flight.ready(key.to_string(), 1);
    handle
}

fn made(
    cache: &Words,
    key: u32,
    (stream, batch): (zernel_prefetch::cache::StreamId, u64),
) -> (Handle, Flight<u32, String>) {
    match cache.admit(&key, stream, batch, 1).expect("an open stream") {
        Admission::New(handle, flight) => (handle, flight),
        other => panic!("{key}: {other:?}"),
    }
}

fn value(cache: &Words, handle: Handle) -> Result<String, Stale> {
    Ok(match cache.try_get(handle)? {
        Look::Ready(value) => value,
        other => panic!("{other:?}"),
    })
}

#[test]
fn a_handle_names_its_entry_whatever_goes() {
    let cache = cache(4, 100);
    let stream = cache.open().expect("the first");
    let siblings: Vec<Handle> = (0..4)
        .map(|key| make(&cache, key, (stream, key.into())))
        .collect();
    // The eldest goes, and another comes to its place.
    cache.advance(stream, 1).expect("it is open");
    let new = make(&cache, 9, (stream, 9));
    assert_eq!(value(&cache, siblings[0]), Err(Stale));
    for (key, handle) in siblings.iter().enumerate().skip(1) {
        assert_eq!(value(&cache, *handle), Ok(key.to_string()));
    }
    assert_eq!(value(&cache, new), Ok("9".to_owned()));
    // The key of one that went is another entry.
    cache.advance(stream, 2).expect("it is open");
    let again = make(&cache, 0, (stream, 9));
    assert_ne!(again, siblings[0]);
    assert_eq!(value(&cache, siblings[0]), Err(Stale));
    assert_eq!(value(&cache, siblings[1]), Err(Stale));
}

#[test]
fn an_entry_stays_for_the_highest_batch_that_asked() {
    let cache = cache(2, 100);
    let stream = cache.open().expect("the first");
    let kept = make(&cache, 1, (stream, 0));
    let gone = make(&cache, 2, (stream, 1));
    assert!(matches!(
        cache.admit(&1, stream, 5, 1),
        Ok(Admission::Found(handle)) if handle == kept
    ));
    // A lower batch changes nothing.
    assert!(matches!(
        cache.admit(&1, stream, 2, 1),
        Ok(Admission::Found(_))
    ));
    assert!(matches!(
        cache.admit(&3, stream, 5, 1),
        Ok(Admission::Again)
    ));
    cache.advance(stream, 5).expect("it is open");
    make(&cache, 3, (stream, 5));
    assert_eq!(value(&cache, gone), Err(Stale));
    assert_eq!(value(&cache, kept), Ok("1".to_owned()));
    assert!(matches!(
        cache.admit(&4, stream, 5, 1),
        Ok(Admission::Again)
    ));
}

#[test]
fn each_stream_has_its_watermark() {
    let cache = cache(2, 100);
    let (one, other) = (cache.open().expect("one"), cache.open().expect("two"));
    let shared = make(&cache, 1, (one, 0));
    assert!(matches!(
        cache.admit(&1, other, 7, 1),
        Ok(Admission::Found(_))
    ));
    let own = make(&cache, 2, (one, 0));
    cache.advance(one, 1).expect("it is open");
    make(&cache, 3, (one, 1));
    assert_eq!(value(&cache, own), Err(Stale));
    assert_eq!(value(&cache, shared), Ok("1".to_owned()));
    assert!(matches!(cache.admit(&4, one, 1, 1), Ok(Admission::Again)));
    cache.close(other).expect("it is open");
    make(&cache, 4, (one, 1));
    assert_eq!(value(&cache, shared), Err(Stale));
    // A stream in the place of one that was closed is another.
    let third = cache.open().expect("room");
    assert_ne!(third, other);
    assert!(matches!(cache.admit(&9, other, 0, 1), Err(Refused::Closed)));
    assert_eq!(cache.advance(other, 9), Err(Refused::Closed));
    assert_eq!(cache.close(other), Err(Refused::Closed));
}

#[test]
fn batches_that_cannot_ask_are_refused() {
    let cache = cache(2, 100);
    let stream = cache.open().expect("the first");
    cache.advance(stream, 3).expect("it is open");
    cache
        .advance(stream, 1)
        .expect("a watermark that was passed");
    let refused = |batch, bytes| {
        cache
            .admit(&1, stream, batch, bytes)
            .expect_err("it is refused")
    };
    assert_eq!(refused(2, 1), Refused::Over { watermark: 3 });
    let far = 3 + zernel_prefetch::cache::MOST_AHEAD;
    assert_eq!(refused(far, 1), Refused::TooFar { watermark: 3 });
    assert_eq!(refused(3, 101), Refused::TooLarge { most: 100 });
    assert!(cache.is_empty());
    assert!(matches!(
        cache.admit(&1, stream, far - 1, 100),
        Ok(Admission::New(..))
    ));
}

#[test]
fn the_first_fault_stays_and_a_transient_one_does_not() {
    let cache = cache(4, 100);
    let stream = cache.open().expect("the first");
    let fault = Fault::new(Kind::Denied, "a/zarr.json: 403");
    let (handle, flight) = made(&cache, 1, (stream, 0));
    flight.fail(fault.clone());
    assert!(matches!(cache.try_get(handle), Ok(Look::Failed(found)) if found == fault));
    assert!(
        matches!(cache.admit(&1, stream, 1, 1), Ok(Admission::Found(found)) if found == handle)
    );
    // A flight that is given up is a fault, too; the next one who asks gets the value.
    let (given_up, flight) = made(&cache, 2, (stream, 0));
    drop(flight);
    let Ok(Look::Failed(cancelled)) = cache.try_get(given_up) else {
        panic!("it is pending for ever");
    };
    assert_eq!(cancelled.kind(), Kind::Cancelled);
    let again = make(&cache, 2, (stream, 0));
    assert_ne!(again, given_up);
    // Those who saw the fault still do.
    assert!(matches!(cache.try_get(given_up), Ok(Look::Failed(_))));
    assert_eq!(value(&cache, again), Ok("2".to_owned()));
}

#[test]
fn a_fault_is_asked_for_anew_when_its_time_is_over() {
    let [stage] = Budget::split(100, [0]).expect("no floors");
    let keep_faults = Duration::ZERO;
    let cache: Arc<Words> = Cache::new(
        Limits {
            entries: 2,
            keep_faults,
        },
        stage,
    );
    let stream = cache.open().expect("the first");
    let (_, flight) = made(&cache, 1, (stream, 0));
    flight.fail(Fault::new(Kind::Missing, "none"));
    make(&cache, 1, (stream, 0));
}

#[test]
fn what_is_pinned_or_pending_stays() {
    let cache = cache(2, 100);
    let stream = cache.open().expect("the first");
    let pinned = make(&cache, 1, (stream, 0));
    let pin = cache.pin(pinned).expect("it is there");
    let second = cache.pin(pinned).expect("it is there");
    let (pending, flight) = made(&cache, 2, (stream, 0));
    cache.advance(stream, 1).expect("it is open");
    assert!(matches!(
        cache.admit(&3, stream, 1, 1),
        Ok(Admission::Again)
    ));
    drop(pin);
    assert!(matches!(
        cache.admit(&3, stream, 1, 1),
        Ok(Admission::Again)
    ));
    assert_eq!(second.handle(), pinned);
    drop(second);
    make(&cache, 3, (stream, 1));
    assert_eq!(value(&cache, pinned), Err(Stale));
    assert!(cache.pin(pinned).is_err());
    flight.ready("two".to_owned(), 1);
    assert_eq!(value(&cache, pending), Ok("two".to_owned()));
    make(&cache, 4, (stream, 1));
    assert_eq!(value(&cache, pending), Err(Stale));
}

#[test]
fn bytes_are_one_budget_with_floors() {
    let too_large = FloorsTooLarge {
        floors: 11,
        total: 10,
    };
    assert_eq!(Budget::split(10, [5, 6]).expect_err("too large"), too_large);
    let [one, two] = Budget::split(10, [4, 2]).expect("they fit");
    let budget = Arc::clone(one.budget());
    let one: Arc<Words> = Cache::new(limits(99), one);
    let two: Arc<Words> = Cache::new(limits(99), two);
    let (a, b) = (one.open().expect("one"), two.open().expect("two"));
    // The one leaves the other its floor.
    let refused = one
        .admit(&0, a, 0, 9)
        .expect_err("9 of 10, of which 2 are the other's");
    assert_eq!(refused, Refused::TooLarge { most: 8 });
    for key in 0..8 {
        make(&one, key, (a, 0));
    }
    assert!(matches!(one.admit(&8, a, 0, 1), Ok(Admission::Again)));
    make(&two, 0, (b, 0));
    make(&two, 1, (b, 0));
    assert!(matches!(two.admit(&2, b, 0, 1), Ok(Admission::Again)));
    assert_eq!(budget.used(), 10);
    // Bytes above the floor that nobody needs go to the other; the floor stays.
    one.advance(a, 1).expect("it is open");
    for key in 2..6 {
        make(&two, key, (b, 0));
    }
    assert!(matches!(two.admit(&6, b, 0, 1), Ok(Admission::Again)));
    assert_eq!((one.len(), two.len(), budget.used()), (4, 6, 10));
}

#[test]
fn values_may_have_another_size_than_expected() {
    let cache = cache(9, 10);
    let stream = cache.open().expect("the first");
    let (_, flight) = made(&cache, 1, (stream, 0));
    flight.ready("large".to_owned(), 12);
    assert!(matches!(
        cache.admit(&2, stream, 0, 1),
        Ok(Admission::Again)
    ));
    cache.advance(stream, 1).expect("it is open");
    let Ok(Admission::New(_, flight)) = cache.admit(&2, stream, 1, 10) else {
        panic!("the large one is gone");
    };
    assert!(matches!(
        cache.admit(&3, stream, 1, 1),
        Ok(Admission::Again)
    ));
    flight.ready("small".to_owned(), 2);
    let Ok(Admission::New(_, flight)) = cache.admit(&3, stream, 1, 8) else {
        panic!("there are 8 left");
    };
    // A fault takes none.
    flight.fail(Fault::new(Kind::Missing, "none"));
    assert!(matches!(
        cache.admit(&4, stream, 1, 8),
        Ok(Admission::New(..))
    ));
}

#[test]
fn one_gets_the_value_and_others_wait() {
    let cache = cache(1, 10);
    let stream = cache.open().expect("the first");
    let (handle, flight) = made(&cache, 1, (stream, 0));
    // One that stops waiting does not matter.
    drop(cache.settled(handle));
    let mut waiters: Vec<_> = (0..4).map(|_| Waiter::new(cache.settled(handle))).collect();
    for waiter in &mut waiters {
        assert!(waiter.look().is_none());
    }
    flight.ready("one".to_owned(), 1);
    for waiter in &mut waiters {
        assert!(waiter.is_woken());
        let look = waiter.look().expect("it is there").expect("it stays");
        assert!(matches!(look, Look::Ready(value) if value == "one"));
    }
    // One who waits for room gets it with the next batch.
    let mut waiter = Waiter::new(cache.admitted(&2, stream, 1, 1));
    assert!(waiter.look().is_none());
    cache.advance(stream, 1).expect("it is open");
    assert!(waiter.is_woken());
    let (new, flight) = waiter.look().expect("room").expect("an open stream");
    assert!(flight.is_some());
    assert_ne!(new, handle);
}

/// One who waits, looked at step by step.
struct Waiter<F> {
    future: std::pin::Pin<Box<F>>,
    woken: Arc<Woken>,
}

#[derive(Default)]
struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl<F: Future> Waiter<F> {
    fn new(future: F) -> Self {
        Self {
            future: Box::pin(future),
            woken: Arc::default(),
        }
    }

    fn look(&mut self) -> Option<F::Output> {
        let waker = Arc::clone(&self.woken).into();
        match self.future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => Some(output),
            Poll::Pending => None,
        }
    }

    fn is_woken(&self) -> bool {
        self.woken.0.load(Ordering::Relaxed)
    }
}
