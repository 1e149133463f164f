// SPDX-License-Identifier: GPL-2.0
//! Events without an owner, which every audience gets: a writer puts one in once, and it gets to the
//! inboxes of some audiences at a time.

use super::event::{
    Event,
    Subject, //
};
use crate::glue::uapi;

/// Most events on their way.
const MOST: usize = 8;

/// An event, and the GPU that it is about.
#[derive(Clone, Copy)]
pub(super) struct Letter {
    pub(super) event: Event,
    gpu: u64,
    /// From 1 on.
    pub(super) number: u64,
    /// Events before it for which there was no room.
    pub(super) lost: u64,
}

impl Letter {
    /// Its subject.
    pub(super) fn subject(&self) -> Subject<'static> {
        Subject {
            gpu: self.gpu,
            tsg: 0,
            owner: None,
            thread: None,
            is_private: false,
            each_cgroup: &|_| (),
        }
    }
}

/// The events on their way.
///
/// # Invariants
///
/// `count` of the letters are in use, from the first on, in the order of their numbers.
pub(super) struct Common {
    letters: [Letter; MOST],
    count: usize,
    sent: u64,
    lost: u64,
}

impl Common {
    /// None.
    pub(super) fn new() -> Self {
        let none = Letter {
            event: Event::Gpu(uapi::zernel_event_gpu::default()),
            gpu: 0,
            number: 0,
            lost: 0,
        };
        // INVARIANT: None is in use.
        Self {
            letters: [none; MOST],
            count: 0,
            sent: 0,
            lost: 0,
        }
    }

    /// The number of the last event.
    pub(super) fn sent(&self) -> u64 {
        self.sent
    }

    /// True if none is on its way.
    pub(super) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Puts an event about a GPU in. Returns false if there is no room: it is lost.
    pub(super) fn put(&mut self, event: &Event, gpu: u64) -> bool {
        let Some(place) = self.letters.get_mut(self.count) else {
            self.lost += 1;
            return false;
        };
        self.sent += 1;
        *place = Letter {
            event: *event,
            gpu,
            number: self.sent,
            lost: core::mem::take(&mut self.lost),
        };
        // INVARIANT: There was room.
        self.count += 1;
        true
    }

    /// Those behind a number.
    pub(super) fn after(&self, number: u64) -> impl Iterator<Item = &Letter> {
        let used = self.letters.iter().take(self.count);
        used.filter(move |letter| letter.number > number)
    }

    /// Those up to a number have got everywhere. Returns how many they were.
    pub(super) fn remove_until(&mut self, number: u64) -> u32 {
        let gone = self.count - self.after(number).count();
        // INVARIANT: Those that are left are the first ones.
        self.letters.rotate_left(gone);
        self.count -= gone;
        gone as u32
    }
}

#[cfg(zernel_kunit)]
#[kernel::macros::kunit_tests(zernel_common_events)]
mod tests {
    use crate::stream::common::*;

    fn gpus(common: &Common, after: u64) -> [u64; 3] {
        let mut found = common.after(after).map(|letter| letter.gpu);
        [(); 3].map(|()| found.next().unwrap_or(0))
    }

    #[test]
    fn each_is_there_until_it_has_got_everywhere() {
        let mut common = Common::new();
        let event = Event::Gpu(uapi::zernel_event_gpu::default());
        for gpu in 11..14 {
            assert!(common.put(&event, gpu));
        }
        assert_eq!(gpus(&common, 0), [11, 12, 13]);
        assert_eq!(gpus(&common, 2), [13, 0, 0]);
        assert_eq!(common.remove_until(2), 2);
        assert_eq!(gpus(&common, 0), [13, 0, 0]);
        assert!(common.put(&event, 14));
        assert_eq!(gpus(&common, 2), [13, 14, 0]);
        assert_eq!(common.remove_until(common.sent()), 2);
        assert!(common.is_empty());
        assert_eq!(common.remove_until(common.sent()), 0);
    }

    #[test]
    fn the_next_one_tells_of_those_that_were_lost() {
        let mut common = Common::new();
        let event = Event::Gpu(uapi::zernel_event_gpu::default());
        let taken = (0..MOST as u64 + 2).filter(|&gpu| common.put(&event, gpu));
        assert_eq!(taken.count(), MOST);
        assert_eq!(common.remove_until(1), 1);
        assert!(common.put(&event, 7));
        let last = common.after(common.sent() - 1).next();
        assert_eq!(last.map(|letter| (letter.gpu, letter.lost)), Some((7, 2)));
    }
}
