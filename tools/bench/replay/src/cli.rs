// SPDX-License-Identifier: MIT OR Apache-2.0
//! The command line.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::{anyhow, ensure, Context, Result};
use clap::{Args as ClapArgs, Parser, Subcommand};
use zernel_report::chart::Chart;
use zernel_report::figures::LEGEND;
use zernel_workload::{check_seconds, Deployment, Workload};

use crate::deadlines::Deadlines;
use crate::model::measures::{Ns, Us};
use crate::model::preset::{OpCost, Preset};
use crate::policies::suspend::SWITCHES;
use crate::policies::{Estimator, Name, Options};
use crate::policy;
use crate::policy::deadline::Order;
use crate::policy::predict::features::Memory;
use crate::policy::predict::trigger::{Rule, Trigger};
use crate::policy::predict::Kind as Predictor;
use crate::policy::rotation::Discipline;
use crate::policy::slices::slack::Terms;
use crate::policy::slices::Policy as SlicePolicy;
use crate::sweep::{self, Job, Kind, Ran};
use crate::table::{self, Row};
use crate::world::Setting;

/// The command that shows the form of a workload file.
const SEE: &str = "replay show B1";

/// Replay workloads on a model of a GPU, under several policies, in simulated time.
///
/// The model and zernel's policy are those of the kernel modules, the same source files. Equal seeds
/// give equal figures, on every machine.
#[derive(Debug, Parser)]
#[command(name = "replay", version, max_term_width = 100)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run workloads under several policies.
    Run(RunArgs),
    /// Run a workload several times while one parameter changes in steps.
    Sweep(SweepArgs),
    /// List the built-in workloads.
    List,
    /// Print a workload as YAML: a start for your own.
    Show {
        /// Name of a built-in workload, or path of a YAML file.
        #[arg(value_parser = workload_name)]
        workload: String,
    },
}

#[derive(Debug, ClapArgs)]
#[command(allow_negative_numbers = true)]
struct RunArgs {
    /// Names of built-in workloads, or paths of YAML files, separated by commas.
    #[arg(long, value_name = "FILE", value_delimiter = ',', required = true,
          value_parser = workload_name)]
    workload: Vec<String>,
    /// Policies to compare, separated by commas.
    #[arg(long, value_enum, value_delimiter = ',',
          default_values_t = [Name::Exclusive, Name::Default, Name::Classes, Name::Gpreempt,
                              Name::Zernel, Name::Suspend40, Name::Suspend100,
                              Name::Suspend140, Name::Suspend5000, Name::Oracle, Name::Bound])]
    policy: Vec<Name>,
    #[command(flatten)]
    common: Common,
}

#[derive(Debug, ClapArgs)]
#[command(allow_negative_numbers = true)]
struct SweepArgs {
    /// The parameter to change.
    #[arg(value_enum, value_name = "PARAMETER")]
    kind: Kind,
    /// Name of a built-in workload, or path of a YAML file; the default depends on the parameter.
    #[arg(long, value_name = "FILE", value_parser = workload_name)]
    workload: Option<String>,
    /// Latency-critical clients of the workloads of deadlines and sharing (16 without it), and of
    /// saturation (8).
    #[arg(long, value_name = "N", conflicts_with = "workload",
          value_parser = clap::value_parser!(u16).range(2..=16))]
    clients: Option<u16>,
    /// Policies to compare, separated by commas; the default depends on the parameter.
    #[arg(long, value_enum, value_delimiter = ',')]
    policy: Vec<Name>,
    #[command(flatten)]
    common: Common,
}

