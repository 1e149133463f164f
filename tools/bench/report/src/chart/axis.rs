// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where values lie on an axis, and which of them it names.

use std::ops::Range;

use plotters::coord::ranged1d::{DefaultFormatting, KeyPointHint, Ranged};

/// An axis of a plot.
#[derive(Debug, Clone, PartialEq)]
pub struct Axis {
    /// Its name, with its unit.
    pub name: String,
    kind: Kind,
}

#[derive(Debug, Clone, PartialEq)]
enum Kind {
    Linear,
    /// The same from the least value on, with ticks at whole numbers alone or at any.
    Fitted(bool),
    /// Values below this least one are drawn there.
    Logarithmic(f64),
    /// Places 0, 1, ... have names.
    Names(Vec<String>),
}

impl Axis {
    /// A linear one that has zero in it.
    pub fn linear(name: impl Into<String>) -> Self {
        let name = name.into();
        Self {
            name,
            kind: Kind::Linear,
        }
    }

    /// A linear one that begins where the values do.
    pub fn fitted(name: impl Into<String>) -> Self {
        let name = name.into();
        Self {
            name,
            kind: Kind::Fitted(false),
        }
    }

    /// A linear one of numbers of things, which begins where the values do.
    pub fn counts(name: impl Into<String>) -> Self {
        let name = name.into();
        Self {
            name,
            kind: Kind::Fitted(true),
        }
    }

    /// A logarithmic one; what is below `least`, which is above zero, is drawn there.
    pub fn logarithmic(name: impl Into<String>, least: f64) -> Self {
        let name = name.into();
        Self {
            name,
            kind: Kind::Logarithmic(least),
        }
    }

    /// One with names for the places 0, 1, ...
    pub fn names(name: impl Into<String>, names: Vec<String>) -> Self {
        let name = name.into();
        Self {
            name,
            kind: Kind::Names(names),
        }
    }

    /// Room that its names take, with what is beside the axis, in units of length.
    pub(super) fn least_width(&self) -> u32 {
        const EACH: u32 = 66;
        match &self.kind {
            Kind::Names(names) => EACH * (names.len() as u32 + 2),
            Kind::Linear | Kind::Fitted(_) | Kind::Logarithmic(_) => 0,
        }
    }

    /// Laid out for these values.
    pub(super) fn placed(&self, values: impl Iterator<Item = f64>) -> Placed<'_> {
        let ends = values.filter(|value| value.is_finite()).fold(
            None,
            |ends: Option<(f64, f64)>, value| {
                let (low, high) = ends.unwrap_or((value, value));
                Some((low.min(value), high.max(value)))
            },
        );
        let (low, high) = ends.unwrap_or((0.0, 1.0));
        let (span, ticks) = match &self.kind {
            Kind::Linear => {
                let low = low.min(0.0);
                let high = high.max(low + 1e-3);
                let room = (high - low) * 0.04;
                let low = if low < 0.0 { low - room } else { low };
                ((low, high + room), even(low, high + room))
            }
            Kind::Fitted(whole) => {
                let room = (high - low).max(1e-3) * 0.04;
                let (low, high) = (low - room, high + room);
                let ticks = match whole {
                    true => whole_numbers(low, high),
                    false => even(low, high),
                };
                ((low, high), ticks)
            }
            Kind::Logarithmic(least) => {
                let low = low.max(*least);
                let high = high.max(low * 1.5);
                let (low, high) = ((low / 1.1).log10(), (high * 1.1).log10());
                ((low, high), decades(low, high))
            }
            Kind::Names(names) => {
                let places = (0..names.len()).map(|place| place as f64);
                ((-0.5, names.len() as f64 - 0.5), places.collect())
            }
        };
        Placed {
            kind: &self.kind,
            span,
            ticks,
        }
    }
}

/// An axis that is laid out.
pub(super) struct Placed<'a> {
    kind: &'a Kind,
    span: (f64, f64),
    ticks: Vec<f64>,
}

impl Placed<'_> {
    /// The axis as the library wants it.
    pub(super) fn range(&self) -> Ticks {
        Ticks {
            span: self.span,
            ticks: self.ticks.clone(),
        }
    }

    /// Its length, as places count.
    pub(super) fn width(&self) -> f64 {
        self.span.1 - self.span.0
    }

    /// Where a value lies.
    pub(super) fn place(&self, value: f64) -> f64 {
        match self.kind {
            Kind::Logarithmic(least) => value.max(*least).log10(),
            _ => value,
        }
    }

    /// The label at a place that has a tick.
    pub(super) fn text(&self, place: f64) -> String {
        match self.kind {
            Kind::Linear | Kind::Fitted(_) => label(place),
            Kind::Logarithmic(_) => label(10f64.powf(place)),
            Kind::Names(names) => names.get(place as usize).cloned().unwrap_or_default(),
        }
    }
}

