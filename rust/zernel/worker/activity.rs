// SPDX-License-Identifier: GPL-2.0
//! The TSGs of a GPU that got something to run, or ran out of it, and that its worker has not looked
//! at since.

use crate::{
    glue::irqlock::{
        new_raw_lock,
        RawLock, //
    },
    policy::marks::{
        Mark,
        Marks, //
    },
};
use kernel::{
    prelude::*,
    rbtree::RBTree, //
};

/// A TSG in an index that marks are looked up in: the remainder of its handle, and the handle.
pub(crate) type Key = (u16, u64);

/// The key of a TSG.
pub(crate) fn key(handle: u64) -> Key {
    (Marks::of(handle), handle)
}

/// The part of the worker that looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Looker {
    /// At TSGs that take turns.
    Turns,
    /// At TSGs with a budget.
    Budgets,
}

/// TSGs to look at, for each part of the worker.
#[pin_data]
pub(crate) struct Activity {
    #[pin]
    marks: RawLock<[Marks; 2]>,
}

impl Activity {
    /// None.
    pub(crate) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            marks <- new_raw_lock!([const { Marks::new() }; 2], c"zernel_marks"),
        })
    }

    /// A TSG got something to run, or ran out of it; `None`: any of them. In any context.
    pub(crate) fn report(&self, tsg: Option<u64>) {
        for marks in &mut *self.marks.lock() {
            match tsg {
                Some(handle) => marks.put(handle),
                None => marks.put_all(),
            }
        }
    }

    /// A TSG is new to a part of the worker.
    pub(crate) fn put(&self, looker: Looker, handle: u64) {
        self.of(looker, |marks| marks.put(handle));
    }

    fn of<T>(&self, looker: Looker, f: impl FnOnce(&mut Marks) -> T) -> T {
        let [turns, budgets] = &mut *self.marks.lock();
        match looker {
            Looker::Turns => f(turns),
            Looker::Budgets => f(budgets),
        }
    }
}

/// A way through the TSGs that are marked, for one part of the worker: a few at a time.
pub(crate) struct Walk {
    looker: Looker,
    /// The next key, and the last remainder; `None`: the next mark is due.
    left: Option<(Key, u16)>,
    /// TSGs to look at yet.
    looks: usize,
    /// Marks to take yet.
    marks: usize,
}

impl Walk {
    /// TSGs that are looked at in one step at most.
    pub(crate) const LOOKS: usize = 16;

    /// Marks that are taken in one step at most. Others' TSGs have some, too.
    const MARKS: usize = 64;

    /// Of nothing yet.
    pub(crate) fn new(looker: Looker) -> Self {
        Self {
            looker,
            left: None,
            looks: 0,
            marks: 0,
        }
    }

    /// Another step begins.
    pub(crate) fn rest(&mut self) {
        (self.looks, self.marks) = (Self::LOOKS, Self::MARKS);
    }

    /// The next of the TSGs in `index` to look at in this step.
    pub(crate) fn next<V>(&mut self, index: &RBTree<Key, V>, activity: &Activity) -> Option<Key> {
        self.looks = self.looks.checked_sub(1)?;
        loop {
            let (from, last) = match self.left {
                Some(left) => left,
                None => {
                    self.marks = self.marks.checked_sub(1)?;
                    match activity.of(self.looker, Marks::take)? {
                        Mark::All => ((0, 0), Marks::COUNT - 1),
                        Mark::Of(mark) => ((mark, 0), mark),
                    }
                }
            };
            let found = index.cursor_lower_bound(&from);
            let found = found.map(|cursor| *cursor.current().0);
            self.left = None;
            if let Some(key) = found.filter(|(mark, _)| *mark <= last) {
                self.left = Some((behind(key), last));
                return Some(key);
            }
        }
    }

    /// True if nothing is left for another step.
    pub(crate) fn is_over(&self, activity: &Activity) -> bool {
        self.left.is_none() && !activity.of(self.looker, |marks| marks.is_any())
    }
}

/// The least key behind another one.
pub(crate) fn behind((mark, handle): Key) -> Key {
    match handle.checked_add(1) {
        Some(handle) => (mark, handle),
        None => (mark.saturating_add(1), 0),
    }
}

#[cfg(zernel_kunit)]
#[kernel::macros::kunit_tests(zernel_activity)]
mod tests {
    use crate::worker::activity::*;

    fn index(handles: &[u64]) -> Result<RBTree<Key, ()>> {
        let mut index = RBTree::new();
        for &handle in handles {
            index.try_create_and_insert(key(handle), (), GFP_KERNEL)?;
        }
        Ok(index)
    }

    fn step(walk: &mut Walk, index: &RBTree<Key, ()>, activity: &Activity) -> Result<KVec<u64>> {
        let mut found = KVec::new();
        walk.rest();
        while let Some((_, handle)) = walk.next(index, activity) {
            found.push(handle, GFP_KERNEL)?;
        }
        Ok(found)
    }

    #[test]
    fn who_is_marked_is_found_once_by_each() -> Result {
        let activity = KBox::pin_init(Activity::new(), GFP_KERNEL)?;
        // The last two have one mark.
        let index = index(&[3, 5, 7, 7 + 4096])?;
        for handle in [7, 5, 1000] {
            activity.report(Some(handle));
        }
        for looker in [Looker::Turns, Looker::Budgets] {
            let mut walk = Walk::new(looker);
            assert!(!walk.is_over(&activity));
            assert_eq!(&*step(&mut walk, &index, &activity)?, &[5, 7, 7 + 4096]);
            assert!(walk.is_over(&activity));
        }
        activity.put(Looker::Turns, 3);
        assert!(Walk::new(Looker::Budgets).is_over(&activity));
        assert_eq!(
            step(&mut Walk::new(Looker::Turns), &index, &activity)?.len(),
            1
        );
        Ok(())
    }

    #[test]
    fn a_step_finds_a_few_and_the_next_goes_on() -> Result {
        let activity = KBox::pin_init(Activity::new(), GFP_KERNEL)?;
        let mut handles = KVec::new();
        for handle in 0..100u64 {
            handles.push(handle * 3 + 1, GFP_KERNEL)?;
        }
        let index = index(&handles)?;
        for all in [true, false] {
            match all {
                true => activity.report(None),
                false => handles.iter().for_each(|&h| activity.report(Some(h))),
            }
            let mut walk = Walk::new(Looker::Turns);
            let (mut found, mut steps) = (KVec::new(), 0);
            while !walk.is_over(&activity) {
                let few = step(&mut walk, &index, &activity)?;
                assert!(few.len() <= Walk::LOOKS);
                found.extend_from_slice(&few, GFP_KERNEL)?;
                steps += 1;
            }
            assert!(steps <= 8);
            assert_eq!(found.len(), handles.len());
            assert!(handles.iter().all(|handle| found.contains(handle)));
        }
        Ok(())
    }

    #[test]
    fn the_last_handle_is_not_the_end() -> Result {
        let activity = KBox::pin_init(Activity::new(), GFP_KERNEL)?;
        let index = index(&[u64::MAX, 0])?;
        activity.report(None);
        let found = step(&mut Walk::new(Looker::Turns), &index, &activity)?;
        assert_eq!(&*found, &[0, u64::MAX]);
        Ok(())
    }
}
