// SPDX-License-Identifier: GPL-2.0
//! The table of records: by thread and process, each with the user that it counts for.

use super::{
    group::{
        Group,
        Membership, //
    },
    process::{
        Kicks,
        Opened,
        Process,
        Setting, //
    },
    program::Report, //
};
use crate::{
    error::Failure,
    glue::{
        identity::{
            Pid,
            Scope,
            Uid, //
        },
        memory::account_nowait,
        scheduler_hooks::{
            self,
            Hooks,
            Record, //
        },
        thread::Thread,
        time::now_ns,
        watch::Armed,
        work::Kick, //
    },
    nice::Table,
    policy::{
        nice::Ask,
        phase::{
            account::Times,
            task::Task,
            Phase, //
        },
        units::Ns, //
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

/// Most tracked threads of a user other than root.
pub(crate) const MAX_PER_USER: u32 = scheduler_hooks::MAX / 4;

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
    /// Those of them that were named themselves.
    pub(super) singles: u32,
    /// Times of threads that are tracked no more.
    pub(super) past: Times,
    /// The tracked cgroups that it is in.
    pub(super) groups: KVec<Membership>,
    /// The report of the last sample.
    pub(super) report: Report,
    /// Those that have still to let their records go included.
    pub(super) members: u32,
    /// Calls that are about to track more of it.
    pub(super) opened: u32,
    /// Times that a call has changed how it is named.
    pub(super) changes: u64,
    _watch: Armed,
}

/// The tracking of a thread.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Wanted {
    /// No more: it has still to let the record go.
    No,
    /// Because others are.
    WithOthers,
    /// It was named itself.
    Itself,
}

/// A thread with a record.
pub(super) struct Member {
    pub(super) record: Arc<Record>,
    /// When it was called back the last time: its time before counts already.
    pub(super) since: Ns,
    /// Its phases, once a sample was taken of it.
    pub(super) phases: Option<KBox<Task>>,
    pub(super) wanted: Wanted,
    /// The phase that asks for a nice value, and the value.
    pub(super) nice: (Phase, Ask),
    /// The user that it counts for.
    uid: Uid,
}

/// Entries of lists that have come and gone.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Changes {
    pub(crate) threads: u64,
    pub(crate) processes: u64,
    pub(crate) cgroups: u64,
}

/// The table.
///
/// # Invariants
///
/// Every entry of `threads` has one in `members`, under the keys of its process and thread, and
/// counts once among the members of its entry in `processes` and for its user in `users`. `ids` has
/// exactly the ids of `processes`. Its record is not over, or will be handed to the record reaper.
/// `count` counts those that are wanted, and so do `threads` of the entries; `singles` those of
/// them that are single. `inside` has an entry for each of the `groups` of a process, and no
/// others.
pub(crate) struct Tracking {
    pub(super) last_id: u64,
    pub(super) threads: RBTree<u64, Member>,
    pub(super) members: RBTree<(usize, usize), u64>,
    pub(super) processes: RBTree<usize, Entry>,
    pub(super) ids: RBTree<u64, usize>,
    /// Counted up when other processes have phases than before.
    pub(super) generation: u64,
    /// Tracked cgroups, by their ids.
    pub(super) groups: RBTree<u64, Group>,
    /// The processes in them, by the serial number of the cgroup and the key of the process; and
    /// the times that the process had before.
    pub(super) inside: RBTree<(u64, usize), Times>,
    pub(super) cgroup_sync: Kick,
    /// The cgroup sync is to look again when there may be memory or room.
    pub(super) retries: bool,
    count: u32,
    pub(super) changes: Changes,
    /// Nice values.
    pub(super) nice: Arc<Table>,
    users: RBTree<Uid, u32>,
    hooks: Option<Hooks>,
    /// Since when there are no records.
    idle: Option<Ns>,
    pub(super) jobs: Arc<Kicks>,
    reaper: Kick,
}

impl Tracking {
    /// An empty table, with ids behind those of any before it.
    pub(super) fn new(jobs: Arc<Kicks>, reaper: Kick, cgroup_sync: Kick, nice: Arc<Table>) -> Self {
        Self {
            // Ids are handed out more slowly than one in a microsecond.
            last_id: now_ns() / 1000,
            threads: RBTree::new(),
            members: RBTree::new(),
            processes: RBTree::new(),
            ids: RBTree::new(),
            generation: 1,
            groups: RBTree::new(),
            inside: RBTree::new(),
            cgroup_sync,
            retries: false,
            count: 0,
            changes: Changes::default(),
            nice,
            users: RBTree::new(),
            hooks: None,
            idle: None,
            jobs,
            reaper,
        }
    }

