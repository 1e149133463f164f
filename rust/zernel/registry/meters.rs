// SPDX-License-Identifier: GPL-2.0
//! The work of a GPU for the programs that have phases.

use crate::{
    glue::{
        memory::account_nowait,
        time::now_ns,
        work::Kick, //
    },
    ids::GpuId,
    policy::{
        phase::meter::{
            Look,
            Meter, //
        },
        rotation::entity::Sample,
        units::{
            Ns,
            Permille, //
        }, //
    },
    tracking::program::Program, //
};
use kernel::{
    new_mutex,
    prelude::*,
    rbtree::RBTree,
    sync::{
        atomic::{
            ordering::{
                Acquire,
                Relaxed,
                Release, //
            },
            Atomic,
        },
        Arc,
        Mutex, //
    },
};

/// A TSG of a program.
struct Metered {
    meter: Meter,
    /// It was not named since [`Meters::begin`].
    stale: bool,
}

/// TSGs by the keys of their programs and the provider's numbers.
type Tsgs = RBTree<(usize, u64), Metered>;

struct List {
    /// Those of programs that are looked at.
    awake: Tsgs,
    /// Those of programs that rest.
    resting: Tsgs,
    /// The receiver of answers.
    sampler: Option<Kick>,
}

/// The first TSG of a program behind one.
fn next(tsgs: &Tsgs, (program, from): (usize, Option<u64>)) -> Option<u64> {
    let from = match from {
        Some(from) => from.checked_add(1)?,
        None => 0,
    };
    let cursor = tsgs.cursor_lower_bound(&(program, from))?;
    let (&(owner, tsg), _) = cursor.current();
    (owner == program).then_some(tsg)
}

/// The meters of a GPU's TSGs.
///
/// While a look is wanted the TSGs that are looked at are the worker's, which takes them out;
/// otherwise all are the sampler's. So nobody holds the lock while a provider is called.
#[pin_data]
pub(crate) struct Meters {
    gpu: GpuId,
    /// The sampler waits for an answer.
    wanted: Atomic<bool>,
    /// Until when the worker is not asked again, in ns.
    rests_until: Atomic<u64>,
    #[pin]
    list: Mutex<List>,
    /// The worker's look; its alone.
    #[pin]
    looking: Mutex<Option<Looking>>,
}

/// A look at TSGs, as far as it has come.
struct Looking {
    tsgs: Tsgs,
    /// Those from this one on are next.
    from: (usize, u64),
    spent: Ns,
}

impl Meters {
    /// TSGs that a provider is asked about at a time.
    const LOOKS: usize = 8;

