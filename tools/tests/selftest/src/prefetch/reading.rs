// SPDX-License-Identifier: GPL-2.0
//! Files that are read ahead: what of them, by whom, at whose expense.

use std::fs::{self, File};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use anyhow::{ensure, Context as _, Result};
use libzernel::prefetch::Ranges;
use libzernel::{Stats, Subscription, Target, Zernel};
use rustix::fs::{fadvise, Advice};
use zernel_train::Disk;

use super::{wait_subscriptions, Bell, Signaller};
use crate::block::device;
use crate::check_eq;
use crate::child::in_child;
use crate::common::wait_until;
use crate::group::{Group, ROOT};
use crate::harness::Outcome;
use crate::sys;

const PAGE: u64 = 4096;
const MIB: u64 = 1 << 20;

/// A disk, of which nothing that matters is in the page cache, and its file.
struct Data {
    file: File,
    _disk: Disk,
}

impl Data {
    fn new() -> Result<Self> {
        Self::on(device(Duration::from_micros(100), None)?)
    }

    fn on(disk: Disk) -> Result<Self> {
        let file = File::open(disk.node())?;
        let data = Self { file, _disk: disk };
        data.forget()?;
        Ok(data)
    }

    /// Nothing of it is in the page cache any more.
    fn forget(&self) -> Result<()> {
        wait_until("nothing is in the page cache", || {
            fadvise(&self.file, 0, None, Advice::DontNeed)?;
            Ok(self.pages()?.is_empty())
        })
    }

    /// The numbers of the pages that are in the page cache.
    fn pages(&self) -> Result<Vec<u64>> {
        let resident = sys::resident(self.file.as_fd(), 0, Disk::SIZE as usize)?;
        let pages = (0..).zip(resident).filter(|(_, there)| *there);
        Ok(pages.map(|(number, _)| number).collect())
    }

    fn subscribe(
        &self,
        zernel: &Zernel,
        offset: u64,
        length: u64,
        span: u64,
    ) -> Result<Subscription> {
        let ranges = Ranges {
            offset,
            length,
            span,
        };
        let me = Target::current_process();
        Ok(zernel.subscribe_read_ahead(&me, self.file.as_fd(), &ranges)?)
    }
}

/// The bytes that were read ahead since `before`, when nothing is being read any more.
fn since(zernel: &Zernel, before: &Stats) -> Result<[u64; 4]> {
    let now = zernel.stats()?;
    Ok([
        now.readaheads - before.readaheads,
        now.readahead_bytes - before.readahead_bytes,
        now.readaheads_failed - before.readaheads_failed,
        now.readaheads_skipped - before.readaheads_skipped,
    ])
}

fn wait_bytes(zernel: &Zernel, before: &Stats, bytes: u64) -> Outcome {
    wait_until(&format!("{bytes} bytes were read ahead"), || {
        Ok(zernel.stats()?.readahead_bytes - before.readahead_bytes >= bytes)
    })
}

pub(super) fn fills_the_page_cache() -> Outcome {
    let zernel = Zernel::open()?;
    let data = Data::new()?;
    let signaller = Signaller::own(&zernel)?;
    let before = zernel.stats()?;
    // Longer than what can be asked for at once, and not of whole pages.
    let (offset, length) = (MIB + 100, 5 * MIB + 4000);
    let subscription = data.subscribe(&zernel, offset, length, 0)?;
    check_eq!(data.pages()?, [], "before a signal");
    let expected: Vec<u64> = (offset / PAGE..(offset + length).div_ceil(PAGE)).collect();
    for round in 1..=2 {
        signaller.signal(1)?;
        wait_bytes(&zernel, &before, round * length)?;
        let mut pages = Vec::new();
        wait_until("all of the range is there", || {
            pages = data.pages()?;
            Ok(pages.len() >= expected.len())
        })
        .with_context(|| format!("{} of {} pages", pages.len(), expected.len()))?;
        check_eq!(pages == expected, true, "pages {pages:?}");
        check_eq!(since(&zernel, &before)?, [round, round * length, 0, 0]);
    }
    subscription.unsubscribe()?;
    data.forget()?;
    signaller.signal(1)?;
    check_eq!(since(&zernel, &before)?, [2, 2 * length, 0, 0]);
    check_eq!(data.pages()?, [], "nobody has subscribed");
    Ok(())
}

pub(super) fn span_begins_anew() -> Outcome {
    let zernel = Zernel::open()?;
    let data = Data::new()?;
    let signaller = Signaller::own(&zernel)?;
    let before = zernel.stats()?;
    let at = MIB / PAGE;
    let _subscription = data.subscribe(&zernel, MIB, 16 * PAGE, 40 * PAGE)?;
    let mut bytes = 0;
    for (from, to) in [(0, 16), (16, 32), (32, 40), (0, 16), (16, 32)] {
        data.forget()?;
        signaller.signal(1)?;
        bytes += (to - from) * PAGE;
        wait_bytes(&zernel, &before, bytes)?;
        let expected: Vec<_> = (at + from..at + to).collect();
        let mut pages = Vec::new();
        wait_until("all of the range is there", || {
            pages = data.pages()?;
            Ok(pages.len() >= expected.len())
        })
        .with_context(|| format!("pages {pages:?}"))?;
        check_eq!(pages, expected);
    }
    check_eq!(since(&zernel, &before)?, [5, bytes, 0, 0]);
    Ok(())
}

