// SPDX-License-Identifier: MIT OR Apache-2.0
//! A training loop and the phases told of it: some steps without the signal and with it.

use libzernel::{Phase, Timestamp};
use plotters::prelude::*;
use plotters::style::text_anchor::HPos;
use zernel_train::{Does, Span};

use super::lanes::{middle, Frame, Lanes, AXIS};
use super::{draw_swatches, Picture, Scale};
use crate::chart::{Area, Drawn};
use crate::palette;
use crate::training::{Trained, Training};

/// Width of the picture in units of length.
const WIDTH: u32 = 1500;

const TITLE: u32 = 58;
const PANEL: u32 = 236;
const KEY: u32 = 88;
const LEFT: u32 = 190;

/// Steps without the signal that are shown, on average.
const STEPS: f64 = 4.3;

/// Lanes of a panel, bottom and top, and the line of text above them.
const READS: (f64, f64) = (0.66, 0.80);
const GPU: (f64, f64) = (0.45, 0.59);
const OPTIMIZER: (f64, f64) = (0.24, 0.38);
const TOLD: (f64, f64) = (0.02, 0.16);
const TEXT: f64 = 0.91;

/// The view of a loop.
pub(super) struct View<'a> {
    training: &'a Training,
    /// The computation from whose end on it is shown.
    after: usize,
    lead_ms: f64,
    length_ms: f64,
}

impl<'a> View<'a> {
    /// The same steps of each run; `None` if one is too short for that.
    pub(super) fn new(training: &'a Training) -> Option<Self> {
        let slowest = training.runs.iter().max_by_key(|one| one.run.took())?;
        let counts = training.runs.iter().map(|one| one.run.computations.len());
        let after = counts.min()?.checked_sub(1)? / 3;
        let took_ms = slowest.run.took().as_secs_f64() * 1e3;
        let some_ms = STEPS * took_ms / slowest.run.computations.len() as f64;
        // No run ends before the picture does.
        let left = training.runs.iter().map(|one| {
            let start = one.run.computations.get(after)?.ended;
            Some(one.run.whole.ended.since(start).as_secs_f64() * 1e3)
        });
        let left_ms = left.collect::<Option<Vec<_>>>()?;
        let length_ms = left_ms.into_iter().fold(some_ms, f64::min);
        (length_ms > 0.0).then_some(Self {
            training,
            after,
            lead_ms: length_ms / 40.0,
            length_ms,
        })
    }

    fn draw_panel<DB: DrawingBackend>(
        &self,
        area: &Area<DB>,
        scale: Scale,
        run: &Trained,
        axis: bool,
    ) -> Drawn<DB> {
        let frame = Frame {
            left: LEFT,
            ms: -self.lead_ms..self.length_ms - self.lead_ms,
            labels: 18,
            axis: axis.then_some("time since the end of a computation, ms"),
        };
        let mut lanes = frame.draw(area, scale)?;
        let style = scale.text(15, palette::INK, HPos::Right);
        let names = [
            ("reads a batch", READS),
            ("GPU computes", GPU),
            ("optimizer", OPTIMIZER),
            ("phase, as zernel tells", TOLD),
        ];
        let names = names.map(|(name, lane)| (name, middle(lane), style.clone()));
        frame.name(area, scale, &lanes, names)?;
        self.draw_spans(&mut lanes, run)?;
        self.draw_signals(&mut lanes, scale, run)?;
        lanes.draw_series([Text::new(
            heading(run),
            (-self.lead_ms, TEXT),
            scale.text(17, colour(run), HPos::Left),
        )])?;
        Ok(())
    }

    fn draw_spans<DB: DrawingBackend>(
        &self,
        lanes: &mut Lanes<'_, DB>,
        run: &Trained,
    ) -> Drawn<DB> {
        let does = |wanted: Does| {
            let sections = run.run.sections.iter();
            sections.filter(move |one| one.does == wanted)
        };
        let reads = run.run.loads.iter().map(|span| (READS, *span, LOADS));
        let gpu = run.run.computations.iter();
        let gpu = gpu.map(|span| (GPU, *span, COMPUTES));
        let optimizer = does(Does::Optimize).map(|one| (OPTIMIZER, one.span, STEPS_ON));
        let told = run
            .told
            .iter()
            .map(|one| (TOLD, one.span, of_phase(one.phase)));
        let spans = reads.chain(gpu).chain(optimizer).chain(told);
        let drawn: Vec<_> = spans
            .filter_map(|(lane, span, colour)| {
                let (from, until) = self.visible(run, &span)?;
                Some(Rectangle::new(
                    [(from, lane.0), (until, lane.1)],
                    colour.filled(),
                ))
            })
            .collect();
        lanes.draw_series(drawn)?;
        Ok(())
    }

    /// Those that the loop listens to.
    fn draw_signals<DB: DrawingBackend>(
        &self,
        lanes: &mut Lanes<'_, DB>,
        scale: Scale,
        run: &Trained,
    ) -> Drawn<DB> {
        if !run.signal {
            return Ok(());
        }
        let within = -self.lead_ms..self.length_ms - self.lead_ms;
        let places = || {
            let all = run.signals.iter().map(|&at| self.ms(run, at));
            all.filter(|at| within.contains(at))
        };
        let line = SIGNAL.stroke_width(scale.px(2));
        lanes
            .draw_series(places().map(|at| PathElement::new([(at, GPU.0), (at, READS.1)], line)))?;
        let size = scale.px(6);
        lanes.draw_series(
            places().map(|at| TriangleMarker::new((at, READS.0 - 0.02), size, SIGNAL.filled())),
        )?;
        Ok(())
    }

