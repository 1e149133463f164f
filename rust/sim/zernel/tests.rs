// SPDX-License-Identifier: GPL-2.0
//! Tests of the operations of a GPU for `zernel.ko`, on a GPU with its timer that `zernel.ko` does
//! not know.

#[kernel::macros::kunit_tests(zernel_sim_operations)]
mod tests {
    use crate::{
        context::Context,
        device::Card,
        glue::{
            errno,
            provider_side::Provider,
            sim::{
                params::Params,
                words::Words, //
            },
            time::now_ns, //
        },
        host::provider::Provided,
        inbox::Inbox,
        model::{
            measures::{
                Ns,
                Permille, //
            },
            tsg::Handle,
            work::{
                Granularity,
                Order,
                Work, //
            },
        },
        settings::Settings,
        sim::Sim,
        uapi::*,
    };
    use kernel::{
        prelude::*,
        sync::Arc, //
    };

    /// Longer than any test takes.
    const LONG: u64 = 60_000_000_000;
    /// The time by which all has to have happened.
    const SOON: u64 = 10_000_000_000;
    /// Longest that an operation may take, in µs.
    const TIMEOUT: u32 = 1_000_000;

    /// A GPU whose operations cost `percent` of the published.
    fn sim(percent: u32) -> Result<Arc<Provided>> {
        Provided::new(Sim::new(Settings::new(&Params {
            preset: "a100",
            gpus: 1,
            copy_engines: 0,
            max_tsgs: 4,
            word_poll_us: 20,
            user_contexts: 4,
            user_items: 16,
            operation_percent: percent,
            lacks: "",
        })?)?)
    }

