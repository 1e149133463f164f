// SPDX-License-Identifier: MIT OR Apache-2.0
//! The whole system sleeps: no timer may trigger into a GPU that sleeps, too.

use std::time::Duration;

use libzernel::request::Begin;
use libzernel::tsg;
use rustix::io::Errno;
use testkit::power::sleep;

use super::{at_once, far, in_so_long, lab, words, Since};
use crate::check_eq;
use crate::common::errno;
use crate::harness::Outcome;

/// Before anything sleeps all requests are ended; when all is back, new ones begin.
pub(super) fn ends_requests() -> Outcome {
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
