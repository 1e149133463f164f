// SPDX-License-Identifier: MIT OR Apache-2.0
//! Checks on a real machine of the effects and costs that zernel counts on: `zernelctl gpu verify`.
//!
//! A [`check::Check`] makes an effect through zernel's public interface, with work on the GPU
//! ([`work::Work`]), and adds figures, each with the range that is expected of it. Tunables that it
//! sets are put back on every way out ([`settings`]).

pub mod check;
pub mod checks;
pub mod debugfs;
pub mod figure;
pub mod keep;
pub mod lab;
pub mod ready;
pub mod report;
pub mod runs;
pub mod settings;
mod tracefs;
pub mod work;

use std::path::Path;

use anyhow::{Context as _, Result};
use libzernel::{gpu, Gpu, Zernel};

use check::Check;
pub use checks::CHECKS;
use lab::Lab;
use report::{note, Report, SCHEMA};
use settings::Settings;
use work::cuda::Cuda;
use work::software::Software;
use work::Work;

/// The kind of work that is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Choice {
    /// By the provider of the GPU.
    Auto,
    /// The software GPU.
    Sim,
    /// CUDA.
    Cuda,
}

/// The check of a name.
pub fn named(name: &str) -> Option<&'static Check> {
    CHECKS.iter().find(|check| check.name == name)
}

/// There is no such GPU, or none at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoGpu(Option<gpu::Id>);

impl std::fmt::Display for NoGpu {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            Some(id) => write!(f, "no GPU {id}: zernelctl gpu list shows all"),
            None => f.write_str("no GPU: no provider has reported one"),
        }
    }
}

impl std::error::Error for NoGpu {}

/// The GPU of an id, or the first one.
///
/// Errors: [`NoGpu`].
pub fn find_gpu(zernel: &Zernel, id: Option<gpu::Id>) -> Result<Gpu> {
    for gpu in zernel.gpus() {
        let gpu = gpu?;
        if id.is_none_or(|id| gpu.id == id) {
            return Ok(gpu);
        }
    }
    Err(NoGpu(id).into())
}

/// Opens the work of a GPU.
pub fn open_work(device: &Path, gpu: &Gpu, choice: Choice) -> Result<Box<dyn Work>> {
    let zernel = || Zernel::open_at(device);
    match choice {
        Choice::Sim => Ok(Box::new(Software::open(zernel()?, gpu)?)),
        Choice::Cuda => Ok(Box::new(Cuda::open(zernel()?, gpu)?)),
        Choice::Auto if gpu.provider == "sim" || Software::is_at(gpu) => {
            Ok(Box::new(Software::open(zernel()?, gpu)?))
        }
        Choice::Auto => Ok(Box::new(Cuda::open(zernel()?, gpu)?)),
    }
}

/// Runs checks one after the other, and reports. `step` is told the report so far, and the check that
/// begins then, if any.
///
/// Tunables are put back after each check. Those of which that has failed are left to the caller's
/// [`Settings::put_back`].
pub fn run(
    device: &Path,
    gpu: &Gpu,
    work: &dyn Work,
    settings: &Settings,
    checks: &[&Check],
    mut step: impl FnMut(&Report, Option<&Check>),
) -> Result<Report> {
    let zernel = Zernel::open_at(device)?;
    let was_alone = ready::others(&zernel, None)? == 0;
    let lab = Lab::new(device, gpu.id, work, settings)?;
    let uname = rustix::system::uname();
    let mut report = Report {
        schema: SCHEMA,
        hardware: work.is_hardware(),
        note: note(work.is_hardware()),
        work: work.name(),
        kernel: uname
            .release()
            .to_str()
            .context("the kernel's version")?
            .to_owned(),
        others: ready::others(&zernel, Some(gpu.id))?,
        complete: false,
        gpu: gpu.clone(),
        checks: Vec::new(),
    };
    for check in checks {
        step(&report, Some(check));
        let outcome = match ready::newcomers(&zernel) {
            Some(why) if was_alone => check.left_out(why),
            _ => check.outcome(&lab, settings),
        };
        report.checks.push(outcome);
    }
    report.complete = true;
    step(&report, None);
    Ok(report)
}
