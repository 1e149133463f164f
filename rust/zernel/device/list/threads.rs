// SPDX-License-Identifier: GPL-2.0
//! The list of tracked threads, and its filters.

use super::part::{
    Kind,
    Part, //
};
use crate::{
    device::{
        encode::combine,
        target::Target, //
    },
    glue::{
        cgroup::Cgroup,
        identity::{
            Pid,
            Viewer, //
        },
        thread::Thread,
        uapi, //
    },
    policy::{
        phase::{
            account::Times,
            activity::{
                Activity,
                Cause,
                Doing,
                Sum, //
            },
            task::Task,
            Phase, //
        },
        units::Ns, //
    },
    tracking::{
        self,
        process::Process,
        programs::Shown, //
    },
};
use kernel::prelude::*;

/// Tracked threads.
pub(super) struct Threads;

impl Kind for Threads {
    type Entry = uapi::zernel_thread_info;
    const FILTERS: &'static [u32] = &[
        uapi::ZERNEL_TARGET_THREAD,
        uapi::ZERNEL_TARGET_PROCESS,
        uapi::ZERNEL_TARGET_CGROUP,
    ];

    fn changes() -> Result<u64> {
        tracking::with(|t| t.changes().threads)
    }

    fn fill(part: &mut Part<Self::Entry>, filter: &Target, viewer: &Viewer) -> Result {
        let filter = Filter::new(filter);
        // Locked for each anew, and only to look: a call that tracks a thread does not wait for all.
        part.fill(|from| {
            // Without a table there are none.
            let (id, shown) = tracking::with(|t| t.shown_from(from)).ok().flatten()?;
            let is_let = |shown: &Shown| {
                let record = &shown.record;
                filter.lets_thread(record.thread(), record.process())
            };
            let shown = shown.filter(is_let);
            Some((id, shown.and_then(|shown| info(id, &shown, viewer))))
        });
        Ok(())
    }
}

