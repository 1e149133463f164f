// SPDX-License-Identifier: MIT OR Apache-2.0
//! Figures of a check: a sample, the range that is expected of it, and the judgement.

use std::fmt;

use serde::Serialize;

/// The unit of a figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// Microseconds.
    #[serde(rename = "us")]
    Microseconds,
    /// Nanoseconds.
    #[serde(rename = "ns")]
    Nanoseconds,
    /// Parts of a thousand.
    Permille,
    /// Parts of 10^9.
    Ppb,
    /// A number of things.
    Count,
}

impl fmt::Display for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Microseconds => "us",
            Self::Nanoseconds => "ns",
            Self::Permille => "permille",
            Self::Ppb => "ppb",
            Self::Count => "",
        })
    }
}

/// Some values of one thing.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Sample {
    /// Their number.
    pub n: usize,
    /// The least.
    pub min: f64,
    /// The middle one: that of the lower half if there are two.
    pub median: f64,
    /// The mean.
    pub mean: f64,
    /// The least value that is not below 99 of 100.
    pub p99: f64,
    /// The greatest.
    pub max: f64,
}

impl Sample {
    /// Of some values; `None` without any.
    pub fn of(values: &[f64]) -> Option<Self> {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let (min, max) = (*sorted.first()?, *sorted.last()?);
        let n = sorted.len();
        Some(Self {
            n,
            min,
            median: sorted[(n - 1) / 2],
            mean: sorted.iter().sum::<f64>() / n as f64,
            p99: sorted[(n * 99).div_ceil(100) - 1],
            max,
        })
    }
}

/// The range that the median of a figure is expected in, ends included.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Range {
    /// The lower end.
    pub min: f64,
    /// The upper end.
    pub max: f64,
}

impl Range {
    /// From one value to another.
    pub const fn new(min: f64, max: f64) -> Self {
        Self { min, max }
    }

    /// That value alone.
    pub const fn exactly(value: f64) -> Self {
        Self::new(value, value)
    }

    fn contains(self, value: f64) -> bool {
        (self.min..=self.max).contains(&value)
    }
}

/// The meaning of a figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// It shows that an effect is there: judged on every GPU.
    Effect,
    /// A cost, or another property of hardware: judged on hardware alone.
    Cost,
}

/// The judgement on a figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Judgement {
    /// It is in its range.
    Within,
    /// It is not.
    Outside,
    /// It has no range, or is a cost of a GPU that is no hardware.
    NotJudged,
}

/// A figure.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Figure {
    /// Its name, unique in its check.
    pub name: String,
    /// Its unit.
    pub unit: Unit,
    /// Its meaning.
    pub kind: Kind,
    /// The values.
    #[serde(flatten)]
    pub sample: Sample,
    /// The range expected, where it is known.
    pub expected: Option<Range>,
    /// The source of the range, or that it is not known.
    pub source: &'static str,
}

impl Figure {
    /// The judgement on it.
    pub fn judge(&self, hardware: bool) -> Judgement {
        match self.expected {
            Some(_) if self.kind == Kind::Cost && !hardware => Judgement::NotJudged,
            Some(range) if range.contains(self.sample.median) => Judgement::Within,
            Some(_) => Judgement::Outside,
            None => Judgement::NotJudged,
        }
    }
}

/// The source of a range that nobody knows yet.
pub const UNKNOWN: &str = "not known: first figure wanted";

/// The figures of a check, as it adds them.
#[derive(Debug, Default, Clone, PartialEq)]
pub struct Figures(Vec<Figure>);

impl Figures {
    /// None.
    pub fn new() -> Self {
        Self::default()
    }

    /// An effect that must be there: one value and its range.
    pub fn effect(
        &mut self,
        name: impl Into<String>,
        unit: Unit,
        value: f64,
        expected: Range,
        source: &'static str,
    ) {
        self.add(name, unit, Kind::Effect, &[value], Some(expected), source);
    }

    /// An effect that must be there as often as it was tried.
    pub fn always(
        &mut self,
        name: impl Into<String>,
        seen: usize,
        tried: usize,
        source: &'static str,
    ) {
        let expected = Range::exactly(tried as f64);
        self.effect(name, Unit::Count, seen as f64, expected, source);
    }

    /// A cost with a range.
    pub fn cost(
        &mut self,
        name: impl Into<String>,
        unit: Unit,
        values: &[f64],
        expected: Range,
        source: &'static str,
    ) {
        self.add(name, unit, Kind::Cost, values, Some(expected), source);
    }

    /// A cost of which nobody knows a range.
    pub fn first(&mut self, name: impl Into<String>, unit: Unit, values: &[f64]) {
        self.add(name, unit, Kind::Cost, values, None, UNKNOWN);
    }

    /// Adds a figure; without a value there is none.
    fn add(
        &mut self,
        name: impl Into<String>,
        unit: Unit,
        kind: Kind,
        values: &[f64],
        expected: Option<Range>,
        source: &'static str,
    ) {
        if let Some(sample) = Sample::of(values) {
            self.0.push(Figure {
                name: name.into(),
                unit,
                kind,
                sample,
                expected,
                source,
            });
        }
    }

    /// The figures in the order in which they were added.
    pub fn into_vec(self) -> Vec<Figure> {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(kind: Kind, expected: Option<Range>, median: f64) -> Figure {
        Figure {
            name: "one".to_owned(),
            unit: Unit::Microseconds,
            kind,
            sample: Sample::of(&[median]).unwrap(),
            expected,
            source: UNKNOWN,
        }
    }

    #[test]
    fn a_sample_has_the_values_that_there_are() {
        let values: Vec<f64> = (1..=100).rev().map(f64::from).collect();
        let sample = Sample::of(&values).unwrap();
        assert_eq!((sample.n, sample.min, sample.max), (100, 1.0, 100.0));
        assert_eq!((sample.median, sample.mean), (50.0, 50.5));
        assert_eq!(sample.p99, 99.0);
        let three = Sample::of(&[3.0, 1.0, 2.0]).unwrap();
        assert_eq!((three.median, three.p99), (2.0, 3.0));
        assert_eq!(Sample::of(&[]), None);
    }

    #[test]
    fn the_median_is_judged_and_the_ends_are_in() {
        let range = Some(Range::new(2.0, 4.0));
        for (median, expected) in [
            (1.9, Judgement::Outside),
            (2.0, Judgement::Within),
            (4.0, Judgement::Within),
            (4.1, Judgement::Outside),
            (f64::NAN, Judgement::Outside),
        ] {
            assert_eq!(one(Kind::Effect, range, median).judge(true), expected);
            assert_eq!(one(Kind::Effect, range, median).judge(false), expected);
            assert_eq!(one(Kind::Cost, range, median).judge(true), expected);
        }
    }

    #[test]
    fn costs_of_a_software_gpu_are_not_judged() {
        let far = one(Kind::Cost, Some(Range::exactly(0.0)), 9.0);
        assert_eq!(far.judge(false), Judgement::NotJudged);
        for hardware in [false, true] {
            assert_eq!(
                one(Kind::Cost, None, 9.0).judge(hardware),
                Judgement::NotJudged
            );
        }
    }

    #[test]
    fn what_was_not_measured_is_no_figure() {
        let mut figures = Figures::new();
        figures.first("none", Unit::Nanoseconds, &[]);
        figures.always("some", 3, 4, "a promise");
        let figures = figures.into_vec();
        assert_eq!(figures.len(), 1);
        assert_eq!(figures[0].judge(false), Judgement::Outside);
    }
}
