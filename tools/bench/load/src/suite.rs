// SPDX-License-Identifier: MIT OR Apache-2.0
//! The suite of `make bench`: which workloads run how.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result};
use zernel_report::chart::distribution;
use zernel_report::outcome::{Comparison, Mode, Outcome};
use zernel_report::suite::{Done, Section, BESIDE, FILE};
use zernel_report::{queues, table, training as loops};
use zernel_workload::{
    Arrival, ClientSpec, Deployment, Network, Preparation, Published, Role, Workload,
};

use crate::run::{self, Constants, Options};
use crate::training;

/// The training loops, and their name for `--only`.
const LOOPS: [loops::Plan; 2] = [
    loops::Plan {
        steps: 60,
        ..loops::Plan::FIXED
    },
    loops::Plan {
        steps: 60,
        ..loops::Plan::RANDOM
    },
];
const TRAINING: &str = "training";

/// Seed of all random numbers.
const SEED: u64 = 1;

/// A part of the suite that is to be run.
#[derive(Debug, Clone)]
struct Part {
    section: Section,
    /// The parameter that was changed, for those of a kind.
    parameter: Option<f64>,
    workload: Workload,
    deployment: Deployment,
    runs: Vec<Run>,
}

/// A run of a part.
#[derive(Debug, Clone, Copy)]
struct Run {
    mode: Mode,
    constants: Constants,
    /// Costs of a nanosecond early and of one late for zernel, if not the defaults.
    costs: Option<(u32, u32)>,
}

impl From<Mode> for Run {
    fn from(mode: Mode) -> Self {
        Self {
            mode,
            constants: Constants::PUBLISHED,
            costs: None,
        }
    }
}

/// The extent of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Extent {
    /// A few seconds of three workloads, for `make test`.
    Quick,
    /// The parts by which two kinds of GPUs are compared.
    Gpus,
    /// All of it.
    Full,
}

impl Part {
    fn new(section: Section, workload: Workload, modes: &[Mode]) -> Self {
        Self {
            section,
            parameter: None,
            workload,
            deployment: Deployment::PerClient,
            runs: modes.iter().copied().map(Run::from).collect(),
        }
    }
}

fn built_in(name: &str, seconds: f64) -> Result<Workload> {
    let workload = Workload::built_in(name)
        .with_context(|| format!("there is no section or workload {name}"))?;
    workload.lasting(seconds)
}

/// The parts of the quick suite.
fn quick() -> Result<Vec<Part>> {
    let modes = [Mode::Alone, Mode::Default, Mode::Gpreempt, Mode::Zernel];
    let part = |name| Ok(Part::new(Section::Workloads, built_in(name, 3.0)?, &modes));
    ["B1", "C", "Z"].into_iter().map(part).collect()
}

/// The parts by which GPUs are compared; `scale` makes each longer or shorter.
fn gpus(scale: f64) -> Result<Vec<Part>> {
    let modes = [Mode::Alone, Mode::Default, Mode::Zernel];
    let mut parts = Vec::new();
    for name in ["B1", "C"] {
        let workload = built_in(name, 3.0 * scale)?;
        parts.push(Part::new(Section::Workloads, workload, &modes));
    }
    for processes in [1, 4, 16] {
        let workload = beside_lc("processes", 4.0 * scale, &vec![1; processes])?;
        parts.push(Part {
            parameter: Some(processes as f64),
            ..Part::new(Section::Processes, workload, &modes)
        });
    }
    let workload = beside_lc("weights", 8.0 * scale, &[3, 1])?;
    parts.push(Part::new(
        Section::Weights,
        workload,
        &[Mode::Alone, Mode::Zernel],
    ));
    Ok(parts)
}

