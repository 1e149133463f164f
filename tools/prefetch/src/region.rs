// SPDX-License-Identifier: MIT OR Apache-2.0
//! Regions of an array, and the tiles of a regular grid that one touches: shards of an array, and
//! chunks of a shard. Planner and prefetcher both take them from here.

use smallvec::SmallVec;

use crate::{Fault, Kind};

/// A number for each dimension.
pub type Numbers = SmallVec<[u64; 4]>;

/// A box of elements.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Region {
    /// The first element, for each dimension.
    pub start: Numbers,
    /// The number of elements, for each dimension. 0: the region has none.
    pub shape: Numbers,
}

impl Region {
    /// The box from `start`, of `shape`.
    pub fn new(start: &[u64], shape: &[u64]) -> Self {
        Self {
            start: start.into(),
            shape: shape.into(),
        }
    }

    /// A whole array or chunk.
    pub fn whole(shape: &[u64]) -> Self {
        Self {
            start: SmallVec::from_elem(0, shape.len()),
            shape: shape.into(),
        }
    }

    /// It has no elements.
    pub fn is_empty(&self) -> bool {
        self.shape.contains(&0)
    }

    /// Elements, or `None` beyond 2^64.
    pub fn elements(&self) -> Option<u64> {
        if self.is_empty() {
            return Some(0);
        }
        self.shape
            .iter()
            .try_fold(1_u64, |all, size| all.checked_mul(*size))
    }

    /// The region is within an array.
    ///
    /// # Errors
    ///
    /// A fault that names both: another number of dimensions, or elements beyond the array.
    pub fn check(&self, array: &str, shape: &[u64]) -> Result<(), Fault> {
        let same = self.start.len() == shape.len() && self.shape.len() == shape.len();
        let ends = self.start.iter().zip(&self.shape);
        let mut ends = ends.map(|(start, size)| start.checked_add(*size));
        let fits = |end: Option<u64>, size: &u64| end.is_some_and(|end| end <= *size);
        if same && shape.iter().all(|size| fits(ends.next().flatten(), size)) {
            return Ok(());
        }
        let (start, size) = (&self.start[..], &self.shape[..]);
        let text = format!("the box {start:?} + {size:?} is not within {array}, {shape:?}");
        Err(Fault::new(Kind::Misuse, text))
    }

    /// The tiles of a grid that the region touches, in C order. The grid's first tile begins at 0;
    /// no side of a tile is 0.
    pub fn tiles<'a>(&'a self, tile: &'a [u64]) -> Tiles<'a> {
        debug_assert_eq!(tile.len(), self.start.len());
        let first: Numbers = self
            .start
            .iter()
            .zip(tile)
            .map(|(at, side)| at / side)
            .collect();
        Tiles {
            region: self,
            tile,
            next: (!self.is_empty()).then_some(first),
        }
    }
}

/// A part of a region that is in one tile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tile {
    /// The tile, by its place in the grid.
    pub index: Numbers,
    /// The part, from the tile's first element on.
    pub part: Region,
    /// Its first element, from that of the region on.
    pub at: Numbers,
}

/// The tiles that a region touches.
#[derive(Debug, Clone)]
pub struct Tiles<'a> {
    region: &'a Region,
    tile: &'a [u64],
    next: Option<Numbers>,
}

impl Tiles<'_> {
    /// The number of tiles, if it is `most` at the most.
    pub fn count_within(&self, most: u64) -> Option<u64> {
        if self.next.is_none() {
            return Some(0);
        }
        (0..self.tile.len()).try_fold(1_u64, |all, dimension| {
            let first = self.region.start[dimension] / self.tile[dimension];
            let count = (self.last_of(dimension) - first).checked_add(1)?;
            all.checked_mul(count).filter(|all| *all <= most)
        })
    }

    fn last_of(&self, dimension: usize) -> u64 {
        let (start, size) = (self.region.start[dimension], self.region.shape[dimension]);
        (start + size - 1) / self.tile[dimension]
    }
}

