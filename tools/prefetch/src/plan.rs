// SPDX-License-Identifier: MIT OR Apache-2.0
//! The reads of a batch: ranges of objects, joined where the gap between them is small.

use std::collections::HashMap;
use std::sync::Arc;

use crate::array::{ArrayMeta, ShardIndex, Sharding};
use crate::prefetcher::keep::{Data, Keep, Origin};
use crate::region::Tile;

/// A chunk, or a part of one, of a sample.
#[derive(Debug, Clone)]
pub struct Piece {
    /// The number of the sample in its batch.
    pub sample: usize,
    /// First byte and bytes within the range that is read; `None`: it is not there, all is fill value.
    pub bytes: Option<(u64, u64)>,
    /// The part of the chunk, and its place in the sample.
    pub tile: Tile,
}

/// A range of an object, and the chunks in it.
#[derive(Debug, Clone)]
pub struct Range {
    /// The first byte, and the number of bytes; `None`: the whole object, a chunk or a shard with its
    /// index.
    pub bytes: Option<(u64, u64)>,
    /// The chunks.
    pub pieces: Vec<Piece>,
}

/// The reads of an object.
#[derive(Debug, Clone)]
pub struct Object {
    /// The array.
    pub array: Arc<ArrayMeta>,
    /// The object's name in the store.
    pub key: String,
    /// The version that the ranges are of, if the store has versions.
    pub version: Option<String>,
    /// Bytes of the object that the ranges are of; `None`: its size is not known.
    pub size: Option<u64>,
    /// In the order of their first bytes.
    pub ranges: Vec<Range>,
    /// The entries that tell of it.
    pub(crate) origin: Origin,
}

/// The reads of a batch.
#[derive(Debug, Clone, Default)]
pub struct Plan {
    /// Objects that are read.
    pub objects: Vec<Object>,
    /// Chunks that are not there: all fill value. Each with its array.
    pub absent: Vec<(Arc<ArrayMeta>, Piece)>,
    /// Chunks that are in memory: they are not read.
    pub(crate) kept: Vec<(Arc<ArrayMeta>, Piece, Data)>,
    /// The caches that a read adds to.
    pub(crate) keep: Option<Keep>,
    /// Bytes of an element, for each sample.
    pub(crate) elements: Vec<Option<u64>>,
    /// The array of each sample.
    pub(crate) arrays: Vec<Arc<ArrayMeta>>,
    /// Ranges are joined by these.
    pub(crate) joins: Joins,
}

/// Bounds of ranges that are read as one.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Joins {
    /// The most bytes between two.
    pub(crate) gap: u64,
    /// The most bytes of all.
    pub(crate) longest: u64,
}

impl Plan {
    /// Bytes that are read of objects whose ranges are known.
    pub fn bytes(&self) -> u64 {
        let ranges = self.objects.iter().flat_map(|object| &object.ranges);
        ranges.filter_map(|range| Some(range.bytes?.1)).sum()
    }

    /// Bytes of an element of a sample; `None`: it has none.
    pub fn element_bytes(&self, sample: usize) -> Option<u64> {
        self.elements.get(sample).copied().flatten()
    }

    /// The array of each sample.
    pub fn arrays(&self) -> &[Arc<ArrayMeta>] {
        &self.arrays
    }

    /// Requests.
    pub fn requests(&self) -> usize {
        self.objects.iter().map(|object| object.ranges.len()).sum()
    }
}

/// Chunks with their ranges in an object.
pub(crate) type Found = Vec<((u64, u64), Piece)>;

/// The chunks of a shard that a sample touches, each with its range in the shard.
pub(crate) fn pieces<'a>(
    sharding: &'a Sharding,
    sample: usize,
    shard: &'a Tile,
    index: Option<&'a ShardIndex>,
) -> impl Iterator<Item = Piece> + 'a {
    shard.part.tiles(sharding.chunk()).map(move |mut tile| {
        let bytes = index.and_then(|index| index.range(&tile.index));
        for (at, first) in tile.at.iter_mut().zip(&shard.at) {
            *at += first;
        }
        Piece {
            sample,
            bytes,
            tile,
        }
    })
}

/// Makes a plan. Samples that touch an object share its requests.
#[derive(Debug, Default)]
pub(crate) struct Planner {
    pub(crate) plan: Plan,
    /// Places of objects, by name and index: samples can have indexes of several versions.
    places: HashMap<(String, usize), usize>,
    /// The chunks of each object that has shards.
    found: Vec<Found>,
}

impl Planner {
    /// The place of an object.
    fn object(
        &mut self,
        array: &Arc<ArrayMeta>,
        tile: &[u64],
        (index, origin): (Option<&Arc<ShardIndex>>, Origin),
    ) -> usize {
        let key = array.key(tile);
        let name = (
            key.clone(),
            index.map_or(0, |index| Arc::as_ptr(index) as usize),
        );
        *self.places.entry(name).or_insert_with(|| {
            self.plan.objects.push(Object {
                array: Arc::clone(array),
                key,
                version: index.and_then(|index| index.version().map(str::to_owned)),
                size: index.map(|index| index.size()),
                ranges: Vec::new(),
                origin,
            });
            self.found.push(Vec::new());
            self.found.len() - 1
        })
    }

