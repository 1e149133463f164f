// SPDX-License-Identifier: GPL-2.0
//! Has the processes in tracked cgroups tracked, wherever they come from and go.

use super::{
    batch,
    end_all,
    group::Terms,
    look,
    need_hooks,
    rest,
    with,
    with_memory,
    Payer,
    Tracking,
    LOOKS, //
};
use crate::{
    error::Failure,
    glue::{
        cgroup::{
            Cgroup,
            Known,
            Walk, //
        },
        identity::Pid,
        scheduler_hooks, //
    },
};
use kernel::{
    prelude::*,
    sync::Arc, //
};

/// Tracks a cgroup. Returns how many threads are tracked because of it.
///
/// # Errors
///
/// See `struct zernel_track`; nothing has changed then, unless others track the same cgroup
/// meanwhile.
pub(crate) fn track_cgroup(cgroup: Cgroup, terms: Terms) -> Result<u32, Failure> {
    let known = Arc::new(Known::new(cgroup), GFP_KERNEL_ACCOUNT)?;
    let _needed = need_hooks()?;
    let mut opened = with_memory(|t| t.open_group(&known, terms))?;
    // A removal of it from now on kicks the cgroup sync.
    let result = match opened.cgroup.is_dead() {
        true => Err(Failure::Kernel(ESRCH)),
        false => fill(&opened.cgroup),
    };
    if result.is_err() {
        with(|t| t.undo_group(&mut opened))?;
        look_inside(opened.serial, opened.serial, Payer::Caller)?;
    }
    let threads = with(|t| t.close_group(&opened))?;
    result.map(|()| threads)
}

/// Tracks a cgroup no more.
///
/// # Errors
///
/// See `struct zernel_track`; nothing has changed then.
pub(crate) fn untrack_cgroup(cgroup: &Cgroup, privileged: bool) -> Result<(), Failure> {
    let serial = with(|t| t.untrack_group(cgroup, privileged))??;
    look_inside(serial, serial, Payer::Caller)?;
    Ok(())
}

/// Looks for the processes in tracked cgroups. Called by the cgroup sync.
pub(crate) fn follow() {
    let Ok(any) = with(|t| t.begin_follow()) else {
        return;
    };
    let mut from = Some(0);
    while let Some(at) = from {
        from = batch(at, Tracking::drop_removed_from);
    }
    let mut lacks = look_inside(0, u64::MAX, Payer::Process).unwrap_or(false);
    let mut walk = any.then(|| Walk::new(None));
    while let Some(found) = walk.as_mut().map_or(Ok(None), Walk::next).transpose() {
        let Ok(found) = found else {
            lacks = true;
            break;
        };
        for pid in &found {
            lacks |= settle(pid, Payer::Process).is_err();
        }
    }
    if lacks {
        // Without a table nobody is missed.
        let _ = with(|t| t.retry());
    }
}

/// Has everybody in a cgroup tracked for whom there is room.
fn fill(cgroup: &Known) -> Result<(), Failure> {
    for _ in 0..LOOKS {
        let mut came = false;
        let mut walk = Walk::new(Some(cgroup));
        while let Some(found) = walk.next()? {
            for pid in &found {
                came |= match settle(pid, Payer::Caller) {
                    // It counts as missed, and does not keep others from being tracked.
                    Err(Failure::OverQuota | Failure::TableFull) => false,
                    settled => settled?,
                };
            }
        }
        // A thread with a record has its children tracked.
        if !came {
            return Ok(());
        }
    }
    // They come faster than one can look. The cgroup sync knows of processes without a record.
    Ok(())
}

/// Looks at the processes in the cgroups of these serial numbers, as far as is known. Returns
/// whether there was no memory or room for some.
fn look_inside(first: u64, last: u64, payer: Payer) -> Result<bool> {
    let mut lacks = false;
    let mut from = (first, 0);
    while let Some((next, process)) = with(|t| t.inside_from(from))? {
        if next.0 > last {
            break;
        }
        lacks |= settle(process.pid(), payer).is_err();
        from = next;
    }
    Ok(lacks)
}

/// Has a process tracked or not, as its cgroups tell. Returns whether it has come to one. If there is
/// no room for it, or no memory of its own, it is missed, once.
fn settle(pid: &Pid, payer: Payer) -> Result<bool, Failure> {
    let miss = |failure: &Failure| {
        // The call that fills a cgroup tells of memory itself.
        let is_told = payer == Payer::Caller;
        if !is_told || matches!(failure, Failure::OverQuota | Failure::TableFull) {
            scheduler_hooks::miss();
        }
    };
    let change = payer.with_some_memory(pid, |t, strict| t.refresh(pid, strict));
    let Some(change) = change.inspect_err(miss)? else {
        return Ok(false);
    };
    let process = &change.process;
    match change.left {
        true => end_all(process)?,
        false => rest(process)?,
    }
    if change.lacks {
        let failure = Failure::Kernel(ENOMEM);
        miss(&failure);
        return Err(failure);
    }
    let came = change.came || process.lacks();
    // The call that fills a cgroup answers for all processes in it, even if another one has seen
    // them come.
    if came || (payer == Payer::Caller && process.grouped().whole) {
        let result = look(process, payer);
        let lacked = process.set_lacks(result.is_err());
        result.inspect_err(|failure| {
            if !lacked {
                miss(failure);
            }
        })?;
    }
    Ok(came)
}
