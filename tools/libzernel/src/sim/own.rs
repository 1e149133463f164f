// SPDX-License-Identifier: MIT OR Apache-2.0
//! TSGs that a library of this process has made, in files of its own.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;

use rustix::process::{getpid, pidfd_getfd, pidfd_open, PidfdFlags, PidfdGetfdFlags};

use super::{Sim, TsgStats, COMPUTE_ENGINE};

/// Contexts that the stand-in for CUDA makes in a file: for compute, and for copies.
const CONTEXTS: u32 = 4;

/// A TSG of another part of this process.
#[derive(Debug)]
pub struct OwnTsg {
    /// Its file.
    pub file: OwnedFd,
    /// Its context there.
    pub context: u32,
    /// Its statistics.
    pub stats: TsgStats,
}

impl OwnTsg {
    /// Those for compute, of all files of the software GPU that this process has open.
    ///
    /// # Errors
    ///
    /// The list of open files cannot be read, or a file cannot be opened once more.
    pub fn for_compute() -> io::Result<Vec<Self>> {
        let process = pidfd_open(getpid(), PidfdFlags::empty())?;
        let mut found = Vec::new();
        for entry in fs::read_dir("/proc/self/fd")? {
            let entry = entry?;
            // The one of the folder itself is gone when it is read.
            if !fs::read_link(entry.path()).is_ok_and(|to| to.as_os_str() == Sim::PATH) {
                continue;
            }
            let name = entry.file_name();
            let Some(number) = name.to_str().and_then(|name| name.parse().ok()) else {
                continue;
            };
            for context in 0..=CONTEXTS {
                let file = pidfd_getfd(&process, number, PidfdGetfdFlags::empty())?;
                match TsgStats::of_file(&file, context) {
                    Ok(stats) if stats.engine == COMPUTE_ENGINE => found.push(Self {
                        file,
                        context,
                        stats,
                    }),
                    _ => {}
                }
            }
        }
        Ok(found)
    }
}
