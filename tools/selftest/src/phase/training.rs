// SPDX-License-Identifier: GPL-2.0
//! A training loop against its own marks: what it says that it does, and what is told of it.

use std::fmt;
use std::time::{Duration, Instant};

use anyhow::{ensure, Result};
use libzernel::sim::{Context, Item};
use libzernel::{Phase, Target, ThreadPhases, Timestamp, Tracking};

use super::{own, passed};
use crate::block::Disk;
use crate::child::in_child;
use crate::common::{default_of, Lab};
use crate::harness::Outcome;
use testkit::random::Random;

/// What a request of the disk takes: a small part of a section, so that sections are as long as
/// they are to be.
const LATENCY: Duration = Duration::from_millis(4);

/// Per mille of the time, at least, in which the phase told is what the loop says.
const AGREEMENT: u64 = 950;

/// Samples after which a phase is told at most; one more may have begun before it.
const LAG: u64 = 3 + 1;

/// What the loop does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mark {
    Load,
    Compute,
    Step,
}

impl Mark {
    const ALL: [Self; 3] = [Self::Load, Self::Compute, Self::Step];

    fn phase(self) -> Phase {
        match self {
            Self::Load => Phase::DataLoading,
            Self::Compute => Phase::GpuCompute,
            Self::Step => Phase::OptimizerStep,
        }
    }
}

/// From one mark to the next.
#[derive(Debug, Clone, Copy)]
struct Section {
    mark: Mark,
    /// How long it took, in ns.
    all: u64,
    /// For how long it was told as what it was.
    told: u64,
}

/// A program that loads, computes and steps.
struct Trainer {
    lab: Lab,
    context: Context,
    disk: Disk,
}

impl Trainer {
    fn new() -> Result<Self> {
        let lab = Lab::open()?;
        lab.zernel.track(&Target::current_process(), Tracking::ML)?;
        let (context, _) = lab.compute()?;
        let disk = Disk::new(LATENCY)?;
        Ok(Self { lab, context, disk })
    }

    fn look(&self) -> Result<ThreadPhases> {
        own(&self.lab.zernel)
    }

    fn act(&mut self, mark: Mark, duration: Duration) -> Result<()> {
        match mark {
            Mark::Load => self.disk.read_for(duration)?,
            Mark::Compute => {
                let submitted = self.context.submit(0, &[Item::work(duration)])?;
                self.context.wait(0, submitted.last_seq, Timestamp::NEVER)?;
            }
            Mark::Step => {
                let begin = Instant::now();
                while begin.elapsed() < duration {
                    std::hint::spin_loop();
                }
            }
        }
        Ok(())
    }

    /// So many batches of sections that last as long as `duration` says.
    fn train(
        &mut self,
        batches: u32,
        mut duration: impl FnMut(Mark) -> Duration,
    ) -> Result<Report> {
        let mut sections = Vec::new();
        let mut last = self.look()?;
        for batch in 0..=batches {
            for mark in Mark::ALL {
                self.act(mark, duration(mark))?;
                let now = self.look()?;
                let (told, all) = passed(&last, &now, mark.phase());
                last = now;
                // In the first one it has not waited for the GPU yet.
                if batch > 0 {
                    sections.push(Section { mark, all, told });
                }
            }
        }
        Ok(Report::of(&sections))
    }

    /// Trains; the phases told agree with the marks.
    fn agrees(&mut self, batches: u32, mut duration: impl FnMut(Mark) -> Duration) -> Outcome {
        let report = self.train(batches, &mut duration)?;
        println!("    # {report}");
        ensure!(report.is_good(), "too little, or too late: {report}");
        Ok(())
    }
}

/// How well the phases told agree with the marks.
struct Report {
    /// Per mille of the time of all sections that can be told.
    agreement: u64,
    /// The same of each kind.
    of_each: [u64; 3],
    /// For how long half of the sections were told as something else at most, in ns.
    median: u64,
    /// And all of them.
    longest: u64,
    /// Sections that can be told.
    sections: usize,
}

impl Report {
    fn of(sections: &[Section]) -> Self {
        // What is shorter than the samples that it takes need not be told.
        let long: Vec<_> = sections
            .iter()
            .filter(|section| section.all >= 3 * tick())
            .copied()
            .collect();
        let share = |sections: &mut dyn Iterator<Item = &Section>| {
            let sum = |(told, all): (u64, u64), s: &Section| (told + s.told, all + s.all);
            let (told, all) = sections.fold((0, 0), sum);
            told * 1_000 / all.max(1)
        };
        let of_each = Mark::ALL.map(|mark| share(&mut long.iter().filter(|s| s.mark == mark)));
        let mut lags: Vec<_> = long.iter().map(|s| s.all - s.told).collect();
        lags.sort_unstable();
        Self {
            agreement: share(&mut long.iter()),
            of_each,
            median: lags.get(lags.len() / 2).copied().unwrap_or(u64::MAX),
            longest: lags.last().copied().unwrap_or(u64::MAX),
            sections: long.len(),
        }
    }

    fn is_good(&self) -> bool {
        self.agreement >= AGREEMENT && self.longest <= LAG * tick()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [load, compute, step] = self.of_each;
        write!(
            f,
            "{} per mille of {} sections (load {load}, compute {compute}, step {step}), \
             something else for {} us in half of them, {} us at most",
            self.agreement,
            self.sections,
            self.median / 1_000,
            self.longest / 1_000,
        )
    }
}

/// From one sample to the next, in ns.
fn tick() -> u64 {
    u64::from(default_of("phase_tick_us")) * 1_000
}

/// A step is shorter than what an optimizer does at most.
const STEP: Duration = Duration::from_millis(4);

pub(super) fn fixed() -> Outcome {
    in_child(|| {
        Trainer::new()?.agrees(25, |mark| match mark {
            Mark::Load => Duration::from_millis(120),
            Mark::Compute => Duration::from_millis(180),
            Mark::Step => STEP,
        })
    })
}

/// Sections of 1 to 200 ms.
pub(super) fn random() -> Outcome {
    in_child(|| {
        let seed = Timestamp::now().as_ns();
        println!("    # seed {seed:#x}");
        let mut random = Random::new(seed);
        Trainer::new()?.agrees(40, |mark| {
            let most = match mark {
                Mark::Load | Mark::Compute => Duration::from_millis(200),
                Mark::Step => STEP,
            };
            let least = Duration::from_millis(1);
            let span = (most - least).as_nanos() as u64;
            least + Duration::from_nanos(random.below(span + 1))
        })
    })
}
