// SPDX-License-Identifier: MIT OR Apache-2.0
//! Threads of a program whose requests and calls meet.

use std::time::Duration;

use anyhow::{ensure, Context as _, Result};
use testkit::check_eq;
use testkit::harness::Outcome;

use super::lab::{added, serves, serves_with, zernelctl, JUDGED, USUAL, WAYS};
use crate::lab::lease;

/// A lease that nobody waits out.
const LONG: Duration = Duration::from_secs(5);

/// The longest of the calls that a program has measured, as it prints it first.
pub fn longest(output: &str) -> Result<Duration> {
    let longest = output.strip_prefix("longest ");
    let longest = longest.and_then(|rest| rest.split_once(' '));
    Ok(Duration::from_micros(
        longest.context("no time")?.0.parse()?,
    ))
}

/// The first launch of a kernel of a library waits for no request, and costs the program none.
pub fn late_kernels() -> Outcome {
    lease(&LONG.as_micros().to_string())?;
    let counts = added(|| {
        let longest = longest(&serves_with(USUAL, &["late", "80"], JUDGED)?)?;
        ensure!(longest < LONG / 2, "a launch waited {longest:?}");
        Ok(())
    })?;
    // A site that had lost all of them would have paused after 32.
    ensure!(counts["begun"] >= 40, "{counts:?}");
    check_eq!(counts["cancelled"], counts["begun"], "{counts:?}");
    Ok(())
}

/// A trigger does not wait so long as the data took: a call that stalls would wait for it.
pub fn slow_data() -> Outcome {
    lease("1000")?;
    let arguments = USUAL.with_requests(&["slow", "6"]);
    let outcome = zernelctl(&arguments, &[("FAKECUDA_STALL_COPIES", "1")])?;
    check_eq!(outcome.code, Some(0), "{outcome:?}");
    let longest = longest(&outcome.output)?;
    ensure!(
        longest < Duration::from_millis(200),
        "a copy waited {longest:?}"
    );
    Ok(())
}

/// The lanes of threads that have left their requests are there for others.
pub fn lanes_of_others() -> Outcome {
    lease("1000")?;
    let counts = added(|| serves(USUAL, &["lanes", "20"]).map(|_| ()))?;
    ensure!((4 + 15..=24).contains(&counts["begun"]), "{counts:?}");
    Ok(())
}

/// The default stream of a thread is not that of another one.
pub fn default_streams() -> Outcome {
    lease(&LONG.as_micros().to_string())?;
    for way in [WAYS[1], WAYS[5]] {
        let counts = added(|| serves(way, &["defaults", "24"]).map(|_| ()))?;
        check_eq!(counts["done"], 24, "{way:?}: {counts:?}");
    }
    Ok(())
}

/// Contexts that are made at once have requests each.
pub fn makers() -> Outcome {
    lease(&LONG.as_micros().to_string())?;
    let counts = added(|| serves(USUAL, &["makers", "10", "4"]).map(|_| ()))?;
    check_eq!(counts["done"], 80, "{counts:?}");
    Ok(())
}

/// Data from files is none from a socket.
pub fn files() -> Outcome {
    lease(&LONG.as_micros().to_string())?;
    let arguments = USUAL.with_requests(&["files", "20"]);
    let counts = added(|| {
        let outcome = zernelctl(&arguments, &[("ZERNEL_AUTO", "begin=socket,sites=all")])?;
        let told = (
            outcome.code,
            outcome.output.as_str(),
            outcome.errors.as_str(),
        );
        check_eq!(told, (Some(0), "served\n", ""));
        Ok(())
    })?;
    check_eq!(counts["done"], 20, "{counts:?}");
    Ok(())
}
