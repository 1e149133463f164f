// SPDX-License-Identifier: GPL-2.0
//! Requests as the registry sees them: their owners, and their ends.

use super::{
    after::{
        OnGpu,
        Walk, //
    },
    gpu,
    levels::LevelOf,
    tsg,
    Registry, //
};
use crate::{
    error::Failure,
    glue::{
        errno,
        identity::{
            Uid,
            Viewer, //
        },
        memory::with_memory,
        trace,
        work::Worker, //
    },
    policy::units::{
        Ms,
        Ns, //
    },
    request::{
        boost::Boosts,
        device::Device,
        group::Group,
        keys::{
            Found,
            Key,
            Memory, //
        },
        starts::Waiting,
        stats::{
            Levels,
            Part,
            Shared, //
        },
    },
};
use kernel::{
    prelude::*,
    sync::Arc, //
};

/// Starts that are counted with the registry locked once.
const STARTS: usize = 4;

/// Counts the starts that the provider of a GPU reported.
///
/// # Errors
///
/// `ENODEV` the module is on its way out.
pub(crate) fn count_starts(id: gpu::Id) -> Result {
    // More come meanwhile, no more than there is room for counted.
    for _ in 0..Waiting::ROOM / STARTS {
        if !super::with(|r| r.count_starts(id))? {
            break;
        }
    }
    Ok(())
}

/// Counts the starts that the providers of all GPUs reported.
///
/// # Errors
///
/// `ENODEV` the module is on its way out.
pub(crate) fn count_all_starts() -> Result {
    let mut from = gpu::Id(0);
    while let Some(id) = super::with(|r| Some(r.gpu_from(from)?.0))? {
        count_starts(id)?;
        from = gpu::Id(id.0.saturating_add(1));
    }
    Ok(())
}

