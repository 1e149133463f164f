// SPDX-License-Identifier: GPL-2.0
//! Processes that have phases, and the samples that are taken of their threads.

use super::{
    process::Process,
    program::{
        Program,
        Report, //
    },
    table::{
        Changes,
        Member,
        Tracking,
        Wanted, //
    },
};
use crate::{
    error::Failure,
    glue::{
        identity::Pid,
        memory::account_nowait,
        scheduler_hooks::Record,
        thread::Thread,
        time::now_ns,
        trace,
        work::Kick, //
    },
    nice::Table,
    policy::{
        nice::{
            Ask,
            Delta, //
        },
        phase::{
            account::Times,
            activity::Activity,
            detector::Transition,
            task::Task,
            waits::Waited,
            Phase, //
        },
        prefetch::Params,
        units::Ns, //
    },
    tuned, //
};
use kernel::{
    prelude::*,
    sync::Arc, //
};

/// A thread that a list shows, as it was at one moment.
pub(crate) struct Shown {
    /// Its record.
    pub(crate) record: Arc<Record>,
    /// The number of its process; 0 if nothing of that is tracked any more.
    pub(crate) process: u64,
    /// The addition to its nice value.
    pub(crate) nice: i32,
    /// Its activity, once it has begun to be recorded.
    pub(crate) seen: Option<Seen>,
}

/// The activity of a thread at one moment.
pub(crate) struct Seen {
    /// The moment.
    pub(crate) now: Ns,
    /// Its activity.
    pub(crate) activity: Activity,
    /// Its waits for the GPU.
    pub(crate) waited: Waited,
    /// Its phases, once a sample was taken.
    pub(crate) task: Option<Task>,
}

impl Seen {
    /// The time in each phase.
    pub(crate) fn times(&self) -> Times {
        match &self.task {
            Some(task) => task.times(self.now),
            None => Times::unknown(self.activity.totals(self.now).time()),
        }
    }
}

impl Member {
    /// True if it is tracked.
    pub(super) fn is_wanted(&self) -> bool {
        self.wanted != Wanted::No
    }

    /// True if it was named itself.
    pub(super) fn is_single(&self) -> bool {
        self.wanted == Wanted::Itself
    }

    /// The phase that its time counts in, if it does at all.
    fn phase(&self) -> Phase {
        let task = self.phases.as_ref();
        task.map_or(Phase::Unknown, |task| task.present())
    }

    /// Its activity now.
    fn seen(&self) -> Option<Seen> {
        let activity = self.record.read()?;
        // Read with the table locked: no reader has got later times yet.
        let now = activity.ended().unwrap_or(Ns(now_ns()));
        Some(Seen {
            now,
            waited: self.record.waited(&activity, now),
            activity,
            task: self.phases.as_deref().copied(),
        })
    }

    /// Asks for the nice value of the thread's phase, if it is another one than before.
    fn renice(&mut self, table: &Table) {
        let setting = self.record.process().setting();
        let task = self
            .phases
            .as_ref()
            .filter(|_| self.is_wanted() && setting.ml);
        let phase = task.map_or(Phase::Unknown, |task| task.present());
        // Once more for another phase, too: a value set by others meanwhile is seen then.
        let asked = match tuned::nice_of_phase(phase) {
            Delta::NONE => (Phase::Unknown, Ask::NONE),
            delta => (phase, Ask { delta, ..Ask::NONE }),
        };
        let (_, ask) = asked;
        // Without memory the next look tries again.
        if asked != self.nice && table.ask_for_phase(self.record.thread(), ask).is_ok() {
            self.nice = asked;
        }
    }
}

/// Tells traces that the phase of a thread has changed.
pub(crate) fn tell(thread: &Thread, transition: &Transition, hinted: bool) {
    if !trace::is_phase_changed_on() {
        return;
    }
    let (tid, pid) = thread.global_numbers();
    let (from, to) = (transition.from.number(), transition.to.number());
    let lasted = transition.lasted.0;
    trace::phase_changed(pid, tid, from as u32, to as u32, lasted, hinted);
}

/// The record of a thread.
pub(crate) struct Recorded<'a> {
    /// The thread.
    pub(crate) thread: &'a Thread,
    /// Its activity.
    pub(crate) activity: Activity,
    /// Its waits for the GPU.
    pub(crate) waited: Waited,
}

/// A process that a list shows.
pub(crate) struct Listed {
    /// Its number.
    pub(crate) id: u64,
    /// The process, and the way in which it is tracked.
    pub(crate) process: Arc<Process>,
    /// Tracked threads.
    pub(crate) threads: u32,
    /// For how long its threads were in each phase.
    pub(crate) times: Times,
    /// The report of the last sample.
    pub(crate) report: Report,
}

impl Tracking {
    /// The sampler.
    pub(crate) fn sampler(&self) -> Kick {
        self.jobs.sampler.clone()
    }

    /// The number of a process if it has phases.
    pub(crate) fn program_id(&self, process: &Process) -> Option<u64> {
        let entry = self.processes.get(&process.pid().key())?;
        let is = core::ptr::eq(&*entry.process, process) && process.setting().ml;
        is.then_some(entry.id)
    }

