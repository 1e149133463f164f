// SPDX-License-Identifier: GPL-2.0
//! A registry with one GPU, and a driver that remembers its settings.

use crate::{
    glue::identity::{
        Pid,
        Uid, //
        COMM_LEN,
    },
    policy::{
        backoff::Backoff,
        level::{
            self,
            Level, //
        },
        permit::Caller,
        slices::Instead,
        tunables::settings::Bounds,
        units::{
            Ns,
            Us, //
        }, //
    },
    registry::{
        arrival::Arrival,
        class::{
            Asker,
            Named, //
        },
        gpu::{
            self,
            Gpu, //
        },
        gpu_time::Levels,
        meters::Meters,
        steps::Next,
        tsg::{
            self,
            Hardware, //
        },
        view::{
            ForGpu,
            View, //
        },
        Registry, //
    },
    request::device::Device,
    worker::perform::Driver, //
};
use core::cell::Cell;
use kernel::{
    prelude::*,
    rbtree::RBTreeNodeReservation, //
};

/// The user that owns the TSGs of a test.
pub(super) const OWNER: Uid = Uid(1000);

/// Time slice that the driver gives a new TSG.
pub(super) const DEFAULT_US: u32 = 1024;

/// Calls of the module that take the lock several times.
impl Registry {
    /// Adds a GPU.
    pub(super) fn add_gpu(&mut self, id: gpu::Id, gpu: Gpu) -> Result {
        let memory = (RBTreeNodeReservation::new(GFP_KERNEL)?, ForGpu::new()?);
        self.take_in_gpu(id, &mut Some(gpu), memory)
    }

    /// Adds a TSG.
    pub(super) fn add_tsg(&mut self, gpu: gpu::Id, new: tsg::Description) -> Result<tsg::Id> {
        let mut arrival = Arrival::new(new)?;
        let result = self.take_in(gpu, &mut arrival);
        if result == Err(ENOSPC) {
            self.turn_away(gpu);
        }
        self.settle();
        result
    }
}

/// A registry with one GPU.
pub(super) fn registry() -> Result<(KBox<Registry>, gpu::Id)> {
    let mut registry = Registry::new(1000, None, View::new(4)?)?;
    let id = registry.reserve_gpu_id();
    registry.add_gpu(id, gpu(7)?)?;
    Ok((registry, id))
}

/// A registry with one GPU, on which best-effort TSGs can take turns.
pub(super) fn registry_with_turns() -> Result<(KBox<Registry>, gpu::Id)> {
    let mut registry = Registry::new(1000, None, View::new(4)?)?;
    let id = registry.reserve_gpu_id();
    let mut description = gpu(7)?;
    description.abilities.enable = true;
    description.abilities.turns = true;
    description.requests = Device::new(true, false)?;
    registry.add_gpu(id, description)?;
    Ok((registry, id))
}

/// A GPU with this handle.
pub(super) fn gpu(handle: u64) -> Result<Gpu> {
    Ok(Gpu {
        provider: 1,
        handle: gpu::Handle(handle),
        names: gpu::Names::NONE,
        added_at: 0,
        tells: gpu::Tells {
            control: true,
            ..gpu::Tells::default()
        },
        levels: Levels::default(),
        look: gpu::Look::default(),
        bounds: Bounds {
            min: Us(0),
            max: Us(0),
        },
        blind: false,
        abilities: gpu::Abilities {
            interleave: true,
            ..gpu::Abilities::default()
        },
        tsgs: 0,
        pending: 0,
        working: false,
        served: Uid::ROOT,
        generation: 1,
        throttled: level::Set::NONE,
        instead: Instead::NONE,
        applied: 0,
        retries: 0,
        errors: 0,
        retrying: false,
        suspended: false,
        unresponsive: false,
        requests: Device::new(false, false)?,
        backoff: Backoff::default(),
        waits_until: Ns::ZERO,
        load: gpu::Load::default(),
        meters: Meters::new(gpu::Id(handle))?,
        turned_away: false,
        told: 0,
        closing: false,
        worker: None,
    })
}

/// A compute TSG of the first process and its main thread.
pub(super) fn tsg(handle: u64) -> Result<tsg::Description> {
    tsg_of(handle, OWNER)
}

/// The same of another user.
pub(super) fn tsg_of(handle: u64, uid: Uid) -> Result<tsg::Description> {
    Ok(tsg::Description {
        handle,
        traits: tsg::Traits {
            compute: true,
            copies: false,
            shared: false,
            hw_tsg: 0,
            engine: 1,
            runlist: 0,
            channels: 1,
        },
        owner: tsg::Owner {
            process: Pid::find(1)?,
            thread: Pid::find(2)?,
            uid,
            comm: [0; COMM_LEN],
        },
    })
}

/// A TSG of this handle and run list.
pub(super) fn add(r: &mut Registry, gpu: gpu::Id, handle: u64, runlist: u32) -> Result<tsg::Id> {
    let mut description = tsg(handle)?;
    description.traits.runlist = runlist;
    r.add_tsg(gpu, description)
}