    /// A TSG of the caller.
    struct Owned<'a> {
        card: &'a Arc<Card>,
        context: Arc<Context>,
        tsg: Handle,
    }

    impl<'a> Owned<'a> {
        fn new(sim: &'a Sim) -> Result<Self> {
            let card = sim.card(0)?;
            let user = sim.users.enter()?;
            let words = Arc::new(Words::new()?, GFP_KERNEL)?;
            let context = Context::new(1, words, Inbox::new()?, user)?;
            let (tsg, _) = card.create(sim.next_serial(), &context, false, None, 1, None)?;
            Ok(Self { card, context, tsg })
        }

        fn submit(&self, time: u64) -> Result<u64> {
            self.context.user.items.charge(1, u32::MAX)?;
            let work = Work::Run {
                alone: Ns(time),
                demand: Permille(1_000),
                granularity: Granularity::Instruction,
            };
            let order = Order {
                work,
                notify: false,
                tag: 0,
            };
            Ok(self.card.submit(self.tsg, 0, &[order])?.0)
        }

        /// Waits for an item, `time` long at most.
        fn wait(&self, seq: u64, time: u64) -> Result {
            let deadline = now_ns().saturating_add(time);
            self.card
                .wait(self.tsg, &self.context, 0, seq, deadline)
                .map(|_| ())
        }

        fn has_engine(&self) -> Result<bool> {
            let stats = self.card.at_present(|model| model.tsg_stats(self.tsg))?;
            Ok(stats.on_engine && stats.times.busy > Ns::ZERO)
        }

        fn wait_for_engine(&self) -> Result {
            let deadline = now_ns().saturating_add(SOON);
            while !self.has_engine()? {
                if now_ns() > deadline {
                    return Err(errno::timed_out());
                }
            }
            Ok(())
        }

        fn is_enabled(&self) -> Result<bool> {
            let stats = self.card.at_present(|model| model.tsg_stats(self.tsg))?;
            Ok(stats.enabled)
        }
    }

    impl Drop for Owned<'_> {
        fn drop(&mut self) {
            self.card.destroy(self.tsg);
        }
    }

    #[test]
    fn a_disabled_tsg_runs_only_when_it_is_enabled_again() -> Result {
        let sim = sim(0)?;
        let a = Owned::new(&sim)?;
        assert!(a.is_enabled()?);
        sim.set_enabled(0, a.tsg.0, false)?;
        assert!(!a.is_enabled()?);
        let seq = a.submit(1_000)?;
        assert_eq!(a.wait(seq, 20_000_000), Err(errno::timed_out()));
        sim.set_enabled(0, a.tsg.0, true)?;
        assert!(a.is_enabled()?);
        a.wait(seq, SOON)
    }

    #[test]
    fn disabling_takes_the_engine_away() -> Result {
        let sim = sim(0)?;
        let (a, b) = (Owned::new(&sim)?, Owned::new(&sim)?);
        sim.set_timeslice(0, a.tsg.0, 1_000_000_000)?;
        a.submit(LONG)?;
        a.wait_for_engine()?;
        let seq = b.submit(1_000)?;
        assert_eq!(b.wait(seq, 20_000_000), Err(errno::timed_out()));
        sim.set_enabled(0, a.tsg.0, false)?;
        b.wait(seq, SOON)?;
        assert!(!a.has_engine()?);
        // Nothing is lost: it goes on when it may.
        sim.set_enabled(0, a.tsg.0, true)?;
        a.wait_for_engine()
    }

    #[test]
    fn preempting_lets_the_next_one_run() -> Result {
        let sim = sim(0)?;
        let (a, b) = (Owned::new(&sim)?, Owned::new(&sim)?);
        sim.set_timeslice(0, a.tsg.0, 1_000_000_000)?;
        a.submit(LONG)?;
        a.wait_for_engine()?;
        // Nobody waits: it keeps the engine.
        sim.preempt(0, a.tsg.0, TIMEOUT)?;
        assert!(a.has_engine()?);
        let seq = b.submit(1_000)?;
        assert_eq!(b.wait(seq, 20_000_000), Err(errno::timed_out()));
        // One that has not the engine.
        sim.preempt(0, b.tsg.0, TIMEOUT)?;
        assert!(a.has_engine()?);
        sim.preempt(0, a.tsg.0, TIMEOUT)?;
        b.wait(seq, SOON)?;
        // It is still enabled, and goes on after the other one.
        assert!(a.is_enabled()?);
        a.wait_for_engine()
    }

    #[test]
    fn a_preemption_that_takes_longer_than_allowed_does_nothing() -> Result {
        let sim = sim(100)?;
        let (a, b) = (Owned::new(&sim)?, Owned::new(&sim)?);
        sim.set_timeslice(0, a.tsg.0, 1_000_000_000)?;
        a.submit(LONG)?;
        a.wait_for_engine()?;
        let seq = b.submit(1_000)?;
        assert_eq!(sim.preempt(0, a.tsg.0, 299), Err(ETIMEDOUT));
        assert_eq!(b.wait(seq, 20_000_000), Err(errno::timed_out()));
        sim.preempt(0, a.tsg.0, 300)?;
        b.wait(seq, SOON)
    }

    #[test]
    fn what_is_not_there_or_suspended_or_faulty_is_refused() -> Result {
        let sim = sim(0)?;
        let a = Owned::new(&sim)?;
        let tsg = a.tsg.0;
        assert_eq!(sim.set_enabled(1, tsg, false), Err(ENOENT));
        assert_eq!(sim.set_enabled(0, tsg ^ 1 << 40, false), Err(ENOENT));
        assert_eq!(sim.preempt(1, tsg, TIMEOUT), Err(ENOENT));
        assert_eq!(sim.preempt(0, tsg ^ 1 << 40, TIMEOUT), Err(ENOENT));
        a.card
            .with(|model, now, sink| model.set_suspended(now, true, sink));
        assert_eq!(sim.set_enabled(0, tsg, false), Err(EAGAIN));
        assert_eq!(sim.preempt(0, tsg, TIMEOUT), Err(EAGAIN));
        a.card
            .with(|model, now, sink| model.set_suspended(now, false, sink));
        for op in [ZERNEL_SIM_OP_SET_ENABLED, ZERNEL_SIM_OP_PREEMPT] {
            let mut faults = sim.faults(0)?.lock();
            let fault = faults.of(op)?;
            (fault.count, fault.error) = (1, EIO.to_errno());
        }
        assert_eq!(sim.set_enabled(0, tsg, false), Err(EIO));
        assert_eq!(sim.preempt(0, tsg, TIMEOUT), Err(EIO));
        assert!(a.is_enabled()?);
        sim.set_enabled(0, tsg, false)?;
        sim.preempt(0, tsg, TIMEOUT)?;
        assert!(!a.is_enabled()?);
        Ok(())
    }
}

/// Tests of the reports to `zernel.ko`, of the GPUs that it knows.
#[kernel::macros::kunit_tests(zernel_sim_bell)]
mod bell {
    use crate::{
        glue::{
            irqlock::{
                new_raw_lock,
                RawLock, //
            },
            provider_side::Start,
            time::now_ns, //
        },
        hub, //
    };
    use kernel::prelude::*;

    #[pin_data]
    struct Driver {
        #[pin]
        lock: RawLock<()>,
    }

    /// More than `zernel.ko` keeps before its worker counts them.
    const STARTS: u32 = 256;

    #[test]
    fn it_rings_in_any_context() -> Result {
        let bell = hub::get()?.bell(0);
        let driver = KBox::pin_init(
            pin_init!(Driver {
                lock <- new_raw_lock!((), c"zernel_sim_driver"),
            }),
            GFP_KERNEL,
        )?;
        // As in the interrupt of a driver: the checks of the debug and the real-time kernel find a
        // lock that sleeps.
        let guard = driver.lock.lock();
        bell.ring(u64::MAX);
        for _ in 0..STARTS {
            bell.started(&Start {
                tsg: u64::MAX,
                at: now_ns(),
                since: None,
                switch: 0,
            });
        }
        drop(guard);
        // The test is the report that does not come.
        assert!(hub::get().is_ok());
        Ok(())
    }
}
