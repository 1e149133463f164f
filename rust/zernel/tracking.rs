// SPDX-License-Identifier: GPL-2.0
//! Which threads are tracked.
//!
//! # Locking
//!
//! One mutex protects the table. It is taken in system calls, by the record reaper, and by threads that a
//! tracked thread has made, in task work: never in the scheduler, or in a probe. Under it are locked
//! the waits of a thread, the wait queue of a pid, alarms, and the table of nice values. Memory that a
//! cgroup pays for is not waited for with the table locked.

mod ending;
pub(crate) mod follow;
pub(crate) mod group;
pub(crate) mod groups;
mod members;
pub(crate) mod owners;
pub(crate) mod probes;
pub(crate) mod program;
pub(crate) mod programs;
mod table;

pub(crate) use crate::glue::process;
use crate::{
    error::Failure,
    glue::{
        identity::Pid,
        lock,
        memory,
        scheduler_hooks::{
            self,
            Record, //
        },
        thread::Thread,
        work::Kick, //
    },
    nice::Table, //
};
use kernel::{
    prelude::*,
    sync::Arc, //
};
use process::{
    Kicks,
    Process,
    Setting, //
};
pub(crate) use table::Tracking;

/// Threads looked at with the table locked once.
pub(crate) const BATCH: usize = 64;

/// A look at the threads of a process begins anew so often if some have come meanwhile.
const LOOKS: usize = 8;

/// The target of tracking, or of its end.
pub(crate) enum Target {
    /// One thread of the process.
    Thread(Thread),
    /// All of the process.
    Process {
        /// And the processes that it makes.
        children: bool,
    },
}

lock::global!(TRACKING: KBox<Tracking>);

/// Keeps the tracking there; it is emptied when this is dropped.
pub(crate) struct Installed(());

impl Installed {
    /// Makes it usable; called once, when the module is loaded.
    pub(crate) fn new(
        jobs: Arc<Kicks>,
        reaper: Kick,
        cgroup_sync: Kick,
        nice: Arc<Table>,
    ) -> Result<Self> {
        scheduler_hooks::hand_arrivals_to(arrived);
        let tracking = Tracking::new(jobs, reaper, cgroup_sync, nice);
        *lock().lock() = Some(KBox::new(tracking, GFP_KERNEL)?);
        Ok(Self(()))
    }
}

impl Drop for Installed {
    fn drop(&mut self) {
        let tracking = lock().lock().take();
        // Tracked cgroups may be left: it is over with them. There are no records, for each has a
        // reference to the module.
        drop(tracking);
        scheduler_hooks::wait_for_all();
    }
}

/// Calls `f` with the table locked.
///
/// # Errors
///
/// `ENODEV` the module is on its way out.
pub(crate) fn with<T>(f: impl FnOnce(&mut Tracking) -> T) -> Result<T> {
    let mut guard = lock().lock();
    let tracking = guard.as_mut().ok_or(ENODEV)?;
    Ok(f(tracking))
}

/// As [`with`], once there is memory for it: see [`memory::with_memory`].
fn with_memory<T>(mut f: impl FnMut(&mut Tracking) -> Result<T, Failure>) -> Result<T, Failure> {
    memory::with_memory(|| with(&mut f)?)
}

/// As [`with_memory`], where `f` is to change nothing when it fails. Without memory in the end it
/// may change a part.
fn with_some_memory<T>(
    mut f: impl FnMut(&mut Tracking, bool) -> Result<T, Failure>,
) -> Result<T, Failure> {
    match with_memory(|t| f(t, true)) {
        Err(Failure::Kernel(ENOMEM)) => with(|t| f(t, false))?,
        result => result,
    }
}

/// Does something for some threads or processes from a key on, with the table locked once. Returns
/// where to go on.
pub(crate) fn batch<K>(at: K, mut f: impl FnMut(&mut Tracking, K) -> Option<K>) -> Option<K> {
    let next = with(|t| {
        let mut from = Some(at);
        for _ in 0..BATCH {
            from = from.and_then(|from| f(t, from));
        }
        from
    });
    // Without a table there are none.
    next.unwrap_or(None)
}

