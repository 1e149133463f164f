// SPDX-License-Identifier: GPL-2.0
//! Waits whose end is not seen, and probes that go.

use std::hint::black_box;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::time::Duration;

use anyhow::{ensure, Context as _, Result};
use libzernel::{Target, Tracking, Zernel};
use rustix::io::Errno;

use super::{own, spin, synchronize, synchronize_context, track, wait_waiting, waits, Probed, MS};
use crate::check_eq;
use crate::child::{in_child, Child};
use crate::common::{errno, tid, try_unload, wait_until};
use crate::harness::Outcome;
use crate::sys;
use crate::track::{thread, wait_count};

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

/// The next call finds that the one before is over; what is called below it is not.
pub(super) fn jump_out() -> Outcome {
    in_child(|| {
        let probed = Probed::new()?;
        let zernel = &probed.zernel;
        track(zernel)?;
        for round in 1..=10 {
            sys::call_and_come_back(leave_from_below);
            let before = waits(zernel, tid())?;
            synchronize(&mut || synchronize_context(&mut || spin(MS)));
            let after = own(zernel)?;
            check_eq!((after.gpu_wait, after.gpu_waits.count), (false, 2 * round));
            ensure!(after.gpu_waits.ns > before.1.ns, "{before:?}, {after:?}");
        }
        Ok(())
    })
}

/// There is no next call: it is over because the thread was in the kernel from further up.
pub(super) fn jump_out_for_good() -> Outcome {
    static STOP: AtomicBool = AtomicBool::new(false);
    static LEFT: AtomicU32 = AtomicU32::new(0);
    in_child(|| {
        let probed = Probed::new()?;
        let zernel = &probed.zernel;
        track(zernel)?;
        let spinner = std::thread::spawn(|| {
            sys::call_and_come_back(leave_from_below);
            LEFT.store(tid(), Relaxed);
            while !STOP.load(Relaxed) {
                spin(MS);
            }
        });
        wait_until("it has left", || Ok(LEFT.load(Relaxed) != 0))?;
        // A tick of the clock is a way into the kernel.
        let sum = wait_waiting(zernel, LEFT.load(Relaxed), false)?;
        ensure!(sum.count == 1 && sum.ns > 0, "{sum:?}");
        check_eq!(waits(zernel, LEFT.load(Relaxed))?.1, sum);
        STOP.store(true, Relaxed);
        spinner.join().expect("a thread that spins");
        Ok(())
    })
}

/// A process that is made in a wait does not wait, and returns from the function all the same.
pub(super) fn fork() -> Outcome {
    in_child(|| {
        let probed = Probed::new()?;
        let zernel = &probed.zernel;
        track(zernel)?;
        let mut inside = Ok(());
        synchronize(&mut || {
            inside = in_child(|| {
                let zernel = Zernel::open()?;
                check_eq!(waits(&zernel, tid())?.1, Default::default());
                synchronize_context(&mut || spin(MS));
                let (waiting, sum) = waits(&zernel, tid())?;
                check_eq!((waiting, sum.count), (false, 1));
                Ok(())
            });
        });
        inside?;
        // One that comes back from the function that its parent has called.
        let mut child = None;
        synchronize(&mut || child = Some(sys::fork()));
        let Some(child) = child.context("the function has run")?? else {
            let back = || -> Result<()> {
                let zernel = Zernel::open()?;
                check_eq!(waits(&zernel, tid())?.1, Default::default());
                synchronize(&mut || spin(MS));
                check_eq!(waits(&zernel, tid())?.1.count, 1);
                Ok(())
            };
            let came = back();
            if let Err(error) = &came {
                println!("    # {error:#}");
            }
            sys::exit(i32::from(came.is_err()));
        };
        let status = rustix::process::waitpid(Some(child), rustix::process::WaitOptions::empty())?;
        check_eq!(status.and_then(|(_, status)| status.exit_status()), Some(0));
        let (waiting, sum) = waits(zernel, tid())?;
        check_eq!((waiting, sum.count), (false, 2));
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
                    synchronize(&mut || {
                        if !kill {
                            sys::exit_thread();
                        }
                        std::thread::sleep(Duration::from_secs(600));
                    });
                });
            }
            if kill {
                synchronize(&mut || std::thread::sleep(Duration::from_secs(600)));
            }
            wait_count(&zernel, 1)
        })?;
        if kill {
            wait_until("all of them wait", || {
                let mut waiting = 0;
                for thread in zernel.threads() {
                    waiting += u32::from(thread?.gpu_wait);
                }
                Ok(waiting == 5)
            })?;
            drop(child);
        } else {
            child.join()?;
        }
        wait_count(zernel, 0)?;
    }
    Ok(())
}

