// SPDX-License-Identifier: GPL-2.0
//! Threads of LC requests are preferred by the scheduler of the CPUs from the trigger to the end.
//!
//! A trigger comes in a timer, and does no more than put the *ticket* of its slot on a list and
//! kick a worker. That one changes nice values, and looks from then on whether the request is over:
//! many are by a store, of which nobody is told.

use crate::{
    glue::{
        identity::{
            Pid,
            Scope, //
        },
        irqlock::{
            new_irq_lock,
            IrqLock, //
        },
        thread::Thread,
        time::now_ns,
        work::{
            Job,
            Worker, //
        },
    },
    nice::Table,
    policy::{
        nice::{
            Ask,
            Delta, //
        },
        units::Ns, //
    },
    tuned, //
};
use kernel::{
    list::{
        impl_list_arc_safe,
        impl_list_item,
        AtomicTracker,
        List,
        ListArc,
        ListLinks,
        TryNewListArc, //
    },
    new_mutex,
    prelude::*,
    sync::{
        atomic::{
            ordering::Relaxed,
            Atomic, //
        },
        Arc,
        Mutex, //
    },
};

/// From one look at the requests that were triggered to the next.
const INTERVAL: Ns = Ns(1_000_000);

/// A look is followed by a pause of so many times its length, at least.
const PAUSE: u64 = 9;

/// A slot, and the thread that its requests prefer.
pub(super) trait Bearer: Send + Sync {
    /// Calls `f` with the slot locked. It is told if the thread of this ticket is to be preferred.
    fn look(&self, ticket: &Ticket, f: &mut dyn FnMut(bool));
}

/// A slot that was bound, and the thread that did that.
///
/// Slot and ticket hold each other, until the slot is closed or bound again: they part then, so
/// that the worker never has the last reference to a slot, as the end of its page may wait for its
/// process. A ticket is on a list from a trigger until the worker has seen, with the slot locked,
/// that the request is over.
#[pin_data]
pub(crate) struct Ticket {
    thread: Pid,
    of: Arc<dyn Bearer>,
    worker: Arc<Worker<Boosts>>,
    /// The thread that is preferred for it, and by how much. The worker's alone.
    #[pin]
    preferred: Mutex<Option<(Thread, Delta)>>,
    /// It is on a list, and it ever was.
    is_listed: Atomic<bool>,
    was_listed: Atomic<bool>,
    #[pin]
    tracker: AtomicTracker,
    #[pin]
    links: ListLinks,
}

impl_list_arc_safe! {
    impl ListArcSafe<0> for Ticket {
        tracked_by tracker: AtomicTracker;
    }
}

impl_list_item! {
    impl ListItem<0> for Ticket {
        using ListLinks { self.links };
    }
}

