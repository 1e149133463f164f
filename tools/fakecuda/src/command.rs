// SPDX-License-Identifier: MIT OR Apache-2.0
//! Commands of a stream, with all addresses known, and their effects on memory.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use crate::context::Context;
use crate::gpu::{Gate, Place};
use crate::kernel::Compute;
use crate::space::Spot;
use crate::sys::process::Callback;

/// A condition on a word of 4 or 8 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Condition {
    /// As late or later, cyclic.
    AtLeast,
    Equal,
    /// A bit of the value is set.
    And,
    /// A bit is set in neither.
    Nor,
}

impl Condition {
    /// True if a word meets it.
    pub(crate) fn is_met(self, word: u64, value: u64, is_wide: bool) -> bool {
        let mask = if is_wide {
            u64::MAX
        } else {
            u64::from(u32::MAX)
        };
        let (word, value) = (word & mask, value & mask);
        match self {
            Self::AtLeast if is_wide => word.wrapping_sub(value) as i64 >= 0,
            Self::AtLeast => (word as u32).wrapping_sub(value as u32) as i32 >= 0,
            Self::Equal => word == value,
            Self::And => word & value != 0,
            Self::Nor => !(word | value) & mask != 0,
        }
    }
}

/// A word of memory that the program has given to the GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Word {
    pub(crate) spot: Spot,
    /// Its number, if the GPU itself sees it.
    pub(crate) number: Option<u32>,
    /// It has 8 bytes.
    pub(crate) is_wide: bool,
}

/// A point in a stream: all that was given to it so far is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Point {
    /// The word of its stream, and the value that it has then.
    pub(crate) word: u32,
    pub(crate) ticket: u32,
    /// The last item.
    pub(crate) place: Place,
    pub(crate) item: u64,
}

/// True if a word that counts has come to a ticket.
pub(crate) fn has_come(word: u32, ticket: u32) -> bool {
    word.wrapping_sub(ticket) as i32 >= 0
}

/// The time of an event, once it is over: nanoseconds of the GPU's timer, 0 before.
#[derive(Debug, Default)]
pub(crate) struct Clock(AtomicU64);

impl Clock {
    pub(crate) fn set(&self, ns: u64) {
        self.0.store(ns.max(1), Ordering::Release);
    }

    pub(crate) fn get(&self) -> Option<u64> {
        Some(self.0.load(Ordering::Acquire)).filter(|&ns| ns > 0)
    }
}

/// A command.
#[derive(Debug, Clone)]
pub(crate) enum Command {
    /// A kernel: work of the compute engine.
    Work {
        time: Duration,
        permille: u32,
        effect: Option<Effect>,
    },
    /// A copy: work of a copy engine.
    Copy { time: Duration, effect: Effect },
    /// A kernel that stores a number and holds the GPU until another word has reached it.
    Hold {
        held: Word,
        release: Word,
        number: u32,
        bound: Duration,
    },
    /// Waits for a word.
    Wait {
        word: Word,
        condition: Condition,
        value: u64,
    },
    /// Stores to a word.
    Write { word: Word, value: u64 },
    /// Calls a function of the program; the stream goes on after it.
    Call(Callback),
    /// Waits for a point of a stream, perhaps of another context.
    After(Point, Option<Weak<Context>>),
    /// Changes something when all before is over.
    Then(Effect),
}

impl Command {
    /// True if it takes a copy engine, false if it takes the compute engine. `None`: any.
    pub(crate) fn is_copy(&self) -> Option<bool> {
        match self {
            Self::Work { .. } | Self::Hold { .. } => Some(false),
            Self::Copy { .. } => Some(true),
            _ => None,
        }
    }

    /// The most effects that it has.
    pub(crate) fn most_effects(&self) -> usize {
        match self {
            Self::Work { effect: None, .. } | Self::After(_, None) => 0,
            Self::Hold { .. } => 2,
            _ => 1,
        }
    }
}

/// A change when a command is over. Memory is found by its addresses then, so that none is touched
/// that has come in the place of another.
#[derive(Debug, Clone)]
pub(crate) enum Effect {
    /// Copies rows.
    Copy(Rows),
    /// The same from bytes that were read when the call was made.
    Put(Rows, Arc<[u8]>),
    /// Fills rows with a value of `unit` bytes.
    Fill {
        to: Spot,
        value: u32,
        unit: u64,
        pitch: u64,
        /// Units of a row.
        width: u64,
        height: u64,
    },
    /// The results of a kernel.
    Compute(Compute),
    /// An error that stays with the context.
    Fault,
    /// The time of an event.
    Time(Arc<Clock>),
    /// Gives memory back.
    Free(u64),
    /// Stores to a word that the GPU does not see itself.
    Store { word: Word, value: u64 },
    /// Calls a function, then opens a gate.
    Call(Callback, Gate),
    /// Opens a gate.
    Open(Gate),
    /// Opens a gate as soon as something is true.
    Watch(Check, Gate),
}

/// An end of a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum At {
    /// Memory that the GPU sees.
    Gpu(Spot),
    /// Memory of the program that is not registered, by its address.
    Program(u64),
}

/// Rows to copy. Lengths are in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Rows {
    pub(crate) to: At,
    pub(crate) to_pitch: u64,
    pub(crate) from: At,
    pub(crate) from_pitch: u64,
    pub(crate) width: u64,
    pub(crate) height: u64,
}

/// Something that becomes true by itself.
#[derive(Debug, Clone)]
pub(crate) enum Check {
    /// A word of the program.
    Word(Word, Condition, u64),
    /// A point in a stream of another context: a word, and the ticket that it comes to.
    Point(Weak<Context>, u32, u32),
}

impl Effect {
    /// It changes memory that others may see.
    pub(crate) fn is_of_data(&self) -> bool {
        match self {
            Self::Copy(_) | Self::Put(..) | Self::Fill { .. } => true,
            Self::Compute(_) | Self::Fault | Self::Free(_) | Self::Store { .. } => true,
            Self::Time(_) | Self::Call(..) | Self::Open(_) | Self::Watch(..) => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_are_those_of_the_header() {
        use Condition::{And, AtLeast, Equal, Nor};
        let narrow = |condition: Condition, word, value| condition.is_met(word, value, false);
        assert!(narrow(AtLeast, 5, 5) && narrow(AtLeast, 0, u64::from(u32::MAX)));
        assert!(!narrow(AtLeast, 4, 5) && narrow(AtLeast, 3, 0xffff_fffe));
        assert!(narrow(Equal, 1 << 32 | 5, 5) && !narrow(Equal, 4, 5));
        assert!(narrow(And, 6, 2) && !narrow(And, 4, 2));
        assert!(narrow(Nor, 6, 2) && !narrow(Nor, 0xffff_fff0, 0xf));
        let wide = |condition: Condition, word, value| condition.is_met(word, value, true);
        assert!(wide(AtLeast, 0, u64::MAX) && !wide(AtLeast, 0, 1));
        assert!(!wide(Equal, 1 << 32 | 5, 5) && wide(And, 1 << 40, 1 << 40));
        assert!(wide(Nor, 0xffff_fff0, 0xf) && !wide(Nor, u64::MAX, 0));
    }

    #[test]
    fn tickets_are_cyclic() {
        assert!(has_come(5, 5) && has_come(6, 5) && !has_come(4, 5));
        assert!(has_come(1, u32::MAX) && !has_come(u32::MAX, 1));
    }

    #[test]
    fn a_clock_is_set_once_there_is_a_time() {
        let clock = Clock::default();
        assert_eq!(clock.get(), None);
        clock.set(0);
        assert_eq!(clock.get(), Some(1));
    }
}
