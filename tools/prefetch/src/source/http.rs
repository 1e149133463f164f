// SPDX-License-Identifier: MIT OR Apache-2.0
//! Answers of HTTP stores that are faults: their status and the time that they ask for, which the
//! library of stores does not tell.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use http::header::RETRY_AFTER;
use http::StatusCode;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse, HttpService,
    ReqwestConnector,
};
use object_store::ClientOptions;

/// The longest time that a store may ask for.
const LONGEST: Duration = Duration::from_secs(60);

/// A store that did not do what it was asked for, and may do later.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the store answers {status}")]
pub struct Busy {
    /// Its answer.
    pub status: StatusCode,
    /// It asks for so much time.
    pub after: Option<Duration>,
}

/// Makes connections whose faults say when to ask again.
#[derive(Debug, Default)]
pub struct Connector;

impl HttpConnector for Connector {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        // One for the process; another that was there before is as good.
        let _there_before = rustls::crypto::ring::default_provider().install_default();
        let client = ReqwestConnector::default().connect(options)?;
        Ok(HttpClient::new(Telling(Arc::new(client))))
    }
}

#[derive(Debug)]
struct Telling(Arc<HttpClient>);

#[async_trait]
impl HttpService for Telling {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let response = self.0.execute(request).await?;
        match busy(&response) {
            // Of this kind the library tries none again.
            Some(busy) => Err(HttpError::new(HttpErrorKind::Unknown, busy)),
            None => Ok(response),
        }
    }
}

fn busy(response: &HttpResponse) -> Option<Busy> {
    let status = response.status();
    // S3 says "SlowDown" with 503, others with 429.
    let is_busy = status.is_server_error()
        || status == StatusCode::TOO_MANY_REQUESTS
        || status == StatusCode::REQUEST_TIMEOUT;
    is_busy.then(|| Busy {
        status,
        after: response
            .headers()
            .get(RETRY_AFTER)
            .and_then(|value| value.to_str().ok()?.trim().parse().ok())
            .map(|seconds| Duration::from_secs(seconds).min(LONGEST)),
    })
}

/// The errors of a chain.
fn chain(error: &object_store::Error) -> impl Iterator<Item = &(dyn std::error::Error + 'static)> {
    let first: &(dyn std::error::Error + 'static) = error;
    std::iter::successors(Some(first), |error| error.source())
}

/// The answer of a store that is in a chain of errors.
pub fn find(error: &object_store::Error) -> Option<Busy> {
    chain(error).find_map(|error| error.downcast_ref().copied())
}

/// A connection that failed, in any way, is in a chain of errors.
pub fn is_transport(error: &object_store::Error) -> bool {
    chain(error).any(|error| error.is::<HttpError>())
}

/// The kind of the error of a file that is in a chain of errors.
pub fn io_kind(error: &object_store::Error) -> Option<std::io::ErrorKind> {
    chain(error).find_map(|error| Some(error.downcast_ref::<std::io::Error>()?.kind()))
}
