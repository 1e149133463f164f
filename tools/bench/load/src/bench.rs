// SPDX-License-Identifier: MIT OR Apache-2.0
//! Costs of calls, and the time of a class change from its beginning to its end.

mod bounds;
mod requests;
mod switches;
mod waits;

use std::fmt::Write;
use std::hint::black_box;
use std::num::NonZeroU64;
use std::time::Duration;

use anyhow::{ensure, Context as _, Result};
pub use bounds::check;
use comfy_table::presets::UTF8_FULL_CONDENSED;
use comfy_table::{CellAlignment, Table};
use libzernel::event::Kind;
use libzernel::sim::{Context, ContextSpec, Item, Sim, COMPUTE_ENGINE};
use libzernel::{tsg, EventStream, Level, Target, Timestamp, Zernel};
use nvrm::Program;
use rustix::process::getpid;
use rustix::thread::set_current_timer_slack;
use serde::Serialize;
use zernel_report::stats::median_and_max;

use crate::hint::own_tsg;

/// Longest wait for an event.
const PATIENCE: Duration = Duration::from_secs(5);

/// One measured thing, in nanoseconds; under icount an instruction is one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Figure {
    /// The activity.
    pub name: &'static str,
    /// Median.
    pub median_ns: u64,
    /// Longest.
    pub max_ns: u64,
}

/// All that is measured.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Figures {
    /// Repetitions of each.
    pub repeat: u32,
    /// Cost of reading the clock, taken off every call.
    pub clock_ns: u64,
    /// Cost of calls.
    pub calls: Vec<Figure>,
    /// Times since the entry of the ioctl that changes a class.
    pub class_change: Vec<Figure>,
    /// Time that timers take from a program that runs meanwhile.
    pub interrupts: Vec<Figure>,
    /// A context switch, with the system calls that bring it about.
    pub switches: Vec<Figure>,
    /// A wait for the GPU; nothing without `load`, as probes take privilege.
    pub waits: Vec<Figure>,
    /// System calls that 1,000 readies and dones by store take, if they could be counted.
    pub ready_system_calls: Option<u64>,
}

/// Measures everything, `repeat` times each. With `load` it begins without zernel, and loads it, and
/// the software GPU with these parameters.
pub fn run(repeat: u32, load: Option<&str>) -> Result<Figures> {
    let switches = switches::costs(repeat, load)?;
    // No other timer may move the measurement of one. Only now: who has had real-time priority
    // has the usual slack.
    set_current_timer_slack(NonZeroU64::new(1)).context("cannot set the timer slack")?;
    let zernel = Zernel::open()?;
    let sim = Sim::open()?;
    let program = Program::open(&sim, 0)?;
    let context = program.context(&ContextSpec::compute("bench"))?;
    let mut events = zernel.events()?;
    let id = own_tsg(&zernel)?;
    let meter = Meter::new(repeat);
    let mut all = calls(&meter, &zernel, &sim, &context, id)?;
    all.extend(requests::calls(&meter, &zernel, id)?);
    Ok(Figures {
        repeat,
        clock_ns: meter.clock_ns,
        calls: all,
        switches,
        interrupts: requests::interrupts(&meter, &zernel, id)?,
        ready_system_calls: requests::system_calls_of_ready(&zernel)?,
        class_change: class_change(repeat, &zernel, &context, id, &mut events)?,
        waits: match load {
            Some(_) => waits::costs(&meter, &zernel, &context)?,
            None => Vec::new(),
        },
    })
}

/// Times calls, less the clock's own cost.
struct Meter {
    repeat: u32,
    clock_ns: u64,
}

impl Meter {
    fn new(repeat: u32) -> Self {
        let mut meter = Self {
            repeat,
            clock_ns: 0,
        };
        let mut samples = meter.samples(|| Ok(())).unwrap_or_default();
        meter.clock_ns = median_and_max(&mut samples).0;
        meter
    }

    fn samples<T>(
        &self,
        mut call: impl FnMut() -> libzernel::Result<T>,
    ) -> libzernel::Result<Vec<u64>> {
        // The first call pays for first uses of code and data and is not counted.
        call()?;
        (0..self.repeat)
            .map(|_| {
                let before = Timestamp::now();
                black_box(call()?);
                let cost = Timestamp::now().since(before).as_nanos() as u64;
                Ok(cost.saturating_sub(self.clock_ns))
            })
            .collect()
    }

