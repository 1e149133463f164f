// SPDX-License-Identifier: MIT OR Apache-2.0
//! Arrays: what their metadata says of shards, chunks and codecs, and the indexes of shards. The
//! format is read by `zarrs`; no storage of that is used.

mod v2;

use std::borrow::Cow;
use std::num::NonZeroU64;
use std::sync::Arc;

use object_store::GetRange;
use zarrs::array::codec::{
    ArrayToBytesCodecTraits, CodecChain, CodecOptions, ShardingCodecConfiguration,
    ShardingIndexLocation,
};
use zarrs::array::{
    Array, ArrayMetadata, ArrayShardedExt, BytesRepresentation, ChunkRepresentation, DataType,
    FillValue,
};
use zarrs::metadata::ConfigurationSerialize;

use crate::decode::{self, guarded, Packed, MOST_BYTES, SUBSTREAMS};
use crate::layout::Layout;
use crate::region::{number, Numbers};
use crate::source::Read;
use crate::{Fault, Kind};

/// The number of an index that stands for a chunk that is not there.
const ABSENT: u64 = u64::MAX;

/// The most chunks of a shard: their index has 16 bytes each.
const MOST_CHUNKS: u64 = 1 << 24;

/// An array.
#[derive(Debug)]
pub struct ArrayMeta {
    path: String,
    array: Array<()>,
    tile: Numbers,
    sharding: Option<Sharding>,
}

/// The shards of an array.
#[derive(Debug)]
pub struct Sharding {
    chunk: Numbers,
    chunks: Numbers,
    codecs: Arc<CodecChain>,
    index: CodecChain,
    index_shape: ChunkRepresentation,
    index_bytes: u64,
    is_at_end: bool,
}

fn corrupt(path: &str, error: impl std::fmt::Display) -> Fault {
    Fault::new(Kind::Corrupt, format!("{path}: {error}"))
}

fn lacking(path: &str, text: &str) -> Fault {
    Fault::new(Kind::Unsupported, format!("{path}: {text}"))
}

impl ArrayMeta {
    /// An array by the contents of its `zarr.json`.
    ///
    /// # Errors
    ///
    /// [`Kind::Corrupt`]; [`Kind::Unsupported`]: a grid, codec or data type that cannot be read;
    /// [`Kind::TooLarge`]: a chunk of more than [`MOST_BYTES`].
    pub fn parse_v3(path: &str, json: &[u8]) -> Result<Self, Fault> {
        let metadata = serde_json::from_slice(json).map_err(|error| corrupt(path, error))?;
        guarded(path, || Self::new(path, ArrayMetadata::V3(metadata)))
    }

    /// An array by the contents of its `.zarray`. Attributes are not needed.
    ///
    /// # Errors
    ///
    /// As of [`Self::parse_v3`].
    pub fn parse_v2(path: &str, json: &[u8]) -> Result<Self, Fault> {
        guarded(path, || Self::new(path, v2::described(path, json)?))
    }

