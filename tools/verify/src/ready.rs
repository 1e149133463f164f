// SPDX-License-Identifier: MIT OR Apache-2.0
//! The machine before a run. Tunables hold for all of its GPUs, so checks are felt on each.

use std::fmt;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use libzernel::{gpu, Zernel};

use crate::check::Check;
use crate::settings::Settings;

/// The machine is not ready for checks, and nothing was done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused(pub String);

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Refused {}

/// TSGs of a program that has just ended are gone after so long.
const LEAVE: Duration = Duration::from_secs(1);

/// Compute TSGs of other processes on a GPU, or on all, as far as the caller may see them.
///
/// Errors: those of the list, as a part of it does not tell who is there.
pub fn others(zernel: &Zernel, gpu: Option<gpu::Id>) -> Result<usize> {
    let own = std::process::id();
    let mut count = 0;
    for tsg in zernel.tsgs() {
        let tsg = tsg?;
        let is_there = gpu.is_none_or(|gpu| tsg.gpu == gpu);
        count += usize::from(is_there && tsg.compute && tsg.pid != own);
    }
    Ok(count)
}

/// The reason for which no further check begins beside others who have come.
pub fn newcomers(zernel: &Zernel) -> Option<String> {
    match others(zernel, None) {
        Ok(0) => None,
        Ok(count) => Some(format!("others have come, with compute TSGs: {count}")),
        Err(error) => Some(format!("others cannot be told: {error:#}")),
    }
}

/// Fails with [`Refused`] where these checks would harm somebody, or teach nothing.
pub fn admit(
    zernel: &Zernel,
    settings: &Settings,
    checks: &[&Check],
    beside_others: bool,
) -> Result<()> {
    tunables(settings, checks)?;
    if beside_others {
        return Ok(());
    }
    let begin = Instant::now();
    loop {
        let others = others(zernel, None)?;
        if others == 0 {
            return Ok(());
        }
        if begin.elapsed() > LEAVE {
            return Err(Refused(format!(
                "compute TSGs of others on the GPUs of this machine: {others}. The checks change \
                 tunables for all of them; end them, or give --beside-others"
            ))
            .into());
        }
        sleep(Duration::from_millis(20));
    }
}

/// Fails unless zernel applies classes, with the slices of these checks.
fn tunables(settings: &Settings, checks: &[&Check]) -> Result<()> {
    if settings.get("enabled")? == "0" {
        return refused(
            "the tunable enabled is 0, so no check has an effect: zernelctl tune set enabled 1",
        );
    }
    for (name, is_bad) in [
        (
            "min_timeslice_us",
            (|slice, end| slice < end) as fn(u32, u32) -> bool,
        ),
        ("max_timeslice_us", |slice, end| slice > end),
    ] {
        let text = settings.get(name)?;
        let end: u32 = text.parse().with_context(|| format!("{name}={text}"))?;
        for check in checks {
            if let Some(slice) = check.slices.iter().find(|slice| is_bad(**slice, end)) {
                return refused(format!(
                    "the tunable {name} is {end}, and check {} needs slices of {slice} us",
                    check.name
                ));
            }
        }
    }
    Ok(())
}

fn refused<T>(why: impl Into<String>) -> Result<T> {
    Err(Refused(why.into()).into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use libzernel::tunable::Tunables;
    use std::fs;

    /// The refusal of checks with these tunables, if they are.
    fn told(enabled: &str, ends: [&str; 2], checks: &[&str]) -> Option<String> {
        let dir = tempfile::tempdir().unwrap();
        let [min, max] = ends;
        for (name, value) in [
            ("enabled", enabled),
            ("min_timeslice_us", min),
            ("max_timeslice_us", max),
        ] {
            fs::write(dir.path().join(name), format!("{value}\n")).unwrap();
        }
        let settings = Settings::new(Tunables::open_at(dir.path()).unwrap());
        let checks: Vec<_> = checks.iter().map(|c| crate::named(c).unwrap()).collect();
        let error = tunables(&settings, &checks).err()?;
        Some(error.downcast::<Refused>().unwrap().0)
    }

    #[test]
    fn slices_that_are_clamped_are_refused() {
        let defaults = ["50", "5000000"];
        assert_eq!(told("1", defaults, &["slice", "disable", "clock"]), None);
        let said = told("1", ["50", "4999999"], &["slice", "disable"]).unwrap();
        let expected =
            "the tunable max_timeslice_us is 4999999, and check disable needs slices of \
                        5000000 us";
        assert_eq!(said, expected);
        assert_eq!(told("1", ["50", "4000"], &["slice", "doorbell"]), None);
        let said = told("1", ["1001", "5000000"], &["slice"]).unwrap();
        assert!(said.contains("min_timeslice_us is 1001"), "{said}");
        assert_eq!(told("1", ["100", "100"], &["clock", "registers"]), None);
    }

    #[test]
    fn nothing_is_checked_while_zernel_is_off() {
        let said = told("0", ["50", "5000000"], &["clock"]).unwrap();
        assert!(said.starts_with("the tunable enabled is 0"), "{said}");
    }
}
