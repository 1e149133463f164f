// SPDX-License-Identifier: MIT OR Apache-2.0
//! Files of debugfs with a line of `name=value` words for each thing.

use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use anyhow::{Context as _, Result};

use crate::work::not_here;

/// Where zernel_nvidia.ko shows its own.
const FOLDER: &str = "/sys/kernel/debug/zernel_nvidia";
/// Where zernel shows its registry.
const STATE: &str = "/sys/kernel/debug/zernel/state";

/// A line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line(BTreeMap<String, String>);

impl Line {
    /// From its words; those without a value are left out.
    fn new(line: &str) -> Self {
        let words = line.split_whitespace();
        let pairs = words.filter_map(|word| word.split_once('='));
        Self(pairs.map(|(n, v)| (n.to_owned(), v.to_owned())).collect())
    }

    /// A text, if it is told.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// A number, if it is told: decimal, or hexadecimal with 0x.
    pub fn number(&self, name: &str) -> Result<Option<i64>> {
        let Some(text) = self.text(name) else {
            return Ok(None);
        };
        let number = match text.strip_prefix("0x") {
            Some(digits) => i64::from_str_radix(digits, 16),
            None => text.parse(),
        };
        Ok(Some(number.with_context(|| format!("{name}={text}"))?))
    }

    /// A number that must be told.
    pub fn needs(&self, name: &str) -> Result<i64> {
        let number = self.number(name)?;
        number.with_context(|| format!("debugfs tells no {name}"))
    }
}

/// Reads a file of zernel_nvidia.ko. Its lines are made as it is opened.
///
/// Errors: [`NotHere`](crate::work::NotHere) without the file, or without root.
pub fn lines(name: &str) -> Result<Vec<Line>> {
    let path = Path::new(FOLDER).join(name);
    Ok(read(&path)?.lines().map(Line::new).collect())
}

/// The line of a GPU: the one with the provider's number of it, and without a TSG.
pub fn of_gpu(lines: &[Line], gpu: i64) -> Result<Option<&Line>> {
    for line in lines {
        if line.text("tsg").is_none() && line.number("gpu")? == Some(gpu) {
            return Ok(Some(line));
        }
    }
    Ok(None)
}

/// The line of a TSG, by its provider's number.
pub fn of_tsg(lines: &[Line], tsg: i64) -> Result<Option<&Line>> {
    for line in lines {
        if line.number("tsg")? == Some(tsg) {
            return Ok(Some(line));
        }
    }
    Ok(None)
}

/// The provider's number of a GPU or a TSG, which zernel shows to root.
///
/// Errors: [`NotHere`](crate::work::NotHere) as for [`lines`].
pub fn handle(kind: &str, id: u64) -> Result<i64> {
    let text = read(Path::new(STATE))?;
    handle_in(&text, kind, id).with_context(|| format!("{STATE} tells no {kind} {id}"))
}

fn handle_in(text: &str, kind: &str, id: u64) -> Option<i64> {
    let id = id.to_string();
    text.lines().find_map(|line| {
        let mut words = line.split_whitespace();
        if words.next() != Some(kind) || words.next() != Some(&id) {
            return None;
        }
        let mut words = words.skip_while(|word| *word != "handle");
        words.nth(1)?.parse().ok()
    })
}

fn read(path: &Path) -> Result<String> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(text),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            not_here(format!("there is no {}", path.display()))
        }
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            not_here(format!("{} is for root", path.display()))
        }
        Err(error) => Err(error).with_context(|| path.display().to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::work::NotHere;

    #[test]
    fn lines_are_taken_apart() {
        let text = "gpu=0x10 reads=15 read_ns=-3\ntsg=7 gpu=0x10 words=0x2,0x102\n";
        let lines: Vec<_> = text.lines().map(Line::new).collect();
        let gpu = of_gpu(&lines, 16).unwrap().unwrap();
        assert_eq!(gpu.needs("read_ns").unwrap(), -3);
        assert_eq!(gpu.number("words").unwrap(), None);
        assert!(gpu.needs("words").is_err());
        let tsg = of_tsg(&lines, 7).unwrap().unwrap();
        assert_eq!(tsg.text("words"), Some("0x2,0x102"));
        assert!(tsg.number("words").is_err());
        assert_eq!(of_gpu(&lines, 7).unwrap(), None);
        assert_eq!(of_tsg(&lines, 8).unwrap(), None);
    }

    #[test]
    fn handles_are_found_by_kind_and_id() {
        let text = "enabled 1 user_control deny gpus 1 tsgs 1 assignments 0\n\
                    gpu 12 handle 256 tsgs 1 pending 0\n\
                    tsg 13 gpu 12 handle 9 pid 1\n";
        assert_eq!(handle_in(text, "gpu", 12), Some(256));
        assert_eq!(handle_in(text, "tsg", 13), Some(9));
        assert_eq!(handle_in(text, "tsg", 12), None);
        assert_eq!(handle_in(text, "gpu", 1), None);
    }

    #[test]
    fn no_file_is_not_here() {
        let error = read(Path::new("/nonexistent/records")).unwrap_err();
        let why = error.downcast_ref::<NotHere>().unwrap();
        assert_eq!(why.0, "there is no /nonexistent/records");
    }
}
