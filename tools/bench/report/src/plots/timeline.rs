// SPDX-License-Identifier: MIT OR Apache-2.0
//! Holders of the GPU around some LC requests: the same moments with and without classes.

use libzernel::sim::Activity;
use plotters::prelude::*;
use plotters::style::text_anchor::HPos;
use zernel_workload::Role;

use super::lanes::{middle, Frame, Lanes, AXIS};
use super::{colour, draw_swatches, label, Picture, Scale};
use crate::chart::{Area, Drawn};
use crate::outcome::{Comparison, Mode, Outcome, Span};
use crate::palette;
use crate::table;

/// Size of the picture in units of length.
const SIZE: (u32, u32) = (1500, TITLE + 2 * PANEL + AXIS + KEY);

const TITLE: u32 = 58;
const PANEL: u32 = 200;
const KEY: u32 = 52;
const LEFT: u32 = 150;
/// The part of the trace that is shown.
const VIEW_MS: f64 = 22.0;
/// Time before the first request that is shown.
const LEAD_MS: f64 = 1.0;

/// Room that the text of a request takes.
const TEXT_MS: f64 = 1.3;

/// Lanes of a panel, bottom and top.
const GPU_LANE: (f64, f64) = (0.08, 0.50);
const REQUEST_LANE: (f64, f64) = (0.62, 0.78);
const REQUEST_TEXT: f64 = 0.90;

/// The view of a workload.
pub(super) struct View<'a> {
    comparison: &'a Comparison,
    runs: Vec<&'a Outcome>,
    start_ns: u64,
    length_ms: f64,
}

impl<'a> View<'a> {
    /// The same moments of the runs that share the GPU; `None` without a trace of both.
    pub(super) fn new(comparison: &'a Comparison) -> Option<Self> {
        let traced = |mode| {
            let run = comparison.run(mode)?;
            (!run.trace.spans.is_empty()).then_some(run)
        };
        let (default, zernel) = (traced(Mode::Default)?, traced(Mode::Zernel)?);
        let window = &default.trace;
        let lead_ns = (LEAD_MS * 1e6) as u64;
        // With classes requests start when they arrive, which is the same moment in every run.
        let first = requests(zernel)
            .map(|(start, _)| start)
            .find(|&start| (window.start_ns + lead_ns..window.end_ns).contains(&start));
        let start_ns = first.map_or(window.start_ns, |start| start - lead_ns);
        let left_ms = (window.end_ns.min(zernel.trace.end_ns) - start_ns) as f64 / 1e6;
        Some(Self {
            comparison,
            runs: vec![default, zernel],
            start_ns,
            length_ms: left_ms.min(VIEW_MS),
        })
    }

    fn draw_title<DB: DrawingBackend>(&self, area: &Area<DB>, scale: Scale) -> Drawn<DB> {
        let title = table::title(self.comparison);
        let clients = title
            .rsplit_once(" · ")
            .map_or(title.as_str(), |(head, _)| head);
        area.draw(&Text::new(
            format!("Who holds the GPU · {clients}"),
            scale.point(SIZE.0 as i32 / 2, TITLE as i32 / 2 + 4),
            scale.text(20, palette::INK, HPos::Center),
        ))
    }

    fn draw_panel<DB: DrawingBackend>(
        &self,
        area: &Area<DB>,
        scale: Scale,
        run: &Outcome,
        axis: bool,
    ) -> Drawn<DB> {
        let frame = Frame {
            left: LEFT,
            ms: 0.0..self.length_ms,
            labels: self.length_ms as usize + 1,
            axis: axis.then_some("time, ms"),
        };
        let mut lanes = frame.draw(area, scale)?;
        let name = scale.text(15, palette::INK, HPos::Right);
        let mode = scale.text(18, colour(run.mode), HPos::Right);
        let names = [
            (label(run.mode), REQUEST_TEXT, mode),
            ("LC requests", middle(REQUEST_LANE), name.clone()),
            ("GPU", middle(GPU_LANE), name),
        ];
        frame.name(area, scale, &lanes, names)?;
        self.draw_spans(&mut lanes, run)?;
        self.draw_requests(&mut lanes, scale, run)
    }

    fn draw_spans<DB: DrawingBackend>(
        &self,
        lanes: &mut Lanes<'_, DB>,
        run: &Outcome,
    ) -> Drawn<DB> {
        let spans = run.trace.spans.iter().filter_map(|span| {
            let (from, until) = self.visible(span.start_ns, span.end_ns)?;
            Some(Rectangle::new(
                [(from, GPU_LANE.0), (until, GPU_LANE.1)],
                self.colour(run, span).filled(),
            ))
        });
        lanes.draw_series(spans)?;
        Ok(())
    }

