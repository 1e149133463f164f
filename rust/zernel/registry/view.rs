// SPDX-License-Identifier: GPL-2.0
//! The part of the registry that is read without its lock: classes and TSGs, by their names.
//!
//! Written with the registry locked. A reader holds RCU and waits for nobody. Classes that change
//! while it adds them up make it begin anew, and after some times take the lock.

mod classes;

use super::target::Target;
use crate::{
    glue::{
        identity::{
            Pid,
            Uid,
            COMM_LEN, //
        },
        provider::tsg::{
            Done,
            Hardware,
            Owner,
            Traits, //
        },
        rcu::{
            Guard,
            Hash,
            Key,
            Published,
            Reservation,
            Sequence,
            Snapshot,
            Writer, //
        }, //
    },
    ids::{
        GpuId,
        TsgId, //
    },
    policy::{
        class::{
            Assignment,
            Effective, //
        },
        tunables::{
            settings::{
                Meaning,
                OfTsg,
                OnGpu, //
            },
            Tunables, //
        },
    },
};
use kernel::{
    prelude::*,
    sync::{
        atomic::{
            ordering::Relaxed,
            Atomic, //
        },
        Arc, //
    },
};

impl Key for Target {
    fn number(self) -> u64 {
        // Different kinds of the same number do not meet.
        let (kind, number) = match self {
            Self::Cgroup(id) => (0u64, id),
            Self::Process(key) => (1, key as u64),
            Self::Thread(key) => (2, key as u64),
            Self::Tsg(id) => (3, id.0),
        };
        number ^ (kind << 62)
    }
}

impl Key for TsgId {
    fn number(self) -> u64 {
        self.0
    }
}

impl Key for GpuId {
    fn number(self) -> u64 {
        self.0
    }
}

/// The changing part of a TSG.
#[derive(Clone, Copy)]
pub(crate) struct State {
    pub(crate) traits: Traits,
    pub(crate) cgroup: u64,
    pub(crate) effective: Effective,
    pub(crate) own: OfTsg,
    pub(crate) original: Option<Hardware>,
    pub(crate) current: Option<Hardware>,
    pub(crate) done: Done,
    pub(crate) applied: u64,
    pub(crate) errors: u64,
    pub(crate) last_error: i32,
    pub(crate) is_pending: bool,
    pub(crate) failed: bool,
}

/// A TSG.
pub(crate) struct Shown {
    pub(crate) process: Pid,
    pub(crate) thread: Pid,
    pub(crate) uid: Uid,
    pub(crate) comm: [u8; COMM_LEN],
    /// `None` until it is in the registry.
    state: Snapshot<Option<(GpuId, u64, State)>>,
}

impl Shown {
    /// A TSG that is about to be added.
    pub(super) fn new(owner: &Owner) -> Self {
        Self {
            process: owner.process.clone(),
            thread: owner.thread.clone(),
            uid: owner.uid,
            comm: owner.comm,
            state: Snapshot::new(None),
        }
    }

    /// Shows its state.
    pub(super) fn update(&self, (gpu, added_ns): (GpuId, u64), state: State, writer: &Writer) {
        self.state.store(writer, Some((gpu, added_ns, state)));
    }
}

/// A TSG as lists show it.
pub(crate) struct Found<'a> {
    pub(crate) shown: &'a Shown,
    pub(crate) gpu: GpuId,
    pub(crate) added_ns: u64,
    pub(crate) state: State,
}

/// An assignment.
pub(crate) struct Assigned {
    pid: Option<Pid>,
    made: Snapshot<Made>,
}

/// Its changing part.
#[derive(Clone, Copy)]
pub(crate) struct Made {
    pub(super) assignment: Assignment,
    pub(super) by: Uid,
    pub(super) cgroup_owner: Option<Uid>,
}

/// Memory for an assignment.
pub(crate) type ForAssignment = Reservation<Target, Assigned>;
/// Memory for a cgroup.
pub(super) type ForCgroup = Reservation<u64, Option<u64>>;
/// Memory for a TSG.
pub(super) type ForTsg = Reservation<TsgId, Arc<Shown>>;
/// Memory for a GPU.
pub(crate) type ForGpu = Reservation<GpuId, Snapshot<OnGpu>>;

/// All of it.
pub(crate) struct View {
    /// Counts changes of classes.
    classes: Sequence,
    assigned: Hash<Target, Assigned>,
    /// The cgroup above each.
    parents: Hash<u64, Option<u64>>,
    tsgs: Hash<TsgId, Arc<Shown>>,
    gpus: Hash<GpuId, Snapshot<OnGpu>>,
    meaning: Snapshot<Meaning>,
    /// TSGs that have come and gone.
    changes: Atomic<u64>,
    /// Before this time in ns nobody needs to ask GPUs for the load of their TSGs.
    look_at: Atomic<u64>,
}

/// The module's.
pub(super) static VIEW: Published<View> = Published::new();

