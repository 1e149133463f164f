// SPDX-License-Identifier: GPL-2.0
//! The programs of the sampler, by user.
//!
//! A process that gets or loses phases is on a list, and so is one that rings. TSGs of a program are
//! named to their GPUs when any have come or gone.

use super::user::{
    earlier,
    Share,
    User,
    Visit, //
};
use crate::{
    glue::{
        identity::Uid,
        memory::account_nowait,
        thread::Thread, //
    },
    policy::units::Ns,
    registry::{
        self,
        metered,
        meters::Meters, //
    },
    tracking::{
        self,
        process::{
            self,
            Process,
            Taken, //
        },
        program::Program, //
    },
};
use kernel::{
    prelude::*,
    rbtree::{
        RBTree,
        RBTreeNode, //
    },
    sync::Arc, //
};

/// A thread is looked at for each such part of a tick, the same number of each user's; more take
/// their turns. So a user with many does not slow down the samples of others: a look takes about a
/// tenth of this, and with the pause after it as long as this.
const LOOK: Ns = Ns(8_000);

/// Most threads looked at in a tick.
const MOST: u64 = 1_024;

/// Processes that are seen to in a tick which have got phases or lost them.
const FOLLOWED: usize = 256;

/// Processes per tick with a look through their memory, the same number of each user's.
const SEARCHED: u64 = 8;

/// The programs.
pub(super) struct Programs {
    users: RBTree<Uid, User>,
    /// The user of each, by its key.
    owners: RBTree<usize, Uid>,
    /// Processes that have got phases or lost them.
    changed: Taken,
    /// The GPUs with TSGs of them, as of the last change of GPUs.
    meters: KVec<Arc<Meters>>,
    gpu_changes: Option<u64>,
    /// The share of each user in this tick.
    share: Share,
}

impl Programs {
    /// None.
    pub(super) fn new() -> Self {
        Self {
            users: RBTree::new(),
            owners: RBTree::new(),
            changed: Taken::none(),
            meters: KVec::new(),
            gpu_changes: None,
            share: Share::default(),
        }
    }

    /// True if none is to be looked at.
    pub(super) fn is_idle(&self) -> bool {
        self.users.values().all(User::rests)
    }

    /// True if no process is left that has got phases or lost them.
    pub(super) fn are_followed(&self) -> bool {
        self.changed.is_empty() && process::CHANGED.is_empty()
    }

    /// True if no GPU has still to answer.
    pub(super) fn are_answered(&self) -> bool {
        self.meters.iter().all(|meters| meters.is_answered())
    }

    /// Sees to some processes that have got phases or lost them, and to all that have rung.
    pub(super) fn follow(&mut self) {
        // Those that fail come back at the next tick.
        let mut taken = false;
        for _ in 0..FOLLOWED {
            if self.changed.is_empty() && !taken {
                self.changed = process::CHANGED.take();
                taken = true;
            }
            let Some(process) = self.changed.next() else {
                break;
            };
            if self.follow_one(&process).is_err() {
                // Its cgroup may have memory at the next tick: those of others are not to wait.
                Process::change(&process);
            }
        }
        for process in process::RUNG.take() {
            // One that is not there yet is awake when it comes.
            if let Some(uid) = self.owners.get(&process.pid().key()) {
                if let Some(user) = self.users.get_mut(uid) {
                    user.wake(&process);
                }
            }
        }
    }

