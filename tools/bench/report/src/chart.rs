// SPDX-License-Identifier: MIT OR Apache-2.0
//! One kind of plot: points and lines over two axes, with a key below that hides none of them.

mod axis;

use std::path::Path;

use anyhow::{anyhow, Context, Result};
use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

pub use self::axis::Axis;
use self::axis::Placed;
use crate::palette::{register, FAINT_INK, FONT, GRID, INK};

/// Size of a plot without its key, in units of length.
const SIZE: (u32, u32) = (860, 430);

/// Height of a line of the key.
const KEY_LINE: u32 = 22;

/// Letters of a label for which there is room when the key has two columns.
const HALF: usize = 46;

/// The mark of a series.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mark {
    /// Points, joined.
    Line,
    /// Points.
    Points,
    /// A line without points.
    Curve,
    /// The same, dashed: of a formula.
    Dashed,
    /// Hollow points: figures of others, or measured in another way.
    Hollow,
}

/// Points that belong together.
#[derive(Debug, Clone)]
pub struct Series {
    /// Its name in the key.
    pub label: String,
    /// Its colour.
    pub colour: RGBColor,
    /// Its points.
    pub points: Vec<(f64, f64)>,
    /// Their mark.
    pub mark: Mark,
}

/// A plot.
#[derive(Debug, Clone)]
pub struct Chart {
    /// Its title.
    pub title: String,
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical one.
    pub y: Axis,
    /// Its series. Later ones lie above.
    pub series: Vec<Series>,
}

/// An area of a picture.
pub type Area<DB> = DrawingArea<DB, Shift>;

/// The outcome of drawing in an area.
pub type Drawn<DB> = Result<(), DrawingAreaErrorKind<<DB as DrawingBackend>::ErrorType>>;

impl Chart {
    /// Its size in units of length.
    pub fn size(&self) -> (u32, u32) {
        (SIZE.0.max(self.x.least_width()), SIZE.1 + self.key_height())
    }

    /// True if there is nothing to draw.
    pub fn is_empty(&self) -> bool {
        self.series.iter().all(|series| series.points.is_empty())
    }

    /// As SVG; none if there is nothing to draw.
    pub fn svg(&self) -> Result<Option<String>> {
        if self.is_empty() {
            return Ok(None);
        }
        register()?;
        let mut text = String::new();
        {
            let area = SVGBackend::with_string(&mut text, self.size()).into_drawing_area();
            let drawn = area.fill(&WHITE).and_then(|()| self.draw(&area, 1));
            drawn
                .and_then(|()| area.present())
                .map_err(|error| anyhow!("cannot draw {}: {error}", self.title))?;
        }
        Ok(Some(text))
    }

    /// Writes it to a file as SVG. One without points is not written; returns whether it was.
    pub fn save(&self, path: &Path) -> Result<bool> {
        let Some(svg) = self.svg()? else {
            return Ok(false);
        };
        std::fs::write(path, svg).with_context(|| format!("cannot write {}", path.display()))?;
        Ok(true)
    }

    /// Draws it into an area with so many pixels for a unit of length; the font is registered.
    pub fn draw<DB: DrawingBackend>(&self, area: &Area<DB>, scale: u32) -> Drawn<DB> {
        let height = area.dim_in_pixel().1 as i32;
        let key = (scale * self.key_height()) as i32;
        let (plot, key) = area.split_vertically(height - key);
        self.draw_plot(&plot, scale)?;
        self.draw_key(&key, scale)
    }

    fn shown(&self) -> impl Iterator<Item = &Series> {
        self.series.iter().filter(|one| !one.points.is_empty())
    }

    fn points(&self) -> impl Iterator<Item = &(f64, f64)> {
        self.shown().flat_map(|series| &series.points)
    }

    fn key_columns(&self) -> usize {
        let fits = self.shown().all(|one| one.label.chars().count() <= HALF);
        if fits {
            2
        } else {
            1
        }
    }

    fn key_height(&self) -> u32 {
        KEY_LINE * self.shown().count().div_ceil(self.key_columns()) as u32 + KEY_LINE / 2
    }

