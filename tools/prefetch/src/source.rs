// SPDX-License-Identifier: MIT OR Apache-2.0
//! A store of objects: bounded work in flight, the earliest batch first, retries of its own, and reads
//! that are sent a second time where the first takes long.

mod disk;
mod hedge;
mod http;
mod lookups;
mod retry;

use std::sync::Arc;

use bytes::Bytes;
use object_store::path::Path;
use object_store::{Error, GetOptions, GetRange, GetResult, ObjectStore};
use tokio::time::Instant;

use crate::sync::{AtomicU64, Ordering};
use crate::turnstile::{Pass, Permit, Turnstile};
use crate::{Fault, Kind};
pub use disk::Disk;
use disk::Name;
pub use hedge::Hedges;
use hedge::Late;
pub use http::{Busy, Connector};
use lookups::Lookups;
pub use retry::Retries;

/// Bytes read of an object.
#[derive(Debug, Clone)]
pub struct Read {
    /// The bytes.
    pub bytes: Bytes,
    /// The name of this version of the object, if the store has one.
    pub version: Option<String>,
    /// The bytes of the whole object.
    pub size: u64,
}

/// Counts of a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Requests that were sent.
    pub requests: u64,
    /// Those that were sent again.
    pub retries: u64,
    /// Those that were sent beside another, which took long.
    pub hedges: u64,
    /// Bytes that came.
    pub bytes: u64,
    /// Reads whose bytes were on the local disk.
    pub disk: u64,
}

#[derive(Debug, Default)]
struct Counters {
    requests: AtomicU64,
    retries: AtomicU64,
    hedges: AtomicU64,
    bytes: AtomicU64,
    disk: AtomicU64,
}

/// Bounds of the requests to a store.
#[derive(Debug, Clone, Default)]
pub struct Bounds {
    /// Requests at once to this store; 0 stands for 1.
    pub in_flight: usize,
    /// A bound that it shares with other stores.
    pub all: Option<Arc<Turnstile>>,
    /// The time until another try, and the number of these.
    pub retries: Retries,
    /// Reads that are sent a second time; `None`: there are none.
    pub hedges: Option<Hedges>,
    /// A local disk that keeps what is read; `None`: there is none.
    pub disk: Option<Arc<Disk>>,
}

/// A place among those who wait to send a request, or to look on the local disk before. Tasks that read
/// begin in any order; their places are those of the order in which they were asked for.
#[derive(Debug)]
pub struct Turn(Pass);

/// The permits of a request: of its store, and of all stores.
type Permits = (Permit, Option<Permit>);

/// A store, as a prefetcher reads it.
#[derive(Debug)]
pub struct Source {
    store: Arc<dyn ObjectStore>,
    turnstile: Arc<Turnstile>,
    all: Option<Arc<Turnstile>>,
    retries: Retries,
    times: hedge::Times,
    disk: Option<Lookups>,
    counters: Counters,
}

/// A read of an object.
#[derive(Clone, Copy)]
pub struct Ask<'a> {
    /// The object.
    pub path: &'a str,
    /// First byte and bytes; `None`: all of it.
    pub range: Option<&'a GetRange>,
    /// The most bytes that may come.
    pub most: u64,
    /// The version that it has to be, if that is known.
    pub version: Option<&'a str>,
    /// Bytes of the whole object, if they are known: a store without versions has these.
    pub size: Option<u64>,
    /// The number of the batch among all: lower ones go first.
    pub batch: u64,
    /// Told when its turn comes: it is needed still.
    pub is_needed: Option<&'a (dyn Fn() -> bool + Sync)>,
}

impl<'a> Ask<'a> {
    /// A read of a whole object.
    pub fn new(path: &'a str, most: u64, batch: u64) -> Self {
        Self {
            path,
            range: None,
            most,
            version: None,
            size: None,
            batch,
            is_needed: None,
        }
    }
}

/// The result of one trial.
enum Trial {
    Read(Read),
    Absent,
    /// It is of the version that is on the local disk.
    Same,
    Failed(Fault),
    Again(Fault, Option<std::time::Duration>),
}