    /// The number of tracked threads.
    pub(crate) fn count(&self) -> u32 {
        self.count
    }

    pub(super) fn process_from(&self, from: usize) -> Option<(usize, Arc<Process>)> {
        let cursor = self.processes.cursor_lower_bound(&from)?;
        let (&key, entry) = cursor.current();
        Some((key, entry.process.clone()))
    }

    /// The scheduler's hooks are on, and stay so as long as there are records.
    pub(super) fn hook(&mut self) -> Result {
        self.idle = None;
        if self.hooks.is_none() {
            self.hooks = Some(Hooks::new(self.cgroup_sync.clone())?);
            // In either case it turns them off when they are not needed.
            self.jobs.record_reaper.kick();
        }
        Ok(())
    }

    /// The entry of a process, which is made if need be, and is named in `more` ways from now on.
    pub(super) fn open(&mut self, pid: &Pid, more: Setting) -> Result<Opened, Failure> {
        self.hook()?;
        let key = pid.key();
        if self.processes.get(&key).is_none() {
            let process = Process::new(pid.clone(), self.jobs.clone())?;
            self.enter(&process)?;
        }
        // The rest of an exited one goes with its last record, without another look.
        let alive = pid.is_alive(Scope::Process);
        let entry = self
            .processes
            .get_mut(&key)
            .filter(|_| alive)
            .ok_or(ESRCH)?;
        entry.opened += 1;
        entry.changes += 1;
        let (process, change) = (entry.process.clone(), entry.changes);
        let before = process.named();
        self.set(&process, before.and(more), process.grouped());
        Ok(Opened {
            process,
            before,
            change,
        })
    }

    /// Takes back how a call has named a process, unless another one has since, or is about to. Its
    /// threads are still to be let go.
    pub(super) fn undo(&mut self, opened: &Opened) {
        let process = &opened.process;
        let pid = process.pid();
        let alone = |entry: &Entry| entry.opened == 1 && entry.changes == opened.change;
        let is_alone = self.processes.get(&pid.key()).is_some_and(alone);
        if !is_alone || !pid.is_alive(Scope::Process) {
            return;
        }
        self.set(process, opened.before, process.grouped());
        if process.setting().whole {
            // A cgroup has come to want them all meanwhile, or not been through with them.
            process.ask_scan();
        }
    }

    /// Changes how a process is tracked, by name and by cgroups.
    pub(super) fn set(&mut self, process: &Process, named: Setting, grouped: Setting) {
        let before = process.setting();
        process.set(named, grouped);
        let after = process.setting();
        if before.ml != after.ml {
            self.generation += 1;
        }
        if after.ml {
            process.ring();
        } else if before.ml {
            self.rest_phases(process.pid().key());
        }
    }

