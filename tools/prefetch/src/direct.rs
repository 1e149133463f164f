// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads of local files into memory of a GPU, in the order of a stream: by GPUDirect Storage where cuFile
//! is there, and else by the CPU and a copy. Either way a read is over by an event of its stream.
//!
//! It has not run on a GPU.

use std::fs;
use std::ops::Range;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::sync::Arc;

use cuda::{Device, Driver, Memory, Own, Stream};
use rustix::fs::OFlags;

use crate::batch::{Batch, Progress, Ready, Taken};
pub use crate::sys::cufile::LIBRARY;
use crate::sys::cufile::{CuFile, Handle};
use crate::sys::lane::{self, Bytes};
use crate::{Fault, Kind};

/// The most bytes of a read.
pub const MOST_BYTES: u64 = 1 << 30;

fn unavailable(key: &str, why: impl std::fmt::Display) -> Fault {
    Fault::new(Kind::Unavailable, format!("{key}: {why}"))
}

#[derive(Debug)]
struct Shared {
    driver: Arc<Driver>,
    /// Memory of it keeps it.
    context: Arc<Own>,
    /// Why it is not there, otherwise.
    cufile: Result<Arc<CuFile>, String>,
}

/// A GPU that files are read into.
#[derive(Debug, Clone)]
pub struct Direct(Arc<Shared>);

impl Direct {
    /// Reads into memory of a device, in its primary context. `cufile`: the library, [`LIBRARY`] as a
    /// rule. Without it, reads are those of the CPU, and [`Self::why_not`] tells the reason.
    ///
    /// # Errors
    ///
    /// [`Kind::Unsupported`]: the device has no context.
    pub fn open(driver: &Arc<Driver>, device: Device, cufile: &Path) -> Result<Self, Fault> {
        let context = driver.primary_context(device);
        let lacking = |error: cuda::Error| Fault::new(Kind::Unsupported, error.to_string());
        Ok(Self(Arc::new(Shared {
            driver: Arc::clone(driver),
            context: Arc::new(context.map_err(lacking)?),
            cufile: CuFile::open(cufile),
        })))
    }

    /// A sentence for people if GPUDirect Storage is not there.
    pub fn why_not(&self) -> Option<&str> {
        self.0.cufile.as_ref().err().map(String::as_str)
    }

    /// So many bytes of memory of the GPU.
    ///
    /// # Errors
    ///
    /// [`Kind::Unavailable`]: there are not so many.
    pub fn memory(&self, bytes: usize) -> Result<Arc<Memory>, Fault> {
        let memory = Memory::within(&self.0.context, bytes);
        let none = |error| unavailable("memory of the GPU", error);
        memory.map(Arc::new).map_err(none)
    }

    /// Opens a local file.
    ///
    /// # Errors
    ///
    /// [`Kind::Missing`], [`Kind::Denied`], [`Kind::Unavailable`]: by the error of the system.
    pub fn file(&self, path: &Path) -> Result<File, Fault> {
        let key = path.display().to_string();
        let error = |error: std::io::Error| {
            let kind = match error.kind() {
                std::io::ErrorKind::NotFound => Kind::Missing,
                std::io::ErrorKind::PermissionDenied => Kind::Denied,
                _ => Kind::Unavailable,
            };
            Fault::new(kind, format!("{key}: {error}"))
        };
        // A pipe without a writer would be waited for, and is refused.
        let flags = OFlags::NONBLOCK.bits() as i32;
        let mut options = fs::OpenOptions::new();
        let file = options.read(true).custom_flags(flags).open(path);
        let file = file.map_err(error)?;
        if !file.metadata().map_err(error)?.is_file() {
            return Err(unavailable(&key, "it is no file"));
        }
        let handle = match &self.0.cufile {
            Ok(cufile) => opened(&file)
                .map_err(|error| error.to_string())
                .and_then(|file| cufile.register(file)),
            Err(why) => Err(why.clone()),
        };
        Ok(File {
            key,
            file,
            handle: handle.map(Arc::new),
        })
    }

    /// Opens a stream for reads.
    ///
    /// # Errors
    ///
    /// [`Kind::Unavailable`]: a call of CUDA failed.
    pub fn lane(&self) -> Result<Lane, Fault> {
        let cufile = self.0.cufile.as_ref();
        let lane = lane::Lane::new(&self.0.driver, self.0.context.context(), cufile.ok());
        let (lane, refused) = lane.map_err(|error| unavailable("a stream", error))?;
        let absent = cufile.err().cloned();
        Ok(Lane {
            lane: Arc::new(lane),
            why_not: absent.or(refused),
            direct: self.clone(),
        })
    }
}

/// A file again, as cuFile likes it: without the cache of the system, where the file system does that.
fn opened(file: &fs::File) -> std::io::Result<fs::File> {
    // Its path may be that of another file by now.
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    let direct = OFlags::DIRECT.bits() as i32;
    let mut options = fs::OpenOptions::new();
    let file = options.read(true).custom_flags(direct).open(&path);
    file.or_else(|_| fs::File::open(&path))
}

/// A local file that is open.
#[derive(Debug)]
pub struct File {
    key: String,
    file: fs::File,
    /// Why cuFile does not have it, otherwise.
    handle: Result<Arc<Handle>, String>,
}

