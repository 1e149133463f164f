// SPDX-License-Identifier: MIT OR Apache-2.0
//! A kernel that tells of the times in which its context did not have the GPU.

use anyhow::Result;
use cuda::{Function, Stream};

use crate::gpu::{look, Gpu, ONE};
use crate::sys;
use crate::sys::memory::Words;

/// The most that it tells of.
pub const ROOM: usize = 65_536;

/// A time without the GPU, in nanoseconds of its timer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gap {
    pub from: u64,
    pub to: u64,
}

/// One that runs in a stream of its own.
pub struct Witness<'a> {
    gpu: &'a Gpu,
    stream: Stream,
    words: Words,
    pairs: u64,
    /// Its module may not be unloaded while it runs: that waits for its end.
    _kernel: Function,
}

impl<'a> Witness<'a> {
    /// Begins in a stream, which has nothing else to do until its end. Times from `gap_ns` on count.
    pub fn start_in(gpu: &'a Gpu, stream: Stream, gap_ns: u64) -> Result<Self> {
        let _entered = gpu.enter()?;
        let pairs = gpu.api.allocate((ROOM + 1) * size_of::<[u64; 2]>())?;
        gpu.api.fill(pairs, 0, 4)?;
        let words = gpu.words()?;
        let arguments = [pairs, ROOM as u64, gap_ns, words.address(0)];
        let kernel = gpu.witness()?;
        sys::launch(&kernel, ONE, stream, arguments)?;
        Ok(Self {
            _kernel: kernel,
            gpu,
            stream,
            words,
            pairs,
        })
    }

    /// Ends, and tells.
    pub fn stop(self) -> Result<Vec<Gap>> {
        let entered = self.gpu.enter()?;
        self.words.store(0, 1);
        let stream = self.stream;
        look("the end of the witness", || {
            entered.is_idle(stream).unwrap_or(true)
        })?;
        entered.wait_idle(stream)?;
        let api = &self.gpu.api;
        let count = api.read::<u64>(self.pairs, 1)?[0] as usize;
        let pairs = api.read::<[u64; 2]>(self.pairs + 16, count.min(ROOM))?;
        api.free(self.pairs)?;
        Ok(pairs.iter().map(|&[from, to]| Gap { from, to }).collect())
    }
}