    /// A moment in milliseconds since the end of the computation from which on it is shown.
    fn ms(&self, run: &Trained, at: Timestamp) -> f64 {
        let start = run.run.computations.get(self.after);
        let start = start.map_or(0, |span| span.ended.as_ns());
        (at.as_ns() as f64 - start as f64) / 1e6
    }

    /// The part of a time that is shown.
    fn visible(&self, run: &Trained, span: &Span) -> Option<(f64, f64)> {
        let from = self.ms(run, span.began).max(-self.lead_ms);
        let until = self.ms(run, span.ended).min(self.length_ms - self.lead_ms);
        (from < until).then_some((from, until))
    }
}

impl Picture for View<'_> {
    fn size(&self) -> (u32, u32) {
        let panels = PANEL * self.training.runs.len() as u32;
        (WIDTH, TITLE + panels + AXIS + KEY)
    }

    fn draw<DB: DrawingBackend>(&self, area: &Area<DB>, scale: Scale) -> Drawn<DB> {
        let runs = self.training.runs.len();
        area.fill(&WHITE)?;
        let (head, rest) = area.split_vertically(scale.px(TITLE));
        let (mut body, key) = rest.split_vertically(scale.px(PANEL * runs as u32 + AXIS));
        head.draw(&Text::new(
            self.training.plan.title(),
            scale.point(WIDTH as i32 / 2, TITLE as i32 / 2 + 4),
            scale.text(20, palette::INK, HPos::Center),
        ))?;
        for (number, run) in self.training.runs.iter().enumerate() {
            let last = number + 1 == runs;
            let height = if last { PANEL + AXIS } else { PANEL };
            let (panel, below) = body.split_vertically(scale.px(height));
            body = below;
            self.draw_panel(&panel, scale, run, last)?;
        }
        draw_key(&key, scale)?;
        area.present()
    }
}

const LOADS: RGBColor = palette::ORANGE;
const COMPUTES: RGBColor = palette::BLUE;
const STEPS_ON: RGBColor = palette::GREEN;
const SIGNAL: RGBColor = palette::VERMILION;

/// Colour of a phase: that of what a loop does in it.
fn of_phase(phase: Phase) -> RGBColor {
    match phase {
        Phase::DataLoading => LOADS,
        Phase::GpuCompute => COMPUTES,
        Phase::OptimizerStep => STEPS_ON,
        Phase::Collective => palette::PURPLE,
        _ => palette::IDLE,
    }
}

/// Colour of a run's heading.
fn colour(run: &Trained) -> RGBColor {
    palette::of_policy(if run.signal { "zernel" } else { "default" })
}

fn heading(run: &Trained) -> String {
    let figures = &run.figures;
    let how = match run.signal {
        false => "without the signal",
        true => "with the signal",
    };
    format!(
        "{how}: {:.2} steps/s, GPU idle {:.1} %, phases right {:.1} % of the time",
        figures.steps_per_s, figures.gpu_idle_percent, figures.agreement.percent
    )
}

/// The key of colours, in the loop's own words and in zernel's.
fn draw_key<DB: DrawingBackend>(area: &Area<DB>, scale: Scale) -> Drawn<DB> {
    let entries = [
        ("reads a batch · data_loading", LOADS),
        ("GPU computes · gpu_compute", COMPUTES),
        ("optimizer · optimizer_step", STEPS_ON),
        ("waits for its batch · unknown", palette::IDLE),
    ];
    let place = scale.point(LEFT as i32, KEY as i32 / 4);
    let entries = entries.map(|(text, colour)| (text, colour.to_rgba()));
    draw_swatches(area, scale, place, &entries)?;
    let (x, y) = (scale.at(LEFT as i32), scale.at(3 * KEY as i32 / 4 - 8));
    let middle = x + scale.at(13);
    let line = [(middle, y - scale.at(9)), (middle, y + scale.at(9))];
    area.draw(&PathElement::new(line, SIGNAL.stroke_width(scale.px(2))))?;
    area.draw(&TriangleMarker::new(
        (middle, y),
        scale.px(6),
        SIGNAL.filled(),
    ))?;
    area.draw(&Text::new(
        "zernel's signal to load the next batch; the first three lanes are the loop's own marks",
        (x + scale.at(34), y),
        scale.text(16, palette::INK, HPos::Left),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testdata;
    use crate::training::Plan;

    #[test]
    fn each_run_is_shown_from_the_end_of_the_same_computation() {
        let training = testdata::training(Plan::FIXED);
        let view = View::new(&training).unwrap();
        for run in &training.runs {
            let start = run.run.computations[view.after];
            assert!((view.ms(run, start.ended)).abs() < 1e-9);
            let (from, until) = view.visible(run, &start).unwrap();
            assert!((from + view.lead_ms).abs() < 1e-9 && until.abs() < 1e-9);
            let end = view.ms(run, run.run.whole.ended);
            assert!(end > view.length_ms - view.lead_ms);
        }
    }

    #[test]
    fn a_loop_that_did_nothing_is_not_shown() {
        let mut training = testdata::training(Plan::FIXED);
        training.runs[1].run.computations.clear();
        assert!(View::new(&training).is_none());
        training.runs.clear();
        assert!(View::new(&training).is_none());
    }
}
