// SPDX-License-Identifier: GPL-2.0
//! A hundred thousand tracked threads: what they take, and that all of it is given back. And more,
//! until no more can be tracked.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Write};
use std::sync::atomic::AtomicU32;
use std::time::{Duration, Instant};

use anyhow::{ensure, Context as _, Result};
use libzernel::thread::Does;
use libzernel::{Target, Tracking, Zernel};

use super::quotas::{self, become_somebody};
use crate::check_eq;
use crate::child::Child;
use crate::common::{load, unload_all, wait_until_within, SOON};
use crate::harness::Outcome;
use crate::permit::ALICE;
use crate::sys;

/// Processes, and threads of each beside the first.
const PROCESSES: usize = 8;
/// The number of alice's processes, whose quota their threads are within.
const ALICES: usize = 2;
const EACH: usize = 12_500;
/// The same on a debug kernel.
const FEW: usize = 40;

/// The bound of a tracked thread with phases, in bytes.
const MOST_BYTES: u64 = 544;

/// The share of a CPU that takes samples: a tenth, and what it may be off by where the clock of a
/// guest goes on while its host does something else.
const MOST_SHARE: f64 = 0.35;

/// The word that the threads wait for.
static WORD: AtomicU32 = AtomicU32::new(0);

/// The commands of a [`Crowd`].
const WAKE: u8 = 1;
const MAKE_ONE: u8 = 2;

/// A process of a user with threads that wait, and wake up when it is told so.
pub(super) struct Crowd {
    pub(super) child: Child,
    pub(super) uid: u32,
    /// Threads that it begins with.
    pub(super) size: usize,
    tell: fs::File,
}

impl Crowd {
    pub(super) fn new(uid: u32, size: usize) -> Result<Self> {
        let (told, tell) = rustix::pipe::pipe()?;
        let child = Child::spawn(move || {
            become_somebody(uid)?;
            // The first is there.
            let mut waiters = size - 1;
            for _ in 0..waiters {
                sys::spawn_waiter(&WORD)?;
            }
            let mut told = fs::File::from(told);
            loop {
                let mut what = [0];
                told.read_exact(&mut what)?;
                if what == [MAKE_ONE] {
                    sys::spawn_waiter(&WORD)?;
                    waiters += 1;
                } else {
                    sys::wake_waiters(&WORD, waiters);
                }
            }
        })?;
        Ok(Self {
            child,
            uid,
            size,
            tell: tell.into(),
        })
    }

    pub(super) fn target(&self) -> Target {
        Target::Process(self.child.pid())
    }

    pub(super) fn threads(&self) -> Result<usize> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.pid()))?;
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix("Threads:"));
        Ok(line.context("no number of threads")?.trim().parse()?)
    }

    pub(super) fn wait_there(&self) -> Result<()> {
        wait_until_within(5 * SOON, "the threads are there", || {
            Ok(self.threads()? == self.size)
        })
    }

    /// Has every thread return to user space.
    pub(super) fn wake(&mut self) -> Result<()> {
        Ok(self.tell.write_all(&[WAKE])?)
    }

    /// Has it make one thread more.
    pub(super) fn make_one(&mut self) -> Result<()> {
        Ok(self.tell.write_all(&[MAKE_ONE])?)
    }
}

/// Memory of the kernel's allocator of small objects: bytes in use, and by the names of its caches.
fn memory() -> Result<(u64, BTreeMap<String, u64>)> {
    let mut caches = BTreeMap::new();
    for line in fs::read_to_string("/proc/slabinfo")?.lines().skip(2) {
        let fields: Vec<_> = line.split_whitespace().collect();
        // name active_objs num_objs objsize objperslab pagesperslab : ... : slabdata active num share
        let number = |at: usize| fields.get(at).and_then(|field| field.parse::<u64>().ok());
        if let (Some(pages), Some(slabs)) = (number(5), number(14)) {
            let bytes = pages * slabs * 4096;
            *caches.entry(fields[0].to_owned()).or_default() += bytes;
        }
    }
    ensure!(!caches.is_empty(), "/proc/slabinfo is not understood");
    Ok((caches.values().sum(), caches))
}

/// CPU time of the kernel's workers of zernel and others, in clock ticks: samples are taken there.
fn worker_ticks() -> Result<u64> {
    let mut ticks = 0;
    for entry in fs::read_dir("/proc")?.flatten() {
        let stat = fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        if !stat.contains("(kworker/") {
            continue;
        }
        let after = stat.rsplit_once(')').map_or("", |(_, after)| after);
        let fields: Vec<_> = after.split_whitespace().collect();
        // utime and stime.
        for at in [11, 12] {
            ticks += fields
                .get(at)
                .and_then(|f| f.parse::<u64>().ok())
                .unwrap_or(0);
        }
    }
    Ok(ticks)
}

