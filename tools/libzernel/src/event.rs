// SPDX-License-Identifier: GPL-2.0
//! The event stream: what zernel did, in order, with what was lost counted.

use std::fmt;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::Duration;

use rustix::event::{poll, PollFd, PollFlags, Timespec};
use rustix::fs::OFlags;
use rustix::io::Errno;
use serde::Serialize;

use crate::device::open_node;
use crate::sys::abi;
use crate::{gpu, tsg, Call, Error, Level, Result, Source, Timestamp, Zernel};

/// What happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Kind {
    /// A provider reported a TSG.
    TsgAdded,
    /// A TSG went away.
    TsgRemoved,
    /// The level in force of a TSG changed.
    ClassChanged,
    /// The provider took the TSG's settings.
    SliceApplied,
    /// The provider refused them for good.
    ProviderError,
    /// It is time for a process to load its next batch. It names no TSG.
    Prefetch,
    /// A type that this crate does not know.
    Unknown(u32),
}

impl Kind {
    fn from_abi(raw: u32) -> Self {
        match raw {
            abi::ZERNEL_V0_EVENT_TSG_ADDED => Self::TsgAdded,
            abi::ZERNEL_V0_EVENT_TSG_REMOVED => Self::TsgRemoved,
            abi::ZERNEL_V0_EVENT_CLASS_CHANGED => Self::ClassChanged,
            abi::ZERNEL_V0_EVENT_SLICE_APPLIED => Self::SliceApplied,
            abi::ZERNEL_V0_EVENT_PROVIDER_ERROR => Self::ProviderError,
            abi::ZERNEL_V0_EVENT_PREFETCH => Self::Prefetch,
            other => Self::Unknown(other),
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::TsgAdded => "tsg-added",
            Self::TsgRemoved => "tsg-removed",
            Self::ClassChanged => "class-changed",
            Self::SliceApplied => "slice-applied",
            Self::ProviderError => "provider-error",
            Self::Prefetch => "prefetch",
            Self::Unknown(_) => "unknown",
        })
    }
}

/// One event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Event {
    /// Number in this stream, from 1; dropped events are counted too.
    pub seq: u64,
    /// Events of this stream that were dropped so far.
    pub dropped: u64,
    /// When.
    pub time_ns: Timestamp,
    /// What happened.
    pub kind: Kind,
    /// To which TSG; 0 for an event of a process.
    pub tsg: tsg::Id,
    /// Its GPU, likewise.
    pub gpu: gpu::Id,
    /// Level in force.
    pub level: Option<Level>,
    /// What decides the level.
    pub source: Source,
    /// Time slice the TSG has, in microseconds.
    pub timeslice_us: u32,
    /// 0, or the negative error number of the provider.
    pub error: i32,
    /// Owner process in the reader's pid namespace, or 0.
    pub pid: u32,
    /// Owner in the reader's user namespace.
    pub uid: u32,
}

impl Event {
    fn from_abi(raw: &abi::zernel_v0_event) -> Result<Self> {
        Ok(Self {
            seq: raw.seq,
            dropped: raw.dropped,
            time_ns: Timestamp::from_ns(raw.time_ns),
            kind: Kind::from_abi(raw.type_),
            tsg: tsg::Id::new(raw.tsg),
            gpu: gpu::Id::new(raw.gpu),
            level: Level::from_abi(raw.level)?,
            source: Source::from_abi(raw.source),
            timeslice_us: raw.timeslice_us,
            error: raw.error,
            pid: raw.pid,
            uid: raw.uid,
        })
    }
}

/// Size of a record as this crate knows it; newer modules may write longer ones.
const RECORD: usize = size_of::<abi::zernel_v0_event>();

/// Takes the first record off `bytes`: the event and the length of its record.
///
/// Returns `None` at the end. Errors: [`Error::Malformed`] for a record that is cut or shorter
/// than its first version.
pub fn parse(bytes: &[u8]) -> Result<Option<(Event, usize)>> {
    if bytes.is_empty() {
        return Ok(None);
    }
    let Some(head) = bytes.get(..RECORD) else {
        return Err(Error::Malformed("an event that is cut"));
    };
    let raw: abi::zernel_v0_event = bytemuck::pod_read_unaligned(head);
    let size = raw.size as usize;
    if size < RECORD || size > bytes.len() || size % 8 != 0 {
        return Err(Error::Malformed("an event of an impossible size"));
    }
    Event::from_abi(&raw).map(|event| Some((event, size)))
}

