// SPDX-License-Identifier: GPL-2.0
//! Requests that wait, or are held, for each other.

#[kernel::macros::kunit_tests(zernel_request_order)]
mod tests {
    use crate::{
        policy::level::Level,
        request::order::*, //
    };

    /// Its turns, and the time until which it is to wait.
    struct Stub {
        state: Atomic<u64>,
        until: Atomic<u64>,
        looks: Atomic<u64>,
    }

    impl Stub {
        const APART: u64 = 0;
        const WAITS: u64 = 1;
        const WENT: u64 = 2;
        /// It waits, and is not over at once.
        const STAYS: u64 = 3;
        const RUNS: u64 = 4;

        fn new(state: u64) -> Result<Arc<Self>> {
            let stub = Self {
                state: Atomic::new(state),
                until: Atomic::new(0),
                looks: Atomic::new(0),
            };
            Ok(Arc::new(stub, GFP_KERNEL)?)
        }
    }

    impl Waiter for Stub {
        fn standing(&self, _: Place, _: bool) -> Result<Standing, Option<Ended>> {
            match self.state.load(Relaxed) {
                Self::WAITS => Ok(Standing::Waits),
                Self::RUNS => Ok(Standing::Runs(Ns(u64::MAX))),
                _ => Ok(Standing::Apart),
            }
        }

        /// It is over at once, or stays.
        fn grant(&self, _: Place, _: Ns) -> Standing {
            if self.state.load(Relaxed) == Self::STAYS {
                self.state.store(Self::RUNS, Relaxed);
                return Standing::Runs(Ns(u64::MAX));
            }
            self.state.store(Self::WENT, Relaxed);
            Standing::Apart
        }

        fn wait_until(&self, _: Place, at: Ns) {
            self.until.store(at.0, Relaxed);
        }

        fn watch(&self, _: Place, _: Ns) {
            self.looks.fetch_add(1, Relaxed);
        }
    }

    const LANE: Lane = Lane {
        runlist: 0,
        level: Level::LC,
    };
    const NOW: Ns = Ns(1_000);

    fn claim(demand: u64) -> Claim {
        Claim {
            deadline: Ns(2_000),
            due: NOW,
            switch: Ns::ZERO,
            burst: Ns(demand),
        }
    }

    #[test]
    fn one_replaces_its_own_alone() -> Result {
        let order = KBox::pin_init(Order::new()?, GFP_KERNEL)?;
        let one = Stub::new(Stub::APART)?;
        let other = Stub::new(Stub::APART)?;
        let mut place = None;
        order.join(one.clone(), |line| {
            place = line.admit(LANE, 1, claim(900), None, NOW).ok();
            place
        });
        let admit = |waiter: &Stub| {
            let answer = order.admit(waiter, LANE, 1, claim(900), place, NOW);
            answer.map(|place| order.give_back(place))
        };
        assert!(place.is_some());
        assert_eq!(admit(&one), Ok(()));
        // Its own was given back meanwhile, and another has it.
        assert!(matches!(admit(&other), Err(Refused::Late(_))));
        Ok(())
    }

    /// A request gets a place and a part in preemption, with the TSG of this number.
    fn contends(places: &mut Places, stub: &Arc<Stub>, tsg: u64, within: u64) -> Result {
        let claim = Claim {
            deadline: NOW.saturating_add(Ns(within)),
            ..claim(1)
        };
        let place = places.line.join(LANE, 1, claim).ok_or(ENOSPC)?;
        places.line.contends(place, tsg);
        match stub.state.load(Relaxed) {
            Stub::RUNS => places.line.runs(place, Ns(u64::MAX), NOW),
            _ => places.line.waits(place),
        };
        *places.waiters.get_mut(place.number()).ok_or(EINVAL)? = Some(stub.clone());
        Ok(())
    }

