// SPDX-License-Identifier: GPL-2.0
//! Runs a workload: a process per client, one common start, figures of the GPU beside theirs.

use std::env;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use anyhow::{bail, Context, Result};
use libzernel::sim::{EngineStats, Record, Sim, COMPUTE_ENGINE};
use libzernel::{Level, Timestamp};
use serde::de::DeserializeOwned;
use zernel_workload::{ClientSpec, Role, Workload};

use crate::outcome::{ClientOutcome, EngineUse, Mode, Outcome, Span, TraceWindow};
use crate::stats::Latencies;
use crate::worker::{sleep_until, Order, Ready, Report};

/// Time from the last client's being ready to the common start.
const LEAD: Duration = Duration::from_millis(50);
/// The start is a multiple of this, so that it meets the kernel's own ticks alike in every run.
const ALIGN_NS: u64 = 100_000_000;
/// Length of the traced window.
const WINDOW: Duration = Duration::from_millis(40);
/// How long before the window the trace starts.
const WINDOW_LEAD: Duration = Duration::from_millis(10);
/// Records of the trace that can wait to be read.
const TRACE_CAPACITY: u32 = 16_384;

/// How to run a workload.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// Who runs, and with which slices.
    pub mode: Mode,
    /// Seed of all random numbers.
    pub seed: u64,
    /// Record a window of the execution.
    pub trace: bool,
}

/// A client process; ends with this value.
struct Worker {
    spec: ClientSpec,
    process: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    tsg: u64,
}

impl Worker {
    fn start(order: &Order) -> Result<Self> {
        let program = env::current_exe().context("cannot find this program's file")?;
        let mut process = Command::new(program)
            .arg("worker")
            .arg(serde_json::to_string(order)?)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("cannot start a client process")?;
        let (Some(input), Some(output)) = (process.stdin.take(), process.stdout.take()) else {
            bail!("a client process has no pipes");
        };
        Ok(Self {
            spec: order.client.clone(),
            process,
            input,
            output: BufReader::new(output),
            tsg: 0,
        })
    }

    /// What the process says next.
    fn hear<T: DeserializeOwned>(&mut self) -> Result<T> {
        let name = self.spec.network.name();
        let mut line = String::new();
        self.output.read_line(&mut line)?;
        if line.is_empty() {
            let status = self.process.wait()?;
            bail!("the client process of {name} ended early ({status})");
        }
        serde_json::from_str(&line).with_context(|| format!("the client of {name} said '{line}'"))
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // It may have ended by itself, which is no error here.
        let _ = self.process.kill();
        let _ = self.process.wait();
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

    let mut workers = orders(workload, options)
        .iter()
        .map(Worker::start)
        .collect::<Result<Vec<_>>>()?;
    for worker in &mut workers {
        worker.tsg = worker.hear::<Ready>()?.tsg;
    }
    let start = aligned(Timestamp::now() + LEAD);
    for worker in &mut workers {
        writeln!(worker.input, "{}", start.as_ns())?;
    }

    sleep_until(start)?;
    let before = sim.engine_stats(0, COMPUTE_ENGINE)?;
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

    let clients = workers
        .iter_mut()
        .map(|worker| {
            let report: Report = worker.hear()?;
            let latencies = report.requests.iter().map(|request| request.latency());
            let histogram = Latencies::new(latencies).buckets();
            Ok(ClientOutcome {
                spec: worker.spec.clone(),
                timeslice_us: report.timeslice_us,
                requests: report.requests,
                histogram,
            })
        })
        .collect::<Result<Vec<_>>>()?;
    let applied = |client: &ClientOutcome| client.timeslice_us != gpu.default_timeslice_us;
    if options.mode == Mode::Zernel && !clients.iter().any(applied) {
        bail!("no class was applied: is the tunable 'enabled' 0?");
    }
    Ok(Outcome {
        workload: workload.name.clone(),
        mode: options.mode,
        seconds: workload.seconds,
        gpu,
        engine: usage(&before, &after),
        clients,
        trace,
    })
}

/// The level that goes with a role.
const fn level(role: Role) -> Level {
    match role {
        Role::Lc => Level::LC,
        Role::Be => Level::BE,
    }
}

/// What each client process is told; phases are the same whoever else runs.
fn orders(workload: &Workload, options: Options) -> Vec<Order> {
    let phases = workload.phases();
    workload
        .clients
        .iter()
        .zip(phases)
        .enumerate()
        .filter(|(_, (client, _))| options.mode != Mode::Alone || client.role == Role::Lc)
        .map(|(number, (client, phase))| Order {
            client: client.clone(),
            phase_ns: phase.as_nanos() as u64,
            seed: options.seed.wrapping_add(number as u64),
            duration_ns: workload.duration().as_nanos() as u64,
            class: (options.mode == Mode::Zernel).then(|| level(client.role)),
        })
        .collect()
}

/// The next aligned time.
fn aligned(time: Timestamp) -> Timestamp {
    Timestamp::from_ns(time.as_ns().next_multiple_of(ALIGN_NS))
}

/// How often progress is told in a run.
const PROGRESS_STEPS: u32 = 10;

/// Something to do during a run.
#[derive(Debug, PartialEq, Eq)]
enum Step {
    /// Tell that this much time has passed.
    Progress(Duration),
    /// Trace the window that starts then.
    Trace(Duration),
}

/// What to do during a run, in order: progress now and then, the trace once.
#[derive(Debug)]
struct Plan {
    duration: Duration,
    told: u32,
    trace: Option<Duration>,
}

impl Plan {
    fn new(duration: Duration, trace: bool) -> Self {
        // Late enough that queues have filled, and clear of the progress.
        let at = duration.mul_f64(0.55);
        let fits = trace && at + 2 * WINDOW_LEAD + WINDOW < duration.mul_f64(0.6);
        Self {
            duration,
            told: 0,
            trace: fits.then_some(at),
        }
    }

