// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where functions begin in an ELF file.

use anyhow::{bail, ensure, Context as _, Result};
use object::elf::{PF_X, STT_FUNC, STT_GNU_IFUNC};
use object::{Object, ObjectSegment, ObjectSymbol, SegmentFlags, SymbolFlags};

/// A program or library.
pub struct Symbols<'a>(object::File<'a>);

impl<'a> Symbols<'a> {
    /// The symbols in `file`.
    pub fn of(file: &'a [u8]) -> Result<Self> {
        let parsed = object::File::parse(file).context("the library is not an ELF file")?;
        Ok(Self(parsed))
    }

    /// Where in the file the first instruction of the function `name` is.
    pub fn offset(&self, name: &str) -> Result<u64> {
        // The first definition that other programs find.
        let all = self.0.dynamic_symbols().chain(self.0.symbols());
        let mut why = None;
        for symbol in all.filter(|symbol| symbol.name() == Ok(name)) {
            match self.place_of(name, &symbol) {
                Ok(offset) => return Ok(offset),
                Err(error) => why = Some(error),
            }
        }
        Err(why.with_context(|| format!("the library has no symbol {name}"))?)
    }

    fn place_of<'s>(&self, name: &str, symbol: &impl ObjectSymbol<'s>) -> Result<u64> {
        ensure!(
            !symbol.is_undefined(),
            "{name} is defined in another library; name that library"
        );
        let SymbolFlags::Elf { st_info, .. } = symbol.flags() else {
            bail!("the library is not an ELF file");
        };
        match st_info.st_type() {
            STT_FUNC => {}
            STT_GNU_IFUNC => bail!(
                "{name} is only a name for one of several functions (IFUNC); name the function itself"
            ),
            _ => bail!("{name} is not a function"),
        }
        let address = symbol.address();
        for segment in self.0.segments() {
            let SegmentFlags::Elf { p_flags, .. } = segment.flags() else {
                continue;
            };
            let (offset, length) = segment.file_range();
            let within = address.checked_sub(segment.address());
            if let Some(within) = within.filter(|&within| within < length && p_flags.contains(PF_X))
            {
                return Ok(offset + within);
            }
        }
        bail!("{name} lies outside the executable segments of the file")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[inline(never)]
    fn a_function_to_be_found() -> u32 {
        std::hint::black_box(7)
    }

    /// Where in which file the address lies, as the kernel says.
    fn place_of(address: usize) -> (u64, String) {
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        for line in maps.lines() {
            let fields: Vec<_> = line.split_whitespace().collect();
            let (start, end) = fields[0].split_once('-').unwrap();
            let hex = |text| usize::from_str_radix(text, 16).unwrap();
            if (hex(start)..hex(end)).contains(&address) {
                let offset = address - hex(start) + hex(fields[2]);
                return (offset as u64, fields[5].to_owned());
            }
        }
        panic!("{address:#x} is mapped nowhere");
    }

    /// A library that this program uses.
    fn c_library() -> Option<Vec<u8>> {
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let mut paths = maps
            .lines()
            .filter_map(|line| line.split_whitespace().nth(5));
        let path = paths.find(|path| path.ends_with("/libc.so.6"))?;
        Some(std::fs::read(path).unwrap())
    }

    #[test]
    fn a_function_begins_where_it_is_mapped_from() {
        assert_eq!(a_function_to_be_found(), 7);
        let (offset, path) = place_of(a_function_to_be_found as *const () as usize);
        let file = std::fs::read(path).unwrap();
        let symbols = Symbols::of(&file).unwrap();
        let mut names = symbols.0.symbols().filter_map(|symbol| symbol.name().ok());
        let name = names.find(|name| name.contains("a_function_to_be_found"));
        assert_eq!(symbols.offset(name.unwrap()).unwrap(), offset);
    }

    #[test]
    fn what_cannot_be_probed_is_said() {
        let own = std::fs::read("/proc/self/exe").unwrap();
        let why = |file: &[u8], name: &str| {
            let symbols = Symbols::of(file).unwrap();
            symbols.offset(name).unwrap_err().to_string()
        };
        assert_eq!(
            why(&own, "no_such_one"),
            "the library has no symbol no_such_one"
        );
        let text = Symbols::of(b"#!/bin/sh").map(drop).unwrap_err().to_string();
        assert_eq!(text, "the library is not an ELF file");
        // The C library of another system is not known.
        let Some(library) = c_library() else {
            return;
        };
        assert!(Symbols::of(&library).unwrap().offset("abort").unwrap() > 0);
        assert_eq!(
            why(&own, "abort"),
            "abort is defined in another library; name that library"
        );
        assert_eq!(why(&library, "stdout"), "stdout is not a function");
        let chosen = why(&library, "strlen");
        assert!(chosen.contains("(IFUNC)"), "{chosen}");
    }
}
