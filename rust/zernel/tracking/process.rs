// SPDX-License-Identifier: GPL-2.0
//! A process with threads that are tracked: what becomes of those that it makes.

use super::keeper::Keeper;
use crate::glue::{
    identity::Pid,
    work::Worker, //
};
use kernel::{
    prelude::*,
    sync::{
        atomic::{
            ordering::Relaxed,
            Atomic, //
        },
        Arc,
    },
};

/// How a process is tracked.
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
    /// Single threads of it.
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

/// A process.
pub(crate) struct Process {
    pid: Pid,
    keeper: Arc<Worker<Keeper>>,
    setting: Atomic<u32>,
    /// Threads may be there that are not tracked and should be.
    scan: Atomic<bool>,
}

impl Process {
    /// A process, none of whose threads is tracked.
    pub(super) fn new(pid: Pid, keeper: Arc<Worker<Keeper>>) -> Result<Arc<Self>> {
        Ok(Arc::new(
            Self {
                pid,
                keeper,
                setting: Atomic::new(Setting::SINGLE.bits()),
                scan: Atomic::new(false),
            },
            GFP_KERNEL_ACCOUNT,
        )?)
    }

    /// A process that a thread of `parent` has made, tracked as that is. Does not sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn child_of(parent: &Self, pid: Pid) -> Result<Arc<Self>> {
        Ok(Arc::new(
            Self {
                pid,
                keeper: parent.keeper.clone(),
                setting: Atomic::new(parent.setting.load(Relaxed)),
                scan: Atomic::new(false),
            },
            GFP_NOWAIT,
        )?)
    }

    /// Who it is.
    pub(crate) fn pid(&self) -> &Pid {
        &self.pid
    }

    /// Who clears up.
    pub(crate) fn keeper(&self) -> &Arc<Worker<Keeper>> {
        &self.keeper
    }

    /// How it is tracked.
    pub(crate) fn setting(&self) -> Setting {
        Setting::of(self.setting.load(Relaxed))
    }

    /// Changes [`Self::setting`].
    pub(super) fn set(&self, setting: Setting) {
        self.setting.store(setting.bits(), Relaxed);
    }

    /// Whether a thread, or a process, that one of its tracked threads makes is tracked, too.
    pub(crate) fn follows(&self, thread: bool) -> bool {
        let setting = self.setting();
        setting.whole && (thread || setting.children)
    }

    /// Has the keeper look for threads that are not tracked and should be. From any context.
    pub(crate) fn ask_scan(&self) {
        self.scan.store(true, Relaxed);
        self.keeper.kick();
    }

    /// Whether the keeper was asked to look, which it does now.
    pub(super) fn take_scan(&self) -> bool {
        self.scan.xchg(false, Relaxed)
    }
}
