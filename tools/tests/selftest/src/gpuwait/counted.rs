// SPDX-License-Identifier: MIT OR Apache-2.0
//! Waits that are counted, and their times; waits whose end is not seen, or of other threads; and probes
//! that go.

use std::hint::black_box;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{ensure, Context as _, Result};
use libzernel::sim::Item;
use libzernel::{Target, Timestamp, Tracking, Zernel};
use rustix::io::Errno;
use rustix::process::{waitpid, WaitOptions};

use super::{
    own_waits, probed_child, spin, synchronize, synchronize_context, track, wait_waiting, waits,
    Probed, MS,
};
use crate::child::{in_child, Child};
use crate::common::{errno, load, load_all, tid, try_unload, unload, unload_all, wait_until, Lab};
use crate::harness::Outcome;
use crate::track::{own, rest, thread, threads_of, wait_count};
use crate::{check_eq, sys};

static STOP: AtomicBool = AtomicBool::new(false);

/// Waits deep down the stack, and jumps out of that.
#[inline(never)]
fn leave_from_below() {
    let room = black_box([0u8; 65_536]);
    synchronize(&mut || {
        spin(MS);
        sys::jump_out();
    });
    black_box(room);
}

/// The next call finds that the one before is over; what is called below it is not. Without a next
/// call it is over because the thread was in the kernel from further up.
pub(super) fn jump_out() -> Outcome {
    probed_child(|Probed { zernel, .. }| {
        for round in 1..=10 {
            sys::call_and_come_back(leave_from_below);
            let before = waits(zernel, tid())?.1;
            synchronize(&mut || synchronize_context(&mut || spin(MS)));
            let after = own_waits(zernel)?;
            check_eq!(after.count, 2 * round);
            ensure!(after.ns > before.ns, "{before:?}, {after:?}");
        }
        let spinner = std::thread::spawn(|| {
            sys::call_and_come_back(leave_from_below);
            WAITER.store(tid(), Relaxed);
            while !STOP.load(Relaxed) {
                spin(MS);
            }
        });
        wait_until("it has left", || Ok(WAITER.load(Relaxed) != 0))?;
        // A tick of the clock is a way into the kernel.
        let sum = wait_waiting(zernel, WAITER.load(Relaxed), false)?;
        ensure!(sum.count == 1 && sum.ns > 0, "{sum:?}");
        check_eq!(waits(zernel, WAITER.load(Relaxed))?.1, sum);
        STOP.store(true, Relaxed);
        spinner.join().expect("a thread that spins");
        Ok(())
    })
}

/// In a process that was made in a wait: it does not wait, and returns from the function all the same.
fn made_in_a_wait(call: impl Fn()) -> Outcome {
    let zernel = Zernel::open()?;
    check_eq!(own_waits(&zernel)?, Default::default());
    call();
    check_eq!(own_waits(&zernel)?.count, 1);
    Ok(())
}

pub(super) fn fork() -> Outcome {
    probed_child(|Probed { zernel, .. }| {
        let mut inside = Ok(());
        let within = || made_in_a_wait(|| synchronize_context(&mut || spin(MS)));
        synchronize(&mut || inside = in_child(within));
        inside?;
        // One that comes back from the function that its parent has called.
        let mut child = None;
        synchronize(&mut || child = Some(sys::fork()));
        let Some(child) = child.context("the function has run")?? else {
            let came = made_in_a_wait(|| synchronize(&mut || spin(MS)));
            if let Err(error) = &came {
                println!("    # {error:#}");
            }
            sys::exit(i32::from(came.is_err()));
        };
        let status = waitpid(Some(child), WaitOptions::empty())?;
        check_eq!(status.and_then(|(_, status)| status.exit_status()), Some(0));
        check_eq!(own_waits(zernel)?.count, 2);
        Ok(())
    })
}

