// SPDX-License-Identifier: GPL-2.0
//! Providers: their reports, and their leaving.

use crate::{
    glue::{
        identity::Uid,
        irqlock::{
            new_raw_lock,
            RawLock, //
        },
        provider::{
            provider_abi,
            Ops,
            Reports,
            NAME_LEN, //
        },
        time::{
            now_ns,
            sleep_ms,
            wait_killable, //
        },
        work::{
            Kick,
            Worker, //
        }, //
    },
    policy::{
        backoff::Backoff,
        control::Verdict,
        level,
        slices::Instead,
        tunables::settings::Bounds,
        units::{
            Ms,
            Ns,
            Us, //
        },
    },
    registry::{
        self,
        gpu::{
            self,
            Gpu, //
        },
        gpu_time::{
            Done,
            Levels, //
        },
        meters::Meters,
        population,
        requests,
        steps::Next,
        tsg,
        view::ForGpu, //
    },
    request::{
        device::Device,
        starts::Start, //
    },
    worker::pass::Pass, //
};
use kernel::{
    prelude::*,
    rbtree::RBTreeNodeReservation,
    sync::{
        atomic::{
            ordering::Relaxed,
            Atomic, //
        },
        Arc,
        ArcBorrow, //
    },
};

/// Calls answered `EAGAIN` in a row before a leaving provider's TSGs are given up: about 2 s.
const PATIENCE: u32 = 11;

/// A report that comes while latency-critical work has the GPU, or is about to, is looked at so much later:
/// to wake the worker takes some microseconds of the interrupt that wakes a client, or of the time in which
/// that client says that its data is ready.
const SOON: Ns = Ns(50_000);

static LAST_ID: Atomic<u64> = Atomic::new(0);

/// A registered provider.
#[pin_data]
pub(crate) struct Provider {
    id: u64,
    ops: Arc<Ops>,
    /// The receivers of activity on GPUs, in any context. There is room for every GPU.
    #[pin]
    listeners: RawLock<KVec<Listener>>,
}

/// The receiver of events on a GPU.
struct Listener {
    gpu: gpu::Handle,
    worker: Arc<Worker<Pass>>,
    requests: Arc<Device>,
}

impl Provider {
    fn listen(&self, listener: Listener) {
        // There is room: the registry takes no more GPUs.
        let _ = self.listeners.lock().push_within_capacity(listener);
    }

    fn ignore(&self, kick: &Kick) -> Option<Arc<Worker<Pass>>> {
        let mut listeners = self.listeners.lock();
        let at = listeners
            .iter()
            .position(|listener| kick.is_of(&listener.worker));
        let listener = at.and_then(|at| listeners.remove(at).ok());
        drop(listeners);
        // Dropped without the lock.
        listener.map(|listener| listener.worker)
    }
}

/// Copies a name, cut so that at least one NUL ends it.
fn name<const N: usize>(bytes: &[u8]) -> [u8; N] {
    let mut name = [0; N];
    for (to, from) in name.iter_mut().take(N - 1).zip(bytes) {
        *to = *from;
    }
    name
}

/// A provider reports a GPU.
fn gpu_added(provider: ArcBorrow<'_, Provider>, description: &gpu::Description<'_>) -> Result {
    if description.max != Us(0) && description.min > description.max {
        return Err(EINVAL);
    }
    let id = registry::with(|r| r.reserve_gpu_id())?;
    let meters = Meters::new(id)?;
    let (handle, ops) = (description.handle, provider.ops.clone());
    let pass = Pass::new(id, handle, ops, meters.clone(), description.polled)?;
    let worker = Arc::pin_init(Worker::new(pass), GFP_KERNEL)?;
    let bell = worker.clone();
    let abilities = provider.ops.abilities();
    let requests = Device::new(abilities.enable, abilities.kick)?;
    let gpu = Gpu {
        provider: provider.id,
        handle: description.handle,
        names: gpu::Names {
            name: name(description.name),
            bus: name(description.bus),
            provider: name::<NAME_LEN>(provider.ops.name()),
            driver: name(description.driver),
            uuid: description.uuid.copied().unwrap_or_default(),
            numa_node: description.numa_node,
        },
        bounds: Bounds {
            min: description.min,
            max: description.max,
        },
        abilities,
        blind: false,
        added_at: now_ns(),
        tells: description.tells,
        levels: Levels::default(),
        look: gpu::Look::default(),
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
        requests: requests.clone(),
        backoff: Backoff::default(),
        waits_until: Ns::ZERO,
        load: gpu::Load::default(),
        meters,
        turned_away: false,
        told: 0,
        closing: false,
        worker: Some(worker.into()),
    };
    // Dropped without the lock if it is refused.
    let mut gpu = Some(gpu);
    let memory = (RBTreeNodeReservation::new(GFP_KERNEL)?, ForGpu::new()?);
    registry::with(|r| r.take_in_gpu(id, &mut gpu, memory))??;
    requests.set_worker(Some(bell.clone().into()));
    provider.listen(Listener {
        gpu: description.handle,
        worker: bell,
        requests,
    });
    Ok(())
}

impl Reports for Provider {
    fn new(ops: Arc<Ops>) -> Result<Arc<Self>> {
        let id = LAST_ID.fetch_add(1, Relaxed);
        let listeners = KVec::with_capacity(gpu::MAX as usize, GFP_KERNEL)?;
        Arc::pin_init(
            pin_init!(Self {
                id,
                ops,
                listeners <- new_raw_lock!(listeners, c"zernel_activity"),
            }),
            GFP_KERNEL,
        )
    }

    fn leave(&self) {
        restore(self);
        forget(self);
    }

