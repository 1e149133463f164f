// SPDX-License-Identifier: GPL-2.0
//! The events of the driver's hook, handed on to `zernel.ko`.

use crate::{
    counters,
    glue::{
        nvidia::events::{
            Gpu,
            Observer,
            Tsg, //
        },
        provider_side::{
            self,
            Registration,
            Setting,
            Verdict, //
        },
    },
    operations::{
        Nvidia, //
        MAX_TIMESLICE_US,
        MIN_TIMESLICE_US,
    },
    runlist,
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
        self.provider
            .gpu_added(&provider_side::Gpu {
                handle: gpu.id.into(),
                min_us: MIN_TIMESLICE_US,
                max_us: MAX_TIMESLICE_US,
                name: gpu.name,
                bus: gpu.bus,
                numa_node: None,
                uuid: None,
                driver: None,
                control: true,
                waits: false,
                context: false,
            })
            .inspect_err(|_| self.provider.inner().gpus().lock().remove(gpu.id))
    }
}

/// A TSG as `zernel.ko` describes it.
fn describe<'a>(tsg: &Tsg<'a>) -> provider_side::Tsg<'a> {
    /// The driver's value for "not known".
    const UNKNOWN: u32 = u32::MAX;
    provider_side::Tsg {
        handle: tsg.id,
        compute: tsg.compute,
        shared: tsg.mps,
        place: tsg.hw_tsg.unwrap_or(UNKNOWN),
        engine_type: tsg.engine.unwrap_or(UNKNOWN),
        runlist: runlist::number(tsg.mig, tsg.engine),
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
        self.provider.inner().gpus().lock().remove(gpu);
    }

    fn tsg_added(&self, tsg: &Tsg<'_>) {
        match self.provider.tsg_added(tsg.gpu.into(), &describe(tsg)) {
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
        // One that zernel did not take is not its to follow.
        if let Ok(()) = self.provider.tsg_changed(tsg.gpu.into(), &describe(tsg)) {
            self.note_shared(tsg);
        }
    }

    fn tsg_removed(&self, gpu: u32, tsg: u64) {
        self.provider.tsg_removed(gpu.into(), tsg);
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

    fn user_controlled(&self, gpu: u32, tsg: u64) {
        // After any answer and result: the class may be younger than the answer, and a failed
        // control may have had its effect.
        self.provider.refresh(gpu.into(), tsg);
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
