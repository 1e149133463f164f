// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads a batch by its plan: ranges come in any order, chunks are decoded while others come, and
//! their parts are copied to where the caller wants the samples. A chunk that several samples touch is
//! decoded once.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::stream::{FuturesUnordered, StreamExt as _};
use tokio::sync::oneshot;

use crate::array::ArrayMeta;
use crate::decode::MOST_BYTES;
use crate::plan::{Joins, Object, Piece, Plan, Range};
use crate::prefetcher::keep::{Keep, Origin};
use crate::prefetcher::Sample;
use crate::region::Place;
use crate::source::{Ask, Source};
use crate::wave::Job;
pub use crate::wave::{Decoding, Waves};
use crate::{whole, Fault, Kind};

/// A chunk that is decoded, or was.
struct Chunk<'a, T> {
    object: &'a Object,
    /// The parts of it that samples have.
    pieces: Cow<'a, [Piece]>,
    bytes: T,
    origin: Option<Origin>,
}

/// Bytes that came, and the chunks in them.
pub(crate) struct Part<'a> {
    pub(crate) object: &'a Object,
    pub(crate) pieces: Cow<'a, [Piece]>,
    /// `None`: they are not there, all is fill value.
    pub(crate) bytes: Option<Bytes>,
    /// The entries that tell of the chunks; `None`: there are none.
    pub(crate) origin: Option<Origin>,
}

impl<'a> Part<'a> {
    /// Chunks of an object, which has told of none of its shards.
    pub(crate) fn new(object: &'a Object, pieces: Cow<'a, [Piece]>, bytes: Option<Bytes>) -> Self {
        Self {
            object,
            pieces,
            bytes,
            origin: None,
        }
    }

    /// The pieces of each chunk, which are side by side.
    fn chunks(self, bytes: &Bytes) -> Vec<Chunk<'a, Bytes>> {
        let is_one = |one: &Piece, other: &Piece| one.bytes == other.bytes;
        let chunk = |pieces| Chunk {
            object: self.object,
            pieces,
            bytes: bytes.clone(),
            origin: self.origin,
        };
        match self.pieces {
            Cow::Borrowed(pieces) => {
                let chunks = pieces.chunk_by(is_one).map(Cow::Borrowed);
                chunks.map(chunk).collect()
            }
            Cow::Owned(pieces) => {
                let chunks = pieces.chunk_by(is_one);
                let chunks = chunks.map(|pieces| Cow::Owned(pieces.to_vec()));
                chunks.map(chunk).collect()
            }
        }
    }
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
    for (array, piece, data) in &plan.kept {
        copy((array, std::slice::from_ref(piece)), data, places)?;
    }
    let keep = plan.keep.as_ref();
    let most = decoding.waves().chunks();
    let ranges = plan.objects.iter().flat_map(|object| {
        let ranges = object.ranges.iter();
        ranges.map(move |range| fetch(source, object, range, (plan.joins, keep), batch))
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
            Some(chunk) = decoded.next() => {
                let chunk = chunk?;
                copy((&chunk.object.array, &chunk.pieces), &chunk.bytes, places)?;
                let place = chunk.pieces.first().zip(chunk.origin);
                if let (Some(keep), Some((piece, origin))) = (keep, place) {
                    keep.chunk(origin, &piece.tile.index, chunk.bytes);
                }
            }
            Some(fetched) = fetches.next() => {
                let parts: Vec<Part<'_>> = fetched?;
                for mut part in parts {
                    match part.bytes.take() {
                        Some(bytes) => waiting.extend(part.chunks(&bytes)),
                        None => {
                            for piece in &*part.pieces {
                                fill(&part.object.array, piece, places)?;
                            }
                        }
                    }
                }
            }
            else => return Ok(()),
        }
    }
}

async fn fetch<'a>(
    source: &Source,
    object: &'a Object,
    range: &'a Range,
    keep: (Joins, Option<&Keep>),
    batch: u64,
) -> Result<Vec<Part<'a>>, Fault> {
    match (range.bytes, object.array.sharding()) {
        (None, Some(sharding)) => {
            whole::fetch(source, (object, sharding), &range.pieces, keep, batch).await
        }
        _ => {
            let bytes = bytes_of(source, object, range, batch).await?;
            Ok(vec![Part {
                origin: Some(object.origin),
                ..Part::new(object, Cow::Borrowed(&range.pieces), bytes)
            }])
        }
    }
}

/// The bytes of a range; `None`: there is no such object.
pub(crate) async fn bytes_of(
    source: &Source,
    object: &Object,
    range: &Range,
    batch: u64,
) -> Result<Option<Bytes>, Fault> {
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
        Some(read) => Ok(Some(read.bytes)),
        None if range.bytes.is_none() => Ok(None),
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
            origin: self.origin,
        })
    }
}

/// The work for a chunk, and its end.
fn begin(chunk: Chunk<'_, Bytes>) -> Result<(Job, Decoded<'_>), Fault> {
    let Chunk {
        object,
        pieces,
        bytes,
        origin,
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
        origin,
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

fn copy(
    (array, pieces): (&ArrayMeta, &[Piece]),
    chunk: &[u8],
    places: &mut [Place<'_>],
) -> Result<(), Fault> {
    let element = array.fill_value().len();
    for piece in pieces {
        let shape = match (piece.bytes, array.sharding()) {
            (Some(_), Some(sharding)) => sharding.chunk(),
            _ => array.tile(),
        };
        let place = place(places, piece.sample)?;
        place.copy((chunk, shape), &piece.tile.part, &piece.tile.at, element)?;
    }
    Ok(())
}
