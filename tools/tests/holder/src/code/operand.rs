// SPDX-License-Identifier: MIT OR Apache-2.0
//! Operands: registers, predicates, numbers, constants and addresses.

/// A file of registers.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum File {
    /// Of a thread: `R0`, `P0`.
    Thread,
    /// Of a warp: `UR0`, `UP0`.
    Warp,
}

/// A register of 32 bits, or the first of two.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Register {
    /// Its file.
    pub file: File,
    /// Its number.
    pub index: u8,
}

/// A predicate, from which a bit is read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Predicate {
    /// The register; `None` is always true.
    pub of: Option<Register>,
    /// Its opposite is meant.
    pub negated: bool,
}

/// A change of a value that is read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sign {
    /// None.
    Plain,
    /// The opposite number.
    Negated,
    /// All bits are the opposite.
    Inverted,
}

/// A place of a value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// Always 0.
    Zero,
    /// A register.
    Register(Register),
    /// A number in the instruction.
    Number(u32),
    /// An offset in bank 0 of the constants, in bytes.
    Constant(u16),
}

/// A value that is read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Source {
    /// Its place.
    pub place: Place,
    /// Its change.
    pub sign: Sign,
}

/// An address of memory: 64 bits in two registers, and an offset in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Address {
    /// The register with the lower half.
    pub register: Register,
    /// A number of bytes that is added.
    pub offset: u32,
    /// The register with the descriptor of the memory, which the driver gives.
    pub descriptor: Option<Register>,
}

impl Predicate {
    /// Always true.
    pub const TRUE: Self = Self {
        of: None,
        negated: false,
    };

    /// Reads `P0`, `!UP1` or `PT`.
    pub fn parse(text: &str) -> Option<Self> {
        let (text, negated) = match text.strip_prefix('!') {
            Some(rest) => (rest, true),
            None => (text, false),
        };
        let of = match text {
            "PT" | "UPT" => None,
            _ => Some(numbered(text, "P", "UP", 7)?),
        };
        Some(Self { of, negated })
    }

    /// Reads one that is written: no negation. `Some(None)` is `PT`, where nothing is kept.
    pub fn parse_written(text: &str) -> Option<Option<Register>> {
        let found = Self::parse(text)?;
        (!found.negated).then_some(found.of)
    }
}

impl Register {
    /// Registers of each file. The holder needs few, so a higher one is not understood.
    pub const COUNT: u8 = 16;

    /// Reads `R0` or `UR0`.
    pub fn parse(text: &str) -> Option<Self> {
        numbered(text, "R", "UR", Self::COUNT)
    }

    /// Reads one that is written; `Some(None)` is `RZ`, where nothing is kept.
    pub fn parse_written(text: &str) -> Option<Option<Self>> {
        match text {
            "RZ" | "URZ" => Some(None),
            _ => Some(Some(Self::parse(text)?)),
        }
    }

    /// The one with the upper half, if this has the lower one of 64 bits.
    pub fn upper(self) -> Option<Self> {
        let index = self.index + 1;
        (index < Self::COUNT).then_some(Self { index, ..self })
    }
}

fn numbered(text: &str, thread: &str, warp: &str, count: u8) -> Option<Register> {
    let (file, digits) = match text.strip_prefix(warp) {
        Some(digits) => (File::Warp, digits),
        None => (File::Thread, text.strip_prefix(thread)?),
    };
    let index = digits.parse().ok().filter(|&index| index < count)?;
    Some(Register { file, index })
}

fn number(text: &str) -> Option<u32> {
    u32::from_str_radix(text.strip_prefix("0x")?, 16).ok()
}

impl Source {
    /// Reads `R0`, `-R0`, `~UR3`, `RZ`, `0x1` or `c[0x0][0x160]`.
    pub fn parse(text: &str) -> Option<Self> {
        let (text, sign) = match text.as_bytes().first()? {
            b'-' => (&text[1..], Sign::Negated),
            b'~' => (&text[1..], Sign::Inverted),
            _ => (text, Sign::Plain),
        };
        let place = match text {
            "RZ" | "URZ" => Place::Zero,
            _ if text.starts_with("0x") => Place::Number(number(text)?),
            _ if text.starts_with("c[") => {
                let offset = text.strip_prefix("c[0x0][")?.strip_suffix(']')?;
                Place::Constant(number(offset)?.try_into().ok()?)
            }
            _ => Place::Register(Register::parse(text)?),
        };
        Some(Self { place, sign })
    }
}

impl Address {
    /// Reads `[R2]`, `[R2.64+0x4]` or `desc[UR4][R2.64]`. The `.E` of an operation says that it has
    /// 64 bits in each case.
    pub fn parse(text: &str) -> Option<Self> {
        let (descriptor, text) = match text.strip_prefix("desc[") {
            Some(rest) => {
                let (descriptor, rest) = rest.split_once(']')?;
                (Some(Register::parse(descriptor)?), rest)
            }
            None => (None, text),
        };
        let inner = text.strip_prefix('[')?.strip_suffix(']')?;
        let (register, offset) = inner.split_once('+').unwrap_or((inner, "0x0"));
        let register = register.strip_suffix(".64").unwrap_or(register);
        Some(Self {
            register: Register::parse(register)?,
            offset: number(offset)?,
            descriptor,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn thread(index: u8) -> Register {
        let file = File::Thread;
        Register { file, index }
    }

    fn warp(index: u8) -> Register {
        let file = File::Warp;
        Register { file, index }
    }

    #[test]
    fn sources() {
        let found = |text| Source::parse(text).map(|source| (source.place, source.sign));
        let register = |register| Place::Register(register);
        assert_eq!(found("R15"), Some((register(thread(15)), Sign::Plain)));
        assert_eq!(found("-R2"), Some((register(thread(2)), Sign::Negated)));
        assert_eq!(found("~UR7"), Some((register(warp(7)), Sign::Inverted)));
        assert_eq!(found("RZ"), Some((Place::Zero, Sign::Plain)));
        assert_eq!(found("0xc8"), Some((Place::Number(200), Sign::Plain)));
        let constant = Place::Constant(0x160);
        assert_eq!(found("-c[0x0][0x160]"), Some((constant, Sign::Negated)));
        for text in [
            "",
            "R16",
            "UR16",
            "B0",
            "c[0x1][0x0]",
            "0xg",
            "|R0|",
            "R0.H0",
        ] {
            assert_eq!(found(text), None, "{text}");
        }
    }

    #[test]
    fn predicates() {
        let found = |text| Predicate::parse(text).map(|found| (found.of, found.negated));
        assert_eq!(found("P6"), Some((Some(thread(6)), false)));
        assert_eq!(found("!UP0"), Some((Some(warp(0)), true)));
        assert_eq!(found("!PT"), Some((None, true)));
        assert_eq!(found("P7"), None);
        assert_eq!(Predicate::parse_written("!P0"), None);
        assert_eq!(Predicate::parse_written("UPT"), Some(None));
    }

    #[test]
    fn addresses() {
        let found = |text| Address::parse(text).map(|at| (at.register, at.offset, at.descriptor));
        assert_eq!(found("[UR4]"), Some((warp(4), 0, None)));
        assert_eq!(found("[R2.64+0x4]"), Some((thread(2), 4, None)));
        let described = found("desc[UR6][R2.64]");
        assert_eq!(described, Some((thread(2), 0, Some(warp(6)))));
        assert_eq!(found("[R2.64+UR4]"), None);
        assert_eq!(found("R2"), None);
    }
}
