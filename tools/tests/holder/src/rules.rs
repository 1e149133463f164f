// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rules for the code of the holder as a text: its resources, its accesses, its loops.

use std::collections::BTreeSet;

use crate::code::operand::{Place, Register};
use crate::code::{decode, Effect, Instruction, Scope, Unknown};
use crate::entry::Entry;
use crate::listing::{self, Listing};
use crate::machine::Program;
use crate::PARAMETERS;

/// The most registers that the holder may have.
pub const REGISTERS: u32 = 16;

/// Nanoseconds for which it may sleep between two looks.
pub const SLEEP: std::ops::RangeInclusive<u32> = 100..=500;

/// Code that cannot be read.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Unread {
    /// The text is no listing.
    #[error(transparent)]
    Listing(#[from] listing::Error),
    /// An instruction is not known.
    #[error(transparent)]
    Unknown(#[from] Unknown),
}

/// A rule that the code of the holder breaks.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Breach {
    /// A number of the assembler's report.
    #[error("{0} {1} (at most {2})")]
    TooMuch(u32, &'static str, u32),
    /// The report has none of these numbers.
    #[error("the assembler does not tell its {0}")]
    Untold(&'static str),
    /// A section of the cubin is memory.
    #[error("it has memory of its own: {0}")]
    Section(String),
    /// An access that the CPU need not see.
    #[error("instruction {0} accesses memory, but not at the scope of the system")]
    Narrow(usize),
    /// Not one store.
    #[error("{0} stores (one)")]
    Stores(usize),
    /// A store without a fence before it.
    #[error("its store is not a release")]
    NoRelease,
    /// A constant that is neither a parameter nor a word for the driver's own registers.
    #[error("instruction {0} reads a constant that is no parameter")]
    Constant(usize),
    /// A time to sleep.
    #[error("it sleeps for {0} ns (100 to 500)")]
    Sleep(u32),
    /// A loop without something.
    #[error("it has a loop without {0}")]
    Loop(&'static str),
    /// A path without an end.
    #[error("instruction {0} does not lead to an end")]
    NoEnd(usize),
    /// A path that leaves the code.
    #[error("instruction {0} leads out of the code")]
    Beyond(usize),
}

/// The code of an entry, ready to be executed.
///
/// # Errors
///
/// An instruction is not known.
pub fn read(entry: &Entry) -> Result<Program, Unread> {
    Ok(Program {
        code: decode(&Listing::parse(&entry.listing)?)?,
        parameters: entry.parameters,
        mark: (entry.target == 87).then_some(0),
    })
}

/// The rules that the code of an entry breaks; none is as it shall be.
///
/// # Errors
///
/// An instruction is not known.
pub fn breaches(entry: &Entry) -> Result<Vec<Breach>, Unread> {
    let program = read(entry)?;
    let mut found = resources(&entry.report);
    let own = |section: &&String| {
        let memory = [".nv.local.", ".nv.shared."].map(|kind| format!("{kind}{}", entry.name));
        memory.contains(section) || section.starts_with(".nv.global")
    };
    let sections = entry.sections.iter().filter(own);
    found.extend(sections.cloned().map(Breach::Section));
    let graph = Graph::new(&program.code);
    found.extend(accesses(&program, &graph));
    found.extend(loops(&program.code, &graph));
    Ok(found)
}

/// Numbers of `ptxas -v` and the most of each.
const RESOURCES: [(&str, u32); 5] = [
    ("registers", REGISTERS),
    ("bytes stack frame", 0),
    ("bytes spill stores", 0),
    ("bytes spill loads", 0),
    ("bytes gmem", 0),
];

/// Of which nothing is told if there is nothing.
const UNTOLD: [&str; 4] = ["barriers", "bytes smem", "bytes lmem", "textures"];

/// The registers that a report of the assembler tells.
pub fn registers(report: &str) -> Option<u32> {
    number(report, "registers")
}

fn number(report: &str, name: &str) -> Option<u32> {
    report.split([',', '\n']).find_map(|part| {
        let before = part.trim_end().strip_suffix(name)?;
        before.split_whitespace().last()?.parse().ok()
    })
}

/// The rules that a report of the assembler breaks.
pub fn resources(report: &str) -> Vec<Breach> {
    let mut found = Vec::new();
    for (name, most) in RESOURCES {
        match number(report, name) {
            Some(count) if count <= most => {}
            Some(count) => found.push(Breach::TooMuch(count, name, most)),
            None => found.push(Breach::Untold(name)),
        }
    }
    for name in UNTOLD {
        if let Some(count @ 1..) = number(report, name) {
            found.push(Breach::TooMuch(count, name, 0));
        }
    }
    found
}

/// The ways through a code.
pub struct Graph {
    next: Vec<Vec<usize>>,
    /// The instructions that can be executed.
    pub reachable: BTreeSet<usize>,
}

impl Graph {
    /// Of a code, from its first instruction on.
    pub fn new(code: &[Instruction]) -> Self {
        let one = |(index, instruction): (usize, &Instruction)| {
            let always = instruction.guard.of.is_none() && !instruction.guard.negated;
            let jump = match instruction.effect {
                Effect::Branch(to) => Some(to),
                _ => None,
            };
            let leaves = jump.is_some() || instruction.effect == Effect::Exit;
            let falls = (!(always && leaves)).then_some(index + 1);
            jump.into_iter().chain(falls).collect()
        };
        let next: Vec<Vec<usize>> = code.iter().enumerate().map(one).collect();
        let mut found = Self {
            next,
            reachable: BTreeSet::new(),
        };
        found.reachable = found.from(0, |_| true);
        found
    }

    /// All that can be executed from an instruction on, itself included, by way of some alone.
    fn from(&self, first: usize, way: impl Fn(usize) -> bool) -> BTreeSet<usize> {
        let mut found = BTreeSet::new();
        let mut left = vec![first];
        while let Some(index) = left.pop() {
            if way(index) && found.insert(index) {
                left.extend(self.next.get(index).into_iter().flatten());
            }
        }
        found
    }

    /// True if there is a loop that has none of these instructions.
    fn loops_without(&self, these: impl Fn(usize) -> bool) -> bool {
        let mut rest = self.reachable.iter().filter(|&&index| !these(index));
        rest.any(|&index| self.again(index, |index| !these(index)))
    }

    /// The instructions of the loops: those that can be executed again.
    pub fn in_loops(&self) -> usize {
        let again = |index: &&usize| self.again(**index, |_| true);
        self.reachable.iter().filter(again).count()
    }

    /// True if an instruction can be executed again, by way of some alone.
    fn again(&self, index: usize, way: impl Fn(usize) -> bool) -> bool {
        let mut next = self.next.get(index).into_iter().flatten();
        next.any(|&next| self.from(next, &way).contains(&index))
    }
}

fn accesses(program: &Program, graph: &Graph) -> Vec<Breach> {
    let code = &program.code;
    let fence = Effect::Fence {
        scope: Scope::System,
    };
    let unfenced = graph.from(0, |index| !is(code, index, |effect| effect == fence));
    let mut found = Vec::new();
    let mut stores = 0;
    for (index, effect) in reachable(code, graph) {
        match effect {
            Effect::Load { scope, .. } | Effect::Store { scope, .. } if scope != Scope::System => {
                found.push(Breach::Narrow(index));
            }
            Effect::Store { .. } if unfenced.contains(&index) => found.push(Breach::NoRelease),
            _ => {}
        }
        stores += usize::from(matches!(effect, Effect::Store { .. }));
        if strange_constant(effect, program.parameters) {
            found.push(Breach::Constant(index));
        }
    }
    if stores != 1 {
        found.push(Breach::Stores(stores));
    }
    found
}

fn is(code: &[Instruction], index: usize, matching: impl Fn(Effect) -> bool) -> bool {
    code.get(index).is_some_and(|found| matching(found.effect))
}

fn reachable<'a>(
    code: &'a [Instruction],
    graph: &'a Graph,
) -> impl Iterator<Item = (usize, Effect)> + 'a {
    let found = graph.reachable.iter();
    found.filter_map(|&index| Some((index, code.get(index)?.effect)))
}

/// Words of the driver are for two uses: the top of the stack, in R1, and the descriptor of memory,
/// which [`crate::machine`] lets nobody reckon with.
fn strange_constant(effect: Effect, parameters: u16) -> bool {
    let sources = match effect {
        Effect::Move { from, .. } => vec![from],
        Effect::Add { of, .. } => of.to_vec(),
        Effect::Compare { of, .. } | Effect::Select { of, .. } | Effect::Extreme { of, .. } => {
            of.to_vec()
        }
        Effect::Store { value, .. } => vec![value],
        _ => Vec::new(),
    };
    let own = parameters..parameters + PARAMETERS;
    sources.iter().any(|source| match (source.place, effect) {
        (Place::Constant(offset), _) if own.contains(&offset) => false,
        (Place::Constant(offset), Effect::Move { to, .. }) if offset < parameters => {
            !to.is_some_and(is_driver)
        }
        (Place::Constant(_), _) => true,
        _ => false,
    })
}

fn is_driver(register: Register) -> bool {
    use crate::code::operand::File;
    register.file == File::Warp || register.index == 1
}

fn loops(code: &[Instruction], graph: &Graph) -> Vec<Breach> {
    let load = |effect| matches!(effect, Effect::Load { .. });
    let timer = |effect| matches!(effect, Effect::Timer { .. });
    let sleep = |effect| matches!(effect, Effect::Sleep(_));
    let mut found = Vec::new();
    let mut each = |name, matching: &dyn Fn(Effect) -> bool| {
        if graph.loops_without(|index| is(code, index, matching)) {
            found.push(Breach::Loop(name));
        }
    };
    each("a look at release", &load);
    each("a look at the timer", &timer);
    each("sleep", &sleep);
    for &index in &graph.reachable {
        if index >= code.len() {
            found.push(Breach::Beyond(index));
            continue;
        }
        if let Effect::Sleep(time) = code[index].effect {
            if !SLEEP.contains(&time) {
                found.push(Breach::Sleep(time));
            }
        }
        let onwards = graph.from(index, |_| true);
        if !onwards
            .iter()
            .any(|&next| is(code, next, |effect| effect == Effect::Exit))
        {
            found.push(Breach::NoEnd(index));
        }
    }
    found
}

#[cfg(test)]
mod tests;
