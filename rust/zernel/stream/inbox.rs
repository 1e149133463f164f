// SPDX-License-Identifier: GPL-2.0
//! Events on their way to the streams of an audience, in order.
//!
//! A writer, which may hold locks that others wait for, puts an event in once, however many streams
//! there are. It gets to the streams some at a time, with the list of streams alone locked.

use super::event::{
    Event,
    Filter,
    Subject, //
};
use crate::glue::{
    cgroup::LEVELS,
    identity::{
        Pid,
        Uid, //
    },
    memory::account_quietly,
    uapi, //
};
use kernel::prelude::*;

/// Events that an audience has room for. A writer sees to its own before it goes on, so there are as
/// many as writers are kept from that.
pub(super) const OF_AUDIENCE: usize = 64;

/// Events that there is room for which every audience gets: they are put into the inboxes of audiences
/// in one hold.
pub(super) const OF_ALL: usize = 8;

/// An event, and its subject.
pub(super) struct Letter {
    pub(super) event: Event,
    pub(super) gpu: u64,
    pub(super) tsg: u64,
    pub(super) owner: Option<(Pid, Uid)>,
    pub(super) thread: Option<Pid>,
    cgroups: [u64; LEVELS],
    levels: usize,
    /// Its number in the inbox, from 1 on.
    pub(super) number: u64,
    /// Events before it for which there was no room.
    pub(super) lost: u64,
}

impl Letter {
    fn new() -> Self {
        Self {
            event: Event::Gpu(uapi::zernel_event_gpu::default()),
            gpu: 0,
            tsg: 0,
            owner: None,
            thread: None,
            cgroups: [0; LEVELS],
            levels: 0,
            number: 0,
            lost: 0,
        }
    }

    fn write(&mut self, event: &Event, subject: &Subject<'_>) {
        self.event = *event;
        (self.gpu, self.tsg) = (subject.gpu, subject.tsg);
        self.owner = subject.owner.map(|(process, uid)| (process.clone(), uid));
        self.thread = subject.thread.cloned();
        self.levels = 0;
        (subject.each_cgroup)(&mut |id| {
            if let Some(place) = self.cgroups.get_mut(self.levels) {
                *place = id;
                self.levels += 1;
            }
        });
    }

    /// True if a filter lets it through.
    pub(super) fn passes(&self, filter: &Filter) -> bool {
        let is = |pid: &Pid, other: Option<&Pid>| other.is_some_and(|o| o.key() == pid.key());
        match filter {
            Filter::All => true,
            Filter::Gpu(id) => self.gpu == *id,
            Filter::Tsg(id) => self.tsg == *id,
            Filter::Process(pid) => is(pid, self.owner.as_ref().map(|(process, _)| process)),
            Filter::Thread(pid) => is(pid, self.thread.as_ref()),
            Filter::Cgroup(top) => self.is_in_cgroup(*top),
        }
    }

    /// True if the process of its subject is in a cgroup, or below.
    fn is_in_cgroup(&self, top: u64) -> bool {
        let cgroups = self.cgroups.get(..self.levels);
        self.owner.is_some() && cgroups.is_some_and(|cgroups| cgroups.contains(&top))
    }
}

/// The events of an audience that are on their way.
///
/// # Invariants
///
/// `count` of the `letters` are in use, from `first` on, round and round.
pub(super) struct Inbox {
    letters: KVVec<Letter>,
    first: usize,
    count: usize,
    sent: u64,
    lost: u64,
}

impl Inbox {
    /// An empty one with room for so many.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn new(room: usize) -> Result<Self> {
        let mut letters = KVVec::with_capacity(room, account_quietly())?;
        for _ in 0..room {
            letters.push(Letter::new(), account_quietly())?;
        }
        // INVARIANT: None is in use.
        Ok(Self {
            letters,
            first: 0,
            count: 0,
            sent: 0,
            lost: 0,
        })
    }

    /// The number of events.
    pub(super) fn count(&self) -> u32 {
        self.count as u32
    }

    /// The number of the last event that was put in.
    pub(super) fn sent(&self) -> u64 {
        self.sent
    }

    /// So many events before the next one were lost.
    pub(super) fn lose(&mut self, count: u64) {
        self.lost += count;
    }

    /// Puts an event in. Returns false if there is no room: it is lost.
    pub(super) fn put(&mut self, event: &Event, subject: &Subject<'_>) -> bool {
        let (at, room) = (self.place(self.count), self.letters.len());
        let letter = self.letters.get_mut(at).filter(|_| self.count < room);
        let Some(letter) = letter else {
            self.lost += 1;
            return false;
        };
        letter.write(event, subject);
        self.sent += 1;
        letter.number = self.sent;
        letter.lost = core::mem::take(&mut self.lost);
        // INVARIANT: There was room.
        self.count += 1;
        true
    }

    /// The place so far behind the first one.
    fn place(&self, behind: usize) -> usize {
        let at = self.first + behind;
        at.checked_rem(self.letters.len()).unwrap_or(0)
    }

    /// The events behind a number.
    pub(super) fn after(&self, number: u64) -> impl Iterator<Item = &Letter> {
        let used = (0..self.count).filter_map(|behind| self.letters.get(self.place(behind)));
        used.filter(move |letter| letter.number > number)
    }

    /// Events up to a number, which no task owns, have got everywhere. Returns how many they were.
    pub(super) fn remove_until(&mut self, number: u64) -> u32 {
        let mut gone = 0;
        while self.first().is_some_and(|letter| letter.number <= number) {
            self.remove_first();
            gone += 1;
        }
        gone
    }

    /// The first event.
    pub(super) fn first(&self) -> Option<&Letter> {
        self.letters.get(self.first).filter(|_| self.count > 0)
    }

    /// The first event has got everywhere. Its tasks are to be dropped without a lock: they may be the
    /// last that name these.
    pub(super) fn remove_first(&mut self) -> [Option<Pid>; 2] {
        if self.count == 0 {
            return [None, None];
        }
        let letter = self.letters.get_mut(self.first);
        let tasks = letter.map_or([None, None], |letter| {
            let owner = letter.owner.take().map(|(process, _)| process);
            [owner, letter.thread.take()]
        });
        // INVARIANT: One less.
        self.first = self.place(1);
        self.count -= 1;
        tasks
    }
}

