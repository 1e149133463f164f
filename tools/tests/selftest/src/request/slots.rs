// SPDX-License-Identifier: MIT OR Apache-2.0
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

use super::{at_once, far, in_so_long, lab, longest_lease, slot, wait, words, Client, Since};
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

/// Slot n is at byte 64 n of the file, in any mapping, and is zero at first.
pub(super) fn by_number() -> Outcome {
    let (lab, client) = lab()?;
    let before = allocated()?;
    let few = Slots::map(&lab.zernel, 70..72)?;
    check_eq!(allocated()?, before + 64, "one page");
    let request = slot(&few, 71).begin(&at_once(client.tsg))?.number;
    let all = Slots::map(&lab.zernel, 0..MOST)?;
    check_eq!(allocated()?, before + u64::from(MOST), "all pages");
    let used = all.memory().words().iter().enumerate();
    let used = used.filter(|(_, word)| word.load(Acquire) != 0);
    let used: Vec<_> = used.map(|(at, _)| at).collect();
    check_eq!(used, [71 * 16_usize], "all but its trigger");
    // The last one, and the same memory from a page in the middle on.
    slot(&all, MOST - 1).begin(&far(client.tsg))?;
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
    let (lab, client) = lab()?;
    let its = Slots::map(&Zernel::open()?, 0..64)?;
    let since = Since::now(&lab.zernel)?;
    let request = client.slot(3).begin(&at_once(client.tsg))?.number;
    check_eq!(words(&slot(&its, 3)), (0, 0), "of the other file");
    check_eq!(errno(slot(&its, 3).cancel(request)), Some(Errno::STALE));
    slot(&its, 3).begin(&far(client.tsg))?;
    drop(its);
    since.wait(ends!(closed: 1, in_flight: 1))?;
    client.slot(3).cancel(request)?;
    Ok(())
}

pub(super) fn refused() -> Outcome {
    let zernel = Zernel::open()?;
    let before = allocated()?;
    let (page, end) = (PAGE as u64, u64::from(MOST) * 64);
    for (length, offset, shared, exec, error) in [
        (page, end, true, false, Errno::INVAL),
        (2 * page, end - page, true, false, Errno::INVAL),
        (end + page, 0, true, false, Errno::INVAL),
        (page, 1 << 31, true, false, Errno::INVAL),
        (page, 1 << 50, true, false, Errno::INVAL),
        (page, 0, false, false, Errno::INVAL),
        (page, 0, true, true, Errno::PERM),
    ] {
        let what = Mapping {
            length: length as usize,
            offset,
            shared,
            exec,
        };
        let answer = raw::try_map(zernel.as_fd(), what);
        check_eq!(answer, Err(error), "{what:?}");
    }
    let reader = Zernel::open_to_read(Zernel::PATH)?;
    for write in [false, true] {
        let answer = raw::try_map_to(reader.as_fd(), PAGE, write);
        check_eq!(answer, Err(Errno::ACCESS), "a file to read, {write}");
    }
    check_eq!(allocated()?, before, "slots that were refused");
    for write in [false, true] {
        check_eq!(raw::try_map_to(zernel.as_fd(), PAGE, write), Ok(()));
    }
    // A page that is mapped stays as it is.
    check_eq!(raw::try_do_fork(zernel.as_fd(), 0), Err(Errno::INVAL));
    check_eq!(raw::try_exec(zernel.as_fd()), Err(Errno::ACCESS));
    check_eq!(raw::try_grow(zernel.as_fd()), Err(Errno::FAULT));
    // The first and the last page of three stay when the one between them goes.
    check_eq!(raw::try_hole(zernel.as_fd(), 7), Ok((7, 7)), "a hole");
    Ok(())
}

/// A user has as many as a file, in all files of all processes together; others have their own, and
/// `CAP_SYS_RESOURCE` allows more.
pub(super) fn of_a_user() -> Outcome {
    let full = Some(Errno::DQUOT);
    let alice = || sys::become_user(ALICE, ALICE, &[]);
    in_child(|| {
        alice()?;
        let (zernel, second) = (Zernel::open()?, Zernel::open()?);
        let few = Slots::map(&second, 0..640)?;
        let (denied, before) = (zernel.stats()?.denied, allocated()?);
        check_eq!(errno(Slots::map(&zernel, 0..MOST)), full, "all of them");
        check_eq!(allocated()?, before, "of a mapping that was refused");
        let _most = Slots::map(&zernel, 0..MOST - 640)?;
        for (zernel, number) in [(&zernel, MOST - 1), (&second, 640)] {
            let answer = errno(Slots::map(zernel, number..number + 1));
            check_eq!(answer, full, "one more");
        }
        check_eq!(zernel.stats()?.denied, denied + 3, "denied");
        // A page that is there costs nothing.
        Slots::map(&zernel, 64..1_000)?;
        // A file that goes makes room.
        drop((few, second));
        Slots::map(&zernel, 0..MOST)?;
        Ok(())
    })?;
    let _all = Child::idle(|| {
        alice()?;
        // The mapping keeps the file.
        std::mem::forget(Slots::map(&Zernel::open()?, 0..MOST)?);
        Ok(())
    })?;
    let map = |slots| errno(Zernel::open().and_then(|zernel| Slots::map(&zernel, 0..slots)));
    in_child(|| {
        alice()?;
        check_eq!(map(1), full, "one more than all");
        Ok(())
    })?;
    in_child(|| {
        sys::become_user_with(ALICE, ALICE, RESOURCE)?;
        check_eq!(map(MOST), None, "with CAP_SYS_RESOURCE");
        Ok(())
    })?;
    in_child(|| {
        sys::become_user(BOB, BOB, &[])?;
        check_eq!(map(64), None, "another user");
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
            let _all = Slots::map(&Zernel::open()?, 0..MOST)?;
            let after = group.used()?;
            ensure!(after >= before.1 + (1 << 20), "{} then {after}", before.1);
        }
        group.set("memory.max", room)?;
        // The kernel kills for memory of user space alone.
        let answers = [(); 3].map(|()| errno(Slots::map(&zernel, 0..MOST)));
        group.set("memory.max", "max")?;
        check_eq!(answers[2], Some(Errno::NOMEM), "at the limit");
        check_eq!(allocated()?, before.0, "slots");
        slot(&kept, 63).store(Word::Held, 1);
        Slots::map(&zernel, 0..MOST)?;
        Ok(())
    })
}

