// SPDX-License-Identifier: GPL-2.0
//! The table of records: which thread has one, of which process, and for whom it counts.

use super::{
    keeper::Keeper,
    process::{
        Process,
        Setting, //
    },
};
use crate::{
    error::Failure,
    glue::{
        identity::{
            Pid,
            Scope,
            Uid, //
        },
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
    phases::program::Report,
    policy::{
        phase::{
            account::Times,
            task::Task,
            window::Gpu, //
        },
        units::Ns,
    },
};
use kernel::{
    prelude::*,
    rbtree::{
        RBTree,
        RBTreeNodeReservation, //
    },
    sync::Arc, //
};

/// Most tracked threads of a user who is not root.
pub(crate) const MAX_PER_USER: u32 = recorder::MAX / 4;

/// Threads that are let go with the table locked once.
const BATCH: usize = 64;

/// For how long nothing has to be tracked until the scheduler's hooks are turned off: to turn them
/// on and off changes the kernel's text.
const REST: Ns = Ns(1_000_000_000);

/// A process with tracked threads, or that is tracked.
pub(super) struct Entry {
    pub(super) process: Arc<Process>,
    /// Its number: never used again, not even after a reload.
    pub(super) id: u64,
    /// Tracked threads.
    pub(super) threads: u32,
    /// Times of threads that are tracked no more.
    pub(super) past: Times,
    /// Its place among the programs that have phases.
    pub(super) program: Option<usize>,
    /// What the GPU did for it, at the last sample.
    pub(super) gpu: Gpu,
    /// What came of its signals.
    pub(super) prefetch: Report,
    /// Those that have still to let their records go included.
    members: u32,
    /// Calls that are about to track more of it.
    opened: u32,
    _watch: Armed,
}

/// A thread with a record.
pub(super) struct Member {
    pub(super) record: Arc<Record>,
    /// When it was called back the last time: what it did before counts already.
    pub(super) since: Ns,
    /// Its phases, once a sample was taken of it.
    pub(super) phases: Option<KBox<Task>>,
    /// It is tracked; otherwise it has still to let the record go.
    pub(super) wanted: bool,
    /// Who it counts for.
    uid: Uid,
}

/// The table.
///
/// # Invariants
///
/// Every entry of `threads` has one in `members`, under the keys of its process and thread, and
/// counts once among the members of its entry in `processes` and for its user in `users`. `ids` has
/// exactly the ids of `processes`. Its record
/// is not over, or will be handed to the keeper. `count` counts those that are wanted, and so do
/// `threads` of the entries.
pub(crate) struct Tracking {
    last_id: u64,
    pub(super) threads: RBTree<u64, Member>,
    pub(super) members: RBTree<(usize, usize), u64>,
    pub(super) processes: RBTree<usize, Entry>,
    pub(super) ids: RBTree<u64, usize>,
    /// Counted up when other processes have phases than before.
    pub(super) generation: u64,
    count: u32,
    users: RBTree<Uid, u32>,
    hooks: Option<Hooks>,
    /// Since when there are no records.
    idle: Option<Ns>,
    pub(super) keeper: Arc<Worker<Keeper>>,
    reaper: Arc<Worker<Reaper>>,
}

impl Tracking {
    /// An empty table, whose ids begin after those of any before it.
    pub(super) fn new(keeper: Arc<Worker<Keeper>>, reaper: Arc<Worker<Reaper>>) -> Self {
        Self {
            // Ids are handed out more slowly than one in a microsecond.
            last_id: now_ns() / 1000,
            threads: RBTree::new(),
            members: RBTree::new(),
            processes: RBTree::new(),
            ids: RBTree::new(),
            generation: 1,
            count: 0,
            users: RBTree::new(),
            hooks: None,
            idle: None,
            keeper,
            reaper,
        }
    }

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

    pub(super) fn process_from(&self, from: usize) -> Option<(usize, Arc<Process>)> {
        let cursor = self.processes.cursor_lower_bound(&from)?;
        let (&key, entry) = cursor.current();
        Some((key, entry.process.clone()))
    }

    /// The scheduler's hooks are on, and stay so as long as there are records.
    fn hook(&mut self) -> Result {
        self.idle = None;
        if self.hooks.is_none() {
            self.hooks = Some(Hooks::new()?);
        }
        Ok(())
    }

    /// The entry of a process, which is made if need be, and is tracked in `more` ways from now on;
    /// and how it was before.
    pub(super) fn open(
        &mut self,
        pid: Pid,
        more: Setting,
    ) -> Result<(Arc<Process>, Setting), Failure> {
        self.hook()?;
        let key = pid.key();
        if self.processes.get(&key).is_none() {
            let process = Process::new(pid, self.keeper.clone())?;
            self.enter(&process)?;
        }
        let entry = self.processes.get_mut(&key).ok_or(ESRCH)?;
        entry.opened += 1;
        let process = entry.process.clone();
        let before = process.setting();
        self.set(&process, before.and(more));
        Ok((process, before))
    }

    /// Takes back what a call has done, unless another one is about to build on it.
    pub(super) fn undo(&mut self, process: &Process, before: Setting, added: &[u64]) {
        let alone = |entry: &Entry| entry.opened == 1;
        if !self.processes.get(&process.pid().key()).is_some_and(alone) {
            return;
        }
        self.set(process, before);
        for &id in added {
            self.end(id);
        }
    }

    fn set(&mut self, process: &Process, setting: Setting) {
        if process.setting().ml != setting.ml {
            self.generation += 1;
        }
        process.set(setting);
        if setting.ml {
            self.keeper.ring();
        }
    }

    /// Whether all threads of the process are to be tracked.
    pub(super) fn is_whole(&self, process: &Arc<Process>) -> bool {
        let entry = self.processes.get(&process.pid().key());
        entry.is_some_and(|entry| Arc::ptr_eq(&entry.process, process)) && process.setting().whole
    }

    /// A process has exited, or so it seems.
    pub(super) fn expire(&mut self, pid: &Pid) {
        let key = pid.key();
        let entry = self.processes.get(&key);
        let dead = entry.filter(|_| !pid.is_alive(Scope::Process));
        if let Some(process) = dead.map(|entry| entry.process.clone()) {
            // What is left of it goes with its last record.
            let ml = process.setting().ml;
            let none = Setting::SINGLE;
            self.set(&process, Setting { ml, ..none });
        }
        self.tidy(key);
    }

    fn enter(&mut self, process: &Arc<Process>) -> Result {
        let pid = process.pid();
        let watch = Armed::new(pid.clone(), Scope::Process, self.reaper.clone())?;
        let id = self.last_id + 1;
        let entry = Entry {
            process: process.clone(),
            id,
            past: Times::ZERO,
            program: None,
            gpu: Gpu::default(),
            prefetch: Report::default(),
            threads: 0,
            members: 0,
            opened: 0,
            _watch: watch,
        };
        let key = pid.key();
        let node = RBTreeNodeReservation::new(GFP_KERNEL_ACCOUNT)?;
        self.processes
            .try_create_and_insert(key, entry, GFP_KERNEL_ACCOUNT)?;
        self.ids.insert(node.into_node(id, key));
        self.last_id = id;
        self.generation += u64::from(process.setting().ml);
        Ok(())
    }

    /// Balances [`Self::open`]. Returns how many threads of the process are tracked.
    pub(super) fn close(&mut self, process: &Process) -> u32 {
        let key = process.pid().key();
        let Some(entry) = self.processes.get_mut(&key) else {
            return 0;
        };
        entry.opened = entry.opened.saturating_sub(1);
        let threads = entry.threads;
        self.tidy(key);
        // Where there is no record, nobody else asks whether the hooks are still needed.
        self.keeper.kick();
        threads
    }

    /// Forgets a process of which nothing is tracked.
    fn tidy(&mut self, key: usize) {
        let empty = |entry: &Entry| {
            entry.members == 0 && entry.opened == 0 && !entry.process.setting().whole
        };
        if self.processes.get(&key).is_some_and(empty) {
            if let Some(entry) = self.processes.remove(&key) {
                self.ids.remove(&entry.id);
                self.generation += u64::from(entry.process.setting().ml);
            }
        }
    }

    /// Tracks a thread, unless it is tracked already.
    pub(super) fn add(
        &mut self,
        process: &Arc<Process>,
        thread: Thread,
        added: &mut KVVec<u64>,
    ) -> Result<(), Failure> {
        let key = (process.pid().key(), thread.key());
        self.hook()?;
        added.reserve(1, GFP_KERNEL)?;
        if let Some(&id) = self.members.get(&key) {
            if self.threads.get(&id).is_some_and(|member| member.wanted) {
                return Ok(());
            }
            if let Some(id) = self.call_back(id)? {
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
    pub(super) fn born(&mut self, record: Arc<Record>) -> Result<bool, Failure> {
        let process = record.process().clone();
        if !process.setting().whole {
            return Ok(false);
        }
        let key = process.pid().key();
        match self.processes.get(&key) {
            Some(entry) if !Arc::ptr_eq(&entry.process, &process) => {
                // It was named itself before its first thread came here.
                let named = entry.process.clone();
                self.set(&named, named.setting().and(process.setting()));
                named.ask_scan();
                return Ok(false);
            }
            Some(_) => {}
            None => self.enter(&process)?,
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
            since: Ns::ZERO,
            phases: None,
            wanted: true,
            uid,
        };
        self.threads.insert(thread.into_node(id, new));
        Ok(id)
    }

    /// Takes a record out of the table.
    fn take(&mut self, id: u64) {
        self.count_out(id);
        let Some(member) = self.threads.remove(&id) else {
            return;
        };
        let times = member.times(Ns(now_ns()));
        let Member { record, uid, .. } = member;
        let key = (record.process().pid().key(), record.thread().key());
        self.members.remove(&key);
        match self.users.get_mut(&uid) {
            Some(held) if *held > 1 => *held -= 1,
            _ => drop(self.users.remove(&uid)),
        }
        if let Some(entry) = self.processes.get_mut(&key.0) {
            entry.members -= 1;
            entry.past.add(&times);
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
    pub(super) fn end(&mut self, id: u64) {
        if self.count_out(id) {
            if let Some(member) = self.threads.get(&id) {
                member.record.let_go();
            }
        }
    }

    /// Tracks a thread again that has still to let its record go, which begins anew. Returns its new
    /// id, if it was in time.
    fn call_back(&mut self, id: u64) -> Result<Option<u64>> {
        let node = RBTreeNodeReservation::new(GFP_KERNEL_ACCOUNT)?;
        // What it did before, which nobody knows any more when it is called back.
        let now = Ns(now_ns());
        let times = self.threads.get(&id).map(|member| member.times(now));
        let times = times.unwrap_or(Times::ZERO);
        let in_time = |member: &Member| member.record.call_back();
        if !self.threads.get(&id).is_some_and(in_time) {
            return Ok(None);
        }
        let Some(mut member) = self.threads.remove(&id) else {
            return Ok(None);
        };
        member.wanted = true;
        (member.since, member.phases) = (now, None);
        self.last_id += 1;
        let new = self.last_id;
        member.record.set_id(new);
        let key = (
            member.record.process().pid().key(),
            member.record.thread().key(),
        );
        self.threads.insert(node.into_node(new, member));
        if let Some(id) = self.members.get_mut(&key) {
            *id = new;
        }
        self.count += 1;
        if let Some(entry) = self.processes.get_mut(&key.0) {
            entry.threads += 1;
            entry.past.add(&times);
        }
        Ok(Some(new))
    }

    /// A record is over.
    pub(crate) fn remove(&mut self, record: &Record) {
        let is = |member: &Member| core::ptr::eq(&*member.record, record);
        let id = record.id();
        if self.threads.get(&id).is_some_and(is) {
            self.take(id);
        }
    }

    pub(super) fn untrack_thread(
        &mut self,
        pid: &Pid,
        thread: &Thread,
        privileged: bool,
    ) -> Result<u32, Failure> {
        let key = pid.key();
        let entry = self.processes.get(&key).ok_or(Failure::NotAssigned)?;
        let (process, setting) = (entry.process.clone(), entry.process.setting());
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
        let threads = self.processes.get(&key).map_or(0, |entry| entry.threads);
        if threads == 0 {
            self.set(&process, Setting::SINGLE);
        }
        Ok(threads)
    }

    /// All of the process is to be tracked no more. It is open then.
    pub(super) fn untrack_process(
        &mut self,
        pid: &Pid,
        privileged: bool,
    ) -> Result<Arc<Process>, Failure> {
        let entry = self.processes.get_mut(&pid.key());
        let entry = entry.ok_or(Failure::NotAssigned)?;
        let setting = entry.process.setting();
        if entry.threads == 0 && !setting.whole {
            return Err(Failure::NotAssigned);
        }
        if setting.privileged && !privileged {
            return Err(Failure::NotPermitted);
        }
        entry.opened += 1;
        let process = entry.process.clone();
        self.set(&process, Setting::SINGLE);
        Ok(process)
    }

    /// Tracks some of the threads of a process no more, unless all of it is tracked again. Returns
    /// where to go on.
    pub(super) fn end_some(&mut self, process: &Arc<Process>, from: usize) -> Option<usize> {
        if self.is_whole(process) {
            return None;
        }
        let mut from = from;
        for _ in 0..BATCH {
            let (thread, id) = self.member_from(process.pid().key(), from)?;
            self.end(id);
            from = thread.checked_add(1)?;
        }
        Some(from)
    }

    /// The first thread of a process with a key of at least `from`, and the id of its record.
    pub(super) fn member_from(&self, process: usize, from: usize) -> Option<(usize, u64)> {
        let cursor = self.members.cursor_lower_bound(&(process, from))?;
        let (&(owner, thread), &id) = cursor.current();
        (owner == process).then_some((thread, id))
    }

    /// Turns the hooks of the scheduler off if there have been no records for [`REST`]. Returns when
    /// to ask again.
    pub(super) fn rest(&mut self, now: Ns) -> Option<Ns> {
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
