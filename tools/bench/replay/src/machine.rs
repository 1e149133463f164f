// SPDX-License-Identifier: MIT OR Apache-2.0
//! The model of the GPU with its surroundings on the host: storage, semaphore words, reports.

use std::cell::Cell;
use std::rc::Rc;

use crate::model::arena::{Node, Pool};
use crate::model::channel::Channel;
use crate::model::engine::Engine;
use crate::model::event::{Completion, Sink, Status};
use crate::model::gpu::{Config, Gpu, Store, MAX_CHANNELS};
use crate::model::measures::Ns;
use crate::model::preset::Preset;
use crate::model::tsg::{Context, Tsg};
use crate::model::work::{Item, Order, Work};

/// Storage of the model.
pub(crate) struct Heap<T>(Vec<T>);

impl<T: Node> Heap<T> {
    fn new(size: usize) -> Self {
        Self((0..size).map(|_| T::blank()).collect())
    }
}

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

/// Words of a TSG: two per channel.
const WORDS: usize = 2 * MAX_CHANNELS as usize;

/// The semaphore words of a TSG.
#[derive(Debug, Clone)]
pub(crate) struct Words(Rc<[Cell<u32>; WORDS]>);

impl Words {
    /// All zero.
    pub(crate) fn new() -> Self {
        Self(Rc::new(std::array::from_fn(|_| Cell::new(0))))
    }
}

impl Context for Words {
    fn load(&self, word: u16) -> u32 {
        self.0.get(usize::from(word)).map_or(0, Cell::get)
    }

    fn store(&self, word: u16, value: u32) {
        if let Some(cell) = self.0.get(usize::from(word)) {
            cell.set(value);
        }
    }
}

/// The word that the stream of a channel waits for before its holder.
pub(crate) const fn trigger_word(channel: u32) -> u16 {
    (channel * 2) as u16
}

/// The word that ends the holder of a channel.
pub(crate) const fn release_word(channel: u32) -> u16 {
    (channel * 2 + 1) as u16
}

/// Names the storage.
pub(crate) struct Heaps;

impl Store<Words> for Heaps {
    type Engines = Heap<Engine>;
    type Tsgs = Heap<Tsg<Words>>;
    type Channels = Heap<Channel>;
    type Items = Heap<Item>;
}

/// The model.
pub(crate) type Model = Gpu<Words, Heaps>;

/// Number of the compute engine.
pub(crate) const COMPUTE: u32 = 0;

/// Most items that wait in a channel: the kernels of a request and the items around them.
const CHANNEL_ITEMS: u32 = 300;

/// A GPU like `preset` with room for this many TSGs and channels.
pub(crate) fn gpu(preset: &Preset, tsgs: usize, channels: usize) -> Model {
    let config = Config {
        number: 0,
        compute_switch: preset.switch_cost(),
        copy_switch: Preset::COPY_SWITCH_COST,
        channel_items: CHANNEL_ITEMS,
    };
    Gpu::new(
        config,
        Heap::new(1 + preset.copy_engines as usize),
        Heap::new(tsgs),
        Heap::new(channels),
        Heap::new(channels * CHANNEL_ITEMS as usize),
        Ns::ZERO,
    )
}

/// The meaning of an item to the simulation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The copy to the GPU.
    CopyIn,
    /// The wait for the trigger.
    Wait,
    /// The holder.
    Hold,
    /// A kernel that others follow.
    Kernel,
    /// The last kernel of a request.
    LastKernel,
    /// The copy from the GPU.
    CopyOut,
}

impl Kind {
    const ALL: [Self; 6] = [
        Self::CopyIn,
        Self::Wait,
        Self::Hold,
        Self::Kernel,
        Self::LastKernel,
        Self::CopyOut,
    ];
}

/// An order for a client; its completion can be told from others.
pub(crate) const fn order(client: usize, kind: Kind, work: Work) -> Order {
    Order {
        work,
        notify: false,
        tag: (client as u64) << 8 | kind as u64,
    }
}

/// An item that has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ended {
    /// Its client.
    pub(crate) client: usize,
    /// Its meaning.
    pub(crate) kind: Kind,
    /// When it first ran.
    pub(crate) start: u64,
    /// When it ended.
    pub(crate) end: u64,
    /// It ended by its bound.
    pub(crate) expired: bool,
}

/// Collects ended items.
#[derive(Debug, Default)]
pub(crate) struct Log {
    ended: Vec<Ended>,
}

impl Log {
    /// The items that have ended since the last call, in order.
    pub(crate) fn take(&mut self, into: &mut Vec<Ended>) {
        into.append(&mut self.ended);
    }
}

impl Sink<Words> for Log {
    fn completed(&mut self, _words: &Words, completion: &Completion) {
        let Some(&kind) = Kind::ALL.get((completion.tag & 0xff) as usize) else {
            return;
        };
        self.ended.push(Ended {
            client: (completion.tag >> 8) as usize,
            kind,
            start: completion.start.0,
            end: completion.end.0,
            expired: completion.status == Status::Expired,
        });
    }
}
