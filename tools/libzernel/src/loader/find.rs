// SPDX-License-Identifier: MIT OR Apache-2.0
//! The publications of processes, found among their open files.
//!
//! Nothing that a process can do makes this wait, follow a link out of `/proc`, or read more than a record
//! of each file: a file counts only if it is on the kernel's own file system in memory, which is known
//! before it is opened, and from its cached attributes alone.

use std::collections::{HashMap, HashSet};
use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};

use rustix::fs::{openat, readlinkat, statx, AtFlags, Dir, Mode, OFlags, StatxFlags, CWD};
use rustix::io::{pread, Errno};

use super::{memory, Record, Unreadable, BYTES, NAME};

/// The first open files of a process that are looked at.
pub const MOST_FILES: usize = 4_096;
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
    /// The user of that.
    pub uid: u32,
    /// The name of that, without characters that a terminal acts on.
    pub comm: String,
    /// Its counters.
    pub record: Record,
}

/// Loaders, and those that are missing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Listed {
    /// Those that run, by their processes and numbers.
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
    of_process: usize,
    of_user: usize,
}

const BOUNDS: Bounds = Bounds {
    files: MOST_FILES,
    of_process: MOST_OF_PROCESS,
    of_user: MOST_OF_USER,
};

struct Finder {
    /// The device of files in memory.
    memory: (u32, u32),
    bounds: Bounds,
    of_user: HashMap<u32, usize>,
    listed: Listed,
}

impl Finder {
    fn new() -> io::Result<Self> {
        let ((memory, _), _) = place(memory()?.as_fd())?;
        Ok(Self {
            memory,
            bounds: BOUNDS,
            of_user: HashMap::new(),
            listed: Listed::default(),
        })
    }

    fn end(mut self) -> Listed {
        let most = self.bounds.of_user;
        let users = self.of_user.values().filter(|count| **count > most);
        self.listed.left_out += users.count() as u64;
        let loaders = &mut self.listed.loaders;
        loaders.sort_by_key(|one| (one.pid, one.record.number));
        self.listed
    }

    /// Looks at a process. Its folder stays the same process's if another one gets its number.
    fn look(&mut self, pid: u32) -> io::Result<()> {
        let path = format!("/proc/{pid}");
        let process = openat(CWD, path, DIRECTORY, Mode::empty())?;
        let files = openat(&process, "fd", DIRECTORY, Mode::empty())?;
        let mut seen = HashSet::new();
        let mut known = None;
        let mut count = 0;
        let mut loaders = 0;
        for entry in Dir::read_from(&files)? {
            let entry = entry?;
            if entry.file_name().to_bytes().first() == Some(&b'.') {
                continue;
            }
            count += 1;
            if count > self.bounds.files {
                self.listed.left_out += 1;
                break;
            }
            let Some(file) = self.file(files.as_fd(), entry.file_name(), &mut seen) else {
                continue;
            };
            let (record, writer) = match read(file.as_fd()) {
                Ok(Some(found)) => found,
                // One that nothing was written to yet.
                Ok(None) => continue,
                Err(Unreadable::Version) => {
                    self.listed.other_versions += 1;
                    continue;
                }
                Err(Unreadable::Damaged) => {
                    self.listed.damaged += 1;
                    continue;
                }
            };
            let status = match &known {
                Some(status) => status,
                None => known.insert(Status::read(process.as_fd())?),
            };
            // Of a process that was forked from the loader's, or was sent the file.
            if status.own_pid != writer {
                continue;
            }
            loaders += 1;
            if loaders > self.bounds.of_process {
                self.listed.left_out += 1;
                break;
            }
            let of_user = self.of_user.entry(status.uid).or_default();
            *of_user += 1;
            if *of_user <= self.bounds.of_user {
                self.listed.loaders.push(Found {
                    pid,
                    uid: status.uid,
                    comm: status.comm.clone(),
                    record,
                });
            }
        }
        Ok(())
    }

