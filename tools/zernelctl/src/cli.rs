// SPDX-License-Identifier: MIT OR Apache-2.0
//! The command line.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use clap::{Args as ClapArgs, Parser, Subcommand};
use libzernel::phase::HINT_MAX;
use libzernel::prefetch::MAX_LENGTH;
use libzernel::tunable::Tunables;
use libzernel::{tsg, Level, Phase, Target, Tracking, Zernel};

use crate::{
    class, exit, list, loaders, phases, prefetch, probe, requests, run, status, track, tune,
    verify, watch,
};

/// Examples of its use.
const EXAMPLES: &str = "\
Examples:
  zernelctl run --class lc -- ./serve --port 8000     serve with low latency
  zernelctl run --class be --cgroup -- make train     train in the rest of the time, children too
  zernelctl class set be --pid 4711                   a process that runs already
  zernelctl class set 3 --cgroup /sys/fs/cgroup/batch everything in a cgroup
  zernelctl watch --json | jq .kind                   follow events";

/// Heading of the options that every command has.
const COMMON: &str = "Common options";

/// Show and set the classes of GPU work.
///
/// zernel shares a GPU between latency-critical (LC) and best-effort (BE) work. A class is a level
/// from 0 (lc, most urgent) to 7 (be). A target is a TSG (time slice group), a thread, a process
/// or a cgroup; the most specific class wins. A class applies at once and lives as long as its
/// target.
///
/// Lowering your own targets is free. Raising them, or naming another user's, needs CAP_SYS_NICE
/// or membership of the group in the tunable lc_gid.
#[derive(Debug, Parser)]
#[command(version, max_term_width = 100, after_help = exit::HELP, after_long_help = format!("{EXAMPLES}\n\n{}", exit::HELP))]
pub struct Args {
    /// Print JSON instead of tables.
    #[arg(long, global = true, help_heading = COMMON)]
    json: bool,
    /// Device node of zernel.
    #[arg(long, global = true, help_heading = COMMON, value_name = "PATH", default_value = Zernel::PATH)]
    device: PathBuf,
    /// Folder of the tunables.
    #[arg(long, global = true, help_heading = COMMON, value_name = "DIR", default_value = Tunables::PATH)]
    sysfs: PathBuf,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Show the module, its GPUs and the number of TSGs per level.
    Status,
    /// GPUs.
    #[command(subcommand)]
    Gpu(GpuCommand),
    /// TSGs (time slice groups), the unit that a GPU schedules.
    #[command(subcommand)]
    Tsg(TsgCommand),
    /// Classes of targets.
    #[command(subcommand)]
    Class(class::command::Command),
    /// Run a command with a class.
    ///
    /// The class is the command's alone. With --cgroup its children have it, too.
    Run(run::Args),
    /// Print events as they happen, until interrupted.
    ///
    /// Shows your own TSGs, or all with CAP_PERFMON. Lost events, not read in time, are counted on
    /// standard error.
    Watch(WatchArgs),
    /// Track threads: their CPU time, waits for a CPU, and sleeps by cause.
    ///
    /// A thread's record begins when it next returns to user space. Your own threads are free to
    /// track; another user's need CAP_SYS_NICE or membership of the group in the tunable lc_gid. The
    /// owner of a cgroup's directory tracks its own processes in it.
    Track {
        #[command(flatten)]
        target: TrackArgs,
        /// Track also the processes that it starts from now on, and theirs.
        #[arg(long, conflicts_with_all = ["tid", "cgroup"])]
        children: bool,
        /// Treat it as a machine-learning program: `phases` shows the phases of its threads.
        #[arg(long)]
        ml: bool,
    },
    /// End the tracking of a thread, a process or a cgroup.
    Untrack {
        #[command(flatten)]
        target: TrackArgs,
    },
    /// List your tracked threads, or all with CAP_PERFMON, with their time by activity.
    ///
    /// Shares are of the time since the record of a thread began.
    Threads {
        /// Only those of this process.
        #[arg(long, value_parser = process)]
        pid: Option<u32>,
    },
    /// Count tracked threads as waiting for the GPU while they are in functions of a library.
    ///
    /// For runtimes that spin or poll until the GPU is done instead of a call to the driver. Needs
    /// CAP_SYS_ADMIN, and lasts until interrupted. Each call of such a function costs a trap, in
    /// threads that are not tracked, too.
    Probe(ProbeArgs),
    /// Show the phases of your machine-learning programs, or of all with CAP_PERFMON.
    ///
    /// A phase is the step of its loop in which a thread is: it loads data, waits for the GPU,
    /// exchanges data with other ranks, or makes an optimizer step. `track --ml` marks a program as
    /// a machine-learning one. Shares are of the time since the record of a thread began.
    Phases(PhasesArgs),
    /// State the phase of a thread for a time, over the detected one.
    ///
    /// The program is tracked with --ml. Hints about your own threads are free; another user's need
    /// CAP_SYS_NICE or membership of the group in the tunable lc_gid.
    Hint {
        /// The thread.
        #[arg(long, value_name = "TID", value_parser = thread)]
        tid: u32,
        /// Length of the hint in milliseconds, at most 60000; 0 ends the last one.
        #[arg(long, value_name = "MS", value_parser = milliseconds)]
        duration: Duration,
        /// The phase: unknown, data_loading, gpu_compute, collective or optimizer_step.
        phase: Phase,
    },
    /// Tell when it is time for a machine-learning program to load its next batch.
    ///
    /// Prints a line for each signal, until interrupted or the process has ended. With --file, zernel
    /// reads a part of that file into the page cache at each signal, for programs that know nothing
    /// of zernel. The program is tracked with --ml. Another user's needs CAP_PERFMON.
    ///
    /// With --loader, lists the loaders of arrays that run, which takes no module: your own, or all as
    /// root.
    Prefetch(PrefetchArgs),
    /// Tunables of the module.
    #[command(subcommand)]
    Tune(TuneCommand),
    /// Show the module's counters.
    Stats,
    /// Show the outcomes and times of requests.
    ///
    /// A request announces a need of the GPU before its data is ready, so that the GPU is free
    /// then. Shows all levels with requests, or one level or TSG. Levels need CAP_PERFMON, your own
    /// TSGs nothing.
    Requests(RequestsArgs),
}

