// SPDX-License-Identifier: MIT OR Apache-2.0
//! The activity of a loop over time.

use std::time::Duration;

use libzernel::sim::EngineStats;
use libzernel::{Phase, Timestamp};
use serde::{Deserialize, Serialize};

/// From one moment to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Span {
    /// When it began.
    pub began: Timestamp,
    /// When it ended.
    pub ended: Timestamp,
}

impl Span {
    /// Its length.
    pub fn took(&self) -> Duration {
        self.ended.since(self.began)
    }

    /// For how long it and `other` were at once.
    pub fn overlap(&self, other: &Self) -> Duration {
        let (began, ended) = (self.began.max(other.began), self.ended.min(other.ended));
        ended.since(began)
    }

    /// In which thousandth of it that was, if it was in it.
    pub fn permille(&self, at: Timestamp) -> Option<u128> {
        let within = (self.began..=self.ended).contains(&at);
        let all = self.took().as_nanos().max(1);
        within.then(|| at.since(self.began).as_nanos() * 1_000 / all)
    }
}

/// The activity of the thread that trains.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Does {
    /// It reads a batch.
    Load,
    /// It waits for the thread that reads it.
    Wait,
    /// It waits for the GPU.
    Compute,
    /// It updates the weights.
    Optimize,
}

impl Does {
    /// All of them, in the order of a step.
    pub const ALL: [Self; 4] = [Self::Load, Self::Wait, Self::Compute, Self::Optimize];

    /// The phase that it should be told as.
    pub const fn phase(self) -> Phase {
        match self {
            Self::Load => Phase::DataLoading,
            // A wait for another thread is no wait for I/O.
            Self::Wait => Phase::Unknown,
            Self::Compute => Phase::GpuCompute,
            Self::Optimize => Phase::OptimizerStep,
        }
    }

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Load => "load",
            Self::Wait => "wait",
            Self::Compute => "compute",
            Self::Optimize => "optimize",
        }
    }
}

/// The activity of the thread that trains for a while, as it says itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Section {
    /// In which step, from 0.
    pub step: usize,
    /// The activity.
    pub does: Does,
    /// When.
    pub span: Span,
}

/// The time of the GPU's compute engine, as it counts itself, in nanoseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EngineUse {
    /// It ran work.
    pub busy_ns: u64,
    /// It switched contexts.
    pub switch_ns: u64,
    /// It had nothing to do.
    pub idle_ns: u64,
}

impl EngineUse {
    pub(crate) fn between(before: &EngineStats, after: &EngineStats) -> Self {
        Self {
            busy_ns: after.busy_ns - before.busy_ns,
            switch_ns: after.switch_ns - before.switch_ns,
            idle_ns: after.idle_ns - before.idle_ns,
        }
    }

    /// Share of the time in which it had nothing to do, in percent.
    pub fn idle_percent(&self) -> f64 {
        let all = self.busy_ns + self.switch_ns + self.idle_ns;
        100.0 * self.idle_ns as f64 / all.max(1) as f64
    }
}

/// The record of a loop.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Run {
    /// From the begin of the first step to the end of the last.
    pub whole: Span,
    /// The activities of the thread that trains, in order.
    pub sections: Vec<Section>,
    /// When batches were read, in the order of the steps.
    pub loads: Vec<Span>,
    /// When the GPU computed: from when the engine saw the work to when it was done.
    pub computations: Vec<Span>,
    /// Batches that were loaded because of the signal.
    pub signalled: usize,
    /// The time of the GPU from before the first computation to after the last.
    pub engine: EngineUse,
}

impl Run {
    /// Its length.
    pub fn took(&self) -> Duration {
        self.whole.took()
    }

    /// For how long the GPU had nothing to do from the first computation to the last.
    pub fn idle(&self) -> Duration {
        let pairs = self
            .computations
            .iter()
            .zip(self.computations.iter().skip(1));
        pairs.map(|(one, next)| next.began.since(one.ended)).sum()
    }
}

/// Logs the steps of the training thread.
#[derive(Debug)]
pub(crate) struct Diary {
    began: Timestamp,
    last: Timestamp,
    sections: Vec<Section>,
}

impl Diary {
    pub(crate) fn new() -> Self {
        let now = Timestamp::now();
        Self {
            began: now,
            last: now,
            sections: Vec::new(),
        }
    }

    /// It has done `does` since the last mark.
    pub(crate) fn mark(&mut self, step: usize, does: Does) -> Span {
        let span = Span {
            began: self.last,
            ended: Timestamp::now(),
        };
        self.last = span.ended;
        self.sections.push(Section { step, does, span });
        span
    }

    /// From the first mark to the last, with the sections between.
    pub(crate) fn close(self) -> (Span, Vec<Section>) {
        let whole = Span {
            began: self.began,
            ended: self.last,
        };
        (whole, self.sections)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(began: u64, ended: u64) -> Span {
        Span {
            began: Timestamp::from_ns(began),
            ended: Timestamp::from_ns(ended),
        }
    }

    #[test]
    fn spans_overlap_where_both_are() {
        let one = span(100, 200);
        for (other, ns) in [
            (span(0, 100), 0),
            (span(0, 150), 50),
            (span(120, 130), 10),
            (span(150, 900), 50),
            (span(0, 900), 100),
            (span(200, 900), 0),
        ] {
            assert_eq!(one.overlap(&other), Duration::from_nanos(ns));
            assert_eq!(other.overlap(&one), Duration::from_nanos(ns));
        }
        assert_eq!(one.permille(Timestamp::from_ns(150)), Some(500));
        assert_eq!(one.permille(Timestamp::from_ns(201)), None);
    }

    #[test]
    fn the_gpu_is_idle_between_computations() {
        let run = Run {
            whole: span(0, 1_000),
            sections: Vec::new(),
            loads: Vec::new(),
            computations: vec![span(100, 200), span(230, 300), span(310, 400)],
            signalled: 0,
            engine: EngineUse {
                busy_ns: 260,
                switch_ns: 0,
                idle_ns: 40,
            },
        };
        assert_eq!(run.idle(), Duration::from_nanos(40));
        assert!((run.engine.idle_percent() - 100.0 * 40.0 / 300.0).abs() < 1e-9);
        assert_eq!(EngineUse::default().idle_percent(), 0.0);
    }

    #[test]
    fn a_diary_leaves_no_time_out() {
        let mut diary = Diary::new();
        diary.mark(0, Does::Load);
        diary.mark(0, Does::Compute);
        let (whole, sections) = diary.close();
        assert_eq!(whole.began, sections[0].span.began);
        assert_eq!(sections[0].span.ended, sections[1].span.began);
        assert_eq!(whole.ended, sections[1].span.ended);
    }
}
