// SPDX-License-Identifier: MIT OR Apache-2.0
//! Threads and processes that come and go, move, stop, are traced and become other programs while they
//! are tracked; and that no time is lost.

use std::collections::BTreeSet;
use std::fs;
use std::time::{Duration, Instant};

use anyhow::{ensure, Context as _, Result};
use libzernel::{Phase, Target, Tracking, Zernel};
use rustix::process::{wait, Signal, WaitOptions};
use testkit::random::Random;
use testkit::Repeat;

use super::cgroups::{sums, wait_counts};
use super::limited::CONTROL;
use super::{busy, find, rest, threads_of, wait_count, wait_recorded};
use crate::child::{in_child, Child};
use crate::common::{wait_until, SOON};
use crate::group::Group;
use crate::harness::Outcome;
use crate::{check_eq, sys};

/// A tracked process does `round` again and again, and ends: nobody was missed, and nothing is left.
fn repeats(tracking: Tracking, mut repeat: Repeat, round: impl Fn() -> Outcome) -> Outcome {
    let zernel = Zernel::open()?;
    let missed = zernel.stats()?.threads_missed;
    let child = Child::spawn(|| {
        let zernel = Zernel::open()?;
        zernel.track(&Target::current_process(), tracking)?;
        while repeat.next().is_some() {
            round()?;
        }
        println!("    # {}: {tracking:?}", repeat.report());
        wait_recorded(&zernel, std::process::id(), 1)?;
        Ok(())
    })?;
    child.join_within(Duration::from_secs(3_600))?;
    wait_count(&zernel, 0)?;
    check_eq!(zernel.phases().count(), 0, "{tracking:?}");
    check_eq!(zernel.stats()?.threads_missed, missed);
    Ok(())
}

/// 100,000 threads that end as soon as they begin, of a process that is tracked.
pub(super) fn short_lived() -> Outcome {
    let repeat = Repeat::new(5_000, "times 20 threads that end at once");
    repeats(Tracking::CHILDREN, repeat, || {
        std::thread::scope(|scope| {
            for _ in 0..20 {
                scope.spawn(|| ());
            }
        });
        Ok(())
    })
}

/// Processes that become other programs, and their children do.
pub(super) fn exec_storm() -> Outcome {
    for tracking in [Tracking::CHILDREN, Tracking::ML_CHILDREN] {
        repeats(tracking, Repeat::new(150, "programs"), || {
            let mut shell = std::process::Command::new("/bin/sh");
            let status = shell.args(["-c", "/bin/true; exec /bin/true"]).status()?;
            ensure!(status.success(), "{status}");
            Ok(())
        })?;
    }
    Ok(())
}

/// A process is tracked, and not any more, while it makes threads and processes: none is left out
/// when it is tracked at the end, and none left over when it is not.
pub(super) fn on_and_off() -> Outcome {
    let zernel = Zernel::open()?;
    let child = Child::session(|| {
        for _ in 0..2 {
            std::thread::spawn(|| loop {
                let brief = std::thread::spawn(std::thread::yield_now);
                brief.join().expect("a thread that ends");
            });
        }
        loop {
            in_child(|| Ok(()))?;
        }
    })?;
    let target = Target::Process(child.pid());
    let mut repeat = Repeat::new(400, "times on and off");
    for round in &mut repeat {
        let ways = [Tracking::PLAIN, Tracking::CHILDREN];
        zernel.track(&target, ways[round as usize % 2])?;
        zernel.untrack(&target)?;
    }
    println!("    # {}", repeat.report());
    zernel.track(&target, Tracking::PLAIN)?;
    // The three that make others are there all the time.
    wait_until("all that stay are recorded", || {
        let threads = threads_of(&zernel, child.pid())?;
        let tasks = fs::read_dir(format!("/proc/{}/task", child.pid()))?;
        let tids = tasks.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
        let stay: Vec<u32> = tids.collect();
        let known = threads.iter().filter(|thread| stay.contains(&thread.tid));
        let known = known.count();
        Ok(known >= 3 && known + 2 >= stay.len())
    })?;
    drop(child);
    wait_count(&zernel, 0)
}

