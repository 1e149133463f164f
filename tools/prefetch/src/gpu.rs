// SPDX-License-Identifier: MIT OR Apache-2.0
//! A back-end that unpacks waves of chunks on a GPU, by nvCOMP. Packed chunks are copied to the GPU, and
//! unpacked ones back: what is behind unpacking is done by the CPU.
//!
//! It has not run on a GPU.

mod room;

use std::path::Path;
use std::sync::Arc;

use cuda::{Context, Device, Driver, Memory, Own, OwnStream};

pub(crate) use room::{Part, Room};

use crate::layout::Method;
use crate::sync::{lock, AtomicBool, Mutex, Ordering};
pub use crate::sys::nvcomp::LIBRARIES;
use crate::sys::nvcomp::{self, Nvcomp};
use crate::wave::{Backend, Chunk, Hint};
use crate::{Fault, Kind};

/// The most pieces that are given to the GPU at once.
const MOST_PIECES: usize = 65_535;

/// `CUDA_ERROR_OUT_OF_MEMORY`.
const OUT_OF_MEMORY: i32 = 2;

/// The stream of a back-end, and its memory of the GPU.
#[derive(Debug)]
struct Lane {
    stream: Arc<OwnStream>,
    memory: Option<Memory>,
}

/// A GPU that unpacks chunks.
#[derive(Debug)]
pub struct Gpu {
    // It ends before its context.
    lane: Mutex<Lane>,
    nvcomp: Nvcomp,
    driver: Arc<Driver>,
    context: Own,
    /// The most bytes of memory of the GPU.
    most: usize,
    /// No call of the context succeeds any more.
    is_lost: AtomicBool,
}

/// A wave, or a part of it, that was not unpacked.
#[derive(Debug)]
enum Failed {
    /// There is no room for so much at once.
    Room,
    /// It may be so with others.
    Call,
    /// The context is of no use any more.
    Lost,
}

impl From<cuda::Error> for Failed {
    fn from(error: cuda::Error) -> Self {
        match error.status() {
            Some(cuda::Status(OUT_OF_MEMORY)) => Self::Room,
            _ if error.is_lost() => Self::Lost,
            _ => Self::Call,
        }
    }
}

impl From<nvcomp::Failed> for Failed {
    fn from(failed: nvcomp::Failed) -> Self {
        match failed {
            nvcomp::Failed::Nvcomp(..) => Self::Call,
            nvcomp::Failed::Cuda(error) => error.into(),
        }
    }
}

fn lacking(why: impl std::fmt::Display) -> Fault {
    Fault::new(Kind::Unsupported, format!("no decoding on a GPU: {why}"))
}

impl Gpu {
    /// Opens a GPU, in its primary context. `nvcomp`: the library, one of
    /// [`LIBRARIES`] as a rule. `most`: bytes
    /// of memory of the GPU that waves may take.
    ///
    /// # Errors
    ///
    /// [`Kind::Unsupported`]: there is no nvCOMP, or one of another version than 5 and 6, or one that lacks
    /// functions, which are named; a call of CUDA fails. Chunks are decoded on the CPU, then.
    pub fn open(
        driver: &Arc<Driver>,
        device: Device,
        nvcomp: &Path,
        most: u64,
    ) -> Result<Self, Fault> {
        let nvcomp = Nvcomp::open(nvcomp).map_err(lacking)?;
        let context = driver.primary_context(device).map_err(lacking)?;
        let stream = driver.create_usual_stream(context.context());
        Ok(Self {
            lane: Mutex::new(Lane {
                stream: Arc::new(stream.map_err(lacking)?),
                memory: None,
            }),
            nvcomp,
            driver: Arc::clone(driver),
            context,
            most: usize::try_from(most).unwrap_or(usize::MAX),
            is_lost: AtomicBool::new(false),
        })
    }

    /// Bytes of memory of the GPU that it has now.
    pub fn room(&self) -> usize {
        let lane = lock(&self.lane);
        lane.memory.as_ref().map_or(0, Memory::length)
    }

    /// Its context. A call failed so that no other succeeds, and chunks are decoded on the CPU from now
    /// on.
    pub fn is_lost(&self) -> bool {
        self.is_lost.load(Ordering::Relaxed)
    }

    fn context(&self) -> Context {
        self.context.context()
    }

