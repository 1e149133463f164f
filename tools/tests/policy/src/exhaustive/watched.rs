// SPDX-License-Identifier: MIT OR Apache-2.0
//! A slot that is watched: what must hold for each event, whatever the process does.

use crate::policy::{
    request::{
        record::{Cause, Record},
        trial::Look,
        words::{Number, Observed},
        Actions, Error, Plan, Slot, State,
    },
    switch_cost::Switched,
    units::Ns,
};
use std::sync::atomic::{AtomicU32, Ordering};

/// The words of a page that was used before: the first request is the last before the wrap.
pub(super) const USED: u32 = u32::MAX - 1;
/// Longer than eight times how late a sample may be: a tick late is too late.
pub(super) const TICK: u64 = 1000;
pub(super) const LEASE: u8 = 2;
pub(super) const COST: u8 = 1;

/// The bit of an error in a gate.
pub(super) const FAILED: u64 = 1 << 63;

pub(super) fn at(tick: u8) -> Ns {
    Ns(u64::from(tick) * TICK)
}

pub(super) fn plan(now: u8, lead: u8) -> Plan {
    Plan {
        trigger_at: at(now + lead),
        lease: at(LEASE),
        cost: at(COST),
        holder: true,
        look: Look::AtDue,
        gate: true,
        ..Plan::default()
    }
}

/// A slot, and what is known of its past without asking it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Watched {
    pub(super) slot: Slot,
    pub(super) alarm: Option<Ns>,
    /// The last request that began, and when its trigger is due.
    pub(super) begun: Option<Number>,
    pub(super) due: Ns,
    /// The last numbers that zernel stored, and the last request that was over.
    pub(super) triggered: Option<Number>,
    pub(super) released: Option<Number>,
    pub(super) over: Option<Number>,
    /// Requests that began, and that were over.
    pub(super) begins: u8,
    pub(super) overs: u8,
    /// A closed slot takes no more calls, and its timer is gone.
    pub(super) open: bool,
    pub(super) fault: Option<&'static str>,
}

/// An event of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Event {
    Begin { lead: u8 },
    Poll,
    Ready,
    Done,
    Cancel,
    End(Cause),
}

impl Watched {
    pub(super) fn new() -> Self {
        Self {
            slot: Slot::new(),
            alarm: None,
            begun: None,
            due: Ns::ZERO,
            triggered: None,
            released: None,
            over: None,
            begins: 0,
            overs: 0,
            open: true,
            fault: None,
        }
    }

    /// Lets an event happen, checks what comes of it and returns it.
    pub(super) fn happen(&mut self, event: Event, now: u8, seen: &Observed) -> Actions {
        let before = *self;
        let number = self.begun.unwrap_or(Number::ONE);
        let result = match event {
            Event::Begin { lead } => {
                let (number, actions) = self.slot.begin(at(now), seen, plan(now, lead));
                self.begun = Some(number);
                let has_failed = seen.gate & FAILED != 0;
                self.due = at(if has_failed { now } else { now + lead });
                let waits = self.slot.state() == State::Armed && actions.trigger != self.begun;
                self.expect(!has_failed || waits, "a gate that failed took the GPU");
                self.begins += 1;
                Ok(actions)
            }
            Event::Poll => Ok(self.slot.poll(at(now), seen)),
            Event::Ready => self.slot.ready(number, at(now), seen),
            Event::Done => self.slot.done(number, at(now), seen),
            Event::Cancel => self.slot.cancel(number, at(now), seen),
            Event::End(cause) => {
                self.open = cause == Cause::Suspended;
                Ok(self.slot.end(at(now), seen, cause))
            }
        };
        let is_call = matches!(event, Event::Ready | Event::Done | Event::Cancel);
        self.expect(
            !is_call || result.is_ok() == before.slot.active().is_some(),
            "a call was accepted after its request, or refused before its end",
        );
        let mut other = before.slot;
        self.expect(
            other.ready(number.next(), at(now), seen).is_err() && other == before.slot,
            "a call for another request was accepted",
        );
        let actions = result.unwrap_or_else(|Error::Stale| {
            let refused = before.slot.active().is_none() && self.slot == before.slot;
            self.expect(refused, "a refused call changed something");
            Actions {
                alarm: before.alarm,
                ..Actions::default()
            }
        });
        checked(&before, self, event, now, seen, &actions);
        self.alarm = actions.alarm;
        self.triggered = actions.trigger.or(self.triggered);
        self.released = actions.release.or(self.released);
        if let Some(record) = actions.over {
            self.over = Some(record.number);
            self.overs += 1;
        }
        actions
    }

    fn expect(&mut self, holds: bool, otherwise: &'static str) {
        if !holds {
            self.fault.get_or_insert(otherwise);
        }
    }

    /// True if every request that began has one outcome or is the one that goes on.
    pub(super) fn is_counted(&self) -> bool {
        let active = self.slot.active();
        self.begins == self.overs + u8::from(active.is_some())
            && (active.is_none() || active == self.begun)
    }

    /// True if the timer will take the GPU in time, and give it back in time.
    pub(super) fn is_bounded(&self) -> bool {
        match self.slot.state() {
            State::Idle => self.alarm.is_none(),
            // All that is left to do is to look at the switch, once.
            State::Running { trigger, .. } => {
                let switched = trigger.saturating_add(at(COST));
                self.alarm.is_none_or(|alarm| alarm == switched)
            }
            State::Armed => self.open && self.alarm == Some(self.due),
            // None of these plans has a place in the order.
            State::Waiting { .. } => false,
            State::Taken { trigger, .. } => {
                let end = trigger.saturating_add(at(LEASE));
                self.open && self.alarm.is_some_and(|alarm| alarm <= end)
            }
        }
    }
}

