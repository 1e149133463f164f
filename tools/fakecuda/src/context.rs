// SPDX-License-Identifier: MIT OR Apache-2.0
//! A context: a TSG of the software GPU, with a channel for each stream.

use std::collections::BTreeMap;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

use bytemuck::Zeroable;
use libzernel::sim::{self, Condition, ContextSpec, Item, Sim, Words};
use libzernel::sys::{abi, sim as calls};
use libzernel::{Call, Error, Timestamp};

use crate::module::Launch;
use crate::status::{Result, Status};

/// Channels: one for the legacy default stream, one for those of threads, others for streams in turn.
const CHANNELS: u32 = 16;
/// Channel of the legacy default stream.
const LEGACY: u32 = 0;
/// Channel of the default streams of threads.
const PER_THREAD: u32 = 1;
/// Share of the GPU that a holder uses: one of about a hundred SMs.
const HOLDER_PERMILLE: u32 = 10;
/// The part of a holder before it stores its word.
const BEFORE: Duration = Duration::from_micros(1);
/// Words for streams: those of the page.
const WORDS: u32 = 1024;

/// Memory of the host that is the GPU's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Region {
    /// Its address here, and there.
    pub(crate) host: u64,
    pub(crate) device: u64,
    pub(crate) length: u64,
}

/// A stream of a context.
#[derive(Debug, Clone, Copy)]
struct Stream {
    channel: u32,
    /// Its word counts its tickets.
    word: u32,
    ticket: u32,
    /// The last item.
    item: u64,
    /// It waits for the legacy default stream, and that for it.
    blocks: bool,
}

/// A point in a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Mark {
    word: u32,
    ticket: u32,
    channel: u32,
    item: u64,
}

/// The part of a context that waits need: no lock is held meanwhile.
#[derive(Debug, Clone)]
pub(crate) struct Gpu {
    context: Arc<sim::Context>,
    words: Arc<Words>,
}

impl Gpu {
    /// Waits for items of channels.
    pub(crate) fn wait(&self, items: &[(u32, u64)]) -> Result<()> {
        for &(channel, item) in items {
            let forever = Timestamp::from_ns(u64::MAX);
            loop {
                match self.context.wait(channel, item, forever) {
                    Err(error) if error.errno() == Some(rustix::io::Errno::INTR) => {}
                    other => break other.map(|_| ()),
                }
            }?;
        }
        Ok(())
    }

