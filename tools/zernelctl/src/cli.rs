// SPDX-License-Identifier: GPL-2.0
//! The command line.

use std::ffi::OsString;
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
    class, exit, list, phases, prefetch, probe, requests, run, status, track, tune, watch,
};

/// Examples of its use.
const EXAMPLES: &str = "\
Examples:
  zernelctl run --class lc -- ./serve --port 8000     serve with low latency
  zernelctl run --class be --cgroup -- make train     train in what is left, children too
  zernelctl class set be --pid 4711                   a process that runs already
  zernelctl class set 3 --cgroup /sys/fs/cgroup/batch everything in a cgroup
  zernelctl watch --json | jq .kind                   follow what happens";

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
    /// Show the module, its GPUs and how much work of which level they have.
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
    /// The class is set for the process, which then becomes the command. It does not reach the
    /// command's children, unless --cgroup makes a cgroup for all of them.
    Run(RunArgs),
    /// Print events as they happen, until interrupted.
    ///
    /// Shows your own TSGs, or all with CAP_PERFMON. Events that were lost because they were not
    /// read in time are counted on standard error.
    Watch(WatchArgs),
    /// Track what the threads of a process, or in a cgroup, do: CPU time, waits for a CPU, sleeps
    /// by cause.
    ///
    /// A thread is recorded from the moment on when it returns to user space next. Your own are
    /// free to track; another user's need CAP_SYS_NICE or membership of the group in the tunable
    /// lc_gid. The owner of a cgroup's directory tracks its own processes in it.
    Track {
        #[command(flatten)]
        target: TrackArgs,
        /// Processes that it makes from now on, too, and those that they make.
        #[arg(long, conflicts_with_all = ["tid", "cgroup"])]
        children: bool,
        /// It is a machine-learning program: `phases` tells what its threads do.
        #[arg(long)]
        ml: bool,
    },
    /// Track the threads of a process, or in a cgroup, no more.
    Untrack {
        #[command(flatten)]
        target: TrackArgs,
    },
    /// List your tracked threads, or all with CAP_PERFMON, and what they did with their time.
    ///
    /// Shares are of the time since each is recorded.
    Threads {
        /// Only those of this process.
        #[arg(long, value_parser = process)]
        pid: Option<u32>,
    },
    /// Have tracked threads counted as waiting for the GPU while they are in functions of a
    /// library.
    ///
    /// For runtimes that spin or poll until the GPU is done, and do not ask the driver. Needs
    /// CAP_SYS_ADMIN, and lasts until interrupted. Whoever calls such a function, tracked or not,
    /// takes a trap.
    Probe(ProbeArgs),
    /// Show the phases of your machine-learning programs, or of all with CAP_PERFMON.
    ///
    /// A phase is what a thread does: it loads data, waits for the GPU, exchanges data with other
    /// ranks, or makes an optimizer step. `track --ml` says what is such a program. Shares are of
    /// the time since each is recorded.
    Phases(PhasesArgs),
    /// Say what phase a thread is in, for a time: that wins over what is detected.
    ///
    /// The thread is one of a program that is tracked with --ml. Your own are free to give hints
    /// to; another user's need CAP_SYS_NICE or membership of the group in the tunable lc_gid.
    Hint {
        /// The thread.
        #[arg(long, value_name = "TID", value_parser = thread)]
        tid: u32,
        /// For so many milliseconds, at most 60000; 0 ends the hint that was given before.
        #[arg(long, value_name = "MS", value_parser = milliseconds)]
        duration: Duration,
        /// unknown, data_loading, gpu_compute, collective or optimizer_step.
        phase: Phase,
    },
    /// Tell when it is time for a machine-learning program to load its next batch.
    ///
    /// Prints a line for each signal, until interrupted or the process has ended. With --file that
    /// file is read into the page cache meanwhile, a part at each signal: for programs that know
    /// nothing of zernel. The program is one that is tracked with --ml; for those of other users
    /// that needs CAP_PERFMON.
    Prefetch(PrefetchArgs),
    /// Tunables of the module.
    #[command(subcommand)]
    Tune(TuneCommand),
    /// Show the module's counters.
    Stats,
    /// Show what became of requests, and how long they took.
    ///
    /// A request is what a process tells before its data is ready, so that the GPU is free then.
    /// Shows each level that has had some and all together, which needs CAP_PERFMON, or everything
    /// about one level or TSG; your own TSGs need no privilege.
    Requests(RequestsArgs),
}

#[derive(Debug, Subcommand)]
enum GpuCommand {
    /// List all GPUs.
    List,
}

#[derive(Debug, Subcommand)]
enum TsgCommand {
    /// List your TSGs, or all with CAP_PERFMON.
    List(TsgListArgs),
}

