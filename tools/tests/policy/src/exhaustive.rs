// SPDX-License-Identifier: MIT OR Apache-2.0
//! Every order of events around requests, tried on the slots of `zernel.ko` itself.
//!
//! [`Honest`] is one page of one process, with a few slots. A state is: the real [`Slot`]s, their
//! words, how far the process is with each request, where each stream is on the GPU, and the time
//! in ticks. One step is one of:
//! - the process begins (the trigger due at once or a tick later), stores one word of ready
//!   (time, release, trigger) or done, says done without ready, or calls ready, done or cancel;
//!   it may do so in any order, and stop at any point;
//! - it dies, and the kernel learns of it later; a slot closes (as when its TSG goes); the GPU is suspended; zernel is unloaded;
//! - a timer fires, be it due, late or stale; a stream goes on; a tick passes.
//!
//! [`Hostile`] has one slot and no words at all: every event sees any of 0, `n - 1`, `n` and
//! `n + 1` in each word, any state of the gate and any time, which is all that a process could have
//! stored by then. The gates of [`Honest`] stay pending.
//!
//! The properties of single events are in `watched`, those of states in `properties`. Numbers start
//! below the wrap, so that each run passes it.

mod honest;
mod hostile;
mod watched;

use self::{honest::Honest, hostile::Hostile, watched::Coverage};
use crate::policy::request::record::Cause;
use stateright::{Checker, Model};

const CALLED: [Cause; 5] = [
    Cause::Done,
    Cause::Cancelled,
    Cause::Superseded,
    Cause::Expired,
    Cause::Closed,
];

#[test]
fn one_slot_in_every_order() {
    let model = Honest::<1> {
        requests: 2,
        leads: [&[0, 1]],
        ticks: 5,
        thorough: true,
        coverage: Coverage::default(),
    };
    let checker = model.checker().threads(2).spawn_bfs().join();
    checker.assert_properties();
    let rest = [Cause::Closed, Cause::Suspended];
    checker
        .model()
        .coverage
        .assert(&[&CALLED[..], &rest[..]].concat());
}

#[test]
fn two_slots_in_every_order() {
    let model = Honest::<2> {
        requests: 1,
        leads: [&[0], &[1]],
        ticks: 2,
        thorough: false,
        coverage: Coverage::default(),
    };
    let checker = model.checker().threads(2).spawn_bfs().join();
    checker.assert_properties();
}

#[test]
fn whatever_a_process_stores() {
    let model = Hostile {
        requests: 2,
        ticks: 5,
        coverage: Coverage::default(),
    };
    let checker = model.checker().threads(2).spawn_bfs().join();
    checker.assert_properties();
    let causes = [&CALLED[..], &[Cause::Suspended]].concat();
    checker.model().coverage.assert(&causes);
}
