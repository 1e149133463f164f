// SPDX-License-Identifier: MIT OR Apache-2.0
//! A hundred thousand tracked threads: what they take, and that all of it is given back. And more,
//! until no more can be tracked, of a user and in all.

use std::collections::BTreeSet;
use std::fs;
use std::os::fd::OwnedFd;
use std::sync::atomic::AtomicU32;
use std::time::{Duration, Instant};

use anyhow::{bail, ensure, Context as _, Result};
use libzernel::thread::Does;
use libzernel::{Target, Tracking, Zernel};
use rustix::io::Errno;
use rustix::process::{setrlimit, Resource, Rlimit};
use testkit::passing;

use super::skip_on_debug;
use crate::check_eq;
use crate::child::{in_child, Child};
use crate::common::{errno, load, unload_all, unload_soon, wait_until_within, SOON};
use crate::group::{self, Group};
use crate::harness::Outcome;
use crate::permit::{ALICE, BOB};
use crate::sys;

/// Processes, and threads of each; those of alice's are within her quota.
const PROCESSES: usize = 8;
const ALICES: usize = 2;
const EACH: usize = 12_501;

/// The bound of a tracked thread with phases, in bytes.
const MOST_BYTES: u64 = 544;

/// The share of a CPU that takes samples: a tenth, and what it may be off by where the clock of a
/// guest goes on while its host does something else.
const MOST_SHARE: f64 = 0.35;

/// Tracked threads of a user who is not root, and of all.
const OF_A_USER: usize = 32_768;
const IN_ALL: usize = 131_072;

/// The rest of a user's quota with a tracked process of twice as many threads.
const ROOM: usize = 100;

/// Threads that are made when there is no room for them any more.
const LATER: usize = 5;

/// The word that the threads wait for.
static WORD: AtomicU32 = AtomicU32::new(0);

/// The commands of a [`Crowd`].
#[derive(Clone, Copy)]
enum Command {
    Wake,
    MakeOne,
}

/// A process of a user with threads that wait, and wake up when it is told so.
struct Crowd {
    child: Child,
    /// Threads that it begins with.
    size: usize,
    tell: OwnedFd,
}

impl Crowd {
    fn new(uid: u32, size: usize) -> Result<Self> {
        let (told, tell) = passing::pair()?;
        let child = Child::spawn(|| {
            become_somebody(uid)?;
            // The first is there.
            let mut waiters = size - 1;
            for _ in 0..waiters {
                sys::spawn_waiter(&WORD)?;
            }
            loop {
                if passing::receive_number(&told)? == Command::MakeOne as u64 {
                    sys::spawn_waiter(&WORD)?;
                    waiters += 1;
                } else {
                    sys::wake_waiters(&WORD, waiters);
                }
            }
        })?;
        Ok(Self { child, size, tell })
    }

    fn target(&self) -> Target {
        Target::Process(self.child.pid())
    }

    fn threads(&self) -> Result<usize> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.pid()))?;
        let mut lines = status.lines();
        let count = lines.find_map(|line| line.strip_prefix("Threads:"));
        Ok(count.context("no number of threads")?.trim().parse()?)
    }

    fn wait_there(&self) -> Result<()> {
        wait_until_within(5 * SOON, "the threads are there", || {
            Ok(self.threads()? == self.size)
        })
    }

    /// Has it make one thread more, or every thread return to user space.
    fn tell(&self, command: Command) -> Result<()> {
        passing::send_number(&self.tell, command as u64)
    }
}

/// Bytes in use of the kernel's allocator of small objects.
fn memory() -> Result<u64> {
    let mut bytes = 0;
    for line in fs::read_to_string("/proc/slabinfo")?.lines().skip(2) {
        let fields: Vec<_> = line.split_whitespace().collect();
        // name active_objs num_objs objsize objperslab pagesperslab : ... : slabdata active num share
        let number = |at: usize| fields.get(at).and_then(|field| field.parse::<u64>().ok());
        if let (Some(pages), Some(slabs)) = (number(5), number(14)) {
            bytes += pages * slabs * 4096;
        }
    }
    ensure!(bytes > 0, "/proc/slabinfo is not understood");
    Ok(bytes)
}

/// CPU time of the kernel's workers of zernel and others, in clock ticks: samples are taken there.
fn worker_ticks() -> Result<u64> {
    let mut ticks = 0;
    for entry in fs::read_dir("/proc")?.flatten() {
        let stat = fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        if let Some((_, after)) = stat.rsplit_once(')').filter(|_| stat.contains("(kworker/")) {
            // utime and stime.
            let times = after.split_whitespace().skip(11).take(2);
            ticks += times
                .filter_map(|time| time.parse::<u64>().ok())
                .sum::<u64>();
        }
    }
    Ok(ticks)
}

