// SPDX-License-Identifier: GPL-2.0
//! The load of a GPU and its TSGs, for programs that have phases, for lists and for histograms: its
//! worker asks for it, a little at a time, in between steps and turns.

use crate::{
    glue::{
        provider::Ops,
        time::now_ns, //
    },
    registry::{
        self,
        gpu,
        gpu_time::Done,
        meters::Meters, //
    },
};
use kernel::{
    new_mutex,
    prelude::*,
    sync::{
        Arc,
        Mutex, //
    },
};

/// A look at the load of all TSGs, as far as it has come.
#[derive(Default)]
struct Looking {
    /// Those behind this one are next.
    after: Option<u64>,
    /// The time for it, in ns.
    spent: u64,
}

/// The looks of a GPU's worker.
pub(super) struct Looks {
    gpu: gpu::Id,
    /// Its number at the provider.
    handle: gpu::Handle,
    ops: Arc<Ops>,
    /// The load of the GPU by programs that have phases.
    meters: Arc<Meters>,
    /// The look at all TSGs that is under way.
    looking: Pin<KBox<Mutex<Option<Looking>>>>,
}

impl Looks {
    /// TSGs that are looked at in between two looks at the registry.
    const LOOK: usize = 4;

    /// Looks in between two of steps and turns.
    const PARTS: usize = 4;

    /// None yet.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn new(
        gpu: gpu::Id,
        handle: gpu::Handle,
        ops: Arc<Ops>,
        meters: Arc<Meters>,
    ) -> Result<Self> {
        Ok(Self {
            gpu,
            handle,
            ops,
            meters,
            looking: KBox::pin_init(new_mutex!(None, "zernel_looks"), GFP_KERNEL)?,
        })
    }

    /// Does some of what others than requests wait for; where the provider may not be asked, that ends without
    /// an answer. Returns whether there is more.
    pub(super) fn go_on(&self, may_ask: bool) -> bool {
        (0..Self::PARTS).all(|_| self.some(may_ask))
    }

    fn some(&self, may_ask: bool) -> bool {
        let meters = self.meters.look(|tsg| match may_ask {
            true => self.ops.tsg_load(self.handle, tsg),
            false => Err(EAGAIN),
        });
        // Without a registry nothing is counted.
        let starts = registry::with(|r| r.count_starts(self.gpu)).unwrap_or(false);
        self.read_load(may_ask);
        let done = self.read_done(may_ask);
        meters || starts || done
    }

    fn read_load(&self, may_ask: bool) {
        if let Ok(true) = registry::with(|r| r.wants_load(self.gpu)) {
            let load = may_ask.then(|| self.ops.load(self.handle).ok()).flatten();
            // Without a registry there is nobody to tell.
            let _ = registry::with(|r| r.set_load(self.gpu, load));
        }
    }

    /// Asks for the load of some TSGs of the GPU, if a reader waits for it. Returns whether there are
    /// more of them.
    fn read_done(&self, may_ask: bool) -> bool {
        let mut looking = self.looking.lock();
        let is_new = looking.is_none();
        if is_new && !registry::with(|r| r.wants_done(self.gpu)).unwrap_or(false) {
            return false;
        }
        let Looking { after, spent } = looking.get_or_insert_default();
        let began = now_ns();
        let mut found = [0; Self::LOOK];
        let count = match may_ask {
            true => registry::with(|r| r.handles_of(self.gpu, *after, &mut found)).unwrap_or(0),
            // The look is over.
            false => 0,
        };
        let handles = found.get(..count).unwrap_or_default();
        self.look_at(handles);
        *spent = spent.saturating_add(now_ns().saturating_sub(began));
        if let Some(last) = handles.last() {
            *after = Some(*last);
            return true;
        }
        let spent = *spent;
        *looking = None;
        // Without a registry there is nobody to tell.
        let _ = registry::with(|r| r.was_looked_at(self.gpu, spent));
        false
    }

    /// Asks for the load of some TSGs, [`Self::LOOK`] at most.
    pub(super) fn look_at(&self, handles: &[u64]) {
        let mut found = [(0, Done::default()); Self::LOOK];
        let mut count = 0;
        for &handle in handles {
            // One that is gone is about to be removed.
            let done = self.ops.tsg_done(self.handle, handle);
            if let (Ok(done), Some(place)) = (done, found.get_mut(count)) {
                *place = (handle, done);
                count += 1;
            }
        }
        // Without a registry there is nobody to tell.
        let _ = registry::with(|r| {
            for (handle, done) in found.iter().take(count) {
                r.take_done(self.gpu, *handle, *done);
            }
        });
    }
}
