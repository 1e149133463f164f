// SPDX-License-Identifier: MIT OR Apache-2.0
//! The publications of processes, found among their open files.
//!
//! Nothing that a process can do makes this wait, follow a link out of `/proc`, or read more than a record
//! of each file: a file counts only if it is on the kernel's own file system in memory, and the process's
//! own user made it, which is known before it is opened, and from its cached attributes alone.

use std::collections::{HashMap, HashSet};
use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};

use rustix::fs::{openat, readlinkat, statx, AtFlags, Dir, Mode, OFlags, StatxFlags, CWD};
use rustix::io::pread;

use super::process::Status;
use super::{memory, Record, Unreadable, BYTES, NAME};

/// The first open files of a process that are looked at.
pub const MOST_FILES: usize = 4_096;
/// Those of a user, of all its processes.
pub const MOST_FILES_OF_USER: usize = 65_536;
/// The most loaders of a process that are told.
pub const MOST_OF_PROCESS: usize = 64;
/// The most loaders of a user.
pub const MOST_OF_USER: usize = 256;

/// Looks at a record that is written just then.
const LOOKS: usize = 8;

/// A loader.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// Its process.
    pub pid: u32,
    /// Its place among those of the process that are told, by their numbers, from 1 to
    /// [`MOST_OF_PROCESS`]: it is unique, which the record's number need not be.
    pub rank: usize,
    /// The user of that process, and of the file.
    pub uid: u32,
    /// The name of that process: ASCII characters that show, an underscore for each space, and a question
    /// mark for each other one.
    pub comm: String,
    /// Its counters.
    pub record: Record,
}

/// Loaders, and those that are missing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Listed {
    /// Those that run, by their processes and ranks.
    pub loaders: Vec<Found>,
    /// Records of another version.
    pub other_versions: u64,
    /// Records that are damaged.
    pub damaged: u64,
    /// Processes whose loaders, or open files, are more than are looked at, and users of such.
    pub left_out: u64,
}

/// The loaders of a process.
///
/// # Errors
///
/// [`io::ErrorKind::NotFound`]: there is no such process. [`io::ErrorKind::PermissionDenied`]: its files
/// are not the caller's to see.
pub fn of_process(pid: u32) -> io::Result<Listed> {
    let mut finder = Finder::new()?;
    finder.look(pid)?;
    Ok(finder.end())
}

/// Those of all processes whose files are the caller's to see.
///
/// # Errors
///
/// There is no `/proc`.
pub fn all() -> io::Result<Listed> {
    let mut finder = Finder::new()?;
    let proc = openat(CWD, "/proc", DIRECTORY, Mode::empty())?;
    let mut pids = Vec::new();
    for entry in Dir::read_from(&proc)? {
        let name = entry?.file_name().to_str().ok().map(str::parse::<u32>);
        pids.extend(name.and_then(Result::ok));
    }
    for pid in pids {
        // It has ended, or is another user's.
        let _ = finder.look(pid);
    }
    Ok(finder.end())
}

const DIRECTORY: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::CLOEXEC);

/// Device and number of a file.
type Place = ((u32, u32), u64);

/// The most that is told.
#[derive(Clone, Copy)]
struct Bounds {
    files: usize,
    files_of_user: usize,
    of_process: usize,
    of_user: usize,
}

const BOUNDS: Bounds = Bounds {
    files: MOST_FILES,
    files_of_user: MOST_FILES_OF_USER,
    of_process: MOST_OF_PROCESS,
    of_user: MOST_OF_USER,
};

/// The things of a user that were met.
#[derive(Default)]
struct Met {
    files: usize,
    loaders: usize,
}

struct Finder {
    /// The device of files in memory.
    memory: (u32, u32),
    bounds: Bounds,
    users: HashMap<u32, Met>,
    /// With the numbers of their files.
    found: Vec<(u64, Found)>,
    listed: Listed,
}

impl Finder {
    fn new() -> io::Result<Self> {
        let place = Attributes::of(memory()?.as_fd())?.place;
        Ok(Self {
            memory: place.0,
            bounds: BOUNDS,
            users: HashMap::new(),
            found: Vec::new(),
            listed: Listed::default(),
        })
    }

    fn end(mut self) -> Listed {
        let Bounds {
            files_of_user,
            of_user,
            ..
        } = self.bounds;
        let has_more = |met: &&Met| met.files > files_of_user || met.loaders > of_user;
        self.listed.left_out += self.users.values().filter(has_more).count() as u64;
        self.found
            .sort_by_key(|(file, one)| (one.pid, one.record.number, *file));
        let loaders = &mut self.listed.loaders;
        for (_, one) in self.found {
            let before = loaders.last().filter(|before| before.pid == one.pid);
            let rank = before.map_or(1, |before| before.rank + 1);
            loaders.push(Found { rank, ..one });
        }
        self.listed
    }