    /// None.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(gpu: GpuId) -> Result<Arc<Self>> {
        let list = List {
            awake: RBTree::new(),
            resting: RBTree::new(),
            sampler: None,
        };
        Arc::pin_init(
            pin_init!(Self {
                gpu,
                wanted: Atomic::new(false),
                rests_until: Atomic::new(0),
                list <- new_mutex!(list, "zernel_meters"),
                looking <- new_mutex!(None, "zernel_meters_look"),
            }),
            GFP_KERNEL,
        )
    }

    /// The GPU.
    pub(crate) fn gpu(&self) -> GpuId {
        self.gpu
    }

    /// True if there are none.
    pub(crate) fn is_empty(&self) -> bool {
        let list = self.list.lock();
        self.is_answered() && list.awake.is_empty() && list.resting.is_empty()
    }

    /// The TSGs of a program are about to be named. Returns false if the last look is not over: none
    /// can be then.
    pub(crate) fn begin(&self, program: usize) -> bool {
        if !self.is_answered() {
            return false;
        }
        let mut list = self.list.lock();
        let mut at = (program, None);
        while let Some(tsg) = next(&list.awake, at) {
            if let Some(metered) = list.awake.get_mut(&(program, tsg)) {
                metered.stale = true;
            }
            at.1 = Some(tsg);
        }
        true
    }

    /// A TSG of a program is to be looked at. Returns false if it cannot be yet.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn name(&self, program: usize, tsg: u64, sampler: &Kick) -> Result<bool> {
        if !self.is_answered() {
            return Ok(false);
        }
        let mut list = self.list.lock();
        list.sampler.get_or_insert_with(|| sampler.clone());
        let key = (program, tsg);
        if let Some(node) = list.resting.remove_node(&key) {
            list.awake.insert(node);
            if let Some(metered) = list.awake.get_mut(&key) {
                // Nothing is known of the time since.
                metered.meter.lose();
            }
        }
        match list.awake.get_mut(&key) {
            Some(metered) => metered.stale = false,
            None => {
                let new = Metered {
                    meter: Meter::NEW,
                    stale: false,
                };
                list.awake
                    .try_create_and_insert(key, new, account_nowait())?;
            }
        }
        Ok(true)
    }

    /// The TSGs of a program were named: there are no others. Returns true if there is none at all.
    pub(crate) fn end(&self, program: usize) -> bool {
        if !self.is_answered() {
            return false;
        }
        let mut list = self.list.lock();
        let mut at = (program, None);
        while let Some(tsg) = next(&list.awake, at) {
            let key = (program, tsg);
            if list.awake.get(&key).is_some_and(|metered| metered.stale) {
                list.awake.remove(&key);
            }
            at.1 = Some(tsg);
        }
        while let Some(tsg) = next(&list.resting, (program, None)) {
            list.resting.remove(&(program, tsg));
        }
        next(&list.awake, (program, None)).is_none()
    }

    /// A program rests.
    pub(crate) fn rest(&self, program: usize) {
        if !self.is_answered() {
            return;
        }
        let mut list = self.list.lock();
        while let Some(tsg) = next(&list.awake, (program, None)) {
            if let Some(node) = list.awake.remove_node(&(program, tsg)) {
                list.resting.insert(node);
            }
        }
    }

    /// A program has no phases any more. TSGs that the worker has meanwhile go with their end.
    /// Returns the number of the others.
    pub(crate) fn forget(&self, program: usize) -> u64 {
        let (mut list, mut count) = (self.list.lock(), 0);
        let List { awake, resting, .. } = &mut *list;
        for tsgs in [awake, resting] {
            while let Some(tsg) = next(tsgs, (program, None)) {
                tsgs.remove(&(program, tsg));
                count += 1;
            }
        }
        count
    }

    /// The pause of the worker after a look, in times of the look.
    const PAUSE: u64 = 9;

    /// Asks for a look at `now`, unless there is nothing to look at, or the worker has just looked for
    /// long.
    pub(crate) fn want(&self, now: Ns) {
        if self.rests_until.load(Relaxed) <= now.0 && !self.list.lock().awake.is_empty() {
            self.wanted.store(true, Release);
        }
    }

    /// True if the last look that was asked for is over.
    pub(crate) fn is_answered(&self) -> bool {
        !self.wanted.load(Acquire)
    }

    /// Looks at each TSG if that was asked for. Called by the worker of the GPU.
    pub(crate) fn look(&self, load: impl Fn(u64) -> Result<Sample>) -> bool {
        let mut looking = self.looking.lock();
        if looking.is_none() {
            if self.is_answered() {
                return false;
            }
            let tsgs = core::mem::replace(&mut self.list.lock().awake, RBTree::new());
            *looking = Some(Looking {
                tsgs,
                from: (0, 0),
                spent: Ns::ZERO,
            });
        }
        let Some(Looking { tsgs, from, spent }) = &mut *looking else {
            return false;
        };
        let began = Ns(now_ns());
        let mut cursor = tsgs.cursor_lower_bound_mut(from);
        for _ in 0..Self::LOOKS {
            let Some(mut at) = cursor else {
                break;
            };
            let (&(program, tsg), metered) = at.current_mut();
            *from = match tsg.checked_add(1) {
                Some(tsg) => (program, tsg),
                None => (program.saturating_add(1), 0),
            };
            let load = load(tsg);
            match load {
                Ok(load) => {
                    let look = Look {
                        ran: load.ran,
                        pending: load.runnable,
                        since: load.since,
                    };
                    metered.meter.look(Ns(now_ns()), look);
                }
                Err(_) => metered.meter.lose(),
            }
            cursor = match load {
                Err(ENOENT) => {
                    drop(at.remove_current());
                    tsgs.cursor_lower_bound_mut(from)
                }
                _ => at.move_next(),
            };
        }
        let more = cursor.is_some();
        let end = Ns(now_ns());
        *spent = spent.saturating_add(end.saturating_sub(began));
        if more {
            return true;
        }
        let pause = Ns(spent.0.saturating_mul(Self::PAUSE));
        self.rests_until.store(end.saturating_add(pause).0, Relaxed);
        let mut list = self.list.lock();
        if let Some(done) = looking.take() {
            list.awake = done.tsgs;
        }
        let sampler = list.sampler.clone();
        drop(list);
        self.wanted.store(false, Release);
        if let Some(sampler) = sampler {
            sampler.kick();
        }
        false
    }

    /// Adds the GPU's work for a program to that of others, if the last look is over. Returns the
    /// number of TSGs.
    pub(crate) fn add_to(&self, program: &mut Program, now: Ns) -> u64 {
        if !self.is_answered() {
            return 0;
        }
        let (key, mut count) = (program.key(), 0);
        let mut list = self.list.lock();
        let mut cursor = list.awake.cursor_lower_bound_mut(&(key, 0));
        while let Some(at) = cursor {
            let (&(owner, _), Metered { meter, .. }) = at.current();
            if owner != key {
                break;
            }
            count += 1;
            let gpu = &mut program.gpu;
            gpu.share = gpu.share.max(meter.share());
            gpu.synced = gpu.synced.max(meter.synced());
            gpu.pending = gpu.pending.max(meter.pending());
            let is_busy = meter.share() > Permille(0) || meter.pending().is_some();
            let used = is_busy.then_some(now).or(meter.synced());
            if let Some(used) = used {
                program.uses(self.gpu, used);
            }
            cursor = at.move_next();
        }
        count
    }
}