pub(super) fn most() -> Outcome {
    skip_on_debug()?;
    let count = PROCESSES * EACH;
    for (name, value) in [
        ("kernel/threads-max", "150000"),
        ("kernel/pid_max", "200000"),
        ("vm/max_map_count", "200000"),
    ] {
        fs::write(format!("/proc/sys/{name}"), value).with_context(|| name.to_owned())?;
    }
    load("zernel", "")?;
    let uids = (0..PROCESSES).map(|number| if number < ALICES { ALICE } else { 0 });
    let crowds: Vec<_> = uids
        .map(|uid| Crowd::new(uid, EACH))
        .collect::<Result<_>>()?;
    for crowd in &crowds {
        crowd.wait_there()?;
    }

    let zernel = Zernel::open()?;
    let before = memory()?;
    for crowd in &crowds {
        let threads = zernel.track(&crowd.target(), Tracking::ML)?;
        check_eq!(threads as usize, crowd.size);
    }
    check_eq!(zernel.stats()?.threads, count as u64);
    for crowd in &crowds {
        crowd.tell(Command::Wake)?;
    }
    wait_until_within(10 * SOON, "all have phases", || {
        std::thread::sleep(Duration::from_millis(300));
        let phases: Vec<_> = zernel.phases().collect::<Result<_, _>>()?;
        Ok(phases.iter().filter(|thread| thread.samples > 0).count() == count)
    })?;
    let used = memory()?.saturating_sub(before);
    let each_takes = used / count as u64;
    // Fewer than half are too few to be what is measured.
    let bounds = MOST_BYTES / 2..=MOST_BYTES;
    ensure!(bounds.contains(&each_takes), "{each_takes} bytes of each");
    // All of them are told, each once.
    let mut listed = BTreeSet::new();
    for thread in zernel.threads() {
        let thread = thread?;
        ensure!(
            thread.does != Does::Arrive,
            "{} is not recorded",
            thread.tid
        );
        listed.insert(thread.tid);
    }
    check_eq!(listed.len(), count, "threads that are listed");

    // Something happens, so that samples are taken all the time.
    let restless = Child::idle(|| {
        Zernel::open()?.track(&Target::current_process(), Tracking::ML)?;
        Ok(())
    })?;
    let (ticks, since) = (worker_ticks()?, Instant::now());
    std::thread::sleep(Duration::from_secs(3));
    let spent = worker_ticks()?.saturating_sub(ticks) as f64 / 100.0;
    let share = spent / since.elapsed().as_secs_f64();
    ensure!(share < MOST_SHARE, "workers took {share:.2} of a CPU");
    drop(restless);

    for crowd in &crowds {
        check_eq!(zernel.untrack(&crowd.target())?, 0);
    }
    // The one that was killed is let go of a moment later.
    wait_until_within(SOON, "no thread is tracked", || {
        Ok(zernel.stats()?.threads == 0)
    })?;
    for crowd in &crowds {
        crowd.tell(Command::Wake)?;
    }
    drop(zernel);
    // It goes when the last of them has let go, and has given everything back by then.
    unload_soon("zernel")?;
    let kept = memory()?.saturating_sub(before);
    // Pages in which others have something meanwhile stay; the smallest part of a thread is more.
    ensure!(
        kept <= used / 10 + (1 << 20),
        "{kept} of {used} bytes are not given back"
    );
    quotas(crowds)
}

/// Makes the caller a user, who may make as many threads as there can be.
fn become_somebody(uid: u32) -> Result<()> {
    let limit = Rlimit {
        current: None,
        maximum: None,
    };
    setrlimit(Resource::Nproc, limit)?;
    Ok(sys::become_user(uid, uid, &[])?)
}

/// A user tracks something: as soon as there is room for it, or it is refused by this errno.
fn track_as(uid: u32, target: &Target, refused: Option<Errno>) -> Outcome {
    in_child(|| {
        become_somebody(uid)?;
        let zernel = Zernel::open()?;
        let track = || errno(zernel.track(target, Tracking::PLAIN));
        if refused.is_some() {
            check_eq!(track(), refused, "user {uid}, {target:?}");
            return Ok(());
        }
        wait_until_within(SOON, "there is room", || match track() {
            None => Ok(true),
            Some(Errno::DQUOT | Errno::NOSPC) => Ok(false),
            Some(errno) => bail!("user {uid} tracks {target:?}: {errno}"),
        })
    })
}

fn tracked(zernel: &Zernel) -> Result<usize> {
    Ok(usize::try_from(zernel.stats()?.threads)?)
}

