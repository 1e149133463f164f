// SPDX-License-Identifier: MIT OR Apache-2.0
//! The layout of a packed chunk, as its header tells it: the pieces that a batched decoder unpacks, and
//! the bytes of each. A header that tells less has no layout, and its chunk is decoded as a whole.

mod blosc;

use std::ops::Range;

use blosc::Shuffle;
pub(crate) use blosc::{blocks, HEADER};

/// The packing of a piece.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Method {
    /// A frame of Zstandard.
    Zstd,
    /// A member of gzip.
    Gzip,
    /// A block of LZ4, without a frame.
    Lz4,
}

impl Method {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Zstd, Self::Gzip, Self::Lz4];
}

/// A piece of a chunk, which is unpacked by itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Piece {
    /// Its bytes in the packed chunk.
    pub from: Range<usize>,
    /// Its bytes in the unpacked one. Pieces follow each other without a gap.
    pub to: Range<usize>,
    /// It is not packed.
    pub is_raw: bool,
}

/// The layout of a packed chunk.
///
/// # Invariants
///
/// Pieces lie within the packed chunk, and fill the unpacked one in their order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    method: Method,
    pieces: Vec<Piece>,
    substreams: u32,
    bytes: usize,
    check: Check,
}

/// A step behind unpacking.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Check {
    None,
    /// The checksum of what was packed.
    Crc32(u32),
    /// The bytes of elements are in another order.
    Shuffle(Shuffle),
}

impl Layout {
    /// The layout of a chunk that `codec` has packed, and that has `bytes` bytes unpacked. `None`: it
    /// is not known, or has a checksum that a batched decoder does not look at.
    pub(crate) fn of(codec: &str, packed: &[u8], bytes: u64) -> Option<Self> {
        let bytes = usize::try_from(bytes).ok()?;
        match codec {
            "zstd" => {
                let told = frame(packed)?;
                let is_it = told.bytes == bytes as u64 && !told.has_checksum;
                is_it.then(|| Self::whole(Method::Zstd, packed, bytes, Check::None))
            }
            "gzip" => {
                let (sum, told) = member(packed)?;
                let is_it = told == bytes as u64 && u32::try_from(bytes).is_ok();
                is_it.then(|| Self::whole(Method::Gzip, packed, bytes, Check::Crc32(sum)))
            }
            "blosc" => blosc::layout(packed, bytes),
            _ => None,
        }
    }

    fn whole(method: Method, packed: &[u8], bytes: usize, check: Check) -> Self {
        // INVARIANT: One piece is all of it.
        Self {
            method,
            pieces: vec![Piece {
                from: 0..packed.len(),
                to: 0..bytes,
                is_raw: false,
            }],
            substreams: 1,
            bytes,
            check,
        }
    }

    /// The packing of its pieces.
    pub fn method(&self) -> Method {
        self.method
    }

    /// Its pieces.
    pub fn pieces(&self) -> &[Piece] {
        &self.pieces
    }

    /// Blocks of Blosc, each of one or more pieces; 1 for other packings.
    pub fn substreams(&self) -> u32 {
        self.substreams
    }

    /// Bytes of the unpacked chunk.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The chunk, of all its pieces unpacked. `None`: its checksum is another.
    pub(crate) fn finish(&self, unpacked: Vec<u8>) -> Option<Vec<u8>> {
        match self.check {
            Check::None => Some(unpacked),
            Check::Crc32(sum) => {
                let mut found = flate2::Crc::new();
                found.update(&unpacked);
                (found.sum() == sum).then_some(unpacked)
            }
            Check::Shuffle(shuffle) => Some(shuffle.undo(&unpacked)),
        }
    }
}

/// A number of little end at a place.
fn number<const N: usize>(bytes: &[u8], at: usize) -> Option<u64> {
    let found = bytes.get(at..at.checked_add(N)?)?;
    let mut wide = [0; 8];
    wide[..N].copy_from_slice(found);
    Some(u64::from_le_bytes(wide))
}

/// The header of a frame of Zstandard (RFC 8878, 3.1.1.1).
struct Frame {
    bytes: u64,
    has_checksum: bool,
}

