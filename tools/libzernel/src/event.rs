// SPDX-License-Identifier: MIT OR Apache-2.0
//! The event stream: zernel's actions in order, with a count of lost ones.

use std::fmt;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::Duration;

use bytemuck::{AnyBitPattern, Zeroable};
use rustix::event::{poll, PollFd, PollFlags, Timespec};
use rustix::fs::OFlags;
use rustix::io::Errno;
use serde::Serialize;

use crate::device::open_node;
use crate::list::ALL;
use crate::sys::{abi, zernel as calls};
use crate::{gpu, tsg, Call, Error, Level, Result, Source, Target, Timestamp, Zernel};

/// Its kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Kind {
    /// A provider reported a GPU.
    GpuAdded,
    /// A GPU went away, and its TSGs.
    GpuRemoved,
    /// The state of a GPU changed.
    GpuState,
    /// A provider reported a TSG.
    TsgAdded,
    /// A TSG went away.
    TsgRemoved,
    /// The level in force of a TSG changed, or the source of it.
    TsgClass,
    /// The provider took the TSG's settings.
    TsgApplied,
    /// The provider refused them for good.
    TsgError,
    /// It is time for a process to load its next batch.
    Signal,
    /// A kind that this crate does not know.
    Unknown(u32),
}

impl Kind {
    /// Every kind that this crate knows.
    pub const ALL: [Self; 9] = [
        Self::GpuAdded,
        Self::GpuRemoved,
        Self::GpuState,
        Self::TsgAdded,
        Self::TsgRemoved,
        Self::TsgClass,
        Self::TsgApplied,
        Self::TsgError,
        Self::Signal,
    ];

    /// Those of TSGs.
    pub const OF_TSGS: [Self; 5] = [
        Self::TsgAdded,
        Self::TsgRemoved,
        Self::TsgClass,
        Self::TsgApplied,
        Self::TsgError,
    ];

    fn from_abi(raw: u32) -> Self {
        let known = Self::ALL.into_iter().find(|kind| kind.number() == raw);
        known.unwrap_or(Self::Unknown(raw))
    }

    fn number(self) -> u32 {
        match self {
            Self::GpuAdded => abi::ZERNEL_EVENT_GPU_ADDED,
            Self::GpuRemoved => abi::ZERNEL_EVENT_GPU_REMOVED,
            Self::GpuState => abi::ZERNEL_EVENT_GPU_STATE,
            Self::TsgAdded => abi::ZERNEL_EVENT_TSG_ADDED,
            Self::TsgRemoved => abi::ZERNEL_EVENT_TSG_REMOVED,
            Self::TsgClass => abi::ZERNEL_EVENT_TSG_CLASS,
            Self::TsgApplied => abi::ZERNEL_EVENT_TSG_APPLIED,
            Self::TsgError => abi::ZERNEL_EVENT_TSG_ERROR,
            Self::Signal => abi::ZERNEL_EVENT_SIGNAL,
            Self::Unknown(number) => number,
        }
    }

    /// Those of a GPU itself.
    pub const fn is_of_gpu(self) -> bool {
        matches!(self, Self::GpuAdded | Self::GpuRemoved | Self::GpuState)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::GpuAdded => "gpu-added",
            Self::GpuRemoved => "gpu-removed",
            Self::GpuState => "gpu-state",
            Self::TsgAdded => "tsg-added",
            Self::TsgRemoved => "tsg-removed",
            Self::TsgClass => "tsg-class",
            Self::TsgApplied => "tsg-applied",
            Self::TsgError => "tsg-error",
            Self::Signal => "signal",
            Self::Unknown(_) => "unknown",
        })
    }
}

/// A prefetch signal: how far the computation is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Signal {
    /// Id of the process in the list of processes.
    pub process: u64,
    /// Time since the computation began, in nanoseconds.
    pub elapsed_ns: u64,
    /// Predicted time of all of it.
    pub predicted_ns: u64,
    /// Predicted time that loading takes.
    pub lead_ns: u64,
}

/// One event. A field that an event of its kind does not have is 0, or `None`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Event {
    /// Number in this stream, from 1; dropped events are counted too.
    pub seq: u64,
    /// Events of this stream that were dropped so far.
    pub dropped: u64,
    /// When.
    pub time_ns: Timestamp,
    /// Its kind.
    pub kind: Kind,
    /// To which TSG.
    pub tsg: tsg::Id,
    /// To which GPU; of a TSG its GPU.
    pub gpu: gpu::Id,
    /// Level in force.
    pub level: Option<Level>,
    /// The source of the level.
    pub source: Source,
    /// Time slice the TSG has, in microseconds.
    pub timeslice_us: u32,
    /// 0, or the negative error number of the provider.
    pub error: i32,
    /// Owner process in the reader's pid namespace.
    pub pid: u32,
    /// Owner in the reader's user namespace.
    pub uid: u32,
    /// State of the GPU.
    pub state: Option<gpu::State>,
    /// The prefetch signal.
    pub signal: Option<Signal>,
}

