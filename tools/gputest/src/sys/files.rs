// SPDX-License-Identifier: MIT OR Apache-2.0
//! Files that a library of this process has open.

use std::fs;
use std::os::fd::{BorrowedFd, OwnedFd, RawFd};

use anyhow::Result;

/// The numbers of open files of this path.
pub fn open_of(path: &str) -> Result<Vec<RawFd>> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc/self/fd")? {
        let entry = entry?;
        // The one of the folder itself is gone when it is read.
        let Ok(target) = fs::read_link(entry.path()) else {
            continue;
        };
        if target.as_os_str() == path {
            found.extend(
                entry
                    .file_name()
                    .to_str()
                    .and_then(|name| name.parse::<RawFd>().ok()),
            );
        }
    }
    Ok(found)
}

/// The same open file, as one of our own.
pub fn duplicate(number: RawFd) -> Result<OwnedFd> {
    // SAFETY: A number that is open no more is refused; any other file is left as it is.
    let file = unsafe { BorrowedFd::borrow_raw(number) };
    Ok(file.try_clone_to_owned()?)
}
