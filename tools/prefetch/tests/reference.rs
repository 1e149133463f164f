// SPDX-License-Identifier: MIT OR Apache-2.0
//! Random operations on a cache, against a reference that looks at all entries for each.
#![cfg(not(loom))]

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use zernel_prefetch::budget::{Budget, Stage};
use zernel_prefetch::cache::{
    Admission, Cache, Flight, Handle, Limits, Look, Pin, Refused, Stale, StreamId, MOST_AHEAD,
};
use zernel_prefetch::{Fault, Kind};

const ENTRIES: u32 = 6;
const BYTES: u64 = 12;

#[derive(Debug, Clone)]
enum Op {
    Open,
    Close(usize),
    Advance(usize, u64),
    Admit {
        key: u8,
        stream: usize,
        ahead: u64,
        bytes: u64,
    },
    Offer {
        key: u8,
        stream: usize,
        bytes: u64,
        may_evict: bool,
    },
    Renew,
    Settle(usize, End),
    Pin(usize),
    Unpin(usize),
}

#[derive(Debug, Clone, Copy)]
enum End {
    Ready(u64),
    Fail(Kind),
    GiveUp,
}

fn op() -> impl Strategy<Value = Op> {
    let end = prop_oneof![
        4 => (0_u64..6).prop_map(End::Ready),
        1 => Just(End::Fail(Kind::Missing)),
        1 => Just(End::Fail(Kind::Unavailable)),
        1 => Just(End::GiveUp),
    ];
    let ahead = prop_oneof![20 => 0_u64..4, 1 => MOST_AHEAD - 1..MOST_AHEAD + 1];
    prop_oneof![
        1 => Just(Op::Open),
        1 => any::<usize>().prop_map(Op::Close),
        8 => (any::<usize>(), 0_u64..3).prop_map(|(stream, by)| Op::Advance(stream, by)),
        20 => (0_u8..12, any::<usize>(), ahead, 0_u64..14)
            .prop_map(|(key, stream, ahead, bytes)| Op::Admit { key, stream, ahead, bytes }),
        6 => (0_u8..12, any::<usize>(), 0_u64..14, any::<bool>())
            .prop_map(|(key, stream, bytes, may_evict)| Op::Offer { key, stream, bytes, may_evict }),
        1 => Just(Op::Renew),
        14 => (any::<usize>(), end).prop_map(|(at, end)| Op::Settle(at, end)),
        2 => any::<usize>().prop_map(Op::Pin),
        2 => any::<usize>().prop_map(Op::Unpin),
    ]
}

#[derive(Debug, Clone, PartialEq)]
enum State {
    Pending,
    Ready(u64),
    Failed(Kind),
}

/// An entry of the reference.
#[derive(Debug)]
struct Entry {
    key: u8,
    handle: Handle,
    bytes: u64,
    state: State,
    needs: HashMap<StreamId, u64>,
    /// The batch, and the number of the asking, of the last one that asked.
    asked: (u64, u64),
    pins: u32,
    is_listed: bool,
    is_gone: bool,
    /// It was passed over by an eviction: its turn is another since.
    may_be_late: bool,
}

struct Run {
    cache: Arc<Cache<u8, u64>>,
    budget: Arc<Budget>,
    watermarks: Vec<(StreamId, Option<u64>)>,
    entries: Vec<Entry>,
    flights: Vec<(usize, Flight<u8, u64>)>,
    pins: Vec<(usize, Pin<u8, u64>)>,
    askings: u64,
    has_one_stream: bool,
}

impl Run {
    fn new() -> Self {
        let [stage]: [Stage; 1] = Budget::split(BYTES, [0]).expect("no floors");
        let budget = Arc::clone(stage.budget());
        let limits = Limits {
            entries: ENTRIES,
            keep_faults: Duration::from_secs(3_600),
        };
        let cache = Cache::new(limits, stage);
        let first = cache.open().expect("the first");
        Self {
            cache,
            budget,
            watermarks: vec![(first, Some(0))],
            entries: Vec::new(),
            flights: Vec::new(),
            pins: Vec::new(),
            askings: 0,
            has_one_stream: true,
        }
    }

    fn needed(&self, entry: &Entry) -> bool {
        let alive = |(stream, batch): (&StreamId, &u64)| {
            let known = self.watermarks.iter().find(|(id, _)| id == stream);
            known.is_some_and(|(_, watermark)| watermark.is_some_and(|at| *batch >= at))
        };
        entry.needs.iter().any(alive)
    }

    fn may_go(&self, entry: &Entry) -> bool {
        let is_busy = entry.state == State::Pending || entry.pins > 0;
        !entry.is_gone && !is_busy && !self.needed(entry)
    }

    fn used(&self) -> u64 {
        let there = self.entries.iter().filter(|entry| !entry.is_gone);
        there.map(|entry| entry.bytes).sum()
    }

    fn count(&self) -> usize {
        self.entries.iter().filter(|entry| !entry.is_gone).count()
    }