#[derive(Debug, ClapArgs)]
struct Common {
    /// Clients that share a TSG.
    #[arg(long, value_enum, default_value_t = Deployment::PerClient)]
    deployment: Deployment,
    /// Seconds to simulate, instead of the workload's.
    #[arg(long, value_parser = seconds)]
    seconds: Option<f64>,
    /// Seed of the random numbers.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// The GPU: a100, h100, h200, l4 or rtx4090, or one whose switch takes so many microseconds: switch-40,
    /// switch-100 or switch-140. Without it an a100; in sweep be-load one whose switch
    /// takes 100 us.
    #[arg(long, value_parser = preset)]
    gpu: Option<&'static Preset>,
    /// Cost of the driver's operations, in percent of the published cost.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u64).range(0..=10_000))]
    operation_percent: u64,
    /// Write the figures to this file, as JSON.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Draw plots into this folder, as SVG.
    #[arg(long, value_name = "DIR")]
    plots: Option<PathBuf>,
    /// Deadlines of latency-critical clients from the begin of a request, in microseconds, separated by
    /// commas; the clients have them in turn. Tells what is missed.
    #[arg(long, value_name = "US", default_value = "", hide_default_value = true,
          value_parser = deadlines)]
    deadlines_us: Deadlines,
    #[command(flatten)]
    zernel: ZernelArgs,
    #[command(flatten)]
    gpreempt: GpreemptArgs,
}

#[derive(Debug, ClapArgs)]
#[command(next_help_heading = "Policy zernel")]
struct ZernelArgs {
    /// Predictor of preparations: fixed, ema, holt, quantile or features.
    #[arg(long, default_value = "quantile", value_parser = predictor)]
    predictor: Predictor,
    /// The way from features to a time, for predictor features.
    #[arg(long, value_enum, default_value = "linear")]
    estimator: Estimator,
    /// The observations that the regression over features remembers.
    #[arg(long, value_name = "N", default_value_t = Memory::DEFAULT.number(),
          value_parser = clap::value_parser!(u32).range(16..=1_024))]
    features_memory: u32,
    /// Subtract the classic adaptive margin from predictions; not for predictor quantile.
    #[arg(long)]
    margin: bool,
    /// Cost of a nanosecond of idle GPU.
    #[arg(long, value_name = "COST", default_value_t = 1)]
    early_cost: u32,
    /// The same in predictions while other latency-critical TSGs have requests, instead of --early-cost.
    #[arg(long, value_name = "COST")]
    shared_early_cost: Option<u32>,
    /// Cost of a nanosecond of added latency.
    #[arg(long, value_name = "COST", default_value_t = 6)]
    late_cost: u32,
    /// Take the GPU when a request begins (begin), when its data is ready (ready), or when that is
    /// predicted.
    #[arg(long, default_value = "predicted", value_parser = trigger)]
    trigger: Trigger,
    /// Take it at begin where the preparation is expected to be shorter, in microseconds.
    #[arg(long, value_name = "US", default_value_t = 0,
          value_parser = clap::value_parser!(u32).range(..=1_000_000))]
    min_prep_us: u32,
    /// The margin that a point predictor starts with, in microseconds.
    #[arg(long, value_name = "US", default_value_t = 20,
          value_parser = clap::value_parser!(u32).range(1..=500))]
    safety_margin_us: u32,
    /// Order of triggers: fifo, edf for the earliest deadline first, or edf-preemptive, which takes the GPU
    /// from later ones.
    #[arg(long, default_value = "fifo", value_parser = order)]
    order: Order,
    /// Promise deadlines, and refuse requests whose deadline cannot be met; with --order edf and
    /// --deadlines-us.
    #[arg(long)]
    admit: bool,
    /// Give latency-critical clients with longer deadlines a lower level, two for each that differs.
    #[arg(long)]
    by_level: bool,
    /// Leave all best-effort TSGs enabled: no turns.
    #[arg(long)]
    no_rotation: bool,
    /// Order of turns: fair, credit or rr.
    #[arg(long, default_value = "fair", value_parser = discipline)]
    discipline: Discipline,
    /// Intended length of a turn, in microseconds.
    #[arg(long, value_name = "US", default_value_t = 8_000,
          value_parser = clap::value_parser!(u32).range(500..=1_000_000))]
    quantum_us: u32,
    /// Time slice of best-effort TSGs in microseconds, instead of their level's.
    #[arg(long, value_name = "US", value_parser = clap::value_parser!(u32).range(10..=10_000_000))]
    be_slice_us: Option<u32>,
    /// Slices of levels: table, exponential, slack, which follows --deadlines-us, or pid, which needs
    /// --target-us and --no-rotation.
    #[arg(long, default_value = "table", value_parser = slices)]
    slices: SlicePolicy,
    /// The latency that 99 % of latency-critical requests are to have, in microseconds, for pid.
    #[arg(long, value_name = "US", value_parser = clap::value_parser!(u32).range(10..=10_000_000))]
    target_us: Option<u32>,
    /// GPU time of the latency-critical level in each 100 ms, in microseconds; 100000: no bound.
    #[arg(long, value_name = "US", default_value_t = 95_000,
          value_parser = clap::value_parser!(u32).range(1_000..=100_000))]
    budget_us: u32,
    /// Most credit of a TSG, in microseconds, for slack.
    #[arg(long, value_name = "US", default_value_t = Terms::USUAL.credit.0,
          value_parser = clap::value_parser!(u32).range(..=10_000_000))]
    slack_credit_us: u32,
    /// Time from one decision to the next, in microseconds, for slack.
    #[arg(long, value_name = "US", default_value_t = Terms::USUAL.quantum.0,
          value_parser = clap::value_parser!(u32).range(500..=1_000_000))]
    slack_quantum_us: u32,
}

