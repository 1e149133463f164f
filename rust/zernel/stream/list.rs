// SPDX-License-Identifier: GPL-2.0
//! All streams that run, by audience: an event costs its own audience, not all streams.
//!
//! A thread that tells an event may hold spinlocks, and others may wait for these. So nothing is
//! allocated or freed with the list locked, and no reader woken: the streams are marked, and the
//! worker of the audience wakes their readers. Very many of them hold up those of their user alone.

use super::{
    audience::{
        Audience,
        Delivered,
        Entry,
        Streams,
        PENDING, //
    },
    event::{
        Event,
        Subject, //
    },
    file::Stream,
    inbox::{
        Inbox,
        OF_ALL, //
    },
    running::Running, //
};
use crate::{
    glue::{
        barrier::smp_mb,
        errno,
        lock,
        time::now_ns,
        work::{
            Job,
            Kick,
            Worker, //
        }, //
    },
    policy::{
        rest::Rest,
        units::Ns, //
    },
};
use kernel::{
    prelude::*,
    rbtree::{
        RBTree,
        RBTreeNode,
        RBTreeNodeReservation, //
    },
    sync::{
        atomic::{
            ordering::{
                Full,
                Relaxed, //
            },
            Atomic,
        },
        Arc,
    },
};

/// Most streams of a user without `CAP_PERFMON`.
const MAX_PER_USER: usize = 64;

/// Audiences that get the events for everybody in one hold.
const SPREAD: usize = 8;

/// Streams looked at in one hold, to find one with readers to wake.
const LOOK: usize = 64;

/// The time that a worker takes for a stream besides that of its waiters, about.
const PER_STREAM: Ns = Ns(2_000);

/// Events of some audiences that a writer has put in, and has to hand on.
#[derive(Clone, Copy)]
pub(crate) struct Tickets {
    own: [Option<(Audience, u64)>; Self::MOST],
    /// There are some for everybody.
    common: bool,
}

impl Tickets {
    /// Those of a hold, which tells of two TSGs, as a rule. The workers of more audiences do it.
    const MOST: usize = 4;

    const NONE: Self = Self {
        own: [None; Self::MOST],
        common: false,
    };

    /// Returns false if there is no room.
    fn add(&mut self, audience: Audience, number: u64) -> bool {
        let is_place =
            |place: &&mut Option<(Audience, u64)>| place.is_none_or(|(known, _)| known == audience);
        let place = self.own.iter_mut().find(is_place);
        let found = place.is_some();
        if let Some(place) = place {
            *place = Some((audience, number));
        }
        found
    }
}

/// All of them.
struct List {
    audiences: RBTree<Audience, Streams>,
    /// Events for all of them.
    common: Inbox,
    /// Those up to this number have got to the audiences before this one.
    spread: Option<(u64, Audience)>,
    /// Events that were put in since the registry was taken.
    recent: Tickets,
    events: u64,
    dropped: u64,
}

/// Memory for the start of a stream: a place in the list, that of its audience, and its ring.
type Spare = (
    Option<RBTreeNodeReservation<u64, Entry>>,
    Option<RBTreeNode<Audience, Streams>>,
    Option<Running>,
);

impl List {
    /// Has a stream run. Returns false, and changes nothing, if it is the first of its audience and there
    /// is no place for that.
    ///
    /// # Errors
    ///
    /// `EDQUOT` the user has [`MAX_PER_USER`].
    fn start(
        &mut self,
        stream: &Arc<Stream>,
        audience: Audience,
        spare: &mut Spare,
    ) -> Result<bool> {
        if self.audiences.get(&audience).is_none() {
            let Some(streams) = spare.1.take() else {
                return Ok(false);
            };
            self.audiences.insert(streams);
            if let Some(streams) = self.audiences.get_mut(&audience) {
                streams.begin(&self.common);
            }
        }
        let Some(streams) = self.audiences.get_mut(&audience) else {
            return Ok(false);
        };
        if audience != Audience::All && streams.count >= MAX_PER_USER {
            return Err(errno::over_quota());
        }
        self.dropped += streams.catch_up(&self.common);
        if let (Some(node), Some(running)) = (spare.0.take(), spare.2.take()) {
            let entry = Entry {
                stream: stream.clone(),
                after: streams.inbox.sent(),
            };
            // INVARIANT: One more; no other run has its number.
            streams.streams.insert(node.into_node(running.id(), entry));
            streams.count += 1;
            COUNT.fetch_add(1, Full);
            stream.start(running);
        }
        Ok(true)
    }

