// SPDX-License-Identifier: GPL-2.0
//! A process with tracked threads: the tracking of its new threads and children.

use super::{
    identity::Pid,
    memory::account_nowait,
    work::Kick, //
};
use crate::policy::units::Ns;
use kernel::{
    prelude::*,
    sync::{
        atomic::{
            ordering::{
                Acquire,
                Full,
                Relaxed, //
            },
            Atomic,
        },
        Arc,
    },
};

/// The way in which a process is tracked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Setting {
    /// All of it: threads that its threads make, too.
    pub(crate) whole: bool,
    /// And the processes that they make, in the same way.
    pub(crate) children: bool,
    /// By privilege: it takes that to end it.
    pub(crate) privileged: bool,
    /// A machine-learning program: its threads have phases.
    pub(crate) ml: bool,
}

impl Setting {
    /// Single threads of it, or none.
    pub(crate) const SINGLE: Self = Self {
        whole: false,
        children: false,
        privileged: false,
        ml: false,
    };

    /// Both.
    pub(crate) fn and(self, other: Self) -> Self {
        Self::of(self.bits() | other.bits())
    }

    const WHOLE: u32 = 1;
    const CHILDREN: u32 = 2;
    const PRIVILEGED: u32 = 4;
    const ML: u32 = 8;
    /// All of them; those of cgroups come behind those that it was named with.
    const ALL: u32 = 15;
    const WIDTH: u32 = 4;

    fn bits(self) -> u32 {
        u32::from(self.whole) * Self::WHOLE
            + u32::from(self.children) * Self::CHILDREN
            + u32::from(self.privileged) * Self::PRIVILEGED
            + u32::from(self.ml) * Self::ML
    }

    fn of(bits: u32) -> Self {
        Self {
            whole: bits & Self::WHOLE != 0,
            children: bits & Self::CHILDREN != 0,
            privileged: bits & Self::PRIVILEGED != 0,
            ml: bits & Self::ML != 0,
        }
    }
}

/// A list of processes, each of which is on it once, without a lock. From any context.
///
/// # Invariants
///
/// `head` is null or an `Arc` turned into a pointer, as is the `next` of each link; the list owns these
/// references.
pub(crate) struct List {
    head: Atomic<usize>,
    link: fn(&Process) -> &Link,
}

/// The place of a process on a list.
struct Link {
    is_listed: Atomic<bool>,
    next: Atomic<usize>,
}

impl Link {
    const fn new() -> Self {
        Self {
            is_listed: Atomic::new(false),
            next: Atomic::new(0),
        }
    }
}

/// Processes that have asked for a scan.
pub(crate) static ASKED: List = List::new(|process| &process.asked);
/// Processes of which some thread has rung.
pub(crate) static RUNG: List = List::new(|process| &process.rung);
/// Processes that have phases now and had none, or the opposite.
pub(crate) static CHANGED: List = List::new(|process| &process.changed);

/// No tick of the sampler is due: who puts a process on one of its lists kicks it.
static SAMPLER_RESTS: Atomic<bool> = Atomic::new(true);

/// The sampler is about to rest. Returns false, and it does not, if a process is on one of its lists.
pub(crate) fn let_sampler_rest() -> bool {
    // Fully ordered, as is the change of a list: one of both sides sees what the other has done.
    SAMPLER_RESTS.xchg(true, Full);
    let is_quiet = RUNG.is_empty() && CHANGED.is_empty();
    if !is_quiet {
        keep_sampler_awake();
    }
    is_quiet
}

/// The sampler does not rest.
pub(crate) fn keep_sampler_awake() {
    SAMPLER_RESTS.store(false, Relaxed);
}

impl List {
    const fn new(link: fn(&Process) -> &Link) -> Self {
        // INVARIANT: It is empty.
        Self {
            head: Atomic::new(0),
            link,
        }
    }

    /// Puts a process on it, unless it is there. Returns true if it was not.
    fn push(&self, process: &Arc<Process>) -> bool {
        let link = (self.link)(process);
        if link.is_listed.xchg(true, Full) {
            return false;
        }
        // INVARIANT: One reference more.
        let pointer = Arc::into_raw(process.clone()) as usize;
        let mut head = self.head.load(Relaxed);
        loop {
            link.next.store(head, Relaxed);
            match self.head.cmpxchg(head, pointer, Full) {
                Ok(_) => return true,
                Err(now) => head = now,
            }
        }
    }

    /// True if there is any process that nobody has taken.
    pub(crate) fn is_empty(&self) -> bool {
        self.head.load(Relaxed) == 0
    }

    /// Takes all of them.
    pub(crate) fn take(&self) -> Taken {
        Taken {
            next: self.head.xchg(0, Acquire),
            link: self.link,
        }
    }
}

/// Processes that were taken from a list. One that has come out may be listed again.
///
/// # Invariants
///
/// As [`List`].
pub(crate) struct Taken {
    next: usize,
    link: fn(&Process) -> &Link,
}

impl Taken {
    /// None.
    pub(crate) const fn none() -> Self {
        // INVARIANT: As for an empty list.
        Self {
            next: 0,
            link: |process| &process.asked,
        }
    }

    /// True if none is left.
    pub(crate) fn is_empty(&self) -> bool {
        self.next == 0
    }
}

impl Iterator for Taken {
    type Item = Arc<Process>;

    fn next(&mut self) -> Option<Arc<Process>> {
        if self.next == 0 {
            return None;
        }
        // SAFETY: By the type invariant; the reference is the caller's now.
        let process = unsafe { Arc::from_raw(self.next as *const Process) };
        let link = (self.link)(&process);
        // INVARIANT: The next one's reference is still owned.
        self.next = link.next.load(Relaxed);
        // After `next` was read: from here on it may be listed again.
        link.is_listed.xchg(false, Full);
        Some(process)
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.for_each(drop);
    }
}

