// SPDX-License-Identifier: GPL-2.0
//! Plots of simulations, as SVG.

use std::path::Path;
use std::sync::OnceLock;

use anyhow::{anyhow, ensure, Result};
use plotters::coord::ranged1d::ValueFormatter;
use plotters::prelude::*;
use plotters::style::{register_font, FontStyle};

/// Name of the font, as SVG viewers may know it; the crate brings its own copy for measuring.
const FONT: &str = "DejaVu Sans";
const SIZE: (u32, u32) = (960, 600);
const INK: RGBColor = RGBColor(34, 34, 34);
const GRID: RGBColor = RGBColor(225, 225, 225);

/// Okabe and Ito's palette: the colours stay apart for colour-blind readers.
const COLOURS: [RGBColor; 8] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(230, 159, 0),
    RGBColor(204, 121, 167),
    RGBColor(86, 180, 233),
    RGBColor(110, 110, 110),
    RGBColor(34, 34, 34),
];

/// How a series is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mark {
    /// Measured points, joined.
    Line,
    /// Measured points.
    Points,
    /// A curve without points.
    Curve,
    /// Published points.
    Published,
}

/// Points that belong together.
#[derive(Debug, Clone)]
pub(crate) struct Series {
    /// Its name.
    pub(crate) label: String,
    /// The points.
    pub(crate) points: Vec<(f64, f64)>,
    /// How they are shown.
    pub(crate) mark: Mark,
}

/// A plot.
#[derive(Debug, Clone)]
pub(crate) struct Chart<'a> {
    /// What it shows.
    pub(crate) title: String,
    /// Names of the axes.
    pub(crate) axes: (&'a str, &'a str),
    /// Whether the axes are logarithmic.
    pub(crate) logarithmic: (bool, bool),
    /// What is in it.
    pub(crate) series: Vec<Series>,
}

/// Draws a plot into a file. One without points is not drawn; returns whether it was.
pub(crate) fn draw(path: &Path, chart: &Chart<'_>) -> Result<bool> {
    register()?;
    let points = || chart.series.iter().flat_map(|series| &series.points);
    let (Some(x), Some(y)) = (
        range(points().map(|point| point.0), chart.logarithmic.0),
        range(points().map(|point| point.1), chart.logarithmic.1),
    ) else {
        return Ok(false);
    };
    let area = SVGBackend::new(path, SIZE).into_drawing_area();
    let mut builder = ChartBuilder::on(&area);
    builder
        .margin(16)
        .margin_right(28)
        .caption(&chart.title, (FONT, 20).into_font().color(&INK))
        .x_label_area_size(56)
        .y_label_area_size(84);
    let (lx, ly) = ((x.0..x.1).log_scale(), (y.0..y.1).log_scale());
    let (nx, ny) = (x.0..x.1, y.0..y.1);
    let drawn = area.fill(&WHITE).map_err(text);
    let drawn = drawn.and_then(|()| match chart.logarithmic {
        (true, true) => fill(builder.build_cartesian_2d(lx, ly), chart),
        (true, false) => fill(builder.build_cartesian_2d(lx, ny), chart),
        (false, true) => fill(builder.build_cartesian_2d(nx, ly), chart),
        (false, false) => fill(builder.build_cartesian_2d(nx, ny), chart),
    });
    drawn
        .and_then(|()| area.present().map_err(text))
        .map_err(|error| anyhow!("cannot draw {}: {error}", path.display()))?;
    Ok(true)
}

type Context<'a, X, Y> = ChartContext<'a, SVGBackend<'a>, Cartesian2d<X, Y>>;

