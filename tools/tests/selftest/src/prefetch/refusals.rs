// SPDX-License-Identifier: GPL-2.0
//! Subscriptions that are refused, and with which errno; nothing has changed then.

use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use anyhow::Result;
use bytemuck::{bytes_of, Zeroable};
use libzernel::prefetch::{Ranges, MAX_LENGTH};
use libzernel::request::Page;
use libzernel::sys::abi;
use libzernel::{Target, Zernel};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use super::{Bell, LONG};
use crate::abi::{call, unchanged};
use crate::check_eq;
use crate::child::Child;
use crate::common::errno;
use crate::harness::Outcome;

fn refused(zernel: &Zernel, request: &abi::zernel_v0_prefetch, expected: Errno) -> Outcome {
    let number = abi::LIBZERNEL_V0_IOC_PREFETCH_SUBSCRIBE;
    let (result, after) = unchanged(zernel, || Ok(call(zernel.as_fd(), number, request)))?;
    check_eq!(result, Err(expected), "{request:?}");
    check_eq!(bytes_of(&after) == bytes_of(request), true, "{request:?}");
    Ok(())
}

fn taken(zernel: &Zernel, request: &abi::zernel_v0_prefetch) -> Outcome {
    let number = abi::LIBZERNEL_V0_IOC_PREFETCH_SUBSCRIBE;
    let (result, after) = call(zernel.as_fd(), number, request);
    check_eq!(result, Ok(0), "{request:?}");
    let end = abi::zernel_v0_prefetch_end {
        subscription: after.subscription,
        flags: 0,
    };
    call(
        zernel.as_fd(),
        abi::LIBZERNEL_V0_IOC_PREFETCH_UNSUBSCRIBE,
        &end,
    )
    .0?;
    Ok(())
}

fn of_file(kind: u32, fd: BorrowedFd<'_>) -> abi::zernel_v0_prefetch {
    abi::zernel_v0_prefetch {
        kind,
        fd: fd.as_raw_fd(),
        ..abi::zernel_v0_prefetch::zeroed()
    }
}

pub(super) fn fields() -> Outcome {
    let zernel = Zernel::open()?;
    let bell = Bell::new()?;
    let file = File::open("/proc/self/exe")?;
    let page = Page::anonymous(&zernel)?;
    let eventfd = of_file(abi::ZERNEL_V0_PREFETCH_EVENTFD, bell.0.as_fd());
    let word = abi::zernel_v0_prefetch {
        kind: abi::ZERNEL_V0_PREFETCH_WORD,
        page: page.number(),
        slot: 7,
        ..abi::zernel_v0_prefetch::zeroed()
    };
    let ahead = abi::zernel_v0_prefetch {
        length: 4096,
        ..of_file(abi::ZERNEL_V0_PREFETCH_READ_AHEAD, file.as_fd())
    };
    let mut wrong = Vec::new();
    for good in [eventfd, word, ahead] {
        taken(&zernel, &good)?;
        let all = [2, 3, 1 << 31, u32::MAX];
        wrong.extend(all.map(|flags| abi::zernel_v0_prefetch { flags, ..good }));
        let all = [0, 4, 255, 1 << 31, u32::MAX];
        wrong.extend(all.map(|kind| abi::zernel_v0_prefetch { kind, ..good }));
        let all = [1, u32::MAX];
        wrong.extend(all.map(|subscription| abi::zernel_v0_prefetch {
            subscription,
            ..good
        }));
    }
    // What a kind does not name.
    for (page, slot) in [(1, 0), (0, 1), (0, 64)] {
        wrong.push(abi::zernel_v0_prefetch {
            page,
            slot,
            ..eventfd
        });
        wrong.push(abi::zernel_v0_prefetch {
            page,
            slot,
            ..ahead
        });
    }
    for fd in [-1, 1, bell.0.as_raw_fd(), i32::MIN] {
        wrong.push(abi::zernel_v0_prefetch { fd, ..word });
    }
    for (offset, length, span) in [(1, 0, 0), (0, 1, 0), (0, 0, 1), (u64::MAX, 1, 1)] {
        for good in [eventfd, word] {
            wrong.push(abi::zernel_v0_prefetch {
                offset,
                length,
                span,
                ..good
            });
        }
    }
    const END: u64 = i64::MAX as u64;
    for (offset, length, span) in [
        (0, 0, 0),
        (0, 0, 1 << 20),
        (0, MAX_LENGTH + 1, 0),
        (0, u64::MAX, 0),
        (0, 4096, 4095),
        (0, 4096, END + 1),
        (END, 1, 0),
        (END - 4095, 4096, 0),
        (u64::MAX, 1, 0),
        (u64::MAX, 4096, u64::MAX),
    ] {
        wrong.push(abi::zernel_v0_prefetch {
            offset,
            length,
            span,
            ..ahead
        });
    }
    for request in wrong {
        refused(&zernel, &request, Errno::INVAL)?;
    }
    for (offset, length, span) in [
        (0, MAX_LENGTH, 0),
        (END - 4096, 4096, 4096),
        (7, 1, END - 7),
    ] {
        taken(
            &zernel,
            &abi::zernel_v0_prefetch {
                offset,
                length,
                span,
                ..ahead
            },
        )?;
    }
    Ok(())
}

