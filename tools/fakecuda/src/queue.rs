// SPDX-License-Identifier: MIT OR Apache-2.0
//! The order of commands: which channel they go into, and which words order streams and engines.
//!
//! Each stream has a word that counts its submissions: the last item of each stores a ticket there.
//! A stream has come to a point when its word has reached the ticket of the point. Work that is
//! to come later, on any engine, waits for that, so that the GPU never waits for the CPU between two
//! commands. A second word of the stream, its gate, is stored to by the CPU: the stream waits there
//! for functions of the program, and for effects that the next command needs.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::time::Duration;

use libzernel::sim::{self, Item};

use crate::command::{has_come, Check, Command, Condition, Effect, Point, Word};
use crate::gpu::{Gate, Gpu, Place, CHANNELS, WORDS};
use crate::kernel::HOLDER_PERMILLE;
use crate::status::{Result, Status};

/// Number of the legacy default stream.
pub(crate) const LEGACY: u64 = 1;
/// The part of a holder before it stores its word: the shortest work.
const BEFORE: Duration = Duration::from_micros(1);
/// The longest work of one item.
const LONGEST: Duration = Duration::from_secs(60);
/// The longest hold.
const LONGEST_HOLD: Duration = LONGEST;
/// Items of a submission, with room for those of one command more.
const MOST_ITEMS: usize = 192;
/// Completions that may be outstanding: the file keeps 1,024.
const MOST_NOTIFIES: usize = 800;

/// The state of a stream.
#[derive(Debug, Clone, Copy)]
struct Line {
    /// Its words.
    word: u32,
    gate: u32,
    /// The last values that will be stored to them.
    ticket: u32,
    gates: u32,
    /// The last item.
    place: Place,
    item: u64,
    /// It waits for the legacy default stream, and that for it.
    is_blocking: bool,
    /// It is gone once its work is over.
    is_ending: bool,
}

/// The last submission to a channel.
#[derive(Debug, Clone, Copy, Default)]
struct Channel {
    word: u32,
    ticket: u32,
    item: u64,
    is_used: bool,
}

/// Items that are to be submitted.
#[derive(Debug)]
struct Draft {
    line: Line,
    items: Vec<Item>,
    effects: Vec<(u64, Effect)>,
    /// Commands that they stand for.
    commands: usize,
    /// The last tag.
    tag: u64,
    /// Effects on memory.
    of_data: usize,
}

/// Why a submission has to be tried again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Full {
    /// Until this item is over there is no room.
    Channel(Place, u64),
    /// Too many completions are outstanding.
    Completions,
}

/// All streams of a context.
#[derive(Debug)]
pub(crate) struct Queue {
    lines: BTreeMap<u64, Line>,
    free: Vec<u32>,
    channels: [Channel; 2 * CHANNELS as usize],
    effects: HashMap<u64, Effect>,
    tag: u64,
    /// Effects that are outstanding, and those of them on memory.
    outstanding: usize,
    of_data: usize,
}

fn wait(word: u32, value: u32) -> Item {
    Item::wait(word, sim::Condition::AtLeast, value)
}

impl Queue {
    pub(crate) fn new() -> Self {
        Self {
            lines: BTreeMap::new(),
            free: (0..WORDS).rev().collect(),
            channels: Default::default(),
            effects: HashMap::new(),
            tag: 0,
            outstanding: 0,
            of_data: 0,
        }
    }

    /// Adds a stream.
    pub(crate) fn add(&mut self, number: u64, is_blocking: bool, gpu: &Gpu) -> Result<()> {
        if self.free.len() < 2 {
            self.sweep(gpu);
        }
        let words = self
            .free
            .len()
            .checked_sub(2)
            .map(|left| self.free.split_off(left));
        let words = words.ok_or(Status::OUT_OF_MEMORY)?;
        let line = Line {
            word: words[0],
            gate: words[1],
            ticket: gpu.load(words[0]),
            gates: gpu.load(words[1]),
            place: Place {
                is_copy: false,
                channel: 0,
            },
            item: 0,
            is_blocking,
            is_ending: false,
        };
        self.lines.insert(number, line);
        Ok(())
    }