/// The same, with a class.
pub(super) fn add_at(r: &mut Registry, gpu: gpu::Id, handle: u64, level: Level) -> Result<tsg::Id> {
    let id = add(r, gpu, handle, 0)?;
    r.change_class(admin(), Named::Tsg(id), level)?;
    Ok(id)
}

/// Nobody takes turns.
pub(super) fn turn_off(r: &mut Registry) -> Result {
    r.tune(|t| {
        t.turns_mut().set_discipline(None);
        Ok(())
    })
    .map_err(|_| EINVAL)
}

/// Root.
pub(super) fn admin() -> Asker {
    asker(Uid(0), true, false)
}

/// The owner of the TSGs, without any privilege.
pub(super) fn owner() -> Asker {
    let mut asker = asker(OWNER, false, false);
    asker.caller.owner = true;
    asker
}

/// A caller with these rights that owns nothing.
pub(super) fn asker(uid: Uid, capable: bool, member: bool) -> Asker {
    Asker {
        uid,
        caller: Caller {
            owner: false,
            capable,
            member,
        },
        perfmon: false,
    }
}

/// The process of [`tsg`].
pub(super) fn process() -> Result<Named> {
    Ok(Named::Process {
        process: Pid::find(1)?,
        chain: KVec::new(),
    })
}

/// The thread of [`tsg`].
pub(super) fn thread() -> Result<Named> {
    Ok(Named::Thread {
        thread: Pid::find(2)?,
        process: Pid::find(1)?,
        chain: KVec::new(),
    })
}

/// The level with this number.
pub(super) fn level(number: u32) -> Level {
    Level::new(number).unwrap_or(Level::BE)
}

/// The level in force for a TSG.
pub(super) fn in_force(registry: &Registry, id: tsg::Id) -> Option<Level> {
    registry.tsgs.get(&id).and_then(|tsg| tsg.effective.level)
}

/// The time slice that the registry believes the driver to hold, in µs.
pub(super) fn slice(registry: &Registry, id: tsg::Id) -> Option<u32> {
    let tsg = registry.tsgs.get(&id)?;
    tsg.current.map(|hw| hw.timeslice.0)
}

/// A driver with one TSG's worth of memory.
pub(super) struct FakeDriver {
    /// The settings that it holds.
    pub(super) held: Cell<Hardware>,
    /// Calls of any kind.
    pub(super) calls: Cell<u32>,
    /// Handles of the time slice calls, as decimal digits in order.
    pub(super) order: Cell<u64>,
    /// Its answer to a time slice.
    pub(super) slice_error: Cell<Option<Error>>,
    /// Calls have their effect even when it answers an error.
    pub(super) acts_anyway: Cell<bool>,
    /// Its answer to an interleave level.
    pub(super) interleave_error: Cell<Option<Error>>,
    /// True if TSGs are scheduled.
    pub(super) enabled: Cell<bool>,
    /// Its answer when TSGs are to be scheduled, or not.
    pub(super) enable_error: Cell<Option<Error>>,
}

impl FakeDriver {
    /// As it is after a reset.
    pub(super) fn new() -> Self {
        Self {
            held: Cell::new(Hardware {
                timeslice: Us(DEFAULT_US),
                interleave: Some(1),
            }),
            calls: Cell::new(0),
            order: Cell::new(0),
            slice_error: Cell::new(None),
            acts_anyway: Cell::new(false),
            interleave_error: Cell::new(None),
            enabled: Cell::new(true),
            enable_error: Cell::new(None),
        }
    }

    /// The slice it holds, in µs.
    pub(super) fn slice(&self) -> u32 {
        self.held.get().timeslice.0
    }

    fn count(&self) {
        self.calls.set(self.calls.get() + 1);
    }
}

impl Driver for FakeDriver {
    fn get(&self, _tsg: u64) -> Result<Hardware> {
        self.count();
        Ok(self.held.get())
    }

    fn set_timeslice(&self, tsg: u64, hardware: Hardware) -> Result {
        self.count();
        let error = self.slice_error.get();
        if error.is_none() || self.acts_anyway.get() {
            self.order.set(self.order.get() * 10 + tsg);
            self.held.set(Hardware {
                timeslice: hardware.timeslice,
                ..self.held.get()
            });
        }
        error.map_or(Ok(()), Err)
    }

    fn set_interleave(&self, _tsg: u64, level: u32) -> Result {
        self.count();
        if let Some(error) = self.interleave_error.get() {
            return Err(error);
        }
        self.held.set(Hardware {
            interleave: Some(level),
            ..self.held.get()
        });
        Ok(())
    }

    fn set_enabled(&self, _tsg: u64, enabled: bool) -> Result {
        self.count();
        let error = self.enable_error.get();
        if error.is_none() || self.acts_anyway.get() {
            self.enabled.set(enabled);
        }
        error.map_or(Ok(()), Err)
    }
}

/// Stands in for a worker.
pub(super) fn work(registry: &mut Registry, gpu: gpu::Id, driver: &FakeDriver) -> Next {
    while let Some(step) = registry.next_step(gpu) {
        let outcome = step.perform(driver);
        if let Next::Wait(delay) = registry.complete(&step, &outcome) {
            return Next::Wait(delay);
        }
    }
    Next::Go
}