/// A thread that waits in a function until it is told not to.
struct Waiter {
    tid: u32,
    thread: std::thread::JoinHandle<()>,
}

static WAITER: AtomicU32 = AtomicU32::new(0);
static LEAVE: AtomicBool = AtomicBool::new(false);
static END: AtomicBool = AtomicBool::new(false);

impl Waiter {
    fn new() -> Result<Self> {
        WAITER.store(0, Relaxed);
        LEAVE.store(false, Relaxed);
        END.store(false, Relaxed);
        let thread = std::thread::spawn(|| {
            WAITER.store(tid(), Relaxed);
            synchronize(&mut || {
                while !LEAVE.load(Relaxed) {
                    spin(MS);
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
        Ok(Self { tid, thread })
    }

    fn end(self) {
        LEAVE.store(true, Relaxed);
        END.store(true, Relaxed);
        self.thread.join().expect("a thread that waits");
    }
}

/// A thread waits no more once the probe that has seen it is removed.
pub(super) fn removed() -> Outcome {
    in_child(|| {
        let probed = Probed::new()?;
        let zernel = &probed.zernel;
        track(zernel)?;
        let waiter = Waiter::new()?;
        wait_waiting(zernel, waiter.tid, true)?;
        // The other one has nothing to do with it.
        zernel.remove_probe(probed.numbers[1])?;
        check_eq!(waits(zernel, waiter.tid)?.0, true);
        zernel.remove_probe(probed.numbers[0])?;
        let (waiting, sum) = waits(zernel, waiter.tid)?;
        check_eq!((waiting, sum.count), (false, 1));
        for number in probed.numbers {
            check_eq!(errno(zernel.remove_probe(number)), Some(Errno::NOENT));
        }
        // It is in the function still, and comes out of it.
        let again = Probed::new()?;
        check_eq!(waits(zernel, waiter.tid)?.1, sum);
        LEAVE.store(true, Relaxed);
        wait_until("it waits in another one", || {
            Ok(waits(zernel, waiter.tid)?.1.count == 2)
        })?;
        wait_waiting(zernel, waiter.tid, false)?;
        waiter.end();
        drop(again);
        Ok(())
    })
}

pub(super) fn closed() -> Outcome {
    in_child(|| {
        let zernel = Zernel::open()?;
        let probed = Probed::new()?;
        track(&zernel)?;
        let waiter = Waiter::new()?;
        wait_waiting(&zernel, waiter.tid, true)?;
        drop(probed);
        let (waiting, sum) = waits(&zernel, waiter.tid)?;
        check_eq!((waiting, sum.count), (false, 1));
        waiter.end();
        Ok(())
    })?;
    // So it is if nobody closes it.
    let child = Child::spawn(|| {
        std::mem::forget(Probed::new()?);
        Ok(())
    })?;
    child.join()?;
    let zernel = Zernel::open()?;
    zernel.track(&Target::current_thread(), Tracking::PLAIN)?;
    synchronize(&mut || spin(MS));
    check_eq!(waits(&zernel, tid())?.1.count, 0);
    zernel.untrack(&Target::current_thread())?;
    Ok(())
}

/// The module stays while there is a probe, and goes when a thread is in a function that was probed.
pub(super) fn unload() -> Outcome {
    crate::common::unload_all()?;
    crate::common::load("zernel", "")?;
    // First, so that it does not have the file open.
    let child = Child::spawn(|| {
        std::thread::sleep(100 * MS);
        for _ in 0..5 {
            synchronize(&mut || spin(100 * MS));
        }
        Ok(())
    })?;
    {
        let probed = Probed::new()?;
        std::thread::sleep(150 * MS);
        check_eq!(try_unload("zernel"), Err(Errno::AGAIN), "probed");
        drop(probed);
    }
    crate::common::unload("zernel")?;
    child.join()?;
    crate::common::load_all()
}
