// SPDX-License-Identifier: GPL-2.0 OR MIT
//! The fixture of the model's tests: storage, semaphore words and a log, on the host and in the
//! kernel.

use core::cell::Cell;

use super::{
    arena::{
        Node,
        Pool, //
    },
    channel::Channel,
    engine::Engine,
    error::Error,
    event::{
        Activity,
        Completion,
        Record,
        Sink,
        Start, //
    },
    gpu::{
        Config,
        Gpu,
        NewTsg,
        Store, //
    },
    measures::{
        Ns,
        Permille, //
    },
    tsg::{
        Context,
        Handle,
        Tsg, //
    },
    work::{
        Granularity,
        Item,
        Order,
        Work, //
    }, //
};

#[cfg(test)]
type Buffer<T> = Vec<T>;
#[cfg(not(test))]
type Buffer<T> = kernel::alloc::KVec<T>;

/// Storage of a test.
pub(crate) struct Heap<T>(Buffer<T>);

impl<T> Pool<T> for Heap<T> {
    fn at(&self, at: u32) -> Option<&T> {
        self.0.get(at as usize)
    }
    fn at_mut(&mut self, at: u32) -> Option<&mut T> {
        self.0.get_mut(at as usize)
    }
    fn size(&self) -> u32 {
        self.0.len() as u32
    }
}

impl<T: Node> Heap<T> {
    fn new(size: u32) -> Result<Self, Error> {
        let mut buffer = Buffer::new();
        for _ in 0..size {
            #[cfg(test)]
            buffer.push(T::blank());
            #[cfg(not(test))]
            buffer
                .push(T::blank(), kernel::alloc::flags::GFP_KERNEL)
                .map_err(|_| Error::Full)?;
        }
        Ok(Self(buffer))
    }
}

/// Semaphore words of a test.
#[derive(Default)]
pub(crate) struct Words([Cell<u32>; 4]);

impl Words {
    /// Stores as user space does: the model is not told.
    pub(crate) fn set(&self, word: u16, value: u32) {
        if let Some(cell) = self.0.get(usize::from(word)) {
            cell.set(value);
        }
    }
}

impl Context for &Words {
    fn load(&self, word: u16) -> u32 {
        self.0.get(usize::from(word)).map_or(0, Cell::get)
    }
    fn store(&self, word: u16, value: u32) {
        self.set(word, value);
    }
}

/// Names the storage of a test GPU.
pub(crate) struct Heaps;

impl<'a> Store<&'a Words> for Heaps {
    type Engines = Heap<Engine>;
    type Tsgs = Heap<Tsg<&'a Words>>;
    type Channels = Heap<Channel>;
    type Items = Heap<Item>;
}

/// GPU of a test.
pub(crate) type TestGpu<'a> = Gpu<&'a Words, Heaps>;

/// A GPU with one compute and one copy engine and room for 8 TSGs, 24 channels and 128 items.
/// A save or restore takes `switch`; a channel takes 64 items.
pub(crate) fn gpu<'a>(switch: Ns) -> Result<TestGpu<'a>, Error> {
    let config = Config {
        number: 0,
        compute_switch: switch,
        copy_switch: Ns(10),
        channel_items: 64,
    };
    let (engines, tsgs) = (Heap::new(2)?, Heap::new(8)?);
    Ok(Gpu::new(
        config,
        engines,
        tsgs,
        Heap::new(24)?,
        Heap::new(128)?,
        Ns::ZERO,
    ))
}

/// Keeps the last few reports.
#[derive(Default)]
pub(crate) struct Log {
    last: [Option<(u64, Ns)>; 8],
    /// Completions.
    pub(crate) count: u64,
    /// Time that engine 0 spent in a state, summed up from the trace.
    pub(crate) run: Ns,
    /// Same, saving and restoring.
    pub(crate) switch: Ns,
    /// Same, idle.
    pub(crate) idle: Ns,
    /// End of the last record of engine 0.
    pub(crate) traced: Ns,
    /// A record of engine 0 did not begin where the one before ended.
    pub(crate) gap: bool,
    /// The last TSG that got engine 0.
    pub(crate) started: Option<Start>,
}

impl Log {
    /// When the item with this tag completed; the last 8 are kept.
    pub(crate) fn end(&self, tag: u64) -> Option<Ns> {
        self.last
            .iter()
            .flatten()
            .find(|(known, _)| *known == tag)
            .map(|(_, end)| *end)
    }
}

impl<C> Sink<C> for Log {
    fn completed(&mut self, _context: &C, completion: &Completion) {
        self.last.rotate_right(1);
        if let Some(first) = self.last.first_mut() {
            *first = Some((completion.tag, completion.end));
        }
        self.count = self.count.saturating_add(1);
    }

    fn recorded(&mut self, _context: Option<&C>, record: &Record) {
        if record.engine != 0 {
            return;
        }
        let length = record.end.since(record.start);
        match record.activity {
            Activity::Run => self.run = self.run.plus(length),
            Activity::Save | Activity::Restore => self.switch = self.switch.plus(length),
            Activity::Idle => self.idle = self.idle.plus(length),
        }
        self.gap |= record.start != self.traced;
        self.traced = record.end;
    }

    fn started(&mut self, start: &Start) {
        if start.engine == 0 {
            self.started = Some(*start);
        }
    }
}

/// Work that can be interrupted anywhere.
pub(crate) fn run(tag: u64, alone: u64, demand: u32) -> Order {
    let work = Work::Run {
        alone: Ns(alone),
        demand: Permille(demand),
        granularity: Granularity::Instruction,
    };
    Order {
        work,
        notify: false,
        tag,
    }
}

/// Anything else.
pub(crate) fn order(tag: u64, work: Work) -> Order {
    Order {
        work,
        notify: false,
        tag,
    }
}

/// Makes a TSG at the model time.
pub(crate) fn create<'a>(
    gpu: &mut TestGpu<'a>,
    serial: u64,
    words: &'a Words,
    (engine, nr_channels): (u32, u32),
    sharer: Option<Handle>,
    sink: &mut impl Sink<&'a Words>,
) -> Result<Handle, Error> {
    let new = NewTsg {
        serial,
        context: words,
        engine,
        nr_channels,
        sharer,
    };
    gpu.create(gpu.clock(), new, sink)
        .map_err(|(error, _)| error)
}

/// Makes a TSG with 2 channels on the compute engine.
pub(crate) fn tsg<'a>(
    gpu: &mut TestGpu<'a>,
    serial: u64,
    words: &'a Words,
    log: &mut Log,
) -> Result<Handle, Error> {
    create(gpu, serial, words, (0, 2), None, log)
}