#[cfg(zernel_kunit)]
#[kernel::macros::kunit_tests(zernel_meters)]
mod tests {
    use super::*;
    use crate::glue::work::{
        Job,
        Worker, //
    };
    use core::cell::Cell;

    struct Nobody;

    impl Job for Nobody {
        fn run(_: &Worker<Self>) {}
    }

    fn sampler() -> Result<Kick> {
        Ok(Arc::pin_init(Worker::new(Nobody), GFP_KERNEL)?.into())
    }

    fn name(meters: &Meters, program: usize, tsgs: &[u64], sampler: &Kick) -> Result {
        assert!(meters.begin(program));
        for &tsg in tsgs {
            assert!(meters.name(program, tsg, sampler)?);
        }
        assert_eq!(meters.end(program), tsgs.is_empty());
        Ok(())
    }

    /// The TSGs that are looked at.
    fn awake(meters: &Meters) -> Result<KVec<(usize, u64)>> {
        let mut all = KVec::new();
        for &key in meters.list.lock().awake.keys() {
            all.push(key, GFP_KERNEL)?;
        }
        Ok(all)
    }

    #[test]
    fn those_that_are_not_named_anew_go() -> Result {
        let (meters, sampler) = (Meters::new(GpuId(1))?, sampler()?);
        name(&meters, 1, &[5, 7], &sampler)?;
        name(&meters, 2, &[6], &sampler)?;
        assert_eq!(&awake(&meters)?[..], &[(1, 5), (1, 7), (2, 6)]);
        name(&meters, 1, &[7, 8], &sampler)?;
        assert_eq!(&awake(&meters)?[..], &[(1, 7), (1, 8), (2, 6)]);
        meters.forget(1);
        meters.forget(2);
        assert!(meters.is_empty());
        Ok(())
    }

    #[test]
    fn those_of_a_program_that_rests_are_left_alone() -> Result {
        let (meters, sampler) = (Meters::new(GpuId(1))?, sampler()?);
        name(&meters, 1, &[5, 7], &sampler)?;
        name(&meters, 2, &[6], &sampler)?;
        meters.rest(1);
        assert_eq!(&awake(&meters)?[..], &[(2, 6)]);
        assert!(!meters.is_empty());
        // One is gone when it is looked at again.
        name(&meters, 1, &[7], &sampler)?;
        assert_eq!(&awake(&meters)?[..], &[(1, 7), (2, 6)]);
        assert!(meters.list.lock().resting.is_empty());
        meters.rest(2);
        meters.forget(2);
        meters.forget(1);
        assert!(meters.is_empty());
        Ok(())
    }

    #[test]
    fn nothing_is_named_during_a_look() -> Result {
        let (meters, sampler) = (Meters::new(GpuId(1))?, sampler()?);
        meters.want(Ns(1));
        // There is nothing to look at.
        assert!(meters.is_answered());
        name(&meters, 1, &[5], &sampler)?;
        meters.want(Ns(1));
        assert!(!meters.is_answered());
        assert!(!meters.begin(1) && !meters.name(1, 6, &sampler)?);
        assert!(!meters.end(1));
        meters.rest(1);
        assert_eq!(&awake(&meters)?[..], &[(1, 5)]);
        Ok(())
    }

    #[test]
    fn a_look_asks_about_each_once() -> Result {
        let (meters, sampler) = (Meters::new(GpuId(1))?, sampler()?);
        name(&meters, 1, &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10], &sampler)?;
        meters.want(Ns(1));
        // Three are gone: in the middle, before a pause, and at the end.
        let asked = Cell::new(0u64);
        let load = |tsg: u64| {
            asked.set(asked.get() * 16 + tsg);
            match tsg {
                3 | 8 | 10 => Err(ENOENT),
                _ => Ok(Sample {
                    ran: Ns(0),
                    runnable: false,
                    since: None,
                }),
            }
        };
        assert!(meters.look(load));
        assert!(!meters.look(load));
        assert_eq!(asked.get(), 0x1_2345_6789_a);
        let left = [1, 2, 4, 5, 6, 7, 9].map(|tsg| (1, tsg));
        assert_eq!(&awake(&meters)?[..], &left);
        Ok(())
    }
}
