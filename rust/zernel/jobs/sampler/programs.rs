// SPDX-License-Identifier: GPL-2.0
//! The programs of the sampler: those that it looks at and those that rest, by user.
//!
//! Nothing is walked through but the programs that are looked at. A process that gets or loses phases is
//! on a list, and so is one that rings. TSGs of a program are named to their GPUs when any have come or
//! gone.

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

/// A user of programs with phases.
#[derive(Clone, Copy, Default)]
struct User {
    /// The programs.
    programs: usize,
    /// The last tick with one to be looked at.
    tick: u64,
    /// Looks in this tick, and those of earlier ones that went beyond a share.
    used: u64,
    /// Searches in this tick.
    searched: u64,
    /// The key of the process with which the user's turn begins, and with which the next one does.
    turn: usize,
    next: Option<usize>,
}

/// The programs, by their keys.
pub(super) struct Programs {
    awake: RBTree<usize, Program>,
    resting: RBTree<usize, Program>,
    users: RBTree<Uid, User>,
    /// Processes that have got phases or lost them.
    changed: Taken,
    /// The GPUs with TSGs of them, as of the last change of GPUs.
    meters: KVec<Arc<Meters>>,
    gpu_changes: Option<u64>,
    tick: u64,
    /// Looks and searches of each user in this tick.
    each: u64,
    searches: u64,
}

impl Programs {
    /// None.
    pub(super) fn new() -> Self {
        Self {
            awake: RBTree::new(),
            resting: RBTree::new(),
            users: RBTree::new(),
            changed: Taken::none(),
            meters: KVec::new(),
            gpu_changes: None,
            tick: 0,
            each: 0,
            searches: 0,
        }
    }

    /// True if none is to be looked at.
    pub(super) fn is_idle(&self) -> bool {
        self.awake.is_empty()
    }