/// A followed process makes threads that there is no room for: they are counted as missed.
fn make_missed(zernel: &Zernel, crowd: &Crowd) -> Outcome {
    let (before, threads) = (zernel.stats()?, crowd.threads()?);
    for _ in 0..LATER {
        crowd.tell(Command::MakeOne)?;
    }
    let missed = before.threads_missed + LATER as u64;
    wait_until_within(SOON, "they are missed", || {
        Ok(zernel.stats()?.threads_missed >= missed)
    })?;
    check_eq!(crowd.threads()?, threads + LATER, "threads");
    let after = zernel.stats()?;
    check_eq!(
        (after.threads_missed, after.threads),
        (missed, before.threads)
    );
    Ok(())
}

/// No module is loaded. More of alice's crowds are tracked, until there is no room.
fn quotas(crowds: Vec<Crowd>) -> Outcome {
    load("zernel", "")?;
    let zernel = Zernel::open()?;
    for crowd in &crowds {
        zernel.track(&crowd.target(), Tracking::PLAIN)?;
    }
    let most = Crowd::new(ALICE, OF_A_USER - ALICES * EACH - ROOM)?;
    let rest = Crowd::new(ALICE, ROOM)?;
    let over = Crowd::new(ALICE, 2 * ROOM)?;
    for crowd in [&most, &rest, &over] {
        crowd.wait_there()?;
    }
    let before = tracked(&zernel)? + most.size;
    track_as(ALICE, &most.target(), None)?;
    check_eq!(tracked(&zernel)?, before);
    // It goes over, and changes nothing, by whomever it is tracked.
    for uid in [ALICE, 0] {
        track_as(uid, &over.target(), Some(Errno::DQUOT))?;
        check_eq!(tracked(&zernel)?, before);
    }
    // Those of its threads that had a record have one until they return to user space.
    over.tell(Command::Wake)?;
    track_as(ALICE, &rest.target(), None)?;
    check_eq!(tracked(&zernel)?, before + ROOM);
    let one = Target::Thread(over.child.pid());
    track_as(ALICE, &one, Some(Errno::DQUOT))?;
    make_missed(&zernel, &rest)?;
    beside_others(&zernel, &over)?;

    // Others are not bound by that.
    let bobs = Child::idle(|| become_somebody(BOB))?;
    track_as(BOB, &Target::Process(bobs.pid()), None)?;
    in_all(&zernel, bobs)?;

    // A thread that is tracked no more makes room.
    zernel.untrack(&most.target())?;
    most.tell(Command::Wake)?;
    track_as(ALICE, &over.target(), None)?;
    drop((crowds, most, rest, over));
    wait_until_within(10 * SOON, "no thread is tracked", || {
        Ok(tracked(&zernel)? == 0)
    })?;
    drop(zernel);
    // No record is left.
    unload_all()
}

/// A process over its user's quota is in a cgroup with another one: that is tracked.
fn beside_others(zernel: &Zernel, over: &Crowd) -> Outcome {
    let bobs = Child::idle(|| become_somebody(BOB))?;
    let group = Group::new("quota")?;
    for pid in [over.child.pid(), bobs.pid()] {
        group.enter(pid)?;
    }
    let before = zernel.stats()?;
    check_eq!(zernel.track(&group.target()?, Tracking::PLAIN)?, 1);
    let after = zernel.stats()?;
    check_eq!(after.threads, before.threads + 1);
    ensure!(
        after.threads_missed > before.threads_missed,
        "nobody was missed"
    );
    zernel.untrack(&group.target()?)?;
    for pid in [over.child.pid(), bobs.pid()] {
        group::put(pid)?;
    }
    drop(bobs);
    wait_until_within(SOON, "it is tracked no more", || {
        Ok(zernel.stats()?.threads == before.threads)
    })
}

/// There is no room for anybody. One of bob's threads is tracked.
fn in_all(zernel: &Zernel, bobs: Child) -> Outcome {
    let crowd = Crowd::new(0, IN_ALL - tracked(zernel)?)?;
    crowd.wait_there()?;
    track_as(0, &crowd.target(), None)?;
    check_eq!(tracked(zernel)?, IN_ALL);
    let idle = Child::idle(|| become_somebody(BOB))?;
    let other = Target::Process(idle.pid());
    for (uid, target) in [(BOB, &other), (0, &Target::CurrentProcess)] {
        track_as(uid, target, Some(Errno::NOSPC))?;
        check_eq!(tracked(zernel)?, IN_ALL);
    }
    make_missed(zernel, &crowd)?;
    // The one that ends makes room for one.
    drop(bobs);
    track_as(BOB, &other, None)?;
    check_eq!(tracked(zernel)?, IN_ALL);
    Ok(())
}