/// The parts of the full suite; `scale` makes each longer or shorter.
fn full(scale: f64) -> Result<Vec<Part>> {
    let mut parts = Vec::new();
    for name in [
        "A", "B", "B0", "B1", "B2", "B3", "B4", "C", "D", "E", "Y", "Z",
    ] {
        // Random arrivals take longer to come to their mean.
        let seconds = if name == "E" { 20.0 } else { 5.0 };
        let workload = built_in(name, seconds * scale)?;
        parts.push(Part::new(Section::Workloads, workload, &Mode::ALL));
    }
    for name in ["C", "D", "E", "Z"] {
        let seconds = if name == "E" { 20.0 } else { 5.0 };
        parts.push(Part {
            deployment: Deployment::Published,
            ..Part::new(
                Section::Published,
                built_in(name, seconds * scale)?,
                &Mode::ALL,
            )
        });
    }
    for (us, _) in Published::PREPARATION_SWEEP {
        let workload = built_in("B1", 3.0 * scale)?.preparing(Preparation::Constant(us));
        let mut part = Part::new(Section::Preparation, workload, &Mode::ALL);
        part.parameter = Some(us as f64);
        for run in &mut part.runs {
            run.constants.preparation_us = us;
        }
        parts.push(part);
    }
    for name in Workload::jitter_suite() {
        // The time at which a preparation changes is part of the workload.
        let seconds = match name {
            "J-step" => 30.0,
            "J-drift" => 20.0,
            _ => 10.0 * scale,
        };
        parts.push(Part::new(
            Section::Jitter,
            built_in(name, seconds)?,
            &Mode::ALL,
        ));
    }
    for name in Workload::jitter_suite() {
        let seconds = if name == "J-step" { 30.0 } else { 10.0 * scale };
        let mut part = Part::new(Section::Frontier, built_in(name, seconds)?, &[Mode::Alone]);
        part.runs.extend(FRONTIER_COSTS.map(|costs| Run {
            costs: Some(costs),
            ..Mode::Zernel.into()
        }));
        part.runs.extend(FRONTIER_CONSTANTS.map(|constants| Run {
            constants,
            ..Mode::Gpreempt.into()
        }));
        parts.push(part);
    }
    for processes in PROCESSES {
        let workload = beside_lc("processes", 8.0 * scale, &vec![1; processes])?;
        let modes = [Mode::Alone, Mode::Default, Mode::Gpreempt, Mode::Zernel];
        parts.push(Part {
            parameter: Some(processes as f64),
            ..Part::new(Section::Processes, workload, &modes)
        });
    }
    for weights in [&[3, 1][..], &[3, 3, 1, 1]] {
        let workload = beside_lc("weights", 8.0 * scale, weights)?;
        parts.push(Part {
            parameter: Some(weights.len() as f64),
            ..Part::new(Section::Weights, workload, &[Mode::Alone, Mode::Zernel])
        });
    }
    Ok(parts)
}

/// zernel's costs of a frontier that are measured beside the default: early and late.
const FRONTIER_COSTS: [(u32, u32); 3] = [(9, 1), (1, 1), (1, 99)];

/// The same of GPreempt's constants.
const FRONTIER_CONSTANTS: [Constants; 3] = [
    Constants {
        preparation_us: 100,
        switch_us: 100,
    },
    Constants {
        preparation_us: 300,
        switch_us: 100,
    },
    Constants {
        preparation_us: 500,
        switch_us: 100,
    },
];

/// Numbers of best-effort processes.
const PROCESSES: [usize; 8] = [1, 2, 3, 4, 6, 8, 12, 16];

/// Best-effort processes of these weights that always have work, beside an LC client.
///
/// They prepare nothing: else the GPU would be idle for reasons of their own.
fn beside_lc(name: &str, seconds: f64, weights: &[u32]) -> Result<Workload> {
    let (rate, network) = BESIDE;
    let lc = ClientSpec::new(Role::Lc, network, Arrival::Periodic(rate));
    let be = weights.iter().map(|&weight| ClientSpec {
        weight,
        prepare_us: Preparation::Constant(0),
        ..ClientSpec::new(Role::Be, Network::Resnet152, Arrival::Closed)
    });
    Workload::new(name, seconds, std::iter::once(lc).chain(be).collect())
}

