// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads in the order of a stream, by cuFile or by the CPU: all that they use stays until they are over.

use std::sync::Arc;

use cuda::{Context, Driver, Memory, OwnStream, Stream};

use super::cufile::{Asked, CuFile, Handle};
use crate::batch::Ticket;
use crate::sync::{lock, AtomicBool, Mutex, Ordering};
use crate::{Fault, Kind};

/// A read that was begun.
#[derive(Debug)]
struct Flying {
    is_over: Arc<AtomicBool>,
    _memory: Arc<Memory>,
    _file: Option<Arc<Handle>>,
}

/// A stream for reads. Dropped, it waits for them.
///
/// # Invariants
///
/// The stream is registered with `cufile`, if there is one.
#[derive(Debug)]
pub(crate) struct Lane {
    driver: Arc<Driver>,
    context: Context,
    stream: OwnStream,
    cufile: Option<Arc<CuFile>>,
    flying: Mutex<Vec<Flying>>,
}

/// The bytes of a read.
pub(crate) enum Bytes {
    /// They are to be read from a file, by cuFile: the file, the number of bytes, and the first of them.
    Of(Arc<Handle>, usize, i64),
    /// They were read.
    Here(Vec<u8>),
}

/// The end of a read.
struct End {
    ticket: Ticket,
    is_over: Arc<AtomicBool>,
}

impl End {
    fn told(self, fault: Option<Fault>) {
        // All that it used may go, before the one who waits goes on.
        self.is_over.store(true, Ordering::Release);
        match fault {
            None => self.ticket.done(),
            Some(fault) => self.ticket.fail(fault),
        }
    }
}

fn fault(key: &str, why: impl std::fmt::Display) -> Fault {
    Fault::new(Kind::Unavailable, format!("{key}: {why}"))
}

impl Lane {
    /// A new stream of a context. A sentence for people if cuFile does not take it: reads are those of
    /// the CPU, then.
    pub(crate) fn new(
        driver: &Arc<Driver>,
        context: Context,
        cufile: Option<&Arc<CuFile>>,
    ) -> cuda::Result<(Self, Option<String>)> {
        let stream = driver.create_usual_stream(context)?;
        let registered = cufile.map(|cufile| cufile.register_stream(stream.stream()));
        let why = registered.and_then(Result::err);
        // INVARIANT: It was registered, if there was no error.
        let lane = Self {
            driver: Arc::clone(driver),
            context,
            stream,
            cufile: cufile.filter(|_| why.is_none()).cloned(),
            flying: Mutex::default(),
        };
        Ok((lane, why))
    }

    /// Reads by cuFile can be begun.
    pub(crate) fn is_direct(&self) -> bool {
        self.cufile.is_some()
    }

    /// Its stream.
    pub(crate) fn stream(&self) -> Stream {
        self.stream.stream()
    }

    /// Reads that were begun and are not over.
    pub(crate) fn flying(&self) -> usize {
        let mut flying = lock(&self.flying);
        let all = std::mem::take(&mut *flying);
        let is_over = |read: &Flying| read.is_over.load(Ordering::Acquire);
        let (over, left): (Vec<_>, Vec<_>) = all.into_iter().partition(is_over);
        let count = left.len();
        *flying = left;
        drop(flying);
        // Memory that is freed may wait for the GPU, and others need the lock meanwhile.
        drop(over);
        count
    }

    /// True if nothing is left to do.
    pub(crate) fn is_idle(&self) -> cuda::Result<bool> {
        self.driver.enter(self.context)?.is_idle(self.stream())
    }

    /// Waits until nothing is left to do.
    pub(crate) fn wait(&self) -> cuda::Result<()> {
        self.driver.enter(self.context)?.wait_idle(self.stream())
    }

