// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tunables: the attributes under `/sys/class/misc/zernel`, one value per file.

mod known;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use serde::Serialize;

use crate::{Error, Result};

/// Attributes that devices have anyway and that tune nothing.
const FOREIGN: [&str; 3] = ["dev", "uevent", "waiting_for_supplier"];

/// The folder of attributes.
#[derive(Debug, Clone)]
pub struct Tunables {
    dir: PathBuf,
}

/// An attribute and its value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Tunable {
    /// Its name.
    pub name: String,
    /// Its value as the kernel prints it.
    pub value: String,
    /// It can be set, given permission.
    pub writable: bool,
    /// Its value until it is tuned; `None` if that is not known.
    pub default: Option<&'static str>,
}

impl Tunables {
    /// Where the attributes are.
    pub const PATH: &'static str = "/sys/class/misc/zernel";

    /// Opens the folder.
    ///
    /// Errors: [`Error::Open`] when the module is not loaded.
    pub fn open() -> Result<Self> {
        Self::open_at(Self::PATH)
    }

    /// Opens the folder at `dir`.
    pub fn open_at(dir: impl AsRef<Path>) -> Result<Self> {
        let dir = dir.as_ref().to_owned();
        match fs::metadata(&dir) {
            Ok(meta) if meta.is_dir() => Ok(Self { dir }),
            Ok(_) => Err(Error::Open {
                path: dir,
                errno: Errno::NOTDIR,
            }),
            Err(error) => Err(Error::Open {
                path: dir,
                errno: errno_of(&error),
            }),
        }
    }

    /// All attributes by name.
    pub fn list(&self) -> Result<Vec<Tunable>> {
        let failed = |error: io::Error| Error::Open {
            path: self.dir.clone(),
            errno: errno_of(&error),
        };
        let mut names = Vec::new();
        for entry in fs::read_dir(&self.dir).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let file = entry.file_type().map_err(failed)?.is_file();
            if let (true, Ok(name)) = (file, entry.file_name().into_string()) {
                if !FOREIGN.contains(&name.as_str()) {
                    names.push(name);
                }
            }
        }
        names.sort();
        names.iter().map(|name| self.get(name)).collect()
    }

    /// One attribute.
    ///
    /// Errors: [`Error::Tunable`].
    pub fn get(&self, name: &str) -> Result<Tunable> {
        let path = self.path(name)?;
        let value = fs::read_to_string(&path).map_err(|error| read_error(name, &error))?;
        let mode = fs::metadata(&path).map_err(|error| read_error(name, &error))?;
        Ok(Tunable {
            name: name.to_owned(),
            value: value.trim_end().to_owned(),
            writable: !mode.permissions().readonly(),
            default: known::default(name),
        })
    }

    /// Sets one attribute.
    ///
    /// Errors: [`Error::Tunable`] when the kernel does not take the value.
    pub fn set(&self, name: &str, value: &str) -> Result<()> {
        let path = self.path(name)?;
        if !path.is_file() {
            return Err(unknown(name));
        }
        fs::write(path, format!("{value}\n")).map_err(|error| {
            let errno = errno_of(&error);
            Error::Tunable {
                attribute: name.to_owned(),
                why: refusal(name, value, errno),
                errno: Some(errno),
            }
        })
    }

    fn path(&self, name: &str) -> Result<PathBuf> {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
        if name.is_empty() || !name.bytes().all(plain) || FOREIGN.contains(&name) {
            return Err(unknown(name));
        }
        Ok(self.dir.join(name))
    }
}

fn unknown(name: &str) -> Error {
    Error::Tunable {
        attribute: name.to_owned(),
        why: "there is no such tunable; zernelctl tune list shows all".to_owned(),
        errno: Some(Errno::NOENT),
    }
}

/// The longest value that is told in full.
const LONGEST: usize = 64;

/// Why the kernel does not take `value`.
fn refusal(name: &str, value: &str, errno: Errno) -> String {
    let value = match value.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}...", &value[..end]),
        None => value.to_owned(),
    };
    let values = match known::values(name) {
        Some(values) => format!("it takes {values}"),
        None => "see its file in Documentation/ABI".to_owned(),
    };
    match errno {
        Errno::INVAL => format!("'{value}' is no value of this tunable: {values}"),
        Errno::RANGE => format!("'{value}' is out of range: {values}"),
        Errno::ACCESS | Errno::PERM => "setting it needs root".to_owned(),
        _ => format!("could not be set to '{value}': {}", io::Error::from(errno)),
    }
}

fn read_error(name: &str, error: &io::Error) -> Error {
    match errno_of(error) {
        Errno::NOENT => unknown(name),
        errno => Error::Tunable {
            attribute: name.to_owned(),
            why: format!("could not be read: {error}"),
            errno: Some(errno),
        },
    }
}

fn errno_of(error: &io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::IO)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Cause;

    fn folder() -> (tempfile::TempDir, Tunables) {
        let dir = tempfile::tempdir().unwrap();
        for (name, value) in [
            ("enabled", "1\n"),
            ("level0_timeslice_us", "5000000\n"),
            ("default_class", "none\n"),
            ("uevent", "MAJOR=10\n"),
            ("waiting_for_supplier", "0\n"),
        ] {
            fs::write(dir.path().join(name), value).unwrap();
        }
        fs::create_dir(dir.path().join("power")).unwrap();
        let tunables = Tunables::open_at(dir.path()).unwrap();
        (dir, tunables)
    }

    #[test]
    fn lists_only_tunables_in_order() {
        let (_dir, tunables) = folder();
        let list = tunables.list().unwrap();
        let names: Vec<_> = list.iter().map(|tunable| tunable.name.as_str()).collect();
        assert_eq!(names, ["default_class", "enabled", "level0_timeslice_us"]);
        assert_eq!(list[0].value, "none");
    }

    #[test]
    fn sets_what_is_there_and_nothing_else() {
        let (dir, tunables) = folder();
        tunables.set("enabled", "0").unwrap();
        assert_eq!(tunables.get("enabled").unwrap().value, "0");
        for name in [
            "nothing",
            "../enabled",
            "",
            "uevent",
            "waiting_for_supplier",
        ] {
            let error = tunables.set(name, "1").unwrap_err();
            assert!(error.to_string().contains("no such tunable"), "{error}");
            assert_eq!(error.cause(), Cause::NoSuchTarget);
        }
        assert!(!dir.path().join("nothing").exists());
    }

    #[test]
    fn a_wrong_kind_and_a_wrong_range_are_told_apart() {
        assert_eq!(
            refusal("order", "EDF", Errno::INVAL),
            "'EDF' is no value of this tunable: it takes fifo, edf or edf-preemptive"
        );
        assert_eq!(
            refusal("level3_period_us", "10000", Errno::RANGE),
            "'10000' is out of range: it takes 1000 to 10000000, not below the level's budget"
        );
        let unknown = refusal("new", &"9".repeat(65), Errno::RANGE);
        assert!(unknown.starts_with(&format!("'{}...' is out of range: see", "9".repeat(64))));
    }

    #[test]
    fn missing_module_has_its_cause() {
        let error = Tunables::open_at("/nonexistent").unwrap_err();
        assert_eq!(error.cause(), Cause::NoDevice);
    }
}
