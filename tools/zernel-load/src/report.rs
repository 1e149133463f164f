// SPDX-License-Identifier: GPL-2.0
//! Plots of results: latency distributions, and who holds the GPU.

pub mod latency;
mod timeline;

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use anyhow::{anyhow, Result};
use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{register_font, FontStyle};

use crate::outcome::{Comparison, Mode};

/// Name of the font, as SVG viewers may know it; the crate brings its own copy for measuring
/// and for PNG.
pub const FONT: &str = "DejaVu Sans";

/// Okabe and Ito's palette: the colours stay apart for colour-blind readers.
pub mod palette {
    use plotters::style::RGBColor;

    pub const INK: RGBColor = RGBColor(34, 34, 34);
    pub const FAINT_INK: RGBColor = RGBColor(110, 110, 110);
    pub const GRID: RGBColor = RGBColor(225, 225, 225);
    pub const BLUE: RGBColor = RGBColor(0, 114, 178);
    pub const SKY: RGBColor = RGBColor(86, 180, 233);
    pub const GREEN: RGBColor = RGBColor(0, 158, 115);
    pub const ORANGE: RGBColor = RGBColor(230, 159, 0);
    pub const VERMILION: RGBColor = RGBColor(213, 94, 0);
    pub const IDLE: RGBColor = RGBColor(205, 205, 205);
}

/// Colour of a mode.
pub fn colour(mode: Mode) -> RGBColor {
    match mode {
        Mode::Alone => palette::INK,
        Mode::Default => palette::VERMILION,
        Mode::Classes => palette::ORANGE,
        Mode::Gpreempt => palette::GREEN,
        Mode::Zernel => palette::BLUE,
    }
}

/// What a mode is called in plots.
pub fn label(mode: Mode) -> &'static str {
    match mode {
        Mode::Alone => "LC alone",
        Mode::Default => "default slices",
        Mode::Classes => "classes",
        Mode::Gpreempt => "GPreempt",
        Mode::Zernel => "zernel",
    }
}

/// An area of a picture.
type Area<DB> = DrawingArea<DB, Shift>;

/// What drawing in an area of this kind comes to.
type Drawn<DB> = Result<(), DrawingAreaErrorKind<<DB as DrawingBackend>::ErrorType>>;

/// Pixels per unit of length. SVG scales by itself; PNG has two pixels for one, for sharp text.
#[derive(Debug, Clone, Copy)]
struct Scale(u32);

impl Scale {
    const SVG: Self = Self(1);
    const PNG: Self = Self(2);

    /// That many units in pixels.
    fn px(self, units: u32) -> u32 {
        self.0 * units
    }

    /// The same for coordinates.
    fn at(self, units: i32) -> i32 {
        self.0 as i32 * units
    }

    /// A point in pixels.
    fn point(self, x: i32, y: i32) -> (i32, i32) {
        (self.at(x), self.at(y))
    }

    /// A size in pixels.
    fn size(self, (width, height): (u32, u32)) -> (u32, u32) {
        (self.px(width), self.px(height))
    }

    /// Text of this height, placed by its middle line.
    fn text(self, height: u32, colour: RGBColor, at: HPos) -> TextStyle<'static> {
        TextStyle {
            font: (FONT, self.px(height)).into_font(),
            color: colour.to_backend_color(),
            pos: Pos::new(at, VPos::Center),
        }
    }
}

/// Draws every plot as SVG and PNG into `dir`; returns the files.
pub fn draw(all: &[Comparison], dir: &Path) -> Result<Vec<PathBuf>> {
    register()?;
    let mut files = Vec::new();
    let size = latency::size(all.len());
    let (svg, png) = paths(dir, "latency");
    latency::draw(&svg_area(&svg, size), Scale::SVG, all).map_err(|error| failed(&svg, &error))?;
    latency::draw(&png_area(&png, size), Scale::PNG, all).map_err(|error| failed(&png, &error))?;
    files.extend([svg, png]);
    for comparison in all {
        let Some(view) = timeline::View::new(comparison) else {
            continue;
        };
        let (svg, png) = paths(dir, &format!("timeline-{}", comparison.workload));
        view.draw(&svg_area(&svg, timeline::SIZE), Scale::SVG)
            .map_err(|error| failed(&svg, &error))?;
        view.draw(&png_area(&png, timeline::SIZE), Scale::PNG)
            .map_err(|error| failed(&png, &error))?;
        files.extend([svg, png]);
    }
    Ok(files)
}

fn paths(dir: &Path, name: &str) -> (PathBuf, PathBuf) {
    (
        dir.join(format!("{name}.svg")),
        dir.join(format!("{name}.png")),
    )
}

fn svg_area(path: &Path, size: (u32, u32)) -> Area<SVGBackend<'_>> {
    SVGBackend::new(path, Scale::SVG.size(size)).into_drawing_area()
}

fn png_area(path: &Path, size: (u32, u32)) -> Area<BitMapBackend<'_>> {
    BitMapBackend::new(path, Scale::PNG.size(size)).into_drawing_area()
}

fn failed(path: &Path, error: &impl std::fmt::Display) -> anyhow::Error {
    anyhow!("cannot draw {}: {error}", path.display())
}

/// Makes the embedded font known to the plotting library, once.
pub fn register() -> Result<()> {
    static DONE: OnceLock<bool> = OnceLock::new();
    let done = DONE
        .get_or_init(|| register_font(FONT, FontStyle::Normal, dejavu::sans::regular()).is_ok());
    anyhow::ensure!(*done, "the embedded font is not sound");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testdata;

    #[test]
    fn every_plot_is_a_picture() {
        let dir = tempfile::tempdir().unwrap();
        let all = ["A", "B1", "C"].map(testdata::comparison);
        let files = draw(&all, dir.path()).unwrap();
        assert_eq!(files.len(), 8);
        for file in files {
            let bytes = std::fs::read(&file).unwrap();
            let head: &[u8] = match file.extension().unwrap().to_str().unwrap() {
                "svg" => b"<svg ",
                _ => b"\x89PNG",
            };
            assert!(bytes.starts_with(head), "{}", file.display());
        }
    }

    #[test]
    fn a_single_run_is_drawn_too() {
        let dir = tempfile::tempdir().unwrap();
        let mut one = testdata::comparison("B1");
        one.runs.truncate(1);
        assert_eq!(draw(&[one], dir.path()).unwrap().len(), 2, "no timeline");
    }
}
