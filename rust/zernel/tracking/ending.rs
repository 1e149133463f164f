// SPDX-License-Identifier: GPL-2.0
//! Ends of tracking: processes that are named no more, or have left their cgroups, let their
//! threads go.

use super::{
    process::{
        Process,
        Setting, //
    },
    programs::tell,
    table::{
        Member,
        Tracking,
        Wanted,
        BATCH, //
    }, //
};
use crate::{
    error::Failure,
    glue::{
        identity::Pid,
        thread::Thread,
        time::now_ns, //
    },
    policy::units::Ns,
};
use kernel::{
    prelude::*,
    sync::Arc, //
};

impl Tracking {
    /// A thread is named no more. Returns its process, and how many of its threads are tracked.
    pub(super) fn untrack_thread(
        &mut self,
        pid: &Pid,
        thread: &Thread,
        privileged: bool,
    ) -> Result<(Arc<Process>, u32), Failure> {
        let key = pid.key();
        let entry = self.processes.get(&key).ok_or(Failure::NotAssigned)?;
        let (process, named) = (entry.process.clone(), entry.process.named());
        let id = self.members.get(&(key, thread.key()));
        let is = |id: &u64| self.threads.get(id).is_some_and(Member::is_wanted);
        let &id = id.filter(|id| is(id)).ok_or(Failure::NotAssigned)?;
        let single = self.threads.get(&id).is_some_and(Member::is_single);
        if (named.whole || single) && named.privileged && !privileged {
            return Err(Failure::NotPermitted);
        }
        if named.whole || !single {
            return Err(Failure::Kernel(EBUSY));
        }
        self.unname(id);
        if !process.setting().whole {
            self.end(id);
        }
        let (mut threads, mut singles) = (0, 0);
        if let Some(entry) = self.processes.get_mut(&key) {
            entry.changes += 1;
            (threads, singles) = (entry.threads, entry.singles);
        }
        if singles == 0 {
            self.set(&process, Setting::SINGLE, process.grouped());
        }
        Ok((process, threads))
    }

    /// All of the process is named no more. It is open then.
    pub(super) fn untrack_process(
        &mut self,
        pid: &Pid,
        privileged: bool,
    ) -> Result<Arc<Process>, Failure> {
        let entry = self.processes.get_mut(&pid.key());
        let entry = entry.ok_or(Failure::NotAssigned)?;
        let (named, grouped) = (entry.process.named(), entry.process.grouped());
        if entry.singles == 0 && !named.whole {
            return Err(match grouped.whole {
                true => Failure::Kernel(EBUSY),
                false => Failure::NotAssigned,
            });
        }
        if named.privileged && !privileged {
            return Err(Failure::NotPermitted);
        }
        entry.opened += 1;
        entry.changes += 1;
        let process = entry.process.clone();
        self.set(&process, Setting::SINGLE, grouped);
        Ok(process)
    }

    /// Names some of the threads of a process no more, unless all of it is named again, and tracks
    /// those no more that no cgroup tracks. Returns where to go on.
    pub(super) fn unname_some(&mut self, process: &Arc<Process>, from: usize) -> Option<usize> {
        if self.is_whole(process) && process.named().whole {
            return None;
        }
        self.some(process, from, |t, id| {
            t.unname(id);
            if !process.setting().whole {
                t.end(id);
            }
        })
    }

    /// Tracks some of the threads of a process no more that were not named, unless all of it is
    /// tracked again. Returns where to go on.
    pub(super) fn end_some(&mut self, process: &Arc<Process>, from: usize) -> Option<usize> {
        if self.is_whole(process) {
            return None;
        }
        self.some(process, from, |t, id| {
            if !t.threads.get(&id).is_some_and(Member::is_single) {
                t.end(id);
            }
        })
    }

    fn some(
        &mut self,
        process: &Process,
        from: usize,
        mut f: impl FnMut(&mut Self, u64),
    ) -> Option<usize> {
        let mut from = from;
        for _ in 0..BATCH {
            let (thread, id) = self.member_from(process.pid().key(), from)?;
            f(self, id);
            from = thread.checked_add(1)?;
        }
        Some(from)
    }

    /// A thread is named itself no more.
    fn unname(&mut self, id: u64) {
        let Some(member) = self
            .threads
            .get_mut(&id)
            .filter(|member| member.is_single())
        else {
            return;
        };
        member.wanted = Wanted::WithOthers;
        let key = member.record.process().pid().key();
        if let Some(entry) = self.processes.get_mut(&key) {
            entry.singles -= 1;
        }
    }

    /// Ends the phases of some of the threads of a process, if it has none any more. They are unknown
    /// from now on. Returns whether there are more.
    pub(super) fn rest_some(&mut self, process: &Arc<Process>) -> bool {
        let key = process.pid().key();
        let entry = self.processes.get_mut(&key);
        let entry = entry.filter(|entry| Arc::ptr_eq(&entry.process, process));
        let Some(from) = entry.and_then(|entry| entry.rests.take()) else {
            return false;
        };
        let next = self.some(process, from, |t, id| {
            let now = Ns(now_ns());
            if let Some(member) = t.threads.get_mut(&id) {
                let task = member.phases.as_deref_mut();
                if let Some(transition) = task.and_then(|task| task.rest(now)) {
                    tell(member.record.thread(), &transition, false);
                }
            }
            t.count_anew(id, now);
            t.renice(id);
        });
        if let Some(entry) = self.processes.get_mut(&key) {
            entry.rests = next;
        }
        next.is_some()
    }
}
