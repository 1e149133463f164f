// SPDX-License-Identifier: MIT OR Apache-2.0
//! The true state: as the software resource manager tells it, and as the hook's table has it.

use std::collections::BTreeMap;
use std::fs;

use anyhow::{bail, ensure, Context as _, Result};

use super::abi::engine;
use super::Handle;

/// Where the software resource manager tells how many objects there are.
const COUNTS: &str = "/sys/module/nvidia/parameters/simrm_counts";
/// Where it tells what it was asked for.
const CALLS: &str = "/sys/module/nvidia/parameters/simrm_calls";
/// Where it tells more.
const RM: &str = "/sys/kernel/debug/simrm";
/// Where the provider shows what the hook's table holds.
const TABLE: &str = "/sys/kernel/debug/zernel_nvidia/counts";

/// Names that both tell, and that must agree when nothing is under way.
pub const COMMON: [&str; 8] = [
    "files",
    "clients",
    "devices",
    "subdevices",
    "tsg_handles",
    "tsgs",
    "channels",
    "gpus",
];

/// The number of each kind of object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Counts(BTreeMap<String, u64>);

impl Counts {
    /// Of the resource manager.
    pub fn of_rm() -> Result<Self> {
        Self::read(COUNTS)
    }

    /// Of the hook's table.
    pub fn of_table() -> Result<Self> {
        Self::read(TABLE)
    }

    fn read(path: &str) -> Result<Self> {
        let text = fs::read_to_string(path).with_context(|| path.to_owned())?;
        Self::parse(&text).with_context(|| path.to_owned())
    }

    fn parse(text: &str) -> Result<Self> {
        text.lines()
            .map(|line| {
                let (name, value) = line.split_once(' ').context("a line without a value")?;
                let value = value.trim().parse();
                Ok((name.to_owned(), value.with_context(|| line.to_owned())?))
            })
            .collect::<Result<_>>()
            .map(Self)
    }

    /// The number of that name.
    pub fn get(&self, name: &str) -> Result<u64> {
        let value = self.0.get(name).copied();
        value.with_context(|| format!("nothing is told of {name}"))
    }

    /// Fails unless the other side tells the same of every common kind.
    pub fn agree(&self, table: &Self) -> Result<()> {
        for name in COMMON {
            let (here, there) = (self.get(name)?, table.get(name)?);
            ensure!(
                here == there,
                "{name}: the resource manager has {here}, the table {there}\n\
                 resource manager: {:?}\ntable: {:?}",
                self.0,
                table.0
            );
        }
        let forgotten = table.get("forgotten")?;
        ensure!(forgotten == 0, "the table has forgotten {forgotten}");
        Ok(())
    }

    /// Fails unless there is no object of user space.
    pub fn nothing(&self) -> Result<()> {
        for name in COMMON.iter().filter(|name| **name != "gpus") {
            let count = self.get(name)?;
            ensure!(count == 0, "{name}: {count} are left");
        }
        Ok(())
    }
}

/// A TSG as the resource manager holds it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tsg {
    /// The driver's number of its GPU.
    pub gpu: u32,
    /// Where the registers of its run list are.
    pub runlist: u32,
    /// Its number, one of its engine type.
    pub number: u32,
    /// Its engine.
    pub engine: u32,
    /// Time slice in microseconds.
    pub slice_us: u64,
    /// Interleave level.
    pub interleave: u32,
    /// Preemptions.
    pub preempts: u32,
    /// Times that its run list was restarted for it.
    pub restarts: u32,
    /// A compute or 3D object was made on it.
    pub computes: bool,
    /// Channels.
    pub channels: u32,
    /// Of these, how many are disabled.
    pub disabled: u32,
    /// Their numbers on the run list, in the order of their making.
    pub chids: Vec<u32>,
    /// The engine's name of it; 0 if that has it not.
    pub attached: u64,
    /// Clients and their handles of it.
    pub handles: Vec<(Handle, Handle)>,
    /// It has no handle: it was made for a channel.
    pub hidden: bool,
}

