// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads a batch by its plan: ranges come in any order, chunks are decoded while others come, and
//! their parts are copied to where the caller wants the samples. A chunk that several samples touch is
//! decoded once.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::stream::{FuturesUnordered, StreamExt as _};
use tokio::sync::oneshot;

use crate::array::ArrayMeta;
use crate::decode::MOST_BYTES;
use crate::plan::{Object, Piece, Plan, Range};
use crate::prefetcher::Sample;
use crate::region::Place;
use crate::source::{Ask, Source};
use crate::wave::Job;
pub use crate::wave::{Decoding, Waves};
use crate::{Fault, Kind};

/// A chunk that is decoded, or was.
struct Chunk<'a, T> {
    object: &'a Object,
    /// The parts of it that samples have.
    pieces: &'a [Piece],
    bytes: T,
}

/// The places of samples in memory, each with that of its box.
pub fn places<'a>(data: &'a mut [Vec<u8>], samples: &'a [Sample]) -> Vec<Place<'a>> {
    let pairs = data.iter_mut().zip(samples);
    pairs
        .map(|(bytes, sample)| Place {
            bytes,
            shape: &sample.region.shape,
        })
        .collect()
}

/// Reads all of a plan. `places[sample]` has room for the elements of that sample's box, of the type
/// of its array.
///
/// # Errors
///
/// The first fault; the places may be half written then. [`Kind::Changed`]: an object changed since
/// its index was read, which asks for a new plan. [`Kind::TooLarge`]: a chunk has more substreams than
/// [`Waves::max_substreams`].
pub async fn read(
    source: &Source,
    plan: &Plan,
    batch: u64,
    decoding: impl Into<Decoding>,
    places: &mut [Place<'_>],
) -> Result<(), Fault> {
    let decoding = decoding.into();
    for (array, piece) in &plan.absent {
        fill(array, piece, places)?;
    }
    let most = decoding.waves().chunks();
    let ranges = plan.objects.iter().flat_map(|object| {
        let ranges = object.ranges.iter();
        ranges.map(move |range| fetch(source, object, range, batch))
    });
    let mut fetches: FuturesUnordered<_> = ranges.collect();
    let mut waiting = VecDeque::new();
    let mut decoded = FuturesUnordered::new();
    loop {
        // A back-end gets all that came while it was busy; a thread, a chunk at once.
        if decoding.backend.is_none() || decoded.is_empty() {
            let free = most.saturating_sub(decoded.len());
            let mut jobs = Vec::new();
            for chunk in waiting.drain(..free.min(waiting.len())) {
                let (job, chunk) = begin(chunk)?;
                jobs.push(job);
                decoded.push(chunk.end());
            }
            decoding.start(jobs);
        }
        tokio::select! {
            biased;
            Some(chunk) = decoded.next() => copy(&chunk?, places)?,
            Some(fetched) = fetches.next() => {
                let (object, range, bytes): (&Object, &Range, Option<Bytes>) = fetched?;
                let Some(bytes) = bytes else {
                    for piece in &range.pieces {
                        fill(&object.array, piece, places)?;
                    }
                    continue;
                };
                // Pieces of one chunk are side by side.
                let chunks = range.pieces.chunk_by(|one, other| one.bytes == other.bytes);
                waiting.extend(chunks.map(|pieces| Chunk {
                    object,
                    pieces,
                    bytes: bytes.clone(),
                }));
            }
            else => return Ok(()),
        }
    }
}

/// The bytes of a range; `None`: there is no such object.
async fn fetch<'a>(
    source: &Source,
    object: &'a Object,
    range: &'a Range,
    batch: u64,
) -> Result<(&'a Object, &'a Range, Option<Bytes>), Fault> {
    let bounds = range
        .bytes
        .map(|(first, bytes)| (first..first + bytes).into());
    let most = range.bytes.map_or(2 * MOST_BYTES, |(_, bytes)| bytes);
    let ask = Ask {
        range: bounds.as_ref(),
        version: object.version.as_deref(),
        size: object.size,
        ..Ask::new(&object.key, most, batch)
    };
    let read = source.read(ask).await?;
    match read {
        Some(read) => Ok((object, range, Some(read.bytes))),
        None if range.bytes.is_none() => Ok((object, range, None)),
        // Its index was there.
        None => {
            let text = format!("{}: it is gone since its index was read", object.key);
            Err(Fault::new(Kind::Changed, text))
        }
    }
}

/// A chunk as it will be when it is decoded.
type Decoded<'a> = Chunk<'a, oneshot::Receiver<Result<Vec<u8>, Fault>>>;

impl<'a> Decoded<'a> {
    async fn end(self) -> Result<Chunk<'a, Vec<u8>>, Fault> {
        let lost = |_| Fault::new(Kind::Corrupt, "a decoder ended without a result");
        Ok(Chunk {
            object: self.object,
            pieces: self.pieces,
            bytes: self.bytes.await.map_err(lost)??,
        })
    }
}

/// The work for a chunk, and its end.
fn begin(chunk: Chunk<'_, Bytes>) -> Result<(Job, Decoded<'_>), Fault> {
    let Chunk {
        object,
        pieces,
        bytes,
    } = chunk;
    let range = pieces.first().and_then(|piece| piece.bytes);
    let bytes = match range {
        None => bytes,
        Some((first, size)) => {
            let (first, end) = (first as usize, (first + size) as usize);
            if end > bytes.len() {
                let text = format!("{}: a range came short", object.key);
                return Err(Fault::new(Kind::Corrupt, text));
            }
            bytes.slice(first..end)
        }
    };
    let (send, decoded) = oneshot::channel();
    let job = Job {
        array: Arc::clone(&object.array),
        key: object.key.clone(),
        is_of_shard: range.is_some(),
        bytes,
        send,
    };
    let decoded = Chunk {
        object,
        pieces,
        bytes: decoded,
    };
    Ok((job, decoded))
}

fn place<'a, 'b>(places: &'a mut [Place<'b>], sample: usize) -> Result<&'a mut Place<'b>, Fault> {
    let none = || {
        Fault::new(
            Kind::Misuse,
            format!("there is no place for sample {sample}"),
        )
    };
    places.get_mut(sample).ok_or_else(none)
}

fn fill(array: &ArrayMeta, piece: &Piece, places: &mut [Place<'_>]) -> Result<(), Fault> {
    let place = place(places, piece.sample)?;
    place.fill(array.fill_value(), &piece.tile.part, &piece.tile.at)
}

fn copy(chunk: &Chunk<'_, Vec<u8>>, places: &mut [Place<'_>]) -> Result<(), Fault> {
    let array = &chunk.object.array;
    let element = array.fill_value().len();
    for piece in chunk.pieces {
        let shape = match (piece.bytes, array.sharding()) {
            (Some(_), Some(sharding)) => sharding.chunk(),
            _ => array.tile(),
        };
        let place = place(places, piece.sample)?;
        place.copy(
            (&chunk.bytes, shape),
            &piece.tile.part,
            &piece.tile.at,
            element,
        )?;
    }
    Ok(())
}