impl Source {
    /// A store that is asked for so many objects at once, late ones twice. Retries of its own are
    /// switched off where it is made.
    pub fn new(store: Arc<dyn ObjectStore>, in_flight: usize, retries: Retries) -> Arc<Self> {
        let bounds = Bounds {
            in_flight,
            all: None,
            retries,
            hedges: Some(Hedges::default()),
            disk: None,
        };
        Self::within(store, bounds)
    }

    /// As [`Self::new`], within other bounds.
    pub fn within(store: Arc<dyn ObjectStore>, bounds: Bounds) -> Arc<Self> {
        Arc::new(Self {
            store,
            turnstile: Turnstile::new(bounds.in_flight),
            all: bounds.all,
            retries: bounds.retries,
            times: hedge::Times::new(bounds.hedges),
            disk: bounds.disk.map(|disk| Lookups::new(disk, bounds.in_flight)),
            counters: Counters::default(),
        })
    }

    /// Counts from the beginning.
    pub fn counts(&self) -> Counts {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Counts {
            requests: get(&self.counters.requests),
            retries: get(&self.counters.retries),
            hedges: get(&self.counters.hedges),
            bytes: get(&self.counters.bytes),
            disk: get(&self.counters.disk),
        }
    }

    /// Reads an object, or a range of one, for a batch. `None`: there is no such object.
    ///
    /// # Errors
    ///
    /// [`Kind::Denied`]; [`Kind::Changed`], where another version or size is there;
    /// [`Kind::TooLarge`]: more than the most would come; [`Kind::Unavailable`] when no retry is left;
    /// [`Kind::Corrupt`] for a range that the object does not have; [`Kind::Cancelled`]: it was needed
    /// no more when its turn came.
    pub async fn read(&self, ask: Ask<'_>) -> Result<Option<Read>, Fault> {
        self.read_in(ask, self.turn(ask.batch)).await
    }

    /// A place among those who wait to send a request, from now on. With a local disk they wait for
    /// their turn on that first.
    pub fn turn(&self, batch: u64) -> Turn {
        Turn(match &self.disk {
            Some(disk) => disk.pass(batch),
            None => self.turnstile.pass(batch),
        })
    }

    /// As [`Self::read`], by one who has taken a place before.
    ///
    /// # Errors
    ///
    /// As of [`Self::read`].
    pub async fn read_in(&self, ask: Ask<'_>, own: Turn) -> Result<Option<Read>, Fault> {
        let path = ask.path;
        let place = Path::parse(path)
            .map_err(|error| Fault::new(Kind::Misuse, format!("{path}: {error}")))?;
        let name = || Name::new(path, ask.range);
        let (mut turn, mut kept) = (None, None);
        match &self.disk {
            None => turn = Some(own.0),
            Some(disk) if ask.version.is_some() => {
                // Nothing is held for the store's answer.
                drop(own);
                is_needed(&ask)?;
                let found = disk.find(name(), ask.most, ask.batch).await;
                let is_it = |found: &Read| {
                    ask.version == found.version.as_deref()
                        && ask.size.is_none_or(|size| size == found.size)
                };
                if let Some(found) = found.filter(is_it) {
                    self.counters.disk.fetch_add(1, Ordering::Relaxed);
                    return Ok(Some(found));
                }
            }
            Some(disk) => {
                let permit = own.0.await;
                is_needed(&ask)?;
                kept = disk.held(name(), (ask.most, ask.batch), permit).await;
            }
        }
        let mut trial = 0;
        loop {
            let tried = {
                let turn = turn.take();
                let turn = turn.unwrap_or_else(|| self.turnstile.pass(ask.batch));
                let _permits = self.permits(turn, ask.batch).await;
                is_needed(&ask)?;
                let kept = kept.as_ref().and_then(|kept| kept.read.version.as_deref());
                self.try_once(&place, ask, kept).await
            };
            let (fault, asked) = match tried {
                Trial::Read(read) => {
                    if let Some(disk) = &self.disk {
                        disk.keep(name(), &read);
                    }
                    return Ok(Some(read));
                }
                Trial::Same => {
                    self.counters.disk.fetch_add(1, Ordering::Relaxed);
                    return Ok(kept.map(|kept| kept.read));
                }
                Trial::Absent => return Ok(None),
                Trial::Failed(fault) => return Err(fault),
                Trial::Again(fault, asked) => (fault, asked),
            };
            trial += 1;
            let Some(wait) = self.retries.wait(trial, rand::random(), asked) else {
                return Err(fault);
            };
            self.counters.retries.fetch_add(1, Ordering::Relaxed);
            tokio::time::sleep(wait).await;
        }
    }

