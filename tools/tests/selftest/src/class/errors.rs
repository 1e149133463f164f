// SPDX-License-Identifier: GPL-2.0
//! Targets that have no class, are gone or are none.

use std::fs::File;
use std::sync::mpsc;

use anyhow::anyhow;
use libzernel::{tsg, Target};
use rustix::io::Errno;

use super::targets;
use crate::check_eq;
use crate::child::Child;
use crate::common::{self, errno, level, tid, tune, Lab};
use crate::group::Group;
use crate::harness::Outcome;

pub fn nothing_to_clear() -> Outcome {
    let lab = Lab::open()?;
    let group = Group::new("nothing")?;
    group.enter(0)?;
    let (_context, tsg) = lab.compute()?;
    tune("default_class", 7)?;
    let before = lab.stats()?;
    for (name, target, _) in targets(tsg.id, &group)? {
        let answer = errno(lab.zernel.clear_class(&target));
        check_eq!(answer, Some(Errno::NODATA), "{name}");
    }
    // A class in force from elsewhere is not the target's own.
    lab.zernel.set_class(&group.target()?, level(3))?;
    for target in [
        Target::Tsg(tsg.id),
        Target::CurrentThread,
        Target::CurrentProcess,
    ] {
        let answer = errno(lab.zernel.clear_class(&target));
        check_eq!(answer, Some(Errno::NODATA), "{target:?}");
    }
    check_eq!(lab.stats()?.classes_cleared, before.classes_cleared);
    check_eq!(lab.stats()?.denied, before.denied);
    Ok(())
}

/// Fails unless set, get and clear of `target` all answer `expected` and change nothing.
fn all_fail(lab: &Lab, target: &Target, expected: Errno, what: &str) -> Outcome {
    crate::abi::unchanged(&lab.zernel, || {
        let set = errno(lab.zernel.set_class(target, level(7)));
        let get = errno(lab.zernel.class(target));
        let clear = errno(lab.zernel.clear_class(target));
        check_eq!([set, get, clear], [Some(expected); 3], "{what}");
        Ok(())
    })
}

pub fn no_such_tsg() -> Outcome {
    let lab = Lab::open()?;
    let (context, tsg) = lab.compute()?;
    let gpu = tsg.gpu.as_u64();
    lab.zernel.set_class(&Target::Tsg(tsg.id), level(7))?;
    drop(context);
    common::wait_until("the TSG is gone", || Ok(lab.stats()?.tsgs == 0))?;
    check_eq!(lab.stats()?.classes, 0);
    let (_context, other) = lab.compute()?;
    let stale = tsg.id.as_u64();
    for id in [
        0,
        1,
        stale,
        stale - 1,
        other.id.as_u64() + 1,
        gpu,
        u64::MAX,
        1 << 63,
    ] {
        let target = Target::Tsg(tsg::Id::new(id));
        all_fail(&lab, &target, Errno::NOENT, &format!("TSG {id}"))?;
    }
    Ok(())
}

pub fn no_such_task() -> Outcome {
    let lab = Lab::open()?;
    let child = Child::spawn(|| Ok(()))?;
    let (pid, pidfd) = (child.pid(), Target::pidfd(child.pid())?);
    child.wait_ended(common::SOON)?;
    // A zombie has exited.
    all_fail(&lab, &Target::Process(pid), Errno::SRCH, "a zombie")?;
    all_fail(&lab, &Target::Thread(pid), Errno::SRCH, "a zombie thread")?;
    all_fail(&lab, &pidfd, Errno::SRCH, "a zombie's pidfd")?;
    child.join()?;
    all_fail(&lab, &Target::Process(pid), Errno::SRCH, "a reaped process")?;
    all_fail(&lab, &Target::Thread(pid), Errno::SRCH, "a reaped thread")?;
    all_fail(&lab, &pidfd, Errno::SRCH, "a reaped process's pidfd")?;
    for number in [0x7fff_ffff, 0x8000_0000, u32::MAX] {
        all_fail(&lab, &Target::Process(number), Errno::SRCH, "no process")?;
        all_fail(&lab, &Target::Thread(number), Errno::SRCH, "no thread")?;
    }
    // A thread that leads no process is no process.
    let (quit, wait) = mpsc::channel::<()>();
    let (send, receive) = mpsc::channel();
    let thread = std::thread::spawn(move || {
        let sent = send.send(tid());
        let _ = wait.recv();
        sent
    });
    let other = Target::Process(receive.recv()?);
    let result = all_fail(&lab, &other, Errno::SRCH, "a thread as a process");
    drop(quit);
    thread
        .join()
        .map_err(|_| anyhow!("the thread panicked"))??;
    result
}

pub fn wrong_descriptors() -> Outcome {
    let lab = Lab::open()?;
    for path in [
        "/dev/null",
        "/proc/self/exe",
        "/proc/self",
        "/sys/fs/cgroup",
    ] {
        let file = File::open(path)?;
        all_fail(&lab, &Target::Pidfd(file.into()), Errno::BADF, path)?;
    }
    for path in [
        "/dev/null",
        "/proc/self",
        "/sys",
        "/tmp",
        "/sys/fs/cgroup/cgroup.procs",
    ] {
        let file = File::open(path)?;
        all_fail(&lab, &Target::Cgroup(file.into()), Errno::BADF, path)?;
    }
    let pidfd = rustix::process::pidfd_open(
        rustix::process::getpid(),
        rustix::process::PidfdFlags::empty(),
    )?;
    all_fail(
        &lab,
        &Target::Cgroup(pidfd),
        Errno::BADF,
        "a pidfd as a cgroup",
    )?;
    Ok(())
}