/// Another program waits for nothing, wherever its stack lies.
pub(super) fn exec() -> Outcome {
    let probed = Probed::new()?;
    let zernel = &probed.zernel;
    for _ in 0..5 {
        let child = Child::spawn(|| {
            track(&Zernel::open()?)?;
            let mut result = Ok(());
            synchronize(&mut || result = sys::exec_sleep());
            Ok(result?)
        })?;
        wait_until("it sleeps", || {
            let there = thread(zernel, child.pid())?;
            Ok(there.is_some_and(|thread| thread.comm == "sleep"))
        })?;
        // It has its name a moment before it is another program.
        let sum = wait_waiting(zernel, child.pid(), false)?;
        check_eq!(sum.count, 1);
        check_eq!(waits(zernel, child.pid())?.1, sum);
        drop(child);
        wait_count(zernel, 0)?;
    }
    Ok(())
}

/// Threads and processes that end in a wait leave nothing behind.
pub(super) fn exit_and_kill() -> Outcome {
    let probed = Probed::new()?;
    let zernel = &probed.zernel;
    for kill in [false, true] {
        let child = Child::session(move || {
            let zernel = Zernel::open()?;
            track(&zernel)?;
            for _ in 0..4 {
                std::thread::spawn(move || {
                    synchronize(&mut || match kill {
                        true => rest(),
                        false => sys::exit_thread(),
                    });
                });
            }
            if kill {
                synchronize(&mut || rest());
            }
            wait_count(&zernel, 1)
        })?;
        if kill {
            wait_until("all of them wait", || {
                let waiting = zernel
                    .threads()
                    .filter(|t| t.as_ref().is_ok_and(|t| t.gpu_wait));
                Ok(waiting.count() == 5)
            })?;
            drop(child);
        } else {
            child.join()?;
        }
        wait_count(zernel, 0)?;
    }
    Ok(())
}

static WAITER: AtomicU32 = AtomicU32::new(0);
static LEAVE: AtomicBool = AtomicBool::new(false);
static END: AtomicBool = AtomicBool::new(false);

/// A thread that waits in a function until it is told not to. Its number.
fn waiter(zernel: &Zernel, asleep: bool) -> Result<(u32, JoinHandle<()>)> {
    let thread = std::thread::spawn(move || {
        WAITER.store(tid(), Relaxed);
        synchronize(&mut || {
            while !LEAVE.load(Relaxed) {
                match asleep {
                    true => std::thread::sleep(MS),
                    false => spin(MS),
                }
            }
        });
        // Later waits are seen as ever.
        synchronize_context(&mut || spin(MS));
        while !END.load(Relaxed) {
            std::thread::sleep(MS);
        }
    });
    wait_until("it runs", || Ok(WAITER.load(Relaxed) != 0))?;
    let tid = WAITER.load(Relaxed);
    wait_waiting(zernel, tid, true)?;
    Ok((tid, thread))
}

/// A wait is told while it goes on, of the thread that waits alone. It is over once the probe that has
/// seen it is removed, or the file of the probe closed.
pub(super) fn another_thread() -> Outcome {
    for closed in [false, true] {
        in_child(|| {
            let (probed, zernel) = (Probed::new()?, Zernel::open()?);
            track(&zernel)?;
            let (tid, thread) = waiter(&zernel, closed)?;
            own_waits(&zernel)?;
            // Asleep or not, the time goes on, and never back.
            let mut last = waits(&zernel, tid)?.1;
            let enough = last.ns + 5_000_000;
            while last.ns < enough {
                let (waiting, sum) = waits(&zernel, tid)?;
                ensure!(waiting && sum.ns >= last.ns, "{sum:?} after {last:?}");
                last = sum;
            }
            if closed {
                drop(probed);
            } else {
                // The other one has nothing to do with it.
                probed.zernel.remove_probe(probed.numbers[1])?;
                check_eq!(waits(&zernel, tid)?.0, true);
                probed.zernel.remove_probe(probed.numbers[0])?;
                for number in probed.numbers {
                    let again = probed.zernel.remove_probe(number);
                    check_eq!(errno(again), Some(Errno::NOENT));
                }
            }
            let _again = Probed::new()?;
            let (waiting, sum) = waits(&zernel, tid)?;
            check_eq!((waiting, sum.count), (false, 1));
            ensure!(sum.ns >= last.ns, "{sum:?} after {last:?}");
            // It is in the function still, and comes out of it.
            LEAVE.store(true, Relaxed);
            wait_until("it waits in another function", || {
                Ok(waits(&zernel, tid)?.1.count == 2)
            })?;
            wait_waiting(&zernel, tid, false)?;
            END.store(true, Relaxed);
            thread.join().expect("a thread that waits");
            Ok(())
        })?;
    }
    // Nobody closes the file of a process that ends.
    in_child(|| {
        std::mem::forget(Probed::new()?);
        Ok(())
    })?;
    let zernel = Zernel::open()?;
    zernel.track(&Target::current_thread(), Tracking::PLAIN)?;
    synchronize(&mut || spin(MS));
    check_eq!(own_waits(&zernel)?.count, 0);
    zernel.untrack(&Target::current_thread())?;
    Ok(())
}

