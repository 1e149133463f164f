// SPDX-License-Identifier: MIT OR Apache-2.0
//! Items of a submission, and the effects that come with them.

use std::time::Duration;

use libzernel::sim::{self, Item};

use crate::command::{Check, Command, Condition, Effect, Word};
use crate::gpu::Gate;
use crate::kernel::HOLDER_PERMILLE;
use crate::queue::Line;

/// The part of a holder before it stores its word: the shortest work.
const BEFORE: Duration = Duration::from_micros(1);
/// The longest work of one item.
const LONGEST: Duration = Duration::from_secs(60);
/// The longest hold.
const LONGEST_HOLD: Duration = LONGEST;
/// The longest kernel and the longest copy.
const LONGEST_WORK: Duration = Duration::from_secs(3_600);

/// A wait until a word that counts has come so far.
pub(crate) fn wait(word: u32, value: u32) -> Item {
    Item::wait(word, sim::Condition::AtLeast, value)
}

/// Items that are to be submitted.
#[derive(Debug)]
pub(crate) struct Draft {
    pub(crate) line: Line,
    pub(crate) items: Vec<Item>,
    pub(crate) effects: Vec<(u64, Effect)>,
    /// Commands that they stand for.
    pub(crate) commands: usize,
    /// The last tag.
    pub(crate) tag: u64,
    /// Effects on memory.
    pub(crate) of_data: usize,
}

impl Draft {
    pub(crate) fn new(line: Line, tag: u64) -> Self {
        Self {
            line,
            items: Vec::new(),
            effects: Vec::new(),
            commands: 0,
            tag,
            of_data: 0,
        }
    }

    fn tag(&mut self, effect: Effect) -> u64 {
        self.tag += 1;
        self.of_data += usize::from(effect.is_of_data());
        self.effects.push((self.tag, effect));
        self.tag
    }

    /// Work of any length; the effect comes with its last item.
    fn work(&mut self, time: Duration, permille: u32, effect: Option<Effect>) {
        let mut left = time.clamp(BEFORE, LONGEST_WORK);
        while left > LONGEST {
            // The rest is never too short.
            let part = (left - LONGEST).max(BEFORE);
            self.items
                .push(Item::work(LONGEST.min(part)).demand_permille(permille));
            left -= LONGEST.min(part);
        }
        let last = Item::work(left).demand_permille(permille);
        let last = match effect {
            Some(effect) => last.notify().tag(self.tag(effect)),
            None => last,
        };
        self.items.push(last);
    }

    /// The CPU does something, which opens a gate in the end.
    fn gate(&mut self, effect: impl FnOnce(Gate) -> Effect) {
        let gate = self.next_gate();
        let tag = self.tag(effect(gate));
        self.items.push(Item::fence().notify().tag(tag));
        self.items.push(wait(gate.word, gate.value));
    }

    /// Has the stream wait until the results before are there: a reader of a word that comes next
    /// sees them.
    fn results(&mut self, has_data: bool) {
        if has_data || self.of_data > 0 {
            self.gate(Effect::Open);
        }
    }

    fn next_gate(&mut self) -> Gate {
        self.line.gates = self.line.gates.wrapping_add(1);
        Gate {
            word: self.line.gate,
            value: self.line.gates,
            is_copy: self.line.place.is_copy,
        }
    }

    /// Adds a command. `has_data`: effects on memory are outstanding.
    pub(crate) fn add(&mut self, command: &Command, has_data: bool) {
        match command.clone() {
            Command::Work {
                time,
                permille,
                effect,
            } => self.work(time, permille, effect),
            Command::Copy { time, effect } => self.work(time, 1_000, Some(effect)),
            Command::Hold {
                held,
                release,
                number,
                bound,
            } => {
                if held.number.is_some() {
                    self.results(has_data);
                }
                self.hold(held, release, number, bound);
            }
            Command::Wait {
                word,
                condition,
                value,
            } => self.wait(word, condition, value),
            Command::Write { word, value } => match word.number.filter(|_| !word.is_wide) {
                Some(number) => {
                    self.results(has_data);
                    self.items.push(Item::release(number, value as u32));
                }
                None => {
                    let tag = self.tag(Effect::Store { word, value });
                    self.items.push(Item::fence().notify().tag(tag));
                }
            },
            Command::Call(callback) => self.gate(|gate| Effect::Call(callback, gate)),
            Command::After(point, None) => self.items.push(wait(point.word, point.ticket)),
            Command::After(point, Some(other)) => {
                let check = Check::Point(other, point.word, point.ticket);
                self.gate(|gate| Effect::Watch(check, gate));
            }
            Command::Then(effect) => {
                let tag = self.tag(effect);
                self.items.push(Item::fence().notify().tag(tag));
            }
        }
    }

    fn wait(&mut self, word: Word, condition: Condition, value: u64) {
        let same = match condition {
            Condition::AtLeast => Some(sim::Condition::AtLeast),
            Condition::Equal => Some(sim::Condition::Equal),
            Condition::And | Condition::Nor => None,
        };
        match (word.number, same) {
            (Some(number), Some(same)) if !word.is_wide => {
                self.items.push(Item::wait(number, same, value as u32));
            }
            _ => self.gate(|gate| Effect::Watch(Check::Word(word, condition, value), gate)),
        }
    }

    fn hold(&mut self, held: Word, release: Word, number: u32, bound: Duration) {
        let bound = bound.clamp(Duration::from_nanos(1), LONGEST_HOLD);
        self.items
            .push(Item::work(BEFORE).demand_permille(HOLDER_PERMILLE));
        match held.number {
            Some(word) => self.items.push(Item::release(word, number)),
            None => {
                let value = number.into();
                let tag = self.tag(Effect::Store { word: held, value });
                self.items.push(Item::fence().notify().tag(tag));
            }
        }
        let (word, value) = match release.number {
            Some(word) => (word, number),
            None => {
                let gate = self.next_gate();
                let check = Check::Word(release, Condition::AtLeast, number.into());
                let tag = self.tag(Effect::Watch(check, gate));
                self.items.push(Item::fence().notify().tag(tag));
                (gate.word, gate.value)
            }
        };
        let hold = Item::hold(word, sim::Condition::AtLeast, value, bound);
        self.items.push(hold.demand_permille(HOLDER_PERMILLE));
    }
}
