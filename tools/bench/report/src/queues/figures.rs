// SPDX-License-Identifier: MIT OR Apache-2.0
//! Figures of loops by the way in which their batches are loaded.

use libzernel::Timestamp;
use serde::{Deserialize, Serialize};
use zernel_train::{Run, Span};

/// Mean and largest value.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Level {
    /// The mean.
    pub mean: f64,
    /// The largest.
    pub max: f64,
}

/// Figures of all loops of a run together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Figures {
    /// Steps of all.
    pub steps: usize,
    /// Of them a second.
    pub steps_per_s: f64,
    /// Time in which the GPU had nothing to do, in percent, by its own count.
    pub gpu_idle_percent: f64,
    /// From the begin to the last of the first computations, in milliseconds.
    pub first_ms: f64,
    /// Batches in memory: from the begin of their read to the end of their computation, while there
    /// is something left to read.
    pub held: Level,
    /// Batches that are read at once, in the same time.
    pub reading: Level,
    /// The time in which a batch is read, in milliseconds.
    pub read_ms: Level,
    /// The age of a batch when its computation begins, from the end of its read, in milliseconds.
    pub age_ms: Level,
}

impl Figures {
    /// Of loops that ran at once.
    pub fn of(runs: &[Run]) -> Self {
        let began = runs.iter().map(|run| run.whole.began).min();
        let last = runs.iter().max_by_key(|run| run.whole.ended);
        let (Some(began), Some(last)) = (began, last) else {
            return Self::default();
        };
        let steps = runs.iter().map(|run| run.computations.len()).sum();
        let took = last.whole.ended.since(began).as_secs_f64();
        let firsts = || runs.iter().filter_map(|run| run.computations.first());
        let first_ms = firsts().map(|first| ms(began, first.began));
        let batches = || {
            let of = |run: &Run| {
                let computations = run.computations.clone();
                run.loads.clone().into_iter().zip(computations)
            };
            runs.iter().flat_map(of)
        };
        let held = batches().map(|(read, computed)| Span {
            began: read.began,
            ended: computed.ended,
        });
        let reads: Vec<Span> = batches().map(|(read, _)| read).collect();
        let window = Span {
            began: firsts().map(|first| first.began).min().unwrap_or(began),
            ended: reads.iter().map(|read| read.ended).max().unwrap_or(began),
        };
        Self {
            steps,
            steps_per_s: steps as f64 / took.max(1e-9),
            gpu_idle_percent: last.engine.idle_percent(),
            first_ms: first_ms.fold(0.0, f64::max),
            held: at_once(&held.collect::<Vec<_>>(), &window),
            read_ms: level(reads.iter().map(|read| ms(read.began, read.ended))),
            age_ms: level(batches().map(|(read, computed)| ms(read.ended, computed.began))),
            reading: at_once(&reads, &window),
        }
    }
}

fn ms(from: Timestamp, until: Timestamp) -> f64 {
    until.since(from).as_secs_f64() * 1e3
}

fn level(values: impl Iterator<Item = f64>) -> Level {
    let (mut count, mut sum, mut max) = (0_u32, 0.0, 0.0_f64);
    for value in values {
        (count, sum, max) = (count + 1, sum + value, max.max(value));
    }
    let mean = sum / f64::from(count.max(1));
    Level { mean, max }
}

/// The number of spans at a time: its mean within `window`, and the largest of all time.
fn at_once(spans: &[Span], window: &Span) -> Level {
    let within: f64 = spans
        .iter()
        .map(|span| span.overlap(window).as_secs_f64())
        .sum();
    // Of an end and a begin at the same time the end is first.
    let ends = spans.iter().map(|span| (span.ended, -1));
    let mut changes: Vec<_> = spans
        .iter()
        .map(|span| (span.began, 1))
        .chain(ends)
        .collect();
    changes.sort_unstable();
    let (mut now, mut most) = (0_i32, 0);
    for (_, change) in changes {
        now += change;
        most = most.max(now);
    }
    Level {
        mean: within / window.took().as_secs_f64().max(1e-9),
        max: f64::from(most),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zernel_train::EngineUse;

    fn span(began: u64, ended: u64) -> Span {
        let at = |ms: u64| Timestamp::from_ns(ms * 1_000_000);
        Span {
            began: at(began),
            ended: at(ended),
        }
    }

    fn run(whole: Span, loads: &[Span], computations: &[Span]) -> Run {
        Run {
            whole,
            sections: Vec::new(),
            loads: loads.to_vec(),
            computations: computations.to_vec(),
            signalled: 0,
            engine: EngineUse {
                busy_ns: 3,
                switch_ns: 0,
                idle_ns: 1,
            },
        }
    }

    fn near(found: Level, mean: f64, max: f64) {
        let distance = (found.mean - mean).abs() + (found.max - max).abs();
        assert!(distance < 1e-6, "{found:?} is not {mean} and {max}");
    }

    #[test]
    fn figures_are_those_of_the_spans() {
        // Two are read at once; the second waits for 80 ms, and both are held.
        let loads = [span(0, 20), span(10, 40), span(120, 160)];
        let computations = [span(20, 120), span(120, 200), span(200, 260)];
        let found = Figures::of(&[run(span(0, 260), &loads, &computations)]);
        assert_eq!(found.steps, 3);
        assert!((found.steps_per_s - 3.0 / 0.26).abs() < 1e-6);
        assert!((found.gpu_idle_percent - 25.0).abs() < 1e-6);
        assert!((found.first_ms - 20.0).abs() < 1e-6);
        // From 20 to 160: 100 of the first, 140 of the second, 40 of the third.
        near(found.held, 280.0 / 140.0, 2.0);
        near(found.reading, 60.0 / 140.0, 2.0);
        near(found.read_ms, 30.0, 40.0);
        near(found.age_ms, 120.0 / 3.0, 80.0);
    }

    #[test]
    fn loops_that_run_at_once_are_counted_together() {
        let one = run(span(0, 100), &[span(0, 10)], &[span(10, 60)]);
        let other = run(span(5, 200), &[span(5, 50)], &[span(50, 200)]);
        let found = Figures::of(&[one, other]);
        assert_eq!(found.steps, 2);
        assert!((found.steps_per_s - 10.0).abs() < 1e-6);
        assert!((found.first_ms - 50.0).abs() < 1e-6);
        near(found.held, 80.0 / 40.0, 2.0);
        near(found.reading, 1.0, 2.0);
    }

    #[test]
    fn nothing_has_no_figures() {
        assert_eq!(Figures::of(&[]), Figures::default());
        let found = Figures::of(&[run(span(0, 10), &[], &[])]);
        assert_eq!((found.steps, found.held), (0, Level::default()));
    }
}
