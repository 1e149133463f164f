// SPDX-License-Identifier: GPL-2.0
//! Streams of events: one ring per reader, and no writer waits for a reader.

use crate::{
    glue::{
        abi::Abi,
        errno,
        identity::{
            Pid,
            Uid,
            Viewer, //
        },
        time::now_ns,
        uapi, //
    },
    policy::ring::Ring,
    registry::{
        tsg::{
            self,
            Tsg, //
        },
        Counters, //
    },
};
use kernel::{
    iov::IovIterDest,
    new_mutex, new_poll_condvar,
    prelude::*,
    rbtree::RBTree,
    sync::{
        atomic::{
            ordering::Relaxed,
            Atomic, //
        },
        poll::PollCondVar,
        Arc,
        Mutex, //
    },
};

/// Most streams of a user without `CAP_PERFMON`.
const MAX_PER_USER: usize = 64;

static LAST_ID: Atomic<u64> = Atomic::new(0);

/// Events handed to user space at a time.
const BATCH: usize = 32;

/// What happened to a TSG.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    /// It came.
    TsgAdded = uapi::ZERNEL_V0_EVENT_TSG_ADDED as isize,
    /// It went.
    TsgRemoved = uapi::ZERNEL_V0_EVENT_TSG_REMOVED as isize,
    /// Another class is in force for it.
    ClassChanged = uapi::ZERNEL_V0_EVENT_CLASS_CHANGED as isize,
    /// The provider took its settings.
    SliceApplied = uapi::ZERNEL_V0_EVENT_SLICE_APPLIED as isize,
    /// The provider refused them for good.
    ProviderError = uapi::ZERNEL_V0_EVENT_PROVIDER_ERROR as isize,
}

/// The ring of a stream.
///
/// # Invariants
///
/// `slots` is as long as `positions` has slots.
struct Events {
    positions: Ring,
    slots: KVVec<uapi::zernel_v0_event>,
}

/// A stream of events for one open file.
#[pin_data]
pub(crate) struct Stream {
    viewer: Arc<Viewer>,
    id: u64,
    #[pin]
    events: Mutex<Events>,
    #[pin]
    ready: PollCondVar,
}

impl Stream {
    /// A stream with room for `size` events, which sees nothing until it is started.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(viewer: Arc<Viewer>, size: usize) -> Result<Arc<Self>> {
        let positions = Ring::new(size);
        let slots = KVVec::from_elem(
            uapi::zernel_v0_event::default(),
            size.max(1),
            GFP_KERNEL_ACCOUNT,
        )?;
        let id = LAST_ID.fetch_add(1, Relaxed);
        // INVARIANT: Both have `size` slots.
        Arc::pin_init(
            pin_init!(Self {
                viewer,
                id,
                events <- new_mutex!(Events { positions, slots }),
                ready <- new_poll_condvar!(),
            }),
            GFP_KERNEL_ACCOUNT,
        )
    }

    fn audience(&self) -> Audience {
        if self.viewer.sees_all() {
            Audience::All
        } else {
            Audience::User(self.viewer.uid())
        }
    }

    /// Returns whether an event was lost for it.
    fn push(&self, mut event: uapi::zernel_v0_event, process: &Pid, uid: Uid) -> bool {
        event.pid = self.viewer.number_of(process);
        event.uid = self.viewer.number_of_user(uid);
        let mut events = self.events.lock();
        let place = events.positions.push();
        event.seq = place.seq;
        if let Some(slot) = events.slots.get_mut(place.slot) {
            *slot = event;
        }
        drop(events);
        self.ready.notify_all();
        place.overwrote
    }

    /// What `poll` waits on.
    pub(crate) fn ready(&self) -> &PollCondVar {
        &self.ready
    }

    /// Whether there is nothing to read.
    pub(crate) fn is_empty(&self) -> bool {
        self.events.lock().positions.is_empty()
    }

    /// Moves whole events to user space, as many as fit; waits for the first unless told not to.
    ///
    /// # Errors
    ///
    /// `EINVAL` no room for one, `EAGAIN` none there and not to wait, `ERESTARTSYS` a signal,
    /// `EFAULT` (the events that could not be copied count as dropped), `ENOMEM`.
    pub(crate) fn read(&self, iov: &mut IovIterDest<'_>, wait: bool) -> Result<usize> {
        const SIZE: usize = size_of::<uapi::zernel_v0_event>();
        if iov.len() < SIZE {
            return Err(EINVAL);
        }
        let mut batch = KVec::with_capacity(BATCH, GFP_KERNEL)?;
        let mut written = 0;
        while iov.len() >= SIZE {
            self.take(&mut batch, iov.len() / SIZE, wait && written == 0)?;
            if batch.is_empty() {
                break;
            }
            for (i, event) in batch.iter().enumerate() {
                if iov.copy_to_iter(event.bytes()) < SIZE {
                    let lost = (batch.len() - i) as u64;
                    self.events.lock().positions.lose(lost);
                    return if written > 0 {
                        Ok(written)
                    } else {
                        Err(EFAULT)
                    };
                }
                written += SIZE;
            }
            batch.clear();
        }
        match written {
            0 => Err(EAGAIN),
            n => Ok(n),
        }
    }

    fn take(&self, batch: &mut KVec<uapi::zernel_v0_event>, most: usize, wait: bool) -> Result {
        let mut events = self.events.lock();
        while wait && events.positions.is_empty() {
            if self.ready.wait_interruptible(&mut events) {
                return Err(ERESTARTSYS);
            }
        }
        let dropped = events.positions.lost();
        while batch.len() < most.min(BATCH) {
            let Some(slot) = events.positions.pop() else {
                break;
            };
            if let Some(event) = events.slots.get(slot) {
                let event = uapi::zernel_v0_event { dropped, ..*event };
                // Never fails: the capacity was allocated.
                batch.push(event, GFP_NOWAIT)?;
            }
        }
        Ok(())
    }
}

