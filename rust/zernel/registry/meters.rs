// SPDX-License-Identifier: GPL-2.0
//! The work of a GPU for the programs that have phases.

use crate::{
    glue::{
        provider::{
            gpu::Handle,
            Ops, //
        },
        time::now_ns,
        work::Kick, //
    },
    ids::GpuId,
    policy::{
        phase::meter::{
            Look,
            Meter, //
        },
        units::{
            Ns,
            Permille, //
        }, //
    },
    tracking::program::Program, //
};
use kernel::{
    new_mutex,
    prelude::*,
    rbtree::RBTree,
    sync::{
        atomic::{
            ordering::{
                Acquire,
                Relaxed,
                Release, //
            },
            Atomic,
        },
        Arc,
        Mutex, //
    },
};

/// A TSG that is looked at.
struct Metered {
    /// Place of its program.
    program: usize,
    meter: Meter,
    /// True if its place is not known any more.
    stale: bool,
}

struct List {
    tsgs: RBTree<u64, Metered>,
    /// The receiver of answers.
    sampler: Option<Kick>,
    /// The GPU.
    gpu: Option<GpuId>,
}

/// The meters of a GPU's TSGs, by the provider's numbers.
///
/// While a look is wanted the list is the worker's, which takes it out; otherwise it is the
/// sampler's. So nobody holds its lock while a provider is called.
#[pin_data]
pub(crate) struct Meters {
    /// The sampler waits for an answer.
    wanted: Atomic<bool>,
    /// Until when the worker is not asked again, in ns.
    rests_until: Atomic<u64>,
    #[pin]
    list: Mutex<List>,
}

impl Meters {
    /// None.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new() -> Result<Arc<Self>> {
        let list = List {
            tsgs: RBTree::new(),
            sampler: None,
            gpu: None,
        };
        Arc::pin_init(
            pin_init!(Self {
                wanted: Atomic::new(false),
                rests_until: Atomic::new(0),
                list <- new_mutex!(list),
            }),
            GFP_KERNEL,
        )
    }

    /// Other TSGs are to be looked at: those that are named before [`Self::end_plan`]. Returns false,
    /// and changes nothing, if the last look is not over.
    pub(crate) fn begin_plan(&self) -> bool {
        if !self.is_answered() {
            return false;
        }
        for (_, metered) in self.list.lock().tsgs.iter_mut() {
            metered.stale = true;
        }
        true
    }

    /// A TSG of the program at this place is to be looked at.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn plan(&self, tsg: u64, program: usize) -> Result {
        let mut list = self.list.lock();
        if let Some(metered) = list.tsgs.get_mut(&tsg) {
            (metered.program, metered.stale) = (program, false);
            return Ok(());
        }
        let new = Metered {
            program,
            meter: Meter::NEW,
            stale: false,
        };
        list.tsgs.try_create_and_insert(tsg, new, GFP_KERNEL)?;
        Ok(())
    }

    /// See [`Self::begin_plan`]. Returns whether any is looked at, on the GPU of this id.
    pub(crate) fn end_plan(&self, gpu: GpuId, sampler: Kick) -> bool {
        let mut list = self.list.lock();
        let mut from = Some(0);
        while let Some(at) = from {
            let found = list.tsgs.cursor_lower_bound(&at).map(|cursor| {
                let (&tsg, metered) = cursor.current();
                (tsg, metered.stale)
            });
            from = found.and_then(|(tsg, _)| tsg.checked_add(1));
            if let Some((tsg, true)) = found {
                list.tsgs.remove(&tsg);
            }
        }
        (list.sampler, list.gpu) = (Some(sampler), Some(gpu));
        let any = list.tsgs.iter().next().is_some();
        any
    }

    /// The pause of the worker after a look, in times of the look.
    const PAUSE: u64 = 9;

    /// Asks for a look at `now`, unless the worker has just looked for long.
    pub(crate) fn want(&self, now: Ns) {
        if self.rests_until.load(Relaxed) <= now.0 {
            self.wanted.store(true, Release);
        }
    }

    /// True if the last look that was asked for is over.
    pub(crate) fn is_answered(&self) -> bool {
        !self.wanted.load(Acquire)
    }

    /// Looks at each TSG if that was asked for. Called by the worker of the GPU.
    pub(crate) fn look(&self, ops: &Ops, gpu: Handle) {
        if self.is_answered() {
            return;
        }
        let began = now_ns();
        let mut tsgs = core::mem::replace(&mut self.list.lock().tsgs, RBTree::new());
        for (&tsg, metered) in tsgs.iter_mut() {
            match ops.tsg_load(gpu, tsg) {
                Ok(load) => {
                    let look = Look {
                        ran: load.ran,
                        pending: load.runnable,
                        since: load.since,
                    };
                    metered.meter.look(Ns(now_ns()), look);
                }
                Err(_) => metered.meter.lose(),
            }
        }
        let end = now_ns();
        let pause = end.saturating_sub(began).saturating_mul(Self::PAUSE);
        self.rests_until.store(end.saturating_add(pause), Relaxed);
        let mut list = self.list.lock();
        list.tsgs = tsgs;
        let sampler = list.sampler.clone();
        drop(list);
        self.wanted.store(false, Release);
        if let Some(sampler) = sampler {
            sampler.kick();
        }
    }

    /// Adds the GPU's work for each program to that of others, if the last look is over.
    pub(crate) fn add_to(&self, programs: &mut [Program], now: Ns) {
        if !self.is_answered() {
            return;
        }
        let list = self.list.lock();
        for (_, metered) in list.tsgs.iter() {
            let Some(program) = programs.get_mut(metered.program) else {
                continue;
            };
            let (meter, gpu) = (&metered.meter, &mut program.gpu);
            gpu.share = gpu.share.max(meter.share());
            gpu.synced = gpu.synced.max(meter.synced());
            gpu.pending = gpu.pending.max(meter.pending());
            let is_busy = meter.share() > Permille(0) || meter.pending().is_some();
            let used = is_busy.then_some(now).or(meter.synced());
            if let (Some(used), Some(gpu)) = (used, list.gpu) {
                program.uses(gpu, used);
            }
        }
    }
}
