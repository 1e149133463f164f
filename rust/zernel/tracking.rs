// SPDX-License-Identifier: GPL-2.0
//! Which threads are tracked.
//!
//! # Locking
//!
//! One spinlock protects the table. It is taken in system calls, by workers, and by tracked threads
//! as they begin to be recorded, or exit: never in the scheduler. Each look or change takes it anew
//! for a few records at most, however many there are, so that nobody waits for long: sums are kept
//! up as records change, and walks go from key to key. Under it are locked the waits of a thread,
//! the wait queue of a pid, alarms, and the table of nice values. Memory is not waited for with the
//! table locked.

mod ending;
pub(crate) mod follow;
pub(crate) mod group;
pub(crate) mod groups;
mod keeper;
mod members;
pub(crate) mod owners;
pub(crate) mod probes;
pub(crate) mod program;
pub(crate) mod programs;
mod switch;
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
            Change,
            Record, //
        },
        thread::Thread,
        work::Kick, //
    },
    nice::Table,
    policy::units::Ns, //
};
pub(crate) use keeper::scan_asked;

use kernel::{
    alloc::Flags,
    prelude::*,
    sync::Arc, //
};
use members::{
    Lack,
    Newcomer,
    Room, //
};
use process::{
    Kicks,
    Process,
    Setting, //
};
use switch::{
    Needed,
    Switch, //
};
pub(crate) use table::Tracking;
use table::{
    Arrival,
    BATCH, //
};

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

/// The payer of memory for records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Payer {
    /// The caller, who waits for it.
    Caller,
    /// The process that is tracked. A worker does not wait: others wait for that.
    Process,
}

lock::global!(TRACKING: KBox<Tracking>, SpinLock);

/// The table, for the threads that have a record.
static TABLE: scheduler_hooks::Table = scheduler_hooks::Table {
    arrived,
    change,
    find,
};

/// Keeps the tracking there; it is emptied when this is dropped.
pub(crate) struct Installed(Arc<Switch>);

impl Installed {
    /// Makes it usable; called once, when the module is loaded.
    pub(crate) fn new(
        jobs: Arc<Kicks>,
        reaper: Kick,
        cgroup_sync: Kick,
        nice: Arc<Table>,
    ) -> Result<Self> {
        scheduler_hooks::belong_to(&TABLE);
        let switch = Switch::new(jobs.record_reaper.clone(), cgroup_sync.clone())?;
        let tracking = Tracking::new(jobs, reaper, cgroup_sync, nice, switch.clone());
        let tracking = KBox::new(tracking, GFP_KERNEL)?;
        *lock().lock() = Some(tracking);
        Ok(Self(switch))
    }
}

impl Drop for Installed {
    fn drop(&mut self) {
        let tracking = lock().lock().take();
        // Tracked cgroups may be left: it is over with them. There are no records, for each has a
        // reference to the module.
        drop(tracking);
        self.0.end();
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
    let result = f(tracking);
    let gone = tracking.take_gone();
    drop(guard);
    drop(gone);
    Ok(result)
}

/// As [`with`], for a call of which a process may come to the table.
fn with_arrival<T>(
    process: &Pid,
    flags: Flags,
    mut f: impl FnMut(&mut Tracking) -> Result<T, Failure>,
) -> Result<T, Failure> {
    loop {
        let reaper = with(|t| t.awaits(process))?;
        let was_known = reaper.is_none();
        // Without memory, or when it has exited, it does not come.
        let mut arrival =
            reaper.and_then(|reaper| Arrival::new(process.clone(), reaper, flags).ok());
        let result = with(|t| {
            t.arrival = arrival.take();
            let result = f(t);
            arrival = t.arrival.take();
            result
        })?;
        // The one that was known may have gone in between.
        let lacks = was_known && matches!(result, Err(Failure::Kernel(ENOMEM)));
        if !lacks || with(|t| t.awaits(process))?.is_none() {
            return result;
        }
    }
}

/// As [`with`], once there is memory for it: see [`memory::with_memory`].
fn with_memory<T>(mut f: impl FnMut(&mut Tracking) -> Result<T, Failure>) -> Result<T, Failure> {
    memory::with_memory(|| with(&mut f)?)
}

impl Payer {
    /// As [`with_memory`], if the caller pays; else `f` gets the memory that is there for the
    /// process, which may come to the table.
    fn with_memory<T>(
        self,
        process: &Pid,
        mut f: impl FnMut(&mut Tracking) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        match self {
            Self::Caller => {
                let flags = memory::account_quietly();
                memory::with_memory(|| with_arrival(process, flags, &mut f))
            }
            Self::Process => {
                let flags = memory::account_nowait();
                pays(process, || with_arrival(process, flags, &mut f))
            }
        }
    }

