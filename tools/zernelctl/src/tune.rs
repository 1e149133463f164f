// SPDX-License-Identifier: MIT OR Apache-2.0
//! `tune list`, `tune get` and `tune set`.

use std::collections::BTreeMap;

use anyhow::Result;
use libzernel::tunable::Tunables;

use crate::output;

/// Lists all tunables.
pub fn list(tunables: &Tunables, json: bool) -> Result<()> {
    let list = tunables.list()?;
    if json {
        let values: BTreeMap<_, _> = list
            .iter()
            .map(|tunable| (&tunable.name, &tunable.value))
            .collect();
        return output::json(&values);
    }
    let rows = list.into_iter().map(|tunable| {
        let access = if tunable.writable { "" } else { "read-only" };
        // Told where it is another one.
        let default = tunable.default.filter(|default| *default != tunable.value);
        let default = default.unwrap_or_default().to_owned();
        vec![tunable.name, tunable.value, default, access.to_owned()]
    });
    output::text(&output::table(
        ["TUNABLE", "VALUE", "DEFAULT", ""],
        |_| false,
        rows,
    ))
}

/// Shows one tunable.
pub fn get(tunables: &Tunables, name: &str, json: bool) -> Result<()> {
    let tunable = tunables.get(name)?;
    if json {
        return output::json(&tunable);
    }
    output::text(&tunable.value)
}

/// Sets one tunable and shows its new value.
pub fn set(tunables: &Tunables, name: &str, value: &str, json: bool) -> Result<()> {
    tunables.set(name, value)?;
    get(tunables, name, json)
}
