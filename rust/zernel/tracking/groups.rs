// SPDX-License-Identifier: GPL-2.0
//! Tracked cgroups: their processes, and the times of their threads by phase.

use super::{
    group::{
        Group,
        Membership,
        Terms, //
    },
    process::{
        Process,
        Setting, //
    },
    table::{
        Entry,
        Tracking, //
    },
};
use crate::{
    error::Failure,
    glue::{
        cgroup::{
            Cgroup,
            Known, //
        },
        identity::{
            Pid,
            Scope,
            Uid, //
        },
        memory::account_nowait,
        time::now_ns, //
    },
    policy::{
        phase::{
            account::Times,
            running::Running, //
        },
        units::Ns, //
    },
};
use kernel::{
    prelude::*,
    rbtree::RBTreeNodeReservation,
    sync::Arc, //
};

/// Most tracked cgroups.
const MAX: usize = 4096;

/// Most tracked cgroups of a user other than root.
const MAX_PER_USER: usize = 64;

/// For how long the cgroup sync waits for memory or room.
const RETRY: Ns = Ns(1_000_000_000);

/// The changes that a look at the cgroups of a process has found.
pub(super) struct Change {
    pub(super) process: Arc<Process>,
    /// It has come to a tracked cgroup: all of its threads are to be tracked.
    pub(super) came: bool,
    /// It has left the last one, and was not named.
    pub(super) left: bool,
    /// There was no memory for another change.
    pub(super) lacks: bool,
}

/// A call that tracks a cgroup.
pub(super) struct Opened {
    pub(super) cgroup: Arc<Known>,
    pub(super) serial: u64,
    /// Which change of it this is.
    change: u64,
    /// The terms on which it was tracked before, if that was so: it still counts for their user, too.
    before: Option<Terms>,
}

/// The report of a tracked cgroup.
pub(crate) struct Sums {
    /// Processes that are in it.
    pub(crate) processes: u32,
    /// Tracked threads of theirs.
    pub(crate) threads: u32,
    /// For how long their threads, and those that were in it, were in each phase.
    pub(crate) times: Times,
}

impl Tracking {
    /// A cgroup is tracked from now on.
    ///
    /// # Errors
    ///
    /// See `struct zernel_track`; nothing has changed then.
    pub(super) fn open_group(
        &mut self,
        cgroup: &Arc<Known>,
        terms: Terms,
    ) -> Result<Opened, Failure> {
        let id = cgroup.id();
        let known = self.groups.get(&id).map(|group| group.terms);
        if known.is_none_or(|known| known.uid != terms.uid) {
            let of_user = self.trackers.get(&terms.uid).map_or(0, |&count| count);
            if terms.uid != Uid::ROOT && of_user >= MAX_PER_USER {
                return Err(Failure::OverQuota);
            }
        }
        let room = RBTreeNodeReservation::new(account_nowait())?;
        if let Some(group) = self.groups.get_mut(&id) {
            let before = group.terms;
            let mut after = before;
            if terms.privileged || !before.privileged {
                after = terms;
                after.ml |= before.ml;
            } else if terms.ml && !before.ml {
                // An owner does not change a manager's tracking, as it is for others, too.
                return Err(Failure::NotPermitted);
            }
            group.terms = after;
            group.opened += 1;
            group.changes += 1;
            let opened = Opened {
                cgroup: group.cgroup.clone(),
                serial: group.serial,
                change: group.changes,
                before: Some(before),
            };
            self.count_tracker(after.uid, room);
            return Ok(opened);
        }
        if self.group_count >= MAX {
            return Err(Failure::TableFull);
        }
        self.last_id += 1;
        let group = Group {
            cgroup: cgroup.clone(),
            serial: self.last_id,
            terms,
            processes: 0,
            threads: 0,
            sums: Running::NONE,
            opened: 1,
            changes: 0,
        };
        let serial = group.serial;
        self.groups
            .try_create_and_insert(id, group, account_nowait())?;
        self.group_count += 1;
        self.count_tracker(terms.uid, room);
        self.changes.cgroups += 1;
        Ok(Opened {
            cgroup: cgroup.clone(),
            serial,
            change: 0,
            before: None,
        })
    }