    fn is_over(&self, channel: u32, item: u64) -> Result<bool> {
        match self.context.wait(channel, item, Timestamp::from_ns(0)) {
            Ok(_) => Ok(true),
            Err(error) if error.errno() == Some(rustix::io::Errno::TIME) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}

/// A context.
#[derive(Debug)]
pub(crate) struct Context {
    gpu: Gpu,
    pub(crate) device: u32,
    /// By handle; 1 and 2 are the default streams.
    streams: BTreeMap<u64, Stream>,
    next_channel: u32,
    free_words: Vec<u32>,
    /// Memory that its items can name.
    memory: Option<Region>,
    /// A kernel of it has failed.
    pub(crate) failed: Option<Status>,
}

impl Context {
    pub(crate) const LEGACY: u64 = 1;
    pub(crate) const PER_THREAD: u64 = 2;

    /// A new one on a device.
    pub(crate) fn new(sim: &Sim, device: u32) -> Result<Self> {
        let context = sim.create_context(&ContextSpec {
            gpu: device,
            channels: CHANNELS,
            ..ContextSpec::compute("cuda")
        })?;
        let words = context.words(WORDS)?;
        let mut new = Self {
            gpu: Gpu {
                context: Arc::new(context),
                words: Arc::new(words),
            },
            device,
            streams: BTreeMap::new(),
            next_channel: 0,
            free_words: (0..WORDS).rev().collect(),
            memory: None,
            failed: None,
        };
        new.add(Self::LEGACY, LEGACY, false)?;
        new.add(Self::PER_THREAD, PER_THREAD, true)?;
        Ok(new)
    }

    fn add(&mut self, handle: u64, channel: u32, blocks: bool) -> Result<()> {
        let word = self.free_words.pop().ok_or(Status::OutOfMemory)?;
        let stream = Stream {
            channel,
            word,
            ticket: self.gpu.words.load(word),
            item: 0,
            blocks,
        };
        self.streams.insert(handle, stream);
        Ok(())
    }

    /// Adds a stream. Those beyond the channels share them, as they do on a GPU.
    pub(crate) fn add_stream(&mut self, handle: u64, blocks: bool) -> Result<()> {
        let first = PER_THREAD + 1;
        let channel = first + self.next_channel % (CHANNELS - first);
        self.add(handle, channel, blocks)?;
        self.next_channel += 1;
        Ok(())
    }

    /// Ends a stream; its work goes on.
    pub(crate) fn remove_stream(&mut self, handle: u64) -> Result<()> {
        if [Self::LEGACY, Self::PER_THREAD].contains(&handle) {
            return Err(Status::InvalidHandle);
        }
        let stream = self.streams.remove(&handle);
        // Its word goes on counting; who takes it begins behind.
        let stream = stream.ok_or(Status::InvalidHandle)?;
        if self.gpu.is_over(stream.channel, stream.item)? {
            self.free_words.push(stream.word);
        }
        Ok(())
    }

    /// True if it has this stream.
    pub(crate) fn has_stream(&self, handle: u64) -> bool {
        self.streams.contains_key(&handle)
    }

    /// The part that waits need.
    pub(crate) fn gpu(&self) -> Gpu {
        self.gpu.clone()
    }

    fn stream(&mut self, handle: u64) -> Result<&mut Stream> {
        self.streams.get_mut(&handle).ok_or(Status::InvalidHandle)
    }

    fn submit(&mut self, handle: u64, items: &[Item]) -> Result<()> {
        let gpu = self.gpu.clone();
        let stream = self.stream(handle)?;
        stream.item = gpu.context.submit(stream.channel, items)?.last_seq;
        Ok(())
    }

    /// Marks the point where a stream is now.
    pub(crate) fn mark(&mut self, handle: u64) -> Result<Mark> {
        let (word, ticket) = {
            let stream = self.stream(handle)?;
            (stream.word, stream.ticket.wrapping_add(1))
        };
        self.submit(handle, &[Item::release(word, ticket)])?;
        let stream = self.stream(handle)?;
        stream.ticket = ticket;
        Ok(Mark {
            word,
            ticket,
            channel: stream.channel,
            item: stream.item,
        })
    }

    /// Has a stream wait for a mark.
    pub(crate) fn wait_mark(&mut self, handle: u64, mark: &Mark) -> Result<()> {
        let wait = Item::wait(mark.word, Condition::AtLeast, mark.ticket);
        self.submit(handle, &[wait])
    }

    /// True if the GPU has come to a mark.
    pub(crate) fn has_passed(&self, mark: &Mark) -> Result<bool> {
        self.gpu.is_over(mark.channel, mark.item)
    }

    /// The item of a mark, to wait for.
    pub(crate) fn item_of(mark: &Mark) -> (u32, u64) {
        (mark.channel, mark.item)
    }

    /// The order of the legacy default stream: it begins when blocking streams have come so far, and
    /// they go on when it has.
    fn order(&mut self, handle: u64) -> Result<()> {
        if handle == Self::LEGACY {
            let blocking: Vec<u64> = self.blocking().collect();
            for other in blocking {
                if !self.is_idle(other)? {
                    let mark = self.mark(other)?;
                    self.wait_mark(Self::LEGACY, &mark)?;
                }
            }
        } else if self.stream(handle)?.blocks && !self.is_idle(Self::LEGACY)? {
            let mark = self.mark(Self::LEGACY)?;
            self.wait_mark(handle, &mark)?;
        }
        Ok(())
    }

    fn blocking(&self) -> impl Iterator<Item = u64> + '_ {
        let blocking = self.streams.iter().filter(|(_, stream)| stream.blocks);
        blocking.map(|(&handle, _)| handle)
    }

    /// True if a stream has nothing left to do.
    pub(crate) fn is_idle(&mut self, handle: u64) -> Result<bool> {
        let stream = *self.stream(handle)?;
        self.gpu.is_over(stream.channel, stream.item)
    }

    /// The items that are to be over for a stream to be idle.
    pub(crate) fn last_items(&mut self, handle: u64) -> Result<Vec<(u32, u64)>> {
        let stream = *self.stream(handle)?;
        Ok(vec![(stream.channel, stream.item)])
    }

    /// The same for all its streams.
    pub(crate) fn all_items(&self) -> Vec<(u32, u64)> {
        let all = self.streams.values();
        all.map(|stream| (stream.channel, stream.item)).collect()
    }

    /// Has a stream wait until a word has met a condition.
    pub(crate) fn wait_word(
        &mut self,
        handle: u64,
        address: u64,
        condition: Condition,
        value: u32,
    ) -> Result<()> {
        let word = self.word(address)?;
        self.order(handle)?;
        self.submit(handle, &[Item::wait(word, condition, value)])
    }

    /// Has a stream store to a word.
    pub(crate) fn write_word(&mut self, handle: u64, address: u64, value: u32) -> Result<()> {
        let word = self.word(address)?;
        self.order(handle)?;
        self.submit(handle, &[Item::release(word, value)])
    }

    /// Launches a kernel.
    pub(crate) fn launch(&mut self, handle: u64, launch: Launch) -> Result<()> {
        match launch {
            Launch::Work(time) => {
                self.order(handle)?;
                self.submit(handle, &[Item::work(time)])
            }
            Launch::Hold {
                held,
                release,
                number,
                bound,
            } => {
                let (held, release) = (self.word(held)?, self.word(release)?);
                self.order(handle)?;
                let hold = Item::hold(release, Condition::AtLeast, number, bound);
                let items = [
                    Item::work(BEFORE).demand_permille(HOLDER_PERMILLE),
                    Item::release(held, number),
                    hold.demand_permille(HOLDER_PERMILLE),
                ];
                self.submit(handle, &items)
            }
            Launch::Fault => {
                self.failed = Some(Status::IllegalAddress);
                Ok(())
            }
        }
    }

    /// The number of a word, by its address as the GPU sees it.
    fn word(&self, address: u64) -> Result<u32> {
        const SIZE: u64 = 4;
        if address % SIZE != 0 {
            return Err(Status::InvalidValue);
        }
        let region = self.memory.ok_or(Status::NotSupported)?;
        let offset = address.checked_sub(region.device);
        let offset = offset.filter(|&offset| offset < region.length);
        let word = offset.ok_or(Status::InvalidValue)? / SIZE;
        Ok(abi::ZERNEL_SIM_MEMORY_WORD + word as u32)
    }

    /// True if its items can name memory of the host.
    pub(crate) fn has_memory(&self) -> bool {
        self.memory.is_some()
    }

    /// Gives it memory of the host, once.
    pub(crate) fn add_memory(&mut self, sim: &Sim, region: Region) -> Result<()> {
        let mut raw = abi::zernel_sim_memory {
            context: self.gpu.context.id(),
            address: region.host,
            length: region.length,
            ..abi::zernel_sim_memory::zeroed()
        };
        calls::memory(sim.as_fd(), &mut raw).map_err(Error::call(Call::SimMemory))?;
        self.memory = Some(region);
        Ok(())
    }
}
