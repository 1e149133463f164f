// SPDX-License-Identifier: MIT OR Apache-2.0
//! The text of `nvdisasm -c`: instructions, and labels to branch to.

use std::collections::HashMap;
use std::fmt;

/// One instruction as text.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Line {
    /// Its address in the code, in bytes.
    pub address: u32,
    /// The predicate without which it does nothing, as in `@!P0`, or nothing.
    pub guard: String,
    /// Its operation with its modifiers, as in `LDG.E.STRONG.SYS`.
    pub operation: String,
    /// Its operands, in order.
    pub operands: Vec<String>,
}

/// The code of a function.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Listing {
    /// All instructions, those behind the end included.
    pub lines: Vec<Line>,
    /// The index of the instruction behind each label.
    pub labels: HashMap<String, usize>,
}

/// A line that is none of a listing.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Error {
    /// An instruction without an end, or whose address is no number.
    #[error("not an instruction: {0}")]
    Instruction(String),
    /// The instructions are not one behind the other.
    #[error("an instruction is missing before {0:#06x}")]
    Gap(u32),
    /// There is no code.
    #[error("no instruction")]
    Empty,
}

/// Bytes of an instruction, on all GPUs from sm_70 on.
const LENGTH: u32 = 16;

impl Listing {
    /// Reads a text of one function.
    ///
    /// # Errors
    ///
    /// A line cannot be read, or there is no instruction.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let mut found = Self::default();
        for line in text.lines().map(str::trim) {
            if let Some(rest) = line.strip_prefix("/*") {
                let next = Line::parse(rest).ok_or_else(|| Error::Instruction(line.into()))?;
                let expected = found.lines.len() as u32 * LENGTH;
                if next.address != expected {
                    return Err(Error::Gap(next.address));
                }
                found.lines.push(next);
            } else if let Some(label) = line.strip_prefix(".L_").and(line.strip_suffix(':')) {
                found.labels.insert(label.into(), found.lines.len());
            }
        }
        match found.lines.is_empty() {
            true => Err(Error::Empty),
            false => Ok(found),
        }
    }
}

impl fmt::Display for Line {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.guard.is_empty() {
            write!(out, "{} ", self.guard)?;
        }
        write!(out, "{} {}", self.operation, self.operands.join(", "))
    }
}

impl Line {
    /// Behind the `/*`.
    fn parse(text: &str) -> Option<Self> {
        let (address, rest) = text.split_once("*/")?;
        let address = u32::from_str_radix(address, 16).ok()?;
        let rest = rest.trim().strip_suffix(';')?.trim();
        let (guard, rest) = match rest.starts_with('@') {
            true => rest.split_once(' ')?,
            false => ("", rest),
        };
        let rest = rest.trim();
        let (operation, operands) = rest.split_once(' ').unwrap_or((rest, ""));
        let operands = operands.split(',').map(str::trim);
        Some(Self {
            address,
            guard: guard.into(),
            operation: operation.into(),
            operands: operands
                .filter(|operand| !operand.is_empty())
                .map(Into::into)
                .collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instructions_and_labels_are_read() {
        let text = "\t.target\tsm_70\nf:\n.text.f:\n\
            \x20 /*0000*/  @!P0 IADD3 R0, P1, -R2, c[0x0][0x170], RZ ;\n\
            .L_x_0:\n\
            \x20 /*0010*/  BRA `(.L_x_0);\n";
        let found = Listing::parse(text).unwrap();
        assert_eq!(found.labels, HashMap::from([(".L_x_0".into(), 1)]));
        let [first, second] = &found.lines[..] else {
            panic!("{found:?}")
        };
        assert_eq!((first.address, first.guard.as_str()), (0, "@!P0"));
        assert_eq!(first.operation, "IADD3");
        let operands = ["R0", "P1", "-R2", "c[0x0][0x170]", "RZ"];
        assert_eq!(first.operands, operands);
        assert_eq!((second.address, second.guard.as_str()), (16, ""));
        assert_eq!(second.operands, ["`(.L_x_0)"]);
        let text = "@!P0 IADD3 R0, P1, -R2, c[0x0][0x170], RZ";
        assert_eq!(first.to_string(), text);
        assert_eq!(second.to_string(), "BRA `(.L_x_0)");
    }

    #[test]
    fn a_line_that_is_not_understood_is_an_error() {
        for text in [
            "/*0000*/ EXIT",
            "/*000g*/ EXIT ;",
            "/*0000 EXIT ;",
            "/*0000*/ @P0;",
        ] {
            let error = Listing::parse(text).unwrap_err();
            assert_eq!(error, Error::Instruction(text.into()));
        }
    }

    #[test]
    fn no_instruction_may_be_missing() {
        assert_eq!(Listing::parse("").unwrap_err(), Error::Empty);
        let text = "/*0000*/ NOP ;\n/*0020*/ EXIT ;";
        assert_eq!(Listing::parse(text).unwrap_err(), Error::Gap(0x20));
    }
}
