// SPDX-License-Identifier: MIT OR Apache-2.0
//! The load of the GPU as zernel is told it, beside work that is known, and beside FECS records.

use std::time::Duration;

use anyhow::{bail, Result};
use libzernel::{Gpu, Level};

use crate::check::Check;
use crate::debugfs;
use crate::figure::{Figures, Range, Unit};
use crate::lab::Lab;
use crate::work::Context;

/// The check.
pub const CHECK: Check = Check {
    name: "engine",
    asks: "Is the load from ENGINE_STATUS0 that of known work, and that of FECS?",
    seconds: 40,
    slices: &[],
    run,
};

const SOURCE: &str = "the work is known: one spinning TSG, or none";
const FECS: &str = "records of the GPU's own switcher are exact";

/// zernel asks its provider no more often.
const INTERVAL: Duration = Duration::from_millis(110);
/// Looks of a share.
const LOOKS: usize = 12;

fn run(lab: &Lab<'_>, figures: &mut Figures) -> Result<()> {
    lab.needs(|gpu| gpu.can.load, "the driver tells no load")?;
    let context = lab.context(Level::BE)?;
    let idle = share(lab)?;
    context.spin()?;
    lab.wait_runs(&*context)?;
    // The first looks may be about the time before.
    share(lab)?;
    let busy = share(lab)?;
    let range = Range::new(0.0, 200.0);
    figures.effect("load_while_idle", Unit::Permille, idle, range, SOURCE);
    let range = Range::new(800.0, 1_000.0);
    figures.effect("load_while_spinning", Unit::Permille, busy, range, SOURCE);
    if let Some(ratio) = beside_records(lab, &*context)? {
        let range = Range::new(900.0, 1_100.0);
        figures.cost("looks_to_records", Unit::Permille, &[ratio], range, FECS);
    }
    Ok(())
}

/// The share of time in which the GPU was busy over the next looks, in permille.
fn share(lab: &Lab<'_>) -> Result<f64> {
    let first = told(lab, None)?;
    let mut last = first.clone();
    for _ in 0..LOOKS {
        lab.pause(INTERVAL)?;
        last = lab.gpu()?;
    }
    let last = told(lab, Some(&last))?;
    match last.busy_permille(Some(&first)) {
        Some(share) => Ok(share.into()),
        None => bail!("the GPU's load is not told"),
    }
}

/// The GPU with a load that was read after `before`.
fn told(lab: &Lab<'_>, before: Option<&Gpu>) -> Result<Gpu> {
    let before = match before {
        Some(before) => before.busy_at_ns,
        None => lab.gpu()?.busy_at_ns,
    };
    let found = lab.within(Duration::from_secs(3), || {
        let gpu = lab.gpu()?;
        Ok((gpu.busy_at_ns > before).then_some(gpu))
    })?;
    match found {
        Some(gpu) => Ok(gpu),
        None => bail!("the GPU's load is not told: no register tells it"),
    }
}

/// The time of a spinning TSG by looks at registers, to that by records, in permille; `None` without
/// records.
fn beside_records(lab: &Lab<'_>, context: &dyn Context) -> Result<Option<f64>> {
    let Ok(handle) = debugfs::handle("tsg", context.tsg().as_u64()) else {
        return Ok(None);
    };
    let times = || -> Result<Option<[f64; 2]>> {
        let Ok(lines) = debugfs::lines("records") else {
            return Ok(None);
        };
        let Some(line) = debugfs::of_tsg(&lines, handle)? else {
            return Ok(None);
        };
        if line.needs("known")? == 0 {
            return Ok(None);
        }
        let ns = |name| Ok::<_, anyhow::Error>(line.needs(name)? as f64);
        Ok(Some([ns("looks_ns")?, ns("records_ns")?]))
    };
    share(lab)?;
    let Some(before) = times()? else {
        return Ok(None);
    };
    // Records are told up to the read before.
    share(lab)?;
    let Some(after) = times()? else {
        return Ok(None);
    };
    let [looks, records] = [after[0] - before[0], after[1] - before[1]];
    Ok((records > 0.0).then(|| 1e3 * looks / records))
}
