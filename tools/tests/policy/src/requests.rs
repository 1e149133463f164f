// SPDX-License-Identifier: MIT OR Apache-2.0
//! Properties of a slot and a learned cost for any numbers: times that jump anywhere, plans for
//! ever, words full of rubbish.

use crate::policy::{
    request::{
        record::{Cause, Record},
        succession::Succession,
        trial::Look,
        words::{Number, Observed},
        Actions, Plan, Slot, State,
    },
    switch_cost::{Cost, Phase, Switched},
    units::{Ns, Permille},
};
use proptest::{prelude::*, sample::select};

/// A time: anything, or one of those that others are likely to be compared with.
fn time() -> impl Strategy<Value = Ns> {
    prop_oneof![
        any::<u64>(),
        0u64..4,
        Just(u64::MAX),
        Just(u64::MAX - 1),
        1_000u64..1_010
    ]
    .prop_map(Ns)
}

fn plan() -> impl Strategy<Value = Plan> {
    let times = (time(), time(), time(), time(), proptest::option::of(time()));
    let look = select(vec![Look::Never, Look::AtDue, Look::Later]);
    (times, look, any::<[bool; 3]>()).prop_map(
        |((trigger_at, lease, predicted, cost, slo), look, [holder, gate, ordered])| Plan {
            trigger_at,
            lease,
            predicted,
            cost,
            slo,
            holder,
            look,
            phase: Phase::Settled,
            gate,
            ordered,
        },
    )
}

/// Words as distances from the number of the last request, or rubbish.
fn words() -> impl Strategy<Value = (Observed, bool)> {
    let word = || prop_oneof![select(vec![u32::MAX, 0, 0, 1]), any::<u32>()];
    let gate = prop_oneof![Just(0), Just(1), Just(1 << 63), any::<u64>()];
    let all = ((word(), word(), word(), word()), (time(), time(), gate));
    (all, any::<bool>()).prop_map(
        |(((done, trigger, release, held), (done_ns, ready_ns, gate)), near)| {
            let words = Observed {
                done,
                done_ns,
                trigger,
                release,
                gate,
                ready_ns,
                held,
            };
            (words, near)
        },
    )
}

#[derive(Clone, Debug)]
enum Event {
    Begin(Plan),
    Poll,
    Ready,
    Done,
    Cancel,
    End,
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        2 => plan().prop_map(Event::Begin),
        4 => Just(Event::Poll),
        1 => Just(Event::Ready),
        1 => Just(Event::Done),
        1 => Just(Event::Cancel),
        1 => Just(Event::End),
    ]
}

fn happen(slot: &mut Slot, number: Number, event: Event, now: Ns, seen: &Observed) -> Actions {
    match event {
        Event::Begin(plan) => slot.begin(now, seen, plan).1,
        Event::Poll => slot.poll(now, seen),
        Event::Ready => slot.ready(number, now, seen).unwrap_or_default(),
        Event::Done => slot.done(number, now, seen).unwrap_or_default(),
        Event::Cancel => slot.cancel(number, now, seen).unwrap_or_default(),
        Event::End => slot.end(now, seen, Cause::Closed),
    }
}

/// The same in a succession of requests.
fn happen_later(
    requests: &mut Succession,
    number: Number,
    event: &Event,
    now: Ns,
    seen: &Observed,
) -> Actions {
    match event {
        Event::Begin(plan) => {
            let mut actions = Actions::default();
            requests.begin(requests.next(seen), now, seen, plan, &mut actions);
            actions
        }
        Event::Poll => requests.poll(now, seen),
        Event::Ready => requests.ready(number, now, seen).unwrap_or_default(),
        Event::Done => requests.done(number, now, seen).unwrap_or_default(),
        Event::Cancel => requests.cancel(number, now, seen).unwrap_or_default(),
        Event::End => requests.end(now, seen, Cause::Closed),
    }
}

