// SPDX-License-Identifier: GPL-2.0
//! The whole system sleeps: no timer may trigger into a GPU that sleeps, too.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result};
use libzernel::request::Begin;
use libzernel::tsg;
use rustix::io::Errno;
use testkit::harness::Skip;

use super::{at_once, far, in_so_long, lab, words, Since};
use crate::check_eq;
use crate::common::errno;
use crate::harness::Outcome;

const POWER: &str = "/sys/power";
const DELAY: &str = "/sys/module/suspend/parameters/pm_test_delay";

/// A sleep that ends by itself: the kernel's own test of it, up to some depth.
fn sleep(depth: &str) -> Result<()> {
    let put = |name: &str, value: &str| {
        fs::write(Path::new(POWER).join(name), value).with_context(|| format!("{value} to {name}"))
    };
    fs::write(DELAY, "1")?;
    put("pm_test", depth)?;
    let slept = put("state", "mem");
    put("pm_test", "none")?;
    slept
}

/// True if the kernel can be asked for that.
fn can_sleep() -> bool {
    let states = fs::read_to_string(Path::new(POWER).join("state")).unwrap_or_default();
    states.split_whitespace().any(|state| state == "mem")
        && Path::new(POWER).join("pm_test").exists()
        && Path::new(DELAY).exists()
}

/// Before anything sleeps all requests are ended; when all is back, new ones begin.
pub(super) fn ends_requests() -> Outcome {
    if !can_sleep() {
        return Err(Skip("this kernel has no test of its sleep").into());
    }
    let (lab, client) = lab()?;
    let soon = |tsg| in_so_long(tsg, Duration::from_millis(300));
    for (round, depth) in (1..).zip(["freezer", "devices"]) {
        let since = Since::now(&lab.zernel)?;
        let begins: [fn(tsg::Id) -> Begin; 3] = [far, at_once, soon];
        let mut requests = Vec::new();
        for (slot, begin) in client.slots.slots().zip(begins) {
            requests.push((slot, slot.begin(&begin(client.tsg))?.number));
        }
        sleep(depth)?;
        since.expect(ends!(suspended: 3))?;
        for (slot, request) in requests {
            check_eq!(request.get(), round, "number");
            check_eq!(words(&slot), (round, round), "{depth}: both words");
            check_eq!(errno(slot.cancel(request)), Some(Errno::STALE));
        }
    }
    let request = client.slot(0).begin(&far(client.tsg))?.number;
    client.slot(0).cancel(request)?;
    Ok(())
}