#[derive(Debug, Subcommand)]
enum GpuCommand {
    /// List all GPUs.
    List,
    /// Check on this machine the effects and costs that zernel counts on.
    ///
    /// Makes work of its own on one GPU, changes tunables for it and puts them back, also when it is
    /// interrupted; SIGKILL alone leaves them changed. Takes ten minutes at most. Let nothing else
    /// run on the GPU. All checks need root; without it those that can be done are done.
    Verify(verify::Args),
}

#[derive(Debug, Subcommand)]
enum TsgCommand {
    /// List your TSGs, or all with CAP_PERFMON.
    List(TsgListArgs),
}

#[derive(Debug, ClapArgs)]
struct TsgListArgs {
    /// Only TSGs of this process.
    #[arg(long, value_parser = process)]
    pid: Option<u32>,
    /// Only TSGs of this level: its name, such as lc or be, or a number from 0 to 7.
    #[arg(long)]
    level: Option<Level>,
    /// TSGs of copy and other engines, too.
    #[arg(long)]
    all: bool,
}

#[derive(Debug, ClapArgs)]
#[group(required = true, multiple = false)]
struct TrackArgs {
    /// A thread.
    #[arg(long, value_name = "TID", value_parser = thread)]
    tid: Option<u32>,
    /// A process: all of its threads, later ones too.
    #[arg(long, value_name = "PID", value_parser = process)]
    pid: Option<u32>,
    /// A cgroup v2 directory: every process while it is in it or below.
    #[arg(long, value_name = "PATH")]
    cgroup: Option<PathBuf>,
}

impl TrackArgs {
    fn target(&self) -> libzernel::Result<Target> {
        if let Some(tid) = self.tid {
            return Ok(Target::Thread(tid));
        }
        if let Some(path) = &self.cgroup {
            return Target::cgroup(path);
        }
        // One of the three is there, as clap has checked.
        Target::pidfd(self.pid.unwrap_or(0))
    }
}

#[derive(Debug, ClapArgs)]
struct ProbeArgs {
    /// The library: an ELF file.
    #[arg(long, value_name = "FILE")]
    library: PathBuf,
    /// Functions of the library, by name.
    #[arg(long, value_name = "NAME", num_args = 1.., required_unless_present = "offset")]
    symbol: Vec<String>,
    /// Functions of the library, by the offset of their start in the file: decimal, or 0x and
    /// hexadecimal.
    #[arg(long, value_name = "OFFSET", num_args = 1.., value_parser = offset)]
    offset: Vec<u64>,
}

#[derive(Debug, ClapArgs)]
struct WatchArgs {
    /// Stop after this many events.
    #[arg(long, value_name = "N", value_parser = count)]
    count: Option<u64>,
    /// Stop after this many seconds without an event.
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    timeout: Option<Duration>,
    /// Only events of this process.
    #[arg(long, value_parser = process)]
    pid: Option<u32>,
}

#[derive(Debug, ClapArgs)]
struct RequestsArgs {
    /// Only requests of this TSG, by its id in `tsg list`.
    #[arg(long, value_name = "ID", conflicts_with = "level")]
    tsg: Option<tsg::Id>,
    /// Only requests that began at this level: its name, such as lc or be, or a number from 0 to 7.
    #[arg(long)]
    level: Option<Level>,
    /// Show the distribution of each time, too.
    #[arg(long)]
    histogram: bool,
}