    /// As [`Self::figure`]; `before` is done each time before `call`, which gets what it returns,
    /// and is not counted.
    fn after<P, T>(
        &self,
        name: &'static str,
        mut before: impl FnMut() -> libzernel::Result<P>,
        mut call: impl FnMut(P) -> libzernel::Result<T>,
    ) -> Result<Figure> {
        let mut samples = Vec::with_capacity(self.repeat as usize);
        for count in 0..=self.repeat {
            let prepared = before().context(name)?;
            let start = Timestamp::now();
            black_box(call(prepared).context(name)?);
            let cost = Timestamp::now().since(start).as_nanos() as u64;
            // As above, the first is not counted.
            if count > 0 {
                samples.push(cost.saturating_sub(self.clock_ns));
            }
        }
        let (median_ns, max_ns) = median_and_max(&mut samples);
        Ok(Figure {
            name,
            median_ns,
            max_ns,
        })
    }

    fn figure<T>(
        &self,
        name: &'static str,
        call: impl FnMut() -> libzernel::Result<T>,
    ) -> Result<Figure> {
        let mut samples = self.samples(call).context(name)?;
        let (median_ns, max_ns) = median_and_max(&mut samples);
        Ok(Figure {
            name,
            median_ns,
            max_ns,
        })
    }
}

fn calls(
    meter: &Meter,
    zernel: &Zernel,
    sim: &Sim,
    context: &Context,
    id: tsg::Id,
) -> Result<Vec<Figure>> {
    let tsg = Target::Tsg(id);
    let process = Target::current_process();
    let mut turn = 0u8;
    let figures = vec![
        meter.figure("getpid", || Ok(getpid()))?,
        meter.figure("INFO", || zernel.info())?,
        meter.figure("STATS", || zernel.stats())?,
        meter.figure("LIST_GPUS (all)", || each(zernel.gpus()))?,
        meter.figure("LIST_TSGS (all)", || each(zernel.tsgs()))?,
        meter.figure("CLASS_SET (TSG, same level)", || {
            zernel.set_class(&tsg, Level::BE)
        })?,
        meter.figure("CLASS_SET (TSG, other level)", || {
            turn ^= 1;
            let level = if turn == 0 { Level::BE } else { Level::LC };
            zernel.set_class(&tsg, level)
        })?,
        meter.figure("CLASS_GET (TSG)", || zernel.class(&tsg))?,
        meter.figure("CLASS_SET+CLEAR (TSG)", || {
            zernel.set_class(&tsg, Level::BE)?;
            zernel.clear_class(&tsg)
        })?,
        meter.figure("CLASS_SET (process)", || {
            turn ^= 1;
            let level = if turn == 0 { Level::BE } else { Level::LC };
            zernel.set_class(&process, level)
        })?,
        meter.figure("CLASS_GET (process)", || zernel.class(&process))?,
        meter.figure("sim SUBMIT+WAIT (fence)", || {
            let submission = context.submit(0, &[Item::fence()])?;
            context.wait(0, submission.last_seq, Timestamp::NEVER)
        })?,
        meter.figure("sim TSG_STATS", || context.stats())?,
        meter.figure("sim ENGINE_STATS", || sim.engine_stats(0, COMPUTE_ENGINE))?,
        meter.figure("sim DOORBELL", || context.doorbell())?,
    ];
    zernel.clear_class(&process)?;
    Ok(figures)
}

fn each<T>(mut entries: impl Iterator<Item = libzernel::Result<T>>) -> libzernel::Result<u32> {
    entries.try_fold(0, |count, entry| {
        black_box(entry?);
        Ok(count + 1)
    })
}

/// Times of one class change since the entry of its ioctl.
struct Change {
    returned: Duration,
    in_model: Duration,
    event: Duration,
    read: Duration,
}

fn class_change(
    repeat: u32,
    zernel: &Zernel,
    context: &Context,
    id: tsg::Id,
    events: &mut EventStream,
) -> Result<Vec<Figure>> {
    let target = Target::Tsg(id);
    let changes = (0..repeat)
        .map(|turn| {
            let level = if turn % 2 == 0 { Level::LC } else { Level::BE };
            change(zernel, context, &target, id, level, events)
        })
        .collect::<Result<Vec<_>>>()?;
    zernel.clear_class(&target)?;

    type Part = fn(&Change) -> Duration;
    let parts: [(&str, Part); 4] = [
        ("ioctl returns", |change| change.returned),
        ("slice in force in the model", |change| change.in_model),
        ("TSG_APPLIED event", |change| change.event),
        ("event read by the program", |change| change.read),
    ];
    Ok(parts
        .into_iter()
        .map(|(name, part)| {
            let mut samples: Vec<u64> = changes
                .iter()
                .map(|change| part(change).as_nanos() as u64)
                .collect();
            let (median_ns, max_ns) = median_and_max(&mut samples);
            Figure {
                name,
                median_ns,
                max_ns,
            }
        })
        .collect())
}