    /// A user tracks one more cgroup.
    fn count_tracker(&mut self, uid: Uid, room: RBTreeNodeReservation<Uid, usize>) {
        match self.trackers.get_mut(&uid) {
            Some(count) => *count += 1,
            None => drop(self.trackers.insert(room.into_node(uid, 1))),
        }
    }

    /// Balances [`Self::count_tracker`].
    fn discount_tracker(&mut self, uid: Uid) {
        match self.trackers.get_mut(&uid) {
            Some(count) if *count > 1 => *count -= 1,
            _ => drop(self.trackers.remove(&uid)),
        }
    }

    /// Undoes [`Self::open_group`], unless another call has tracked it since, or is about to.
    pub(super) fn undo_group(&mut self, opened: &mut Opened) {
        let id = opened.cgroup.id();
        let alone = |group: &&mut Group| {
            let same = (group.serial, group.changes) == (opened.serial, opened.change);
            same && group.opened == 1
        };
        let Some(group) = self.groups.get_mut(&id).filter(alone) else {
            return;
        };
        match opened.before.take() {
            Some(before) => {
                let after = core::mem::replace(&mut group.terms, before);
                self.discount_tracker(after.uid);
            }
            None => self.drop_group(id),
        }
    }

    /// Balances [`Self::open_group`]. Returns how many threads are tracked because of it.
    pub(super) fn close_group(&mut self, opened: &Opened) -> u32 {
        let id = opened.cgroup.id();
        if let Some(group) = self.groups.get_mut(&id) {
            if group.serial == opened.serial {
                group.opened = group.opened.saturating_sub(1);
            }
        }
        if let Some(before) = opened.before {
            self.discount_tracker(before.uid);
        }
        self.sums_of(id).map_or(0, |sums| sums.threads)
    }

    /// A cgroup is tracked no more. Returns its serial number: the processes in it need a look.
    pub(super) fn untrack_group(
        &mut self,
        cgroup: &Cgroup,
        privileged: bool,
    ) -> Result<u64, Failure> {
        let id = cgroup.id();
        let group = self.groups.get(&id).ok_or(Failure::NotAssigned)?;
        if group.terms.privileged && !privileged {
            return Err(Failure::NotPermitted);
        }
        let serial = group.serial;
        self.drop_group(id);
        Ok(serial)
    }

    fn drop_group(&mut self, id: u64) {
        if let Some(group) = self.groups.remove(&id) {
            self.group_count -= 1;
            self.discount_tracker(group.terms.uid);
            self.changes.cgroups += 1;
            self.jobs.record_reaper.kick();
        }
    }

    /// Forgets the first cgroup with an id of at least `from` if it was removed. Returns where to go
    /// on.
    pub(super) fn drop_removed_from(&mut self, from: u64) -> Option<u64> {
        let cursor = self.groups.cursor_lower_bound(&from)?;
        let (&id, group) = cursor.current();
        if group.cgroup.is_dead() {
            self.drop_group(id);
        }
        id.checked_add(1)
    }

    /// The cgroup sync looks at all of them now. Returns whether any cgroup is tracked.
    pub(super) fn begin_follow(&mut self) -> bool {
        self.retries = false;
        self.group_count > 0
    }

    /// The first process in the cgroup of this serial number, or one that follows, and where to go on.
    pub(super) fn inside_from(&self, from: (u64, usize)) -> Option<((u64, usize), Arc<Process>)> {
        let &(serial, key) = self.inside.cursor_lower_bound(&from)?.current().0;
        let process = self.processes.get(&key)?.process.clone();
        Some(((serial, key.checked_add(1)?), process))
    }

    /// Has the cgroup sync look again when there may be memory or room.
    pub(super) fn retry(&mut self) {
        if !self.retries {
            self.retries = true;
            let delay = Ns(u64::from(self.cgroup_sync.delay().0).saturating_mul(1_000_000));
            let at = Ns(now_ns()).saturating_add(delay.max(RETRY));
            self.cgroup_sync.kick_at(at);
        }
    }

