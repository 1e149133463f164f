// SPDX-License-Identifier: MIT OR Apache-2.0
//! The costs of a look at a TSG and of a record of a context switch.

use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{ensure, Context as _, Result};
use libzernel::sim::{Item, Sim};
use libzernel::Zernel;
use testkit::SOON;
use zernel_verify::debugfs::{self, Line};

use super::Figure;
use crate::rm::truth;
use crate::rm::Spec;
use crate::simrm::engine::plan::{Plan, LONG};

/// Channels of a TSG that is looked at.
const CHANNELS: i64 = 8;
/// TSGs that are looked at together.
const TSGS: usize = 16;
/// Records whose handling is measured.
const RECORDS: i64 = 4_000;
/// The time slice of the TSGs, in microseconds: their switches make the records.
const SLICE: u64 = 500;

const LOOK: &str = "look at a TSG of 8 channels, one of 16, with its 9 reads";
const RECORD: &str = "record of a context switch";

/// The most instructions of each.
const BOUNDS: [(&str, u64); 2] = [(LOOK, 490), (RECORD, 300)];

/// The lines of a file that are of the GPU of a TSG.
struct View {
    gpu: i64,
}

impl View {
    fn of(plan: &Plan) -> Result<Self> {
        let gpu = truth::tsg(plan.runtime.client, plan.tsg)?.gpu;
        Ok(Self { gpu: gpu.into() })
    }

    fn gpu(&self, file: &str) -> Result<Line> {
        let lines = debugfs::lines(file)?;
        let line = debugfs::of_gpu(&lines, self.gpu)?;
        line.cloned()
            .with_context(|| format!("{file} tells nothing of the GPU"))
    }

    /// The shortest look at a TSG, as one of several and alone.
    fn look(&self) -> Result<[i64; 2]> {
        let gpu = self.gpu("registers")?;
        let all = gpu.needs("looks")?;
        ensure!(all == TSGS as i64, "{all} TSGs are looked at");
        let mut alone = Vec::new();
        for line in debugfs::lines("registers")? {
            if line.number("channels")? == Some(CHANNELS) {
                check(&line)?;
                alone.push(line.needs("look_ns")?);
            }
        }
        let alone = *alone.iter().min().context("no TSG is looked at")?;
        Ok([gpu.needs("looks_ns")? / all, alone])
    }

    /// Of each record, the time of zernel and that of the driver, once records come.
    fn records(&self, zernel: &Zernel) -> Result<[i64; 2]> {
        const NAMES: [&str; 3] = ["records", "handled_ns", "fetched_ns"];
        let get = || -> Result<[i64; 3]> {
            // Somebody asks for the load, and so for records.
            for gpu in zernel.gpus() {
                gpu?;
            }
            let line = self.gpu("records")?;
            let [records, handled, fetched] = NAMES;
            Ok([
                line.needs(records)?,
                line.needs(handled)?,
                line.needs(fetched)?,
            ])
        };
        let end = Instant::now() + SOON;
        let mut first = get()?;
        while first[0] == 0 {
            ensure!(Instant::now() < end, "no records come");
            sleep(Duration::from_millis(10));
            first = get()?;
        }
        let mut last = get()?;
        while last[0] - first[0] < RECORDS {
            ensure!(Instant::now() < end, "records come no more: {last:?}");
            sleep(Duration::from_millis(50));
            last = get()?;
        }
        let count = last[0] - first[0];
        Ok([1, 2].map(|at| (last[at] - first[at]) / count))
    }
}

fn check(line: &Line) -> Result<()> {
    let (reads, told) = (line.needs("reads")?, line.needs("told")?);
    ensure!(
        reads == CHANNELS && told == CHANNELS,
        "registers do not tell: {line:?}"
    );
    Ok(())
}

/// Measures both.
pub(super) fn figures() -> Result<Vec<Figure>> {
    let zernel = Zernel::open()?;
    let sim = Sim::open()?;
    let plans: Vec<Plan> = (0..TSGS)
        .map(|at| {
            let plan = Plan::new(&sim, Spec::USUAL, CHANNELS as usize)?;
            plan.runtime.set_timeslice(plan.tsg, SLICE)?;
            if at < 2 {
                plan.submit(0, &[Item::work(LONG); 4])?;
            }
            Ok(plan)
        })
        .collect::<Result<_>>()?;
    let view = View::of(&plans[0])?;
    let [look, alone] = view.look()?;
    let [record, fetch] = view.records(&zernel)?;
    let figures = [
        (LOOK, look),
        ("the same alone", alone),
        (RECORD, record),
        ("the driver's part of it, here simrm's", fetch),
    ];
    figures
        .into_iter()
        .map(|(name, ns)| {
            Ok(Figure {
                name: name.to_owned(),
                ns: u64::try_from(ns).with_context(|| format!("{name}: {ns} ns"))?,
            })
        })
        .collect()
}

/// Fails if one costs more than it may.
pub(super) fn judge(figures: &[Figure]) -> Result<()> {
    for (name, most) in BOUNDS {
        let figure = figures.iter().find(|figure| figure.name == name);
        let ns = figure.with_context(|| name.to_owned())?.ns;
        ensure!(ns <= most, "{name}: {ns}, more than {most}");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_hold() {
        let judged = |look, record| {
            let figure = |name: &str, ns| Figure {
                name: name.to_owned(),
                ns,
            };
            judge(&[figure(LOOK, look), figure(RECORD, record)]).is_ok()
        };
        assert!(judged(490, 300));
        assert!(!judged(491, 300));
        assert!(!judged(490, 301));
        assert!(judge(&[]).is_err());
    }
}
