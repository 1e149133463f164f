// SPDX-License-Identifier: GPL-2.0
//! Storage of the model: tables of a fixed size, and pools that grow by chunks.
//!
//! Chunks are made where memory can be waited for and handed over under the lock of the GPU, so
//! that nothing is allocated while interrupts are off. They count against the memory cgroup of the
//! caller that needed them, and stay when its objects are gone.

use super::context::Context;
use crate::model::{
    arena::{
        Node,
        Pool, //
    },
    channel::Channel,
    engine::Engine,
    gpu::Store,
    tsg::Tsg,
    work::Item, //
};
use kernel::{
    prelude::*,
    sync::Arc, //
};

/// Names the storage.
pub(crate) struct Pools;

impl Store<Arc<Context>> for Pools {
    type Engines = Table<Engine>;
    type Tsgs = Table<Tsg<Arc<Context>>>;
    type Channels = Chunks<Channel>;
    type Items = Chunks<Item>;
}

/// A pool of a fixed size.
pub(crate) struct Table<T>(KVVec<T>);

impl<T: Node> Table<T> {
    /// A table of blank nodes.
    pub(crate) fn new(size: u32) -> Result<Self> {
        let mut nodes = KVVec::with_capacity(size as usize, GFP_KERNEL)?;
        for _ in 0..size {
            nodes.push(T::blank(), GFP_KERNEL)?;
        }
        Ok(Self(nodes))
    }
}

impl<T> Pool<T> for Table<T> {
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

/// Nodes of a chunk: some KiB.
const CHUNK: u32 = 32;
/// Most chunks of a pool.
const CHUNKS: usize = 2048;

/// A chunk that is not in a pool.
pub(crate) struct Chunk<T>(KVec<T>);

impl<T: Node> Chunk<T> {
    /// A chunk of blank nodes.
    pub(crate) fn new() -> Result<Self> {
        let mut nodes = KVec::with_capacity(CHUNK as usize, GFP_KERNEL_ACCOUNT)?;
        for _ in 0..CHUNK {
            nodes.push(T::blank(), GFP_KERNEL_ACCOUNT)?;
        }
        Ok(Self(nodes))
    }
}

/// A pool that grows.
///
/// # Invariants
///
/// Every chunk has [`CHUNK`] nodes; there is room for [`CHUNKS`] of them.
pub(crate) struct Chunks<T>(KVVec<KVec<T>>);

impl<T: Node> Chunks<T> {
    /// An empty pool.
    pub(crate) fn new() -> Result<Self> {
        Ok(Self(KVVec::with_capacity(CHUNKS, GFP_KERNEL)?))
    }

    /// Takes a chunk in. Gives it back when the pool is as large as it can be.
    pub(crate) fn add(&mut self, chunk: Chunk<T>) -> Result<(), Chunk<T>> {
        if self.0.len() >= CHUNKS {
            return Err(chunk);
        }
        self.0
            .push_within_capacity(chunk.0)
            .map_err(|error| Chunk(error.0))
    }
}

impl<T> Pool<T> for Chunks<T> {
    fn at(&self, at: u32) -> Option<&T> {
        self.0
            .get((at / CHUNK) as usize)?
            .get((at % CHUNK) as usize)
    }

    fn at_mut(&mut self, at: u32) -> Option<&mut T> {
        self.0
            .get_mut((at / CHUNK) as usize)?
            .get_mut((at % CHUNK) as usize)
    }

    fn size(&self) -> u32 {
        (self.0.len() as u32).saturating_mul(CHUNK)
    }
}
