// SPDX-License-Identifier: MIT OR Apache-2.0
//! Functions of ELF files, good and hostile: a checker that reads no more than it may, never fails
//! otherwise than by an error, and finds exactly the functions of a file.

use std::collections::BTreeSet;

use proptest::prelude::*;

use crate::policy::elf::{check_function, File, Refused, MAX_SECTIONS, MAX_SEGMENTS, MAX_SYMBOLS};

/// A file in memory that counts what is read of it.
struct Memory {
    bytes: Vec<u8>,
    read: u64,
}

impl File for Memory {
    type Error = ();

    fn read(&mut self, offset: u64, bytes: &mut [u8]) -> Result<bool, ()> {
        self.read += bytes.len() as u64;
        let start = usize::try_from(offset).unwrap();
        let part = self.bytes.get(start..start + bytes.len());
        if let Some(part) = part {
            bytes.copy_from_slice(part);
        }
        Ok(part.is_some())
    }
}

/// Where the code begins in the file, and its address.
const CODE: u64 = 0x1000;
const ADDRESS: u64 = 0x7_0000;

/// A 64-bit or 32-bit library of 256 bytes of code, with a table of these symbols: their place in
/// the code, kind and section.
fn library(wide: bool, symbols: &[(u64, u8, u16)]) -> Vec<u8> {
    let mut file = vec![0; CODE as usize];
    let mut put = |at: usize, bytes: &[u8]| file[at..at + bytes.len()].copy_from_slice(bytes);
    let long = |value: u64| match wide {
        true => value.to_ne_bytes().to_vec(),
        false => (value as u32).to_ne_bytes().to_vec(),
    };
    let (sections, table) = (0x200usize, CODE + 256);
    let class = if wide { 2 } else { 1 };
    put(0, &[0x7f, b'E', b'L', b'F', class, 1, 1]);
    put(16, &3u16.to_ne_bytes());
    let (segment, entry) = if wide { (56u16, 64u16) } else { (32, 40) };
    for (narrow, at, value) in [(28, 32, 0x100), (32, 40, sections as u64)] {
        put(if wide { at } else { narrow }, &long(value));
    }
    for (narrow, at, value) in [(42, 54, segment), (44, 56, 1), (46, 58, entry), (48, 60, 2)] {
        put(if wide { at } else { narrow }, &u16::to_ne_bytes(value));
    }
    put(0x100, &1u32.to_ne_bytes());
    put(0x100 + if wide { 4 } else { 24 }, &5u32.to_ne_bytes());
    for (narrow, at, value) in [(4, 8, CODE), (8, 16, ADDRESS), (16, 32, 256)] {
        put(0x100 + if wide { at } else { narrow }, &long(value));
    }
    let size = if wide { 24 } else { 16 };
    let section = sections + usize::from(entry);
    put(section + 4, &2u32.to_ne_bytes());
    let length = symbols.len() as u64 * size;
    for (narrow, at, value) in [(16, 24, table), (20, 32, length), (36, 56, size)] {
        put(section + if wide { at } else { narrow }, &long(value));
    }
    file.resize(table as usize, 0x90);
    for &(place, kind, section) in symbols {
        let mut symbol = vec![0; size as usize];
        let mut put = |at: usize, bytes: &[u8]| {
            symbol[at..at + bytes.len()].copy_from_slice(bytes);
        };
        put(if wide { 8 } else { 4 }, &long(ADDRESS + place));
        put(if wide { 4 } else { 12 }, &[kind | 0x10]);
        put(if wide { 6 } else { 14 }, &section.to_ne_bytes());
        file.extend(symbol);
    }
    file
}

fn check(bytes: Vec<u8>, offset: u64, room: usize) -> (Result<(), Refused<()>>, u64) {
    let mut file = Memory { bytes, read: 0 };
    let result = check_function(&mut file, offset, &mut vec![0; room]);
    (result, file.read)
}

proptest! {
    #[test]
    fn exactly_functions_are_found(
        wide in any::<bool>(),
        symbols in prop::collection::vec((0u64..256, 0u8..16, prop::sample::select(
            vec![0u16, 1, 7, 0xfeff, 0xff00, 0xfff1, 0xffff])), 0..40),
        room in 24usize..600,
    ) {
        let functions: BTreeSet<u64> = symbols
            .iter()
            .filter(|(_, kind, section)| {
                [2, 10].contains(kind) && *section != 0 && !(0xff00..0xffff).contains(section)
            })
            .map(|(place, _, _)| *place)
            .collect();
        let file = library(wide, &symbols);
        for place in 0..256 {
            let (result, _) = check(file.clone(), CODE + place, room);
            prop_assert_eq!(result.is_ok(), functions.contains(&place), "{}", place);
        }
        for outside in [0, CODE - 1, CODE + 256, ADDRESS, u64::MAX] {
            prop_assert_eq!(check(file.clone(), outside, room).0, Err(Refused::NoFunction));
        }
    }

    #[test]
    fn hostile_files_cost_a_bounded_time(
        wide in any::<bool>(),
        changes in prop::collection::vec((0usize..0x280, prop_oneof![
            any::<u8>(), Just(0), Just(0xff), Just(0x7f), Just(0x80)]), 1..24),
        cut in prop::option::of(0usize..0x1400),
        offset in prop_oneof![CODE..CODE + 256, any::<u64>()],
    ) {
        let mut file = library(wide, &[(0, 2, 1), (16, 10, 1), (32, 1, 1)]);
        for (at, byte) in changes {
            file[at] = byte;
        }
        if let Some(cut) = cut {
            file.truncate(cut);
        }
        let (result, read) = check(file, offset, 96);
        let most = 16 + 64 * (3 + MAX_SEGMENTS + MAX_SECTIONS) + 24 * MAX_SYMBOLS;
        prop_assert!(read <= most, "{result:?} after {read} bytes");
    }

    #[test]
    fn noise_is_no_program(bytes in prop::collection::vec(any::<u8>(), 0..200), offset in any::<u64>()) {
        prop_assert!(check(bytes, offset, 64).0.is_err());
    }
}
