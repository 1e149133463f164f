// SPDX-License-Identifier: MIT OR Apache-2.0
//! Chunks of Blosc: blocks, each of them one stream or one for each byte of an element. Format 2, as
//! c-blosc 1 writes it.

use super::{frame, number, Check, Layout, Method, Piece};

/// Bytes of a header.
pub(crate) const HEADER: usize = 16;

/// Flags of the header.
const SHUFFLED: u8 = 0x01;
const COPIED: u8 = 0x02;
const BITS_SHUFFLED: u8 = 0x04;
const WHOLE_BLOCKS: u8 = 0x10;

/// A block is split if an element has no more bytes, and each split has no fewer.
const MOST_SPLITS: usize = 16;
const LEAST_OF_A_SPLIT: usize = 128;

/// The order of the bytes of elements in each block: first bytes, second bytes and so on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Shuffle {
    element: usize,
    block: usize,
}

impl Shuffle {
    /// The bytes in the order of elements.
    pub(crate) fn undo(self, shuffled: &[u8]) -> Vec<u8> {
        let mut all = vec![0; shuffled.len()];
        for (from, to) in shuffled.chunks(self.block).zip(all.chunks_mut(self.block)) {
            let count = from.len() / self.element;
            for (at, element) in to.chunks_exact_mut(self.element).enumerate() {
                for (byte, place) in element.iter_mut().enumerate() {
                    *place = from[byte * count + at];
                }
            }
            // Elements that a block has not all of stay as they are.
            let whole = count * self.element;
            to[whole..].copy_from_slice(&from[whole..]);
        }
        all
    }
}

/// A header.
struct Header {
    flags: u8,
    element: usize,
    bytes: usize,
    block: usize,
    packed: usize,
}

impl Header {
    fn of(packed: &[u8]) -> Option<Self> {
        let size = |at| usize::try_from(number::<4>(packed, at)?).ok();
        let header = Self {
            flags: *packed.get(2)?,
            element: usize::from(*packed.get(3)?),
            bytes: size(4)?,
            block: size(8)?,
            packed: size(12)?,
        };
        let is_it = packed[0] == 2 && header.element > 0 && (header.block > 0 || header.bytes == 0);
        is_it.then_some(header)
    }

    fn blocks(&self) -> usize {
        match self.bytes {
            0 => 0,
            bytes => bytes.div_ceil(self.block),
        }
    }
}

/// The blocks that a header tells of. `None`: it is none.
pub(crate) fn blocks(packed: &[u8]) -> Option<u32> {
    u32::try_from(Header::of(packed)?.blocks()).ok()
}