/// The module stays while there is a probe, and goes when a thread is in a function that was probed.
pub(super) fn unload_is_refused() -> Outcome {
    unload_all()?;
    load("zernel", "")?;
    // First, so that it does not have the file open.
    let child = Child::spawn(|| {
        std::thread::sleep(100 * MS);
        for _ in 0..5 {
            synchronize(&mut || spin(100 * MS));
        }
        Ok(())
    })?;
    let probed = Probed::new()?;
    std::thread::sleep(150 * MS);
    check_eq!(try_unload("zernel"), Err(Errno::AGAIN), "probed");
    drop(probed);
    unload("zernel")?;
    child.join()?;
    load_all()
}

static CALLS: AtomicU64 = AtomicU64::new(0);

/// One leaves by a jump, one sleeps, and the others count their calls.
fn wait_always(number: u64) {
    while !STOP.load(Relaxed) {
        match number {
            0 => sys::call_and_come_back(|| synchronize(&mut || sys::jump_out())),
            1 => synchronize(&mut || std::thread::sleep(MS / 10)),
            _ => synchronize(&mut || {
                synchronize_context(&mut || {
                    CALLS.fetch_add(1, Relaxed);
                });
            }),
        }
    }
}

/// Threads that wait all the time while probes come and go, and they themselves are tracked or not.
pub(super) fn hammer() -> Outcome {
    in_child(|| {
        let zernel = Zernel::open()?;
        let me = || threads_of(&zernel, std::process::id());
        let threads = [0, 1, 2, 3].map(|number| std::thread::spawn(move || wait_always(number)));
        for round in 0..12 {
            let probed = Probed::new()?;
            track(&zernel)?;
            let before = CALLS.load(Relaxed);
            while CALLS.load(Relaxed) < before + 10 {
                std::thread::yield_now();
            }
            if round % 2 == 0 {
                zernel.untrack(&Target::current_process())?;
            }
            drop(probed);
            for thread in me()? {
                ensure!(!thread.gpu_wait, "there is no probe: {thread:?}");
            }
        }
        STOP.store(true, Relaxed);
        for thread in threads {
            thread.join().expect("a thread that waits");
        }
        zernel.untrack(&Target::current_process())?;
        check_eq!(me()?, []);
        Ok(())
    })
}

/// Makes calls, each of which waits once, until one has waited for `long`. A wait is counted as long as
/// `call` says at least, and as the call takes at most.
fn counted(zernel: &Zernel, long: Duration, mut call: impl FnMut() -> Result<Duration>) -> Outcome {
    let mut longest = Duration::ZERO;
    let mut count = 0;
    while longest < long || count < 20 {
        ensure!(count < 100, "waited for {longest:?} at most");
        let before = own(zernel)?;
        let begin = Instant::now();
        let least = call()?;
        let most = begin.elapsed();
        let after = own(zernel)?;
        count += 1;
        check_eq!((after.gpu_wait, after.gpu_waits.count), (false, count));
        let ns = after.gpu_waits.ns - before.gpu_waits.ns;
        let time = Duration::from_nanos(ns);
        let right = (least..=most).contains(&time);
        ensure!(right, "{least:?}, {time:?}, {most:?}");
        // Beside what it did with its time, which is what it was.
        let recorded = after.recorded_ns() - before.recorded_ns();
        ensure!(ns <= recorded, "{ns} of {recorded} ns");
        longest = longest.max(time);
    }
    Ok(())
}