    /// The serial number under which a process in a cgroup is tracked with that, if it is.
    fn covers(&self, cgroup: u64, process: &Pid) -> Option<u64> {
        let group = self.groups.get(&cgroup)?;
        let is = group.terms.privileged || process.is_users(group.terms.uid);
        is.then_some(group.serial)
    }

    /// A process comes here with the record of its first thread. Returns whether it is tracked: it
    /// may have been born in another cgroup than its maker, or have been moved since. `strict`: as
    /// [`Self::refresh`].
    ///
    /// # Errors
    ///
    /// `ESRCH` it has exited, `ENOMEM`; nothing has changed then.
    pub(super) fn begin(&mut self, process: &Arc<Process>, strict: bool) -> Result<bool, Failure> {
        let key = process.pid().key();
        let (named, grouped) = (process.named(), process.grouped());
        process.set(named, Setting::SINGLE);
        let entered = self.enter(process).map_err(Failure::from);
        let settled = entered.and_then(|()| self.refresh(process.pid(), strict));
        let is_there = self.processes.get(&key).is_some();
        if is_there && process.setting().whole && (settled.is_ok() || !strict) {
            if settled.is_err() {
                self.retry();
            }
            return Ok(true);
        }
        self.set(process, Setting::SINGLE, Setting::SINGLE);
        self.tidy(key);
        if settled.is_err() {
            // As it came.
            process.set(named, grouped);
        }
        settled.map(|_| false)
    }

    /// Looks in which tracked cgroups a process is. `None`: it has exited, or is in none, nor was.
    ///
    /// # Errors
    ///
    /// `ENOMEM`. If that is to be `strict` nothing has changed then; else everything has for which
    /// there was memory.
    pub(super) fn refresh(&mut self, pid: &Pid, strict: bool) -> Result<Option<Change>, Failure> {
        let key = pid.key();
        if self.group_count == 0 && self.inside.iter().next().is_none() {
            return Ok(None);
        }
        // The rest of one that has exited goes with its last record.
        let alive = pid.is_alive(Scope::Process);
        let Some(cgroup) = Cgroup::of(pid).filter(|_| alive) else {
            return Ok(None);
        };
        let whole = |t: &Self| {
            let entry = t.processes.get(&key);
            entry.is_some_and(|entry| entry.process.setting().whole)
        };
        let before = whole(self);
        let mut result = Ok(());
        if self.has_moved(pid, &cgroup) {
            // Once for all: its time in one ends where that in the next begins.
            let now = Ns(now_ns());
            let known = self.memberships(key);
            result = self.join(pid, &cgroup, now);
            if strict && result.is_err() {
                while self.memberships(key) > known {
                    self.forget(key, known, now);
                }
                self.tidy(key);
                return result.map(|()| None);
            }
            self.leave(pid, &cgroup, now);
        }
        let Some(entry) = self.processes.get(&key) else {
            return result.map(|()| None);
        };
        let process = entry.process.clone();
        let has_others = entry.threads > entry.singles;
        let mut grouped = Setting::SINGLE;
        for membership in entry.groups.iter() {
            let group = self.groups.get(&membership.cgroup);
            if let Some(terms) = group.map(|group| group.terms) {
                grouped = grouped.and(Setting {
                    whole: true,
                    children: false,
                    privileged: terms.privileged,
                    ml: terms.ml,
                });
            }
        }
        if process.grouped() != grouped {
            self.set(&process, process.named(), grouped);
        }
        let after = whole(self);
        if !after {
            self.tidy(key);
        }
        if result.is_err() && after && !before {
            // The next look finds no process that comes.
            process.set_lacks(true);
        }
        let left = !after && has_others;
        if result.is_err() && !left {
            return result.map(|()| None);
        }
        // Nobody would look again for the threads of one that has left.
        Ok(Some(Change {
            process,
            came: after && !before,
            left,
            lacks: result.is_err(),
        }))
    }

    /// True if a process is still in a tracked cgroup that it was in.
    fn is_inside(&self, pid: &Pid, cgroup: &Cgroup, membership: &Membership) -> bool {
        let group = self.groups.get(&membership.cgroup);
        self.covers(membership.cgroup, pid) == Some(membership.serial)
            && group.is_some_and(|group| cgroup.is_below(&group.cgroup))
    }

