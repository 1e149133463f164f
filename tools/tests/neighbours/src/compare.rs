// SPDX-License-Identifier: GPL-2.0
//! The victim without an attack and under each.

use std::time::Instant;

use anyhow::{ensure, Context as _, Result};
use serde::{Deserialize, Serialize};
use zernel_report::outcome::Outcome;
use zernel_report::stats::Summary;
use zernel_workload::Role;

use crate::attacks::{self, Attack};
use crate::calls::{self, Calls};
use crate::left::{Left, Stock};
use crate::troop::Troop;
use crate::{ground, table, victim, Run};

/// The victim beside one attack.
#[derive(Debug, Serialize, Deserialize)]
pub struct Row {
    /// Name of the attack.
    pub attack: String,
    /// Latency of the LC requests.
    pub lc: Summary,
    /// LC requests that a newer one took the place of.
    pub dropped: u64,
    /// BE requests per second of the victim's user.
    pub be_rate: f64,
    /// Other calls.
    pub calls: Calls,
    /// The remains.
    pub left: Left,
}

impl Row {
    fn new(attack: &str, outcome: &Outcome, calls: Calls, left: Left) -> Self {
        Self {
            attack: attack.to_owned(),
            lc: outcome.latency(Role::Lc),
            dropped: outcome.dropped(Role::Lc),
            be_rate: outcome.rate(Role::Be),
            calls,
            left,
        }
    }
}

/// Runs `options` and prints the table.
pub fn run(options: &Run) -> Result<()> {
    let chosen = |attack: &&Attack| {
        options.only.is_empty() || options.only.iter().any(|part| attack.name.contains(part))
    };
    let attacks: Vec<_> = attacks::ALL.iter().filter(chosen).collect();
    ensure!(!attacks.is_empty(), "no attack has such a name");
    ground::prepare(&options.load)?;
    // First uses are paid for.
    victim::serve(0.2)?;
    calls::make(0.1)?;
    let stock = Stock::take()?;
    let quiet = Row::new(
        "none",
        &victim::serve(options.seconds)?,
        calls::make(options.calls)?,
        stock.left()?,
    );
    let mut rows = vec![quiet];
    for attack in attacks {
        let since = Instant::now();
        let row = beside(attack, options).with_context(|| attack.name)?;
        eprintln!("{}: {:.1?}", attack.name, since.elapsed());
        rows.push(row);
    }
    if let Some(path) = &options.json {
        std::fs::write(path, serde_json::to_vec_pretty(&rows)?)?;
    }
    print!("{}", table::render(&rows));
    Ok(())
}

fn beside(attack: &Attack, options: &Run) -> Result<Row> {
    let stock = Stock::take()?;
    let mut troop = Troop::new()?;
    (attack.muster)(&mut troop)?;
    troop.go()?;
    let outcome = victim::serve(options.seconds)?;
    let calls = calls::make(options.calls)?;
    troop.end().context("a tenant")?;
    Ok(Row::new(attack.name, &outcome, calls, stock.left()?))
}
