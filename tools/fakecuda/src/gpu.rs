// SPDX-License-Identifier: MIT OR Apache-2.0
//! The software GPU's side of a context: a compute TSG, a TSG for copies, and the words of both.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Mutex;
use std::time::Duration;

use bytemuck::Zeroable;
use libzernel::sim::{self, Completion, ContextSpec, EngineChoice, Item, Sim, Words};
use libzernel::sys::{abi, sim as calls};
use libzernel::Timestamp;
use rustix::io::Errno;

use crate::command::has_come;
use crate::cost::Costs;
use crate::driver::lock;
use crate::knobs::knobs;
use crate::space::{whole_pages, Range};
use crate::status::Result;

/// Channels of each TSG: as many as a context of the software GPU can have.
pub(crate) const CHANNELS: u32 = 16;
/// Words of the page.
pub(crate) const WORDS: u32 = abi::ZERNEL_SIM_MEMORY_WORD;
/// Bytes of a word.
const WORD: u64 = 4;

/// A channel of one of the TSGs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    /// Of the TSG for copies.
    pub(crate) is_copy: bool,
    pub(crate) channel: u32,
}

/// Memory of the program that the GPU has got.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Memory {
    None,
    /// Number of the range; first address and length, in whole pages.
    Given(u64, u64, u64),
    /// The program has taken it back. The GPU keeps it, and takes no other.
    Past,
}

/// The TSGs of a context.
#[derive(Debug)]
pub(crate) struct Gpu {
    sim: Sim,
    compute: sim::Context,
    copy: sim::Context,
    words: Words,
    memory: Mutex<Memory>,
    /// Of who opens a gate.
    opening: Mutex<()>,
    pub(crate) costs: Costs,
}

impl Gpu {
    /// Makes them, in a file of their own: completions of a context are taken by itself.
    pub(crate) fn new(device: u32) -> Result<Self> {
        let sim = Sim::open()?;
        let info = sim.gpu_info(device)?;
        let spec = ContextSpec {
            gpu: device,
            channels: CHANNELS,
            ..ContextSpec::compute("cuda")
        };
        let compute = sim.create_context(&spec)?;
        let engine = match info.copy_engines {
            0 => EngineChoice::Compute,
            _ => EngineChoice::AnyCopy,
        };
        let copy = sim.create_context(&ContextSpec {
            engine,
            label: "cuda copies",
            share_words: Some(&compute),
            ..spec
        })?;
        let words = compute.words(WORDS)?;
        Ok(Self {
            sim,
            compute,
            copy,
            words,
            memory: Mutex::new(Memory::None),
            opening: Mutex::new(()),
            costs: Costs {
                sms: info.sms,
                bandwidth: info.bandwidth,
            },
        })
    }

    fn context(&self, is_copy: bool) -> &sim::Context {
        match is_copy {
            true => &self.copy,
            false => &self.compute,
        }
    }

    /// Queues items in a channel. Returns the number of the last one there.
    pub(crate) fn submit(&self, place: Place, items: &[Item]) -> libzernel::Result<u64> {
        let context = self.context(place.is_copy);
        Ok(context.submit(place.channel, items)?.last_seq)
    }

    /// Waits for an item. False: not within the time.
    pub(crate) fn wait(&self, place: Place, item: u64, time: Duration) -> Result<bool> {
        let until = Timestamp::now() + time;
        loop {
            match self.context(place.is_copy).wait(place.channel, item, until) {
                Ok(_) => return Ok(true),
                Err(error) if error.errno() == Some(Errno::INTR) => {}
                Err(error) if error.errno() == Some(Errno::TIME) => return Ok(false),
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Takes up to `most` completions, in their order.
    pub(crate) fn completions(&self, most: usize) -> Vec<Completion> {
        self.sim
            .completions(most)
            .map_or(Vec::new(), |(taken, _)| taken)
    }

    /// The value of a word of the page.
    pub(crate) fn load(&self, word: u32) -> u32 {
        self.words.load(word)
    }

    /// True if a gate is open, or one behind it.
    pub(crate) fn is_open(&self, gate: Gate) -> bool {
        has_come(self.words.load(gate.word), gate.value)
    }

    /// Opens a gate, and those before it.
    pub(crate) fn open(&self, gate: Gate) {
        let opening = lock(&self.opening);
        // A holder that ended by its bound leaves its gate behind, perhaps until a later one is
        // open.
        if !self.is_open(gate) {
            self.words.store(gate.word, gate.value);
        }
        drop(opening);
        // It fails when the context is gone, and nothing waits.
        let _ = self.context(gate.is_copy).doorbell();
    }

    /// The number of a word of the program's memory, if the GPU has that. `range`: the memory that
    /// the word is in, which is given to the GPU if it has none yet.
    pub(crate) fn word(&self, host: u64, range: &Range) -> Option<u32> {
        if host % WORD != 0 || knobs().relay {
            return None;
        }
        let mut memory = lock(&self.memory);
        if *memory == Memory::None {
            // When it cannot be pinned the helper thread looks at it.
            let _ = self.give(&mut memory, range);
        }
        let Memory::Given(id, first, length) = *memory else {
            return None;
        };
        let offset = host.checked_sub(first);
        let offset = offset.filter(|&offset| id == range.id && offset < length)?;
        u32::try_from(offset / WORD).ok()?.checked_add(WORDS)
    }

    /// Gives memory of the program to the GPU, if it has none yet and can take so much.
    pub(crate) fn offer(&self, range: &Range) -> Result<()> {
        let mut memory = lock(&self.memory);
        match *memory {
            Memory::None if !knobs().relay => self.give(&mut memory, range),
            _ => Ok(()),
        }
    }

    fn give(&self, memory: &mut Memory, range: &Range) -> Result<()> {
        let (address, length) = whole_pages(range.host, range.length);
        if length > u64::from(abi::ZERNEL_SIM_MEMORY_MAX) {
            return Ok(());
        }
        let mut raw = abi::zernel_sim_memory {
            context: self.compute.id(),
            address,
            length,
            ..abi::zernel_sim_memory::zeroed()
        };
        let given = calls::memory(self.sim.as_fd(), &mut raw);
        given.map_err(libzernel::Error::call(libzernel::Call::SimMemory))?;
        *memory = Memory::Given(range.id, address, length);
        Ok(())
    }

    /// A range has ended.
    pub(crate) fn take_back(&self, id: u64) {
        let mut memory = lock(&self.memory);
        if matches!(*memory, Memory::Given(given, ..) if given == id) {
            *memory = Memory::Past;
        }
    }

    /// Takes both TSGs off the GPU, where zernel lets the program do so. They stay.
    pub(crate) fn stop(&self) {
        for context in [&self.compute, &self.copy] {
            // Else what they have in their queues comes to its end.
            let _ = context.set_enabled(false);
        }
    }

    /// Ends both TSGs. Their work is dropped, and who waits for it gets an error.
    pub(crate) fn end(&self) {
        for context in [&self.copy, &self.compute] {
            let mut raw = abi::zernel_sim_context_destroy {
                context: context.id(),
                reserved: 0,
            };
            // It may be gone already.
            let _ = calls::context_destroy(self.sim.as_fd(), &mut raw);
        }
    }
}

impl AsFd for Gpu {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.sim.as_fd()
    }
}

/// A word that a channel waits for, until the CPU stores a value to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Gate {
    pub(crate) word: u32,
    pub(crate) value: u32,
    pub(crate) is_copy: bool,
}
