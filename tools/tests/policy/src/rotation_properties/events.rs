// SPDX-License-Identifier: MIT OR Apache-2.0
//! Any order of events, on a provider that fails at will.

use super::{quantum, weight, Members};
use crate::policy::{
    rotation::{
        entity::{Entity, Sample},
        run_list::RunList as _,
        turn::{Action, Outcome, Turn},
        Discipline, Quantum,
    },
    units::Ns,
};
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Event {
    Join(u32),
    Leave(usize),
    See(usize, u64, bool),
    Ask(u64),
    Finish(Outcome),
    On(bool),
    Lc(bool),
    Poll(Option<u64>),
    Weight(usize, u32),
    Mean(usize, Option<u64>),
    Readmit(usize),
    Tune(Discipline, u64),
}

fn event() -> impl Strategy<Value = Event> {
    let id = 0usize..12;
    let weights = 1u32..=10_000;
    let ran = prop_oneof![9 => 0u64..20_000_000, 1 => any::<u64>()];
    let outcome = prop_oneof![
        6 => Just(Outcome::Done),
        1 => Just(Outcome::Later),
        1 => Just(Outcome::Failed),
    ];
    let discipline = prop::sample::select(Discipline::ALL.to_vec());
    prop_oneof![
        2 => weights.clone().prop_map(Event::Join),
        1 => id.clone().prop_map(Event::Leave),
        8 => (id.clone(), ran.clone(), any::<bool>()).prop_map(|(id, r, b)| Event::See(id, r, b)),
        8 => (0u64..10_000_000).prop_map(Event::Ask),
        8 => (0u64..100_000).prop_map(Event::Ask),
        10 => outcome.prop_map(Event::Finish),
        1 => prop::bool::weighted(0.8).prop_map(Event::On),
        1 => any::<bool>().prop_map(Event::Lc),
        1 => prop::option::of(1u64..1_000_000).prop_map(Event::Poll),
        1 => (id.clone(), weights).prop_map(|(id, w)| Event::Weight(id, w)),
        1 => (id.clone(), prop::option::of(ran)).prop_map(|(id, m)| Event::Mean(id, m)),
        1 => id.prop_map(Event::Readmit),
        1 => (discipline, 500_000u64..1_000_000_000).prop_map(|(d, q)| Event::Tune(d, q)),
    ]
}

struct World {
    turn: Turn,
    members: Members,
    on: bool,
    now: u64,
    call: Option<Action>,
    /// The last call was for a TSG out of turn.
    was_out_of_turn: bool,
}

impl World {
    fn enabled_in_turn(&self) -> Vec<usize> {
        let enabled = |e: &Entity| e.is_enabled() && !e.is_in_slices();
        let all = self.members.0.iter().enumerate();
        all.filter_map(|(id, e)| e.as_ref().is_some_and(enabled).then_some(id))
            .collect()
    }

    fn taking_part(&self) -> usize {
        let all = self.members.0.iter().flatten();
        all.filter(|e| !e.is_in_slices()).count()
    }

    fn rotates(&self) -> bool {
        self.on && self.taking_part() > 1
    }

    /// True for a call for a TSG out of turn.
    fn is_out_of_turn(&self, action: Action) -> bool {
        let [current, successor, _] = self.turn.running(&self.members);
        match action {
            Action::Enable(id) => self.members.0[id].as_ref().unwrap().is_in_slices(),
            Action::Disable(id) => ![current, successor].contains(&Some(id)),
            Action::WaitUntil(_) | Action::Nothing => false,
        }
    }

    fn ask(&mut self) -> Action {
        let action = self.turn.next(&mut self.members, Ns(self.now));
        let enabled = self.enabled_in_turn();
        let was_out_of_turn = self.was_out_of_turn;
        if self.call.is_none() && self.rotates() {
            self.was_out_of_turn = self.is_out_of_turn(action);
        }
        match action {
            Action::Enable(id) => {
                assert!(self.call.is_none());
                let e = self.members.0[id].as_ref().unwrap();
                assert!(!e.is_enabled());
                // Those beside the one that has its turn are disabled first, and in between.
                if self.rotates() && !e.is_in_slices() {
                    assert!(enabled.len() < 2 || was_out_of_turn);
                    let in_turn = self.turn.running(&self.members);
                    let in_turn = &in_turn[..2];
                    let others = enabled.iter().filter(|&&id| in_turn.contains(&Some(id)));
                    assert!(others.count() < 2 && in_turn.contains(&Some(id)));
                }
                self.call = Some(action);
            }
            Action::Disable(id) => {
                assert!(self.call.is_none() && self.rotates());
                assert!(enabled.contains(&id) && enabled.len() > 1);
                self.call = Some(action);
            }
            Action::WaitUntil(_) | Action::Nothing if self.call.is_none() => {
                self.check_rest(action);
            }
            Action::WaitUntil(_) | Action::Nothing => assert_eq!(action, Action::Nothing),
        }
        action
    }

