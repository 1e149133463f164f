// SPDX-License-Identifier: GPL-2.0
//! The life and the reach of an assignment: fork, exec, exit, signals, passed files.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::mpsc;
use std::time::Duration;

use anyhow::{anyhow, Context as _, Result};
use libzernel::sim::{Context, ContextSpec, Sim};
use libzernel::{Source, Target, Zernel};
use rustix::io::Errno;

use crate::check_eq;
use crate::child::{in_child, Child};
use crate::common::{errno, level, slice_of, tid, wait_until, Lab};
use crate::harness::{case, suite, Outcome, Suite};
use crate::socket::Pair;
use crate::sys;

/// The suite.
pub const SUITE: Suite = suite(
    "target",
    &[
        case("child_is_not_classed", child_is_not_classed),
        case("exec_keeps_the_class", exec_keeps_the_class),
        case("exec_from_another_thread", exec_from_another_thread),
        case("thread_exit_ends_its_class", thread_exit_ends_its_class),
        case("leader_exits_first", leader_exits_first),
        case("sigkill_ends_the_class", sigkill_ends_the_class),
        case("zombie_has_no_class", zombie_has_no_class),
        case("number_used_again", number_used_again),
        case("class_outlives_its_file", class_outlives_its_file),
        case("passed_zernel_file", passed_zernel_file),
        case("tsg_of_a_dead_process", tsg_of_a_dead_process),
        case("tsg_class_ends_with_the_tsg", tsg_class_ends_with_the_tsg),
        case("contexts_die_with_a_killed_owner", contexts_die_with_owner),
    ],
);

/// Waits until there are so many assignments.
fn wait_assignments(lab: &Lab, count: u32) -> Result<()> {
    wait_until(&format!("{count} assignments"), || {
        Ok(lab.stats()?.classes == u64::from(count))
    })
}

/// A child that lives until it is killed.
fn sleeper() -> Result<Child> {
    Child::spawn(|| {
        std::thread::sleep(Duration::from_secs(600));
        Ok(())
    })
}

fn child_is_not_classed() -> Outcome {
    let lab = Lab::open()?;
    lab.zernel.set_class(&Target::CurrentProcess, level(7))?;
    lab.zernel.set_class(&Target::CurrentThread, level(5))?;
    in_child(|| {
        let lab = Lab::open()?;
        for target in [Target::CurrentProcess, Target::CurrentThread] {
            let class = lab.zernel.class(&target)?;
            check_eq!(
                (class.own.level, class.level.value),
                (None, None),
                "{target:?}"
            );
        }
        let (context, tsg) = lab.compute()?;
        check_eq!((tsg.level, tsg.source), (None, Source::None));
        check_eq!(context.stats()?.timeslice_us, 1024);
        Ok(())
    })?;
    check_eq!(lab.stats()?.classes, 2, "the parent keeps its own");
    Ok(())
}

/// Gives this process a class and runs the shell instead of this program; says whether the class
/// is there, from outside.
fn exec_keeps_the_class() -> Outcome {
    let lab = Lab::open()?;
    let child = Child::spawn(|| {
        Zernel::open()?.set_class(&Target::CurrentProcess, level(7))?;
        sys::exec_sleep()?;
        Ok(())
    })?;
    let executed = Target::Process(child.pid());
    wait_until("the child runs another program", || {
        let name = std::fs::read_to_string(format!("/proc/{}/comm", child.pid()))?;
        Ok(name.trim_end() == "sleep")
    })?;
    let class = lab.zernel.class(&executed)?;
    check_eq!(
        (class.own.level, class.level.source),
        (Some(level(7)), Source::Process)
    );
    check_eq!(lab.stats()?.classes, 1);
    child.kill()?;
    wait_assignments(&lab, 0)
}

/// Another thread takes over the leader's number; the process stays what it was.
fn exec_from_another_thread() -> Outcome {
    let lab = Lab::open()?;
    let child = Child::spawn(|| {
        let zernel = Zernel::open()?;
        zernel.set_class(&Target::CurrentProcess, level(7))?;
        let thread = std::thread::spawn(move || -> Result<()> {
            zernel.set_class(&Target::CurrentThread, level(3))?;
            sys::exec_sleep()?;
            Ok(())
        });
        thread.join().map_err(|_| anyhow!("the thread panicked"))?
    })?;
    wait_until("the child runs another program", || {
        let name = std::fs::read_to_string(format!("/proc/{}/comm", child.pid()))?;
        Ok(name.trim_end() == "sleep")
    })?;
    let class = lab.zernel.class(&Target::Process(child.pid()))?;
    check_eq!(
        (class.own.level, class.level.source),
        (Some(level(7)), Source::Process)
    );
    // The thread has no number of its own any more, so its assignment has ended; the leader's
    // number never had one.
    wait_assignments(&lab, 1)?;
    let class = lab.zernel.class(&Target::Thread(child.pid()))?;
    check_eq!((class.own.level, class.level.value), (None, Some(level(7))));
    child.kill()?;
    wait_assignments(&lab, 0)
}