    fn draw_plot<DB: DrawingBackend>(&self, area: &Area<DB>, scale: u32) -> Drawn<DB> {
        let font = |height: u32| (FONT, scale * height).into_font().color(&INK);
        let x = self.x.placed(self.points().map(|point| point.0));
        let y = self.y.placed(self.points().map(|point| point.1));
        let mut chart = ChartBuilder::on(area)
            .margin(scale * 10)
            .margin_right(scale * 26)
            .caption(&self.title, font(17))
            .x_label_area_size(scale * 46)
            .y_label_area_size(scale * 66)
            .build_cartesian_2d(x.range(), y.range())?;
        chart
            .configure_mesh()
            .light_line_style(TRANSPARENT)
            .bold_line_style(GRID.stroke_width(scale))
            .axis_style(FAINT_INK.stroke_width(scale))
            .label_style(font(13))
            .axis_desc_style(font(14))
            .x_label_formatter(&|place| x.text(*place))
            .y_label_formatter(&|place| y.text(*place))
            .x_desc(&self.x.name)
            .y_desc(&self.y.name)
            .draw()?;
        let depths = self.depths(&x, &y);
        for (series, depth) in self.shown().zip(depths) {
            let places = || {
                let points = series.points.iter();
                points.map(|point| (x.place(point.0), y.place(point.1)))
            };
            let colour = series.colour;
            let line = colour.stroke_width(2 * scale);
            match series.mark {
                Mark::Line if depth > 0 => {
                    let (long, short) = dashes(depth, scale);
                    chart.draw_series(DashedLineSeries::new(places(), long, short, line))?;
                }
                Mark::Line | Mark::Curve => {
                    chart.draw_series(LineSeries::new(places(), line))?;
                }
                Mark::Dashed => {
                    let (long, short) = (6 * scale, 4 * scale);
                    chart.draw_series(DashedLineSeries::new(places(), long, short, line))?;
                }
                Mark::Points | Mark::Hollow => {}
            }
            let style = match series.mark {
                Mark::Line if depth > 0 => line,
                Mark::Line | Mark::Points => colour.filled(),
                Mark::Hollow => line,
                Mark::Curve | Mark::Dashed => continue,
            };
            let size = match series.mark {
                Mark::Hollow => 7,
                _ => 4 + 2 * depth.min(3),
            };
            chart.draw_series(places().map(|at| Circle::new(at, size * scale, style)))?;
        }
        Ok(())
    }

    /// Of each series, the number of lines before it that it lies on. Such a line is dashed, with hollow
    /// points, so that those below it are seen.
    fn depths(&self, x: &Placed<'_>, y: &Placed<'_>) -> Vec<u32> {
        let near = |placed: &Placed<'_>, a: f64, b: f64| {
            (placed.place(a) - placed.place(b)).abs() <= 0.012 * placed.width()
        };
        let lies_on = |one: &Series, other: &Series| {
            let close = |point: &(f64, f64)| {
                let mut of = other.points.iter();
                of.any(|under| near(x, point.0, under.0) && near(y, point.1, under.1))
            };
            let closes: Vec<bool> = one.points.iter().map(close).collect();
            closes.windows(2).any(|two| two[0] && two[1])
        };
        let lines: Vec<&Series> = self.shown().collect();
        let depth = |at: usize| {
            let one = lines[at];
            let below = lines[..at].iter().filter(|other| {
                one.mark == Mark::Line && other.mark == Mark::Line && lies_on(one, other)
            });
            below.count() as u32
        };
        (0..lines.len()).map(depth).collect()
    }

    fn draw_key<DB: DrawingBackend>(&self, area: &Area<DB>, scale: u32) -> Drawn<DB> {
        let columns = self.key_columns();
        let width = area.dim_in_pixel().0 as i32 / columns as i32;
        let at = |units: i32| scale as i32 * units;
        let style = TextStyle {
            font: (FONT, scale * 13).into_font(),
            color: INK.to_backend_color(),
            pos: Pos::new(HPos::Left, VPos::Center),
        };
        let x_axis = self.x.placed(self.points().map(|point| point.0));
        let y_axis = self.y.placed(self.points().map(|point| point.1));
        let depths = self.depths(&x_axis, &y_axis);
        for (number, (series, depth)) in self.shown().zip(depths).enumerate() {
            let x = width * (number % columns) as i32 + at(70);
            let y = at((KEY_LINE * (number / columns) as u32 + KEY_LINE / 2) as i32);
            let colour = series.colour;
            let line = colour.stroke_width(2 * scale);
            let spans: &[(i32, i32)] = match series.mark {
                Mark::Line if depth > 0 => &[(0, 11), (17, 28)],
                Mark::Line | Mark::Curve => &[(0, 28)],
                Mark::Dashed => &[(0, 7), (11, 18), (22, 28)],
                Mark::Points | Mark::Hollow => &[],
            };
            for &(from, until) in spans {
                area.draw(&PathElement::new(
                    [(x + at(from), y), (x + at(until), y)],
                    line,
                ))?;
            }
            let style_of_points = match series.mark {
                Mark::Line if depth > 0 => Some(line),
                Mark::Line | Mark::Points => Some(colour.filled()),
                Mark::Hollow => Some(line),
                Mark::Curve | Mark::Dashed => None,
            };
            if let Some(points) = style_of_points {
                area.draw(&Circle::new((x + at(14), y), 4 * scale, points))?;
            }
            area.draw(&Text::new(
                series.label.clone(),
                (x + at(38), y),
                style.clone(),
            ))?;
        }
        Ok(())
    }
}

