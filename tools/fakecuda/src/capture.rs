// SPDX-License-Identifier: MIT OR Apache-2.0
//! Captures: calls on streams that become the nodes of a graph.

use std::cell::Cell;
use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

use rustix::process::Pid;
use rustix::thread::gettid;

use crate::call::Call;
use crate::context::Context;
use crate::driver::{lock, Target};
use crate::event::{Event, State};
use crate::graph::Graph;
use crate::queue::LEGACY;
use crate::status::{Result, Status};

/// Calls that could break a capture of any thread are refused.
const GLOBAL: i32 = 0;
/// No call of the thread is refused for what it could do to a capture.
const RELAXED: i32 = 2;

thread_local! {
    static MODE: Cell<i32> = const { Cell::new(GLOBAL) };
}

/// Sets the mode of this thread, 0 to 2. Returns the one before.
pub(crate) fn exchange_mode(mode: i32) -> i32 {
    MODE.replace(mode)
}

/// A point in a capture: the nodes that come before it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Mark {
    session: u64,
    nodes: Vec<u64>,
}

/// A stream of a context.
type Key = (u64, u64);

#[derive(Debug)]
struct Session {
    graph: Arc<Graph>,
    origin: Key,
    mode: i32,
    thread: Pid,
    is_valid: bool,
}

#[derive(Debug, Default)]
struct Captures {
    last: u64,
    sessions: HashMap<u64, Session>,
    streams: HashMap<Key, Mark>,
}

/// The state of a stream in a capture.
#[derive(Debug, Clone)]
pub(crate) struct Info {
    pub(crate) is_valid: bool,
    pub(crate) id: u64,
    pub(crate) graph: Arc<Graph>,
    pub(crate) nodes: Vec<u64>,
}

/// Captures of the process.
static COUNT: AtomicUsize = AtomicUsize::new(0);

fn captures() -> MutexGuard<'static, Captures> {
    static CAPTURES: OnceLock<Mutex<Captures>> = OnceLock::new();
    lock(CAPTURES.get_or_init(Mutex::default))
}

fn key(target: &Target) -> Key {
    (target.context.handle, target.number)
}

/// True if any stream is captured.
fn is_any() -> bool {
    COUNT.load(Ordering::Acquire) > 0
}

impl Captures {
    /// The capture of a stream, if it is valid.
    fn of(&mut self, key: Key) -> Result<Option<(&mut Mark, &Session)>> {
        let Some(mark) = self.streams.get_mut(&key) else {
            return Ok(None);
        };
        match self.sessions.get(&mark.session) {
            Some(session) if session.is_valid => Ok(Some((mark, session))),
            _ => Err(Status::CAPTURE_INVALIDATED),
        }
    }

    fn end(&mut self, id: u64) -> Option<Session> {
        self.streams.retain(|_, mark| mark.session != id);
        let session = self.sessions.remove(&id);
        COUNT.store(self.sessions.len(), Ordering::Release);
        session
    }

    /// Makes captures useless, if there are any.
    fn invalidate(&mut self, ids: &HashSet<u64>, status: Status) -> Result<()> {
        for id in ids {
            if let Some(session) = self.sessions.get_mut(id) {
                session.is_valid = false;
            }
        }
        match ids.is_empty() {
            true => Ok(()),
            false => Err(status),
        }
    }

    /// The captures of streams of a context.
    fn of_context(&self, context: u64, is_it: impl Fn(u64) -> bool) -> HashSet<u64> {
        let streams = self.streams.iter();
        let own = streams.filter(|((other, stream), _)| *other == context && is_it(*stream));
        own.map(|(_, mark)| mark.session).collect()
    }

    /// Fails for the legacy default stream if a stream is captured that would wait for it.
    fn check_legacy(&mut self, target: &Target) -> Result<()> {
        if target.number != LEGACY {
            return Ok(());
        }
        let context = &target.context;
        let ids = self.of_context(context.handle, |stream| context.is_blocking(stream));
        self.invalidate(&ids, Status::CAPTURE_IMPLICIT)
    }
}

/// Begins to capture a stream. `mode`: 0 to 2.
pub(crate) fn begin(target: &Target, mode: i32, graph: Arc<Graph>, nodes: Vec<u64>) -> Result<()> {
    if target.number == LEGACY {
        return Err(Status::CAPTURE_UNSUPPORTED);
    }
    let mut captures = captures();
    if captures.streams.contains_key(&key(target)) {
        return Err(Status::ILLEGAL_STATE);
    }
    captures.last += 1;
    let id = captures.last;
    let session = Session {
        graph,
        origin: key(target),
        mode,
        thread: gettid(),
        is_valid: true,
    };
    captures.sessions.insert(id, session);
    captures
        .streams
        .insert(key(target), Mark { session: id, nodes });
    COUNT.store(captures.sessions.len(), Ordering::Release);
    Ok(())
}

/// Keeps a call of a captured stream. False: the stream is not captured.
pub(crate) fn add(target: &Target, call: &Call) -> Result<bool> {
    if !is_any() {
        return Ok(false);
    }
    let mut captures = captures();
    captures.check_legacy(target)?;
    let Some((mark, session)) = captures.of(key(target))? else {
        return Ok(false);
    };
    let node = session.graph.add(call.clone(), &mark.nodes)?;
    mark.nodes = vec![node];
    Ok(true)
}

/// Records an event in a captured stream. False: the stream is not captured.
pub(crate) fn record(target: &Target, event: &Event) -> Result<bool> {
    if !is_any() {
        return Ok(false);
    }
    let mut captures = captures();
    captures.check_legacy(target)?;
    let Some((mark, _)) = captures.of(key(target))? else {
        return Ok(false);
    };
    *event.state() = State::Captured(mark.clone());
    Ok(true)
}

