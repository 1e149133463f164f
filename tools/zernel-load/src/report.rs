// SPDX-License-Identifier: GPL-2.0
//! Plots of results: latency distributions, and who holds the GPU.

pub mod latency;
mod timeline;

use std::path::{Path, PathBuf};

use anyhow::{anyhow, Result};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use zernel_report::chart::Area;
use zernel_report::palette::{self, register, FONT};

use crate::outcome::{Comparison, Mode};

/// Colour of a mode.
pub fn colour(mode: Mode) -> RGBColor {
    palette::of_policy(mode.name())
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
    let size = latency::size(all);
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
