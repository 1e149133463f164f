// SPDX-License-Identifier: GPL-2.0
//! The events of the driver's hook, handed on to `zernel.ko`.

use crate::{
    counters,
    glue::{
        nvidia::{
            events::{
                Gpu,
                Observer,
                Tsg, //
            },
            records::INSTANCES, //
        },
        provider_side::{
            self,
            Registration,
            Setting,
            Verdict, //
        },
    },
    meters,
    operations::{
        Nvidia, //
        MAX_TIMESLICE_US,
        MIN_TIMESLICE_US,
    },
    runlist::{
        self,
        Place, //
    },
    shared::Shared, //
};
use kernel::{
    new_mutex,
    prelude::*,
    sync::{
        Arc,
        Mutex, //
    }, //
};

/// Hands events on.
#[pin_data]
pub(crate) struct Events {
    provider: Arc<Registration<Nvidia>>,
    #[pin]
    shared: Mutex<Shared>,
}

impl Events {
    /// Hands events on to `zernel.ko` as those of this provider.
    pub(crate) fn new(provider: Arc<Registration<Nvidia>>) -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                provider,
                shared <- new_mutex!(Shared::new(), "zernel_nvidia_shared"),
            }),
            GFP_KERNEL,
        )
    }

    fn note_shared(&self, tsg: &Tsg<'_>) {
        if tsg.mps {
            self.shared.lock().note(tsg.id);
        }
    }

    fn add_gpu(&self, gpu: &Gpu<'_>) -> Result {
        self.provider.inner().gpus().lock().add(gpu.id)?;
        let herald = self.provider.herald();
        let added = self.provider.inner().meters().lock().add_gpu(gpu.id);
        added
            .and_then(|()| self.provider.inner().traces().lock().add(gpu.id, herald))
            .inspect_err(|_| self.forget_gpu(gpu.id))?;
        self.provider
            .gpu_added(&provider_side::Gpu {
                handle: gpu.id.into(),
                min_us: MIN_TIMESLICE_US,
                max_us: MAX_TIMESLICE_US,
                name: gpu.name,
                bus: gpu.bus,
                numa_node: None,
                uuid: None,
                driver: Some(gpu.driver),
                control: !gpu.observed,
                waits: false,
                context: false,
                polled: true,
            })
            .inspect_err(|_| self.forget_gpu(gpu.id))
    }

    fn forget_gpu(&self, gpu: u32) {
        self.provider.inner().gpus().lock().remove(gpu);
        self.provider.inner().traces().lock().remove(gpu);
        self.provider.inner().meters().lock().remove_gpu(gpu);
    }

    fn add_tsg(&self, tsg: &Tsg<'_>) -> Result {
        let new = meters::Arrival::new(tsg.id, part_of(tsg), tsg.runlist, tsg.compute)?;
        let mut meters = self.provider.inner().meters().lock();
        meters.add(new);
        meters.set_traced(tsg.id, tsg.traced);
        drop(meters);
        let added = self.provider.tsg_added(tsg.gpu.into(), &describe(tsg));
        added.inspect_err(|_| self.forget_tsg(tsg.id))
    }

    fn forget_tsg(&self, tsg: u64) {
        let node = self.provider.inner().meters().lock().remove(tsg);
        // Dropped without the lock.
        drop(node);
    }
}

/// The number of an instance is the tenant's word: one that cannot be is none.
fn part_of(tsg: &Tsg<'_>) -> meters::Part {
    meters::Part {
        gpu: tsg.gpu,
        mig: tsg.mig.filter(|&mig| (mig as usize) < INSTANCES),
    }
}

/// A TSG as `zernel.ko` describes it.
fn describe<'a>(tsg: &Tsg<'a>) -> provider_side::Tsg<'a> {
    /// The driver's value for "not known".
    const UNKNOWN: u32 = u32::MAX;
    provider_side::Tsg {
        handle: tsg.id,
        compute: tsg.compute,
        copies: tsg.engine.is_some_and(runlist::copies),
        shared: tsg.mps,
        place: tsg.hw_tsg.unwrap_or(UNKNOWN),
        engine_type: tsg.engine.unwrap_or(UNKNOWN),
        runlist: runlist::number(Place {
            base: tsg.runlist,
            mig: tsg.mig,
            compute: tsg.compute_instance,
            engine: tsg.engine,
        }),
        channels: tsg.channels,
        process: tsg.process,
        thread: tsg.thread,
    }
}

impl Observer for Events {
    fn gpu_added(&self, gpu: &Gpu<'_>) {
        if let Err(e) = self.add_gpu(gpu) {
            pr_warn!(
                "GPU {} is not managed, its TSGs keep the driver's settings: {:?}\n",
                gpu.bus,
                e
            );
        }
    }

    fn gpu_removed(&self, gpu: u32) {
        // First, since it waits for operations, which ask for the list.
        self.provider.gpu_removed(gpu.into());
        self.forget_gpu(gpu);
    }

    fn tsg_added(&self, tsg: &Tsg<'_>) {
        match self.add_tsg(tsg) {
            Ok(()) => self.note_shared(tsg),
            // Its file lives on in another process; the owner of its work is unknown.
            Err(ESRCH) => {
                counters::UNOWNED.count();
            }
            Err(e) => {
                if counters::UNMANAGED.count() {
                    pr_warn!(
                        "a TSG is not managed and keeps the driver's settings: {:?}\n",
                        e
                    );
                }
            }
        }
    }

    fn tsg_changed(&self, tsg: &Tsg<'_>) {
        let mut meters = self.provider.inner().meters().lock();
        meters.set_traced(tsg.id, tsg.traced);
        meters.set_place(tsg.id, part_of(tsg), tsg.runlist, tsg.compute);
        drop(meters);
        // One that zernel did not take is not its to follow.
        if let Ok(()) = self.provider.tsg_changed(tsg.gpu.into(), &describe(tsg)) {
            self.note_shared(tsg);
        }
    }

    fn tsg_removed(&self, gpu: u32, tsg: u64) {
        self.provider.tsg_removed(gpu.into(), tsg);
        self.forget_tsg(tsg);
        self.shared.lock().forget(tsg);
    }

    fn user_control(&self, gpu: u32, tsg: u64, setting: Setting) -> Verdict {
        let verdict = self.provider.user_control(gpu.into(), tsg, setting);
        match verdict {
            Verdict::Allow => false,
            Verdict::Deny => counters::DENIED.count(),
            Verdict::Reapply => counters::OBSERVED.count(),
        };
        verdict
    }

    fn user_controlled(&self, gpu: u32, tsg: u64, setting: Setting) {
        // After any answer and result: the class may be younger than the answer, and a failed
        // control may have had its effect.
        self.provider.changed(gpu.into(), tsg, setting);
    }

    fn suspended(&self) {
        // The hook answers every control with `EAGAIN` by itself.
        let gpus = self.provider.inner().gpus().lock();
        for gpu in gpus.ids() {
            self.provider.gpu_suspended(gpu.into());
        }
    }

    fn resumed(&self) {
        let mut gpus = self.provider.inner().gpus().lock();
        gpus.restart();
        for gpu in gpus.ids() {
            self.provider.gpu_refresh(gpu.into());
        }
    }
}
