// SPDX-License-Identifier: GPL-2.0 OR MIT
//! The order in which an engine serves its TSGs.
//!
//! Between two TSGs of a level, every runnable TSG of each higher level has its turn, as with the
//! interleave levels of NVIDIA's `nvgpu` driver; within a level they take turns. The hardware
//! walks a list with repeated entries; here each level keeps the TSGs that are still to be served
//! in this pass apart from those that have been, and serving a TSG starts new passes for the
//! levels above. Every operation takes the same time for any number of TSGs.

use super::{
    arena::{
        Arena,
        Pool, //
    },
    list::List,
    tsg::{
        Interleave,
        Place,
        Tsg,
        TsgIx,
        RUNLIST, //
    }, //
};

/// The runnable TSGs of a level.
///
/// # Invariants
///
/// A TSG in this level is in `served` if and only if its own `served` equals `pass`.
struct Level {
    due: List<RUNLIST, TsgIx>,
    served: List<RUNLIST, TsgIx>,
    pass: u64,
}

impl Level {
    const fn new() -> Self {
        Self {
            due: List::new(),
            served: List::new(),
            pass: 1,
        }
    }

    /// Starts a pass. INVARIANT: callers do so only when nothing is due, and no TSG has been
    /// served in a pass that has just begun.
    fn begin_pass(&mut self) {
        debug_assert!(self.due.is_empty());
        core::mem::swap(&mut self.due, &mut self.served);
        self.pass = self.pass.saturating_add(1);
    }

    /// Starts a pass in which everything is due: first the TSGs that have not been served.
    /// INVARIANT: none has been served in a pass that has just begun.
    fn restart<C, P: Pool<Tsg<C>>>(&mut self, tsgs: &mut Arena<Tsg<C>, P>) {
        self.due.append(tsgs, &mut self.served);
        self.pass = self.pass.saturating_add(1);
    }

    fn serve<C, P: Pool<Tsg<C>>>(&mut self, tsgs: &mut Arena<Tsg<C>, P>) -> Option<TsgIx> {
        let ix = self.due.pop(tsgs)?;
        tsgs.get_mut(ix).served = self.pass;
        Some(ix)
    }
}

/// The runnable TSGs of an engine that have not the engine.
pub(crate) struct Runlist {
    low: Level,
    medium: Level,
    high: Level,
}

impl Runlist {
    /// An empty runlist.
    pub(crate) const fn new() -> Self {
        Self {
            low: Level::new(),
            medium: Level::new(),
            high: Level::new(),
        }
    }

    /// Number of TSGs.
    pub(crate) fn len(&self) -> u32 {
        [&self.low, &self.medium, &self.high]
            .iter()
            .fold(0u32, |sum, level| {
                sum.saturating_add(level.due.len())
                    .saturating_add(level.served.len())
            })
    }

    /// True if no TSG is in it.
    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn level(&mut self, interleave: Interleave) -> &mut Level {
        match interleave {
            Interleave::Low => &mut self.low,
            Interleave::Medium => &mut self.medium,
            Interleave::High => &mut self.high,
        }
    }

    /// Adds a TSG behind the others of its level: due in this pass, unless it has had its turn.
    pub(crate) fn push<C, P: Pool<Tsg<C>>>(&mut self, tsgs: &mut Arena<Tsg<C>, P>, ix: TsgIx) {
        let tsg = tsgs.get(ix);
        let served = tsg.served;
        let level = self.level(tsg.interleave);
        if served == level.pass {
            level.served.push(tsgs, ix);
        } else {
            level.due.push(tsgs, ix);
        }
    }

    /// Takes a TSG out.
    pub(crate) fn remove<C, P: Pool<Tsg<C>>>(&mut self, tsgs: &mut Arena<Tsg<C>, P>, ix: TsgIx) {
        let tsg = tsgs.get(ix);
        let served = tsg.served;
        let level = self.level(tsg.interleave);
        if served == level.pass {
            level.served.remove(tsgs, ix);
        } else {
            level.due.remove(tsgs, ix);
        }
    }

