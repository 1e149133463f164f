// SPDX-License-Identifier: GPL-2.0
//! Tracked threads: what they did with their time.

use std::fmt;

use bytemuck::Zeroable;
use serde::Serialize;

use crate::sys::abi;
use crate::{text, Target};

/// How a target is tracked.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tracking {
    /// Processes that it makes later, too, and those that they make.
    pub children: bool,
    /// It is a machine-learning program, whose threads have phases.
    pub ml: bool,
}

impl Tracking {
    /// The target alone, without phases.
    pub const PLAIN: Self = Self {
        children: false,
        ml: false,
    };

    /// A process and those that it makes, without phases.
    pub const CHILDREN: Self = Self {
        children: true,
        ..Self::PLAIN
    };

    /// A machine-learning program.
    pub const ML: Self = Self {
        ml: true,
        ..Self::PLAIN
    };

    /// A machine-learning program and the processes that it makes.
    pub const ML_CHILDREN: Self = Self {
        children: true,
        ml: true,
    };

    fn flags(self) -> u32 {
        let flag = |on, flag| if on { flag } else { 0 };
        flag(self.children, abi::ZERNEL_V0_TRACK_CHILDREN) | flag(self.ml, abi::ZERNEL_V0_TRACK_ML)
    }
}

/// Why a thread sleeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Cause {
    /// For a block device, or what counts as one.
    Io,
    /// In futex(2) and its like: for a thread.
    Futex,
    /// In poll(2), select(2), epoll and their like.
    Poll,
    /// In read(2), write(2) and their like.
    ReadWrite,
    /// In ioctl(2): for a driver.
    Ioctl,
    /// For anything else.
    Other,
}

impl Cause {
    /// All of them, at their numbers.
    pub const ALL: [Self; abi::ZERNEL_V0_NR_SLEEPS as usize] = [
        Self::Io,
        Self::Futex,
        Self::Poll,
        Self::ReadWrite,
        Self::Ioctl,
        Self::Other,
    ];
}

/// What a thread does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Does {
    /// It sleeps.
    Sleep(Cause),
    /// It has a CPU.
    Run,
    /// It could run and has no CPU.
    Queue,
    /// It has exited.
    Exit,
    /// It is not recorded yet: it has not returned to user space since it is to be tracked.
    Arrive,
    /// Something that this crate does not know.
    Unknown,
}

impl Does {
    fn from_abi(raw: u32) -> Self {
        match raw {
            abi::ZERNEL_V0_DOES_RUN => Self::Run,
            abi::ZERNEL_V0_DOES_QUEUE => Self::Queue,
            abi::ZERNEL_V0_DOES_EXIT => Self::Exit,
            abi::ZERNEL_V0_DOES_ARRIVE => Self::Arrive,
            raw => match Cause::ALL.get(raw as usize) {
                Some(&cause) => Self::Sleep(cause),
                None => Self::Unknown,
            },
        }
    }
}

impl fmt::Display for Does {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Sleep(Cause::Io) => "io",
            Self::Sleep(Cause::Futex) => "futex",
            Self::Sleep(Cause::Poll) => "poll",
            Self::Sleep(Cause::ReadWrite) => "read/write",
            Self::Sleep(Cause::Ioctl) => "ioctl",
            Self::Sleep(Cause::Other) => "sleep",
            Self::Run => "run",
            Self::Queue => "queue",
            Self::Exit => "exit",
            Self::Arrive => "arrive",
            Self::Unknown => "unknown",
        })
    }
}

/// How often, and for how long in all.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Sum {
    /// How often it began.
    pub count: u64,
    /// For how long, in nanoseconds.
    pub ns: u64,
}

/// How often and how long a thread slept.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Sleeps {
    /// [`Cause::Io`].
    pub io: Sum,
    /// [`Cause::Futex`].
    pub futex: Sum,
    /// [`Cause::Poll`].
    pub poll: Sum,
    /// [`Cause::ReadWrite`].
    pub read_write: Sum,
    /// [`Cause::Ioctl`].
    pub ioctl: Sum,
    /// [`Cause::Other`].
    pub other: Sum,
}

impl Sleeps {
    /// For one cause.
    pub fn of(&self, cause: Cause) -> Sum {
        match cause {
            Cause::Io => self.io,
            Cause::Futex => self.futex,
            Cause::Poll => self.poll,
            Cause::ReadWrite => self.read_write,
            Cause::Ioctl => self.ioctl,
            Cause::Other => self.other,
        }
    }
}

/// A tracked thread, and what it did since it is recorded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Thread {
    /// Id of its record: never used again, not even after a reload of the module.
    pub id: u64,
    /// Its process in the caller's pid namespace, 0 if not visible there or reaped.
    pub pid: u32,
    /// Its own number, likewise.
    pub tid: u32,
    /// Its real user in the caller's user namespace.
    pub uid: u32,
    /// Its name.
    pub comm: String,
    /// Its whole process is tracked.
    pub whole: bool,
    /// And the processes that it makes.
    pub children: bool,
    /// By privilege.
    pub privileged: bool,
    /// With a cgroup.
    pub cgroup: bool,
    /// It waits for the GPU, asleep or not.
    pub gpu_wait: bool,
    /// What it does.
    pub does: Does,
    /// For how long it has, in nanoseconds.
    pub present_ns: u64,
    /// CPU bursts, up to the last change of what it does: from one sleep to the next.
    pub bursts: Sum,
    /// It could run and had no CPU.
    pub queued: Sum,
    /// It slept.
    pub sleeps: Sleeps,
    /// CPU time of the burst that goes on, in nanoseconds; 0 while it sleeps.
    pub burst_now_ns: u64,
    /// CPU time of the last burst that a sleep has ended, in nanoseconds.
    pub burst_last_ns: u64,
    /// Waits for the GPU, the one that goes on included: a part of the other times.
    pub gpu_waits: Sum,
}

