// SPDX-License-Identifier: GPL-2.0
//! Records the activity of threads, as the scheduler tells it; other threads pay nothing.
//!
//! A record hangs on the preempt-notifier list of its thread, which that thread alone changes: it
//! is put there by task work, when the thread returns to user space next, and taken off by task
//! work or by a probe of its exit. A thread alone writes its activity, with preemption off. It is
//! read under a sequence count in process context: no reader ever keeps the scheduler waiting.
//!
//! A record on its way belongs to the thread. Once it is over it is put on a lock-free list, and
//! the record reaper takes it from there; until then it holds a reference to the module.

mod places;

use super::{
    identity::Pid,
    memory::account_nowait,
    process::Process,
    thread::Thread,
    waits::ThreadWaits,
    work::Kick, //
};
use crate::policy::{
    attachment::{
        State,
        Work, //
    },
    phase::activity::{
        Activity,
        Cause, //
    },
    units::Ns, //
};
use core::{
    cell::UnsafeCell,
    mem::MaybeUninit,
    ptr::NonNull, //
};
#[cfg(zernel_linux_7_2)]
use kernel::sync::barrier::smp_rmb;
#[cfg(not(zernel_linux_7_2))]
use kernel::sync::barrier::{
    smp_mb,
    Read, //
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

use places::Place;
pub(crate) use places::{
    live,
    miss,
    missed,
    MAX, //
};

extern "C" {
    fn zernel_helper_hooks_on(cgroup_sync: *mut c_void) -> c_int;
    fn zernel_helper_hooks_off();
    fn zernel_helper_hooks_wait();
    fn zernel_helper_hook_listen(hook: *mut c_void);
    fn zernel_helper_hook_queue(hook: *mut c_void, task: *mut bindings::task_struct) -> c_int;
}

/// True if this kernel tells when threads are put on and off a CPU.
pub(crate) const IS_SUPPORTED: bool = cfg!(CONFIG_PREEMPT_NOTIFIERS);

#[cfg(not(zernel_linux_7_2))]
fn smp_rmb() {
    smp_mb(Read);
}

/// Head of the list of records that are over: `Arc`s turned into pointers.
static OVER: Atomic<usize> = Atomic::new(0);

/// Takes a record that has come to its thread, once somebody is there for it.
static ARRIVALS: Atomic<usize> = Atomic::new(0);

/// `take` is called with each record that has come to a thread that a tracked one has made; it
/// returns false if the thread is not to have it. Called once, before there is any.
pub(crate) fn hand_arrivals_to(take: fn(Arc<Record>) -> bool) {
    ARRIVALS.store(take as usize, Release);
}

fn arrived(record: Arc<Record>) -> bool {
    let take = ARRIVALS.load(Acquire);
    // SAFETY: Stored before there was any record.
    let take = unsafe { core::mem::transmute::<usize, fn(Arc<Record>) -> bool>(take) };
    take(record)
}

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
    /// Its number in the table; 0 while it is not there.
    id: Atomic<u64>,
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
    /// `ENOSPC` there are [`MAX`], `ENOMEM`.
    pub(crate) fn new(thread: Thread, process: Arc<Process>, flags: Flags) -> Result<Arc<Self>> {
        let place = Place::take().ok_or(ENOSPC)?;
        let record = Arc::new(
            Self {
                hook: Hook::new(),
                activity: UnsafeCell::new(Activity::NONE),
                thread,
                process,
                id: Atomic::new(0),
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
        drop(record);
        // Taken in `new`.
        Place::give_back();
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
    fn change<T>(&self, next: impl Fn(State) -> Option<(State, T)>) -> Option<T> {
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

    /// Its number in the table; 0 while it is not there.
    pub(crate) fn id(&self) -> u64 {
        self.id.load(Relaxed)
    }

    /// It is in the table now.
    pub(crate) fn set_id(&self, id: u64) {
        self.id.store(id, Relaxed);
    }

    /// The activity of the thread; `None` as long as it has not begun. Process context.
    pub(crate) fn read(&self) -> Option<Activity> {
        // First: a record that begins anew is there before its announcement ends.
        if State::of(self.hook.state.load(Acquire)) == State::Returning {
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
    pub(super) fn waits(&self) -> &ThreadWaits {
        &self.waits
    }

    /// Puts it on the list of those that are over.
    ///
    /// # Safety
    ///
    /// `record` is valid and comes with the thread's reference.
    unsafe fn end(record: *const Self) {
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
        drop(record);
        // Taken when the record was made.
        Place::give_back();
    }
}

/// True if [`Hooks`] were ever on.
static USED: Atomic<bool> = Atomic::new(false);

/// Has the probes and notifiers called as long as it lives; all records are over before that.
///
/// # Invariants
///
/// They are on.
pub(crate) struct Hooks(#[expect(dead_code, reason = "a probe kicks it")] Kick);

impl Hooks {
    /// Turns them on; `cgroup_sync` looks when a process is made in a tracked cgroup that has no
    /// record. May sleep.
    ///
    /// # Errors
    ///
    /// `EOPNOTSUPP` the kernel was built without preempt notifiers, `ENOMEM`.
    pub(crate) fn new(cgroup_sync: Kick) -> Result<Self> {
        USED.store(true, Relaxed);
        // SAFETY: There is one of these at a time, as the table is locked. The cgroup sync lives
        // until `wait_for_all` has waited for the probes.
        to_result(unsafe { zernel_helper_hooks_on(cgroup_sync.as_raw()) })?;
        // INVARIANT: Just turned on.
        Ok(Self(cgroup_sync))
    }
}

impl Drop for Hooks {
    fn drop(&mut self) {
        // SAFETY: On, by the type invariant.
        unsafe { zernel_helper_hooks_off() };
    }
}

/// Waits until no thread runs code of this file for a record that is over. After all [`Hooks`].
pub(crate) fn wait_for_all() {
    if USED.load(Relaxed) {
        // SAFETY: The caller may sleep.
        unsafe { zernel_helper_hooks_wait() };
    }
}

/// The record of a hook.
///
/// # Safety
///
/// `hook` is that of a record that is not over.
pub(super) unsafe fn record_of<'a>(hook: *mut c_void) -> &'a Record {
    // SAFETY: By the caller; the hook comes first.
    unsafe { &*hook.cast::<Record>() }
}

/// The work for task work to do. A record that is to begin anew has `begun` before it is wanted
/// again.
///
/// # Safety
///
/// As [`record_of`], in the thread.
#[no_mangle]
unsafe extern "C" fn zernel_rust_hook_work(hook: *mut c_void, exiting: bool, begun: bool) -> u32 {
    // SAFETY: By the caller.
    let record = unsafe { record_of(hook) };
    let mut taken = !exiting;
    if taken && record.id() == 0 {
        // SAFETY: The thread holds a reference, so that one more can be made here.
        let arc = unsafe { Arc::<Record>::from_raw(record) };
        core::mem::forget(arc.clone());
        taken = arrived(arc);
    }
    if !begun && State::of(record.hook.state.load(Acquire)) == State::Returning {
        record.waits.forget();
    }
    let work = record.change(|state| match state {
        State::Coming if !taken => State::CalledOff.work(),
        State::Returning if !begun => Some((state, Work::BeginAnew)),
        state => state.work(),
    });
    // There is always some: it was queued.
    work.unwrap_or(Work::GiveUp) as u32
}

/// The activity of the thread of a hook, to be changed by it.
///
/// # Safety
///
/// As [`record_of`], in the thread, between two changes of `seq`, with preemption off.
unsafe fn activity_of<'a>(hook: *mut c_void) -> &'a mut Activity {
    // SAFETY: By the caller: nobody else writes, and no reader uses the values that it reads now.
    unsafe { &mut *record_of(hook).activity.get() }
}

/// The thread takes the record.
///
/// # Safety
///
/// As [`activity_of`].
#[no_mangle]
unsafe extern "C" fn zernel_rust_hook_begins(hook: *mut c_void, now: u64) {
    // SAFETY: By the caller.
    unsafe { *activity_of(hook) = Activity::new(Ns(now)) };
}

/// The thread has a CPU again, for which it waited for `queued`.
///
/// # Safety
///
/// As [`activity_of`].
#[no_mangle]
unsafe extern "C" fn zernel_rust_hook_enters(hook: *mut c_void, now: u64, queued: u64) {
    // SAFETY: By the caller.
    unsafe { activity_of(hook) }.enter(Ns(now), Ns(queued));
}

/// The thread leaves its CPU. Under the lock of its run queue.
///
/// # Safety
///
/// As [`activity_of`].
#[no_mangle]
unsafe extern "C" fn zernel_rust_hook_leaves(hook: *mut c_void, now: u64, cause: u32) {
    let cause = Cause::ALL.get(cause as usize).copied();
    // SAFETY: By the caller.
    unsafe { activity_of(hook) }.leave(Ns(now), cause);
}

/// The thread has begun to be recorded, or somebody listens and it has a CPU again. Preemption may
/// be off.
///
/// # Safety
///
/// As [`record_of`], in the thread.
#[no_mangle]
unsafe extern "C" fn zernel_rust_hook_rings(hook: *mut c_void) {
    // SAFETY: By the caller.
    let process = unsafe { record_of(hook) }.process();
    if process.setting().ml {
        process.ring();
    }
}

/// The record was taken off: no more time is counted.
///
/// # Safety
///
/// As [`activity_of`].
#[no_mangle]
unsafe extern "C" fn zernel_rust_hook_stops(hook: *mut c_void, now: u64) {
    // SAFETY: By the caller.
    unsafe { activity_of(hook) }.end(Ns(now));
}

/// The thread has taken the record off, and exits. Whether it is over; otherwise that is for task
/// work to say, which comes later.
///
/// # Safety
///
/// As [`record_of`], in the thread.
#[no_mangle]
unsafe extern "C" fn zernel_rust_hook_exits(hook: *mut c_void) -> bool {
    // SAFETY: By the caller.
    let record = unsafe { record_of(hook) };
    record.change(State::exits) == Some(true)
}

/// The record is over.
///
/// # Safety
///
/// As [`record_of`], in the thread, which does not use it any more.
#[no_mangle]
unsafe extern "C" fn zernel_rust_hook_ends(hook: *mut c_void) {
    // SAFETY: By the caller: the thread gives its reference.
    unsafe { Record::end(hook.cast::<Record>()) };
}

/// A thread with a record has made another, of its own process or the first of a new one. Returns
/// whether that has a record, too.
///
/// # Safety
///
/// As [`record_of`], in the thread; `child` has not run yet.
#[no_mangle]
unsafe extern "C" fn zernel_rust_hook_forks(
    hook: *mut c_void,
    child: *mut bindings::task_struct,
    thread: bool,
) -> bool {
    // SAFETY: By the caller.
    let record = unsafe { record_of(hook) };
    let process = &record.process;
    if !State::of(record.hook.state.load(Acquire)).is_followed() || !process.follows(thread) {
        return false;
    }
    let Some(child) = NonNull::new(child) else {
        return false;
    };
    // SAFETY: By the caller.
    let child = unsafe { Thread::share(child) };
    let attached = if thread {
        Record::new(child, process.clone(), account_nowait()).and_then(Record::attach)
    } else {
        child
            .process()
            .and_then(|pid: Pid| Process::child_of(process, pid))
            .and_then(|process| Record::new(child, process, account_nowait()))
            .and_then(Record::attach)
    };
    if attached.is_err() {
        miss();
        if thread {
            // There may be memory later.
            process.ask_scan();
        }
    }
    attached.is_ok()
}
