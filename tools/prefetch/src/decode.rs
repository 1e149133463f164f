// SPDX-License-Identifier: MIT OR Apache-2.0
//! Decodes chunks, by the codecs of `zarrs`, within the bytes that their shape allows: what a frame
//! says of its size is not believed.

use std::borrow::Cow;
use std::cell::RefCell;
use std::io::Read as _;
use std::panic::{catch_unwind, AssertUnwindSafe};

use zarrs::array::codec::{BytesToBytesCodecTraits, CodecChain, CodecOptions};
use zarrs::array::{BytesRepresentation, ChunkRepresentation};
use zstd::bulk::Decompressor;

use crate::layout::{self, Layout};
use crate::{Fault, Kind};

/// The most bytes of a chunk, decoded.
pub const MOST_BYTES: u64 = 2 << 30;

fn corrupt(key: &str, error: impl std::fmt::Display) -> Fault {
    Fault::new(Kind::Corrupt, format!("{key}: {error}"))
}

/// Runs a decoder of others. One that panics is a fault of what it was to decode.
pub(crate) fn guarded<T>(
    key: &str,
    decoder: impl FnOnce() -> Result<T, Fault>,
) -> Result<T, Fault> {
    let decoded = catch_unwind(AssertUnwindSafe(decoder));
    decoded.unwrap_or_else(|_| Err(corrupt(key, "its decoder broke off")))
}

/// The codecs that a frame of unknown size is decoded by.
const PACKERS: [&str; 3] = ["blosc", "gzip", "zstd"];

/// No chunk within a chunk is packed: those are decoded by `zarrs`, which has no bound.
pub(crate) fn is_bounded(codecs: &CodecChain) -> bool {
    let codec = codecs.array_to_bytes_codec();
    let within = codec
        .configuration()
        .and_then(|all| serde_json::to_string(&all).ok());
    let within = within.unwrap_or_default();
    !PACKERS
        .iter()
        .any(|name| within.contains(&format!("{name}\"")))
}

/// The most substreams of a chunk that are decoded on the CPU, unless another bound is given.
pub(crate) const SUBSTREAMS: u32 = 4_096;

/// Bytes of a chunk.
pub(crate) enum Packed<'a> {
    /// As the store has them.
    Whole(&'a [u8]),
    /// The outermost codec was undone.
    Undone(Vec<u8>),
}

/// The form of a chunk before each of its codecs.
struct Forms {
    arrays: Vec<ChunkRepresentation>,
    /// Before each codec that packs bytes, and behind the last one.
    bytes: Vec<BytesRepresentation>,
}

impl Forms {
    fn of(codecs: &CodecChain, form: &ChunkRepresentation, key: &str) -> Result<Self, Fault> {
        let error = |error: &dyn std::fmt::Display| corrupt(key, error);
        let mut arrays = vec![form.clone()];
        for codec in codecs.array_to_array_codecs() {
            let next = codec.encoded_representation(&arrays[arrays.len() - 1]);
            arrays.push(next.map_err(|found| error(&found))?);
        }
        let flat = codecs
            .array_to_bytes_codec()
            .encoded_representation(&arrays[arrays.len() - 1]);
        let mut bytes = vec![flat.map_err(|found| error(&found))?];
        for codec in codecs.bytes_to_bytes_codecs() {
            bytes.push(codec.encoded_representation(&bytes[bytes.len() - 1]));
        }
        Ok(Self { arrays, bytes })
    }
}

/// The layout of a chunk of no more than `substreams` substreams, by its outermost codec. `None`: it is not
/// known, or has more, and takes no memory then.
pub(crate) fn layout(
    codecs: &CodecChain,
    form: &ChunkRepresentation,
    packed: &[u8],
    substreams: u32,
) -> Option<Layout> {
    let outermost = codecs.bytes_to_bytes_codecs().last()?;
    if has_blocks(codecs) && layout::blocks(packed)? > substreams {
        return None;
    }
    let forms = Forms::of(codecs, form, "").ok()?;
    match forms.bytes[forms.bytes.len() - 2] {
        BytesRepresentation::FixedSize(bytes) => {
            Layout::of(outermost.codec().identifier(), packed, bytes)
        }
        _ => None,
    }
}

/// The outermost codec is one whose chunks tell their substreams by a header alone.
pub(crate) fn has_blocks(codecs: &CodecChain) -> bool {
    let outermost = codecs.bytes_to_bytes_codecs().last();
    outermost.is_some_and(|codec| codec.codec().identifier() == "blosc")
}

