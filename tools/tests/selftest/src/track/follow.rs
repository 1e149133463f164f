// SPDX-License-Identifier: GPL-2.0
//! Tracking of threads with their process: those that come later, children, exec.

use std::sync::mpsc;
use std::time::Duration;

use anyhow::{ensure, Result};
use libzernel::{Target, Tracking, Zernel};

use super::{thread, threads_of, wait_count, wait_recorded};
use crate::check_eq;
use crate::child::{in_child, Child};
use crate::common::{tid, wait_until};
use crate::harness::Outcome;
use crate::sys;

/// Threads that sleep until this is dropped.
struct Sleepers {
    threads: Vec<(mpsc::Sender<()>, std::thread::JoinHandle<()>)>,
}

impl Sleepers {
    fn new(count: usize) -> Self {
        let threads = (0..count)
            .map(|_| {
                let (stop, wait) = mpsc::channel::<()>();
                let thread = std::thread::spawn(move || {
                    // Comes back to user space all the time.
                    while wait.recv_timeout(Duration::from_millis(5))
                        == Err(mpsc::RecvTimeoutError::Timeout)
                    {}
                });
                (stop, thread)
            })
            .collect();
        Self { threads }
    }
}

impl Drop for Sleepers {
    fn drop(&mut self) {
        for (stop, thread) in self.threads.drain(..) {
            drop(stop);
            let _ = thread.join();
        }
    }
}

fn me() -> u32 {
    std::process::id()
}

pub(super) fn whole_process() -> Outcome {
    in_child(|| {
        let zernel = Zernel::open()?;
        let sleepers = Sleepers::new(7);
        check_eq!(
            zernel.track(&Target::current_process(), Tracking::PLAIN)?,
            8
        );
        let threads = wait_recorded(&zernel, me(), 8)?;
        ensure!(
            threads
                .iter()
                .all(|t| t.whole && !t.children && !t.privileged),
            "{threads:?}"
        );
        check_eq!(zernel.stats()?.threads, 8);
        // Not those of others.
        let other = Child::spawn(|| {
            std::thread::sleep(Duration::from_millis(20));
            Ok(())
        })?;
        check_eq!(threads_of(&zernel, other.pid())?.len(), 0);
        other.join()?;
        drop(sleepers);
        wait_recorded(&zernel, me(), 1)?;
        check_eq!(zernel.untrack(&Target::current_process())?, 0);
        check_eq!(zernel.threads().count(), 0);
        wait_count(&zernel, 0)
    })
}

pub(super) fn later_threads() -> Outcome {
    in_child(|| {
        let zernel = Zernel::open()?;
        zernel.track(&Target::current_process(), Tracking::PLAIN)?;
        // A thread that a thread makes that a thread makes.
        let (tell, told) = mpsc::channel();
        let (stop, wait) = mpsc::channel::<()>();
        let first = std::thread::spawn(move || {
            let second = std::thread::spawn(move || {
                let third = std::thread::spawn(move || {
                    tell.send(tid()).expect("somebody listens");
                    let _ = wait.recv();
                });
                third.join().expect("the third")
            });
            second.join().expect("the second")
        });
        let third = told.recv()?;
        wait_recorded(&zernel, me(), 4)?;
        ensure!(thread(&zernel, third)?.is_some(), "the third is not listed");
        drop(stop);
        first.join().expect("the first");
        wait_recorded(&zernel, me(), 1)?;
        // A single thread is not followed.
        zernel.untrack(&Target::current_process())?;
        check_eq!(zernel.track(&Target::current_thread(), Tracking::PLAIN)?, 1);
        let _sleepers = Sleepers::new(3);
        std::thread::sleep(Duration::from_millis(20));
        let threads = wait_recorded(&zernel, me(), 1)?;
        check_eq!((threads[0].tid, threads[0].whole), (tid(), false));
        check_eq!(zernel.stats()?.threads_missed, 0);
        Ok(())
    })
}

