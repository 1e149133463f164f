// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs a workload: a process per client, one common start, figures of the GPU beside theirs.

mod plan;

use std::time::Duration;

use anyhow::{bail, Result};
use libzernel::sim::{EngineStats, Sim, TsgStats, COMPUTE_ENGINE};
use libzernel::tunable::Tunables;
use libzernel::{Level, Timestamp, Weight};
use zernel_report::outcome::{ClientOutcome, EngineUse, Mode, Outcome, ProcessUse, TraceWindow};
use zernel_report::stats::Latencies;
use zernel_workload::{ClientSpec, Deployment, Role, Workload};

use self::plan::{watch, Plan, Step};
use crate::child::Child;
use crate::hint::Hint;
use crate::worker::{sleep_until, ClientOrder, Order, Ready, Report};

/// Time from the last client's being ready to the common start.
const LEAD: Duration = Duration::from_millis(50);
/// zernel's weight of a client of weight 1, where a workload has others.
const WEIGHT: u32 = 10;
/// The start is a multiple of this, so that it meets the kernel's own ticks alike in every run.
const ALIGN_NS: u64 = 100_000_000;

/// Options of a run.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// The clients that run, and their slices.
    pub mode: Mode,
    /// Which clients share a TSG.
    pub deployment: Deployment,
    /// Constants of mode gpreempt.
    pub constants: Constants,
    /// Costs of a nanosecond early and of one late for zernel, if not the defaults.
    pub costs: Option<(u32, u32)>,
    /// Seed of all random numbers.
    pub seed: u64,
    /// Record a window of the execution.
    pub trace: bool,
    /// Latency-critical clients are programs of CUDA, whose requests are those of the runtime.
    pub cuda: bool,
    /// Latency-critical clients keep the time stamps of their requests.
    pub breakdown: bool,
    /// Preparations of latency-critical clients compute.
    pub compute: bool,
}

impl Options {
    /// The mode's settings, if not its defaults.
    fn setting(&self) -> Option<String> {
        match (self.mode, self.costs) {
            (Mode::Zernel, Some((early, late))) => Some(format!("{early}:{late}")),
            (Mode::Gpreempt, _) if self.constants != Constants::PUBLISHED => {
                let Constants {
                    preparation_us,
                    switch_us,
                } = self.constants;
                Some(format!("{preparation_us}/{switch_us}"))
            }
            _ => None,
        }
    }
}

/// Constants of GPreempt (USENIX ATC'25), in microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Constants {
    /// Time of a preparation.
    pub preparation_us: u64,
    /// Time of a switch.
    pub switch_us: u64,
}

impl Constants {
    /// The published ones.
    pub const PUBLISHED: Self = Self {
        preparation_us: 200,
        switch_us: 100,
    };

    /// Time from the begin to the trigger.
    fn lead(self) -> Duration {
        Duration::from_micros(self.preparation_us.saturating_sub(self.switch_us))
    }
}

/// A client process; ends with this value.
struct Worker {
    clients: Vec<usize>,
    specs: Vec<ClientSpec>,
    process: Child,
    tsg: u64,
}

impl Worker {
    fn start((clients, order): &(Vec<usize>, Order)) -> Result<Self> {
        let specs = order.clients.iter().map(|client| client.spec.clone());
        let network = order
            .clients
            .first()
            .map_or("", |client| client.spec.network.name());
        let name = format!("the client process of {network}");
        Ok(Self {
            clients: clients.clone(),
            specs: specs.collect(),
            process: Child::start(name, "worker", order)?,
            tsg: 0,
        })
    }
}