/// A child has the file, but not the mapping; it can make one.
pub(super) fn fork() -> Outcome {
    let (lab, client) = lab()?;
    let slots = Slots::map(&lab.zernel, 0..64)?;
    let request = slot(&slots, 0).begin(&far(client.tsg))?.number;
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
        slot(&own, 1).begin(&at_once(client.tsg))?;
        Ok(())
    })?;
    check_eq!(words(&slot(&slots, 0)), (request.get(), request.get()));
    // That of the child goes on: the file is still open.
    check_eq!(words(&slot(&slots, 1)), (1, 0), "the child's");
    slot(&slots, 1).cancel(Number::new(1).expect("a number"))?;
    Ok(())
}

/// A process that gets the file, by a socket or by fork, sees the same slots; the end of one process
/// leaves them to the others, and the last one that is killed gives the GPU back.
pub(super) fn shared_with_a_process() -> Outcome {
    longest_lease()?;
    let lab = Lab::open()?;
    let (context, tsg) = lab.compute()?;
    let zernel = Zernel::open()?;
    let mine = Slots::map(&zernel, 0..64)?;
    context.add_memory(mine.memory())?;
    let since = Since::now(&lab.zernel)?;
    let (ours, theirs) = passing::pair()?;
    passing::send(&ours, zernel.as_fd())?;
    let received = Child::spawn(|| {
        let file = passing::receive(&theirs)?;
        let view = SharedMemory::of_file(file.as_fd(), 0, 1)?;
        view.slots()[5].held.store(77, Release);
        passing::send_number(&theirs, 0)?;
        std::thread::sleep(super::FAR);
        Ok(())
    })?;
    passing::receive_number(&ours)?;
    check_eq!(slot(&mine, 5).load(Word::Held), 77, "stored by another");
    let inherited = Child::spawn(|| {
        std::thread::sleep(super::FAR);
        Ok(())
    })?;
    let request = slot(&mine, 5).begin(&far(tsg.id))?.number.get();
    let release = slot(&mine, 5).word(Word::Release);
    let held = Item::wait(release, Condition::AtLeast, request);
    let seq = context.submit(0, &[held])?.last_seq;
    drop((mine, zernel));
    for child in [received, inherited] {
        since.expect(ends!(in_flight: 1))?;
        let answer = errno(context.wait(0, seq, libzernel::Timestamp::now()));
        check_eq!(answer, Some(Errno::TIME), "given up too early");
        child.kill()?;
        child.end()?;
    }
    since.wait(ends!(closed: 1))?;
    wait(&context, seq)
}

/// With a mapping all goes on as with a descriptor: timers, stores, and zernel itself.
pub(super) fn keep_the_file() -> Outcome {
    let (lab, client) = lab()?;
    let zernel = Zernel::open()?;
    let slots = Slots::map(&zernel, 0..64)?;
    let view = SharedMemory::of_file(zernel.as_fd(), 0, 1)?;
    let since = Since::now(&lab.zernel)?;
    let soon = in_so_long(client.tsg, Duration::from_millis(200));
    let request = slot(&slots, 0).begin(&soon)?.number.get();
    slot(&slots, 1).begin(&far(client.tsg))?;
    drop((slots, zernel));
    let words = &view.slots()[0];
    wait_until("the trigger", || Ok(words.trigger.load(Acquire) == request))?;
    words.release.store(request, Release);
    words.done.store(request, Release);
    since.wait(ends!(done: 1, in_flight: 1))?;
    check_eq!(try_unload("zernel"), Err(Errno::AGAIN), "while mapped");
    drop(view);
    since.wait(ends!(done: 1, closed: 1))
}

/// A GPU is given the slots, as a driver does it: pinned for long. It sees what is stored, stores
/// itself, and goes on when mapping and file are gone.
pub(super) fn on_the_gpu() -> Outcome {
    let (_lab, client) = lab()?;
    let answer = errno(client.context.add_memory(client.slots.memory()));
    check_eq!(answer, Some(Errno::BUSY), "twice");
    let last = client.slot(63);
    let request = last.begin(&at_once(client.tsg))?.number;
    let seq = client.submit(&last, request, super::SHORTEST)?;
    wait_until("the holder stores its word", || {
        Ok(last.load(Word::Held) == request.get())
    })?;
    let Client { slots, context, .. } = client;
    drop(slots);
    wait(&context, seq)
}
