// SPDX-License-Identifier: MIT OR Apache-2.0
//! The runtime of a context, which works or is inert.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use libzernel::class::Attributes;
use libzernel::request::{Of, RequestStats};
use libzernel::{tsg, Level, Target};

use crate::active::Active;
use crate::counters::{count, Counters};
use crate::graph::Recorded;
use crate::request::{Held, Idle, Request, Spec};
use crate::{sys, Error, Mode, Options, Result};

/// Requests of a CUDA context. Clones are the same runtime; threads share it.
#[derive(Debug, Clone)]
pub struct Runtime(Inner);

#[derive(Debug, Clone)]
enum Inner {
    Active(Arc<Active>),
    Inert(Arc<Error>),
}

impl Runtime {
    /// For the context that is current in this thread. It must not be destroyed before the runtime
    /// and its requests are dropped; one that is gets errors, which the runtime takes as its loss.
    ///
    /// # Errors
    ///
    /// A misuse ([`Error::is_misuse`]) always. A machine on which there are no requests is an error
    /// with [`Mode::Require`] alone; otherwise the runtime is inert, and with [`Mode::Auto`] a line
    /// on the standard error says why, once for each reason.
    pub fn attach(options: &Options) -> Result<Self> {
        options.check()?;
        let why = match options.mode {
            Mode::Off => Error::Off,
            _ => match Active::new(options) {
                Ok(active) => return Ok(Self(Inner::Active(Arc::new(active)))),
                Err(error) if error.is_misuse() || options.mode == Mode::Require => {
                    return Err(error);
                }
                Err(error) => {
                    warn_once(&error);
                    error
                }
            },
        };
        Ok(Self(Inner::Inert(Arc::new(why))))
    }

    pub(crate) fn active(&self) -> Option<&Arc<Active>> {
        match &self.0 {
            Inner::Active(active) => Some(active),
            Inner::Inert(_) => None,
        }
    }

    /// Why its requests do nothing, if they do nothing.
    pub fn inert(&self) -> Option<Error> {
        match &self.0 {
            Inner::Inert(why) => Some((**why).clone()),
            Inner::Active(_) if sys::is_child() => Some(Error::Forked),
            Inner::Active(active) => active.lost().cloned().map(Error::Lost),
        }
    }

    /// The TSG of its context.
    pub fn tsg(&self) -> Option<tsg::Id> {
        self.active().map(|active| active.tsg())
    }

    /// Begins a request: its data is prepared from now on. It never waits.
    ///
    /// # Errors
    ///
    /// [`Error::ForeignStream`], [`Error::Capturing`] for the stream of [`Spec::inline`], and those
    /// of CUDA for one that it does not know. Nothing has begun then.
    pub fn begin(&self, spec: &Spec) -> Result<Request> {
        let Some(active) = self.active() else {
            return Ok(Request::nothing(Idle::Inert));
        };
        if let Some(why) = active.is_idle() {
            return Ok(Request::nothing(why));
        }
        if let Some(stream) = spec.stream {
            active.check_stream(stream)?;
        }
        let Some(lane) = active.take_lane() else {
            count(&active.counting.no_lane);
            return Ok(Request::nothing(Idle::NoLane));
        };
        match active.begin(lane, &spec.begin(active.tsg()), spec.stream) {
            Ok(begun) => {
                let held = Held::new(active.clone(), lane, begun, spec.is_promised());
                Ok(Request::new(held))
            }
            Err(why) => {
                active.give_lane(lane);
                Ok(Request::nothing(why))
            }
        }
    }

    /// Puts a request into a stream whose calls are captured for a graph: what is captured there from
    /// now on is work of the request that a launch has. It takes a lane for itself.
    ///
    /// # Errors
    ///
    /// [`Error::NotCapturing`], [`Error::ForeignStream`], [`Error::NoLane`], [`Error::Forked`], those of
    /// CUDA, which may have ended the capture. Where the runtime is inert nothing is put there.
    pub fn record(&self, stream: cuda::Stream) -> Result<Recorded> {
        match self.active() {
            Some(_) if sys::is_child() => Err(Error::Forked),
            Some(active) => Recorded::new(active, stream),
            None => Ok(Recorded::nothing()),
        }
    }

