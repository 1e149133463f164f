// SPDX-License-Identifier: MIT OR Apache-2.0
//! Enumerations: the contents of entries, parts, the entries that a user sees, and churn.

use std::collections::BTreeSet;
use std::fs;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::MetadataExt;

use anyhow::Result;
use bytemuck::{Pod, Zeroable};
use libzernel::event::Wanted;
use libzernel::sim::{Context, ContextSpec, Sim};
use libzernel::sys::abi;
use libzernel::{EventStream, Source, Target, Timestamp, Tsg, Zernel};
use rustix::io::Errno;

use crate::check_eq;
use crate::child::{in_child, Child};
use crate::common::{self, errno, refuses_class, tid, wait_until, Lab};
use crate::group::ROOT;
use crate::harness::{case, suite, Outcome, Suite};
use crate::permit::{owner_process, ALICE, BOB};
use crate::sys;

/// The suite.
pub const SUITE: Suite = suite(
    "list",
    &[
        case("gpus_say_what_they_are", gpus_say_what_they_are),
        case("tsgs_say_what_they_are", tsgs_say_what_they_are),
        case("parts_join", parts_join),
        case("users_see_their_own", users_see_their_own),
        case("foreign_pid_namespace", foreign_pid_namespace),
        case("stable_under_churn", stable_under_churn),
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
    check_eq!(gpus[0].bus == gpus[1].bus, false, "one address for two");
    for gpu in &gpus {
        check_eq!(gpu.provider.as_str(), "sim");
        check_eq!(gpu.name.is_empty() || gpu.bus.is_empty(), false, "{gpu:?}");
        check_eq!((gpu.tsgs, gpu.pending), (0, 0), "{gpu:?}");
    }
    let (_first, tsg) = lab.compute()?;
    let _copy = lab.context(&ContextSpec::copy("copy"))?;
    check_eq!(tsg.gpu, gpus[0].id);
    let counts = lab.zernel.gpus().map(|gpu| gpu.map(|gpu| gpu.tsgs));
    check_eq!(counts.collect::<Result<Vec<_>, _>>()?, [2, 0]);
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
    let lived = before..=Timestamp::now();
    check_eq!((tsg.pid, tsg.tid, tsg.uid), (std::process::id(), tid(), 0));
    check_eq!(tsg.comm.as_str(), "describe-me");
    check_eq!((tsg.channels, tsg.compute), (3, false));
    check_eq!((tsg.level, tsg.source), (None, Source::None));
    check_eq!(tsg.cgroup, fs::metadata(ROOT)?.ino());
    check_eq!(lived.contains(&tsg.added_ns), true, "{tsg:?}");
    let of_gpu_0 = lab.compute()?.1;
    check_eq!(tsg.gpu > of_gpu_0.gpu, true, "GPU 1 comes after GPU 0");
    let slice = context.stats()?.timeslice_us;
    wait_until("the worker has read the slice", || {
        let tsg = lab.tsg(tsg.id)?;
        Ok((tsg.timeslice_us, tsg.default_timeslice_us, tsg.pending) == (slice, slice, false))
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
            check_eq!(ids.is_sorted_by(|one, next| one < next), true, "{ids:?}");
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
    let none = read_parts(&lab.zernel, 5)?;
    check_eq!(none, (vec![], vec![0]), "an empty list");
    let contexts = contexts(&lab.sim, 150)?;
    let (all, lengths) = read_parts(&lab.zernel, 1000)?;
    check_eq!(lengths, [64, 64, 22], "64 entries at most");
    check_eq!(all.len(), contexts.len());
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

/// Ids of the TSGs that the caller sees.
fn seen() -> Result<Vec<u64>> {
    Ok(read_parts(&Zernel::open()?, 64)?.0)
}

fn users_see_their_own() -> Outcome {
    let _owners = [owner_process(ALICE)?, owner_process(BOB)?];
    let lab = Lab::open()?;
    let _mine = lab.compute()?;
    let all = seen()?;
    check_eq!(all.len(), 3);
    let tsgs = lab.zernel.tsgs().collect::<Result<Vec<_>, _>>()?;
    // A root without capabilities is a user like any other.
    for (uid, capability, want) in [
        (ALICE, 0, &all[..1]),
        (BOB, 0, &all[1..2]),
        (0, 0, &all[2..]),
        (65534, 0, &[]),
        (65534, PERFMON, &all[..]),
    ] {
        in_child(|| {
            sys::become_user_with(uid, uid, capability)?;
            check_eq!(seen()?, want, "user {uid} with {capability}");
            for tsg in Zernel::open()?.tsgs() {
                let tsg = tsg?;
                check_eq!(capability == PERFMON || tsg.uid == uid, true, "{tsg:?}");
            }
            tsgs.iter()
                .try_for_each(|tsg| named(tsg, want.contains(&tsg.id.as_u64())))
        })?;
    }
    Ok(())
}

/// A TSG that the caller does not see is, where it is named, as if it were not there.
fn named(tsg: &Tsg, is_seen: bool) -> Outcome {
    let zernel = Zernel::open()?;
    let target = Target::Tsg(tsg.id);
    let want = (!is_seen).then_some(Errno::NOENT);
    let listed = zernel.tsgs_of(&target).next().transpose();
    check_eq!(errno(listed), want, "list of {target:?}");
    let events = EventStream::open_at(Zernel::PATH, &Wanted::all().of(&target));
    check_eq!(errno(events), want, "events of {target:?}");
    let of_process = zernel.tsgs_of(&Target::Process(tsg.pid));
    check_eq!(of_process.count(), usize::from(is_seen), "of its process");
    Ok(())
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
    let mut kept = seen()?;
    let before = lab.stats()?.tsgs_added;
    let churn = Child::spawn(|| {
        let sim = Sim::open()?;
        loop {
            drop(contexts(&sim, 7)?);
        }
    })?;
    wait_until("the churn has begun", || {
        Ok(lab.stats()?.tsgs_added > before)
    })?;
    let (_late, tsg) = lab.compute()?;
    kept.push(tsg.id.as_u64());
    let mut passes = 0;
    common::wait_until_within(5 * common::SOON, "500 changes", || {
        for count in [1, 2, 5, 64] {
            let (ids, _) = read_parts(&lab.zernel, count)?;
            let missing: Vec<_> = kept.iter().filter(|id| !ids.contains(id)).collect();
            check_eq!(missing.is_empty(), true, "{missing:?} not seen in {ids:?}");
            passes += 1;
        }
        Ok(passes >= 100 && lab.stats()?.tsgs_added > before + 500)
    })?;
    churn.kill()
}

/// No id comes again, after a reload of the provider or of both modules.
fn ids_survive_a_reload() -> Outcome {
    let ids = || -> Result<BTreeSet<u64>> {
        let lab = Lab::open()?;
        let (first, one) = lab.compute()?;
        drop(first);
        let (_context, other) = lab.compute()?;
        check_eq!(one.id < other.id, true, "a later TSG");
        refuses_class(&lab, &Target::Tsg(one.id), Errno::NOENT)?;
        let mut ids = BTreeSet::from([one.id.as_u64(), other.id.as_u64()]);
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
    check_eq!([first.len(), second.len(), third.len()], [4; 3]);
    check_eq!(first.last() < second.first(), true, "of the provider");
    check_eq!(second.last() < third.first(), true, "of both");
    Ok(())
}
