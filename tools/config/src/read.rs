// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads a file, its sections and the values of its fields.

use std::fs::File;
use std::io::{self, Read};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use libzernel::Level;
use rustix::io::Errno;
use serde_yaml_ng::{Mapping, Value};

use crate::config::Config;
use crate::error::{Error, Place, Result};
use crate::line;

/// The sections of a file.
const SECTIONS: [&str; 7] = [
    "scheduler",
    "priorities",
    "slices",
    "preemption",
    "resources",
    "policy",
    "monitoring",
];

/// The text of a file.
pub(crate) fn load(path: &Path) -> Result<String> {
    let file = || path.to_owned();
    let unreadable = |error: io::Error| Error::Read {
        file: file(),
        errno: Errno::from_io_error(&error)
            .unwrap_or(Errno::IO)
            .raw_os_error(),
        why: error.to_string(),
    };
    let mut bytes = Vec::new();
    let most = Config::MOST_BYTES;
    let read = File::open(path).and_then(|open| open.take(most + 1).read_to_end(&mut bytes));
    read.map_err(unreadable)?;
    if bytes.len() as u64 > most {
        return Err(Error::Long { file: file(), most });
    }
    String::from_utf8(bytes).map_err(|error| {
        let before = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        Error::Text {
            file: file(),
            line: before.iter().filter(|&&byte| byte == b'\n').count() + 1,
        }
    })
}

/// Finds the place of a value.
#[derive(Clone, Copy)]
struct Finder<'a> {
    file: &'a Path,
    text: &'a str,
}

impl Finder<'_> {
    fn place(self, path: &[Value]) -> Place {
        let names = path.iter().map(|name| match name {
            Value::String(name) => name.clone(),
            other => format!("({})", kind(other)),
        });
        Place {
            file: PathBuf::from(self.file),
            line: line::of(self.text, path),
            path: names.collect::<Vec<_>>().join("."),
        }
    }

    fn wrong(self, path: &[Value], found: &Value, expected: &'static str) -> Error {
        Error::Type {
            place: self.place(path),
            found: kind(found),
            expected,
        }
    }

    /// The fields of a value, which may be none.
    fn fields(self, path: &[Value], value: Value) -> Result<Mapping> {
        match value {
            Value::Mapping(fields) => Ok(fields),
            Value::Null => Ok(Mapping::new()),
            other => Err(self.wrong(path, &other, "fields with values")),
        }
    }

    /// Fails for a field that is none of these.
    fn check(self, path: &[Value], fields: &Mapping, known: &[&'static str]) -> Result<()> {
        let is_known = |name: &Value| name.as_str().is_some_and(|name| known.contains(&name));
        let Some(other) = fields.keys().find(|name| !is_known(name)) else {
            return Ok(());
        };
        let path: Vec<_> = path.iter().chain([other]).cloned().collect();
        Err(Error::Unknown {
            place: self.place(&path),
            known: known.to_vec(),
        })
    }
}

/// The type of a value, for people.
fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "nothing",
        Value::Bool(_) => "true or false",
        Value::Number(number) if number.is_f64() => "a number with a fraction",
        Value::Number(_) => "a whole number",
        Value::String(_) => "text",
        Value::Sequence(_) => "a list",
        Value::Mapping(_) => "fields with values",
        Value::Tagged(_) => "a value with a tag",
    }
}

/// A file.
pub(crate) struct Reader<'a> {
    finder: Finder<'a>,
    fields: Mapping,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(file: &'a Path, text: &'a str) -> Result<Self> {
        let finder = Finder { file, text };
        let value = serde_yaml_ng::from_str(text).map_err(|error| Error::Syntax {
            place: Place {
                file: file.to_owned(),
                line: error.location().map(|place| place.line()),
                path: String::new(),
            },
            why: error.to_string(),
        })?;
        let fields = finder.fields(&[], value)?;
        finder.check(&[], &fields, &SECTIONS)?;
        Ok(Self { finder, fields })
    }

    /// A section with these fields. It is empty where it is left out.
    pub(crate) fn section(
        &self,
        name: &'static str,
        known: &[&'static str],
    ) -> Result<Section<'a>> {
        let path = [Value::from(name)];
        let value = self.fields.get(name).cloned().unwrap_or(Value::Null);
        let fields = self.finder.fields(&path, value)?;
        self.finder.check(&path, &fields, known)?;
        Ok(Section {
            finder: self.finder,
            name,
            fields,
        })
    }
}

/// A section.
pub(crate) struct Section<'a> {
    finder: Finder<'a>,
    name: &'static str,
    fields: Mapping,
}

impl Section<'_> {
    fn path(&self, field: &str) -> [Value; 2] {
        [Value::from(self.name), Value::from(field)]
    }

    /// The place of a field.
    pub(crate) fn place(&self, field: &str) -> Place {
        self.finder.place(&self.path(field))
    }

    fn get(&self, field: &str) -> Option<&Value> {
        self.fields.get(field).filter(|value| !value.is_null())
    }

    fn wrong(&self, field: &str, found: &Value, expected: &'static str) -> Error {
        self.finder.wrong(&self.path(field), found, expected)
    }

    /// A whole number.
    pub(crate) fn number(&self, field: &str, range: RangeInclusive<u32>) -> Result<Option<u32>> {
        let Some(value) = self.get(field) else {
            return Ok(None);
        };
        let Value::Number(number) = value else {
            return Err(self.wrong(field, value, "a whole number"));
        };
        if number.is_f64() {
            return Err(self.wrong(field, value, "a whole number"));
        }
        let inside = number
            .as_u64()
            .and_then(|number| u32::try_from(number).ok());
        let inside = inside.filter(|number| range.contains(number));
        inside.map(Some).ok_or_else(|| Error::Range {
            place: self.place(field),
            value: number.to_string(),
            least: *range.start(),
            most: *range.end(),
        })
    }

    /// True or false.
    pub(crate) fn truth(&self, field: &str) -> Result<Option<bool>> {
        let Some(value) = self.get(field) else {
            return Ok(None);
        };
        let truth = value.as_bool();
        let truth = truth.ok_or_else(|| self.wrong(field, value, "true or false"))?;
        Ok(Some(truth))
    }

    /// A level, by its name or number.
    pub(crate) fn level(&self, field: &str) -> Result<Option<Level>> {
        let text = match self.get(field) {
            None => return Ok(None),
            Some(Value::String(text)) => text.clone(),
            Some(Value::Number(number)) if !number.is_f64() => number.to_string(),
            Some(other) => return Err(self.wrong(field, other, "the name or number of a level")),
        };
        let level = text.parse().map(Some);
        level.map_err(|_| Error::Level {
            place: self.place(field),
            value: text,
        })
    }

    /// One of a list of words.
    pub(crate) fn word(&self, field: &str, known: &[&'static str]) -> Result<Option<String>> {
        let Some(value) = self.get(field) else {
            return Ok(None);
        };
        let Value::String(word) = value else {
            return Err(self.wrong(field, value, "a word"));
        };
        match known.contains(&word.as_str()) {
            true => Ok(Some(word.clone())),
            false => Err(Error::Word {
                place: self.place(field),
                value: word.clone(),
                known: known.to_vec(),
            }),
        }
    }
}
