// SPDX-License-Identifier: MIT OR Apache-2.0
//! The costs of calls of the driver, and of what zernel does beside them; under icount, in instructions
//! of the guest.

mod observation;

use std::fs;
use std::hint::black_box;
use std::time::Duration;

use anyhow::{bail, ensure, Context as _, Result};
use comfy_table::presets::UTF8_FULL_CONDENSED;
use comfy_table::{CellAlignment, Table};
use libzernel::{Level, Target, Timestamp, Zernel};
use serde::{Deserialize, Serialize};

use crate::lab::make_nodes;
use crate::options;
use crate::rm::abi::{class, control, engine, IdInfo};
use crate::rm::{Handle, Runtime};

/// The cost of one call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Figure {
    name: String,
    ns: u64,
}

/// All that was measured of one driver.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Measurement {
    what: What,
    label: String,
    figures: Vec<Figure>,
}

/// The kind of costs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
enum What {
    /// The medians of calls.
    Calls,
    /// Looks at registers, and records.
    Observation,
}

impl What {
    fn title(self) -> &'static str {
        match self {
            Self::Calls => "Cost of the driver's calls in ns (under icount: instructions), median",
            Self::Observation => {
                "Cost of looks at TSGs and of records in ns (under icount: instructions)"
            }
        }
    }
}

struct Meter {
    repeat: u32,
    clock_ns: u64,
    figures: Vec<Figure>,
}

impl Meter {
    fn new(repeat: u32) -> Result<Self> {
        ensure!(repeat > 0, "--repeat is 0; give it 1 or more");
        let mut meter = Self {
            repeat,
            clock_ns: 0,
            figures: Vec::new(),
        };
        meter.clock_ns = meter.median(|| Ok(()))?;
        Ok(meter)
    }

    fn median<T>(&self, mut call: impl FnMut() -> Result<T>) -> Result<u64> {
        // The first calls pay for first uses of code and data.
        for _ in 0..3 {
            call()?;
        }
        let mut samples = (0..self.repeat)
            .map(|_| {
                let before = Timestamp::now();
                black_box(call()?);
                Ok(Timestamp::now().since(before).as_nanos() as u64)
            })
            .collect::<Result<Vec<_>>>()?;
        samples.sort_unstable();
        Ok(samples[samples.len() / 2].saturating_sub(self.clock_ns))
    }

    fn measure<T>(&mut self, name: &str, call: impl FnMut() -> Result<T>) -> Result<()> {
        let ns = self.median(call).with_context(|| name.to_owned())?;
        self.figures.push(Figure {
            name: name.to_owned(),
            ns,
        });
        Ok(())
    }
}

/// Measures everything and writes it as one line of JSON.
pub fn run(options: &options::Bench) -> Result<()> {
    make_nodes()?;
    let (what, figures) = match options.observation {
        true => (What::Observation, observation::figures()?),
        false => (What::Calls, figures(options)?),
    };
    let measurement = Measurement {
        what,
        label: options.label.clone(),
        figures,
    };
    println!("{}", serde_json::to_string(&measurement)?);
    Ok(())
}

fn figures(options: &options::Bench) -> Result<Vec<Figure>> {
    let runtime = Runtime::open()?;
    let mut meter = Meter::new(options.repeat)?;
    let tsg = runtime.compute()?;
    calls(&mut meter, &runtime, tsg)?;
    if options.classed {
        let zernel = Zernel::open()?;
        zernel.set_class(&Target::current_process(), Level::BE)?;
        let end = Timestamp::now() + Duration::from_secs(5);
        // 200 µs, or 50 with turns.
        while runtime.timeslice(tsg)? > 200 {
            ensure!(Timestamp::now() < end, "zernel does not class the TSG");
            std::thread::sleep(Duration::from_millis(1));
        }
        let name = "TSG SET_TIMESLICE, classed (denied)";
        meter.measure(name, || match runtime.set_timeslice(tsg, 1_024) {
            Err(_) => Ok(()),
            Ok(()) => bail!("the call was not denied"),
        })?;
        zernel.clear_class(&Target::current_process())?;
    }
    Ok(meter.figures)
}

