// SPDX-License-Identifier: GPL-2.0
//! Semaphore words: waits, releases, holds, stores by the program, mappings.

use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::ensure;
use libzernel::sim::{Condition, Context, ContextSpec, Item, Sim, Status};
use libzernel::sys::abi;
use libzernel::sys::memory::SharedMemory;
use libzernel::Timestamp;
use rustix::io::Errno;

use super::raw::{self, Mapping, PAGE};
use super::us;
use crate::check_eq;
use crate::common::{errno, Lab};
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
    ensure!(
        !is_done(&stranger, 1)?,
        "a release reached words that are not shared"
    );
    check_eq!(first.words(8)?.load(7), 5);
    check_eq!(shared.words(8)?.load(7), 5);
    check_eq!(stranger.words(8)?.load(7), 0);
    Ok(())
}

pub(super) fn conditions() -> Outcome {
    use Condition::{AtLeast, NotEqual};
    const HALF: u32 = 1 << 31;
    // Word, condition, value, whether it is met. GE is cyclic.
    let table = [
        (5, EQ, 5, true),
        (5, EQ, 4, false),
        (5, NotEqual, 4, true),
        (5, NotEqual, 5, false),
        (5, AtLeast, 5, true),
        (6, AtLeast, 5, true),
        (4, AtLeast, 5, false),
        (0, AtLeast, u32::MAX, true),
        (u32::MAX, AtLeast, 0, false),
        (HALF - 1, AtLeast, 0, true),
        (HALF, AtLeast, 0, false),
        (0, AtLeast, HALF, false),
        (0, AtLeast, HALF + 1, true),
    ];
    let lab = Lab::open()?;
    for (word, condition, value, met) in table {
        let (context, _) = lab.compute()?;
        context.words(1)?.store(0, word);
        context.submit(0, &[Item::wait(0, condition, value)])?;
        context.doorbell()?;
        check_eq!(
            is_done(&context, 1)?,
            met,
            "{word:#x} {condition:?} {value:#x}"
        );
    }
    Ok(())
}

/// A store is seen at once with a doorbell, and a little later without.
pub(super) fn store_is_seen() -> Outcome {
    let lab = Lab::open()?;
    let last_word = lab.sim.version()?.words - 1;
    let (context, _) = lab.compute()?;
    let words = context.words(last_word + 1)?;
    let waits = [Item::wait(0, EQ, 1), Item::wait(last_word, EQ, 2)];
    context.submit(0, &waits)?;
    ensure!(!is_done(&context, 1)?, "a wait ended on its own");
    words.store(0, 1);
    context.doorbell()?;
    ensure!(is_done(&context, 1)?, "the doorbell was not heard");
    ensure!(!is_done(&context, 2)?, "the second wait ended on its own");
    words.store(last_word, 2);
    // No doorbell: whoever waits is woken when the engine looks.
    context.wait(0, 2, Timestamp::now() + crate::common::SOON)?;
    check_eq!(context.stats()?.switches, 0, "switches for waits alone");
    Ok(())
}

/// Calls of other programs do not keep the engine from looking at words.
pub(super) fn store_is_seen_among_calls() -> Outcome {
    const CALLERS: usize = 2;
    const ROUNDS: u32 = 20;
    let lab = Lab::open()?;
    let (context, _) = lab.compute()?;
    let words = context.words(1)?;
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let mut callers = Vec::new();
        for _ in 0..CALLERS {
            callers.push(scope.spawn(|| -> anyhow::Result<()> {
                let sim = Sim::open()?;
                while !over.load(Ordering::Relaxed) {
                    sim.gpu_info(0)?;
                }
                Ok(())
            }));
        }
        let seen = (1..=ROUNDS).try_for_each(|round| {
            let wait = context.submit(0, &[Item::wait(0, EQ, round)])?;
            words.store(0, round);
            context.wait(0, wait.last_seq, Timestamp::now() + crate::common::SOON)?;
            anyhow::Ok(())
        });
        over.store(true, Ordering::Relaxed);
        for caller in callers {
            caller
                .join()
                .map_err(|_| anyhow::anyhow!("a caller panicked"))??;
        }
        seen
    })?;
    Ok(())
}

pub(super) fn hold_ends_with_its_word() -> Outcome {
    let lab = Lab::open()?;
    let (context, _) = lab.compute()?;
    let words = context.words(1)?;
    let bound = us(50_000_000);
    context.submit(0, &[Item::hold(0, EQ, 1, bound).notify(), Item::fence()])?;
    crate::common::wait_until("the hold has the engine", || {
        Ok(context.stats()?.on_engine && context.stats()?.busy_ns > 0)
    })?;
    ensure!(!is_done(&context, 1)?, "the hold ended on its own");
    words.store(0, 1);
    context.doorbell()?;
    ensure!(is_done(&context, 2)?, "the hold goes on");
    let (taken, _) = lab.sim.completions(16)?;
    check_eq!(
        (taken.len(), taken[0].status),
        (1, Status::Done),
        "completion"
    );
    check_eq!(
        context.stats()?.busy_ns,
        taken[0].end.as_ns() - taken[0].start.as_ns()
    );
    Ok(())
}

