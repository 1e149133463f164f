// SPDX-License-Identifier: GPL-2.0
//! A cgroup with too little memory: who is in it waits for memory, and nobody else does.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{bail, ensure, Context as _, Result};
use libzernel::{Target, Tracking, Zernel};
use testkit::harness::Skip;

use super::{threads_of, wait_count};
use crate::block;
use crate::check_eq;
use crate::child::Child;
use crate::group::{Group, ROOT};
use crate::harness::Outcome;

/// Threads of the process. What their records take is more than the kernel charges to a cgroup in
/// advance.
const THREADS: usize = 2_000;

/// For how long the kernel delays who is far above `memory.high`.
const DELAY: Duration = Duration::from_secs(2);

const TRIES: u32 = 3;

/// The controllers that can be limited in cgroups below the root.
const CONTROL: &str = "cgroup.subtree_control";

/// A cgroup whose memory can be limited.
pub struct Limited {
    group: Group,
    /// Others could be, too, before.
    was_on: bool,
}

impl Limited {
    /// One without a limit.
    pub fn new() -> Result<Self> {
        let has = |name| {
            let text = fs::read_to_string(Path::new(ROOT).join(name))?;
            Ok::<_, std::io::Error>(text.split_whitespace().any(|word| word == "memory"))
        };
        if !has("cgroup.controllers")? {
            return Err(Skip("this kernel has no cgroups of memory").into());
        }
        let was_on = has(CONTROL)?;
        control("+memory")?;
        let group = Group::new("limited")?;
        Ok(Self { group, was_on })
    }

    /// Moves the calling process there.
    pub fn enter(&self) -> Result<()> {
        self.group.enter(0)
    }

    /// Sets a file of it.
    pub fn set(&self, name: &str, value: impl ToString) -> Result<()> {
        let path = self.group.path().join(name);
        fs::write(&path, value.to_string()).with_context(|| path.display().to_string())
    }

    fn text(&self, name: &str) -> Result<String> {
        let path = self.group.path().join(name);
        fs::read_to_string(&path).with_context(|| path.display().to_string())
    }

    /// Bytes in use.
    pub fn used(&self) -> Result<u64> {
        Ok(self.text("memory.current")?.trim_end().parse()?)
    }

    /// The number of times that it was at its limit.
    fn was_full(&self) -> Result<u64> {
        let text = self.text("memory.events")?;
        let count = text.lines().find_map(|line| line.strip_prefix("max "));
        Ok(count.context("no count of that")?.parse()?)
    }
}

impl Drop for Limited {
    fn drop(&mut self) {
        // A failure here leaves a controller on that nobody uses.
        let _ = self.group.remove();
        if !self.was_on {
            let _ = control("-memory");
        }
    }
}

fn control(word: &str) -> std::io::Result<()> {
    fs::write(Path::new(ROOT).join(CONTROL), word)
}

/// A process in the cgroup that makes its threads, does `first`, says so, and when it is told to
/// tracks itself and tells how long that took.
struct Crowded {
    child: Child,
    talk: UnixStream,
}

impl Crowded {
    fn new(group: &Limited, first: impl FnOnce() -> Result<()>) -> Result<Self> {
        let (talk, mut other) = UnixStream::pair()?;
        let child = Child::spawn(move || {
            group.group.enter(0)?;
            for _ in 1..THREADS {
                std::thread::Builder::new()
                    .stack_size(16 << 10)
                    .spawn(|| loop {
                        std::thread::park();
                    })?;
            }
            let zernel = Zernel::open()?;
            first()?;
            let mut word = [0; 1];
            other.write_all(&word)?;
            other.read_exact(&mut word)?;
            let begin = Instant::now();
            zernel.track(&Target::current_process(), Tracking::PLAIN)?;
            let took = begin.elapsed().as_nanos() as u64;
            other.write_all(&took.to_ne_bytes())?;
            loop {
                std::thread::park();
            }
        })?;
        let (crowded, _) = Self { child, talk }.hear::<1>()?;
        Ok(crowded)
    }

