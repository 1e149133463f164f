// SPDX-License-Identifier: GPL-2.0
//! Processes that have phases, and the samples that are taken of their threads.

use super::{
    process::Process,
    table::{
        Entry,
        Member,
        Tracking, //
    },
};
use crate::{
    error::Failure,
    glue::{
        identity::Pid,
        recorder::Record,
        thread::Thread,
        time::now_ns,
        work::Worker, //
    },
    phases::{
        program::{
            Program,
            Report, //
        },
        sampler::Sampler, //
    },
    policy::{
        phase::{
            account::Times,
            activity::Activity,
            task::Task,
            window::Gpu,
            Phase, //
        },
        units::Ns,
    },
};
use kernel::{
    prelude::*,
    sync::Arc, //
};

/// A thread with phases.
pub(crate) struct Seen<'a> {
    /// Its record.
    pub(crate) record: &'a Record,
    /// Its phases, once a sample was taken.
    pub(crate) task: Option<&'a Task>,
}

impl Seen<'_> {
    /// How long it was in each phase, up to `now`.
    pub(crate) fn times(&self, now: Ns) -> Times {
        let activity = self.record.read();
        activity.map_or(Times::ZERO, |activity| self.times_of(&activity, now))
    }

    fn times_of(&self, activity: &Activity, now: Ns) -> Times {
        match self.task {
            Some(task) => task.times(activity.ended().unwrap_or(now)),
            None => Times::unknown(activity.totals(now).time()),
        }
    }
}

impl Member {
    /// The thread, be its process one with phases or not.
    fn seen(&self) -> Seen<'_> {
        Seen {
            record: &self.record,
            task: self.phases.as_deref(),
        }
    }

    /// How long the thread was in each phase, up to `now`, as far as that does not count already.
    pub(super) fn times(&self, now: Ns) -> Times {
        let counts = |activity: &Activity| activity.began() >= self.since;
        let activity = self.record.read().filter(counts);
        activity.map_or(Times::ZERO, |activity| self.seen().times_of(&activity, now))
    }
}

/// A process that a list shows.
pub(crate) struct Listed {
    /// Its number.
    pub(crate) id: u64,
    /// Who it is, and how it is tracked.
    pub(crate) process: Arc<Process>,
    /// Tracked threads.
    pub(crate) threads: u32,
    /// What the GPU did for it, at the last sample.
    pub(crate) gpu: Gpu,
    /// What came of its signals.
    pub(crate) prefetch: Report,
}

impl Tracking {
    /// Counted up when other processes have phases than before.
    pub(crate) fn generation(&self) -> u64 {
        self.generation
    }

    /// Who takes samples of those.
    pub(crate) fn sampler(&self) -> Arc<Worker<Sampler>> {
        self.keeper.sampler().clone()
    }

    /// Gives each process that has phases a place, in the order of their keys. Returns how many there
    /// are; if that is more than there is room for in `programs`, nothing has changed.
    pub(crate) fn place_programs(&mut self, programs: &mut KVVec<Program>) -> usize {
        let has_phases = |entry: &&Entry| entry.process.setting().ml;
        let count = self.processes.values().filter(has_phases).count();
        if count > programs.capacity() {
            return count;
        }
        programs.clear();
        for (&key, entry) in self.processes.iter_mut() {
            entry.program = None;
            if entry.process.setting().ml {
                let place = programs.len();
                // Never fails: there is room.
                if programs
                    .push(Program::new(key, entry.id), GFP_NOWAIT)
                    .is_ok()
                {
                    entry.program = Some(place);
                }
            }
        }
        count
    }

    /// What is seen of a program.
    pub(crate) fn report(&mut self, program: &Program) {
        if let Some(entry) = self.processes.get_mut(&program.key) {
            entry.gpu = program.gpu;
            if let Some(report) = program.report() {
                entry.prefetch = report;
            }
        }
    }

    /// The process with this key.
    pub(crate) fn process(&self, key: usize) -> Option<Arc<Process>> {
        Some(self.processes.get(&key)?.process.clone())
    }

    /// The process of a thread, if it has phases and a place.
    fn program_of(&self, member: &Member) -> Option<usize> {
        let process = member.record.process();
        if !member.wanted || !process.setting().ml {
            return None;
        }
        let entry: &Entry = self.processes.get(&process.pid().key())?;
        entry.program
    }

