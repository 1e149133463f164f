// SPDX-License-Identifier: GPL-2.0
//! Work that runs on zernel's own workqueues, one instance at a time.

use crate::{
    glue::timer::{
        new_driven,
        Driven,
        Expired,
        Timed,
        NO_RESTART, //
    },
    policy::units::{
        Ms,
        Ns, //
    },
};
use kernel::{
    bindings,
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
    types::Opaque,
};

extern "C" {
    fn zernel_helper_wq_create(urgent: bool) -> *mut bindings::workqueue_struct;
    fn zernel_helper_work_init(
        work: *mut bindings::delayed_work,
        func: unsafe extern "C" fn(*mut bindings::work_struct),
    );
}

/// A workqueue, null while there is none.
static URGENT: Atomic<usize> = Atomic::new(0);
/// Another one, without priority over programs.
static ORDINARY: Atomic<usize> = Atomic::new(0);

/// A workqueue of this module.
struct Published {
    queue: *mut bindings::workqueue_struct,
    at: &'static Atomic<usize>,
}

// SAFETY: A workqueue may be destroyed by any thread.
unsafe impl Send for Published {}
// SAFETY: No `&self` method.
unsafe impl Sync for Published {}

impl Published {
    fn new(at: &'static Atomic<usize>, urgent: bool) -> Result<Self> {
        // SAFETY: FFI.
        let queue = unsafe { zernel_helper_wq_create(urgent) };
        if queue.is_null() {
            return Err(ENOMEM);
        }
        at.store(queue as usize, Release);
        Ok(Self { queue, at })
    }
}

impl Drop for Published {
    fn drop(&mut self) {
        self.at.store(0, Release);
        // SAFETY: Created in `new`, and nobody queues on it any more.
        unsafe { bindings::destroy_workqueue(self.queue) };
    }
}

/// The workqueues; every [`Worker`] is dropped before them.
pub(crate) struct Queues {
    _urgent: Published,
    _ordinary: Published,
}

impl Queues {
    /// Creates the workqueues of this module; called once, before any [`Worker`] is kicked.
    pub(crate) fn new() -> Result<Self> {
        Ok(Self {
            _urgent: Published::new(&URGENT, true)?,
            _ordinary: Published::new(&ORDINARY, false)?,
        })
    }
}

/// The work of a [`Worker`]. It may sleep.
pub(crate) trait Job: Send + Sync {
    /// Runs once for one or more kicks.
    fn run(worker: &Worker<Self>)
    where
        Self: Sized;
}

/// The work of a [`Worker`] and its alarm, which need nothing of its job.
#[pin_data]
struct Queued {
    #[pin]
    work: Opaque<bindings::delayed_work>,
    /// Its workqueue.
    queue: &'static Atomic<usize>,
    #[pin]
    alarm: Driven<Alarm>,
    /// Kicks it a little later, from any context.
    #[pin]
    soon: Opaque<bindings::hrtimer>,
    /// `soon` is armed.
    is_soon: Atomic<bool>,
    /// See [`Worker::set_delay`].
    delay_ms: Atomic<u32>,
}

/// Kicks the worker that it is a part of.
struct Alarm;

/// Set once the worker has ended: nobody arms the timer any more.
struct Ended(bool);

impl Timed for Alarm {
    type State = Ended;

    fn expired(this: Expired<'_, Self>) {
        let this = core::ptr::from_ref(this.lock().driven());
        // SAFETY: An alarm is a part of this, and its timer is cancelled before that goes.
        let queued = unsafe { &*kernel::container_of!(this, Queued, alarm) };
        queued.kick_after(0);
    }
}

// SAFETY: The workqueue and the timer core synchronise their own state.
unsafe impl Send for Queued {}
// SAFETY: As above.
unsafe impl Sync for Queued {}

