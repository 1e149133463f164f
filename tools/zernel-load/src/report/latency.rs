// SPDX-License-Identifier: GPL-2.0
//! Distribution of LC latencies: a panel per workload, a curve per mode.

use plotters::prelude::*;
use plotters::style::text_anchor::HPos;
use zernel_workload::Role;

use super::{colour, label, palette, Area, Drawn, Scale, FONT};
use crate::outcome::{Comparison, Mode, Outcome};
use crate::table;

const PANEL: (u32, u32) = (660, 560);
const TITLE: u32 = 56;
const KEY_LINE: i32 = 26;

/// Most points of a curve.
const POINTS: usize = 1_500;

/// Where an axis of milliseconds may have a label.
const LABELS: [f64; 14] = [
    0.5, 0.7, 1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 7.0, 10.0, 15.0, 20.0, 30.0, 50.0,
];

/// Size of the picture with this many panels, in units of length.
pub(super) fn size(panels: usize) -> (u32, u32) {
    (PANEL.0 * panels.max(1) as u32, PANEL.1 + TITLE)
}

/// Draws the picture.
pub(super) fn draw<DB: DrawingBackend>(
    area: &Area<DB>,
    scale: Scale,
    all: &[Comparison],
) -> Drawn<DB> {
    area.fill(&WHITE)?;
    let (head, body) = area.split_vertically(scale.px(TITLE));
    let title = if all.len() > 1 {
        "Latency of latency-critical requests: share of requests answered within a time"
    } else {
        "Latency of latency-critical requests"
    };
    let middle = size(all.len()).0 as i32 / 2;
    head.draw(&Text::new(
        title,
        scale.point(middle, TITLE as i32 / 2 + 4),
        scale.text(24, palette::INK, HPos::Center),
    ))?;
    for (panel, comparison) in body.split_evenly((1, all.len().max(1))).iter().zip(all) {
        draw_panel(panel, scale, comparison)?;
    }
    area.present()
}

fn draw_panel<DB: DrawingBackend>(
    area: &Area<DB>,
    scale: Scale,
    comparison: &Comparison,
) -> Drawn<DB> {
    let runs: Vec<(&Outcome, Vec<u64>)> = comparison
        .runs
        .iter()
        .map(|run| (run, run.sorted_latencies(Role::Lc)))
        .filter(|(_, latencies)| !latencies.is_empty())
        .collect();
    let Some((low, high)) = range(runs.iter().map(|(_, latencies)| latencies.as_slice())) else {
        return Ok(());
    };
    let labels: Vec<f64> = LABELS
        .into_iter()
        .filter(|ms| (low..=high).contains(ms))
        .collect();

    // The key has the lower part of the panel for itself, so that it hides no curve.
    let key_height = KEY_LINE * (runs.len() as i32 + 1);
    let (plot, key) = area.split_vertically(scale.at(PANEL.1 as i32 - key_height));
    let font = |height| (FONT, scale.px(height)).into_font().color(&palette::INK);

    let mut chart = ChartBuilder::on(&plot)
        .margin(scale.px(12))
        .margin_right(scale.px(28))
        .caption(short_title(comparison), font(18))
        .x_label_area_size(scale.px(58))
        .y_label_area_size(scale.px(72))
        .build_cartesian_2d((low..high).log_scale().with_key_points(labels), 0.0..100.0)?;
    chart
        .configure_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(palette::GRID.stroke_width(scale.px(1)))
        .axis_style(palette::FAINT_INK.stroke_width(scale.px(1)))
        .label_style(font(16))
        .axis_desc_style(font(17))
        .x_desc("latency, ms (logarithmic)")
        .y_desc("requests within that time, %")
        .y_labels(6)
        .x_label_formatter(&|ms| format!("{ms}"))
        .y_label_formatter(&|percent| format!("{percent:.0}"))
        .draw()?;
    for (run, latencies) in &runs {
        let style = colour(run.mode).stroke_width(scale.px(match run.mode {
            Mode::Alone => 2,
            // Where both are the same, the wider one shows on both sides of the other.
            Mode::Default => 5,
            Mode::Classes | Mode::Gpreempt | Mode::Zernel => 3,
        }));
        chart.draw_series(LineSeries::new(curve(latencies, POINTS), style))?;
    }
    for (line, (run, _)) in runs.iter().enumerate() {
        let y = KEY_LINE / 2 + KEY_LINE * line as i32;
        draw_key(&key, scale, comparison, run, y)?;
    }
    Ok(())
}

