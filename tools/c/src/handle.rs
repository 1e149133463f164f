// SPDX-License-Identifier: MIT OR Apache-2.0
//! A runtime with its requests, which C names by numbers.

use std::sync::{Mutex, MutexGuard, PoisonError};

use cuda::Stream;
use zernel_runtime::{Options, Request, Runtime, Spec};

use crate::fault::Fault;

/// Most lanes of a runtime.
const LANES: usize = 64;

/// A runtime with the request that each lane has.
pub(crate) struct Handle {
    runtime: Runtime,
    requests: [Mutex<Place>; LANES],
}

/// The request of a lane, and how many it has had.
#[derive(Default)]
struct Place {
    request: Option<Request>,
    count: u64,
}

/// Number of a request: how many its lane has had by then, and above 0 the number of the lane.
fn name(lane: usize, count: u64) -> u64 {
    count << 7 | (lane as u64 + 1)
}

impl Handle {
    pub(crate) fn attach(options: &Options) -> Result<Self, Fault> {
        Ok(Self {
            runtime: Runtime::attach(options)?,
            requests: [const {
                Mutex::new(Place {
                    request: None,
                    count: 0,
                })
            }; LANES],
        })
    }

    pub(crate) fn runtime(&self) -> &Runtime {
        &self.runtime
    }

    fn place(&self, lane: usize) -> Result<MutexGuard<'_, Place>, Fault> {
        let place = self.requests.get(lane).ok_or(Fault::Over)?;
        Ok(place.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Begins a request; 0 for one that does nothing.
    pub(crate) fn begin(&self, spec: &Spec) -> Result<u64, Fault> {
        let request = self.runtime.begin(spec)?;
        let Some(lane) = request.lane() else {
            return Ok(0);
        };
        let lane = lane as usize;
        let mut place = self.place(lane)?;
        place.count += 1;
        place.request = Some(request);
        Ok(name(lane, place.count))
    }

    /// The place of a request; `None` for one that does nothing.
    fn find(&self, number: u64) -> Result<Option<MutexGuard<'_, Place>>, Fault> {
        let Some(lane) = (number & 0x7f).checked_sub(1) else {
            return match number {
                0 => Ok(None),
                _ => Err(Fault::Over),
            };
        };
        let place = self.place(lane as usize)?;
        match place.request.is_some() && place.count == number >> 7 {
            true => Ok(Some(place)),
            false => Err(Fault::Over),
        }
    }

    /// Has a look at a request that may do nothing.
    pub(crate) fn with<T: Default>(
        &self,
        number: u64,
        look: impl FnOnce(&mut Request) -> T,
    ) -> Result<T, Fault> {
        let Some(mut place) = self.find(number)? else {
            return Ok(T::default());
        };
        place.request.as_mut().map(look).ok_or(Fault::Over)
    }

    /// Ends a request.
    pub(crate) fn end(&self, number: u64, how: impl FnOnce(Request)) -> Result<(), Fault> {
        let Some(mut place) = self.find(number)? else {
            return Ok(());
        };
        // Its lane has another one as soon as it is over, which waits for the lock.
        place.request.take().map(how).ok_or(Fault::Over)
    }

    /// Ends a request when a stream has come so far.
    pub(crate) fn end_in(&self, number: u64, stream: Stream) -> Result<(), Fault> {
        if number != 0 {
            self.runtime.check_stream(stream)?;
        }
        self.end(number, |request| request.done_in(stream))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zernel_runtime::Mode;

    #[test]
    fn numbers_that_are_none_are_over() {
        let handle = Handle::attach(&Options::default().mode(Mode::Off)).unwrap();
        assert_eq!(handle.begin(&Spec::new()), Ok(0));
        assert_eq!(handle.end(0, Request::done), Ok(()));
        assert_eq!(handle.with(0, |_| 7), Ok(0));
        for number in [1, 64, 65, 127, 128, name(0, 1), name(63, 9), u64::MAX] {
            assert_eq!(
                handle.end(number, Request::done),
                Err(Fault::Over),
                "{number}"
            );
            assert_eq!(handle.with(number, |_| 7), Err(Fault::Over), "{number}");
        }
    }
}