/// Decodes a chunk of no more than `substreams` substreams.
pub(crate) fn chunk(
    codecs: &CodecChain,
    form: &ChunkRepresentation,
    key: &str,
    bytes: Packed<'_>,
    substreams: u32,
) -> Result<Vec<u8>, Fault> {
    let error = |error: &dyn std::fmt::Display| corrupt(key, error);
    let options = CodecOptions::default();
    let forms = Forms::of(codecs, form, key)?;
    let (mut bytes, undone) = match bytes {
        Packed::Whole(bytes) => (Cow::Borrowed(bytes), 0),
        Packed::Undone(bytes) => (Cow::Owned(bytes), 1),
    };
    let packed = codecs.bytes_to_bytes_codecs().iter();
    for (codec, size) in packed.zip(&forms.bytes).rev().skip(undone) {
        bytes = unpacked(codec.codec().as_ref(), bytes, size, key, substreams)?;
    }
    let last = &forms.arrays[forms.arrays.len() - 1];
    let mut decoded = codecs
        .array_to_bytes_codec()
        .decode(bytes, last, &options)
        .map_err(|found| error(&found))?;
    let codecs = codecs.array_to_array_codecs().iter();
    for (codec, form) in codecs.zip(&forms.arrays).rev() {
        decoded = codec
            .decode(decoded, form, &options)
            .map_err(|found| error(&found))?;
    }
    decoded
        .validate(form.num_elements(), form.data_type().size())
        .map_err(|found| error(&found))?;
    let fixed = decoded.into_fixed().map_err(|found| error(&found))?;
    Ok(fixed.into_owned())
}

/// Unpacks a frame of zstd by a decompressor that the thread keeps: a new one costs as much as a small
/// chunk.
fn zstd_of(bytes: &[u8], most: usize) -> std::io::Result<Vec<u8>> {
    thread_local! {
        static KEPT: RefCell<Option<Decompressor<'static>>> = const { RefCell::new(None) };
    }
    KEPT.with_borrow_mut(|kept| {
        let decompressor = match kept {
            Some(decompressor) => decompressor,
            None => kept.insert(Decompressor::new()?),
        };
        decompressor.decompress(bytes, most)
    })
}

