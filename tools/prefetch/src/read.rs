// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads a batch by its plan: ranges come in any order, chunks are decoded in waves, and their parts
//! are copied to where the caller wants the samples.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::stream::{FuturesUnordered, StreamExt as _};
use tokio::sync::oneshot;

use crate::array::ArrayMeta;
use crate::decode::{guarded, MOST_BYTES};
use crate::plan::{Object, Piece, Plan, Range};
use crate::region::Place;
use crate::source::{Ask, Source};
use crate::{Fault, Kind};

/// Bounds of decoding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Waves {
    /// The most chunks that are decoded, or wait to be copied, at once. 0 stands for 512.
    pub max_chunks: u32,
}

/// The default of [`Waves::max_chunks`].
const CHUNKS: u32 = 512;

/// A chunk that is on its way through the decoder.
struct Decoding {
    array: Arc<ArrayMeta>,
    piece: Piece,
    decoded: oneshot::Receiver<Result<Vec<u8>, Fault>>,
}

/// Reads all of a plan. `places[sample]` has room for the elements of that sample's box, of the type
/// of its array.
///
/// # Errors
///
/// The first fault; the places may be half written then. [`Kind::Changed`]: an object changed since
/// its index was read, which asks for a new plan.
pub async fn read(
    source: &Source,
    plan: &Plan,
    batch: u64,
    waves: Waves,
    places: &mut [Place<'_>],
) -> Result<(), Fault> {
    for (array, piece) in &plan.absent {
        fill(array, piece, places)?;
    }
    let most = match waves.max_chunks {
        0 => CHUNKS,
        most => most,
    };
    let ranges = plan.objects.iter().flat_map(|object| {
        let ranges = object.ranges.iter();
        ranges.map(move |range| fetch(source, object, range, batch))
    });
    let mut fetches: FuturesUnordered<_> = ranges.collect();
    while let Some(fetched) = fetches.next().await {
        let (object, range, bytes) = fetched?;
        let Some(bytes) = bytes else {
            for piece in &range.pieces {
                fill(&object.array, piece, places)?;
            }
            continue;
        };
        for wave in range.pieces.chunks(most as usize) {
            let decoding: Vec<_> = wave
                .iter()
                .map(|piece| decode(object, piece, &bytes))
                .collect::<Result<_, _>>()?;
            for chunk in decoding {
                copy(chunk, places).await?;
            }
        }
    }
    Ok(())
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

fn decode(object: &Object, piece: &Piece, bytes: &Bytes) -> Result<Decoding, Fault> {
    let array = Arc::clone(&object.array);
    let encoded = match piece.bytes {
        None => bytes.clone(),
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
    let (own, key, is_inner) = (
        Arc::clone(&array),
        object.key.clone(),
        piece.bytes.is_some(),
    );
    rayon::spawn(move || {
        // A panic that left this closure would end the process.
        let decoded = guarded(&key, || match is_inner {
            true => own.decode_inner(&key, &encoded),
            false => own.decode(&key, &encoded),
        });
        // One who went away needs none.
        let _needed = send.send(decoded);
    });
    let piece = piece.clone();
    Ok(Decoding {
        array,
        piece,
        decoded,
    })
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

async fn copy(chunk: Decoding, places: &mut [Place<'_>]) -> Result<(), Fault> {
    let lost = || Fault::new(Kind::Corrupt, "a decoder ended without a result");
    let decoded = chunk.decoded.await.map_err(|_| lost())??;
    let shape = match (chunk.piece.bytes, chunk.array.sharding()) {
        (Some(_), Some(sharding)) => sharding.chunk(),
        _ => chunk.array.tile(),
    };
    let tile = &chunk.piece.tile;
    let element = chunk.array.fill_value().len();
    let place = place(places, chunk.piece.sample)?;
    place.copy((&decoded, shape), &tile.part, &tile.at, element)
}