/// Runs `workload`, telling `progress` the seconds that have passed.
pub fn run(
    workload: &Workload,
    options: Options,
    progress: &mut dyn FnMut(Duration),
) -> Result<Outcome> {
    let sim = Sim::open()?;
    let gpu = sim.gpu_info(0)?;
    let duration = workload.duration();
    let _rotation = match options.mode {
        Mode::Classes | Mode::Gpreempt => Some(Tuned::set("rotation", "none")?),
        Mode::Zernel => {
            tell_tuned()?;
            None
        }
        Mode::Alone | Mode::Default => None,
    };

    let _costs = options
        .costs
        .filter(|_| options.mode == Mode::Zernel)
        .map(|(early, late)| {
            let set = |name, cost: u32| Tuned::set(name, &cost.to_string());
            Ok::<_, anyhow::Error>((set("early_cost", early)?, set("late_cost", late)?))
        })
        .transpose()?;

    let mut workers = orders(workload, options)
        .iter()
        .map(Worker::start)
        .collect::<Result<Vec<_>>>()?;
    for worker in &mut workers {
        worker.tsg = worker.process.hear::<Ready>()?.tsg;
    }
    let start = soon();
    for worker in &mut workers {
        worker.process.tell(start)?;
    }

    sleep_until(start)?;
    let before = sim.engine_stats(0, COMPUTE_ENGINE)?;
    let tsgs_before = tsg_stats(&sim, &workers)?;
    let mut trace = TraceWindow::default();
    let mut plan = Plan::new(duration, options.trace);
    while let Some(step) = plan.next() {
        match step {
            Step::Progress(passed) => {
                sleep_until(start + passed)?;
                progress(passed);
            }
            Step::Trace(at) => trace = watch(&sim, start, at, &workers)?,
        }
    }
    sleep_until(start + duration)?;
    let after = sim.engine_stats(0, COMPUTE_ENGINE)?;
    let tsgs_after = tsg_stats(&sim, &workers)?;

    let mut clients = Vec::new();
    let mut processes = Vec::new();
    for (worker, (before, after)) in workers.iter_mut().zip(tsgs_before.iter().zip(&tsgs_after)) {
        let report: Report = worker.process.hear()?;
        let role = worker.specs.first().map_or(Role::Be, |spec| spec.role);
        processes.push(ProcessUse {
            role,
            busy_ns: after.busy_ns - before.busy_ns,
            switches: after.switches - before.switches,
            held_ns: report.held_ns,
            holds_expired: report.holds_expired,
            held_each_ns: report.held_each_ns,
            hints: report.hints,
        });
        let places = worker.clients.iter().zip(&worker.specs);
        // Of a client that has a process of its own.
        let mut stamps = report.stamps;
        for ((&place, spec), requests) in places.zip(report.requests) {
            let latencies = requests.iter().map(|request| request.latency());
            let histogram = Latencies::new(latencies).buckets();
            let client = ClientOutcome {
                spec: spec.clone(),
                timeslice_us: report.timeslice_us,
                requests,
                histogram,
                stamps: std::mem::take(&mut stamps),
            };
            clients.push((place, client));
        }
    }
    clients.sort_by_key(|&(place, _)| place);
    let clients: Vec<ClientOutcome> = clients.into_iter().map(|(_, client)| client).collect();
    let applied = |client: &ClientOutcome| client.timeslice_us != gpu.default_timeslice_us;
    if options.mode.has_classes() && !clients.iter().any(applied) {
        bail!("no class was applied; set the tunable 'enabled' to 1");
    }
    Ok(Outcome {
        workload: workload.name.clone(),
        mode: options.mode,
        setting: options.setting(),
        deployment: options.deployment,
        seconds: workload.seconds,
        gpu,
        engine: usage(&before, &after),
        processes,
        clients,
        trace,
    })
}

/// Tells of tunables that are not at their defaults, as the figures are theirs.
fn tell_tuned() -> Result<()> {
    let all = Tunables::open()?.list()?;
    let tuned = all.iter().filter_map(|tunable| {
        let default = tunable
            .default
            .filter(|default| *default != tunable.value)?;
        Some(format!("{} {} ({default})", tunable.name, tunable.value))
    });
    let tuned: Vec<_> = tuned.collect();
    if !tuned.is_empty() {
        eprintln!("zernel-load: not at their defaults: {}", tuned.join(", "));
    }
    Ok(())
}

/// The level that goes with a role.
const fn level(role: Role) -> Level {
    match role {
        Role::Lc => Level::LC,
        Role::Be => Level::BE,
    }
}

/// A tunable that is as it was again when this is dropped.
pub struct Tuned {
    tunables: Tunables,
    name: &'static str,
    before: String,
}

impl Tuned {
    /// Sets it.
    pub fn set(name: &'static str, value: &str) -> Result<Self> {
        let tunables = Tunables::open()?;
        let before = tunables.get(name)?.value;
        tunables.set(name, value)?;
        Ok(Self {
            tunables,
            name,
            before,
        })
    }
}

impl Drop for Tuned {
    fn drop(&mut self) {
        // It was possible before; if it no longer is, the module is gone.
        let _ = self.tunables.set(self.name, &self.before);
    }
}

/// The order to each process, and its clients of the workload; phases are the same beside any
/// other clients.
fn orders(workload: &Workload, options: Options) -> Vec<(Vec<usize>, Order)> {
    let mut orders: Vec<(Role, Vec<usize>, Order)> = Vec::new();
    let phases = workload.phases();
    let weighted = workload.clients.iter().any(|one| one.weight != 1);
    for (number, (spec, phase)) in workload.clients.iter().zip(phases).enumerate() {
        if options.mode == Mode::Alone && spec.role != Role::Lc {
            continue;
        }
        let client = ClientOrder {
            spec: spec.clone(),
            phase_ns: phase.as_nanos() as u64,
            seed: options.seed.wrapping_add(number as u64),
        };
        let shared = match options.deployment {
            Deployment::PerClient => None,
            Deployment::Published => orders.iter_mut().find(|(role, ..)| *role == spec.role),
        };
        if let Some((_, numbers, order)) = shared {
            numbers.push(number);
            order.clients.push(client);
            continue;
        }
        let order = Order {
            clients: vec![client],
            duration_ns: workload.duration().as_nanos() as u64,
            class: options.mode.has_classes().then(|| level(spec.role)),
            weight: (options.mode == Mode::Zernel && spec.role == Role::Be && weighted)
                .then(|| Weight::new(WEIGHT * spec.weight))
                .flatten(),
            hint: (spec.role == Role::Lc).then(|| hint(options)).flatten(),
            cuda: options.cuda && spec.role == Role::Lc,
            breakdown: options.breakdown && spec.role == Role::Lc,
            compute: options.compute && spec.role == Role::Lc,
        };
        orders.push((spec.role, vec![number], order));
    }
    let parts = orders.into_iter();
    parts.map(|(_, numbers, order)| (numbers, order)).collect()
}