#[derive(Debug, ClapArgs)]
#[command(next_help_heading = "Policy gpreempt")]
struct GpreemptArgs {
    /// Assumed time of a preparation, in microseconds.
    #[arg(long, value_name = "US", default_value_t = 200)]
    preparation_us: u32,
    /// Assumed time of a switch, in microseconds.
    #[arg(long, value_name = "US", default_value_t = 100)]
    switch_us: u32,
}

fn seconds(text: &str) -> Result<f64> {
    let seconds = text
        .parse()
        .map_err(|_| anyhow!("'{text}' is not a number"))?;
    check_seconds(seconds).map(|()| seconds)
}

fn preset(text: &str) -> Result<&'static Preset> {
    let by_switch = || SWITCHES.iter().find(|preset| preset.name == text);
    Preset::named(text).or_else(by_switch).with_context(|| {
        let all = Preset::ALL.iter().chain(&SWITCHES);
        let names: Vec<_> = all.map(|preset| preset.name).collect();
        format!("there is no GPU {text}; name one of {}", names.join(", "))
    })
}

fn predictor(text: &str) -> Result<Predictor> {
    Predictor::named(text).with_context(|| {
        let names = Predictor::ALL.map(Predictor::name);
        format!(
            "there is no predictor {text}; name one of {}",
            names.join(", ")
        )
    })
}

fn deadlines(text: &str) -> Result<Deadlines> {
    match text {
        "" => Ok(Deadlines::NONE),
        _ => Deadlines::parse(text),
    }
}

fn order(text: &str) -> Result<Order> {
    Order::named(text)
        .with_context(|| format!("there is no order {text}; name fifo, edf or edf-preemptive"))
}

fn slices(text: &str) -> Result<SlicePolicy> {
    SlicePolicy::named(text).with_context(|| {
        let names = SlicePolicy::ALL.map(SlicePolicy::name);
        format!(
            "there are no slices {text}; name one of {}",
            names.join(", ")
        )
    })
}

fn discipline(text: &str) -> Result<Discipline> {
    Discipline::named(text).with_context(|| {
        let names = Discipline::ALL.map(Discipline::name);
        format!(
            "there is no discipline {text}; name one of {}",
            names.join(", ")
        )
    })
}

/// A time in the unit of the policies.
fn policy_us(us: u32) -> policy::units::Ns {
    policy::units::Us(us).into()
}

fn trigger(text: &str) -> Result<Trigger> {
    match text {
        "predicted" => Ok(Trigger::Predicted),
        "begin" => Ok(Trigger::AtBegin),
        "ready" => Ok(Trigger::AtReady),
        _ => Err(anyhow!(
            "there is no trigger {text}; name one of predicted, begin, ready"
        )),
    }
}

