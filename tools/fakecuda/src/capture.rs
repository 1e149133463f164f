// SPDX-License-Identifier: MIT OR Apache-2.0
//! Captures: calls on streams that become the nodes of a graph.

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use crate::call::Call;
use crate::context::Context;
use crate::driver::Target;
use crate::event::{Event, State};
use crate::graph::Graph;
use crate::queue::LEGACY;
use crate::status::{Result, Status};

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
    context: Arc<Context>,
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

fn captures() -> MutexGuard<'static, Captures> {
    static CAPTURES: OnceLock<Mutex<Captures>> = OnceLock::new();
    let captures = CAPTURES.get_or_init(Mutex::default);
    captures.lock().unwrap_or_else(PoisonError::into_inner)
}

fn key(target: &Target) -> Key {
    (target.context.handle, target.number)
}

/// True if a stream of a context is captured.
pub(crate) fn is_any(context: &Context) -> bool {
    context.captures.load(Ordering::Acquire) > 0
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
        let session = self.sessions.remove(&id)?;
        session.context.captures.fetch_sub(1, Ordering::AcqRel);
        Some(session)
    }
}

/// Begins to capture a stream.
pub(crate) fn begin(target: &Target, graph: Arc<Graph>, nodes: Vec<u64>) -> Result<()> {
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
        context: target.context.clone(),
        is_valid: true,
    };
    captures.sessions.insert(id, session);
    captures
        .streams
        .insert(key(target), Mark { session: id, nodes });
    target.context.captures.fetch_add(1, Ordering::AcqRel);
    Ok(())
}

/// Keeps a call of a captured stream. False: the stream is not captured.
pub(crate) fn add(target: &Target, call: &Call) -> Result<bool> {
    let mut captures = captures();
    let Some((mark, session)) = captures.of(key(target))? else {
        return Ok(false);
    };
    let node = session.graph.add(call.clone(), &mark.nodes)?;
    mark.nodes = vec![node];
    Ok(true)
}

/// Records an event in a captured stream. False: the stream is not captured.
pub(crate) fn record(target: &Target, event: &Event) -> Result<bool> {
    let mut captures = captures();
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
        return match own {
            Some(_) => Err(Status::CAPTURE_ISOLATION),
            None => Ok(false),
        };
    };
    if target.number == LEGACY {
        return Err(Status::CAPTURE_IMPLICIT);
    }
    let is_alive = captures
        .sessions
        .get(&other.session)
        .is_some_and(|session| session.is_valid);
    if !is_alive {
        return Err(Status::CAPTURED_EVENT);
    }
    let joined = match own {
        Some(own) if own.session != other.session => return Err(Status::CAPTURE_MERGE),
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

/// Ends the capture that began in a stream. Returns its graph.
pub(crate) fn end(target: &Target) -> Result<Arc<Graph>> {
    let mut captures = captures();
    let mark = captures
        .streams
        .get(&key(target))
        .cloned()
        .ok_or(Status::ILLEGAL_STATE)?;
    let is_origin = captures
        .sessions
        .get(&mark.session)
        .is_some_and(|session| session.origin == key(target));
    if !is_origin {
        return Err(Status::CAPTURE_UNMATCHED);
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

/// Fails for a stream that is captured, as calls do that wait for it. The capture is of no use then.
pub(crate) fn refuse(target: &Target) -> Result<()> {
    if !is_any(&target.context) {
        return Ok(());
    }
    let mut captures = captures();
    let captures = &mut *captures;
    let Some(mark) = captures.streams.get(&key(target)) else {
        return Ok(());
    };
    if let Some(session) = captures.sessions.get_mut(&mark.session) {
        session.is_valid = false;
    }
    Err(Status::CAPTURE_UNSUPPORTED)
}

/// The same for a call that waits for all streams of a context.
pub(crate) fn refuse_all(context: &Context) -> Result<()> {
    if !is_any(context) {
        return Ok(());
    }
    let mut captures = captures();
    let sessions = captures.sessions.values_mut();
    for session in sessions.filter(|session| session.context.handle == context.handle) {
        session.is_valid = false;
    }
    Err(Status::CAPTURE_UNSUPPORTED)
}
