// SPDX-License-Identifier: MIT OR Apache-2.0
//! Lanes over a time axis: the frame that all time lines share.

use std::ops::Range;

use plotters::coord::types::RangedCoordf64;
use plotters::prelude::*;

use super::Scale;
use crate::chart::{Area, Drawn};
use crate::palette::{self, FONT};

/// Height of a time axis with its name, in units of length.
pub(super) const AXIS: u32 = 44;

/// Lanes: milliseconds over heights from 0 to 1.
pub(super) type Lanes<'a, DB> = ChartContext<'a, DB, Cartesian2d<RangedCoordf64, RangedCoordf64>>;

/// The frame of a panel.
pub(super) struct Frame {
    /// Room for the names of lanes, in units of length.
    pub(super) left: u32,
    /// The time that is shown, in milliseconds.
    pub(super) ms: Range<f64>,
    /// Most labels of the axis.
    pub(super) labels: usize,
    /// Name of the axis; a panel without one has only the grid.
    pub(super) axis: Option<&'static str>,
}

impl Frame {
    /// Draws it.
    pub(super) fn draw<'a, DB: DrawingBackend + 'a>(
        &self,
        area: &Area<DB>,
        scale: Scale,
    ) -> Result<Lanes<'a, DB>, DrawingAreaErrorKind<DB::ErrorType>> {
        let font = |height| (FONT, scale.px(height)).into_font().color(&palette::INK);
        let below = self.axis.map_or(0, |_| AXIS);
        let mut lanes = ChartBuilder::on(area)
            .margin_right(scale.px(30))
            .margin_top(scale.px(6))
            .x_label_area_size(scale.px(6 + below))
            .y_label_area_size(scale.px(self.left))
            .build_cartesian_2d(self.ms.clone(), 0.0..1.0)?;
        let number = |ms: &f64| self.axis.map_or(String::new(), |_| format!("{ms:.0}"));
        lanes
            .configure_mesh()
            .disable_y_mesh()
            .disable_y_axis()
            .light_line_style(TRANSPARENT)
            .bold_line_style(palette::GRID.stroke_width(scale.px(1)))
            .axis_style(palette::FAINT_INK.stroke_width(scale.px(1)))
            .label_style(font(16))
            .axis_desc_style(font(17))
            .x_labels(self.labels)
            .x_label_formatter(&number)
            .x_desc(self.axis.unwrap_or_default())
            .draw()?;
        Ok(lanes)
    }

    /// Writes names at the left of lanes, each at its height.
    pub(super) fn name<'t, DB: DrawingBackend>(
        &self,
        area: &Area<DB>,
        scale: Scale,
        lanes: &Lanes<'_, DB>,
        names: impl IntoIterator<Item = (&'t str, f64, TextStyle<'t>)>,
    ) -> Drawn<DB> {
        // Where a height is in this area.
        let origin = area.get_base_pixel().1;
        for (name, height, style) in names {
            let y = lanes.backend_coord(&(self.ms.start, height)).1 - origin;
            area.draw(&Text::new(
                name,
                (scale.at(self.left as i32 - 12), y),
                style,
            ))?;
        }
        Ok(())
    }
}

/// The middle of a lane from its bottom to its top.
pub(super) fn middle((bottom, top): (f64, f64)) -> f64 {
    (bottom + top) / 2.0
}
