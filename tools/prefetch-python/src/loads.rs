// SPDX-License-Identifier: MIT OR Apache-2.0
//! The class `Loads`: batches that are on their way, for the iterators of the package.
//!
//! No thread but those of Python calls Python: a thread of the loader rings a bell.

use std::collections::VecDeque;
use std::future::Future as _;
use std::os::fd::RawFd;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use futures_util::stream::poll_fn;
use pyo3::exceptions::{PyOverflowError, PyStopIteration, PyValueError};
use pyo3::prelude::*;
use tokio::sync::mpsc::{unbounded_channel, UnboundedSender};
use zernel_prefetch::loader::{Loaded, Loader, Settings};
use zernel_prefetch::order::Position;
use zernel_prefetch::prefetcher::Sample;
use zernel_prefetch::read::Waves;
use zernel_prefetch::region::Region;

use crate::bell::Bell;
use crate::element::Element;
use crate::error::{call, Error};
use crate::prefetcher::{Prefetcher, Running};
use crate::sys::{self, Buffer, Tensor};

/// The place of a sample.
type Asked = (String, Vec<u64>, Vec<u64>);

/// A loader and its input.
#[derive(Debug, Default)]
struct Open {
    loader: Option<Loader>,
    /// `None`: all batches were submitted.
    batches: Option<UnboundedSender<(Position, Vec<Sample>)>>,
    /// The number of the last batch that was submitted.
    last: u64,
    /// Of the batches that the loader has.
    numbers: VecDeque<u64>,
    /// The batch that it has given. It stays until one who asks says that it was handed over: a signal can
    /// come in between.
    kept: Option<(u64, Result<Vec<Tensor>, Error>)>,
}

impl Open {
    /// Drops the batch that it has given, if it was handed over.
    fn passed(&mut self, number: u64) {
        self.kept = self.kept.take().filter(|(kept, _)| *kept > number);
    }
}

/// Batches on their way, in the order in which they were submitted.
#[pyclass(frozen, module = "zernel_prefetch._native")]
pub(crate) struct Loads {
    /// It is held with the lock of the interpreter alone, so that no child finds it held.
    open: Mutex<Open>,
    bell: Arc<Bell>,
    is_read_only: bool,
    running: Arc<Running>,
}

impl Loads {
    fn open(&self) -> Result<MutexGuard<'_, Open>, Error> {
        // A fault in a child.
        self.running.native()?;
        Ok(self.open.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn tensors(&self, loaded: Loaded) -> Result<Vec<Tensor>, Error> {
        let Loaded {
            samples,
            data,
            arrays,
            ..
        } = loaded;
        let all = samples.into_iter().zip(data).zip(arrays);
        let tensors = all.map(|((sample, bytes), array)| {
            let element = Element::new(array.data_type(), array.fill_value().len());
            let buffer = Buffer::new(bytes);
            Tensor::new(sample, element, buffer, self.is_read_only)
        });
        tensors.collect()
    }
}

impl Drop for Loads {
    fn drop(&mut self) {
        if !self.running.is_here() {
            let open = self.open.get_mut().unwrap_or_else(PoisonError::into_inner);
            // Its work, and locks, stayed with the parent.
            std::mem::forget((open.loader.take(), open.batches.take()));
        }
    }
}

fn sample((array, start, shape): Asked) -> Sample {
    Sample {
        array: array.into(),
        region: Region::new(&start, &shape),
    }
}

#[pymethods]
impl Loads {
    #[new]
    #[expect(clippy::too_many_arguments, reason = "Python has them by name")]
    fn new(
        prefetcher: &Prefetcher,
        lookahead: usize,
        depth: usize,
        bytes: u64,
        max_chunks: u32,
        max_substreams: u32,
        changes: u32,
        readonly: bool,
        published: bool,
    ) -> PyResult<Self> {
        call(|| {
            for (name, value) in [
                ("lookahead", lookahead as u64),
                ("depth", depth as u64),
                ("bytes", bytes),
                ("max_chunks", max_chunks.into()),
                ("max_substreams", max_substreams.into()),
            ] {
                if value == 0 {
                    return Err(Error::misuse(format!("{name}=0: it is 1 at least")));
                }
            }
            if depth > usize::MAX >> 8 {
                return Err(Error::misuse(format!("depth={depth} is out of range")));
            }
            let settings = Settings {
                lookahead,
                depth,
                bytes,
                waves: Waves {
                    max_chunks,
                    max_substreams,
                },
                changes,
                published,
                ..Settings::default()
            };
            let bell = Bell::new();
            let bell = bell.map_err(|errno| Error::Internal(format!("eventfd: {errno}")))?;
            let running = prefetcher.running()?;
            let (send, mut batches) = unbounded_channel();
            let batches = poll_fn(move |context| batches.poll_recv(context));
            let loader = Loader::streamed(running.native()?, settings, batches)?;
            Ok(Self {
                open: Mutex::new(Open {
                    loader: Some(loader),
                    batches: Some(send),
                    ..Open::default()
                }),
                bell,
                is_read_only: readonly,
                running,
            })
        })
    }

