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
    pub(super) uid: Uid,
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
    pub(super) count: u32,
    pub(super) changes: Changes,
    /// Nice values.
    pub(super) nice: Arc<Table>,
    pub(super) users: RBTree<Uid, u32>,
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