impl Tsg {
    /// The engine that zernel is to see: what computes is on one that can, whatever it was made
    /// for.
    pub fn seen_engine(&self) -> u32 {
        if self.computes {
            engine::GR0
        } else {
            self.engine
        }
    }

    fn parse(line: &str) -> Result<Self> {
        let mut fields = BTreeMap::new();
        for word in line.split_whitespace() {
            let (name, value) = word.split_once('=').context("a word without a value")?;
            fields.insert(name, value);
        }
        let text = |name: &str| {
            let value = fields.get(name).copied();
            value.with_context(|| format!("nothing is told of {name}"))
        };
        let field = |name: &str| number(text(name)?);
        let handles = text("handles")?;
        let hidden = handles == "hidden";
        let pair = |pair: &str| -> Result<(Handle, Handle)> {
            let (client, object) = pair.split_once(':').context("a handle without a client")?;
            Ok((
                Handle(u32::try_from(number(client)?)?),
                Handle(u32::try_from(number(object)?)?),
            ))
        };
        let pairs = handles.split(',').filter(|text| !text.is_empty());
        Ok(Self {
            gpu: u32::try_from(field("gpu")?)?,
            runlist: u32::try_from(field("runlist")?)?,
            number: u32::try_from(field("tsg")?)?,
            engine: u32::try_from(field("engine")?)?,
            slice_us: field("slice_us")?,
            interleave: u32::try_from(field("interleave")?)?,
            preempts: u32::try_from(field("preempts")?)?,
            restarts: u32::try_from(field("restarts")?)?,
            computes: field("computes")? != 0,
            channels: u32::try_from(field("channels")?)?,
            disabled: u32::try_from(field("disabled")?)?,
            chids: text("chids")?
                .split(',')
                .filter(|text| !text.is_empty())
                .map(|text| Ok(u32::try_from(number(text)?)?))
                .collect::<Result<_>>()?,
            attached: field("attached")?,
            handles: if hidden {
                Vec::new()
            } else {
                pairs.map(pair).collect::<Result<_>>()?
            },
            hidden,
        })
    }
}

fn number(text: &str) -> Result<u64> {
    let parsed = match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => text.parse(),
    };
    parsed.with_context(|| format!("{text} is no number"))
}

/// All TSGs that have handles.
pub fn tsgs() -> Result<Vec<Tsg>> {
    let path = format!("{RM}/tsgs");
    let text = fs::read_to_string(&path).context(path)?;
    let all: Result<Vec<Tsg>> = text
        .lines()
        .map(|line| Tsg::parse(line).with_context(|| line.to_owned()))
        .collect();
    Ok(all?.into_iter().filter(|tsg| !tsg.hidden).collect())
}

/// The TSG that a client knows by a handle.
pub fn tsg(client: Handle, object: Handle) -> Result<Tsg> {
    let mut all = tsgs()?.into_iter();
    match all.find(|tsg| tsg.handles.contains(&(client, object))) {
        Some(tsg) => Ok(tsg),
        None => bail!("the resource manager holds no TSG {client:?}:{object:?}"),
    }
}

/// Subdevices that have set the policy of the run lists of their GPU.
pub fn policies() -> Result<u64> {
    let path = format!("{RM}/gpus");
    let text = fs::read_to_string(&path).context(path)?;
    let words = text.split_whitespace();
    words
        .filter_map(|word| word.strip_prefix("interleaved="))
        .map(number)
        .sum()
}

/// The registers of a run list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// The type of its engine.
    pub engine: u32,
    /// Its address, by which it is known.
    pub runlist: u32,
    /// That of its channels.
    pub channels: u32,
}

