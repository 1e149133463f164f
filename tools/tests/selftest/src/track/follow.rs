// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reach and end of tracking: threads that come later, other programs, ends, and never beyond the
//! module. The suite `phase` tells of children.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc;
use std::time::Duration;

use anyhow::{ensure, Result};
use libzernel::thread::Does;
use libzernel::{Target, Thread, Tracking, Zernel};
use rustix::io::Errno;
use rustix::process::Signal;

use super::{busy, thread, threads_of, wait_count, wait_recorded};
use crate::abi::unchanged;
use crate::child::{in_child, Child};
use crate::common::{
    ended_thread, errno, load, load_all, tid, try_unload, unload_all, unload_soon, wait_until,
};
use crate::group::Group;
use crate::harness::Outcome;
use crate::{check_eq, sys};

const ME: Target = Target::CurrentProcess;

fn me() -> u32 {
    std::process::id()
}

/// Runs `run` beside so many threads that come back to user space all the time.
fn beside(threads: usize, run: impl FnOnce() -> Outcome) -> Outcome {
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while !stop.load(Relaxed) {
                    std::thread::sleep(Duration::from_millis(2));
                }
            });
        }
        let result = run();
        stop.store(true, Relaxed);
        result
    })
}

pub(super) fn later_threads() -> Outcome {
    in_child(|| {
        let zernel = Zernel::open()?;
        zernel.track(&ME, Tracking::PLAIN)?;
        // A thread that a thread makes that a thread makes.
        let (tell, told) = mpsc::channel();
        let (stop, wait) = mpsc::channel::<()>();
        let third = move || {
            tell.send(tid()).expect("somebody listens");
            let _ = wait.recv();
        };
        let second = || std::thread::spawn(third).join().expect("the third");
        let first = || std::thread::spawn(second).join().expect("the second");
        let first = std::thread::spawn(first);
        let third = told.recv()?;
        wait_recorded(&zernel, me(), 4)?;
        ensure!(thread(&zernel, third)?.is_some(), "the third is not listed");
        drop(stop);
        first.join().expect("the first");
        wait_recorded(&zernel, me(), 1)?;
        // A single thread is not followed.
        zernel.untrack(&ME)?;
        check_eq!(zernel.track(&Target::current_thread(), Tracking::PLAIN)?, 1);
        beside(3, || {
            std::thread::sleep(Duration::from_millis(20));
            let threads = wait_recorded(&zernel, me(), 1)?;
            check_eq!((threads[0].tid, threads[0].whole), (tid(), false));
            check_eq!(zernel.stats()?.threads_missed, 0);
            Ok(())
        })
    })
}

/// A thread that becomes the only one of its process takes the number of the first, and keeps its
/// record, also when it is another program.
pub(super) fn exec() -> Outcome {
    let zernel = Zernel::open()?;
    for whole in [true, false] {
        let child = Child::spawn(|| {
            let target = if whole { ME } else { Target::CurrentThread };
            let exec = || -> Outcome {
                Zernel::open()?.track(&target, Tracking::PLAIN)?;
                Ok(sys::exec_sleep()?)
            };
            beside(2, || {
                std::thread::scope(|scope| scope.spawn(exec).join().expect("another program"))
            })
        })?;
        wait_until("it sleeps", || {
            let threads = threads_of(&zernel, child.pid())?;
            Ok(threads.len() == 1 && threads[0].comm == "sleep")
        })?;
        let threads = wait_recorded(&zernel, child.pid(), 1)?;
        ensure!(threads[0].bursts.ns > 0, "{threads:?}");
        check_eq!((threads[0].tid, threads[0].whole), (child.pid(), whole));
        check_eq!(zernel.stats()?.threads, 1, "the others have gone");
        // By that number it can be named, too.
        let named = [Target::Thread, Target::Process][usize::from(whole)];
        check_eq!(zernel.untrack(&named(child.pid()))?, 0);
    }
    Ok(())
}

/// A target that is tracked already gets the additions.
pub(super) fn again() -> Outcome {
    in_child(|| {
        beside(2, || {
            let zernel = Zernel::open()?;
            for _ in 0..2 {
                check_eq!(zernel.track(&Target::current_thread(), Tracking::PLAIN)?, 1);
            }
            let single = wait_recorded(&zernel, me(), 1)?;
            // Without the flag nothing is taken away.
            for tracking in [Tracking::PLAIN, Tracking::CHILDREN, Tracking::PLAIN] {
                check_eq!(zernel.track(&ME, tracking)?, 3);
            }
            let all = wait_recorded(&zernel, me(), 3)?;
            let right = |t: &Thread| t.whole && t.children && !t.privileged;
            ensure!(all.iter().all(right), "{all:?}");
            ensure!(all.iter().any(|t| t.id == single[0].id), "a new record");
            check_eq!(zernel.stats()?.threads, 3);
            // On and off again, while the old record is still on its way out.
            for _ in 0..50 {
                zernel.untrack(&ME)?;
                check_eq!(zernel.stats()?.threads, 0);
                check_eq!(zernel.track(&ME, Tracking::PLAIN)?, 3);
            }
            let anew = wait_recorded(&zernel, me(), 3)?;
            ensure!(anew.iter().all(|t| t.whole && !t.children), "{anew:?}");
            // Sums of an id never decrease: what begins anew has a new one.
            ensure!(anew.iter().all(|t| t.id > single[0].id), "an old record");
            Ok(())
        })
    })
}

