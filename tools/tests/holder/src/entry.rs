// SPDX-License-Identifier: MIT OR Apache-2.0
//! One entry among those that were assembled together.

use crate::assembler::Assembled;
use crate::PARAMETERS;

/// An entry: its code, and what was said of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry {
    /// Its name.
    pub name: String,
    /// The target, as in `sm_70`.
    pub target: u32,
    /// `ptxas -v`: registers, stack, spills.
    pub report: String,
    /// `nvdisasm -c`: its code.
    pub listing: String,
    /// Where its parameters begin in the bank of constants, in bytes.
    pub parameters: u16,
    /// Names of all sections that have a size.
    pub sections: Vec<String>,
}

/// The line of a report with which a new entry begins.
const REPORTED: &str = "Compiling entry function";

/// The line of a listing with which a new section begins.
const LISTED: &str = "//--------------------- ";

impl Assembled {
    /// An entry, or `None` if there is none of this name.
    pub fn entry(&self, name: &str) -> Option<Entry> {
        let own = format!(".nv.constant0.{name}");
        let constants = self.sections.iter().find(|(name, _)| *name == own);
        // Parameters are the last constants.
        let parameters = constants?.1.checked_sub(PARAMETERS.into())?;
        let own = part(&self.report, REPORTED, &format!("{REPORTED} '{name}' "))?;
        let all = self.report.split(REPORTED).next().unwrap_or("");
        let sized = self.sections.iter().filter(|(_, size)| *size > 0);
        Some(Entry {
            name: name.into(),
            target: self.target(),
            report: format!("{all}\n{own}"),
            listing: part(&self.listing, LISTED, &format!("{LISTED}.text.{name} "))?,
            parameters: parameters.try_into().ok()?,
            sections: sized.map(|(name, _)| name.clone()).collect(),
        })
    }
}

/// The lines behind the one that has `first`, up to the next one that has `mark`.
fn part(text: &str, mark: &str, first: &str) -> Option<String> {
    let mut lines = text.lines().skip_while(|line| !line.contains(first));
    lines.next()?;
    let own = lines.take_while(|line| !line.contains(mark));
    Some(own.map(|line| format!("{line}\n")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assembled() -> Assembled {
        let line = "ptxas info    : Compiling entry function";
        let sections = [
            (".nv.constant0.a", 384),
            (".nv.constant0.b", 31),
            (".x", 0),
            (".y", 1),
        ];
        serde_json::from_value(serde_json::json!({
            "made_of": ["", 75, ""],
            "report": format!("0 bytes gmem\n{line} 'ab' for\nof ab\n{line} 'a' for\nof a\n"),
            "listing": format!("{LISTED}.text.ab -\nin ab\n{LISTED}.text.a --\nin a\n{LISTED}x"),
            "sections": sections,
        }))
        .unwrap()
    }

    #[test]
    fn an_entry_has_its_own_parts() {
        let entry = assembled().entry("a").unwrap();
        assert_eq!((entry.target, entry.parameters), (75, 0x160));
        assert_eq!(entry.listing, "in a\n");
        assert!(entry.report.contains("0 bytes gmem") && entry.report.contains("of a\n"));
        assert!(!entry.report.contains("of ab"));
        assert_eq!(entry.sections, [".nv.constant0.a", ".nv.constant0.b", ".y"]);
    }

    #[test]
    fn an_entry_without_parameters_is_none() {
        assert_eq!(assembled().entry("c"), None);
        assert_eq!(assembled().entry("b"), None);
        assert_eq!(assembled().entry("ab"), None);
    }
}