impl Thread {
    /// For how long it is recorded, in nanoseconds: all times of it together.
    pub fn recorded_ns(&self) -> u64 {
        let sleeps = Cause::ALL.map(|cause| self.sleeps.of(cause).ns);
        self.present_ns + self.bursts.ns + self.queued.ns + sleeps.iter().sum::<u64>()
    }
}

impl From<&abi::zernel_v0_thread_info> for Thread {
    fn from(raw: &abi::zernel_v0_thread_info) -> Self {
        let has = |flag| raw.flags & flag != 0;
        let sum = |count, ns| Sum { count, ns };
        let slept = |at: u32| sum(raw.sleeps[at as usize], raw.sleep_ns[at as usize]);
        Self {
            id: raw.id,
            pid: raw.pid,
            tid: raw.tid,
            uid: raw.uid,
            comm: text::from_chars(&raw.comm),
            whole: has(abi::ZERNEL_V0_THREAD_WHOLE),
            children: has(abi::ZERNEL_V0_THREAD_CHILDREN),
            privileged: has(abi::ZERNEL_V0_THREAD_PRIVILEGED),
            cgroup: has(abi::ZERNEL_V0_THREAD_CGROUP),
            gpu_wait: has(abi::ZERNEL_V0_THREAD_GPU_WAIT),
            does: Does::from_abi(raw.does),
            present_ns: raw.present_ns,
            bursts: sum(raw.bursts, raw.burst_ns),
            queued: sum(raw.queues, raw.queue_ns),
            sleeps: Sleeps {
                io: slept(abi::ZERNEL_V0_SLEEP_IO),
                futex: slept(abi::ZERNEL_V0_SLEEP_FUTEX),
                poll: slept(abi::ZERNEL_V0_SLEEP_POLL),
                read_write: slept(abi::ZERNEL_V0_SLEEP_READ_WRITE),
                ioctl: slept(abi::ZERNEL_V0_SLEEP_IOCTL),
                other: slept(abi::ZERNEL_V0_SLEEP_OTHER),
            },
            burst_now_ns: raw.burst_now_ns,
            burst_last_ns: raw.burst_last_ns,
            gpu_waits: sum(raw.gpu_waits, raw.gpu_wait_ns),
        }
    }
}

/// A request to track a target, or to track it no more.
pub(crate) fn request(target: &Target, tracking: Tracking) -> abi::zernel_v0_track {
    // Flags of targets are the same for all calls.
    const _: () = assert!(abi::ZERNEL_V0_TRACK_PIDFD == abi::ZERNEL_V0_CLASS_PIDFD);
    let (kind, flags, id) = target.encode();
    abi::zernel_v0_track {
        target: kind,
        flags: flags | tracking.flags(),
        id,
        ..abi::zernel_v0_track::zeroed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_add_up() {
        let mut raw = abi::zernel_v0_thread_info::zeroed();
        (raw.present_ns, raw.burst_ns, raw.queue_ns) = (1, 20, 300);
        raw.sleep_ns = [4_000; 6];
        raw.sleep_ns[5] = 50_000;
        raw.sleeps = [1, 2, 3, 4, 5, 6];
        let thread = Thread::from(&raw);
        assert_eq!(thread.recorded_ns(), 70_321);
        for (at, cause) in Cause::ALL.into_iter().enumerate() {
            assert_eq!(thread.sleeps.of(cause).count, at as u64 + 1);
            assert_eq!(Does::from_abi(at as u32), Does::Sleep(cause));
        }
        assert_eq!(Does::from_abi(6), Does::Unknown);
    }

    #[test]
    fn requests_carry_target_and_flags() {
        let raw = request(&Target::Thread(7), Tracking::PLAIN);
        assert_eq!(
            (raw.target, raw.flags, raw.id),
            (abi::ZERNEL_V0_TARGET_THREAD, 0, 7)
        );
        let raw = request(&Target::CurrentProcess, Tracking::CHILDREN);
        assert_eq!(raw.flags, abi::ZERNEL_V0_TRACK_CHILDREN);
        let raw = request(&Target::Thread(7), Tracking::ML);
        assert_eq!(raw.flags, abi::ZERNEL_V0_TRACK_ML);
        let raw = request(&Target::CurrentProcess, Tracking::ML_CHILDREN);
        assert_eq!(raw.flags, 6);
        assert_eq!(Tracking::default(), Tracking::PLAIN);
    }

    #[test]
    fn json_has_plain_words() {
        let mut raw = abi::zernel_v0_thread_info::zeroed();
        raw.does = abi::ZERNEL_V0_DOES_QUEUE;
        raw.flags = abi::ZERNEL_V0_THREAD_WHOLE | abi::ZERNEL_V0_THREAD_GPU_WAIT;
        (raw.gpu_waits, raw.gpu_wait_ns) = (2, 30);
        let json = serde_json::to_value(Thread::from(&raw)).unwrap();
        assert_eq!(json["does"], "queue");
        assert_eq!(
            (&json["whole"], &json["gpu_wait"]),
            (&true.into(), &true.into())
        );
        assert_eq!(json["gpu_waits"]["ns"], 30);
        assert_eq!(json["sleeps"]["read_write"]["count"], 0);
        raw.does = abi::ZERNEL_V0_SLEEP_READ_WRITE;
        let json = serde_json::to_value(Thread::from(&raw)).unwrap();
        assert_eq!(json["does"]["sleep"], "read_write");
    }
}
