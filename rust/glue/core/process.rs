// SPDX-License-Identifier: GPL-2.0
//! A process with tracked threads: the tracking of its new threads and children.

use super::{
    identity::Pid,
    memory::account_nowait,
    work::Kick, //
};
use kernel::{
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

/// Some process may have asked for a scan.
static SCANS: Atomic<bool> = Atomic::new(false);

/// True if some process may have asked for a scan since the last question.
pub(crate) fn take_scans() -> bool {
    SCANS.xchg(false, Full)
}

/// Some thread has rung since the sampler looked.
static RUNG: Atomic<bool> = Atomic::new(false);

/// True if some thread has rung since the last question.
pub(crate) fn take_rung() -> bool {
    RUNG.xchg(false, Acquire)
}

/// The jobs that processes kick.
pub(crate) struct Kicks {
    /// Drops records that are over, and looks for threads that were missed.
    pub(crate) record_reaper: Kick,
    /// Takes samples of threads that have phases.
    pub(crate) sampler: Kick,
}

impl Kicks {
    /// Something happens that phases may tell: the sampler is to look. From any context.
    pub(crate) fn ring(&self) {
        RUNG.store(true, Release);
        self.sampler.kick();
    }
}

/// A process.
pub(crate) struct Process {
    pid: Pid,
    jobs: Arc<Kicks>,
    /// The way in which it is tracked by name, and that by the cgroups that it is in.
    setting: Atomic<u32>,
    /// Threads may be there that are not tracked and should be.
    scan: Atomic<bool>,
    /// A thread has done something, or somebody else has for it.
    rung: Atomic<bool>,
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
                scan: Atomic::new(false),
                rung: Atomic::new(false),
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
                scan: Atomic::new(false),
                rung: Atomic::new(false),
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

    /// Something happens that its phases may tell. From any context.
    pub(crate) fn ring(&self) {
        // Pairs with the Acquire of its taker.
        self.rung.store(true, Release);
        self.jobs.ring();
    }

    /// True if it has rung, and nobody has taken that.
    pub(crate) fn is_rung(&self) -> bool {
        self.rung.load(Acquire)
    }

    /// True if it has rung since the last time.
    pub(crate) fn take_ring(&self) -> bool {
        self.rung.load(Relaxed) && self.rung.xchg(false, Acquire)
    }

    /// Has the record reaper look for threads that are not tracked and should be. From any context.
    pub(crate) fn ask_scan(&self) {
        self.scan.store(true, Relaxed);
        // A thread that sees this sees that.
        SCANS.store(true, Release);
        self.jobs.record_reaper.kick();
    }

    /// True if the record reaper was asked to look, which it does now.
    pub(crate) fn take_scan(&self) -> bool {
        self.scan.xchg(false, Relaxed)
    }
}

/// A process that a call names, how it was named before, and which change that is.
pub(crate) struct Opened {
    pub(crate) process: Arc<Process>,
    pub(crate) before: Setting,
    pub(crate) change: u64,
}