impl Event {
    fn new(header: &abi::zernel_event) -> Self {
        Self {
            seq: header.seq,
            dropped: header.dropped,
            time_ns: Timestamp::from_ns(header.time_at),
            kind: Kind::from_abi(header.kind),
            tsg: tsg::Id::new(0),
            gpu: gpu::Id::new(0),
            level: None,
            source: Source::None,
            timeslice_us: 0,
            error: 0,
            pid: 0,
            uid: 0,
            state: None,
            signal: None,
        }
    }

    /// Takes the fields of an event of its kind from its bytes.
    fn fill(&mut self, bytes: &[u8]) -> Result<()> {
        match self.kind {
            Kind::GpuAdded | Kind::GpuRemoved | Kind::GpuState => {
                let raw: abi::zernel_event_gpu = first(bytes)?;
                self.gpu = gpu::Id::new(raw.gpu);
                self.state = Some(gpu::State::from_abi(raw.state));
            }
            Kind::TsgAdded
            | Kind::TsgRemoved
            | Kind::TsgClass
            | Kind::TsgApplied
            | Kind::TsgError => {
                let raw: abi::zernel_event_tsg = first(bytes)?;
                (self.tsg, self.gpu) = (tsg::Id::new(raw.tsg), gpu::Id::new(raw.gpu));
                self.level = Level::from_abi(raw.level)?;
                self.source = Source::from_abi(raw.source);
                (self.timeslice_us, self.error) = (raw.timeslice_us, raw.error);
                (self.pid, self.uid) = (raw.pid, raw.uid);
            }
            Kind::Signal => {
                let raw: abi::zernel_event_signal = first(bytes)?;
                (self.pid, self.uid) = (raw.pid, raw.uid);
                self.signal = Some(Signal {
                    process: raw.process,
                    elapsed_ns: raw.elapsed_ns,
                    predicted_ns: raw.predicted_ns,
                    lead_ns: raw.lead_ns,
                });
            }
            Kind::Unknown(_) => {}
        }
        Ok(())
    }
}

/// The structure that `bytes` begin with.
fn first<T: AnyBitPattern>(bytes: &[u8]) -> Result<T> {
    match bytes.get(..size_of::<T>()) {
        Some(bytes) => Ok(bytemuck::pod_read_unaligned(bytes)),
        None => Err(Error::Malformed("an event of an impossible size")),
    }
}

/// Takes the first event off `bytes`: the event, and its length there.
///
/// Returns `None` at the end. Errors: [`Error::Malformed`] for an event that is cut or shorter
/// than its first version.
pub fn parse(bytes: &[u8]) -> Result<Option<(Event, usize)>> {
    if bytes.is_empty() {
        return Ok(None);
    }
    let header: abi::zernel_event = first(bytes)?;
    let size = header.size as usize;
    if size < size_of_val(&header) || size > bytes.len() || size % 8 != 0 {
        return Err(Error::Malformed("an event of an impossible size"));
    }
    let mut event = Event::new(&header);
    event.fill(&bytes[..size])?;
    Ok(Some((event, size)))
}

/// The events that a stream gets, and how many it keeps.
#[derive(Debug, Clone, Copy)]
pub struct Wanted<'a> {
    kinds: u64,
    filter: Filter<'a>,
    capacity: u32,
}

#[derive(Debug, Clone, Copy)]
enum Filter<'a> {
    All,
    Target(&'a Target),
    Gpu(gpu::Id),
}

impl Default for Wanted<'_> {
    fn default() -> Self {
        Self::all()
    }
}

impl<'a> Wanted<'a> {
    /// All that this crate knows, as many as the tunable `event_ring_size` says.
    pub fn all() -> Self {
        Self::only(&Kind::ALL)
    }

    /// Those of these kinds.
    pub fn only(kinds: &[Kind]) -> Self {
        let bit = |kind: &Kind| 1u64.checked_shl(kind.number()).unwrap_or(0);
        Self {
            kinds: kinds.iter().fold(0, |all, kind| all | bit(kind)),
            filter: Filter::All,
            capacity: 0,
        }
    }

    /// Those of a target alone.
    pub fn of(self, target: &'a Target) -> Self {
        let filter = Filter::Target(target);
        Self { filter, ..self }
    }

    /// Those of a GPU and its TSGs alone.
    pub fn of_gpu(self, gpu: gpu::Id) -> Self {
        let filter = Filter::Gpu(gpu);
        Self { filter, ..self }
    }

