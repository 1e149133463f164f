// SPDX-License-Identifier: GPL-2.0
//! Tracked cgroups among users, storms of moves, a fork bomb; and that no time is lost in them.

use std::fs;
use std::time::{Duration, Instant};

use anyhow::{ensure, Result};
use libzernel::{Phase, Target, Tracking, Zernel};
use rustix::io::Errno;
use testkit::Repeat;

use super::cgroups::{busy, listed, sums};
use super::{idle, threads_of, wait_count, wait_recorded};
use crate::check_eq;
use crate::child::{in_child, Child};
use crate::common::{errno, tune, wait_until, SOON};
use crate::group::{Group, ROOT};
use crate::harness::Outcome;
use crate::list::PERFMON;
use crate::permit::{ALICE, BOB, GROUP, NICE};
use crate::sys;

fn of_user(uid: u32, group: &Group) -> Result<Child> {
    let child = idle(uid)?;
    group.enter(child.pid())?;
    Ok(child)
}

/// The owner has its own processes tracked, privilege those of all.
pub(super) fn who_may() -> Outcome {
    let zernel = Zernel::open()?;
    tune("lc_gid", GROUP)?;
    let group = Group::new("owned")?;
    group.delegate(ALICE)?;
    let (alices, bobs) = (of_user(ALICE, &group)?, of_user(BOB, &group)?);
    let target = || group.target();
    let by = |uid: u32, groups: &'static [u32], f: &dyn Fn(&Zernel) -> Outcome| {
        in_child(|| {
            sys::become_user(uid, uid, groups)?;
            f(&Zernel::open()?)
        })
    };
    let eperm = Some(Errno::PERM);
    let denied = zernel.stats()?.denied;
    by(BOB, &[], &|zernel| {
        check_eq!(errno(zernel.track(&target()?, Tracking::PLAIN)), eperm);
        check_eq!(errno(zernel.untrack(&target()?)), eperm);
        check_eq!(
            errno(zernel.track(&Target::cgroup(ROOT)?, Tracking::PLAIN)),
            eperm
        );
        Ok(())
    })?;
    check_eq!(zernel.stats()?.denied, denied + 3);
    check_eq!(zernel.cgroups().count(), 0);
    by(ALICE, &[], &|zernel| {
        check_eq!(zernel.track(&target()?, Tracking::PLAIN)?, 1);
        check_eq!(zernel.cgroups().count(), 1);
        Ok(())
    })?;
    wait_recorded(&zernel, alices.pid(), 1)?;
    check_eq!(
        threads_of(&zernel, bobs.pid())?.len(),
        0,
        "bob's is not alice's to track"
    );
    ensure!(!sums(&zernel, &group)?.privileged, "by privilege");
    // One of bob's that comes later is none of hers, either; one of hers is.
    let more = [of_user(BOB, &group)?, of_user(ALICE, &group)?];
    wait_count(&zernel, 2)?;
    by(BOB, &[], &|zernel| {
        check_eq!(zernel.cgroups().count(), 0, "seen by bob");
        Ok(())
    })?;
    // Privilege has all of them, and is needed to end that.
    by(BOB, &[GROUP], &|zernel| {
        check_eq!(zernel.track(&target()?, Tracking::PLAIN)?, 4);
        Ok(())
    })?;
    wait_count(&zernel, 4)?;
    // Neither the tracker nor the owner of the directory sees the sum of all.
    for uid in [BOB, ALICE] {
        by(uid, &[GROUP], &|zernel| {
            check_eq!(zernel.cgroups().count(), 0, "by privilege, seen by {uid}");
            Ok(())
        })?;
    }
    in_child(|| {
        sys::become_user_with(BOB, BOB, PERFMON)?;
        check_eq!(
            Zernel::open()?.cgroups().count(),
            1,
            "seen with CAP_PERFMON"
        );
        Ok(())
    })?;
    ensure!(sums(&zernel, &group)?.privileged, "not by privilege");
    by(ALICE, &[], &|zernel| {
        check_eq!(errno(zernel.untrack(&target()?)), eperm);
        // Nor what all of them are said to be.
        check_eq!(errno(zernel.track(&target()?, Tracking::ML)), eperm);
        check_eq!(zernel.phases().count(), 0);
        // To begin it again is no way to make it hers.
        check_eq!(zernel.track(&target()?, Tracking::PLAIN)?, 4);
        check_eq!(errno(zernel.untrack(&target()?)), eperm);
        Ok(())
    })?;
    in_child(|| {
        sys::become_user_with(BOB, BOB, NICE)?;
        Zernel::open()?.untrack(&target()?)?;
        Ok(())
    })?;
    check_eq!(zernel.threads().count(), 0);
    drop((alices, bobs, more));
    wait_count(&zernel, 0)
}

