// SPDX-License-Identifier: GPL-2.0
//! Records of context switches, as NVIDIA's resource manager hands out those of the GPU's own
//! switcher (FECS), and the run times and costs that they tell.
//!
//! A switch from A to B is told in five steps: the host asks for it and the engine acknowledges (A),
//! the context is saved (A), one begins to be restored (B), and runs (B). A step is a record, with a
//! number of the context and a sequence number. A context stays on an engine that has nothing to
//! do, so its time there is the most that it can have run.
//!
//! Records may be lost, and the clock may jump: then the state of the engine is unknown until
//! records tell it anew, and the time in between counts for nobody.
//!
//! The compute instances of a MIG instance have an engine each, whose records share a ring and its
//! sequence numbers, in any order among each other.

use super::units::Ns;

/// Tags of records, as in the driver's `cl90cdfecs.h`.
mod tag {
    pub(super) const ASKED: u8 = 0x01;
    pub(super) const ACKNOWLEDGED: u8 = 0x02;
    pub(super) const SAVED: u8 = 0x03;
    pub(super) const RESTORES: u8 = 0x04;
    pub(super) const RUNS: u8 = 0x05;
    /// As [`ACKNOWLEDGED`], by the way in which the engine was left: at the end of its work,
    /// between primitives, thread blocks, or instructions.
    pub(super) const ACKNOWLEDGED_AS: [u8; 4] = [0x0a, 0x0b, 0x0c, 0x0d];
}

/// The TSG of a context, where that is known for certain. Its channels have a number each, and may
/// take turns in the steps of one switch; so of two that are not known, nobody can tell whether they
/// are one.
pub(crate) type Owner = Option<u64>;

/// A step of a context switch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Record {
    /// The context that it is about.
    pub(crate) owner: Owner,
    /// Its engine, below [`ENGINES`]; else nobody knows which.
    pub(crate) engine: usize,
    /// Sequence number.
    pub(crate) number: u16,
    /// The step.
    pub(crate) tag: u8,
    /// When, by the GPU's clock.
    pub(crate) at: Ns,
}

/// The beginning of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Start {
    /// The TSG.
    pub(crate) tsg: u64,
    /// When, by the GPU's clock.
    pub(crate) at: Ns,
    /// From the request of the switch on; without one, of the restore.
    pub(crate) switch: Ns,
}

/// The news of a record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct News {
    /// A TSG had the engine for so long.
    pub(crate) ran: Option<(u64, Ns)>,
    /// A save took so long.
    pub(crate) saved: Option<Ns>,
    /// A restore took so long.
    pub(crate) restored: Option<Ns>,
    /// A TSG has the engine from now on.
    pub(crate) started: Option<Start>,
}

/// The engine, after the last record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Engine {
    #[default]
    Unknown,
    /// A context is there, since when.
    Holds(Owner, Ns),
    /// It is to go. Since when it is there, if that is known, and when the host asked.
    Asked(Owner, Option<Ns>, Ns),
    /// It is being saved. When the host asked, and when the save began.
    Saves(Owner, Ns, Ns),
    /// No context is there. When the host asked.
    Empty(Ns),
    /// A context is being restored. When the host asked, and since when.
    Restores(Owner, Ns, Ns),
}

/// Engines whose records share a ring: one without compute instances, and one for each of those.
pub(crate) const ENGINES: usize = 9;

/// An engine, and the time of the last record about it.
#[derive(Clone, Copy, Debug, Default)]
struct Seat {
    engine: Engine,
    last: Ns,
}

/// A reader of the records of a ring.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Reader {
    seats: [Seat; ENGINES],
    /// The next sequence number.
    next: Option<u16>,
    /// No honest record is older.
    floor: Ns,
    /// Records dropped by the driver since the last one that was read.
    dropped: u64,
    /// Records that were read.
    pub(crate) read: u64,
    /// Records that were lost.
    pub(crate) lost: u64,
    /// Records that do not fit what was before, or of an unknown kind.
    pub(crate) odd: u64,
    /// Records that are older than the one before, or younger than now.
    pub(crate) jumps: u64,
}

impl Reader {
    /// The records begin anew, in another ring. The counts stay.
    pub(crate) fn restart(&mut self) {
        self.seats = [Seat::default(); ENGINES];
        (self.next, self.dropped, self.floor) = (None, 0, Ns::ZERO);
    }

    /// The clock was set: times from before mean nothing, and records that are not passed over are no
    /// older than `floor`.
    pub(crate) fn set_floor(&mut self, floor: Ns) {
        self.seats = [Seat::default(); ENGINES];
        self.floor = floor;
    }

    /// The driver had no room for so many records after those that were read.
    pub(crate) fn overflow(&mut self, dropped: u64) {
        if dropped > 0 {
            self.lose();
            self.dropped = self.dropped.saturating_add(dropped);
        }
    }

    /// Records that were lost, and others that told nothing for certain.
    pub(crate) fn faults(&self) -> u64 {
        self.lost
            .saturating_add(self.odd)
            .saturating_add(self.jumps)
    }

    /// No engine is known.
    fn lose(&mut self) {
        for seat in &mut self.seats {
            seat.engine = Engine::Unknown;
        }
    }

