// SPDX-License-Identifier: GPL-2.0
//! Slots: memory of zernel's, by number, for as long as the file or a mapping is there.

use std::os::fd::AsFd;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::time::Duration;

use anyhow::{ensure, Result};
use libzernel::request::{Number, Slots, Word};
use libzernel::sim::{Condition, Item};
use libzernel::sys::memory::SharedMemory;
use libzernel::Zernel;
use rustix::io::Errno;
use testkit::passing;

use super::{at_once, far, in_so_long, longest_lease, slot, words, Client, Ends, Since};
use crate::check_eq;
use crate::child::{in_child, Child, End};
use crate::common::{errno, try_unload, wait_until, Lab};
use crate::harness::Outcome;
use crate::permit::{ALICE, BOB};
use crate::sim::raw::{self, Mapping, PAGE};
use crate::sys;
use crate::track::limited::Limited;

/// Slots of a file, and of a user: 256 pages.
pub(super) const MOST: u32 = 16_384;
/// `CAP_SYS_RESOURCE`.
const RESOURCE: u32 = 24;

/// The kernel tells of processes that touch what is not mapped.
const TRACE_SEGV: &str = "/proc/sys/debug/exception-trace";

/// Slots that are allocated now.
pub(super) fn allocated() -> Result<u64> {
    Ok(Zernel::open()?.stats()?.slots)
}

/// Slot n is at byte 64 n, in whatever mapping, and is zero at first.
pub(super) fn by_number() -> Outcome {
    longest_lease()?;
    let lab = Lab::open()?;
    let (_context, tsg) = lab.compute()?;
    let before = allocated()?;
    let few = Slots::map(&lab.zernel, 70..72)?;
    check_eq!(allocated()?, before + 64, "one page");
    let request = slot(&few, 71).begin(&at_once(tsg.id))?.number;
    let all = Slots::map(&lab.zernel, 0..MOST)?;
    check_eq!(allocated()?, before + u64::from(MOST), "all pages");
    check_eq!(slot(&all, 71).load(Word::Trigger), request.get(), "slot 71");
    let used = all.memory().words().iter().enumerate();
    let mut used = used.filter(|(_, word)| word.load(Acquire) != 0);
    check_eq!(used.next().map(|(at, _)| at), Some(71 * 16), "its trigger");
    check_eq!(used.next().map(|(at, _)| at), None, "all else");
    // The last one, and the same memory from a page in the middle on.
    let last = slot(&all, MOST - 1);
    last.begin(&far(tsg.id))?;
    slot(&all, 64 * 9).store(Word::Held, 5);
    let view = SharedMemory::of_file(lab.zernel.as_fd(), 9 * PAGE as u64, 1)?;
    check_eq!(view.slots()[0].held.load(Acquire), 5);
    // A page that is unmapped ends no request and keeps its contents.
    drop((all, view));
    check_eq!(allocated()?, before + u64::from(MOST), "unmapped");
    slot(&few, 71).cancel(request)?;
    let again = Slots::map(&lab.zernel, 576..577)?;
    check_eq!(slot(&again, 576).load(Word::Held), 5, "mapped again");
    drop((few, again, lab));
    check_eq!(allocated()?, before, "closed");
    Ok(())
}

/// Each file has slots of its own.
pub(super) fn of_a_file() -> Outcome {
    longest_lease()?;
    let lab = Lab::open()?;
    let (_context, tsg) = lab.compute()?;
    let other = Zernel::open()?;
    let (mine, its) = (Slots::map(&lab.zernel, 0..64)?, Slots::map(&other, 0..64)?);
    let since = Since::now(&lab.zernel)?;
    let request = slot(&mine, 3).begin(&at_once(tsg.id))?.number;
    check_eq!(words(&slot(&its, 3)), (0, 0), "of the other file");
    check_eq!(errno(slot(&its, 3).cancel(request)), Some(Errno::STALE));
    slot(&its, 3).begin(&far(tsg.id))?;
    drop((its, other));
    since.wait(Ends {
        closed: 1,
        in_flight: 1,
        ..Ends::NONE
    })?;
    slot(&mine, 3).cancel(request)?;
    Ok(())
}