#[derive(Debug, ClapArgs)]
struct PhasesArgs {
    /// Show processes: sums of their threads, GPU activity, and the time since their last work.
    #[arg(long)]
    process: bool,
    /// Show cgroups v2: sums of the processes in each.
    #[arg(long, conflicts_with = "process")]
    cgroup: bool,
    /// Show tracked cgroups: sums of all threads while they were there.
    #[arg(long, conflicts_with_all = ["process", "cgroup", "pid"])]
    cgroups: bool,
    /// Only threads of this process.
    #[arg(long, value_parser = process)]
    pid: Option<u32>,
    /// Repeat every so many seconds, until interrupted; JSON is a line each time.
    #[arg(long, value_name = "SECONDS", value_parser = interval)]
    watch: Option<Duration>,
    /// Stop after this many repetitions.
    #[arg(long, value_name = "N", value_parser = count, requires = "watch")]
    count: Option<u64>,
}

impl PhasesArgs {
    fn options(&self) -> phases::Options {
        let by = match (self.process, self.cgroup, self.cgroups) {
            (true, _, _) => phases::By::Process,
            (_, true, _) => phases::By::Cgroup,
            (_, _, true) => phases::By::TrackedCgroup,
            _ => phases::By::Thread,
        };
        phases::Options { by, pid: self.pid }
    }
}

#[derive(Debug, ClapArgs)]
struct PrefetchArgs {
    /// The process; with --loader, only its loaders.
    #[arg(long, value_parser = process, required_unless_present = "loader")]
    pid: Option<u32>,
    /// List the loaders that run: their depth, batches, waits, bytes and requests.
    #[arg(long, conflicts_with_all = ["file", "count"])]
    loader: bool,
    /// Print them as OpenMetrics, for a collector of text files.
    #[arg(long, requires = "loader", conflicts_with = "json")]
    metrics: bool,
    /// Read this file ahead: a regular file or a block device.
    #[arg(long, value_name = "PATH", requires = "length")]
    file: Option<PathBuf>,
    /// Offset of the first part, in bytes.
    #[arg(long, value_name = "BYTES", value_parser = bytes, requires = "file", default_value = "0")]
    offset: u64,
    /// Bytes to read at a signal, at most 1G; K, M and G are units of 1024.
    #[arg(long, value_name = "BYTES", value_parser = length, requires = "file")]
    length: Option<u64>,
    /// Bytes after which reading begins anew at the offset; by default up to the end of the file.
    #[arg(long, value_name = "BYTES", value_parser = bytes, requires = "file")]
    span: Option<u64>,
    /// Stop after this many signals.
    #[arg(long, value_name = "N", value_parser = count)]
    count: Option<u64>,
}

impl PrefetchArgs {
    fn options(self) -> prefetch::Options {
        let ahead = self
            .file
            .zip(self.length)
            .map(|(path, length)| prefetch::Ahead {
                path,
                offset: self.offset,
                length,
                span: self.span,
            });
        prefetch::Options {
            // It is there without --loader, as clap has checked.
            pid: self.pid.unwrap_or(0),
            ahead,
            count: self.count,
        }
    }
}

pub(crate) fn process(text: &str) -> Result<u32, String> {
    task(text, "a process id")
}

pub(crate) fn thread(text: &str) -> Result<u32, String> {
    task(text, "a thread id")
}

fn task(text: &str, noun: &str) -> Result<u32, String> {
    match text.parse() {
        Ok(0) | Err(_) => Err(format!(
            "'{text}' is not {noun}: it takes a decimal number from 1"
        )),
        Ok(id) => Ok(id),
    }
}

fn offset(text: &str) -> Result<u64, String> {
    let parsed = match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => text.parse(),
    };
    parsed.map_err(|_| format!("'{text}' is not an offset: it takes a number, or 0x and digits"))
}

fn count(text: &str) -> Result<u64, String> {
    text.parse()
        .map_err(|_| format!("'{text}' is not a count: it takes a decimal number"))
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| {
        format!("'{text}' is not a number of seconds: it takes a decimal number, like 0.5")
    })?;
    Duration::try_from_secs_f64(seconds).map_err(|_| {
        format!("'{text}' is not a time: it takes a number of seconds from 0, like 0.5")
    })
}

fn interval(text: &str) -> Result<Duration, String> {
    const LEAST: Duration = Duration::from_millis(10);
    let time = seconds(text)?;
    if time < LEAST {
        return Err(format!(
            "'{text}' is too short: the interval is 0.01 seconds or more"
        ));
    }
    Ok(time)
}