    /// Keeps so many, 16 to 65,536, until they are read.
    pub fn keep(self, capacity: u32) -> Self {
        Self { capacity, ..self }
    }

    fn raw(&self) -> abi::zernel_events {
        abi::zernel_events {
            filter: match self.filter {
                Filter::All => ALL,
                Filter::Target(target) => target.raw(),
                Filter::Gpu(gpu) => abi::zernel_target {
                    kind: abi::ZERNEL_TARGET_GPU,
                    flags: 0,
                    id: gpu.as_u64(),
                },
            },
            kinds: self.kinds,
            capacity: self.capacity,
            ..Zeroable::zeroed()
        }
    }
}

/// Bytes that are read at a time: more than the largest event ever has.
const BUFFER: usize = 16384;

/// A stream of events, from its start on.
#[derive(Debug)]
pub struct EventStream {
    fd: OwnedFd,
    buffer: Vec<u8>,
    next: usize,
    filled: usize,
    dropped: u64,
}

impl EventStream {
    /// Starts a stream of all events on [`Zernel::PATH`].
    ///
    /// Errors: as [`Self::open_at`].
    pub fn open() -> Result<Self> {
        Self::open_at(Zernel::PATH, &Wanted::all())
    }

    /// Starts a stream on the device node at `path`.
    ///
    /// Errors: [`Error::Open`]; those of [`Self::change`]; [`Error::Call`] with `EDQUOT`.
    pub fn open_at(path: impl AsRef<Path>, wanted: &Wanted<'_>) -> Result<Self> {
        let stream = Self {
            fd: open_node(path.as_ref(), OFlags::RDONLY | OFlags::NONBLOCK)?,
            buffer: vec![0; BUFFER],
            next: 0,
            filled: 0,
            dropped: 0,
        };
        stream.change(wanted)?;
        Ok(stream)
    }

    /// Gets other events from now on; those that were not read stay.
    ///
    /// Errors: [`Error::Call`] with `EBUSY` for another capacity, `ENOENT`, `ESRCH` or `EBADF` for
    /// a target that is not there.
    pub fn change(&self, wanted: &Wanted<'_>) -> Result<()> {
        calls::events(self.fd.as_fd(), &mut wanted.raw()).map_err(Error::call(Call::Events))
    }

    /// The next event; waits for it as long as it takes.
    pub fn next_event(&mut self) -> Result<Event> {
        loop {
            if let Some(event) = self.next_within(None)? {
                return Ok(event);
            }
        }
    }

    /// The next event, or `None` if none comes within `timeout`; no timeout waits forever.
    ///
    /// Errors: [`Error::Call`] with `EINTR` when a signal comes first; [`Error::Malformed`], after
    /// which the stream goes on with the next read.
    pub fn next_within(&mut self, timeout: Option<Duration>) -> Result<Option<Event>> {
        if self.next == self.filled && !self.refill()? && !(self.wait(timeout)? && self.refill()?) {
            return Ok(None);
        }
        match parse(&self.buffer[self.next..self.filled]) {
            Ok(Some((event, size))) => {
                self.next += size;
                self.dropped = event.dropped;
                Ok(Some(event))
            }
            Ok(None) => Ok(None),
            Err(error) => {
                self.next = self.filled;
                Err(error)
            }
        }
    }

    /// Events dropped so far, as the last event told.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Events for ever; waits for each.
    pub fn iter(&mut self) -> impl Iterator<Item = Result<Event>> + use<'_> {
        std::iter::repeat_with(|| self.next_event())
    }

    /// Waits until something can be read, for `timeout` at most.
    fn wait(&self, timeout: Option<Duration>) -> Result<bool> {
        let timeout = timeout.map(|timeout| Timespec {
            tv_sec: i64::try_from(timeout.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: timeout.subsec_nanos().into(),
        });
        let mut fds = [PollFd::new(&self.fd, PollFlags::IN)];
        poll(&mut fds, timeout.as_ref())
            .map(|ready| ready != 0)
            .map_err(Error::call(Call::Events))
    }

    /// Reads waiting events; true if there were any.
    fn refill(&mut self) -> Result<bool> {
        match rustix::io::read(&self.fd, &mut self.buffer) {
            Ok(read) => {
                (self.next, self.filled) = (0, read);
                Ok(read != 0)
            }
            Err(Errno::AGAIN) => Ok(false),
            Err(errno) => Err(Error::call(Call::Events)(errno)),
        }
    }
}

