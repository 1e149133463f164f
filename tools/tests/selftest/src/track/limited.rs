// SPDX-License-Identifier: MIT OR Apache-2.0
//! Too little memory: who is in a limited cgroup waits for it, and nobody else does; where there is none
//! nothing has changed, or what was missed is counted.

use std::fs::{self, File};
use std::io::Read;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use anyhow::{bail, ensure, Context as _, Result};
use libzernel::{Target, Tracking, Zernel};
use rustix::io::Errno;
use testkit::faults::Faults;
use testkit::harness::Skip;

use super::cgroups::{counts, wait_counts};
use super::{busy, threads_of, wait_count, wait_recorded};
use crate::child::{in_child, Child};
use crate::common::errno;
use crate::group::{self, Group};
use crate::harness::Outcome;
use crate::{block, check_eq};

/// Threads of the process. What their records take is more than the kernel charges to a cgroup in
/// advance.
const THREADS: u32 = 2_000;

/// For how long the kernel delays who is far above `memory.high`.
const DELAY: Duration = Duration::from_secs(2);

/// The controllers that cgroups below the root have.
pub const CONTROL: &str = "/sys/fs/cgroup/cgroup.subtree_control";

/// A cgroup whose memory can be limited. Nothing else wants that controller.
pub struct Limited(Group);

impl Limited {
    /// One without a limit.
    pub fn new() -> Result<Self> {
        let controllers = fs::read_to_string("/sys/fs/cgroup/cgroup.controllers")?;
        if !controllers.split_whitespace().any(|word| word == "memory") {
            return Err(Skip("this kernel has no cgroups of memory").into());
        }
        fs::write(CONTROL, "+memory")?;
        Ok(Self(Group::new("limited")?))
    }

    /// Moves the calling process there.
    pub fn enter(&self) -> Result<()> {
        self.0.enter(0)
    }

    /// Sets a file of it.
    pub fn set(&self, name: &str, value: impl ToString) -> Result<()> {
        fs::write(self.0.path().join(name), value.to_string()).context(name.to_owned())
    }

    /// Bytes in use.
    pub fn used(&self) -> Result<u64> {
        let used = fs::read_to_string(self.0.path().join("memory.current"))?;
        Ok(used.trim_end().parse()?)
    }

    /// The number of times that it was at its limit.
    fn was_full(&self) -> Result<u64> {
        let text = fs::read_to_string(self.0.path().join("memory.events"))?;
        let count = text.lines().find_map(|line| line.strip_prefix("max "));
        Ok(count.context("no count of that")?.parse()?)
    }
}

impl Drop for Limited {
    fn drop(&mut self) {
        // A failure here leaves a controller on that nobody uses.
        let _ = self.0.remove();
        let _ = fs::write(CONTROL, "-memory");
    }
}

/// A process in the cgroup that makes its threads and does `run`, which is handed what tracks them
/// all and says how long that took.
fn crowd(
    group: &Limited,
    run: impl FnOnce(&dyn Fn() -> Result<Duration>) -> Outcome,
) -> Result<Child> {
    Child::spawn(|| {
        group.enter()?;
        for _ in 1..THREADS {
            let thread = std::thread::Builder::new().stack_size(16 << 10);
            thread.spawn(|| loop {
                std::thread::park();
            })?;
        }
        let zernel = Zernel::open()?;
        run(&|| {
            let begin = Instant::now();
            let tracked = zernel.track(&Target::current_process(), Tracking::PLAIN)?;
            check_eq!(tracked, THREADS);
            Ok(begin.elapsed())
        })
    })
}

/// The kernel delays who makes a cgroup take much more than it should. Nobody else is: of some tries
/// at least one shows that, whatever else the machine does.
pub(super) fn delays_itself_alone() -> Outcome {
    let zernel = Zernel::open()?;
    let me = Target::current_thread();
    for _ in 0..3 {
        let group = Limited::new()?;
        let delayed = crowd(&group, |track| {
            group.set("memory.high", 1 << 20)?;
            let took = track()?;
            group.set("memory.high", "max")?;
            println!("    # it was delayed for {took:?}");
            ensure!(took >= DELAY / 2, "it was not delayed");
            Ok(())
        })?;
        let mut longest = Duration::ZERO;
        while delayed.wait_ended(Duration::ZERO).is_err() {
            let begin = Instant::now();
            zernel.track(&me, Tracking::PLAIN)?;
            zernel.untrack(&me)?;
            longest = longest.max(begin.elapsed());
            std::thread::sleep(Duration::from_millis(2));
        }
        delayed.join()?;
        println!("    # others were for {longest:?} at most");
        wait_count(&zernel, 0)?;
        // A call that waited for one that is delayed would have waited for all of a delay: there is
        // another call at once after each.
        if longest < DELAY * 9 / 10 {
            return Ok(());
        }
    }
    bail!("others were delayed, too");
}

/// At the limit of its cgroup a process gets memory when some was reclaimed from what it read.
pub(super) fn waits_for_memory() -> Outcome {
    let group = Limited::new()?;
    let disk = block::device(Duration::ZERO, None)?;
    let full = crowd(&group, |track| {
        // Threads take no more from here on; what is read takes all that is left.
        group.set("memory.max", group.used()? + (4 << 20))?;
        let mut file = File::open(disk.node())?;
        let mut buffer = vec![0; 1 << 16];
        while file.read(&mut buffer)? > 0 {}
        let before = group.was_full()?;
        ensure!(before > 0, "what was read does not fill it");
        track()?;
        ensure!(group.was_full()? > before, "there was memory enough");
        Ok(())
    })?;
    full.join()?;
    wait_count(&Zernel::open()?, 0)
}