fn thread_exit_ends_its_class() -> Outcome {
    let lab = Lab::open()?;
    let (send, receive) = mpsc::channel();
    let (quit, wait) = mpsc::channel::<()>();
    let thread = std::thread::spawn(move || -> Result<()> {
        let lab = Lab::open()?;
        lab.zernel.set_class(&Target::CurrentThread, level(2))?;
        let (context, tsg) = lab.compute()?;
        send.send((tid(), context, tsg))?;
        // Ends when the other side is dropped.
        let _ = wait.recv();
        Ok(())
    });
    let (tid, context, tsg) = receive.recv()?;
    lab.wait_slice(&context, slice_of(2))?;
    let expired = lab.stats()?.classes_expired;
    drop(quit);
    thread
        .join()
        .map_err(|_| anyhow!("the thread panicked"))??;
    // The file and its TSG live on without the thread.
    lab.wait_slice(&context, 1024)?;
    let listed = lab.tsg(tsg.id)?;
    check_eq!((listed.level, listed.source), (None, Source::None));
    wait_assignments(&lab, 0)?;
    check_eq!(lab.stats()?.classes_expired, expired + 1);
    let answer = errno(lab.zernel.class(&Target::Thread(tid)));
    check_eq!(answer, Some(Errno::SRCH));
    Ok(())
}

fn leader_exits_first() -> Outcome {
    let lab = Lab::open()?;
    let expired = lab.stats()?.classes_expired;
    let child = Child::spawn(|| {
        let lab = Lab::open()?;
        lab.zernel.set_class(&Target::CurrentProcess, level(7))?;
        std::thread::spawn(move || {
            let _context = lab.compute();
            std::thread::sleep(Duration::from_secs(600));
        });
        sys::exit_thread()
    })?;
    let process = Target::Process(child.pid());
    wait_until("the leader is a zombie", || {
        let status = std::fs::read_to_string(format!("/proc/{}/stat", child.pid()))?;
        Ok(status.contains(") Z "))
    })?;
    wait_until("the other thread has a TSG", || Ok(lab.stats()?.tsgs == 1))?;
    let class = lab.zernel.class(&process)?;
    check_eq!(
        (class.own.level, class.level.source),
        (Some(level(7)), Source::Process)
    );
    let tsg = lab.zernel.tsgs().next().context("no TSG")??;
    check_eq!((tsg.level, tsg.pid), (Some(level(7)), child.pid()));
    check_eq!(tsg.tid == tsg.pid, false);
    // It can still be given another one.
    lab.zernel.set_class(&process, level(3))?;
    check_eq!(lab.tsg(tsg.id)?.level, Some(level(3)));
    check_eq!(lab.stats()?.classes_expired, expired, "the process lives");
    child.kill()?;
    wait_assignments(&lab, 0)
}

fn sigkill_ends_the_class() -> Outcome {
    let lab = Lab::open()?;
    let child = sleeper()?;
    lab.zernel
        .set_class(&Target::Process(child.pid()), level(7))?;
    lab.zernel
        .set_class(&Target::Thread(child.pid()), level(6))?;
    let before = lab.stats()?;
    check_eq!(before.classes, 2);
    child.kill()?;
    wait_assignments(&lab, 0)?;
    let after = lab.stats()?;
    check_eq!(after.classes_expired, before.classes_expired + 2);
    check_eq!(after.classes_cleared, before.classes_cleared);
    Ok(())
}

fn zombie_has_no_class() -> Outcome {
    let lab = Lab::open()?;
    let child = sleeper()?;
    let pidfd = Target::pidfd(child.pid())?;
    lab.zernel.set_class(&pidfd, level(7))?;
    child.kill()?;
    child.wait_ended(crate::common::SOON)?;
    // It is a zombie until it is joined; the class ends without that.
    wait_assignments(&lab, 0)?;
    for target in [&pidfd, &Target::Process(child.pid())] {
        let answer = errno(lab.zernel.set_class(target, level(7)));
        check_eq!(answer, Some(Errno::SRCH), "{target:?}");
    }
    drop(child);
    Ok(())
}

/// A process that gets the number of one that had a class.
fn number_used_again() -> Outcome {
    let lab = Lab::open()?;
    let first = sleeper()?;
    let pid = first.pid();
    lab.zernel.set_class(&Target::Process(pid), level(7))?;
    lab.zernel.set_class(&Target::Thread(pid), level(7))?;
    drop(first);
    let _second = Child::numbered(pid)?;
    for target in [Target::Process(pid), Target::Thread(pid)] {
        let class = lab.zernel.class(&target)?;
        check_eq!(
            (class.own.level, class.level.value),
            (None, None),
            "{target:?}"
        );
    }
    wait_assignments(&lab, 0)
}

