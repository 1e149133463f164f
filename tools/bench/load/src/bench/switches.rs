// SPDX-License-Identifier: MIT OR Apache-2.0
//! Costs of a context switch: without zernel, with it, beside tracked threads, and of tracked
//! threads.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{self, Command, Stdio};
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{ensure, Context as _, Result};
use libzernel::thread::Does;
use libzernel::{Target, Timestamp, Tracking, Zernel};
use rustix::thread::{gettid, sched_getaffinity, sched_setaffinity, CpuSet};
use testkit::module;
use testkit::sys::set_policy;
use zernel_report::stats::median_and_max;

use super::{Figure, PATIENCE};

/// zernel is not loaded.
pub(super) const UNLOADED: &str = "zernel is not loaded";

/// It is, and nothing was tracked yet.
pub(super) const PLAIN: &str = "nothing is tracked";

/// A thread that takes no part is tracked.
pub(super) const BESIDE: &str = "another thread is tracked";

/// A cgroup that the two are not in is tracked, with a process in it.
pub(super) const BESIDE_CGROUP: &str = "a cgroup of others is tracked";

/// Both threads are.
pub(super) const TRACKED: &str = "both threads are tracked";

/// Both threads are, and have phases.
pub(super) const TRACKED_ML: &str = "both threads are tracked with --ml";

/// The same over so long that what takes the samples of phases has its part in it.
const SAMPLED: &str = "the same, samples of phases included";

/// Nothing is, for longer than zernel leaves its hooks on.
pub(super) const AFTER: &str = "nothing is tracked any more";

/// Round trips that are measured at once, of two switches each: so few that nothing else happens
/// meanwhile as a rule.
const TRIPS: u32 = 10;

/// The same where something else is to happen several times.
const MANY_TRIPS: u32 = 500;

/// zernel turns its hooks off when nothing was tracked for a second.
const REST: Duration = Duration::from_secs(3);

/// The cgroup that is tracked.
const CGROUP: &str = "/sys/fs/cgroup/zernel-bench";

/// Two threads on one CPU that wake each other in turn; this is the first.
struct PingPong {
    to: File,
    from: File,
    other: u32,
    thread: JoinHandle<()>,
    /// The CPUs that this thread had before.
    cpus: CpuSet,
}

/// The ends to read from and to write to.
fn pipe() -> Result<(File, File)> {
    let (reader, writer) = rustix::pipe::pipe()?;
    Ok((reader.into(), writer.into()))
}

fn own_tid() -> u32 {
    gettid().as_raw_nonzero().get().unsigned_abs()
}

impl PingPong {
    fn new() -> Result<Self> {
        let (mut ping, to) = pipe()?;
        let (from, mut pong) = pipe()?;
        let (tell, told) = mpsc::channel();
        let cpus = sched_getaffinity(None)?;
        let mut one = CpuSet::new();
        one.set(0);
        sched_setaffinity(None, &one).context("cannot stay on one CPU")?;
        // Inherits the CPU.
        let thread = std::thread::spawn(move || {
            let _ = tell.send(own_tid());
            let mut byte = [0];
            // Until the other end goes.
            while ping.read_exact(&mut byte).is_ok() && pong.write_all(&byte).is_ok() {}
        });
        let other = told.recv().context("the other thread has ended")?;
        Ok(Self {
            to,
            from,
            other,
            thread,
            cpus,
        })
    }

    fn trip(&mut self) -> Result<()> {
        self.to.write_all(b"x")?;
        Ok(self.from.read_exact(&mut [0])?)
    }

    /// Instructions of one switch, with the system calls that bring it about. Both threads have
    /// real-time priority meanwhile: what fair scheduling counts differs from boot to boot, by more
    /// than the bounds allow for.
    fn figure(&mut self, name: &'static str, repeat: u32) -> Result<Figure> {
        let other = self.other;
        let schedule = |policy| -> Result<()> {
            for tid in [own_tid(), other] {
                set_policy(tid, policy).context("cannot choose the scheduling of a thread")?;
            }
            Ok(())
        };
        schedule(libc::SCHED_FIFO)?;
        let figure = self.figure_of(name, repeat, TRIPS);
        schedule(libc::SCHED_OTHER)?;
        figure
    }

    fn figure_of(&mut self, name: &'static str, repeat: u32, trips: u32) -> Result<Figure> {
        let mut samples = Vec::with_capacity(repeat as usize);
        for count in 0..=repeat {
            let start = Timestamp::now();
            for _ in 0..trips {
                self.trip()?;
            }
            let took = Timestamp::now().since(start).as_nanos() as u64;
            // The first pays for first uses.
            if count > 0 {
                samples.push(took / u64::from(2 * trips));
            }
        }
        let (median_ns, max_ns) = median_and_max(&mut samples);
        Ok(Figure {
            name,
            median_ns,
            max_ns,
        })
    }