/// Stopped, traced and continued, again and again.
pub(super) fn stop_and_trace() -> Outcome {
    let zernel = Zernel::open()?;
    let child = busy(1)?;
    let target = Target::Process(child.pid());
    for round in 0..60 {
        // Each with all that differs from round to round below.
        let tracking = [Tracking::PLAIN, Tracking::ML_CHILDREN][round / 6 % 2];
        child.signal(Signal::STOP)?;
        zernel.track(&target, tracking)?;
        child.signal(Signal::CONT)?;
        wait_recorded(&zernel, child.pid(), 1)?;
        if round % 3 == 0 {
            sys::trace_for_a_moment(child.pid())?;
        }
        child.signal(Signal::STOP)?;
        zernel.untrack(&target)?;
        if round % 2 == 0 {
            // Asked for again while it is stopped with the old one.
            zernel.track(&target, tracking)?;
            zernel.untrack(&target)?;
        }
        child.signal(Signal::CONT)?;
    }
    check_eq!(zernel.stats()?.threads, 0);
    zernel.track(&target, Tracking::ML_CHILDREN)?;
    child.signal(Signal::STOP)?;
    child.kill()?;
    drop(child);
    wait_count(&zernel, 0)
}

/// Processes that fork and are moved in and out all the time: in the end exactly those inside are
/// tracked.
pub(super) fn storm() -> Outcome {
    let zernel = Zernel::open()?;
    let (inside, outside) = (Group::new("inside")?, Group::new("outside")?);
    let below = inside.below("below")?;
    zernel.track(&inside.target()?, Tracking::ML)?;
    let maker = || -> Outcome {
        std::thread::spawn(|| rest());
        loop {
            in_child(|| {
                std::thread::sleep(Duration::from_millis(3));
                Ok(())
            })?;
        }
    };
    let makers = [(); 3].map(|()| Child::session(maker));
    let makers = makers.into_iter().collect::<Result<Vec<_>>>()?;
    let groups = [&inside, &outside, &below];
    let mut random = Random::new(0x5701);
    let mut repeat = Repeat::new(90, "moves");
    while repeat.next().is_some() {
        let who = &makers[random.below(3) as usize];
        groups[random.below(3) as usize].enter(who.pid())?;
        if random.one_in(4) {
            std::thread::sleep(Duration::from_millis(random.below(6)));
        }
    }
    println!("    # {}", repeat.report());
    // From now on nobody makes others, so that it can be compared.
    for maker in &makers {
        maker.signal(Signal::STOP)?;
    }
    let mut told = String::new();
    wait_until("exactly those inside are tracked", || {
        let mut there = BTreeSet::new();
        for group in [&inside, &below] {
            for line in fs::read_to_string(group.path().join("cgroup.procs"))?.lines() {
                there.insert(line.parse::<u32>()?);
            }
        }
        let tracked = zernel.threads().map(|thread| Ok(thread?.pid));
        let tracked = tracked.collect::<Result<BTreeSet<_>>>()?;
        told = format!("inside {there:?}, tracked {tracked:?}");
        Ok(there == tracked)
    })
    .with_context(|| told)?;
    drop(makers);
    wait_count(&zernel, 0)?;
    check_eq!(zernel.untrack(&inside.target()?)?, 0);
    Ok(())
}