/// A stream of events, from its opening on.
#[derive(Debug)]
pub struct EventStream {
    fd: OwnedFd,
    buffer: Vec<u8>,
    next: usize,
    filled: usize,
    dropped: u64,
}

impl EventStream {
    /// Starts a stream on [`Zernel::PATH`].
    pub fn open() -> Result<Self> {
        Self::open_at(Zernel::PATH)
    }

    /// Starts a stream on the device node at `path`.
    pub fn open_at(path: impl AsRef<Path>) -> Result<Self> {
        let stream = Self {
            fd: open_node(path.as_ref(), OFlags::RDONLY | OFlags::NONBLOCK)?,
            buffer: vec![0; 64 * RECORD],
            next: 0,
            filled: 0,
            dropped: 0,
        };
        // The first poll is what makes the module keep events for this file.
        stream.wait(Some(Duration::ZERO))?;
        Ok(stream)
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

    /// Whether something can be read within `timeout`.
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

    /// Reads what is there; says whether that was anything.
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
    use bytemuck::Zeroable;
    use proptest::prelude::*;

    fn record(seq: u64, extra: usize) -> Vec<u8> {
        let mut raw = abi::zernel_v0_event::zeroed();
        raw.size = (RECORD + extra) as u32;
        raw.type_ = abi::ZERNEL_V0_EVENT_SLICE_APPLIED;
        raw.seq = seq;
        raw.level = 7;
        let mut bytes = bytemuck::bytes_of(&raw).to_vec();
        bytes.resize(RECORD + extra, 0xa5);
        bytes
    }

    #[test]
    fn longer_records_of_newer_modules_are_skipped_over() {
        let bytes = [record(1, 0), record(2, 16), record(3, 0)].concat();
        let mut rest = bytes.as_slice();
        let mut seen = Vec::new();
        while let Some((event, size)) = parse(rest).unwrap() {
            assert_eq!(event.kind, Kind::SliceApplied);
            seen.push(event.seq);
            rest = &rest[size..];
        }
        assert_eq!(seen, [1, 2, 3]);
    }

    #[test]
    fn impossible_sizes_are_errors() {
        for size in [0, 1, RECORD - 8, RECORD + 4, RECORD + 8, usize::MAX >> 32] {
            let mut bytes = record(1, 0);
            bytes[..4].copy_from_slice(&(size as u32).to_ne_bytes());
            assert!(parse(&bytes).is_err(), "size {size}");
        }
        assert_eq!(parse(&[]), Ok(None));
        assert!(parse(&record(1, 0)[..RECORD - 1]).is_err());
    }

    #[test]
    fn unknown_types_are_kept() {
        let mut bytes = record(1, 0);
        bytes[4..8].copy_from_slice(&99u32.to_ne_bytes());
        let (event, _) = parse(&bytes).unwrap().unwrap();
        assert_eq!(event.kind, Kind::Unknown(99));
    }

    #[test]
    fn a_signal_to_prefetch_names_a_process_alone() {
        let mut raw = abi::zernel_v0_event::zeroed();
        raw.size = RECORD as u32;
        raw.type_ = abi::ZERNEL_V0_EVENT_PREFETCH;
        raw.level = abi::ZERNEL_V0_LEVEL_NONE;
        raw.pid = 77;
        let (event, _) = parse(bytemuck::bytes_of(&raw)).unwrap().unwrap();
        assert_eq!((event.kind, event.pid), (Kind::Prefetch, 77));
        assert_eq!((event.level, event.tsg.as_u64()), (None, 0));
        assert_eq!(event.kind.to_string(), "prefetch");
        assert_eq!(serde_json::to_value(event).unwrap()["kind"], "prefetch");
    }

    proptest! {
        #[test]
        fn any_bytes_are_parsed_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            if let Ok(Some((_, size))) = parse(&bytes) {
                prop_assert!(size >= RECORD && size <= bytes.len());
            }
        }

        #[test]
        fn a_cut_stream_is_refused(count in 1usize..4, cut in 1usize..RECORD) {
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
            prop_assert!(end.is_err());
        }
    }
}
