// SPDX-License-Identifier: MIT OR Apache-2.0
//! Each order in which threads can meet in a gate, a batch or a cache (`--cfg loom`).
#![cfg(loom)]

use std::sync::Arc;
use std::time::Duration;

use loom::future::block_on;
use loom::sync::atomic::{AtomicU64, Ordering};
use loom::thread;
use zernel_prefetch::batch::{Batch, Progress, Ready};
use zernel_prefetch::budget::Budget;
use zernel_prefetch::cache::{Admission, Cache, Handle, Limits, Look, StreamId};
use zernel_prefetch::gate::{Gate, Misuse, State};
use zernel_prefetch::{Fault, Kind};

type Words = Cache<u32, u32>;

fn cache(entries: u32) -> (Arc<Words>, StreamId) {
    let [stage] = Budget::split(100, [0]).expect("no floors");
    let limits = Limits {
        entries,
        keep_faults: Duration::from_secs(3_600),
    };
    let cache = Cache::new(limits, stage);
    let stream = cache.open().expect("the first");
    (cache, stream)
}

/// A cache whose one entry, key 1 with value 1, nobody needs from batch 1 on.
fn full() -> (Arc<Words>, StreamId, Handle) {
    let (cache, stream) = cache(1);
    let Ok(Admission::New(handle, flight)) = cache.admit(&1, stream, 0, 1) else {
        panic!("it is empty");
    };
    flight.ready(1, 1);
    cache.advance(stream, 1).expect("it is open");
    (cache, stream, handle)
}

fn model(test: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(test);
}

#[test]
fn a_ready_gate_shows_what_was_written() {
    model(|| {
        let gate = Arc::new(Gate::new());
        gate.enter(1).expect("the guard is held");
        let words = Arc::new([AtomicU64::new(0), AtomicU64::new(0)]);
        let writers: Vec<_> = (0..2)
            .map(|at| {
                let (gate, words) = (Arc::clone(&gate), Arc::clone(&words));
                thread::spawn(move || {
                    words[at].store(1, Ordering::Relaxed);
                    gate.leave().expect("a unit each");
                })
            })
            .collect();
        if gate.is_ready() {
            for word in words.iter() {
                assert_eq!(word.load(Ordering::Relaxed), 1);
            }
        }
        for writer in writers {
            writer.join().expect("no panic");
        }
        assert!(gate.is_ready());
    });
}

#[test]
fn a_gate_that_failed_is_never_ready() {
    model(|| {
        let gate = Arc::new(Gate::new());
        gate.enter(1).expect("the guard is held");
        let other = Arc::clone(&gate);
        let failing = thread::spawn(move || {
            other.fail();
            other.leave().expect("a unit each")
        });
        assert!(!gate.is_ready());
        gate.leave().expect("a unit each");
        assert!(!gate.is_ready());
        failing.join().expect("no panic");
        assert_eq!(gate.state(), State::Failed(0));
    });
}

#[test]
fn one_unit_is_given_back_once() {
    model(|| {
        let gate = Arc::new(Gate::new());
        let threads: Vec<_> = (0..2)
            .map(|_| {
                let gate = Arc::clone(&gate);
                thread::spawn(move || gate.leave())
            })
            .collect();
        let left: Vec<_> = threads
            .into_iter()
            .map(|thread| thread.join().expect("no panic"))
            .collect();
        assert!(left.contains(&Err(Misuse::Underflow)), "{left:?}");
        assert!(left.contains(&Ok(State::Ready)), "{left:?}");
        assert_eq!(gate.state(), State::Failed(0));
    });
}

#[test]
fn no_end_of_a_batch_is_missed() {
    model(|| {
        let (batch, guard) = Batch::new();
        let ticket = guard.split();
        let worker = thread::spawn(move || ticket.done());
        guard.done();
        assert_eq!(block_on(batch.ready()), Ok(()));
        worker.join().expect("no panic");
    });
}

#[test]
fn no_fault_of_a_batch_is_missed() {
    model(|| {
        let (batch, guard) = Batch::new();
        let ticket = guard.split();
        let worker = thread::spawn(move || ticket.fail(Fault::new(Kind::Corrupt, "c")));
        guard.done();
        assert_eq!(
            block_on(batch.ready()).expect_err("it fails").kind(),
            Kind::Corrupt
        );
        block_on(batch.drained());
        worker.join().expect("no panic");
        assert!(batch.release().is_ok());
    });
}

#[test]
fn a_batch_that_ended_touches_no_other() {
    model(|| {
        let (old, guard) = Batch::new();
        let ticket = guard.split();
        guard.done();
        let worker = thread::spawn(move || ticket.done());
        drop(old);
        // The next batch, in the place of the old one.
        let (new, guard) = Batch::new();
        assert_eq!(new.progress(), Progress::Pending(1));
        worker.join().expect("no panic");
        assert_eq!(new.progress(), Progress::Pending(1));
        guard.done();
        assert!(new.is_ready());
    });
}

/// Counts what it is told, and looks at what was written for the batch.
#[derive(Debug)]
struct Told {
    ready: AtomicU64,
    failed: AtomicU64,
    written: Arc<AtomicU64>,
}

