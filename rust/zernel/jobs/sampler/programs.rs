// SPDX-License-Identifier: GPL-2.0
//! The programs of the sampler, by user.
//!
//! A process that gets or loses phases is on a list, and so is one that rings. TSGs of a program are
//! named to their GPUs when any have come or gone.

use super::user::{
    earlier,
    Share,
    User,
    Visit,
    Visited,
    ADDED, //
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

/// The time that a look takes.
pub(super) const TOOK: Ns = Ns(LOOK.0 / 10);

/// Most threads looked at in a tick.
const MOST: u64 = 1_024;

/// Each user's looks in a tick, however many users there are: one thread, and the visit of its
/// program.
const LEAST: u64 = 2;

/// Processes that are seen to in a tick which have got phases or lost them.
const FOLLOWED: usize = 256;

/// Processes per tick with a look through their memory, the same number of each user's.
const SEARCHED: u64 = 8;

/// A program, and the meters of the GPUs to which TSGs of it were named.
pub(super) struct Entry {
    pub(super) program: Program,
    meters: KVec<Arc<Meters>>,
}

impl Visited for Entry {
    fn begin(&mut self, now: Ns) -> u64 {
        self.program.begin_look();
        let mut added = self.meters.len() as u64;
        for meters in &self.meters {
            added += meters.add_to(&mut self.program, now);
        }
        added
    }

    fn is_to_search(&mut self, now: Ns) -> bool {
        self.program.is_to_look(now)
    }

    fn due(&self) -> Option<Ns> {
        self.program.due()
    }

    fn rests(&self) -> bool {
        self.program.rests()
    }

    fn leave(&mut self) {
        let key = self.program.key();
        self.meters.iter().for_each(|meters| meters.rest(key));
    }
}

/// The programs.
pub(super) struct Programs {
    /// Users with programs to look at, and the others.
    awake: RBTree<Uid, User<Entry>>,
    resting: RBTree<Uid, User<Entry>>,
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
            awake: RBTree::new(),
            resting: RBTree::new(),
            owners: RBTree::new(),
            changed: Taken::none(),
            meters: KVec::new(),
            gpu_changes: None,
            share: Share::default(),
        }
    }

    /// True if none is to be looked at.
    pub(super) fn is_idle(&self) -> bool {
        self.awake.is_empty()
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
            self.wake(&process);
        }
    }

    /// A process has rung. One that is not there yet is awake when it comes.
    fn wake(&mut self, process: &Process) {
        let key = process.pid().key();
        let Some(&uid) = self.owners.get(&key) else {
            return;
        };
        let Some(user) = self.awake_user(uid) else {
            return;
        };
        if user.get(key).is_some_and(|e| e.program.is_of(process)) {
            if let Some(entry) = user.wake(key) {
                entry.program.wake();
            }
        }
    }

    /// A user, who does not rest now.
    fn awake_user(&mut self, uid: Uid) -> Option<&mut User<Entry>> {
        if let Some(node) = self.resting.remove_node(&uid) {
            self.awake.insert(node);
        }
        self.awake.get_mut(&uid)
    }

    /// # Errors
    ///
    /// `ENOMEM`.
    fn follow_one(&mut self, process: &Arc<Process>) -> Result {
        let key = process.pid().key();
        // Without a table nobody has phases.
        let id = tracking::with(|t| t.program_id(process)).unwrap_or(None);
        if let Some(&uid) = self.owners.get(&key) {
            let users = [&self.awake, &self.resting];
            let mut known = users.iter().filter_map(|users| users.get(&uid)?.get(key));
            let is_over = known.next().is_none_or(|e| match e.program.is_of(process) {
                true => Some(e.program.id()) != id,
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
        let entry = Entry {
            program: Program::new(process.clone(), id),
            meters: KVec::new(),
        };
        let uid = entry.program.uid();
        let is_new = self.awake_user(uid).is_none();
        let nodes = thread.pays(|| {
            let user = is_new.then(|| RBTreeNode::new(uid, User::new(), account_nowait()));
            let owner = RBTreeNode::new(key, uid, account_nowait());
            let entry = RBTreeNode::new(key, entry, account_nowait());
            (user, owner, entry)
        });
        let Some((user, owner, entry)) = nodes else {
            return Ok(());
        };
        let (user, owner, entry) = (user.transpose()?, owner?, entry?);
        if let Some(user) = user {
            self.awake.insert(user);
        }
        if let Some(user) = self.awake_user(uid) {
            user.insert(entry);
            self.owners.insert(owner);
        }
        Ok(())
    }

    fn remove(&mut self, key: usize, uid: Uid) {
        self.owners.remove(&key);
        let Some(user) = self.awake_user(uid) else {
            return;
        };
        if let Some(Entry { meters, .. }) = user.remove(key) {
            let tsgs: u64 = meters.iter().map(|meters| meters.forget(key)).sum();
            user.charge(1 + (meters.len() as u64 + tsgs) / ADDED);
        }
    }

    /// Leaves users that rest, and forgets those without programs.
    fn rest(&mut self) {
        let mut cursor = self.awake.cursor_front_mut();
        while let Some(at) = cursor {
            let (&uid, user) = at.current();
            let is_empty = user.is_empty();
            if !user.rests() {
                cursor = at.move_next();
                continue;
            }
            let (next, node) = at.remove_current();
            if !is_empty {
                self.resting.insert(node);
                if let Some(user) = self.resting.get_mut(&uid) {
                    user.rest();
                }
            }
            // At the end it is the one before.
            cursor = next.filter(|at| *at.current().0 > uid);
        }
    }

    /// Gives every user with programs to look at a share of a tick.
    /// Memory is searched where collectives are looked for.
    pub(super) fn share_out(&mut self, now: Ns, tick: Ns, collectives: bool) {
        let mut count = 0;
        for user in self.awake.values_mut() {
            count += 1;
            user.begin_tick(self.share, now, tick);
        }
        let looks = tick.0.checked_div(LOOK.0).unwrap_or(0).min(MOST);
        let share = |all: u64| all.checked_div(count).unwrap_or(0);
        self.share = Share {
            looks: share(looks).max(LEAST),
            searches: match collectives {
                true => share(SEARCHED).max(1),
                false => 0,
            },
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
        let known = &mut self.meters;
        for user in self.awake.values_mut() {
            user.name(self.share, |Entry { program, meters }| {
                if !program.is_to_plan(population) {
                    return 0;
                }
                let Some(thread) = Thread::of(program.process().pid()) else {
                    return 0;
                };
                let key = program.key();
                let name = || metered::name_program(key, meters, known, &sampler);
                let Some((pieces, named)) = thread.pays(name) else {
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

    /// Calls `f` for some programs of each user, with the GPUs' work for them. `f` takes looks, and
    /// returns false if it is not through with a program.
    pub(super) fn look(&mut self, now: Ns, mut f: impl FnMut(&mut Visit<'_, Entry>) -> bool) {
        for user in self.awake.values_mut() {
            user.look(self.share, now, &mut f);
        }
        self.rest();
    }

    /// Calls `f` for the programs of which a signal may be due. Returns when to do so again.
    pub(super) fn signal(&mut self, now: Ns, mut f: impl FnMut(&mut Program)) -> Option<Ns> {
        let share = self.share;
        let users = self.awake.values_mut();
        users.fold(None, |next, user| {
            earlier(next, user.signal(share, now, |entry| f(&mut entry.program)))
        })
    }
}