/// Has every thread have the nice value of its phase, as tuned now.
pub(crate) fn renice() {
    let mut from = Some(0);
    while let Some(at) = from {
        from = batch(at, Tracking::renice_from);
    }
}

/// A process has exited. It may be one that is not tracked.
pub(crate) fn expire(process: &Pid) {
    // Without a table there is none.
    let _ = with(|t| t.expire(process));
}

/// A record has come to a thread that a tracked one has made. Returns whether it is to take it.
fn arrived(record: Arc<Record>) -> bool {
    let process = record.process().clone();
    match with_some_memory(|t, strict| t.born(&record, strict)) {
        Ok(taken) => taken,
        // It is over with the process itself, or with the module.
        Err(Failure::Kernel(ESRCH | ENODEV)) => false,
        Err(failure) => {
            scheduler_hooks::miss();
            lacks(&process);
            if failure == Failure::Kernel(ENOMEM) && process.named().whole {
                process.ask_scan();
            }
            false
        }
    }
}

/// There was no memory or room for a thread. If it is in a tracked cgroup the cgroup sync looks again.
fn lacks(process: &Process) {
    if process.grouped().whole {
        process.set_lacks(true);
        // Without a table nobody looks.
        let _ = with(|t| t.retry());
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
    // First, so that no process is made meanwhile without being tracked.
    let opened = with_memory(|t| t.open(&pid, more))?;
    let process = &opened.process;
    let mut added = KVVec::new();
    let result = match target {
        Target::Thread(thread) => with_memory(|t| t.add_single(process, &thread, &mut added)),
        Target::Process { .. } => look(process, &mut added),
    };
    if result.is_err() {
        with(|t| t.undo(&opened))?;
        // Those that they have made meanwhile, too.
        let mut from = Some(0);
        while let Some(at) = from {
            from = with(|t| t.end_some(process, at))?;
        }
    }
    let threads = with(|t| t.close(process))?;
    result.map(|()| threads)
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
        from = with(|t| t.unname_some(&process, at))?;
    }
    Ok(with(|t| t.close(&process))?)
}

/// Adds every thread of a process that is not tracked yet, as long as all of it is to be.
fn look(process: &Arc<Process>, added: &mut KVVec<u64>) -> Result<(), Failure> {
    for _ in 0..LOOKS {
        let (threads, all) = Thread::all_of(process.pid())?;
        let before = added.len();
        for thread in threads {
            let wanted = with_memory(|t| {
                let wanted = t.is_whole(process);
                if wanted {
                    t.add(process, &thread, added)?;
                }
                Ok(wanted)
            })?;
            if !wanted {
                return Ok(());
            }
        }
        // A thread with a record has its children tracked.
        if all && added.len() == before {
            return Ok(());
        }
    }
    // They come faster than one can look, from threads that are not tracked.
    process.ask_scan();
    Ok(())
}

/// Probes have gone: waits that they have seen to begin are over.
pub(crate) fn end_waits(is_gone: impl Fn(u64) -> bool) {
    let mut from = Some(0);
    while let Some(at) = from {
        from = batch(at, |t, from| t.end_wait_from(from, &is_gone));
    }
}

/// Looks for threads of processes that asked for it, if any did.
pub(crate) fn scan_asked() {
    if !process::take_scans() {
        return;
    }
    let mut from = 0;
    while let Ok(Some((key, process))) = with(|t| t.process_from(from)) {
        if process.take_scan() && process.setting().whole {
            let mut added = KVVec::new();
            // A process without memory or room now was counted when it was made.
            if look(&process, &mut added).is_err() {
                lacks(&process);
            }
        }
        match key.checked_add(1) {
            Some(next) => from = next,
            None => return,
        }
    }
}
