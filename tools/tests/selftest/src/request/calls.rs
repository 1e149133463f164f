// SPDX-License-Identifier: GPL-2.0
//! Pages, slots, TSGs and requests that are not there: each is refused, and nothing changes.

use std::os::fd::AsFd;

use anyhow::Result;
use bytemuck::Zeroable;
use libzernel::request::{Number, Page, Slot};
use libzernel::sys::{abi, v0 as raw};
use libzernel::{tsg, Target, Zernel};
use rustix::io::Errno;

use super::{at_once, far, in_so_long, longest_lease, slot, Client, Ends, Since};
use crate::abi::{call, unchanged};
use crate::check_eq;
use crate::common::{errno, level, tune, wait_until, Lab};
use crate::harness::Outcome;
use crate::sys::{Area, Wild};

/// Registers whatever is at an address; returns the number of the page.
pub(super) fn register(zernel: &Zernel, address: u64) -> Result<u32, Errno> {
    let request = abi::zernel_v0_page {
        address,
        ..abi::zernel_v0_page::zeroed()
    };
    let number = abi::LIBZERNEL_V0_IOC_PAGE_REGISTER;
    let (result, page) = call(zernel.as_fd(), number, &request);
    result.map(|_| page.page)
}

/// Ends the registration of a page.
pub(super) fn unregister(zernel: &Zernel, page: u32) -> Result<(), Errno> {
    let mut request = abi::zernel_v0_page {
        page,
        ..abi::zernel_v0_page::zeroed()
    };
    raw::page_unregister(zernel.as_fd(), &mut request)
}

pub(super) fn bad_pages() -> Outcome {
    let lab = Lab::open()?;
    let mut frozen = Area::new()?;
    frozen.put(0, b"there is a page");
    frozen.freeze()?;
    let (good, zernel) = (Area::new()?, &lab.zernel);
    // Code is mapped from a file, and not to be written.
    let code = bad_pages as fn() -> Outcome as usize as u64 & !0xfff;
    let mut cases = vec![
        ("read-only memory", frozen.address(0), Errno::FAULT),
        (
            "memory out of reach",
            good.address(Area::PAGE),
            Errno::FAULT,
        ),
        ("a file's read-only page", code, Errno::FAULT),
    ];
    for wild in Wild::ALL {
        let errno = match wild {
            Wild::Last => Errno::INVAL,
            _ => Errno::FAULT,
        };
        cases.push(("a wild address", wild.address(), errno));
    }
    for offset in [1, 4, 64, 2048, Area::PAGE - 1] {
        cases.push(("half a page", good.address(offset), Errno::INVAL));
    }
    {
        let gone = Area::new()?;
        cases.push(("memory that is gone", gone.address(0), Errno::FAULT));
    }
    for (what, address, errno) in cases {
        let result = unchanged(zernel, || Ok(register(zernel, address)))?;
        check_eq!(result, Err(errno), "{what} at {address:#x}");
    }
    // What is left alone is left as it is, whatever it holds.
    let mut area = Area::new()?;
    let contents: Vec<u8> = (0..Area::PAGE).map(|i| (i % 251) as u8).collect();
    area.put(0, &contents);
    let page = register(zernel, area.address(0))?;
    check_eq!(area.get(0, Area::PAGE) == contents, true, "contents");
    unregister(zernel, page)?;
    check_eq!(area.get(0, Area::PAGE) == contents, true, "contents");
    check_eq!(unregister(zernel, page), Err(Errno::NOENT), "twice");
    Ok(())
}

/// The three calls that name a request.
type Calls = [(&'static str, fn(&Slot<'_>, Number) -> libzernel::Result<()>); 3];

/// Them.
pub(super) const CALLS: Calls = [
    ("ready", |slot, request| slot.ready_call(request)),
    ("done", |slot, request| slot.done_call(request)),
    ("cancel", |slot, request| slot.cancel(request)),
];

pub(super) fn bad_names() -> Outcome {
    let lab = Lab::open()?;
    let client = Client::new(&lab)?;
    let (zernel, fd) = (&lab.zernel, lab.zernel.as_fd());
    let request = client.slot(0).begin(&far(client.tsg))?.number;
    let page = client.page.number();
    let other = Zernel::open()?;
    let strange = [(page, 64), (page, 65), (page, u32::MAX), (page + 1, 0)];
    let strange = strange
        .into_iter()
        .chain([(u32::MAX, 0), (page ^ 1 << 31, 0)]);
    for (page, slot) in strange {
        unchanged(zernel, || {
            let mut begin = abi::zernel_v0_begin {
                tsg: client.tsg.as_u64(),
                page,
                slot,
                ..abi::zernel_v0_begin::zeroed()
            };
            let answer = raw::begin(fd, &mut begin);
            check_eq!(answer, Err(Errno::NOENT), "begin {page}/{slot}");
            let mut named = abi::zernel_v0_request {
                page,
                slot,
                request: request.get(),
                flags: 0,
            };
            for (name, call) in [
                ("ready", raw::ready as fn(_, &mut _) -> _),
                ("done", raw::done),
                ("cancel", raw::cancel),
            ] {
                let answer: Result<(), Errno> = call(fd, &mut named);
                check_eq!(answer, Err(Errno::NOENT), "{name} {page}/{slot}");
            }
            Ok(())
        })?;
    }
    for number in [page + 1, u32::MAX, page ^ 1 << 31] {
        let answer = unchanged(zernel, || Ok(unregister(zernel, number)))?;
        check_eq!(answer, Err(Errno::NOENT), "unregister {number}");
    }
    // Numbers are those of a file.
    check_eq!(unregister(&other, page), Err(Errno::NOENT), "another file");
    client.slot(0).cancel(request)?;
    Ok(())
}

pub(super) fn bad_tsgs() -> Outcome {
    let lab = Lab::open()?;
    let client = Client::new(&lab)?;
    let gpu = lab.tsg(client.tsg)?.gpu.as_u64();
    let (gone, was) = lab.compute()?;
    let page = Page::anonymous(&lab.zernel)?;
    let slot = slot(&page, 5);
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
    let mut none = abi::zernel_v0_request {
        page: client.page.number(),
        ..abi::zernel_v0_request::zeroed()
    };
    let answer = raw::done(lab.zernel.as_fd(), &mut none);
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