    #[test]
    fn one_that_others_are_held_for_is_watched() -> Result {
        let order = KBox::pin_init(Order::new()?, GFP_KERNEL)?;
        let (late, early) = (Stub::new(Stub::RUNS)?, Stub::new(Stub::STAYS)?);
        let news = Atomic::new(false);
        let mut places = order.places.lock();
        contends(&mut places, &late, 1, 9_000_000)?;
        contends(&mut places, &early, 2, 2_000_000)?;
        places.serve_as(true, LANE, NOW, &news);
        assert_eq!(early.state.load(Relaxed), Stub::RUNS);
        assert!(news.load(Relaxed) && places.line.is_held(LANE));
        // Once, though nobody waits, and not the one that is held.
        places.serve_as(true, LANE, NOW, &news);
        let looks = |stub: &Stub| stub.looks.load(Relaxed);
        assert_eq!((looks(&early), looks(&late)), (1, 0));
        Ok(())
    }

    #[test]
    fn the_worker_goes_on_where_there_are_many_to_watch() -> Result {
        let order = KBox::pin_init(Order::new()?, GFP_KERNEL)?;
        let (late, early) = (Stub::new(Stub::RUNS)?, Stub::new(Stub::STAYS)?);
        let mut runners = KVec::new();
        for _ in 0..2 * TURNS {
            runners.push(Stub::new(Stub::RUNS)?, GFP_KERNEL)?;
        }
        let news = Atomic::new(false);
        let mut places = order.places.lock();
        contends(&mut places, &late, 1, 9_000_000)?;
        contends(&mut places, &early, 2, 2_000_000)?;
        places.serve_as(true, LANE, NOW, &news);
        for (tsg, runner) in (10..).zip(&runners) {
            contends(&mut places, runner, tsg, 3_000_000)?;
        }
        for (part, rest) in [(1, Some(LANE)), (2, None)] {
            news.store(false, Relaxed);
            places.serve_as(true, LANE, NOW, &news);
            let looks = runners.iter().map(|one| one.looks.load(Relaxed));
            assert_eq!(looks.sum::<u64>(), part * TURNS as u64);
            assert_eq!(places.line.overlooked(), rest);
            assert_eq!(news.load(Relaxed), rest.is_some());
        }
        Ok(())
    }

    #[test]
    fn turns_that_end_at_once_come_in_parts() -> Result {
        let order = KBox::pin_init(Order::new()?, GFP_KERNEL)?;
        let head = Stub::new(Stub::APART)?;
        let mut first = None;
        order.join(head.clone(), |line| {
            first = line.join(LANE, 1, claim(1));
            line.runs(first?, Ns(u64::MAX), NOW);
            first
        });
        let mut waiting = KVec::new();
        for _ in 0..3 * TURNS {
            let one = Stub::new(Stub::WAITS)?;
            let mut place = None;
            order.join(one.clone(), |line| {
                place = line.join(LANE, 1, claim(1));
                place
            });
            let place = place.ok_or(ENOSPC)?;
            waiting.push((place, one), GFP_KERNEL)?;
        }
        let gone = || {
            let all = waiting.iter().map(|(_, one)| one.state.load(Relaxed));
            all.filter(|state| *state == Stub::WENT).count()
        };
        // It was apart all along, so that none of them waited for it.
        assert_eq!(gone(), 3 * TURNS);
        for (_, one) in &waiting {
            one.state.store(Stub::WAITS, Relaxed);
        }
        {
            let mut places = order.places.lock();
            for (place, _) in &waiting {
                places.line.waits(*place);
            }
        }
        for part in 1..=3 {
            order.settle(first.ok_or(ENOSPC)?);
            assert_eq!(gone(), part * TURNS);
            // The next one comes back soon.
            if let Some((_, next)) = waiting.get(part * TURNS) {
                let until = Ns(next.until.load(Relaxed));
                assert!(until <= Ns(now_ns()).saturating_add(PAUSE) && until > Ns::ZERO);
            }
        }
        Ok(())
    }
}
