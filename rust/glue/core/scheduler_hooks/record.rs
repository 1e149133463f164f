// SPDX-License-Identifier: GPL-2.0
//! A record: what C and Rust share of it, its states, and the list of those that are over.

use super::{
    super::waits::ThreadWaits,
    places::Place, //
};
use crate::{
    glue::{
        barrier::smp_rmb,
        identity::Uid,
        process::Process,
        thread::Thread, //
    },
    policy::{
        attachment::State,
        phase::activity::Activity, //
    },
};
use core::{
    cell::UnsafeCell,
    mem::MaybeUninit, //
};
use kernel::{
    alloc::Flags,
    bindings,
    error::to_result,
    prelude::*,
    sync::{
        atomic::{
            ordering::{
                Acquire,
                Full,
                Relaxed,
                Release, //
            },
            Atomic,
        },
        Arc,
    },
};

extern "C" {
    fn zernel_helper_hook_listen(hook: *mut c_void);
    fn zernel_helper_hook_queue(hook: *mut c_void, task: *mut bindings::task_struct) -> c_int;
}

/// Head of the list of records that are over: `Arc`s turned into pointers.
static OVER: Atomic<usize> = Atomic::new(0);

/// `struct zernel_hook`.
#[repr(C)]
struct Hook {
    /// Words that C alone uses; the first is [`Self::next`] once the record is over.
    opaque: UnsafeCell<[u64; 6]>,
    /// Odd while `activity` is written.
    seq: Atomic<u32>,
    state: Atomic<u32>,
}

impl Hook {
    const fn new() -> Self {
        Self {
            opaque: UnsafeCell::new([0; 6]),
            seq: Atomic::new(0),
            state: Atomic::new(State::Coming.number()),
        }
    }

    fn as_raw(&self) -> *mut c_void {
        core::ptr::from_ref(self).cast_mut().cast()
    }

    /// The next on the list of records that are over. No task work is queued for any of them, nor
    /// will be: the pointer that links it is free.
    ///
    /// # Safety
    ///
    /// The record is over.
    unsafe fn next(&self) -> &Atomic<usize> {
        // SAFETY: Within `opaque`, as large and aligned as a word of it, and used by nobody else,
        // by the caller.
        unsafe { &*self.opaque.get().cast::<Atomic<usize>>() }
    }
}

/// The activity of one thread.
///
/// # Invariants
///
/// From [`Record::attach`] until it is over one reference belongs to the thread. `activity` is
/// written by the thread alone, between two changes of `seq`, which C makes.
#[repr(C)]
pub(crate) struct Record {
    /// First, so that C and Rust have the same pointer.
    hook: Hook,
    activity: UnsafeCell<Activity>,
    thread: Thread,
    process: Arc<Process>,
    /// It is in the table, or was.
    listed: Atomic<bool>,
    /// The user that it counts for.
    uid: Uid,
    /// Its waits for the GPU, which have memory of their own.
    waits: ThreadWaits,
}

// With the count of its references a quarter of a KiB, so that a tracked thread takes half of one
// with its part of the table.
kernel::prelude::static_assert!(size_of::<Record>() <= 248);

// SAFETY: See the invariants; everything else is atomic or constant.
unsafe impl Send for Record {}
// SAFETY: As above.
unsafe impl Sync for Record {}

impl Record {
    /// One that no thread has yet.
    ///
    /// # Errors
    ///
    /// `ENOSPC` there are [`MAX`](super::places::MAX), `EDQUOT` the thread's user has
    /// [`MAX_PER_USER`](super::places::MAX_PER_USER), `ENOMEM`.
    pub(crate) fn new(thread: Thread, process: Arc<Process>, flags: Flags) -> Result<Arc<Self>> {
        let uid = thread.uid();
        let place = Place::take(uid)?;
        let record = Arc::new(
            Self {
                hook: Hook::new(),
                activity: UnsafeCell::new(Activity::NONE),
                thread,
                process,
                listed: Atomic::new(false),
                uid,
                waits: ThreadWaits::new(),
            },
            flags,
        )?;
        // Given back by the record reaper.
        core::mem::forget(place);
        Ok(record)
    }

    /// Gives one up that was not handed to its thread.
    pub(crate) fn discard(record: Arc<Self>) {
        let uid = record.uid;
        drop(record);
        // Taken in `new`.
        Place::give_back(uid);
    }

    /// Hands it to its thread, which takes it when it returns to user space.
    ///
    /// # Errors
    ///
    /// `ESRCH` the thread has exited: nothing has changed.
    pub(crate) fn attach(record: Arc<Self>) -> Result {
        // Both may be gone before the helper is back.
        let thread = record.thread.clone();
        // INVARIANT: This reference is the thread's.
        let pointer = Arc::into_raw(record);
        // SAFETY: `pointer` is valid, for nobody has it yet. It stays so until the record is over.
        let result = to_result(unsafe {
            zernel_helper_hook_queue((*pointer).hook.as_raw(), thread.as_raw())
        });
        if result.is_err() {
            // SAFETY: Just made, and not handed over.
            Self::discard(unsafe { Arc::from_raw(pointer) });
        }
        result
    }

