// SPDX-License-Identifier: MIT OR Apache-2.0
//! Shards of which a box has nearly all: one request brings the index and the chunks, in place of two
//! behind each other.

use std::borrow::Cow;
use std::sync::Arc;

use futures_util::future::try_join_all;

use crate::array::{ArrayMeta, Sharding};
use crate::plan::{join, pieces, Joins, Object, Piece};
use crate::prefetcher::keep::Keep;
use crate::read::{bytes_of, Part};
use crate::region::Tile;
use crate::source::{Ask, Source};
use crate::{Fault, Kind};

/// Bytes that a shard may have beyond its elements and its index: of packers that find nothing to do,
/// checksums, alignment.
const SLACK: u64 = 64 << 10;

/// Bytes of all elements of a shard.
fn elements(array: &ArrayMeta) -> Option<u64> {
    let mut sides = array.tile().iter();
    let element = array.fill_value().len() as u64;
    sides.try_fold(element, |all, side| all.checked_mul(*side))
}

/// The box has seven of eight chunks of a shard, of those that are in the array; the elements of the
/// shard and its index have `longest` bytes at the most, and the index no more than the elements. Nobody
/// counts the bytes of such an index.
pub(crate) fn is_whole(array: &ArrayMeta, shard: &Tile, longest: u64) -> bool {
    let Some(sharding) = array.sharding() else {
        return false;
    };
    let index = sharding.index_bytes();
    let all = elements(array).filter(|elements| index <= *elements);
    let all = all.and_then(|elements| elements.checked_add(index));
    if all.is_none_or(|bytes| bytes > longest) {
        return false;
    }
    let sides = array.tile().iter().zip(sharding.chunk());
    let sides = sides.zip(array.shape().iter().zip(&shard.index));
    let there = |((side, chunk), (size, at)): ((&u64, &u64), (&u64, &u64))| {
        size.saturating_sub(at * side).min(*side).div_ceil(*chunk)
    };
    // A shard has 2^24 at the most.
    let all: u64 = sides.map(there).product();
    let touched = shard.part.tiles(sharding.chunk()).count_within(all);
    touched.is_some_and(|touched| 8 * touched >= 7 * all)
}

/// The chunks of a shard, by one request. One that is much larger than its elements, as are those that
/// were written over many times, is read as any other: its index, then the ranges.
pub(crate) async fn fetch<'a>(
    source: &Source,
    (object, sharding): (&'a Object, &'a Sharding),
    shards: &'a [Piece],
    (joins, keep): (Joins, Option<&Keep>),
    batch: u64,
) -> Result<Vec<Part<'a>>, Fault> {
    let key = &object.key;
    let most = elements(&object.array).and_then(|bytes| {
        let slack = (bytes / 8).checked_add(SLACK)?;
        bytes
            .checked_add(slack)?
            .checked_add(sharding.index_bytes())
    });
    let most = most.unwrap_or(u64::MAX);
    let absent = || vec![Part::new(object, Cow::Borrowed(shards), None)];
    let (index, whole) = match source.read(Ask::new(key, most, batch)).await {
        Ok(Some(read)) => (sharding.decode_index_of(key, &read)?, Some(read.bytes)),
        Ok(None) => return Ok(absent()),
        Err(fault) if fault.kind() == Kind::TooLarge => {
            let ask = Ask {
                range: Some(&sharding.index_range()),
                ..Ask::new(key, sharding.index_bytes(), batch)
            };
            match source.read(ask).await? {
                Some(read) => (sharding.decode_index(key, read)?, None),
                None => return Ok(absent()),
            }
        }
        Err(fault) => return Err(fault),
    };
    let index = Arc::new(index);
    let origin = keep.and_then(|keep| keep.index(object.origin, key, &index));
    let (mut found, mut fill) = (Vec::new(), Vec::new());
    for shard in shards {
        for piece in pieces(sharding, shard.sample, &shard.tile, Some(&index)) {
            match piece.bytes {
                Some(range) => found.push((range, piece)),
                None => fill.push(piece),
            }
        }
    }
    let joins = match whole {
        Some(_) => Joins {
            gap: u64::MAX,
            longest: u64::MAX,
        },
        None => joins,
    };
    let ranges = join(found, joins);
    let bytes = match &whole {
        // The index has told that its ranges are there.
        Some(whole) => ranges
            .iter()
            .filter_map(|range| range.bytes)
            .map(|(first, bytes)| whole.slice(first as usize..(first + bytes) as usize))
            .map(Some)
            .collect(),
        None => {
            let of_index = Object {
                version: index.version().map(str::to_owned),
                size: Some(index.size()),
                ranges: Vec::new(),
                ..object.clone()
            };
            let reads = ranges.iter();
            let reads = reads.map(|range| bytes_of(source, &of_index, range, batch));
            try_join_all(reads).await?
        }
    };
    let parts = ranges.into_iter().zip(bytes);
    let parts = parts.map(|(range, bytes)| Part {
        origin,
        ..Part::new(object, Cow::Owned(range.pieces), bytes)
    });
    let fill = (!fill.is_empty()).then(|| Part::new(object, Cow::Owned(fill), None));
    Ok(parts.chain(fill).collect())
}