/// The driver of the software GPU waits in its call, and in no other.
pub(super) fn provider() -> Outcome {
    in_child(|| {
        let lab = Lab::open()?;
        let (context, _) = lab.compute()?;
        let wait = |seq| context.wait(0, seq, Timestamp::NEVER);
        let work = |time| Ok::<_, anyhow::Error>(context.submit(0, &[Item::work(time)])?.last_seq);
        // Nobody looks yet.
        wait(work(MS)?)?;
        track(&lab.zernel)?;
        check_eq!(own_waits(&lab.zernel)?, Default::default());
        // On a slow machine a part of the work is done before it is waited for.
        counted(&lab.zernel, 10 * MS, || {
            wait(work(20 * MS)?)?;
            Ok(Duration::ZERO)
        })?;
        // One that fails is over, too.
        let count = own_waits(&lab.zernel)?.count;
        check_eq!(errno(wait(u64::MAX)), Some(Errno::INVAL));
        wait(work(MS)?)?;
        check_eq!(own_waits(&lab.zernel)?.count, count + 2);
        Ok(())
    })
}

/// From the call to the return: longer than what the function does, shorter than its call.
pub(super) fn function() -> Outcome {
    probed_child(|Probed { zernel, .. }| {
        counted(zernel, MS, || {
            let mut least = Duration::ZERO;
            synchronize(&mut || {
                let begin = Instant::now();
                spin(MS);
                least = begin.elapsed();
            });
            Ok(least)
        })
    })
}

/// A nested wait is a part of the outer one, whoever tells.
pub(super) fn nested() -> Outcome {
    in_child(|| {
        let probed = Probed::new()?;
        let lab = Lab::open()?;
        let (context, _) = lab.compute()?;
        track(&lab.zernel)?;
        let mut inside = Ok(());
        let within = || -> Outcome {
            synchronize_context(&mut || spin(MS));
            synchronize_context(&mut || spin(MS));
            synchronize(&mut || spin(MS));
            let submitted = context.submit(0, &[Item::work(MS)])?;
            context.wait(0, submitted.last_seq, Timestamp::NEVER)?;
            check_eq!(waits(&lab.zernel, tid())?.0, true);
            Ok(())
        };
        synchronize(&mut || inside = within());
        inside?;
        check_eq!(own_waits(&lab.zernel)?.count, 1);
        // And each on its own.
        synchronize(&mut || {});
        synchronize_context(&mut || {});
        let sum = own_waits(&lab.zernel)?;
        check_eq!(sum.count, 3);
        drop(probed);
        // Nobody looks any more.
        synchronize(&mut || spin(MS));
        check_eq!(own_waits(&lab.zernel)?, sum);
        Ok(())
    })
}

/// A thread that is called back is recorded anew, and with it what it waits; what was begun before
/// counts not.
pub(super) fn begun_anew() -> Outcome {
    in_child(|| {
        let probed = Probed::new()?;
        let zernel = &probed.zernel;
        for again in [false, true] {
            let mut inside: Result<()> = Ok(());
            synchronize(&mut || {
                synchronize_context(&mut || spin(MS));
                inside = (|| {
                    if again {
                        zernel.untrack(&Target::current_process())?;
                    }
                    Zernel::open()?.track(&Target::current_process(), Tracking::PLAIN)?;
                    Ok(())
                })();
            });
            inside?;
            check_eq!(own_waits(zernel)?, Default::default(), "again: {again}");
            synchronize(&mut || spin(MS));
            check_eq!(own_waits(zernel)?.count, 1);
        }
        Ok(())
    })
}
