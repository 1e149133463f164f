// SPDX-License-Identifier: GPL-2.0
//! `/dev/zernel`: open files and their calls.

mod class;
mod list;
mod phase;
mod prefetch;
mod probe;
mod request;
mod target;
mod track;

use crate::{
    attributes,
    glue::{
        abi,
        identity::Viewer,
        miscdev::{
            self,
            Readiness, //
        },
        recorder,
        uapi, //
    },
    prefetch::{
        self as subscriptions,
        file::Subscriptions, //
    },
    probes::Probes,
    registry::{
        self,
        assignments,
        gpu,
        tsg, //
    },
    request::pages::Pages,
    stream::Stream,
    tracking,
};
use kernel::{
    fs::{
        File,
        Kiocb, //
    },
    ioctl::{
        _IOC_NR,
        _IOC_SIZE,
        _IOC_TYPE, //
    },
    iov::IovIterDest,
    miscdevice::{
        MiscDevice,
        MiscDeviceRegistration, //
    },
    new_mutex,
    prelude::*,
    sync::{
        poll::PollTable,
        Arc,
        Mutex, //
    },
};

/// An open file.
#[pin_data(PinnedDrop)]
pub(crate) struct Client {
    /// Who opened it: its stream shows what he sees.
    viewer: Arc<Viewer>,
    #[pin]
    stream: Mutex<Option<Arc<Stream>>>,
    #[pin]
    pages: Mutex<Pages>,
    #[pin]
    subscriptions: Mutex<Subscriptions>,
    #[pin]
    probes: Mutex<Probes>,
}

impl Client {
    /// The stream, which the first use starts.
    fn stream(&self) -> Result<Arc<Stream>> {
        let mut slot = self.stream.lock();
        if let Some(stream) = &*slot {
            return Ok(stream.clone());
        }
        let size = registry::with(|r| r.tunables().ring_size() as usize)?;
        let stream = Stream::new(self.viewer.clone(), size)?;
        registry::with(|r| r.streams().start(stream.clone()))??;
        *slot = Some(stream.clone());
        Ok(stream)
    }

    /// What is called more rarely than once for a request.
    #[inline(never)]
    fn call(&self, number: u32, arg: usize, size: usize) -> Result {
        match number {
            uapi::ZERNEL_V0_NR_VERSION => abi::write(arg, size, &version()?)?,
            uapi::ZERNEL_V0_NR_LIST_GPUS => list::gpus(arg, size)?,
            uapi::ZERNEL_V0_NR_LIST_TSGS => list::tsgs(arg, size)?,
            uapi::ZERNEL_V0_NR_CLASS_SET => class::set(arg, size)?,
            uapi::ZERNEL_V0_NR_CLASS_GET => class::get(arg, size)?,
            uapi::ZERNEL_V0_NR_CLASS_CLEAR => class::clear(arg, size)?,
            uapi::ZERNEL_V0_NR_STATS => abi::write(arg, size, &stats()?)?,
            uapi::ZERNEL_V0_NR_PAGE_REGISTER => request::register(self, arg, size)?,
            uapi::ZERNEL_V0_NR_PAGE_UNREGISTER => request::unregister(self, arg, size)?,
            uapi::ZERNEL_V0_NR_READY => request::ready(self, arg, size)?,
            uapi::ZERNEL_V0_NR_DONE => request::done(self, arg, size)?,
            uapi::ZERNEL_V0_NR_CANCEL => request::cancel(self, arg, size)?,
            uapi::ZERNEL_V0_NR_REQUEST_STATS => request::stats(arg, size)?,
            uapi::ZERNEL_V0_NR_TRACK => track::begin(arg, size)?,
            uapi::ZERNEL_V0_NR_UNTRACK => track::end(arg, size)?,
            uapi::ZERNEL_V0_NR_LIST_THREADS => track::list(arg, size)?,
            uapi::ZERNEL_V0_NR_LIST_PHASES => phase::threads(arg, size)?,
            uapi::ZERNEL_V0_NR_LIST_PROCESSES => phase::processes(arg, size)?,
            uapi::ZERNEL_V0_NR_PHASE_HINT => phase::hint(arg, size)?,
            uapi::ZERNEL_V0_NR_PREFETCH_SUBSCRIBE => prefetch::subscribe(self, arg, size)?,
            uapi::ZERNEL_V0_NR_PREFETCH_UNSUBSCRIBE => prefetch::unsubscribe(self, arg, size)?,
            uapi::ZERNEL_V0_NR_LIST_CGROUPS => phase::cgroups(arg, size)?,
            uapi::ZERNEL_V0_NR_PROBE_ADD => probe::add(self, arg, size)?,
            uapi::ZERNEL_V0_NR_PROBE_REMOVE => probe::remove(self, arg, size)?,
            _ => return Err(ENOTTY),
        }
        Ok(())
    }
}

