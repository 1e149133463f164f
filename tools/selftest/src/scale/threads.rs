// SPDX-License-Identifier: GPL-2.0
//! A hundred thousand tracked threads: what they take, and that all of it is given back.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Write};
use std::sync::atomic::AtomicU32;
use std::time::{Duration, Instant};

use anyhow::{ensure, Context as _, Result};
use libzernel::thread::Does;
use libzernel::{Target, Tracking, Zernel};

use crate::check_eq;
use crate::child::Child;
use crate::common::{load, unload_all, wait_until_within, SOON};
use crate::harness::Outcome;
use crate::sys;

/// Processes, and threads of each beside the first.
const PROCESSES: usize = 8;
const EACH: usize = 12_500;
/// The same on a debug kernel.
const FEW: usize = 40;

/// What a tracked thread with phases may take, in bytes.
const MOST_BYTES: u64 = 512;

/// The share of a CPU that takes samples: a tenth, and what it may be off by where the clock of a
/// guest goes on while its host does something else.
const MOST_SHARE: f64 = 0.35;

/// What the threads wait for.
static WORD: AtomicU32 = AtomicU32::new(0);

/// A process with threads that wait, and wake up when it is told so.
struct Crowd {
    child: Child,
    tell: fs::File,
}

impl Crowd {
    fn new(threads: usize) -> Result<Self> {
        let (told, tell) = rustix::pipe::pipe()?;
        let child = Child::spawn(move || {
            for _ in 0..threads {
                sys::spawn_waiter(&WORD)?;
            }
            let mut told = fs::File::from(told);
            loop {
                told.read_exact(&mut [0])?;
                sys::wake_waiters(&WORD, threads);
            }
        })?;
        let tell = tell.into();
        Ok(Self { child, tell })
    }

    fn threads(&self) -> Result<usize> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.pid()))?;
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix("Threads:"));
        Ok(line.context("no number of threads")?.trim().parse()?)
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
        .map(|_| Crowd::new(each))
        .collect::<Result<Vec<_>>>()?;
    for crowd in &crowds {
        wait_until_within(5 * SOON, "the threads are there", || {
            Ok(crowd.threads()? == each + 1)
        })?;
    }
    println!("    # {count} threads after {:?}", began.elapsed());

    let zernel = Zernel::open()?;
    let (before, caches_before) = memory()?;
    for crowd in &crowds {
        let target = Target::Process(crowd.child.pid());
        check_eq!(zernel.track(&target, Tracking::ML)?, each as u32 + 1);
    }
    println!("    # tracked after {:?}", began.elapsed());
    check_eq!(zernel.stats()?.threads, count as u64);
    for crowd in &mut crowds {
        crowd.tell.write_all(&[1])?;
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
        check_eq!(zernel.untrack(&Target::Process(crowd.child.pid()))?, 0);
    }
    println!("    # untracked in {:?}", untracks.elapsed());
    // The one that was killed is let go of a moment later.
    wait_until_within(SOON, "no thread is tracked", || {
        Ok(zernel.stats()?.threads == 0)
    })?;
    for crowd in &mut crowds {
        crowd.tell.write_all(&[1])?;
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
    drop(crowds);
    println!("    # all over after {:?}", began.elapsed());
    unload_all()
}