    /// As [`Self::with_memory`], where `f` is to change nothing when it fails. Without memory in the
    /// end it may change a part.
    fn with_some_memory<T>(
        self,
        process: &Pid,
        mut f: impl FnMut(&mut Tracking, bool) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let all = match self {
            Self::Caller => self.with_memory(process, |t| f(t, true)),
            Self::Process => Err(Failure::Kernel(ENOMEM)),
        };
        match all {
            Err(Failure::Kernel(ENOMEM)) => {
                let flags = memory::account_nowait();
                let mut some = || with_arrival(process, flags, |t| f(t, false));
                match self {
                    Self::Caller => some(),
                    Self::Process => pays(process, some),
                }
            }
            result => result,
        }
    }

    /// Adds a thread by `f`, which is called again with each part that it lacks.
    fn add<T>(
        self,
        process: &Arc<Process>,
        thread: &Thread,
        mut f: impl FnMut(&mut Tracking, &mut Newcomer) -> Result<T, Lack>,
    ) -> Result<T, Failure> {
        let mut new = Newcomer::default();
        loop {
            match with(|t| f(t, &mut new))? {
                Ok(added) => return Ok(added),
                Err(lack) => self.make(&mut new, lack, process, thread)?,
            }
        }
    }

    /// The threads of a process, and whether those are all.
    fn all_of(self, process: &Pid) -> Result<(KVVec<Thread>, bool), Failure> {
        match self {
            Self::Caller => Ok(Thread::all_of(process, memory::account_quietly())?),
            Self::Process => pays(process, || {
                Ok(Thread::all_of(process, memory::account_nowait())?)
            }),
        }
    }