impl Queued {
    /// # Safety
    ///
    /// Called by the timer core with the timer of a live [`Queued`].
    unsafe extern "C" fn came(timer: *mut bindings::hrtimer) -> bindings::hrtimer_restart {
        // SAFETY: By the caller; the timer is cancelled before its owner goes.
        let queued = unsafe { &*kernel::container_of!(Opaque::cast_from(timer), Self, soon) };
        // Fully ordered, as is the change below: a run that follows sees what those left who joined.
        queued.is_soon.xchg(false, Full);
        queued.kick_after(0);
        NO_RESTART
    }

    fn kick_soon(&self, delay: Ns) {
        if self.is_soon.xchg(true, Full) {
            return;
        }
        // SAFETY: Initialised in `new`. The core takes its own locks, which are raw.
        unsafe {
            bindings::hrtimer_start_range_ns(
                self.soon.get(),
                i64::try_from(delay.0).unwrap_or(i64::MAX),
                0,
                bindings::hrtimer_mode_HRTIMER_MODE_REL_HARD,
            )
        };
    }

    fn kick_now(&self) {
        let queue = self.queue.load(Acquire) as *mut bindings::workqueue_struct;
        if queue.is_null() {
            return;
        }
        // SAFETY: The queue outlives all workers; the work was initialised in `new`.
        unsafe {
            bindings::mod_delayed_work_on(
                bindings::wq_misc_consts_WORK_CPU_UNBOUND as c_int,
                queue,
                self.work.get(),
                0,
            );
        }
    }

    fn kick_after(&self, ms: u32) {
        let queue = self.queue.load(Acquire) as *mut bindings::workqueue_struct;
        if queue.is_null() {
            return;
        }
        // SAFETY: The queue outlives all workers; the work was initialised in `new`.
        unsafe {
            let delay = bindings::__msecs_to_jiffies(ms);
            bindings::queue_delayed_work_on(
                bindings::wq_misc_consts_WORK_CPU_UNBOUND as c_int,
                queue,
                self.work.get(),
                delay,
            );
        }
    }
}

/// A job that runs in process context soon after it was kicked, never twice at a time.
#[pin_data(PinnedDrop)]
pub(crate) struct Worker<J: Job + ?Sized> {
    #[pin]
    queued: Queued,
    job: J,
}

impl<J: Job> core::ops::Deref for Worker<J> {
    type Target = J;

    fn deref(&self) -> &J {
        &self.job
    }
}

impl<J: Job> Worker<J> {
    /// A worker that waits to be kicked, and then goes before programs.
    pub(crate) fn new(job: J) -> impl PinInit<Self, Error> {
        Self::on(&URGENT, job)
    }

    /// A worker that waits to be kicked, with the priority of any program: for work of a size that
    /// programs decide.
    pub(crate) fn ordinary(job: J) -> impl PinInit<Self, Error> {
        Self::on(&ORDINARY, job)
    }

    fn on(queue: &'static Atomic<usize>, job: J) -> impl PinInit<Self, Error> {
        let queued = try_pin_init!(Queued {
            work <- Opaque::ffi_init(|slot: *mut bindings::delayed_work| {
                // SAFETY: `slot` is valid for writes and pinned.
                unsafe { zernel_helper_work_init(slot, Self::callback) }
            }),
            queue,
            alarm <- new_driven!(Ended(false), c"zernel_alarm", Ok(Alarm)),
            soon <- Opaque::ffi_init(|timer: *mut bindings::hrtimer| {
                // SAFETY: `timer` is valid for writes and pinned. A hard timer: it is armed where
                // nothing may sleep, and does no more than queue work.
                unsafe {
                    bindings::hrtimer_setup(
                        timer,
                        Some(Queued::came),
                        bindings::CLOCK_MONOTONIC as i32,
                        bindings::hrtimer_mode_HRTIMER_MODE_REL_HARD,
                    )
                }
            }),
            is_soon: Atomic::new(false),
            delay_ms: Atomic::new(0),
        });
        try_pin_init!(Self {
            queued <- queued,
            job,
        })
    }