    /// # Errors
    ///
    /// `ENOMEM`.
    fn follow_one(&mut self, process: &Arc<Process>) -> Result {
        let key = process.pid().key();
        // Without a table nobody has phases.
        let id = tracking::with(|t| t.program_id(process)).unwrap_or(None);
        if let Some(&uid) = self.owners.get(&key) {
            let known = self.users.get(&uid).and_then(|user| user.get(key));
            let is_over = known.is_none_or(|p| match p.is_of(process) {
                true => Some(p.id()) != id,
                false => id.is_some(),
            });
            if !is_over {
                return Ok(());
            }
            self.remove(key, uid);
        }
        let (Some(id), Some(thread)) = (id, Thread::of(process.pid())) else {
            return Ok(());
        };
        let program = Program::new(process.clone(), id);
        let uid = program.uid();
        let nodes = thread.pays(|| {
            let owner = RBTreeNode::new(key, uid, account_nowait());
            (owner, RBTreeNode::new(key, program, account_nowait()))
        });
        let Some((owner, program)) = nodes else {
            return Ok(());
        };
        let (owner, program) = (owner?, program?);
        if self.users.get(&uid).is_none() {
            self.users
                .try_create_and_insert(uid, User::new(), account_nowait())?;
        }
        if let Some(user) = self.users.get_mut(&uid) {
            self.owners.insert(owner);
            user.insert(program);
        }
        Ok(())
    }

    fn remove(&mut self, key: usize, uid: Uid) {
        self.meters.iter().for_each(|meters| meters.forget(key));
        self.owners.remove(&key);
        if let Some(user) = self.users.get_mut(&uid) {
            user.remove(key);
            if user.is_empty() {
                self.users.remove(&uid);
            }
        }
    }

    /// Gives every user with programs to look at a share of a tick.
    pub(super) fn share_out(&mut self, tick: Ns) {
        let mut count = 0;
        for user in self.users.values_mut().filter(|user| !user.rests()) {
            count += 1;
            user.begin_tick(self.share);
        }
        let looks = tick.0.checked_div(LOOK.0).unwrap_or(0).min(MOST);
        let share = |all: u64| all.checked_div(count).unwrap_or(0).max(1);
        self.share = Share {
            looks: share(looks),
            searches: share(SEARCHED),
        };
    }

    /// Names the TSGs of programs to their GPUs, where any have come or gone.
    ///
    /// # Errors
    ///
    /// `ENODEV` the module is on its way out.
    pub(super) fn name_tsgs(&mut self) -> Result {
        let of = |r: &mut registry::Registry| (r.population_generation(), r.gpu_changes());
        let (population, gpu_changes) = registry::with(of)?;
        if self.gpu_changes != Some(gpu_changes) {
            metered::retain_present(&mut self.meters)?;
            self.gpu_changes = Some(gpu_changes);
        }
        let sampler = tracking::with(|t| t.sampler())?;
        let meters = &mut self.meters;
        for user in self.users.values_mut() {
            user.plan(self.share, |program| {
                if !program.is_to_plan(population) {
                    return 0;
                }
                let Some(thread) = Thread::of(program.process().pid()) else {
                    return 0;
                };
                let key = program.key();
                let named = thread.pays(|| metered::name_program(key, meters, &sampler));
                let Some((pieces, named)) = named else {
                    return 0;
                };
                let complete = named.unwrap_or(false);
                program.set_planned(complete.then_some(population));
                pieces
            });
        }
        Ok(())
    }

    /// Has the GPUs look at the TSGs of programs.
    pub(super) fn want(&self, now: Ns) {
        self.meters.iter().for_each(|meters| meters.want(now));
    }

    /// Calls `f` for some programs of each user. What GPUs have done for one is there then. `f` takes
    /// looks, and returns false if it is not through with a program.
    pub(super) fn look(&mut self, now: Ns, mut f: impl FnMut(&mut Visit<'_>) -> bool) {
        for user in self.users.values_mut() {
            user.look(self.share, &self.meters, now, &mut f);
        }
    }

    /// Calls `f` for the programs of which a signal may be due. Returns when to do so again.
    pub(super) fn signal(&mut self, now: Ns, mut f: impl FnMut(&mut Program)) -> Option<Ns> {
        let share = self.share;
        let users = self.users.values_mut();
        users.fold(None, |next, user| {
            earlier(next, user.signal(share, now, &mut f))
        })
    }
}