impl Iterator for Tiles<'_> {
    type Item = Tile;

    fn next(&mut self) -> Option<Tile> {
        let index = self.next.take()?;
        let mut part = Region::whole(&index);
        let mut at = Numbers::new();
        for (dimension, index) in index.iter().enumerate() {
            let (start, side) = (self.region.start[dimension], self.tile[dimension]);
            let end = start + self.region.shape[dimension];
            let first = index * side;
            let from = start.max(first);
            part.start[dimension] = from - first;
            // The last tile of a grid may end beyond what can be counted.
            part.shape[dimension] = end.min(first.saturating_add(side)) - from;
            at.push(from - start);
        }
        let mut next = index.clone();
        for dimension in (0..next.len()).rev() {
            if next[dimension] < self.last_of(dimension) {
                next[dimension] += 1;
                self.next = Some(next);
                break;
            }
            next[dimension] = self.region.start[dimension] / self.tile[dimension];
        }
        Some(Tile { index, part, at })
    }
}

/// The number of tiles of a grid over an array, for each dimension.
pub fn grid(shape: &[u64], tile: &[u64]) -> Numbers {
    shape
        .iter()
        .zip(tile)
        .map(|(size, side)| size.div_ceil(*side))
        .collect()
}

/// The number of an element in C order. `None` beyond 2^64.
pub fn number(index: &[u64], shape: &[u64]) -> Option<u64> {
    index
        .iter()
        .zip(shape)
        .try_fold(0_u64, |number, (at, size)| {
            number.checked_mul(*size)?.checked_add(*at)
        })
}

/// Rows of a box: the first bytes of each in two arrays, and its length.
fn rows(
    part: &Region,
    from: &[u64],
    to: (&[u64], &[u64]),
    element: usize,
    mut row: impl FnMut(usize, usize, usize),
) {
    let (to, at) = to;
    let dimensions = part.shape.len();
    if part.is_empty() {
        return;
    }
    // Elements of the innermost dimension are side by side in both.
    let outer = dimensions.saturating_sub(1);
    let length = part.shape.last().map_or(1, |size| *size as usize) * element;
    let mut within: Numbers = SmallVec::from_elem(0, dimensions);
    loop {
        let place = |shape: &[u64], start: &[u64]| {
            let places = within.iter().zip(start).map(|(at, start)| at + start);
            let number = shape
                .iter()
                .zip(places)
                .fold(0, |all, (size, at)| all * size + at);
            number as usize * element
        };
        row(place(from, &part.start), place(to, at), length);
        let next = (0..outer).rev().find(|dimension| {
            within[*dimension] += 1;
            let is_within = within[*dimension] < part.shape[*dimension];
            if !is_within {
                within[*dimension] = 0;
            }
            is_within
        });
        if next.is_none() {
            return;
        }
    }
}

/// An array of elements in memory, in C order.
#[derive(Debug)]
pub struct Place<'a> {
    /// Its bytes.
    pub bytes: &'a mut [u8],
    /// Its elements, for each dimension.
    pub shape: &'a [u64],
}

impl Place<'_> {
    /// Copies a part of a chunk to `at`. The part is within the chunk, and its copy within the place.
    ///
    /// # Errors
    ///
    /// [`Kind::Misuse`]: bytes are missing, of the chunk or of the place.
    pub fn copy(
        &mut self,
        (chunk, shape): (&[u8], &[u64]),
        part: &Region,
        at: &[u64],
        element: usize,
    ) -> Result<(), Fault> {
        let mut fits = true;
        rows(
            part,
            shape,
            (self.shape, at),
            element,
            |from, to, length| {
                let (source, target) = (
                    chunk.get(from..from + length),
                    self.bytes.get_mut(to..to + length),
                );
                match (source, target) {
                    (Some(source), Some(target)) => target.copy_from_slice(source),
                    _ => fits = false,
                }
            },
        );
        fits.then_some(()).ok_or_else(too_short)
    }

    /// Puts an element everywhere in a box at `at`, of the shape of `part`.
    ///
    /// # Errors
    ///
    /// [`Kind::Misuse`]: bytes of the place are missing.
    pub fn fill(&mut self, element: &[u8], part: &Region, at: &[u64]) -> Result<(), Fault> {
        let mut fits = true;
        rows(
            part,
            self.shape,
            (self.shape, at),
            element.len(),
            |_, to, length| match self.bytes.get_mut(to..to + length) {
                Some(row) => row
                    .chunks_exact_mut(element.len())
                    .for_each(|place| place.copy_from_slice(element)),
                None => fits = false,
            },
        );
        fits.then_some(()).ok_or_else(too_short)
    }
}