    /// Fails for a stream that requests cannot be put into; for none where it is inert.
    ///
    /// # Errors
    ///
    /// [`Error::ForeignStream`], [`Error::Capturing`], those of CUDA; [`Error::Forked`].
    pub fn check_stream(&self, stream: cuda::Stream) -> Result<()> {
        match self.active() {
            Some(_) if sys::is_child() => Err(Error::Forked),
            Some(active) => active.check_stream(stream),
            None => Ok(()),
        }
    }

    /// Gives the TSG of its context a level; nothing where it is inert.
    ///
    /// # Errors
    ///
    /// As [`Self::set_class`].
    pub fn set_level(&self, level: Level) -> Result<()> {
        self.set_class(level)
    }

    /// Gives the TSG of its context attributes of a class; nothing where it is inert.
    ///
    /// # Errors
    ///
    /// [`Error::Zernel`], such as `EPERM` for a level that takes privilege; [`Error::Forked`].
    pub fn set_class(&self, class: impl Into<Attributes>) -> Result<()> {
        match self.active() {
            Some(_) if sys::is_child() => Err(Error::Forked),
            Some(active) => {
                let target = Target::Tsg(active.tsg());
                Ok(active.zernel().set_class(&target, class)?)
            }
            None => Ok(()),
        }
    }

    /// Its counters.
    pub fn counters(&self) -> Counters {
        let read = |active: &Arc<Active>| active.counting.read();
        self.active().map(read).unwrap_or_default()
    }

    /// The outcomes of the requests of its TSG, as zernel counts them; `None` where it is inert.
    ///
    /// # Errors
    ///
    /// [`Error::Zernel`], [`Error::Forked`].
    pub fn stats(&self) -> Result<Option<RequestStats>> {
        match self.active() {
            Some(_) if sys::is_child() => Err(Error::Forked),
            Some(active) => Ok(Some(active.zernel().request_stats(Of::Tsg(active.tsg()))?)),
            None => Ok(None),
        }
    }
}

/// Says on the standard error why there are no requests, once for each reason.
fn warn_once(why: &Error) {
    static TOLD: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());
    let mut told = TOLD.lock().unwrap_or_else(PoisonError::into_inner);
    if told.insert(why.name()) {
        eprintln!("zernel: {why}; this program runs without requests");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Options of a machine that has nothing.
    fn nothing() -> Options {
        Options::default()
            .library("/nonexistent/libcuda.so.1")
            .device("/nonexistent/zernel")
    }

    #[test]
    fn without_module_or_cuda_it_is_inert_or_an_error() {
        for (device, name) in [
            ("/nonexistent/zernel", "ZERNEL_NO_MODULE"),
            ("/dev/null", "ZERNEL_NO_CUDA"),
        ] {
            let options = nothing().device(device);
            let runtime = Runtime::attach(&options).unwrap();
            assert_eq!(runtime.inert().unwrap().name(), name);
            let error = Runtime::attach(&options.mode(Mode::Require)).unwrap_err();
            assert_eq!(error.name(), name);
        }
        let off = Runtime::attach(&nothing().mode(Mode::Off)).unwrap();
        assert_eq!(off.inert(), Some(Error::Off));
    }

    #[test]
    fn misuse_is_an_error_anyway() {
        for mode in [Mode::Auto, Mode::Off, Mode::Require] {
            let error = Runtime::attach(&nothing().lanes(65).mode(mode)).unwrap_err();
            assert_eq!(error, Error::Lanes(65));
        }
    }

    #[test]
    fn an_inert_request_does_nothing() {
        let runtime = Runtime::attach(&nothing().mode(Mode::Off)).unwrap();
        let mut request = runtime.begin(&Spec::new().key(1)).unwrap();
        assert_eq!(request.idle(), Some(Idle::Inert));
        assert_eq!((request.number(), request.predicted()), (None, None));
        request.ready();
        request.ready();
        request.done();
        runtime.begin(&Spec::new()).unwrap().cancel();
        drop(runtime.begin(&Spec::new()).unwrap());
        assert_eq!(runtime.counters(), Counters::default());
        assert_eq!(runtime.tsg(), None);
        assert_eq!(runtime.stats(), Ok(None));
        assert_eq!(runtime.set_level(Level::LC), Ok(()));
    }
}
