// SPDX-License-Identifier: MIT OR Apache-2.0
//! Records of context switches in MIG instances, whose steps these tests tell.

use std::fs;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{bail, ensure, Context as _, Result};
use libzernel::Timestamp;
use testkit::harness::Outcome;
use testkit::{check_eq, wait_until};
use zernel_verify::debugfs::{self, Line};

use super::lines;
use crate::lab::{set_faults, Lab};
use crate::rm::abi::control;
use crate::rm::truth::{self, Counts};
use crate::rm::{Handle, Runtime};
use crate::simrm::sharing::part_of_a_gpu;

/// Tags of steps.
mod tag {
    pub(super) const ASKED: u8 = 1;
    pub(super) const SAVED: u8 = 3;
    pub(super) const RUNS: u8 = 5;
}

/// A TSG in a compute instance.
struct Part {
    runtime: Runtime,
    tsg: Handle,
    /// The provider's number of it.
    id: i64,
    mig: i64,
}

impl Part {
    fn new(mig: u32, compute: u32) -> Result<Self> {
        let runtime = part_of_a_gpu(mig, Some(compute))?;
        let known = numbers()?;
        let tsg = runtime.compute()?;
        runtime.channel(tsg)?;
        let mut id = numbers()?;
        id.retain(|id| !known.contains(id));
        check_eq!(id.len(), 1);
        Ok(Self {
            runtime,
            tsg,
            id: id[0],
            mig: mig.into(),
        })
    }

    /// A step of a switch, at a time of the kernel's clock.
    fn step(&self, tag: u8, at: u64) -> Result<()> {
        let path = "/sys/module/nvidia/parameters/simrm_step";
        let (client, tsg) = (self.runtime.client.0, self.tsg.0);
        let text = format!("{client:#x} {tsg:#x} {tag} {at}");
        fs::write(path, &text).with_context(|| format!("{path}: {text}"))
    }

    /// Its line, with its times.
    fn line(&self) -> Result<Line> {
        let lines = lines()?;
        let line = debugfs::of_tsg(&lines, self.id)?;
        line.cloned().context("nothing is told of the TSG")
    }

    /// The line of its instance.
    fn instance(&self) -> Result<Line> {
        let lines = lines()?;
        let mut lines = lines.iter();
        let line = lines.find(|line| line.number("mig").ok().flatten() == Some(self.mig));
        line.cloned().context("nothing is told of the instance")
    }
}

/// The provider's numbers of all TSGs.
fn numbers() -> Result<Vec<i64>> {
    let lines = lines()?;
    let numbers = lines.iter().map(|line| line.number("tsg"));
    numbers.filter_map(Result::transpose).collect()
}

/// Rings that were made, which counts those that were made anew after a pause of this host.
fn rings() -> Result<u64> {
    truth::kernel_calls(control::BIND_SWITCHES)
}

/// Each instance has records of its own, and its compute instances an engine each.
pub(super) fn records() -> Outcome {
    const TRIES: usize = 5;
    let lab = Lab::open()?;
    for _ in 0..TRIES {
        if records_of_three(&lab)? {
            // They end with the last read, as those of a GPU.
            return wait_until("nothing is left", || Ok(super::nothing_is_left().is_ok()));
        }
    }
    bail!("in each of {TRIES} tries a ring was left alone for two seconds");
}

/// The same of three TSGs. False: a ring was made anew meanwhile.
fn records_of_three(lab: &Lab) -> Result<bool> {
    let parts = [(1, 0), (1, 2), (4, 0)]
        .into_iter()
        .map(|(mig, compute)| Part::new(mig, compute))
        .collect::<Result<Vec<_>>>()?;
    // Somebody asks for the load.
    let ask = || lab.gpu(&parts[0].runtime.bus());
    // One for each instance, and none for the whole.
    wait_until("two event buffers are bound", || {
        ask()?;
        Ok(Counts::of_rm()?.get("bound_buffers")? == 2)
    })?;
    let made = rings()?;
    let wait = |what: &str, part: &Part, name: &str, value: i64| {
        wait_until(what, || {
            ask()?;
            Ok(part.line()?.needs(name)? == value || rings()? != made)
        })
        .map_err(|error| error.context(format!("{name} {value}: {:?}", lines())))
    };
    let begun = Timestamp::now().as_ns();
    for part in &parts {
        part.step(tag::RUNS, begun)?;
    }
    // The interval in which a ring is made counts for nobody.
    for part in &parts {
        wait("it is known to run", part, "known", 1)?;
    }
    // The engine of the second one is told of last, and is left first.
    let now = Timestamp::now().as_ns();
    sleep(Duration::from_millis(50));
    let ends = [30, 10, 20].map(|ms| now + ms * 1_000_000);
    for at in [0, 2, 1] {
        parts[at].step(tag::ASKED, ends[at])?;
        parts[at].step(tag::SAVED, ends[at] + 1_000)?;
    }
    for (part, end) in parts.iter().zip(ends) {
        let ran = i64::try_from(end - begun)?;
        wait("its time is told", part, "records_ns", ran)?;
    }
    let instances: Vec<Line> = parts.iter().map(Part::instance).collect::<Result<_>>()?;
    if rings()? != made {
        return Ok(false);
    }
    for (line, steps) in instances.iter().zip([6, 6, 3]) {
        for (name, expected) in [("records", steps), ("lost", 0), ("odd", 0)] {
            check_eq!(line.needs(name)?, expected, "{name}: {line:?}");
        }
    }
    let gpu = i64::from(truth::tsg(parts[0].runtime.client, parts[0].tsg)?.gpu);
    let all = lines()?;
    let whole = debugfs::of_gpu(&all, gpu)?.context("nothing is told of the GPU")?;
    check_eq!(whole.number("mig")?, None);
    check_eq!(whole.needs("records")?, 0);
    Ok(true)
}

/// An instance that the driver does not give leaves the others theirs.
pub(super) fn refused() -> Outcome {
    let lab = Lab::open()?;
    const TRIES: u64 = 1_000;
    set_faults(&format!("alloc:0xc637 status=0x56 kernel times={TRIES}"))?;
    let first = Part::new(2, 0)?;
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(3) {
        lab.gpu(&first.runtime.bus())?;
        sleep(Duration::from_millis(10));
    }
    let left = crate::lab::faults()?;
    let left = left
        .split("times=")
        .nth(1)
        .and_then(|text| text.split_whitespace().next());
    let asked = TRIES - left.context("all tries are used up")?.parse::<u64>()?;
    // At once, and ten seconds later.
    let most = 1 + begun.elapsed().as_secs() / 10;
    ensure!(
        (1..=most).contains(&asked),
        "it was asked for {asked} times"
    );
    set_faults("none")?;
    let second = Part::new(3, 0)?;
    wait_until("an event buffer is bound", || {
        lab.gpu(&second.runtime.bus())?;
        Ok(Counts::of_rm()?.get("bound_buffers")? > 0)
    })?;
    wait_until("its records are read", || {
        lab.gpu(&second.runtime.bus())?;
        second.step(tag::RUNS, Timestamp::now().as_ns())?;
        Ok(second.instance()?.needs("records")? > 0)
    })
}
