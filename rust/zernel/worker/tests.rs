// SPDX-License-Identifier: GPL-2.0
//! KUnit suite of the bounds of a worker's steps: with as many TSGs as a GPU can have, a step asks
//! the provider about a few of them.

use super::{
    activity::{
        Activity,
        Looker,
        Walk, //
    },
    budget::{
        self,
        Budgets, //
    },
    calls::Calls,
    rotation::{
        self,
        Rotation, //
    },
};
use crate::{
    glue::{
        irqlock::new_raw_lock,
        work::{
            Job,
            Worker, //
        },
    },
    policy::{
        budget::Params,
        level::{
            self,
            Level, //
        },
        poll::{
            self,
            Poll, //
        },
        rotation::{
            entity::Sample,
            Weight, //
        },
        tunables::turns::Turns,
        units::{
            Ms,
            Ns, //
        },
    },
    registry::{
        gpu,
        plan::{
            turns::Candidate,
            Change, //
        },
        tsg, //
    },
    request::{
        device::Device,
        starts::{
            Start,
            Waiting, //
        },
    },
};
use core::cell::{
    Cell,
    RefCell, //
};
use kernel::{
    prelude::*,
    sync::Arc, //
};

/// TSGs of the GPU.
const COUNT: u64 = tsg::MAX_PER_GPU as u64;

/// No GPU: calls that concern the registry find nothing there.
const NO_GPU: gpu::Id = gpu::Id(0);

/// A provider whose TSGs all have something to run, and that counts questions.
struct Busy {
    asked: RefCell<KVec<bool>>,
    count: Cell<usize>,
    /// GPU time of each.
    ran: Cell<Ns>,
}

impl Busy {
    fn new() -> Result<Self> {
        Ok(Self {
            asked: RefCell::new(KVec::from_elem(false, COUNT as usize, GFP_KERNEL)?),
            count: Cell::new(0),
            ran: Cell::new(Ns(1_000)),
        })
    }

    /// Questions since this was called last.
    fn count(&self) -> usize {
        self.count.replace(0)
    }

    /// True if every TSG was asked about since this was called last.
    fn was_asked_about_all(&self) -> bool {
        let mut asked = self.asked.borrow_mut();
        let all = asked.iter().all(|asked| *asked);
        asked.iter_mut().for_each(|asked| *asked = false);
        all
    }
}

impl Calls for Busy {
    fn load(&self, tsg: u64) -> Result<Sample> {
        self.count.set(self.count.get() + 1);
        if let Some(asked) = self.asked.borrow_mut().get_mut(tsg as usize) {
            *asked = true;
        }
        Ok(Sample {
            ran: self.ran.get(),
            runnable: true,
            since: None,
        })
    }

    fn set_enabled(&self, _tsg: u64, _enabled: bool) -> Result {
        Ok(())
    }

    /// The first TSG takes no turns any more.
    fn will_enable(&self, id: tsg::Id, _enabled: bool) -> bool {
        id != tsg::Id(0)
    }

    fn was_enabled(&self, _id: tsg::Id, _enabled: bool, _result: Result) -> Option<Ms> {
        None
    }
}

/// News of a TSG that takes turns, or of one whose level has a budget.
fn change(handle: u64, takes_turns: bool) -> Change {
    change_on(0, handle, takes_turns, true)
}

/// The same on a run list.
fn change_on(runlist: u32, handle: u64, takes_turns: bool, disabled: bool) -> Change {
    let id = tsg::Id(handle);
    Change {
        id,
        handle,
        user: 0,
        turns: takes_turns.then_some(Candidate {
            runlist,
            id,
            handle,
            disabled: Some(disabled),
            weight: Weight::DEFAULT,
        }),
        budget: (!takes_turns).then_some(Level::LC),
        may_keep: true,
        ended: None,
    }
}

#[kernel::macros::kunit_tests(zernel_worker_bounds)]
mod cases {
    use crate::worker::tests::*;

    /// The ones that run, beside those that were reported.
    const RUNNING: usize = 4;

    /// Does nothing.
    struct Nothing;

    impl Job for Nothing {
        fn run(_worker: &Worker<Self>) {}
    }