#[derive(Debug, ClapArgs)]
struct TsgListArgs {
    /// Only those of this process.
    #[arg(long, value_parser = process)]
    pid: Option<u32>,
    /// Only those of this level: lc, be or a number from 0 to 7.
    #[arg(long)]
    level: Option<Level>,
    /// Those of copy and other engines, too.
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
    /// A cgroup v2 directory: every process in it and below, as long as it is there.
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
    /// Functions of it by their names.
    #[arg(long, value_name = "NAME", num_args = 1.., required_unless_present = "offset")]
    symbol: Vec<String>,
    /// Functions of it by where they begin in the file, decimal or 0x and hexadecimal.
    #[arg(long, value_name = "OFFSET", num_args = 1.., value_parser = offset)]
    offset: Vec<u64>,
}

#[derive(Debug, ClapArgs)]
struct RunArgs {
    /// lc, be or a number from 0 (most urgent) to 7.
    #[arg(long, value_name = "LEVEL")]
    class: Level,
    /// Make a child cgroup with the class and run the command in it, so that its children are
    /// covered, too. The cgroup is removed at the end.
    #[arg(long)]
    cgroup: bool,
    /// The command and its arguments.
    #[arg(required = true, trailing_var_arg = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

#[derive(Debug, ClapArgs)]
struct WatchArgs {
    /// Stop after this many events.
    #[arg(long, value_name = "N", value_parser = count)]
    count: Option<u64>,
    /// Stop when nothing happens for this many seconds.
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    timeout: Option<Duration>,
    /// Only events of this process.
    #[arg(long, value_parser = process)]
    pid: Option<u32>,
}

#[derive(Debug, ClapArgs)]
struct RequestsArgs {
    /// Only those of this TSG, by its id as `tsg list` shows it.
    #[arg(long, value_name = "ID", conflicts_with = "level")]
    tsg: Option<tsg::Id>,
    /// Only those that began at this level: lc, be or a number from 0 to 7.
    #[arg(long)]
    level: Option<Level>,
    /// Show how many took how long, too.
    #[arg(long)]
    histogram: bool,
}

#[derive(Debug, ClapArgs)]
struct PhasesArgs {
    /// Sums of each process, how busy the GPU is for it, and how long ago its work was done last.
    #[arg(long)]
    process: bool,
    /// Sums of the processes in each cgroup v2.
    #[arg(long, conflicts_with = "process")]
    cgroup: bool,
    /// The cgroups that are tracked: all that their threads did there, those that have left
    /// included.
    #[arg(long, conflicts_with_all = ["process", "cgroup", "pid"])]
    cgroups: bool,
    /// Only those of this process.
    #[arg(long, value_parser = process)]
    pid: Option<u32>,
    /// Show them again and again, every so many seconds, until interrupted; JSON is a line each
    /// time.
    #[arg(long, value_name = "SECONDS", value_parser = interval)]
    watch: Option<Duration>,
    /// Stop after so many times.
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
    /// The process.
    #[arg(long, value_parser = process)]
    pid: u32,
    /// Read this file ahead: a regular file or a block device.
    #[arg(long, value_name = "PATH", requires = "length")]
    file: Option<PathBuf>,
    /// Where the first part begins, in bytes.
    #[arg(long, value_name = "BYTES", value_parser = bytes, requires = "file", default_value = "0")]
    offset: u64,
    /// Bytes to read at a signal, at most 1G; K, M and G are units of 1024.
    #[arg(long, value_name = "BYTES", value_parser = length, requires = "file")]
    length: Option<u64>,
    /// After so many bytes begin anew at the offset; by default at the end of the file.
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
            pid: self.pid,
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

fn task(text: &str, what: &str) -> Result<u32, String> {
    match text.parse() {
        Ok(0) | Err(_) => Err(format!(
            "'{text}' is not {what}: it takes a decimal number from 1"
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
    let seconds: f64 = text
        .parse()
        .map_err(|_| format!("'{text}' is not a number of seconds"))?;
    Duration::try_from_secs_f64(seconds).map_err(|error| error.to_string())
}

fn interval(text: &str) -> Result<Duration, String> {
    const LEAST: Duration = Duration::from_millis(10);
    let time = seconds(text)?;
    if time < LEAST {
        return Err(format!(
            "'{text}' is too short: it takes 0.01 seconds or more"
        ));
    }
    Ok(time)
}

fn milliseconds(text: &str) -> Result<Duration, String> {
    let ms: u64 = text
        .parse()
        .map_err(|_| format!("'{text}' is not a number of milliseconds"))?;
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
            "'{text}' is not what can be read at a signal: that is 1 byte to 1G"
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
    /// Does what the command line says.
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
            Command::Tsg(TsgCommand::List(args)) => {
                let filter = list::Filter {
                    pid: args.pid,
                    level: args.level,
                    all: args.all,
                };
                list::tsgs(&zernel()?, &filter, json)?;
            }
            Command::Class(command) => command.run(&zernel()?, json)?,
            Command::Run(args) if args.cgroup => {
                return run::in_cgroup(&zernel()?, args.class, &args.command);
            }
            Command::Run(args) => {
                return run::become_command(&zernel()?, args.class, &args.command)
            }
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