fn change(
    zernel: &Zernel,
    context: &Context,
    target: &Target,
    id: tsg::Id,
    level: Level,
    events: &mut EventStream,
) -> Result<Change> {
    // Events of earlier calls are not ours.
    while events
        .next_within(Some(Duration::from_millis(2)))?
        .is_some()
    {}
    let entry = Timestamp::now();
    zernel.set_class(target, level)?;
    let returned = Timestamp::now();
    let event = loop {
        let event = events
            .next_within(Some(PATIENCE))?
            .context("the TSG_APPLIED event has not come")?;
        if event.tsg == id && event.kind == Kind::TsgApplied {
            break event;
        }
    };
    let read = Timestamp::now();
    let stats = context.stats()?;
    ensure!(
        stats.timeslice_us == event.timeslice_us,
        "the model has a slice of {} us, not {} us",
        stats.timeslice_us,
        event.timeslice_us
    );
    Ok(Change {
        returned: returned.since(entry),
        in_model: stats.slice_changed_ns.since(entry),
        event: event.time_ns.since(entry),
        read: read.since(entry),
    })
}

/// The figures as tables.
pub fn render(figures: &Figures) -> String {
    let getpid = figures.calls.first().map_or(1, |figure| figure.median_ns);
    let mut text = String::new();
    let calls = figures.calls.iter().map(|figure| {
        let ratio = figure.median_ns as f64 / getpid.max(1) as f64;
        (figure, Some(format!("{ratio:.1}")))
    });
    let changes = figures.class_change.iter().map(|figure| (figure, None));
    let switches = figures.switches.iter().map(|figure| (figure, None));
    let interrupts = figures.interrupts.iter().map(|figure| (figure, None));
    let waits = figures.waits.iter().map(|figure| (figure, None));
    // Writing to a string cannot fail.
    let _ = writeln!(
        text,
        "Cost of a call in ns (under icount: instructions), {} times each\n{}\n",
        figures.repeat,
        table(&["call", "median", "max", "× getpid"], calls)
    );
    let _ = writeln!(
        text,
        "Class change of a TSG: ns since the entry of CLASS_SET\n{}",
        table(&["until", "median", "max"], changes)
    );
    let _ = writeln!(
        text,
        "\nA context switch from thread to thread through a pipe: ns\n{}",
        table(&["while", "median", "max"], switches)
    );
    if !figures.waits.is_empty() {
        let _ = writeln!(
            text,
            "\nA wait for the GPU that is over: ns\n{}",
            table(&["wait", "median", "max"], waits)
        );
    }
    let _ = writeln!(
        text,
        "\nWhat a timer takes from a program that runs: ns\n{}\n\n\
         System calls of 1,000 readies and dones by store: {}",
        table(&["timer", "median", "max"], interrupts),
        figures
            .ready_system_calls
            .map_or("not counted".to_owned(), |count| count.to_string())
    );
    text
}

fn table<'a>(header: &[&str], rows: impl Iterator<Item = (&'a Figure, Option<String>)>) -> Table {
    let mut table = Table::new();
    table.load_preset(UTF8_FULL_CONDENSED).set_header(header);
    for (figure, extra) in rows {
        let cells = [
            figure.name.to_owned(),
            figure.median_ns.to_string(),
            figure.max_ns.to_string(),
        ];
        table.add_row(cells.into_iter().chain(extra));
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_meter_takes_the_clock_off_and_skips_the_first_call() {
        let mut called = 0;
        let meter = Meter {
            repeat: 5,
            clock_ns: u64::MAX,
        };
        let figure = meter
            .figure("nothing", || {
                called += 1;
                Ok(())
            })
            .unwrap();
        assert_eq!((figure.median_ns, figure.max_ns, called), (0, 0, 6));
    }

    #[test]
    fn tables_relate_calls_to_getpid() {
        let figure = |name, median_ns| Figure {
            name,
            median_ns,
            max_ns: 2 * median_ns,
        };
        let text = render(&Figures {
            repeat: 10,
            clock_ns: 20,
            calls: vec![figure("getpid", 200), figure("STATS", 900)],
            class_change: vec![figure("ioctl returns", 1_500)],
            interrupts: vec![figure("trigger", 500)],
            waits: vec![figure("call with a probe", 1_100)],
            switches: vec![figure(switches::PLAIN, 2_000)],
            ready_system_calls: Some(0),
        });
        assert!(text.contains("STATS"), "{text}");
        assert!(text.contains("4.5"), "{text}");
        assert!(text.contains("ioctl returns"), "{text}");
        assert!(text.contains("call with a probe"), "{text}");
    }
}