    #[test]
    fn reports_come_under_a_raw_spinlock() -> Result {
        let lock = KBox::pin_init(new_raw_lock!((), c"zernel_of_a_driver"), GFP_KERNEL)?;
        let activity = KBox::pin_init(Activity::new(), GFP_KERNEL)?;
        let device = Device::new(true, false)?;
        let worker = Arc::pin_init(Worker::new(Nothing), GFP_KERNEL)?;
        let held = lock.lock();
        activity.report(Some(1));
        activity.report(None);
        let mut calls = 0;
        for _ in 0..Waiting::ROOM {
            calls += usize::from(device.started(Start::default()));
        }
        worker.kick();
        worker.kick_soon(Ns(1_000));
        // Debug kernels tell, and fail the suite, where one of them might have slept.
        drop(held);
        assert!(calls == 1 && !Walk::new(Looker::Turns).is_over(&activity));
        worker.end();
        Ok(())
    }

    #[test]
    fn a_step_of_turns_asks_about_a_few() -> Result {
        let activity = KBox::pin_init(Activity::new(), GFP_KERNEL)?;
        let (mut rotation, device, driver) = (
            Rotation::new(false),
            Device::new(true, false)?,
            Busy::new()?,
        );
        rotation.set_turns(&Turns::new());
        for handle in 0..COUNT {
            rotation.take(&change(handle, true), &activity)?;
        }
        // All are new; then any of them may have something to run; then each says so.
        for round in 0..3 {
            match round {
                1 => activity.report(None),
                2 => (0..COUNT).for_each(|handle| activity.report(Some(handle))),
                _ => {}
            }
            for _ in 0..COUNT as usize / Walk::LOOKS + 1 {
                rotation.step(&driver, &device, &activity);
                let asked = driver.count();
                assert!(asked <= Walk::LOOKS + RUNNING);
            }
            assert!(driver.was_asked_about_all());
            rotation.step(&driver, &device, &activity);
            assert!(driver.count() <= RUNNING);
            driver.was_asked_about_all();
        }
        for handle in 0..COUNT {
            let gone = Change {
                turns: None,
                ..change(handle, true)
            };
            rotation.take(&gone, &activity)?;
        }
        assert!(rotation.is_empty());
        Ok(())
    }

    #[test]
    fn a_look_spares_most_of_those_that_wait() -> Result {
        let activity = KBox::pin_init(Activity::new(), GFP_KERNEL)?;
        let (mut rotation, device, driver) =
            (Rotation::new(true), Device::new(true, false)?, Busy::new()?);
        rotation.set_turns(&Turns::new());
        for handle in 0..COUNT {
            rotation.take(&change(handle, true), &activity)?;
        }
        let steps = COUNT as usize / Walk::LOOKS + 1;
        let walk = |rotation: &mut Rotation| {
            for _ in 0..steps {
                rotation.step(&driver, &device, &activity);
            }
            driver.count()
        };
        // All are new.
        walk(&mut rotation);
        driver.was_asked_about_all();
        let (mut poll, mut asked) = (Poll::default(), 0);
        for at in (1_000..=8_000).step_by(1_000) {
            assert_eq!(poll.step(Ns(at), Ns(1), true, true), poll::Next::Look);
            rotation.begin_look(poll);
            activity.report(None);
            asked += walk(&mut rotation);
            assert!(rotation.is_busy() && rotation.has_looked(&activity));
            assert_ne!(poll.step(Ns(at + 1), Ns(1), true, true), poll::Next::Look);
        }
        assert!(driver.was_asked_about_all());
        assert!(asked <= COUNT as usize + 8 * RUNNING * steps);
        // A report counts in between.
        activity.report(Some(COUNT / 2));
        walk(&mut rotation);
        assert!(driver.asked.borrow()[COUNT as usize / 2]);
        Ok(())
    }

    #[test]
    fn a_list_whose_call_cannot_be_made_keeps_no_other_waiting() -> Result {
        let activity = KBox::pin_init(Activity::new(), GFP_KERNEL)?;
        let (mut rotation, device, driver) = (
            Rotation::new(false),
            Device::new(true, false)?,
            Busy::new()?,
        );
        rotation.set_turns(&Turns::new());
        // The first TSG of the first list is to be enabled, and cannot be.
        for handle in 0..6 {
            let change = change_on(handle as u32 / 2, handle, true, true);
            rotation.take(&change, &activity)?;
        }
        // One of each of the others gets its turn.
        let mut next = rotation::Next::Again;
        for _ in 0..8 {
            if matches!(next, rotation::Next::Again | rotation::Next::Called) {
                next = rotation.step(&driver, &device, &activity);
            }
        }
        let is_due = matches!(next, rotation::Next::At(_));
        drop(rotation);
        assert!(is_due);
        Ok(())
    }

