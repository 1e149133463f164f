// SPDX-License-Identifier: MIT OR Apache-2.0
//! Small attacks for every run of the tests: judged by their outcomes, not by times.

use std::time::Instant;

use anyhow::{ensure, Context as _, Result};

use crate::compare::{Record, Row, NONE};
use crate::troop::set_share;
use crate::{attacks, calls, ground, victim};

/// Attacks, one by one.
const ATTACKS: [&str; 6] = [
    "watchers-1000",
    "class-3840",
    "idle-writers",
    "keys",
    "memory",
    "cgroups",
];

/// Share of the full sizes.
const SHARE: f64 = 0.02;

/// Seconds of requests, and of other calls.
const SERVED: f64 = 0.2;
const CALLS: f64 = 0.1;

/// Runs them; says of each if it has done harm.
pub fn run(parameters: &str) -> Result<()> {
    ground::prepare(parameters)?;
    set_share(SHARE);
    victim::serve(SERVED)?;
    calls::make(CALLS)?;
    let quiet = one(NONE)?;
    let mut failed = 0;
    for name in ATTACKS {
        let judged = one(name).and_then(|row| judge(&row, &quiet));
        let verdict = match &judged {
            Ok(()) => "ok",
            Err(_) => "not ok",
        };
        println!("{verdict} - {name}: others are served, and all is given back");
        if let Err(error) = judged {
            eprintln!("{name}: {error:#}");
            failed += 1;
        }
    }
    ensure!(failed == 0, "{failed} attacks have done harm");
    Ok(())
}

fn one(name: &str) -> Result<Row> {
    let attack = match name {
        NONE => None,
        name => Some(attacks::named(name)?),
    };
    let mut record = Record {
        row: Row {
            attack: name.to_owned(),
            ..Row::default()
        },
        path: None,
        since: Instant::now(),
    };
    record.fill(attack, SERVED, CALLS)?;
    Ok(record.row)
}

fn judge(row: &Row, quiet: &Row) -> Result<()> {
    let served = row.lc.as_ref().context("no request was served")?;
    ensure!(served.latency.count > 0, "no LC request was served");
    ensure!(served.be_rate > 0.0, "no BE request was served");
    let calls = row.calls.as_ref().context("no call was made")?;
    let failures: Vec<_> = calls.new_failures(quiet.calls.as_ref()).collect();
    ensure!(failures.is_empty(), "calls failed: {failures:?}");
    let left = row.left.as_ref().context("it did not end")?;
    ensure!(left.objects.is_empty(), "left: {:?}", left.objects);
    Ok(())
}
