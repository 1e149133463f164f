// SPDX-License-Identifier: MIT OR Apache-2.0
//! Modules that go, or cannot, while there are requests.

use std::time::Duration;

use anyhow::ensure;
use libzernel::request::Slots;
use libzernel::Zernel;
use rustix::io::Errno;
use testkit::passing;

use super::{at_once, far, is_free, lab, longest_lease, slot, words, Since};
use crate::check_eq;
use crate::child::Child;
use crate::common::{load_all, try_unload, unload_soon, Lab};
use crate::harness::Outcome;

/// The provider goes: its TSGs do, and their requests. Slots stay, also those that were given to
/// the GPU.
pub(super) fn provider_goes() -> Outcome {
    longest_lease()?;
    let zernel = Zernel::open()?;
    let since = Since::now(&zernel)?;
    let slots = Slots::map(&zernel, 0..64)?;
    {
        let lab = Lab::open()?;
        let (context, tsg) = lab.compute()?;
        context.add_memory(slots.memory())?;
        let waits = slot(&slots, 0).begin(&far(tsg.id))?.number;
        slot(&slots, 1).begin(&at_once(tsg.id))?;
        check_eq!(try_unload("zernel_sim"), Err(Errno::AGAIN), "in use");
        since.expect(ends!(in_flight: 2))?;
        context.destroy()?;
        since.wait(ends!(gone: 2))?;
        ensure!(is_free(words(&slot(&slots, 0)), waits), "not given back");
    }
    unload_soon("zernel_sim")?;
    load_all()?;
    let lab = Lab::open()?;
    let (_context, tsg) = lab.compute()?;
    let request = slot(&slots, 1).begin(&at_once(tsg.id))?.number;
    check_eq!(words(&slot(&slots, 1)).0, request.get(), "trigger");
    slot(&slots, 1).done_call(request)?;
    since.expect(ends!(gone: 2, done: 1))
}

/// A process with requests is killed while the provider is about to be unloaded.
pub(super) fn unload_while_killed() -> Outcome {
    longest_lease()?;
    let zernel = Zernel::open()?;
    let since = Since::now(&zernel)?;
    let (ours, theirs) = passing::pair()?;
    let mut begun = 0;
    for round in 0..5 {
        load_all()?;
        let child = Child::spawn(|| {
            let (_lab, client) = lab()?;
            for slot in client.slots.slots() {
                let begin = if slot.number() % 2 == 0 { far } else { at_once };
                let request = slot.begin(&begin(client.tsg))?.number;
                if slot.number() % 3 == 0 {
                    client.submit(&slot, request, Duration::from_micros(100))?;
                }
            }
            passing::send_number(&theirs, 64)?;
            std::thread::sleep(super::FAR);
            Ok(())
        })?;
        begun += passing::receive_number(&ours)?;
        check_eq!(try_unload("zernel_sim"), Err(Errno::AGAIN), "round {round}");
        child.kill()?;
        unload_soon("zernel_sim")?;
        child.end()?;
        let ends = since.ends()?;
        // The order of the files is open.
        check_eq!((ends.in_flight, ends.gone + ends.closed), (0, begun));
    }
    load_all()
}