/// The bound counts from the first run, whether or not the TSG has the engine.
pub(super) fn hold_has_a_bound() -> Outcome {
    const BOUND: u64 = 5_000;
    const LONG: u64 = 60_000_000;
    let lab = Lab::open()?;
    let (holder, _) = lab.compute()?;
    let (other, _) = lab.compute()?;
    // Has work until it is dropped.
    other.submit(0, &[Item::work(us(LONG))])?;
    let hold = Item::hold(0, EQ, 1, us(BOUND)).notify();
    holder.submit(0, &[hold])?;
    holder.wait(0, 1, Timestamp::NEVER)?;
    drop(other);
    let (taken, _) = lab.sim.completions(16)?;
    check_eq!(
        (taken.len(), taken[0].status),
        (1, Status::HoldExpired),
        "completion"
    );
    check_eq!(taken[0].end.as_ns() - taken[0].start.as_ns(), BOUND * 1_000);
    ensure!(
        holder.stats()?.busy_ns < BOUND * 1_000,
        "it had the engine all the time"
    );
    // One whose word is right already ends at once.
    holder.words(1)?.store(0, 1);
    let (from, to) = super::run(&holder, &[hold])?;
    let most = 2 * lab.sim.gpu_info(0)?.restore_ns;
    ensure!(
        to.as_ns() - from.as_ns() <= most,
        "{} ns",
        to.as_ns() - from.as_ns()
    );
    check_eq!(lab.sim.completions(16)?.0[0].status, Status::Done);
    Ok(())
}

pub(super) fn mappings() -> Outcome {
    let lab = Lab::open()?;
    let mut contexts = Vec::new();
    for _ in 0..3 {
        contexts.push(lab.compute()?.0);
    }
    let offset = |context: &Context| u64::from(context.id()) * PAGE as u64;
    let good = Mapping {
        length: PAGE,
        offset: offset(&contexts[1]),
        shared: true,
        exec: false,
    };
    let fd = lab.sim.as_fd();
    check_eq!(raw::try_map(fd, good), Ok(()), "as it should be");
    let bad = [
        Mapping {
            length: 2 * PAGE,
            ..good
        },
        Mapping {
            shared: false,
            ..good
        },
        Mapping { exec: true, ..good },
        Mapping { offset: 0, ..good },
        Mapping {
            offset: offset(&contexts[2]) + PAGE as u64,
            ..good
        },
        Mapping {
            offset: 1 << 50,
            ..good
        },
    ];
    for what in bad {
        check_eq!(raw::try_map(fd, what), Err(Errno::INVAL), "{what:?}");
    }
    let id = contexts.remove(1).id();
    check_eq!(
        raw::try_map(fd, good),
        Err(Errno::INVAL),
        "context {id} after its end"
    );
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

/// Memory of the program: whole pages that can be pinned, once for a context.
pub(super) fn memory() -> Outcome {
    const AT: u32 = abi::ZERNEL_SIM_MEMORY_WORD;
    let lab = Lab::open()?;
    let (context, _) = lab.compute()?;
    let memory = SharedMemory::anonymous()?;
    let good = abi::zernel_sim_memory {
        context: context.id(),
        reserved: 0,
        address: memory.address(),
        length: memory.length(),
    };
    let (most, here) = (u64::from(abi::ZERNEL_SIM_MEMORY_MAX), good.address);
    for (context, reserved, address, length, errno) in [
        (good.context, 1, here, 4096, Errno::INVAL),
        (good.context, 0, here + 4, 4096, Errno::INVAL),
        (good.context, 0, here, 0, Errno::INVAL),
        (good.context, 0, here, 4095, Errno::INVAL),
        (good.context, 0, here, most + 4096, Errno::INVAL),
        (good.context, 0, 4096, 4096, Errno::FAULT),
        (good.context + 1, 0, here, 4096, Errno::NOENT),
    ] {
        let mut bad = abi::zernel_sim_memory {
            context,
            reserved,
            address,
            length,
        };
        let answer = raw::call(lab.sim.as_fd(), abi::ZERNEL_SIM_NR_MEMORY, &mut bad);
        check_eq!(answer, Err(errno), "{bad:?}");
    }
    let early = errno(context.submit(0, &[Item::wait(AT, EQ, 1)]));
    check_eq!(early, Some(Errno::INVAL), "a word of no memory");
    context.add_memory(&memory)?;
    context.submit(0, &[Item::wait(AT + 1023, EQ, 5), Item::release(AT, 9)])?;
    let beyond = errno(context.submit(0, &[Item::wait(AT + 1024, EQ, 1)]));
    check_eq!(beyond, Some(Errno::INVAL), "a word behind it");
    memory.words()[1023].store(5, Ordering::Release);
    context.doorbell()?;
    ensure!(is_done(&context, 2)?, "a store to the memory was not seen");
    check_eq!(memory.words()[0].load(Ordering::Acquire), 9, "a release");
    Ok(())
}

/// A mapping stays, and does nothing any more.
pub(super) fn words_outlive_their_context() -> Outcome {
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
    ensure!(
        !is_done(&next, 1)?,
        "words of a context that is gone have an effect"
    );
    check_eq!(words.load(1), 9);
    drop((next, lab));
    // The file is closed; the page is still there.
    words.store(1, 10);
    check_eq!(words.load(1), 10);
    Ok(())
}
