// SPDX-License-Identifier: GPL-2.0
//! Enumerations: what entries say, pages, who sees what, and what churn does to them.

use std::collections::BTreeSet;
use std::fs;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::MetadataExt;

use anyhow::Result;
use bytemuck::{Pod, Zeroable};
use libzernel::sim::{Context, ContextSpec, Sim};
use libzernel::sys::abi;
use libzernel::{tsg, Source, Target, Timestamp, Zernel};
use rustix::io::Errno;

use crate::abi::call;
use crate::check_eq;
use crate::child::{in_child, Child};
use crate::common::{self, errno, level, tid, wait_until, Lab};
use crate::group::ROOT;
use crate::harness::{case, suite, Outcome, Suite};
use crate::sys::{self, Area};

/// The suite.
pub const SUITE: Suite = suite(
    "list",
    &[
        case("gpus_say_what_they_are", gpus_say_what_they_are),
        case("tsgs_say_what_they_are", tsgs_say_what_they_are),
        case("parts_join", parts_join),
        case("entries_are_cut_or_extended", entries_are_cut_or_extended),
        case("users_see_their_own", users_see_their_own),
        case("perfmon_sees_all", perfmon_sees_all),
        case("foreign_pid_namespace", foreign_pid_namespace),
        case("stable_under_churn", stable_under_churn),
        case("ids_are_never_used_again", ids_are_never_used_again),
        case("ids_survive_a_reload", ids_survive_a_reload),
    ],
);

/// `CAP_PERFMON`.
pub const PERFMON: u32 = 38;

fn gpus_say_what_they_are() -> Outcome {
    let lab = Lab::open()?;
    let gpus = lab.zernel.gpus().collect::<Result<Vec<_>, _>>()?;
    check_eq!(gpus.len(), 2);
    check_eq!(gpus[0].id < gpus[1].id, true, "in the order of their ids");
    for gpu in &gpus {
        check_eq!(gpu.provider.as_str(), "sim");
        check_eq!(gpu.name.is_empty() || gpu.bus.is_empty(), false, "{gpu:?}");
        check_eq!((gpu.tsgs, gpu.pending), (0, 0), "{gpu:?}");
    }
    check_eq!(
        gpus[0].bus == gpus[1].bus,
        false,
        "two GPUs with one address"
    );
    let (_first, tsg) = lab.compute()?;
    let (_copy, _) = lab.context(&ContextSpec::copy("copy"))?;
    check_eq!(tsg.gpu, gpus[0].id);
    let counts = || -> Result<Vec<u32>> {
        let counts = lab.zernel.gpus().map(|gpu| gpu.map(|gpu| gpu.tsgs));
        Ok(counts.collect::<Result<_, _>>()?)
    };
    check_eq!(counts()?, [2, 0]);
    check_eq!(lab.stats()?.tsgs, 2);
    Ok(())
}

fn tsgs_say_what_they_are() -> Outcome {
    let lab = Lab::open()?;
    fs::write("/proc/self/comm", "describe-me")?;
    let spec = ContextSpec {
        gpu: 1,
        channels: 3,
        ..ContextSpec::copy("copy")
    };
    let before = Timestamp::now();
    let (context, tsg) = lab.context(&spec)?;
    let after = Timestamp::now();
    let stats = context.stats()?;
    check_eq!((tsg.pid, tsg.tid, tsg.uid), (std::process::id(), tid(), 0));
    check_eq!(tsg.comm.as_str(), "describe-me");
    check_eq!(tsg.channels, 3);
    check_eq!(tsg.compute, false);
    check_eq!((tsg.level, tsg.source), (None, Source::None));
    check_eq!(tsg.cgroup, fs::metadata(ROOT)?.ino());
    check_eq!(
        before <= tsg.added_ns && tsg.added_ns <= after,
        true,
        "{tsg:?}"
    );
    check_eq!(
        tsg.gpu > lab.compute()?.1.gpu,
        true,
        "GPU 1 comes after GPU 0"
    );
    wait_until("the worker has read the slice", || {
        let tsg = lab.tsg(tsg.id)?;
        Ok(tsg.timeslice_us == stats.timeslice_us
            && tsg.default_timeslice_us == stats.timeslice_us
            && !tsg.pending)
    })?;
    let tsg = lab.tsg(tsg.id)?;
    check_eq!((tsg.applied, tsg.errors, tsg.failed), (0, 0, false));
    Ok(())
}

