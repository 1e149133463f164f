// SPDX-License-Identifier: MIT OR Apache-2.0
//! The whole system sleeps.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};

use crate::harness::Skip;

const POWER: &str = "/sys/power";
const DELAY: &str = "/sys/module/suspend/parameters/pm_test_delay";

/// A sleep that ends by itself: the kernel's own test of it, up to some depth. Skips the case
/// where the kernel has no such test.
pub fn sleep(depth: &str) -> Result<()> {
    if !can_sleep() {
        return Err(Skip("this kernel has no test of its sleep").into());
    }
    let put = |name: &str, value: &str| {
        fs::write(Path::new(POWER).join(name), value).with_context(|| format!("{value} to {name}"))
    };
    fs::write(DELAY, "1")?;
    put("pm_test", depth)?;
    let slept = put("state", "mem");
    put("pm_test", "none")?;
    slept
}

/// True if the kernel can be asked for that.
fn can_sleep() -> bool {
    let states = fs::read_to_string(Path::new(POWER).join("state")).unwrap_or_default();
    states.split_whitespace().any(|state| state == "mem")
        && Path::new(POWER).join("pm_test").exists()
        && Path::new(DELAY).exists()
}
