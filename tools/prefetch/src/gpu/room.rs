// SPDX-License-Identifier: MIT OR Apache-2.0
//! The places of a wave in memory of the GPU: arrays of addresses and sizes, results, packed pieces,
//! temporary memory, unpacked pieces.

use std::ops::Range;

/// Parts begin at multiples of this. No format takes more than 8.
const STEP: usize = 256;
/// Pieces begin at multiples of this.
const PIECE: usize = 16;

/// The status of a piece that the GPU has not looked at.
const UNKNOWN: [u8; 4] = [0xff; 4];

/// A packed piece.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Part<'a> {
    pub(crate) bytes: &'a [u8],
    /// Its bytes, unpacked.
    pub(crate) room: usize,
}

/// First bytes of arrays with a number for each piece.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Arrays {
    /// Addresses of packed pieces.
    pub(crate) from: usize,
    pub(crate) from_bytes: usize,
    /// Bytes that may come out.
    pub(crate) room: usize,
    /// Addresses of unpacked pieces.
    pub(crate) to: usize,
    /// Bytes that came out.
    pub(crate) found: usize,
    /// Statuses, of four bytes.
    pub(crate) status: usize,
}

/// The places of a wave.
///
/// # Invariants
///
/// All are within the first `bytes` bytes, and apart from each other. Arrays have a number for each piece.
#[derive(Debug)]
pub(crate) struct Room {
    arrays: Arrays,
    packed: Vec<Range<usize>>,
    temporary: Range<usize>,
    unpacked: Vec<Range<usize>>,
    bytes: usize,
}

/// Takes places, one behind the other. `None`: no number is so large.
struct Cursor(usize);

impl Cursor {
    fn take(&mut self, length: usize, step: usize) -> Option<Range<usize>> {
        let start = self.0.checked_next_multiple_of(step)?;
        self.0 = start.checked_add(length)?;
        Some(start..self.0)
    }
}

