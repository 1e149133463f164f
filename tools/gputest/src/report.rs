// SPDX-License-Identifier: MIT OR Apache-2.0
//! The findings of programs: figures with their expected ranges, and a verdict.

use serde::Serialize;

/// A distribution of measured values.
#[derive(Debug, Clone, Serialize)]
pub struct Figure {
    /// The quantity and its unit.
    pub name: String,
    /// Measured values.
    pub count: usize,
    /// Percentiles, and the least and greatest value.
    pub min: f64,
    pub p50: f64,
    pub p90: f64,
    pub p99: f64,
    pub max: f64,
}

impl Figure {
    /// Of values; `None` of none.
    pub fn of(name: &str, mut values: Vec<f64>) -> Option<Self> {
        values.sort_by(f64::total_cmp);
        let last = values.len().checked_sub(1)?;
        // The value at or above which so many of a hundred end: nearest rank.
        let at = |percent: usize| values[((last + 1) * percent).div_ceil(100).max(1) - 1];
        Some(Self {
            name: name.to_owned(),
            count: values.len(),
            min: values[0],
            p50: at(50),
            p90: at(90),
            p99: at(99),
            max: values[last],
        })
    }
}

impl Figure {
    /// As a line.
    pub fn told(&self) -> String {
        let Self {
            name,
            count,
            min,
            p50,
            p90,
            p99,
            max,
        } = self;
        format!(
            "{name}: p50 {p50:.2}, p90 {p90:.2}, p99 {p99:.2}, from {min:.2} to {max:.2}, of {count}"
        )
    }
}

/// A claim, and if it holds.
#[derive(Debug, Clone, Serialize)]
pub struct Check {
    /// The expected range.
    pub expected: String,
    /// It holds.
    pub holds: bool,
    /// It is about the times of a GPU: one in software has others.
    pub hardware_only: bool,
}

/// The verdict on a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// All that it expects holds.
    Ok,
    /// Something does not.
    Outside,
    /// It cannot run here, as it says.
    Absent,
    /// It could not come to its end.
    Failed,
}

/// The findings of a program.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Findings {
    /// Distributions.
    pub figures: Vec<Figure>,
    /// Single values, with their unit in the name.
    pub values: Vec<(String, String)>,
    /// Claims.
    pub checks: Vec<Check>,
    /// Why it cannot run here.
    pub absent: Option<String>,
}

impl Findings {
    /// Nothing, as the program cannot run here.
    pub fn absent(why: impl Into<String>) -> Self {
        Self {
            absent: Some(why.into()),
            ..Self::default()
        }
    }

    /// Adds a distribution; returns it.
    pub fn figure(&mut self, name: &str, values: Vec<f64>) -> Option<Figure> {
        let figure = Figure::of(name, values)?;
        self.figures.push(figure.clone());
        Some(figure)
    }

    /// Adds a value.
    pub fn value(&mut self, name: &str, value: impl ToString) {
        self.values.push((name.to_owned(), value.to_string()));
    }

    /// Adds a claim that holds on any GPU.
    pub fn expect(&mut self, expected: impl Into<String>, holds: bool) {
        self.check(expected.into(), holds, false);
    }

    /// Adds a claim about the times of a GPU.
    pub fn expect_on_hardware(&mut self, expected: impl Into<String>, holds: bool) {
        self.check(expected.into(), holds, true);
    }

    fn check(&mut self, expected: String, holds: bool, hardware_only: bool) {
        self.checks.push(Check {
            expected,
            holds,
            hardware_only,
        });
    }

    /// The verdict; on a GPU in software without what is about hardware.
    pub fn verdict(&self, is_software: bool) -> Verdict {
        let counts = |check: &&Check| !(is_software && check.hardware_only);
        if self.absent.is_some() {
            Verdict::Absent
        } else if self.checks.iter().filter(counts).all(|check| check.holds) {
            Verdict::Ok
        } else {
            Verdict::Outside
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_of_the_nearest_rank() {
        let figure = Figure::of("x", (1..=200).map(f64::from).rev().collect()).unwrap();
        let found = [figure.min, figure.p50, figure.p90, figure.p99, figure.max];
        assert_eq!(found, [1.0, 100.0, 180.0, 198.0, 200.0]);
        let one = Figure::of("x", vec![7.0]).unwrap();
        assert_eq!([one.min, one.p50, one.p99, one.max], [7.0; 4]);
        assert!(Figure::of("x", Vec::new()).is_none());
    }

    #[test]
    fn claims_about_hardware_do_not_count_on_software() {
        let mut findings = Findings::default();
        assert_eq!(findings.verdict(false), Verdict::Ok);
        findings.expect("a", true);
        findings.expect_on_hardware("b", false);
        assert_eq!(findings.verdict(true), Verdict::Ok);
        assert_eq!(findings.verdict(false), Verdict::Outside);
        findings.expect("c", false);
        assert_eq!(findings.verdict(true), Verdict::Outside);
        assert_eq!(Findings::absent("d").verdict(false), Verdict::Absent);
    }
}
