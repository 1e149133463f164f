// SPDX-License-Identifier: MIT OR Apache-2.0
//! Semaphore words: waits, releases, holds, stores by the program, mappings.

use std::os::fd::AsFd;

use libzernel::sim::{Condition, Context, ContextSpec, Item, Sim};
use libzernel::Timestamp;
use rustix::io::Errno;

use super::raw::{self, Mapping, PAGE};
use super::us;
use crate::check_eq;
use crate::child::{Child, End};
use crate::common::{Lab, SOON};
use crate::harness::Outcome;

const EQ: Condition = Condition::Equal;

fn is_done(context: &Context, seq: u64) -> anyhow::Result<bool> {
    match context.wait(0, seq, Timestamp::from_ns(0)) {
        Ok(_) => Ok(true),
        Err(error) if error.errno() == Some(Errno::TIME) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Contexts that share words: a release of one ends the wait of the other at that very moment.
pub(super) fn release_ends_a_wait() -> Outcome {
    let lab = Lab::open()?;
    let (first, _) = lab.compute()?;
    let shared = lab.sim.create_context(&ContextSpec {
        share_words: Some(&first),
        ..ContextSpec::copy("shared")
    })?;
    let (stranger, _) = lab.compute()?;
    let waiting = Item::wait(7, EQ, 5).notify();
    shared.submit(0, &[waiting])?;
    stranger.submit(0, &[waiting])?;
    let last = first.submit(0, &[Item::work(us(300)), Item::release(7, 5).notify()])?;
    first.wait(0, last.last_seq, Timestamp::NEVER)?;
    shared.wait(0, 1, Timestamp::NEVER)?;
    let ends: Vec<_> = lab.sim.completions(16)?.0.iter().map(|c| c.end).collect();
    check_eq!(ends.len(), 2, "completions");
    check_eq!(ends[0], ends[1], "release and end of the wait");
    check_eq!(is_done(&stranger, 1)?, false, "words that are not shared");
    check_eq!(first.words(8)?.load(7), 5);
    check_eq!(shared.words(8)?.load(7), 5);
    check_eq!(stranger.words(8)?.load(7), 0);
    Ok(())
}

/// A store is seen at once with a doorbell, and a little later without: calls of other programs do not
/// keep the engine from looking at words.
pub(super) fn store_is_seen() -> Outcome {
    let lab = Lab::open()?;
    let last = lab.sim.version()?.words - 1;
    let (context, _) = lab.compute()?;
    let words = context.words(last + 1)?;
    words.store(2, u32::MAX);
    let items = [
        Item::wait(0, EQ, 1),
        Item::wait(1, Condition::NotEqual, 0),
        Item::wait(last, Condition::AtLeast, 2),
        // Cyclic.
        Item::wait(2, Condition::AtLeast, 1),
        Item::hold(3, EQ, 1, us(50_000_000)),
    ];
    context.submit(0, &items)?;
    for (number, (word, value)) in (1..).zip([(0, 1), (1, 7), (last, 3), (2, 5)]) {
        context.doorbell()?;
        check_eq!(is_done(&context, number)?, false, "item {number}");
        words.store(word, value);
        context.doorbell()?;
        check_eq!(is_done(&context, number)?, true, "doorbell {number}");
    }
    check_eq!(is_done(&context, 5)?, false, "the hold");
    words.store(3, 1);
    context.wait(0, 5, Timestamp::now() + SOON)?;
    let caller = || {
        Child::spawn(|| {
            let sim = Sim::open()?;
            loop {
                sim.gpu_info(0)?;
            }
        })
    };
    let callers = [caller()?, caller()?];
    for round in 2..=20 {
        let wait = context.submit(0, &[Item::wait(0, EQ, round)])?;
        words.store(0, round);
        context.wait(0, wait.last_seq, Timestamp::now() + SOON)?;
    }
    for caller in callers {
        caller.kill()?;
        check_eq!(caller.end()?, End::Signal(9), "a caller");
    }
    Ok(())
}

pub(super) fn mappings() -> Outcome {
    let lab = Lab::open()?;
    let mut contexts = vec![lab.compute()?.0, lab.compute()?.0, lab.compute()?.0];
    let offset = |context: &Context| u64::from(context.id()) * PAGE as u64;
    let good = Mapping {
        length: PAGE,
        offset: offset(&contexts[1]),
        shared: true,
        exec: false,
    };
    let fd = lab.sim.as_fd();
    check_eq!(raw::try_map(fd, good), Ok(()), "as it should be");
    let wrong = [0, offset(&contexts[2]) + PAGE as u64, 1 << 50];
    let wrong = wrong.map(|offset| Mapping { offset, ..good });
    let (length, shared, exec) = (2 * PAGE, false, true);
    let bad = [
        Mapping { length, ..good },
        Mapping { shared, ..good },
        Mapping { exec, ..good },
    ];
    for what in bad.into_iter().chain(wrong) {
        check_eq!(raw::try_map(fd, what), Err(Errno::INVAL), "{what:?}");
    }
    contexts.remove(1).destroy()?;
    check_eq!(raw::try_map(fd, good), Err(Errno::INVAL), "after its end");
    // A mapping is no way to the words of another context.
    contexts[0].words(1)?.store(0, 77);
    check_eq!(contexts[1].words(1)?.load(0), 0);

    // fork does not hand it on, and nobody can make it.
    let asked = raw::try_do_fork(fd, offset(&contexts[0]));
    check_eq!(asked, Err(Errno::INVAL), "MADV_DOFORK");
    let words = contexts[0].words(1)?;
    check_eq!(mapped()?, 1, "mappings");
    crate::child::in_child(|| {
        check_eq!(mapped()?, 0, "mappings of a forked process");
        Ok(())
    })?;
    check_eq!(words.load(0), 77);
    Ok(())
}

/// Mappings of the device that this process has.
fn mapped() -> anyhow::Result<usize> {
    let maps = std::fs::read_to_string("/proc/self/maps")?;
    Ok(maps
        .lines()
        .filter(|line| line.ends_with("/dev/zernel-sim"))
        .count())
}

/// A mapping stays, and does nothing any more.
pub(super) fn outlive_their_context() -> Outcome {
    let lab = Lab::open()?;
    let (context, _) = lab.compute()?;
    let words = context.words(2)?;
    words.store(1, 9);
    context.submit(0, &[Item::wait(0, EQ, 1)])?;
    context.destroy()?;
    let (next, _) = lab.compute()?;
    check_eq!(next.words(2)?.load(1), 0, "words of the next context");
    next.submit(0, &[Item::wait(0, EQ, 1)])?;
    words.store(0, 1);
    next.doorbell()?;
    check_eq!(is_done(&next, 1)?, false, "words of a context that is gone");
    check_eq!(words.load(1), 9);
    drop((next, lab));
    // The file is closed; the page is still there.
    words.store(1, 10);
    check_eq!(words.load(1), 10);
    Ok(())
}
