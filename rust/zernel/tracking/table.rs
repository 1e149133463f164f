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
    program::Report,
    switch::Switch, //
};
use crate::{
    error::Failure,
    glue::{
        identity::{
            Pid,
            Scope,
            Uid, //
        },
        scheduler_hooks::{
            self,
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
            running::Running,
            task::Task,
            Phase, //
        },
        units::Ns, //
    },
};
use kernel::{
    alloc::Flags,
    prelude::*,
    rbtree::{
        RBTree,
        RBTreeNode,
        RBTreeNodeReservation, //
    },
    sync::Arc, //
};

/// Threads looked at with the table locked once.
pub(crate) const BATCH: usize = 4;

/// A process with tracked threads, or that is tracked.
pub(super) struct Entry {
    pub(super) process: Arc<Process>,
    /// Its number: never used again, not even after a reload.
    pub(super) id: u64,
    /// Tracked threads.
    pub(super) threads: u32,
    /// Those of them that were named themselves.
    pub(super) singles: u32,
    /// For how long its threads, and those that were tracked, were in each phase.
    pub(super) sums: Running,
    /// It has no phases any more: from which thread on those of its threads have still to end.
    pub(super) rests: Option<usize>,
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
    /// The phase that its time counts in, while it does.
    pub(super) counts_in: Option<Phase>,
    /// Its phases, once a sample was taken of it.
    pub(super) phases: Option<KBox<Task>>,
    pub(super) wanted: Wanted,
    /// The phase that asks for a nice value, and the value.
    pub(super) nice: (Phase, Ask),
}

/// Entries of lists that have come and gone.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Changes {
    pub(crate) threads: u64,
    pub(crate) processes: u64,
    pub(crate) cgroups: u64,
}

/// The parts of a process that may come to the table: made without it locked, as somebody may hang as
/// much on a pid as they like, and a watch takes its lock.
pub(super) struct Arrival {
    watch: Armed,
    entry: RBTreeNodeReservation<usize, Entry>,
    id: RBTreeNodeReservation<u64, usize>,
}

impl Arrival {
    /// Watches a process.
    ///
    /// # Errors
    ///
    /// `ESRCH` it has exited, `ENOMEM`.
    pub(super) fn new(pid: Pid, reaper: Kick, flags: Flags) -> Result<Self> {
        Ok(Self {
            watch: Armed::with_flags(pid, Scope::Process, reaper, flags)?,
            entry: RBTreeNodeReservation::new(flags)?,
            id: RBTreeNodeReservation::new(flags)?,
        })
    }
}

/// Entries that have gone, to be dropped without the table locked.
#[derive(Default)]
pub(super) struct Gone([Option<RBTreeNode<usize, Entry>>; BATCH]);

/// The table.
///
/// # Invariants
///
/// Every entry of `threads` has one in `members`, under the keys of its process and thread, and
/// counts once among the members of its entry in `processes`. `ids` has exactly the ids of
/// `processes`. Its record is not over, or will be handed to the record reaper. `count` counts those
/// that are wanted, and so do `threads` of the entries and cgroups; `singles` those of them that are
/// single. `inside` has an entry for each of the `groups` of a process, and no others. The `sums`
/// of an entry, and of each tracked cgroup that it is in, count each member in its `counts_in`.
/// `trackers` counts the tracked cgroups by user.
pub(crate) struct Tracking {
    pub(super) last_id: u64,
    pub(super) threads: RBTree<u64, Member>,
    pub(super) members: RBTree<(usize, usize), u64>,
    pub(super) processes: RBTree<usize, Entry>,
    pub(super) ids: RBTree<u64, usize>,
    /// Tracked cgroups, by their ids.
    pub(super) groups: RBTree<u64, Group>,
    /// Their number, and the number that each user tracks.
    pub(super) group_count: usize,
    pub(super) trackers: RBTree<Uid, usize>,
    /// The processes in them, by the serial number of the cgroup and the key of the process.
    pub(super) inside: RBTree<(u64, usize), ()>,
    pub(super) cgroup_sync: Kick,
    /// The cgroup sync is to look again when there may be memory or room.
    pub(super) retries: bool,
    pub(super) count: u32,
    pub(super) changes: Changes,
    /// Nice values.
    pub(super) nice: Arc<Table>,
    pub(super) jobs: Arc<Kicks>,
    reaper: Kick,
    pub(super) switch: Arc<Switch>,
    /// For a process that comes while the table is locked this time.
    pub(super) arrival: Option<Arrival>,
    gone: Gone,
}

