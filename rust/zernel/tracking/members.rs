// SPDX-License-Identifier: GPL-2.0
//! Threads in the table: they come, are called back, and go.

use super::{
    process::Process,
    table::{
        Member,
        Tracking,
        Wanted, //
    },
};
use crate::{
    error::Failure,
    glue::{
        scheduler_hooks::{
            Change,
            Record, //
        },
        thread::Thread,
        time::now_ns, //
    },
    policy::{
        nice::Ask,
        phase::Phase,
        units::Ns, //
    },
};
use kernel::{
    alloc::Flags,
    prelude::*,
    rbtree::RBTreeNodeReservation,
    sync::Arc, //
};

/// Memory for one more thread in the table.
pub(super) struct Room {
    thread: RBTreeNodeReservation<u64, Member>,
    member: RBTreeNodeReservation<(usize, usize), u64>,
}

impl Room {
    /// Memory that is there before the table is locked.
    pub(super) fn new(flags: Flags) -> Result<Self> {
        Ok(Self {
            thread: RBTreeNodeReservation::new(flags)?,
            member: RBTreeNodeReservation::new(flags)?,
        })
    }
}

/// The parts of a thread that is to come to the table: made without the table locked, and only once
/// they are known to be needed.
#[derive(Default)]
pub(super) struct Newcomer {
    room: Option<Room>,
    record: Option<Arc<Record>>,
    /// Not needed after all.
    spare: Option<RBTreeNodeReservation<(usize, usize), u64>>,
}

/// The part of a [`Newcomer`] without which a thread cannot be added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lack {
    /// Memory in the table.
    Room,
    /// A record.
    Record,
    /// Nothing helps.
    Failed(Failure),
}

impl Newcomer {
    /// Makes a part of it.
    pub(super) fn make(
        &mut self,
        lack: Lack,
        process: &Arc<Process>,
        thread: &Thread,
        flags: Flags,
    ) -> Result<(), Failure> {
        match lack {
            Lack::Room => self.room = Some(Room::new(flags)?),
            Lack::Record => {
                let record = Record::new(thread.clone(), process.clone(), flags);
                self.record = Some(record.map_err(Failure::of_record)?);
            }
            Lack::Failed(failure) => return Err(failure),
        }
        Ok(())
    }
}

impl Drop for Newcomer {
    fn drop(&mut self) {
        if let Some(record) = self.record.take() {
            Record::discard(record);
        }
    }
}

impl Tracking {
    /// Tracks a thread that is named itself. Returns whether it was not tracked.
    pub(super) fn add_single(
        &mut self,
        process: &Arc<Process>,
        thread: &Thread,
        new: &mut Newcomer,
    ) -> Result<bool, Lack> {
        let key = (process.pid().key(), thread.key());
        let added = self.add(process, thread, new)?;
        let id = self.members.get(&key).map_or(0, |&id| id);
        let member = self.threads.get_mut(&id);
        if let Some(member) = member.filter(|member| member.wanted == Wanted::WithOthers) {
            member.wanted = Wanted::Itself;
            if let Some(entry) = self.processes.get_mut(&key.0) {
                entry.singles += 1;
            }
        }
        Ok(added)
    }

    /// Tracks a thread, unless it is tracked already, or exits. Returns whether it does.
    pub(super) fn add(
        &mut self,
        process: &Arc<Process>,
        thread: &Thread,
        new: &mut Newcomer,
    ) -> Result<bool, Lack> {
        let key = (process.pid().key(), thread.key());
        let known = self.members.get(&key).copied();
        if known.is_some_and(|id| self.threads.get(&id).is_some_and(Member::is_wanted)) {
            return Ok(false);
        }
        if new.room.is_none() {
            return Err(Lack::Room);
        }
        if let Some(id) = known {
            if self.call_back(id, new) {
                return Ok(true);
            }
            // It is over, and the record reaper has not been told yet.
            self.take(id);
        }
        let record = new.record.clone().ok_or(Lack::Record)?;
        let id = self.insert(record, &mut new.room).map_err(Lack::Failed)?;
        let attached = new.record.take().map(Record::attach);
        if attached.is_none_or(|attached| attached.is_err()) {
            // It exits: it is not there any more.
            self.take(id);
            return Ok(false);
        }
        Ok(true)
    }