pub(super) fn a_hundred_thousand_threads() -> Outcome {
    let debug = std::path::Path::new("/proc/lockdep").exists();
    let each = if debug { FEW } else { EACH };
    let count = PROCESSES * (each + 1);
    for (name, value) in [
        ("kernel/threads-max", "150000"),
        ("kernel/pid_max", "200000"),
        ("vm/max_map_count", "200000"),
    ] {
        fs::write(format!("/proc/sys/{name}"), value).with_context(|| name.to_owned())?;
    }
    load("zernel", "")?;
    let began = Instant::now();
    let mut crowds = (0..PROCESSES)
        .map(|number| {
            let uid = if number < ALICES { ALICE } else { 0 };
            Crowd::new(uid, each + 1)
        })
        .collect::<Result<Vec<_>>>()?;
    for crowd in &crowds {
        crowd.wait_there()?;
    }
    println!("    # {count} threads after {:?}", began.elapsed());

    let zernel = Zernel::open()?;
    let (before, caches_before) = memory()?;
    for crowd in &crowds {
        let threads = zernel.track(&crowd.target(), Tracking::ML)?;
        check_eq!(threads as usize, crowd.size);
    }
    println!("    # tracked after {:?}", began.elapsed());
    check_eq!(zernel.stats()?.threads, count as u64);
    for crowd in &mut crowds {
        crowd.wake()?;
    }
    wait_until_within(10 * SOON, "all have phases", || {
        std::thread::sleep(Duration::from_millis(300));
        let mut with = 0;
        for thread in zernel.phases() {
            with += usize::from(thread?.samples > 0);
        }
        Ok(with == count)
    })?;
    println!("    # all have phases after {:?}", began.elapsed());
    let (after, caches) = memory()?;
    let each_takes = after.saturating_sub(before) / count as u64;
    for (name, bytes) in &caches {
        let more = bytes.saturating_sub(*caches_before.get(name).unwrap_or(&0));
        if more > count as u64 {
            println!("    # {name}: {} bytes each", more / count as u64);
        }
    }
    println!("    # {each_takes} bytes of a tracked thread");
    if !debug {
        ensure!(
            each_takes <= MOST_BYTES,
            "{each_takes} bytes of a tracked thread"
        );
        // So that it is what is measured.
        ensure!(
            each_takes >= MOST_BYTES / 2,
            "{each_takes} bytes: too few to be true"
        );
    }

    // All of them are told, each once.
    let listed: std::collections::BTreeSet<_> = zernel
        .threads()
        .map(|thread| thread.map(|thread| (thread.tid, thread.does != Does::Arrive)))
        .collect::<libzernel::Result<_>>()?;
    check_eq!(listed.len(), count, "threads that are listed");
    ensure!(
        listed.iter().all(|&(_, recorded)| recorded),
        "some are not recorded"
    );

    // Something happens, so that samples are taken all the time.
    let restless = Child::spawn(|| {
        Zernel::open()?.track(&Target::current_process(), Tracking::ML)?;
        loop {
            std::thread::sleep(Duration::from_millis(1));
        }
    })?;
    let (ticks, since) = (worker_ticks()?, Instant::now());
    std::thread::sleep(Duration::from_secs(3));
    let spent = worker_ticks()?.saturating_sub(ticks) as f64 / 100.0;
    let share = spent / since.elapsed().as_secs_f64();
    println!("    # workers took {:.1} % of a CPU", share * 100.0);
    ensure!(share < MOST_SHARE, "workers took {share:.2} of a CPU");
    drop(restless);

    let untracks = Instant::now();
    for crowd in &crowds {
        check_eq!(zernel.untrack(&crowd.target())?, 0);
    }
    println!("    # untracked in {:?}", untracks.elapsed());
    // The one that was killed is let go of a moment later.
    wait_until_within(SOON, "no thread is tracked", || {
        Ok(zernel.stats()?.threads == 0)
    })?;
    for crowd in &mut crowds {
        crowd.wake()?;
    }
    drop(zernel);
    // It goes when the last of them has let go, and has given everything back by then.
    wait_until_within(10 * SOON, "the module can go", || {
        Ok(crate::common::try_unload("zernel").is_ok())
    })?;
    let (left, _) = memory()?;
    let kept = left.saturating_sub(before);
    println!("    # {kept} bytes more than before");
    // Pages in which others have something meanwhile stay; the smallest part of a thread is more.
    ensure!(
        kept <= (after - before) / 10 + (1 << 20),
        "{kept} of {} bytes are not given back",
        after - before
    );
    println!("    # given back after {:?}", began.elapsed());
    if debug {
        // Too few for a quota.
        return unload_all();
    }
    quotas::of_threads(crowds)?;
    println!("    # all over after {:?}", began.elapsed());
    Ok(())
}