/// Undoes one packing of bytes, within its size.
fn unpacked<'a>(
    codec: &dyn BytesToBytesCodecTraits,
    bytes: Cow<'a, [u8]>,
    size: &BytesRepresentation,
    key: &str,
    substreams: u32,
) -> Result<Cow<'a, [u8]>, Fault> {
    let most = size.size().unwrap_or(MOST_BYTES).min(2 * MOST_BYTES);
    match codec.identifier() {
        // It has the room that it is given, and fails for more.
        "zstd" => zstd_of(&bytes, most as usize)
            .map(Cow::Owned)
            .map_err(|error| corrupt(key, error)),
        "gzip" => {
            let mut unpacked = Vec::new();
            let mut packed = flate2::read::GzDecoder::new(&bytes[..]).take(most + 1);
            let read = packed.read_to_end(&mut unpacked);
            match read.map_err(|error| corrupt(key, error))? as u64 <= most {
                true => Ok(Cow::Owned(unpacked)),
                false => Err(corrupt(key, format!("more than {most} bytes are packed"))),
            }
        }
        name => {
            // Bytes 4 to 7 of a header of Blosc are the number of bytes in it.
            let told = bytes.get(4..8).and_then(|told| told.try_into().ok());
            let told = told.map_or(0, |told| u64::from(u32::from_le_bytes(told)));
            if name == "blosc" && told > most {
                let text = format!("it tells of {told} bytes, and {most} fit");
                return Err(corrupt(key, text));
            }
            let blocks = match name {
                "blosc" => layout::blocks(&bytes).unwrap_or(0),
                _ => 0,
            };
            if blocks > substreams {
                let text =
                    format!("{key}: a chunk of {blocks} substreams, of {substreams} at most");
                return Err(Fault::new(Kind::TooLarge, text));
            }
            codec
                .decode(bytes, size, &CodecOptions::default())
                .map_err(|error| corrupt(key, error))
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{json, Value};

    use super::*;
    use crate::array::ArrayMeta;

    /// An array of 4 numbers of 2 bytes in a chunk, with a codec that packs it.
    fn array(codec: Value) -> ArrayMeta {
        let json = json!({
            "zarr_format": 3,
            "node_type": "array",
            "shape": [4],
            "data_type": "uint16",
            "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [4]}},
            "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
            "fill_value": 7,
            "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}, codec],
        });
        ArrayMeta::parse_v3("a", json.to_string().as_bytes()).expect("an array")
    }

    fn zstd() -> ArrayMeta {
        array(json!({"name": "zstd", "configuration": {"level": 1, "checksum": false}}))
    }

    fn gzip() -> ArrayMeta {
        array(json!({"name": "gzip", "configuration": {"level": 1}}))
    }

    fn gzipped(bytes: &[u8]) -> Vec<u8> {
        let mut packed = Vec::new();
        let level = flate2::Compression::fast();
        let mut encoder = flate2::read::GzEncoder::new(bytes, level);
        encoder.read_to_end(&mut packed).expect("memory");
        packed
    }

    #[test]
    fn what_is_packed_is_as_written() {
        let bytes: Vec<u8> = (0..4_u16).flat_map(u16::to_ne_bytes).collect();
        let packed = zstd::bulk::compress(&bytes, 1).expect("memory");
        assert_eq!(zstd().decode("k", &packed), Ok(bytes.clone()));
        assert_eq!(gzip().decode("k", &gzipped(&bytes)), Ok(bytes));
    }

    #[test]
    fn a_frame_that_tells_of_more_than_fits_is_corrupt() {
        // Magic number, a size of 8 bytes, 2^46, and one empty last block.
        let mut frame = vec![0x28, 0xb5, 0x2f, 0xfd, 0xe0];
        frame.extend((1_u64 << 46).to_le_bytes());
        frame.extend([1, 0, 0]);
        let more = zstd::bulk::compress(&[0; 9], 1).expect("memory");
        let less = zstd::bulk::compress(&[0; 7], 1).expect("memory");
        for packed in [frame, more, less] {
            let fault = zstd().decode("k", &packed).expect_err("it lies");
            assert_eq!(fault.kind(), Kind::Corrupt, "{fault}");
        }
        for count in [7, 9, 1 << 20] {
            let fault = gzip().decode("k", &gzipped(&vec![0; count]));
            assert_eq!(fault.expect_err("it lies").kind(), Kind::Corrupt);
        }
        let fault = gzip().decode("k", &gzipped(&[0; 9])).expect_err("it lies");
        assert!(fault.text().contains("more than 8 bytes"), "{fault}");
    }

    #[test]
    fn a_header_of_blosc_that_tells_of_more_than_fits_is_corrupt() {
        let blosc = array(json!({"name": "blosc", "configuration": {
            "cname": "lz4", "clevel": 5, "shuffle": "noshuffle", "blocksize": 0}}));
        // Not packed: version 2 of the format, flags, one byte for each, and sizes.
        let header = |bytes: u32| {
            let mut header = vec![2, 1, 0x02, 1];
            for number in [bytes, bytes.min(1 << 20), 16 + 8] {
                header.extend(number.to_le_bytes());
            }
            [header, vec![5; 8]].concat()
        };
        assert_eq!(blosc.decode("k", &header(8)), Ok(vec![5; 8]));
        let fault = blosc.decode("k", &header(1 << 30)).expect_err("it lies");
        assert_eq!(fault.kind(), Kind::Corrupt);
        assert!(fault.text().contains("1073741824 bytes"), "{fault}");
    }

    #[test]
    fn a_chunk_of_more_substreams_than_the_bound_is_named() {
        let codec = json!({"name": "blosc", "configuration": {
            "cname": "zstd", "clevel": 5, "shuffle": "noshuffle", "blocksize": 128}});
        let json = json!({
            "zarr_format": 3, "node_type": "array", "shape": [4096], "data_type": "uint8",
            "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [4096]}},
            "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
            "fill_value": 0, "codecs": [{"name": "bytes"}, codec],
        });
        let array = ArrayMeta::parse_v3("a", json.to_string().as_bytes()).expect("an array");
        let bytes = vec![3; 4_096];
        let packed = array.encoded(&bytes);
        let blocks = layout::blocks(&packed).expect("a header");
        assert_eq!(blocks, 32);
        let layout = |most| array.layout(None, &packed, most);
        assert_eq!(
            layout(blocks).map(|layout| layout.substreams()),
            Some(blocks)
        );
        assert_eq!(layout(blocks - 1), None);
        let decode = |most| array.decode_by(None, "k", Packed::Whole(&packed), most);
        assert_eq!(decode(blocks), Ok(bytes.clone()));
        assert_eq!(array.decode("k", &packed), Ok(bytes));
        let fault = decode(blocks - 1).expect_err("too many");
        assert_eq!(fault.kind(), Kind::TooLarge);
        assert_eq!(fault.text(), "k: a chunk of 32 substreams, of 31 at most");
    }

    #[test]
    fn a_decoder_that_panics_is_a_fault() {
        let fault = guarded("k", || -> Result<(), Fault> { panic!("of a codec") });
        assert_eq!(fault.expect_err("a panic").kind(), Kind::Corrupt);
        assert_eq!(guarded("k", || Ok(1)), Ok(1));
    }
}