fn milliseconds(text: &str) -> Result<Duration, String> {
    let ms: u64 = text.parse().map_err(|_| {
        format!("'{text}' is not a number of milliseconds: it takes a decimal number from 0")
    })?;
    let time = Duration::from_millis(ms);
    if time > HINT_MAX {
        let most = HINT_MAX.as_millis();
        return Err(format!(
            "'{text}' is too long: a hint holds for {most} ms at most"
        ));
    }
    Ok(time)
}

fn bytes(text: &str) -> Result<u64, String> {
    let (digits, unit) = match text.char_indices().last() {
        Some((at, 'K')) => (&text[..at], 1 << 10),
        Some((at, 'M')) => (&text[..at], 1 << 20),
        Some((at, 'G')) => (&text[..at], 1 << 30),
        _ => (text, 1u64),
    };
    let number = digits.parse::<u64>().ok();
    number
        .and_then(|number| number.checked_mul(unit))
        .ok_or_else(|| {
            format!("'{text}' is not a size: it takes a decimal number of bytes, or with K, M or G")
        })
}

fn length(text: &str) -> Result<u64, String> {
    let length = bytes(text)?;
    if !(1..=MAX_LENGTH).contains(&length) {
        return Err(format!(
            "'{text}' is not the length of a part: it takes 1 byte to 1G"
        ));
    }
    Ok(length)
}

#[derive(Debug, Subcommand)]
enum TuneCommand {
    /// List all tunables and their values.
    List,
    /// Show one tunable.
    Get {
        /// Its name.
        name: String,
    },
    /// Set one tunable.
    Set {
        /// Its name.
        name: String,
        /// Its new value.
        #[arg(allow_negative_numbers = true)]
        value: String,
    },
}

impl Args {
    /// Runs the command.
    pub fn run(self) -> Result<ExitCode> {
        let json = self.json;
        let zernel = || Zernel::open_at(&self.device);
        let tunables = || Tunables::open_at(&self.sysfs);
        match self.command {
            Command::Status => status::status(&zernel()?, json)?,
            Command::Stats => status::stats(&zernel()?, json)?,
            Command::Requests(args) => {
                let options = requests::Options {
                    tsg: args.tsg,
                    level: args.level,
                    histogram: args.histogram,
                };
                requests::show(&zernel()?, &options, json)?;
            }
            Command::Gpu(GpuCommand::List) => list::gpus(&zernel()?, json)?,
            Command::Gpu(GpuCommand::Verify(args)) => {
                return args.run(&self.device, &self.sysfs, json);
            }
            Command::Tsg(TsgCommand::List(args)) => {
                let filter = list::Filter {
                    pid: args.pid,
                    level: args.level,
                    all: args.all,
                };
                list::tsgs(&zernel()?, &filter, json)?;
            }
            Command::Class(command) => command.run(&zernel()?, json)?,
            Command::Run(args) => return args.run(&zernel()?),
            Command::Watch(args) => {
                let options = watch::Options {
                    count: args.count,
                    timeout: args.timeout,
                    pid: args.pid,
                };
                watch::watch(&zernel()?, &options, json)?;
            }
            Command::Track {
                target,
                children,
                ml,
            } => {
                let tracking = Tracking { children, ml };
                track::begin(&zernel()?, &target.target()?, tracking, json)?;
            }
            Command::Untrack { target } => track::end(&zernel()?, &target.target()?, json)?,
            Command::Threads { pid } => track::list(&zernel()?, pid, json)?,
            Command::Probe(args) => {
                probe::probe(&zernel()?, &args.library, &args.symbol, &args.offset, json)?;
            }
            Command::Phases(args) => {
                let (zernel, options) = (zernel()?, args.options());
                match args.watch {
                    Some(every) => phases::watch(&zernel, &options, every, args.count, json)?,
                    None => phases::show(&zernel, &options, json)?,
                }
            }
            Command::Hint {
                tid,
                duration,
                phase,
            } => phases::hint(&zernel()?, tid, phase, duration, json)?,
            Command::Prefetch(args) if args.loader => {
                let form = match (json, args.metrics) {
                    (true, _) => loaders::Form::Json,
                    (_, true) => loaders::Form::Metrics,
                    _ => loaders::Form::Table,
                };
                loaders::show(args.pid, form)?;
            }
            Command::Prefetch(args) => prefetch::run(&zernel()?, &args.options(), json)?,
            Command::Tune(TuneCommand::List) => tune::list(&tunables()?, json)?,
            Command::Tune(TuneCommand::Get { name }) => tune::get(&tunables()?, &name, json)?,
            Command::Tune(TuneCommand::Set { name, value }) => {
                tune::set(&tunables()?, &name, &value, json)?;
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}

#[cfg(test)]
mod tests;