/// The properties of each event.
pub(super) fn checked(
    before: &Watched,
    after: &mut Watched,
    event: Event,
    now: u8,
    seen: &Observed,
    actions: &Actions,
) {
    let is_new = |number: Option<Number>, last: Option<Number>| match (number, last) {
        (Some(number), Some(last)) => !number.is_reached_by(last.get()),
        _ => true,
    };
    after.expect(is_new(actions.trigger, before.triggered), "two triggers");
    after.expect(is_new(actions.release, before.released), "two releases");
    let well_told =
        |record: &Record| Some(record.number) == before.slot.active() && is_ordered(record);
    after.expect(
        actions.over.as_ref().is_none_or(well_told),
        "a record of something else",
    );

    let held = |state| matches!(state, State::Armed | State::Taken { .. });
    if let Some(number) = before.slot.active() {
        let reached =
            |stored: Option<Number>| stored.is_some_and(|s| number.is_reached_by(s.get()));
        let goes_on = after.slot.active() == Some(number);
        if held(before.slot.state()) && !(goes_on && held(after.slot.state())) {
            after.expect(
                number.is(seen.release) || reached(actions.release),
                "a stream holds for ever",
            );
        }
        let is_named = number.is(seen.release) || number.is(seen.done);
        let is_call = matches!(event, Event::Ready | Event::Done);
        let begins = matches!(event, Event::Begin { .. });
        let looks = held(before.slot.state()) && !begins;
        if looks && seen.gate & FAILED != 0 && !is_named && !is_call {
            after.expect(
                !goes_on && actions.over.is_some_and(|r| r.ready.is_none()),
                "a gate that failed was overlooked",
            );
        }
        if held(before.slot.state()) && begins && !is_named {
            let superseded = actions.over.is_some_and(|r| r.cause == Cause::Superseded);
            after.expect(
                superseded,
                "the next gate was taken for that of the one before",
            );
        }
        if looks && seen.gate == 0 {
            after.expect(
                !(goes_on && held(after.slot.state())),
                "a gate that opened was overlooked",
            );
        }
        if before.slot.state() == State::Armed && number.is(seen.trigger) {
            let armed = goes_on && after.slot.state() == State::Armed;
            after.expect(
                !armed && actions.trigger != Some(number),
                "a trigger was overlooked",
            );
        }
        if before.slot.state() == State::Armed && !(goes_on && after.slot.state() == State::Armed) {
            after.expect(
                number.is(seen.trigger) || reached(actions.trigger),
                "a stream waits for ever",
            );
        }
        // The lease ends for whatever is in the words.
        if let (Event::Poll, State::Taken { trigger, .. }) = (event, before.slot.state()) {
            if at(now) >= trigger.saturating_add(at(LEASE)) {
                after.expect(
                    !(goes_on && held(after.slot.state())),
                    "a lease did not end",
                );
            }
        }
        if event == Event::Poll && at(now) >= before.due {
            after.expect(after.slot.state() != State::Armed, "a trigger was missed");
        }
        let done = actions.over.is_some_and(|r| r.cause == Cause::Done);
        after.expect(
            done || !number.is(seen.done),
            "a request that was done counts as something else",
        );
        after.expect(
            goes_on == actions.over.is_none(),
            "a request was over without a word",
        );
    }
    if let State::Taken { trigger, .. } = after.slot.state() {
        after.expect(trigger <= at(now), "a trigger in the future");
        let own = actions.trigger.is_some() && actions.trigger == after.slot.active();
        after.expect(!own || at(now) >= after.due, "a trigger before its time");
    }
    if let Event::End(_) = event {
        after.expect(after.slot.active().is_none(), "a request outlived its end");
    }
}

pub(super) fn is_ordered(record: &Record) -> bool {
    let ready = record.ready.unwrap_or(record.begin);
    let done = record.done.unwrap_or(ready);
    let is_done = record.cause == Cause::Done;
    record.begin <= ready
        && ready <= done
        && done <= record.end
        && is_done == record.done.is_some()
        && (!is_done || record.ready.is_some())
        && (record.early == Ns::ZERO || record.late == Ns::ZERO)
}

/// The events that were met on the way, so that a model that never gets there is noticed.
#[derive(Default)]
pub(super) struct Coverage(AtomicU32);

impl Coverage {
    pub(super) fn note(&self, actions: &Actions) {
        let mut bits = 0;
        if let Some(record) = actions.over {
            bits |= 1 << record.cause as u32;
            bits |= u32::from(record.implied) << 16;
            bits |= u32::from(record.early > Ns::ZERO) << 17;
            bits |= u32::from(record.late > Ns::ZERO) << 18;
        }
        match actions.sample.and_then(|trial| trial.outcome(None)) {
            Some(Switched::InTime) => bits |= 1 << 19,
            Some(Switched::NotYet) => bits |= 1 << 20,
            None => {}
        }
        self.0.fetch_or(bits, Ordering::Relaxed);
    }

    pub(super) fn assert(&self, causes: &[Cause]) {
        let expected = causes
            .iter()
            .fold(0x1f << 16, |bits, &c| bits | 1 << c as u32);
        assert_eq!(self.0.load(Ordering::Relaxed), expected);
    }
}
