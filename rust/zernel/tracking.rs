// SPDX-License-Identifier: GPL-2.0
//! Which threads are tracked.
//!
//! # Locking
//!
//! One mutex protects the table. It is taken in system calls, by the keeper, and by threads that a
//! tracked thread has made, in task work: never in the scheduler, or in a probe. Nothing else of
//! zernel is locked under it but the wait queue of a pid.

pub(crate) mod keeper;
pub(crate) mod process;
pub(crate) mod programs;
mod table;

use crate::{
    error::Failure,
    glue::{
        identity::Pid,
        lock,
        recorder::{
            self,
            Record, //
        },
        thread::Thread,
        work::Worker,
    },
    janitor::Reaper,
    phases::sampler::Sampler,
};
use keeper::Keeper;
use kernel::{
    prelude::*,
    sync::Arc, //
};
use process::{
    Process,
    Setting, //
};
pub(crate) use table::Tracking;

/// A look at the threads of a process begins anew so often if some have come meanwhile.
const LOOKS: usize = 8;

/// What is to be tracked, or no more.
pub(crate) enum Target {
    /// One thread of the process.
    Thread(Thread),
    /// All of the process.
    Process {
        /// And the processes that it makes.
        children: bool,
    },
}

/// Keeps the tracking there; it is emptied when this is dropped.
pub(crate) struct Installed {
    keeper: Arc<Worker<Keeper>>,
    sampler: Arc<Worker<Sampler>>,
}

impl Installed {
    /// Makes it usable; called once, when the module is loaded.
    pub(crate) fn new(reaper: Arc<Worker<Reaper>>) -> Result<Self> {
        let sampler = Arc::pin_init(Worker::new(Sampler::new()?), GFP_KERNEL)?;
        let keeper = Arc::pin_init(Worker::new(Keeper::new(sampler.clone())), GFP_KERNEL)?;
        let tracking = Tracking::new(keeper.clone(), reaper);
        *lock::tracking().lock() = Some(KBox::new(tracking, GFP_KERNEL)?);
        Ok(Self { keeper, sampler })
    }
}

impl Drop for Installed {
    fn drop(&mut self) {
        let tracking = lock::tracking().lock().take();
        // There are no records, for each has a reference to the module: nobody kicks it any more.
        self.keeper.cancel_sync();
        self.sampler.cancel_sync();
        self.sampler.clear();
        drop(tracking);
        recorder::wait_for_all();
    }
}

/// Calls `f` with the table locked.
///
/// # Errors
///
/// `ENODEV` the module is on its way out.
pub(crate) fn with<T>(f: impl FnOnce(&mut Tracking) -> T) -> Result<T> {
    let mut guard = lock::tracking().lock();
    let tracking = guard.as_mut().ok_or(ENODEV)?;
    Ok(f(tracking))
}

/// A process has exited. It may be one that is not tracked.
pub(crate) fn expire(process: &Pid) {
    // Without a table there is none.
    let _ = with(|t| t.expire(process));
}

/// A record has come to a thread that a tracked one has made. Returns whether it is to take it.
pub(crate) fn arrived(record: Arc<Record>) -> bool {
    match with(|t| t.born(record)) {
        Ok(Ok(taken)) => taken,
        // It is over with the process itself.
        Ok(Err(Failure::Kernel(ESRCH))) | Err(_) => false,
        Ok(Err(_)) => {
            recorder::miss();
            false
        }
    }
}

/// Tracks a target of a process. Returns how many threads of the process are tracked then.
///
/// # Errors
///
/// See `struct zernel_track`; nothing has changed then, unless others track the same process
/// meanwhile.
pub(crate) fn track(pid: Pid, target: Target, privileged: bool, ml: bool) -> Result<u32, Failure> {
    let (whole, children) = match target {
        Target::Thread(_) => (false, false),
        Target::Process { children } => (true, children),
    };
    let more = Setting {
        whole,
        children,
        privileged,
        ml,
    };
    // First, so that nobody is made meanwhile who is not tracked.
    let (process, before) = with(|t| t.open(pid, more))??;
    let mut added = KVVec::new();
    let result = match target {
        Target::Thread(thread) => with(|t| t.add(&process, thread, &mut added))?,
        Target::Process { .. } => look(&process, &mut added),
    };
    with(|t| {
        if result.is_err() {
            t.undo(&process, before, &added);
        }
        let threads = t.close(&process);
        result.map(|()| threads)
    })?
}

/// Tracks a target no more. Returns how many threads of the process still are.
///
/// # Errors
///
/// See `struct zernel_track`; nothing has changed then.
pub(crate) fn untrack(pid: &Pid, target: &Target, privileged: bool) -> Result<u32, Failure> {
    let process = match target {
        Target::Thread(thread) => {
            return with(|t| t.untrack_thread(pid, thread, privileged))?;
        }
        Target::Process { .. } => with(|t| t.untrack_process(pid, privileged))??,
    };
    let mut from = Some(0);
    while let Some(at) = from {
        from = with(|t| t.end_some(&process, at))?;
    }
    Ok(with(|t| t.close(&process))?)
}

/// Adds every thread of a process that is not tracked yet, as long as all of it is to be.
fn look(process: &Arc<Process>, added: &mut KVVec<u64>) -> Result<(), Failure> {
    for _ in 0..LOOKS {
        let (threads, all) = Thread::all_of(process.pid())?;
        let before = added.len();
        for thread in threads {
            let wanted = with(|t| {
                let wanted = t.is_whole(process);
                if wanted {
                    t.add(process, thread, added)?;
                }
                Ok::<_, Failure>(wanted)
            })??;
            if !wanted {
                return Ok(());
            }
        }
        // Whoever has a record has those tracked that it makes.
        if all && added.len() == before {
            return Ok(());
        }
    }
    // They come faster than one can look, from threads that are not tracked.
    process.ask_scan();
    Ok(())
}

/// Looks for threads of processes that asked for it.
fn scan_asked() {
    let mut from = 0;
    while let Ok(Some((key, process))) = with(|t| t.process_from(from)) {
        if process.take_scan() && process.setting().whole {
            let mut added = KVVec::new();
            // What there is no memory or room for now was counted when it was made.
            let _ = look(&process, &mut added);
        }
        match key.checked_add(1) {
            Some(next) => from = next,
            None => return,
        }
    }
}
