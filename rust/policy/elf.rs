// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Functions of ELF files: a probe is taken at the first instruction of one alone.
//!
//! A probe replaces an instruction by a trap. Within another instruction it would be a part of that,
//! in every program that maps the file. The symbol table tells where functions begin; anything else
//! is refused. The file is hostile: every number in it is checked, and no more than
//! [`MAX_SEGMENTS`], [`MAX_SECTIONS`] and [`MAX_SYMBOLS`] are looked at.

/// Most program headers.
pub(crate) const MAX_SEGMENTS: u64 = 256;

/// Most section headers.
pub(crate) const MAX_SECTIONS: u64 = 4096;

/// Most symbols of all tables together: 96 MiB of them.
pub(crate) const MAX_SYMBOLS: u64 = 1 << 22;

/// Longest header that is read.
const MAX_HEADER: usize = 64;

/// A file.
pub(crate) trait File {
    /// Why reading fails.
    type Error;

    /// Reads bytes from `offset` on. Returns whether they are all there.
    ///
    /// # Errors
    ///
    /// The file cannot be read.
    fn read(&mut self, offset: u64, bytes: &mut [u8]) -> Result<bool, Self::Error>;
}

/// Why a place is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused<E> {
    /// No function begins there, or the file is malformed.
    NoFunction,
    /// The file cannot be read.
    Unreadable(E),
}

/// Where the fields lie: 32-bit and 64-bit files differ.
struct Layout {
    is_wide: bool,
    header: usize,
    segment: usize,
    section: usize,
    symbol: usize,
}

const NARROW: Layout = Layout {
    is_wide: false,
    header: 52,
    segment: 32,
    section: 40,
    symbol: 16,
};

const WIDE: Layout = Layout {
    is_wide: true,
    header: 64,
    segment: 56,
    section: 64,
    symbol: 24,
};

/// Bytes of the byte order of this machine; missing ones count as zero.
fn number<const SIZE: usize>(bytes: &[u8], at: usize) -> [u8; SIZE] {
    let part = at.checked_add(SIZE).and_then(|end| bytes.get(at..end));
    let mut number = [0; SIZE];
    number.copy_from_slice(part.unwrap_or(&[0; SIZE]));
    number
}

fn half(bytes: &[u8], at: usize) -> u64 {
    u16::from_ne_bytes(number(bytes, at)).into()
}

fn word(bytes: &[u8], at: usize) -> u64 {
    u32::from_ne_bytes(number(bytes, at)).into()
}

impl Layout {
    /// An address, offset or size, which has the width of the file.
    fn long(&self, bytes: &[u8], narrow: usize, wide: usize) -> u64 {
        match self.is_wide {
            true => u64::from_ne_bytes(number(bytes, wide)),
            false => word(bytes, narrow),
        }
    }

    fn short(&self, bytes: &[u8], narrow: usize, wide: usize) -> u64 {
        half(bytes, if self.is_wide { wide } else { narrow })
    }
}

/// A file and the content of its header.
struct Image<'a, F> {
    file: &'a mut F,
    layout: &'static Layout,
    segments: Table,
    sections: Table,
}

/// A table of entries of the length that their kind has.
#[derive(Clone, Copy)]
struct Table {
    offset: u64,
    count: u64,
}

impl Table {
    /// Where an entry of `length` bytes lies.
    fn place(self, at: u64, length: usize) -> Option<u64> {
        at.checked_mul(length as u64)?.checked_add(self.offset)
    }
}

/// Reads all of `bytes`: a file that ends before has no function.
fn read<F: File>(file: &mut F, offset: u64, bytes: &mut [u8]) -> Result<(), Refused<F::Error>> {
    let end = offset.checked_add(bytes.len() as u64);
    if end.is_none_or(|end| end > i64::MAX as u64) {
        return Err(Refused::NoFunction);
    }
    match file.read(offset, bytes) {
        Ok(true) => Ok(()),
        Ok(false) => Err(Refused::NoFunction),
        Err(error) => Err(Refused::Unreadable(error)),
    }
}