fn class_outlives_its_file() -> Outcome {
    let lab = Lab::open()?;
    let (context, tsg) = lab.compute()?;
    let other = Zernel::open()?;
    other.set_class(&Target::CurrentProcess, level(7))?;
    other.set_class(&Target::Tsg(tsg.id), level(3))?;
    drop(other);
    lab.wait_slice(&context, slice_of(3))?;
    check_eq!(
        lab.zernel.class(&Target::CurrentProcess)?.own.level,
        Some(level(7))
    );
    check_eq!(lab.stats()?.classes, 2);
    lab.zernel.clear_class(&Target::Tsg(tsg.id))?;
    lab.wait_slice(&context, slice_of(7))
}

/// A file that root opened gives its new holder nothing: calls count by the caller.
fn passed_zernel_file() -> Outcome {
    let lab = Lab::open()?;
    let (_context, tsg) = lab.compute()?;
    let pair = Pair::new()?;
    pair.send(lab.zernel.as_fd())?;
    let theirs = Target::Process(std::process::id());
    in_child(|| {
        let fd: OwnedFd = pair.receive()?;
        sys::become_user(1000, 1000, &[])?;
        let path = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&fd));
        check_eq!(std::fs::read_link(path)?.to_str(), Some(Zernel::PATH));
        let tsgs = crate::abi::count_tsgs(fd.as_fd())?;
        check_eq!(tsgs, 0, "root's TSG is not to be seen");
        for (target, expected) in [(&Target::Tsg(tsg.id), Errno::NOENT), (&theirs, Errno::PERM)] {
            let answer = crate::abi::set_through(fd.as_fd(), target, 7);
            check_eq!(answer, Err(expected), "{target:?}");
        }
        let answer = crate::abi::set_through(fd.as_fd(), &Target::CurrentProcess, 0);
        check_eq!(answer, Err(Errno::PERM), "raising oneself");
        let answer = crate::abi::set_through(fd.as_fd(), &Target::CurrentProcess, 7);
        check_eq!(answer, Ok(()), "lowering oneself");
        Ok(())
    })?;
    check_eq!(lab.zernel.class(&theirs)?.own.level, None);
    Ok(())
}

/// A process hands its open software GPU to another one and dies: what is left of its class is
/// what the TSG's cgroup gives, here nothing.
fn tsg_of_a_dead_process() -> Outcome {
    let lab = Lab::open()?;
    let pair = Pair::new()?;
    let child = Child::spawn(|| {
        let lab = Lab::open()?;
        let (context, _) = lab.compute()?;
        lab.zernel.set_class(&Target::CurrentProcess, level(7))?;
        lab.wait_slice(&context, slice_of(7))?;
        pair.send(lab.sim.as_fd())?;
        std::thread::sleep(Duration::from_secs(600));
        Ok(())
    })?;
    let _file = pair.receive()?;
    let tsg = lab.zernel.tsgs().next().context("no TSG")??;
    check_eq!((tsg.level, tsg.source), (Some(level(7)), Source::Process));
    child.kill()?;
    drop(child);
    wait_assignments(&lab, 0)?;
    wait_until("the TSG has its own slice back", || {
        let tsg = lab.tsg(tsg.id)?;
        Ok((tsg.level, tsg.timeslice_us) == (None, 1024) && !tsg.pending)
    })?;
    // It can still be named itself.
    lab.zernel.set_class(&Target::Tsg(tsg.id), level(5))?;
    wait_until("it has the slice of level 5", || {
        Ok(lab.tsg(tsg.id)?.timeslice_us == slice_of(5))
    })
}

fn tsg_class_ends_with_the_tsg() -> Outcome {
    let lab = Lab::open()?;
    let (context, tsg) = lab.compute()?;
    lab.zernel.set_class(&Target::Tsg(tsg.id), level(7))?;
    let before = lab.stats()?;
    drop(context);
    wait_assignments(&lab, 0)?;
    let after = lab.stats()?;
    check_eq!(after.tsgs_removed, before.tsgs_removed + 1);
    check_eq!(after.classes_expired, before.classes_expired + 1);
    Ok(())
}

fn contexts_die_with_owner() -> Outcome {
    let lab = Lab::open()?;
    let child = Child::spawn(|| {
        let sim = Sim::open()?;
        let _contexts: Vec<Context> = (0..50)
            .map(|_| sim.create_context(&ContextSpec::compute("mine")))
            .collect::<Result<_, _>>()?;
        std::thread::sleep(Duration::from_secs(600));
        Ok(())
    })?;
    wait_until("50 TSGs", || Ok(lab.stats()?.tsgs == 50))?;
    lab.zernel
        .set_class(&Target::Process(child.pid()), level(7))?;
    let before = lab.stats()?;
    child.kill()?;
    drop(child);
    wait_until("no TSG is left", || Ok(lab.stats()?.tsgs == 0))?;
    wait_assignments(&lab, 0)?;
    check_eq!(lab.stats()?.tsgs_removed, before.tsgs_removed + 50);
    Ok(())
}
