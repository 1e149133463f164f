// SPDX-License-Identifier: GPL-2.0
//! Threads in the table: they come, are called back, and go.

use super::{
    process::Process,
    table::{
        Member,
        Tracking,
        Wanted,
        MAX_PER_USER, //
    },
};
use crate::{
    error::Failure,
    glue::{
        identity::Uid,
        memory::account_nowait,
        scheduler_hooks::Record,
        thread::Thread,
        time::now_ns, //
    },
    policy::{
        nice::Ask,
        phase::{
            account::Times,
            Phase, //
        },
        units::Ns, //
    },
};
use kernel::{
    prelude::*,
    rbtree::RBTreeNodeReservation,
    sync::Arc, //
};

impl Tracking {
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
}
