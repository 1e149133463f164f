// SPDX-License-Identifier: MIT OR Apache-2.0
//! Running `zernelctl gpu verify`, and its report.

use std::collections::BTreeMap;

use anyhow::{ensure, Context as _, Result};
use libzernel::tunable::{Tunable, Tunables};
use serde_json::Value;

use crate::harness::Outcome;
use crate::zernelctl::outcome;

/// All checks by their names.
pub const CHECKS: [&str; 13] = [
    "clock",
    "disable",
    "doorbell",
    "engine",
    "holder",
    "interleave",
    "latency",
    "preempt",
    "records",
    "registers",
    "restart",
    "slice",
    "user",
];

/// Runs of a check whose verdict is not the expected one: a guest that stands still for a second
/// delays an effect for longer than it is waited for.
const TRIES: usize = 3;

/// A report, as JSON.
#[derive(Debug)]
pub struct Report {
    json: Value,
    /// The exit code.
    pub code: Option<i32>,
    /// Standard error.
    pub said: String,
}

impl Report {
    /// Of a run with these options.
    pub fn of(options: &[&str]) -> Result<Self> {
        let arguments = [&["gpu", "verify", "--json"], options].concat();
        let (code, printed, said) = outcome(&arguments)?;
        let json = serde_json::from_str(&printed).with_context(|| format!("{code:?}: {said}"))?;
        Ok(Self { json, code, said })
    }

    /// A value by its path, such as `/gpu/bus`.
    pub fn value(&self, path: &str) -> Result<&Value> {
        let value = self.json.pointer(path);
        value.with_context(|| format!("no {path} in the report"))
    }

    fn check(&self, name: &str) -> Result<&Value> {
        let checks = self.value("/checks")?.as_array().context("no list")?;
        let found = checks.iter().find(|check| check["name"] == name);
        found.with_context(|| format!("no check {name}"))
    }

    /// The verdict on each check.
    pub fn verdicts(&self) -> Result<BTreeMap<String, String>> {
        let checks = self.value("/checks")?.as_array().context("no list")?;
        let text = |value: &Value| anyhow::Ok(value.as_str().context("no text")?.to_owned());
        let each = checks
            .iter()
            .map(|check| Ok((text(&check["name"])?, text(&check["verdict"])?)));
        each.collect()
    }

    /// The verdict on a check, and the reason.
    pub fn verdict(&self, name: &str) -> Result<(&str, &str)> {
        let check = self.check(name)?;
        let verdict = check["verdict"].as_str().context("no verdict")?;
        Ok((verdict, check["reason"].as_str().unwrap_or_default()))
    }

    /// The median of a figure, if the check has it.
    pub fn figure(&self, check: &str, name: &str) -> Result<Option<f64>> {
        let figures = self.check(check)?["figures"]
            .as_array()
            .context("no list")?;
        let found = figures.iter().find(|figure| figure["name"] == name);
        Ok(found.and_then(|figure| figure["median"].as_f64()))
    }
}

/// Runs checks until each has the expected verdict.
pub fn expect(expected: &[(&str, &str)]) -> Result<Report> {
    let mut last = String::new();
    for _ in 0..TRIES {
        let names = expected.iter().map(|(name, _)| *name);
        let options: Vec<_> = ["--only"].into_iter().chain(names).collect();
        let report = Report::of(&options)?;
        let wrong = |(name, verdict): &&(&str, &str)| {
            report
                .verdict(name)
                .map_or(true, |found| found.0 != *verdict)
        };
        let Some((name, verdict)) = expected.iter().find(wrong) else {
            return Ok(report);
        };
        last = format!("{name}: {}, expected {verdict}", report.check(name)?);
        println!("    # {last}");
    }
    anyhow::bail!("{last}")
}

/// Fails unless a run of all checks, or another one of a check, has the verdict `ok` on each, and
/// `not here` on these.
pub fn expect_whole(whole: &Report, not_here: &[&str]) -> Outcome {
    ensure!(
        whole.verdicts()?.keys().eq(&CHECKS),
        "{:?}",
        whole.verdicts()?
    );
    for name in CHECKS {
        let expected = if not_here.contains(&name) {
            "not here"
        } else {
            "ok"
        };
        let (found, why) = whole.verdict(name)?;
        if found != expected {
            println!("    # {name}: {found}, {why}");
            expect(&[(name, expected)])?;
        }
    }
    Ok(())
}

/// The tunables of zernel.
pub fn tunables() -> Result<Vec<Tunable>> {
    Ok(Tunables::open()?.list()?)
}
