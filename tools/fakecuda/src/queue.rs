// SPDX-License-Identifier: MIT OR Apache-2.0
//! The order of commands: which channel they go into, and which words order streams and engines.
//!
//! Each stream has a word that counts its submissions: the last item of each stores a ticket there.
//! A stream has come to a point when its word has reached the ticket of the point. Work that is
//! to come later, on any engine, waits for that, so that the GPU never waits for the CPU between
//! two commands. A second word of the stream, its gate, is stored to by the CPU: the stream waits
//! there for functions of the program, and for effects that the next command needs.

use std::collections::{BTreeMap, HashMap, VecDeque};

use libzernel::sim::Item;

use crate::command::{has_come, Command, Effect, Point};
use crate::draft::{wait, Draft};
use crate::gpu::{Gate, Gpu, Place, CHANNELS, WORDS};
use crate::status::{Result, Status};
use crate::sys::process::Callback;

/// Number of the legacy default stream.
pub(crate) const LEGACY: u64 = 1;
/// Items of a submission, with room for those of one command more.
const MOST_ITEMS: usize = 160;
/// Effects that streams may have outstanding as they like.
const SHARED: usize = 800;
/// Those that each stream may have beyond, so that none keeps others from letting it on.
const RESERVED: usize = 2;
/// All together: the file keeps 1,024 completions.
const MOST: usize = 1_000;

/// The state of a stream.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Line {
    /// Its words.
    pub(crate) word: u32,
    pub(crate) gate: u32,
    /// The last values that will be stored to them.
    pub(crate) ticket: u32,
    pub(crate) gates: u32,
    /// The last item.
    pub(crate) place: Place,
    item: u64,
    /// Its channel on the compute engine and on the copy engine; 0: none, or that of the legacy
    /// default stream.
    channels: [u32; 2],
    /// The number of its last submission among those of all streams.
    turn: u64,
    /// Its effects that are outstanding.
    outstanding: usize,
    /// It waits for the legacy default stream, and that for it.
    is_blocking: bool,
    /// It is gone once its work is over.
    is_ending: bool,
}

/// The last submission to a channel.
#[derive(Debug, Clone, Copy, Default)]
struct Channel {
    /// The stream that it is of.
    owner: u64,
    word: u32,
    ticket: u32,
    item: u64,
    is_used: bool,
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
    /// By tag, with the stream.
    effects: HashMap<u64, (u64, Effect)>,
    tag: u64,
    turn: u64,
    /// Effects that are outstanding, and those of them on memory.
    outstanding: usize,
    of_data: usize,
    connections: u32,
}