/// Places from one to another, some of them with a tick.
#[derive(Clone)]
pub(super) struct Ticks {
    span: (f64, f64),
    ticks: Vec<f64>,
}

impl Ranged for Ticks {
    type FormatOption = DefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, limit: (i32, i32)) -> i32 {
        let share = (value - self.span.0) / (self.span.1 - self.span.0);
        limit.0 + (share * f64::from(limit.1 - limit.0)).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, _hint: Hint) -> Vec<f64> {
        self.ticks.clone()
    }

    fn range(&self) -> Range<f64> {
        self.span.0..self.span.1
    }
}

/// A number without what nobody reads.
fn label(value: f64) -> String {
    // There is no zero below zero.
    let value = if value.abs() < 5e-5 { 0.0 } else { value };
    let digits = match value.abs() {
        100.0.. => return format!("{value:.0}"),
        1.0.. => 2,
        _ => 4,
    };
    let text = format!("{value:.digits$}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Round numbers, about eight.
fn even(low: f64, high: f64) -> Vec<f64> {
    let rough = (high - low) / 8.0;
    let power = 10f64.powf(rough.log10().floor());
    let steps = [1.0, 2.0, 2.5, 5.0, 10.0].map(|step| step * power);
    let step = steps
        .into_iter()
        .find(|step| *step >= rough)
        .unwrap_or(10.0 * power);
    let (first, last) = ((low / step).ceil() as i64, (high / step).floor() as i64);
    (first..=last).map(|number| number as f64 * step).collect()
}

/// Whole numbers that are round, about eight.
fn whole_numbers(low: f64, high: f64) -> Vec<f64> {
    let step = ((high - low) / 9.0).ceil().max(1.0);
    let (first, last) = ((low / step).ceil() as i64, (high / step).floor() as i64);
    (first..=last).map(|number| number as f64 * step).collect()
}

/// Logarithms of round numbers, fewer of each decade the more decades there are.
fn decades(low: f64, high: f64) -> Vec<f64> {
    let of_each: &[f64] = match high - low {
        ..0.7 => &[1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0],
        0.7..1.5 => &[1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 7.0],
        1.5..4.0 => &[1.0, 2.0, 5.0],
        _ => &[1.0],
    };
    let powers = low.floor() as i32..=high.floor() as i32;
    powers
        .flat_map(|power| {
            of_each
                .iter()
                .map(move |one| f64::from(power) + one.log10())
        })
        .filter(|place| (low..=high).contains(place))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn texts(axis: &Axis, values: &[f64]) -> Vec<String> {
        let placed = axis.placed(values.iter().copied());
        placed.ticks.iter().map(|tick| placed.text(*tick)).collect()
    }

    #[test]
    fn ticks_are_round() {
        let linear = Axis::linear("x");
        assert_eq!(texts(&linear, &[0.0, 250.0])[..3], ["0", "50", "100"]);
        assert_eq!(texts(&linear, &[-3.0, 2.0])[..2], ["-3", "-2"]);
        assert_eq!(texts(&linear, &[2.4])[..3], ["0", "0.5", "1"]);
        assert_eq!(texts(&Axis::fitted("x"), &[50.0, 110.0])[..2], ["50", "60"]);
        let counts = texts(&Axis::counts("x"), &[1.0, 16.0]);
        assert_eq!(counts, ["2", "4", "6", "8", "10", "12", "14", "16"]);
        assert_eq!(texts(&Axis::counts("x"), &[1.0, 3.0]), ["1", "2", "3"]);
        let log = Axis::logarithmic("x", 1.0);
        assert_eq!(texts(&log, &[-67.0, 900.0])[..4], ["1", "2", "5", "10"]);
        assert_eq!(texts(&log, &[2.0, 3.0]), ["2", "2.5", "3"]);
    }

    #[test]
    fn names_take_the_place_of_numbers() {
        let names = ["first", "second"].map(str::to_owned).to_vec();
        assert_eq!(texts(&Axis::names("x", names.clone()), &[0.0, 1.0]), names);
    }

    proptest! {
        #[test]
        fn every_value_lies_on_its_axis(values in prop::collection::vec(-1e6..1e6f64, 1..20)) {
            let axes = [Axis::linear(""), Axis::fitted(""), Axis::counts(""), Axis::logarithmic("", 0.5)];
            for axis in axes {
                let placed = axis.placed(values.iter().copied());
                for value in &values {
                    let place = placed.place(*value);
                    prop_assert!((placed.span.0..=placed.span.1).contains(&place));
                }
                prop_assert!(placed.ticks.is_sorted() && placed.ticks.len() < 40);
            }
        }
    }
}
