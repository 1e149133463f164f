// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs training loops whose batches come when they are needed, at the signal, or from a queue: each loop
//! is a process, and all share a store that serves few reads at once.

use std::path::PathBuf;

use anyhow::{Context as _, Result};
use serde::{Deserialize, Serialize};
use zernel_report::queues::{Compared, Figures, Row, Setting, Way};
use zernel_report::training::{Lengths, Plan};
use zernel_train::{Disk, Missing, Program, Queue, Run, Source};

use super::{steps, LATENCY};
use crate::child::Child;
use crate::run::soon;
use crate::worker::{hear_start, say, sleep_until};

/// A loop whose loading a computation can hide. Loops are long enough for the deepest queue to be full.
const FIXED: Plan = Plan {
    steps: 100,
    lengths: Lengths::Fixed {
        load_ms: 40,
        compute_ms: 60,
    },
    optimizer_ms: 1,
};

/// One of which nothing can be told ahead.
const RANDOM: Plan = Plan {
    steps: 60,
    optimizer_ms: 1,
    ..Plan::RANDOM
};

/// One whose loading no computation can hide, from a store that serves many reads at once.
const LONG: Plan = Plan {
    steps: 60,
    lengths: Lengths::Fixed {
        load_ms: 120,
        compute_ms: 60,
    },
    ..FIXED
};
const MANY: u64 = 16;

/// Part of the steps that the demo has.
const DEMO: f64 = 0.45;

/// Loops that share a store.
const JOBS: usize = 3;

/// The number of settings and ways.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// A few of either, for the demo.
    Demo,
    /// All.
    Full,
}

impl Extent {
    fn settings(self, scale: f64) -> Vec<Setting> {
        let scale = match self {
            Self::Demo => scale * DEMO,
            Self::Full => scale,
        };
        let setting = |plan: Plan, jobs, at_once| Setting {
            plan: plan.scaled(scale),
            jobs,
            at_once,
        };
        vec![
            setting(FIXED, 1, 1),
            setting(FIXED, JOBS, 1),
            setting(RANDOM, 1, 1),
            setting(LONG, 1, MANY),
        ]
    }

    fn has(self, way: Way) -> bool {
        match (self, way) {
            (Self::Full, _) => true,
            (Self::Demo, Way::Queue(queue)) => [1, 4, 16].contains(&queue.depth()),
            (Self::Demo, _) => true,
        }
    }
}

/// Order to a process: its loop.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Job {
    plan: Plan,
    way: Way,
    /// The block device that is the store.
    store: PathBuf,
}

/// Runs all settings of an extent, or tells why the kernel cannot run them.
pub fn compare(
    extent: Extent,
    scale: f64,
    mut progress: impl FnMut(&str),
) -> Result<std::result::Result<Vec<Compared>, Missing>> {
    let mut all = Vec::new();
    for setting in extent.settings(scale) {
        let mut rows = Vec::new();
        for way in Way::all().filter(|way| extent.has(*way)) {
            let name = way.name();
            progress(&format!("{}: {name}", setting.title()));
            match one(&setting, way) {
                Ok(figures) => rows.push(Row { way, figures }),
                Err(error) if error.is::<Missing>() => {
                    return error.downcast::<Missing>().map(Err);
                }
                Err(error) => return Err(error.context(format!("the loop with {name}"))),
            }
        }
        all.push(Compared { setting, rows });
    }
    Ok(Ok(all))
}

/// The loops of a setting, at once.
fn one(setting: &Setting, way: Way) -> Result<Figures> {
    let disk = Disk::with_depth(LATENCY, Some(setting.at_once))?;
    let order = Job {
        plan: setting.plan,
        way,
        store: disk.node().to_owned(),
    };
    let mut jobs = (0..setting.jobs)
        .map(|number| Child::start(format!("training loop {number}"), "job", &order))
        .collect::<Result<Vec<_>>>()?;
    for job in &mut jobs {
        job.hear::<()>()?;
    }
    let start = soon();
    for job in &mut jobs {
        job.tell(start)?;
    }
    let runs = jobs.iter_mut().map(Child::hear::<Run>);
    Ok(Figures::of(&runs.collect::<Result<Vec<_>>>()?))
}

/// A process with a loop: it says that it can start, is told when, and says its record.
pub fn job(order: &Job) -> Result<()> {
    let source = || Source::shared(&order.store, LATENCY);
    let mut program = Program::new()?;
    let steps = steps(&order.plan);
    let run: Box<dyn FnOnce() -> Result<Run>> = match order.way {
        Way::Queue(queue) => {
            let Queue { workers, .. } = queue;
            let sources = (0..workers).map(|_| source()).collect::<Result<Vec<_>>>()?;
            Box::new(move || program.with_queue(&steps, queue, sources))
        }
        way => {
            program = program.reading(source()?);
            Box::new(move || match way {
                Way::Signal => program.with_signal(&steps),
                _ => program.in_sequence(&steps),
            })
        }
    };
    say(&())?;
    sleep_until(hear_start()?)?;
    say(&run().context("a step failed")?)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_demo_has_a_part_of_all() {
        let ways = |extent: Extent| Way::all().filter(move |way| extent.has(*way)).count();
        assert_eq!((ways(Extent::Demo), ways(Extent::Full)), (5, 7));
        for setting in Extent::Full.settings(1.0) {
            let Setting { plan, at_once, .. } = setting;
            assert_eq!(steps(&plan).len(), plan.steps);
            // A load is a whole number of reads, and one store gives all that is asked for.
            if let Lengths::Fixed {
                load_ms,
                compute_ms,
            } = plan.lengths
            {
                assert!(load_ms < compute_ms * at_once);
                let load = Duration::from_millis(load_ms);
                assert_eq!(load.as_nanos() % LATENCY.as_nanos(), 0);
            }
        }
    }

    #[test]
    fn an_order_is_what_it_was() {
        let order = Job {
            plan: FIXED,
            way: Way::Queue(Queue::of(8)),
            store: "/dev/store".into(),
        };
        let text = serde_json::to_string(&order).unwrap();
        let again: Job = serde_json::from_str(&text).unwrap();
        assert_eq!((again.plan, again.way), (order.plan, order.way));
        assert_eq!(again.store, order.store);
    }
}