    /// Ends a stream; its work goes on.
    pub(crate) fn remove(&mut self, number: u64, gpu: &Gpu) {
        if let Some(line) = self.lines.get_mut(&number) {
            line.is_ending = true;
        }
        self.sweep(gpu);
    }

    /// Takes the words of streams back that are gone.
    fn sweep(&mut self, gpu: &Gpu) {
        let free = &mut self.free;
        self.lines.retain(|_, line| {
            let is_over = line.is_ending && has_come(gpu.load(line.word), line.ticket);
            if is_over {
                free.extend([line.gate, line.word]);
            }
            !is_over
        });
    }

    pub(crate) fn has(&self, number: u64) -> bool {
        self.lines.contains_key(&number)
    }

    /// The point where a stream is now.
    pub(crate) fn point(&self, number: u64, context: u64) -> Result<Point> {
        let line = self.lines.get(&number).ok_or(Status::INVALID_HANDLE)?;
        Ok(Point {
            context,
            word: line.word,
            ticket: line.ticket,
            place: line.place,
            item: line.item,
        })
    }

    /// The last item of each stream.
    pub(crate) fn last_items(&self) -> Vec<(Place, u64)> {
        let used = self.lines.values().filter(|line| line.item > 0);
        used.map(|line| (line.place, line.item)).collect()
    }

    /// True while effects are outstanding.
    pub(crate) fn is_outstanding(&self) -> bool {
        self.outstanding > 0
    }

    /// Takes the effect of a completed item.
    pub(crate) fn take(&mut self, tag: u64) -> Option<Effect> {
        self.effects.remove(&tag)
    }

    /// An effect is there.
    pub(crate) fn is_done(&mut self, is_of_data: bool) {
        self.outstanding = self.outstanding.saturating_sub(1);
        self.of_data = self.of_data.saturating_sub(usize::from(is_of_data));
    }

    /// Drops all that is outstanding.
    pub(crate) fn clear(&mut self) {
        self.effects.clear();
        (self.outstanding, self.of_data) = (0, 0);
    }

    fn is_idle(gpu: &Gpu, line: &Line) -> bool {
        has_come(gpu.load(line.word), line.ticket)
    }

    fn index(place: Place) -> usize {
        (place.channel + if place.is_copy { CHANNELS } else { 0 }) as usize
    }

    /// The channel for a stream without work on an engine: one without work, its own if it can be.
    fn choose(&self, gpu: &Gpu, number: u64, line: &Line, is_copy: bool) -> Place {
        let place = |channel| Place { is_copy, channel };
        if number == LEGACY {
            return place(0);
        }
        let is_free = |place: &Place| {
            let channel = &self.channels[Self::index(*place)];
            !channel.is_used || has_come(gpu.load(channel.word), channel.ticket)
        };
        let own = Some(line.place).filter(|own| own.is_copy == is_copy && own.channel > 0);
        let all = (1..CHANNELS).map(place);
        let free = own.into_iter().chain(all).find(is_free);
        free.unwrap_or_else(|| place(1 + (number % u64::from(CHANNELS - 1)) as u32))
    }

    /// Submits the first commands of a stream. Returns how many, or why they have to be tried again.
    pub(crate) fn submit(
        &mut self,
        gpu: &Gpu,
        number: u64,
        commands: &VecDeque<Command>,
    ) -> Result<Result<usize, Full>> {
        if self.outstanding >= MOST_NOTIFIES {
            return Ok(Err(Full::Completions));
        }
        let draft = self.draft(gpu, number, commands)?;
        let place = draft.line.place;
        let item = match gpu.submit(place, &draft.items) {
            Ok(item) => item,
            Err(error) => {
                use rustix::io::Errno;
                let is_full = matches!(
                    error.errno(),
                    Some(Errno::AGAIN | Errno::NOSPC | Errno::DQUOT)
                );
                let last = self.channels[Self::index(place)].item;
                return match is_full {
                    // Half of a full channel.
                    true => Ok(Err(Full::Channel(place, last.saturating_sub(512).max(1)))),
                    false => Err(error.into()),
                };
            }
        };
        self.channels[Self::index(place)] = Channel {
            word: draft.line.word,
            ticket: draft.line.ticket,
            item,
            is_used: true,
        };
        self.outstanding += draft.effects.len();
        self.effects.extend(draft.effects);
        self.tag = draft.tag;
        self.of_data += draft.of_data;
        let line = Line { item, ..draft.line };
        self.lines.insert(number, line);
        Ok(Ok(draft.commands))
    }