    fn new(path: &str, metadata: ArrayMetadata) -> Result<Self, Fault> {
        let place = match path.trim_matches('/') {
            "" => "/".to_owned(),
            path => format!("/{path}"),
        };
        let array = Array::new_with_metadata(Arc::new(()), &place, metadata)
            .map_err(|error| lacking(path, &error.to_string()))?;
        // All grids of version 2 are.
        if let ArrayMetadata::V3(v3) = array.metadata() {
            if v3.chunk_grid.name() != "regular" {
                return Err(lacking(path, "its chunks are not all of one shape"));
            }
            if !v3.storage_transformers.is_empty() {
                return Err(lacking(path, "it has storage transformers"));
            }
        }
        let element = array.data_type().fixed_size().filter(|bytes| *bytes > 0);
        let fill = array.fill_value().size();
        let Some(element) = element.filter(|bytes| *bytes == fill) else {
            return Err(lacking(path, "its elements are not all of one size"));
        };
        let first = vec![0; array.dimensionality()];
        let tile = array.chunk_shape(&first);
        let tile = tile.map_err(|error| corrupt(path, error))?;
        let tile: Numbers = tile.iter().map(|side| side.get()).collect();
        let sharding = match array.is_exclusively_sharded() {
            true => Some(Sharding::new(path, &array, &tile)?),
            false => None,
        };
        let is_bounded = match &sharding {
            Some(sharding) => decode::is_bounded(&sharding.codecs),
            None => decode::is_bounded(&array.codecs()),
        };
        if !is_bounded {
            return Err(lacking(
                path,
                "it has packed chunks in shards within other codecs",
            ));
        }
        let chunk = sharding.as_ref().map_or(&tile[..], Sharding::chunk);
        let mut sides = chunk.iter().copied();
        let bytes = sides.try_fold(element as u64, u64::checked_mul);
        if bytes.is_none_or(|bytes| bytes > MOST_BYTES) {
            let text = format!("{path}: a chunk has more than {MOST_BYTES} bytes");
            return Err(Fault::new(Kind::TooLarge, text));
        }
        Ok(Self {
            path: path.to_owned(),
            array,
            tile,
            sharding,
        })
    }

    /// Its place in the store.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Elements, for each dimension.
    pub fn shape(&self) -> &[u64] {
        self.array.shape()
    }

    /// The shape of its shards, or of its chunks if it has none.
    pub fn tile(&self) -> &[u64] {
        &self.tile
    }

    /// Its shards, unless each chunk is an object.
    pub fn sharding(&self) -> Option<&Sharding> {
        self.sharding.as_ref()
    }

    /// The type of its elements.
    pub fn data_type(&self) -> &DataType {
        self.array.data_type()
    }

    /// Bytes of an element that stands for all that are not there.
    pub fn fill_value(&self) -> &[u8] {
        self.array.fill_value().as_ne_bytes()
    }

    /// The object of a shard, or of a chunk.
    pub fn key(&self, tile: &[u64]) -> String {
        self.array.chunk_key(tile).to_string()
    }

    /// Decodes an object that is one chunk.
    ///
    /// # Errors
    ///
    /// [`Kind::Corrupt`].
    pub fn decode(&self, key: &str, bytes: &[u8]) -> Result<Vec<u8>, Fault> {
        self.decode_by(None, key, Packed::Whole(bytes), SUBSTREAMS)
    }

    /// Decodes a chunk of a shard.
    ///
    /// # Errors
    ///
    /// [`Kind::Corrupt`].
    pub fn decode_inner(&self, key: &str, bytes: &[u8]) -> Result<Vec<u8>, Fault> {
        let sharding = self.sharding.as_ref();
        self.decode_by(sharding, key, Packed::Whole(bytes), SUBSTREAMS)
    }

    /// Decodes a chunk of these shards, or an object that is one, of no more than so many substreams.
    pub(crate) fn decode_by(
        &self,
        shards: Option<&Sharding>,
        key: &str,
        bytes: Packed<'_>,
        substreams: u32,
    ) -> Result<Vec<u8>, Fault> {
        let (codecs, form) = self.form(shards)?;
        guarded(key, || {
            decode::chunk(&codecs, &form, key, bytes, substreams)
        })
    }

    /// The layout of a chunk of these shards, or of an object that is one; `None`: it is not known, or has
    /// more than so many substreams.
    pub(crate) fn layout(
        &self,
        shards: Option<&Sharding>,
        bytes: &[u8],
        substreams: u32,
    ) -> Option<Layout> {
        let (codecs, form) = self.form(shards).ok()?;
        decode::layout(&codecs, &form, bytes, substreams)
    }

    /// Its chunks tell of their substreams by their header, and not by their shape.
    pub(crate) fn has_blocks(&self) -> bool {
        self.form(self.sharding())
            .is_ok_and(|(codecs, _)| decode::has_blocks(&codecs))
    }

    /// Bytes of a chunk, decoded.
    pub(crate) fn chunk_bytes(&self) -> Option<u64> {
        let (_, form) = self.form(self.sharding()).ok()?;
        form.fixed_size().map(|bytes| bytes as u64)
    }