    /// Waits for what it says. It ends when something fails, and says why.
    fn hear<const N: usize>(mut self) -> Result<(Self, [u8; N])> {
        let mut bytes = [0; N];
        if let Err(error) = self.talk.read_exact(&mut bytes) {
            self.child.join()?;
            return Err(error.into());
        }
        Ok((self, bytes))
    }

    fn begin(&mut self) -> Result<()> {
        Ok(self.talk.write_all(&[0])?)
    }

    /// Waits until all of it is tracked, and says how long that took.
    fn tracked(self, zernel: &Zernel) -> Result<(Self, Duration)> {
        let (crowded, took) = self.hear()?;
        check_eq!(threads_of(zernel, crowded.child.pid())?.len(), THREADS);
        Ok((crowded, Duration::from_nanos(u64::from_ne_bytes(took))))
    }

    fn end(self, zernel: &Zernel) -> Outcome {
        drop(self.child);
        wait_count(zernel, 0)
    }
}

/// The kernel delays who makes a cgroup take much more than it should. Nobody else is: of some tries
/// at least one shows that, whatever else the machine does.
pub(super) fn delays_itself_alone() -> Outcome {
    let mut longest = Duration::MAX;
    for _ in 0..TRIES {
        longest = longest.min(longest_beside_delayed()?);
        if longest < DELAY / 2 {
            return Ok(());
        }
    }
    bail!("{longest:?}");
}

/// The longest call of another one meanwhile.
fn longest_beside_delayed() -> Result<Duration> {
    let group = Limited::new()?;
    let zernel = Zernel::open()?;
    let mut crowded = Crowded::new(&group, || Ok(()))?;
    group.set("memory.high", 1 << 20)?;
    let watch = crowded.talk.try_clone()?;
    crowded.begin()?;
    watch.set_nonblocking(true)?;
    let mut longest = Duration::ZERO;
    let mut calls = 0;
    let is_over = || match rustix::net::recv(&watch, &mut [0], rustix::net::RecvFlags::PEEK) {
        Err(rustix::io::Errno::AGAIN) => Ok(false),
        result => result.map(|_| true),
    };
    while !is_over()? {
        let begin = Instant::now();
        zernel.track(&Target::current_thread(), Tracking::PLAIN)?;
        zernel.untrack(&Target::current_thread())?;
        longest = longest.max(begin.elapsed());
        calls += 1;
        std::thread::sleep(Duration::from_millis(2));
    }
    watch.set_nonblocking(false)?;
    let (crowded, took) = crowded.tracked(&zernel)?;
    println!("    # it was delayed for {took:?}; {calls} calls of others took {longest:?} at most");
    ensure!(took >= DELAY / 2, "it was not delayed");
    group.set("memory.high", "max")?;
    crowded.end(&zernel)?;
    Ok(longest)
}

/// At the limit of its cgroup a process gets memory when some was reclaimed from what it read.
pub(super) fn waits_for_memory() -> Outcome {
    let group = Limited::new()?;
    let zernel = Zernel::open()?;
    let disk = block::device(Duration::ZERO, None)?;
    let read = || {
        // Threads take no more from here on; what is read takes all that is left.
        group.set("memory.max", group.used()? + (4 << 20))?;
        let mut buffer = vec![0; 1 << 16];
        let mut file = File::open(disk.node())?;
        while file.read(&mut buffer)? > 0 {}
        // Closed, its pages would be free.
        std::mem::forget(file);
        Ok(())
    };
    let mut crowded = Crowded::new(&group, read)?;
    let before = group.was_full()?;
    ensure!(before > 0, "what was read does not fill it");
    crowded.begin()?;
    let (crowded, _) = crowded.tracked(&zernel)?;
    ensure!(group.was_full()? > before, "there was memory enough");
    crowded.end(&zernel)
}