    /// Those that are looked at.
    pub(super) fn awake(&mut self) -> impl Iterator<Item = &mut Program> {
        self.awake.values_mut()
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

    fn wake(&mut self, process: &Process) {
        let key = process.pid().key();
        let rests = self.resting.get(&key).is_some_and(|p| p.is_of(process));
        if let Some(node) = rests.then(|| self.resting.remove_node(&key)).flatten() {
            self.awake.insert(node);
        }
        // One that is not there yet is awake when it comes.
        if let Some(program) = self.awake.get_mut(&key).filter(|p| p.is_of(process)) {
            program.wake();
        }
    }

    /// # Errors
    ///
    /// `ENOMEM`.
    fn follow_one(&mut self, process: &Arc<Process>) -> Result {
        let key = process.pid().key();
        // Without a table nobody has phases.
        let id = tracking::with(|t| t.program_id(process)).unwrap_or(None);
        for programs in [&mut self.awake, &mut self.resting] {
            let known = programs.get(&key);
            let is_over = known.is_some_and(|p| match p.is_of(process) {
                true => Some(p.id()) != id,
                false => id.is_some(),
            });
            if known.is_some() && !is_over {
                return Ok(());
            }
            let over = known.map(Program::uid);
            programs.remove(&key);
            if let Some(uid) = over {
                self.meters.iter().for_each(|meters| meters.forget(key));
                leave(&mut self.users, uid);
            }
        }
        let (Some(id), Some(thread)) = (id, Thread::of(process.pid())) else {
            return Ok(());
        };
        let program = Program::new(process.clone(), id);
        let uid = program.uid();
        let node = thread.pays(|| RBTreeNode::new(key, program, account_nowait()));
        let Some(node) = node.transpose()? else {
            return Ok(());
        };
        match self.users.get_mut(&uid) {
            Some(user) => user.programs += 1,
            None => {
                let user = User {
                    programs: 1,
                    ..User::default()
                };
                self.users
                    .try_create_and_insert(uid, user, account_nowait())?;
            }
        }
        self.awake.insert(node);
        Ok(())
    }

    /// Gives every user with programs to look at a share of the looks of a tick.
    pub(super) fn share_out(&mut self, tick: Ns) {
        self.tick += 1;
        let before = self.each;
        let mut count = 0;
        for program in self.awake.values() {
            let user = self.users.get_mut(&program.uid());
            if let Some(user) = user.filter(|user| user.tick != self.tick) {
                count += 1;
                user.tick = self.tick;
                user.used = user.used.saturating_sub(before);
                user.searched = 0;
                user.turn = user.next.take().unwrap_or(0);
            }
        }
        let looks = tick.0.checked_div(LOOK.0).unwrap_or(0).min(MOST);
        let share = |all: u64| all.checked_div(count).unwrap_or(0).max(1);
        (self.each, self.searches) = (share(looks), share(SEARCHED));
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
        let each = self.each;
        in_turn(&mut self.awake, &mut self.users, |program, user| {
            if user.used >= each || !program.is_to_plan(population) {
                return;
            }
            let Some(thread) = Thread::of(program.process().pid()) else {
                return;
            };
            let key = program.key();
            let named = thread.pays(|| metered::name_program(key, meters, &sampler));
            if let Some((pieces, named)) = named {
                user.used = user.used.saturating_add(pieces);
                let complete = named.unwrap_or(false);
                program.set_planned(complete.then_some(population));
            }
        });
        Ok(())
    }

    /// Has the GPUs look at the TSGs of programs.
    pub(super) fn want(&self, now: Ns) {
        self.meters.iter().for_each(|meters| meters.want(now));
    }

    /// A look begins: what GPUs have done is there.
    pub(super) fn begin_look(&mut self, now: Ns) {
        for program in self.awake.values_mut() {
            program.begin_look();
        }
        for meters in &self.meters {
            meters.add_to(&mut self.awake, now);
        }
    }

    /// Calls `f` for some programs of each user whose memory is to be looked through.
    pub(super) fn search(&mut self, now: Ns, mut f: impl FnMut(&mut Program)) {
        for program in self.awake.values_mut() {
            let user = self.users.get_mut(&program.uid());
            let Some(user) = user.filter(|user| user.searched < self.searches) else {
                continue;
            };
            if program.is_to_look(now) {
                user.searched += 1;
                f(program);
            }
        }
    }

    /// Calls `f` for the programs of each user, with the looks that are left for it, from where its turn
    /// begins. `f` returns false if it is not through with one.
    pub(super) fn each_in_turn(&mut self, mut f: impl FnMut(&mut Program, &mut u64) -> bool) {
        let each = self.each;
        in_turn(&mut self.awake, &mut self.users, |program, user| {
            let mut left = each.saturating_sub(user.used);
            let had = left;
            if left == 0 || !f(program, &mut left) {
                user.next = user.next.or(Some(program.key()));
            }
            user.used = user.used.saturating_add(had.saturating_sub(left));
        });
    }

    /// Leaves those that rest.
    pub(super) fn rest(&mut self) {
        let mut cursor = self.awake.cursor_front_mut();
        while let Some(at) = cursor {
            let (&key, program) = at.current();
            if !program.rests() {
                cursor = at.move_next();
                continue;
            }
            self.meters.iter().for_each(|meters| meters.rest(key));
            let (next, node) = at.remove_current();
            self.resting.insert(node);
            cursor = next;
        }
    }
}

/// Calls `f` for each program with its user: first those from the user's turn on, then those before.
fn in_turn(
    programs: &mut RBTree<usize, Program>,
    users: &mut RBTree<Uid, User>,
    mut f: impl FnMut(&mut Program, &mut User),
) {
    for before in [false, true] {
        for program in programs.values_mut() {
            let user = users.get_mut(&program.uid());
            if let Some(user) = user.filter(|user| (program.key() < user.turn) == before) {
                f(program, user);
            }
        }
    }
}

/// A program of a user is gone.
fn leave(users: &mut RBTree<Uid, User>, uid: Uid) {
    if let Some(user) = users.get_mut(&uid) {
        user.programs -= 1;
        if user.programs == 0 {
            users.remove(&uid);
        }
    }
}