fn workload_name(text: &str) -> Result<String> {
    Workload::check_name(text).map(|()| text.to_owned())
}

impl Common {
    fn load(&self, name: &str) -> Result<Workload> {
        self.lasting(Workload::load(name, SEE)?)
    }

    fn lasting(&self, workload: Workload) -> Result<Workload> {
        match self.seconds {
            Some(seconds) => workload.lasting(seconds),
            None => Ok(workload),
        }
    }

    fn setting(&self, usual: &'static Preset) -> Setting {
        let cost = |published: Ns| Ns(published.0 * self.operation_percent / 100);
        let published = OpCost::PUBLISHED;
        Setting {
            preset: self.gpu.unwrap_or(usual),
            deployment: self.deployment,
            seed: self.seed,
            costs: OpCost {
                preempt: cost(published.preempt),
                enable: cost(published.enable),
                slice: cost(published.slice),
            },
            ..Setting::DEFAULT
        }
    }

    /// Checks that options are of use together.
    fn check(&self) -> Result<()> {
        let ZernelArgs {
            slices,
            target_us,
            no_rotation,
            be_slice_us,
            ..
        } = self.zernel;
        ensure!(
            !self.zernel.admit || self.zernel.order == Order::Edf && !self.deadlines_us.is_empty(),
            "--admit needs --order edf and --deadlines-us: there is nothing to promise without"
        );
        ensure!(
            slices == SlicePolicy::Pid || target_us.is_none(),
            "--target-us is for --slices pid: no other slices follow it"
        );
        ensure!(
            slices != SlicePolicy::Exponential || be_slice_us.is_none_or(|slice| slice <= 100),
            "--slices exponential gives best-effort TSGs 100 us at most: leave out --be-slice-us"
        );
        ensure!(
            slices != SlicePolicy::Pid || (target_us.is_some() && no_rotation),
            "--slices pid needs --target-us, and --no-rotation: the slice of turns does not follow"
        );
        Ok(())
    }

    fn options(&self) -> Options {
        let mut options = Options::DEFAULT;
        options.seed = self.seed;
        options.constants.preparation = Us(self.gpreempt.preparation_us);
        options.constants.switch = Us(self.gpreempt.switch_us);
        let zernel = &mut options.zernel;
        zernel.kind = self.zernel.predictor;
        zernel.estimator = self.zernel.estimator;
        zernel.memory = Memory::new(self.zernel.features_memory);
        zernel.margin = self.zernel.margin;
        zernel.early = self.zernel.early_cost;
        zernel.shared_early = self.zernel.shared_early_cost;
        zernel.late = self.zernel.late_cost;
        zernel.rule = Rule {
            trigger: self.zernel.trigger,
            min_prep: policy_us(self.zernel.min_prep_us),
            order: self.zernel.order,
        };
        zernel.deadlines = self.deadlines_us;
        zernel.admit = self.zernel.admit;
        zernel.by_level = self.zernel.by_level;
        zernel.safety_margin = policy_us(self.zernel.safety_margin_us);
        zernel.rotate = !self.zernel.no_rotation;
        zernel.discipline = self.zernel.discipline;
        zernel.quantum = Us(self.zernel.quantum_us);
        zernel.be_slice = self.zernel.be_slice_us.map(Us);
        zernel.slices = self.zernel.slices;
        zernel.target = Us(self.zernel.target_us.unwrap_or(0));
        zernel.budget = Us(self.zernel.budget_us);
        zernel.slack.credit = policy::units::Us(self.zernel.slack_credit_us);
        zernel.slack.quantum = policy::units::Us(self.zernel.slack_quantum_us);
        options
    }