    /// Has some more audiences get the events for everybody. Returns whether there are more.
    fn spread(&mut self) -> bool {
        let first = self.audiences.cursor_front();
        let first = first.map(|cursor| (self.common.sent(), *cursor.current().0));
        let (number, from) = match self.spread.take().or(first) {
            Some(at) if self.common.count() > 0 => at,
            // Nobody is there for them.
            _ => {
                PENDING.fetch_sub(self.common.remove_until(self.common.sent()), Relaxed);
                return false;
            }
        };
        let mut cursor = self.audiences.cursor_lower_bound_mut(&from);
        for _ in 0..SPREAD {
            let Some(mut at) = cursor else {
                break;
            };
            let streams = at.current_mut().1;
            self.dropped += streams.catch_up(&self.common);
            streams.waker.kick();
            cursor = at.move_next();
        }
        self.spread = cursor.map(|cursor| (number, *cursor.current().0));
        if self.spread.is_none() {
            PENDING.fetch_sub(self.common.remove_until(number), Relaxed);
        }
        self.common.count() > 0
    }
}

lock::global!(STREAMS: KBox<List>, SpinLock);

/// Streams that run; written with the list locked.
static COUNT: Atomic<u32> = Atomic::new(0);

/// True if there are recent events. The registry is locked for it.
static RECENT: Atomic<bool> = Atomic::new(false);

/// Keeps the list there.
pub(crate) struct Installed(());

impl Installed {
    /// Makes it usable; called once, when the module is loaded.
    pub(crate) fn new() -> Result<Self> {
        let list = KBox::new(
            List {
                audiences: RBTree::new(),
                common: Inbox::new(OF_ALL)?,
                spread: None,
                recent: Tickets::NONE,
                events: 0,
                dropped: 0,
            },
            GFP_KERNEL,
        )?;
        *lock().lock() = Some(list);
        Ok(Self(()))
    }
}

impl Drop for Installed {
    fn drop(&mut self) {
        // Empty, for streams take open files: no worker is left.
        let list = lock().lock().take();
        drop(list);
    }
}

/// Calls `f` with the list locked.
///
/// # Errors
///
/// `ENODEV` the module is on its way out.
fn with<T>(f: impl FnOnce(&mut List) -> T) -> Result<T> {
    let mut guard = lock().lock();
    let list = guard.as_mut().ok_or(ENODEV)?;
    Ok(f(list))
}

/// The numbers of streams that run, of events written to streams, and of events that were
/// overwritten before they were read.
pub(crate) fn counts() -> (u32, u64, u64) {
    let (events, dropped) = with(|list| (list.events, list.dropped)).unwrap_or_default();
    (COUNT.load(Relaxed), events, dropped)
}

/// The number of streams that run.
fn count() -> u32 {
    COUNT.load(Relaxed)
}

/// False if an event would get to no stream. To be asked after the change is there to see: a program
/// that starts a stream and looks then sees the change, if this does not see the stream.
pub(crate) fn is_heard() -> bool {
    // Pairs with the full barrier of `start`.
    smp_mb();
    COUNT.load(Relaxed) > 0
}

/// Has a stream run that does not. Calls for one stream are for one thread at a time.
///
/// # Errors
///
/// `EDQUOT` the user has [`MAX_PER_USER`], `ENOMEM`, `ENODEV` the module is on its way out.
pub(crate) fn start(stream: &Arc<Stream>, running: Running) -> Result {
    let audience = Audience::of(stream);
    let node = RBTreeNodeReservation::new(GFP_KERNEL_ACCOUNT)?;
    // The rest is dropped without the lock.
    let mut spare = (Some(node), None, Some(running));
    // Once more with what a first stream of its audience needs.
    while !with(|list| list.start(stream, audience, &mut spare))?? {
        let waker = Worker::ordinary(Waker {
            audience,
            rest_until: Atomic::new(0),
        });
        let waker = Arc::pin_init(waker, GFP_KERNEL_ACCOUNT)?;
        let streams = Streams::new(Kick::from(waker))?;
        spare.1 = Some(RBTreeNode::new(audience, streams, GFP_KERNEL_ACCOUNT)?);
    }
    Ok(())
}

/// Writes nothing to a stream any more. [`Stream::stop`] is to follow unless its file has ended.
/// Sleeps.
pub(crate) fn forget(stream: &Stream) {
    let Some(run) = stream.run() else {
        return;
    };
    let audience = Audience::of(stream);
    let gone = with(|list| {
        let streams = list.audiences.get_mut(&audience)?;
        let node = streams.streams.remove_node(&run)?;
        // INVARIANT: One less.
        streams.count -= 1;
        COUNT.fetch_sub(1, Full);
        let is_last = streams.count == 0;
        let left = streams.inbox.count();
        if is_last {
            PENDING.fetch_sub(left, Relaxed);
        }
        let streams = is_last.then(|| list.audiences.remove_node(&audience));
        Some((node, streams.flatten()))
    });
    // Dropped without the lock: a worker that nobody kicks any more is waited for.
    drop(gone);
}