/// What a stream shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Audience {
    /// Every TSG.
    All,
    /// The TSGs of a user.
    User(Uid),
}

/// All streams, by what they show: an event costs what its audience is, not what all streams are.
pub(crate) struct Streams {
    streams: RBTree<(Audience, u64), Arc<Stream>>,
    count: u32,
}

impl Streams {
    /// None.
    pub(crate) fn new() -> Self {
        Self {
            streams: RBTree::new(),
            count: 0,
        }
    }

    /// How many there are.
    pub(crate) fn count(&self) -> u32 {
        self.count
    }

    /// Starts a stream.
    ///
    /// # Errors
    ///
    /// `EDQUOT` the user has [`MAX_PER_USER`], `ENOMEM`.
    pub(crate) fn start(&mut self, stream: Arc<Stream>) -> Result {
        let audience = stream.audience();
        if audience != Audience::All && self.count_of(audience) >= MAX_PER_USER {
            return Err(errno::over_quota());
        }
        self.streams
            .try_create_and_insert((audience, stream.id), stream, GFP_KERNEL)?;
        self.count += 1;
        Ok(())
    }

    /// Ends a stream.
    pub(crate) fn end(&mut self, stream: &Stream) {
        let key = (stream.audience(), stream.id);
        if self.streams.remove(&key).is_some() {
            self.count -= 1;
        }
    }

    /// Streams with this audience, counted up to [`MAX_PER_USER`].
    fn count_of(&self, audience: Audience) -> usize {
        let mut count = 0;
        let mut from = 0;
        while let Some((id, _)) = self.from(audience, from) {
            count += 1;
            if count >= MAX_PER_USER {
                break;
            }
            from = id + 1;
        }
        count
    }

    /// The first stream with this audience and an id of at least `from`.
    fn from(&self, audience: Audience, from: u64) -> Option<(u64, &Arc<Stream>)> {
        let cursor = self.streams.cursor_lower_bound(&(audience, from))?;
        let &(found, id) = cursor.current().0;
        if found != audience {
            return None;
        }
        Some((id, self.streams.get(&(audience, id))?))
    }

    /// Tells every stream that may see the TSG what happened to it.
    pub(crate) fn push(
        &self,
        kind: Kind,
        id: tsg::Id,
        tsg: &Tsg,
        error: i32,
        counters: &mut Counters,
    ) {
        if self.count == 0 {
            return;
        }
        let event = uapi::zernel_v0_event {
            size: size_of::<uapi::zernel_v0_event>() as u32,
            type_: kind as u32,
            time_ns: now_ns(),
            tsg: id.0,
            gpu: tsg.gpu.0,
            level: tsg
                .effective
                .level
                .map_or(uapi::ZERNEL_V0_LEVEL_NONE, |l| l.number()),
            source: tsg.effective.source() as u32,
            timeslice_us: tsg.current.map_or(0, |hw| hw.timeslice.0),
            error,
            ..Default::default()
        };
        let owner = (&tsg.owner.process, tsg.owner.uid);
        for audience in [Audience::All, Audience::User(owner.1)] {
            self.push_to(audience, event, owner, counters);
        }
    }

    /// Tells every stream that may see a process that it is time to load its next batch. `private`:
    /// of the streams of its user none may.
    pub(crate) fn push_prefetch(&self, owner: (&Pid, Uid), private: bool, counters: &mut Counters) {
        let event = uapi::zernel_v0_event {
            size: size_of::<uapi::zernel_v0_event>() as u32,
            type_: uapi::ZERNEL_V0_EVENT_PREFETCH,
            time_ns: now_ns(),
            level: uapi::ZERNEL_V0_LEVEL_NONE,
            ..Default::default()
        };
        self.push_to(Audience::All, event, owner, counters);
        if !private {
            self.push_to(Audience::User(owner.1), event, owner, counters);
        }
    }

    fn push_to(
        &self,
        audience: Audience,
        event: uapi::zernel_v0_event,
        (process, uid): (&Pid, Uid),
        counters: &mut Counters,
    ) {
        let mut from = 0;
        while let Some((id, stream)) = self.from(audience, from) {
            from = id + 1;
            if event.tsg == 0 && !stream.viewer.is_in_reach(process) {
                continue;
            }
            counters.events += 1;
            counters.events_dropped += u64::from(stream.push(event, process, uid));
        }
    }
}