    /// The codecs and the form of a chunk of these shards, or of an object that is one.
    fn form(
        &self,
        shards: Option<&Sharding>,
    ) -> Result<(Arc<CodecChain>, ChunkRepresentation), Fault> {
        let (codecs, shape) = match shards {
            Some(sharding) => (Arc::clone(&sharding.codecs), sharding.chunk()),
            None => (self.array.codecs(), self.tile()),
        };
        let fill = self.array.fill_value().clone();
        let sides = sides(&self.path, shape)?;
        let form = ChunkRepresentation::new(sides, self.data_type().clone(), fill)
            .map_err(|error| corrupt(&self.path, error))?;
        Ok((codecs, form))
    }

    /// A chunk of its elements, packed.
    #[cfg(test)]
    pub(crate) fn encoded(&self, bytes: &[u8]) -> Vec<u8> {
        let (codecs, form) = self.form(self.sharding()).expect("a form");
        let bytes = zarrs::array::ArrayBytes::from(bytes.to_vec());
        let packed = codecs.encode(bytes, &form, &CodecOptions::default());
        packed.expect("memory").into_owned()
    }
}

fn sides(path: &str, shape: &[u64]) -> Result<Vec<NonZeroU64>, Fault> {
    let sides: Option<_> = shape.iter().map(|side| NonZeroU64::new(*side)).collect();
    sides.ok_or_else(|| corrupt(path, "a chunk has a side of 0"))
}

impl Sharding {
    fn new(path: &str, array: &Array<()>, tile: &[u64]) -> Result<Self, Fault> {
        let codecs = array.codecs();
        let configuration = codecs.array_to_bytes_codec().configuration();
        let configuration = configuration.ok_or_else(|| corrupt(path, "shards of no kind"))?;
        let configuration = ShardingCodecConfiguration::try_from_configuration(configuration)
            .map_err(|error| corrupt(path, error))?;
        let ShardingCodecConfiguration::V1(configuration) = configuration else {
            return Err(lacking(path, "shards of another version"));
        };
        let chunk: Numbers = configuration
            .chunk_shape
            .iter()
            .map(|side| side.get())
            .collect();
        if chunk.len() != tile.len() || tile.iter().zip(&chunk).any(|(side, part)| side % part > 0)
        {
            return Err(corrupt(path, "a shard is not a number of whole chunks"));
        }
        let chunks: Numbers = tile
            .iter()
            .zip(&chunk)
            .map(|(side, part)| side / part)
            .collect();
        let count = chunks
            .iter()
            .try_fold(1_u64, |all, part| all.checked_mul(*part));
        if count.is_none_or(|count| count > MOST_CHUNKS) {
            return Err(lacking(path, "a shard has more than 16,777,216 chunks"));
        }
        let error = |error: &dyn std::fmt::Display| corrupt(path, error);
        let inner = CodecChain::from_metadata(&configuration.codecs);
        let index = CodecChain::from_metadata(&configuration.index_codecs);
        let index = index.map_err(|found| error(&found))?;
        let mut index_shape = chunks.clone();
        index_shape.push(2);
        let fill = FillValue::from(ABSENT);
        let form = ChunkRepresentation::new(sides(path, &index_shape)?, DataType::UInt64, fill);
        let index_shape = form.map_err(|found| error(&found))?;
        let encoded = index.encoded_representation(&index_shape);
        let BytesRepresentation::FixedSize(index_bytes) = encoded.map_err(|found| error(&found))?
        else {
            return Err(corrupt(path, "an index of shards has no fixed size"));
        };
        Ok(Self {
            chunk,
            chunks,
            codecs: Arc::new(inner.map_err(|found| error(&found))?),
            index,
            index_shape,
            index_bytes,
            is_at_end: configuration.index_location == ShardingIndexLocation::End,
        })
    }

    /// The shape of a chunk.
    pub fn chunk(&self) -> &[u64] {
        &self.chunk
    }