    fn make(
        self,
        new: &mut Newcomer,
        lack: Lack,
        process: &Arc<Process>,
        thread: &Thread,
    ) -> Result<(), Failure> {
        match self {
            Self::Caller => new.make(lack, process, thread, memory::account_quietly()),
            Self::Process => {
                let flags = memory::account_nowait();
                pays(process.pid(), || new.make(lack, process, thread, flags))
            }
        }
    }
}

/// The memory that `f` takes is charged to a process.
fn pays<T>(process: &Pid, mut f: impl FnMut() -> Result<T, Failure>) -> Result<T, Failure> {
    let thread = Thread::living_of(process);
    // One without memory exits: it takes none any more.
    let done = thread.and_then(|thread| thread.pays(&mut f));
    done.unwrap_or_else(f)
}

/// The scheduler hooks are on as long as the result is there.
fn need_hooks() -> Result<Needed, Failure> {
    let switch = with(|t| t.switch.clone())?;
    Ok(switch.need()?)
}

/// Turns the scheduler hooks on or off, as they are needed. Returns when to ask again. Called by the
/// record reaper.
pub(crate) fn turn_hooks(now: Ns) -> Option<Ns> {
    let switch = with(|t| t.switch.clone()).ok()?;
    switch.turn(now, || with(|t| t.is_idle()).unwrap_or(false))
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
    if !process.setting().whole {
        return false;
    }
    let room = Room::new(memory::account_quietly()).map_err(Failure::from);
    let taken = room.and_then(|room| {
        let mut room = Some(room);
        Payer::Caller.with_some_memory(process.pid(), |t, strict| {
            t.born(&record, &mut room, strict)
        })
    });
    match taken {
        Ok(taken) => taken,
        // It is over with the process itself, or with the module.
        Err(Failure::Kernel(ESRCH | ENODEV)) => false,
        Err(failure) => {
            scheduler_hooks::miss();
            lacks(&process);
            if failure == Failure::Kernel(ENOMEM) && process.named().whole {
                Process::ask_scan(&process);
            }
            false
        }
    }
}

/// A thread changes its record.
fn change(record: &Record, by: &mut dyn FnMut() -> Option<Change>) {
    let mut tracking = lock().lock();
    let change = by();
    if let (Some(tracking), Some(change)) = (tracking.as_mut(), change) {
        tracking.changed(record, change);
    }
}

/// The record of a thread of a process, by their keys.
fn find(process: usize, thread: usize) -> Option<Arc<Record>> {
    with(|t| t.record_of(process, thread)).ok().flatten()
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
pub(crate) fn track(
    pid: Pid,
    target: Target,
    privileged: bool,
    ml: bool,
    payer: Payer,
) -> Result<u32, Failure> {
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
    let _needed = need_hooks()?;
    // First, so that no process is made meanwhile without being tracked.
    let opened = payer.with_memory(&pid, |t| t.open(&pid, more))?;
    let process = &opened.process;
    let result = match target {
        Target::Thread(thread) => payer
            .add(process, &thread, |t, new| {
                t.add_single(process, &thread, new)
            })
            .map(|_| ()),
        Target::Process { .. } => look(process, payer),
    };
    if result.is_err() {
        with(|t| t.undo(&opened))?;
        // Those that they have made meanwhile, too.
        end_all(process)?;
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
            let (process, threads) = with(|t| t.untrack_thread(pid, thread, privileged))??;
            rest(&process)?;
            return Ok(threads);
        }
        Target::Process { .. } => with(|t| t.untrack_process(pid, privileged))??,
    };
    let mut from = Some(0);
    while let Some(at) = from {
        from = with(|t| t.unname_some(&process, at))?;
    }
    rest(&process)?;
    Ok(with(|t| t.close(&process))?)
}

/// Tracks the threads of a process no more that were not named, unless all of it is tracked.
fn end_all(process: &Arc<Process>) -> Result {
    let mut from = Some(0);
    while let Some(at) = from {
        from = with(|t| t.end_some(process, at))?;
    }
    rest(process)
}

/// Ends the phases of the threads of a process, if it has none any more.
fn rest(process: &Arc<Process>) -> Result {
    while with(|t| t.rest_some(process))? {}
    Ok(())
}

/// Adds every thread of a process that is not tracked yet, as long as all of it is to be.
fn look(process: &Arc<Process>, payer: Payer) -> Result<(), Failure> {
    for _ in 0..LOOKS {
        if look_once(process, payer)? {
            return Ok(());
        }
    }
    // They come faster than one can look, from threads that are not tracked.
    Process::ask_scan(process);
    Ok(())
}

/// As [`look`], once. Returns whether that was enough.
fn look_once(process: &Arc<Process>, payer: Payer) -> Result<bool, Failure> {
    let (threads, all) = payer.all_of(process.pid())?;
    let mut came = false;
    for thread in threads {
        let added = payer.add(process, &thread, |t, new| match t.is_whole(process) {
            true => t.add(process, &thread, new).map(Some),
            false => Ok(None),
        })?;
        match added {
            Some(added) => came |= added,
            None => return Ok(true),
        }
    }
    // A thread with a record has its children tracked.
    Ok(all && !came)
}

/// Probes have gone: waits that they have seen to begin are over.
pub(crate) fn end_waits(is_gone: impl Fn(u64) -> bool) {
    let mut from = Some(0);
    while let Some(at) = from {
        from = batch(at, |t, from| t.end_wait_from(from, &is_gone));
    }
}