    fn draw_requests<DB: DrawingBackend>(
        &self,
        lanes: &mut Lanes<'_, DB>,
        scale: Scale,
        run: &Outcome,
    ) -> Drawn<DB> {
        let style = scale.text(15, palette::BLUE, HPos::Left);
        let mut free = 0.0;
        for (start, end) in requests(run) {
            let Some((from, until)) = self.visible(start, end) else {
                continue;
            };
            let [bottom, top] = [REQUEST_LANE.0, REQUEST_LANE.1];
            let bar = [(from, bottom), (until, top)];
            lanes.draw_series([
                Rectangle::new(bar, palette::SKY.mix(0.45).filled()),
                Rectangle::new(bar, palette::BLUE.stroke_width(scale.px(1))),
            ])?;
            // A text never runs into another one or out of the picture; a bar that is cut to less
            // than its text has none.
            let cut = start < self.start_ns && until - from < TEXT_MS;
            if !cut && from >= free && from + TEXT_MS <= self.length_ms {
                free = from + TEXT_MS;
                lanes.draw_series([Text::new(
                    format!("{:.2} ms", (end - start) as f64 / 1e6),
                    (from, REQUEST_TEXT),
                    style.clone(),
                )])?;
            }
        }
        Ok(())
    }

    fn colour(&self, run: &Outcome, span: &Span) -> RGBColor {
        let client = span.client.and_then(|client| run.clients.get(client));
        match (span.activity, client.map(|client| client.spec.role)) {
            (Activity::Idle, _) => palette::IDLE,
            (Activity::Save | Activity::Restore, _) => palette::INK,
            (_, Some(Role::Lc)) => palette::BLUE,
            (_, _) => {
                let (number, of) = place(run, span.client);
                palette::shade(palette::ORANGE, number, of)
            }
        }
    }

    /// The part of a time that the view shows, in milliseconds from its beginning.
    fn visible(&self, start_ns: u64, end_ns: u64) -> Option<(f64, f64)> {
        let ms = |ns: u64| (ns as f64 - self.start_ns as f64) / 1e6;
        let (from, until) = (ms(start_ns).max(0.0), ms(end_ns).min(self.length_ms));
        (from < until).then_some((from, until))
    }
}

impl Picture for View<'_> {
    fn size(&self) -> (u32, u32) {
        SIZE
    }

    fn draw<DB: DrawingBackend>(&self, area: &Area<DB>, scale: Scale) -> Drawn<DB> {
        area.fill(&WHITE)?;
        let (head, rest) = area.split_vertically(scale.px(TITLE));
        let (body, key) = rest.split_vertically(scale.px(2 * PANEL + AXIS));
        self.draw_title(&head, scale)?;
        let (first, last) = body.split_vertically(scale.px(PANEL));
        for (panel, (index, run)) in [first, last].iter().zip(self.runs.iter().enumerate()) {
            self.draw_panel(panel, scale, run, index + 1 == self.runs.len())?;
        }
        draw_key(&key, scale)?;
        area.present()
    }
}

/// Which of how many best-effort clients this one is.
fn place(run: &Outcome, client: Option<usize>) -> (usize, usize) {
    let others = || {
        let clients = run.clients.iter().enumerate();
        clients.filter(|(_, client)| client.spec.role == Role::Be)
    };
    let number = others().position(|(index, _)| Some(index) == client);
    (number.unwrap_or(0), others().count())
}

/// Start and end of every LC request, in nanoseconds, in order.
fn requests(run: &Outcome) -> impl Iterator<Item = (u64, u64)> {
    let mut all: Vec<_> = run
        .clients
        .iter()
        .filter(|client| client.spec.role == Role::Lc)
        .flat_map(|client| client.requests.iter())
        .map(|request| {
            (
                request.start.as_nanos() as u64,
                request.end.as_nanos() as u64,
            )
        })
        .collect();
    all.sort_unstable();
    all.into_iter()
}

fn draw_key<DB: DrawingBackend>(area: &Area<DB>, scale: Scale) -> Drawn<DB> {
    let entries = [
        ("LC runs", palette::BLUE.to_rgba()),
        ("BE runs, a shade per client", palette::ORANGE.to_rgba()),
        ("context switch", palette::INK.to_rgba()),
        ("idle", palette::IDLE.to_rgba()),
        ("LC request, preparation to result", palette::SKY.mix(0.45)),
    ];
    let place = scale.point(LEFT as i32, KEY as i32 / 2 - 4);
    draw_swatches(area, scale, place, &entries)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testdata;

    #[test]
    fn a_view_begins_just_before_a_request_and_stays_in_the_window() {
        let comparison = testdata::comparison("B1");
        let view = View::new(&comparison).unwrap();
        let window = &comparison.run(Mode::Default).unwrap().trace;
        let end = view.start_ns + (view.length_ms * 1e6) as u64;
        assert!(view.start_ns >= window.start_ns && end <= window.end_ns);
        let request = view.start_ns + (LEAD_MS * 1e6) as u64;
        let run = comparison.run(Mode::Default).unwrap();
        assert!(requests(run).any(|(start, _)| start == request));
    }

    #[test]
    fn best_effort_clients_are_counted_apart() {
        let comparison = testdata::comparison("C");
        let run = comparison.run(Mode::Default).unwrap();
        let places: Vec<_> = (0..run.clients.len())
            .filter(|&client| run.clients[client].spec.role == Role::Be)
            .map(|client| place(run, Some(client)))
            .collect();
        let of = places.len();
        assert!(places
            .iter()
            .copied()
            .eq((0..of).map(|number| (number, of))));
    }

    #[test]
    fn without_a_trace_there_is_no_view() {
        let mut comparison = testdata::comparison("B1");
        let zernel = comparison
            .runs
            .iter_mut()
            .find(|run| run.mode == Mode::Zernel);
        zernel.unwrap().trace.spans.clear();
        assert!(View::new(&comparison).is_none());
    }
}