    /// # Safety
    ///
    /// Called by the workqueue with the work of a live [`Worker`].
    unsafe extern "C" fn callback(work: *mut bindings::work_struct) {
        // SAFETY: By the caller: the work is the first part of the delayed work of a `Worker`,
        // which is not freed before `drop` has ended it.
        let worker = unsafe {
            let delayed = kernel::container_of!(work, bindings::delayed_work, work);
            let queued = kernel::container_of!(Opaque::cast_from(delayed), Queued, work);
            &*kernel::container_of!(queued, Self, queued)
        };
        J::run(worker);
    }
}

impl<J: Job + ?Sized> Worker<J> {
    /// Runs the job as soon as possible; if it is waiting for a delay, when that is over.
    pub(crate) fn kick(&self) {
        self.queued.kick_after(0);
    }

    /// Runs the job as soon as possible, even if it is waiting for a delay.
    pub(crate) fn kick_now(&self) {
        self.queued.kick_now();
    }

    /// Runs the job in `ms` milliseconds, unless it is waiting already.
    pub(crate) fn kick_after(&self, ms: u32) {
        self.queued.kick_after(ms);
    }

    /// Runs the job after this delay at the latest, for who has no time to wake a thread. In any
    /// context.
    pub(crate) fn kick_soon(&self, delay: Ns) {
        self.queued.kick_soon(delay);
    }

    /// Runs the job at this time on `CLOCK_MONOTONIC`, instead of the one that was asked for last.
    pub(crate) fn kick_at(&self, at: Ns) {
        let mut alarm = self.queued.alarm.lock();
        if !alarm.0 {
            alarm.arm(at.0);
        }
    }

    /// The delay of a kick by a hook.
    pub(crate) fn delay(&self) -> Ms {
        Ms(self.queued.delay_ms.load(Relaxed))
    }

    /// Hooks kick the worker with this delay from now on.
    pub(crate) fn set_delay(&self, delay: Ms) {
        self.queued.delay_ms.store(delay.0, Relaxed);
    }

    /// Ends the worker: cancels a run that waits, and waits for one that is under way. The job never
    /// runs again; kicks do nothing, the alarm's among them. May sleep.
    pub(crate) fn end(&self) {
        // First: an alarm that comes in between finds the work disabled.
        // SAFETY: Initialised in `new`.
        unsafe { bindings::disable_delayed_work_sync(self.queued.work.get()) };
        self.queued.alarm.lock().0 = true;
        self.queued.alarm.disarm();
        // SAFETY: As above. One that is armed after this finds the work disabled, and the last end
        // comes when nobody else has the worker.
        unsafe { bindings::hrtimer_cancel(self.queued.soon.get()) };
        self.queued.is_soon.store(false, Relaxed);
    }
}

#[pinned_drop]
impl<J: Job + ?Sized> PinnedDrop for Worker<J> {
    fn drop(self: Pin<&mut Self>) {
        self.end();
    }
}

/// Kicks a worker with any job.
#[derive(Clone)]
pub(crate) struct Kick(Arc<Worker<dyn Job>>);

impl<J: Job + 'static> From<Arc<Worker<J>>> for Kick {
    fn from(worker: Arc<Worker<J>>) -> Self {
        Self(worker)
    }
}

impl core::ops::Deref for Kick {
    type Target = Worker<dyn Job>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl Kick {
    /// True if it kicks this one.
    pub(crate) fn is_of<J: Job>(&self, worker: &Worker<J>) -> bool {
        core::ptr::addr_eq(&raw const *self.0, worker)
    }

    /// A pointer for a hook to kick the worker with; valid as long as this is.
    pub(super) fn as_raw(&self) -> *mut c_void {
        core::ptr::from_ref(&self.0.queued).cast_mut().cast()
    }

    /// A hook kicks a worker.
    ///
    /// # Safety
    ///
    /// `kick` comes from [`Self::as_raw`] and is valid.
    pub(super) unsafe fn by_hook(kick: *mut c_void) {
        // SAFETY: By the caller.
        let queued = unsafe { &*kick.cast::<Queued>() };
        queued.kick_after(queued.delay_ms.load(Relaxed));
    }
}

#[cfg(zernel_kunit)]
#[kernel::macros::kunit_tests(zernel_work)]
mod tests {
    use super::*;
    use crate::glue::time::{
        now_ns,
        sleep_ms, //
    };