/// Runs the suite and writes its results to `dir`; `only` are the sections or workloads to run, all
/// if there are none.
pub fn run(dir: &Path, extent: Extent, scale: f64, only: &[String]) -> Result<()> {
    let mut parts = match extent {
        Extent::Quick => quick()?,
        Extent::Gpus => gpus(scale)?,
        Extent::Full => full(scale)?,
    };
    if !only.is_empty() {
        parts.retain(|part| {
            let section = part.section.name();
            only.iter()
                .any(|one| *one == section || *one == part.workload.name)
        });
    }
    fs::create_dir_all(dir).with_context(|| format!("cannot make {}", dir.display()))?;
    let path = dir.join(FILE);
    let mut file =
        File::create(&path).with_context(|| format!("cannot write {}", path.display()))?;
    let started = Instant::now();
    let count = parts.len();
    for (number, part) in parts.into_iter().enumerate() {
        let name = &part.workload.name;
        let parameter = part.parameter.map(|value| format!(" {value}"));
        println!(
            "[{}/{count}] {:?}: {name}{}, {:.0} s so far",
            number + 1,
            part.section,
            parameter.unwrap_or_default(),
            started.elapsed().as_secs_f64()
        );
        let done = one(&part).with_context(|| format!("workload {name}"))?;
        let mut line = serde_json::to_vec(&done)?;
        line.push(b'\n');
        file.write_all(&line)?;
        file.flush()?;
    }
    if extent != Extent::Quick && (only.is_empty() || only.iter().any(|one| one == TRAINING)) {
        println!(
            "training loops, {:.0} s so far",
            started.elapsed().as_secs_f64()
        );
        let loops = LOOPS.map(|plan| plan.scaled(scale));
        match training::run_all(&loops)? {
            Ok(trainings) => loops::save(&trainings, &dir.join(loops::FILE))?,
            Err(missing) => println!("{missing}: they are left out"),
        }
        if extent == Extent::Full {
            let told =
                |what: &str| println!("{what}, {:.0} s so far", started.elapsed().as_secs_f64());
            // Where the kernel lacks a part it has been told.
            if let Ok(all) = training::compare(training::Extent::Full, scale, told)? {
                queues::save(&all, dir)?;
            }
        }
    }
    Ok(())
}

fn one(part: &Part) -> Result<Done> {
    let mut comparison = Comparison {
        workload: part.workload.name.clone(),
        runs: Vec::new(),
    };
    for &Run {
        mode,
        constants,
        costs,
    } in &part.runs
    {
        let options = Options {
            mode,
            deployment: part.deployment,
            constants,
            costs,
            seed: SEED,
            trace: false,
            cuda: false,
            breakdown: false,
            compute: false,
        };
        comparison
            .runs
            .push(run::run(&part.workload, options, &mut |_| {})?);
    }
    let runs = &comparison.runs;
    let keeps = |section| part.section == section;
    let curve = |run: &Outcome| {
        let sorted = run.sorted_latencies(Role::Lc);
        (!sorted.is_empty()).then(|| (run.mode, distribution(&sorted, CURVE)))
    };
    let recovery = |run: &Outcome| {
        let recovery = run.recovery(comparison.run(Mode::Alone)?, part.workload.change()?)?;
        Some((run.mode, recovery))
    };
    Ok(Done {
        section: part.section,
        parameter: part.parameter,
        workload: part.workload.name.clone(),
        title: table::title(&comparison),
        deployment: part.deployment,
        seconds: part.workload.seconds,
        published: part.workload.published,
        rows: table::rows(&comparison),
        curves: match keeps(Section::Workloads) {
            true => runs.iter().filter_map(curve).collect(),
            false => Vec::new(),
        },
        shares: match keeps(Section::Weights) {
            true => runs[1..]
                .iter()
                .map(|run| (run.mode, run.shares()))
                .collect(),
            false => Vec::new(),
        },
        recovery: match keeps(Section::Jitter) {
            true => runs[1..].iter().filter_map(recovery).collect(),
            false => Vec::new(),
        },
    })
}

/// Points of a distribution that is kept.
const CURVE: usize = 150;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_is_sound() {
        for parts in [quick(), gpus(1.0), full(1.0), full(0.5)] {
            let parts = parts.unwrap();
            for part in parts {
                assert_eq!(part.runs[0].mode, Mode::Alone, "to compare with");
                let text = part.workload.to_yaml().unwrap();
                Workload::from_yaml(&text).unwrap();
            }
        }
    }

    #[test]
    fn the_full_suite_has_every_workload() {
        let parts = full(1.0).unwrap();
        // Features of requests are compared in replay alone.
        let here = |name: &&str| !Workload::feature_suite().any(|one| one == *name);
        for name in Workload::built_in_names().filter(here) {
            assert!(
                parts.iter().any(|part| part.workload.name == name),
                "{name}"
            );
        }
    }

    #[test]
    fn changes_of_a_preparation_lie_within_the_run() {
        for part in full(0.1).unwrap() {
            for client in &part.workload.clients {
                if let Preparation::Step(step) = client.prepare_us {
                    assert!(step.seconds < part.workload.seconds);
                }
            }
        }
    }
}