impl Tracking {
    /// An empty table, with ids behind those of any before it.
    pub(super) fn new(
        jobs: Arc<Kicks>,
        reaper: Kick,
        cgroup_sync: Kick,
        nice: Arc<Table>,
        switch: Arc<Switch>,
    ) -> Self {
        Self {
            // Ids are handed out more slowly than one in a microsecond.
            last_id: now_ns() / 1000,
            threads: RBTree::new(),
            members: RBTree::new(),
            processes: RBTree::new(),
            ids: RBTree::new(),
            groups: RBTree::new(),
            group_count: 0,
            trackers: RBTree::new(),
            inside: RBTree::new(),
            cgroup_sync,
            retries: false,
            count: 0,
            changes: Changes::default(),
            nice,
            jobs,
            reaper,
            switch,
            arrival: None,
            gone: Gone::default(),
        }
    }

    /// The entries that have gone since this was called last.
    pub(super) fn take_gone(&mut self) -> Gone {
        core::mem::take(&mut self.gone)
    }

    /// The receiver of the exit of a process that has no entry.
    pub(super) fn awaits(&self, pid: &Pid) -> Option<Kick> {
        let is_known = self.processes.get(&pid.key()).is_some();
        (!is_known).then(|| self.reaper.clone())
    }

    /// The number of tracked threads.
    pub(crate) fn count(&self) -> u32 {
        self.count
    }

    /// Does this with each tracked cgroup that a process is in.
    pub(super) fn in_groups(&mut self, process: usize, mut f: impl FnMut(&mut Group)) {
        let Some(entry) = self.processes.get(&process) else {
            return;
        };
        for membership in entry.groups.iter() {
            let group = self.groups.get_mut(&membership.cgroup);
            if let Some(group) = group.filter(|group| group.serial == membership.serial) {
                f(group);
            }
        }
    }

    /// The time of a thread of a process counts in another phase from `at` on.
    pub(super) fn count_in(&mut self, id: u64, to: Option<Phase>, at: Ns) {
        let Some(member) = self.threads.get_mut(&id) else {
            return;
        };
        let from = core::mem::replace(&mut member.counts_in, to);
        if from == to {
            return;
        }
        let key = member.record.process().pid().key();
        if let Some(entry) = self.processes.get_mut(&key) {
            entry.sums.change(from, to, at);
        }
        self.in_groups(key, |group| group.sums.change(from, to, at));
    }

    /// The entry of a process, which is made if need be, and is named in `more` ways from now on.
    pub(super) fn open(&mut self, pid: &Pid, more: Setting) -> Result<Opened, Failure> {
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
            Process::ask_scan(process);
        }
    }

    /// Changes how a process is tracked, by name and by cgroups. If it has no phases any more, those
    /// of its threads are still to end: see [`Self::rest_some`].
    pub(super) fn set(&mut self, process: &Arc<Process>, named: Setting, grouped: Setting) {
        let before = process.setting();
        let was = process.grouped().whole;
        process.set(named, grouped);
        let after = process.setting();
        let key = process.pid().key();
        if was != grouped.whole {
            self.in_groups(key, |group| match was {
                true => group.processes -= 1,
                false => group.processes += 1,
            });
        }
        if before.ml != after.ml {
            Process::change(process);
            if let Some(entry) = self.processes.get_mut(&key) {
                entry.rests = before.ml.then_some(0);
            }
        }
        if after.ml {
            Process::ring(process);
        } else if before.ml {
            Process::ask_scan(process);
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
        // Its exit from now on is seen by the watch, and finds the entry.
        if !pid.is_alive(Scope::Process) {
            return Err(ESRCH);
        }
        // Another one is dropped without the table locked.
        let is_its = |arrival: &mut Arrival| arrival.watch.pid().key() == pid.key();
        let Arrival { watch, entry, id } = self.arrival.take_if(is_its).ok_or(ENOMEM)?;
        self.last_id += 1;
        let new = Entry {
            process: process.clone(),
            id: self.last_id,
            sums: Running::NONE,
            rests: None,
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
        self.ids.insert(id.into_node(self.last_id, key));
        self.processes.insert(entry.into_node(key, new));
        self.changes.processes += 1;
        if process.setting().ml {
            Process::change(process);
        }
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
        let Some(entry) = self.processes.get(&key) else {
            return;
        };
        let (id, is_ml) = (entry.id, process.setting().ml);
        self.ids.remove(&id);
        self.changes.processes += 1;
        if is_ml {
            Process::change(&process);
        }
        let gone = self.processes.remove_node(&key);
        if let Some(place) = self.gone.0.iter_mut().find(|place| place.is_none()) {
            *place = gone;
        }
    }

    /// True if nothing is tracked, and nothing has to be let go.
    pub(super) fn is_idle(&self) -> bool {
        let none = self.group_count == 0 && self.processes.iter().next().is_none();
        none && scheduler_hooks::live() == 0
    }
}