impl Queue {
    /// `connections`: channels of the compute engine that streams share, or more than there are.
    pub(crate) fn new(connections: u32) -> Self {
        Self {
            connections,
            lines: BTreeMap::new(),
            free: (0..WORDS).rev().collect(),
            channels: Default::default(),
            effects: HashMap::new(),
            tag: 0,
            turn: 0,
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
            channels: [0; 2],
            turn: 0,
            outstanding: 0,
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

    /// Takes the words of streams back that are gone. Each is used again for the same: a late
    /// opener of a gate then finds it open.
    fn sweep(&mut self, gpu: &Gpu) {
        let free = &mut self.free;
        self.lines.retain(|_, line| {
            let is_over = line.is_ending && has_come(gpu.load(line.word), line.ticket);
            if is_over {
                gpu.open(Gate {
                    word: line.gate,
                    value: line.gates,
                    is_copy: line.place.is_copy,
                });
                free.extend([line.word, line.gate]);
            }
            !is_over
        });
    }

    pub(crate) fn has(&self, number: u64) -> bool {
        self.lines.contains_key(&number)
    }

    /// The point where a stream is now.
    pub(crate) fn point(&self, number: u64) -> Result<Point> {
        let line = self.lines.get(&number).ok_or(Status::INVALID_HANDLE)?;
        Ok(Point {
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

    /// Takes the effect of a completed item, and its stream.
    pub(crate) fn take(&mut self, tag: u64) -> Option<(u64, Effect)> {
        self.effects.remove(&tag)
    }

    /// An effect of a stream is there.
    pub(crate) fn is_done(&mut self, number: u64, is_of_data: bool) {
        self.outstanding = self.outstanding.saturating_sub(1);
        self.of_data = self.of_data.saturating_sub(usize::from(is_of_data));
        if let Some(line) = self.lines.get_mut(&number) {
            line.outstanding = line.outstanding.saturating_sub(1);
        }
    }

    /// Drops all that is outstanding. Returns the functions among it, in their order.
    pub(crate) fn clear(&mut self) -> Vec<(Callback, Gate)> {
        let mut dropped: Vec<_> = self.effects.drain().collect();
        (self.outstanding, self.of_data) = (0, 0);
        dropped.sort_unstable_by_key(|(tag, _)| *tag);
        let functions = dropped
            .into_iter()
            .filter_map(|(_, (_, effect))| match effect {
                Effect::Call(callback, gate) => Some((callback, gate)),
                _ => None,
            });
        functions.collect()
    }

    /// The effects that a stream may have more.
    fn room(&self, line: &Line) -> usize {
        let shared = SHARED.saturating_sub(self.outstanding);
        match line.outstanding == 0 && self.outstanding < MOST {
            true => shared.max(RESERVED),
            false => shared,
        }
    }

    fn is_idle(gpu: &Gpu, line: &Line) -> bool {
        has_come(gpu.load(line.word), line.ticket)
    }

    fn index(place: Place) -> usize {
        (place.channel + if place.is_copy { CHANNELS } else { 0 }) as usize
    }

    /// The channel for the next work of a stream on an engine: its own as long as no other stream
    /// has come behind it there, else one without work, if there is any.
    fn choose(&self, gpu: &Gpu, number: u64, line: &Line, is_copy: bool) -> Place {
        let place = |channel| Place { is_copy, channel };
        if number == LEGACY {
            return place(0);
        }
        let channel = |place: &Place| &self.channels[Self::index(*place)];
        let own = place(line.channels[usize::from(is_copy)]);
        if own.channel > 0 && channel(&own).owner == number {
            return own;
        }
        let is_free = |place: &Place| {
            let channel = channel(place);
            !channel.is_used || has_come(gpu.load(channel.word), channel.ticket)
        };
        let is_there = line.place.is_copy == is_copy && !Self::is_idle(gpu, line);
        let last = Some(line.place).filter(|_| is_there);
        let count = self.shared(is_copy);
        let free = (1..=count).map(place).find(is_free).or(last);
        free.unwrap_or_else(|| place(1 + (number % u64::from(count)) as u32))
    }

    /// Channels of an engine that streams share, beside that of the legacy default stream.
    fn shared(&self, is_copy: bool) -> u32 {
        match is_copy {
            true => CHANNELS - 1,
            false => self.connections.clamp(1, CHANNELS - 1),
        }
    }

    /// Submits the first commands of a stream. Returns how many, or why they have to be tried
    /// again.
    pub(crate) fn submit(
        &mut self,
        gpu: &Gpu,
        number: u64,
        commands: &VecDeque<Command>,
    ) -> Result<Result<usize, Full>> {
        let draft = self.draft(gpu, number, commands)?;
        if draft.commands == 0 && !commands.is_empty() {
            return Ok(Err(Full::Completions));
        }
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
        self.turn += 1;
        let mut line = Line {
            item,
            turn: self.turn,
            ..draft.line
        };
        line.outstanding += draft.effects.len();
        line.channels[usize::from(place.is_copy)] = place.channel;
        self.channels[Self::index(place)] = Channel {
            owner: number,
            word: draft.line.word,
            ticket: draft.line.ticket,
            item,
            is_used: true,
        };
        self.outstanding += draft.effects.len();
        let effects = draft.effects.into_iter();
        self.effects
            .extend(effects.map(|(tag, effect)| (tag, (number, effect))));
        self.tag = draft.tag;
        self.of_data += draft.of_data;
        self.lines.insert(number, line);
        Ok(Ok(draft.commands))
    }

    fn draft(&self, gpu: &Gpu, number: u64, commands: &VecDeque<Command>) -> Result<Draft> {
        let line = *self.lines.get(&number).ok_or(Status::INVALID_HANDLE)?;
        let is_idle = Self::is_idle(gpu, &line);
        let is_copy = commands.iter().find_map(Command::is_copy);
        let is_copy = is_copy.unwrap_or(!is_idle && line.place.is_copy);
        let place = self.choose(gpu, number, &line, is_copy);
        let mut draft = Draft::new(Line { place, ..line }, self.tag);
        if place != line.place && !is_idle {
            draft.items.push(wait(line.word, line.ticket));
        }
        self.order(gpu, number, &line, &mut draft);
        let room = self.room(&line);
        for command in commands {
            let is_same = command.is_copy().is_none_or(|other| other == is_copy);
            let effects = match command.most_effects() {
                0 => 0,
                more => draft.effects.len() + more,
            };
            if !is_same || effects > room || draft.items.len() > MOST_ITEMS {
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

    /// The streams with work that the next command of a stream waits for: blocking ones for the
    /// legacy default stream, and that for them.
    fn others<'a>(
        &'a self,
        gpu: &'a Gpu,
        number: u64,
        line: &'a Line,
    ) -> impl Iterator<Item = &'a Line> {
        let others = self.lines.iter().filter(move |(&other, other_line)| {
            let is_before = match number {
                LEGACY => other_line.is_blocking,
                _ => line.is_blocking && other == LEGACY,
            };
            is_before && !Self::is_idle(gpu, other_line)
        });
        others.map(|(_, other)| other)
    }

    /// True if such work has come since the last submission of a stream.
    pub(crate) fn is_behind(&self, gpu: &Gpu, number: u64) -> bool {
        let line = self.lines.get(&number);
        line.is_some_and(|line| {
            let mut others = self.others(gpu, number, line);
            others.any(|other| other.turn > line.turn)
        })
    }

    /// True if a stream waits for the legacy default stream.
    pub(crate) fn is_blocking(&self, number: u64) -> bool {
        self.lines.get(&number).is_some_and(|line| line.is_blocking)
    }

    /// The legacy default stream begins when the blocking streams have come so far, and they go on
    /// when it has.
    fn order(&self, gpu: &Gpu, number: u64, line: &Line, draft: &mut Draft) {
        // The last one of a channel is behind all others there.
        let mut last: BTreeMap<usize, Line> = BTreeMap::new();
        for other in self.others(gpu, number, line) {
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
