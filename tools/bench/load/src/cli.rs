// SPDX-License-Identifier: MIT OR Apache-2.0
//! The command line.

mod workload;

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{anyhow, ensure, Context, Result};
use clap::{Args as ClapArgs, Parser, Subcommand};
use libzernel::{Level, Timestamp};
use zernel_report::beside::{Beside, Slack};
use zernel_report::figures::LEGEND;
use zernel_report::outcome::Comparison;
use zernel_report::requests::Requests;
use zernel_report::stats::Latencies;
use zernel_report::suite as results;
use zernel_report::{page, plots, queues, readme, table, training as loops};
use zernel_workload::{
    check_rate, check_seconds, Arrival, ClientSpec, Network, Preparation, Role, Schedule, Workload,
};

use self::workload::RunArgs;
use crate::suite::Extent;
use crate::training::{QueuesArgs, TrainArgs};
use crate::worker::{Device, Gpu, Order};
use crate::{bench, demo, runtime, suite, training, worker};

/// The codes as help text.
const EXIT_CODES: &str = "\
Exit codes:
  0  done
  1  failed, or a workload file is invalid
  2  the command line or one of its values is invalid
  5  no zernel device: a module is not loaded";

/// Load generator for zernel's software GPU.
///
/// Clients follow one loop: prepare the data on the CPU, copy it to the GPU, infer, copy the
/// result back. Each is a process with a TSG on the compute engine and one on a copy engine. A
/// request that arrives while another waits takes its place. Latency counts from the start of the
/// preparation.
///
/// All random numbers are seeded: under QEMU's icount means agree from run to run to within 1 %;
/// p99.9 and max can differ.
#[derive(Debug, Parser)]
#[command(version, max_term_width = 100, after_help = EXIT_CODES)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run one client and print its latencies.
    Client(ClientArgs),
    /// Run a workload: a built-in one (A, B, B0 to B4, C, D, E, Y, Z, J-...) or a YAML file
    ///
    /// A file looks like this:
    ///
    ///   name: mine
    ///   seconds: 5
    ///   clients:
    ///     - {role: lc, network: vgg, arrival: {periodic: 150}}
    ///     - {role: be, network: bert, arrival: {poisson: 80}, prepare_us: 100}
    ///     - {role: be, network: resnet152, arrival: closed}
    ///     - role: be
    ///       network: {name: own, service_us: 900, kernels: 3}
    ///       arrival: {periodic: 20}
    ///       prepare_us: {uniform: {low: 50, high: 500}}
    ///     - role: lc
    ///       network: {name: llm, kernels: [{us: 40, share_permille: 400}, {us: 90, times: 4}]}
    ///       arrival: {trace: {file: day.csv}}
    ///
    /// Documentation/workloads.rst tells of all arrivals, times, kernels, copies and traces.
    #[command(verbatim_doc_comment)]
    Run(RunArgs),
    /// Run workload B1 with the requests of this program, and with those of the runtime of CUDA.
    ///
    /// Prints the latency that each adds to that of its client alone, and fails if the runtime adds more
    /// than it may. It takes the stand-in for CUDA, and this program linked dynamically (scripts/cuda).
    Runtime(RuntimeArgs),
    /// Run a training loop without zernel's prefetch signal and with it.
    ///
    /// The loop reads batches, computes on the software GPU and works on the CPU, and logs the time of
    /// each step. Prints the idle time of the GPU, and the agreement of zernel's phases with the log.
    Train(TrainArgs),
    /// Run workloads A, B1 and C alone, with default slices and with zernel's classes; then training
    /// loops without the prefetch signal and with it, and some of those of `queues`.
    ///
    /// Prints a table per workload and loop, and writes WORKLOAD-MODE.json, training.json, queues.json
    /// and summary.json to DIR; `zernel-load report DIR` draws plots of them.
    Demo(DemoArgs),
    /// Run the suite of `make bench` and write its results to DIR, a line of JSON per part.
    Suite(SuiteArgs),
    /// Print the table of a suite's results in DIR, and write bench.html and bench.json there.
    ///
    /// Beside it, DIR can have costs.json (`bench --out`) and replay*.json (`replay run --json`).
    Page(PageArgs),
    /// Print the results of a suite on two GPUs side by side.
    Compare(CompareArgs),
    /// Print the tables of results in DIR and draw their plots there, as SVG and PNG.
    Report(ReportArgs),
    /// Write the README's picture and table of a demo's results to DIR.
    Readme {
        /// Folder with the results of `demo`, or with the figures of the picture (demo.json).
        dir: PathBuf,
        /// Write to this repository instead: its README and its images.
        #[arg(long, value_name = "ROOT")]
        record: Option<PathBuf>,
    },
    /// Measure the cost of each call, next to getpid, and the time of a class change.
    ///
    /// Meant for QEMU's icount, under which a nanosecond is an instruction.
    Bench(BenchArgs),
    /// Run training loops without prefetch, with zernel's signal and with queues of batches.
    ///
    /// The queues are PyTorch's: workers that keep 1 to 16 batches loaded ahead. The loops share a store
    /// that serves one read at a time. Prints the batches that are in memory, their age, the reads at
    /// once and the steps, of one loop and of several.
    Queues(QueuesArgs),
    /// A training loop of `queues` or `demo`.
    #[command(hide = true)]
    Job {
        /// Its order, as JSON.
        order: String,
    },
    /// A client process of `run` or `demo`.
    #[command(hide = true)]
    Worker {
        /// Its order, as JSON.
        order: String,
    },
}

