// SPDX-License-Identifier: MIT OR Apache-2.0
//! Programs that were built with an older version of the header.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use anyhow::{Context as _, Result};

use super::stage::Stage;
use crate::check_eq;
use crate::harness::Outcome;

/// A version, and its programs.
macro_rules! programs {
    ($version:literal) => {
        (
            $version,
            [
                include_bytes!(concat!(env!("OUT_DIR"), "/", $version, "-64")),
                include_bytes!(concat!(env!("OUT_DIR"), "/", $version, "-32")),
            ],
        )
    };
}

/// Programs of the recorded headers: version, 64 and 32 bits.
const PROGRAMS: [(&str, [&[u8]; 2]); 3] = [programs!("v1"), programs!("v2"), programs!("v3")];

/// `ENOEXEC`.
const NO_EXEC: i32 = 8;

pub(super) fn old_programs() -> Outcome {
    let _stage = Stage::new()?;
    for (version, [long, short]) in PROGRAMS {
        run(version, long)?.with_context(|| format!("the program of {version}"))?;
        if run(version, short)?.is_none() {
            eprintln!("this kernel runs no 32-bit programs");
        }
    }
    Ok(())
}

/// Runs a program, which says by its exit status which step went wrong. `None`: the kernel does not
/// run it.
fn run(version: &str, bytes: &[u8]) -> Result<Option<()>> {
    let path = std::env::temp_dir().join(format!("zernel-{version}-{}", std::process::id()));
    fs::write(&path, bytes)?;
    fs::set_permissions(&path, fs::Permissions::from_mode(0o700))?;
    let status = Command::new(&path).status();
    fs::remove_file(&path)?;
    match status {
        Err(error) if error.raw_os_error() == Some(NO_EXEC) => Ok(None),
        status => {
            check_eq!(status?.code(), Some(0), "{version}: the wrong step");
            Ok(Some(()))
        }
    }
}
