// SPDX-License-Identifier: MIT OR Apache-2.0
//! Prints the table of `Documentation/holder.rst`: `scripts/holder table`.

use std::sync::Arc;

use anyhow::{Context, Result};
use zernel_holder::assembler::{Assemblers, Release, RELEASES};
use zernel_holder::entry::Entry;
use zernel_holder::rules::{self, Graph};
use zernel_holder::variants::VARIANTS;
use zernel_holder::world::{worlds, World};
use zernel_holder::{ENTRY, HOLDER};

fn holder(assemblers: &Assemblers, release: &Release, target: u32) -> Result<Entry> {
    let assembled = assemblers.assemble(release, target, HOLDER)?;
    assembled.entry(ENTRY).context(ENTRY)
}

/// Registers, instructions, and those of them that are executed again for each look.
fn figures(assemblers: &Assemblers, release: &Release, target: u32) -> Result<[String; 3]> {
    if !release.targets.contains(&target) {
        return Ok(["-"; 3].map(Into::into));
    }
    let entry = holder(assemblers, release, target)?;
    let program = rules::read(&entry)?;
    let graph = Graph::new(&program.code);
    let registers = rules::registers(&entry.report).unwrap_or(0);
    Ok([
        registers.to_string(),
        graph.reachable.len().to_string(),
        graph.in_loops().to_string(),
    ])
}

/// Worlds and their states, for all targets together.
fn states(assemblers: &Assemblers) -> Result<(usize, usize)> {
    let (mut count, mut states) = (0, 0);
    for release in &RELEASES {
        for &target in release.targets {
            let entry = holder(assemblers, release, target)?;
            let worlds = worlds::all(&Arc::new(rules::read(&entry)?));
            count += worlds.len();
            states += worlds.into_iter().map(World::states).sum::<usize>();
        }
    }
    Ok((count, states))
}

fn main() -> Result<()> {
    let assemblers = Assemblers::find()?;
    let targets = RELEASES.iter().flat_map(|release| release.targets);
    let mut targets: Vec<u32> = targets.copied().collect();
    targets.sort_unstable();
    targets.dedup();
    let rule = ["="; 7].map(|one| one.repeat(11)).join("  ");
    for release in &RELEASES {
        println!("CUDA {}: {}", release.name, assemblers.version(release)?);
    }
    println!("\n{rule}");
    let row = |cells: &[String]| {
        let padded = cells.iter().map(|cell| format!("{cell:<11}"));
        let line = padded.collect::<Vec<_>>().join("  ");
        println!("{}", line.trim_end());
    };
    let heads = RELEASES.iter().flat_map(|release| {
        ["registers", "code", "loop"].map(|head| format!("{} {head}", release.name))
    });
    row(&[vec!["target".to_owned()], heads.collect()].concat());
    println!("{rule}");
    for target in targets {
        let mut cells = vec![format!("sm_{target}")];
        for release in &RELEASES {
            cells.extend(figures(&assemblers, release, target)?);
        }
        row(&cells);
    }
    println!("{rule}");
    let (count, states) = states(&assemblers)?;
    println!("\n{count} worlds with {states} states");
    println!("{} holders with a fault", VARIANTS.len());
    Ok(())
}