#[derive(Debug, ClapArgs)]
#[command(allow_negative_numbers = true)]
struct ClientArgs {
    /// Class to take: a name, such as lc or be, or a number from 0 to 7. Without it the class stays as it is.
    #[arg(long, value_name = "LEVEL")]
    class: Option<Level>,
    /// Network to serve.
    #[arg(long, value_enum, default_value_t = Network::Vgg)]
    network: Network,
    /// Requests per second, evenly spaced. Without a rate each starts when the last is done.
    #[arg(long, value_name = "RATE", conflicts_with = "poisson", value_parser = rate)]
    periodic: Option<f64>,
    /// Requests per second on average, at random times.
    #[arg(long, value_name = "RATE", value_parser = rate)]
    poisson: Option<f64>,
    /// Time to prepare the data, in microseconds.
    #[arg(long, value_name = "US", default_value_t = 200)]
    prepare_us: u64,
    /// Duration in seconds.
    #[arg(long, default_value_t = 5.0, value_parser = seconds)]
    seconds: f64,
    /// Seed of the random numbers.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Print every request and the histogram as JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, ClapArgs)]
struct RuntimeArgs {
    /// Duration of each run in seconds.
    #[arg(long, default_value_t = 5.0, value_parser = seconds)]
    seconds: f64,
    /// Print them as the results of a test.
    #[arg(long)]
    ktap: bool,
}

#[derive(Debug, ClapArgs)]
#[command(allow_negative_numbers = true)]
struct DemoArgs {
    /// Folder for the results.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Factor of all durations; below 1 for a quick look.
    #[arg(long, default_value_t = 1.0, value_parser = scale)]
    scale: f64,
}

#[derive(Debug, ClapArgs)]
#[command(allow_negative_numbers = true)]
struct SuiteArgs {
    /// Folder for the results.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Extent of the suite.
    #[arg(long, value_enum, default_value_t = Extent::Full)]
    extent: Extent,
    /// Factor of all durations.
    #[arg(long, default_value_t = 1.0, value_parser = scale)]
    scale: f64,
    /// Only these sections (workloads, published, preparation, jitter, frontier, processes, weights,
    /// training) or workloads, separated by commas.
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
}

#[derive(Debug, ClapArgs)]
struct PageArgs {
    /// Folder with the results of `suite`, or of replays of policies.
    dir: PathBuf,
    /// Fail unless each run agrees with its replay (replay), and reaches its goals (goals), and each
    /// policy its own in the replay (policies).
    #[arg(long, value_enum, value_delimiter = ',', num_args = 0..=1, require_equals = true,
          default_missing_value = "replay,goals", value_name = "CHECKS")]
    check: Vec<page::Check>,
}

#[derive(Debug, ClapArgs)]
#[command(allow_negative_numbers = true)]
struct CompareArgs {
    /// Folder with the results of `suite` on the first GPU; its name stands for that.
    first: PathBuf,
    /// The same of the second GPU.
    second: PathBuf,
    /// Fail unless LC latency and BE share under zernel are within so many percent of those of the
    /// first GPU (or added latency within 5 µs), and shares by weight within 2 % of those due.
    #[arg(long, value_name = "PERCENT", value_parser = percent)]
    within: Option<f64>,
}

#[derive(Debug, ClapArgs)]
struct ReportArgs {
    /// Folder with the results of `demo`, `run --out` or `train --out`.
    dir: PathBuf,
    /// Print the figures as JSON.
    #[arg(long)]
    json: bool,
    /// Draw no plots.
    #[arg(long)]
    no_plots: bool,
    /// Print no tables.
    #[arg(long, conflicts_with = "json")]
    no_tables: bool,
}