/// The registers of all run lists.
pub fn places() -> Result<Vec<Place>> {
    let path = format!("{RM}/engines");
    let text = fs::read_to_string(&path).context(path)?;
    let place = |line: &str| {
        let mut values = line.split_whitespace().map(|word| {
            let (_, value) = word.split_once('=').context("a word without a value")?;
            Ok(u32::try_from(number(value)?)?)
        });
        let mut next = || values.next().unwrap_or_else(|| bail!("{line}: too short"));
        let (engine, _number) = (next()?, next()?);
        Ok(Place {
            engine,
            runlist: next()?,
            channels: next()?,
        })
    };
    text.lines().map(place).collect()
}

/// The registers of a run list.
pub fn registers(runlist: u32) -> Result<Place> {
    let place = places()?.into_iter().find(|place| place.runlist == runlist);
    place.with_context(|| format!("no registers are told of run list {runlist:#x}"))
}

/// Calls of the kernel to the resource manager for a TSG that was gone, since it was loaded, and
/// the last four of them: control, client, object, status, thread.
pub fn dead_calls() -> Result<(u64, String)> {
    let text = fs::read_to_string(CALLS).context(CALLS)?;
    let dead = text.lines().find_map(|line| line.strip_prefix("dead "));
    let dead = dead.context("nothing is told of dead handles")?;
    let (count, last) = dead.split_once(' ').context("no last call is told")?;
    Ok((number(count)?, last.to_owned()))
}

/// Calls of the kernel for a control, since the resource manager was loaded.
pub fn kernel_calls(control: u32) -> Result<u64> {
    let text = fs::read_to_string(CALLS).context(CALLS)?;
    for line in text.lines() {
        let words: Vec<_> = line.split_whitespace().collect();
        if let [cmd, "kernel", count, "user", _] = words[..] {
            if number(cmd)? == u64::from(control) {
                return number(count);
            }
        }
    }
    Ok(0)
}

/// Fails if something of the real resource manager was called that the software one lacks.
pub fn no_stub_was_called() -> Result<()> {
    let path = format!("{RM}/stubs");
    let text = fs::read_to_string(&path).context(path)?;
    ensure!(text.is_empty(), "stubs were called: {text}");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_read() {
        let line = "gpu=0x100000 runlist=1 tsg=3 engine=1 computes=1 slice_us=1024 \
                    interleave=1 scheduled=0 preempts=0 restarts=4 channels=2 disabled=1 \
                    process=77 attached=0x40000 chids=0,2 handles=0xc1d00001:0x5,0x1:0x6";
        let tsg = Tsg::parse(line).unwrap();
        assert_eq!((tsg.gpu, tsg.number, tsg.slice_us), (0x10_0000, 3, 1024));
        assert_eq!(
            tsg.handles,
            [(Handle(0xc1d0_0001), Handle(5)), (Handle(1), Handle(6))]
        );
        assert_eq!((tsg.restarts, tsg.channels, tsg.disabled), (4, 2, 1));
        assert!(tsg.computes && !tsg.hidden);
        assert_eq!((tsg.chids, tsg.restarts), (vec![0, 2], 4));
        assert_eq!(tsg.attached, 0x4_0000);
    }

    #[test]
    fn a_line_that_lacks_something_is_an_error() {
        assert!(Tsg::parse("gpu=1 runlist=1").is_err());
        assert!(Counts::parse("clients").is_err());
        assert!(Counts::parse("clients many").is_err());
    }

    #[test]
    fn counts_that_differ_are_an_error() {
        let text = |tsgs| {
            COMMON
                .iter()
                .map(|name| format!("{name} {}\n", if *name == "tsgs" { tsgs } else { 1 }))
                .chain(["forgotten 0\n".to_owned()])
                .collect::<String>()
        };
        let one = Counts::parse(&text(1)).unwrap();
        let two = Counts::parse(&text(2)).unwrap();
        assert!(one.agree(&one.clone()).is_ok());
        assert!(one.agree(&two).is_err());
        assert!(one.nothing().is_err());
    }
}
