// SPDX-License-Identifier: GPL-2.0
//! Which threads are tracked: the table of their records.
//!
//! # Locking
//!
//! One mutex protects the table. It is taken in system calls, by the keeper, and by threads that a
//! tracked thread has made, in task work: never in the scheduler, or in a probe. Nothing else of
//! zernel is locked under it but the wait queue of a pid.

pub(crate) mod keeper;
pub(crate) mod process;

use crate::{
    error::Failure,
    glue::{
        identity::{
            Pid,
            Scope,
            Uid, //
        },
        lock,
        recorder::{
            self,
            Hooks,
            Record, //
        },
        thread::Thread,
        time::now_ns,
        watch::Armed,
        work::Worker,
    },
    janitor::Reaper,
    policy::units::Ns,
};
use keeper::Keeper;
use kernel::{
    prelude::*,
    rbtree::{
        RBTree,
        RBTreeNodeReservation, //
    },
    sync::Arc, //
};
use process::{
    Process,
    Setting, //
};

/// Most tracked threads of a user who is not root.
pub(crate) const MAX_PER_USER: u32 = recorder::MAX / 4;

/// A look at the threads of a process begins anew so often if some have come meanwhile.
const LOOKS: usize = 8;

/// For how long nothing has to be tracked until the scheduler's hooks are turned off: to turn them
/// on and off changes the kernel's text.
const REST: Ns = Ns(1_000_000_000);

/// A process with tracked threads, or that is tracked.
struct Entry {
    process: Arc<Process>,
    /// Tracked threads.
    threads: u32,
    /// Those that have still to let their records go included.
    members: u32,
    /// Calls that are about to track more of it.
    opened: u32,
    _watch: Armed,
}

/// A thread with a record.
struct Member {
    record: Arc<Record>,
    /// It is tracked; otherwise it has still to let the record go.
    wanted: bool,
    /// Who it counts for.
    uid: Uid,
}

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

/// The table.
///
/// # Invariants
///
/// Every entry of `threads` has one in `members`, under the keys of its process and thread, and
/// counts once among the members of its entry in `processes` and for its user in `users`. Its record
/// is not over, or will be handed to the keeper. `count` counts those that are wanted, and so do
/// `threads` of the entries.
pub(crate) struct Tracking {
    last_id: u64,
    threads: RBTree<u64, Member>,
    members: RBTree<(usize, usize), u64>,
    processes: RBTree<usize, Entry>,
    count: u32,
    users: RBTree<Uid, u32>,
    hooks: Option<Hooks>,
    /// Since when there are no records.
    idle: Option<Ns>,
    keeper: Arc<Worker<Keeper>>,
    reaper: Arc<Worker<Reaper>>,
}

/// Keeps the tracking there; it is emptied when this is dropped.
pub(crate) struct Installed(Arc<Worker<Keeper>>);

impl Installed {
    /// Makes it usable; called once, when the module is loaded.
    pub(crate) fn new(reaper: Arc<Worker<Reaper>>) -> Result<Self> {
        let keeper = Arc::pin_init(Worker::new(Keeper::new()), GFP_KERNEL)?;
        let tracking = Tracking {
            last_id: now_ns() / 1000,
            threads: RBTree::new(),
            members: RBTree::new(),
            processes: RBTree::new(),
            count: 0,
            users: RBTree::new(),
            hooks: None,
            idle: None,
            keeper: keeper.clone(),
            reaper,
        };
        *lock::tracking().lock() = Some(KBox::new(tracking, GFP_KERNEL)?);
        Ok(Self(keeper))
    }
}