#[pinned_drop]
impl PinnedDrop for Client {
    fn drop(self: Pin<&mut Self>) {
        if let Some(stream) = self.stream.lock().take() {
            // Without a registry there are no streams.
            let _ = registry::with(|r| r.streams().end(&stream));
        }
    }
}

#[vtable]
impl MiscDevice for Client {
    type Ptr = Pin<KBox<Self>>;

    fn open(_file: &File, _misc: &MiscDeviceRegistration<Self>) -> Result<Self::Ptr> {
        let viewer = Arc::new(Viewer::current(), GFP_KERNEL)?;
        KBox::pin_init(
            pin_init!(Self {
                viewer,
                stream <- new_mutex!(None),
                pages <- new_mutex!(Pages::new()),
                subscriptions <- new_mutex!(Subscriptions::new()),
                probes <- new_mutex!(Probes::new()),
            }),
            GFP_KERNEL,
        )
    }

    fn read_iter(kiocb: Kiocb<'_, Self::Ptr>, iov: &mut IovIterDest<'_>) -> Result<usize> {
        let wait = !miscdev::is_nonblocking(&kiocb);
        kiocb.file().stream()?.read(iov, wait)
    }

    fn ioctl(me: Pin<&Self>, _file: &File, cmd: u32, arg: usize) -> Result<isize> {
        if _IOC_TYPE(cmd) != uapi::ZERNEL_V0_IOC_MAGIC {
            return Err(ENOTTY);
        }
        let (number, size) = (_IOC_NR(cmd), _IOC_SIZE(cmd));
        // A request takes this one alone, of all calls: it is not to pay for the others.
        match number {
            uapi::ZERNEL_V0_NR_BEGIN => request::begin(&me, arg, size)?,
            _ => me.call(number, arg, size)?,
        }
        Ok(0)
    }
}

impl miscdev::Device for Client {
    const NAME: &'static CStr = c"zernel";
    // Everybody may lower himself; what else is allowed is decided call by call.
    const MODE: u16 = 0o666;

    fn groups() -> miscdev::Groups {
        attributes::groups()
    }

    fn poll(me: Pin<&Self>, file: &File, table: PollTable<'_>) -> Readiness {
        let Ok(stream) = me.stream() else {
            return Readiness::Failed;
        };
        table.register_wait(file, stream.ready());
        if stream.is_empty() {
            Readiness::Idle
        } else {
            Readiness::Readable
        }
    }
}

fn version() -> Result<uapi::zernel_v0_version> {
    Ok(uapi::zernel_v0_version {
        abi: uapi::ZERNEL_V0_ABI_VERSION,
        levels: uapi::ZERNEL_V0_NR_LEVELS,
        caps: u64::from(
            uapi::ZERNEL_V0_CAP_CLASSES
                | uapi::ZERNEL_V0_CAP_EVENTS
                | uapi::ZERNEL_V0_CAP_REQUESTS
                | uapi::ZERNEL_V0_CAP_TRACKING
                | uapi::ZERNEL_V0_CAP_PHASES
                | uapi::ZERNEL_V0_CAP_PREFETCH
                | uapi::ZERNEL_V0_CAP_PROBES,
        ),
        max_gpus: gpu::MAX,
        max_tsgs_per_gpu: tsg::MAX_PER_GPU,
        max_assignments: assignments::MAX,
        enabled: registry::with(|r| r.tunables().enabled())?.into(),
    })
}

fn stats() -> Result<uapi::zernel_v0_stats> {
    let threads = tracking::with(|t| t.count())?;
    let prefetch = subscriptions::counters()?;
    registry::with(|r| {
        let counters = r.counters();
        let (gpus, tsgs, assignments) = r.population();
        uapi::zernel_v0_stats {
            tsgs_added: counters.tsgs_added,
            tsgs_removed: counters.tsgs_removed,
            classes_set: counters.classes_set,
            classes_cleared: counters.classes_cleared,
            classes_expired: counters.classes_expired,
            denied: counters.denied,
            coalesced: counters.coalesced,
            applied: counters.applied,
            retries: counters.retries,
            errors: counters.errors,
            dead: counters.dead,
            events: counters.events,
            events_dropped: counters.events_dropped,
            gpus,
            tsgs,
            assignments,
            streams: r.streams().count(),
            controls_denied: counters.controls_denied,
            controls_reapplied: counters.controls_reapplied,
            turns: counters.turns,
            threads: threads.into(),
            threads_missed: recorder::missed(),
            subscriptions: prefetch.subscriptions,
            readaheads: prefetch.readaheads,
            readahead_bytes: prefetch.bytes,
            readaheads_failed: prefetch.failed,
            readaheads_skipped: prefetch.skipped,
        }
    })
}