    fn end(self) -> Result<()> {
        drop((self.to, self.from));
        let ended = self.thread.join();
        ensure!(ended.is_ok(), "the other thread panicked");
        Ok(sched_setaffinity(None, &self.cpus)?)
    }
}

/// A thread that returns to user space from time to time, so that its record comes and goes.
struct Idle {
    tid: u32,
    stop: mpsc::Sender<()>,
    thread: JoinHandle<()>,
}

impl Idle {
    fn new() -> Result<Self> {
        let (stop, wait) = mpsc::channel::<()>();
        let (tell, told) = mpsc::channel();
        let thread = std::thread::spawn(move || {
            let _ = tell.send(own_tid());
            let second = Duration::from_secs(1);
            while wait.recv_timeout(second) == Err(mpsc::RecvTimeoutError::Timeout) {}
        });
        Ok(Self {
            tid: told.recv().context("the idle thread has ended")?,
            stop,
            thread,
        })
    }

    fn end(self) -> Result<()> {
        drop(self.stop);
        let ended = self.thread.join();
        ensure!(ended.is_ok(), "the idle thread panicked");
        Ok(())
    }
}

/// A cgroup with a process in it that waits. Both go when this is dropped.
struct Inhabited {
    path: PathBuf,
    inhabitant: process::Child,
}

impl Inhabited {
    fn new(path: &Path) -> Result<Self> {
        fs::create_dir(path).with_context(|| format!("cannot make {}", path.display()))?;
        let inhabitant = Command::new("cat")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .context("cannot run cat")?;
        let this = Self {
            path: path.to_owned(),
            inhabitant,
        };
        fs::write(path.join("cgroup.procs"), this.inhabitant.id().to_string())?;
        Ok(this)
    }

    /// Has its process return to user space, so that its record arrives.
    fn stir(&mut self) -> Result<()> {
        let stdin = self.inhabitant.stdin.as_mut();
        Ok(stdin.context("no pipe to cat")?.write_all(b"x")?)
    }
}

impl Drop for Inhabited {
    fn drop(&mut self) {
        // Remains of it are seen when the cgroup is made again.
        let _ = self.inhabitant.kill();
        let _ = self.inhabitant.wait();
        let _ = fs::remove_dir(&self.path);
    }
}

/// Costs of a switch. With `load` it begins without zernel, loads it, and the software GPU with these
/// parameters, and tracks a cgroup, too.
pub(super) fn costs(repeat: u32, load: Option<&str>) -> Result<Vec<Figure>> {
    let mut pair = PingPong::new()?;
    let mut figures = Vec::new();
    if let Some(parameters) = load {
        figures.push(pair.figure(UNLOADED, repeat)?);
        module::load("zernel", "")?;
        module::load("zernel_sim", parameters)?;
    }
    let zernel = Zernel::open()?;
    figures.push(pair.figure(PLAIN, repeat)?);

    let idle = Idle::new()?;
    track(&zernel, idle.tid)?;
    figures.push(pair.figure(BESIDE, repeat)?);
    zernel.untrack(&Target::current_process())?;
    idle.end()?;

    if load.is_some() {
        let mut cgroup = Inhabited::new(Path::new(CGROUP))?;
        let target = Target::cgroup(&cgroup.path)?;
        zernel.track(&target, Tracking::PLAIN)?;
        cgroup.stir()?;
        wait_recorded(&zernel, cgroup.inhabitant.id())?;
        figures.push(pair.figure(BESIDE_CGROUP, repeat)?);
        zernel.untrack(&target)?;
    }

    for (name, tracking) in [(TRACKED, Tracking::PLAIN), (TRACKED_ML, Tracking::ML)] {
        for tid in [own_tid(), pair.other] {
            zernel.track(&Target::Thread(tid), tracking)?;
            pair.trip()?;
            wait_recorded(&zernel, tid)?;
        }
        figures.push(pair.figure(name, repeat)?);
    }
    figures.push(pair.figure_of(SAMPLED, repeat, MANY_TRIPS)?);

    zernel.untrack(&Target::current_process())?;
    // Both return to user space.
    pair.trip()?;
    std::thread::sleep(REST);
    figures.push(pair.figure(AFTER, repeat)?);
    pair.end()?;
    Ok(figures)
}

fn track(zernel: &Zernel, tid: u32) -> Result<()> {
    zernel.track(&Target::Thread(tid), Tracking::PLAIN)?;
    wait_recorded(zernel, tid)
}

fn wait_recorded(zernel: &Zernel, tid: u32) -> Result<()> {
    let begin = Instant::now();
    loop {
        for thread in zernel.threads() {
            let thread = thread?;
            if thread.tid == tid && thread.does != Does::Arrive {
                return Ok(());
            }
        }
        ensure!(begin.elapsed() < PATIENCE, "thread {tid} is not recorded");
        std::thread::sleep(Duration::from_millis(10));
    }
}
