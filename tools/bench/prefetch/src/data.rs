// SPDX-License-Identifier: MIT OR Apache-2.0
//! The data sets that are read, and the samples of each pattern.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context as _, Result};
use rand::{Rng as _, RngCore as _};
use rand_chacha::rand_core::SeedableRng as _;
use rand_chacha::ChaCha8Rng;
use zarrs::array::codec::array_to_bytes::sharding::ShardingCodecBuilder;
use zarrs::array::codec::ZstdCodec;
use zarrs::array::{ArrayBuilder, DataType, FillValue};
use zarrs::array_subset::ArraySubset;
use zarrs::filesystem::FilesystemStore;

/// A pattern of samples.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum, serde::Serialize, serde::Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub enum Pattern {
    /// Boxes of 32 x 32 x 32 anywhere in 512 shards of 64 chunks.
    Boxes,
    /// Whole shards of 2 MiB.
    Shards,
    /// 1,024 arrays of one chunk.
    Arrays,
    /// Boxes of 16 x 16 in an array of 1,000,000 chunks.
    Million,
}

/// A sample: array, first element and shape.
pub type Sample = (String, Vec<u64>, Vec<u64>);

const VOLUME: [u64; 3] = [2_048, 1_024, 512];
const SHARD: u64 = 128;
const PLANE: u64 = 8_000;
const ARRAYS: u64 = 1_024;

impl Pattern {
    /// The batches of an epoch, of so many samples.
    pub fn epoch(self, epoch: u64, batches: u64, batch: u64) -> Vec<Vec<Sample>> {
        let mut random = ChaCha8Rng::seed_from_u64(epoch);
        let mut at = 0;
        let mut sample = || {
            at += 1;
            self.sample(&mut random, at + epoch * 7)
        };
        (0..batches)
            .map(|_| (0..batch).map(|_| sample()).collect())
            .collect()
    }

    fn sample(self, random: &mut ChaCha8Rng, number: u64) -> Sample {
        let (name, sides, shape): (_, &[u64], _) = match self {
            Self::Boxes => ("volume", &VOLUME, vec![32; 3]),
            // Each shard once at the most; the next epoch has most of them again.
            Self::Shards => {
                let at = number * 389 % 512;
                let place = [at / 32 % 16, at / 4 % 8, at % 4].map(|place| place * SHARD);
                return ("volume".to_owned(), place.to_vec(), vec![SHARD; 3]);
            }
            Self::Million => ("plane", &[PLANE; 2], vec![16; 2]),
            // Each array once, in an order without a pattern.
            Self::Arrays => {
                let at = number * 389 % ARRAYS;
                return (format!("small/{at}"), vec![0, 0], vec![32, 32]);
            }
        };
        let pick = |(side, length): (&u64, &u64)| random.random_range(0..=side - length);
        let start = sides.iter().zip(&shape).map(pick).collect();
        (name.to_owned(), start, shape)
    }
}

/// Bytes of four values, so that a packer finds something to do.
fn noise(random: &mut ChaCha8Rng, count: u64) -> Vec<u8> {
    let mut bytes = vec![0; count as usize];
    random.fill_bytes(&mut bytes);
    bytes.iter_mut().for_each(|byte| *byte &= 3);
    bytes
}

/// Writes all data sets into a folder: 1.1 GiB, packed 420 MiB.
///
/// # Errors
///
/// The folder cannot be written.
pub fn write(folder: &Path) -> Result<()> {
    std::fs::create_dir_all(folder)?;
    let store = Arc::new(FilesystemStore::new(folder)?);
    let zstd = || Arc::new(ZstdCodec::new(1, false));
    let mut random = ChaCha8Rng::seed_from_u64(1);

    let mut codec = ShardingCodecBuilder::new(vec![32; 3].try_into()?);
    codec.bytes_to_bytes_codecs(vec![zstd()]);
    let array = ArrayBuilder::new(
        VOLUME.to_vec(),
        vec![SHARD; 3],
        DataType::UInt8,
        FillValue::from(0_u8),
    )
    .array_to_bytes_codec(codec.build_arc())
    .build(Arc::clone(&store), "/volume")?;
    array.store_metadata()?;
    let shards = VOLUME.map(|side| side / SHARD);
    for at in 0..shards.iter().product() {
        let place = [
            at / shards[2] / shards[1],
            at / shards[2] % shards[1],
            at % shards[2],
        ];
        array.store_chunk(&place, noise(&mut random, SHARD.pow(3)))?;
    }

    let codec = ShardingCodecBuilder::new(vec![8; 2].try_into()?).build_arc();
    let plane = ArrayBuilder::new(
        vec![PLANE; 2],
        vec![800; 2],
        DataType::UInt8,
        FillValue::from(0_u8),
    )
    .array_to_bytes_codec(codec)
    .build(Arc::clone(&store), "/plane")?;
    plane.store_metadata()?;
    for at in 0..100 {
        plane.store_chunk(&[at / 10, at % 10], noise(&mut random, 800 * 800))?;
    }

    for at in 0..ARRAYS {
        let small = ArrayBuilder::new(
            vec![32; 2],
            vec![32; 2],
            DataType::UInt8,
            FillValue::from(0_u8),
        )
        .bytes_to_bytes_codecs(vec![zstd()])
        .build(Arc::clone(&store), &format!("/small/{at}"))?;
        small.store_metadata()?;
        let whole = ArraySubset::new_with_shape(vec![32; 2]);
        small
            .store_array_subset(&whole, noise(&mut random, 32 * 32))
            .with_context(|| format!("small/{at}"))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_within_their_arrays() {
        for (pattern, sides) in [
            (Pattern::Boxes, &VOLUME[..]),
            (Pattern::Shards, &VOLUME),
            (Pattern::Million, &[PLANE; 2]),
            (Pattern::Arrays, &[32; 2]),
        ] {
            let epochs = [0, 1].map(|epoch| pattern.epoch(epoch, 64, 16));
            assert_ne!(epochs[0], epochs[1]);
            assert_eq!(epochs[0], pattern.epoch(0, 64, 16));
            for (_, start, shape) in epochs.iter().flatten().flatten() {
                assert_eq!((start.len(), shape.len()), (sides.len(), sides.len()));
                let mut ends = start.iter().zip(shape).map(|(at, length)| at + length);
                assert!(sides
                    .iter()
                    .all(|side| ends.next().is_some_and(|end| end <= *side)));
            }
        }
        let mut names: Vec<_> = Pattern::Arrays
            .epoch(1, 64, 16)
            .into_iter()
            .flatten()
            .collect();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), 1_024, "an array twice");
    }
}