pub(super) fn bad_files() -> Outcome {
    let zernel = Zernel::open()?;
    let me = Target::current_process();
    let ranges = Ranges {
        offset: 0,
        length: 4096,
        span: 0,
    };
    let bell = Bell::new()?;
    let null = File::open("/dev/null")?;
    let directory = File::open("/proc")?;
    let regular = File::open("/proc/self/exe")?;
    let (reader, writer) = rustix::pipe::pipe()?;
    let memory = rustix::fs::memfd_create("memory", rustix::fs::MemfdFlags::CLOEXEC)?;
    let path = format!("/proc/self/fd/{}", memory.as_raw_fd());
    let write_only = rustix::fs::open(path.as_str(), OFlags::WRONLY, Mode::empty())?;
    let place = rustix::fs::open("/proc/self/exe", OFlags::PATH, Mode::empty())?;
    let refused = |what: &str, answer: Result<_, _>, expected| {
        check_eq!(errno(answer), Some(expected), "{what}");
        Ok(())
    };
    unchanged(&zernel, || {
        let ahead = |fd: BorrowedFd<'_>| zernel.subscribe_read_ahead(&me, fd, &ranges).map(drop);
        refused("a device", ahead(null.as_fd()), Errno::INVAL)?;
        refused("a directory", ahead(directory.as_fd()), Errno::INVAL)?;
        refused("a pipe", ahead(reader.as_fd()), Errno::INVAL)?;
        refused("an eventfd", ahead(bell.0.as_fd()), Errno::INVAL)?;
        refused("zernel itself", ahead(zernel.as_fd()), Errno::INVAL)?;
        refused("what is written", ahead(write_only.as_fd()), Errno::BADF)?;
        refused("the end of a pipe", ahead(writer.as_fd()), Errno::BADF)?;
        refused("a path", ahead(place.as_fd()), Errno::BADF)?;
        let rings = |fd: BorrowedFd<'_>| zernel.subscribe_eventfd(&me, fd).map(drop);
        refused("no eventfd", rings(null.as_fd()), Errno::INVAL)?;
        refused("a file", rings(regular.as_fd()), Errno::INVAL)?;
        refused("a place", rings(place.as_fd()), Errno::BADF)
    })?;
    for kind in [
        abi::ZERNEL_V0_PREFETCH_EVENTFD,
        abi::ZERNEL_V0_PREFETCH_READ_AHEAD,
    ] {
        for fd in [-1, i32::MIN, 1_000_000, i32::MAX] {
            let request = abi::zernel_v0_prefetch {
                kind,
                fd,
                length: u64::from(kind == abi::ZERNEL_V0_PREFETCH_READ_AHEAD),
                ..abi::zernel_v0_prefetch::zeroed()
            };
            self::refused(&zernel, &request, Errno::BADF)?;
        }
    }
    // Regular, if nothing is read of it.
    zernel.subscribe_read_ahead(&me, memory.as_fd(), &ranges)?;
    Ok(())
}

