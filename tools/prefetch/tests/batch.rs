// SPDX-License-Identifier: MIT OR Apache-2.0
//! Gates and batches, one rule at a time.
#![cfg(not(loom))]

use std::future::Future;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use pollster::block_on;
use zernel_prefetch::batch::{Batch, Progress, Ready, Taken};
use zernel_prefetch::gate::{Gate, Misuse, State, MOST};
use zernel_prefetch::{Fault, Kind};

fn fault(text: &str) -> Fault {
    Fault::new(Kind::Unavailable, text)
}

/// The state of a future that is looked at once.
fn poll<T>(future: impl Future<Output = T>) -> Poll<T> {
    pin!(future).poll(&mut Context::from_waker(Waker::noop()))
}

/// All that one was told, in order.
#[derive(Debug, Clone, Default)]
struct Told(Arc<Mutex<Vec<Result<(), Fault>>>>);

impl Told {
    fn to(batch: &Batch) -> Self {
        let told = Self::default();
        batch
            .tell(Box::new(told.clone()))
            .expect("nobody else is told");
        told
    }

    fn all(&self) -> Vec<Result<(), Fault>> {
        self.0.lock().expect("no panic").clone()
    }
}

impl Ready for Told {
    fn ready(&self) {
        self.0.lock().expect("no panic").push(Ok(()));
    }

    fn failed(&self, fault: &Fault) {
        self.0.lock().expect("no panic").push(Err(fault.clone()));
    }
}

#[test]
fn a_gate_is_ready_when_all_have_left() {
    let gate = Gate::new();
    assert_eq!(gate.enter(2), Ok(()));
    assert_eq!(gate.leave(), Ok(State::Pending(2)));
    assert_eq!(gate.leave(), Ok(State::Pending(1)));
    assert!(!gate.is_ready());
    assert_eq!(gate.leave(), Ok(State::Ready));
    assert!(gate.is_ready());
}

#[test]
fn a_gate_left_too_often_has_failed() {
    let gate = Gate::new();
    assert_eq!(gate.leave(), Ok(State::Ready));
    for _ in 0..2 {
        assert_eq!(gate.leave(), Err(Misuse::Underflow));
        assert_eq!(gate.state(), State::Failed(0));
    }
}

#[test]
fn a_gate_entered_by_nobody_has_failed() {
    let gate = Gate::new();
    assert_eq!(gate.leave(), Ok(State::Ready));
    assert_eq!(gate.enter(1), Err(Misuse::Open));
    assert_eq!(gate.state(), State::Failed(0));
}

#[test]
fn a_gate_has_a_number_of_units() {
    let gate = Gate::new();
    assert_eq!(gate.enter(MOST - 1), Ok(()));
    assert_eq!(gate.state(), State::Pending(MOST));
    assert_eq!(gate.enter(1), Err(Misuse::Overflow));
    assert_eq!(gate.state(), State::Failed(MOST));
    assert_eq!(gate.leave(), Ok(State::Failed(MOST - 1)));
    let gate = Gate::new();
    assert_eq!(gate.enter(u64::MAX), Err(Misuse::Overflow));
    assert_eq!(gate.state(), State::Failed(1));
}

#[test]
fn a_gate_is_joined_while_it_is_pending() {
    let gate = Gate::new();
    assert_eq!(gate.join(), Ok(()));
    assert_eq!(gate.leave(), Ok(State::Pending(1)));
    assert_eq!(gate.enter(MOST - 1), Ok(()));
    assert_eq!(gate.join(), Err(State::Failed(MOST)));
    assert_eq!(gate.join(), Err(State::Failed(MOST)));
    let gate = Gate::new();
    assert_eq!(gate.leave(), Ok(State::Ready));
    assert_eq!(gate.join(), Err(State::Ready));
    assert!(gate.is_ready());
}

#[test]
fn a_gate_fails_once() {
    let gate = Gate::new();
    assert!(gate.fail());
    assert!(!gate.fail());
    assert_eq!(gate.leave(), Ok(State::Failed(0)));
    assert!(!gate.is_ready());
}

#[test]
fn a_batch_is_ready_behind_its_walk() {
    let (batch, guard) = Batch::new();
    let ticket = guard.split();
    ticket.done();
    assert_eq!(batch.progress(), Progress::Pending(1));
    assert_eq!(poll(batch.ready()), Poll::Pending);
    guard.done();
    assert_eq!(batch.progress(), Progress::Ready);
    assert_eq!(block_on(batch.ready()), Ok(()));
    batch.release().expect("nothing is in flight");
}

