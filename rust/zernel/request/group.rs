// SPDX-License-Identifier: GPL-2.0
//! The requests of one TSG: their statistics, and their end with it.

use super::{
    device::Device,
    stats::Shared, //
};
use crate::{
    error::Failure,
    glue::{
        errno,
        identity::Uid,
        memory::account_nowait,
        time::now_ns, //
    },
    ids::TsgId,
    policy::{
        level::Level,
        predict::Costs,
        request::record::Cause,
        slices::slack::Open,
        units::Ns, //
    },
};
use kernel::{
    new_mutex,
    prelude::*,
    rbtree::{
        RBTree,
        RBTreeNode, //
    },
    sync::{
        atomic::{
            ordering::Relaxed,
            Atomic, //
        },
        Arc,
        Mutex, //
    }, //
};

/// The requests of a TSG.
///
/// Members and group hold each other, until the member's page goes.
#[pin_data]
pub(crate) struct Group {
    /// The TSG.
    pub(crate) tsg: TsgId,
    /// The provider's number of it.
    pub(super) handle: u64,
    /// Its GPU.
    pub(crate) gpu: Arc<Device>,
    /// Statistics of the TSG.
    pub(crate) stats: Arc<Shared>,
    /// The level in force, [`NO_LEVEL`] if there is none.
    level: Atomic<u32>,
    /// The run list.
    runlist: Atomic<u32>,
    /// It is one of [`Device::claims`].
    claims: Atomic<bool>,
    /// The TSG is gone.
    gone: Atomic<bool>,
    /// Slots with requests of the TSG, by address.
    #[pin]
    members: Mutex<RBTree<usize, Arc<dyn Member>>>,
}

/// Slots of a TSG that are looked at in one hold of its members.
const PIECE: usize = 16;

/// Pieces that are looked at for deadlines.
const PIECES: usize = 4;

/// A slot with requests of a TSG.
pub(super) trait Member: Send + Sync {
    /// Makes its requests a TSG's. The present one is over. Returns the TSG before.
    fn set_group(&self, group: Arc<Group>) -> Option<Arc<Group>>;
    /// Ends the request that is not over.
    fn end(&self, cause: Cause);
    /// Takes up the stores of the process, and counts them.
    fn poll(&self);
    /// The deadline of the request that is not over, if it has one.
    fn deadline(&self) -> Option<Ns>;
}

/// A place among the members of a group.
pub(super) type Place = RBTreeNode<usize, Arc<dyn Member>>;

const NO_LEVEL: u32 = u32::MAX;

fn number(level: Option<Level>) -> u32 {
    level.map_or(NO_LEVEL, Level::number)
}