impl Told {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            ready: AtomicU64::new(0),
            failed: AtomicU64::new(0),
            written: Arc::new(AtomicU64::new(0)),
        })
    }

    fn counts(&self) -> (u64, u64) {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        (count(&self.ready), count(&self.failed))
    }
}

/// One who is told, and still there for the test.
#[derive(Debug)]
struct Target(Arc<Told>);

impl Ready for Target {
    fn ready(&self) {
        assert_eq!(self.0.written.load(Ordering::Relaxed), 1);
        self.0.ready.fetch_add(1, Ordering::Relaxed);
    }

    fn failed(&self, _: &Fault) {
        self.0.failed.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn ready_is_told_once_whenever_it_is_asked_for() {
    model(|| {
        let (batch, guard) = Batch::new();
        let ticket = guard.split();
        let told = Told::new();
        let written = Arc::clone(&told.written);
        let worker = thread::spawn(move || {
            written.store(1, Ordering::Relaxed);
            ticket.done();
        });
        let other = thread::spawn(move || guard.done());
        batch
            .tell(Box::new(Target(Arc::clone(&told))))
            .expect("nobody else is told");
        worker.join().expect("no panic");
        other.join().expect("no panic");
        assert_eq!(told.counts(), (1, 0));
    });
}

#[test]
fn a_fault_is_told_once_whenever_it_is_asked_for() {
    model(|| {
        let (batch, guard) = Batch::new();
        let ticket = guard.split();
        let told = Told::new();
        let worker = thread::spawn(move || ticket.fail(Fault::new(Kind::Corrupt, "c")));
        let other = thread::spawn(move || drop(guard));
        batch
            .tell(Box::new(Target(Arc::clone(&told))))
            .expect("nobody else is told");
        worker.join().expect("no panic");
        other.join().expect("no panic");
        assert_eq!(told.counts(), (0, 1));
    });
}

#[test]
fn a_batch_that_goes_as_it_ends_tells_once_at_the_most() {
    model(|| {
        let (batch, guard) = Batch::new();
        let told = Told::new();
        batch
            .tell(Box::new(Target(Arc::clone(&told))))
            .expect("nobody else is told");
        let written = Arc::clone(&told.written);
        let worker = thread::spawn(move || {
            written.store(1, Ordering::Relaxed);
            guard.done();
        });
        drop(batch);
        worker.join().expect("no panic");
        let (ready, failed) = told.counts();
        assert!(ready <= 1 && failed == 0, "{ready} {failed}");
    });
}

#[test]
fn one_of_two_gets_the_value() {
    model(|| {
        let (cache, stream) = cache(2);
        let threads: Vec<_> = (0..2)
            .map(|_| {
                let cache = Arc::clone(&cache);
                thread::spawn(move || {
                    match cache.admit(&7, stream, 0, 1).expect("an open stream") {
                        Admission::New(_, flight) => {
                            flight.ready(70, 1);
                            1
                        }
                        Admission::Found(handle) => {
                            let look = block_on(cache.settled(handle)).expect("it is needed");
                            assert!(matches!(look, Look::Ready(value) if value == 70));
                            0
                        }
                        Admission::Again => panic!("there is room"),
                    }
                })
            })
            .collect();
        let got: u32 = threads
            .into_iter()
            .map(|thread| thread.join().expect("no panic"))
            .sum();
        assert_eq!(got, 1);
    });
}

#[test]
fn room_is_not_missed() {
    model(|| {
        let (cache, stream) = cache(1);
        let Ok(Admission::New(_, flight)) = cache.admit(&1, stream, 0, 1) else {
            panic!("it is empty");
        };
        let other = Arc::clone(&cache);
        let ends = thread::spawn(move || {
            other.advance(stream, 1).expect("it is open");
            // Pending until here: the waiter is told then.
            flight.ready(1, 1);
        });
        let (_, flight) = block_on(cache.admitted(&2, stream, 1, 1)).expect("an open stream");
        flight.expect("it is new").ready(2, 1);
        ends.join().expect("no panic");
    });
}

#[test]
fn a_handle_names_its_entry_while_others_go() {
    model(|| {
        let (cache, stream, handle) = full();
        let other = Arc::clone(&cache);
        let next = thread::spawn(move || match other.admit(&2, stream, 1, 1) {
            Ok(Admission::New(_, flight)) => flight.ready(2, 1),
            other => panic!("{other:?}"),
        });
        if let Ok(look) = cache.try_get(handle) {
            assert!(matches!(look, Look::Ready(value) if value == 1));
        }
        next.join().expect("no panic");
        assert!(cache.try_get(handle).is_err());
    });
}

#[test]
fn a_pin_keeps_its_entry() {
    model(|| {
        let (cache, stream, handle) = full();
        let other = Arc::clone(&cache);
        let next = thread::spawn(move || {
            block_on(other.admitted(&2, stream, 1, 1)).expect("an open stream");
        });
        if let Ok(pin) = cache.pin(handle) {
            assert!(matches!(cache.try_get(handle), Ok(Look::Ready(value)) if value == 1));
            drop(pin);
        }
        next.join().expect("no panic");
    });
}