/// A process that sleeps and does not come back to user space.
fn sleeping() -> Result<Child> {
    let child = Child::spawn(|| loop {
        std::thread::sleep(Duration::from_secs(600));
    })?;
    wait_until("it sleeps", || {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", child.pid()))?;
        Ok(stat.contains(") S "))
    })?;
    Ok(child)
}

/// A thread that sleeps is recorded when it comes back to user space, and let go likewise.
pub(super) fn sleeper() -> Outcome {
    let zernel = Zernel::open()?;
    let child = sleeping()?;
    let target = Target::Process(child.pid());
    check_eq!(zernel.track(&target, Tracking::PLAIN)?, 1);
    std::thread::sleep(Duration::from_millis(20));
    let there = thread(&zernel, child.pid())?.map(|t| (t.does, t.recorded_ns()));
    check_eq!(there, Some((Does::Arrive, 0)));
    // It has not come, and is not wanted any more: there is nothing to see of it.
    zernel.untrack(&target)?;
    check_eq!(threads_of(&zernel, child.pid())?, []);
    check_eq!(errno(zernel.untrack(&target)), Some(Errno::NODATA));
    check_eq!(zernel.track(&target, Tracking::PLAIN)?, 1);
    // A signal without effect brings it back.
    child.signal(Signal::STOP)?;
    child.signal(Signal::CONT)?;
    let threads = wait_recorded(&zernel, child.pid(), 1)?;
    wait_until("it sleeps again", || {
        let there = thread(&zernel, child.pid())?;
        Ok(matches!(there.map(|t| t.does), Some(Does::Sleep(_))))
    })?;
    ensure!(threads[0].bursts.count >= 1, "{threads:?}");
    drop(child);
    wait_count(&zernel, 0)
}

/// A target that is gone or not tracked is refused, and nothing has changed then.
pub(super) fn not_tracked() -> Outcome {
    let zernel = Zernel::open()?;
    let refused = |how: Option<Tracking>, target: &Target, expected| -> Outcome {
        let answer = unchanged(&zernel, || match how {
            Some(tracking) => Ok(errno(zernel.track(target, tracking))),
            None => Ok(errno(zernel.untrack(target))),
        })?;
        check_eq!(answer, Some(expected), "{how:?} {target:?}");
        Ok(())
    };
    let zombie = Child::spawn(|| Ok(()))?;
    zombie.wait_ended(Duration::from_secs(60))?;
    let (zombie, ended) = (Target::Process(zombie.pid()), ended_thread()?);
    for target in [zombie, Target::Thread(ended)] {
        refused(Some(Tracking::PLAIN), &target, Errno::SRCH)?;
        refused(None, &target, Errno::SRCH)?;
    }
    refused(None, &ME, Errno::NODATA)?;
    // A cgroup makes no processes of its own.
    let group = Group::new("refused")?;
    refused(Some(Tracking::CHILDREN), &group.target()?, Errno::INVAL)?;
    refused(None, &group.target()?, Errno::NODATA)?;
    // A thread of a process that is tracked as a whole, and beside one that is tracked alone.
    let other = busy(2)?;
    let process = Target::Process(other.pid());
    zernel.track(&process, Tracking::PLAIN)?;
    let threads = threads_of(&zernel, other.pid())?;
    let [first, second] = [0, 1].map(|number: usize| Target::Thread(threads[number].tid));
    refused(None, &first, Errno::BUSY)?;
    check_eq!(zernel.untrack(&process)?, 0);
    refused(None, &process, Errno::NODATA)?;
    check_eq!(zernel.track(&second, Tracking::PLAIN)?, 1);
    refused(None, &first, Errno::NODATA)
}

/// While a thread has a record, or is still to let it go, the module stays.
pub(super) fn unload() -> Outcome {
    unload_all()?;
    load("zernel", "")?;
    let child = sleeping()?;
    let target = Target::Process(child.pid());
    Zernel::open()?.track(&target, Tracking::PLAIN)?;
    check_eq!(try_unload("zernel"), Err(Errno::AGAIN), "tracked");
    let zernel = Zernel::open()?;
    zernel.untrack(&target)?;
    check_eq!(zernel.stats()?.threads, 0);
    drop(zernel);
    check_eq!(try_unload("zernel"), Err(Errno::AGAIN), "not let go yet");
    drop(child);
    unload_soon("zernel")?;
    load_all()
}
