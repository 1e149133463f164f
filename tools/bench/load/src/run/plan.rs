// SPDX-License-Identifier: MIT OR Apache-2.0
//! Work beside the clients of a run: progress is told, and a window of it traced.

use std::time::Duration;

use anyhow::Result;
use libzernel::sim::{Record, Sim, COMPUTE_ENGINE};
use libzernel::Timestamp;
use zernel_report::outcome::{Span, TraceWindow};

use super::Worker;
use crate::worker::sleep_until;

/// Length of the traced window.
const WINDOW: Duration = Duration::from_millis(40);
/// Time from the start of the trace to the window.
const WINDOW_LEAD: Duration = Duration::from_millis(10);
/// Records of the trace that can wait to be read.
const TRACE_CAPACITY: u32 = 16_384;

/// Progress reports of a run.
const PROGRESS_STEPS: u32 = 10;

/// Something to do during a run.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Tell that this much time has passed.
    Progress(Duration),
    /// Trace the window that starts then.
    Trace(Duration),
}

/// Steps during a run, in order: progress now and then, the trace once.
#[derive(Debug)]
pub(super) struct Plan {
    duration: Duration,
    told: u32,
    trace: Option<Duration>,
}

impl Plan {
    /// The steps of a run of this length.
    pub(super) fn new(duration: Duration, trace: bool) -> Self {
        // Late enough that queues have filled, and clear of the progress.
        let at = duration.mul_f64(0.55);
        let fits = trace && at + 2 * WINDOW_LEAD + WINDOW < duration.mul_f64(0.6);
        Self {
            duration,
            told: 0,
            trace: fits.then_some(at),
        }
    }

    /// The next thing to do.
    pub(super) fn next(&mut self) -> Option<Step> {
        let time = self.duration * (self.told + 1) / PROGRESS_STEPS;
        if self.trace.is_some_and(|at| at < time) {
            return self.trace.take().map(Step::Trace);
        }
        self.told += 1;
        (self.told < PROGRESS_STEPS).then_some(Step::Progress(time))
    }
}

/// Traces the compute engine in the window that begins at `at`.
pub(super) fn watch(
    sim: &Sim,
    start: Timestamp,
    at: Duration,
    workers: &[Worker],
) -> Result<TraceWindow> {
    sleep_until(start + at - WINDOW_LEAD)?;
    let trace = sim.trace(0, TRACE_CAPACITY)?;
    sleep_until(start + at + WINDOW + WINDOW_LEAD)?;
    let (records, dropped) = trace.read()?;
    // A process of several clients is shown as its first one.
    let first = |worker: &Worker| (worker.tsg, worker.clients.first().copied().unwrap_or(0));
    let tsgs: Vec<(u64, usize)> = workers.iter().map(first).collect();
    Ok(TraceWindow {
        dropped,
        ..window(&records, start, at, &tsgs)
    })
}

/// The compute engine's records of the window that begins at `at`, joined where nothing changes.
fn window(
    records: &[Record],
    start: Timestamp,
    at: Duration,
    tsgs: &[(u64, usize)],
) -> TraceWindow {
    let (from, until) = (start + at, start + at + WINDOW);
    let ns = |time: Timestamp| time.clamp(from, until).since(start).as_nanos() as u64;
    let mut spans: Vec<Span> = Vec::new();
    for record in records {
        let span = Span {
            start_ns: ns(record.start_ns),
            end_ns: ns(record.end_ns),
            client: tsgs
                .iter()
                .find(|(tsg, _)| *tsg == record.tsg)
                .map(|&(_, client)| client),
            activity: record.activity,
        };
        if record.engine != COMPUTE_ENGINE || span.start_ns == span.end_ns {
            continue;
        }
        match spans.last_mut() {
            Some(last)
                if (last.client, last.activity, last.end_ns)
                    == (span.client, span.activity, span.start_ns) =>
            {
                last.end_ns = span.end_ns;
            }
            _ => spans.push(span),
        }
    }
    TraceWindow {
        start_ns: ns(from),
        end_ns: ns(until),
        spans,
        dropped: 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use libzernel::sim::Activity;

    #[test]
    fn the_plan_traces_once_between_the_steps() {
        let mut plan = Plan::new(Duration::from_secs(5), true);
        let steps: Vec<_> = std::iter::from_fn(|| plan.next()).collect();
        let told = |step: u64| Step::Progress(Duration::from_millis(500 * step));
        assert_eq!(steps.len(), 10);
        assert_eq!(steps[..5], [1, 2, 3, 4, 5].map(told));
        assert_eq!(steps[5], Step::Trace(Duration::from_millis(2_750)));
        assert_eq!(steps[6..], [6, 7, 8, 9].map(told));

        let mut short = Plan::new(Duration::from_millis(200), true);
        let steps = std::iter::from_fn(|| short.next()).count();
        assert_eq!(steps, 9, "no window fits");
    }

    #[test]
    fn windows_are_cut_and_joined() {
        let start = Timestamp::from_ns(1_000);
        let record = |from: u64, until: u64, tsg, engine| Record {
            start_ns: Timestamp::from_ns(from),
            end_ns: Timestamp::from_ns(until),
            tsg,
            engine,
            activity: Activity::Run,
            pid: 1,
        };
        let at = Duration::from_nanos(100);
        let end = 1_100 + WINDOW.as_nanos() as u64;
        let records = [
            record(500, 1_050, 7, 0),
            record(1_050, 1_200, 7, 0),
            record(1_100, 1_150, 9, 1),
            record(1_200, 1_300, 7, 0),
            record(1_300, end + 5_000, 9, 0),
        ];
        let window = window(&records, start, at, &[(9, 0), (7, 1)]);
        let spans: Vec<_> = window
            .spans
            .iter()
            .map(|span| (span.start_ns, span.end_ns, span.client))
            .collect();
        assert_eq!(spans, [(100, 300, Some(1)), (300, window.end_ns, Some(0))]);
        assert_eq!(window.start_ns, 100);
    }
}