fn too_short() -> Fault {
    Fault::new(
        Kind::Misuse,
        "memory for a sample, or a chunk, is too short",
    )
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use proptest::prelude::*;

    use super::*;

    /// All elements of a region, in C order.
    fn elements(region: &Region) -> Vec<Vec<u64>> {
        let mut all = vec![Vec::new()];
        for (start, size) in region.start.iter().zip(&region.shape) {
            all = all
                .iter()
                .flat_map(|at| (*start..start + size).map(|next| [at.as_slice(), &[next]].concat()))
                .collect();
        }
        all
    }

    fn region() -> impl Strategy<Value = (Region, Vec<u64>)> {
        prop::collection::vec((0_u64..9, 0_u64..7, 1_u64..5), 0..4).prop_map(|all| {
            let start: Vec<_> = all.iter().map(|(start, ..)| *start).collect();
            let shape: Vec<_> = all.iter().map(|(_, size, _)| *size).collect();
            let tile = all.iter().map(|(.., side)| *side).collect();
            (Region::new(&start, &shape), tile)
        })
    }

    proptest! {
        #[test]
        fn tiles_share_a_region_out((region, tile) in region()) {
            // Element by element.
            let mut expected: BTreeMap<Vec<u64>, BTreeSet<Vec<u64>>> = BTreeMap::new();
            for element in elements(&region) {
                let index = element.iter().zip(&tile).map(|(at, side)| at / side).collect();
                expected.entry(index).or_default().insert(element);
            }
            let mut order = Vec::new();
            for Tile { index, part, at } in region.tiles(&tile) {
                let found: BTreeSet<Vec<u64>> = elements(&part)
                    .iter()
                    .map(|within| {
                        let places = within.iter().zip(&index).zip(&tile);
                        places.map(|((at, index), side)| index * side + at).collect()
                    })
                    .collect();
                prop_assert_eq!(Some(&found), expected.get(&index[..]));
                let first = found.first().expect("a tile that is touched");
                let from: Vec<_> = first.iter().zip(&region.start).map(|(a, b)| a - b).collect();
                prop_assert_eq!(&at[..], &from[..]);
                order.push(index.to_vec());
            }
            let count = order.len() as u64;
            let tiles = region.tiles(&tile);
            prop_assert_eq!(tiles.count_within(count), Some(count));
            if count > 0 && !tile.is_empty() {
                prop_assert_eq!(tiles.count_within(count - 1), None);
            }
            prop_assert_eq!(order, expected.into_keys().collect::<Vec<_>>());
        }
    }

    proptest! {
        #[test]
        fn tiles_copied_are_the_region(
            sides in prop::collection::vec((1_u64..6, 1_u64..4, 0_u64..4, 0_u64..6), 0..4),
        ) {
            let shape: Vec<_> = sides.iter().map(|(size, ..)| *size).collect();
            let tile: Vec<_> = sides.iter().map(|(_, side, ..)| *side).collect();
            let start: Vec<_> = sides.iter().map(|(size, _, at, _)| *at.min(size)).collect();
            let size: Vec<_> =
                sides.iter().map(|(size, _, at, more)| (size - at.min(size)).min(*more)).collect();
            let region = Region::new(&start, &size);
            // An element says where it is in the array.
            let value = |at: &[u64]| number(at, &shape).expect("small") as u16;
            let count = region.elements().expect("small") as usize;
            let mut bytes = vec![0xff; 2 * count];
            let mut place = Place { bytes: &mut bytes, shape: &size };
            for Tile { index, part, at } in region.tiles(&tile) {
                let chunk: Vec<u8> = elements(&Region::whole(&tile))
                    .iter()
                    .map(|within| {
                        let places = within.iter().zip(&index).zip(&tile);
                        places.map(|((at, index), side)| index * side + at).collect::<Vec<_>>()
                    })
                    .flat_map(|at| value(&at).to_ne_bytes())
                    .collect();
                place.copy((&chunk, &tile), &part, &at, 2).expect("it fits");
            }
            let expected: Vec<u8> =
                elements(&region).iter().flat_map(|at| value(at).to_ne_bytes()).collect();
            prop_assert_eq!(&bytes, &expected);
            let mut place = Place { bytes: &mut bytes, shape: &size };
            place.fill(&[1, 2], &Region::whole(&size), &vec![0; size.len()]).expect("it fits");
            prop_assert_eq!(&bytes, &[1, 2].repeat(count));
        }
    }

    #[test]
    fn memory_that_is_too_short_is_told() {
        let part = Region::whole(&[2, 2]);
        let mut bytes = [0; 3];
        let mut place = Place {
            bytes: &mut bytes,
            shape: &[2, 2],
        };
        assert!(place.copy((&[0; 4], &[2, 2]), &part, &[0, 0], 1).is_err());
        assert!(place.fill(&[9], &part, &[0, 0]).is_err());
        let mut bytes = [0; 4];
        let mut place = Place {
            bytes: &mut bytes,
            shape: &[2, 2],
        };
        assert!(place.copy((&[0; 3], &[2, 2]), &part, &[0, 0], 1).is_err());
        assert!(place.copy((&[0; 4], &[2, 2]), &part, &[0, 0], 1).is_ok());
    }

    #[test]
    fn a_region_without_elements_touches_none() {
        assert_eq!(Region::new(&[3, 4], &[5, 0]).tiles(&[2, 2]).count(), 0);
        // One of no dimensions has an element.
        assert_eq!(Region::whole(&[]).tiles(&[]).count(), 1);
        assert_eq!(Region::whole(&[]).elements(), Some(1));
    }

    #[test]
    fn a_region_beyond_its_array_is_a_fault_that_names_both() {
        let check = |start: &[u64], shape: &[u64]| Region::new(start, shape).check("a/b", &[10, 4]);
        assert_eq!(check(&[9, 0], &[1, 4]), Ok(()));
        assert_eq!(check(&[10, 0], &[0, 4]), Ok(()));
        for (start, shape) in [
            (&[9, 0][..], &[2, 1][..]),
            (&[0, u64::MAX], &[1, 1]),
            (&[0], &[1]),
            (&[0, 0, 0], &[1, 1, 1]),
            (&[0, 0], &[1]),
        ] {
            let fault = check(start, shape).expect_err("it is not within");
            assert_eq!(fault.kind(), Kind::Misuse);
            for word in ["a/b", "[10, 4]", &format!("{start:?}")] {
                assert!(fault.text().contains(word), "{fault}");
            }
        }
    }

    #[test]
    fn numbers_have_an_end() {
        assert_eq!(Region::whole(&[1 << 40, 1 << 40]).elements(), None);
        assert_eq!(Region::whole(&[1 << 40, 1 << 40, 0]).elements(), Some(0));
        assert_eq!(number(&[1, 2], &[3, 4]), Some(6));
        assert_eq!(number(&[u64::MAX, 2], &[3, 4]), None);
        let last = Region::new(&[u64::MAX - 1], &[1]);
        assert_eq!(last.tiles(&[1 << 63]).count(), 1);
        assert_eq!(&grid(&[7, 8], &[4, 4])[..], [2, 2]);
    }
}
