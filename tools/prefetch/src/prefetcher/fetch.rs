// SPDX-License-Identifier: MIT OR Apache-2.0
//! The reads of each stage. They belong to the caches: a batch that is given up ends its wait, not
//! what others may wait for.

use std::sync::Arc;

use super::{Format, Shard, ShardKey, Shared, Walk, Work};
use crate::array::{ArrayMeta, ShardIndex};
use crate::batch::Ticket;
use crate::cache::{Admission, Flight, Handle, Look};
use crate::line::Spot;
use crate::region::Tile;
use crate::source::{Ask, Turn};
use crate::{whole, Fault, Kind};

/// Bytes that are taken for an array before it is read.
const ARRAY_BYTES: u64 = 4 << 10;

/// A description of an array that is larger is none.
const LARGEST_ARRAY: u64 = 16 << 20;

/// An index of so many bytes or fewer is decoded where it came.
const SMALL_INDEX: u64 = 256 << 10;

/// Told when the turn of a read comes: somebody needs it still.
type IsNeeded<'a> = &'a (dyn Fn() -> bool + Sync);

impl Work {
    /// The array of a sample, waited for.
    pub(super) async fn array(
        &self,
        at: usize,
        ticket: &Ticket,
        spot: Spot,
    ) -> Result<(Handle, Arc<ArrayMeta>), Fault> {
        let shared = &self.shared;
        tokio::select! {
            biased;
            () = ticket.cancelled() => return Err(given_up()),
            () = spot.turn() => {}
        }
        let path = &self.samples[at].array;
        let admitted = shared
            .arrays
            .admitted(path, self.ids.arrays, self.number, ARRAY_BYTES);
        let (handle, flight) = self.in_time(admitted, ticket).await?;
        drop(spot);
        if let Some(flight) = flight {
            let (own, path, number) = (Arc::clone(shared), Arc::clone(path), self.turn);
            let turn = own.source.turn(number);
            shared.runtime.spawn(async move {
                let is_needed = || flight.is_needed();
                match own.read_array(&path, number, turn, &is_needed).await {
                    Ok((array, bytes)) => flight.ready(Arc::new(array), bytes),
                    Err(fault) => flight.fail(fault),
                }
            });
        }
        let settled = tokio::select! {
            biased;
            () = ticket.cancelled() => return Err(given_up()),
            settled = shared.arrays.settled(handle) => settled,
        };
        match settled {
            Ok(Look::Ready(array)) => Ok((handle, array)),
            Ok(Look::Failed(fault)) => Err(fault),
            Ok(Look::Pending) | Err(_) => Err(given_up()),
        }
    }

    /// A shard is read by one request with its data: a box has nearly all of it, and nobody has asked
    /// for its index.
    pub(super) fn is_read_whole(&self, walk: &Walk, tile: &Tile) -> Result<bool, Fault> {
        if !whole::is_whole(&walk.array, tile, self.shared.options.longest_range) {
            return Ok(false);
        }
        let (key, _) = shard(walk, tile);
        let index = self.shared.shards.ask(&key, self.ids.shards, self.number);
        Ok(index?.is_none())
    }

    /// The index of a shard: known, or on its way with a ticket of its own. `None`: there is no room.
    pub(super) fn known_shard(
        &self,
        walk: &Walk,
        tile: &Tile,
        ticket: &Ticket,
    ) -> Result<Option<Handle>, Fault> {
        let (key, bytes) = shard(walk, tile);
        let shards = &self.shared.shards;
        match shards.admit(&key, self.ids.shards, self.number, bytes)? {
            Admission::Found(handle) => self.follow(handle, ticket).map(Some),
            Admission::New(handle, flight) => {
                self.fetch_shard(&walk.array, key, handle, flight, ticket);
                Ok(Some(handle))
            }
            Admission::Again => Ok(None),
        }
    }

    /// As [`Self::known_shard`], waiting for room.
    pub(super) async fn shard_in_time(
        &self,
        walk: &Walk,
        tile: &Tile,
        ticket: &Ticket,
    ) -> Result<Handle, Fault> {
        let (key, bytes) = shard(walk, tile);
        let shards = &self.shared.shards;
        let admitted = shards.admitted(&key, self.ids.shards, self.number, bytes);
        let (handle, flight) = self.in_time(admitted, ticket).await?;
        match flight {
            Some(flight) => self.fetch_shard(&walk.array, key, handle, flight, ticket),
            None => drop(self.follow(handle, ticket)?),
        }
        Ok(handle)
    }

    /// Waits for room, for as long as a batch may. The end of a batch before it can be as far away as
    /// its consumer likes, and makes room.
    async fn in_time<T>(
        &self,
        admitted: impl std::future::Future<Output = Result<T, crate::cache::Refused>>,
        ticket: &Ticket,
    ) -> Result<T, Fault> {
        let longest = self.shared.options.longest_wait;
        let over = async {
            self.batches.is_first(self.number).await;
            tokio::time::sleep(longest).await;
        };
        tokio::select! {
            biased;
            () = ticket.cancelled() => Err(given_up()),
            admitted = admitted => Ok(admitted?),
            () = over => {
                let text = format!("no room for metadata within {longest:?}");
                Err(Fault::new(Kind::Saturated, text))
            }
        }
    }