pub(super) fn refused() -> Outcome {
    let zernel = Zernel::open()?;
    let before = allocated()?;
    let good = Mapping {
        length: PAGE,
        offset: 0,
        shared: true,
        exec: false,
    };
    let end = u64::from(MOST) * 64;
    let private = Mapping {
        shared: false,
        ..good
    };
    let beyond = [
        (PAGE, end),
        (2 * PAGE, end - PAGE as u64),
        (end as usize + PAGE, 0),
        (PAGE, 1 << 31),
        (PAGE, 1 << 50),
    ];
    let beyond = beyond.map(|(length, offset)| Mapping {
        length,
        offset,
        ..good
    });
    for what in beyond.into_iter().chain([private]) {
        let answer = raw::try_map(zernel.as_fd(), what);
        check_eq!(answer, Err(Errno::INVAL), "{what:?}");
    }
    let exec = Mapping { exec: true, ..good };
    let answer = raw::try_map(zernel.as_fd(), exec);
    check_eq!(answer, Err(Errno::PERM), "executable");
    let reader = Zernel::open_to_read(Zernel::PATH)?;
    for write in [false, true] {
        let answer = raw::try_map_to(reader.as_fd(), PAGE, write);
        check_eq!(answer, Err(Errno::ACCESS), "a file to read, {write}");
    }
    check_eq!(allocated()?, before, "slots that were refused");
    check_eq!(raw::try_map_to(zernel.as_fd(), PAGE, false), Ok(()));
    check_eq!(raw::try_map(zernel.as_fd(), good), Ok(()));
    // A page that is mapped stays as it is.
    check_eq!(raw::try_do_fork(zernel.as_fd(), 0), Err(Errno::INVAL));
    check_eq!(raw::try_exec(zernel.as_fd()), Err(Errno::ACCESS));
    check_eq!(raw::try_grow(zernel.as_fd()), Err(Errno::FAULT));
    // The first and the last page of three stay when the one between them goes.
    check_eq!(raw::try_hole(zernel.as_fd(), 7), Ok((7, 7)), "a hole");
    Ok(())
}

pub(super) fn of_a_user() -> Outcome {
    let full = Some(Errno::DQUOT);
    let (ours, theirs) = passing::pair()?;
    // Another process, and so another file, of the same user counts too.
    let other = Child::spawn(|| {
        sys::become_user(ALICE, ALICE, &[])?;
        let zernel = Zernel::open()?;
        let _slots = Slots::map(&zernel, 0..640)?;
        passing::send_number(&theirs, 10)?;
        passing::receive_number(&theirs)?;
        Ok(())
    })?;
    passing::receive_number(&ours)?;
    in_child(|| {
        sys::become_user(ALICE, ALICE, &[])?;
        let (zernel, second) = (Zernel::open()?, Zernel::open()?);
        let denied = zernel.stats()?.denied;
        let before = allocated()?;
        check_eq!(errno(Slots::map(&zernel, 0..MOST)), full, "all of them");
        check_eq!(allocated()?, before, "of a mapping that was refused");
        let _most = Slots::map(&zernel, 0..MOST - 640)?;
        for zernel in [&zernel, &second] {
            let answer = errno(Slots::map(zernel, MOST - 640..MOST));
            check_eq!(answer, full, "one more");
        }
        check_eq!(zernel.stats()?.denied, denied + 3, "denied");
        // A page that is there costs nothing.
        Slots::map(&zernel, 64..1_000)?;
        // A file that goes makes room.
        drop((_most, zernel));
        let _again = Slots::map(&second, 0..MOST - 640)?;
        Ok(())
    })?;
    in_child(|| {
        sys::become_user_with(ALICE, ALICE, RESOURCE)?;
        let _all = Slots::map(&Zernel::open()?, 0..MOST)?;
        Ok(())
    })?;
    in_child(|| {
        sys::become_user(BOB, BOB, &[])?;
        let _few = Slots::map(&Zernel::open()?, 0..64)?;
        Ok(())
    })?;
    passing::send_number(&ours, 0)?;
    other.join()?;
    in_child(|| {
        sys::become_user(ALICE, ALICE, &[])?;
        let zernel = Zernel::open()?;
        let _all = Slots::map(&zernel, 0..MOST)?;
        let answer = errno(Slots::map(&Zernel::open()?, 0..1));
        check_eq!(answer, full, "one more than all");
        Ok(())
    })
}

/// They are the memory cgroup's that maps them first; at its limit there are none.
pub(super) fn are_charged() -> Outcome {
    let group = Limited::new()?;
    in_child(|| {
        let zernel = Zernel::open()?;
        let kept = Slots::map(&zernel, 0..64)?;
        group.enter()?;
        // The memory that a process takes in advance counts, too.
        let room = group.used()? + (256 << 10);
        let before = (allocated()?, group.used()?);
        {
            let all = Slots::map(&Zernel::open()?, 0..MOST)?;
            let after = group.used()?;
            ensure!(after >= before.1 + (1 << 20), "{} then {after}", before.1);
            drop(all);
        }
        group.set("memory.max", room)?;
        let mut answer = None;
        // The kernel kills for memory of user space alone.
        for _ in 0..3 {
            answer = errno(Slots::map(&zernel, 0..MOST));
        }
        group.set("memory.max", "max")?;
        check_eq!(answer, Some(Errno::NOMEM), "at the limit");
        check_eq!(allocated()?, before.0, "slots");
        slot(&kept, 63).store(Word::Held, 1);
        Slots::map(&zernel, 0..MOST)?;
        Ok(())
    })
}

