// SPDX-License-Identifier: GPL-2.0
//! Streams of events: one ring per reader, and no writer waits for a reader.
//!
//! A slot of a ring takes the largest event, so that the capacity is a number of events, and an
//! event is written without a search for room.

mod event;

use crate::{
    glue::{
        errno,
        identity::{
            Uid,
            Viewer, //
        },
        time::now_ns,
        uapi, //
    },
    policy::ring::Ring,
};
pub(crate) use event::{
    Event,
    Filter,
    Subject,
    EVENT_MAX,
    KINDS, //
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

/// A stream that runs: its ring, and the events that get there.
///
/// # Invariants
///
/// `slots` is as long as `positions` has slots.
pub(crate) struct Running {
    id: u64,
    positions: Ring,
    slots: KVVec<Event>,
    /// One bit each.
    kinds: u64,
    filter: Filter,
}

impl Running {
    /// Room for `capacity` of these events.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(kinds: u64, filter: Filter, capacity: usize) -> Result<Self> {
        let capacity = capacity.max(1);
        let empty = Event::Gpu(uapi::zernel_event_gpu::default());
        // INVARIANT: Both have `capacity` slots.
        Ok(Self {
            id: LAST_ID.fetch_add(1, Relaxed),
            positions: Ring::new(capacity),
            slots: KVVec::from_elem(empty, capacity, GFP_KERNEL_ACCOUNT)?,
            kinds,
            filter,
        })
    }
}

/// The readiness of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// It does not run.
    Stopped,
    /// Nothing is there.
    Empty,
    /// There are events to read.
    Filled,
}

/// The stream of an open file, which gets events while it runs.
#[pin_data]
pub(crate) struct Stream {
    viewer: Arc<Viewer>,
    #[pin]
    running: Mutex<Option<Running>>,
    #[pin]
    ready: PollCondVar,
}

impl Stream {
    /// A stream with the view of `viewer` that does not run yet.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(viewer: Arc<Viewer>) -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                viewer,
                running <- new_mutex!(None),
                ready <- new_poll_condvar!(),
            }),
            GFP_KERNEL_ACCOUNT,
        )
    }

    /// Takes other events from now on, if it runs: `false` else. Events that were not read stay.
    ///
    /// # Errors
    ///
    /// `EBUSY` it has another capacity.
    pub(crate) fn change(
        &self,
        kinds: u64,
        filter: Filter,
        capacity: Option<usize>,
    ) -> Result<Changed> {
        let mut guard = self.running.lock();
        let Some(running) = &mut *guard else {
            return Ok(Changed::Stopped(filter));
        };
        if capacity.is_some_and(|capacity| capacity != running.slots.len()) {
            return Err(EBUSY);
        }
        running.kinds = kinds;
        let before = core::mem::replace(&mut running.filter, filter);
        drop(guard);
        drop(before);
        Ok(Changed::Done)
    }

    fn audience(&self) -> Audience {
        if self.viewer.sees_all() {
            Audience::All
        } else {
            Audience::User(self.viewer.uid())
        }
    }

    /// Ends it, after [`Streams::forget`]; a reader gets `ENODATA`.
    pub(crate) fn stop(&self) {
        let running = self.running.lock().take();
        self.ready.notify_all();
        // Dropped without the lock.
        drop(running);
    }

    /// Returns whether the event was taken, and one lost for it.
    fn push(&self, mut event: Event, subject: &Subject<'_>) -> (bool, bool) {
        let mut guard = self.running.lock();
        let Some(running) = &mut *guard else {
            return (false, false);
        };
        if running.kinds & event.kind() == 0 || !running.filter.lets_through(subject) {
            return (false, false);
        }
        if let Some((process, uid)) = subject.owner {
            if subject.tsg == 0 && !self.viewer.is_in_reach(process) {
                return (false, false);
            }
            event.set_owner(
                self.viewer.number_of(process),
                self.viewer.number_of_user(uid),
            );
        }
        let place = running.positions.push();
        event.header_mut().seq = place.seq;
        if let Some(slot) = running.slots.get_mut(place.slot) {
            *slot = event;
        }
        drop(guard);
        self.ready.notify_all();
        (true, place.overwrote)
    }

    /// The queue on which `poll` waits.
    pub(crate) fn ready(&self) -> &PollCondVar {
        &self.ready
    }

    /// Its readiness.
    pub(crate) fn state(&self) -> State {
        match &*self.running.lock() {
            None => State::Stopped,
            Some(running) if running.positions.is_empty() => State::Empty,
            Some(_) => State::Filled,
        }
    }

    /// Moves whole events to user space, as many as fit; waits for the first unless told not to.
    ///
    /// # Errors
    ///
    /// `ENODATA` it does not run, `EINVAL` no room for the next event, `EAGAIN` none there and not to
    /// wait, `ERESTARTSYS` a signal, `EFAULT` (the events that could not be copied count as
    /// dropped), `ENOMEM`.
    pub(crate) fn read(&self, iov: &mut IovIterDest<'_>, wait: bool) -> Result<usize> {
        let mut batch = KVec::with_capacity(BATCH, GFP_KERNEL)?;
        let mut written = 0;
        loop {
            batch.clear();
            let taken = self.take(&mut batch, iov.len(), wait && written == 0);
            let id = match taken {
                Ok(id) => id,
                Err(error) if written == 0 => return Err(error),
                Err(_) => return Ok(written),
            };
            for (i, event) in batch.iter().enumerate() {
                let bytes = event.bytes();
                if iov.copy_to_iter(bytes) < bytes.len() {
                    self.lose(id, (batch.len() - i) as u64);
                    return if written > 0 {
                        Ok(written)
                    } else {
                        Err(EFAULT)
                    };
                }
                written += bytes.len();
            }
        }
    }

    /// Takes events that fit into so many bytes, one or more. Returns the id of the run.
    fn take(&self, batch: &mut KVec<Event>, mut room: usize, wait: bool) -> Result<u64> {
        let mut guard = self.running.lock();
        let running = loop {
            match &mut *guard {
                None => return Err(errno::no_data()),
                _ if room < size_of::<uapi::zernel_event>() => return Err(EINVAL),
                Some(running) if running.positions.is_empty() => {}
                // Once more for the borrow checker: the guard to wait with is not borrowed.
                Some(_) => break (*guard).as_mut().ok_or_else(errno::no_data)?,
            }
            if !wait {
                return Err(EAGAIN);
            }
            if self.ready.wait_interruptible(&mut guard) {
                return Err(ERESTARTSYS);
            }
        };
        let dropped = running.positions.lost();
        while batch.len() < BATCH {
            let slot = running.positions.peek();
            let Some(event) = slot.and_then(|slot| running.slots.get(slot)) else {
                break;
            };
            let size = event.bytes().len();
            if size > room {
                break;
            }
            let mut event = *event;
            event.header_mut().dropped = dropped;
            // Never fails: the capacity was allocated.
            batch.push(event, GFP_NOWAIT)?;
            running.positions.pop();
            room -= size;
        }
        if batch.is_empty() {
            return Err(EINVAL);
        }
        Ok(running.id)
    }

    /// Counts events as dropped that were taken from a run.
    fn lose(&self, id: u64, count: u64) {
        match &mut *self.running.lock() {
            Some(running) if running.id == id => running.positions.lose(count),
            _ => {}
        }
    }
}

