// SPDX-License-Identifier: MIT OR Apache-2.0
//! A process that stores anything at any time.

use super::watched::{Coverage, Event, Watched, FAILED, TICK, USED};
use crate::policy::{
    request::{
        record::Cause,
        words::{Number, Observed},
    },
    units::Ns,
};
use stateright::{Model, Property};

/// A process that stores anything at any time.
pub(super) struct Hostile {
    pub(super) requests: u8,
    pub(super) ticks: u8,
    pub(super) coverage: Coverage,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Attack {
    watched: Watched,
    now: u8,
}

impl Hostile {
    /// Every snapshot of the words around the number of the last request.
    fn snapshots(attack: &Attack) -> Vec<Observed> {
        let number = attack.watched.begun.map_or(USED + 1, Number::get);
        let words = [0, number.wrapping_sub(1), number, number.wrapping_add(1)];
        let mut all = Vec::new();
        for done in words {
            for trigger in words {
                for release in words {
                    for (held, claim) in [(0, 0), (number, u64::MAX), (0, TICK), (number, TICK)] {
                        all.extend([1, 0, FAILED].map(|gate| Observed {
                            done,
                            done_ns: Ns(claim),
                            trigger,
                            release,
                            gate,
                            ready_ns: Ns(u64::MAX - claim),
                            held,
                        }));
                    }
                }
            }
        }
        all
    }
}

impl Model for Hostile {
    type State = Attack;
    type Action = Option<(Event, Observed)>;

    fn init_states(&self) -> Vec<Attack> {
        vec![Attack {
            watched: Watched::new(),
            now: 0,
        }]
    }

    fn actions(&self, attack: &Attack, actions: &mut Vec<Self::Action>) {
        if attack.now < self.ticks {
            actions.push(None);
        }
        if !attack.watched.open {
            return;
        }
        let mut events = vec![Event::Poll, Event::End(Cause::Closed)];
        events.push(Event::End(Cause::Suspended));
        if attack.watched.begins > 0 {
            events.extend([Event::Ready, Event::Done, Event::Cancel]);
        }
        if attack.watched.begins < self.requests {
            events.extend([Event::Begin { lead: 0 }, Event::Begin { lead: 1 }]);
        }
        for seen in Self::snapshots(attack) {
            actions.extend(events.iter().map(|&event| Some((event, seen))));
        }
    }

    fn next_state(&self, attack: &Attack, action: Self::Action) -> Option<Attack> {
        let mut next = *attack;
        if let Some((event, seen)) = action {
            let actions = next.watched.happen(event, attack.now, &seen);
            self.coverage.note(&actions);
        } else {
            next.now += 1;
        }
        (next != *attack).then_some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("every event is answered well", |_, attack: &Attack| {
                attack.watched.fault.is_none()
            }),
            Property::always("every begin has one outcome", |_, attack: &Attack| {
                attack.watched.is_counted()
            }),
            Property::always("best-effort work waits bounded", |_, attack: &Attack| {
                attack.watched.is_bounded()
            }),
        ]
    }
}