impl Drop for Installed {
    fn drop(&mut self) {
        let tracking = lock::tracking().lock().take();
        // There are no records, for each has a reference to the module: nobody kicks it any more.
        self.0.cancel_sync();
        drop(tracking);
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
    // Dropped without the lock.
    let _entry = with(|t| t.processes.remove(&process.key()));
}

/// A record has come to a thread that a tracked one has made. Returns whether it is to take it.
pub(crate) fn arrived(record: Arc<Record>) -> bool {
    match with(|t| t.born(record)) {
        Ok(Ok(taken)) => taken,
        Ok(Err(_)) | Err(_) => {
            recorder::miss();
            false
        }
    }
}

/// Tracks a target of a process. Returns how many threads of the process are tracked then.
///
/// # Errors
///
/// See `struct zernel_track`; nothing has changed then.
pub(crate) fn track(pid: Pid, target: Target, privileged: bool) -> Result<u32, Failure> {
    let (process, before) = with(|t| t.open(pid))??;
    let wanted = Setting {
        privileged: before.privileged || privileged,
        ..before
    };
    let mut added = KVVec::new();
    let result = match target {
        Target::Thread(thread) => {
            process.set(wanted);
            with(|t| t.add(&process, thread, &mut added))?
        }
        Target::Process { children } => {
            // First, so that nobody is made meanwhile who is not tracked.
            process.set(Setting {
                whole: true,
                children: before.children || children,
                ..wanted
            });
            look(&process, &mut added)
        }
    };
    with(|t| {
        if result.is_err() {
            process.set(before);
            for &id in &added {
                t.end(id);
            }
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
    with(|t| t.untrack(pid, target, privileged))?
}

/// Adds every thread of a process that is not tracked yet.
fn look(process: &Arc<Process>, added: &mut KVVec<u64>) -> Result<(), Failure> {
    for _ in 0..LOOKS {
        let (threads, all) = Thread::all_of(process.pid())?;
        let before = added.len();
        for thread in threads {
            with(|t| t.add(process, thread, added))??;
        }
        // Whoever has a record has those tracked that it makes.
        if all && added.len() == before {
            return Ok(());
        }
    }
    // They come faster than one can look.
    process.ask_scan();
    Ok(())
}

/// Looks for threads of processes that asked for it, or of all.
fn scan_asked(everybody: bool) {
    let mut from = 0;
    while let Ok(Some((key, process))) = with(|t| t.process_from(from)) {
        if (process.take_scan() || everybody) && process.setting().whole {
            let mut added = KVVec::new();
            if look(&process, &mut added).is_err() {
                recorder::miss();
            }
        }
        match key.checked_add(1) {
            Some(next) => from = next,
            None => return,
        }
    }
}

impl Tracking {
    /// How many threads are tracked.
    pub(crate) fn count(&self) -> u32 {
        self.count
    }

    /// The first record with an id of at least `from`, if its thread is tracked.
    pub(crate) fn thread_from(&self, from: u64) -> Option<(u64, Option<&Record>)> {
        let cursor = self.threads.cursor_lower_bound(&from)?;
        let &id = cursor.current().0;
        let member = self.threads.get(&id)?;
        Some((id, member.wanted.then_some(&*member.record)))
    }

    fn process_from(&self, from: usize) -> Option<(usize, Arc<Process>)> {
        let cursor = self.processes.cursor_lower_bound(&from)?;
        let (&key, entry) = cursor.current();
        Some((key, entry.process.clone()))
    }

    /// The entry of a process, which is made if need be, and how it was tracked before.
    fn open(&mut self, pid: Pid) -> Result<(Arc<Process>, Setting), Failure> {
        self.idle = None;
        if self.hooks.is_none() {
            self.hooks = Some(Hooks::new(self.keeper.clone())?);
        }
        if let Some(entry) = self.processes.get_mut(&pid.key()) {
            entry.opened += 1;
            return Ok((entry.process.clone(), entry.process.setting()));
        }
        let process = Process::new(pid, self.keeper.clone())?;
        self.enter(&process, 1)?;
        Ok((process, Setting::SINGLE))
    }

    fn enter(&mut self, process: &Arc<Process>, opened: u32) -> Result {
        let pid = process.pid();
        let watch = Armed::new(pid.clone(), Scope::Process, self.reaper.clone())?;
        let entry = Entry {
            process: process.clone(),
            threads: 0,
            members: 0,
            opened,
            _watch: watch,
        };
        let key = pid.key();
        self.processes
            .try_create_and_insert(key, entry, GFP_KERNEL_ACCOUNT)?;
        Ok(())
    }

    /// Balances [`Self::open`]. Returns how many threads of the process are tracked.
    fn close(&mut self, process: &Process) -> u32 {
        let key = process.pid().key();
        let Some(entry) = self.processes.get_mut(&key) else {
            return 0;
        };
        entry.opened = entry.opened.saturating_sub(1);
        let threads = entry.threads;
        self.tidy(key);
        threads
    }

    /// Forgets a process of which nothing is tracked.
    fn tidy(&mut self, key: usize) {
        let empty = |entry: &Entry| {
            entry.members == 0 && entry.opened == 0 && !entry.process.setting().whole
        };
        if self.processes.get(&key).is_some_and(empty) {
            self.processes.remove(&key);
        }
    }

    /// Tracks a thread, unless it is tracked already.
    fn add(
        &mut self,
        process: &Arc<Process>,
        thread: Thread,
        added: &mut KVVec<u64>,
    ) -> Result<(), Failure> {
        let key = (process.pid().key(), thread.key());
        added.reserve(1, GFP_KERNEL)?;
        if let Some(&id) = self.members.get(&key) {
            if self.threads.get(&id).is_some_and(|member| member.wanted) {
                return Ok(());
            }
            if self.call_back(id) {
                return Ok(added.push(id, GFP_KERNEL)?);
            }
            // It is over, and the keeper has not been told yet.
            self.take(id);
        }
        let record = Record::new(thread, process.clone(), GFP_KERNEL_ACCOUNT)?;
        let id = match self.insert(record.clone()) {
            Ok(id) => id,
            Err(failure) => {
                Record::discard(record);
                return Err(failure);
            }
        };
        if Record::attach(record).is_err() {
            // It exits: it is not there any more.
            self.take(id);
            return Ok(());
        }
        added.push(id, GFP_KERNEL)?;
        Ok(())
    }

    /// A record has come to a thread that a tracked one has made. Returns whether it is wanted.
    fn born(&mut self, record: Arc<Record>) -> Result<bool, Failure> {
        let process = record.process().clone();
        if !process.setting().whole {
            return Ok(false);
        }
        let key = process.pid().key();
        match self.processes.get(&key) {
            Some(entry) if !Arc::ptr_eq(&entry.process, &process) => {
                // It was named itself before its first thread came here.
                entry.process.ask_scan();
                return Ok(false);
            }
            Some(_) => {}
            None => self.enter(&process, 0)?,
        }
        if self.members.get(&(key, record.thread().key())).is_some() {
            return Ok(false);
        }
        match self.insert(record) {
            Ok(_) => Ok(true),
            Err(failure) => {
                self.tidy(key);
                Err(failure)
            }
        }
    }

    fn insert(&mut self, record: Arc<Record>) -> Result<u64, Failure> {
        let uid = record.thread().uid();
        let key = (record.process().pid().key(), record.thread().key());
        let entry = self.processes.get_mut(&key.0).ok_or(ESRCH)?;
        let held = self.users.get(&uid).map_or(0, |&held| held);
        if uid != Uid::ROOT && held >= MAX_PER_USER {
            return Err(Failure::OverQuota);
        }
        let thread = RBTreeNodeReservation::new(GFP_KERNEL_ACCOUNT)?;
        let member = RBTreeNodeReservation::new(GFP_KERNEL_ACCOUNT)?;
        self.users
            .try_create_and_insert(uid, held + 1, GFP_KERNEL_ACCOUNT)?;
        // Nothing fails any more.
        entry.members += 1;
        entry.threads += 1;
        self.count += 1;
        self.last_id += 1;
        let id = self.last_id;
        record.set_id(id);
        self.members.insert(member.into_node(key, id));
        let new = Member {
            record,
            wanted: true,
            uid,
        };
        self.threads.insert(thread.into_node(id, new));
        Ok(id)
    }

    /// Takes a record out of the table.
    fn take(&mut self, id: u64) {
        self.count_out(id);
        let Some(Member { record, uid, .. }) = self.threads.remove(&id) else {
            return;
        };
        let key = (record.process().pid().key(), record.thread().key());
        self.members.remove(&key);
        match self.users.get_mut(&uid) {
            Some(held) if *held > 1 => *held -= 1,
            _ => drop(self.users.remove(&uid)),
        }
        if let Some(entry) = self.processes.get_mut(&key.0) {
            entry.members -= 1;
        }
        self.tidy(key.0);
    }

    /// A thread is tracked no more. Returns whether it was.
    fn count_out(&mut self, id: u64) -> bool {
        let Some(member) = self.threads.get_mut(&id).filter(|member| member.wanted) else {
            return false;
        };
        member.wanted = false;
        self.count -= 1;
        let key = member.record.process().pid().key();
        if let Some(entry) = self.processes.get_mut(&key) {
            entry.threads -= 1;
        }
        true
    }

    /// Tracks a thread no more.
    fn end(&mut self, id: u64) {
        if self.count_out(id) {
            if let Some(member) = self.threads.get(&id) {
                member.record.let_go();
            }
        }
    }

    /// Tracks a thread again that has still to let its record go. Returns whether it was in time.
    fn call_back(&mut self, id: u64) -> bool {
        let Some(member) = self.threads.get_mut(&id) else {
            return false;
        };
        if !member.record.call_back() {
            return false;
        }
        member.wanted = true;
        self.count += 1;
        let key = member.record.process().pid().key();
        if let Some(entry) = self.processes.get_mut(&key) {
            entry.threads += 1;
        }
        true
    }

    /// A record is over.
    pub(crate) fn remove(&mut self, record: &Record) {
        let is = |member: &Member| core::ptr::eq(&*member.record, record);
        let id = record.id();
        if self.threads.get(&id).is_some_and(is) {
            self.take(id);
        }
    }

    fn untrack(&mut self, pid: &Pid, target: &Target, privileged: bool) -> Result<u32, Failure> {
        let key = pid.key();
        let entry = self.processes.get(&key).ok_or(Failure::NotAssigned)?;
        let setting = entry.process.setting();
        let process = entry.process.clone();
        match target {
            Target::Thread(thread) => {
                let id = self.members.get(&(key, thread.key()));
                let is = |id: &u64| self.threads.get(id).is_some_and(|member| member.wanted);
                let &id = id.filter(|id| is(id)).ok_or(Failure::NotAssigned)?;
                if setting.privileged && !privileged {
                    return Err(Failure::NotPermitted);
                }
                if setting.whole {
                    return Err(Failure::Kernel(EBUSY));
                }
                self.end(id);
                if self
                    .processes
                    .get(&key)
                    .is_some_and(|entry| entry.threads == 0)
                {
                    process.set(Setting::SINGLE);
                }
            }
            Target::Process { .. } => {
                if setting.privileged && !privileged {
                    return Err(Failure::NotPermitted);
                }
                if entry.threads == 0 && !setting.whole {
                    return Err(Failure::NotAssigned);
                }
                process.set(Setting::SINGLE);
                let mut next = self.member_from(key, 0);
                while let Some((thread, id)) = next {
                    self.end(id);
                    next = thread
                        .checked_add(1)
                        .and_then(|from| self.member_from(key, from));
                }
                self.tidy(key);
            }
        }
        Ok(self.processes.get(&key).map_or(0, |entry| entry.threads))
    }

    /// The first thread of a process with a key of at least `from`, and the id of its record.
    fn member_from(&self, process: usize, from: usize) -> Option<(usize, u64)> {
        let cursor = self.members.cursor_lower_bound(&(process, from))?;
        let (&(owner, thread), &id) = cursor.current();
        (owner == process).then_some((thread, id))
    }

    /// Turns the hooks of the scheduler off if there have been no records for [`REST`]. Returns when
    /// to ask again.
    fn rest(&mut self, now: Ns) -> Option<Ns> {
        if self.hooks.is_none() || recorder::live() > 0 {
            self.idle = None;
            return None;
        }
        let since = *self.idle.get_or_insert(now);
        let at = since.saturating_add(REST);
        if now < at {
            return Some(at);
        }
        self.idle = None;
        self.hooks = None;
        None
    }
}
