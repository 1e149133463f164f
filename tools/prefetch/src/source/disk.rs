// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads that are kept on a local disk, for later runs and other processes. A file has the bytes of a
//! read and all that they are of: store, object, range and version. It is used for reads of that version
//! alone, or once the store has said that the object is still of that version.
//!
//! Nothing here is a fault of a batch: a file that cannot be read, is cut short, was written by somebody
//! else or has another checksum is as one that is not there, and one that cannot be written is left out.

use std::ffi::OsStr;
use std::fs::{self, DirBuilder, File, Metadata, OpenOptions};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io::{Error, ErrorKind, Read as _, Result, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use bytes::Bytes;
use object_store::GetRange;
use ring::digest::{digest, SHA256};
use rustix::fs::OFlags;
use tokio::task::spawn_blocking;

use super::Read;
use crate::sync::{lock, AtomicBool, AtomicU64, Mutex, Ordering};

/// The first bytes of a file.
const MAGIC: &[u8; 8] = b"zernelp1";

/// The folder of the files, in the one that is given. Its name changes with the form of the files.
const OWN: &str = "zernel-reads-1";

/// The most files.
const MOST_FILES: u64 = 1 << 18;

/// The most bytes of a file beside those of the read.
const MOST_BESIDE: u64 = 64 << 10;

/// The most bytes that wait to be written. More are left out.
const MOST_PENDING: u64 = 64 << 20;

/// Behind a write that failed there is none for so long.
const PAUSE: Duration = Duration::from_secs(60);

/// A file that was begun so long ago is one that nobody ends.
const ABANDONED: Duration = Duration::from_secs(3_600);

/// A use of a file is told to the disk if the last was so long ago.
const TOUCH: Duration = Duration::from_secs(60);

/// Files in a folder.
#[derive(Debug)]
pub struct Disk {
    folder: PathBuf,
    bytes: u64,
    files: u64,
    /// The digest of the store's name, which may have a secret in it.
    store: [u8; 32],
    /// Bytes that were written since the folder was looked through.
    written: AtomicU64,
    /// The same of files.
    written_files: AtomicU64,
    /// Bytes that wait to be written.
    pending: AtomicU64,
    is_clearing: AtomicBool,
    /// No file is written before.
    resumes: Mutex<Option<Instant>>,
}

/// The bytes that a file has, but for the version.
#[derive(Debug, Clone)]
pub(super) struct Name {
    path: String,
    range: String,
    of: Option<GetRange>,
}

impl Name {
    pub(super) fn new(path: &str, of: Option<&GetRange>) -> Self {
        let range = match of {
            None => "whole".to_owned(),
            Some(range) => range.to_string(),
        };
        Self {
            path: path.to_owned(),
            range,
            of: of.cloned(),
        }
    }

    /// The bytes of such a read of an object of so many.
    fn bytes_of(&self, size: u64) -> u64 {
        match &self.of {
            None => size,
            Some(GetRange::Bounded(range)) => size.min(range.end).saturating_sub(range.start),
            Some(GetRange::Offset(first)) => size.saturating_sub(*first),
            Some(GetRange::Suffix(bytes)) => size.min(*bytes),
        }
    }
}

/// A file that is written here.
#[derive(Debug, PartialEq, Eq)]
enum Own {
    Read(u64),
    Part,
}

impl Own {
    /// A file by its name; `None`: others write it.
    fn by(name: &OsStr) -> Option<Self> {
        let (first, rest) = name.to_str()?.split_once('.')?;
        let hash = hexadecimal(first)?;
        match rest.split_once('.') {
            None => (rest == "read").then_some(Self::Read(hash)),
            Some((own, kind)) => {
                hexadecimal(own).filter(|_| kind == "part")?;
                Some(Self::Part)
            }
        }
    }
}

/// A number by its 16 digits.
fn hexadecimal(text: &str) -> Option<u64> {
    let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    let is_it = text.len() == 16 && text.bytes().all(is_digit);
    is_it.then(|| u64::from_str_radix(text, 16).ok())?
}

/// A folder that is there, of this user alone.
fn checked(folder: &Path, user: u32) -> Result<()> {
    let refused = |text: &str| {
        let text = format!("{}: {text}", folder.display());
        Err(Error::new(ErrorKind::PermissionDenied, text))
    };
    let there = fs::symlink_metadata(folder)?;
    if !there.is_dir() {
        return refused("it is a link, or no folder");
    }
    if there.uid() != user || there.mode() & 0o022 != 0 {
        return refused("others may write to it");
    }
    Ok(())
}

fn make(folder: &Path) -> Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

/// A file of this user alone, which was not there before.
fn create(path: &Path) -> Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(0o600).open(path)
}