    fn draft(&self, gpu: &Gpu, number: u64, commands: &VecDeque<Command>) -> Result<Draft> {
        let line = *self.lines.get(&number).ok_or(Status::INVALID_HANDLE)?;
        let is_idle = Self::is_idle(gpu, &line);
        let is_copy = commands.iter().find_map(Command::is_copy);
        let is_copy = is_copy.unwrap_or(!is_idle && line.place.is_copy);
        let place = match is_idle || line.place.is_copy != is_copy {
            true => self.choose(gpu, number, &line, is_copy),
            false => line.place,
        };
        let mut draft = Draft {
            line: Line { place, ..line },
            items: Vec::new(),
            effects: Vec::new(),
            commands: 0,
            tag: self.tag,
            of_data: 0,
        };
        if place != line.place && !is_idle {
            draft.items.push(wait(line.word, line.ticket));
        }
        self.order(gpu, number, &line, &mut draft);
        for command in commands {
            let fits = command.is_copy().is_none_or(|other| other == is_copy);
            if !fits || draft.items.len() > MOST_ITEMS {
                break;
            }
            draft.add(command, self.of_data > 0);
            draft.commands += 1;
        }
        draft.line.ticket = draft.line.ticket.wrapping_add(1);
        draft
            .items
            .push(Item::release(draft.line.word, draft.line.ticket));
        Ok(draft)
    }

    /// The legacy default stream begins when the blocking streams have come so far, and they go on
    /// when it has.
    fn order(&self, gpu: &Gpu, number: u64, line: &Line, draft: &mut Draft) {
        let others = self
            .lines
            .iter()
            .filter(|(&other, other_line)| match number {
                LEGACY => other_line.is_blocking,
                _ => line.is_blocking && other == LEGACY,
            });
        // The last one of a channel is behind all others there.
        let mut last: BTreeMap<usize, Line> = BTreeMap::new();
        for (_, other) in others.filter(|(_, other)| !Self::is_idle(gpu, other)) {
            let known = last.entry(Self::index(other.place)).or_insert(*other);
            if other.item > known.item {
                *known = *other;
            }
        }
        draft
            .items
            .extend(last.values().map(|other| wait(other.word, other.ticket)));
    }
}

impl Command {
    /// True if it takes a copy engine, false if it takes the compute engine. `None`: any.
    fn is_copy(&self) -> Option<bool> {
        match self {
            Self::Work { .. } | Self::Hold { .. } => Some(false),
            Self::Copy { .. } => Some(true),
            _ => None,
        }
    }
}

impl Draft {
    fn tag(&mut self, effect: Effect) -> u64 {
        self.tag += 1;
        self.of_data += usize::from(effect.is_of_data());
        self.effects.push((self.tag, effect));
        self.tag
    }

    /// Work of any length; the effect comes with its last item.
    fn work(&mut self, time: Duration, permille: u32, effect: Option<Effect>) {
        let mut left = time.max(BEFORE);
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

    fn next_gate(&mut self) -> Gate {
        self.line.gates = self.line.gates.wrapping_add(1);
        Gate {
            word: self.line.gate,
            value: self.line.gates,
            is_copy: self.line.place.is_copy,
        }
    }

    fn add(&mut self, command: &Command, has_data: bool) {
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
            } => self.hold(held, release, number, bound),
            Command::Wait {
                word,
                condition,
                value,
            } => self.wait(word, condition, value),
            Command::Write { word, value } => match word.number.filter(|_| !word.is_wide) {
                Some(number) => {
                    if has_data || self.of_data > 0 {
                        // A reader of the word sees the results before it.
                        self.gate(Effect::Open);
                    }
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
