// SPDX-License-Identifier: MIT OR Apache-2.0
//! The environment variables, and the log.

use std::fs::OpenOptions;
use std::io::Write as _;

/// The value of a variable, if it is a number.
pub(crate) fn number(name: &str) -> Option<usize> {
    std::env::var(name).ok()?.parse().ok()
}

/// True if a function is to fail.
pub(crate) fn fails(function: &str) -> bool {
    let names = std::env::var("FAKEIO_FAILS").unwrap_or_default();
    names.split(',').any(|name| name == function)
}

/// Adds a line to the log, if there is one.
pub(crate) fn log(line: &str) {
    let Some(path) = std::env::var_os("FAKEIO_LOG") else {
        return;
    };
    let file = OpenOptions::new().append(true).create(true).open(path);
    if let Ok(mut file) = file {
        // A log that cannot be written is a test that fails.
        let _ = file.write_all(format!("{line}\n").as_bytes());
    }
}
