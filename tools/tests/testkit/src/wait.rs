// SPDX-License-Identifier: MIT OR Apache-2.0
//! Waiting for what happens on its own.

use std::time::{Duration, Instant};

use anyhow::{bail, Context as _, Result};

/// An event that takes longer does not happen. It is that long because a guest on a busy host may
/// run a hundred times slower than it should.
pub const SOON: Duration = Duration::from_secs(120);

/// Longest time of a call that must not wait for another, which takes `other`: a second. On a
/// machine that needs a short run, only that it has not waited can be told.
pub fn at_once(other: Duration) -> Duration {
    if crate::is_short() {
        other
    } else {
        Duration::from_secs(1)
    }
}

/// Asks until the answer is yes, or for [`SOON`].
pub fn wait_until(what: &str, ask: impl FnMut() -> Result<bool>) -> Result<()> {
    wait_until_within(SOON, what, ask)
}

/// Asks until the answer is yes, or for that long.
pub fn wait_until_within(
    patience: Duration,
    what: &str,
    mut ask: impl FnMut() -> Result<bool>,
) -> Result<()> {
    let end = Instant::now() + patience;
    let mut pause = Duration::from_micros(200);
    while !ask().with_context(|| format!("while waiting: {what}"))? {
        if Instant::now() > end {
            bail!("not within {patience:?}: {what}");
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(20));
    }
    Ok(())
}