    /// Looks at a process. Its folder stays the same process's if another one gets its number.
    fn look(&mut self, pid: u32) -> io::Result<()> {
        let path = format!("/proc/{pid}");
        let process = openat(CWD, path, DIRECTORY, Mode::empty())?;
        let files = openat(&process, "fd", DIRECTORY, Mode::empty())?;
        let status = Status::read(process.as_fd())?;
        // One that runs as two users has open files of the one, and would show them as the other's.
        let Some(uid) = status.uid else {
            return Ok(());
        };
        if self.users.entry(uid).or_default().files > self.bounds.files_of_user {
            return Ok(());
        }
        let mut seen = HashSet::new();
        let mut count = 0;
        let mut loaders = 0;
        for entry in Dir::read_from(&files)? {
            let entry = entry?;
            if entry.file_name().to_bytes().first() == Some(&b'.') {
                continue;
            }
            count += 1;
            let met = self.users.entry(uid).or_default();
            met.files += 1;
            if met.files > self.bounds.files_of_user {
                break;
            }
            if count > self.bounds.files {
                self.listed.left_out += 1;
                break;
            }
            let name = entry.file_name();
            let Some((file, number)) = self.file(files.as_fd(), name, uid, &mut seen) else {
                continue;
            };
            let Some(record) = self.record(file.as_fd(), status.own_pid) else {
                continue;
            };
            loaders += 1;
            if loaders > self.bounds.of_process {
                self.listed.left_out += 1;
                break;
            }
            let met = self.users.entry(uid).or_default();
            met.loaders += 1;
            if met.loaders <= self.bounds.of_user {
                let found = Found {
                    pid,
                    rank: 0,
                    uid,
                    comm: status.comm.clone(),
                    record,
                };
                self.found.push((number, found));
            }
        }
        Ok(())
    }

    /// An open file of a process, and its number, if it is a publication that was not seen before. One
    /// that another user made was sent to the process, and says nothing of its user's loaders.
    fn file(
        &self,
        files: BorrowedFd<'_>,
        name: &CStr,
        uid: u32,
        seen: &mut HashSet<Place>,
    ) -> Option<(OwnedFd, u64)> {
        let link = readlinkat(files, name, Vec::with_capacity(64)).ok()?;
        if link.as_bytes() != format!("/memfd:{NAME} (deleted)").as_bytes() {
            return None;
        }
        // This opens nothing: a file of another kind would act on being opened.
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        let file = openat(files, name, flags, Mode::empty()).ok()?;
        let Attributes {
            place,
            is_file,
            owner,
        } = Attributes::of(file.as_fd()).ok()?;
        if place.0 != self.memory || !is_file || owner != uid || !seen.insert(place) {
            return None;
        }
        let own = format!("/proc/self/fd/{}", file.as_raw_fd());
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = openat(CWD, own, flags, Mode::empty()).ok()?;
        Some((file, place.1))
    }

    /// The record of a publication, if this process wrote it: a process that was forked from the loader's,
    /// or was sent the file, has it, too.
    fn record(&mut self, file: BorrowedFd<'_>, own_pid: u32) -> Option<Record> {
        match read(file) {
            Ok(Some((record, writer))) => (writer == own_pid).then_some(record),
            // One that nothing was written to yet.
            Ok(None) => None,
            Err(Unreadable::Version) => {
                self.listed.other_versions += 1;
                None
            }
            Err(Unreadable::Damaged) => {
                self.listed.damaged += 1;
                None
            }
        }
    }
}

/// The attributes of a file, as far as they are known without asking its file system.
struct Attributes {
    place: Place,
    /// It is a regular one.
    is_file: bool,
    /// The user that made it.
    owner: u32,
}

impl Attributes {
    fn of(file: BorrowedFd<'_>) -> io::Result<Self> {
        let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
        let wanted = StatxFlags::TYPE | StatxFlags::INO | StatxFlags::UID;
        let found = statx(file, "", flags, wanted)?;
        Ok(Self {
            place: ((found.stx_dev_major, found.stx_dev_minor), found.stx_ino),
            is_file: u32::from(found.stx_mode) & 0o170_000 == 0o100_000,
            owner: found.stx_uid,
        })
    }
}

/// The record of a file, if there is one, and the process that wrote it.
fn read(file: BorrowedFd<'_>) -> Result<Option<(Record, u32)>, Unreadable> {
    let mut found = Err(Unreadable::Damaged);
    for _ in 0..LOOKS {
        let mut bytes = [0; BYTES];
        let length = match pread(file, &mut bytes, 0) {
            Ok(0) => return Ok(None),
            Ok(length) => length,
            Err(_) => 0,
        };
        found = Record::decode(&bytes[..length]).map(Some);
        if found != Err(Unreadable::Damaged) {
            break;
        }
    }
    found
}

#[cfg(test)]
mod tests;