/// Puts an event in for every stream that may see its subject. Neither sleeps nor allocates, nor wakes
/// a reader. The caller has the registry locked.
pub(crate) fn push(mut event: Event, subject: &Subject<'_>) {
    if !is_heard() {
        return;
    }
    let size = event.bytes().len() as u32;
    event.header_mut().size = size;
    // Without a list there is no stream.
    let _ = with(|list| {
        // With the list locked, so that no event of a stream is older than the one before.
        event.header_mut().time_at = now_ns();
        match subject.owner {
            None if list.common.put(&event, subject) => {
                PENDING.fetch_add(1, Relaxed);
                list.recent.common = true;
            }
            None => list.dropped += u64::from(count()),
            Some((_, uid)) => {
                let user = (!subject.is_private).then_some(Audience::User(uid));
                for audience in [Some(Audience::All), user].into_iter().flatten() {
                    let Some(streams) = list.audiences.get_mut(&audience) else {
                        continue;
                    };
                    list.dropped += streams.catch_up(&list.common);
                    let (number, dropped) = streams.put(&event, subject);
                    list.dropped += dropped;
                    if !number.is_some_and(|number| list.recent.add(audience, number)) {
                        streams.waker.kick();
                    }
                }
            }
        }
        RECENT.store(true, Relaxed);
    });
}

/// The events that were put in since the registry was taken. The caller has it locked still, and is to
/// [`deliver`] them without.
pub(crate) fn tickets() -> Tickets {
    if !RECENT.load(Relaxed) {
        return Tickets::NONE;
    }
    RECENT.store(false, Relaxed);
    let taken = with(|list| core::mem::replace(&mut list.recent, Tickets::NONE));
    // Without a list there is no stream.
    taken.unwrap_or(Tickets::NONE)
}

/// Hands events to the streams of their audiences, with those that others have put in before. Takes no
/// lock for long. Does not sleep.
pub(crate) fn deliver(tickets: Tickets) {
    if tickets.common {
        // Without a list there is no stream.
        while with(List::spread).unwrap_or(false) {}
    }
    for (audience, last) in tickets.own.into_iter().flatten() {
        hand_on(audience, Some(last));
    }
}

/// Has a stream have the events that were put in until now.
pub(crate) fn catch_up(stream: &Stream) {
    if PENDING.load(Relaxed) > 0 {
        hand_on(Audience::of(stream), None);
    }
}

/// Hands events up to a number to the streams of an audience; `None`: those that there are.
fn hand_on(audience: Audience, mut last: Option<u64>) {
    let mut deliver = |list: &mut List| {
        let Some(streams) = list.audiences.get_mut(&audience) else {
            return Delivered::default();
        };
        list.dropped += streams.catch_up(&list.common);
        let last = *last.get_or_insert(streams.inbox.sent());
        let done = streams.deliver(last);
        list.events += done.taken;
        list.dropped += done.lost;
        done
    };
    // Without a list there is no stream.
    while with(&mut deliver).is_ok_and(|done| done.more) {}
}

/// Wakes the readers of the streams of an audience that got events.
struct Waker {
    audience: Audience,
    /// See [`Rest`]. Its worker alone uses it.
    rest_until: Atomic<u64>,
}

impl Job for Waker {
    fn run(worker: &Worker<Self>) {
        let mut rest = Rest {
            until: Ns(worker.rest_until.load(Relaxed)),
        };
        hand_on(worker.audience, None);
        if let Some(left) = rest.left(Ns(now_ns())) {
            // An event of the last run's time has kicked it.
            worker.kick_after(left.0);
            return;
        }
        let (mut next, mut spent) = (Some(0), Ns::ZERO);
        while let Some(from) = next {
            let (found, after) = worker.look(from);
            if let Some(stream) = found {
                spent = spent
                    .saturating_add(PER_STREAM)
                    .saturating_add(stream.wake());
            }
            next = after;
        }
        let pause = rest.after(Ns(now_ns()), spent);
        worker.rest_until.store(rest.until.0, Relaxed);
        if let Some(pause) = pause {
            // Kicks until then count for the run that follows.
            worker.kick_after(pause.0);
        }
    }
}

impl Waker {
    /// A stream that got events, of [`LOOK`] from this run on; and where to go on, unless that is
    /// all.
    fn look(&self, from: u64) -> (Option<Arc<Stream>>, Option<u64>) {
        let found = with(|list| {
            let streams = &mut list.audiences.get_mut(&self.audience)?.streams;
            let mut cursor = streams.cursor_lower_bound_mut(&from)?;
            let mut looked = 0;
            loop {
                let (&run, entry) = cursor.current();
                looked += 1;
                let found = entry.stream.take_told().then(|| entry.stream.clone());
                if found.is_some() || looked == LOOK {
                    return Some((found, run.checked_add(1)));
                }
                cursor = cursor.move_next()?;
            }
        });
        found.ok().flatten().unwrap_or((None, None))
    }
}