impl View {
    /// An empty one, with tables of `1 << bits` lists.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn new(bits: u32) -> Result<Arc<Self>> {
        let (assigned, parents) = (Hash::new(bits)?, Hash::new(bits.saturating_sub(2))?);
        let (tsgs, gpus) = (Hash::new(bits)?, Hash::new(6)?);
        let view = init!(Self {
            classes: Sequence::new(),
            assigned,
            parents,
            tsgs,
            gpus,
            meaning: Snapshot::new(Tunables::new().meaning()),
            changes: Atomic::new(0),
            look_at: Atomic::new(0),
        });
        Arc::init(view, GFP_KERNEL)
    }

    /// Shows an assignment that is new, for which there is memory, or was changed.
    pub(super) fn assign(
        &self,
        target: Target,
        (made, task): (Made, Option<&Pid>),
        memory: Option<ForAssignment>,
        writer: &mut Writer,
    ) {
        self.classes.change(writer, |writer| match memory {
            Some(memory) => {
                let new = Assigned {
                    pid: task.cloned(),
                    made: Snapshot::new(made),
                };
                self.assigned.insert(target, new, memory, writer);
            }
            None => {
                if let Some(known) = self.assigned.get_locked(target, writer) {
                    known.made.store(writer, made);
                }
            }
        });
    }

    /// An assignment is over.
    pub(super) fn unassign(&self, target: Target, writer: &mut Writer) {
        self.classes
            .change(writer, |writer| self.assigned.remove(target, writer));
    }

    /// A change of the cgroups of TSGs begins, which classes depend on; no other change of classes is
    /// shown before its end.
    pub(super) fn begin_move(&self, writer: &mut Writer) {
        self.classes.begin(writer);
    }

    /// Its end.
    pub(super) fn end_move(&self, writer: &mut Writer) {
        self.classes.end(writer);
    }

    /// Shows a cgroup.
    pub(super) fn add_cgroup(
        &self,
        id: u64,
        parent: Option<u64>,
        memory: ForCgroup,
        writer: &mut Writer,
    ) {
        self.parents.insert(id, parent, memory, writer);
    }

    /// A cgroup has no more meaning.
    pub(super) fn remove_cgroup(&self, id: u64, writer: &mut Writer) {
        self.parents.remove(id, writer);
    }

    /// Shows a TSG.
    pub(super) fn add_tsg(
        &self,
        id: TsgId,
        shown: Arc<Shown>,
        memory: ForTsg,
        writer: &mut Writer,
    ) {
        self.tsgs.insert(id, shown, memory, writer);
        self.changes.fetch_add(1, Relaxed);
    }

    /// A TSG is gone, with its own class.
    pub(super) fn remove_tsg(&self, id: TsgId, writer: &mut Writer) {
        self.classes.change(writer, |writer| {
            self.assigned.remove(Target::Tsg(id), writer);
            self.tsgs.remove(id, writer);
        });
        self.changes.fetch_add(1, Relaxed);
    }

    /// Shows a GPU.
    pub(super) fn add_gpu(&self, gpu: (GpuId, OnGpu), memory: ForGpu, writer: &mut Writer) {
        self.gpus
            .insert(gpu.0, Snapshot::new(gpu.1), memory, writer);
        self.look_at.store(0, Relaxed);
    }

    /// Other conditions hold on a GPU.
    pub(super) fn change_gpu(&self, id: GpuId, now: OnGpu, writer: &mut Writer) {
        self.classes.change(writer, |writer| {
            if let Some(known) = self.gpus.get_locked(id, writer) {
                known.store(writer, now);
            }
        });
    }

    /// A GPU is gone.
    pub(super) fn remove_gpu(&self, id: GpuId, writer: &mut Writer) {
        self.gpus.remove(id, writer);
    }

    /// Shows another meaning of classes.
    pub(super) fn tune(&self, meaning: Meaning, writer: &mut Writer) {
        self.classes
            .change(writer, |writer| self.meaning.store(writer, meaning));
    }

    /// TSGs that have come and gone.
    pub(super) fn changes(&self) -> u64 {
        self.changes.load(Relaxed)
    }

    /// True if GPUs may be asked for the load of their TSGs.
    pub(super) fn is_look_due(&self, now_ns: u64) -> bool {
        self.look_at.load(Relaxed) <= now_ns
    }

    /// Nobody needs to ask before this time.
    pub(super) fn set_look(&self, at_ns: u64) {
        self.look_at.store(at_ns, Relaxed);
    }

    /// A TSG. `None`: it is being changed.
    pub(super) fn tsg<'a>(&'a self, id: TsgId, guard: &'a Guard) -> Option<Option<Found<'a>>> {
        let Some(shown) = self.tsgs.get(id, guard) else {
            return Some(None);
        };
        Some(shown.state.load()?.map(|(gpu, added_ns, state)| Found {
            shown,
            gpu,
            added_ns,
            state,
        }))
    }

    /// The conditions on a GPU, without those of a TSG.
    pub(super) fn conditions(&self, id: GpuId, guard: &Guard) -> Option<OnGpu> {
        match self.gpus.get(id, guard) {
            Some(known) => known.load(),
            None => Some(OnGpu::NONE),
        }
    }
}

/// Tries to read what changes meanwhile, before the lock is taken.
pub(super) const TRIES: usize = 8;
