// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tasks that share a GPU, in every order of events: the real model of a GPU (`rust/model/`) under the real
//! rotation, requests, budgets and preemption (`rust/policy/`), with a worker and processes around them.
//!
//! A task is a TSG: running, ready, saved (preempted in the middle of its work) or idle. A path is a
//! list of events, each a few ticks after the one before: latency-critical processes begin requests, are
//! ready, give up, or stop; best-effort ones get more to run; calls of the provider are quick, slow, or
//! fail. The machine between two events is deterministic, so that a path has one outcome. No two paths
//! are taken for one, and each ends by a rest in which nothing new comes.
//!
//! The properties are those of [`world`]. Bounds are larger where the environment has no `SHORT=1`.

mod machine;
mod process;
mod worker;
mod world;

use std::time::Instant;

use stateright::{Checker, Model};

use self::worker::Provider;
use self::world::{Fault, World};
use crate::exhaustive::is_short;

/// Three best-effort tasks, a request with a holder, and one without.
fn world() -> World {
    World {
        be: vec![14, 12, 12],
        more: 0,
        lc: vec![(true, 20, 1), (false, 20, 1)],
        delays: match is_short() {
            true => vec![0, 1, 3, 7],
            false => vec![0, 1, 2, 3, 4, 5, 7, 11],
        },
        providers: vec![Provider::Quick],
        turns: "fair",
        cancels: false,
        fault: None,
    }
}

fn hold(name: &str, world: World) {
    let began = Instant::now();
    let checker = world.checker().threads(2).spawn_bfs().join();
    let paths = checker.unique_state_count();
    println!("{name}: {paths} paths, {:.1?}", began.elapsed());
    checker.assert_properties();
}

#[test]
fn tasks_under_each_order_of_turns() {
    for turns in ["fair", "credit", "rr"] {
        hold(turns, World { turns, ..world() });
    }
}

#[test]
fn tasks_that_get_more_to_run() {
    let more = World {
        be: vec![6, 10],
        more: 8,
        lc: vec![(true, 24, 2)],
        ..world()
    };
    hold("more", more);
}

/// Preemption with roll-back: the provider is slow, or fails in each of its ways.
#[test]
fn tasks_on_a_provider_that_fails() {
    let fails = World {
        lc: vec![(false, 12, 1), (true, 12, 1)],
        delays: match is_short() {
            true => vec![0, 2, 6],
            false => vec![0, 1, 2, 4, 6],
        },
        providers: vec![
            Provider::Quick,
            Provider::Slow,
            Provider::TimesOut,
            Provider::DoesNotRespond,
            Provider::Refuses,
            Provider::NotNow,
        ],
        cancels: true,
        ..world()
    };
    let in_a_row = World {
        lc: vec![(false, 20, 2)],
        ..fails.clone()
    };
    hold("failures", fails);
    hold("failures in a row", in_a_row);
}

#[test]
fn faults_are_found() {
    for (fault, property) in [
        (Fault::LongSlices, "latency-critical work waits bounded"),
        (Fault::NoBudget, "a level keeps to its budget"),
        (Fault::NoBudget, "best-effort waits bounded"),
        (Fault::NoRollBack, "best-effort work completes"),
        (Fault::NoRollBack, "all that was kept off is let in"),
        (Fault::ForgetsCalls, "best-effort work completes"),
        (Fault::LosesContext, "no GPU time is lost"),
    ] {
        let world = World {
            fault: Some(fault),
            delays: vec![0, 3],
            ..world()
        };
        let checker = world.checker().threads(2).spawn_bfs().join();
        let found = checker.discovery(property);
        assert!(found.is_some(), "{fault:?}: \"{property}\" holds");
    }
}