    /// Goes on to the next state, if there is one. Returns the action for that.
    pub(super) fn change<T>(&self, next: impl Fn(State) -> Option<(State, T)>) -> Option<T> {
        let mut number = self.hook.state.load(Acquire);
        loop {
            let (state, with) = next(State::of(number))?;
            match self.hook.state.cmpxchg(number, state.number(), Full) {
                Ok(_) => return Some(with),
                Err(now) => number = now,
            }
        }
    }

    /// Nobody wants it any more: the thread lets it go when it returns to user space.
    pub(crate) fn let_go(&self) {
        if self.change(State::unwanted) != Some(true) {
            return;
        }
        // SAFETY: The record is valid, and its task work has run: the thread has it.
        let refused = unsafe { zernel_helper_hook_queue(self.hook.as_raw(), self.thread.as_raw()) };
        let taken_off = |state| match state {
            State::TakenOff => state.work(),
            _ => None,
        };
        if refused != 0 && self.change(taken_off).is_some() {
            // The thread has taken it off meanwhile, and runs no task work any more.
            // SAFETY: The thread has left its reference to the task work that is refused.
            unsafe { Self::end(core::ptr::from_ref(self)) };
        }
    }

    /// It is wanted again, and begun anew. Returns whether it was in time.
    pub(crate) fn call_back(&self) -> bool {
        self.change(|state| Some((state.wanted()?, ()))).is_some()
    }

    /// Has the thread ring when it has a CPU again, once.
    pub(crate) fn listen(&self) {
        // SAFETY: The record is valid.
        unsafe { zernel_helper_hook_listen(self.hook.as_raw()) };
    }

    /// Its thread.
    pub(crate) fn thread(&self) -> &Thread {
        &self.thread
    }

    /// The process that it counts for.
    pub(crate) fn process(&self) -> &Arc<Process> {
        &self.process
    }

    /// True if it is in the table, or was.
    pub(super) fn is_listed(&self) -> bool {
        self.listed.load(Relaxed)
    }

    /// It is in the table now.
    pub(crate) fn set_listed(&self) {
        self.listed.store(true, Relaxed);
    }

    /// Its state.
    pub(super) fn state(&self) -> State {
        State::of(self.hook.state.load(Acquire))
    }

    /// The activity of the thread; `None` as long as it has not begun. Process context.
    pub(crate) fn read(&self) -> Option<Activity> {
        // First: a record that begins anew is there before its announcement ends.
        if self.state() == State::Returning {
            return None;
        }
        loop {
            let seq = self.hook.seq.load(Acquire);
            if seq % 2 == 0 {
                // SAFETY: Valid for reads; the value is used only without a write meanwhile.
                let copy = unsafe {
                    self.activity
                        .get()
                        .cast::<MaybeUninit<Activity>>()
                        .read_volatile()
                };
                smp_rmb();
                if self.hook.seq.load(Relaxed) == seq {
                    // SAFETY: Nobody wrote meanwhile.
                    let activity = unsafe { copy.assume_init() };
                    return activity.has_begun().then_some(activity);
                }
            }
            // The writer has preemption off: it is on another CPU, and soon done.
            core::hint::spin_loop();
        }
    }

    /// Its waits for the GPU.
    pub(in crate::glue::core) fn waits(&self) -> &ThreadWaits {
        &self.waits
    }

    /// Puts it on the list of those that are over.
    ///
    /// # Safety
    ///
    /// `record` is valid and comes with the thread's reference.
    pub(super) unsafe fn end(record: *const Self) {
        // SAFETY: By the caller.
        let this = unsafe { &*record };
        let jobs = this.process.jobs().clone();
        let mut head = OVER.load(Relaxed);
        loop {
            // SAFETY: It is over.
            unsafe { this.hook.next() }.store(head, Relaxed);
            match OVER.cmpxchg(head, record as usize, Release) {
                Ok(_) => break,
                Err(now) => head = now,
            }
        }
        jobs.record_reaper.kick();
    }
}

/// Hands over each record that is over since the last call. Called by the record reaper.
pub(crate) fn take_over(mut over: impl FnMut(&Record)) {
    let mut pointer = OVER.xchg(0, Acquire);
    while pointer != 0 {
        // SAFETY: The list owned the thread's reference to each of its records; it is ours now.
        let record = unsafe { Arc::from_raw(pointer as *const Record) };
        // SAFETY: It is over.
        pointer = unsafe { record.hook.next() }.load(Relaxed);
        over(&record);
        let uid = record.uid;
        drop(record);
        // Taken when the record was made.
        Place::give_back(uid);
    }
}

/// The record of a hook.
///
/// # Safety
///
/// `hook` is that of a record that is not over.
pub(in crate::glue::core) unsafe fn record_of<'a>(hook: *mut c_void) -> &'a Record {
    // SAFETY: By the caller; the hook comes first.
    unsafe { &*hook.cast::<Record>() }
}

/// The activity of the thread of a hook, to be changed by it.
///
/// # Safety
///
/// As [`record_of`], in the thread, between two changes of `seq`, with preemption off.
pub(super) unsafe fn activity_of<'a>(hook: *mut c_void) -> &'a mut Activity {
    // SAFETY: By the caller: nobody else writes, and no reader uses the values that it reads now.
    unsafe { &mut *record_of(hook).activity.get() }
}