fn calls(meter: &mut Meter, runtime: &Runtime, tsg: Handle) -> Result<()> {
    meter.measure("getpid", || Ok(rustix::process::getpid()))?;
    meter.measure("CONTROL, not followed", || {
        let mut info = IdInfo {
            gpu_id: runtime.card.gpu_id,
            ..IdInfo::default()
        };
        Ok(runtime.control(runtime.client, control::ID_INFO, &mut info)?)
    })?;
    meter.measure("TSG GET_TIMESLICE", || Ok(runtime.timeslice(tsg)?))?;
    meter.measure("TSG SET_TIMESLICE", || {
        Ok(runtime.set_timeslice(tsg, 1_024)?)
    })?;
    const MEMORY: u32 = 0x3e;
    meter.measure("ALLOC + FREE, not followed", || {
        let object = runtime.make(runtime.device, MEMORY, &mut [0; 128])?;
        Ok(runtime.free(object)?)
    })?;
    meter.measure("client ALLOC + FREE", || {
        let client = runtime.file.client()?;
        Ok(runtime.file.free(client, client)?)
    })?;
    meter.measure("TSG ALLOC + FREE", || {
        let tsg = runtime.tsg(engine::GR0)?;
        Ok(runtime.free(tsg)?)
    })?;
    meter.measure("channel ALLOC + FREE", || {
        let channel = runtime.channel(tsg)?;
        Ok(runtime.free(channel)?)
    })?;
    let channel = runtime.channel(tsg)?;
    meter.measure("compute object ALLOC + FREE", || {
        let object = runtime.make(channel, class::COMPUTE, &mut [])?;
        Ok(runtime.free(object)?)
    })?;
    runtime.free(channel)?;
    Ok(())
}

/// Shows measurements of a kind beside each other: the first, and how much more the others cost.
pub fn table(options: &options::Table) -> Result<()> {
    let path = options.file.display();
    let text = fs::read_to_string(&options.file).with_context(|| path.to_string())?;
    let all = text
        .lines()
        .filter(|line| line.starts_with('{'))
        .map(|line| serde_json::from_str(line).with_context(|| format!("{path}: {line}")))
        .collect::<Result<Vec<Measurement>>>()?;
    ensure!(!all.is_empty(), "{path}: the file has no measurements");
    for what in [What::Calls, What::Observation] {
        let mut some = all.iter().filter(|one| one.what == what).peekable();
        if some.peek().is_some() {
            println!("{}", render(what, &some.collect::<Vec<_>>())?);
        }
    }
    let mut observed = all.iter().filter(|one| one.what == What::Observation);
    observed.try_for_each(|one| observation::judge(&one.figures))
}

fn render(what: What, all: &[&Measurement]) -> Result<String> {
    let (first, others) = all.split_first().context("there are no measurements")?;
    let mut names: Vec<_> = first.figures.iter().map(|f| f.name.clone()).collect();
    for figure in others.iter().flat_map(|other| &other.figures) {
        if !names.contains(&figure.name) {
            names.push(figure.name.clone());
        }
    }
    let of = |measurement: &Measurement, name: &str| {
        let mut figures = measurement.figures.iter();
        figures.find(|f| f.name == name).map(|f| f.ns)
    };
    let mut table = Table::new();
    let header = ["call".to_owned(), first.label.clone()].into_iter();
    let more = others
        .iter()
        .flat_map(|other| [other.label.clone(), "more".to_owned()]);
    table
        .load_preset(UTF8_FULL_CONDENSED)
        .set_header(header.chain(more));
    for name in names {
        let base = of(first, &name);
        let show = |value: Option<u64>| value.map_or("-".to_owned(), |value| value.to_string());
        let mut row = vec![name.clone(), show(base)];
        for other in others {
            let value = of(other, &name);
            row.push(show(value));
            row.push(match (base, value) {
                (Some(base), Some(value)) => format!("{:+}", value as i64 - base as i64),
                _ => "-".to_owned(),
            });
        }
        table.add_row(row);
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    Ok(format!("{}\n{table}", what.title()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measurement(label: &str, figures: &[(&str, u64)]) -> Measurement {
        Measurement {
            what: What::Calls,
            label: label.to_owned(),
            figures: figures
                .iter()
                .map(|&(name, ns)| Figure {
                    name: name.to_owned(),
                    ns,
                })
                .collect(),
        }
    }

    #[test]
    fn differences_are_to_the_first() {
        let plain = measurement("plain", &[("FREE", 900), ("GET", 500)]);
        let patched = measurement("patched", &[("FREE", 1_000), ("GET", 490), ("NEW", 7)]);
        let text = render(What::Calls, &[&plain, &patched]).unwrap();
        assert!(text.contains("+100"), "{text}");
        assert!(text.contains("-10"), "{text}");
        assert!(text.contains("NEW"), "{text}");
    }

    #[test]
    fn nothing_is_an_error() {
        assert!(render(What::Calls, &[]).is_err());
    }
}