/// Reads a part of a list of all there is. Returns how many entries there were, and the next cursor.
pub fn part<T: Pod>(
    fd: BorrowedFd<'_>,
    kind: u32,
    cursor: u64,
    entries: &mut [T],
) -> Result<(usize, u64)> {
    let mut list = abi::zernel_list {
        kind,
        cursor,
        ..abi::zernel_list::zeroed()
    };
    let filled = libzernel::sys::zernel::list(fd, &mut list, entries)?;
    check_eq!(
        list.entry_known as usize,
        size_of::<T>(),
        "known of an entry"
    );
    Ok((filled, list.next))
}

/// Reads all TSGs in parts of `room`; hands back the ids and the lengths of the parts.
fn read_parts(zernel: &Zernel, room: usize) -> Result<(Vec<u64>, Vec<usize>)> {
    let (mut ids, mut lengths, mut cursor) = (Vec::new(), Vec::new(), 0);
    let mut entries = vec![abi::zernel_tsg_info::zeroed(); room];
    loop {
        let (filled, next) = part(zernel.as_fd(), abi::ZERNEL_LIST_TSGS, cursor, &mut entries)?;
        ids.extend(entries[..filled].iter().map(|entry| entry.id));
        lengths.push(filled);
        if next == 0 {
            return Ok((ids, lengths));
        }
        cursor = next;
    }
}

fn contexts(sim: &Sim, count: usize) -> Result<Vec<Context>> {
    (0..count)
        .map(|_| Ok(sim.create_context(&ContextSpec::compute("many"))?))
        .collect()
}

fn parts_join() -> Outcome {
    let lab = Lab::open()?;
    check_eq!(
        read_parts(&lab.zernel, 5)?,
        (vec![], vec![0]),
        "an empty list"
    );
    let contexts = contexts(&lab.sim, 150)?;
    let (all, lengths) = read_parts(&lab.zernel, 1000)?;
    check_eq!(lengths, [64, 64, 22], "64 entries at most");
    check_eq!(all.len(), contexts.len());
    check_eq!(
        all.windows(2).all(|pair| pair[0] < pair[1]),
        true,
        "in order"
    );
    for room in [1, 7, 63, 64, 65, 149, 150, 151] {
        let (ids, lengths) = read_parts(&lab.zernel, room)?;
        check_eq!(ids == all, true, "parts of {room}");
        // The last part says that it is the last, also if it is full.
        let full = lengths.iter().rev().skip(1).all(|&l| l == room.min(64));
        check_eq!(full, true, "parts of {room}: {lengths:?}");
        check_eq!(lengths.len(), 150usize.div_ceil(room.min(64)), "of {room}");
    }
    Ok(())
}

/// Lists entries of `T` in `stride` bytes each and checks what is around them.
fn in_strides<T: Pod>(lab: &Lab, kind: u32, stride: usize, ids: &[u64]) -> Outcome {
    let known = size_of::<T>().min(stride);
    let mut area = Area::new()?;
    let room = stride * (ids.len() + 1);
    area.put(0, &vec![0xa5; room]);
    let request = abi::zernel_list {
        kind,
        entries: area.address(0),
        room: ids.len() as u32 + 1,
        entry_size: stride as u32,
        ..abi::zernel_list::zeroed()
    };
    let fd = lab.zernel.as_fd();
    let (result, list) = call(fd, abi::LIBZERNEL_IOC_LIST, &request);
    result?;
    check_eq!((list.filled as usize, list.next), (ids.len(), 0));
    check_eq!(list.entry_known as usize, size_of::<T>());
    let bytes = area.get(0, room);
    for (index, &id) in ids.iter().enumerate() {
        let entry = &bytes[index * stride..][..stride];
        // The id comes first in every entry.
        let head: u64 = bytemuck::pod_read_unaligned(&entry[..8]);
        check_eq!(head, id, "entry {index}");
        let rest = entry[known..].iter().all(|&b| b == 0);
        check_eq!(rest, true, "entry {index} in {stride} bytes");
    }
    let rest = &bytes[ids.len() * stride..];
    check_eq!(rest.iter().all(|&b| b == 0xa5), true, "past the entries");
    Ok(())
}

