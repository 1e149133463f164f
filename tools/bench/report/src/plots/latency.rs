// SPDX-License-Identifier: MIT OR Apache-2.0
//! Distribution of LC latencies: a panel per workload, a curve per mode.

use plotters::prelude::*;
use plotters::style::text_anchor::HPos;
use zernel_workload::Role;

use super::{colour, label, Picture, Scale};
use crate::chart::{distribution, distributions, Area, Chart, Drawn};
use crate::outcome::Comparison;
use crate::palette;
use crate::table;

const TITLE: u32 = 56;

/// Most points of a curve.
const POINTS: usize = 1_500;

/// A panel for each of these.
pub(super) struct Panels<'a>(pub(super) &'a [Comparison]);

impl Picture for Panels<'_> {
    fn size(&self) -> (u32, u32) {
        let sizes = || self.0.iter().map(|comparison| panel(comparison).size());
        let width = sizes().map(|size| size.0).max().unwrap_or(0);
        let height: u32 = sizes().map(|size| size.1).sum();
        (width, height + TITLE)
    }

    fn draw<DB: DrawingBackend>(&self, area: &Area<DB>, scale: Scale) -> Drawn<DB> {
        area.fill(&WHITE)?;
        let (head, body) = area.split_vertically(scale.px(TITLE));
        let title = if self.0.len() > 1 {
            "Latency of latency-critical requests: share of requests answered within a time"
        } else {
            "Latency of latency-critical requests"
        };
        let middle = self.size().0 as i32 / 2;
        head.draw(&Text::new(
            title,
            scale.point(middle, TITLE as i32 / 2 + 4),
            scale.text(24, palette::INK, HPos::Center),
        ))?;
        let mut rest = body;
        for comparison in self.0 {
            let chart = panel(comparison);
            let (area, below) = rest.split_vertically(scale.px(chart.size().1));
            rest = below;
            if !chart.is_empty() {
                chart.draw(&area, scale.0)?;
            }
        }
        area.present()
    }
}

fn panel(comparison: &Comparison) -> Chart {
    let rows = table::rows(comparison);
    let curves = comparison.runs.iter().zip(&rows).map(|(run, row)| {
        let added = row.lc_added_us.map(|us| format!(", +{us:.0} µs"));
        let (mean, p99) = (row.lc.mean_ns / 1e6, row.lc.p99_ns as f64 / 1e6);
        let name = label(run.mode);
        let dropped = match row.lc_dropped {
            0 => String::new(),
            dropped => format!(", {dropped} of {} dropped", dropped + row.lc.count),
        };
        let label = format!(
            "{name}: mean {mean:.2} ms, p99 {p99:.2} ms{}{dropped}",
            added.unwrap_or_default()
        );
        let sorted = run.sorted_latencies(Role::Lc);
        (label, colour(run.mode), distribution(&sorted, POINTS))
    });
    distributions(short_title(comparison), curves)
}

/// The workload in few words.
fn short_title(comparison: &Comparison) -> String {
    let title = table::title(comparison);
    match (comparison.workload.as_str(), title.len()) {
        (name, 91..) => {
            let clients = |role| {
                let most = comparison.runs.iter().max_by_key(|run| run.clients.len());
                most.map_or(0, |run| {
                    let clients = run.clients.iter();
                    clients.filter(|client| client.spec.role == role).count()
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