/// A user has so many tracked cgroups, and no more.
pub(super) fn quota() -> Outcome {
    const MOST: usize = 64;
    let zernel = Zernel::open()?;
    let parent = Group::new("quota")?;
    let groups = (0..=MOST)
        .map(|number| {
            let group = parent.below(&number.to_string())?;
            group.delegate(ALICE)?;
            Ok(group)
        })
        .collect::<Result<Vec<_>>>()?;
    in_child(|| {
        sys::become_user(ALICE, ALICE, &[])?;
        let zernel = Zernel::open()?;
        for group in &groups[..MOST] {
            zernel.track(&group.target()?, Tracking::PLAIN)?;
        }
        let one_more = || -> Result<_> {
            let target = groups[MOST].target()?;
            Ok(errno(zernel.track(&target, Tracking::PLAIN)))
        };
        check_eq!(one_more()?, Some(Errno::DQUOT));
        check_eq!(zernel.cgroups().count(), MOST);
        // One that is tracked can be tracked again.
        zernel.track(&groups[0].target()?, Tracking::ML)?;
        zernel.untrack(&groups[7].target()?)?;
        check_eq!(one_more()?, None);
        check_eq!(zernel.cgroups().count(), MOST);
        Ok(())
    })?;
    // Others have theirs.
    zernel.track(&groups[7].target()?, Tracking::PLAIN)?;
    for group in groups {
        group.remove()?;
    }
    wait_until("nothing is tracked", || Ok(zernel.cgroups().count() == 0))
}

/// Processes that fork and are moved in and out all the time: in the end exactly those inside are
/// tracked.
pub(super) fn storm() -> Outcome {
    const PROCESSES: usize = 3;
    let zernel = Zernel::open()?;
    let (inside, outside) = (Group::new("inside")?, Group::new("outside")?);
    let below = inside.below("below")?;
    zernel.track(&inside.target()?, Tracking::ML)?;
    let makers = (0..PROCESSES)
        .map(|_| {
            Child::session(|| {
                std::thread::spawn(|| loop {
                    std::thread::sleep(Duration::from_millis(1));
                });
                loop {
                    let mut children = Vec::new();
                    for _ in 0..2 {
                        children.push(Child::spawn(|| {
                            std::thread::sleep(Duration::from_millis(3));
                            Ok(())
                        })?);
                    }
                    for child in children {
                        child.join()?;
                    }
                }
            })
        })
        .collect::<Result<Vec<_>>>()?;
    let groups = [&inside, &outside, &below];
    let mut random = testkit::random::Random::new(0x5701);
    let mut repeat = Repeat::new(90, "moves");
    while repeat.next().is_some() {
        let who = &makers[random.below(PROCESSES as u64) as usize];
        groups[random.below(3) as usize].enter(who.pid())?;
        if random.below(4) == 0 {
            std::thread::sleep(Duration::from_millis(random.below(6)));
        }
    }
    println!("    # {}", repeat.report());
    // From now on nobody makes others, so that it can be compared.
    for maker in &makers {
        rustix::process::kill_process(pid(maker), rustix::process::Signal::STOP)?;
    }
    let mut told = String::new();
    wait_until("exactly those inside are tracked", || {
        let mut there = Vec::new();
        for group in [&inside, &below] {
            let procs = fs::read_to_string(group.path().join("cgroup.procs"))?;
            for line in procs.lines() {
                there.push(line.parse::<u32>()?);
            }
        }
        there.sort_unstable();
        let mut tracked = Vec::new();
        for thread in zernel.threads() {
            tracked.push(thread?.pid);
        }
        tracked.sort_unstable();
        tracked.dedup();
        told = format!("inside {there:?}, tracked {tracked:?}");
        Ok(there == tracked)
    })
    .map_err(|error| error.context(told))?;
    drop(makers);
    wait_count(&zernel, 0)?;
    check_eq!(zernel.untrack(&inside.target()?)?, 0);
    Ok(())
}

fn pid(child: &Child) -> rustix::process::Pid {
    rustix::process::Pid::from_raw(child.pid() as i32).expect("a process")
}