    fn gpu_added(this: ArcBorrow<'_, Self>, description: &gpu::Description<'_>) -> Result {
        gpu_added(this, description)
    }

    fn gpu_removed(&self, gpu: gpu::Handle) {
        if let Ok(Some(id)) = registry::with(|r| r.find_gpu(self.id, gpu)) {
            close(self, id);
            remove(id);
        }
    }

    fn gpu_suspended(&self, gpu: gpu::Handle) {
        // Without a registry there is nothing to end.
        let _ = registry::with(|r| {
            if let Some(id) = r.find_gpu(self.id, gpu) {
                r.suspend_gpu(id);
            }
        });
    }

    fn gpu_refresh(&self, gpu: gpu::Handle) {
        // Without a registry there is nothing to set.
        let _ = registry::with(|r| {
            if let Some(id) = r.find_gpu(self.id, gpu) {
                r.doubt_gpu(id);
            }
        });
    }

    fn activity(&self, gpu: gpu::Handle, tsg: Option<u64>) {
        let listeners = self.listeners.lock();
        if let Some(listener) = listeners.iter().find(|listener| listener.gpu == gpu) {
            let worker = &listener.worker;
            match worker.report(tsg) {
                true if listener.requests.is_lc_near(Ns(now_ns())) => worker.kick_soon(SOON),
                true => worker.kick(),
                false => {}
            }
        }
    }

    fn tsg_added(&self, gpu: gpu::Handle, description: tsg::Description) -> Result {
        population::add_tsg(|r| r.find_gpu(self.id, gpu), description)
    }

    fn tsg_removed(&self, gpu: gpu::Handle, tsg: u64, done: Option<Done>) {
        // Without a registry there is nothing to count or remove.
        if let Ok(Some(gpu)) = registry::with(|r| r.find_gpu(self.id, gpu)) {
            let _ = requests::count_starts(gpu);
        }
        let _ = registry::with(|r| {
            if let Some(id) = r.find(self.id, gpu, tsg) {
                r.end_tsg(id, done);
            }
        });
    }

    fn tsg_changed(&self, gpu: gpu::Handle, tsg: u64, traits: tsg::Traits) -> Result {
        registry::with(|r| {
            let id = r.find(self.id, gpu, tsg).ok_or(ENOENT)?;
            r.change_tsg(id, traits);
            Ok(())
        })?
    }

    fn tsg_refresh(&self, gpu: gpu::Handle, tsg: u64) {
        // Without a registry there is nothing to set.
        let _ = registry::with(|r| {
            if let Some(id) = r.find(self.id, gpu, tsg) {
                r.doubt_tsg(id);
            }
        });
    }

    fn tsg_rescheduled(&self, gpu: gpu::Handle, tsg: u64) {
        let pause = registry::with(|r| {
            let id = r.find(self.id, gpu, tsg)?;
            Some(r.doubt_schedule(id))
        });
        // Without a registry there is nothing to schedule.
        if let Ok(Some(Ms(pause @ 1..))) = pause {
            wait_killable(pause);
        }
    }

    fn started(&self, gpu: gpu::Handle, start: Start) {
        let listeners = self.listeners.lock();
        if let Some(listener) = listeners.iter().find(|listener| listener.gpu == gpu) {
            if listener.requests.started(start) {
                listener.worker.kick();
            }
        }
    }

    fn user_control(&self, gpu: gpu::Handle, tsg: u64, what: u32) -> Verdict {
        registry::with(|r| {
            let gpu = r.find_gpu(self.id, gpu)?;
            Some(r.judge_owner(gpu, tsg, what))
        })
        .ok()
        .flatten()
        .unwrap_or(Verdict::Allow)
    }
}

provider_abi!(Provider);

/// Gives every TSG of a leaving provider its own settings back.
fn restore(provider: &Provider) {
    let mut after = gpu::Id(0);
    while let Ok(Some(id)) = registry::with(|r| r.next_gpu_of(provider.id, after)) {
        after = id;
        let Some(worker) = close(provider, id) else {
            continue;
        };
        // The worker is not there any more, so its steps are taken here.
        let _ = registry::with(|r| r.queue_restore(id));
        let mut tries = 0;
        loop {
            let steps = worker.run_steps();
            let Next::Wait(delay) = steps.next else {
                match steps.more {
                    true => continue,
                    false => break,
                }
            };
            tries = if steps.progress { 1 } else { tries + 1 };
            if tries > PATIENCE {
                pr_warn!("a leaving provider did not put settings back; its TSGs keep zernel's\n");
                break;
            }
            sleep_ms(delay.0);
        }
    }
}

/// Forgets everything that a provider reported.
fn forget(provider: &Provider) {
    while let Ok(Some(id)) = registry::with(|r| r.next_gpu_of(provider.id, gpu::Id(0))) {
        close(provider, id);
        remove(id);
    }
}

/// Stops the worker of a GPU for good. Waits for a call that is under way.
fn close(provider: &Provider, id: gpu::Id) -> Option<Arc<Worker<Pass>>> {
    let (kick, requests) = registry::with(|r| {
        r.close_gpu(id);
        let gpu = r.gpu(id)?;
        Some((gpu.worker.clone()?, gpu.requests.clone()))
    })
    .ok()??;
    requests.set_worker(None);
    let worker = provider.ignore(&kick);
    kick.end();
    worker
}

/// Removes a closed GPU with its TSGs.
fn remove(id: gpu::Id) {
    // Without a registry nothing is counted.
    let _ = requests::count_starts(id);
    while let Ok(true) = registry::with(|r| r.remove_any_tsg(id)) {}
    population::remove_gpu(id);
}
