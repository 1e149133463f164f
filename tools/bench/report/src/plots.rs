// SPDX-License-Identifier: MIT OR Apache-2.0
//! Plots of results: latency distributions, the holder of the GPU, and the steps of training loops.

mod lanes;
mod latency;
mod timeline;
mod training;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{anyhow, Context as _, Result};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use crate::chart::{Area, Drawn};
use crate::outcome::{Comparison, Mode};
use crate::palette::{self, register, FONT};
use crate::training::Training;

/// Colour of a mode.
pub fn colour(mode: Mode) -> RGBColor {
    palette::of_policy(mode.name())
}

/// Name of a mode in plots.
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

/// Draws the meaning of colours in a row that begins at `place`.
fn draw_swatches<DB: DrawingBackend>(
    area: &Area<DB>,
    scale: Scale,
    (mut x, y): (i32, i32),
    entries: &[(&str, RGBAColor)],
) -> Drawn<DB> {
    let style = scale.text(16, palette::INK, HPos::Left);
    let outline = palette::FAINT_INK.stroke_width(scale.px(1));
    for &(text, colour) in entries {
        let swatch = [(x, y - scale.at(9)), (x + scale.at(26), y + scale.at(9))];
        area.draw(&Rectangle::new(swatch, colour.filled()))?;
        area.draw(&Rectangle::new(swatch, outline))?;
        area.draw(&Text::new(text, (x + scale.at(34), y), style.clone()))?;
        let (width, _) = area.estimate_text_size(text, &style)?;
        x += width as i32 + scale.at(74);
    }
    Ok(())
}

/// A picture, drawn alike in any form.
trait Picture {
    /// Its size in units of length.
    fn size(&self) -> (u32, u32);

    /// Draws it.
    fn draw<DB: DrawingBackend>(&self, area: &Area<DB>, scale: Scale) -> Drawn<DB>;

    /// As SVG.
    fn svg(&self) -> Result<String> {
        register()?;
        let mut text = String::new();
        let size = Scale::SVG.size(self.size());
        let drawn = {
            let area = SVGBackend::with_string(&mut text, size).into_drawing_area();
            self.draw(&area, Scale::SVG)
        };
        drawn.map_err(|error| anyhow!("cannot draw a picture: {error}"))?;
        Ok(text)
    }

    /// Writes it to `dir` as SVG and PNG; returns the files.
    fn save(&self, dir: &Path, name: &str) -> Result<[PathBuf; 2]> {
        let [svg, png] = ["svg", "png"].map(|form| dir.join(format!("{name}.{form}")));
        fs::write(&svg, self.svg()?).with_context(|| format!("cannot write {}", svg.display()))?;
        let size = Scale::PNG.size(self.size());
        let drawn = {
            let area = BitMapBackend::new(&png, size).into_drawing_area();
            self.draw(&area, Scale::PNG)
                .map_err(|error| error.to_string())
        };
        drawn.map_err(|error| anyhow!("cannot draw {}: {error}", png.display()))?;
        Ok([svg, png])
    }
}

/// Draws every plot as SVG and PNG into `dir`; returns the files.
pub fn draw(all: &[Comparison], dir: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    if all.is_empty() {
        return Ok(files);
    }
    files.extend(latency::Panels(all).save(dir, "latency")?);
    for comparison in all {
        if let Some(view) = timeline::View::new(comparison) {
            files.extend(view.save(dir, &format!("timeline-{}", comparison.workload))?);
        }
    }
    Ok(files)
}

/// Draws the steps of training loops, likewise.
pub fn draw_trainings(all: &[Training], dir: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for one in all {
        if let Some(view) = training::View::new(one) {
            files.extend(view.save(dir, &format!("training-{}", one.plan.name()))?);
        }
    }
    Ok(files)
}

/// The same as SVG; none if there is nothing to draw.
pub fn training_svg(one: &Training) -> Result<Option<String>> {
    training::View::new(one).map(|view| view.svg()).transpose()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testdata;
    use crate::training::Plan;

    #[test]
    fn every_plot_is_a_picture() {
        let dir = tempfile::tempdir().unwrap();
        let all = ["A", "B1", "C"].map(testdata::comparison);
        let files = draw(&all, dir.path()).unwrap();
        assert_eq!(files.len(), 8);
        for file in files {
            let bytes = fs::read(&file).unwrap();
            let head: &[u8] = match file.extension().unwrap().to_str().unwrap() {
                "svg" => b"<svg ",
                _ => b"\x89PNG",
            };
            assert!(bytes.starts_with(head), "{}", file.display());
        }
    }

    #[test]
    fn training_loops_are_drawn_in_both_forms() {
        let dir = tempfile::tempdir().unwrap();
        let all = [Plan::FIXED, Plan::RANDOM].map(testdata::training);
        assert_eq!(draw_trainings(&all, dir.path()).unwrap().len(), 4);
        let svg = training_svg(&all[0]).unwrap().unwrap();
        assert!(svg.starts_with("<svg ") && svg.contains("with the signal: "));
        let mut alone = all[1].clone();
        alone.runs.remove(0);
        assert!(training_svg(&alone).unwrap().is_some());
        assert_eq!(draw(&[], dir.path()).unwrap(), Vec::<PathBuf>::new());
    }

    #[test]
    fn a_single_run_is_drawn_too() {
        let dir = tempfile::tempdir().unwrap();
        let mut one = testdata::comparison("B1");
        one.runs.truncate(1);
        assert_eq!(draw(&[one], dir.path()).unwrap().len(), 2, "no timeline");
    }
}