fn entries_are_cut_or_extended() -> Outcome {
    let lab = Lab::open()?;
    let _contexts = contexts(&lab.sim, 5)?;
    let (ids, _) = read_parts(&lab.zernel, 64)?;
    let tsg = size_of::<abi::zernel_tsg_info>();
    for stride in [tsg, tsg + 8, 2 * tsg, 640] {
        in_strides::<abi::zernel_tsg_info>(&lab, abi::ZERNEL_LIST_TSGS, stride, &ids)?;
        let kind = abi::ZERNEL_LIST_TSG_REQUESTS;
        in_strides::<abi::zernel_request_info>(&lab, kind, stride.max(240), &ids)?;
    }
    let gpus: Vec<u64> = lab
        .zernel
        .gpus()
        .map(|gpu| gpu.map(|gpu| gpu.id.as_u64()))
        .collect::<Result<_, _>>()?;
    for stride in [264, 272, 1_000] {
        in_strides::<abi::zernel_gpu_info>(&lab, abi::ZERNEL_LIST_GPUS, stride, &gpus)?;
    }
    in_strides::<abi::zernel_system_info>(&lab, abi::ZERNEL_LIST_SYSTEM, 512, &[1])
}

/// Ids of the TSGs that the caller sees.
fn seen() -> Result<BTreeSet<u64>> {
    let (ids, _) = read_parts(&Zernel::open()?, 64)?;
    Ok(ids.into_iter().collect())
}

/// A child of user `uid` with two contexts, which live until the returned value is dropped.
fn user_with_contexts(uid: u32) -> Result<(Child, Vec<u64>)> {
    let before = seen()?;
    let child = Child::spawn(move || {
        sys::become_user(uid, uid, &[])?;
        let sim = Sim::open()?;
        let _contexts = contexts(&sim, 2)?;
        std::thread::sleep(std::time::Duration::from_secs(600));
        Ok(())
    })?;
    let mut ids = Vec::new();
    wait_until("the user has its contexts", || {
        ids = seen()?.difference(&before).copied().collect();
        Ok(ids.len() == 2)
    })?;
    Ok((child, ids))
}

fn users_see_their_own() -> Outcome {
    let (_alice, alices) = user_with_contexts(1000)?;
    let (_bob, bobs) = user_with_contexts(1001)?;
    let lab = Lab::open()?;
    let (_context, roots) = lab.compute()?;
    let everything: BTreeSet<u64> = [&alices[..], &bobs[..], &[roots.id.as_u64()]]
        .concat()
        .into_iter()
        .collect();
    check_eq!(seen()?, everything, "root");
    for (uid, own) in [(1000, &alices[..]), (1001, &bobs[..]), (65534, &[])] {
        in_child(|| {
            sys::become_user(uid, uid, &[])?;
            check_eq!(seen()?.into_iter().collect::<Vec<_>>(), own, "user {uid}");
            let zernel = Zernel::open()?;
            for &id in everything.iter().filter(|id| !own.contains(id)) {
                let answer = errno(zernel.class(&Target::Tsg(tsg::Id::new(id))));
                check_eq!(answer, Some(Errno::NOENT), "user {uid} asks for TSG {id}");
            }
            for tsg in zernel.tsgs() {
                check_eq!(tsg?.uid, uid);
            }
            Ok(())
        })?;
    }
    // A root without capabilities is a user like any other.
    in_child(|| {
        sys::set_capabilities(0)?;
        check_eq!(
            seen()?,
            BTreeSet::from([roots.id.as_u64()]),
            "root without capabilities"
        );
        Ok(())
    })
}

fn perfmon_sees_all() -> Outcome {
    let (_alice, alices) = user_with_contexts(1000)?;
    in_child(|| {
        sys::become_user_with(1001, 1001, PERFMON)?;
        let lab = Lab::open()?;
        check_eq!(seen()?.into_iter().collect::<Vec<_>>(), alices);
        let target = Target::Tsg(tsg::Id::new(alices[0]));
        check_eq!(lab.zernel.class(&target)?.level.value, None);
        // Seeing is not changing.
        let answer = errno(lab.zernel.set_class(&target, level(7)));
        check_eq!(answer, Some(Errno::PERM));
        let answer = errno(lab.zernel.clear_class(&target));
        check_eq!(answer, Some(Errno::PERM));
        Ok(())
    })
}