/// Outcome of a change.
pub(crate) enum Changed {
    /// It is in force.
    Done,
    /// The stream does not run. The filter comes back.
    Stopped(Filter),
}

/// The objects that a stream shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Audience {
    /// Everything.
    All,
    /// GPUs, and the objects of a user.
    User(Uid),
}

/// All streams that run, by audience: an event costs its own audience, not all streams.
pub(crate) struct Streams {
    streams: RBTree<(Audience, u64), Arc<Stream>>,
    count: u32,
    events: u64,
    dropped: u64,
}

impl Streams {
    /// None.
    pub(crate) fn new() -> Self {
        Self {
            streams: RBTree::new(),
            count: 0,
            events: 0,
            dropped: 0,
        }
    }

    /// The number of streams.
    pub(crate) fn count(&self) -> u32 {
        self.count
    }

    /// Events that were written to streams.
    pub(crate) fn events(&self) -> u64 {
        self.events
    }

    /// Events that were overwritten before they were read.
    pub(crate) fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Has a stream run that does not. Calls for one stream are for one thread at a time.
    ///
    /// # Errors
    ///
    /// `EDQUOT` the user has [`MAX_PER_USER`], `ENOMEM`.
    pub(crate) fn start(&mut self, stream: Arc<Stream>, running: Running) -> Result {
        let audience = stream.audience();
        if audience != Audience::All && self.count_of(audience) >= MAX_PER_USER {
            return Err(errno::over_quota());
        }
        let key = (audience, running.id);
        self.streams
            .try_create_and_insert(key, stream.clone(), GFP_KERNEL)?;
        *stream.running.lock() = Some(running);
        self.count += 1;
        Ok(())
    }

    /// Writes nothing to a stream any more. [`Stream::stop`] is to follow, without locks.
    pub(crate) fn forget(&mut self, stream: &Stream) {
        let Some(id) = stream.running.lock().as_ref().map(|running| running.id) else {
            return;
        };
        if self.streams.remove(&(stream.audience(), id)).is_some() {
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

    /// Gives an event to every stream that may see its subject.
    pub(crate) fn push(&mut self, mut event: Event, subject: &Subject<'_>) {
        if self.count == 0 {
            return;
        }
        let size = event.bytes().len() as u32;
        let header = event.header_mut();
        (header.size, header.time_at) = (size, now_ns());
        let mut written = (0, 0);
        let mut tell = |stream: &Stream| {
            let (taken, lost) = stream.push(event, subject);
            written.0 += u64::from(taken);
            written.1 += u64::from(lost);
        };
        match subject.owner {
            None => self.streams.values().for_each(|stream| tell(stream)),
            Some((_, uid)) => {
                let user = (!subject.is_private).then_some(Audience::User(uid));
                for audience in [Some(Audience::All), user].into_iter().flatten() {
                    let mut from = 0;
                    while let Some((id, stream)) = self.from(audience, from) {
                        from = id + 1;
                        tell(stream);
                    }
                }
            }
        }
        self.events += written.0;
        self.dropped += written.1;
    }
}
