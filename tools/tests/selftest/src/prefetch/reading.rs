// SPDX-License-Identifier: MIT OR Apache-2.0
//! Files that are read ahead: what of them, at whose expense, and by `zernelctl`.

use std::fs::{self, File};
use std::os::fd::AsFd;
use std::process;
use std::time::{Duration, Instant};

use anyhow::{ensure, Context as _, Result};
use libzernel::{Stats, Target, Zernel};
use rustix::fs::{fadvise, Advice};
use zernel_train::Disk;

use super::{read_ahead, wait_subscriptions, Bell, Signaller};
use crate::block::device;
use crate::check_eq;
use crate::child::{in_child, Child};
use crate::common::wait_until;
use crate::group::{Group, ROOT};
use crate::harness::Outcome;
use crate::sys;
use crate::zernelctl::{refused, Running};

const PAGE: u64 = 4096;
const MIB: u64 = 1 << 20;

/// The time of a request that matters little.
const FAST: Duration = Duration::from_micros(100);

/// A disk, of which nothing that matters is in the page cache, and its file.
struct Data {
    file: File,
    _disk: Disk,
}

impl Data {
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

pub(super) fn fill_the_page_cache() -> Outcome {
    const END: u64 = Disk::SIZE;
    let zernel = Zernel::open()?;
    let data = Data::on(device(FAST, None)?)?;
    let signaller = Signaller::own(&zernel)?;
    // Longer than what can be asked for at once, and not of whole pages.
    let (long, last) = ([MIB + 100, 6 * MIB + 4100], [END - 8 * PAGE, END]);
    let parts = [0, 16, 32, 40].map(|page| MIB + page * PAGE);
    let [first, second, third] = [0, 1, 2].map(|part| [parts[part], parts[part + 1]]);
    for (range, rounds) in [
        ([long[0], long[1] - long[0], 0], &[long, long][..]),
        // A span begins anew, also across the end of the file.
        (
            [MIB, 16 * PAGE, 40 * PAGE],
            &[first, second, third, first, second],
        ),
        (
            [last[0], 12 * PAGE, 36 * PAGE],
            &[last, [END; 2], [END; 2], last],
        ),
    ] {
        data.forget()?;
        let before = zernel.stats()?;
        let subscription = read_ahead(&zernel, &data.file, range)?;
        check_eq!(data.pages()?, Vec::<u64>::new(), "before a signal");
        let (mut signals, mut bytes) = (0, 0);
        for [from, to] in rounds {
            data.forget()?;
            signaller.signal(1)?;
            signals += 1;
            bytes += to - from;
            wait_bytes(&zernel, &before, bytes)?;
            let expected: Vec<u64> = (from / PAGE..to.div_ceil(PAGE)).collect();
            let mut pages = Vec::new();
            wait_until("all of the range is there", || {
                pages = data.pages()?;
                Ok(pages.len() >= expected.len())
            })
            .with_context(|| format!("{} of {} pages", pages.len(), expected.len()))?;
            check_eq!(pages, expected, "of {range:?}");
            check_eq!(since(&zernel, &before)?, [signals, bytes, 0, 0]);
        }
        subscription.unsubscribe()?;
        data.forget()?;
        signaller.signal(1)?;
        check_eq!(since(&zernel, &before)?, [signals, bytes, 0, 0]);
        check_eq!(data.pages()?, Vec::<u64>::new(), "nobody has subscribed");
    }
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
        let data = Data::on(device(FAST, None)?)?;
        let _subscription = read_ahead(&zernel, &data.file, [MIB, LENGTH, 0])?;
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
    let before = zernel.stats()?;
    let blocked = read_ahead(&zernel, &data.file, [MIB, LENGTH, 0])?;
    signaller.signal(1)?;
    let _quick = read_ahead(&zernel, &memory, [0, PAGE, 0])?;
    let (bell, _bell) = Bell::of(&zernel, &Target::current_process())?;
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

/// The output and actions of `zernelctl prefetch`.
pub(super) fn shows_and_reads() -> Outcome {
    const LENGTH: u64 = 8 << 20;
    let zernel = Zernel::open()?;
    let disk = device(FAST, None)?;
    let node = disk.node().to_str().context("its path is text")?;
    let child = Child::idle(|| Ok(()))?;
    let pid = child.pid().to_string();
    let signaller = Signaller::new(&zernel, child.pid())?;
    let start =
        |arguments: &[&str]| Running::start(&[&["prefetch", "--pid", &pid], arguments].concat());
    let two = start(&["--count", "2"])?;
    let json = start(&["--json", "--count", "3"])?;
    let endless = start(&[])?;
    let reads = start(&["--file", node, "--length", "8M", "--count", "3"])?;
    wait_subscriptions(&zernel, 5)?;
    let before = zernel.stats()?;
    // Twice the whole disk would be four: it begins anew.
    for round in 1..=3 {
        signaller.signal(1)?;
        if round < 3 {
            wait_until("it is read", || {
                let bytes = zernel.stats()?.readahead_bytes - before.readahead_bytes;
                Ok(bytes == round * LENGTH)
            })?;
        }
    }
    let (code, text) = two.end()?;
    let lines = text.lines().map(|line| line.split_whitespace().skip(1));
    let words: Vec<_> = lines.flatten().collect();
    let expected = ["#1", "prefetch", "pid", &pid, "#2", "prefetch", "pid", &pid];
    check_eq!((code, words), (Some(0), expected.to_vec()), "{text}");
    let (code, text) = json.end()?;
    check_eq!((code, text.lines().count()), (Some(0), 3), "{text}");
    check_eq!(text.contains("\"number\":3"), true, "{text}");
    let (code, text) = reads.end()?;
    check_eq!((code, text.lines().count()), (Some(0), 3), "{text}");
    let after = zernel.stats()?;
    check_eq!(after.readaheads - before.readaheads, 3);
    check_eq!(after.readaheads_skipped, before.readaheads_skipped);
    wait_until("all signals are shown", || {
        Ok(endless.text()?.lines().count() == 3)
    })?;
    // With the process it is over.
    child.kill()?;
    child.end()?;
    let (code, text) = endless.end()?;
    check_eq!((code, text.lines().count()), (Some(0), 3), "{text}");
    wait_subscriptions(&zernel, 0)
}

pub(super) fn says_what_is_wrong() -> Outcome {
    let refused = |arguments: &str, code, said| {
        let words: Vec<_> = arguments.split(' ').collect();
        refused(&words, code, said)
    };
    let file = format!("prefetch --pid {} --length 4K --file", process::id());
    let it = format!("{file} /zernel/bin/zernelctl");
    refused("prefetch --pid 1073741824", 3, "no such process")?;
    refused("prefetch --pid 2", 3, "the kernel's own")?;
    refused(&format!("{file} /no/such"), 1, "cannot open /no/such")?;
    refused(&format!("{file} /dev/null"), 2, "has only 0 bytes")?;
    refused(&format!("{it} --offset 1G"), 2, "not 1073741824")?;
    refused(&format!("{it} --span 4095"), 2, "the span of 4095 bytes")?;
    check_eq!(Zernel::open()?.stats()?.subscriptions, 0);
    Ok(())
}
