// SPDX-License-Identifier: MIT OR Apache-2.0
//! `probe`: functions of a library in which threads wait for the GPU.

use std::fs::{self, File};
use std::path::Path;

use anyhow::{Context as _, Result};
use libzernel::Zernel;
use serde::Serialize;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::{output, symbols};

/// A function that is probed.
#[derive(Serialize)]
struct Probed<'a> {
    /// Handle of the probe.
    probe: u32,
    /// The function, if it was named.
    symbol: Option<&'a str>,
    /// Where it begins in the file.
    offset: u64,
}

/// Probes functions, says so, and stays until it is interrupted.
pub fn probe(
    zernel: &Zernel,
    library: &Path,
    names: &[String],
    offsets: &[u64],
    json: bool,
) -> Result<()> {
    let shown = library.display();
    let mut places = Vec::new();
    if !names.is_empty() {
        let file = fs::read(library).with_context(|| format!("cannot read {shown}"))?;
        let symbols = symbols::Symbols::of(&file).with_context(|| format!("{shown}"))?;
        for name in names {
            let offset = symbols.offset(name);
            places.push((
                Some(name.as_str()),
                offset.with_context(|| format!("{shown}"))?,
            ));
        }
    }
    places.extend(offsets.iter().map(|&offset| (None, offset)));
    let file = File::open(library).with_context(|| format!("cannot open {shown}"))?;
    // First, so that no signal is missed.
    let mut signals = Signals::new([SIGHUP, SIGINT, SIGTERM])?;
    let mut probed = Vec::new();
    for (symbol, offset) in places {
        let probe = zernel
            .add_probe(&file, offset)
            .with_context(|| match symbol {
                Some(symbol) => format!("{symbol} at offset {offset:#x} of {shown}"),
                None => format!("offset {offset:#x} of {shown}"),
            })?;
        probed.push(Probed {
            probe,
            symbol,
            offset,
        });
    }
    if json {
        output::json(&probed)?;
    } else {
        output::text(&table(&probed))?;
        output::text("Until interrupted, tracked threads in these functions wait for the GPU.")?;
    }
    signals.forever().next();
    Ok(())
}

fn table(probed: &[Probed<'_>]) -> String {
    let rows = probed.iter().map(|one| {
        vec![
            one.probe.to_string(),
            format!("{:#x}", one.offset),
            one.symbol.unwrap_or("-").to_owned(),
        ]
    });
    output::table(["PROBE", "OFFSET", "SYMBOL"], |name| name != "SYMBOL", rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_line_up() {
        let one = |probe, symbol, offset| Probed {
            probe,
            symbol,
            offset,
        };
        let text = table(&[one(1, Some("cuCtxSynchronize"), 0x1234), one(12, None, 7)]);
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(
            lines,
            [
                "PROBE  OFFSET  SYMBOL",
                "    1  0x1234  cuCtxSynchronize",
                "   12     0x7  -"
            ]
        );
    }
}