    /// Counts its runs, and has each followed by others.
    struct Busy {
        runs: Atomic<u32>,
    }

    impl Job for Busy {
        fn run(worker: &Worker<Self>) {
            worker.runs.fetch_add(1, Relaxed);
            worker.kick_at(Ns(now_ns() + 20_000));
            worker.kick_after(1);
        }
    }

    fn busy() -> Result<Arc<Worker<Busy>>> {
        Arc::pin_init(
            Worker::new(Busy {
                runs: Atomic::new(0),
            }),
            GFP_KERNEL,
        )
    }

    fn kick_from_everywhere(worker: &Arc<Worker<Busy>>) {
        worker.kick_at(Ns(now_ns()));
        worker.kick_soon(Ns(20_000));
        worker.kick_after(0);
        worker.kick();
        worker.kick_now();
        let kick = Kick::from(worker.clone());
        kick.kick();
        // SAFETY: It is there.
        unsafe { Kick::by_hook(kick.as_raw()) };
    }

    #[test]
    fn a_worker_runs_until_it_is_ended() -> Result {
        let worker = busy()?;
        worker.kick();
        let mut waited = 0;
        while worker.runs.load(Relaxed) < 3 && waited < 10_000 {
            sleep_ms(1);
            waited += 1;
        }
        assert!(worker.runs.load(Relaxed) >= 3);
        worker.end();
        let runs = worker.runs.load(Relaxed);
        kick_from_everywhere(&worker);
        sleep_ms(20);
        assert_eq!(worker.runs.load(Relaxed), runs);
        Ok(())
    }

    /// Counts its runs.
    struct Calm {
        runs: Atomic<u32>,
    }

    impl Job for Calm {
        fn run(worker: &Worker<Self>) {
            worker.runs.fetch_add(1, Relaxed);
        }
    }

    #[test]
    fn a_kick_that_can_wait_comes_once_and_not_after_the_end() -> Result {
        let calm = Calm {
            runs: Atomic::new(0),
        };
        let worker = Arc::pin_init(Worker::new(calm), GFP_KERNEL)?;
        for round in 1..=3 {
            worker.kick_soon(Ns(1_000));
            let mut waited = 0;
            while worker.runs.load(Relaxed) < round && waited < 10_000 {
                sleep_ms(1);
                waited += 1;
            }
            assert_eq!(worker.runs.load(Relaxed), round);
        }
        // Those that follow join the first, which comes in an hour.
        worker.kick_soon(Ns(3_600_000_000_000));
        for _ in 0..5 {
            worker.kick_soon(Ns(1_000));
        }
        sleep_ms(20);
        assert_eq!(worker.runs.load(Relaxed), 3);
        worker.end();
        worker.kick_soon(Ns(1_000));
        sleep_ms(20);
        assert_eq!(worker.runs.load(Relaxed), 3);
        Ok(())
    }

    #[test]
    fn no_alarm_comes_after_the_end() -> Result {
        for round in 0..100 {
            let worker = busy()?;
            // The alarm is due before the end, during it, or after it.
            worker.kick_at(Ns(now_ns() + round * 1_000));
            worker.kick();
            worker.end();
            let runs = worker.runs.load(Relaxed);
            kick_from_everywhere(&worker);
            // Twice does no harm.
            worker.end();
            sleep_ms(1);
            assert_eq!(worker.runs.load(Relaxed), runs);
        }
        Ok(())
    }
}