proptest! {
    /// Whatever is left for later, and however long: the same is stored at the same time, and the
    /// same comes of every request in the end.
    #[test]
    fn what_waits_comes_out_the_same(
        events in proptest::collection::vec((event(), time(), words(), any::<bool>()), 1..60),
    ) {
        let (mut slot, mut requests) = (Slot::new(), Succession::new());
        let (mut at_once, mut later): (Vec<Record>, Vec<Record>) = Default::default();
        let mut number = Number::ONE;
        for (event, now, (mut seen, near), look) in events {
            if near {
                for word in [&mut seen.done, &mut seen.trigger, &mut seen.release, &mut seen.held] {
                    *word = word.wrapping_add(number.get());
                }
            }
            if look || matches!(event, Event::Begin(_)) {
                later.extend(requests.catch_up());
            }
            let told = happen_later(&mut requests, number, &event, now, &seen);
            let begins = matches!(event, Event::Begin(_));
            let actions = happen(&mut slot, number, event, now, &seen);
            if begins {
                number = slot.active().unwrap();
            }
            prop_assert_eq!(
                (told.release, told.trigger, told.alarm, told.sample),
                (actions.release, actions.trigger, actions.alarm, actions.sample)
            );
            prop_assert_eq!(requests.holds(), slot.holds());
            if told.over.is_some() && !begins {
                later.extend(requests.catch_up());
            }
            later.extend(told.over);
            at_once.extend(actions.over);
            prop_assert!(later.len() == at_once.len() || requests.is_behind());
        }
        later.extend(requests.catch_up());
        prop_assert_eq!(later, at_once);
    }

    /// Nothing overflows, every request has one outcome, no word is stored twice for a request,
    /// and a timer is set exactly while there is something to wait for.
    #[test]
    fn a_slot_stays_consistent(
        events in proptest::collection::vec((event(), time(), words()), 1..60),
    ) {
        let mut slot = Slot::new();
        let mut number = Number::ONE;
        let (mut begins, mut overs) = (0, 0);
        let (mut triggered, mut released) = (None, None);
        for (event, now, (mut seen, near)) in events {
            if near {
                for word in [&mut seen.done, &mut seen.trigger, &mut seen.release, &mut seen.held] {
                    *word = word.wrapping_add(number.get());
                }
            }
            let begin = matches!(event, Event::Begin(_));
            let before = slot.active();
            let actions = happen(&mut slot, number, event, now, &seen);
            if begin {
                begins += 1;
                number = slot.active().unwrap();
            }
            if let Some(record) = actions.over {
                overs += 1;
                prop_assert_eq!(Some(record.number), before);
                prop_assert!(record.end >= record.begin);
                prop_assert!(record.ready.is_none_or(|t| t >= record.begin && t <= record.end));
                prop_assert!(record.done.is_none_or(|t| Some(t) >= record.ready && t <= record.end));
                prop_assert!(record.early == Ns::ZERO || record.late == Ns::ZERO);
            }
            prop_assert_eq!(begins, overs + u32::from(slot.active().is_some()));
            prop_assert!(actions.trigger.is_none() || actions.trigger != triggered);
            prop_assert!(actions.release.is_none() || actions.release != released);
            triggered = actions.trigger.or(triggered);
            released = actions.release.or(released);
            // A refused call leaves the timer alone.
            let waits = match slot.state() {
                State::Idle => false,
                State::Armed | State::Waiting { .. } | State::Taken { .. } => true,
                // The switch can be looked at once more.
                State::Running { trigger, .. } => actions.alarm.is_none_or(|at| at >= trigger),
            };
            prop_assert!(actions.alarm.is_none() || waits);
        }
    }

    /// Whatever is learned, the estimate stays in range, and moves the way it is told.
    #[test]
    fn a_cost_stays_in_range(
        prior in any::<u64>(), quantile in any::<u32>(),
        bits in proptest::collection::vec(any::<bool>(), 0..400),
    ) {
        let mut cost = Cost::new(Ns(prior), Permille(quantile));
        for in_time in bits {
            let before = cost.estimate();
            cost.learn(if in_time { Switched::InTime } else { Switched::NotYet });
            let (min, max) = Cost::RANGE;
            let (low, high) = if in_time { (min, before) } else { (before, max) };
            prop_assert!((low..=high).contains(&cost.estimate()));
        }
    }

    /// The share in time is the quantile, for each quantile and any log-uniform spread.
    #[test]
    fn a_cost_is_the_quantile(
        quantile in select(vec![800u32, 900, 950, 980]),
        middle in 30_000f64..400_000.0, spread in 0.05f64..0.7,
        seed in any::<u64>(),
    ) {
        let mut cost = Cost::new(Ns(100_000), Permille(quantile));
        let mut random = seed;
        let mut in_time = 0;
        for i in 0..4_000 {
            // Knuth's MMIX generator: only its upper bits are random.
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let uniform = (random >> 32) as f64 / 2f64.powi(32);
            let real = middle * ((uniform - 0.5) * 2.0 * spread).exp();
            let seen = real <= cost.estimate().0 as f64;
            cost.learn(if seen { Switched::InTime } else { Switched::NotYet });
            in_time += u32::from(seen && i >= 1_000);
        }
        let share = in_time as f64 / 3.0;
        // Steps that adapt let a little more be late than asked for.
        let tolerated = f64::from(1_000 - quantile) * 0.3;
        prop_assert!((share - f64::from(quantile)).abs() < tolerated);
    }
}