fn fill<'a, X, Y, E: std::fmt::Display>(
    context: Result<Context<'a, X, Y>, E>,
    chart: &Chart<'_>,
) -> Result<(), String>
where
    X: Ranged<ValueType = f64> + ValueFormatter<f64>,
    Y: Ranged<ValueType = f64> + ValueFormatter<f64>,
{
    let mut context = context.map_err(text)?;
    let font = |height| (FONT, height).into_font().color(&INK);
    context
        .configure_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(GRID)
        .label_style(font(14))
        .axis_desc_style(font(15))
        .x_desc(chart.axes.0)
        .y_desc(chart.axes.1)
        .x_label_formatter(&label)
        .y_label_formatter(&label)
        .draw()
        .map_err(text)?;
    for (series, colour) in chart.series.iter().zip(COLOURS.iter().cycle()) {
        let points = || series.points.iter().copied();
        let width = if series.mark == Mark::Curve { 2 } else { 3 };
        let line = colour.stroke_width(width);
        let shown = match series.mark {
            Mark::Line | Mark::Curve => context.draw_series(LineSeries::new(points(), line)),
            Mark::Points => {
                context.draw_series(points().map(|at| Circle::new(at, 6, colour.filled())))
            }
            Mark::Published => context.draw_series(points().map(|at| Cross::new(at, 6, line))),
        };
        shown
            .map_err(text)?
            .label(&series.label)
            .legend(move |(x, y)| Rectangle::new([(x, y - 5), (x + 16, y + 5)], colour.filled()));
        if series.mark == Mark::Line {
            context
                .draw_series(points().map(|at| Circle::new(at, 4, colour.filled())))
                .map_err(text)?;
        }
    }
    context
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperRight)
        .background_style(WHITE.mix(0.85))
        .border_style(GRID)
        .label_font(font(14))
        .draw()
        .map_err(text)
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

/// A number without what nobody reads.
fn label(value: &f64) -> String {
    match value.abs() {
        1000.0.. => format!("{value:.0}"),
        _ => {
            let text = format!("{value:.3}");
            let text = text.trim_end_matches('0').trim_end_matches('.');
            text.to_owned()
        }
    }
}

/// The span of an axis with some room. A logarithmic one begins above zero.
fn range(values: impl Iterator<Item = f64>, logarithmic: bool) -> Option<(f64, f64)> {
    let ends = values.filter(|value| value.is_finite() && (!logarithmic || *value > 0.0));
    let (low, high) = ends.fold(None, |ends: Option<(f64, f64)>, value| {
        let (low, high) = ends.unwrap_or((value, value));
        Some((low.min(value), high.max(value)))
    })?;
    if logarithmic {
        return Some((low / 1.2, (high * 1.2).max(low * 1.5)));
    }
    let room = ((high - low.min(0.0)) * 0.05).max(1e-3);
    Some((low.min(0.0), high + room))
}

/// Makes the embedded font known to the plotting library, once.
fn register() -> Result<()> {
    static DONE: OnceLock<bool> = OnceLock::new();
    let done = DONE
        .get_or_init(|| register_font(FONT, FontStyle::Normal, dejavu::sans::regular()).is_ok());
    ensure!(*done, "the embedded font is not sound");
    Ok(())
}

/// Most points of a distribution.
const POINTS: usize = 1_500;

/// The share of sorted latencies, in percent, up to each, which is in milliseconds.
pub(crate) fn distribution(sorted_ns: &[i64]) -> Vec<(f64, f64)> {
    let step = sorted_ns.len().div_ceil(POINTS).max(1);
    let Some(last) = sorted_ns.len().checked_sub(1) else {
        return Vec::new();
    };
    let mut points = Vec::new();
    let mut share = 0.0;
    for index in (0..sorted_ns.len()).step_by(step).chain([last]) {
        let ms = sorted_ns[index] as f64 / 1e6;
        points.push((ms, share));
        share = 100.0 * (index + 1) as f64 / sorted_ns.len() as f64;
        points.push((ms, share));
    }
    points
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_axis_and_mark_is_drawn() {
        let dir = tempfile::tempdir().unwrap();
        for logarithmic in [(false, false), (true, false), (false, true), (true, true)] {
            let series =
                [Mark::Line, Mark::Points, Mark::Curve, Mark::Published].map(|mark| Series {
                    label: format!("{mark:?}"),
                    points: vec![(1.0, 5.0), (2.0, 7.0)],
                    mark,
                });
            let mut chart = Chart {
                title: "test".to_owned(),
                axes: ("x", "y"),
                logarithmic,
                series: series.to_vec(),
            };
            let path = dir.path().join("plot.svg");
            assert!(draw(&path, &chart).unwrap());
            let text = std::fs::read_to_string(&path).unwrap();
            assert!(text.starts_with("<svg ") && text.contains("Published"));
            chart.series.clear();
            assert!(!draw(&path, &chart).unwrap());
        }
    }

    #[test]
    fn distributions_rise_from_nothing_to_all() {
        let sorted: Vec<i64> = (1..=10_000).map(|i| i * 1_000_000).collect();
        let points = distribution(&sorted);
        assert!(points.len() <= 2 * POINTS + 4);
        assert_eq!(points[0], (1.0, 0.0));
        assert_eq!(*points.last().unwrap(), (10_000.0, 100.0));
        assert!(distribution(&[]).is_empty());
    }
}