/// Tells the statistics that make up a level: on a GPU, or on all of them, those that are gone
/// included.
///
/// # Errors
///
/// `ENODEV` the module is on its way out, `ENOMEM`.
pub(crate) fn each_part(of: LevelOf, f: impl FnMut(Part<'_>)) -> Result {
    let mut devices = KVec::with_capacity(gpu::MAX as usize, GFP_KERNEL)?;
    let gone = super::with(|r| r.gone_requests.clone())?;
    let gone = gone.lock();
    super::with(|r| r.devices_of(of, &mut devices))?;
    tell_parts(of, &devices, &gone, f);
    Ok(())
}

fn tell_parts(of: LevelOf, devices: &[Arc<Device>], gone: &Levels, mut f: impl FnMut(Part<'_>)) {
    let everywhere = of.gpu.is_none();
    for device in devices {
        match of.level {
            None if everywhere => device.totals.all().for_each(|shared| f(Part::Live(shared))),
            level => {
                if let Some(shared) = device.totals.of(level) {
                    f(Part::Live(shared));
                }
            }
        }
    }
    match of.level {
        _ if !everywhere => {}
        None => gone.all().for_each(|kept| f(Part::Gone(kept))),
        level => {
            if let Some(kept) = gone.of(level) {
                f(Part::Gone(kept));
            }
        }
    }
}

/// The history of a user's key. Each look has the registry locked for itself, and memory comes and
/// goes without the lock.
///
/// # Errors
///
/// `ENOMEM`.
pub(crate) fn key(user: Uid, name: u64) -> Result<Arc<Key>, Failure> {
    let mut memory = None;
    loop {
        match super::with(|r| r.keys.find(user, name, &mut memory))? {
            Found::Key(key) => return Ok(key),
            Found::TakesMemory => memory = Some(with_memory(Memory::new)?),
            Found::Later => {}
        }
    }
}

impl Registry {
    /// As [`each_part`], for tests without a lock.
    #[cfg(zernel_kunit)]
    pub(crate) fn each_part(&self, of: LevelOf, f: impl FnMut(Part<'_>)) -> Result {
        let mut devices = KVec::with_capacity(gpu::MAX as usize, GFP_KERNEL)?;
        self.devices_of(of, &mut devices);
        tell_parts(of, &devices, &self.gone_requests.lock(), f);
        Ok(())
    }

    /// The worker that prefers threads of requests.
    ///
    /// # Errors
    ///
    /// `ENODEV` nobody does, as in tests.
    pub(crate) fn boosts(&self) -> Result<Arc<Worker<Boosts>>, Failure> {
        Ok(self.boosts.clone().ok_or(ENODEV)?)
    }

    /// The requests of a TSG, for one that `user` begins. `sees_all`, `may_all`: the user sees, and
    /// may begin some on, other users' TSGs. `stats`: where to count if it is the first one of the
    /// TSG.
    ///
    /// # Errors
    ///
    /// [`Failure::NoTsg`], [`Failure::NotPermitted`], `ENOMEM`.
    pub(crate) fn group(
        &mut self,
        id: tsg::Id,
        user: Uid,
        sees_all: bool,
        may_all: bool,
        stats: Option<Arc<Shared>>,
    ) -> Result<Arc<Group>, Failure> {
        let tsg = self.tsgs.get_mut(&id).ok_or(Failure::NoTsg)?;
        let owns = tsg.owner.uid == user;
        if !owns && !may_all {
            return Err(match sees_all {
                true => Failure::NotPermitted,
                false => Failure::NoTsg,
            });
        }
        if let Some(group) = &tsg.requests {
            return Ok(group.clone());
        }
        let gpu = self.gpus.get(&tsg.gpu).ok_or(Failure::NoTsg)?;
        // A caller without one was told that it is not the first.
        let stats = stats.ok_or(Failure::NoTsg)?;
        let group = Group::new(
            id,
            tsg.handle,
            gpu.requests.clone(),
            stats,
            tsg.effective.level,
            tsg.traits.runlist,
        )?;
        tsg.requests = Some(group.clone());
        Ok(group)
    }

    /// True if a TSG is of this user.
    pub(crate) fn owns(&self, id: tsg::Id, user: Uid) -> bool {
        self.tsgs.get(&id).is_some_and(|tsg| tsg.owner.uid == user)
    }

    /// True if a request that `user` begins would be the first one of a TSG.
    pub(crate) fn is_first(&self, id: tsg::Id, user: Uid, may_all: bool) -> bool {
        let tsg = self.tsgs.get(&id);
        let tsg = tsg.filter(|tsg| tsg.owner.uid == user || may_all);
        tsg.is_some_and(|tsg| tsg.requests.is_none())
    }

    /// The requests of a TSG that `viewer` sees, if it ever had some.
    ///
    /// # Errors
    ///
    /// [`Failure::NoTsg`].
    pub(crate) fn known_group(
        &self,
        id: tsg::Id,
        viewer: &Viewer,
    ) -> Result<Option<Arc<Group>>, Failure> {
        self.tsgs
            .get(&id)
            .filter(|tsg| viewer.sees_all() || tsg.owner.uid == viewer.uid())
            .map(|tsg| tsg.requests.clone())
            .ok_or(Failure::NoTsg)
    }

    /// Counts some of the starts that the provider of a GPU reported. Returns whether there may be
    /// more.
    pub(crate) fn count_starts(&mut self, id: gpu::Id) -> bool {
        let Some(gpu) = self.gpus.get(&id) else {
            return false;
        };
        for _ in 0..STARTS {
            let Some(start) = gpu.requests.next_start() else {
                return false;
            };
            if start.switch > Ns::ZERO {
                gpu.requests.count_switch(start.switch);
            }
            let tsg = self.handles.get(&(id, start.handle));
            let tsg = tsg.and_then(|tsg| self.tsgs.get(tsg));
            let group = tsg.and_then(|tsg| tsg.requests.as_ref());
            // Others have no triggers.
            if let (Some(waited), Some(group)) = (start.waited(), group) {
                group.waited(waited);
            }
        }
        true
    }

    /// The state of the requests on the GPUs of a level. `found` has room for [`gpu::MAX`].
    fn devices_of(&self, of: LevelOf, found: &mut KVec<Arc<Device>>) {
        let is_meant = |id: &gpu::Id| of.gpu.is_none_or(|gpu| gpu == *id);
        for (_, gpu) in self.gpus.iter().filter(|(id, _)| is_meant(id)) {
            // There is room.
            let _ = found.push_within_capacity(gpu.requests.clone());
        }
    }

    /// The first key from this one on.
    pub(crate) fn key_from(&self, from: (Uid, u64)) -> Option<((Uid, u64), Arc<Key>)> {
        self.keys.first_from(from)
    }

    /// The TSG that comes after `after`, and its requests if it ever had some.
    pub(crate) fn next_group(&self, after: tsg::Id) -> Option<(tsg::Id, Option<Arc<Group>>)> {
        let id = self.tsg_id(after.after())?;
        Some((id, self.tsg(id)?.requests.clone()))
    }

    /// Its provider says that a GPU is suspended.
    pub(crate) fn suspend_gpu(&mut self, id: gpu::Id) {
        if let Some(gpu) = self.gpus.get_mut(&id) {
            gpu.suspended = true;
        }
        self.set_retrying(id, true);
        self.tell_state(id);
    }

    /// A provider answered a call for a GPU. One that was done shows that its driver is awake.
    pub(super) fn answered(&mut self, id: gpu::Id, result: Result) {
        let retrying = match result {
            Ok(()) => false,
            Err(EAGAIN) => true,
            // These tell nothing.
            Err(_) => return,
        };
        let Some(gpu) = self.gpus.get_mut(&id) else {
            return;
        };
        gpu.suspended &= retrying;
        if gpu.retrying != retrying {
            self.set_retrying(id, retrying);
            self.tell_state(id);
        }
    }

    /// The provider's number of a TSG that is to be served at once.
    pub(crate) fn urgent(&self, id: tsg::Id) -> Option<u64> {
        let tsg = self.tsgs.get(&id)?;
        let gpu = self.gpus.get(&tsg.gpu)?;
        (!gpu.closing && !gpu.unresponsive).then_some(tsg.handle)
    }

    /// The run list of a TSG was to begin anew. Returns for how long nothing can be called.
    pub(crate) fn was_kicked(&mut self, id: gpu::Id, tsg: tsg::Id, result: Result) -> Option<Ms> {
        let error = result.err().map_or(0, Error::to_errno);
        trace::tsg_kicked(id.0, tsg.0, error);
        self.answered(id, result);
        let gpu = self.gpus.get_mut(&id)?;
        match result {
            Ok(()) => {
                gpu.relent();
                gpu.requests.kicked(true);
            }
            Err(EAGAIN) => {
                gpu.retries += 1;
                self.counters.retries += 1;
                return Some(gpu.back_off());
            }
            // It is of the TSG, or of the moment.
            Err(ENOENT | EBUSY) => {}
            Err(e) if e == errno::unsupported() => gpu.requests.set_can_kick(false),
            // So may this be.
            Err(_) => gpu.requests.kicked(false),
        }
        None
    }

    /// Calls for a GPU are retried, which ends the requests on it, or are answered again.
    fn set_retrying(&mut self, id: gpu::Id, retrying: bool) {
        let Some(gpu) = self.gpus.get_mut(&id) else {
            return;
        };
        gpu.retrying = retrying;
        if gpu.requests.set_suspended(retrying) || !retrying {
            return;
        }
        self.walk(Walk::Gpu(id, None, OnGpu::Suspend));
    }
}
