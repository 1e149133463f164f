// SPDX-License-Identifier: MIT OR Apache-2.0
//! Streams of events: many, watched by many, read by nobody.

use anyhow::{Context as _, Result};
use libzernel::event::Wanted;
use libzernel::sim::Sim;
use libzernel::{EventStream, Target, Zernel};
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};

use super::{contexts, set_to_and_fro};
use crate::troop::Troop;

/// The most that a user can have.
const STREAMS: usize = 64;

/// Events in each of those that nobody reads: 6 MiB in all of them.
const ROOM: u32 = 1_024;

/// One of the streams has so many watchers; each class change is an event in all.
pub fn watched(troop: &mut Troop, watchers: usize) -> Result<()> {
    let user = troop.user();
    troop.member(user, move |stage| {
        let zernel = Zernel::open()?;
        let sim = Sim::open()?;
        let _contexts = contexts(&sim, 1)?;
        let streams: Vec<_> = (0..STREAMS)
            .map(|_| EventStream::open())
            .collect::<libzernel::Result<_>>()?;
        let mut watching = Vec::with_capacity(watchers);
        for _ in 0..watchers {
            let one = epoll::create(CreateFlags::CLOEXEC).context("make a watcher")?;
            epoll::add(&one, &streams[0], EventData::new_u64(0), EventFlags::IN)?;
            watching.push(one);
        }
        stage.wait()?;
        set_to_and_fro(&zernel, &Target::current_process())
    })
}

/// Streams with room for very many events that nobody reads.
pub fn unread(troop: &mut Troop) -> Result<()> {
    let user = troop.user();
    troop.member(user, |stage| {
        let (zernel, sim) = (Zernel::open()?, Sim::open()?);
        let _contexts = contexts(&sim, 1)?;
        let wanted = Wanted::all().keep(ROOM);
        let _streams: Vec<_> = (0..STREAMS)
            .map(|_| EventStream::open_at(Zernel::PATH, &wanted))
            .collect::<libzernel::Result<_>>()?;
        stage.wait()?;
        set_to_and_fro(&zernel, &Target::current_process())
    })
}