/// The jobs that processes kick.
pub(crate) struct Kicks {
    /// Drops records that are over, and looks for threads that were missed.
    pub(crate) record_reaper: Kick,
    /// Takes samples of threads that have phases.
    pub(crate) sampler: Kick,
}

/// A process.
pub(crate) struct Process {
    pid: Pid,
    jobs: Arc<Kicks>,
    /// The way in which it is tracked by name, and that by the cgroups that it is in.
    setting: Atomic<u32>,
    /// On [`ASKED`].
    asked: Link,
    /// The time before which it is not to be scanned again, in ns.
    spared: Atomic<u64>,
    /// On [`RUNG`]: a thread has done something, or somebody else has for it.
    rung: Link,
    /// On [`CHANGED`].
    changed: Link,
    /// There was no memory or room for all of its threads when it came to a tracked cgroup.
    lacks: Atomic<bool>,
}

impl Process {
    /// A process without tracked threads.
    pub(crate) fn new(pid: Pid, jobs: Arc<Kicks>) -> Result<Arc<Self>> {
        Ok(Arc::new(
            Self {
                pid,
                jobs,
                setting: Atomic::new(Setting::SINGLE.bits()),
                asked: Link::new(),
                spared: Atomic::new(0),
                rung: Link::new(),
                changed: Link::new(),
                lacks: Atomic::new(false),
            },
            account_nowait(),
        )?)
    }

    /// A process that a thread of `parent` has made, tracked as that is: it is in the same cgroups,
    /// as far as is known. Does not sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn child_of(parent: &Self, pid: Pid) -> Result<Arc<Self>> {
        let mut bits = parent.setting.load(Relaxed);
        let named = parent.named();
        if !(named.whole && named.children) {
            bits &= !Setting::ALL;
        }
        Ok(Arc::new(
            Self {
                pid,
                jobs: parent.jobs.clone(),
                setting: Atomic::new(bits),
                asked: Link::new(),
                spared: Atomic::new(0),
                rung: Link::new(),
                changed: Link::new(),
                lacks: Atomic::new(false),
            },
            account_nowait(),
        )?)
    }

    /// Its pid.
    pub(crate) fn pid(&self) -> &Pid {
        &self.pid
    }

    /// The jobs that it kicks.
    pub(crate) fn jobs(&self) -> &Arc<Kicks> {
        &self.jobs
    }

    /// The way in which it is tracked, by name or by a cgroup.
    pub(crate) fn setting(&self) -> Setting {
        self.named().and(self.grouped())
    }

    /// The way in which it is tracked by name: itself, or because its maker was.
    pub(crate) fn named(&self) -> Setting {
        Setting::of(self.setting.load(Relaxed))
    }

    /// The way in which it is tracked by the cgroups that it is in.
    pub(crate) fn grouped(&self) -> Setting {
        Setting::of(self.setting.load(Relaxed) >> Setting::WIDTH)
    }

    /// Changes [`Self::named`] and [`Self::grouped`].
    pub(crate) fn set(&self, named: Setting, grouped: Setting) {
        let bits = named.bits() | grouped.bits() << Setting::WIDTH;
        self.setting.store(bits, Relaxed);
    }

    /// True if a thread, or a process, that one of its tracked threads makes is tracked, too.
    pub(crate) fn follows(&self, thread: bool) -> bool {
        let named = self.named();
        self.grouped().whole || named.whole && (thread || named.children)
    }

    /// Says whether there was no room for all of its threads. Returns whether there was none before.
    pub(crate) fn set_lacks(&self, lacks: bool) -> bool {
        self.lacks.xchg(lacks, Relaxed)
    }

    /// True if there was no room for all of its threads.
    pub(crate) fn lacks(&self) -> bool {
        self.lacks.load(Relaxed)
    }

    /// Something happens that its phases may tell: the sampler is to look. From any context.
    pub(crate) fn ring(process: &Arc<Self>) {
        Self::tell_sampler(process, &RUNG);
    }

    /// It has phases now and had none, or the opposite: the sampler is to know. From any context.
    pub(crate) fn change(process: &Arc<Self>) {
        Self::tell_sampler(process, &CHANGED);
    }

    /// One that does not rest sees the list in its next tick: who tells it all the time costs it no
    /// run.
    fn tell_sampler(process: &Arc<Self>, list: &List) {
        if list.push(process) && SAMPLER_RESTS.load(Relaxed) {
            process.jobs.sampler.kick();
        }
    }

    /// True if it has rung, and nobody has taken that.
    pub(crate) fn is_rung(&self) -> bool {
        self.rung.is_listed.load(Acquire)
    }

    /// Has the record reaper look for threads that are not tracked and should be, or for phases that
    /// are over. From any context.
    pub(crate) fn ask_scan(process: &Arc<Self>) {
        Self::ask_scan_later(process);
        process.jobs.record_reaper.kick();
    }

    /// As [`Self::ask_scan`], when the record reaper runs next.
    pub(crate) fn ask_scan_later(process: &Arc<Self>) {
        ASKED.push(process);
    }

    /// It is not to be scanned again before then.
    pub(crate) fn spare_until(&self, at: Ns) {
        self.spared.store(at.0, Relaxed);
    }

    /// The time before which it is not to be scanned again.
    pub(crate) fn spared_until(&self) -> Ns {
        Ns(self.spared.load(Relaxed))
    }
}

/// A process that a call names, how it was named before, and which change that is.
pub(crate) struct Opened {
    pub(crate) process: Arc<Process>,
    pub(crate) before: Setting,
    pub(crate) change: u64,
}
