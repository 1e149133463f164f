// SPDX-License-Identifier: GPL-2.0
//! The whole system sleeps: no timer may trigger into a GPU that sleeps, too.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result};
use libzernel::request::{Slots, Word};
use rustix::io::Errno;
use testkit::harness::Skip;

use super::{at_once, far, in_so_long, longest_lease, slot, Ends, Since};
use crate::check_eq;
use crate::common::{errno, Lab};
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
    longest_lease()?;
    let lab = Lab::open()?;
    let (_context, tsg) = lab.compute()?;
    let slots = Slots::map(&lab.zernel, 0..64)?;
    for (round, depth) in (1..).zip(["freezer", "devices"]) {
        let since = Since::now(&lab.zernel)?;
        let soon = in_so_long(tsg.id, Duration::from_millis(300));
        let begins = [far(tsg.id), at_once(tsg.id), soon];
        let mut requests = Vec::new();
        for (number, begin) in (0..).zip(&begins) {
            requests.push(slot(&slots, number).begin(begin)?.number);
        }
        sleep(depth)?;
        since.expect(Ends {
            suspended: 3,
            ..Ends::NONE
        })?;
        for (number, request) in (0..).zip(requests) {
            let slot = slot(&slots, number);
            check_eq!(request.get(), round, "number");
            check_eq!(slot.load(Word::Trigger), round, "{depth}: trigger");
            check_eq!(slot.load(Word::Release), round, "{depth}: release");
            check_eq!(errno(slot.cancel(request)), Some(Errno::STALE));
        }
    }
    let request = slot(&slots, 0).begin(&far(tsg.id))?.number;
    slot(&slots, 0).cancel(request)?;
    Ok(())
}