    /// A record has come to a thread that a tracked one has made. Returns whether it is wanted.
    /// `strict`: as [`Self::refresh`].
    pub(super) fn born(
        &mut self,
        record: &Arc<Record>,
        room: &mut Option<Room>,
        strict: bool,
    ) -> Result<bool, Failure> {
        let process = record.process().clone();
        if !process.setting().whole {
            return Ok(false);
        }
        let key = process.pid().key();
        match self.processes.get(&key).map(|entry| entry.process.clone()) {
            Some(known) if !Arc::ptr_eq(&known, &process) => {
                // It was named itself, or found, before its first thread came here.
                self.set(&known, known.named().and(process.named()), known.grouped());
                Process::ask_scan(&known);
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
        match self.insert(record.clone(), room) {
            Ok(_) => Ok(true),
            Err(failure) => {
                self.tidy(key);
                Err(failure)
            }
        }
    }

    fn insert(&mut self, record: Arc<Record>, room: &mut Option<Room>) -> Result<u64, Failure> {
        let key = (record.process().pid().key(), record.thread().key());
        let entry = self.processes.get_mut(&key.0).ok_or(ESRCH)?;
        let Room { thread, member } = room.take().ok_or(ENOMEM)?;
        // Nothing fails any more.
        entry.members += 1;
        entry.threads += 1;
        self.in_groups(key.0, |group| group.threads += 1);
        self.count += 1;
        self.changes.threads += 1;
        self.last_id += 1;
        let id = self.last_id;
        record.set_listed();
        self.members.insert(member.into_node(key, id));
        let new = Member {
            record,
            counts_in: None,
            phases: None,
            wanted: Wanted::WithOthers,
            nice: (Phase::Unknown, Ask::NONE),
        };
        self.threads.insert(thread.into_node(id, new));
        Ok(id)
    }

    /// Takes a record out of the table.
    fn take(&mut self, id: u64) {
        self.count_out(id);
        // It may be on its way to count no more.
        self.count_in(id, None, Ns(now_ns()));
        let Some(Member { record, .. }) = self.threads.remove(&id) else {
            return;
        };
        let key = (record.process().pid().key(), record.thread().key());
        self.members.remove(&key);
        if let Some(entry) = self.processes.get_mut(&key.0) {
            entry.members -= 1;
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
        self.in_groups(key, |group| group.threads -= 1);
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

    /// Tracks a thread again that has still to let its record go, which begins anew. Returns whether
    /// it was in time. It has a new id then.
    fn call_back(&mut self, id: u64, memory: &mut Newcomer) -> bool {
        let in_time = |member: &Member| member.record.call_back();
        if memory.room.is_none() || !self.threads.get(&id).is_some_and(in_time) {
            return false;
        }
        // Until it begins anew.
        self.count_in(id, None, Ns(now_ns()));
        let Some(mut member) = self.threads.remove(&id) else {
            return false;
        };
        let Some(room) = memory.room.take() else {
            return false;
        };
        memory.spare = Some(room.member);
        member.wanted = Wanted::WithOthers;
        member.phases = None;
        self.last_id += 1;
        let new = self.last_id;
        let key = (
            member.record.process().pid().key(),
            member.record.thread().key(),
        );
        self.threads.insert(room.thread.into_node(new, member));
        if let Some(id) = self.members.get_mut(&key) {
            *id = new;
        }
        self.count += 1;
        self.changes.threads += 1;
        if let Some(entry) = self.processes.get_mut(&key.0) {
            entry.threads += 1;
        }
        self.in_groups(key.0, |group| group.threads += 1);
        true
    }

    /// A thread has changed its record.
    pub(super) fn changed(&mut self, record: &Record, change: Change) {
        let Some(id) = self.id_of(record) else {
            return;
        };
        match change {
            Change::Begun(at) => self.count_in(id, Some(Phase::Unknown), at),
            Change::Ended(at) => self.count_in(id, None, at),
        }
    }

    /// The record of a thread of a process, by their keys.
    pub(super) fn record_of(&self, process: usize, thread: usize) -> Option<Arc<Record>> {
        let id = self.members.get(&(process, thread))?;
        Some(self.threads.get(id)?.record.clone())
    }

    /// The id of a record, while it is in the table.
    fn id_of(&self, record: &Record) -> Option<u64> {
        let key = (record.process().pid().key(), record.thread().key());
        let is = |member: &Member| core::ptr::eq(&*member.record, record);
        let &id = self.members.get(&key)?;
        self.threads.get(&id).is_some_and(is).then_some(id)
    }

    /// A record is over.
    pub(crate) fn remove(&mut self, record: &Record) {
        if let Some(id) = self.id_of(record) {
            self.take(id);
        }
    }

    /// The first thread of a process with a key of at least `from`, and the id of its record.
    pub(super) fn member_from(&self, process: usize, from: usize) -> Option<(usize, u64)> {
        let cursor = self.members.cursor_lower_bound(&(process, from))?;
        let (&(owner, thread), &id) = cursor.current();
        (owner == process).then_some((thread, id))
    }
}