    fn fetch_shard(
        &self,
        array: &Arc<ArrayMeta>,
        key: ShardKey,
        handle: Handle,
        flight: Flight<ShardKey, Shard>,
        ticket: &Ticket,
    ) {
        let (own, array, number) = (Arc::clone(&self.shared), Arc::clone(array), self.turn);
        let turn = own.source.turn(number);
        self.shared.runtime.spawn(async move {
            let is_needed = || flight.is_needed();
            match own
                .read_shard(&array, &key.1, (number, turn), &is_needed)
                .await
            {
                Ok(Some(index)) => {
                    let bytes = index.bytes();
                    flight.ready(Some(Arc::new(index)), bytes);
                }
                // It may be written later.
                Ok(None) => flight.ready_for_now(None, 0),
                Err(fault) => flight.fail(fault),
            }
        });
        self.wait_for(handle, ticket.split());
    }

    /// Has the batch wait for an entry that others read, unless it is there.
    fn follow(&self, handle: Handle, ticket: &Ticket) -> Result<Handle, Fault> {
        match self.shared.shards.try_get(handle) {
            Ok(Look::Ready(_)) => {}
            Ok(Look::Failed(fault)) => return Err(fault),
            Ok(Look::Pending) => self.wait_for(handle, ticket.split()),
            Err(_) => return Err(given_up()),
        }
        Ok(handle)
    }

    fn wait_for(&self, handle: Handle, ticket: Ticket) {
        let shards = Arc::clone(&self.shared.shards);
        self.shared.runtime.spawn(async move {
            let settled = tokio::select! {
                biased;
                () = ticket.cancelled() => return ticket.fail(given_up()),
                settled = shards.settled(handle) => settled,
            };
            match settled {
                Ok(Look::Ready(_)) => ticket.done(),
                Ok(Look::Failed(fault)) => ticket.fail(fault),
                Ok(Look::Pending) | Err(_) => ticket.fail(given_up()),
            }
        });
    }
}

pub(super) fn given_up() -> Fault {
    Fault::new(Kind::Cancelled, "the batch was given up")
}

/// The name of a shard, and the bytes of its index.
fn shard(walk: &Walk, tile: &Tile) -> (ShardKey, u64) {
    let sharding = walk.array.sharding();
    let bytes = sharding.map_or(0, |sharding| sharding.index_bytes());
    let name = walk.array.key(&tile.index).into();
    ((walk.entry, name), bytes)
}

impl Shared {
    async fn read_array(
        &self,
        path: &str,
        batch: u64,
        turn: Turn,
        is_needed: IsNeeded<'_>,
    ) -> Result<(ArrayMeta, u64), Fault> {
        let mut turn = Some(turn);
        if self.options.consolidated {
            // One who waits for the group is in nobody's way.
            turn = None;
            if let Some(found) = self.array_of_group(path, batch).await? {
                return Ok(found);
            }
        }
        let mut turn = || turn.take().unwrap_or_else(|| self.source.turn(batch));
        let missing = || Fault::new(Kind::Missing, format!("{path}: there is no such array"));
        let format = self.options.format;
        if format != Format::V2 {
            if let Some(json) = self
                .read_description(path, "zarr.json", (batch, turn()), is_needed)
                .await?
            {
                let bytes = json.len() as u64;
                return Ok((ArrayMeta::parse_v3(path, &json)?, bytes));
            }
        }
        if format == Format::V3 {
            return Err(missing());
        }
        let json = self
            .read_description(path, ".zarray", (batch, turn()), is_needed)
            .await?;
        let json = json.ok_or_else(missing)?;
        let bytes = json.len() as u64;
        Ok((ArrayMeta::parse_v2(path, &json)?, bytes))
    }

    async fn read_description(
        &self,
        path: &str,
        name: &str,
        (batch, turn): (u64, Turn),
        is_needed: IsNeeded<'_>,
    ) -> Result<Option<bytes::Bytes>, Fault> {
        let place = match path.trim_matches('/') {
            "" => name.to_owned(),
            path => format!("{path}/{name}"),
        };
        let ask = Ask {
            is_needed: Some(is_needed),
            ..Ask::new(&place, LARGEST_ARRAY, batch)
        };
        Ok(self.source.read_in(ask, turn).await?.map(|read| read.bytes))
    }

    /// The index of a shard. `None`: there is no such shard.
    async fn read_shard(
        &self,
        array: &Arc<ArrayMeta>,
        key: &Arc<str>,
        (batch, turn): (u64, Turn),
        is_needed: IsNeeded<'_>,
    ) -> Result<Option<ShardIndex>, Fault> {
        let Some(sharding) = array.sharding() else {
            return Err(Fault::new(Kind::Misuse, format!("{key}: it has no shards")));
        };
        let ask = Ask {
            range: Some(&sharding.index_range()),
            is_needed: Some(is_needed),
            ..Ask::new(key, sharding.index_bytes(), batch)
        };
        let Some(read) = self.source.read_in(ask, turn).await? else {
            return Ok(None);
        };
        if sharding.index_bytes() <= SMALL_INDEX {
            return sharding.decode_index(key, read).map(Some);
        }
        let (array, key) = (Arc::clone(array), Arc::clone(key));
        let decoded = tokio::task::spawn_blocking(move || {
            let sharding = array.sharding();
            sharding.map(|sharding| sharding.decode_index(&key, read))
        });
        decoded
            .await
            .ok()
            .flatten()
            .unwrap_or_else(|| Err(given_up()))
            .map(Some)
    }
}