#[cfg(zernel_kunit)]
#[kernel::macros::kunit_tests(zernel_inbox)]
mod tests {
    use super::*;

    const MOST: usize = 8;

    fn put(inbox: &mut Inbox, gpu: u64, cgroups: &[u64]) -> bool {
        let event = Event::Gpu(uapi::zernel_event_gpu {
            gpu,
            ..Default::default()
        });
        let subject = Subject {
            gpu,
            tsg: 0,
            owner: None,
            thread: None,
            is_private: false,
            each_cgroup: &|f| cgroups.iter().for_each(|&id| f(id)),
        };
        inbox.put(&event, &subject)
    }

    fn take(inbox: &mut Inbox) -> Option<(u64, u64, u64)> {
        let letter = inbox.first()?;
        let found = (letter.gpu, letter.number, letter.lost);
        inbox.remove_first();
        Some(found)
    }

    #[test]
    fn what_comes_first_goes_first() -> Result {
        let mut inbox = Inbox::new(MOST)?;
        for round in 0..3 * MOST as u64 {
            assert!(put(&mut inbox, 2 * round, &[]));
            assert!(put(&mut inbox, 2 * round + 1, &[]));
            for gpu in [2 * round, 2 * round + 1] {
                assert_eq!(take(&mut inbox), Some((gpu, gpu + 1, 0)));
            }
        }
        assert!(take(&mut inbox).is_none());
        inbox.remove_first();
        assert_eq!(inbox.sent(), 6 * MOST as u64);
        Ok(())
    }

    #[test]
    fn those_that_are_lost_are_counted_with_the_next() -> Result {
        let mut inbox = Inbox::new(MOST)?;
        for gpu in 0..MOST as u64 {
            assert!(put(&mut inbox, gpu, &[]));
        }
        assert!(!put(&mut inbox, 1_000, &[]) && !put(&mut inbox, 1_001, &[]));
        assert_eq!(take(&mut inbox), Some((0, 1, 0)));
        assert!(put(&mut inbox, 7, &[]));
        for gpu in 1..MOST as u64 {
            assert_eq!(take(&mut inbox), Some((gpu, gpu + 1, 0)));
        }
        assert_eq!(take(&mut inbox), Some((7, MOST as u64 + 1, 2)));
        assert!(put(&mut inbox, 8, &[]));
        assert_eq!(take(&mut inbox), Some((8, MOST as u64 + 2, 0)));
        Ok(())
    }

    #[test]
    fn each_is_there_until_it_has_got_everywhere() -> Result {
        let mut inbox = Inbox::new(MOST)?;
        let gpus = |inbox: &Inbox, after| {
            let mut found = inbox.after(after).map(|letter| letter.gpu);
            [(); 3].map(|()| found.next().unwrap_or(0))
        };
        for gpu in 11..14 {
            assert!(put(&mut inbox, gpu, &[]));
        }
        assert_eq!(gpus(&inbox, 0), [11, 12, 13]);
        assert_eq!(gpus(&inbox, 2), [13, 0, 0]);
        assert_eq!(inbox.remove_until(2), 2);
        assert_eq!(gpus(&inbox, 0), [13, 0, 0]);
        assert!(put(&mut inbox, 14, &[]));
        assert_eq!(gpus(&inbox, 2), [13, 14, 0]);
        // Round and round.
        for gpu in 15..19 {
            assert!(put(&mut inbox, gpu, &[]));
        }
        assert_eq!(inbox.remove_until(inbox.sent()), 6);
        for gpu in 19..22 {
            assert!(put(&mut inbox, gpu, &[]));
        }
        assert_eq!(gpus(&inbox, 0), [19, 20, 21]);
        assert_eq!(inbox.remove_until(inbox.sent()), 3);
        assert_eq!(inbox.count(), 0);
        assert_eq!(inbox.remove_until(inbox.sent()), 0);
        Ok(())
    }

    #[test]
    fn cgroups_are_those_of_the_owner() -> Result {
        let mut inbox = Inbox::new(MOST)?;
        let deep = [7u64; LEVELS + 3];
        assert!(put(&mut inbox, 1, &deep));
        // It is nobody's.
        assert!(inbox.first().is_some_and(|letter| !letter.is_in_cgroup(7)));
        Ok(())
    }
}
