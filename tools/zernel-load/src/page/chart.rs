// SPDX-License-Identifier: GPL-2.0
//! Plots of the page: lines and points, as SVG that lies in the page itself.

use anyhow::{anyhow, Result};
use plotters::coord::ranged1d::{AsRangedCoord, ValueFormatter};
use plotters::coord::Shift;
use plotters::prelude::*;

use crate::report::{palette, register, FONT};

/// Size of a plot in pixels.
const SIZE: (u32, u32) = (860, 420);

/// A line or points of a plot.
pub struct Series {
    /// Its name in the key.
    pub label: String,
    /// Its colour.
    pub colour: RGBColor,
    /// Its points.
    pub points: Vec<(f64, f64)>,
    /// They are joined.
    pub line: bool,
    /// They are figures of others.
    pub hollow: bool,
}

/// A plot.
pub struct Chart {
    /// What it shows.
    pub title: String,
    /// What the axes are.
    pub axes: (String, String),
    /// Names of places 0, 1, ... of the horizontal axis, if it is no number.
    pub names: Vec<String>,
    /// The vertical axis is logarithmic.
    pub logarithmic: bool,
    /// What is drawn.
    pub series: Vec<Series>,
}

impl Chart {
    /// As SVG; none if there is nothing to draw.
    pub fn svg(&self) -> Result<Option<String>> {
        register()?;
        let points = || self.series.iter().flat_map(|series| &series.points);
        let Some((x, y)) = range(points()) else {
            return Ok(None);
        };
        let x = match self.names.len() {
            0 => x,
            names => (-0.5, names as f64 - 0.5),
        };
        let mut text = String::new();
        {
            let area = SVGBackend::with_string(&mut text, SIZE).into_drawing_area();
            let drawn = match self.logarithmic {
                true => {
                    let low = 10f64.powf(y.0.max(1.0).log10().floor());
                    let high = 10f64.powf(y.1.max(10.0).log10().ceil());
                    self.draw(&area, x, (low..high).log_scale(), low)
                }
                false => self.draw(&area, x, y.0.min(0.0)..y.1, f64::NEG_INFINITY),
            };
            drawn.map_err(|error| anyhow!("cannot draw {}: {error}", self.title))?;
        }
        Ok(Some(text))
    }

    fn draw<DB, Y>(
        &self,
        area: &DrawingArea<DB, Shift>,
        x: (f64, f64),
        y: impl AsRangedCoord<Value = f64, CoordDescType = Y>,
        least: f64,
    ) -> Result<(), DrawingAreaErrorKind<DB::ErrorType>>
    where
        DB: DrawingBackend,
        Y: Ranged<ValueType = f64> + ValueFormatter<f64>,
    {
        let font = |height: u32| (FONT, height).into_font().color(&palette::INK);
        area.fill(&WHITE)?;
        let mut chart = ChartBuilder::on(area)
            .margin(10)
            .margin_right(24)
            .caption(&self.title, font(17))
            .x_label_area_size(46)
            .y_label_area_size(64)
            .build_cartesian_2d(x.0..x.1, y)?;
        let name = |place: &f64| -> String {
            if self.names.is_empty() {
                return format!("{place}");
            }
            let nearest = place.round();
            let near = (place - nearest).abs() < 0.01;
            let found = self
                .names
                .get(nearest as usize)
                .filter(|_| near && nearest >= 0.0);
            found.cloned().unwrap_or_default()
        };
        let labels = if self.names.is_empty() {
            11
        } else {
            2 * self.names.len() + 1
        };
        chart
            .configure_mesh()
            .light_line_style(TRANSPARENT)
            .bold_line_style(palette::GRID)
            .axis_style(palette::FAINT_INK)
            .label_style(font(13))
            .axis_desc_style(font(14))
            .x_labels(labels)
            .x_label_formatter(&name)
            .x_desc(&self.axes.0)
            .y_desc(&self.axes.1)
            .draw()?;
        for series in &self.series {
            let colour = series.colour;
            let points: Vec<(f64, f64)> = series
                .points
                .iter()
                .map(|&(x, y)| (x, y.max(least)))
                .collect();
            if series.line {
                chart.draw_series(LineSeries::new(points.clone(), colour.stroke_width(2)))?;
            }
            let style = match series.hollow {
                true => colour.stroke_width(2),
                false => colour.filled(),
            };
            let size = if series.line && points.len() > 40 {
                0
            } else {
                4
            };
            chart
                .draw_series(points.iter().map(|&at| Circle::new(at, size, style)))?
                .label(&series.label)
                .legend(move |(x, y)| Circle::new((x + 8, y), 4, style));
        }
        chart
            .configure_series_labels()
            .position(SeriesLabelPosition::UpperRight)
            .background_style(WHITE.mix(0.85))
            .border_style(palette::GRID)
            .label_font(font(13))
            .draw()?;
        area.present()
    }
}

/// Lowest and highest of a coordinate.
type Span = (f64, f64);

/// The spans of some points, with a little room above.
fn range<'a>(points: impl Iterator<Item = &'a (f64, f64)>) -> Option<(Span, Span)> {
    let spans = points.fold(None, |spans: Option<(Span, Span)>, &(x, y)| {
        let (xs, ys) = spans.unwrap_or(((x, x), (y, y)));
        Some(((xs.0.min(x), xs.1.max(x)), (ys.0.min(y), ys.1.max(y))))
    });
    let (x, y) = spans?;
    let room = |span: Span| (span.1 - span.0).max(1e-3) * 0.08;
    Some(((x.0 - room(x), x.1 + room(x)), (y.0, y.1 + room(y))))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(points: Vec<(f64, f64)>, logarithmic: bool) -> Chart {
        Chart {
            title: "a & b".to_owned(),
            axes: ("x".to_owned(), "y".to_owned()),
            names: Vec::new(),
            logarithmic,
            series: vec![Series {
                label: "one".to_owned(),
                colour: palette::BLUE,
                points,
                line: true,
                hollow: false,
            }],
        }
    }

    #[test]
    fn plots_are_svg_and_nothing_has_none() {
        for logarithmic in [false, true] {
            assert_eq!(chart(Vec::new(), logarithmic).svg().unwrap(), None);
            let points = vec![(0.0, -3.0), (1.0, 250.0)];
            let svg = chart(points, logarithmic).svg().unwrap().unwrap();
            assert!(svg.starts_with("<svg ") && svg.contains("one"), "{svg}");
            assert!(chart(vec![(1.0, 1.0)], logarithmic)
                .svg()
                .unwrap()
                .is_some());
        }
    }

    #[test]
    fn names_take_the_place_of_numbers() {
        let named = Chart {
            names: vec!["first".to_owned(), "second".to_owned()],
            ..chart(vec![(0.0, 1.0), (1.0, 2.0)], false)
        };
        let svg = named.svg().unwrap().unwrap();
        assert!(svg.contains("first") && svg.contains("second"), "{svg}");
    }
}
