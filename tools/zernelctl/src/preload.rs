// SPDX-License-Identifier: MIT OR Apache-2.0
//! The library that gives requests to a program that knows nothing of them.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::ValueEnum;

use crate::exit::Unsound;

/// The variable of the loader that has libraries to load before those of a program.
pub const VARIABLE: &str = "LD_PRELOAD";

/// The variable that names the library.
const LIBRARY_VARIABLE: &str = "ZERNEL_AUTO_LIBRARY";

/// Why a library is refused without requests.
const NEEDLESS: &str = "--auto-library is for --requests auto";

/// Where it is, beside the folder of this program.
const PLACE: &str = "lib/zernel/libzernel-auto.so";

/// Requests of a command.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum Requests {
    /// Those that it makes itself.
    #[default]
    Off,
    /// Taken from its calls of CUDA.
    Auto,
}

/// A library for the loader.
#[derive(Debug, PartialEq, Eq)]
pub struct Preload(OsString);

impl Requests {
    /// The library that is to be preloaded, if one is: `named`, or the one of the environment, or that
    /// beside this program. Without requests none may be `named`.
    pub fn preload(self, named: Option<PathBuf>) -> Result<Option<Preload>> {
        if self == Self::Off {
            return match named {
                Some(_) => Err(Unsound(NEEDLESS.to_owned()).into()),
                None => Ok(None),
            };
        }
        let of_environment = std::env::var_os(LIBRARY_VARIABLE).filter(|text| !text.is_empty());
        let named = named.or_else(|| of_environment.map(PathBuf::from));
        let library = match named {
            Some(named) => named,
            None => beside(&std::env::current_exe().context("cannot find this program")?),
        };
        Preload::of(&library, std::env::var_os(VARIABLE)).map(Some)
    }
}

/// The library beside a program: `../lib/zernel` from its folder.
fn beside(program: &Path) -> PathBuf {
    let prefix = program.parent().and_then(Path::parent);
    prefix.unwrap_or(Path::new("/")).join(PLACE)
}

impl Preload {
    /// A library, before those that are preloaded anyway.
    fn of(library: &Path, others: Option<OsString>) -> Result<Self> {
        let shown = library.display();
        let found = library.canonicalize().with_context(|| {
            format!(
                "no library for --requests auto at {shown}: install it, or name it with \
                 --auto-library or {LIBRARY_VARIABLE}"
            )
        })?;
        // Names end with some, and `$ORIGIN` and others stand for paths.
        let is_special = |byte: &u8| matches!(byte, b':' | b'$' | b' ' | b'\t' | b'\n');
        if found.as_os_str().as_bytes().iter().any(is_special) {
            let why = "the loader takes no path with spaces, colons or $ for --requests auto";
            return Err(Unsound(format!("{}: {why}", found.display())).into());
        }
        let mut value = found.into_os_string();
        if let Some(others) = others.filter(|others| !others.is_empty()) {
            value.push(":");
            value.push(others);
        }
        Ok(Self(value))
    }

    /// The value of the loader's variable.
    pub fn value(&self) -> &OsString {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_library_is_beside_the_program() {
        for (program, library) in [
            (
                "/usr/local/bin/zernelctl",
                "/usr/local/lib/zernel/libzernel-auto.so",
            ),
            ("/zernelctl", "/lib/zernel/libzernel-auto.so"),
        ] {
            assert_eq!(beside(Path::new(program)), Path::new(library));
        }
    }

    #[test]
    fn it_comes_before_others() {
        let folder = tempfile::tempdir().unwrap();
        let library = folder.path().join("lib.so");
        std::fs::write(&library, "").unwrap();
        let library = library.canonicalize().unwrap();
        let value = |others: Option<&str>| {
            let preload = Preload::of(&library, others.map(OsString::from)).unwrap();
            preload.value().to_str().unwrap().to_owned()
        };
        let own = library.to_str().unwrap();
        assert_eq!(value(None), own);
        assert_eq!(value(Some("")), own);
        assert_eq!(value(Some("/a.so /b.so")), format!("{own}:/a.so /b.so"));
    }

    #[test]
    fn none_and_one_that_cannot_be_named_are_errors() {
        let error = Preload::of(Path::new("/nonexistent/auto.so"), None).unwrap_err();
        let text = format!("{error:#}");
        assert!(
            text.starts_with("no library for --requests auto at /nonexistent/auto.so: "),
            "{text}"
        );
        let folder = tempfile::tempdir().unwrap();
        for name in ["a b.so", "a:b.so", "$ORIGIN.so", "a\tb.so"] {
            let library = folder.path().join(name);
            std::fs::write(&library, "").unwrap();
            let error = Preload::of(&library, None).unwrap_err();
            assert!(error.is::<Unsound>(), "{error}");
            assert!(
                error.to_string().contains(" spaces, colons or $ "),
                "{error}"
            );
        }
    }

    #[test]
    fn a_library_without_requests_is_an_error() {
        assert_eq!(Requests::Off.preload(None).unwrap(), None);
        let error = Requests::Off
            .preload(Some(PathBuf::from("/lib.so")))
            .unwrap_err();
        assert!(error.is::<Unsound>());
        assert_eq!(error.to_string(), NEEDLESS);
    }
}