impl Ticket {
    /// Of a slot that the calling thread binds.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn new(of: Arc<dyn Bearer>, worker: Arc<Worker<Boosts>>) -> Result<Arc<Self>> {
        let thread = Pid::current(Scope::Thread)?;
        Arc::pin_init(
            pin_init!(Self {
                thread,
                of,
                worker,
                preferred <- new_mutex!(None, "zernel_ticket"),
                is_listed: Atomic::new(false),
                was_listed: Atomic::new(false),
                tracker <- AtomicTracker::new(),
                links <- ListLinks::new(),
            }),
            GFP_KERNEL_ACCOUNT,
        )
    }

    /// The request of its slot was triggered. With the slot locked.
    pub(super) fn triggered(self: &Arc<Self>) {
        // One that is on a list is looked at anyway.
        if let Some(listed) = ListArc::try_from_arc_or_drop(self.clone()) {
            self.is_listed.store(true, Relaxed);
            self.was_listed.store(true, Relaxed);
            self.worker.new.lock().push_back(listed);
        }
        self.worker.kick();
    }

    /// The request of its slot is over, unless none was triggered. With the slot locked.
    pub(super) fn over(&self) {
        self.worker.kick();
    }

    /// The slot has another ticket, or none. When this returns the worker has no reference to it.
    pub(super) fn part(&self) {
        if self.is_listed.load(Relaxed) {
            self.worker.look();
        } else if self.was_listed.load(Relaxed) {
            // A holder that has just taken it from there may not be done.
            drop(self.worker.listed.lock());
        }
    }

    /// Prefers the thread of a request that was triggered by `delta`. Returns the ticket if that is
    /// to be looked at again.
    fn look(listed: ListArc<Self>, table: &Table, delta: Delta) -> Option<ListArc<Self>> {
        let ticket = listed.clone_arc();
        let mut listed = Some(listed);
        ticket.of.look(&ticket, &mut |is_preferred| {
            if delta == Delta::NONE || !is_preferred {
                // From here on it can be put on a list again.
                listed = None;
                ticket.is_listed.store(false, Relaxed);
            }
        });
        match &listed {
            Some(ticket) => ticket.prefer(table, delta),
            None => ticket.give_back(table),
        }
        listed
    }

    fn prefer(&self, table: &Table, delta: Delta) {
        // A class of this level takes privilege.
        let ask = Ask {
            delta,
            privileged: true,
        };
        let mut preferred = self.preferred.lock();
        match &mut *preferred {
            Some((thread, known)) if *known != delta => {
                table.ask_for_request(thread, ask);
                *known = delta;
            }
            Some(_) => {}
            None => {
                // A thread that has exited needs nothing; without memory the next look tries again.
                let thread = Thread::of(&self.thread);
                let thread = thread.filter(|t| table.begin_request(t, ask).is_ok());
                *preferred = thread.map(|thread| (thread, delta));
            }
        }
    }

    fn give_back(&self, table: &Table) {
        let preferred = self.preferred.lock().take();
        if let Some((thread, _)) = preferred {
            table.end_request(&thread);
        }
    }
}

/// The job.
pub(crate) struct Boosts {
    table: Arc<Table>,
    /// Tickets with requests triggered since the last look.
    new: Pin<KBox<IrqLock<List<Ticket>>>>,
    /// Those that are looked at.
    listed: Pin<KBox<Mutex<List<Ticket>>>>,
    /// Until when nobody looks again, in ns.
    rests_until: Atomic<u64>,
}

impl Boosts {
    /// One that has nothing to do.
    pub(crate) fn new(table: Arc<Table>) -> Result<Self> {
        let new = new_irq_lock!(List::new(), c"zernel_boosts");
        let listed = new_mutex!(List::new(), "zernel_boosts");
        Ok(Self {
            table,
            new: KBox::pin_init(new, GFP_KERNEL)?,
            listed: KBox::pin_init(listed, GFP_KERNEL)?,
            rests_until: Atomic::new(0),
        })
    }

    /// Looks at all that were triggered, as tuned now. Returns whether some are to be looked at
    /// again.
    pub(crate) fn look(&self) -> bool {
        self.look_with(tuned::nice_of_requests)
    }

    /// Gives every thread its base back.
    pub(crate) fn clear(&self) {
        self.look_with(|| Delta::NONE);
    }

    fn look_with(&self, delta: impl FnOnce() -> Delta) -> bool {
        let mut listed = self.listed.lock();
        // With the lock, so that an older value of the tunable is not applied last.
        let delta = delta();
        listed.push_all_back(&mut self.new.lock());
        let mut rest = List::new();
        while let Some(ticket) = listed.pop_front() {
            if let Some(ticket) = Ticket::look(ticket, &self.table, delta) {
                rest.push_back(ticket);
            }
        }
        *listed = rest;
        !listed.is_empty()
    }
}

impl Job for Boosts {
    fn run(worker: &Worker<Self>) {
        let began = now_ns();
        let rests_until = worker.rests_until.load(Relaxed);
        if began < rests_until {
            worker.kick_at(Ns(rests_until));
            return;
        }
        let again = worker.look();
        let end = now_ns();
        let pause = end.saturating_sub(began).saturating_mul(PAUSE);
        // A short pause is never waited for.
        if pause > INTERVAL.0 {
            worker.rests_until.store(end.saturating_add(pause), Relaxed);
        }
        if again {
            worker.kick_at(Ns(end.saturating_add(pause.max(INTERVAL.0))));
        }
    }
}