    fn next(&mut self) -> Option<Step> {
        let time = self.duration * (self.told + 1) / PROGRESS_STEPS;
        if self.trace.is_some_and(|at| at < time) {
            return self.trace.take().map(Step::Trace);
        }
        self.told += 1;
        (self.told < PROGRESS_STEPS).then_some(Step::Progress(time))
    }
}

/// Traces the compute engine in the window that begins at `at`.
fn watch(sim: &Sim, start: Timestamp, at: Duration, workers: &[Worker]) -> Result<TraceWindow> {
    sleep_until(start + at - WINDOW_LEAD)?;
    let trace = sim.trace(0, TRACE_CAPACITY)?;
    sleep_until(start + at + WINDOW + WINDOW_LEAD)?;
    let (records, dropped) = trace.read()?;
    let tsgs: Vec<u64> = workers.iter().map(|worker| worker.tsg).collect();
    Ok(TraceWindow {
        dropped,
        ..window(&records, start, at, &tsgs)
    })
}

/// The compute engine's records of the window that begins at `at`, joined where nothing changes.
fn window(records: &[Record], start: Timestamp, at: Duration, tsgs: &[u64]) -> TraceWindow {
    let (from, until) = (start + at, start + at + WINDOW);
    let ns = |time: Timestamp| time.clamp(from, until).since(start).as_nanos() as u64;
    let mut spans: Vec<Span> = Vec::new();
    for record in records {
        let span = Span {
            start_ns: ns(record.start_ns),
            end_ns: ns(record.end_ns),
            client: tsgs.iter().position(|&tsg| tsg == record.tsg),
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
    use libzernel::sim::Activity;

    fn options(mode: Mode) -> Options {
        Options {
            mode,
            seed: 1,
            trace: true,
        }
    }

    #[test]
    fn modes_choose_clients_and_classes() {
        let c = Workload::built_in("C").unwrap();
        let alone = orders(&c, options(Mode::Alone));
        assert_eq!(alone.len(), 1);
        assert_eq!(alone[0].class, None);
        let default = orders(&c, options(Mode::Default));
        assert!(default.iter().all(|order| order.class.is_none()));
        let zernel = orders(&c, options(Mode::Zernel));
        assert_eq!(zernel[0].class, Some(Level::LC));
        assert!(zernel[1..]
            .iter()
            .all(|order| order.class == Some(Level::BE)));
        assert_eq!(zernel[0].phase_ns, alone[0].phase_ns);
        assert_eq!(zernel[3].phase_ns, default[3].phase_ns);
    }

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
    fn starts_are_aligned() {
        let aligned = |ns| aligned(Timestamp::from_ns(ns)).as_ns();
        assert_eq!(aligned(100_000_000), 100_000_000);
        assert_eq!(aligned(100_000_001), 200_000_000);
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
        let window = window(&records, start, at, &[9, 7]);
        let spans: Vec<_> = window
            .spans
            .iter()
            .map(|span| (span.start_ns, span.end_ns, span.client))
            .collect();
        assert_eq!(spans, [(100, 300, Some(1)), (300, window.end_ns, Some(0))]);
        assert_eq!(window.start_ns, 100);
    }
}