    /// Begins a read to a place in memory. `key`: its name in faults. The ticket is done behind it; it is
    /// dropped if there is an error.
    pub(crate) fn begin(
        &self,
        key: &str,
        bytes: Bytes,
        memory: &Arc<Memory>,
        at: usize,
        ticket: Ticket,
    ) -> Result<(), Fault> {
        let end = End {
            ticket,
            is_over: Arc::default(),
        };
        let is_over = Arc::clone(&end.is_over);
        let file = match &bytes {
            Bytes::Of(file, ..) => Some(Arc::clone(file)),
            Bytes::Here(_) => None,
        };
        let entered = self.driver.enter(self.context);
        let entered = entered.map_err(|error| fault(key, error))?;
        // A graph would read as often as it is launched, to memory that nobody keeps.
        match entered.is_capturing(self.stream()) {
            Ok(false) => {}
            Ok(true) => {
                let text = format!("{key}: its stream is captured for a graph");
                return Err(Fault::new(Kind::Misuse, text));
            }
            Err(error) => return Err(fault(key, error)),
        }
        // It is there before the read is.
        lock(&self.flying).push(Flying {
            is_over: Arc::clone(&is_over),
            _memory: Arc::clone(memory),
            _file: file,
        });
        let begun = match (bytes, &self.cufile) {
            (Bytes::Here(bytes), _) => {
                // SAFETY: The memory stays in the list until the end is told.
                unsafe { memory.send(&entered, self.stream(), at, bytes, || end.told(None)) }
                    .map_err(|error| fault(key, error))
            }
            (Bytes::Of(file, size, from), Some(cufile)) => self.direct(
                key,
                cufile,
                &entered,
                (&file, size, from),
                (memory, at),
                end,
            ),
            (Bytes::Of(..), None) => {
                let text = format!("{key}: a lane without cuFile");
                Err(Fault::new(Kind::Misuse, text))
            }
        };
        // A read that failed halfway may go on: all that it uses stays until the stream was idle.
        if begun.is_err() && matches!(entered.is_idle(self.stream()), Ok(true)) {
            is_over.store(true, Ordering::Release);
        }
        self.flying();
        begun
    }

    fn direct(
        &self,
        key: &str,
        cufile: &CuFile,
        entered: &cuda::Entered<'_>,
        (file, size, from): (&Handle, usize, i64),
        (memory, at): (&Memory, usize),
        end: End,
    ) -> Result<(), Fault> {
        let within = at.checked_add(size).filter(|end| *end <= memory.length());
        let (Some(_), Ok(place)) = (within, i64::try_from(at)) else {
            let text = format!("{key}: {size} bytes at {at} of {}", memory.length());
            return Err(Fault::new(Kind::Misuse, text));
        };
        let asked = Asked::new(size, from, place);
        // SAFETY: The stream is registered by the invariant. File and memory stay in the list until the
        // end is told, `asked` is that function's; the place was checked.
        let begun = unsafe { cufile.read(self.stream(), file, memory.base(), &asked) };
        if let Err(why) = begun {
            end.is_over.store(true, Ordering::Release);
            return Err(fault(key, why));
        }
        let (own, name) = (Arc::clone(&asked), key.to_owned());
        let behind = entered.when_idle(self.stream(), move || {
            // SAFETY: The read is before this in the stream.
            let found = unsafe { own.found() };
            end.told(match usize::try_from(found) {
                Ok(count) if count == size => None,
                Ok(count) => Some(fault(&name, format!("{count} bytes came, of {size}"))),
                Err(_) => Some(fault(&name, format!("cuFileReadAsync: error {found}"))),
            });
        });
        if let Err(error) = &behind {
            if entered.wait_idle(self.stream()).is_err() {
                // It may be written to for as long as the process lives.
                std::mem::forget(asked);
            }
            return Err(fault(key, error));
        }
        Ok(())
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        if self.wait().is_err() {
            // Its reads may go on: memory and files stay until the process ends.
            std::mem::forget(std::mem::take(&mut *lock(&self.flying)));
        }
        if let Some(cufile) = &self.cufile {
            cufile.deregister_stream(self.stream());
        }
    }
}