pub(super) fn children() -> Outcome {
    for follow in [true, false] {
        in_child(|| {
            let zernel = Zernel::open()?;
            let tracking = Tracking {
                children: follow,
                ..Tracking::PLAIN
            };
            check_eq!(zernel.track(&Target::current_process(), tracking)?, 1);
            wait_recorded(&zernel, me(), 1)?;
            let child = Child::session(move || {
                let _sleepers = Sleepers::new(2);
                let grandchild = Child::spawn(|| {
                    std::thread::sleep(Duration::from_secs(600));
                    Ok(())
                })?;
                std::thread::sleep(Duration::from_secs(600));
                drop(grandchild);
                Ok(())
            })?;
            if follow {
                // Those of the child are three, and there is a grandchild.
                wait_recorded(&zernel, child.pid(), 3)?;
                wait_until("the grandchild is recorded", || {
                    Ok(zernel.stats()?.threads == 5)
                })?;
                for thread in zernel.threads() {
                    let thread = thread?;
                    ensure!(thread.whole && thread.children, "{thread:?}");
                }
                // Tracking that is ended for the parent goes on for the child.
                zernel.untrack(&Target::current_process())?;
                check_eq!(threads_of(&zernel, child.pid())?.len(), 3);
                check_eq!(zernel.untrack(&Target::Process(child.pid()))?, 0);
                wait_count(&zernel, 1)?;
            } else {
                std::thread::sleep(Duration::from_millis(50));
                check_eq!(zernel.stats()?.threads, 1, "without --children");
            }
            drop(child);
            Ok(())
        })?;
        wait_count(&Zernel::open()?, 0)?;
    }
    Ok(())
}

/// The record goes on when the program is another one.
pub(super) fn exec() -> Outcome {
    let zernel = Zernel::open()?;
    let child = Child::spawn(|| {
        let zernel = Zernel::open()?;
        let _sleepers = Sleepers::new(3);
        zernel.track(&Target::current_process(), Tracking::PLAIN)?;
        wait_recorded(&zernel, me(), 4)?;
        sys::exec_sleep()?;
        Ok(())
    })?;
    wait_until("it sleeps", || {
        let threads = threads_of(&zernel, child.pid())?;
        Ok(threads.len() == 1 && threads[0].comm == "sleep")
    })?;
    let threads = wait_recorded(&zernel, child.pid(), 1)?;
    ensure!(threads[0].bursts.ns > 0 && threads[0].whole, "{threads:?}");
    check_eq!(threads[0].tid, child.pid());
    check_eq!(zernel.stats()?.threads, 1, "the others have gone");
    check_eq!(zernel.untrack(&Target::Process(child.pid()))?, 0);
    drop(child);
    Ok(())
}

/// A thread that becomes the only one of its process takes the number of the first, and keeps its
/// record.
pub(super) fn exec_of_another_thread() -> Outcome {
    let zernel = Zernel::open()?;
    let child = Child::spawn(|| {
        let zernel = Zernel::open()?;
        let other = std::thread::spawn(move || -> Result<()> {
            zernel.track(&Target::current_thread(), Tracking::PLAIN)?;
            wait_recorded(&zernel, me(), 1)?;
            sys::exec_sleep()?;
            Ok(())
        });
        other.join().expect("it becomes another program")
    })?;
    wait_until("it sleeps", || {
        let threads = threads_of(&zernel, child.pid())?;
        Ok(threads.len() == 1 && threads[0].comm == "sleep")
    })?;
    let thread = thread(&zernel, child.pid())?;
    ensure!(thread.is_some(), "not by the number of the process");
    // By that number it can be named, too.
    check_eq!(zernel.untrack(&Target::Thread(child.pid()))?, 0);
    drop(child);
    Ok(())
}

/// A target that is tracked already gets the additions.
pub(super) fn again() -> Outcome {
    in_child(|| {
        let zernel = Zernel::open()?;
        let _sleepers = Sleepers::new(2);
        check_eq!(zernel.track(&Target::current_thread(), Tracking::PLAIN)?, 1);
        check_eq!(zernel.track(&Target::current_thread(), Tracking::PLAIN)?, 1);
        let single = wait_recorded(&zernel, me(), 1)?;
        check_eq!(
            zernel.track(&Target::current_process(), Tracking::PLAIN)?,
            3
        );
        check_eq!(
            zernel.track(&Target::current_process(), Tracking::CHILDREN)?,
            3
        );
        // Without the flag nothing is taken away.
        check_eq!(
            zernel.track(&Target::current_process(), Tracking::PLAIN)?,
            3
        );
        let all = wait_recorded(&zernel, me(), 3)?;
        ensure!(all.iter().all(|t| t.whole && t.children), "{all:?}");
        ensure!(all.iter().any(|t| t.id == single[0].id), "a new record");
        check_eq!(zernel.stats()?.threads, 3);
        // On and off again, while the old record is still on its way out.
        for _ in 0..50 {
            zernel.untrack(&Target::current_process())?;
            check_eq!(
                zernel.track(&Target::current_process(), Tracking::PLAIN)?,
                3
            );
        }
        let anew = wait_recorded(&zernel, me(), 3)?;
        ensure!(anew.iter().all(|t| t.whole && !t.children), "{anew:?}");
        // Sums of an id never decrease: what begins anew has a new one.
        ensure!(anew.iter().all(|t| t.id > single[0].id), "an old record");
        Ok(())
    })
}