pub(super) fn no_such_process() -> Outcome {
    let zernel = Zernel::open()?;
    let bell = Bell::new()?;
    let zombie = Child::spawn(|| Ok(()))?;
    zombie.wait_ended(LONG)?;
    let (hold, held) = std::sync::mpsc::channel::<()>();
    let (tell, told) = std::sync::mpsc::channel();
    let thread = std::thread::spawn(move || {
        let _ = tell.send(crate::common::tid());
        // Until the other end is gone.
        let _ = held.recv();
    });
    let tid = told.recv()?;
    let good = of_file(abi::ZERNEL_V0_PREFETCH_EVENTFD, bell.0.as_fd());
    for (what, id) in [
        ("a thread of the kernel", 2),
        ("a number too large", 1 << 30),
        ("a number of 64 bits", 1 << 40),
        ("a zombie", zombie.pid().into()),
        ("a thread that is no process", tid.into()),
    ] {
        refused(
            &zernel,
            &abi::zernel_v0_prefetch { id, ..good },
            Errno::SRCH,
        )
        .map_err(|error| error.context(what))?;
    }
    drop(hold);
    thread.join().expect("a thread that ends");
    let flags = abi::ZERNEL_V0_PREFETCH_PIDFD;
    for id in [0, bell.0.as_raw_fd() as u64, 1_000_000, 1 << 32, u64::MAX] {
        let request = abi::zernel_v0_prefetch { id, flags, ..good };
        refused(&zernel, &request, Errno::BADF)?;
    }
    let Target::Pidfd(gone) = Target::pidfd(zombie.pid())? else {
        anyhow::bail!("no pidfd");
    };
    let id = gone.as_raw_fd() as u64;
    let request = abi::zernel_v0_prefetch { id, flags, ..good };
    refused(&zernel, &request, Errno::SRCH)
}

pub(super) fn no_such_slot() -> Outcome {
    let zernel = Zernel::open()?;
    let page = Page::anonymous(&zernel)?;
    // Of another file.
    let other = Zernel::open()?;
    let another = Page::anonymous(&other)?;
    let number = page.number();
    check_eq!(another.number(), number, "each file numbers its own");
    for (page, slot) in [
        (number, 64),
        (number, u32::MAX),
        (0, 0),
        (number + 1, 0),
        (u32::MAX, 7),
    ] {
        let request = abi::zernel_v0_prefetch {
            kind: abi::ZERNEL_V0_PREFETCH_WORD,
            page,
            slot,
            ..abi::zernel_v0_prefetch::zeroed()
        };
        refused(&zernel, &request, Errno::NOENT)?;
    }
    page.unregister()?;
    let request = abi::zernel_v0_prefetch {
        kind: abi::ZERNEL_V0_PREFETCH_WORD,
        page: number,
        ..abi::zernel_v0_prefetch::zeroed()
    };
    refused(&zernel, &request, Errno::NOENT)?;
    taken(&other, &request)
}

pub(super) fn no_such_subscription() -> Outcome {
    let zernel = Zernel::open()?;
    let me = Target::current_process();
    let (_bell, subscription) = Bell::of(&zernel, &me)?;
    let number = subscription.number();
    let end = |zernel: &Zernel, subscription, flags| {
        let request = abi::zernel_v0_prefetch_end {
            subscription,
            flags,
        };
        let ended = abi::LIBZERNEL_V0_IOC_PREFETCH_UNSUBSCRIBE;
        unchanged(zernel, || Ok(call(zernel.as_fd(), ended, &request).0))
    };
    for flags in [1, 1 << 31, u32::MAX] {
        check_eq!(end(&zernel, number, flags)?, Err(Errno::INVAL), "{flags}");
    }
    for wrong in [0, number + 1, u32::MAX] {
        check_eq!(end(&zernel, wrong, 0)?, Err(Errno::NOENT), "{wrong}");
    }
    // Each file has its own.
    let other = Zernel::open()?;
    check_eq!(end(&other, number, 0)?, Err(Errno::NOENT));
    subscription.unsubscribe()?;
    check_eq!(end(&zernel, number, 0)?, Err(Errno::NOENT), "once more");
    let (_bell, next) = Bell::of(&zernel, &me)?;
    check_eq!(next.number(), number + 1, "numbers are not used again");
    Ok(())
}