    /// Hands the first thread with an id of at least `from` to `f` if its process has phases, with the
    /// place of that and the time. Returns where to go on.
    pub(crate) fn sample_from(
        &mut self,
        from: u64,
        f: impl FnOnce(usize, Ns, &Activity, &mut Option<KBox<Task>>),
    ) -> Option<u64> {
        let id = *self.threads.cursor_lower_bound(&from)?.current().0;
        let program = self.threads.get(&id).and_then(|m| self.program_of(m));
        if let (Some(program), Some(member)) = (program, self.threads.get_mut(&id)) {
            if let Some(activity) = member.record.read() {
                // Read with the table locked: nobody was told what lies ahead of it.
                let now = activity.ended().unwrap_or(Ns(now_ns()));
                f(program, now, &activity, &mut member.phases);
            }
        }
        id.checked_add(1)
    }

    /// Has the first thread with an id of at least `from` ring when it does something, if its process
    /// has phases. Returns where to go on.
    pub(crate) fn listen_from(&self, from: u64) -> Option<u64> {
        let cursor = self.threads.cursor_lower_bound(&from)?;
        let (&id, member) = cursor.current();
        if self.program_of(member).is_some() {
            member.record.listen();
        }
        id.checked_add(1)
    }

    /// The first thread with an id of at least `from`, if its process has phases.
    pub(crate) fn phases_from(&self, from: u64) -> Option<(u64, Option<Seen<'_>>)> {
        let cursor = self.threads.cursor_lower_bound(&from)?;
        let &id = cursor.current().0;
        let member = self.threads.get(&id)?;
        let has = member.wanted && member.record.process().setting().ml;
        Some((id, has.then(|| member.seen())))
    }

    /// A thread says what it does.
    ///
    /// # Errors
    ///
    /// `ENODATA` it is not tracked, is not recorded yet, or its process has no phases; `ENOMEM`.
    pub(crate) fn hint(
        &mut self,
        process: &Pid,
        thread: &Thread,
        (phase, duration): (Phase, Ns),
    ) -> Result<(), Failure> {
        let now = Ns(now_ns());
        let id = self.members.get(&(process.key(), thread.key()));
        let &id = id.ok_or(Failure::NotAssigned)?;
        let member = self.threads.get_mut(&id).ok_or(Failure::NotAssigned)?;
        let setting = member.record.process().setting();
        let activity = member.record.read();
        let Some(activity) = activity.filter(|_| member.wanted && setting.ml) else {
            return Err(Failure::NotAssigned);
        };
        if member.phases.is_none() {
            member.phases = Some(KBox::new(Task::new(&activity, now), GFP_KERNEL_ACCOUNT)?);
        }
        if let Some(task) = &mut member.phases {
            task.hint(now, phase, duration);
        }
        member.record.process().keeper().ring();
        Ok(())
    }

    /// The first process with an id of at least `from`.
    pub(crate) fn listed_from(&self, from: u64) -> Option<Listed> {
        let cursor = self.ids.cursor_lower_bound(&from)?;
        let (&id, &key) = cursor.current();
        let entry = self.processes.get(&key)?;
        Some(Listed {
            id,
            process: entry.process.clone(),
            threads: entry.threads,
            gpu: entry.gpu,
            prefetch: entry.prefetch,
        })
    }

    /// The times of all threads of the process with this id together, if it is still there.
    pub(crate) fn times_of(&self, id: u64) -> Option<Times> {
        let &key = self.ids.get(&id)?;
        let now = Ns(now_ns());
        let mut times = self.processes.get(&key)?.past;
        let mut thread = Some(0);
        while let Some((at, record)) = thread.and_then(|at| self.member_from(key, at)) {
            if let Some(member) = self.threads.get(&record) {
                times.add(&member.times(now));
            }
            thread = at.checked_add(1);
        }
        Some(times)
    }

    /// Whether a process is tracked as owners of TSGs are.
    pub(crate) fn is_owner(&self, pid: &Pid) -> bool {
        let entry = self.processes.get(&pid.key());
        let setting = entry.map(|entry| entry.process.setting());
        setting.is_some_and(|s| s.whole && s.ml && s.privileged)
    }
}

// A tracked thread takes 512 bytes with its phases.
kernel::prelude::static_assert!(size_of::<Task>() <= 128);
