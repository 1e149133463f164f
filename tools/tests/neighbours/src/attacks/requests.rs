// SPDX-License-Identifier: MIT OR Apache-2.0
//! Requests: as many slots, keys and calls as there can be.

use std::ops::Range;
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context as _, Result};
use libzernel::request::{Begin, Slot, Slots};
use libzernel::sim::{Context, Sim};
use libzernel::{tsg, Level, Target, Timestamp, Zernel};
use rustix::io::Errno;

use super::contexts;
use crate::troop::{size, Troop};

/// Slots of all pages that a user can have.
const SLOTS: u32 = 256 * 64;

/// Time from the begin of the first request to the instant at which all timers expire. The begins
/// of all take less where an instruction takes a nanosecond.
const AHEAD: Duration = Duration::from_millis(100);

/// Users who use up keys together.
const USERS: u32 = 4;

/// A process with a TSG.
struct Program {
    zernel: Zernel,
    _sim: Sim,
    _contexts: Vec<Context>,
    tsg: tsg::Id,
}

impl Program {
    fn new() -> Result<Self> {
        let (zernel, sim) = (Zernel::open()?, Sim::open()?);
        let contexts = contexts(&sim, 1)?;
        let own = zernel.tsgs_of(&Target::current_process()).next();
        let tsg = own.context("no TSG is listed")??.id;
        Ok(Self {
            zernel,
            _sim: sim,
            _contexts: contexts,
            tsg,
        })
    }
}

/// Slots of all pages that a user can have, with the files that they belong to.
fn all_slots(zernel: &Zernel) -> Result<Vec<(Zernel, Slots)>> {
    let most = zernel.info()?.slots_max;
    let count = size(SLOTS as usize) as u32;
    let of_file = |first| {
        let file = Zernel::open()?;
        let slots = Slots::map(&file, 0..most.min(count - first))?;
        Ok((file, slots))
    };
    (0..count).step_by(most as usize).map(of_file).collect()
}

/// Begins a request on each of these slots.
fn begin_all(
    program: &Program,
    files: &[(Zernel, Slots)],
    expected: impl Fn() -> Duration,
) -> Result<()> {
    for slot in files.iter().flat_map(|(_, slots)| slots.slots()) {
        slot.begin(&Begin::new(program.tsg).expected(expected()).exact())?;
    }
    Ok(())
}

/// All slots of a user, whose requests are triggered at one instant, again and again.
pub fn timers(troop: &mut Troop) -> Result<()> {
    let user = troop.user();
    troop.tenant(user, |stage| {
        let program = Program::new()?;
        let files = all_slots(&program.zernel)?;
        stage.wait()?;
        loop {
            let at = Timestamp::now() + AHEAD;
            begin_all(&program, &files, || at.since(Timestamp::now()))?;
            sleep(at.since(Timestamp::now()) + AHEAD / 10);
        }
    })
}

/// All slots of a user, again and again, with pauses in which timers expire and the processor is not
/// idle.
pub fn begins(troop: &mut Troop) -> Result<()> {
    let user = troop.user();
    troop.tenant(user, |stage| {
        let program = Program::new()?;
        let files = all_slots(&program.zernel)?;
        stage.wait()?;
        loop {
            begin_all(&program, &files, || AHEAD / 10)?;
            let over = Timestamp::now() + AHEAD * 3 / 2;
            while Timestamp::now() < over {}
        }
    })
}

/// Requests of ever new keys, of several users.
pub fn keys(troop: &mut Troop) -> Result<()> {
    for _ in 0..USERS {
        let user = troop.user();
        troop.tenant(user, |stage| {
            let program = Program::new()?;
            let slots = Slots::map(&program.zernel, 0..1)?;
            let slot = slots.slot(0).context("no slot")?;
            stage.wait()?;
            for key in 1.. {
                serve(&slot, &Begin::new(program.tsg).key(key))?;
            }
            Ok(())
        })?;
    }
    Ok(())
}

/// Requests at full rate, with a holder and without one, each by a process of its own. One without
/// needs a class above the default: the least of those, which is below the victim's.
pub fn rate(troop: &mut Troop) -> Result<()> {
    let user = troop.user();
    for holder in [true, false] {
        troop.member(user, move |stage| {
            let program = Program::new()?;
            let level = Level::new(Level::UNCLASSED_RANK.number() - 1).context("no such level")?;
            let class = Target::current_process();
            program.zernel.set_class(&class, level)?;
            let numbers: Range<u32> = 0..64;
            let slots = Slots::map(&program.zernel, numbers)?;
            let begin = Begin::new(program.tsg).expected(Duration::from_micros(1));
            let begin = match holder {
                true => begin,
                false => begin.without_holder(),
            };
            stage.wait()?;
            loop {
                for slot in slots.slots() {
                    serve(&slot, &begin)?;
                }
            }
        })?;
    }
    Ok(())
}

/// A request from its begin to its end.
fn serve(slot: &Slot<'_>, begin: &Begin) -> Result<()> {
    let begun = slot.begin(begin)?;
    for call in [Slot::ready_call, Slot::done_call] {
        match call(slot, begun.number) {
            // Beside other attacks its lease may end first.
            Err(error) if error.errno() == Some(Errno::STALE) => return Ok(()),
            result => result?,
        }
    }
    Ok(())
}