    fn fits(&self, bytes: u64) -> bool {
        self.count() < ENTRIES as usize && self.used() + bytes <= BYTES
    }

    fn admit(&mut self, key: u8, stream: usize, ahead: u64, bytes: u64) {
        let (id, watermark) = self.watermarks[stream % self.watermarks.len()];
        let batch = watermark.unwrap_or(0).wrapping_add(ahead);
        let answer = self.cache.admit(&key, id, batch, bytes);
        let refused = match watermark {
            _ if bytes > BYTES => Some(Refused::TooLarge { most: BYTES }),
            None => Some(Refused::Closed),
            Some(watermark) if ahead >= MOST_AHEAD => Some(Refused::TooFar { watermark }),
            Some(_) => None,
        };
        if let Some(refused) = refused {
            assert_eq!(answer.expect_err("it is refused"), refused);
            return;
        }
        let answer = answer.expect("an open stream");
        if let Some(at) = self.found(key, id, batch) {
            let expected = self.entries[at].handle;
            assert!(matches!(answer, Admission::Found(handle) if handle == expected));
            return;
        }
        self.evicted(bytes);
        match answer {
            Admission::New(handle, flight) => {
                self.flights.push((self.entries.len(), flight));
                self.made((key, handle), (id, batch), bytes, State::Pending);
            }
            Admission::Again => {
                assert!(!self.fits(bytes), "there was room");
                let left = self.entries.iter().find(|entry| self.may_go(entry));
                assert!(left.is_none(), "one could go: {left:?}");
            }
            Admission::Found(handle) => panic!("{handle:?} of another key"),
        }
    }

    fn offer(&mut self, key: u8, stream: usize, bytes: u64, may_evict: bool) {
        let (id, watermark) = self.watermarks[stream % self.watermarks.len()];
        let batch = watermark.unwrap_or(0);
        let value = self.entries.len() as u64;
        let answer = self
            .cache
            .offer((&key, value), (id, batch), bytes, may_evict);
        if watermark.is_none() || bytes > BYTES {
            let refused = match watermark {
                _ if bytes > BYTES => Refused::TooLarge { most: BYTES },
                _ => Refused::Closed,
            };
            assert_eq!(answer, Err(refused));
            return;
        }
        let answer = answer.expect("an open stream");
        if self.found(key, id, batch).is_some() {
            assert_eq!(answer, None);
            return;
        }
        match may_evict {
            true => self.evicted(bytes),
            false => assert_eq!(self.gone(), [0; 0], "none may go"),
        }
        match answer {
            Some(handle) => self.made((key, handle), (id, batch), bytes, State::Ready(value)),
            None => {
                assert!(!self.fits(bytes), "there was room");
                let left = self.entries.iter().any(|entry| self.may_go(entry));
                assert!(!left || !may_evict, "one could go");
            }
        }
    }

    fn renew(&mut self) {
        self.cache.renew();
        for at in 0..self.entries.len() {
            let may_go = self.may_go(&self.entries[at]);
            let entry = &mut self.entries[at];
            entry.is_listed = false;
            entry.is_gone |= may_go;
            entry.may_be_late = true;
        }
    }

    /// The entry of a key, which a batch asks for.
    fn found(&mut self, key: u8, id: StreamId, batch: u64) -> Option<usize> {
        self.askings += 1;
        let at = self
            .entries
            .iter()
            .position(|entry| entry.key == key && entry.is_listed && !entry.is_gone)?;
        let entry = &mut self.entries[at];
        if matches!(&entry.state, State::Failed(kind) if kind.is_transient()) {
            entry.is_listed = false;
            return None;
        }
        let highest = entry.needs.entry(id).or_insert(batch);
        *highest = batch.max(*highest);
        entry.asked = (*highest, self.askings);
        Some(at)
    }

    /// Room was made for so many bytes.
    fn evicted(&mut self, bytes: u64) {
        // It evicts as many as must go, of those that may, and no more.
        let gone = self.gone();
        for &at in &gone {
            let entry = &self.entries[at];
            assert!(self.may_go(entry), "{entry:?}");
            if self.has_one_stream && !entry.may_be_late {
                let in_turn = |entry: &&Entry| self.may_go(entry) && !entry.may_be_late;
                let first = self.entries.iter().filter(in_turn);
                let first = first.map(|entry| entry.asked).min();
                assert_eq!(first, Some(entry.asked), "not the one needed longest ago");
            }
            self.entries[at].is_gone = true;
        }
        // Without the last of them, which may be any, there was no room.
        let is_needed = |at: &usize| {
            let bytes = self.used() + self.entries[*at].bytes + bytes;
            self.count() + 1 >= ENTRIES as usize || bytes > BYTES
        };
        assert!(
            gone.is_empty() || gone.iter().any(is_needed),
            "evicted too much: {gone:?}"
        );
        // Those that nobody needs, but may not go, were passed over.
        for at in 0..self.entries.len() {
            let is_passed = !self.needed(&self.entries[at]);
            self.entries[at].may_be_late |= is_passed;
        }
    }