#[derive(Debug, ClapArgs)]
#[command(allow_negative_numbers = true)]
struct BenchArgs {
    /// Repetitions of each measurement.
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    repeat: u32,
    /// Print the figures as JSON.
    #[arg(long)]
    json: bool,
    /// Write the figures as JSON to this file, too.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Check the cost of requests and context switches against its bounds, instead of all figures;
    /// only in a guest that counts instructions.
    #[arg(long, conflicts_with = "json", requires = "load")]
    check: bool,
    /// Measure a context switch, then load zernel and the software GPU with these parameters, and
    /// track a cgroup, too. Only in a test guest without the modules loaded.
    #[arg(long, value_name = "PARAMETERS")]
    load: Option<String>,
}

fn number(text: &str) -> Result<f64> {
    text.parse()
        .map_err(|_| anyhow!("'{text}' is not a number"))
}

fn percent(text: &str) -> Result<f64> {
    let percent = number(text)?;
    ensure!(
        (0.0..=100.0).contains(&percent),
        "{percent} percent is out of range (0 to 100)"
    );
    Ok(percent)
}

fn seconds(text: &str) -> Result<f64> {
    let seconds = number(text)?;
    check_seconds(seconds).map(|()| seconds)
}

fn rate(text: &str) -> Result<f64> {
    let rate = number(text)?;
    check_rate(rate).map(|()| rate)
}

pub(crate) fn scale(text: &str) -> Result<f64> {
    let scale = number(text)?;
    ensure!(
        (0.01..=100.0).contains(&scale),
        "a scale of {scale} is out of range (0.01 to 100)"
    );
    Ok(scale)
}

fn workload_name(text: &str) -> Result<String> {
    Workload::check_name(text).map(|()| text.to_owned())
}

/// Runs the command.
pub fn run(args: Args) -> Result<()> {
    match args.command {
        Command::Client(args) => client(&args),
        Command::Run(args) => args.run(),
        Command::Runtime(args) => runtime::run(args.seconds, args.ktap),
        Command::Train(args) => args.run(),
        Command::Demo(args) => demo::run(&args.out, args.scale),
        Command::Suite(args) => suite::run(&args.out, args.extent, args.scale, &args.only),
        Command::Page(args) => page(&args),
        Command::Compare(args) => compare(&args),
        Command::Report(args) => report(&args),
        Command::Readme { dir, record } => {
            let files = match record {
                Some(root) => readme::record(&dir, &root)?,
                None => readme::write_all(&dir)?,
            };
            for file in files {
                println!("{}", file.display());
            }
            Ok(())
        }
        Command::Bench(args) => bench(&args),
        Command::Queues(args) => args.run(),
        Command::Job { order } => {
            let order = serde_json::from_str(&order).context("the order is invalid JSON")?;
            training::job(&order)
        }
        Command::Worker { order } => {
            let order: Order = serde_json::from_str(&order).context("the order is invalid JSON")?;
            worker::run(&order)
        }
    }
}

fn client(args: &ClientArgs) -> Result<()> {
    let arrival = match (args.periodic, args.poisson) {
        (Some(rate), _) => Arrival::Periodic(rate),
        (None, Some(rate)) => Arrival::Poisson(rate),
        (None, None) => Arrival::Closed,
    };
    let spec = ClientSpec {
        prepare_us: Preparation::Constant(args.prepare_us),
        ..ClientSpec::new(Role::Lc, args.network, arrival)
    };
    let checked = Workload::new("client", args.seconds, vec![spec.clone()])?;
    let gpu = Gpu::open(spec.network.name(), 1, args.class, None, None)?;
    let mut device = Device::new(&gpu, 0, &spec, args.seed);
    device.warm_up()?;
    let schedule = Schedule::new(&spec.arrival, Duration::ZERO, args.seed)?;
    let ahead = (schedule, Requests::for_run(&spec, checked.duration()));
    let requests = device.serve(ahead, Timestamp::now(), checked.duration())?;
    let latencies = Latencies::new(requests.iter().map(|request| request.latency()));
    let summary = latencies.summary();
    let mut out = io::stdout().lock();
    if args.json {
        let value = serde_json::json!({
            "summary": summary,
            "histogram": latencies.buckets(),
            "requests": requests,
        });
        serde_json::to_writer(&mut out, &value)?;
        return Ok(writeln!(out)?);
    }
    let ms = |ns: f64| ns / 1e6;
    writeln!(
        out,
        "{} requests ({} dropped) in {} s; latency in ms: mean {:.3}, p50 {:.3}, p99 {:.3}, \
         p99.9 {:.3}, max {:.3}",
        summary.count,
        requests.dropped,
        args.seconds,
        ms(summary.mean_ns),
        ms(summary.p50_ns as f64),
        ms(summary.p99_ns as f64),
        ms(summary.p999_ns as f64),
        ms(summary.max_ns as f64),
    )?;
    Ok(())
}