    /// An open file of a process, if it is a publication that was not seen before.
    fn file(
        &self,
        files: BorrowedFd<'_>,
        name: &CStr,
        seen: &mut HashSet<Place>,
    ) -> Option<OwnedFd> {
        let link = readlinkat(files, name, Vec::with_capacity(64)).ok()?;
        if link.as_bytes() != format!("/memfd:{NAME} (deleted)").as_bytes() {
            return None;
        }
        // This opens nothing: a file of another kind would act on being opened.
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        let file = openat(files, name, flags, Mode::empty()).ok()?;
        let (place, is_file) = place(file.as_fd()).ok()?;
        if place.0 != self.memory || !is_file || !seen.insert(place) {
            return None;
        }
        let own = format!("/proc/self/fd/{}", file.as_raw_fd());
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        openat(CWD, own, flags, Mode::empty()).ok()
    }
}

/// The place of a file, as far as it is known without asking its file system; and whether it is a regular
/// one.
fn place(file: BorrowedFd<'_>) -> io::Result<(Place, bool)> {
    let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
    let wanted = StatxFlags::TYPE | StatxFlags::INO;
    let found = statx(file, "", flags, wanted)?;
    let is_file = u32::from(found.stx_mode) & 0o170_000 == 0o100_000;
    let device = (found.stx_dev_major, found.stx_dev_minor);
    Ok(((device, found.stx_ino), is_file))
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

/// The parts of a process's state that matter.
struct Status {
    /// As it knows itself: in a container, another one than outside.
    own_pid: u32,
    uid: u32,
    comm: String,
}

impl Status {
    fn read(process: BorrowedFd<'_>) -> io::Result<Self> {
        let text = text(process, "status", 1 << 20)?;
        let last = |key: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(key))?;
            line.split_ascii_whitespace().last()?.parse().ok()
        };
        let first = |key: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(key))?;
            line.split_ascii_whitespace().next()?.parse().ok()
        };
        let unknown = || io::Error::from(io::ErrorKind::InvalidData);
        let comm = self::text(process, "comm", 64)?;
        let comm = comm.trim_end_matches('\n').chars();
        Ok(Self {
            own_pid: last("NSpid:")
                .or_else(|| last("Pid:"))
                .ok_or_else(unknown)?,
            uid: first("Uid:").ok_or_else(unknown)?,
            comm: comm
                .map(|one| if one.is_control() { '?' } else { one })
                .collect(),
        })
    }
}