#[test]
fn the_first_fault_is_the_batches() {
    let (batch, guard) = Batch::new();
    let (one, two) = (guard.split(), guard.split());
    one.fail(fault("first"));
    assert_eq!(block_on(batch.ready()), Err(fault("first")));
    assert!(two.is_cancelled());
    block_on(two.cancelled());
    two.fail(fault("second"));
    batch.cancel();
    guard.done();
    assert_eq!(batch.progress(), Progress::Failed(fault("first")));
    block_on(batch.drained());
    batch.release().expect("nothing is in flight");
}

#[test]
fn work_that_is_given_up_fails_its_batch() {
    let (batch, guard) = Batch::new();
    drop(guard.split());
    guard.done();
    assert_eq!(
        block_on(batch.ready()).expect_err("it fails").kind(),
        Kind::Cancelled
    );
}

#[test]
fn a_batch_with_work_in_flight_is_not_released() {
    let (batch, guard) = Batch::new();
    let ticket = guard.split();
    let refused = batch.release().expect_err("two are in flight");
    assert_eq!(refused.pending, 2);
    let batch = refused.batch;
    assert_eq!(batch.progress(), Progress::Pending(2));
    batch.cancel();
    assert_eq!(poll(batch.drained()), Poll::Pending);
    // To cancel is prompt: the fault is there, the work need not be.
    assert_eq!(
        block_on(batch.ready()).expect_err("it fails").kind(),
        Kind::Cancelled
    );
    guard.done();
    assert_eq!(poll(batch.drained()), Poll::Pending);
    ticket.done();
    block_on(batch.drained());
}

#[test]
fn a_batch_that_is_dropped_has_its_work_end() {
    let (batch, guard) = Batch::new();
    let ticket = guard.split();
    assert!(!ticket.is_cancelled());
    drop(batch);
    assert!(ticket.is_cancelled());
    block_on(ticket.cancelled());
    // Its gate is there for as long as somebody has a ticket.
    guard.done();
    ticket.done();
}

#[test]
fn ready_is_told_once_and_when_it_is_so() {
    let (batch, guard) = Batch::new();
    let ticket = guard.split();
    let told = Told::to(&batch);
    guard.done();
    assert!(told.all().is_empty());
    ticket.done();
    assert_eq!(told.all(), [Ok(())]);
    // Too late for that.
    batch.cancel();
    assert_eq!(told.all(), [Ok(())]);
    drop(batch);
    assert_eq!(told.all(), [Ok(())]);
}

#[test]
fn an_end_that_has_come_is_told_at_once() {
    let (batch, guard) = Batch::new();
    guard.done();
    assert_eq!(Told::to(&batch).all(), [Ok(())]);
    let (batch, guard) = Batch::new();
    guard.split().fail(fault("early"));
    assert_eq!(Told::to(&batch).all(), [Err(fault("early"))]);
    guard.done();
}

#[test]
fn the_first_fault_is_told_once_and_at_once() {
    let (batch, guard) = Batch::new();
    let (one, two) = (guard.split(), guard.split());
    let told = Told::to(&batch);
    one.fail(fault("first"));
    assert_eq!(told.all(), [Err(fault("first"))]);
    two.fail(fault("second"));
    batch.cancel();
    guard.done();
    assert_eq!(told.all(), [Err(fault("first"))]);
    // To cancel, and to give work up, are faults like any other.
    let (batch, guard) = Batch::new();
    let told = Told::to(&batch);
    batch.cancel();
    drop(guard);
    assert!(
        matches!(&told.all()[..], [Err(fault)] if fault.kind() == Kind::Cancelled),
        "{told:?}"
    );
}

#[test]
fn a_batch_that_is_dropped_tells_nobody() {
    let (batch, guard) = Batch::new();
    let told = Told::to(&batch);
    drop(batch);
    guard.fail(fault("late"));
    assert!(told.all().is_empty());
    // The one who was to be told is gone with the last piece of work.
    assert_eq!(Arc::strong_count(&told.0), 1);
}

#[test]
fn one_alone_is_told() {
    let (batch, guard) = Batch::new();
    let (first, second) = (Told::to(&batch), Told::default());
    let Taken(back) = batch
        .tell(Box::new(second.clone()))
        .expect_err("the first is told");
    drop(back);
    guard.done();
    assert_eq!((first.all(), second.all()), (vec![Ok(())], vec![]));
}

#[test]
fn batches_alive_together_have_gates_of_their_own() {
    let all: Vec<_> = (0..100).map(|_| Batch::new()).collect();
    let (mut batches, mut guards): (Vec<_>, Vec<_>) = all.into_iter().unzip();
    for at in (0..100).rev() {
        guards.pop().expect("one each").done();
        for (other, batch) in batches.iter().enumerate() {
            assert_eq!(batch.is_ready(), other >= at, "{other} at {at}");
        }
    }
    batches.clear();
}