/// Lengths of dashes and gaps of a line that lies on so many others.
fn dashes(depth: u32, scale: u32) -> (u32, u32) {
    match depth {
        1 => (14 * scale, 8 * scale),
        _ => (5 * scale, 14 * scale),
    }
}

/// Distributions of latencies: curves with their labels and colours.
pub fn distributions(
    title: String,
    curves: impl IntoIterator<Item = (String, RGBColor, Vec<(f64, f64)>)>,
) -> Chart {
    let series = curves.into_iter().map(|(label, colour, points)| Series {
        label,
        colour,
        points,
        mark: Mark::Curve,
    });
    Chart {
        title,
        x: Axis::logarithmic("latency, ms (logarithmic)", 0.001),
        y: Axis::linear("requests within that time, %"),
        series: series.collect(),
    }
}

/// The share of sorted latencies, in percent, up to each, which is in milliseconds, in at most
/// twice `most` points and a few more.
pub fn distribution(sorted_ns: &[u64], most: usize) -> Vec<(f64, f64)> {
    let step = sorted_ns.len().div_ceil(most.max(1)).max(1);
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
    use crate::palette::BLUE;

    fn chart(points: Vec<(f64, f64)>, x: Axis, y: Axis) -> Chart {
        let marks = [
            Mark::Line,
            Mark::Points,
            Mark::Curve,
            Mark::Dashed,
            Mark::Hollow,
        ];
        Chart {
            title: "a & b".to_owned(),
            x,
            y,
            series: marks
                .map(|mark| Series {
                    label: format!("{mark:?}"),
                    colour: BLUE,
                    points: points.clone(),
                    mark,
                })
                .to_vec(),
        }
    }

    #[test]
    fn every_kind_of_axis_and_mark_is_drawn() {
        let names = vec!["first".to_owned(), "second".to_owned()];
        for x in [
            Axis::linear("x"),
            Axis::logarithmic("x", 0.1),
            Axis::names("x", names),
        ] {
            for y in [Axis::linear("y"), Axis::logarithmic("y", 1.0)] {
                let points = vec![(0.0, -3.0), (1.0, 250.0)];
                let svg = chart(points, x.clone(), y.clone()).svg().unwrap().unwrap();
                assert!(svg.starts_with("<svg ") && svg.contains("Hollow"), "{svg}");
                assert_eq!(
                    x.name == "x" && svg.contains("second"),
                    svg.contains("first")
                );
                let one = chart(vec![(1.0, 1.0)], x.clone(), y.clone()).svg().unwrap();
                assert!(one.is_some());
                assert_eq!(chart(Vec::new(), x.clone(), y).svg().unwrap(), None);
            }
        }
    }

    #[test]
    fn a_line_that_lies_on_another_is_dashed() {
        let mut chart = chart(
            vec![(1.0, 1.0), (2.0, 5.0)],
            Axis::linear("x"),
            Axis::linear("y"),
        );
        let depths = |chart: &Chart| {
            let x = chart.x.placed(chart.points().map(|point| point.0));
            let y = chart.y.placed(chart.points().map(|point| point.1));
            chart.depths(&x, &y)
        };
        assert_eq!(depths(&chart), [0; 5]);
        chart.series[4].mark = Mark::Line;
        assert_eq!(depths(&chart), [0, 0, 0, 0, 1]);
        let whole = chart.svg().unwrap();
        chart.series[4].points = vec![(1.0, 4.0), (2.0, 1.0)];
        assert_eq!(depths(&chart), [0; 5]);
        assert_ne!(whole, chart.svg().unwrap());
    }

    #[test]
    fn a_long_label_has_a_line_for_itself() {
        let mut chart = chart(vec![(1.0, 1.0)], Axis::linear("x"), Axis::linear("y"));
        let short = chart.size().1;
        chart.series[0].label = "l".repeat(HALF + 1);
        assert!(chart.size().1 > short);
    }

    #[test]
    fn distributions_rise_from_nothing_to_all() {
        let sorted: Vec<u64> = (1..=10_000).map(|i| i * 1_000_000).collect();
        let points = distribution(&sorted, 1_500);
        assert!(points.len() <= 2 * 1_500 + 4);
        assert_eq!(points[0], (1.0, 0.0));
        assert_eq!(*points.last().unwrap(), (10_000.0, 100.0));
        assert!(points
            .windows(2)
            .all(|two| two[0].0 <= two[1].0 && two[0].1 <= two[1].1));
        assert!(distribution(&[], 10).is_empty());
    }
}