fn compare(args: &CompareArgs) -> Result<()> {
    let slack = Slack {
        percent: args.within.unwrap_or(f64::INFINITY),
        us: 5.0,
        weights_percent: args.within.map_or(f64::INFINITY, |_| 2.0),
    };
    let label = |dir: &Path| {
        let name = dir.file_name().unwrap_or(dir.as_os_str());
        name.to_string_lossy().into_owned()
    };
    let labels = [label(&args.first), label(&args.second)];
    let both = [&args.first, &args.second].map(|dir| results::load(dir));
    let [first, second] = both;
    let labels = [labels[0].as_str(), labels[1].as_str()];
    let beside = Beside::new(labels, &first?, &second?, slack)?;
    let mut out = io::stdout().lock();
    write!(out, "{}", beside.render())?;
    for (dir, label) in [(&args.first, labels[0]), (&args.second, labels[1])] {
        writeln!(out, "\nTraining loops, {label}")?;
        write!(out, "{}", loops::tables(&loops::load(dir)?))?;
    }
    let apart = beside.apart();
    ensure!(apart.is_empty(), "too far apart: {}", apart.join("; "));
    Ok(())
}

fn page(args: &PageArgs) -> Result<()> {
    let written = page::write(&args.dir)?;
    let mut out = io::stdout().lock();
    write!(out, "{}", written.table)?;
    for file in written.files {
        writeln!(out, "{}", file.display())?;
    }
    for verdict in &written.verdicts {
        let is_asked = match &args.check[..] {
            [] => verdict.check != page::Check::Replay,
            asked => asked.contains(&verdict.check),
        };
        if !is_asked {
            continue;
        }
        let good = if verdict.good { "ok" } else { "not ok" };
        writeln!(out, "{good} - {}: {}", verdict.what, verdict.found)?;
    }
    for check in &args.check {
        let of = || written.verdicts.iter().filter(|one| one.check == *check);
        ensure!(
            of().next().is_some(),
            "no result is there to check: {check:?}"
        );
        ensure!(
            of().all(|one| one.good),
            "a check failed, see 'not ok' above: {check:?}"
        );
    }
    Ok(())
}

fn report(args: &ReportArgs) -> Result<()> {
    let all = Comparison::load_all(&args.dir)?;
    let trainings = loops::load(&args.dir)?;
    let beside_queues = queues::load(&args.dir)?;
    ensure!(
        !all.is_empty() || !trainings.is_empty() || !beside_queues.is_empty(),
        "{} holds no results; write some with run --out, demo or train --out",
        args.dir.display()
    );
    if !args.no_tables {
        print(&all, args.json)?;
        if !args.json {
            print!("{}", loops::tables(&trainings));
            print!("{}", queues::tables(&beside_queues));
        }
    }
    if !args.no_plots {
        let mut files = plots::draw(&all, &args.dir)?;
        files.extend(plots::draw_trainings(&trainings, &args.dir)?);
        for path in files {
            // Paths are no part of the JSON that a program reads.
            if !args.json {
                println!("{}", path.display());
            }
        }
    }
    Ok(())
}

fn print(all: &[Comparison], json: bool) -> Result<()> {
    let mut out = io::stdout().lock();
    if json {
        let rows: Vec<_> = all.iter().flat_map(table::rows).collect();
        serde_json::to_writer_pretty(&mut out, &rows)?;
        return Ok(writeln!(out)?);
    }
    for comparison in all {
        writeln!(out, "{}", table::render(comparison))?;
    }
    if !all.is_empty() {
        out.write_all(LEGEND.as_bytes())?;
    }
    Ok(())
}

fn bench(args: &BenchArgs) -> Result<()> {
    let figures = bench::run(args.repeat, args.load.as_deref())?;
    let json = serde_json::to_string_pretty(&figures)?;
    if let Some(path) = &args.out {
        std::fs::write(path, format!("{json}\n"))
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    let mut out = io::stdout().lock();
    if args.json {
        return Ok(writeln!(out, "{json}")?);
    }
    if args.check {
        let (text, holds) = bench::check(&figures)?;
        write!(out, "{text}")?;
        ensure!(holds, "a cost is above its bound, see above");
        return Ok(());
    }
    Ok(write!(out, "{}", bench::render(&figures))?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_sound() {
        Args::command().debug_assert();
    }
}
