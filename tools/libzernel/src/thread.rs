// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tracked threads: their times by activity, and their phases.

use std::fmt;

use bytemuck::Zeroable;
use serde::Serialize;

use crate::phase::{times_of, Phase, Times};
use crate::sys::abi;
use crate::{text, Target, Timestamp};

/// The way in which a target is tracked.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tracking {
    /// Processes that it makes later, too, and those that they make.
    pub children: bool,
    /// It is a machine-learning program: its threads have phases.
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

    fn ways(self) -> u32 {
        let way = |on, way| if on { way } else { 0 };
        abi::ZERNEL_TRACK_THREADS
            | way(self.children, abi::ZERNEL_TRACK_CHILDREN)
            | way(self.ml, abi::ZERNEL_TRACK_ML)
    }
}

/// Why a thread sleeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Cause {
    /// For a block device, or its like.
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
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::Io,
        Self::Futex,
        Self::Poll,
        Self::ReadWrite,
        Self::Ioctl,
        Self::Other,
    ];
}

/// The activity of a thread.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize)]
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
    #[default]
    Arrive,
    /// Something that this crate does not know.
    Unknown,
}

impl Does {
    fn from_abi(raw: u32) -> Self {
        match raw {
            abi::ZERNEL_DOES_RUN => Self::Run,
            abi::ZERNEL_DOES_QUEUE => Self::Queue,
            abi::ZERNEL_DOES_EXIT => Self::Exit,
            abi::ZERNEL_DOES_ARRIVE => Self::Arrive,
            abi::ZERNEL_DOES_SLEEP => Self::Sleep(Cause::Other),
            abi::ZERNEL_DOES_SLEEP_IO => Self::Sleep(Cause::Io),
            abi::ZERNEL_DOES_SLEEP_FUTEX => Self::Sleep(Cause::Futex),
            abi::ZERNEL_DOES_SLEEP_POLL => Self::Sleep(Cause::Poll),
            abi::ZERNEL_DOES_SLEEP_READ_WRITE => Self::Sleep(Cause::ReadWrite),
            abi::ZERNEL_DOES_SLEEP_IOCTL => Self::Sleep(Cause::Ioctl),
            _ => Self::Unknown,
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

/// A count, and the time of all.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Sum {
    /// Times that it began.
    pub count: u64,
    /// For how long, in nanoseconds.
    pub ns: u64,
}

/// The sleeps of a thread.
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

/// The last sample of a thread: the inputs of its phase.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Sample {
    /// When it was taken; none: there was none yet.
    pub at_ns: Option<Timestamp>,
    /// Time that it covers, in nanoseconds.
    pub ns: u64,
    /// Sleep for a block device, in nanoseconds.
    pub io_ns: u64,
    /// CPU time since the last sleep or wait for the GPU, in nanoseconds.
    pub burst_ns: u64,
    /// Sleeps in futex(2).
    pub futexes: u64,
}

/// A tracked thread: its times since its record began, and its phases.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Thread {
    /// Id of its record: never used again, not even after a reload of the module.
    pub id: u64,
    /// Id of its process, as that of a [`Process`](crate::Process).
    pub process: u64,
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
    /// It is one of a machine-learning program, and has phases.
    pub ml: bool,
    /// It waits for the GPU, asleep or not.
    pub gpu_wait: bool,
    /// Its activity.
    pub does: Does,
    /// For how long it has, in nanoseconds.
    pub does_ns: u64,
    /// CPU bursts, up to the last change of activity: from one sleep to the next.
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
    /// The phase that it is in.
    pub phase: Phase,
    /// A hint says so.
    pub hinted: bool,
    /// For how long it is in that phase, in nanoseconds.
    pub present_ns: u64,
    /// Time in each phase, the present one included: together since it is recorded.
    pub phase_ns: Times,
    /// Changes of the phase.
    pub transitions: u64,
    /// Samples that were taken of it.
    pub samples: u64,
    /// The last of them.
    pub sample: Sample,
    /// The addition of zernel to its nice value.
    pub nice: i32,
}

impl Thread {
    /// For how long it is recorded, in nanoseconds: all times of it together.
    pub fn recorded_ns(&self) -> u64 {
        let sleeps = Cause::ALL.map(|cause| self.sleeps.of(cause).ns);
        self.does_ns + self.bursts.ns + self.queued.ns + sleeps.iter().sum::<u64>()
    }
}