    /// The chunks of a shard, for each dimension.
    pub fn chunks(&self) -> &[u64] {
        &self.chunks
    }

    /// Bytes of an index, as it is in the store.
    pub fn index_bytes(&self) -> u64 {
        self.index_bytes
    }

    /// The place of the index in a shard.
    pub fn index_range(&self) -> GetRange {
        match self.is_at_end {
            true => GetRange::Suffix(self.index_bytes),
            false => GetRange::Bounded(0..self.index_bytes),
        }
    }

    /// Decodes the index of a shard that was read whole.
    ///
    /// # Errors
    ///
    /// As of [`Self::decode_index`]; [`Kind::Corrupt`]: the shard has another number of bytes.
    pub fn decode_index_of(&self, key: &str, shard: &Read) -> Result<ShardIndex, Fault> {
        let (bytes, most) = (shard.bytes.len(), shard.bytes.len() as u64);
        if shard.size != most {
            let text = format!("{most} bytes of a shard of {}", shard.size);
            return Err(corrupt(key, text));
        }
        let size = self.index_bytes.min(most) as usize;
        let range = match self.is_at_end {
            true => bytes - size..bytes,
            false => 0..size,
        };
        let bytes = shard.bytes.slice(range);
        self.decode_index(
            key,
            Read {
                bytes,
                ..shard.clone()
            },
        )
    }

    /// Decodes an index.
    ///
    /// # Errors
    ///
    /// [`Kind::Corrupt`]: its checksum is wrong, or a chunk is not within the shard.
    pub fn decode_index(&self, key: &str, read: Read) -> Result<ShardIndex, Fault> {
        if read.bytes.len() as u64 != self.index_bytes {
            let (there, expected) = (read.bytes.len(), self.index_bytes);
            return Err(corrupt(
                key,
                format!("an index of {there} bytes, not {expected}"),
            ));
        }
        let decoded = guarded(key, || {
            let bytes = Cow::Borrowed(&read.bytes[..]);
            self.index
                .decode(bytes, &self.index_shape, &CodecOptions::default())
                .and_then(|decoded| decoded.into_fixed())
                .map_err(|error| corrupt(key, error))
        })?;
        let mut ranges = Vec::with_capacity(decoded.len() / 16);
        let number = |bytes: &[u8]| bytes.try_into().map_or(ABSENT, u64::from_ne_bytes);
        for (at, pair) in decoded.chunks_exact(16).enumerate() {
            let (start, size) = (number(&pair[..8]), number(&pair[8..]));
            let is_absent = start == ABSENT && size == ABSENT;
            if !is_absent && start.checked_add(size).is_none_or(|end| end > read.size) {
                let text = format!("chunk {at} at {start} + {size} of {} bytes", read.size);
                return Err(corrupt(key, text));
            }
            ranges.push((start, size));
        }
        Ok(ShardIndex {
            version: read.version,
            size: read.size,
            chunks: self.chunks.clone(),
            ranges: ranges.into(),
        })
    }
}

/// The chunks of a shard that are there.
#[derive(Debug)]
pub struct ShardIndex {
    version: Option<String>,
    size: u64,
    chunks: Numbers,
    ranges: Box<[(u64, u64)]>,
}

impl ShardIndex {
    /// The version of the shard that the index is of.
    pub fn version(&self) -> Option<&str> {
        self.version.as_deref()
    }

    /// Bytes of the shard that the index is of.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// First byte and bytes of a chunk; `None`: it is not there, and is all fill value.
    pub fn range(&self, chunk: &[u64]) -> Option<(u64, u64)> {
        let at = number(chunk, &self.chunks)?;
        let range = *self.ranges.get(usize::try_from(at).ok()?)?;
        (range != (ABSENT, ABSENT)).then_some(range)
    }

    /// Bytes of it in memory.
    pub fn bytes(&self) -> u64 {
        size_of_val(&*self.ranges) as u64
    }
}

#[cfg(test)]
mod tests;
