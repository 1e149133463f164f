// SPDX-License-Identifier: MIT OR Apache-2.0
//! The walk over the samples of a batch. Batches of a stream take room of the caches in their order:
//! a later one that had a part of it could keep it from an earlier one for ever.

use std::sync::Arc;

use super::fetch::given_up;
use super::{Walk, Work, MOST_TILES};
use crate::array::ArrayMeta;
use crate::batch::Ticket;
use crate::cache::{Handle, Look};
use crate::line::Spot;
use crate::region::Tile;
use crate::{Fault, Kind};

impl Work {
    /// Walks over a sample, as far as nothing has to be waited for; a task does the rest.
    pub(super) fn start(self: &Arc<Self>, at: usize, ticket: Ticket, array: Spot, shards: Spot) {
        let known = match array.is_turn() {
            true => self.known(at),
            false => Ok(None),
        };
        match known {
            Ok(Some(found)) => {
                drop(array);
                self.walk(at, found, ticket, shards);
            }
            Err(fault) => ticket.fail(fault),
            Ok(None) => {
                let work = Arc::clone(self);
                self.shared.runtime.spawn(async move {
                    match work.array(at, &ticket, array).await {
                        Ok(found) => work.walk(at, found, ticket, shards),
                        Err(fault) => ticket.fail(fault),
                    }
                });
            }
        }
    }

    /// The array of a sample, if it is in the cache.
    fn known(&self, at: usize) -> Result<Option<(Handle, Arc<ArrayMeta>)>, Fault> {
        let cache = &self.shared.arrays;
        let Some(handle) = cache.ask(&self.samples[at].array, self.ids.arrays, self.number)? else {
            return Ok(None);
        };
        match cache.try_get(handle) {
            Ok(Look::Ready(array)) => Ok(Some((handle, array))),
            Ok(Look::Failed(fault)) => Err(fault),
            Ok(Look::Pending) | Err(_) => Ok(None),
        }
    }

    /// Asks for the shards that a sample touches.
    fn walk(
        self: &Arc<Self>,
        at: usize,
        (entry, array): (Handle, Arc<ArrayMeta>),
        ticket: Ticket,
        spot: Spot,
    ) {
        let sample = &self.samples[at];
        if let Err(fault) = sample.region.check(&sample.array, array.shape()) {
            return ticket.fail(fault);
        }
        let count = sample.region.tiles(array.tile()).count_within(MOST_TILES);
        if count.is_none() {
            let text = format!(
                "a box of {} touches more than {MOST_TILES} objects",
                sample.array
            );
            return ticket.fail(Fault::new(Kind::TooLarge, text));
        }
        let tiles: Vec<_> = sample.region.tiles(array.tile()).collect();
        if array.sharding().is_none() {
            let tiles = tiles.into_iter().map(|tile| (tile, None)).collect();
            let walk = Walk {
                entry,
                array,
                tiles,
            };
            return self.walked(at, walk, ticket);
        }
        let walk = Walk {
            entry,
            array,
            tiles: Vec::with_capacity(tiles.len()),
        };
        if spot.is_turn() {
            return self.ask(at, walk, tiles, ticket, spot);
        }
        let work = Arc::clone(self);
        self.shared.runtime.spawn(async move {
            tokio::select! {
                biased;
                () = ticket.cancelled() => ticket.fail(given_up()),
                () = spot.turn() => work.ask(at, walk, tiles, ticket, spot),
            }
        });
    }

    /// Asks for shards. It is the turn of the batch.
    fn ask(
        self: &Arc<Self>,
        at: usize,
        mut walk: Walk,
        tiles: Vec<Tile>,
        ticket: Ticket,
        spot: Spot,
    ) {
        let mut tiles = tiles.into_iter();
        while let Some(tile) = tiles.next() {
            match self.is_read_whole(&walk, &tile) {
                Ok(true) => {
                    walk.tiles.push((tile, None));
                    continue;
                }
                Ok(false) => {}
                Err(fault) => return ticket.fail(fault),
            }
            match self.known_shard(&walk, &tile, &ticket) {
                Ok(Some(handle)) => walk.tiles.push((tile, Some(handle))),
                Err(fault) => return ticket.fail(fault),
                // There is no room: the rest of the walk waits for some.
                Ok(None) => {
                    let work = Arc::clone(self);
                    let rest = std::iter::once(tile).chain(tiles);
                    self.shared.runtime.spawn(async move {
                        let _spot = spot;
                        for tile in rest {
                            match work.is_read_whole(&walk, &tile) {
                                Ok(true) => {
                                    walk.tiles.push((tile, None));
                                    continue;
                                }
                                Ok(false) => {}
                                Err(fault) => return ticket.fail(fault),
                            }
                            match work.shard_in_time(&walk, &tile, &ticket).await {
                                Ok(handle) => walk.tiles.push((tile, Some(handle))),
                                Err(fault) => return ticket.fail(fault),
                            }
                        }
                        work.walked(at, walk, ticket);
                    });
                    return;
                }
            }
        }
        self.walked(at, walk, ticket);
    }

    fn walked(&self, at: usize, walk: Walk, ticket: Ticket) {
        match self.walks[at].set(walk) {
            Ok(()) => ticket.done(),
            Err(_) => ticket.fail(Fault::new(Kind::Misuse, "a sample was walked over twice")),
        }
    }
}
