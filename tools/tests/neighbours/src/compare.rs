// SPDX-License-Identifier: MIT OR Apache-2.0
//! The victim beside one attack.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{bail, Context as _, Result};
use serde::{Deserialize, Serialize};
use zernel_report::outcome::Outcome;
use zernel_report::stats::Summary;
use zernel_workload::Role;

use crate::attacks::Attack;
use crate::calls::{self, Calls};
use crate::left::{Left, Stock};
use crate::troop::Troop;
use crate::{attacks, ground, table, victim, Run};

/// Name of the row without an attack.
pub const NONE: &str = "none";

/// The LC requests.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Served {
    /// Their latency.
    pub latency: Summary,
    /// Requests that a newer one took the place of.
    pub dropped: u64,
    /// BE requests per second of the victim's user.
    pub be_rate: f64,
}

impl Served {
    fn new(outcome: &Outcome) -> Self {
        Self {
            latency: outcome.latency(Role::Lc),
            dropped: outcome.dropped(Role::Lc),
            be_rate: outcome.rate(Role::Be),
        }
    }
}

/// The victim beside one attack, as far as it got.
#[derive(Debug, Default, Clone, Serialize, Deserialize)]
pub struct Row {
    /// Name of the attack.
    pub attack: String,
    /// The part that goes on; none when all are over.
    pub now: Option<String>,
    /// The reason of an end before that.
    pub fault: Option<String>,
    /// LC requests.
    pub lc: Option<Served>,
    /// Other calls.
    pub calls: Option<Calls>,
    /// The remains.
    pub left: Option<Left>,
}

/// Runs `options` and prints the row.
pub fn run(options: &Run) -> Result<()> {
    let attack = match options.attack.as_str() {
        NONE => None,
        name => Some(attacks::named(name)?),
    };
    ground::prepare(&options.load)?;
    // First uses are paid for.
    victim::serve(0.2)?;
    calls::make(0.1)?;
    let path = options.json.as_deref().map(|folder| path(folder, options));
    let mut record = Record {
        row: Row {
            attack: options.attack.clone(),
            ..Row::default()
        },
        path,
        since: Instant::now(),
    };
    let done = record.fill(attack, options.seconds, options.calls);
    record.row.fault = done.err().map(|error| format!("{error:#}"));
    record.save()?;
    print!("{}", table::render(&[record.row.clone()]));
    match record.row.fault {
        Some(fault) => bail!(fault),
        None => Ok(()),
    }
}

fn path(folder: &Path, options: &Run) -> PathBuf {
    folder.join(format!("{}.json", options.attack))
}

/// A row that is saved as it grows: an attack that is not over in time leaves what is known.
pub struct Record {
    /// The row.
    pub row: Row,
    /// Its file.
    pub path: Option<PathBuf>,
    /// Its begin.
    pub since: Instant,
}

impl Record {
    /// Runs the victim beside an attack, and makes other calls of its user, for so many seconds.
    pub fn fill(&mut self, attack: Option<&Attack>, seconds: f64, calls: f64) -> Result<()> {
        let stock = Stock::take()?;
        let mut troop = Troop::new()?;
        if let Some(attack) = attack {
            self.begin("tenants make ready")?;
            (attack.muster)(&mut troop).context("make ready")?;
            troop.go()?;
        }
        self.begin("requests are served")?;
        let outcome = victim::serve(seconds).context("serve requests")?;
        self.row.lc = Some(Served::new(&outcome));
        self.begin("calls are made")?;
        self.row.calls = Some(calls::make(calls).context("make calls")?);
        self.begin("tenants end")?;
        troop.end().context("a tenant")?;
        self.begin("objects are given back")?;
        self.row.left = Some(stock.left()?);
        self.row.now = None;
        Ok(())
    }

    fn begin(&mut self, part: &str) -> Result<()> {
        let name = &self.row.attack;
        eprintln!("{name}: {part}, after {:.1?}", self.since.elapsed());
        self.row.now = Some(part.to_owned());
        self.save()
    }

    /// Writes the row to its file.
    fn save(&self) -> Result<()> {
        let Some(path) = &self.path else {
            return Ok(());
        };
        fs::write(path, serde_json::to_vec_pretty(&self.row)?).context("save the row")
    }
}
