// SPDX-License-Identifier: GPL-2.0
//! Tracked threads: begin, end, list.

use super::{
    list,
    target,
    Client, //
};
use crate::{
    error::Failure,
    glue::{
        abi::{
            self,
            Abi, //
        },
        cgroup::Cgroup,
        identity::{
            self,
            Pid,
            Scope,
            Viewer, //
        },
        scheduler_hooks::Record,
        thread::Thread,
        time::now_ns,
        uapi, //
    },
    policy::{
        permit::Caller,
        phase::activity::{
            Activity,
            Doing,
            Sum, //
        },
        units::Ns, //
    },
    registry,
    tracking::{
        self,
        follow,
        groups::Terms,
        Target,
        Tracking, //
    },
};
use kernel::prelude::*;

/// Threads looked at with the table locked once.
const LOOKS: usize = 256;

/// Changes how a target is tracked.
pub(super) fn track(_: &Client, _: &mut uapi::zernel_track) -> Result {
    Err(ENOTTY)
}

/// Tracks a target.
pub(super) fn v0_begin(arg: usize, size: usize) -> Result {
    change(arg, size, true, |pid, target, caller, ml| {
        // One's own is one's own to end.
        tracking::track(pid, target, !caller.owner, ml)
    })
}

/// Tracks a target no more.
pub(super) fn v0_end(arg: usize, size: usize) -> Result {
    change(arg, size, false, |pid, target, caller, _| {
        tracking::untrack(&pid, &target, is_privileged(caller))
    })
}

pub(super) fn is_privileged(caller: Caller) -> bool {
    caller.capable || caller.member
}

/// Changes how a cgroup is tracked.
fn change_cgroup(
    arg: usize,
    size: usize,
    mut track: uapi::zernel_v0_track,
    begins: bool,
) -> Result {
    let known = if begins { uapi::ZERNEL_V0_TRACK_ML } else { 0 };
    if track.flags & !known != 0 || track.threads != 0 || track.reserved != 0 {
        return Err(EINVAL);
    }
    let (cgroup, owner) = Cgroup::from_fd(track.id)?;
    let uid = identity::caller_uid();
    let caller = target::asker(uid, owner == uid)?.caller;
    if owner != uid && !is_privileged(caller) {
        return Err(refused(Failure::NotPermitted));
    }
    // Makes sure that the answer can be written, before anything changes.
    abi::write(arg, size, &track)?;
    if begins {
        // Processes of others may be in a cgroup of one's own.
        let privileged = is_privileged(caller);
        let ml = track.flags & uapi::ZERNEL_V0_TRACK_ML != 0;
        let terms = Terms {
            uid,
            privileged,
            ml,
        };
        track.threads = follow::track_cgroup(cgroup, terms).map_err(refused)?;
    } else {
        follow::untrack_cgroup(&cgroup, is_privileged(caller)).map_err(refused)?;
    }
    abi::write(arg, size, &track)
}

fn change(
    arg: usize,
    size: usize,
    begins: bool,
    f: impl FnOnce(Pid, Target, Caller, bool) -> Result<u32, Failure>,
) -> Result {
    let mut track: uapi::zernel_v0_track = abi::read(arg, size)?;
    if track.target == uapi::ZERNEL_V0_TARGET_CGROUP {
        return change_cgroup(arg, size, track, begins);
    }
    let (scope, flags) = match track.target {
        uapi::ZERNEL_V0_TARGET_PROCESS => (
            Scope::Process,
            uapi::ZERNEL_V0_TRACK_CHILDREN | uapi::ZERNEL_V0_TRACK_ML,
        ),
        uapi::ZERNEL_V0_TARGET_THREAD => (Scope::Thread, uapi::ZERNEL_V0_TRACK_ML),
        _ => return Err(EINVAL),
    };
    let known = uapi::ZERNEL_V0_TRACK_PIDFD | if begins { flags } else { 0 };
    if track.flags & !known != 0 || track.threads != 0 || track.reserved != 0 {
        return Err(EINVAL);
    }
    let is_pidfd = track.flags & uapi::ZERNEL_V0_TRACK_PIDFD != 0;
    let pid = target::task(track.id, is_pidfd, scope)?;
    let owner = pid.is_callers(scope);
    let caller = target::asker(identity::caller_uid(), owner)?.caller;
    if !owner && !is_privileged(caller) {
        return Err(refused(Failure::NotPermitted));
    }
    let thread = Thread::of(&pid).filter(Thread::is_program).ok_or(ESRCH)?;
    let (process, target) = match scope {
        Scope::Process => {
            let children = track.flags & uapi::ZERNEL_V0_TRACK_CHILDREN != 0;
            (pid, Target::Process { children })
        }
        Scope::Thread => (thread.process()?, Target::Thread(thread)),
    };
    // Makes sure that the answer can be written, before anything changes.
    abi::write(arg, size, &track)?;
    let ml = track.flags & uapi::ZERNEL_V0_TRACK_ML != 0;
    track.threads = f(process, target, caller, ml).map_err(refused)?;
    abi::write(arg, size, &track)
}

