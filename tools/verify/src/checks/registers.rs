// SPDX-License-Identifier: MIT OR Apache-2.0
//! Registers: what a read costs, and if they tell.

use anyhow::{Context as _, Result};
use libzernel::Level;

use crate::check::Check;
use crate::debugfs::{self, Line};
use crate::figure::{Figures, Range, Unit};
use crate::lab::Lab;
use crate::work::not_here;

/// The check.
pub const CHECK: Check = Check {
    name: "registers",
    asks: "May the kernel read the registers of run lists, and what does it cost?",
    seconds: 20,
    slices: &[],
    run,
};

const TOLD: &str = "driver: NV_CHRAM_CHANNEL, NV_PCCSR_CHANNEL; under GSP not known for Turing";
const COST: &str = "a read over PCIe: about 1 us";

/// Bits of `NV_CHRAM_CHANNEL` of a channel with work: on the engine or fetched, pending, to be loaded.
const CHRAM_WORK: u32 = 1 << 6 | 1 << 7 | 1 << 8 | 1 << 9;

/// The words of a TSG's channels.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Words {
    is_pccsr: bool,
    words: Vec<u32>,
}

impl Words {
    /// Of a TSG, by its provider's number; `None` where registers tell nothing.
    pub fn of_tsg(tsg: i64) -> Result<Option<Self>> {
        let lines = debugfs::lines("registers")?;
        Ok(debugfs::of_tsg(&lines, tsg)?.and_then(Self::of_line))
    }

    fn of_line(line: &Line) -> Option<Self> {
        let words = line.text("words")?.split(',');
        let hex = |word: &str| u32::from_str_radix(word.strip_prefix("0x")?, 16).ok();
        Some(Self {
            is_pccsr: line.text("kind") == Some("pccsr"),
            words: words.map(hex).collect::<Option<_>>()?,
        })
    }

    /// True if a channel has work, or may have.
    pub fn has_work(&self) -> bool {
        self.words.iter().any(|word| match self.is_pccsr {
            true => (word >> 24) & 0xf != 0,
            false => word & CHRAM_WORK != 0,
        })
    }
}

fn run(lab: &Lab<'_>, figures: &mut Figures) -> Result<()> {
    let gpu = debugfs::handle("gpu", lab.gpu()?.id.as_u64())?;
    let _context = lab.context(Level::BE)?;
    let rounds = lab.count(50, 5);
    let [mut one, mut many, mut each, mut looks] = [const { Vec::new() }; 4];
    let (mut told, mut read) = (0, 0);
    for _ in 0..rounds {
        let lines = debugfs::lines("registers")?;
        let line = debugfs::of_gpu(&lines, gpu)?.context("the GPU is not told of")?;
        if let Some(why) = line.text("unread") {
            return not_here(format!("nothing is read of this GPU: {why}"));
        }
        let ns = |name: &str| anyhow::Ok(line.needs(name)? as f64);
        one.push(ns("one_ns")?);
        many.push(ns("many_ns")?);
        each.push(ns("read_ns")?);
        read += usize::try_from(line.needs("reads")?)?;
        told += usize::try_from(line.needs("told")?)?;
        for line in lines.iter().filter(|line| line.text("tsg").is_some()) {
            if line.number("gpu")? == Some(gpu) {
                read += usize::try_from(line.needs("reads")?)?;
                told += usize::try_from(line.needs("told")?)?;
                looks.extend(line.number("look_ns")?.map(|ns| ns as f64));
            }
        }
    }
    figures.always("told", told, read, TOLD);
    let range = Range::new(200.0, 3_000.0);
    figures.cost("read", Unit::Nanoseconds, &each, range, COST);
    figures.first("call_of_one_read", Unit::Nanoseconds, &one);
    figures.first("call_of_fifteen_reads", Unit::Nanoseconds, &many);
    figures.first("look_at_a_tsg", Unit::Nanoseconds, &looks);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(is_pccsr: bool, words: &[u32]) -> bool {
        Words {
            is_pccsr,
            words: words.to_vec(),
        }
        .has_work()
    }

    #[test]
    fn channels_with_work_are_told_from_idle_ones() {
        assert!(!words(false, &[0x2, 0x0]));
        assert!(words(false, &[0x2, 0x102]));
        assert!(words(false, &[0x200]));
        assert!(!words(true, &[0x1]));
        assert!(words(true, &[0x0100_0001]));
    }
}