/// The first bytes of a file of the kernel's, as text.
fn text(process: BorrowedFd<'_>, name: &str, most: usize) -> io::Result<String> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    let file = openat(process, name, flags, Mode::empty())?;
    let mut text = Vec::new();
    let mut part = [0; 4_096];
    while text.len() < most {
        match rustix::io::read(&file, &mut part) {
            Ok(0) => break,
            Ok(length) => text.extend_from_slice(&part[..length]),
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(String::from_utf8_lossy(&text).into_owned())
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};
    use std::sync::{Mutex, MutexGuard, PoisonError};

    use rustix::fs::ftruncate;
    use rustix::io::{dup, pwrite};

    use super::super::tests::record;
    use super::super::Publication;
    use super::*;

    /// A process has one list of files: tests that publish take turns.
    fn turn() -> MutexGuard<'static, ()> {
        static TURN: Mutex<()> = Mutex::new(());
        TURN.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn me() -> u32 {
        std::process::id()
    }

    fn published(number: u64) -> Publication {
        let publication = Publication::new().unwrap();
        publication.write(&record(number)).unwrap();
        publication
    }

    fn found(finder: Finder) -> (Vec<u64>, u64) {
        let listed = finder.end();
        let numbers = listed.loaders.iter().map(|one| one.record.number);
        (numbers.collect(), listed.left_out)
    }

    #[test]
    fn what_is_published_is_found_until_it_is_dropped() {
        let _turn = turn();
        let publication = Publication::new().unwrap();
        assert_eq!(of_process(me()).unwrap(), Listed::default());
        publication.write(&record(1)).unwrap();
        let again = Record {
            batches: 8,
            ..record(1)
        };
        publication.write(&again).unwrap();
        let duplicate = dup(&publication.0).unwrap();
        let all = all().unwrap().loaders;
        let mine: Vec<_> = all.iter().filter(|one| one.pid == me()).collect();
        assert_eq!(mine.len(), 1, "once, however many descriptors there are");
        assert_eq!((mine[0].record, mine[0].uid), (again, own_uid()));
        assert!(!mine[0].comm.is_empty());
        drop((publication, duplicate));
        assert_eq!(of_process(me()).unwrap(), Listed::default());
    }

    fn own_uid() -> u32 {
        rustix::process::getuid().as_raw()
    }

    #[test]
    fn files_of_the_name_that_are_no_records_are_counted() {
        let _turn = turn();
        let good = published(1);
        let files: Vec<_> = (0..4).map(|_| memory().unwrap()).collect();
        // Another version, a part of a record, one that says less than it has; a hole of 1 TiB is read
        // as any other.
        pwrite(&files[0], b"zloader2", 0).unwrap();
        pwrite(&files[1], &record(2).encode(me())[..80], 0).unwrap();
        let mut damaged = record(3).encode(me());
        damaged[BYTES - 1] ^= 1;
        pwrite(&files[2], &damaged, 0).unwrap();
        ftruncate(&files[3], 1 << 40).unwrap();
        let listed = of_process(me()).unwrap();
        let numbers: Vec<_> = listed.loaders.iter().map(|one| one.record.number).collect();
        assert_eq!(numbers, [1]);
        assert_eq!((listed.other_versions, listed.damaged), (2, 2));
        drop(good);
    }

    #[test]
    fn a_file_elsewhere_is_not_opened() {
        let _turn = turn();
        let _good = published(1);
        // As one that lies about its name: the device tells.
        let mut finder = Finder::new().unwrap();
        finder.memory.1 += 1;
        finder.look(me()).unwrap();
        assert_eq!(found(finder), (vec![], 0));
        let folder = openat(CWD, "/", DIRECTORY, Mode::empty()).unwrap();
        let (place, is_file) = place(folder.as_fd()).unwrap();
        assert!(!is_file && place.0 != Finder::new().unwrap().memory);
    }

    #[test]
    fn a_process_that_has_the_file_alone_is_no_loader() {
        let _turn = turn();
        let publication = published(1);
        let mut child = Command::new("sleep")
            .arg("60")
            .stdin(Stdio::from(dup(&publication.0).unwrap()))
            .spawn()
            .unwrap();
        let others = of_process(child.id());
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(others.unwrap(), Listed::default());
        let gone = of_process(child.id()).map_err(|error| error.kind());
        assert_eq!(gone, Err(io::ErrorKind::NotFound));
    }

    #[test]
    fn bounds_are_kept_and_told() {
        let _turn = turn();
        let _all: Vec<_> = (1..=5).map(published).collect();
        let look = |bounds| {
            let mut finder = Finder::new().unwrap();
            finder.bounds = bounds;
            finder.look(me()).unwrap();
            found(finder)
        };
        let is_part = |(numbers, left_out): (Vec<u64>, u64), most| {
            assert_eq!((numbers.len(), left_out), (most, 1));
        };
        assert_eq!(look(BOUNDS), ((1..=5).collect(), 0));
        is_part(
            look(Bounds {
                of_process: 3,
                ..BOUNDS
            }),
            3,
        );
        is_part(
            look(Bounds {
                of_user: 2,
                ..BOUNDS
            }),
            2,
        );
        is_part(look(Bounds { files: 1, ..BOUNDS }), 0);
    }
}
