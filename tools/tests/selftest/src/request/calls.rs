// SPDX-License-Identifier: GPL-2.0
//! Slots, TSGs and requests that are not there: each is refused, and nothing changes.

use std::os::fd::AsFd;

use bytemuck::Zeroable;
use libzernel::request::{Number, Slot, Slots};
use libzernel::sys::{abi, zernel as raw};
use libzernel::{tsg, Target, Zernel};
use rustix::io::Errno;

use super::{at_once, far, in_so_long, longest_lease, slot, Client, Ends, Since};
use crate::abi::unchanged;
use crate::check_eq;
use crate::common::{errno, level, tune, wait_until, Lab};
use crate::harness::Outcome;

/// The three calls that name a request.
type Calls = [(&'static str, fn(&Slot<'_>, Number) -> libzernel::Result<()>); 3];

/// Them.
pub(super) const CALLS: Calls = [
    ("ready", |slot, request| slot.ready_call(request)),
    ("done", |slot, request| slot.done_call(request)),
    ("cancel", |slot, request| slot.cancel(request)),
];

/// Slots that are not mapped, or that no file has; mapped ones of another file.
pub(super) fn bad_names() -> Outcome {
    let lab = Lab::open()?;
    let slots = Slots::map(&lab.zernel, 64..128)?;
    let (_context, tsg) = lab.compute()?;
    let request = slot(&slots, 64).begin(&far(tsg.id))?.number;
    let other = Zernel::open()?;
    let beside = [0, 63, 128, 16_383, 16_384, 1 << 26, u32::MAX];
    let all = beside.map(|slot| (&lab.zernel, slot));
    for (zernel, slot) in all.into_iter().chain([(&other, 64)]) {
        unchanged(&lab.zernel, || {
            let mut begin = abi::zernel_request_begin {
                tsg: tsg.id.as_u64(),
                slot,
                ..abi::zernel_request_begin::zeroed()
            };
            let answer = raw::request_begin(zernel.as_fd(), &mut begin);
            check_eq!(answer, Err(Errno::NOENT), "begin in {slot}");
            for action in 1..=3 {
                let mut update = abi::zernel_request_update {
                    slot,
                    request: request.get(),
                    action,
                    flags: 0,
                };
                let answer = raw::request_update(zernel.as_fd(), &mut update);
                check_eq!(answer, Err(Errno::NOENT), "action {action} in {slot}");
            }
            Ok(())
        })?;
    }
    slot(&slots, 64).cancel(request)?;
    Ok(())
}

pub(super) fn bad_tsgs() -> Outcome {
    let lab = Lab::open()?;
    let client = Client::new(&lab)?;
    let gpu = lab.tsg(client.tsg)?.gpu.as_u64();
    let (gone, was) = lab.compute()?;
    let slots = Slots::map(&lab.zernel, 0..64)?;
    let slot = slot(&slots, 5);
    gone.destroy()?;
    wait_until("the TSG is gone", || Ok(lab.stats()?.tsgs == 1))?;
    let known = client.tsg.as_u64();
    for id in [0, gpu, was.id.as_u64(), known + 1_000_000, u64::MAX] {
        let id = tsg::Id::new(id);
        for begin in [at_once(id), far(id)] {
            let answer = unchanged(&lab.zernel, || Ok(errno(slot.begin(&begin))))?;
            check_eq!(answer, Some(Errno::NOENT), "TSG {id}");
        }
    }
    // A refused begin does not end what the slot has.
    let since = Since::now(&lab.zernel)?;
    let request = slot.begin(&far(client.tsg))?.number;
    let answer = errno(slot.begin(&far(was.id)));
    check_eq!(answer, Some(Errno::NOENT));
    since.expect(Ends {
        in_flight: 1,
        ..Ends::NONE
    })?;
    slot.cancel(request)?;
    // One without a class, and one of any class, can have requests.
    for number in [0, 6, 7] {
        let target = Target::Tsg(client.tsg);
        lab.zernel.set_class(&target, level(number))?;
        let request = slot.begin(&far(client.tsg))?.number;
        slot.cancel(request)?;
    }
    Ok(())
}

/// Fails unless all calls say that the request is over.
fn stale(slot: &Slot<'_>, request: Number, what: &str) -> Outcome {
    for (name, call) in CALLS {
        let answer = errno(call(slot, request));
        check_eq!(answer, Some(Errno::STALE), "{name} of {request}, {what}");
    }
    Ok(())
}

pub(super) fn what_is_over_is_stale() -> Outcome {
    longest_lease()?;
    let lab = Lab::open()?;
    let client = Client::new(&lab)?;
    let first = Number::new(1).expect("a number");
    unchanged(&lab.zernel, || {
        stale(&client.slot(7), first, "nothing was begun")?;
        stale(&client.slot(63), first, "nothing was begun")
    })?;
    for (index, (name, end)) in (0..).zip(CALLS) {
        let slot = client.slot(index);
        let request = slot.begin(&far(client.tsg))?.number;
        for wrong in [request.next(), request.next().next()] {
            stale(&slot, wrong, "not begun yet")?;
        }
        let far_off = Number::new(request.get() ^ 1 << 31).expect("a number");
        stale(&slot, far_off, "half the circle away")?;
        end(&slot, request)?;
        if name == "ready" {
            // It is still there, and ready it stays.
            slot.ready_call(request)?;
            slot.done_call(request)?;
        }
        unchanged(&lab.zernel, || stale(&slot, request, name))?;
        let next = slot.begin(&far(client.tsg))?.number;
        check_eq!(next, request.next(), "the next number");
        unchanged(&lab.zernel, || stale(&slot, request, "the one before"))?;
        slot.cancel(next)?;
    }
    // Of number 0 there is none.
    let zernel = Zernel::open()?;
    let _slots = Slots::map(&zernel, 0..1)?;
    let mut none = abi::zernel_request_update {
        action: abi::ZERNEL_REQUEST_DONE,
        ..abi::zernel_request_update::zeroed()
    };
    let answer = raw::request_update(zernel.as_fd(), &mut none);
    check_eq!(answer, Err(Errno::STALE), "request 0");

    tune("lease_us", 100)?;
    let since = Since::now(&lab.zernel)?;
    let slot = client.slot(9);
    let request = slot.begin(&in_so_long(client.tsg, super::SHORTEST))?.number;
    since.wait(Ends {
        expired: 1,
        ..Ends::NONE
    })?;
    unchanged(&lab.zernel, || stale(&slot, request, "expired"))
}