impl Group {
    /// A TSG without requests.
    pub(crate) fn new(
        tsg: TsgId,
        handle: u64,
        gpu: Arc<Device>,
        stats: Arc<Shared>,
        level: Option<Level>,
        runlist: u32,
    ) -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                tsg,
                handle,
                gpu,
                stats,
                level: Atomic::new(number(level)),
                runlist: Atomic::new(runlist),
                claims: Atomic::new(false),
                gone: Atomic::new(false),
                members <- new_mutex!(RBTree::new(), "zernel_request_group"),
            }),
            account_nowait(),
        )
    }

    /// The level in force.
    pub(crate) fn level(&self) -> Option<Level> {
        Level::new(self.level.load(Relaxed))
    }

    /// Another level is in force.
    pub(crate) fn set_level(&self, level: Option<Level>) {
        self.level.store(number(level), Relaxed);
    }

    /// The run list of its TSG.
    pub(super) fn runlist(&self) -> u32 {
        self.runlist.load(Relaxed)
    }

    /// Its TSG is on another run list.
    pub(crate) fn set_runlist(&self, runlist: u32) {
        self.runlist.store(runlist, Relaxed);
    }

    /// Its TSG waited so long for the engine.
    pub(crate) fn waited(&self, time: Ns) {
        self.stats.waited(time);
        if let Some(level) = self.gpu.totals.of(self.level()) {
            level.waited(time);
        }
    }

    /// True if the TSG is gone.
    pub(super) fn is_gone(&self) -> bool {
        self.gone.load(Relaxed)
    }

    /// Checks that a request can begin. `holder`: its stream has one.
    ///
    /// # Errors
    ///
    /// `ENOENT` the TSG is gone, `EAGAIN` its GPU is suspended or retrying; without a holder also
    /// [`Failure::NotPermitted`], and `EOPNOTSUPP` nobody can be kept off the GPU.
    pub(crate) fn check(&self, holder: bool) -> Result {
        if self.is_gone() {
            return Err(ENOENT);
        }
        if self.gpu.is_suspended() {
            return Err(EAGAIN);
        }
        if holder {
            return Ok(());
        }
        self.check_without_holder()
    }

    #[cold]
    #[inline(never)]
    fn check_without_holder(&self) -> Result {
        // It stops others, so it takes a level that only privilege gives.
        if !self.level().is_some_and(|l| l.is_above(Level::DEFAULT)) {
            return Err(Failure::NotPermitted.into());
        }
        if !self.gpu.can_take() {
            return Err(errno::unsupported());
        }
        Ok(())
    }

    /// A request begins: being early has another cost for its prediction, if programs share the GPU. A
    /// TSG counts with a level that only privilege gives.
    #[cold]
    #[inline(never)]
    pub(super) fn weigh(&self, early: u32, costs: &mut Costs) {
        if self.may_share() && self.gpu.sharing.begin(self.tsg, Ns(now_ns())) {
            *costs = costs.with_early(early);
        }
    }

    /// As [`Self::weigh`], for a request that may not begin.
    pub(super) fn foresee(&self, early: u32, costs: &mut Costs) {
        if self.may_share() && self.gpu.sharing.would_share(self.tsg, Ns(now_ns())) {
            *costs = costs.with_early(early);
        }
    }

    fn may_share(&self) -> bool {
        self.level().is_some_and(|l| l.is_above(Level::DEFAULT))
    }

    /// Memory for [`Self::attach`].
    pub(super) fn reserve<M: Member + 'static>(&self, slot: &Arc<M>) -> Result<Place> {
        let member: Arc<dyn Member> = slot.clone();
        RBTreeNode::new(address(slot), member, GFP_KERNEL_ACCOUNT)
    }

    /// Has the requests of `slot` be the TSG's. Returns the other group that they were of.
    ///
    /// # Errors
    ///
    /// `ENOENT` the TSG is gone.
    pub(super) fn attach<M: Member>(
        self: &Arc<Self>,
        slot: &Arc<M>,
        member: Place,
    ) -> Result<Option<Arc<Self>>> {
        let mut members = self.members.lock();
        // Those that end the requests of a TSG that is gone lock the members after it is: they find
        // this slot, or it finds the TSG gone.
        if self.is_gone() {
            return Err(ENOENT);
        }
        let member = members.insert(member);
        let old = slot.set_group(self.clone());
        drop(members);
        // Dropped without the lock.
        drop(member);
        Ok(old.filter(|old| !core::ptr::eq::<Self>(&**old, &**self)))
    }

    /// The requests of `slot` are not the TSG's any more.
    pub(super) fn detach<M: Member>(&self, slot: &Arc<M>) {
        let member = self.members.lock().remove(&address(slot));
        // Dropped without the lock.
        drop(member);
    }

    /// The TSG is gone: no request begins any more. [`Self::end`] follows.
    pub(crate) fn close(&self) {
        self.gone.store(true, Relaxed);
    }

    /// Ends the requests of a TSG that is gone. May sleep.
    pub(crate) fn end(&self) {
        self.each(|slot| slot.end(Cause::TsgGone));
    }

    /// Calls `f` with each slot that is a member, and perhaps with some that become one meanwhile.
    /// Holds the members for a few of them at a time.
    fn each(&self, f: impl Fn(&dyn Member)) {
        let mut from = Some(0);
        while let Some(mut next) = from.take() {
            let members = self.members.lock();
            for left in (0..PIECE).rev() {
                let Some(cursor) = members.cursor_lower_bound(&next) else {
                    break;
                };
                let (&address, slot) = cursor.current();
                f(&**slot);
                next = address.saturating_add(1);
                from = (left == 0).then_some(next);
            }
        }
    }

    /// A request with a deadline has begun, with its slot locked.
    pub(super) fn claim(&self, user: Uid) {
        let Some(level) = self.level().filter(|level| *level != Level::BE) else {
            return;
        };
        let is_new = !self.claims.load(Relaxed);
        let new = is_new.then_some((level, user.0));
        if self.gpu.claim(self.tsg, new) && is_new {
            self.claims.store(true, Relaxed);
        }
    }

    /// It is none of [`Device::claims`] any more.
    pub(crate) fn unclaim(&self) {
        self.claims.store(false, Relaxed);
    }

    /// The deadlines of its requests that are not over, of some of its slots. Holds the members for a
    /// few of them at a time, and waits for nobody: a thread of the TSG's owner may hold them for long.
    /// `None`: one does.
    pub(crate) fn open(&self, now: Ns) -> Option<Open> {
        let mut open = Open::NONE;
        let mut next = 0;
        for _ in 0..PIECES {
            let members = self.members.try_lock()?;
            for _ in 0..PIECE {
                let Some(cursor) = members.cursor_lower_bound(&next) else {
                    return Some(open);
                };
                let (&address, slot) = cursor.current();
                if let Some(deadline) = slot.deadline() {
                    open.add(deadline, now);
                }
                next = address.saturating_add(1);
            }
        }
        Some(open)
    }

    /// Ends the requests of a GPU that is suspended or retrying.
    pub(crate) fn suspend(&self) {
        self.each(|slot| slot.end(Cause::Suspended));
    }

    /// Takes up the stores of processes for their requests.
    pub(crate) fn poll(&self) {
        self.each(|slot| slot.poll());
    }
}

fn address<M: Member>(slot: &Arc<M>) -> usize {
    core::ptr::from_ref::<M>(slot) as usize
}

#[cfg(zernel_kunit)]
#[kernel::macros::kunit_tests(zernel_request_group)]
mod tests {
    use super::*;

    #[test]
    fn a_look_for_deadlines_waits_for_nobody() -> Result {
        let (gpu, stats) = (Device::new(true, false)?, Shared::new()?);
        let group = Group::new(TsgId(1), 1, gpu, stats, Some(Level::LC), 0)?;
        let held = group.members.lock();
        assert!(group.open(Ns(1)).is_none());
        drop(held);
        assert!(group.open(Ns(1)).is_some());
        Ok(())
    }
}