/// The errno of a refusal, which is counted.
pub(super) fn refused(failure: Failure) -> Error {
    // Without a registry nothing is counted.
    let _ = registry::with(|r| r.count_denied(&Err::<(), _>(failure)));
    failure.errno()
}

/// Fills a page with the tracked threads that the caller may see.
pub(super) fn v0_list(arg: usize, size: usize) -> Result {
    let viewer = Viewer::current();
    page(arg, size, |t, from| {
        let (id, record) = t.thread_from(from)?;
        Some((id, record.and_then(|record| info(id, record, &viewer))))
    })
}

/// Fills a page with what `next` finds: the id of the first record of at least its argument, and what
/// is to be shown of it.
pub(super) fn page<T: Abi>(
    arg: usize,
    size: usize,
    next: impl Fn(&Tracking, u64) -> Option<(u64, Option<T>)>,
) -> Result {
    list::page(arg, size, |page| {
        let mut from = page.from();
        while from.is_some() {
            from = tracking::with(|t| {
                for _ in 0..LOOKS {
                    let (id, info) = from.and_then(|from| next(t, from))?;
                    from = id.checked_add(1);
                    if info.is_some_and(|info| !page.push(id, info)) {
                        return None;
                    }
                }
                from
            })?;
        }
        Ok(())
    })
}

/// The numbers of a thread and its process, if a viewer may see what it does. Of other pid namespaces
/// only one who sees all does see any.
pub(super) fn numbers(thread: &Thread, viewer: &Viewer) -> Option<(u32, u32)> {
    let (tid, pid) = thread.numbers(viewer);
    let is_there = tid != 0 || viewer.sees_all();
    (is_there && thread.is_seen_by(viewer)).then_some((tid, pid))
}

/// What a viewer sees of a thread.
fn info(id: u64, record: &Record, viewer: &Viewer) -> Option<uapi::zernel_v0_thread_info> {
    let thread = record.thread();
    let (tid, pid) = numbers(thread, viewer)?;
    let setting = record.process().setting();
    let flags = [
        (setting.whole, uapi::ZERNEL_V0_THREAD_WHOLE),
        (setting.children, uapi::ZERNEL_V0_THREAD_CHILDREN),
        (setting.privileged, uapi::ZERNEL_V0_THREAD_PRIVILEGED),
        (
            record.process().grouped().whole,
            uapi::ZERNEL_V0_THREAD_CGROUP,
        ),
    ];
    let mut info = uapi::zernel_v0_thread_info {
        id,
        pid,
        tid,
        uid: viewer.number_of_user(thread.uid()),
        flags: list::combine(&flags),
        does: uapi::ZERNEL_V0_DOES_ARRIVE,
        comm: thread.comm(),
        ..Default::default()
    };
    // First: what is told of its waits is over by then, or goes on.
    let before = Ns(now_ns());
    if let Some(activity) = record.read() {
        fill(&mut info, &activity, Ns(now_ns()));
        let waited = record.waited(&activity, before);
        (info.gpu_waits, info.gpu_wait_ns) = (waited.count, waited.time.0);
        if waited.since.is_some() {
            info.flags |= uapi::ZERNEL_V0_THREAD_GPU_WAIT;
        }
    }
    Some(info)
}

fn fill(info: &mut uapi::zernel_v0_thread_info, activity: &Activity, now: Ns) {
    let (doing, present) = activity.present(now);
    info.does = match doing {
        Doing::Asleep(cause) => cause.number() as u32,
        Doing::Running => uapi::ZERNEL_V0_DOES_RUN,
        Doing::Queued => uapi::ZERNEL_V0_DOES_QUEUE,
        Doing::Nothing => uapi::ZERNEL_V0_DOES_EXIT,
    };
    info.present_ns = present.0;
    let past = activity.past();
    (info.bursts, info.burst_ns) = both(past.bursts);
    (info.queues, info.queue_ns) = both(past.queued);
    let sleeps = info.sleeps.iter_mut().zip(&mut info.sleep_ns);
    for ((count, ns), &sum) in sleeps.zip(&past.sleeps) {
        (*count, *ns) = both(sum);
    }
    info.burst_now_ns = activity.burst(now).0;
    info.burst_last_ns = activity.last_burst().0;
}

fn both(sum: Sum) -> (u64, u64) {
    (sum.count, sum.time.0)
}