/// Hints of latency-critical clients.
fn hint(options: Options) -> Option<Hint> {
    match options.mode {
        Mode::Alone | Mode::Default | Mode::Classes => None,
        Mode::Gpreempt => Some(Hint::Constant(options.constants.lead().as_nanos() as u64)),
        Mode::Zernel => Some(Hint::Request),
    }
}

fn tsg_stats(sim: &Sim, workers: &[Worker]) -> Result<Vec<TsgStats>> {
    let stats = workers.iter().map(|worker| sim.tsg_stats(worker.tsg));
    Ok(stats.collect::<libzernel::Result<_>>()?)
}

/// A time at which processes that are ready can start together.
pub fn soon() -> Timestamp {
    aligned(Timestamp::now() + LEAD)
}

/// The next aligned time.
fn aligned(time: Timestamp) -> Timestamp {
    Timestamp::from_ns(time.as_ns().next_multiple_of(ALIGN_NS))
}

fn usage(before: &EngineStats, after: &EngineStats) -> EngineUse {
    EngineUse {
        busy_ns: after.busy_ns - before.busy_ns,
        switch_ns: after.switch_ns - before.switch_ns,
        idle_ns: after.idle_ns - before.idle_ns,
        switches: after.switches - before.switches,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(mode: Mode) -> Options {
        Options {
            mode,
            deployment: Deployment::PerClient,
            constants: Constants::PUBLISHED,
            costs: None,
            seed: 1,
            trace: true,
            cuda: false,
            breakdown: false,
            compute: false,
        }
    }

    #[test]
    fn modes_choose_clients_and_classes() {
        let c = Workload::built_in("C").unwrap();
        let of = |mode| orders(&c, options(mode));
        let alone = of(Mode::Alone);
        assert_eq!(alone.len(), 1);
        assert_eq!((alone[0].1.class, alone[0].1.hint), (None, None));
        let default = of(Mode::Default);
        assert!(default.iter().all(|(_, order)| order.class.is_none()));
        let zernel = of(Mode::Zernel);
        assert_eq!(zernel[0].1.class, Some(Level::LC));
        assert_eq!(zernel[0].1.hint, Some(Hint::Request));
        assert!(zernel[1..]
            .iter()
            .all(|(_, order)| (order.class, order.hint) == (Some(Level::BE), None)));
        assert_eq!(of(Mode::Gpreempt)[0].1.hint, Some(Hint::Constant(100_000)));
        assert_eq!(of(Mode::Classes)[0].1.hint, None);
        let cuda = Options {
            cuda: true,
            ..options(Mode::Zernel)
        };
        let is_cuda: Vec<bool> = orders(&c, cuda)
            .iter()
            .map(|(_, order)| order.cuda)
            .collect();
        assert!(is_cuda[0] && !is_cuda[1..].contains(&true));
        let phase = |orders: &[(Vec<usize>, Order)], at: usize| orders[at].1.clients[0].phase_ns;
        assert_eq!(phase(&zernel, 0), phase(&alone, 0));
        assert_eq!(phase(&zernel, 3), phase(&default, 3));
    }

    #[test]
    fn the_published_deployment_has_a_process_for_each_role() {
        let d = Workload::built_in("D").unwrap();
        let shared = Options {
            deployment: Deployment::Published,
            ..options(Mode::Zernel)
        };
        let orders = orders(&d, shared);
        let numbers: Vec<_> = orders.iter().map(|(numbers, _)| numbers.clone()).collect();
        assert_eq!(numbers, [[0, 1, 2, 3, 4], [5, 6, 7, 8, 9]]);
        assert!(orders.iter().all(|(_, order)| order.clients.len() == 5));
    }

    #[test]
    fn starts_are_aligned() {
        let aligned = |ns| aligned(Timestamp::from_ns(ns)).as_ns();
        assert_eq!(aligned(100_000_000), 100_000_000);
        assert_eq!(aligned(100_000_001), 200_000_000);
    }
}
