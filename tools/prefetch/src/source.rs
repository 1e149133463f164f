// SPDX-License-Identifier: MIT OR Apache-2.0
//! A store of objects: bounded work in flight, the earliest batch first, and retries of its own.

mod http;
mod retry;

use std::sync::Arc;

use bytes::Bytes;
use object_store::path::Path;
use object_store::{Error, GetOptions, GetRange, ObjectStore};

use crate::batch::Ticket;
use crate::sync::{AtomicU64, Ordering};
use crate::turnstile::Turnstile;
use crate::{Fault, Kind};
pub use http::{Busy, Connector};
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
    /// Bytes that came.
    pub bytes: u64,
}

#[derive(Debug, Default)]
struct Counters {
    requests: AtomicU64,
    retries: AtomicU64,
    bytes: AtomicU64,
}

/// A store, as a prefetcher reads it.
#[derive(Debug)]
pub struct Source {
    store: Arc<dyn ObjectStore>,
    turnstile: Arc<Turnstile>,
    retries: Retries,
    counters: Counters,
}

/// The result of one trial.
enum Trial {
    Read(Read),
    Absent,
    Failed(Fault),
    Again(Fault, Option<std::time::Duration>),
}

impl Source {
    /// A store that is asked for so many objects at once. Retries of its own are switched off where
    /// it is made.
    pub fn new(store: Arc<dyn ObjectStore>, in_flight: usize, retries: Retries) -> Arc<Self> {
        Arc::new(Self {
            store,
            turnstile: Turnstile::new(in_flight),
            retries,
            counters: Counters::default(),
        })
    }

    /// Counts from the beginning.
    pub fn counts(&self) -> Counts {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Counts {
            requests: get(&self.counters.requests),
            retries: get(&self.counters.retries),
            bytes: get(&self.counters.bytes),
        }
    }

    /// Reads an object, or a range of one, for a batch. `None`: there is no such object. Work for a
    /// batch that is cancelled ends at once.
    ///
    /// # Errors
    ///
    /// [`Kind::Denied`]; [`Kind::Changed`], where another version is there than `version`;
    /// [`Kind::Unavailable`] when no retry is left; [`Kind::Corrupt`] for a range that the object
    /// does not have; [`Kind::Cancelled`].
    pub async fn read(
        &self,
        path: &str,
        range: Option<GetRange>,
        version: Option<&str>,
        batch: u64,
        ticket: Option<&Ticket>,
    ) -> Result<Option<Read>, Fault> {
        let reading = self.read_in_turn(path, range, version, batch);
        let Some(ticket) = ticket else {
            return reading.await;
        };
        tokio::select! {
            biased;
            () = ticket.cancelled() => {
                Err(Fault::new(Kind::Cancelled, format!("{path}: the batch was given up")))
            }
            read = reading => read,
        }
    }

    async fn read_in_turn(
        &self,
        path: &str,
        range: Option<GetRange>,
        version: Option<&str>,
        batch: u64,
    ) -> Result<Option<Read>, Fault> {
        let place = Path::parse(path)
            .map_err(|error| Fault::new(Kind::Misuse, format!("{path}: {error}")))?;
        let mut trial = 0;
        loop {
            let tried = {
                let _permit = self.turnstile.pass(batch).await;
                self.try_once(&place, range.clone(), version).await
            };
            let (fault, asked) = match tried {
                Trial::Read(read) => return Ok(Some(read)),
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

    async fn try_once(
        &self,
        place: &Path,
        range: Option<GetRange>,
        version: Option<&str>,
    ) -> Trial {
        self.counters.requests.fetch_add(1, Ordering::Relaxed);
        let options = GetOptions {
            range,
            if_match: version.map(str::to_owned),
            ..GetOptions::default()
        };
        let result = match self.store.get_opts(place, options).await {
            Ok(result) => result,
            Err(error) => return told(place, &error),
        };
        let (version, size, range) = (
            result.meta.e_tag.clone(),
            result.meta.size,
            result.range.clone(),
        );
        let bytes = match result.bytes().await {
            Ok(bytes) => bytes,
            Err(error) => return told(place, &error),
        };
        // A body that broke off without an error.
        let expected = range.end.saturating_sub(range.start);
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
            // A local file, or an answer that is none of the protocol's: the same next time.
            Kind::Corrupt
        }
    };
    Trial::Failed(fault(kind))
}