    /// Waits until a request may be sent. One who has a permit of all stores waits for nothing else.
    async fn permits(&self, turn: Pass, batch: u64) -> Permits {
        let own = turn.await;
        match &self.all {
            Some(all) => (own, Some(all.pass(batch).await)),
            None => (own, None),
        }
    }

    /// The answer to a request, or to a second one that is sent when the first is late. The second has
    /// its turn as any other, so that the bounds are those of both.
    async fn answer(
        &self,
        place: &Path,
        ask: Ask<'_>,
        options: GetOptions,
    ) -> Result<GetResult, Error> {
        let begin = Instant::now();
        let mut first = self.store.get_opts(place, options.clone());
        let second = async {
            if !self.is_late(begin).await {
                return std::future::pending().await;
            }
            let permits = self
                .permits(self.turnstile.pass(ask.batch), ask.batch)
                .await;
            if !self.times.take() {
                // It is not sent.
                drop(permits);
                return std::future::pending().await;
            }
            self.counters.requests.fetch_add(1, Ordering::Relaxed);
            self.counters.hedges.fetch_add(1, Ordering::Relaxed);
            let begin = Instant::now();
            let answer = self.store.get_opts(place, options).await;
            (answer, begin)
        };
        tokio::select! {
            biased;
            answer = &mut first => return self.came(answer, begin),
            (answer, begin) = second => {
                if is_answer(&answer) {
                    return self.came(answer, begin);
                }
                // The first is as good as it was.
            }
        }
        let answer = first.await;
        self.came(answer, begin)
    }

    /// Waits until a read is late. `false`: it never is.
    async fn is_late(&self, begin: Instant) -> bool {
        loop {
            match self.times.late() {
                Late::Never => return false,
                Late::After(time) if begin.elapsed() >= time => return true,
                Late::After(time) => match begin.checked_add(time) {
                    Some(late) => tokio::time::sleep_until(late).await,
                    None => return false,
                },
                // One of the first waits until others have told what is late.
                Late::Unknown(time) => tokio::time::sleep(time).await,
            }
        }
    }

    fn came(&self, answer: Result<GetResult, Error>, begin: Instant) -> Result<GetResult, Error> {
        if is_answer(&answer) {
            self.times.came(begin.elapsed());
        }
        answer
    }

    /// Asks for the object. `kept` is the version that is on the local disk.
    async fn try_once(&self, place: &Path, ask: Ask<'_>, kept: Option<&str>) -> Trial {
        self.counters.requests.fetch_add(1, Ordering::Relaxed);
        // No object matches a weak version: that is compared here alone.
        let strong = ask.version.filter(|version| !version.starts_with("W/"));
        let options = GetOptions {
            range: ask.range.cloned(),
            if_match: strong.map(str::to_owned),
            if_none_match: kept.map(str::to_owned),
            ..GetOptions::default()
        };
        let result = match self.answer(place, ask, options).await {
            Ok(result) => result,
            Err(Error::NotModified { .. }) if kept.is_some() => return Trial::Same,
            Err(error) => {
                return match told(place, &error) {
                    // Its index has told that the range is there.
                    Trial::Failed(fault) if fault.kind() == Kind::Corrupt && ask.size.is_some() => {
                        Trial::Failed(Fault::new(Kind::Changed, fault.text()))
                    }
                    told => told,
                };
            }
        };
        let (version, size, range) = (
            result.meta.e_tag.clone(),
            result.meta.size,
            result.range.clone(),
        );
        let is_other = match (ask.version, &version) {
            (Some(asked), Some(there)) => asked != there,
            _ => false,
        };
        if is_other || ask.size.is_some_and(|asked| asked != size) {
            let text = format!("{place}: {size} bytes of another version");
            return Trial::Failed(Fault::new(Kind::Changed, text));
        }
        let expected = range.end.saturating_sub(range.start);
        if expected > ask.most {
            let text = format!("{place}: {expected} bytes, more than {}", ask.most);
            return Trial::Failed(Fault::new(Kind::TooLarge, text));
        }
        let bytes = match result.bytes().await {
            Ok(bytes) => bytes,
            Err(error) => return told(place, &error),
        };
        // A body that broke off without an error.
        if bytes.len() as u64 != expected {
            let text = format!("{place}: {} of {expected} bytes came", bytes.len());
            return Trial::Again(Fault::new(Kind::Unavailable, text), None);
        }
        self.counters.bytes.fetch_add(expected, Ordering::Relaxed);
        Trial::Read(Read {
            bytes,
            version,
            size,
        })
    }
}

