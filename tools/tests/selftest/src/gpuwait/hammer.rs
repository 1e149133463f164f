// SPDX-License-Identifier: GPL-2.0
//! Threads that wait all the time while probes come and go, and they themselves are tracked or not.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use anyhow::{ensure, Result};
use libzernel::{Target, Tracking, Zernel};

use super::{synchronize, synchronize_context, Probed, MS};
use crate::check_eq;
use crate::child::in_child;
use crate::harness::Outcome;
use crate::sys;
use crate::track::threads_of;

pub(super) fn hammer() -> Outcome {
    const THREADS: u64 = 4;
    static STOP: AtomicBool = AtomicBool::new(false);
    static CALLS: AtomicU64 = AtomicU64::new(0);
    in_child(|| {
        let zernel = Zernel::open()?;
        let me = Target::current_process;
        let threads: Vec<_> = (0..THREADS)
            .map(|number| {
                std::thread::spawn(move || {
                    while !STOP.load(Relaxed) {
                        match number {
                            // One leaves by a jump, and one sleeps.
                            0 => sys::call_and_come_back(|| {
                                synchronize(&mut || sys::jump_out());
                            }),
                            1 => synchronize(&mut || std::thread::sleep(MS / 10)),
                            _ => synchronize(&mut || {
                                synchronize_context(&mut || {
                                    CALLS.fetch_add(1, Relaxed);
                                });
                            }),
                        }
                    }
                })
            })
            .collect();
        for round in 0..12 {
            let probed = Probed::new()?;
            zernel.track(&me(), Tracking::CHILDREN)?;
            let before = CALLS.load(Relaxed);
            while CALLS.load(Relaxed) < before + 10 {
                std::thread::yield_now();
            }
            if round % 2 == 0 {
                zernel.untrack(&me())?;
            }
            drop(probed);
            for thread in threads_of(&zernel, std::process::id())? {
                ensure!(!thread.gpu_wait, "there is no probe: {thread:?}");
            }
        }
        STOP.store(true, Relaxed);
        for thread in threads {
            thread.join().expect("a thread that waits");
        }
        let _ = zernel.untrack(&me());
        check_eq!(threads_of(&zernel, std::process::id())?.len(), 0);
        Ok(()) as Result<()>
    })
}
