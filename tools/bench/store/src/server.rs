// SPDX-License-Identifier: MIT OR Apache-2.0
//! Connections of a store: each waits, and so does each request on it.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use hyper::body::{Body, Frame, SizeHint};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;

use crate::link::Link;
use crate::objects::{plain, Objects};
use crate::weather::Weather;

/// The name of an object that is not one: the counts of the store, at once and not counted.
pub const COUNTS: &str = "/.counts";

/// Bytes that are sent as one.
const PIECE: usize = 64 << 10;

/// Counts from the beginning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
pub struct Counts {
    /// Connections that were made.
    pub connections: u64,
    /// Requests that came.
    pub requests: u64,
    /// Those that were answered with 503.
    pub errors: u64,
    /// Bytes of bodies that were sent, or are to be.
    pub bytes: u64,
    /// Requests that were there at once, at the most.
    pub at_once: u64,
}

#[derive(Debug, Default)]
struct Counters {
    connections: AtomicU64,
    requests: AtomicU64,
    errors: AtomicU64,
    bytes: AtomicU64,
    now: AtomicU64,
    at_once: AtomicU64,
}

/// A store.
#[derive(Debug)]
pub struct Store {
    objects: Objects,
    weather: Weather,
    link: Link,
    counters: Counters,
}

/// A request that is there.
struct Here<'a>(&'a Counters);

impl<'a> Here<'a> {
    fn new(counters: &'a Counters) -> Self {
        let now = counters.now.fetch_add(1, Ordering::Relaxed) + 1;
        counters.at_once.fetch_max(now, Ordering::Relaxed);
        Self(counters)
    }
}

impl Drop for Here<'_> {
    fn drop(&mut self) {
        self.0.now.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Store {
    /// A store with objects, under a weather.
    pub fn new(objects: Objects, weather: Weather) -> Arc<Self> {
        Arc::new(Self {
            objects,
            weather,
            link: Link::new(weather.bandwidth),
            counters: Counters::default(),
        })
    }

    /// Its counts.
    pub fn counts(&self) -> Counts {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Counts {
            connections: get(&self.counters.connections),
            requests: get(&self.counters.requests),
            errors: get(&self.counters.errors),
            bytes: get(&self.counters.bytes),
            at_once: get(&self.counters.at_once),
        }
    }

    /// Serves all who connect, until it is dropped.
    ///
    /// # Errors
    ///
    /// No connection can be taken any more.
    pub async fn serve(self: Arc<Self>, listener: TcpListener) -> std::io::Result<Infallible> {
        loop {
            let (stream, _) = listener.accept().await?;
            // Small answers are not held back.
            stream.set_nodelay(true)?;
            tokio::spawn(Arc::clone(&self).connection(stream));
        }
    }

    /// Serves one who has connected, to the end of the connection.
    pub async fn connection(self: Arc<Self>, stream: impl AsyncRead + AsyncWrite + Unpin) {
        self.counters.connections.fetch_add(1, Ordering::Relaxed);
        tokio::time::sleep(self.weather.connect).await;
        let service = service_fn(|request| {
            let store = Arc::clone(&self);
            async move { Ok::<_, Infallible>(store.answer(request).await) }
        });
        let serving = http1::Builder::new().serve_connection(TokioIo::new(stream), service);
        // One that breaks off is the business of its other end.
        let _ended = serving.await;
    }

    async fn answer<B>(self: Arc<Self>, request: Request<B>) -> Response<Slowly> {
        if request.uri().path() == COUNTS {
            return self.slowly(Response::new(self.counts_text().into()), false);
        }
        let _here = Here::new(&self.counters);
        let number = self.counters.requests.fetch_add(1, Ordering::Relaxed);
        let fate = self.weather.fate(number);
        tokio::time::sleep(fate.wait).await;
        if fate.fails {
            self.counters.errors.fetch_add(1, Ordering::Relaxed);
            return self.slowly(plain(StatusCode::SERVICE_UNAVAILABLE), false);
        }
        let answer = self
            .objects
            .answer(request.method(), request.uri().path(), request.headers());
        self.slowly(answer, request.method() != Method::HEAD)
    }

    /// The counts as an object of JSON.
    fn counts_text(&self) -> String {
        let Counts {
            connections,
            requests,
            errors,
            bytes,
            at_once,
        } = self.counts();
        format!(
            "{{\"connections\": {connections}, \"requests\": {requests}, \"errors\": {errors}, \
             \"bytes\": {bytes}, \"at_once\": {at_once}}}"
        )
    }

    fn slowly(self: &Arc<Self>, answer: Response<Bytes>, counts: bool) -> Response<Slowly> {
        if counts {
            let bytes = answer.body().len() as u64;
            self.counters.bytes.fetch_add(bytes, Ordering::Relaxed);
        }
        answer.map(|rest| Slowly {
            store: Arc::clone(self),
            rest,
            passing: None,
        })
    }
}

/// A body that goes over the link piece by piece.
pub struct Slowly {
    store: Arc<Store>,
    rest: Bytes,
    passing: Option<Pin<Box<dyn std::future::Future<Output = Bytes> + Send>>>,
}

impl Body for Slowly {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let mut passing = match self.passing.take() {
            Some(passing) => passing,
            None if self.rest.is_empty() => return Poll::Ready(None),
            None => {
                let length = PIECE.min(self.rest.len());
                let piece = self.rest.split_to(length);
                let store = Arc::clone(&self.store);
                Box::pin(async move {
                    store.link.pass(piece.len() as u64).await;
                    piece
                })
            }
        };
        match passing.as_mut().poll(context) {
            Poll::Ready(piece) => Poll::Ready(Some(Ok(Frame::data(piece)))),
            Poll::Pending => {
                self.passing = Some(passing);
                Poll::Pending
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.passing.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        match &self.passing {
            // Asked for before the first piece alone.
            Some(_) => SizeHint::default(),
            None => SizeHint::with_exact(self.rest.len() as u64),
        }
    }
}
