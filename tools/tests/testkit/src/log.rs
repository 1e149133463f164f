// SPDX-License-Identifier: MIT OR Apache-2.0
//! The kernel's log.

use std::fs;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use anyhow::{ensure, Context as _, Result};

/// A place in the kernel's log: a line of our own, for what was there before may be overwritten.
pub struct Mark(String);

impl Mark {
    /// From here on.
    pub fn new() -> Result<Self> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Relaxed);
        let mark = format!("testkit: mark {}.{count}.", std::process::id());
        // Without an end of line it would wait for the rest of it.
        fs::write("/dev/kmsg", format!("{mark}\n")).context("write to the kernel's log")?;
        Ok(Self(mark))
    }

    /// The lines since.
    pub fn lines(&self) -> Result<Vec<String>> {
        let output = Command::new("dmesg").output()?;
        ensure!(output.status.success(), "dmesg: {}", output.status);
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let (_, since) = text
            .rsplit_once(&self.0)
            .with_context(|| format!("so much was said that '{}' is overwritten", self.0))?;
        Ok(since.lines().skip(1).map(str::to_owned).collect())
    }
}
