// SPDX-License-Identifier: MIT OR Apache-2.0
//! The life and the reach of an assignment: fork, exec, exit, signals, passed files.

use std::fs;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::mpsc;
use std::time::Duration;

use anyhow::{anyhow, Context as _, Result};
use libzernel::{Source, Target, Zernel};
use rustix::io::Errno;
use testkit::passing;

use crate::abi::{count_tsgs, set_through};
use crate::cgroup::wait_moved;
use crate::check_eq;
use crate::child::{in_child, Child};
use crate::common::{
    in_force, level, refuses_class, slice_of, tid, wait_until, Lab, DRIVER_SLICE, SOON,
};
use crate::harness::{case, suite, Outcome, Suite};
use crate::permit::ALICE;
use crate::sys;

/// The suite.
pub const SUITE: Suite = suite(
    "target",
    &[
        case("processes_are_left_alone", processes_are_left_alone),
        case("exec_keeps_the_class", || exec(false)),
        case("exec_from_another_thread", || exec(true)),
        case("thread_exit_ends_its_class", thread_exit_ends_its_class),
        case("leader_exits_first", leader_exits_first),
        case("sigkill_ends_the_class", sigkill_ends_the_class),
        case("number_used_again", number_used_again),
        case("passed_zernel_file", passed_zernel_file),
        case("tsg_of_a_dead_process", tsg_of_a_dead_process),
    ],
);

/// Waits until there are so many assignments.
fn wait_assignments(lab: &Lab, count: u64) -> Result<()> {
    wait_until(&format!("{count} assignments"), || {
        Ok(lab.stats()?.classes == count)
    })
}

/// A child has no class of its parent's, and its own is not the parent's.
fn processes_are_left_alone() -> Outcome {
    let lab = Lab::open()?;
    lab.zernel.set_class(&Target::CurrentProcess, level(3))?;
    lab.zernel.set_class(&Target::CurrentThread, level(5))?;
    let (mine, my_tsg) = lab.compute()?;
    lab.wait_slice(&mine, slice_of(5))?;
    let changes = mine.stats()?.slice_changes;
    in_child(|| {
        let lab = Lab::open()?;
        for target in [Target::CurrentProcess, Target::CurrentThread] {
            let class = lab.zernel.class(&target)?;
            let own = (class.own.level, class.level.value);
            check_eq!(own, (None, None), "{target:?}");
        }
        let (context, tsg) = lab.compute()?;
        check_eq!((tsg.level, tsg.source), (None, Source::None));
        check_eq!(context.stats()?.timeslice_us, DRIVER_SLICE);
        lab.zernel.set_class(&Target::CurrentProcess, level(7))?;
        lab.wait_slice(&context, slice_of(7))?;
        check_eq!(lab.listed(my_tsg.id)?, (Some(5), Source::Thread));
        Ok(())
    })?;
    wait_assignments(&lab, 2)?;
    check_eq!(mine.stats()?.slice_changes, changes);
    Ok(())
}

/// A process that runs another program stays what it was. A thread that does so takes over the
/// leader's number, which never had a class.
fn exec(from_another_thread: bool) -> Outcome {
    let lab = Lab::open()?;
    let child = Child::spawn(|| {
        let zernel = Zernel::open()?;
        zernel.set_class(&Target::CurrentProcess, level(7))?;
        if !from_another_thread {
            return Ok(sys::exec_sleep()?);
        }
        let thread = std::thread::spawn(move || -> Result<()> {
            zernel.set_class(&Target::CurrentThread, level(3))?;
            Ok(sys::exec_sleep()?)
        });
        thread.join().map_err(|_| anyhow!("the thread panicked"))?
    })?;
    let pid = child.pid();
    wait_until("the child runs another program", || {
        Ok(fs::read_to_string(format!("/proc/{pid}/comm"))? == "sleep\n")
    })?;
    let class = lab.zernel.class(&Target::Process(pid))?;
    check_eq!(class.own.level, Some(level(7)));
    check_eq!(in_force(&class), (Some(7), Source::Process));
    // The thread has no number of its own any more, so its assignment has ended.
    wait_assignments(&lab, 1)?;
    let class = lab.zernel.class(&Target::Thread(pid))?;
    check_eq!((class.own.level, class.level.value), (None, Some(level(7))));
    child.kill()?;
    wait_assignments(&lab, 0)
}