/// # Errors
///
/// [`Kind::Cancelled`]: nobody needs the read any more.
fn is_needed(ask: &Ask<'_>) -> Result<(), Fault> {
    match ask.is_needed.is_some_and(|is_needed| !is_needed()) {
        true => {
            let text = format!("{}: it is needed no more", ask.path);
            Err(Fault::new(Kind::Cancelled, text))
        }
        false => Ok(()),
    }
}

/// The store has told of the object.
fn is_answer(answer: &Result<GetResult, Error>) -> bool {
    matches!(
        answer,
        Ok(_) | Err(Error::NotFound { .. } | Error::NotModified { .. })
    )
}

/// The consequence of an error.
fn told(place: &Path, error: &Error) -> Trial {
    let fault = |kind| Fault::new(kind, format!("{place}: {error}"));
    let kind = match error {
        Error::NotFound { .. } => return Trial::Absent,
        Error::PermissionDenied { .. } | Error::Unauthenticated { .. } => Kind::Denied,
        Error::Precondition { .. } | Error::NotModified { .. } => Kind::Changed,
        Error::InvalidPath { .. } | Error::NotSupported { .. } | Error::NotImplemented { .. } => {
            Kind::Misuse
        }
        _ => {
            let busy = http::find(error);
            if busy.is_some() || http::is_transport(error) {
                let asked = busy.and_then(|busy| busy.after);
                return Trial::Again(fault(Kind::Unavailable), asked);
            }
            // A local file.
            match http::io_kind(error) {
                Some(std::io::ErrorKind::PermissionDenied) => Kind::Denied,
                Some(_) => return Trial::Again(fault(Kind::Unavailable), None),
                // An answer that is none of the protocol's: the same next time.
                None => Kind::Corrupt,
            }
        }
    };
    Trial::Failed(fault(kind))
}

#[cfg(test)]
mod tests {
    use std::io::ErrorKind;

    use object_store::client::{HttpError, HttpErrorKind};

    use super::*;

    #[test]
    fn errors_of_connections_and_files_have_their_kinds() {
        let told = |source: Box<dyn std::error::Error + Send + Sync>| {
            let store = "a store";
            match told(&Path::from("a"), &Error::Generic { store, source }) {
                Trial::Again(fault, None) => (fault.kind(), true),
                Trial::Failed(fault) => (fault.kind(), false),
                _ => panic!("no fault"),
            }
        };
        let file = |kind: ErrorKind| told(Box::new(std::io::Error::from(kind)));
        assert_eq!(file(ErrorKind::PermissionDenied), (Kind::Denied, false));
        assert_eq!(file(ErrorKind::Other), (Kind::Unavailable, true));
        for kind in [HttpErrorKind::Unknown, HttpErrorKind::Timeout] {
            let http = HttpError::new(kind, std::io::Error::other("a body"));
            assert_eq!(told(Box::new(http)), (Kind::Unavailable, true));
        }
        assert_eq!(told("no range".into()), (Kind::Corrupt, false));
    }
}