    /// True if a process is in other tracked cgroups than is known.
    fn has_moved(&self, pid: &Pid, cgroup: &Cgroup) -> bool {
        let entry = self.processes.get(&pid.key());
        let known: &[Membership] = entry.map_or(&[], |entry| &entry.groups);
        let is_new = |id| {
            let serial = self.covers(id, pid);
            serial.is_some_and(|serial| !known.contains(&Membership { cgroup: id, serial }))
        };
        known.iter().any(|m| !self.is_inside(pid, cgroup, m)) || cgroup.known_ids().any(is_new)
    }

    /// A process leaves the tracked cgroups that it is not in any more.
    fn leave(&mut self, pid: &Pid, cgroup: &Cgroup, now: Ns) {
        let key = pid.key();
        let mut at = 0;
        loop {
            let entry = self.processes.get(&key);
            let Some(&membership) = entry.and_then(|entry| entry.groups.get(at)) else {
                return;
            };
            if self.is_inside(pid, cgroup, &membership) {
                at += 1;
                continue;
            }
            self.forget(key, at, now);
        }
    }

    /// A process leaves all tracked cgroups: nothing of it is tracked any more.
    pub(super) fn leave_all(&mut self, key: usize) {
        let now = Ns(now_ns());
        while self.memberships(key) > 0 {
            self.forget(key, 0, now);
        }
    }

    /// Of how many tracked cgroups a process is known to be.
    fn memberships(&self, key: usize) -> usize {
        let entry = self.processes.get(&key);
        entry.map_or(0, |entry| entry.groups.len())
    }

    /// A process is no more in one of its cgroups, which keeps its times there.
    fn forget(&mut self, key: usize, at: usize, now: Ns) {
        let Some(entry) = self.processes.get_mut(&key) else {
            return;
        };
        let Ok(membership) = entry.groups.remove(at) else {
            return;
        };
        self.inside.remove(&(membership.serial, key));
        let group = self.groups.get_mut(&membership.cgroup);
        if let Some(group) = group.filter(|group| group.serial == membership.serial) {
            group.processes -= u32::from(entry.process.grouped().whole);
            group.threads -= entry.threads;
            group.sums.leave(&entry.sums, now);
        }
    }

    /// A process comes to the tracked cgroups that it is in now.
    fn join(&mut self, pid: &Pid, cgroup: &Cgroup, now: Ns) -> Result<(), Failure> {
        let key = pid.key();
        for id in cgroup.known_ids() {
            let Some(serial) = self.covers(id, pid) else {
                continue;
            };
            let membership = Membership { cgroup: id, serial };
            if self.processes.get(&key).is_none() {
                let process = Process::new(pid.clone(), self.jobs.clone())?;
                match self.enter(&process) {
                    // It has exited meanwhile.
                    Err(ESRCH) => return Ok(()),
                    entered => entered?,
                }
            }
            let is_in = |entry: &Entry| entry.groups.contains(&membership);
            if self.processes.get(&key).is_some_and(is_in) {
                continue;
            }
            let Some(entry) = self.processes.get_mut(&key) else {
                return Ok(());
            };
            entry.groups.reserve(1, account_nowait())?;
            self.inside
                .try_create_and_insert((serial, key), (), account_nowait())?;
            // There is room.
            entry.groups.push(membership, account_nowait())?;
            if let Some(group) = self.groups.get_mut(&id) {
                group.processes += u32::from(entry.process.grouped().whole);
                group.threads += entry.threads;
                group.sums.join(&entry.sums, now);
            }
        }
        Ok(())
    }

    /// The first tracked cgroup with an id of at least `from`, and how it is tracked.
    pub(crate) fn group_from(&self, from: u64) -> Option<(u64, Terms)> {
        let cursor = self.groups.cursor_lower_bound(&from)?;
        let (&id, group) = cursor.current();
        Some((id, group.terms))
    }

    /// The report of a cgroup, if it is still tracked.
    pub(crate) fn sums_of(&self, id: u64) -> Option<Sums> {
        let group = self.groups.get(&id)?;
        Some(Sums {
            processes: group.processes,
            threads: group.threads,
            times: group.sums.at(Ns(now_ns())),
        })
    }
}
