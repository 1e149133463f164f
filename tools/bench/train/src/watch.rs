// SPDX-License-Identifier: MIT OR Apache-2.0
//! The phases that zernel tells of the threads of this process, and their begins, while they work.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{anyhow, Result};
use libzernel::{Phase, Target, Thread, Timestamp, Zernel};
use serde::{Deserialize, Serialize};

use crate::run::Span;

/// From one look to the next. A phase holds for as many samples as it takes to tell of it.
const EVERY: Duration = Duration::from_millis(1);

/// A phase that a thread was told to be in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Told {
    /// Which.
    pub phase: Phase,
    /// When.
    pub span: Span,
}

/// The phases of a thread.
#[derive(Debug, Clone)]
struct Line {
    id: u64,
    tid: u32,
    transitions: u64,
    told: Vec<Told>,
}

/// The phases of threads, as they were told.
#[derive(Debug, Clone, Default)]
pub struct Lines {
    lines: Vec<Line>,
    /// Phases that came and went between two looks.
    missed: u64,
}

impl Lines {
    /// The phases of a thread, in order.
    pub fn of(&self, tid: u32) -> Vec<Told> {
        let lines = self.lines.iter().filter(|line| line.tid == tid);
        lines.flat_map(|line| &line.told).copied().collect()
    }

    /// Those of all others.
    pub fn others(&self, tid: u32) -> Vec<Told> {
        let lines = self.lines.iter().filter(|line| line.tid != tid);
        lines.flat_map(|line| &line.told).copied().collect()
    }

    /// Phases that came and went between two looks.
    pub fn missed(&self) -> u64 {
        self.missed
    }

    /// A look at a thread, at that time.
    fn see(&mut self, at: Timestamp, seen: &Thread) {
        let began = at - Duration::from_nanos(seen.present_ns);
        let told = |began| Told {
            phase: seen.phase,
            span: Span { began, ended: at },
        };
        let Some(line) = self.lines.iter_mut().find(|line| line.id == seen.id) else {
            self.lines.push(Line {
                id: seen.id,
                tid: seen.tid,
                transitions: seen.transitions,
                told: vec![told(began)],
            });
            return;
        };
        let Some(last) = line.told.last_mut() else {
            return;
        };
        if line.transitions == seen.transitions {
            last.span.ended = at;
            return;
        }
        self.missed += seen.transitions - line.transitions - 1;
        line.transitions = seen.transitions;
        last.span.ended = began.max(last.span.began);
        line.told.push(told(began));
    }
}

/// A thread that looks; it is not tracked itself.
#[derive(Debug)]
pub struct Watch {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Result<Lines>>,
}

impl Watch {
    /// Begins to look.
    pub fn start() -> Result<Self> {
        let zernel = Zernel::open()?;
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let thread = std::thread::spawn(move || {
            let mut lines = Lines::default();
            loop {
                let last = stopped.load(Ordering::Acquire);
                look(&zernel, &mut lines)?;
                if last {
                    return Ok(lines);
                }
                std::thread::sleep(EVERY);
            }
        });
        Ok(Self { stop, thread })
    }

    /// Looks once more; what it has seen.
    pub fn stop(self) -> Result<Lines> {
        self.stop.store(true, Ordering::Release);
        let lines = self.thread.join();
        lines.map_err(|_| anyhow!("the thread that watches phases has panicked"))?
    }
}

fn look(zernel: &Zernel, lines: &mut Lines) -> Result<()> {
    let before = Timestamp::now();
    let mut at = None;
    for phases in zernel.threads_of(&Target::CurrentProcess) {
        let phases = phases?;
        // The first comes with the others of its part.
        let at = *at.get_or_insert_with(|| before + Timestamp::now().since(before) / 2);
        lines.see(at, &phases);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(tid: u32, phase: Phase, present_ns: u64, transitions: u64) -> Thread {
        Thread {
            id: u64::from(tid) + 100,
            tid,
            phase,
            present_ns,
            transitions,
            ..Thread::default()
        }
    }

    #[test]
    fn lines_have_no_gap_and_count_what_they_miss() {
        let mut lines = Lines::default();
        let mut see = |at, seen| lines.see(Timestamp::from_ns(at), &seen);
        see(100, seen(1, Phase::Unknown, 40, 7));
        see(100, seen(2, Phase::DataLoading, 10, 0));
        see(200, seen(1, Phase::Unknown, 140, 7));
        see(300, seen(1, Phase::GpuCompute, 60, 8));
        see(400, seen(1, Phase::DataLoading, 20, 10));
        let told: Vec<_> = lines
            .of(1)
            .iter()
            .map(|one| (one.phase, one.span.began.as_ns(), one.span.ended.as_ns()))
            .collect();
        assert_eq!(
            told,
            [
                (Phase::Unknown, 60, 240),
                (Phase::GpuCompute, 240, 380),
                (Phase::DataLoading, 380, 400),
            ]
        );
        assert_eq!(lines.missed(), 1);
        assert_eq!((lines.others(1).len(), lines.of(3).len()), (1, 0));
    }
}