    /// The TSGs that have an engine, and since when.
    pub(crate) fn holders(&self) -> impl Iterator<Item = (u64, Ns)> + '_ {
        self.seats.iter().filter_map(|seat| match seat.engine {
            Engine::Holds(owner, since) => owner.map(|tsg| (tsg, since)),
            Engine::Asked(owner, since, _) => owner.zip(since),
            _ => None,
        })
    }

    /// Passes over a record whose time means nothing.
    pub(crate) fn skip(&mut self, number: u16) {
        self.read = self.read.saturating_add(1);
        self.find_loss(number);
        self.seats = [Seat::default(); ENGINES];
    }

    /// Reads a record; `now` is no earlier than any that is honest.
    pub(crate) fn read(&mut self, record: &Record, now: Ns) -> News {
        self.read = self.read.saturating_add(1);
        self.find_loss(record.number);
        let mut news = News::default();
        let Some(seat) = self.seats.get_mut(record.engine) else {
            // Somebody had one of the engines: who gets it then has not been waiting for the switch alone.
            for seat in &mut self.seats {
                if matches!(seat.engine, Engine::Empty(_)) {
                    seat.engine = Engine::Unknown;
                }
            }
            return news;
        };
        let jumped = record.at > now || record.at < seat.last.max(self.floor);
        if jumped {
            self.jumps = self.jumps.saturating_add(1);
            seat.engine = Engine::Unknown;
        }
        // One from the future must not make the honest ones after it look old.
        seat.last = record.at.min(now);
        if record.at > now {
            return news;
        }
        let fits = seat.engine.step(record, &mut news);
        self.odd = self.odd.saturating_add(u64::from(!fits));
        news
    }

    /// Counts the records that are missing before this one. The driver numbers those that it drops,
    /// too, with 16 bits.
    fn find_loss(&mut self, number: u16) {
        const ROUND: u64 = 1 << 16;
        let dropped = core::mem::take(&mut self.dropped);
        let Some(next) = self.next.replace(number.wrapping_add(1)) else {
            self.lost = self.lost.saturating_add(dropped);
            return;
        };
        let gap = u64::from(number.wrapping_sub(next));
        let rounds = dropped.saturating_sub(gap) / ROUND * ROUND;
        let lost = gap.saturating_add(rounds);
        if lost > 0 {
            self.lose();
            self.lost = self.lost.saturating_add(lost);
        }
    }
}

impl Engine {
    /// A step was recorded. Returns whether it fits what was before.
    fn step(&mut self, record: &Record, news: &mut News) -> bool {
        let (owner, at) = (record.owner, record.at);
        let (next, fits) = match record.tag {
            tag::ASKED => match *self {
                Engine::Holds(held, since) if held == owner => {
                    (Engine::Asked(owner, Some(since), at), true)
                }
                before => (Engine::Asked(owner, None, at), before == Engine::Unknown),
            },
            tag if tag == tag::ACKNOWLEDGED || tag::ACKNOWLEDGED_AS.contains(&tag) => match *self {
                Engine::Asked(held, since, asked) if held == owner => {
                    news.ran = ran(owner, since, at);
                    (Engine::Saves(owner, asked, at), true)
                }
                before => (Engine::Unknown, before == Engine::Unknown),
            },
            tag::SAVED => match *self {
                Engine::Saves(held, asked, since) if held == owner => {
                    news.saved = Some(at.saturating_sub(since));
                    (Engine::Empty(asked), true)
                }
                // Without an acknowledgement, as older switchers have it.
                Engine::Asked(held, since, asked) if held == owner => {
                    news.ran = ran(owner, since, asked);
                    news.saved = Some(at.saturating_sub(asked));
                    (Engine::Empty(asked), true)
                }
                before => (Engine::Empty(at), before == Engine::Unknown),
            },
            tag::RESTORES => match *self {
                Engine::Empty(asked) => (Engine::Restores(owner, asked, at), true),
                before => (Engine::Restores(owner, at, at), before == Engine::Unknown),
            },
            tag::RUNS => match *self {
                Engine::Restores(next, asked, since) if next == owner => {
                    news.restored = Some(at.saturating_sub(since));
                    news.started = owner.map(|tsg| Start {
                        tsg,
                        at,
                        switch: at.saturating_sub(asked),
                    });
                    (Engine::Holds(owner, at), true)
                }
                before => (Engine::Holds(owner, at), before == Engine::Unknown),
            },
            _ => (Engine::Unknown, false),
        };
        *self = next;
        fits
    }
}

/// The time from `since` until `until` of a TSG.
fn ran(owner: Owner, since: Option<Ns>, until: Ns) -> Option<(u64, Ns)> {
    let (tsg, since) = owner.zip(since)?;
    Some((tsg, until.saturating_sub(since)))
}

/// The time of a TSG on the engine, as far as records have told it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Residence {
    /// Of the runs that have ended.
    ended: Ns,
    /// Of all, at the most that was ever told.
    told: Ns,
}

impl Residence {
    /// A run has ended.
    pub(crate) fn end(&mut self, ran: Ns) {
        self.ended = self.ended.saturating_add(ran);
    }

    /// The time that is new, with that of a run that goes on. A switch is recorded when it is over:
    /// a run may then turn out to have been shorter, and the next ones make up for that.
    pub(crate) fn take(&mut self, running: Ns) -> Ns {
        let all = self.ended.saturating_add(running);
        let new = all.saturating_sub(self.told);
        self.told = self.told.max(all);
        new
    }

    /// The end of a run is not known: it counts as far as it was told.
    pub(crate) fn lose(&mut self) {
        self.ended = self.ended.max(self.told);
    }
}

#[cfg(any(test, zernel_kunit))]
#[path = "switches/tests.rs"]
mod tests;
