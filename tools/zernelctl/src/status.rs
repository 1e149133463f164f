// SPDX-License-Identifier: MIT OR Apache-2.0
//! `status` and `stats`.

use std::collections::BTreeMap;
use std::fmt::Write;

use anyhow::Result;
use libzernel::{Gpu, Info, Stats, Tsg, Zernel};
use serde::Serialize;

use crate::{list, output};

/// The whole at a glance.
#[derive(Debug, Serialize)]
struct Status {
    module: Info,
    gpus: Vec<Gpu>,
    /// The same, a moment earlier.
    #[serde(skip)]
    before: Vec<Gpu>,
    tsgs: usize,
    /// Compute TSGs by the level in force.
    levels: BTreeMap<String, usize>,
    stats: Stats,
}

/// Shows the whole at a glance.
pub fn status(zernel: &Zernel, json: bool) -> Result<()> {
    let tsgs = zernel.tsgs().collect::<libzernel::Result<Vec<_>>>()?;
    let (before, gpus) = list::look_twice(zernel)?;
    let status = Status {
        module: zernel.info()?,
        gpus,
        before,
        tsgs: tsgs.len(),
        levels: by_level(&tsgs),
        stats: zernel.stats()?,
    };
    if json {
        return output::json(&status);
    }
    output::text(&describe(&status))
}

/// Shows the module's counters.
pub fn stats(zernel: &Zernel, json: bool) -> Result<()> {
    let stats = zernel.stats()?;
    if json {
        return output::json(&stats);
    }
    let rows = stats
        .entries()
        .map(|(name, value)| vec![name.to_owned(), value.to_string()]);
    output::text(&output::table(
        ["COUNTER", "VALUE"],
        |name| name == "VALUE",
        rows,
    ))
}

fn by_level(tsgs: &[Tsg]) -> BTreeMap<String, usize> {
    let mut levels = BTreeMap::new();
    for tsg in tsgs.iter().filter(|tsg| tsg.compute) {
        let name = tsg
            .level
            .map_or("none".to_owned(), |level| level.to_string());
        *levels.entry(name).or_default() += 1;
    }
    levels
}

fn describe(status: &Status) -> String {
    let module = &status.module;
    let mut text = format!(
        "zernel: ABI {}, loaded at {}, classes {}\n",
        module.abi,
        module.loaded_at,
        if module.enabled {
            "applied"
        } else {
            "switched off (tunable enabled)"
        },
    );
    let levels: Vec<_> = status
        .levels
        .iter()
        .map(|(level, count)| match level.as_str() {
            "none" => format!("{count} not classed"),
            level => format!("{count} {level}"),
        })
        .collect();
    // Writing to a string cannot fail.
    let _ = writeln!(
        text,
        "TSGs:   {} that you may see; compute: {}",
        status.tsgs,
        if levels.is_empty() {
            "none".to_owned()
        } else {
            levels.join(", ")
        },
    );
    let stats = &status.stats;
    let _ = writeln!(
        text,
        "work:   {} classes set, {} slices applied, {} retries, {} errors, {} denied\n",
        stats.classes_set, stats.applied, stats.retries, stats.errors, stats.denied,
    );
    text.push_str(&list::gpu_table(&status.before, &status.gpus));
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::list::tests::tsg;
    use libzernel::sys::abi;
    use libzernel::Level;

    fn status_of(tsgs: &[Tsg]) -> Status {
        let stats: abi::zernel_system_info = bytemuck::Zeroable::zeroed();
        Status {
            module: Info::from(&abi::zernel_info {
                abi: 1,
                gpus_max: 64,
                ..bytemuck::Zeroable::zeroed()
            }),
            gpus: Vec::new(),
            before: Vec::new(),
            tsgs: tsgs.len(),
            levels: by_level(tsgs),
            stats: Stats::from(&stats),
        }
    }

    #[test]
    fn levels_are_counted() {
        let tsgs = [
            tsg(1, Some(Level::LC)),
            tsg(2, Some(Level::BE)),
            tsg(3, Some(Level::BE)),
            tsg(4, None),
        ];
        let text = describe(&status_of(&tsgs));
        assert!(
            text.contains("compute: 2 be, 1 lc, 1 not classed"),
            "{text}"
        );
        assert!(text.contains("switched off"), "{text}");
        assert!(text.contains("no provider"), "{text}");
    }

    #[test]
    fn json_holds_every_part() {
        let json = serde_json::to_value(status_of(&[tsg(1, None)])).unwrap();
        assert_eq!(json["module"]["gpus_max"], 64);
        assert_eq!(json["levels"]["none"], 1);
        assert_eq!(json["stats"]["events_dropped"], 0);
        assert!(json["gpus"].as_array().unwrap().is_empty());
    }
}