/// As many processes as there may be, each of which makes others as fast as it can, while one user
/// tracks and untracks: its calls are over soon, and nothing is left when all have been killed.
pub(super) fn fork_bomb() -> Outcome {
    const MOST: u32 = 40;
    fs::write(CONTROL, "+pids")?;
    let zernel = Zernel::open()?;
    let missed = zernel.stats()?.threads_missed;
    let group = Group::new("bomb")?;
    fs::write(group.path().join("pids.max"), MOST.to_string())?;
    zernel.track(&group.target()?, Tracking::ML)?;
    let bomb = Child::session(|| {
        group.enter(0)?;
        // By name, too.
        Zernel::open()?.track(&Target::current_process(), Tracking::CHILDREN)?;
        loop {
            if sys::fork().is_err() {
                std::thread::sleep(Duration::from_millis(1));
            }
            while let Ok(Some(_)) = wait(WaitOptions::NOHANG) {}
            if std::process::id() % 3 == 0 {
                sys::exit(0);
            }
        }
    })?;
    wait_until("there are as many as may be", || {
        let now = fs::read_to_string(group.path().join("pids.current"))?;
        Ok(now.trim().parse::<u32>()? >= MOST / 2 && zernel.stats()?.threads >= 5)
    })?;
    let other = busy(2)?;
    let target = Target::Process(other.pid());
    let mut longest = Duration::ZERO;
    let mut repeat = Repeat::new(20, "calls of others");
    while repeat.next().is_some() {
        let began = Instant::now();
        zernel.track(&target, Tracking::PLAIN)?;
        zernel.untrack(&target)?;
        longest = longest.max(began.elapsed());
    }
    println!("    # {}, the longest took {longest:?}", repeat.report());
    ensure!(longest < SOON / 4, "a call of another took {longest:?}");
    fs::write(group.path().join("cgroup.kill"), "1")?;
    drop((bomb, other));
    wait_count(&zernel, 0)?;
    wait_counts(&zernel, &group, (0, 0))?;
    wait_until("all are gone", || Ok(zernel.processes().count() == 0))?;
    zernel.untrack(&group.target()?)?;
    check_eq!(zernel.stats()?.threads_missed, missed, "missed");
    group.remove()?;
    fs::write(CONTROL, "-pids")?;
    Ok(())
}

/// Nothing is lost from one cgroup to the next: an outer one has the times of its inner ones, to
/// the nanosecond, when all is over; and the times of LIST_PROCESSES lie between two looks.
pub(super) fn sums_are_exact() -> Outcome {
    let zernel = Zernel::open()?;
    let outer = Group::new("sum")?;
    let inner = [outer.below("a")?, outer.below("b")?, outer.below("c")?];
    let all = || inner.iter().chain([&outer]);
    for group in all() {
        zernel.track(&group.target()?, Tracking::ML)?;
    }
    let times = |group| Ok::<_, anyhow::Error>(sums(&zernel, group)?.phase_ns);
    let one = busy(3)?;
    inner[0].enter(one.pid())?;
    wait_recorded(&zernel, one.pid(), 3)?;
    let thread = Target::Thread(one.pid());
    let mut last = times(&outer)?;
    for round in 0..30 {
        zernel.hint(&thread, Phase::ALL[round % 5], Duration::from_secs(1))?;
        inner[round % 3].enter(one.pid())?;
        std::thread::sleep(Duration::from_millis(3));
        let before = times(&outer)?;
        let process = find(zernel.processes(), |p| p.pid == one.pid())?;
        let there = process.context("it is not listed")?.phase_ns;
        let after = times(&outer)?;
        for phase in Phase::ALL {
            let (least, is, most) = (before.of(phase), there.of(phase), after.of(phase));
            ensure!(least >= last.of(phase), "{phase} of the cgroup decreased");
            let within = (least..=most).contains(&is);
            ensure!(within, "{phase}: {is} of {least} to {most} of the cgroup");
        }
        last = after;
    }
    // Others come and end.
    for group in &inner {
        let more = busy(2)?;
        group.enter(more.pid())?;
        wait_recorded(&zernel, more.pid(), 2)?;
    }
    drop(one);
    wait_count(&zernel, 0)?;
    wait_until("all are gone", || Ok(zernel.processes().count() == 0))?;
    let whole = times(&outer)?;
    let parts = (times(&inner[0])? + times(&inner[1])?) + times(&inner[2])?;
    check_eq!(whole, parts, "the outer one, and the inner ones together");
    ensure!(whole.of(Phase::GpuCompute) > 0, "{whole:?}");
    for group in all() {
        zernel.untrack(&group.target()?)?;
        ensure!(sums(&zernel, group).is_err(), "still listed");
    }
    Ok(())
}