    /// Changes the level of a TSG that stands at `place`. One that has the engine counts as served
    /// in its new level, any other one as not served.
    pub(crate) fn set_level<C, P: Pool<Tsg<C>>>(
        &mut self,
        tsgs: &mut Arena<Tsg<C>, P>,
        ix: TsgIx,
        interleave: Interleave,
        place: Place,
    ) {
        if place == Place::Queued {
            self.remove(tsgs, ix);
        }
        let tsg = tsgs.get_mut(ix);
        tsg.interleave = interleave;
        tsg.served = match place {
            Place::On | Place::Next => self.level(interleave).pass,
            Place::Queued | Place::Out => 0,
        };
        if place == Place::Queued {
            self.push(tsgs, ix);
        }
    }

    /// Starts anew from the highest level: every TSG is due, also those that have had their turn.
    pub(crate) fn restart<C, P: Pool<Tsg<C>>>(&mut self, tsgs: &mut Arena<Tsg<C>, P>) {
        self.high.restart(tsgs);
        self.medium.restart(tsgs);
        self.low.restart(tsgs);
    }

    /// Takes out the TSG that has its turn.
    pub(crate) fn pick<C, P: Pool<Tsg<C>>>(
        &mut self,
        tsgs: &mut Arena<Tsg<C>, P>,
    ) -> Option<TsgIx> {
        let Self { low, medium, high } = self;
        if !high.due.is_empty() {
            return high.serve(tsgs);
        }
        if medium.due.is_empty() {
            // The higher levels have had their pass: a TSG of the lowest level is next.
            if low.due.is_empty() {
                low.begin_pass();
            }
            medium.begin_pass();
            if !low.due.is_empty() {
                high.begin_pass();
                return low.serve(tsgs);
            }
        }
        high.begin_pass();
        if !medium.due.is_empty() {
            return medium.serve(tsgs);
        }
        high.serve(tsgs)
    }
}

#[cfg(any(test, zernel_kunit))]
#[cfg_attr(not(test), kernel::macros::kunit_tests(zernel_model_runlist))]
mod tests {
    use super::*;
    use crate::model::arena::{
        Index,
        Node, //
    };

    type Few = [Tsg<()>; 5];

    impl Pool<Tsg<()>> for Few {
        fn at(&self, at: u32) -> Option<&Tsg<()>> {
            self.get(at as usize)
        }
        fn at_mut(&mut self, at: u32) -> Option<&mut Tsg<()>> {
            self.get_mut(at as usize)
        }
        fn size(&self) -> u32 {
            5
        }
    }

    /// A runlist of TSGs 0, 1, ... with these levels.
    fn runlist(levels: &[Interleave]) -> (Arena<Tsg<()>, Few>, Runlist) {
        let mut tsgs = Arena::new([
            Tsg::blank(),
            Tsg::blank(),
            Tsg::blank(),
            Tsg::blank(),
            Tsg::blank(),
        ]);
        let mut list = Runlist::new();
        for (at, interleave) in levels.iter().enumerate() {
            let ix = TsgIx::new(at as u32);
            tsgs.get_mut(ix).interleave = *interleave;
            list.push(&mut tsgs, ix);
        }
        (tsgs, list)
    }

    /// Serves and puts back; whether the turns are as `expected`.
    fn turns(tsgs: &mut Arena<Tsg<()>, Few>, list: &mut Runlist, expected: &[u32]) -> bool {
        expected.iter().all(|want| match list.pick(tsgs) {
            Some(ix) => {
                list.push(tsgs, ix);
                ix.raw() == *want
            }
            None => false,
        })
    }

    use Interleave::{
        High,
        Low,
        Medium, //
    };

    #[test]
    fn one_level_takes_turns() {
        let (mut tsgs, mut list) = runlist(&[Low, Low, Low]);
        assert!(turns(&mut tsgs, &mut list, &[0, 1, 2, 0, 1, 2, 0]));
        let (mut tsgs, mut list) = runlist(&[High, High]);
        assert!(turns(&mut tsgs, &mut list, &[0, 1, 0, 1]));
        let (mut tsgs, mut list) = runlist(&[Medium, Medium]);
        assert!(turns(&mut tsgs, &mut list, &[0, 1, 0, 1]));
    }