impl File {
    /// A sentence for people if cuFile does not read it.
    pub fn why_not(&self) -> Option<&str> {
        self.handle.as_ref().err().map(String::as_str)
    }
}

/// A stream for reads, one behind the other. Dropped, it ends when its reads have.
#[derive(Debug)]
pub struct Lane {
    // It ends before its context.
    lane: Arc<lane::Lane>,
    why_not: Option<String>,
    direct: Direct,
}

impl Lane {
    /// A sentence for people if its reads are those of the CPU.
    pub fn why_not(&self) -> Option<&str> {
        self.why_not.as_deref()
    }

    /// Its stream, for work behind its reads.
    pub fn stream(&self) -> Stream {
        self.lane.stream()
    }

    /// Reads that were begun and are not over.
    pub fn in_flight(&self) -> usize {
        self.lane.flying()
    }

    /// Begins to read bytes of a file to a place in memory. By cuFile they are read when the stream has
    /// come there; by the CPU at once, and copied then.
    ///
    /// # Errors
    ///
    /// [`Kind::Misuse`]: the range has no bytes, or has them beyond the memory, or the stream is captured for
    /// a graph; [`Kind::TooLarge`]: it has more than [`MOST_BYTES`]; [`Kind::Unavailable`]: the file or a call
    /// of CUDA or cuFile failed.
    pub fn read(
        &self,
        file: &File,
        range: Range<u64>,
        memory: &Arc<Memory>,
        at: usize,
    ) -> Result<Reading, Fault> {
        let key = &file.key;
        let misuse = |text: String| Fault::new(Kind::Misuse, format!("{key}: {text}"));
        let bytes = range
            .end
            .checked_sub(range.start)
            .filter(|bytes| *bytes > 0);
        let Some(bytes) = bytes else {
            return Err(misuse(format!("{range:?} has no bytes")));
        };
        let size = usize::try_from(bytes).ok().filter(|_| bytes <= MOST_BYTES);
        let (Some(size), Ok(first)) = (size, i64::try_from(range.start)) else {
            let text = format!("{key}: a read of {bytes} bytes at {}", range.start);
            return Err(Fault::new(Kind::TooLarge, text));
        };
        if at.checked_add(size).is_none_or(|end| end > memory.length()) {
            let length = memory.length();
            return Err(misuse(format!("{size} bytes at {at} of {length}")));
        }
        let bytes = match &file.handle {
            Ok(handle) if self.lane.is_direct() => Bytes::Of(Arc::clone(handle), size, first),
            _ => {
                let mut bytes = Vec::new();
                let room = bytes.try_reserve_exact(size);
                room.map_err(|error| unavailable(key, error))?;
                bytes.resize(size, 0);
                let read = file.file.read_exact_at(&mut bytes, range.start);
                read.map_err(|error| unavailable(key, error))?;
                Bytes::Here(bytes)
            }
        };
        let (end, ticket) = Batch::new();
        self.lane.begin(key, bytes, memory, at, ticket)?;
        Ok(Reading {
            end,
            lane: Arc::clone(&self.lane),
            _direct: self.direct.clone(),
        })
    }
}

/// A read that was begun. Dropped, it goes on.
#[derive(Debug)]
pub struct Reading {
    end: Batch,
    // It ends before its context.
    lane: Arc<lane::Lane>,
    _direct: Direct,
}

impl Reading {
    /// True if it is over: all bytes are in memory of the GPU. It may be asked any number of times.
    ///
    /// # Errors
    ///
    /// [`Kind::Unavailable`]: fewer bytes came, or none, or the context is of no use any more.
    pub fn is_done(&self) -> Result<bool, Fault> {
        match self.end.progress() {
            Progress::Pending(_) => {
                let idle = self.lane.is_idle();
                idle.map_err(|error| unavailable("a read", error))?;
                Ok(false)
            }
            _ => self.ended().map(|()| true),
        }
    }

    /// Its end. The lane lets go of what it used.
    fn ended(&self) -> Result<(), Fault> {
        self.lane.flying();
        match self.end.progress() {
            Progress::Ready => Ok(()),
            Progress::Failed(fault) => Err(fault),
            Progress::Pending(_) => Err(unavailable("a read", "its stream has lost its end")),
        }
    }

    /// Waits for its end, and for that of all before it in the stream.
    ///
    /// # Errors
    ///
    /// As of [`Self::is_done`].
    pub fn wait(&self) -> Result<(), Fault> {
        if let Progress::Pending(_) = self.end.progress() {
            let idle = self.lane.wait();
            idle.map_err(|error| unavailable("a read", error))?;
        }
        self.ended()
    }

    /// Tells one of its end, as a batch does ([`Batch::tell`]): a request of zernel, for instance. It is
    /// told, and dropped, by a thread of CUDA: it makes no call of CUDA, and ends no lane or memory. A
    /// context that is lost tells nobody.
    ///
    /// # Errors
    ///
    /// [`Taken`]: there is one.
    pub fn tell(&self, target: Box<dyn Ready>) -> Result<(), Taken> {
        self.end.tell(target)
    }
}