impl<'a, F: File> Image<'a, F> {
    fn open(file: &'a mut F) -> Result<Self, Refused<F::Error>> {
        const ORDER: u8 = if cfg!(target_endian = "little") { 1 } else { 2 };
        let mut ident = [0; 16];
        read(file, 0, &mut ident)?;
        let layout = match ident {
            [0x7f, b'E', b'L', b'F', 1, ORDER, 1, ..] => &NARROW,
            [0x7f, b'E', b'L', b'F', 2, ORDER, 1, ..] => &WIDE,
            _ => return Err(Refused::NoFunction),
        };
        let mut buffer = [0; MAX_HEADER];
        let header = buffer.get_mut(..layout.header).unwrap_or_default();
        read(file, 0, header)?;
        let header = &*header;
        // A program or a library: nothing else is executed.
        let is_executed = matches!(half(header, 16), 2 | 3);
        let segments = Table {
            offset: layout.long(header, 28, 32),
            count: layout.short(header, 44, 56),
        };
        let mut sections = Table {
            offset: layout.long(header, 32, 40),
            count: layout.short(header, 48, 60),
        };
        let has_known_entries = layout.short(header, 42, 54) == layout.segment as u64
            && layout.short(header, 46, 58) == layout.section as u64;
        if !is_executed || !has_known_entries || segments.count > MAX_SEGMENTS {
            return Err(Refused::NoFunction);
        }
        if sections.count == 0 {
            // More than fit into 16 bits: their number is the size of the first.
            let mut first = [0; MAX_HEADER];
            let first = first.get_mut(..layout.section).unwrap_or_default();
            read(file, sections.offset, first)?;
            sections.count = layout.long(first, 20, 32);
        }
        if sections.count > MAX_SECTIONS {
            return Err(Refused::NoFunction);
        }
        Ok(Self {
            file,
            layout,
            segments,
            sections,
        })
    }

    /// The address at which a byte of the file is executed.
    fn address(&mut self, offset: u64) -> Result<u64, Refused<F::Error>> {
        const LOAD: u64 = 1;
        const EXECUTE: u64 = 1;
        let layout = self.layout;
        for at in 0..self.segments.count {
            let mut buffer = [0; MAX_HEADER];
            let segment = buffer.get_mut(..layout.segment).unwrap_or_default();
            let place = self.segments.place(at, segment.len());
            read(self.file, place.ok_or(Refused::NoFunction)?, segment)?;
            let flags = word(segment, if layout.is_wide { 4 } else { 24 });
            let within = offset
                .checked_sub(layout.long(segment, 4, 8))
                .filter(|&within| within < layout.long(segment, 16, 32));
            if let Some(within) = within {
                if word(segment, 0) == LOAD && flags & EXECUTE != 0 {
                    let address = layout.long(segment, 8, 16).checked_add(within);
                    return address.ok_or(Refused::NoFunction);
                }
            }
        }
        Err(Refused::NoFunction)
    }

