// SPDX-License-Identifier: MIT OR Apache-2.0
//! Errors of a file, each with its place, a name and an errno for languages that have no enums.

use std::fmt;
use std::path::PathBuf;

use libzernel::Level;
use rustix::io::Errno;

/// The result of reading a file.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The place of a field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The file.
    pub file: PathBuf,
    /// The line, from 1 on; `None` where it is not known.
    pub line: Option<usize>,
    /// The field with its section, such as `preemption.lanes`; empty for the whole file.
    pub path: String,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.file.display())?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        match self.path.as_str() {
            "" => Ok(()),
            path => write!(f, ": {path}"),
        }
    }
}

/// An error of a file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// It cannot be read.
    #[error("{}: cannot be read: {why}", .file.display())]
    Read {
        /// The file.
        file: PathBuf,
        /// The cause, as the system says it.
        why: String,
        /// The errno of the call.
        errno: i32,
    },
    /// It is longer than [`Config::MOST_BYTES`](crate::Config::MOST_BYTES).
    #[error("{}: longer than {most} bytes", .file.display())]
    Long {
        /// The file.
        file: PathBuf,
        /// The most that it may have.
        most: u64,
    },
    /// It is no text of UTF-8.
    #[error("{}:{line}: not UTF-8", .file.display())]
    Text {
        /// The file.
        file: PathBuf,
        /// The line of the first byte that is none.
        line: usize,
    },
    /// It is no YAML, has a field twice, or more than one document.
    #[error("{place}: not YAML: {why}")]
    Syntax {
        /// Its place.
        place: Place,
        /// The cause.
        why: String,
    },
    /// A section or a field is not known.
    #[error("{place}: not known; known here: {}", .known.join(", "))]
    Unknown {
        /// Its place.
        place: Place,
        /// Those that are known there.
        known: Vec<&'static str>,
    },
    /// A value is of another type.
    #[error("{place}: {found}; expected {expected}")]
    Type {
        /// Its place.
        place: Place,
        /// The type that is there.
        found: &'static str,
        /// The type that is needed.
        expected: &'static str,
    },
    /// A number is out of range.
    #[error("{place}: {value} is out of range; expected {least} to {most}")]
    Range {
        /// Its place.
        place: Place,
        /// The number, as YAML has it.
        value: String,
        /// The least that it may be.
        least: u32,
        /// The most that it may be.
        most: u32,
    },
    /// A number or a word that is no level.
    #[error("{place}: '{value}' is no level; expected a name such as lc, be or normal, or 0 (most urgent) to 7")]
    Level {
        /// Its place.
        place: Place,
        /// The value.
        value: String,
    },
    /// Best-effort work would be more urgent than latency-critical work.
    #[error(
        "{place}: best-effort work would be more urgent ({}) than latency-critical work ({})",
        .best_effort.number(), .latency_critical.number()
    )]
    Order {
        /// Its place.
        place: Place,
        /// The level of latency-critical tasks.
        latency_critical: Level,
        /// The level of best-effort tasks.
        best_effort: Level,
    },
    /// A word that is none of a list.
    #[error("{place}: '{value}' is not known; expected one of {}", .known.join(", "))]
    Word {
        /// Its place.
        place: Place,
        /// The word.
        value: String,
        /// The list.
        known: Vec<&'static str>,
    },
}

impl Error {
    /// Its name, the same in every language.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Read { .. } => "ZERNEL_CONFIG_UNREADABLE",
            Self::Long { .. } => "ZERNEL_CONFIG_TOO_LONG",
            Self::Text { .. } => "ZERNEL_CONFIG_NOT_TEXT",
            Self::Syntax { .. } => "ZERNEL_CONFIG_NOT_YAML",
            Self::Unknown { .. } => "ZERNEL_CONFIG_UNKNOWN_FIELD",
            Self::Type { .. } => "ZERNEL_CONFIG_WRONG_TYPE",
            Self::Range { .. } => "ZERNEL_CONFIG_OUT_OF_RANGE",
            Self::Level { .. } => "ZERNEL_CONFIG_NO_LEVEL",
            Self::Order { .. } => "ZERNEL_CONFIG_WRONG_ORDER",
            Self::Word { .. } => "ZERNEL_CONFIG_UNKNOWN_WORD",
        }
    }

    /// The number that calls of C return, negated.
    pub fn errno(&self) -> i32 {
        let errno = match self {
            Self::Read { errno, .. } => return *errno,
            Self::Long { .. } => Errno::FBIG,
            Self::Text { .. } => Errno::ILSEQ,
            Self::Syntax { .. } => Errno::BADMSG,
            Self::Unknown { .. } => Errno::NOKEY,
            Self::Type { .. } => Errno::PROTOTYPE,
            Self::Range { .. } => Errno::RANGE,
            Self::Level { .. } => Errno::DOM,
            Self::Order { .. } => Errno::DEADLK,
            Self::Word { .. } => Errno::NOSTR,
        };
        errno.raw_os_error()
    }

    /// The place of its field; `None` for the file as a whole.
    pub fn place(&self) -> Option<&Place> {
        match self {
            Self::Read { .. } | Self::Long { .. } | Self::Text { .. } => None,
            Self::Syntax { place, .. }
            | Self::Unknown { place, .. }
            | Self::Type { place, .. }
            | Self::Range { place, .. }
            | Self::Level { place, .. }
            | Self::Order { place, .. }
            | Self::Word { place, .. } => Some(place),
        }
    }
}
