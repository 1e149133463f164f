// SPDX-License-Identifier: GPL-2.0
//! Requests of several processes: children, siblings, and those that are killed.

use std::os::fd::AsFd;
use std::time::Duration;

use anyhow::{ensure, Result};
use libzernel::request::{Page, Word};
use libzernel::sys::page::SharedPage;
use libzernel::Zernel;
use testkit::passing;

use super::{at_once, far, is_free, longest_lease, shared_memory, slot, words, Ends, Since};
use crate::check_eq;
use crate::child::{Child, End};
use crate::common::Lab;
use crate::harness::Outcome;

/// Until it is killed.
fn sleep() -> Result<()> {
    loop {
        std::thread::sleep(Duration::from_secs(60));
    }
}

pub(super) fn sigkill() -> Outcome {
    longest_lease()?;
    let lab = Lab::open()?;
    let (_context, tsg) = lab.compute()?;
    let memory = shared_memory()?;
    let view = SharedPage::of_file(memory.as_fd(), 0)?;
    let (ours, theirs) = passing::pair()?;
    let since = Since::now(&lab.zernel)?;
    for (closed, begin) in (0..).zip([far(tsg.id), at_once(tsg.id)]) {
        let child = Child::spawn(|| {
            let zernel = Zernel::open()?;
            let page = Page::of_file(&zernel, memory.as_fd(), 0)?;
            let _private = Page::anonymous(&zernel)?;
            let request = slot(&page, 0).begin(&begin)?.number;
            passing::send_number(&theirs, request.get().into())?;
            sleep()
        })?;
        let request = u32::try_from(passing::receive_number(&ours)?)?;
        let request = libzernel::request::Number::new(request).expect("a number");
        since.expect(Ends {
            closed,
            in_flight: 1,
            ..Ends::NONE
        })?;
        child.kill()?;
        check_eq!(child.end()?, End::Signal(9));
        since.wait(Ends {
            closed: closed + 1,
            ..Ends::NONE
        })?;
        let words = words(&view, 0);
        ensure!(is_free(words, request), "{request} is held: {words:?}");
    }
    Ok(())
}

/// A page that is registered stays the parent's; a child has a copy that nobody stores to.
pub(super) fn fork_copies_no_page() -> Outcome {
    longest_lease()?;
    let lab = Lab::open()?;
    let (_context, tsg) = lab.compute()?;
    let page = Page::anonymous(&lab.zernel)?;
    let (first, second) = (slot(&page, 0), slot(&page, 1));
    first.store(Word::Held, 77);
    let (ours, theirs) = passing::pair()?;
    let child = Child::spawn(|| {
        let (first, second) = (slot(&page, 0), slot(&page, 1));
        passing::receive_number(&theirs)?;
        check_eq!(first.load(Word::Held), 77, "what was there before");
        check_eq!(first.load(Word::Trigger), 0, "trigger in the copy");
        // Its stores go nowhere, its calls do.
        first.store(Word::Trigger, 5);
        let request = second.begin(&at_once(tsg.id))?.number;
        check_eq!(second.load(Word::Trigger), 0, "trigger of its own");
        passing::send_number(&theirs, request.get().into())
    })?;
    let request = first.begin(&at_once(tsg.id))?.number;
    check_eq!(first.load(Word::Trigger), request.get(), "the parent's");
    passing::send_number(&ours, 0)?;
    let of_child = passing::receive_number(&ours)?;
    child.join()?;
    check_eq!(
        u64::from(second.load(Word::Trigger)),
        of_child,
        "the child's"
    );
    check_eq!(first.load(Word::Trigger), request.get(), "after the child");
    first.cancel(request)?;
    check_eq!(first.load(Word::Release), request.get(), "released");
    Ok(())
}

/// The file is closed when the last process has closed it.
pub(super) fn fork_shares_the_file() -> Outcome {
    longest_lease()?;
    let lab = Lab::open()?;
    let (_context, tsg) = lab.compute()?;
    let memory = shared_memory()?;
    let view = SharedPage::of_file(memory.as_fd(), 0)?;
    let since = Since::now(&lab.zernel)?;
    let zernel = Zernel::open()?;
    let page = Page::of_file(&zernel, memory.as_fd(), 0)?;
    let request = slot(&page, 0).begin(&far(tsg.id))?.number;
    let first = Child::spawn(sleep)?;
    let second = Child::spawn(sleep)?;
    page.unmap();
    drop(zernel);
    let open = Ends {
        in_flight: 1,
        ..Ends::NONE
    };
    since.expect(open)?;
    first.kill()?;
    first.end()?;
    since.expect(open)?;
    ensure!(!is_free(words(&view, 0), request), "given up too early");
    second.kill()?;
    second.end()?;
    since.wait(Ends {
        closed: 1,
        ..Ends::NONE
    })?;
    ensure!(is_free(words(&view, 0), request), "not given back");
    Ok(())
}

/// Two processes with slots in the same memory; the end of one leaves the other alone.
pub(super) fn two_processes_one_page() -> Outcome {
    longest_lease()?;
    let lab = Lab::open()?;
    let (_context, tsg) = lab.compute()?;
    let memory = shared_memory()?;
    let page = Page::of_file(&lab.zernel, memory.as_fd(), 0)?;
    let (ours, theirs) = passing::pair()?;
    let since = Since::now(&lab.zernel)?;
    let request = slot(&page, 0).begin(&far(tsg.id))?.number;
    let child = Child::spawn(|| {
        let zernel = Zernel::open()?;
        let page = Page::of_file(&zernel, memory.as_fd(), 0)?;
        let request = slot(&page, 1).begin(&at_once(tsg.id))?.number;
        passing::send_number(&theirs, request.get().into())?;
        sleep()
    })?;
    let of_child = u32::try_from(passing::receive_number(&ours)?)?;
    check_eq!(slot(&page, 1).load(Word::Trigger), of_child, "the child's");
    let mine = slot(&page, 0);
    check_eq!(mine.load(Word::Trigger), 0, "the parent's");
    since.expect(Ends {
        in_flight: 2,
        ..Ends::NONE
    })?;
    child.kill()?;
    child.end()?;
    since.wait(Ends {
        closed: 1,
        in_flight: 1,
        ..Ends::NONE
    })?;
    check_eq!(slot(&page, 1).load(Word::Release), of_child, "given back");
    check_eq!((mine.load(Word::Trigger), mine.load(Word::Release)), (0, 0));
    mine.done_call(request)?;
    check_eq!(mine.load(Word::Release), request.get(), "the parent's");
    since.expect(Ends {
        closed: 1,
        done: 1,
        ..Ends::NONE
    })
}