fn thread_exit_ends_its_class() -> Outcome {
    let lab = Lab::open()?;
    let expired = lab.stats()?.classes_expired;
    let (mine, my_tsg) = lab.compute()?;
    let (send, receive) = mpsc::channel();
    let (quit, wait) = mpsc::channel::<()>();
    let thread = std::thread::spawn(move || -> Result<()> {
        // The class outlives the file that it was set through.
        Zernel::open()?.set_class(&Target::CurrentThread, level(2))?;
        send.send((tid(), Lab::open()?.compute()?))?;
        // Ends when the other side is dropped.
        let _ = wait.recv();
        Ok(())
    });
    let (tid, (context, tsg)) = receive.recv()?;
    check_eq!((tsg.tid, tsg.pid), (tid, my_tsg.pid));
    lab.wait_slice(&context, slice_of(2))?;
    // It is not its process.
    check_eq!(lab.tsg(my_tsg.id)?.level, None);
    check_eq!(mine.stats()?.slice_changes, 0);
    lab.zernel.set_class(&Target::CurrentProcess, level(7))?;
    lab.wait_slice(&mine, slice_of(7))?;
    check_eq!(context.stats()?.timeslice_us, slice_of(2));
    let class = lab.zernel.class(&Target::CurrentThread)?;
    check_eq!(class.level.source, Source::Process);
    // A thread that leads no process is no process.
    refuses_class(&lab, &Target::Process(tid), Errno::SRCH)?;
    check_eq!(lab.stats()?.classes_expired, expired);
    drop(quit);
    thread
        .join()
        .map_err(|_| anyhow!("the thread panicked"))??;
    // The file and its TSG live on without the thread.
    lab.wait_slice(&context, slice_of(7))?;
    check_eq!(lab.listed(tsg.id)?, (Some(7), Source::Process));
    wait_assignments(&lab, 1)?;
    check_eq!(lab.stats()?.classes_expired, expired + 1);
    refuses_class(&lab, &Target::Thread(tid), Errno::SRCH)
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
        let status = fs::read_to_string(format!("/proc/{}/stat", child.pid()))?;
        Ok(status.contains(") Z "))
    })?;
    wait_until("the other thread has a TSG", || Ok(lab.stats()?.tsgs == 1))?;
    let class = lab.zernel.class(&process)?;
    check_eq!(class.own.level, Some(level(7)));
    let tsg = lab.zernel.tsgs().next().context("no TSG")??;
    check_eq!((tsg.pid, tsg.tid == tsg.pid), (child.pid(), false));
    check_eq!(lab.listed(tsg.id)?, (Some(7), Source::Process));
    // It can still be given another one.
    lab.zernel.set_class(&process, level(3))?;
    check_eq!(lab.tsg(tsg.id)?.level, Some(level(3)));
    check_eq!(lab.stats()?.classes_expired, expired, "the process lives");
    child.kill()?;
    wait_assignments(&lab, 0)
}