/// Takes so many bytes from the beginning.
fn take<'a>(bytes: &mut &'a [u8], count: usize) -> Option<&'a [u8]> {
    let (first, rest) = bytes.split_at_checked(count)?;
    *bytes = rest;
    Some(first)
}

fn number(bytes: &mut &[u8]) -> Option<u64> {
    Some(u64::from_le_bytes(take(bytes, 8)?.try_into().ok()?))
}

impl Disk {
    /// Keeps reads of a store, which `store` tells from all others, in a folder: up to so many bytes, with
    /// those of all stores and processes that have the same folder. It is made if it is not there. The files
    /// are in a folder of their own in it. The text of `store` is not written.
    ///
    /// # Errors
    ///
    /// It cannot be made or written to; [`ErrorKind::PermissionDenied`]: it is a link, it belongs to another
    /// user, or others may write to it.
    pub fn open(
        folder: impl Into<PathBuf>,
        bytes: u64,
        store: impl AsRef<str>,
    ) -> Result<Arc<Self>> {
        let given = folder.into();
        let mut own = [0; 32];
        own.copy_from_slice(digest(&SHA256, store.as_ref().as_bytes()).as_ref());
        let disk = Self {
            folder: given.join(OWN),
            bytes,
            files: MOST_FILES,
            store: own,
            // The first write looks through the folder.
            written: AtomicU64::new(bytes / 16),
            written_files: AtomicU64::new(0),
            pending: AtomicU64::new(0),
            is_clearing: AtomicBool::new(false),
            resumes: Mutex::new(None),
        };
        let user = rustix::process::geteuid().as_raw();
        make(&given)?;
        checked(&given, user)?;
        make(&disk.folder)?;
        checked(&disk.folder, user)?;
        let part = disk.part(0);
        create(&part)?;
        fs::remove_file(&part)?;
        Ok(Arc::new(disk))
    }

    fn hash(&self, name: &Name) -> u64 {
        // Names that share one take each other's place.
        let mut hasher = DefaultHasher::new();
        (&self.store, &name.path, &name.range).hash(&mut hasher);
        hasher.finish()
    }

    fn file(&self, hash: u64) -> PathBuf {
        self.folder.join(format!("{hash:016x}.read"))
    }

    /// A file that is not whole yet, and of nobody else.
    fn part(&self, hash: u64) -> PathBuf {
        let own = rand::random::<u64>();
        self.folder.join(format!("{hash:016x}.{own:016x}.part"))
    }

    /// All that the bytes of a read are of.
    fn header(&self, name: &Name, version: &str, size: u64, bytes: u64) -> Vec<u8> {
        let mut header = MAGIC.to_vec();
        header.extend(size.to_le_bytes());
        header.extend(bytes.to_le_bytes());
        header.extend(self.store);
        for text in [&name.path, &name.range, version] {
            header.extend((text.len() as u64).to_le_bytes());
            header.extend(text.as_bytes());
        }
        header
    }

    /// The read that a file has; `None`: it is none of `name`, or not as it was written.
    fn decode(&self, name: &Name, file: &Bytes) -> Option<Read> {
        let (all, sum) = file.split_at_checked(file.len().checked_sub(4)?)?;
        if crc32c::crc32c(all).to_le_bytes() != sum {
            return None;
        }
        let mut rest = all;
        if take(&mut rest, MAGIC.len())? != MAGIC {
            return None;
        }
        let (size, bytes) = (number(&mut rest)?, number(&mut rest)?);
        if take(&mut rest, self.store.len())? != self.store {
            return None;
        }
        let mut text = || {
            let length = usize::try_from(number(&mut rest)?).ok()?;
            std::str::from_utf8(take(&mut rest, length)?).ok()
        };
        let is_it = [&name.path, &name.range]
            .into_iter()
            .all(|own| text() == Some(own));
        let version = text().filter(|_| is_it)?.to_owned();
        let is_whole = rest.len() as u64 == bytes && bytes == name.bytes_of(size);
        is_whole.then(|| Read {
            bytes: file.slice_ref(rest),
            version: Some(version),
            size,
        })
    }

    /// A read of `most` bytes or fewer.
    pub(super) async fn find(self: &Arc<Self>, name: Name, most: u64) -> Option<Read> {
        let disk = Arc::clone(self);
        let found = spawn_blocking(move || disk.find_now(&name, most));
        found.await.ok()?
    }

