// SPDX-License-Identifier: MIT OR Apache-2.0
//! Probes of layouts: for a back-end, the size that chunks of an array are expected to have, before the
//! first of them comes. Chunks whose header does not tell it have it by their shape; of others one
//! header is read for each array. The place of a chunk in a shard that is read whole is not known: such
//! a shard is not asked.

use std::collections::HashMap;

use object_store::GetRange;

use crate::array::{ArrayMeta, Sharding};
use crate::layout::{blocks, HEADER};
use crate::plan::{Object, Plan, Range};
use crate::source::{Ask, Source};
use crate::sync::{lock, Mutex};
use crate::wave::{Decoding, Hint, BACKEND_SUBSTREAMS};

/// The most arrays that are known. Others are probed again.
const MOST: usize = 1 << 16;

/// Substreams of a chunk of each array; `None`: its probe is on its way, or told none.
#[derive(Debug, Default)]
pub(crate) struct Probes {
    known: Mutex<HashMap<String, Option<u32>>>,
}

/// An array of a plan.
struct Touched<'a> {
    array: &'a ArrayMeta,
    chunks: u32,
    /// The object and the first byte of one chunk; `None`: all its shards are read whole.
    first: Option<(&'a Object, u64)>,
}

/// The chunks of a shard, read whole, that samples touch.
fn of_shard(sharding: &Sharding, shard: &Range) -> u64 {
    let all: u64 = sharding.chunks().iter().product();
    let counts = shard.pieces.iter().map(|piece| {
        let tiles = piece.tile.part.tiles(sharding.chunk());
        tiles.count_within(all).unwrap_or(all)
    });
    // Samples share chunks.
    counts.fold(0_u64, u64::saturating_add).min(all)
}

/// The arrays of a plan, and their chunks.
fn touched(plan: &Plan) -> Vec<Touched<'_>> {
    let mut all: Vec<Touched<'_>> = Vec::new();
    let mut places = HashMap::new();
    for object in &plan.objects {
        let array = &*object.array;
        for range in &object.ranges {
            let (chunks, first) = match (range.bytes, array.sharding()) {
                (None, Some(sharding)) => (of_shard(sharding, range), None),
                (bytes, _) => {
                    let chunks = range.pieces.chunk_by(|one, other| one.bytes == other.bytes);
                    let piece = range.pieces.first().and_then(|piece| piece.bytes);
                    let [range, piece] = [bytes, piece].map(|place| place.map_or(0, |(at, _)| at));
                    (chunks.count() as u64, Some(range.saturating_add(piece)))
                }
            };
            let at = *places.entry(array.path()).or_insert_with(|| {
                all.push(Touched {
                    array,
                    chunks: 0,
                    first: None,
                });
                all.len() - 1
            });
            let chunks = u32::try_from(chunks).unwrap_or(u32::MAX);
            all[at].chunks = all[at].chunks.saturating_add(chunks);
            all[at].first = all[at].first.or(first.map(|first| (object, first)));
        }
    }
    all
}

impl Decoding {
    /// Tells the back-end the sizes of the waves that a plan makes. Each array is probed once, by a
    /// request of its own. A probe that fails is no fault: the chunk itself tells more.
    pub async fn probe(&self, source: &Source, plan: &Plan, batch: u64) {
        let Some(backend) = &self.backend else {
            return;
        };
        for Touched {
            array,
            chunks,
            first,
        } in touched(plan)
        {
            let substreams = match array.has_blocks() {
                false => Some(1),
                true => self.probed(source, array, first, batch).await,
            };
            let chunks = chunks.min(u32::try_from(self.waves().chunks()).unwrap_or(u32::MAX));
            let taken = substreams.filter(|count| *count <= BACKEND_SUBSTREAMS);
            if let (Some(substreams), Some(bytes)) = (taken, array.chunk_bytes()) {
                backend.expect(Hint {
                    chunks,
                    substreams,
                    bytes,
                });
            }
        }
    }

    async fn probed(
        &self,
        source: &Source,
        array: &ArrayMeta,
        first: Option<(&Object, u64)>,
        batch: u64,
    ) -> Option<u32> {
        let (object, first) = {
            let mut known = lock(&self.probes.known);
            if let Some(told) = known.get(array.path()) {
                return *told;
            }
            // Another batch may have one.
            let first = first?;
            if known.len() >= MOST {
                known.clear();
            }
            known.insert(array.path().to_owned(), None);
            first
        };
        let range = GetRange::Bounded(first..first.saturating_add(HEADER as u64));
        let ask = Ask {
            range: Some(&range),
            version: object.version.as_deref(),
            size: object.size,
            ..Ask::new(&object.key, HEADER as u64, batch)
        };
        let read = source.read(ask).await;
        let told = read.ok().flatten().and_then(|read| blocks(&read.bytes));
        lock(&self.probes.known).insert(array.path().to_owned(), told);
        told
    }
}