    #[test]
    fn high_runs_between_any_two_of_the_others() {
        let (mut tsgs, mut list) = runlist(&[Low, High, Low, Low]);
        assert!(turns(&mut tsgs, &mut list, &[1, 0, 1, 2, 1, 3, 1, 0]));
        let (mut tsgs, mut list) = runlist(&[High, High, Low, Low]);
        assert!(turns(&mut tsgs, &mut list, &[0, 1, 2, 0, 1, 3, 0, 1, 2]));
        let (mut tsgs, mut list) = runlist(&[High, Medium, Medium]);
        assert!(turns(&mut tsgs, &mut list, &[0, 1, 0, 2, 0, 1, 0, 2]));
    }

    #[test]
    fn three_levels_nest() {
        let (mut tsgs, mut list) = runlist(&[Low, Low, Medium, High]);
        assert!(turns(
            &mut tsgs,
            &mut list,
            &[3, 2, 3, 0, 3, 2, 3, 1, 3, 2, 3, 0]
        ));
    }

    #[test]
    fn one_that_comes_late_is_served_in_this_pass_unless_it_was() {
        let (mut tsgs, mut list) = runlist(&[Low, Low, High]);
        assert_eq!(list.pick(&mut tsgs), Some(TsgIx::new(2)));
        assert_eq!(list.pick(&mut tsgs), Some(TsgIx::new(0)));
        list.push(&mut tsgs, TsgIx::new(2));
        list.push(&mut tsgs, TsgIx::new(0));
        assert_eq!(list.pick(&mut tsgs), Some(TsgIx::new(2)));
        assert_eq!(list.pick(&mut tsgs), Some(TsgIx::new(1)));
        assert_eq!(list.len(), 1);
    }

    #[test]
    fn a_changed_level_counts_at_once() {
        let (mut tsgs, mut list) = runlist(&[Low, Low, Low]);
        list.set_level(&mut tsgs, TsgIx::new(2), High, Place::Queued);
        assert!(turns(&mut tsgs, &mut list, &[2, 0, 2, 1, 2, 0]));
        list.set_level(&mut tsgs, TsgIx::new(2), Low, Place::Queued);
        assert!(turns(&mut tsgs, &mut list, &[1, 2, 0, 1, 2, 0]));
    }

    #[test]
    fn a_restart_makes_everything_due_from_the_top() {
        let (mut tsgs, mut list) = runlist(&[Low, Low, Medium, High]);
        assert!(turns(&mut tsgs, &mut list, &[3, 2, 3, 0]));
        list.restart(&mut tsgs);
        assert!(turns(&mut tsgs, &mut list, &[3, 2, 3, 1, 3, 2, 3, 0]));
        // Again and again: only the top has turns.
        for _ in 0..3 {
            list.restart(&mut tsgs);
            assert!(turns(&mut tsgs, &mut list, &[3]));
        }
        // One that is away while the list starts anew is due when it comes back.
        let (mut tsgs, mut list) = runlist(&[Low, Low]);
        assert_eq!(list.pick(&mut tsgs), Some(TsgIx::new(0)));
        list.restart(&mut tsgs);
        list.push(&mut tsgs, TsgIx::new(0));
        assert!(turns(&mut tsgs, &mut list, &[1, 0, 1, 0]));
    }

    #[test]
    fn removal_works_in_both_halves() {
        let (mut tsgs, mut list) = runlist(&[Low, Low, Low]);
        assert!(turns(&mut tsgs, &mut list, &[0]));
        list.remove(&mut tsgs, TsgIx::new(0));
        list.remove(&mut tsgs, TsgIx::new(1));
        assert!(turns(&mut tsgs, &mut list, &[2, 2]));
        list.remove(&mut tsgs, TsgIx::new(2));
        assert!(list.is_empty());
        assert_eq!(list.pick(&mut tsgs), None);
        list.push(&mut tsgs, TsgIx::new(1));
        assert_eq!(list.pick(&mut tsgs), Some(TsgIx::new(1)));
    }
}