    #[test]
    fn a_step_of_budgets_asks_about_a_few() -> Result {
        let activity = KBox::pin_init(Activity::new(), GFP_KERNEL)?;
        let (mut budgets, driver) = (Budgets::new()?, Busy::new()?);
        budgets.set_params(&Level::ALL.map(Params::default_of));
        for handle in 0..COUNT {
            budgets.take(&driver, &change(handle, false), &activity)?;
        }
        let mut steps = 0;
        while let budget::Next::Again = budgets.step(&driver, (NO_GPU, &activity), None, None) {
            assert!(driver.count() <= 2 * Walk::LOOKS);
            steps += 1;
            assert!(steps < 4 * COUNT);
        }
        assert!(driver.was_asked_about_all() && budgets.is_busy());
        // Until their time may have spent the budget nobody is asked about who says nothing.
        driver.count();
        activity.report(Some(7));
        budgets.step(&driver, (NO_GPU, &activity), None, None);
        assert_eq!(driver.count(), 1);
        for handle in 0..COUNT {
            let gone = Change {
                budget: None,
                ..change(handle, false)
            };
            budgets.take(&driver, &gone, &activity)?;
        }
        assert!(budgets.is_empty() && !budgets.is_busy());
        Ok(())
    }

    /// GPU time of a TSG since it was last looked at counts for the level that it leaves: at its end, or with
    /// another class.
    #[test]
    fn who_leaves_a_level_is_charged_until_then() -> Result {
        let leaves = [
            // Its provider's last report, in place of an answer.
            (None, Some(95_000_000), true),
            (None, Some(94_000_000), false),
            (None, None, true),
            (Level::new(6), None, true),
        ];
        for (budget, ended, is_spent) in leaves {
            let activity = KBox::pin_init(Activity::new(), GFP_KERNEL)?;
            let (mut budgets, driver) = (Budgets::new()?, Busy::new()?);
            budgets.set_params(&Level::ALL.map(|level| {
                let is_lc = level == Level::LC;
                Params::default_of(level).filter(|_| is_lc)
            }));
            driver.ran.set(Ns(0));
            budgets.take(&driver, &change(7, false), &activity)?;
            budgets.step(&driver, (NO_GPU, &activity), None, None);
            assert!(!budgets.throttled().contains(Level::LC));
            driver.ran.set(Ns(95_000_000));
            let left = Change {
                budget,
                ended: ended.map(Ns),
                ..change(7, false)
            };
            budgets.take(&driver, &left, &activity)?;
            budgets.step(&driver, (NO_GPU, &activity), None, None);
            assert_eq!(budgets.throttled().contains(Level::LC), is_spent);
        }
        Ok(())
    }

    #[test]
    fn users_with_work_share_their_level_and_those_below() -> Result {
        let activity = KBox::pin_init(Activity::new(), GFP_KERNEL)?;
        let (mut budgets, driver) = (Budgets::new()?, Busy::new()?);
        budgets.set_params(&Level::ALL.map(Params::default_of));
        for (handle, user) in [(0, 7), (1, 7), (2, 8)] {
            let change = Change {
                user,
                ..change(handle, false)
            };
            budgets.take(&driver, &change, &activity)?;
        }
        while let budget::Next::Again = budgets.step(&driver, (NO_GPU, &activity), None, None) {}
        let has_all = |levels: Option<level::Set>| {
            let all = |levels: level::Set| Level::ALL.into_iter().all(|l| levels.contains(l));
            levels.is_some_and(all)
        };
        assert!(has_all(budgets.news_of_shared(true)));
        assert_eq!(budgets.news_of_shared(true), None);
        let gone = Change {
            budget: None,
            user: 8,
            ..change(2, false)
        };
        budgets.take(&driver, &gone, &activity)?;
        assert_eq!(budgets.news_of_shared(true), Some(level::Set::NONE));
        assert!(has_all(budgets.news_of_shared(false)));
        Ok(())
    }
}