    fn find_now(&self, name: &Name, most: u64) -> Option<Read> {
        let place = self.file(self.hash(name));
        // Of a pipe nothing is waited for.
        let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits() as i32;
        let mut options = OpenOptions::new();
        let file = options.read(true).custom_flags(flags).open(place).ok()?;
        let there = file.metadata().ok()?;
        if !there.is_file() || there.len() > most.saturating_add(MOST_BESIDE) {
            return None;
        }
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(there.len() as usize).ok()?;
        (&file).take(there.len()).read_to_end(&mut bytes).ok()?;
        let read = self.decode(name, &bytes.into())?;
        if read.bytes.len() as u64 > most {
            return None;
        }
        if age(&there) > TOUCH {
            // Another time it is told.
            let _told = file.set_modified(SystemTime::now());
        }
        Some(read)
    }

    /// Has a read be written, if it is of a version that names its bytes.
    pub(super) fn keep(self: &Arc<Self>, name: Name, read: &Read) {
        let version = read.version.as_deref();
        let Some(version) = version.filter(|version| !version.starts_with("W/")) else {
            return;
        };
        let bytes = read.bytes.len() as u64;
        let header = self.header(&name, version, read.size, bytes);
        let beside = header.len() as u64 + 4;
        let is_paused = lock(&self.resumes).is_some_and(|at| Instant::now() < at);
        if beside > MOST_BESIDE || bytes > self.bytes / 16 || is_paused {
            return;
        }
        if self.pending.fetch_add(bytes, Ordering::Relaxed) + bytes > MOST_PENDING {
            self.pending.fetch_sub(bytes, Ordering::Relaxed);
            return;
        }
        let (disk, body) = (Arc::clone(self), read.bytes.clone());
        spawn_blocking(move || {
            let written = disk.write(&name, &header, &body);
            disk.pending.fetch_sub(bytes, Ordering::Relaxed);
            match written {
                Ok(()) => {
                    let all = bytes + beside;
                    let written = disk.written.fetch_add(all, Ordering::Relaxed);
                    let files = disk.written_files.fetch_add(1, Ordering::Relaxed);
                    if written + all > disk.bytes / 16 || files >= disk.files / 16 {
                        disk.clear();
                    }
                }
                // The disk is full, or it is gone.
                Err(_) => *lock(&disk.resumes) = Instant::now().checked_add(PAUSE),
            }
        });
    }

    fn write(&self, name: &Name, header: &[u8], body: &[u8]) -> Result<()> {
        let hash = self.hash(name);
        let part = self.part(hash);
        let sum = crc32c::crc32c_append(crc32c::crc32c(header), body);
        let written = create(&part).and_then(|mut file| {
            file.write_all(header)?;
            file.write_all(body)?;
            file.write_all(&sum.to_le_bytes())?;
            drop(file);
            fs::rename(&part, self.file(hash))
        });
        if written.is_err() {
            let _removed = fs::remove_file(&part);
        }
        written
    }

    /// Removes the files that were used longest ago, down to seven eighths of the bytes and of the
    /// number. Another process may do so at the same time.
    fn clear(&self) {
        if self.is_clearing.swap(true, Ordering::AcqRel) {
            return;
        }
        self.written.store(0, Ordering::Relaxed);
        self.written_files.store(0, Ordering::Relaxed);
        // A folder that is gone is clear.
        let _cleared = self.clear_now();
        self.is_clearing.store(false, Ordering::Release);
    }

    fn clear_now(&self) -> Result<()> {
        let mut all = Vec::new();
        let mut sum = 0;
        for entry in fs::read_dir(&self.folder)? {
            let entry = entry?;
            // Others than those that are written here stay. A link is none.
            let Some(own) = Own::by(&entry.file_name()) else {
                continue;
            };
            let Some(there) = entry.metadata().ok().filter(Metadata::is_file) else {
                continue;
            };
            match own {
                Own::Read(hash) => {
                    let bytes = there.len().max(there.blocks() * 512);
                    sum += bytes;
                    all.push((there.modified()?, bytes, hash));
                }
                Own::Part if age(&there) > ABANDONED => {
                    let _removed = fs::remove_file(entry.path());
                }
                Own::Part => {}
            }
        }
        all.sort_unstable();
        let mut files = all.len() as u64;
        for (_, bytes, hash) in all {
            if sum <= self.bytes - self.bytes / 8 && files <= self.files - self.files / 8 {
                break;
            }
            // One that another has removed is gone as well.
            let _removed = fs::remove_file(self.file(hash));
            sum -= bytes;
            files -= 1;
        }
        Ok(())
    }
}

/// The time since a file was written, or was told to be used.
fn age(there: &Metadata) -> Duration {
    let at = there.modified().unwrap_or(SystemTime::UNIX_EPOCH);
    at.elapsed().unwrap_or_default()
}

#[cfg(test)]
mod tests;