    /// Prints the table, and writes the files.
    fn report(
        &self,
        setting: &Setting,
        all: &[Ran],
        sweep: Option<Kind>,
        charts: Vec<(String, Chart)>,
    ) -> Result<()> {
        let parameter = sweep.map(Kind::parameter);
        let rows: Vec<Row> = all.iter().map(|ran| ran.row.clone()).collect();
        let mut out = io::stdout().lock();
        write!(out, "{}{}", table::render(&rows, parameter), LEGEND)?;
        if let Some(path) = &self.json {
            // Of a sweep its plot, too: a page can show it as it is.
            let plots = charts.iter().filter(|_| sweep.is_some());
            let plots = plots
                .filter_map(|(_, chart)| chart.svg().transpose())
                .collect::<Result<Vec<_>>>()?;
            let text = serde_json::to_string_pretty(&serde_json::json!({
                "gpu": setting.preset.name,
                "seed": self.seed,
                "sweep": sweep.map(Kind::name),
                "rows": rows,
                "plots": plots,
            }))?;
            std::fs::write(path, text + "\n")
                .with_context(|| format!("cannot write {}", path.display()))?;
        }
        if let Some(dir) = &self.plots {
            std::fs::create_dir_all(dir)
                .with_context(|| format!("cannot make {}", dir.display()))?;
            for (name, chart) in charts {
                let path = dir.join(Path::new(&name).file_name().unwrap_or(name.as_ref()));
                if chart.save(&path)? {
                    writeln!(out, "{}", path.display())?;
                }
            }
        }
        Ok(())
    }
}

/// Runs the command.
pub(crate) fn run(args: Args) -> Result<()> {
    match args.command {
        Command::Run(args) => policies(&args),
        Command::Sweep(args) => sweep(&args),
        Command::List => list(),
        Command::Show { workload } => show(&workload),
    }
}

fn policies(args: &RunArgs) -> Result<()> {
    args.common.check()?;
    let setting = args.common.setting(&Preset::A100);
    let options = args.common.options();
    let jobs = args
        .workload
        .iter()
        .map(|name| {
            Ok(Job {
                parameter: None,
                workload: args.common.load(name)?,
                policies: args.policy.iter().map(|&one| (one, options)).collect(),
            })
        })
        .collect::<Result<Vec<_>>>()?;
    let all = sweep::run(&jobs, setting)?;
    let each = args.policy.len().max(1);
    let charts = jobs
        .iter()
        .zip(all.chunks(each))
        .flat_map(|(job, part)| sweep::charts(part, &job.workload, &setting))
        .collect();
    args.common.report(&setting, &all, None, charts)
}

fn sweep(args: &SweepArgs) -> Result<()> {
    args.common.check()?;
    let kind = args.kind;
    let setting = args.common.setting(kind.preset());
    ensure!(
        args.clients.is_none() || kind.counts_clients(),
        "--clients is for the sweeps deadlines, sharing and saturation: the workloads of others have their clients"
    );
    let workload = match &args.workload {
        Some(name) => args.common.load(name)?,
        None => args
            .common
            .lasting(kind.workload(args.clients.map(usize::from)))?,
    };
    kind.accepts(&workload)?;
    let policies = match args.policy.is_empty() {
        true => kind.policies(),
        false => &args.policy,
    };
    let jobs = kind.jobs(&workload, policies, args.common.options());
    let all = sweep::run(&jobs, setting)?;
    ensure!(
        !all.is_empty(),
        "none of these policies has the parameter of this sweep; choose from {}",
        kind.policies()
            .iter()
            .map(|policy| policy.name())
            .collect::<Vec<_>>()
            .join(", ")
    );
    let charts = kind.charts(&all, &workload, &setting).into_iter();
    let charts = charts.map(|(more, chart)| (format!("{}{more}.svg", kind.name()), chart));
    args.common
        .report(&setting, &all, Some(kind), charts.collect())
}

fn list() -> Result<()> {
    let mut out = io::stdout().lock();
    for name in Workload::built_in_names() {
        let about = Workload::built_in(name).and_then(|one| one.about);
        writeln!(out, "{name:<12} {}", about.unwrap_or_default())?;
    }
    Ok(())
}

fn show(name: &str) -> Result<()> {
    let workload = Workload::load(name, SEE)?;
    Ok(io::stdout()
        .lock()
        .write_all(workload.to_yaml()?.as_bytes())?)
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