    /// A piece of a chunk, unless that is in memory.
    fn unless_kept(
        &mut self,
        array: &Arc<ArrayMeta>,
        origin: Origin,
        piece: Piece,
    ) -> Option<Piece> {
        let keep = self.plan.keep.as_ref();
        match keep.and_then(|keep| keep.known(origin, &piece.tile.index)) {
            Some(data) => {
                self.plan.kept.push((Arc::clone(array), piece, data));
                None
            }
            None => Some(piece),
        }
    }

    /// Adds an object that is read whole: one chunk, or a shard with its index.
    pub(crate) fn add_whole(
        &mut self,
        array: &Arc<ArrayMeta>,
        sample: usize,
        tile: Tile,
        origin: Origin,
    ) {
        let piece = Piece {
            sample,
            bytes: None,
            tile,
        };
        let piece = match array.sharding() {
            None => self.unless_kept(array, origin, piece),
            Some(_) => Some(piece),
        };
        let Some(piece) = piece else {
            return;
        };
        let at = self.object(array, &piece.tile.index, (None, origin));
        let ranges = &mut self.plan.objects[at].ranges;
        match ranges.first_mut() {
            Some(whole) => whole.pieces.push(piece),
            None => ranges.push(Range {
                bytes: None,
                pieces: vec![piece],
            }),
        }
    }

    /// Adds the chunks of a shard that a sample touches. `None`: there is no such shard.
    pub(crate) fn add_shard(
        &mut self,
        array: &Arc<ArrayMeta>,
        sample: usize,
        shard: &Tile,
        (index, origin): (Option<&Arc<ShardIndex>>, Origin),
    ) {
        let Some(sharding) = array.sharding() else {
            return;
        };
        for piece in pieces(sharding, sample, shard, index.map(Arc::as_ref)) {
            match piece.bytes {
                Some(range) => {
                    let Some(piece) = self.unless_kept(array, origin, piece) else {
                        continue;
                    };
                    let at = self.object(array, &shard.index, (index, origin));
                    self.found[at].push((range, piece));
                }
                None => self.plan.absent.push((Arc::clone(array), piece)),
            }
        }
    }

    /// The plan.
    pub(crate) fn finish(mut self, joins: Joins) -> Plan {
        for (object, found) in self.plan.objects.iter_mut().zip(self.found) {
            if !found.is_empty() {
                object.ranges = join(found, joins);
            }
        }
        self.plan.joins = joins;
        self.plan
    }
}

/// Joins ranges. Those of pieces are from the first byte of their range on, then.
pub(crate) fn join(mut found: Found, Joins { gap, longest }: Joins) -> Vec<Range> {
    found.sort_by_key(|(range, _)| *range);
    let mut joined: Vec<Range> = Vec::new();
    for ((start, size), mut piece) in found {
        let last = joined.last_mut();
        let near = last.and_then(|range| {
            let (first, bytes) = range.bytes?;
            let is_near = start <= (first + bytes).saturating_add(gap);
            let is_within = start + size <= first + bytes || start + size - first <= longest;
            (is_near && is_within).then_some((range, first, bytes))
        });
        match near {
            Some((range, first, bytes)) => {
                piece.bytes = Some((start - first, size));
                range.bytes = Some((first, bytes.max(start + size - first)));
                range.pieces.push(piece);
            }
            None => {
                piece.bytes = Some((0, size));
                joined.push(Range {
                    bytes: Some((start, size)),
                    pieces: vec![piece],
                });
            }
        }
    }
    joined
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::region::Region;

    fn piece(at: usize) -> Piece {
        Piece {
            sample: at,
            bytes: None,
            tile: Tile {
                index: [0].as_slice().into(),
                part: Region::new(&[0], &[1]),
                at: [0].as_slice().into(),
            },
        }
    }

    proptest! {
        #[test]
        fn joined_ranges_hold_all_and_little_more(
            ranges in prop::collection::vec((0_u64..500, 0_u64..20), 1..20),
            gap in 0_u64..30,
            longest in 0_u64..300,
        ) {
            let found = ranges.iter().enumerate().map(|(at, range)| (*range, piece(at))).collect();
            let joined = join(found, Joins { gap, longest });
            let mut seen = vec![0; ranges.len()];
            for range in &joined {
                let (first, bytes) = range.bytes.expect("a range");
                let mut end = first;
                for piece in &range.pieces {
                    let (start, size) = piece.bytes.expect("a range");
                    prop_assert_eq!((first + start, size), ranges[piece.sample]);
                    prop_assert!(start + size <= bytes);
                    prop_assert!(first + start <= end + gap, "a large gap is read");
                    end = end.max(first + start + size);
                    seen[piece.sample] += 1;
                }
                prop_assert_eq!(end, first + bytes);
                let single = range.pieces.iter().filter_map(|piece| piece.bytes).map(|bytes| bytes.1);
                prop_assert!(bytes <= longest.max(single.max().unwrap_or(0)), "it is too long");
            }
            prop_assert_eq!(seen, vec![1; ranges.len()]);
            for pair in joined.windows(2) {
                let (first, bytes) = pair[0].bytes.expect("a range");
                let (start, _) = pair[1].bytes.expect("a range");
                let size = pair[1].pieces[0].bytes.expect("a range").1;
                let is_long = start + size - first > longest;
                prop_assert!(start > first + bytes + gap || is_long);
            }
        }
    }
}