/// `None`: there is none, or it does not tell its size, takes a dictionary, or is of no known form.
fn frame(packed: &[u8]) -> Option<Frame> {
    if number::<4>(packed, 0)? != 0xfd2f_b528 {
        return None;
    }
    let flags = *packed.get(4)?;
    let is_single = flags & 0x20 != 0;
    // A dictionary, or a bit that no frame has set.
    if flags & 0x0b != 0 {
        return None;
    }
    let at = 5 + usize::from(!is_single);
    let bytes = match flags >> 6 {
        0 if is_single => number::<1>(packed, at)?,
        0 => return None,
        1 => number::<2>(packed, at)? + 256,
        2 => number::<4>(packed, at)?,
        _ => number::<8>(packed, at)?,
    };
    Some(Frame {
        bytes,
        has_checksum: flags & 0x04 != 0,
    })
}

/// The checksum and the size at the end of a member of gzip (RFC 1952, 2.3.1).
fn member(packed: &[u8]) -> Option<(u32, u64)> {
    // Ten bytes of a header, two or more of data, eight behind it.
    if packed.len() < 20 || packed[..3] != [0x1f, 0x8b, 8] {
        return None;
    }
    let end = packed.len() - 8;
    let sum = u32::try_from(number::<4>(packed, end)?).ok()?;
    Some((sum, number::<4>(packed, end + 4)?))
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;

    fn compressed(bytes: &[u8], checksum: bool, size: bool) -> Vec<u8> {
        let mut packer = zstd::bulk::Compressor::new(1).expect("memory");
        packer.include_checksum(checksum).expect("an option");
        packer.include_contentsize(size).expect("an option");
        packer.compress(bytes).expect("memory")
    }

    #[test]
    fn a_frame_tells_its_size() {
        for count in [1, 255, 256, 300, 65_535, 65_536 + 256, 1 << 20] {
            let packed = compressed(&vec![7; count], false, true);
            let layout = Layout::of("zstd", &packed, count as u64).expect("it is told");
            assert_eq!((layout.substreams(), layout.bytes()), (1, count));
            assert_eq!(layout.method(), Method::Zstd);
            assert_eq!(layout.pieces()[0].from, 0..packed.len());
            assert_eq!(Layout::of("zstd", &packed, count as u64 + 1), None);
        }
    }

    #[test]
    fn frames_that_tell_less_have_no_layout() {
        let bytes = vec![7; 1_000];
        assert_eq!(
            Layout::of("zstd", &compressed(&bytes, true, true), 1_000),
            None
        );
        assert_eq!(
            Layout::of("zstd", &compressed(&bytes, false, false), 1_000),
            None
        );
        let packed = compressed(&bytes, false, true);
        for end in 0..7 {
            assert_eq!(Layout::of("zstd", &packed[..end], 1_000), None, "{end}");
        }
        for flag in [1, 2, 8] {
            let mut flagged = packed.clone();
            flagged[4] |= flag;
            assert_eq!(Layout::of("zstd", &flagged, 1_000), None, "{flag}");
        }
        let mut other = packed.clone();
        other[0] ^= 1;
        assert_eq!(Layout::of("zstd", &other, 1_000), None);
        assert_eq!(Layout::of("crc32c", &packed, 1_000), None);
    }

    #[test]
    fn a_member_is_checked() {
        let bytes = vec![7; 1_000];
        let mut packed = Vec::new();
        let mut encoder = flate2::read::GzEncoder::new(&bytes[..], flate2::Compression::fast());
        encoder.read_to_end(&mut packed).expect("memory");
        let layout = Layout::of("gzip", &packed, 1_000).expect("it is told");
        assert_eq!((layout.method(), layout.substreams()), (Method::Gzip, 1));
        assert_eq!(layout.finish(bytes.clone()), Some(bytes.clone()));
        assert_eq!(layout.finish(vec![8; 1_000]), None);
        assert_eq!(Layout::of("gzip", &packed, 999), None);
        for end in [0, 3, 19] {
            assert_eq!(Layout::of("gzip", &packed[..end], 1_000), None);
        }
        packed[2] = 7;
        assert_eq!(Layout::of("gzip", &packed, 1_000), None);
    }
}