    /// Room for packed pieces.
    fn sized(&self, lane: &Lane, method: Method, parts: &[Part<'_>]) -> Result<Room, Failed> {
        let longest = parts.iter().map(|part| part.room).max().unwrap_or(0);
        let mut rooms = parts.iter().map(|part| part.room);
        let all = rooms.try_fold(0, usize::checked_add).ok_or(Failed::Room)?;
        if parts.len() > MOST_PIECES || all > self.most {
            return Err(Failed::Room);
        }
        let (count, stream) = (parts.len(), lane.stream.stream());
        let temporary = self
            .nvcomp
            .temporary(method, count, (longest, all), stream)?;
        let room = Room::new(parts, temporary).ok_or(Failed::Room)?;
        match room.bytes() <= self.most {
            true => Ok(room),
            false => Err(Failed::Room),
        }
    }

    /// Has memory of so many bytes. Other streams of the program may wait for the chunks that it is for, so
    /// that it waits for none of them.
    fn reserve(&self, lane: &mut Lane, bytes: usize) -> Result<(), Failed> {
        if lane.memory.as_ref().is_none_or(|has| has.length() < bytes) {
            lane.memory = None;
            lane.memory = Some(Memory::behind(&lane.stream, bytes)?);
        }
        Ok(())
    }

    /// Unpacks pieces. `None`: it is none of the format's, or of another size.
    fn run(
        &self,
        lane: &mut Lane,
        method: Method,
        parts: &[Part<'_>],
    ) -> Result<Vec<Option<Vec<u8>>>, Failed> {
        if parts.is_empty() {
            return Ok(Vec::new());
        }
        let entered = self.driver.enter(self.context())?;
        let room = self.sized(lane, method, parts)?;
        self.reserve(lane, room.bytes())?;
        let Some(memory) = &lane.memory else {
            return Err(Failed::Room);
        };
        let stream = lane.stream.stream();
        let wave = (&room, parts);
        self.nvcomp.unpack(method, wave, memory, &entered, stream)?;
        let mut told = vec![0; room.told().len()];
        memory.read(&entered, stream, room.told().start, &mut told)?;
        let mut all = vec![0; room.unpacked().len()];
        memory.read(&entered, stream, room.unpacked().start, &mut all)?;
        Ok(room.results(&told, &all))
    }

    /// Unpacks chunks of one method: together if there is room, or else in halves.
    fn chunks(
        &self,
        lane: &mut Lane,
        method: Method,
        chunks: &[(usize, Chunk<'_>)],
        results: &mut [Option<Vec<u8>>],
    ) -> Result<(), Failed> {
        let parts: Vec<_> = chunks.iter().flat_map(|(_, chunk)| packed(chunk)).collect();
        let unpacked = match self.run(lane, method, &parts) {
            Err(Failed::Room) if chunks.len() > 1 => {
                let (first, second) = chunks.split_at(chunks.len() / 2);
                self.chunks(lane, method, first, results)?;
                return self.chunks(lane, method, second, results);
            }
            Err(Failed::Room) => return Ok(()),
            unpacked => unpacked?,
        };
        let mut unpacked = unpacked.into_iter();
        for (at, chunk) in chunks {
            // All are taken, for those of the next chunk come behind them.
            let parts = chunk
                .layout
                .pieces()
                .iter()
                .map(|piece| match piece.is_raw {
                    true => Some(chunk.bytes[piece.from.clone()].to_vec()),
                    false => unpacked.next().flatten(),
                });
            let parts: Vec<_> = parts.collect();
            let parts: Option<Vec<_>> = parts.into_iter().collect();
            results[*at] = parts.map(|parts| parts.concat());
        }
        Ok(())
    }
}

/// The packed pieces of a chunk.
fn packed<'a>(chunk: &Chunk<'a>) -> impl Iterator<Item = Part<'a>> {
    let (layout, bytes) = (chunk.layout, chunk.bytes);
    let pieces = layout.pieces().iter().filter(|piece| !piece.is_raw);
    pieces.map(|piece| Part {
        bytes: &bytes[piece.from.clone()],
        room: piece.to.len(),
    })
}

impl Backend for Gpu {
    fn unpack(&self, wave: &[Chunk<'_>]) -> Vec<Option<Vec<u8>>> {
        let mut results = vec![None; wave.len()];
        let mut lane = lock(&self.lane);
        for method in Method::ALL {
            let chunks: Vec<_> = wave.iter().copied().enumerate().collect();
            let of_it = |(_, chunk): &(usize, Chunk<'_>)| chunk.layout.method() == method;
            let chunks: Vec<_> = chunks.into_iter().filter(of_it).collect();
            if chunks.is_empty() || self.is_lost() {
                continue;
            }
            if let Err(Failed::Lost) = self.chunks(&mut lane, method, &chunks, &mut results) {
                self.is_lost.store(true, Ordering::Relaxed);
            }
        }
        results
    }

    fn expect(&self, hint: Hint) {
        if self.is_lost() {
            return;
        }
        // A wave that is on its way has its own room.
        let Ok(mut lane) = self.lane.try_lock() else {
            return;
        };
        let bytes = usize::try_from(hint.bytes).unwrap_or(usize::MAX);
        let part = bytes / (hint.substreams.max(1) as usize);
        let count = hint.chunks as usize * hint.substreams.max(1) as usize;
        if let Some(bytes) = Room::expected(count, part).filter(|bytes| *bytes <= self.most) {
            // Without it the wave gets its own, or is decoded on the CPU.
            if let Err(Failed::Lost) = self.reserve(&mut lane, bytes) {
                self.is_lost.store(true, Ordering::Relaxed);
            }
        }
    }
}
