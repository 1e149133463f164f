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
        phase::account::Times,
        units::Ns, //
    },
};
use kernel::{
    prelude::*,
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
}

/// A call that tracks a cgroup.
pub(super) struct Opened {
    pub(super) cgroup: Arc<Known>,
    pub(super) serial: u64,
    /// Which change of it this is.
    change: u64,
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
        self.hook()?;
        let id = cgroup.id();
        let known = self.groups.get(&id).map(|group| group.terms);
        if known.is_none_or(|known| known.uid != terms.uid) {
            let mut of_user = self.groups.values().filter(|g| g.terms.uid == terms.uid);
            if terms.uid != Uid::ROOT && of_user.nth(MAX_PER_USER - 1).is_some() {
                return Err(Failure::OverQuota);
            }
        }
        if let Some(group) = self.groups.get_mut(&id) {
            let before = group.terms;
            if terms.privileged || !before.privileged {
                group.terms = terms;
                group.terms.ml |= before.ml;
            } else if terms.ml && !before.ml {
                // An owner does not change a manager's tracking, as it is for others, too.
                return Err(Failure::NotPermitted);
            }
            group.opened += 1;
            group.changes += 1;
            return Ok(Opened {
                cgroup: group.cgroup.clone(),
                serial: group.serial,
                change: group.changes,
                before: Some(before),
            });
        }
        if self.groups.values().nth(MAX - 1).is_some() {
            return Err(Failure::TableFull);
        }
        self.last_id += 1;
        let group = Group {
            cgroup: cgroup.clone(),
            serial: self.last_id,
            terms,
            past: Times::ZERO,
            opened: 1,
            changes: 0,
        };
        let serial = group.serial;
        self.groups
            .try_create_and_insert(id, group, account_nowait())?;
        self.changes.cgroups += 1;
        Ok(Opened {
            cgroup: cgroup.clone(),
            serial,
            change: 0,
            before: None,
        })
    }

    /// Undoes [`Self::open_group`], unless another call has tracked it since, or is about to.
    pub(super) fn undo_group(&mut self, opened: &Opened) {
        let id = opened.cgroup.id();
        let alone = |group: &&mut Group| {
            let same = (group.serial, group.changes) == (opened.serial, opened.change);
            same && group.opened == 1
        };
        let Some(group) = self.groups.get_mut(&id).filter(alone) else {
            return;
        };
        match opened.before {
            Some(before) => group.terms = before,
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
        // Where there is no record, nobody else asks whether the hooks are still needed.
        self.jobs.record_reaper.kick();
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
        self.changes.cgroups += u64::from(self.groups.remove(&id).is_some());
        self.jobs.record_reaper.kick();
    }

    /// Forgets the cgroups that were removed. Returns whether any cgroup is tracked.
    pub(super) fn drop_removed(&mut self) -> bool {
        self.retries = false;
        let mut from = Some(0);
        while let Some(at) = from {
            let Some(cursor) = self.groups.cursor_lower_bound(&at) else {
                break;
            };
            let (&id, group) = cursor.current();
            if group.cgroup.is_dead() {
                self.drop_group(id);
            }
            from = id.checked_add(1);
        }
        self.groups.iter().next().is_some()
    }

    /// The first process in the cgroup of this serial number, or one that follows, and where to go on.
    pub(super) fn inside_from(&self, from: (u64, usize)) -> Option<((u64, usize), Arc<Process>)> {
        let cursor = self.inside.cursor_lower_bound(&from)?;
        let &(serial, key) = cursor.current().0;
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
        if self.groups.iter().next().is_none() && self.inside.iter().next().is_none() {
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
            let times = self.times_at(key, Ns(now_ns()));
            let known = self.memberships(key);
            result = self.join(pid, &cgroup, &times);
            if strict && result.is_err() {
                while self.memberships(key) > known {
                    self.forget(key, known, &times);
                }
                self.tidy(key);
                return result.map(|()| None);
            }
            self.leave(pid, &cgroup, &times);
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
        if result.is_err() && left {
            // Nobody would look for them any more.
            let mut from = Some(0);
            while let Some(at) = from {
                from = self.end_some(&process, at);
            }
        }
        result?;
        Ok(Some(Change {
            process,
            came: after && !before,
            left,
        }))
    }

    /// True if a process is still in a tracked cgroup that it was in.
    fn is_inside(&self, pid: &Pid, cgroup: &Cgroup, membership: &Membership) -> bool {
        self.covers(membership.cgroup, pid) == Some(membership.serial)
            && cgroup.ids().any(|id| id == membership.cgroup)
    }

    /// True if a process is in other tracked cgroups than is known.
    fn has_moved(&self, pid: &Pid, cgroup: &Cgroup) -> bool {
        let entry = self.processes.get(&pid.key());
        let known: &[Membership] = entry.map_or(&[], |entry| &entry.groups);
        let is_new = |id| {
            let serial = self.covers(id, pid);
            serial.is_some_and(|serial| !known.contains(&Membership { cgroup: id, serial }))
        };
        known.iter().any(|m| !self.is_inside(pid, cgroup, m)) || cgroup.ids().any(is_new)
    }

    /// A process leaves the tracked cgroups that it is not in any more.
    fn leave(&mut self, pid: &Pid, cgroup: &Cgroup, times: &Times) {
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
            self.forget(key, at, times);
        }
    }

    /// A process leaves all tracked cgroups: nothing of it is tracked any more.
    pub(super) fn leave_all(&mut self, key: usize) {
        let times = self.times_at(key, Ns(now_ns()));
        while self.memberships(key) > 0 {
            self.forget(key, 0, &times);
        }
    }

    /// Of how many tracked cgroups a process is known to be.
    fn memberships(&self, key: usize) -> usize {
        let entry = self.processes.get(&key);
        entry.map_or(0, |entry| entry.groups.len())
    }

    /// A process with these times is no more in one of its cgroups, which keeps its times there.
    fn forget(&mut self, key: usize, at: usize, times: &Times) {
        let Some(entry) = self.processes.get_mut(&key) else {
            return;
        };
        let Ok(membership) = entry.groups.remove(at) else {
            return;
        };
        let base = self.inside.remove(&(membership.serial, key));
        let group = self.groups.get_mut(&membership.cgroup);
        let group = group.filter(|group| group.serial == membership.serial);
        if let (Some(base), Some(group)) = (base, group) {
            group.past.add(&times.since(&base));
        }
    }

    /// A process comes to the tracked cgroups that it is in now.
    fn join(&mut self, pid: &Pid, cgroup: &Cgroup, times: &Times) -> Result<(), Failure> {
        let key = pid.key();
        for id in cgroup.ids() {
            let Some(serial) = self.covers(id, pid) else {
                continue;
            };
            let membership = Membership { cgroup: id, serial };
            if self.processes.get(&key).is_none() {
                self.hook()?;
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
                .try_create_and_insert((serial, key), *times, account_nowait())?;
            // There is room.
            entry.groups.push(membership, account_nowait())?;
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
        let now = Ns(now_ns());
        let mut sums = Sums {
            processes: 0,
            threads: 0,
            times: group.past,
        };
        let mut from = Some(0);
        while let Some(at) = from {
            let Some(cursor) = self.inside.cursor_lower_bound(&(group.serial, at)) else {
                break;
            };
            let (&(serial, key), base) = cursor.current();
            if serial != group.serial {
                break;
            }
            if let Some(entry) = self.processes.get(&key) {
                sums.processes += u32::from(entry.process.grouped().whole);
                sums.threads += entry.threads;
                sums.times.add(&self.times_at(key, now).since(base));
            }
            from = key.checked_add(1);
        }
        Some(sums)
    }
}