    /// The observations of a program.
    pub(crate) fn report(&mut self, program: &Program, params: &Params) {
        if let Some(entry) = self.processes.get_mut(&program.key()) {
            entry.report = program.report(params);
        }
    }

    /// Hands the first thread of a process with a key of at least `from` to `f`, with the time, and has
    /// it ring when it does something if one `listens`. Returns where to go on.
    pub(crate) fn sample_from(
        &mut self,
        process: usize,
        from: usize,
        listens: bool,
        f: impl FnOnce(Ns, &Recorded<'_>, &mut Option<KBox<Task>>),
    ) -> Option<usize> {
        let (thread, id) = self.member_from(process, from)?;
        let has = |member: &&mut Member| {
            // It may have none any more since the sampler found that it has.
            member.is_wanted() && member.record.process().setting().ml
        };
        if let Some(member) = self.threads.get_mut(&id).filter(has) {
            if listens {
                // Before it is read: nothing that it does later is missed.
                member.record.listen();
            }
            if let Some(activity) = member.record.read() {
                // Read with the table locked: no reader has got later times yet.
                let now = activity.ended().unwrap_or(Ns(now_ns()));
                let waited = member.record.waited(&activity, now);
                let thread = member.record.thread();
                let recorded = Recorded {
                    thread,
                    activity,
                    waited,
                };
                f(now, &recorded, &mut member.phases);
                self.count_anew(id, now);
            }
            self.renice(id);
        }
        thread.checked_add(1)
    }

    /// The phase of a thread may have changed at `now`.
    pub(super) fn count_anew(&mut self, id: u64, now: Ns) {
        let member = self.threads.get(&id);
        if let Some(phase) = member.and_then(|m| m.counts_in.map(|_| m.phase())) {
            self.count_in(id, Some(phase), now);
        }
    }

    /// True if a process has a thread with a key of at least `from`.
    pub(crate) fn has_thread_from(&self, process: usize, from: usize) -> bool {
        self.member_from(process, from).is_some()
    }

    /// Has a thread have the nice value of its phase.
    pub(super) fn renice(&mut self, id: u64) {
        if let Some(member) = self.threads.get_mut(&id) {
            member.renice(&self.nice);
        }
    }

    /// The same for the first thread with an id of at least `from`. Returns where to go on.
    pub(crate) fn renice_from(&mut self, from: u64) -> Option<u64> {
        let id = *self.threads.cursor_lower_bound(&from)?.current().0;
        self.renice(id);
        id.checked_add(1)
    }

    /// Ends the wait of the first thread with an id of at least `from`, if it was seen to begin by a
    /// probe that is gone. Returns where to go on.
    pub(super) fn end_wait_from(&self, from: u64, is_gone: impl Fn(u64) -> bool) -> Option<u64> {
        let cursor = self.threads.cursor_lower_bound(&from)?;
        let (&id, member) = cursor.current();
        member.record.end_wait_of(is_gone);
        id.checked_add(1)
    }

    /// Entries of lists that have come and gone.
    pub(crate) fn changes(&self) -> Changes {
        self.changes
    }

    /// The first thread with an id of at least `from`, if it is tracked.
    pub(crate) fn shown_from(&self, from: u64) -> Option<(u64, Option<Shown>)> {
        let cursor = self.threads.cursor_lower_bound(&from)?;
        let (&id, member) = cursor.current();
        let shown = || {
            let pid = member.record.process().pid();
            Shown {
                record: member.record.clone(),
                process: self.processes.get(&pid.key()).map_or(0, |entry| entry.id),
                nice: self.nice.delta(member.record.thread()),
                seen: member.seen(),
            }
        };
        Some((id, member.is_wanted().then(shown)))
    }

    /// True if a thread is tracked, by itself or with others.
    pub(crate) fn is_tracked(&self, process: &Pid, thread: &Thread) -> bool {
        let id = self.members.get(&(process.key(), thread.key()));
        let member = id.and_then(|id| self.threads.get(id));
        member.is_some_and(Member::is_wanted)
    }

    /// A hint for a thread.
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
        let lives = |activity: &Activity| activity.ended().is_none();
        let activity = activity.filter(|a| member.is_wanted() && setting.ml && lives(a));
        let activity = activity.ok_or(Failure::NotAssigned)?;
        if member.phases.is_none() {
            let waited = member.record.waited(&activity, now);
            let task = Task::new(&activity, &waited, now);
            member.phases = Some(KBox::new(task, account_nowait())?);
        }
        let task = member.phases.as_mut();
        if let Some(transition) = task.and_then(|task| task.hint(now, phase, duration)) {
            tell(thread, &transition, true);
        }
        Process::ring(member.record.process());
        self.count_anew(id, now);
        self.renice(id);
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
            times: entry.sums.at(Ns(now_ns())),
            report: entry.report,
        })
    }

    /// True if a process is tracked as owners of TSGs are.
    pub(crate) fn is_owner(&self, pid: &Pid) -> bool {
        let entry = self.processes.get(&pid.key());
        let named = entry.map(|entry| entry.process.named());
        named.is_some_and(|s| s.whole && s.ml && s.privileged)
    }
}

// A tracked thread takes 544 bytes with its phases: 512, and 8 for each part that is accounted to a
// cgroup of memory.
kernel::prelude::static_assert!(size_of::<Task>() <= 128);