impl Room {
    /// For packed pieces, with so many bytes of temporary memory. `None`: no memory is so large.
    pub(crate) fn new(parts: &[Part<'_>], temporary: usize) -> Option<Self> {
        let mut cursor = Cursor(0);
        let words = parts.len().checked_mul(8)?;
        let arrays = Arrays {
            from: cursor.take(words, STEP)?.start,
            from_bytes: cursor.take(words, STEP)?.start,
            room: cursor.take(words, STEP)?.start,
            to: cursor.take(words, STEP)?.start,
            found: cursor.take(words, STEP)?.start,
            status: cursor.take(words / 2, STEP)?.start,
        };
        let mut pieces = |lengths: &mut dyn Iterator<Item = usize>| {
            cursor.take(0, STEP)?;
            let taken: Option<Vec<_>> = lengths.map(|length| cursor.take(length, PIECE)).collect();
            taken
        };
        let packed = pieces(&mut parts.iter().map(|part| part.bytes.len()))?;
        let unpacked = pieces(&mut parts.iter().map(|part| part.room))?;
        let temporary = cursor.take(temporary, STEP)?;
        // INVARIANT: The cursor has given each place once.
        Some(Self {
            arrays,
            packed,
            temporary,
            unpacked,
            bytes: cursor.0.max(1),
        })
    }

    /// Bytes for so many pieces of a size, if none gets smaller by packing.
    pub(crate) fn expected(count: usize, bytes: usize) -> Option<usize> {
        let arrays = count.checked_mul(6 * 8)?.checked_add(8 * STEP)?;
        let piece = bytes.checked_add(PIECE)?.checked_mul(3)?;
        count.checked_mul(piece)?.checked_add(arrays)
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn count(&self) -> usize {
        self.packed.len()
    }

    pub(crate) fn arrays(&self) -> Arrays {
        self.arrays
    }

    /// The first byte of the temporary memory, and its bytes.
    pub(crate) fn temporary(&self) -> (usize, usize) {
        (self.temporary.start, self.temporary.len())
    }

    /// The place of sizes and statuses.
    pub(crate) fn told(&self) -> Range<usize> {
        self.arrays.found..self.arrays.status + 4 * self.count()
    }

    /// The place of all unpacked pieces.
    pub(crate) fn unpacked(&self) -> Range<usize> {
        match (self.unpacked.first(), self.unpacked.last()) {
            (Some(first), Some(last)) => first.start..last.end,
            _ => 0..0,
        }
    }

    /// The first bytes of the memory, at an address: arrays and packed pieces.
    pub(crate) fn image(&self, base: u64, parts: &[Part<'_>]) -> Vec<u8> {
        let end = self.packed.last().map_or(0, |last| last.end);
        let mut image = vec![0; end];
        let arrays = self.arrays;
        for (at, part) in parts.iter().enumerate() {
            let (from, to) = (&self.packed[at], &self.unpacked[at]);
            for (array, value) in [
                (arrays.from, base + from.start as u64),
                (arrays.from_bytes, from.len() as u64),
                (arrays.room, to.len() as u64),
                (arrays.to, base + to.start as u64),
            ] {
                image[array + 8 * at..][..8].copy_from_slice(&value.to_le_bytes());
            }
            image[arrays.status + 4 * at..][..4].copy_from_slice(&UNKNOWN);
            image[from.clone()].copy_from_slice(part.bytes);
        }
        image
    }

    /// Unpacked pieces, by the bytes of [`Self::told`] and of [`Self::unpacked`]. `None`: the GPU did not
    /// unpack it, or it has other bytes than there is room for.
    pub(crate) fn results(&self, told: &[u8], all: &[u8]) -> Vec<Option<Vec<u8>>> {
        let statuses = self.arrays.status - self.arrays.found;
        let first = self.unpacked().start;
        let result = |(at, to): (usize, &Range<usize>)| {
            let found = told.get(8 * at..)?.first_chunk::<8>()?;
            let status = told.get(statuses + 4 * at..)?.first_chunk::<4>()?;
            let is_whole = u64::from_le_bytes(*found) == to.len() as u64;
            let bytes = all.get(to.start - first..to.end - first)?;
            (is_whole && *status == [0; 4]).then(|| bytes.to_vec())
        };
        self.unpacked.iter().enumerate().map(result).collect()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn places_are_apart(
            sizes in prop::collection::vec((1_usize..300, 0_usize..900), 0..40),
            temporary in 0_usize..1_000,
        ) {
            let bytes = [7; 300];
            let part = |(packed, room): &(usize, usize)| Part { bytes: &bytes[..*packed], room: *room };
            let parts: Vec<_> = sizes.iter().map(part).collect();
            let room = Room::new(&parts, temporary).expect("small");
            let count = parts.len();
            let arrays = room.arrays();
            let words = [arrays.from, arrays.from_bytes, arrays.room, arrays.to, arrays.found];
            let mut all: Vec<_> = words.iter().map(|at| *at..at + 8 * count).collect();
            all.push(arrays.status..arrays.status + 4 * count);
            all.extend(room.packed.iter().chain(&room.unpacked).cloned());
            let (start, length) = room.temporary();
            prop_assert_eq!((start % STEP, length), (0, temporary));
            all.push(start..start + length);
            all.retain(|place| !place.is_empty());
            all.sort_by_key(|place| place.start);
            for pair in all.windows(2) {
                prop_assert!(pair[0].end <= pair[1].start, "{pair:?}");
            }
            prop_assert!(all.last().is_none_or(|last| last.end <= room.bytes()));
            let image = room.image(1 << 40, &parts);
            prop_assert!(image.len() <= room.unpacked().start);
            for (at, place) in room.packed.iter().enumerate() {
                prop_assert_eq!(&image[place.clone()], parts[at].bytes);
            }
            // Nothing was unpacked yet.
            let told = image[room.told()].to_vec();
            let results = room.results(&told, &vec![0; room.unpacked().len()]);
            prop_assert_eq!(results, vec![None; count]);
        }
    }

    #[test]
    fn no_memory_is_so_large() {
        let part = Part {
            bytes: &[1],
            room: usize::MAX / 2,
        };
        assert!(Room::new(&[part; 3], 0).is_none());
        assert!(Room::new(&[part], usize::MAX / 2).is_none());
        assert_eq!(Room::expected(usize::MAX, 1), None);
        assert_eq!(Room::expected(1, usize::MAX), None);
        assert!(Room::expected(8, 1_000) >= Some(8 * 2_000));
    }
}