/// Has a stream wait for an event, where one of the two is captured: the stream becomes a part of
/// the capture. False: neither is.
pub(crate) fn wait(target: &Target, event: &Event) -> Result<bool> {
    let state = event.state().clone();
    let mut captures = captures();
    let own = captures.of(key(target))?.map(|(mark, _)| mark.clone());
    let State::Captured(other) = state else {
        let ids = own.map(|own| own.session).into_iter().collect();
        captures.invalidate(&ids, Status::CAPTURE_ISOLATION)?;
        return Ok(false);
    };
    let is_alive = captures
        .sessions
        .get(&other.session)
        .is_some_and(|session| session.is_valid);
    if !is_alive {
        return Err(Status::CAPTURED_EVENT);
    }
    if target.number == LEGACY {
        captures.invalidate(&HashSet::from([other.session]), Status::CAPTURE_IMPLICIT)?;
    }
    let joined = match own {
        Some(own) if own.session != other.session => {
            let both = HashSet::from([own.session, other.session]);
            captures.invalidate(&both, Status::CAPTURE_MERGE)?;
            return Ok(true);
        }
        Some(mut own) => {
            let new = other
                .nodes
                .into_iter()
                .filter(|node| !own.nodes.contains(node));
            let new: Vec<u64> = new.collect();
            own.nodes.extend(new);
            own
        }
        None => other,
    };
    captures.streams.insert(key(target), joined);
    Ok(true)
}

/// Ends the capture that began in a stream, by the thread that began it. Returns its graph.
pub(crate) fn end(target: &Target) -> Result<Arc<Graph>> {
    let mut captures = captures();
    let mark = captures
        .streams
        .get(&key(target))
        .cloned()
        .ok_or(Status::ILLEGAL_STATE)?;
    match captures.sessions.get(&mark.session) {
        Some(session) if session.origin == key(target) => {
            if session.mode != RELAXED && session.thread != gettid() {
                return Err(Status::CAPTURE_WRONG_THREAD);
            }
        }
        _ => return Err(Status::CAPTURE_UNMATCHED),
    }
    let tails = captures
        .streams
        .iter()
        .filter(|(_, other)| other.session == mark.session);
    let tails: Vec<u64> = tails.flat_map(|(_, other)| other.nodes.clone()).collect();
    let session = captures.end(mark.session).ok_or(Status::ILLEGAL_STATE)?;
    if !session.is_valid {
        return Err(Status::CAPTURE_INVALIDATED);
    }
    let before = session.graph.ancestors(&mark.nodes);
    match tails.iter().all(|tail| before.contains(tail)) {
        true => Ok(session.graph),
        false => Err(Status::CAPTURE_UNJOINED),
    }
}

/// The capture of a stream.
pub(crate) fn info(target: &Target) -> Option<Info> {
    let captures = captures();
    let mark = captures.streams.get(&key(target))?;
    let session = captures.sessions.get(&mark.session)?;
    Some(Info {
        is_valid: session.is_valid,
        id: mark.session,
        graph: session.graph.clone(),
        nodes: mark.nodes.clone(),
    })
}

/// Replaces the nodes that the next one of a stream depends on, or adds to them.
pub(crate) fn update(target: &Target, nodes: &[u64], replaces: bool) -> Result<()> {
    let mut captures = captures();
    let (mark, _) = captures.of(key(target))?.ok_or(Status::ILLEGAL_STATE)?;
    if replaces {
        mark.nodes.clear();
    }
    let new: Vec<u64> = nodes
        .iter()
        .copied()
        .filter(|node| !mark.nodes.contains(node))
        .collect();
    mark.nodes.extend(new);
    Ok(())
}

/// Fails for a stream that is captured, as calls do that wait for it, and for the legacy default
/// stream if it would wait for such a one. The capture is of no use then.
pub(crate) fn refuse(target: &Target) -> Result<()> {
    if !is_any() {
        return Ok(());
    }
    let mut captures = captures();
    captures.check_legacy(target)?;
    let ids = captures.of_context(target.context.handle, |stream| stream == target.number);
    captures.invalidate(&ids, Status::CAPTURE_UNSUPPORTED)
}

/// The same for a call that waits for all streams of a context.
pub(crate) fn refuse_all(context: &Context) -> Result<()> {
    if !is_any() {
        return Ok(());
    }
    let mut captures = captures();
    let ids = captures.of_context(context.handle, |_| true);
    captures.invalidate(&ids, Status::CAPTURE_UNSUPPORTED)
}

/// The same for a call that may be none of a capture, by the modes of this thread and of captures.
pub(crate) fn refuse_unsafe() -> Result<()> {
    let mode = MODE.get();
    if !is_any() || mode == RELAXED {
        return Ok(());
    }
    let mut captures = captures();
    let own = gettid();
    let sessions = captures.sessions.iter();
    let refused = sessions.filter(|(_, session)| match session.thread == own {
        true => session.mode != RELAXED,
        false => mode == GLOBAL && session.mode == GLOBAL,
    });
    let ids = refused.map(|(id, _)| *id).collect();
    captures.invalidate(&ids, Status::CAPTURE_UNSUPPORTED)
}

/// Ends the captures that have streams of a context, which ends.
pub(crate) fn forget(context: u64) {
    if is_any() {
        let mut captures = captures();
        for id in captures.of_context(context, |_| true) {
            captures.end(id);
        }
    }
}