impl AsFd for EventStream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const HEADER: usize = size_of::<abi::zernel_event>();

    fn header(kind: u32, size: usize, seq: u64) -> abi::zernel_event {
        abi::zernel_event {
            size: size as u32,
            kind,
            seq,
            ..Zeroable::zeroed()
        }
    }

    /// An event of a TSG, GPU or signal by turns, `extra` bytes longer than it is known.
    fn record(seq: u64, extra: usize) -> Vec<u8> {
        let (mut bytes, kind) = match seq % 3 {
            0 => (vec![0; 48], abi::ZERNEL_EVENT_GPU_STATE),
            1 => {
                let level = 7;
                let raw = abi::zernel_event_tsg {
                    level,
                    ..Zeroable::zeroed()
                };
                (
                    bytemuck::bytes_of(&raw).to_vec(),
                    abi::ZERNEL_EVENT_TSG_APPLIED,
                )
            }
            _ => (vec![0; 80], abi::ZERNEL_EVENT_SIGNAL),
        };
        bytes.resize(bytes.len() + extra, 0xa5);
        let header = header(kind, bytes.len(), seq);
        bytes[..HEADER].copy_from_slice(bytemuck::bytes_of(&header));
        bytes
    }

    #[test]
    fn longer_events_of_newer_modules_are_skipped_over() {
        let bytes = [record(1, 0), record(2, 16), record(3, 8), record(4, 0)].concat();
        let mut rest = bytes.as_slice();
        let mut seen = Vec::new();
        while let Some((event, size)) = parse(rest).unwrap() {
            seen.push((event.seq, event.kind));
            rest = &rest[size..];
        }
        let kinds = [
            Kind::TsgApplied,
            Kind::Signal,
            Kind::GpuState,
            Kind::TsgApplied,
        ];
        assert!(seen.into_iter().eq((1..).zip(kinds)));
    }

    #[test]
    fn impossible_sizes_are_errors() {
        let known = record(1, 0).len();
        for size in [
            0,
            1,
            HEADER,
            known - 8,
            known + 4,
            known + 8,
            usize::MAX >> 32,
        ] {
            let mut bytes = record(1, 0);
            bytes[..4].copy_from_slice(&(size as u32).to_ne_bytes());
            assert!(parse(&bytes).is_err(), "size {size}");
        }
        assert_eq!(parse(&[]), Ok(None));
        assert!(parse(&record(1, 0)[..known - 1]).is_err());
    }

    #[test]
    fn unknown_kinds_are_kept() {
        let header = header(99, HEADER, 5);
        let (event, size) = parse(bytemuck::bytes_of(&header)).unwrap().unwrap();
        assert_eq!(
            (event.kind, event.seq, size),
            (Kind::Unknown(99), 5, HEADER)
        );
    }

    #[test]
    fn a_signal_names_a_process_and_no_tsg() {
        let size = size_of::<abi::zernel_event_signal>();
        let raw = abi::zernel_event_signal {
            event: header(abi::ZERNEL_EVENT_SIGNAL, size, 1),
            pid: 77,
            elapsed_ns: 80,
            predicted_ns: 100,
            lead_ns: 10,
            ..Zeroable::zeroed()
        };
        let (event, _) = parse(bytemuck::bytes_of(&raw)).unwrap().unwrap();
        assert_eq!((event.kind, event.pid), (Kind::Signal, 77));
        assert_eq!((event.level, event.tsg.as_u64()), (None, 0));
        let told = event.signal.unwrap();
        assert_eq!(
            (told.elapsed_ns, told.predicted_ns, told.lead_ns),
            (80, 100, 10)
        );
        assert_eq!(serde_json::to_value(event).unwrap()["kind"], "signal");
    }

    #[test]
    fn kinds_are_their_bits() {
        let (all, tsgs) = (Wanted::all().raw(), Wanted::only(&Kind::OF_TSGS).raw());
        assert_eq!((all.kinds, tsgs.kinds), (0x11f0e, 0x1f00));
        assert_eq!(Wanted::only(&[]).keep(16).raw().capacity, 16);
        let gpu = Wanted::all().of_gpu(gpu::Id::new(3)).raw().filter;
        assert_eq!((gpu.kind, gpu.id), (abi::ZERNEL_TARGET_GPU, 3));
    }

    proptest! {
        #[test]
        fn any_bytes_are_parsed_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            if let Ok(Some((_, size))) = parse(&bytes) {
                prop_assert!(size >= HEADER && size <= bytes.len());
            }
        }

        #[test]
        fn a_cut_stream_is_refused(count in 1usize..7, cut in 1usize..48) {
            let bytes: Vec<u8> = (0..count as u64).flat_map(|seq| record(seq, 0)).collect();
            let mut rest = &bytes[..bytes.len() - cut];
            let mut whole = 0;
            let end = loop {
                match parse(rest) {
                    Ok(Some((_, size))) => (whole, rest) = (whole + 1, &rest[size..]),
                    end => break end,
                }
            };
            prop_assert_eq!(whole, count - 1);
            // The rest is cut, unless there is none.
            prop_assert!(end.is_err() || rest.is_empty());
        }
    }
}
