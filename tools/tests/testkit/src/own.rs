// SPDX-License-Identifier: MIT OR Apache-2.0
//! Functions of the running program as places in its file, which is where probes are.

use std::fs::{self, File};

use anyhow::{bail, Context as _, Result};

/// The program's own file, and the offset in it of the function at `address`.
pub fn place_of(address: usize) -> Result<(File, u64)> {
    for line in fs::read_to_string("/proc/self/maps")?.lines() {
        let fields: Vec<_> = line.splitn(4, ' ').collect();
        let (start, end) = fields[0].split_once('-').context("a range")?;
        let hex = |text| usize::from_str_radix(text, 16);
        if (hex(start)?..hex(end)?).contains(&address) {
            let offset = address - hex(start)? + hex(fields[2])?;
            return Ok((File::open("/proc/self/exe")?, offset as u64));
        }
    }
    bail!("{address:#x} is mapped nowhere");
}