/// Nor does a zombie have one, or a process that was reaped.
fn sigkill_ends_the_class() -> Outcome {
    let lab = Lab::open()?;
    let child = Child::idle(|| Ok(()))?;
    let (process, thread) = (Target::Process(child.pid()), Target::Thread(child.pid()));
    let targets = [Target::pidfd(child.pid())?, process, thread];
    for (target, number) in targets.iter().zip([5, 7, 6]) {
        lab.zernel.set_class(target, level(number))?;
    }
    let before = lab.stats()?;
    check_eq!(before.classes, 2);
    child.kill()?;
    child.wait_ended(SOON)?;
    // It is a zombie until it is joined; the classes end without that.
    wait_assignments(&lab, 0)?;
    let after = lab.stats()?;
    check_eq!(after.classes_expired, before.classes_expired + 2);
    check_eq!(after.classes_cleared, before.classes_cleared);
    for target in &targets {
        refuses_class(&lab, target, Errno::SRCH).context("a zombie")?;
    }
    child.end()?;
    for target in &targets {
        refuses_class(&lab, target, Errno::SRCH).context("a reaped process")?;
    }
    Ok(())
}

/// A process that gets the number of one that had a class.
fn number_used_again() -> Outcome {
    let lab = Lab::open()?;
    let first = Child::idle(|| Ok(()))?;
    let targets = [Target::Process(first.pid()), Target::Thread(first.pid())];
    for target in &targets {
        lab.zernel.set_class(target, level(7))?;
    }
    let pid = first.pid();
    drop(first);
    let _second = Child::numbered(pid)?;
    for target in &targets {
        let class = lab.zernel.class(target)?;
        let own = (class.own.level, class.level.value);
        check_eq!(own, (None, None), "{target:?}");
    }
    wait_assignments(&lab, 0)
}

/// A file that root opened gives its new holder nothing: calls count by the caller.
fn passed_zernel_file() -> Outcome {
    let lab = Lab::open()?;
    let (_context, tsg) = lab.compute()?;
    let (ours, theirs) = passing::pair()?;
    passing::send(&ours, lab.zernel.as_fd())?;
    let parent = Target::Process(std::process::id());
    in_child(|| {
        let fd = passing::receive(&theirs)?;
        sys::become_user(ALICE, ALICE, &[])?;
        let path = format!("/proc/self/fd/{}", fd.as_raw_fd());
        check_eq!(fs::read_link(path)?.to_str(), Some(Zernel::PATH));
        check_eq!(count_tsgs(fd.as_fd())?, 0, "root's TSG is not to be seen");
        for (target, number, expected) in [
            (&Target::Tsg(tsg.id), 7, Err(Errno::NOENT)),
            (&parent, 7, Err(Errno::PERM)),
            (&Target::CurrentProcess, 0, Err(Errno::PERM)),
            (&Target::CurrentProcess, 7, Ok(())),
        ] {
            let answer = set_through(fd.as_fd(), target, number);
            check_eq!(answer, expected, "{target:?} to level {number}");
        }
        Ok(())
    })?;
    check_eq!(lab.zernel.class(&parent)?.own.level, None);
    Ok(())
}

/// A process hands its open software GPU to another one and dies: what is left of its class is
/// what the TSG's cgroup gives, here nothing.
fn tsg_of_a_dead_process() -> Outcome {
    let lab = Lab::open()?;
    let (ours, theirs) = passing::pair()?;
    let child = Child::spawn(|| {
        let lab = Lab::open()?;
        let (context, _) = lab.compute()?;
        lab.zernel.set_class(&Target::CurrentProcess, level(7))?;
        lab.wait_slice(&context, slice_of(7))?;
        passing::send(&theirs, lab.sim.as_fd())?;
        std::thread::sleep(Duration::from_secs(600));
        Ok(())
    })?;
    let _file = passing::receive(&ours)?;
    let tsg = lab.zernel.tsgs().next().context("no TSG")??;
    check_eq!((tsg.level, tsg.source), (Some(level(7)), Source::Process));
    child.kill()?;
    drop(child);
    wait_assignments(&lab, 0)?;
    wait_moved(&lab, tsg.id, tsg.cgroup, None)?;
    // It can still be named itself.
    lab.zernel.set_class(&Target::Tsg(tsg.id), level(5))?;
    wait_moved(&lab, tsg.id, tsg.cgroup, Some(5))
}