/// A child has the file, but not the mapping; it can make one.
pub(super) fn fork() -> Outcome {
    longest_lease()?;
    let lab = Lab::open()?;
    let (_context, tsg) = lab.compute()?;
    let slots = Slots::map(&lab.zernel, 0..64)?;
    let request = slot(&slots, 0).begin(&far(tsg.id))?.number;
    // It does not fill the log.
    std::fs::write(TRACE_SEGV, "0")?;
    let child = Child::spawn(|| {
        slot(&slots, 0).load(Word::Trigger);
        Ok(())
    })?;
    let end = child.end();
    std::fs::write(TRACE_SEGV, "1")?;
    check_eq!(end?, End::Signal(11), "it touched the slots");
    in_child(|| {
        let own = Slots::map(&lab.zernel, 0..64)?;
        slot(&own, 0).ready_call(request)?;
        check_eq!(slot(&own, 0).load(Word::Trigger), request.get());
        let second = slot(&own, 1).begin(&at_once(tsg.id))?.number;
        check_eq!(second.get(), 1);
        Ok(())
    })?;
    check_eq!(words(&slot(&slots, 0)), (request.get(), request.get()));
    // That of the child goes on: the file is still open.
    check_eq!(words(&slot(&slots, 1)), (1, 0), "the child's");
    slot(&slots, 1).cancel(Number::new(1).expect("a number"))?;
    Ok(())
}

/// A process that gets the file sees the same slots; the end of one process leaves them to the
/// other.
pub(super) fn shared_with_a_process() -> Outcome {
    longest_lease()?;
    let lab = Lab::open()?;
    let client = Client::new(&lab)?;
    let zernel = Zernel::open()?;
    let mine = Slots::map(&zernel, 0..64)?;
    let since = Since::now(&lab.zernel)?;
    let (ours, theirs) = passing::pair()?;
    passing::send(&ours, zernel.as_fd())?;
    let child = Child::spawn(|| {
        let file = passing::receive(&theirs)?;
        let view = SharedMemory::of_file(file.as_fd(), 0, 1)?;
        view.slots()[5].held.store(77, Release);
        passing::send_number(&theirs, 0)?;
        loop {
            std::thread::sleep(Duration::from_secs(60));
        }
    })?;
    passing::receive_number(&ours)?;
    check_eq!(slot(&mine, 5).load(Word::Held), 77, "stored by another");
    let request = slot(&mine, 5).begin(&far(client.tsg))?.number;
    drop((mine, zernel));
    since.expect(Ends {
        in_flight: 1,
        ..Ends::NONE
    })?;
    child.kill()?;
    child.end()?;
    since.wait(Ends {
        closed: 1,
        ..Ends::NONE
    })?;
    check_eq!(request.get(), 1);
    Ok(())
}

/// With a mapping all goes on as with a descriptor: timers, stores, and zernel itself.
pub(super) fn keep_the_file() -> Outcome {
    longest_lease()?;
    let lab = Lab::open()?;
    let (_context, tsg) = lab.compute()?;
    let zernel = Zernel::open()?;
    let slots = Slots::map(&zernel, 0..64)?;
    let view = SharedMemory::of_file(zernel.as_fd(), 0, 1)?;
    let since = Since::now(&lab.zernel)?;
    let soon = in_so_long(tsg.id, Duration::from_millis(200));
    let request = slot(&slots, 0).begin(&soon)?.number;
    slot(&slots, 1).begin(&far(tsg.id))?;
    drop((slots, zernel));
    let words = &view.slots()[0];
    wait_until("the trigger", || {
        Ok(words.trigger.load(Acquire) == request.get())
    })?;
    words.release.store(request.get(), Release);
    words.done.store(request.get(), Release);
    since.wait(Ends {
        done: 1,
        in_flight: 1,
        ..Ends::NONE
    })?;
    check_eq!(try_unload("zernel"), Err(Errno::AGAIN), "while mapped");
    drop(view);
    since.wait(Ends {
        done: 1,
        closed: 1,
        ..Ends::NONE
    })
}

/// A GPU is given the slots, as a driver does it: pinned for long. It sees what is stored, stores
/// itself, and goes on when mapping and file are gone.
pub(super) fn on_the_gpu() -> Outcome {
    longest_lease()?;
    let lab = Lab::open()?;
    let client = Client::new(&lab)?;
    let answer = errno(client.context.add_memory(client.slots.memory()));
    check_eq!(answer, Some(Errno::BUSY), "twice");
    let slot = client.slot(2);
    let request = slot.begin(&at_once(client.tsg))?.number;
    let seq = client.submit(&slot, request, super::SHORTEST)?;
    wait_until("the holder stores its word", || {
        Ok(slot.load(Word::Held) == request.get())
    })?;
    slot.ready(request);
    client.wait(seq)?;
    slot.done(request);
    // A page that is mapped anew is the same memory.
    let last = client.slot(63);
    let number = last.begin(&far(client.tsg))?.number;
    let release = last.word(Word::Release);
    let wait = Item::wait(release, Condition::AtLeast, number.get());
    let seq = client.context.submit(0, &[wait])?.last_seq;
    let Client { slots, context, .. } = client;
    drop(slots);
    let deadline = libzernel::Timestamp::now() + crate::common::SOON;
    context.wait(0, seq, deadline)?;
    Ok(())
}