/// As many processes as there may be, each of which makes others as fast as it can, while one user
/// tracks and untracks: its calls are over soon, and nothing is left when all have been killed.
pub(super) fn fork_bomb() -> Outcome {
    const MOST: u32 = 40;
    fs::write(format!("{ROOT}/cgroup.subtree_control"), "+pids")?;
    let zernel = Zernel::open()?;
    let missed = zernel.stats()?.threads_missed;
    let group = Group::new("bomb")?;
    fs::write(group.path().join("pids.max"), MOST.to_string())?;
    zernel.track(&group.target()?, Tracking::ML)?;
    let bomb = Child::session(|| {
        group.enter(0)?;
        // By name, too.
        Zernel::open()?.track(&Target::current_process(), Tracking::CHILDREN)?;
        explode()
    })?;
    wait_until("there are as many as may be", || {
        let now = fs::read_to_string(group.path().join("pids.current"))?;
        Ok(now.trim().parse::<u32>()? >= MOST / 2 && zernel.stats()?.threads >= 5)
    })?;
    let other = busy(2)?;
    let mut longest = Duration::ZERO;
    let mut repeat = Repeat::new(20, "calls of others");
    while repeat.next().is_some() {
        let began = Instant::now();
        zernel.track(&Target::Process(other.pid()), Tracking::PLAIN)?;
        zernel.untrack(&Target::Process(other.pid()))?;
        longest = longest.max(began.elapsed());
    }
    println!("    # {}, the longest took {longest:?}", repeat.report());
    ensure!(
        longest < SOON / 4,
        "a call of another user took {longest:?}"
    );
    fs::write(group.path().join("cgroup.kill"), "1")?;
    drop((bomb, other));
    wait_count(&zernel, 0)?;
    wait_until("all are forgotten", || {
        let left = sums(&zernel, &group)?;
        Ok((left.processes, left.threads, zernel.processes().count()) == (0, 0, 0))
    })?;
    zernel.untrack(&group.target()?)?;
    check_eq!(zernel.stats()?.threads_missed, missed, "missed");
    wait_until("it can be removed", || {
        let procs = fs::read_to_string(group.path().join("cgroup.procs"))?;
        Ok(procs.is_empty())
    })?;
    group.remove()?;
    fs::write(format!("{ROOT}/cgroup.subtree_control"), "-pids")?;
    Ok(())
}

/// Makes processes that make processes, until it is killed.
fn explode() -> Result<()> {
    loop {
        match sys::fork() {
            Ok(_) => {}
            Err(_) => std::thread::sleep(Duration::from_millis(1)),
        }
        while let Ok(Some(_)) = rustix::process::wait(rustix::process::WaitOptions::NOHANG) {}
        if std::process::id() % 3 == 0 {
            sys::exit(0);
        }
    }
}

/// Nothing is lost from one cgroup to the next: an outer one has the times of its inner ones, to
/// the nanosecond, when all is over; and the times of LIST_PROCESSES lie between two looks.
pub(super) fn sums_are_exact() -> Outcome {
    let zernel = Zernel::open()?;
    let outer = Group::new("sum")?;
    let inner = [outer.below("a")?, outer.below("b")?, outer.below("c")?];
    for group in [&outer, &inner[0], &inner[1], &inner[2]] {
        zernel.track(&group.target()?, Tracking::ML)?;
    }
    let one = busy(3)?;
    inner[0].enter(one.pid())?;
    wait_recorded(&zernel, one.pid(), 3)?;
    let total = || -> Result<_> {
        let process = zernel
            .processes()
            .find(|p| p.as_ref().is_ok_and(|p| p.pid == one.pid()));
        let process = process.transpose()?;
        Ok(process.map(|process| process.phase_ns))
    };
    let mut last = sums(&zernel, &outer)?.phase_ns;
    for round in 0..30 {
        zernel.hint(
            &Target::Thread(one.pid()),
            Phase::ALL[round % 5],
            Duration::from_secs(1),
        )?;
        inner[round % 3].enter(one.pid())?;
        std::thread::sleep(Duration::from_millis(3));
        let before = sums(&zernel, &outer)?.phase_ns;
        let there = total()?.expect("it is listed");
        let after = sums(&zernel, &outer)?.phase_ns;
        for phase in Phase::ALL {
            let (least, most) = (before.of(phase), after.of(phase));
            ensure!(least >= last.of(phase), "{phase} of the cgroup decreased");
            ensure!(
                (least..=most).contains(&there.of(phase)),
                "{phase}: the process has {}, the cgroup {least} to {most}",
                there.of(phase)
            );
        }
        last = after;
    }
    // Some come and end, threads and processes.
    for number in 0..6 {
        let more = Child::session(|| {
            let threads: Vec<_> = (0..3)
                .map(|_| std::thread::spawn(|| std::thread::sleep(Duration::from_millis(4))))
                .collect();
            in_child(|| Ok(()))?;
            for thread in threads {
                thread.join().expect("a thread that sleeps");
            }
            Ok(())
        })?;
        inner[number % 3]
            .enter(more.pid())
            .or_else(|_| Ok::<_, anyhow::Error>(()))?;
        more.join()?;
    }
    drop(one);
    wait_count(&zernel, 0)?;
    wait_until("all are gone", || Ok(zernel.processes().count() == 0))?;
    let whole = sums(&zernel, &outer)?.phase_ns;
    let mut parts = libzernel::phase::Times::default();
    for group in &inner {
        parts = parts + sums(&zernel, group)?.phase_ns;
    }
    check_eq!(whole, parts, "the outer one, and the inner ones together");
    ensure!(
        whole.sum() > 0 && whole.of(Phase::GpuCompute) > 0,
        "{whole:?}"
    );
    for group in [&outer, &inner[0], &inner[1], &inner[2]] {
        zernel.untrack(&group.target()?)?;
        ensure!(listed(&zernel, group)?.is_none(), "still listed");
    }
    Ok(())
}
