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
//!
//! [`Scene`] is several slots whose triggers wait for their turn, and the tunables that a begin reads;
//! [`Changes`] the slices of TSGs while their policy changes. Each is shown to find planted faults.
//!
//! Bounds are larger where the environment has no `SHORT=1`.

mod honest;
mod hostile;
mod order;
mod slices;
mod watched;

use std::fmt::{self, Debug};
use std::hash::{Hash, Hasher};

use self::{
    honest::Honest,
    hostile::Hostile,
    order::{Habits, Scene},
    slices::Changes,
    watched::Coverage,
};
use crate::policy::{
    deadline::Order,
    level::Level,
    predict::trigger::{Rule, Trigger},
    request::record::Cause,
    units::Ns,
};
use stateright::{Checker, HasDiscoveries, Model};

/// Feeds text to a hasher: a state that can be told is one that can be hashed.
struct Text<'a, H>(&'a mut H);

impl<H: Hasher> fmt::Write for Text<'_, H> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.write(text.as_bytes());
        Ok(())
    }
}

/// True if bounds are to be small.
pub(crate) fn is_short() -> bool {
    std::env::var_os("SHORT").is_some_and(|short| short != "0")
}

/// Fails unless each property holds. Says how many states there were.
fn hold<M>(name: &str, model: M)
where
    M: Model + Send + Sync + 'static,
    M::State: Clone + Debug + Hash + PartialEq + Send + Sync,
    M::Action: Clone + Debug + PartialEq,
{
    let began = std::time::Instant::now();
    // In the order of depth there would be more states at a time than there is memory for.
    let checker = model.checker().threads(2).spawn_dfs().join();
    let (unique, depth) = (checker.unique_state_count(), checker.max_depth());
    println!(
        "{name}: {unique} states, {depth} steps deep, {:.1?}",
        began.elapsed()
    );
    checker.assert_properties();
}

/// Fails unless the checker finds that a property of a model with a planted fault does not hold.
fn finds<M>(fault: impl Debug, model: M, property: &'static str)
where
    M: Model + Send + Sync + 'static,
    M::State: Clone + Debug + Hash + PartialEq + Send + Sync,
    M::Action: Clone + Debug + PartialEq,
{
    let checker = model.checker().threads(2);
    let found = HasDiscoveries::AllOf([property].into());
    let checker = checker.finish_when(found).spawn_dfs().join();
    let found = checker.discovery(property);
    assert!(found.is_some(), "{fault:?}: \"{property}\" holds");
}

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

const fn rule(order: Order, trigger: Trigger) -> Rule {
    Rule {
        trigger,
        min_prep: Ns::ZERO,
        order,
    }
}

const EDF: Rule = rule(Order::Edf, Trigger::Predicted);

/// Requests with these habits in the order of deadlines, one of which dies.
fn by_deadline(clients: &[Habits]) -> Scene {
    Scene {
        clients: clients.to_vec(),
        last_begin: 1,
        ticks: 3,
        deaths: 1,
        rules: &[EDF],
        tunings: 0,
        fault: None,
    }
}

/// As few as an inversion takes: one has the GPU, and two wait.
#[test]
fn deadlines_in_every_order() {
    let clients = [Habits::of(&[1, 4]), Habits::of(&[2]), Habits::of(&[3])];
    hold("deadlines", by_deadline(&clients));
}

#[test]
fn deadlines_with_leads_and_successors() {
    let again = Habits {
        requests: 2,
        leads: &[0, 1],
        ..Habits::of(&[3])
    };
    let few = by_deadline(&[again, Habits::of(&[1, 4])]);
    hold("successors", few);
}

#[test]
fn deadlines_beside_stores() {
    let stores = Habits {
        stores: true,
        ..Habits::of(&[1, 3])
    };
    hold("stores", by_deadline(&[stores, Habits::of(&[2])]));
}

#[test]
fn deadlines_beside_another_level() {
    let other = Habits {
        level: Level::DEFAULT,
        ..Habits::of(&[2])
    };
    hold("levels", by_deadline(&[Habits::of(&[1, 3]), other]));
}

#[test]
fn faults_in_the_order_of_deadlines_are_found() {
    use order::Fault::*;
    let two = [Habits::of(&[4]), Habits::of(&[3])];
    let three = [Habits::of(&[4]), Habits::of(&[3]), Habits::of(&[2])];
    for (fault, clients, property) in [
        (
            FirstCome,
            &three[..],
            "no inversion beyond one blocking term",
        ),
        (TwoAtATime, &three, "one has the GPU at a time"),
        (NoLease, &two, "nobody waits for nobody"),
        (Forgets, &two, "nobody waits for nobody"),
        (NoDeadline, &two, "a wait ends at its deadline"),
        (KeepsPlace, &two, "all is given back"),
    ] {
        let scene = Scene {
            fault: Some(fault),
            ..by_deadline(clients)
        };
        finds(fault, scene, property);
    }
}

/// The orders, and a trigger that comes with ready alone.
const RULES: [Rule; 3] = [
    EDF,
    rule(Order::Fifo, Trigger::Predicted),
    rule(Order::Edf, Trigger::AtReady),
];

/// The rules that a request is begun under, from one to another while everything is in flight.
fn switched(tunings: u8, clients: &[Habits]) -> Scene {
    Scene {
        rules: &RULES,
        tunings,
        ..by_deadline(clients)
    }
}

#[test]
fn the_order_changes_in_every_state() {
    let again = Habits {
        requests: 2,
        ..Habits::of(&[3])
    };
    let tunings = if is_short() { 1 } else { 2 };
    let clients = [again, Habits::of(&[1, 4])];
    hold("another order", switched(tunings, &clients));
    let scene = Scene {
        fault: Some(order::Fault::DropsLine),
        ..switched(1, &[Habits::of(&[3]); 2])
    };
    finds("DropsLine", scene, "nobody waits for nobody");
}

#[test]
fn slices_change_in_every_state() {
    let changes = Changes {
        tunings: if is_short() { 3 } else { 4 },
        periods: 2,
        throttles: 2,
        fault: None,
    };
    hold("slices", changes);
}

#[test]
fn faults_in_changes_of_slices_are_found() {
    use slices::Fault::*;
    for (fault, property) in [
        (NoWalk, "no slice is stranded"),
        (KeepsInstead, "nothing follows latencies for ever"),
        (LeavesThrottled, "no slice is stranded"),
        (LosesPlace, "no slice is stranded"),
    ] {
        let changes = Changes {
            tunings: 3,
            periods: 1,
            throttles: 1,
            fault: Some(fault),
        };
        finds(fault, changes, property);
    }
}