    /// Has a batch be loaded, by its number, which is above those before it. One that was submitted is
    /// loaded once.
    fn submit(&self, py: Python<'_>, number: u64, samples: Vec<Bound<'_, PyAny>>) -> PyResult<()> {
        let asked = samples.into_iter().map(|asked| {
            asked.extract::<Asked>().map_err(|error| {
                // Numbers out of range, and tuples of another length.
                match error.is_instance_of::<PyOverflowError>(py)
                    || error.is_instance_of::<PyValueError>(py)
                {
                    true => Error::misuse(format!("{asked} is no sample: {error}")).into(),
                    false => error,
                }
            })
        });
        let samples = asked.collect::<PyResult<Vec<_>>>()?;
        call(|| {
            let samples = samples.into_iter().map(sample).collect();
            let mut open = self.open()?;
            if number <= open.last {
                return Ok(());
            }
            let sent = open.batches.as_ref().map(|batches| {
                // One that is closed needs none.
                let _is_closed = batches.send((Position::default(), samples));
            });
            sent.ok_or_else(|| Error::misuse("all batches were submitted"))?;
            open.last = number;
            open.numbers.push_back(number);
            Ok(())
        })
    }

    /// There are no more batches.
    fn end(&self) -> PyResult<()> {
        call(|| {
            self.open()?.batches = None;
            Ok(())
        })
    }

    /// The batch behind those that have passed, by the number of the last; `None`: it is on its way, and
    /// the bell will ring. `StopIteration`: there is none. It is the same one until it has passed.
    fn try_next(&self, passed: u64) -> PyResult<Option<Vec<Tensor>>> {
        let next = call(|| {
            let mut open = self.open()?;
            let open = &mut *open;
            open.passed(passed);
            if let Some((_, tensors)) = &open.kept {
                return tensors.clone().map(Some).map(Poll::Ready);
            }
            let Some(loader) = &mut open.loader else {
                return Ok(Poll::Ready(None));
            };
            let waker = Waker::from(Arc::clone(&self.bell));
            let mut context = Context::from_waker(&waker);
            loop {
                let loaded = match pin!(loader.next()).poll(&mut context) {
                    Poll::Ready(Some(loaded)) => loaded.map_err(Error::from),
                    Poll::Ready(None) => return Ok(Poll::Ready(None)),
                    Poll::Pending => return Ok(Poll::Pending),
                };
                let number = open.numbers.pop_front();
                if number.is_some_and(|number| number <= passed) {
                    // It has passed without these loads.
                    continue;
                }
                let tensors = loaded.and_then(|loaded| self.tensors(loaded));
                open.kept = number.map(|number| (number, tensors.clone()));
                return tensors.map(Some).map(Poll::Ready);
            }
        })?;
        match next {
            Poll::Ready(Some(tensors)) => Ok(Some(tensors)),
            Poll::Ready(None) => Err(PyStopIteration::new_err(())),
            Poll::Pending => Ok(None),
        }
    }

    /// The batches up to a number were handed over: their memory is not kept here.
    fn passed(&self, number: u64) -> PyResult<()> {
        call(|| {
            self.open()?.passed(number);
            Ok(())
        })
    }

    /// Waits for the bell, for some seconds, while other threads run. A signal ends it.
    fn wait(&self, py: Python<'_>, seconds: f64) -> PyResult<()> {
        let time = Duration::try_from_secs_f64(seconds).unwrap_or_default();
        let bell = &self.bell;
        py.detach(|| {
            call(|| {
                bell.wait(time);
                Ok(())
            })
        })?;
        py.check_signals()
    }

    /// Wakes those who wait.
    fn ring(&self) {
        self.bell.ring();
    }

    /// Takes what has rung.
    fn hush(&self) {
        self.bell.hush();
    }

    /// The bell, for a loop of asyncio.
    fn fileno(&self) -> RawFd {
        self.bell.number()
    }

    /// Ends the work; those who wait go on.
    fn close(&self) -> PyResult<()> {
        let open = call(|| Ok(std::mem::take(&mut *self.open()?)))?;
        drop(open);
        self.bell.ring();
        Ok(())
    }
}

/// The number of samples whose memory somebody has, and their bytes, in this process.
#[pyfunction]
pub(crate) fn alive() -> (usize, usize) {
    sys::alive()
}