    fn made(
        &mut self,
        (key, handle): (u8, Handle),
        (id, batch): (StreamId, u64),
        bytes: u64,
        state: State,
    ) {
        assert!(self.fits(bytes), "there was no room");
        self.entries.push(Entry {
            key,
            handle,
            bytes,
            state,
            needs: HashMap::from([(id, batch)]),
            asked: (batch, self.askings),
            pins: 0,
            is_listed: true,
            is_gone: false,
            may_be_late: false,
        });
    }

    /// Entries that are gone since, in the order in which the reference would evict them.
    fn gone(&self) -> Vec<usize> {
        let there = (0..self.entries.len()).filter(|at| !self.entries[*at].is_gone);
        let is_stale = |at: &usize| self.cache.try_get(self.entries[*at].handle).is_err();
        let mut gone: Vec<_> = there.filter(is_stale).collect();
        gone.sort_by_key(|at| self.entries[*at].asked);
        gone
    }

    fn settle(&mut self, at: usize, end: End) {
        if self.flights.is_empty() {
            return;
        }
        let (at, flight) = self.flights.swap_remove(at % self.flights.len());
        let entry = &mut self.entries[at];
        entry.bytes = match end {
            End::Ready(bytes) => bytes,
            End::Fail(_) | End::GiveUp => 0,
        };
        match end {
            End::Ready(bytes) => {
                entry.state = State::Ready(at as u64);
                flight.ready(at as u64, bytes);
            }
            End::Fail(kind) => {
                entry.state = State::Failed(kind);
                flight.fail(Fault::new(kind, "random"));
            }
            End::GiveUp => {
                entry.state = State::Failed(Kind::Cancelled);
                drop(flight);
            }
        }
    }

    fn step(&mut self, op: Op) {
        let streams = self.watermarks.len();
        match op {
            Op::Open => {
                let id = self.cache.open().expect("few streams");
                self.watermarks.push((id, Some(0)));
                self.has_one_stream = false;
            }
            Op::Close(at) => {
                let (id, watermark) = &mut self.watermarks[at % streams];
                let expected = watermark.take().map(drop).ok_or(Refused::Closed);
                assert_eq!(self.cache.close(*id), expected);
            }
            Op::Advance(at, by) => {
                let (id, watermark) = &mut self.watermarks[at % streams];
                let expected = watermark.map(drop).ok_or(Refused::Closed);
                let to = watermark.unwrap_or(0) + by;
                assert_eq!(self.cache.advance(*id, to), expected);
                *watermark = watermark.map(|_| to);
            }
            Op::Admit {
                key,
                stream,
                ahead,
                bytes,
            } => self.admit(key, stream, ahead, bytes),
            Op::Offer {
                key,
                stream,
                bytes,
                may_evict,
            } => self.offer(key, stream, bytes, may_evict),
            Op::Renew => self.renew(),
            Op::Settle(at, end) => self.settle(at, end),
            Op::Pin(at) => {
                if self.entries.is_empty() {
                    return;
                }
                let at = at % self.entries.len();
                let entry = &mut self.entries[at];
                match self.cache.pin(entry.handle) {
                    Ok(pin) => {
                        assert!(!entry.is_gone, "a pin of one that is gone");
                        entry.pins += 1;
                        self.pins.push((at, pin));
                    }
                    Err(Stale) => assert!(entry.is_gone, "it was there"),
                }
            }
            Op::Unpin(at) => {
                if !self.pins.is_empty() {
                    let (at, pin) = self.pins.swap_remove(at % self.pins.len());
                    self.entries[at].pins -= 1;
                    drop(pin);
                }
            }
        }
    }

    /// Each handle that there ever was names its entry, or is stale.
    fn compare(&self) {
        for entry in &self.entries {
            let seen = match self.cache.try_get(entry.handle) {
                Err(Stale) => None,
                Ok(Look::Pending) => Some(State::Pending),
                Ok(Look::Ready(value)) => Some(State::Ready(value)),
                Ok(Look::Failed(fault)) => Some(State::Failed(fault.kind())),
            };
            let expected = (!entry.is_gone).then(|| entry.state.clone());
            assert_eq!(seen, expected, "{entry:?}");
        }
        assert_eq!(self.cache.len(), self.count());
        assert_eq!(self.budget.used(), self.used());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn a_cache_is_as_its_reference(ops in prop::collection::vec(op(), 1..120)) {
        let mut run = Run::new();
        for op in ops {
            run.step(op);
            run.compare();
        }
        // All is given back.
        run.pins.clear();
        run.flights.clear();
        for (id, watermark) in &run.watermarks {
            prop_assert_eq!(run.cache.close(*id).is_ok(), watermark.is_some());
        }
        let last = run.cache.open().expect("few streams");
        let admission = run.cache.admit(&200, last, 0, BYTES);
        prop_assert!(matches!(admission, Ok(Admission::New(..))), "{admission:?}");
    }
}