    /// True if all threads of the process are to be tracked.
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
            // The rest of it goes with its last record.
            let ml = process.setting().ml;
            let none = Setting::SINGLE;
            self.set(&process, Setting { ml, ..none }, none);
        }
        self.tidy(key);
    }

    pub(super) fn enter(&mut self, process: &Arc<Process>) -> Result {
        let pid = process.pid();
        let watch = Armed::new(pid.clone(), Scope::Process, self.reaper.clone())?;
        let id = self.last_id + 1;
        let entry = Entry {
            process: process.clone(),
            id,
            past: Times::ZERO,
            report: Report::default(),
            threads: 0,
            singles: 0,
            groups: KVec::new(),
            members: 0,
            opened: 0,
            changes: 0,
            _watch: watch,
        };
        let key = pid.key();
        let node = RBTreeNodeReservation::new(account_nowait())?;
        self.processes
            .try_create_and_insert(key, entry, account_nowait())?;
        self.ids.insert(node.into_node(id, key));
        self.changes.processes += 1;
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
        self.jobs.record_reaper.kick();
        threads
    }

    /// Forgets a process of which nothing is tracked.
    pub(super) fn tidy(&mut self, key: usize) {
        let Some(entry) = self.processes.get(&key).filter(|entry| entry.opened == 0) else {
            return;
        };
        let process = entry.process.clone();
        let (named, grouped) = (process.named(), process.grouped());
        if entry.members > 0 || named.whole || grouped.whole {
            if entry.singles == 0 && !named.whole && grouped.whole && named != Setting::SINGLE {
                // The last thread that was named has gone.
                self.set(&process, Setting::SINGLE, grouped);
            }
            return;
        }
        self.leave_all(key);
        if let Some(entry) = self.processes.remove(&key) {
            self.ids.remove(&entry.id);
            self.changes.processes += 1;
            self.generation += u64::from(entry.process.setting().ml);
        }
    }

    /// Tracks a thread that is named itself.
    pub(super) fn add_single(
        &mut self,
        process: &Arc<Process>,
        thread: &Thread,
        added: &mut KVVec<u64>,
    ) -> Result<(), Failure> {
        let key = (process.pid().key(), thread.key());
        self.add(process, thread, added)?;
        let id = self.members.get(&key).map_or(0, |&id| id);
        let member = self.threads.get_mut(&id);
        if let Some(member) = member.filter(|member| member.wanted == Wanted::WithOthers) {
            member.wanted = Wanted::Itself;
            if let Some(entry) = self.processes.get_mut(&key.0) {
                entry.singles += 1;
            }
        }
        Ok(())
    }

    /// Tracks a thread, unless it is tracked already.
    pub(super) fn add(
        &mut self,
        process: &Arc<Process>,
        thread: &Thread,
        added: &mut KVVec<u64>,
    ) -> Result<(), Failure> {
        let key = (process.pid().key(), thread.key());
        self.hook()?;
        added.reserve(1, GFP_KERNEL)?;
        if let Some(&id) = self.members.get(&key) {
            if self.threads.get(&id).is_some_and(Member::is_wanted) {
                return Ok(());
            }
            if let Some(id) = self.call_back(id)? {
                return Ok(added.push(id, GFP_KERNEL)?);
            }
            // It is over, and the record reaper has not been told yet.
            self.take(id);
        }
        let record = Record::new(thread.clone(), process.clone(), account_nowait())?;
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
    /// `strict`: as [`Self::refresh`].
    pub(super) fn born(&mut self, record: &Arc<Record>, strict: bool) -> Result<bool, Failure> {
        let process = record.process().clone();
        if !process.setting().whole {
            return Ok(false);
        }
        let key = process.pid().key();
        match self.processes.get(&key).map(|entry| entry.process.clone()) {
            Some(known) if !Arc::ptr_eq(&known, &process) => {
                // It was named itself, or found, before its first thread came here.
                self.set(&known, known.named().and(process.named()), known.grouped());
                known.ask_scan();
                return Ok(false);
            }
            Some(_) => {}
            None => {
                if !self.begin(&process, strict)? {
                    return Ok(false);
                }
            }
        }
        if self.members.get(&(key, record.thread().key())).is_some() {
            return Ok(false);
        }
        match self.insert(record.clone()) {
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
        let thread = RBTreeNodeReservation::new(account_nowait())?;
        let member = RBTreeNodeReservation::new(account_nowait())?;
        self.users
            .try_create_and_insert(uid, held + 1, account_nowait())?;
        // Nothing fails any more.
        entry.members += 1;
        entry.threads += 1;
        self.count += 1;
        self.changes.threads += 1;
        self.last_id += 1;
        let id = self.last_id;
        record.set_id(id);
        self.members.insert(member.into_node(key, id));
        let new = Member {
            record,
            since: Ns::ZERO,
            phases: None,
            wanted: Wanted::WithOthers,
            nice: (Phase::Unknown, Ask::NONE),
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
        let wanted = |member: &&mut Member| member.is_wanted();
        let Some(member) = self.threads.get_mut(&id).filter(wanted) else {
            return false;
        };
        let single = member.is_single();
        member.wanted = Wanted::No;
        self.count -= 1;
        self.changes.threads += 1;
        let key = member.record.process().pid().key();
        if let Some(entry) = self.processes.get_mut(&key) {
            entry.threads -= 1;
            entry.singles -= u32::from(single);
        }
        self.renice(id);
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

    /// Tracks a thread again that has still to let its record go, which begins anew. Returns its
    /// new id, if it was in time.
    fn call_back(&mut self, id: u64) -> Result<Option<u64>> {
        let node = RBTreeNodeReservation::new(account_nowait())?;
        // Its earlier work, which nobody knows any more when it is called back.
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
        member.wanted = Wanted::WithOthers;
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
        self.changes.threads += 1;
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

    /// The first thread of a process with a key of at least `from`, and the id of its record.
    pub(super) fn member_from(&self, process: usize, from: usize) -> Option<(usize, u64)> {
        let cursor = self.members.cursor_lower_bound(&(process, from))?;
        let (&(owner, thread), &id) = cursor.current();
        (owner == process).then_some((thread, id))
    }

    /// Turns the hooks of the scheduler off if there have been no records for [`REST`]. Returns
    /// when to ask again.
    pub(crate) fn rest(&mut self, now: Ns) -> Option<Ns> {
        if self.hooks.is_none()
            || scheduler_hooks::live() > 0
            || self.groups.iter().next().is_some()
        {
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