fn draw_key<DB: DrawingBackend>(
    area: &Area<DB>,
    scale: Scale,
    comparison: &Comparison,
    run: &Outcome,
    y: i32,
) -> Drawn<DB> {
    let rows = table::rows(comparison);
    let Some(row) = rows.iter().find(|row| row.mode == run.mode) else {
        return Ok(());
    };
    let style = scale.text(16, palette::INK, HPos::Left);
    area.draw(&PathElement::new(
        [scale.point(84, y), scale.point(116, y)],
        colour(run.mode).stroke_width(scale.px(4)),
    ))?;
    area.draw(&Text::new(
        label(run.mode),
        scale.point(126, y),
        style.clone(),
    ))?;
    let figures = [
        (275, format!("mean {:.2} ms", row.lc.mean_ns / 1e6)),
        (405, format!("p99 {:.2} ms", row.lc.p99_ns as f64 / 1e6)),
        (
            525,
            row.lc_added_us
                .map(|us| format!("+{us:.0} µs"))
                .unwrap_or_default(),
        ),
    ];
    for (x, text) in figures {
        area.draw(&Text::new(text, scale.point(x, y), style.clone()))?;
    }
    Ok(())
}

/// The workload in few words.
fn short_title(comparison: &Comparison) -> String {
    let title = table::title(comparison);
    match (comparison.workload.as_str(), title.len()) {
        (name, 91..) => {
            let clients = |role| {
                let most = comparison.runs.iter().max_by_key(|run| run.clients.len());
                most.map_or(0, |run| {
                    let of_role =
                        |client: &&crate::outcome::ClientOutcome| client.spec.role == role;
                    run.clients.iter().filter(of_role).count()
                })
            };
            format!(
                "Workload {name} · {} LC and {} BE clients",
                clients(Role::Lc),
                clients(Role::Be)
            )
        }
        _ => title
            .rsplit_once(" · ")
            .map_or(title.clone(), |(head, _)| head.to_owned()),
    }
}

/// The span of the axis in milliseconds, with some room on both sides.
fn range<'a>(runs: impl Iterator<Item = &'a [u64]>) -> Option<(f64, f64)> {
    let ends = runs.filter_map(|latencies| Some((*latencies.first()?, *latencies.last()?)));
    let (low, high) = ends.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)))?;
    let (low, high) = (low as f64 / 1e6 / 1.15, high as f64 / 1e6 * 1.15);
    // A narrow range still needs labels.
    Some((low.max(0.001), high.max(low * 2.0)))
}

/// The share of sorted latencies up to each, in at most twice `points` points and a few more.
pub fn curve(sorted_ns: &[u64], points: usize) -> Vec<(f64, f64)> {
    let step = sorted_ns.len().div_ceil(points).max(1);
    let last = sorted_ns.len() - 1;
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
    fn curves_rise_from_nothing_to_all() {
        let sorted: Vec<u64> = (1..=10_000).map(|i| i * 1_000_000).collect();
        let points = curve(&sorted, POINTS);
        assert!(points.len() <= 2 * POINTS + 4);
        assert_eq!(points[0], (1.0, 0.0));
        assert_eq!(*points.last().unwrap(), (10_000.0, 100.0));
        assert!(points
            .windows(2)
            .all(|two| two[0].0 <= two[1].0 && two[0].1 <= two[1].1));
    }

    #[test]
    fn ranges_are_never_empty() {
        assert_eq!(range(std::iter::empty()), None);
        let (low, high) = range([[2_490_000u64].as_slice()].into_iter()).unwrap();
        assert!(low < 2.49 && high >= 2.0 * low);
    }
}
