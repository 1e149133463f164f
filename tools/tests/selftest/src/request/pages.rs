// SPDX-License-Identifier: GPL-2.0
//! Registered pages: what becomes of their mappings does not matter to zernel.

use std::os::fd::AsFd;

use anyhow::ensure;
use bytemuck::Zeroable;
use libzernel::request::{Number, Page, Word};
use libzernel::sys::page::SharedPage;
use libzernel::sys::{abi, v0 as raw};
use libzernel::Zernel;

use super::calls::register;
use super::{
    at_once, far, longest_lease, new_key, shared_memory, slot, words, Client, Ends, Since,
};
use crate::check_eq;
use crate::common::Lab;
use crate::harness::Outcome;
use crate::sys::Area;

/// Requests in memory that is not mapped any more: there is no trap, and what still maps it sees
/// all.
pub(super) fn unmapped() -> Outcome {
    longest_lease()?;
    let lab = Lab::open()?;
    let (_context, tsg) = lab.compute()?;
    let memory = shared_memory()?;
    let view = SharedPage::of_file(memory.as_fd(), 0)?;
    let since = Since::now(&lab.zernel)?;
    let page = Page::of_file(&lab.zernel, memory.as_fd(), 0)?;
    let number = page.number();
    let waits = slot(&page, 0).begin(&far(tsg.id))?.number;
    let holds = slot(&page, 1).begin(&at_once(tsg.id))?.number;
    page.unmap();
    let name = |slot, request: Number| abi::zernel_v0_request {
        page: number,
        slot,
        request: request.get(),
        flags: 0,
    };
    raw::ready(lab.zernel.as_fd(), &mut name(0, waits))?;
    check_eq!(words(&view, 0), (waits.get(), waits.get()), "ready");
    raw::cancel(lab.zernel.as_fd(), &mut name(1, holds))?;
    check_eq!(words(&view, 1), (holds.get(), holds.get()), "cancelled");
    raw::done(lab.zernel.as_fd(), &mut name(0, waits))?;
    since.expect(Ends {
        done: 1,
        cancelled: 1,
        ..Ends::NONE
    })?;
    super::calls::unregister(&lab.zernel, number)?;

    // Memory that nobody else maps, and whose addresses are used again.
    let area = Area::new()?;
    let number = register(&lab.zernel, area.address(0))?;
    drop(area);
    let mut again = Area::new()?;
    again.put(0, &[0x5a; Area::PAGE]);
    let before = Since::now(&lab.zernel)?;
    for slot in 0..64 {
        let mut begin = abi::zernel_v0_begin {
            tsg: tsg.id.as_u64(),
            key: new_key(),
            page: number,
            slot,
            ..abi::zernel_v0_begin::zeroed()
        };
        raw::begin(lab.zernel.as_fd(), &mut begin)?;
    }
    before.expect(Ends {
        in_flight: 64,
        ..Ends::NONE
    })?;
    super::calls::unregister(&lab.zernel, number)?;
    before.expect(Ends {
        closed: 64,
        ..Ends::NONE
    })?;
    let bytes = again.get(0, Area::PAGE);
    ensure!(
        bytes.iter().all(|&byte| byte == 0x5a),
        "stored to new memory"
    );
    Ok(())
}

/// The same memory, registered with two files and twice with one: each has its own requests.
pub(super) fn in_two_files() -> Outcome {
    longest_lease()?;
    let lab = Lab::open()?;
    let (_context, tsg) = lab.compute()?;
    let second_file = Zernel::open()?;
    let since = Since::now(&lab.zernel)?;
    let first = Page::anonymous(&lab.zernel)?;
    let second = first.register_with(&second_file)?;
    let third = first.register_with(&lab.zernel)?;
    ensure!(first.number() != third.number(), "one number for two pages");
    let mut requests = Vec::new();
    for (number, page) in (0..).zip([&first, &second, &third]) {
        requests.push(slot(page, number).begin(&far(tsg.id))?.number);
    }
    for (number, request) in (0..).zip(&requests) {
        let slot = slot(&first, number);
        ensure!(!request.is_reached_by(slot.load(Word::Trigger)));
    }
    slot(&second, 1).ready_call(requests[1])?;
    let seen = slot(&first, 1);
    check_eq!(seen.load(Word::Trigger), requests[1].get(), "seen by all");
    drop(second);
    drop(second_file);
    since.expect(Ends {
        closed: 1,
        in_flight: 2,
        ..Ends::NONE
    })?;
    drop(third);
    slot(&first, 0).done_call(requests[0])?;
    since.expect(Ends {
        closed: 2,
        done: 1,
        ..Ends::NONE
    })
}

/// The page of a context's words stays registered when the context, and its mapping, are gone.
pub(super) fn of_words_outlives_them() -> Outcome {
    longest_lease()?;
    let lab = Lab::open()?;
    let client = Client::new(&lab)?;
    let (_other, other) = lab.compute()?;
    let since = Since::now(&lab.zernel)?;
    let request = client.slot(0).begin(&far(client.tsg))?.number;
    let Client { page, context, .. } = client;
    context.destroy()?;
    since.wait(Ends {
        gone: 1,
        ..Ends::NONE
    })?;
    let slot = slot(&page, 0);
    check_eq!(slot.load(Word::Release), request.get(), "given back");
    let next = slot.begin(&at_once(other.id))?.number;
    check_eq!(slot.load(Word::Trigger), next.get(), "another TSG's");
    let number = page.number();
    page.unmap();
    let mut name = abi::zernel_v0_request {
        page: number,
        slot: 0,
        request: next.get(),
        flags: 0,
    };
    raw::done(lab.zernel.as_fd(), &mut name)?;
    since.expect(Ends {
        gone: 1,
        done: 1,
        ..Ends::NONE
    })
}