    /// There is nothing to do now.
    fn check_rest(&self, action: Action) {
        let enabled = self.enabled_in_turn();
        if !self.rotates() {
            assert_eq!(enabled.len(), self.taking_part());
            assert_eq!(self.turn.current(), None);
            return;
        }
        assert!((1..=2).contains(&enabled.len()));
        assert!(self.turn.current().is_some_and(|id| enabled.contains(&id)));
        let mut all = self.members.0.iter().flatten();
        if all.any(|e| e.is_runnable() && !e.is_in_slices()) {
            let member = |id: &usize| self.members.0[*id].as_ref();
            let somebody_can = enabled.iter().filter_map(member).any(Entity::is_runnable);
            // Or the one whose turn it is thinks, for twice a quarter of a millisecond at most.
            let think_time_ends = Ns(self.now + 500_000);
            assert!(
                somebody_can || matches!(action, Action::WaitUntil(at) if at <= think_time_ends)
            );
        }
    }

    fn finish(&mut self, outcome: Outcome) {
        let Some(Action::Enable(id) | Action::Disable(id)) = self.call.take() else {
            return;
        };
        let was_aside = self.members.0[id].as_ref().map(Entity::is_in_slices);
        let failed = self.turn.finished(&mut self.members, Ns(self.now), outcome);
        let newly = outcome == Outcome::Failed && was_aside == Some(false);
        assert_eq!(failed, newly.then_some(id));
    }

    fn apply(&mut self, event: Event) {
        let count = self.members.0.len();
        let at = |id: usize| id.checked_rem(count).unwrap_or(0);
        let members = &mut self.members;
        match event {
            Event::Join(w) => {
                members.0.push(Some(Entity::new(weight(w))));
                self.turn.join(members, count);
            }
            Event::Leave(id) => {
                let id = at(id);
                self.turn.leave(members, id);
                if let Some(slot) = members.0.get_mut(id) {
                    *slot = None;
                }
            }
            Event::See(id, ran, runnable) => {
                let id = at(id);
                let sample = Sample {
                    ran: Ns(ran),
                    runnable,
                    since: None,
                };
                if let Some(Some(e)) = members.0.get_mut(id) {
                    e.learn(sample, Ns(self.now));
                }
                self.turn.observe(members, id, sample);
            }
            Event::Ask(later) => {
                self.now += later;
                self.ask();
            }
            Event::Finish(outcome) => self.finish(outcome),
            Event::On(on) => {
                self.on = on;
                self.turn.set_on(on);
            }
            Event::Lc(busy) => self.turn.set_lc(busy, Ns(self.now)),
            Event::Poll(interval) => self.turn.set_poll(interval.map(Ns)),
            Event::Weight(id, w) => {
                let id = at(id);
                self.turn.set_weight(members, id, weight(w));
                if let Some(e) = members.get(id) {
                    assert_eq!(e.weight(), weight(w));
                }
            }
            Event::Mean(id, mean) => {
                let id = at(id);
                if let Some(Some(e)) = members.0.get_mut(id) {
                    e.set_mean_burst(mean.map(Ns));
                }
            }
            Event::Readmit(id) => {
                let id = at(id);
                if self.call.is_none() {
                    self.turn.readmit(members, id);
                }
            }
            Event::Tune(discipline, length) => {
                self.turn.tune(members, discipline, quantum(length));
            }
        }
    }

    /// With a provider that does what it is told, everything is in its place after a few calls.
    fn settle(&mut self) {
        self.finish(Outcome::Done);
        for _ in 0..4 * self.members.0.len() + 4 {
            self.now += 2_000_000_000;
            if !matches!(self.ask(), Action::Enable(_) | Action::Disable(_)) {
                let mut failed = self.members.0.iter().flatten().filter(|e| e.is_in_slices());
                assert!(failed.all(Entity::is_enabled));
                return;
            }
            self.finish(Outcome::Done);
        }
        panic!("it never comes to rest");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1024))]

    #[test]
    fn any_order_keeps_the_rules(events in prop::collection::vec(event(), 1..300)) {
        let mut world = World {
            turn: Turn::new(Discipline::Fair, Quantum::DEFAULT),
            members: Members::default(),
            on: true,
            now: 0,
            call: None,
            was_out_of_turn: false,
        };
        world.turn.set_on(true);
        for event in events {
            world.apply(event);
            world.turn.check(&world.members, world.members.0.len());
        }
        world.settle();
        world.on = false;
        world.turn.set_on(false);
        world.settle();
        let enabled = world.members.0.iter().flatten().all(Entity::is_enabled);
        prop_assert!(enabled);
    }
}