/// The layout of a chunk. `None`: another decoder than those of [`Method`] is needed, or it is broken.
pub(super) fn layout(packed: &[u8], bytes: usize) -> Option<Layout> {
    let header = Header::of(packed)?;
    let is_whole = header.bytes == bytes && header.packed == packed.len() && bytes > 0;
    if !is_whole || header.flags & (COPIED | BITS_SHUFFLED) != 0 {
        return None;
    }
    let method = match header.flags >> 5 {
        1 => Method::Lz4,
        4 => Method::Zstd,
        _ => return None,
    };
    let count = header.blocks();
    // Before a place is reserved for them: each has four bytes at least, of its place.
    if HEADER.checked_add(count.checked_mul(4)?)? > packed.len() {
        return None;
    }
    let mut pieces = Vec::with_capacity(count);
    for at in 0..count {
        let first = at * header.block;
        let size = header.block.min(bytes - first);
        let is_split = header.flags & WHOLE_BLOCKS == 0
            && size == header.block
            && header.element <= MOST_SPLITS
            && size / header.element >= LEAST_OF_A_SPLIT;
        let splits = if is_split { header.element } else { 1 };
        let part = size / splits;
        if part * splits != size {
            return None;
        }
        let mut start = usize::try_from(number::<4>(packed, HEADER + 4 * at)?).ok()?;
        for split in 0..splits {
            let length = usize::try_from(number::<4>(packed, start)?).ok()?;
            let from = start + 4..(start + 4).checked_add(length)?;
            let is_raw = length == part;
            let told = packed.get(from.clone())?;
            let is_known = match method {
                Method::Zstd if !is_raw => {
                    let told = frame(told)?;
                    told.bytes == part as u64 && !told.has_checksum
                }
                _ => length > 0,
            };
            if !is_known {
                return None;
            }
            start = from.end;
            let to = first + split * part..first + (split + 1) * part;
            pieces.push(Piece { from, to, is_raw });
        }
    }
    let is_shuffled = header.flags & SHUFFLED != 0 && header.element > 1;
    let shuffle = Shuffle {
        element: header.element,
        block: header.block,
    };
    // INVARIANT: Each was found in the chunk, and begins where the last one has ended.
    Some(Layout {
        method,
        pieces,
        substreams: u32::try_from(count).ok()?,
        bytes,
        check: match is_shuffled {
            true => Check::Shuffle(shuffle),
            false => Check::None,
        },
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;
    use zarrs::array::codec::{Codec, CodecOptions};
    use zarrs::metadata::v3::MetadataV3;

    use super::*;

    fn packed(bytes: &[u8], codec: &str, shuffle: &str, element: usize, block: usize) -> Vec<u8> {
        let configuration = json!({"cname": codec, "clevel": 5, "shuffle": shuffle,
            "typesize": element, "blocksize": block});
        let text = json!({"name": "blosc", "configuration": configuration}).to_string();
        let metadata: MetadataV3 = serde_json::from_str(&text).expect("a codec");
        let Ok(Codec::BytesToBytes(codec)) =
            Codec::from_metadata(&metadata, zarrs::config::global_config().codec_aliases_v3())
        else {
            panic!("no codec");
        };
        let options = CodecOptions::default();
        codec
            .encode(bytes.into(), &options)
            .expect("memory")
            .into_owned()
    }

    /// The elements, by the layout and the decoders of others.
    fn unpacked(packed: &[u8], layout: &Layout) -> Vec<u8> {
        let mut all = vec![0; layout.bytes()];
        for piece in layout.pieces() {
            let (from, to) = (&packed[piece.from.clone()], &mut all[piece.to.clone()]);
            match piece.is_raw {
                true => to.copy_from_slice(from),
                false => {
                    let bytes = zstd::bulk::decompress(from, to.len()).expect("a frame");
                    to.copy_from_slice(&bytes);
                }
            }
        }
        layout.finish(all).expect("no checksum")
    }

    fn elements(count: usize) -> Vec<u8> {
        (0..count)
            .flat_map(|at| ((at / 3) as u32).to_le_bytes())
            .collect()
    }

    proptest! {
        #[test]
        fn chunks_are_as_written(
            count in 40_usize..20_000,
            element in 1_usize..9,
            block in prop::sample::select(vec![0_usize, 512, 4_096, 10_000]),
            is_shuffled in any::<bool>(),
        ) {
            let bytes = elements(count);
            let shuffle = if is_shuffled { "shuffle" } else { "noshuffle" };
            let packed = packed(&bytes, "zstd", shuffle, element, block);
            prop_assert!(blocks(&packed).expect("a header") > 0);
            // Bytes that cannot be packed are copied as they are.
            if packed[2] & COPIED == 0 {
                let layout = layout(&packed, bytes.len()).expect("a layout");
                prop_assert_eq!(layout.substreams(), blocks(&packed).expect("a header"));
                prop_assert_eq!(unpacked(&packed, &layout), bytes);
            }
        }

        #[test]
        fn broken_chunks_break_nothing(
            at in 0_usize..200, value in any::<u8>(), end in 0_usize..4_000,
        ) {
            let bytes = elements(4_000);
            let mut packed = packed(&bytes, "zstd", "shuffle", 4, 2_048);
            packed[at] = value;
            packed.truncate(end.max(at + 1));
            if let Some(layout) = layout(&packed, bytes.len()) {
                for piece in layout.pieces() {
                    prop_assert!(piece.from.end <= packed.len() && piece.to.end <= bytes.len());
                }
            }
        }
    }

    #[test]
    fn others_have_no_layout() {
        let bytes = elements(4_000);
        for (codec, shuffle) in [
            ("zstd", "bitshuffle"),
            ("blosclz", "shuffle"),
            ("zlib", "noshuffle"),
        ] {
            let packed = packed(&bytes, codec, shuffle, 4, 0);
            assert_eq!(layout(&packed, bytes.len()), None, "{codec} {shuffle}");
        }
        let lz4 = packed(&bytes, "lz4", "shuffle", 4, 0);
        let found = layout(&lz4, bytes.len()).expect("a layout");
        assert_eq!(found.method(), Method::Lz4);
        assert_eq!(layout(&lz4, bytes.len() - 1), None);
        assert_eq!(layout(&lz4[..lz4.len() - 1], bytes.len()), None);
        assert_eq!(layout(&[], 0), None);
        // A header of 2^30 blocks asks for no memory.
        let mut lying = lz4.clone();
        lying[8..12].copy_from_slice(&1_u32.to_le_bytes());
        assert_eq!(layout(&lying, bytes.len()), None);
        assert_eq!(blocks(&lying), Some(bytes.len() as u32));
        lying[8..12].copy_from_slice(&0_u32.to_le_bytes());
        assert_eq!(blocks(&lying), None);
    }
}