impl From<&abi::zernel_thread_info> for Thread {
    fn from(raw: &abi::zernel_thread_info) -> Self {
        let has = |flag| raw.flags & flag != 0;
        let sum = |count, ns| Sum { count, ns };
        Self {
            id: raw.id,
            process: raw.process,
            pid: raw.pid,
            tid: raw.tid,
            uid: raw.uid,
            comm: text::from_chars(&raw.comm),
            whole: has(abi::ZERNEL_TRACKED_WHOLE),
            children: has(abi::ZERNEL_TRACKED_CHILDREN),
            privileged: has(abi::ZERNEL_TRACKED_PRIVILEGED),
            cgroup: has(abi::ZERNEL_TRACKED_CGROUP),
            ml: has(abi::ZERNEL_TRACKED_ML),
            gpu_wait: has(abi::ZERNEL_TRACKED_GPU_WAIT),
            does: Does::from_abi(raw.does),
            does_ns: raw.does_ns,
            bursts: sum(raw.bursts, raw.burst_ns),
            queued: sum(raw.queues, raw.queue_ns),
            sleeps: Sleeps {
                io: sum(raw.sleeps_io, raw.sleep_io_ns),
                futex: sum(raw.sleeps_futex, raw.sleep_futex_ns),
                poll: sum(raw.sleeps_poll, raw.sleep_poll_ns),
                read_write: sum(raw.sleeps_read_write, raw.sleep_read_write_ns),
                ioctl: sum(raw.sleeps_ioctl, raw.sleep_ioctl_ns),
                other: sum(raw.sleeps, raw.sleep_ns),
            },
            burst_now_ns: raw.burst_now_ns,
            burst_last_ns: raw.burst_last_ns,
            gpu_waits: sum(raw.gpu_waits, raw.gpu_wait_ns),
            phase: Phase::from_abi(raw.phase),
            hinted: has(abi::ZERNEL_TRACKED_HINTED),
            present_ns: raw.phase_ns,
            phase_ns: times_of!(raw),
            transitions: raw.transitions,
            samples: raw.samples,
            sample: Sample {
                at_ns: Some(Timestamp::from_ns(raw.sample_at)).filter(|_| raw.sample_at > 0),
                ns: raw.sample_ns,
                io_ns: raw.sample_io_ns,
                burst_ns: raw.sample_burst_ns,
                futexes: raw.sample_futexes,
            },
            nice: raw.nice,
        }
    }
}

/// The call that has a target tracked.
pub(crate) fn begin(target: &Target, tracking: Tracking) -> abi::zernel_track {
    abi::zernel_track {
        target: target.raw(),
        set: tracking.ways(),
        ..abi::zernel_track::zeroed()
    }
}

/// The call that has a target tracked no more.
pub(crate) fn end(target: &Target) -> abi::zernel_track {
    abi::zernel_track {
        target: target.raw(),
        clear: abi::ZERNEL_TRACK_THREADS,
        ..abi::zernel_track::zeroed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw() -> abi::zernel_thread_info {
        abi::zernel_thread_info::zeroed()
    }

    #[test]
    fn times_add_up() {
        let mut raw = raw();
        (raw.does_ns, raw.burst_ns, raw.queue_ns) = (1, 20, 300);
        (raw.sleep_ns, raw.sleep_io_ns, raw.sleep_futex_ns) = (50_000, 4_000, 4_000);
        (
            raw.sleep_poll_ns,
            raw.sleep_read_write_ns,
            raw.sleep_ioctl_ns,
        ) = (4_000, 4_000, 4_000);
        raw.sleeps_ioctl = 7;
        let thread = Thread::from(&raw);
        assert_eq!(thread.recorded_ns(), 70_321);
        assert_eq!(thread.sleeps.of(Cause::Ioctl).count, 7);
        assert_eq!(Does::from_abi(16), Does::Sleep(Cause::Other));
        assert_eq!(Does::from_abi(21), Does::Sleep(Cause::Ioctl));
        assert_eq!(Does::from_abi(22), Does::Unknown);
    }

    #[test]
    fn requests_carry_target_and_ways() {
        let raw = begin(&Target::Thread(7), Tracking::PLAIN);
        assert_eq!((raw.target.kind, raw.set, raw.clear), (3, 1, 0));
        let raw = begin(&Target::CurrentProcess, Tracking::ML_CHILDREN);
        assert_eq!((raw.target.flags, raw.set), (2, 7));
        let raw = end(&Target::CurrentProcess);
        assert_eq!((raw.set, raw.clear), (0, 1));
        assert_eq!(Tracking::default(), Tracking::PLAIN);
    }

    #[test]
    fn json_has_plain_words() {
        let mut raw = raw();
        raw.does = abi::ZERNEL_DOES_QUEUE;
        raw.flags = abi::ZERNEL_TRACKED_WHOLE | abi::ZERNEL_TRACKED_GPU_WAIT;
        raw.flags |= abi::ZERNEL_TRACKED_HINTED;
        (raw.gpu_waits, raw.gpu_wait_ns) = (2, 30);
        (raw.phase, raw.optimizer_step_ns) = (abi::ZERNEL_PHASE_OPTIMIZER_STEP, 9);
        let json = serde_json::to_value(Thread::from(&raw)).unwrap();
        assert_eq!(json["does"], "queue");
        assert_eq!(
            (&json["whole"], &json["gpu_wait"]),
            (&true.into(), &true.into())
        );
        assert_eq!(json["gpu_waits"]["ns"], 30);
        assert_eq!(json["sleeps"]["read_write"]["count"], 0);
        assert_eq!(
            (&json["phase"], &json["hinted"]),
            (&"optimizer_step".into(), &true.into())
        );
        assert_eq!(json["phase_ns"]["optimizer_step"], 9);
        assert!(json["sample"]["at_ns"].is_null());
        raw.does = abi::ZERNEL_DOES_SLEEP_READ_WRITE;
        let json = serde_json::to_value(Thread::from(&raw)).unwrap();
        assert_eq!(json["does"]["sleep"], "read_write");
    }
}
