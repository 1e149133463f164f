// SPDX-License-Identifier: MIT OR Apache-2.0
//! A runtime with its requests, which C names by numbers.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use cuda::{Executable, Stream};
use libzernel::Level;
use zernel_runtime::{Idle, Options, Request, Runtime, Spec, Want};

use crate::fault::Fault;
use crate::graph::Graphs;

/// Most lanes of a runtime.
const LANES: usize = 64;

/// A runtime with the request that each lane has.
pub(crate) struct Handle {
    runtime: Runtime,
    /// Its requests have never done anything, and never will.
    never: bool,
    requests: [Mutex<Option<Request>>; LANES],
    /// The process that it was made in.
    maker: u32,
    /// The classes that are wanted of it, by their numbers.
    wants: Mutex<BTreeMap<u64, Want>>,
    graphs: Graphs,
}

/// The name of a request: its number in its slot, and above 0 the number of its lane. `None`: it does
/// nothing.
fn name(request: &Request) -> Option<u64> {
    let number = request.number()?.get();
    Some(u64::from(number) << 7 | (u64::from(request.lane()?) + 1))
}

impl Handle {
    pub(crate) fn attach(options: &Options) -> Result<Self, Fault> {
        let runtime = Runtime::attach(options)?;
        Ok(Self {
            never: runtime.tsg().is_none(),
            runtime,
            maker: std::process::id(),
            requests: [const { Mutex::new(None) }; LANES],
            wants: Mutex::default(),
            graphs: Graphs::default(),
        })
    }

    pub(crate) fn runtime(&self) -> &Runtime {
        &self.runtime
    }

    fn place(&self, lane: usize) -> Result<MutexGuard<'_, Option<Request>>, Fault> {
        let place = self.requests.get(lane).ok_or(Fault::Over)?;
        Ok(place.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Begins a request; 0 for one that does nothing.
    pub(crate) fn begin(&self, spec: impl FnOnce() -> Spec) -> Result<u64, Fault> {
        if self.never {
            return Ok(0);
        }
        self.keep(self.runtime.begin(&spec())?)
    }

    /// Begins a request whose deadline is to be promised; 0 for one that does nothing. `earliest`: the
    /// shortest time to a deadline that would have done, if it was refused for that.
    pub(crate) fn begin_admitted(
        &self,
        spec: &Spec,
        burst: Duration,
        earliest: &mut Duration,
    ) -> Result<u64, Fault> {
        let request = self.runtime.begin(&spec.admit(burst))?;
        if let Some(Idle::Late { earliest: told }) = request.idle() {
            *earliest = told.unwrap_or_default();
            return Err(Fault::Late);
        }
        self.keep(request)
    }

    /// Gives a request its name; 0 to one that does nothing.
    fn keep(&self, request: Request) -> Result<u64, Fault> {
        let (Some(name), Some(lane)) = (name(&request), request.lane()) else {
            return Ok(0);
        };
        *self.place(lane as usize)? = Some(request);
        Ok(name)
    }

    /// Records a request in a captured stream. Returns the number of the graph.
    pub(crate) fn record(&self, stream: Stream) -> Result<u64, Fault> {
        self.check_process()?;
        Ok(self.graphs.add(self.runtime.record(stream)?))
    }

    /// A graph can be launched.
    pub(crate) fn instantiated(&self, graph: u64, exec: Executable) -> Result<(), Fault> {
        self.check_process()?;
        self.graphs.instantiated(graph, exec)
    }

    /// Begins the request of the next launch of a graph; 0 for one that does nothing.
    pub(crate) fn begin_in_graph(&self, graph: u64, spec: &Spec) -> Result<u64, Fault> {
        if self.check_process().is_err() {
            // It is counted, and does nothing.
            return self.begin(|| *spec);
        }
        self.keep(self.graphs.requests(graph)?.begin(spec))
    }

    /// Ends a graph, but for its request.
    pub(crate) fn end_graph(&self, graph: u64) -> Result<(), Fault> {
        self.check_process()?;
        self.graphs.remove(graph)
    }

    /// The place of a request; `None` for one that does nothing.
    fn find(&self, named: u64) -> Result<Option<MutexGuard<'_, Option<Request>>>, Fault> {
        if named == 0 {
            return Ok(None);
        }
        let lane = (named & 0x7f).checked_sub(1).ok_or(Fault::Over)?;
        let place = self.place(lane as usize)?;
        match place.as_ref().and_then(name) == Some(named) {
            true => Ok(Some(place)),
            false => Err(Fault::Over),
        }
    }

    /// Has a look at a request that may do nothing.
    pub(crate) fn with<T: Default>(
        &self,
        named: u64,
        look: impl FnOnce(&mut Request) -> T,
    ) -> Result<T, Fault> {
        let Some(mut place) = self.find(named)? else {
            return Ok(T::default());
        };
        place.as_mut().map(look).ok_or(Fault::Over)
    }

    /// Ends a request.
    pub(crate) fn end(&self, named: u64, how: impl FnOnce(Request)) -> Result<(), Fault> {
        let Some(mut place) = self.find(named)? else {
            return Ok(());
        };
        // Its lane has another one as soon as it is over, which waits for the lock.
        place.take().map(how).ok_or(Fault::Over)
    }

    /// A child of `fork()` takes no lock that a thread of its parent may have had.
    fn check_process(&self) -> Result<(), Fault> {
        match std::process::id() == self.maker {
            true => Ok(()),
            false => Err(zernel_runtime::Error::Forked.into()),
        }
    }

    fn wants(&self) -> MutexGuard<'_, BTreeMap<u64, Want>> {
        self.wants.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes a want, or makes one in place of 0. Returns its number.
    pub(crate) fn want(&self, number: u64, level: Level, us: Option<u32>) -> Result<u64, Fault> {
        self.check_process()?;
        let mut wants = self.wants();
        if number != 0 {
            let want = wants.get_mut(&number).ok_or(Fault::NoWant)?;
            want.change(level, us)?;
            return Ok(number);
        }
        let want = self.runtime.want_class(level, us)?;
        let number = want.number();
        wants.insert(number, want);
        Ok(number)
    }

    /// Ends a want.
    pub(crate) fn end_want(&self, number: u64) -> Result<(), Fault> {
        self.check_process()?;
        let want = self.wants().remove(&number).ok_or(Fault::NoWant)?;
        Ok(want.end()?)
    }

    /// Ends a request when a stream has come so far.
    pub(crate) fn end_in(&self, named: u64, stream: Stream) -> Result<(), Fault> {
        if named != 0 {
            self.runtime.check_stream(stream)?;
        }
        self.end(named, |request| request.done_in(stream))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zernel_runtime::Mode;

    #[test]
    fn numbers_that_are_none_are_over() {
        let handle = Handle::attach(&Options::default().mode(Mode::Off)).unwrap();
        assert_eq!(handle.begin(Spec::new), Ok(0));
        assert_eq!(handle.end(0, Request::done), Ok(()));
        assert_eq!(handle.with(0, |_| 7), Ok(0));
        for number in [1, 64, 65, 127, 128, 129, 9 << 7 | 64, u64::MAX] {
            assert_eq!(
                handle.end(number, Request::done),
                Err(Fault::Over),
                "{number}"
            );
            assert_eq!(handle.with(number, |_| 7), Err(Fault::Over), "{number}");
        }
    }
}