pub(super) fn end_of_the_file() -> Outcome {
    let zernel = Zernel::open()?;
    let data = Data::new()?;
    let signaller = Signaller::own(&zernel)?;
    let (bell, _bell) = Bell::of(&zernel, &Target::current_process())?;
    let before = zernel.stats()?;
    let offset = Disk::SIZE - 8 * PAGE;
    let _subscription = data.subscribe(&zernel, offset, 12 * PAGE, 36 * PAGE)?;
    // Wholly beyond the end.
    let _nothing = data.subscribe(&zernel, 2 * Disk::SIZE, PAGE, 0)?;
    for (signals, rounds) in [(1, 1), (2, 1), (3, 1), (4, 2)] {
        signaller.signal(1)?;
        wait_bytes(&zernel, &before, rounds * 8 * PAGE)?;
        wait_until("both have read", || {
            let [begun, _, _, skipped] = since(&zernel, &before)?;
            Ok(begun + skipped == 2 * signals)
        })?;
    }
    let [_, bytes, failed, _] = since(&zernel, &before)?;
    check_eq!((bytes, failed), (2 * 8 * PAGE, 0));
    check_eq!(data.pages()?.last(), Some(&(Disk::SIZE / PAGE - 1)));
    check_eq!(bell.rings(4)?, 4);
    Ok(())
}

/// A counter of `memory.stat`.
fn memory(group: &str, name: &str) -> Result<u64> {
    let text = fs::read_to_string(format!("{ROOT}/{group}/memory.stat"))?;
    let value = text
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    Ok(value.context("no such counter")?.parse()?)
}

/// The page cache is that of the memory cgroup in which the caller was.
pub(super) fn is_charged() -> Outcome {
    const LENGTH: u64 = 6 * MIB;
    fs::write(format!("{ROOT}/cgroup.subtree_control"), "+memory")?;
    let group = Group::new("prefetch")?;
    let name = "zernel-test-prefetch";
    let charged = in_child(|| {
        group.enter(0)?;
        let zernel = Zernel::open()?;
        let data = Data::new()?;
        let _subscription = data.subscribe(&zernel, MIB, LENGTH, 0)?;
        // The user's cgroup when it is read does not matter.
        crate::group::leave()?;
        let signaller = Signaller::own(&zernel)?;
        let (before, file) = (zernel.stats()?, memory(name, "file")?);
        signaller.signal(1)?;
        wait_bytes(&zernel, &before, LENGTH)?;
        let mut now = 0;
        wait_until("it is charged to the group", || {
            // Counters of a group are summed up now and then.
            now = memory(name, "file")?;
            Ok(now >= file + LENGTH)
        })
        .with_context(|| format!("{file} bytes, then {now}"))?;
        data.forget()
    });
    drop(group);
    fs::write(format!("{ROOT}/cgroup.subtree_control"), "-memory")?;
    charged
}

/// A read-ahead that takes long keeps nobody waiting, and signals meanwhile are skipped.
pub(super) fn blocked() -> Outcome {
    const LENGTH: u64 = 8 * MIB;
    const LATENCY: Duration = Duration::from_millis(300);
    let zernel = Zernel::open()?;
    let signaller = Signaller::own(&zernel)?;
    // 64 requests, one after the other.
    let data = Data::on(device(LATENCY, Some(1))?)?;
    let memory = rustix::fs::memfd_create("memory", rustix::fs::MemfdFlags::CLOEXEC)?;
    rustix::fs::ftruncate(&memory, MIB)?;
    let me = Target::current_process();
    let before = zernel.stats()?;
    let blocked = data.subscribe(&zernel, MIB, LENGTH, 0)?;
    signaller.signal(1)?;
    let quick = Ranges {
        offset: 0,
        length: PAGE,
        span: 0,
    };
    let _quick = zernel.subscribe_read_ahead(&me, memory.as_fd(), &quick)?;
    let (bell, _bell) = Bell::of(&zernel, &me)?;
    signaller.signal(1)?;
    wait_bytes(&zernel, &before, PAGE)?;
    check_eq!(bell.rings(1)?, 1);
    check_eq!(since(&zernel, &before)?, [2, PAGE, 0, 1]);
    let begin = Instant::now();
    blocked.unsubscribe()?;
    let took = begin.elapsed();
    let most = testkit::at_once(64 * LATENCY);
    ensure!(took < most, "it took {took:?} to end it");
    // It counts until what it reads is read.
    wait_subscriptions(&zernel, 2)?;
    let [begun, bytes, failed, skipped] = since(&zernel, &before)?;
    check_eq!((begun, failed, skipped), (2, 0, 1));
    ensure!(bytes < PAGE + LENGTH, "{bytes} bytes, though it was ended");
    Ok(())
}