/// Threads and processes that are let through.
pub(super) enum Filter<'a> {
    /// All of them.
    All,
    /// One thread.
    Thread(&'a Pid),
    /// A process and its threads.
    Process(&'a Pid),
    /// The processes in a cgroup or below, and their threads.
    Cgroup(u64),
}

impl<'a> Filter<'a> {
    /// The filter that a call names, of a kind that the list takes.
    pub(super) fn new(filter: &'a Target) -> Self {
        match filter {
            Target::Thread(pid) => Self::Thread(pid),
            Target::Process(pid) => Self::Process(pid),
            Target::Cgroup(cgroup, _) => Self::Cgroup(cgroup.id()),
            _ => Self::All,
        }
    }

    /// True if a process is let through.
    pub(super) fn lets_process(&self, process: &Process) -> bool {
        match self {
            Self::All => true,
            Self::Thread(_) => false,
            Self::Process(pid) => pid.key() == process.pid().key(),
            Self::Cgroup(top) => {
                let cgroup = Cgroup::of(process.pid());
                cgroup.is_some_and(|cgroup| cgroup.ids().any(|id| id == *top))
            }
        }
    }

    fn lets_thread(&self, thread: &Thread, process: &Process) -> bool {
        match self {
            Self::Thread(pid) => Thread::of(pid).is_some_and(|named| named.key() == thread.key()),
            filter => filter.lets_process(process),
        }
    }
}

/// The numbers of a thread and its process, if a viewer may see what it does. Of other pid namespaces
/// only one who sees all does see any.
pub(super) fn numbers(thread: &Thread, viewer: &Viewer) -> Option<(u32, u32)> {
    let (tid, pid) = thread.numbers(viewer);
    let is_there = tid != 0 || viewer.sees_all();
    (is_there && thread.is_seen_by(viewer)).then_some((tid, pid))
}

/// The tracking of a process: `ZERNEL_TRACKED_*`.
pub(super) fn tracked(process: &Process) -> u32 {
    let setting = process.setting();
    combine(&[
        (setting.whole, uapi::ZERNEL_TRACKED_WHOLE),
        (setting.children, uapi::ZERNEL_TRACKED_CHILDREN),
        (process.grouped().whole, uapi::ZERNEL_TRACKED_CGROUP),
        (setting.privileged, uapi::ZERNEL_TRACKED_PRIVILEGED),
        (setting.ml, uapi::ZERNEL_TRACKED_ML),
    ])
}

/// Time in each phase, in the order of the fields.
pub(super) fn phases(times: &Times) -> [u64; 5] {
    Phase::ALL.map(|phase| times.of(phase).0)
}

fn info(id: u64, shown: &Shown, viewer: &Viewer) -> Option<uapi::zernel_thread_info> {
    let (record, thread) = (&shown.record, shown.record.thread());
    let (tid, pid) = numbers(thread, viewer)?;
    let mut info = uapi::zernel_thread_info {
        id,
        process: shown.process,
        pid,
        tid,
        uid: viewer.number_of_user(thread.uid()),
        flags: tracked(record.process()),
        nice: shown.nice,
        does: uapi::ZERNEL_DOES_ARRIVE,
        phase: uapi::ZERNEL_PHASE_UNKNOWN,
        comm: thread.comm(),
        ..Default::default()
    };
    if let Some(seen) = &shown.seen {
        let (now, task) = (seen.now, seen.task.as_ref());
        fill_activity(&mut info, &seen.activity, now);
        let waited = &seen.waited;
        (info.gpu_waits, info.gpu_wait_ns) = (waited.count, waited.time.0);
        let is_hinted = task.is_some_and(|task| task.is_hinted(now));
        info.flags |= combine(&[
            (waited.since.is_some(), uapi::ZERNEL_TRACKED_GPU_WAIT),
            (is_hinted, uapi::ZERNEL_TRACKED_HINTED),
        ]);
        // Of the same moment, so that both sums are the same.
        fill_phases(&mut info, &seen.times(), task, now);
    }
    Some(info)
}

fn fill_activity(info: &mut uapi::zernel_thread_info, activity: &Activity, now: Ns) {
    let (doing, present) = activity.present(now);
    info.does = match doing {
        Doing::Asleep(Cause::Io) => uapi::ZERNEL_DOES_SLEEP_IO,
        Doing::Asleep(Cause::Futex) => uapi::ZERNEL_DOES_SLEEP_FUTEX,
        Doing::Asleep(Cause::Poll) => uapi::ZERNEL_DOES_SLEEP_POLL,
        Doing::Asleep(Cause::ReadWrite) => uapi::ZERNEL_DOES_SLEEP_READ_WRITE,
        Doing::Asleep(Cause::Ioctl) => uapi::ZERNEL_DOES_SLEEP_IOCTL,
        Doing::Asleep(Cause::Other) => uapi::ZERNEL_DOES_SLEEP,
        Doing::Running => uapi::ZERNEL_DOES_RUN,
        Doing::Queued => uapi::ZERNEL_DOES_QUEUE,
        Doing::Nothing => uapi::ZERNEL_DOES_EXIT,
    };
    info.does_ns = present.0;
    let past = activity.past();
    let both = |sum: Sum| (sum.count, sum.time.0);
    let slept = |cause| both(past.slept(cause));
    (info.bursts, info.burst_ns) = both(past.bursts);
    (info.queues, info.queue_ns) = both(past.queued);
    // A cause that is added later counts here, too.
    (info.sleeps, info.sleep_ns) = slept(Cause::Other);
    (info.sleeps_io, info.sleep_io_ns) = slept(Cause::Io);
    (info.sleeps_futex, info.sleep_futex_ns) = slept(Cause::Futex);
    (info.sleeps_poll, info.sleep_poll_ns) = slept(Cause::Poll);
    (info.sleeps_read_write, info.sleep_read_write_ns) = slept(Cause::ReadWrite);
    (info.sleeps_ioctl, info.sleep_ioctl_ns) = slept(Cause::Ioctl);
    info.burst_now_ns = activity.burst(now).0;
    info.burst_last_ns = activity.last_burst().0;
}

fn fill_phases(info: &mut uapi::zernel_thread_info, times: &Times, task: Option<&Task>, now: Ns) {
    [
        info.unknown_ns,
        info.data_loading_ns,
        info.gpu_compute_ns,
        info.collective_ns,
        info.optimizer_step_ns,
    ] = phases(times);
    info.phase_ns = times.sum().0;
    let Some(task) = task else {
        return;
    };
    let (phase, present, transitions) = task.phase(now);
    info.phase = phase.number() as u32;
    (info.phase_ns, info.transitions) = (present.0, transitions);
    let (length, inputs) = task.sample();
    info.samples = task.samples();
    info.sample_at = inputs.at.0;
    info.sample_ns = length.0;
    info.sample_io_ns = inputs.io.into();
    info.sample_burst_ns = inputs.burst.0;
    info.sample_futexes = inputs.futexes.into();
}