/// Each step of the call fails, one after the other; also while the process is tracked with a cgroup
/// above the target.
pub(super) fn each_step() -> Outcome {
    let faults = Faults::of_module("zernel")?;
    let thread = faults.one_by_one()?;
    let zernel = Zernel::open()?;
    let outer = Group::new("memory")?;
    let inner = outer.below("inner")?;
    inner.enter(0)?;
    for (target, above) in [
        (Target::current_thread(), false),
        (Target::current_process(), false),
        (inner.target()?, false),
        (inner.target()?, true),
    ] {
        let count = thread.each(|n| {
            if above {
                zernel.track(&outer.target()?, Tracking::PLAIN)?;
            }
            let (result, failed) = thread.nth(n, || zernel.track(&target, Tracking::PLAIN))?;
            if let Err(error) = result {
                ensure!(failed, "{error} of itself");
                if error.errno() == Some(Errno::NOMEM) {
                    let left = (zernel.stats()?.threads, zernel.cgroups().count());
                    let expected = if above { (1, 1) } else { (0, 0) };
                    check_eq!(left, expected, "threads, cgroups after {error}");
                } else {
                    // The answer could not be written.
                    check_eq!(error.errno(), Some(Errno::FAULT), "{error}");
                }
                zernel.track(&target, Tracking::PLAIN)?;
            }
            check_eq!(threads_of(&zernel, std::process::id())?.len(), 1);
            if above {
                check_eq!(counts(&zernel, &inner)?, (1, 1));
                check_eq!(counts(&zernel, &outer)?, (1, 1));
                zernel.untrack(&outer.target()?)?;
            }
            zernel.untrack(&target)?;
            Ok(failed)
        })?;
        println!("    # {target:?}, above: {above}: {count} steps that can fail");
        ensure!(count > 0, "to track cannot fail");
    }
    group::leave()?;
    wait_count(&zernel, 0)
}

/// There is memory for the first steps of the call and none for the others, wherever that begins.
pub(super) fn none_from_there_on() -> Outcome {
    let mut faults = Faults::of_module("zernel")?;
    let zernel = Zernel::open()?;
    let group = Group::new("memory")?;
    let child = busy(4)?;
    group.enter(child.pid())?;
    for target in [Target::Process(child.pid()), group.target()?] {
        let mut refused = 0;
        loop {
            let none = faults.no_memory_after(refused * 64)?;
            let answer = errno(zernel.track(&target, Tracking::PLAIN));
            drop(none);
            if answer.is_none() {
                break;
            }
            check_eq!(answer, Some(Errno::NOMEM));
            let left = (zernel.stats()?.threads, zernel.cgroups().count());
            check_eq!(left, (0, 0), "threads, cgroups after {refused}");
            refused += 1;
            ensure!(refused < 1_000, "{target:?} takes more than 64 KB");
        }
        wait_recorded(&zernel, child.pid(), 4)?;
        zernel.untrack(&target)?;
        println!("    # {target:?}: {refused} refusals");
        ensure!(refused > 4, "to track takes memory of four threads");
    }
    Ok(())
}

/// A process comes to two tracked cgroups at once while there is no memory, or memory for some steps
/// only: it is tracked in both when there is more.
pub(super) fn of_members() -> Outcome {
    let mut faults = Faults::of_module("zernel")?;
    let zernel = Zernel::open()?;
    let outer = Group::new("memory")?;
    let inner = outer.below("inner")?;
    zernel.track(&outer.target()?, Tracking::PLAIN)?;
    zernel.track(&inner.target()?, Tracking::PLAIN)?;
    let child = busy(2)?;
    for step in 1..20 {
        let none = faults.little_memory(step)?;
        inner.enter(child.pid())?;
        std::thread::sleep(Duration::from_millis(50));
        if step == 1 {
            // A list takes memory as a record does.
            check_eq!(errno(zernel.stats()), Some(Errno::NOMEM));
        }
        drop(none);
        wait_recorded(&zernel, child.pid(), 2)?;
        for group in [&outer, &inner] {
            wait_counts(&zernel, group, (1, 2)).with_context(|| format!("step {step}"))?;
        }
        group::put(child.pid())?;
        wait_count(&zernel, 0)?;
    }
    Ok(())
}

/// A tracked thread makes others while there is no memory: they are not tracked, which is counted.
/// When there is some again, those that live still are.
pub(super) fn of_followers() -> Outcome {
    let mut faults = Faults::of_module("zernel")?;
    drop(faults.no_memory()?);
    in_child(|| {
        let zernel = Zernel::open()?;
        zernel.track(&Target::current_process(), Tracking::PLAIN)?;
        wait_recorded(&zernel, std::process::id(), 1)?;
        let before = zernel.stats()?.threads_missed;
        let none = faults.no_memory()?;
        let (stop, wait) = mpsc::channel::<()>();
        let lives = std::thread::spawn(move || wait.recv().is_err());
        drop(none);
        let missed = zernel.stats()?.threads_missed - before;
        ensure!(missed > 0, "nobody was missed");
        // Whoever is made next is tracked again.
        std::thread::scope(|scope| drop(scope.spawn(|| ())));
        drop(stop);
        lives.join().expect("a thread that waits");
        wait_recorded(&zernel, std::process::id(), 1)?;
        Ok(())
    })?;
    wait_count(&Zernel::open()?, 0)
}