fn foreign_pid_namespace() -> Outcome {
    let lab = Lab::open()?;
    let (_context, outside) = lab.compute()?;
    in_child(|| {
        sys::unshare(libc::CLONE_NEWPID)?;
        // The next child is the first process of the new namespace.
        in_child(|| {
            check_eq!(std::process::id(), 1);
            let lab = Lab::open()?;
            let (_context, inside) = lab.compute()?;
            check_eq!((inside.pid, inside.tid), (1, 1));
            let listed = lab.tsg(outside.id)?;
            check_eq!((listed.pid, listed.tid), (0, 0));
            // Numbers are those of the caller's namespace.
            let answer = errno(lab.zernel.class(&Target::Process(outside.pid)));
            check_eq!(answer, Some(Errno::SRCH));
            check_eq!(lab.zernel.class(&Target::Process(1))?.own.level, None);
            Ok(())
        })
    })
}

fn stable_under_churn() -> Outcome {
    let lab = Lab::open()?;
    let _early = contexts(&lab.sim, 20)?;
    let mut kept: BTreeSet<u64> = seen()?;
    let churn = Child::spawn(|| {
        let sim = Sim::open()?;
        loop {
            let contexts = contexts(&sim, 7)?;
            drop(contexts);
        }
    })?;
    let before = lab.stats()?.tsgs_added;
    wait_until("the churn has begun", || {
        Ok(lab.stats()?.tsgs_added > before)
    })?;
    let late = Sim::open()?;
    let (late, id) = Lab {
        sim: late,
        zernel: Zernel::open()?,
    }
    .compute()?;
    kept.insert(id.id.as_u64());
    let mut passes = 0;
    common::wait_until_within(5 * common::SOON, "500 changes", || {
        for count in [1, 2, 5, 64] {
            let (ids, _) = read_parts(&lab.zernel, count)?;
            let sorted = ids.windows(2).all(|pair| pair[0] < pair[1]);
            check_eq!(sorted, true, "in order, none twice: {ids:?}");
            let missing: Vec<_> = kept.iter().filter(|id| !ids.contains(id)).collect();
            check_eq!(missing.is_empty(), true, "{missing:?} not seen in {ids:?}");
            passes += 1;
        }
        Ok(passes >= 100 && lab.stats()?.tsgs_added > before + 500)
    })?;
    drop(late);
    churn.kill()
}

fn ids_are_never_used_again() -> Outcome {
    let lab = Lab::open()?;
    let mut used = BTreeSet::new();
    for round in 0..100 {
        let (context, tsg) = lab.compute()?;
        let newest = used.last().is_none_or(|&last| last < tsg.id.as_u64());
        check_eq!(newest, true, "round {round}");
        used.insert(tsg.id.as_u64());
        drop(context);
    }
    check_eq!(used.len(), 100);
    for &id in &used {
        let answer = errno(lab.zernel.class(&Target::Tsg(tsg::Id::new(id))));
        check_eq!(answer, Some(Errno::NOENT), "TSG {id}");
    }
    Ok(())
}

fn ids_survive_a_reload() -> Outcome {
    let ids = || -> Result<BTreeSet<u64>> {
        let lab = Lab::open()?;
        let (_context, tsg) = lab.compute()?;
        let mut ids = BTreeSet::from([tsg.id.as_u64()]);
        for gpu in lab.zernel.gpus() {
            ids.insert(gpu?.id.as_u64());
        }
        Ok(ids)
    };
    let first = ids()?;
    common::unload_soon("zernel_sim")?;
    common::load_all()?;
    let second = ids()?;
    common::unload_all()?;
    common::load_all()?;
    let third = ids()?;
    check_eq!([first.len(), second.len(), third.len()], [3; 3]);
    check_eq!(
        first.last() < second.first(),
        true,
        "after a reload of the provider"
    );
    check_eq!(
        second.last() < third.first(),
        true,
        "after a reload of both"
    );
    Ok(())
}