    /// True if a function of the file begins at an address.
    fn has_function_at(
        &mut self,
        address: u64,
        scratch: &mut [u8],
    ) -> Result<bool, Refused<F::Error>> {
        const SYMBOLS: u64 = 2;
        const DYNAMIC_SYMBOLS: u64 = 11;
        let layout = self.layout;
        let mut left = MAX_SYMBOLS;
        for at in 0..self.sections.count {
            let mut buffer = [0; MAX_HEADER];
            let section = buffer.get_mut(..layout.section).unwrap_or_default();
            let place = self.sections.place(at, section.len());
            read(self.file, place.ok_or(Refused::NoFunction)?, section)?;
            if !matches!(word(section, 4), SYMBOLS | DYNAMIC_SYMBOLS) {
                continue;
            }
            if layout.long(section, 36, 56) != layout.symbol as u64 {
                return Err(Refused::NoFunction);
            }
            let table = Table {
                offset: layout.long(section, 16, 24),
                count: layout
                    .long(section, 20, 32)
                    .checked_div(layout.symbol as u64)
                    .unwrap_or(0),
            };
            left = left.checked_sub(table.count).ok_or(Refused::NoFunction)?;
            if self.table_has(table, address, scratch)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn table_has(
        &mut self,
        table: Table,
        address: u64,
        scratch: &mut [u8],
    ) -> Result<bool, Refused<F::Error>> {
        let length = self.layout.symbol;
        let most = scratch.len().checked_div(length).unwrap_or(0);
        let mut at = 0;
        while at < table.count {
            let count = most.min(usize::try_from(table.count - at).unwrap_or(most));
            let part = scratch.get_mut(..count.saturating_mul(length));
            // Room for one, at least.
            let part = part.filter(|part| !part.is_empty());
            let part = part.ok_or(Refused::NoFunction)?;
            let place = table.place(at, length).ok_or(Refused::NoFunction)?;
            read(self.file, place, part)?;
            let mut symbols = part.chunks_exact(length);
            if symbols.any(|symbol| self.layout.is_function(symbol, address)) {
                return Ok(true);
            }
            at = at.saturating_add(count as u64);
        }
        Ok(false)
    }
}

impl Layout {
    /// True if a symbol is a function of the file that begins at `address`.
    fn is_function(&self, symbol: &[u8], address: u64) -> bool {
        const FUNCTION: u8 = 2;
        const INDIRECT: u8 = 10;
        let info = symbol.get(if self.is_wide { 4 } else { 12 });
        let kind = info.map_or(0, |info| info & 15);
        // Of this file, in one of its sections.
        let section = self.short(symbol, 14, 6);
        let is_defined = section != 0 && !(0xff00..0xffff).contains(&section);
        matches!(kind, FUNCTION | INDIRECT) && is_defined && self.long(symbol, 4, 8) == address
    }
}

/// Checks that a function begins at `offset` of a file. Symbols are read to `scratch`, as many at a
/// time as there is room for.
///
/// # Errors
///
/// See [`Refused`].
pub(crate) fn check_function<F: File>(
    file: &mut F,
    offset: u64,
    scratch: &mut [u8],
) -> Result<(), Refused<F::Error>> {
    let mut image = Image::open(file)?;
    let address = image.address(offset)?;
    match image.has_function_at(address, scratch)? {
        true => Ok(()),
        false => Err(Refused::NoFunction),
    }
}

#[cfg(any(test, zernel_kunit))]
#[cfg_attr(not(test), kernel::macros::kunit_tests(zernel_policy_elf))]
mod tests {
    use super::*;

    /// A library: header, one executed segment of 4 KiB, and sections of nothing, of two symbols.
    /// A function begins at 0x1010 of the file, whose address is 0x5010; at 0x20 and 0x40 of the
    /// segment lie data and an undefined function.
    struct Library {
        bytes: [u8; 512],
        fails: bool,
    }

    impl File for Library {
        type Error = i32;

        fn read(&mut self, offset: u64, bytes: &mut [u8]) -> Result<bool, i32> {
            if self.fails {
                return Err(-5);
            }
            let offset = usize::try_from(offset).unwrap_or(usize::MAX);
            let part = offset
                .checked_add(bytes.len())
                .and_then(|end| self.bytes.get(offset..end));
            if let Some(part) = part {
                bytes.copy_from_slice(part);
            }
            Ok(part.is_some())
        }
    }

    const SEGMENT: usize = 64;
    const SECTIONS: usize = 128;
    const SYMBOLS: usize = 320;

    impl Library {
        fn new() -> Self {
            let mut new = Self {
                bytes: [0; 512],
                fails: false,
            };
            let order = if cfg!(target_endian = "little") { 1 } else { 2 };
            new.put(0, &[0x7f, b'E', b'L', b'F', 2, order, 1]);
            new.half(16, 3);
            new.long(32, SEGMENT as u64);
            new.long(40, SECTIONS as u64);
            for (at, value) in [(54, 56), (56, 1), (58, 64), (60, 2)] {
                new.half(at, value);
            }
            new.word(SEGMENT, 1);
            new.word(SEGMENT + 4, 5);
            for (at, value) in [(8, 0x1000), (16, 0x5000), (32, 0x1000)] {
                new.long(SEGMENT + at, value);
            }
            let section = SECTIONS + 64;
            new.word(section + 4, 11);
            for (at, value) in [(24, SYMBOLS as u64), (32, 4 * 24), (56, 24)] {
                new.long(section + at, value);
            }
            for (at, info, section, address) in [
                (1, 0x12, 7, 0x5010),
                (2, 0x11, 7, 0x5020),
                (3, 0x12, 0, 0x5040),
            ] {
                let symbol = SYMBOLS + at * 24;
                new.put(symbol + 4, &[info]);
                new.half(symbol + 6, section);
                new.long(symbol + 8, address);
            }
            new
        }

        fn put(&mut self, at: usize, bytes: &[u8]) {
            if let Some(part) = self.bytes.get_mut(at..at + bytes.len()) {
                part.copy_from_slice(bytes);
            }
        }

        fn half(&mut self, at: usize, value: u16) {
            self.put(at, &value.to_ne_bytes());
        }

        fn word(&mut self, at: usize, value: u32) {
            self.put(at, &value.to_ne_bytes());
        }

        fn long(&mut self, at: usize, value: u64) {
            self.put(at, &value.to_ne_bytes());
        }

        fn check(&mut self, offset: u64) -> Result<(), Refused<i32>> {
            // One symbol at a time, and then some.
            check_function(self, offset, &mut [0; 30])
        }
    }

    const NO: Result<(), Refused<i32>> = Err(Refused::NoFunction);

    #[test]
    fn a_function_is_told_from_all_else() {
        let mut library = Library::new();
        assert_eq!(library.check(0x1010), Ok(()));
        // Within it, data, what another file has, outside of what is executed.
        for offset in [0x1011, 0x1020, 0x1040, 0x5010, 0x2010, 0, u64::MAX] {
            assert_eq!(library.check(offset), NO);
        }
        // Indirect functions begin, too.
        library.put(SYMBOLS + 24 + 4, &[0x1a]);
        assert_eq!(library.check(0x1010), Ok(()));
        library.fails = true;
        assert_eq!(library.check(0x1010), Err(Refused::Unreadable(-5)));
    }

    #[test]
    fn a_file_that_lies_has_no_function() {
        let lies: [fn(&mut Library); 18] = [
            |l| l.put(0, &[0]),
            |l| l.put(4, &[3]),
            |l| l.put(5, &[3]),
            |l| l.half(16, 1),
            |l| l.long(32, u64::MAX - 3),
            |l| l.long(40, u64::MAX),
            |l| l.half(54, 57),
            |l| l.half(56, 257),
            |l| l.half(58, 63),
            |l| l.half(60, u16::MAX),
            // More than 16 bits tell: the first section has none, and then too many.
            |l| l.half(60, 0),
            |l| {
                l.half(60, 0);
                l.long(SECTIONS + 32, u64::MAX);
            },
            |l| l.word(SEGMENT + 4, 4),
            |l| l.long(SEGMENT + 16, u64::MAX),
            |l| l.long(SECTIONS + 64 + 24, u64::MAX - 24),
            |l| l.long(SECTIONS + 64 + 32, u64::MAX),
            |l| l.long(SECTIONS + 64 + 56, 0),
            // A symbol beyond the end of the file is found before its name is read.
            |l| {
                l.long(SYMBOLS + 24 + 8, 0);
                l.long(SECTIONS + 64 + 32, 24 * 9);
            },
        ];
        for lie in lies {
            let mut library = Library::new();
            lie(&mut library);
            assert_eq!(library.check(0x1010), NO);
        }
        let mut library = Library::new();
        library.half(60, 0);
        library.long(SECTIONS + 32, 2);
        assert_eq!(library.check(0x1010), Ok(()));
        assert_eq!(check_function(&mut library, 0x1010, &mut [0; 23]), NO);
    }
}
