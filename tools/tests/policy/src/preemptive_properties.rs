// SPDX-License-Identifier: MIT OR Apache-2.0
//! Properties of the order of deadlines with preemption: whatever tenants state and do, nobody stays
//! held.

mod machine;

use proptest::prelude::*;

use self::machine::{claim, Machine, FULL, LANE, MS};
use crate::policy::{
    deadline::{line::Line, preemptive::Step},
    units::Ns,
};

#[derive(Clone, Debug)]
enum Act {
    Begin {
        tsg: u64,
        within: u64,
        contends: bool,
        itself: bool,
    },
    /// A process stores the trigger of one that waits.
    Store(usize),
    /// A process stores that one which has the GPU, or is held, is done.
    StoreDone(usize),
    End(usize),
    Pass(u64),
    Switch(bool),
}

fn act() -> impl Strategy<Value = Act> {
    let at = any::<prop::sample::Index>;
    prop_oneof![
        5 => (0u64..6, 0u64..60 * MS, prop::bool::weighted(0.9), prop::bool::weighted(0.3))
            .prop_map(|(tsg, within, contends, itself)| Act::Begin { tsg, within, contends, itself }),
        1 => at().prop_map(|at| Act::Store(at.index(64))),
        3 => at().prop_map(|at| Act::StoreDone(at.index(64))),
        2 => at().prop_map(|at| Act::End(at.index(64))),
        4 => (0u64..20 * MS).prop_map(Act::Pass),
        1 => any::<bool>().prop_map(Act::Switch),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    /// Each that is held is so for one with an earlier deadline that has the GPU, to its own deadline and the
    /// end of its lease at most, in this order alone, and so often at most; all is given back at the end.
    #[test]
    fn nobody_stays_held(acts in proptest::collection::vec(act(), 1..200)) {
        let mut machine = Machine::new();
        for act in acts {
            match act {
                Act::Begin { tsg, within, contends, itself } => {
                    machine.begin_as(tsg, tsg as u32 / 2, within, contends, itself);
                }
                Act::Store(at) => {
                    let waiting = machine.requests.values().filter(|r| r.waits());
                    let place = waiting.map(|r| r.place).nth(at % 8);
                    if let Some(place) = place {
                        machine.store(place);
                        machine.catch_up();
                    }
                }
                Act::StoreDone(at) => machine.store_done(at),
                Act::End(at) => machine.end(at),
                Act::Pass(time) => machine.pass(time),
                Act::Switch(on) => {
                    machine.on = on;
                    machine.worker = Some(machine.now);
                    machine.catch_up();
                }
            }
        }
        while !machine.requests.is_empty() {
            machine.end(0);
            prop_assert!(machine.held().count() < machine.requests.len().max(1));
        }
        prop_assert_eq!(machine.line.held_lane(), None);
        prop_assert!(machine.line.wishes(Ns(machine.now)).iter().all(Option::is_none));
    }

    /// A tenant whose deadlines are always earlier holds another one's requests for half of the time, and the
    /// first tenth of a second.
    #[test]
    fn a_hostile_tenant_holds_others_for_half_of_the_time(
        lengths in proptest::collection::vec(1u64..10 * MS, 100..200),
    ) {
        let mut machine = Machine::new();
        let start = machine.now;
        for length in lengths {
            let victim = machine.begin(1, 1, 1_000 * MS, true);
            let Some(victim) = victim else { break };
            let own = machine.begin(2, 2, MS, true);
            machine.pass(length);
            if let Some(own) = own {
                machine.end(own.number());
            }
            machine.end(victim.number());
            let passed = machine.now - start;
            prop_assert!(machine.took <= 100 * MS + passed / 2);
        }
        prop_assert!(machine.took > 0);
    }

    /// One that follows an honest taker with requests that go by themselves does so, too; and pays for all of
    /// that, and the other one for nothing.
    #[test]
    fn requests_that_go_by_themselves_hold_others_for_half_of_the_time(
        first in 1u64..50 * MS,
        chain in proptest::collection::vec((1u64..20 * MS, 0u64..3 * MS), 50..100),
    ) {
        let mut machine = Machine::new();
        let start = machine.now;
        machine.begin(1, 1, 9_000 * MS, true).unwrap();
        let honest = machine.begin(2, 2, 2_000 * MS, true).unwrap();
        machine.pass(first);
        let mut last = honest;
        for (length, within) in chain {
            let next = machine.begin_as(3, 0, within, true, true).unwrap();
            machine.end(last.number());
            machine.pass(length);
            last = next;
            let passed = machine.now - start;
            prop_assert!(machine.took <= first + 100 * MS + passed / 2);
        }
        let now = Ns(machine.now);
        prop_assert!(machine.line.credit(2, now) >= FULL - first as i64);
    }

    /// Without a part in preemption the order is that without.
    #[test]
    fn without_a_part_it_is_the_order_without(
        steps in proptest::collection::vec((0u64..100, 0u8..4, any::<bool>()), 1..100),
    ) {
        let mut line = Line::EMPTY;
        let mut places = Vec::new();
        for (now, (deadline, what, on)) in steps.into_iter().enumerate() {
            let now = Ns(now as u64);
            match what {
                0 | 1 => {
                    if let Some(place) = line.join(LANE, (deadline % 3) as u32, claim(deadline)) {
                        line.waits(place);
                        places.push(place);
                    }
                }
                2 if !places.is_empty() => {
                    line.leave(places.swap_remove(deadline as usize % places.len()));
                }
                _ => {}
            }
            let next = line.next(LANE, now);
            match line.step(LANE, now, on) {
                Step::Go(place) => {
                    prop_assert_eq!(Some(place), next);
                    line.runs(place, Ns(now.0 + 20), now);
                }
                other => prop_assert_eq!((other, next), (Step::Rest, None)),
            }
        }
    }
}
