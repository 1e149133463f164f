// SPDX-License-Identifier: GPL-2.0 OR MIT
//! The order of turns: the accounts of the TSGs of a run list, and their comparison.

use super::{
    super::units::Ns,
    entity::Entity,
    standing::{
        Key,
        Rank,
        Sums, //
    },
    Discipline,
    Quantum,
    Weight, //
};

/// GPU time that is charged for one sample at most: four of the longest quanta. Nobody but a worker
/// that was kept from its work for seconds sees more at once.
const LONGEST_CHARGE: Ns = Ns(4_000_000_000);

/// Farther ahead in virtual time than any charge can bring a TSG: 4 s at weight 1 are 2^42 ns. A
/// value farther ahead is behind, by a difference that wrapped.
const FARTHEST_AHEAD: u64 = 1 << 44;

/// The state of a run list that all of its TSGs are compared with.
#[derive(Clone, Debug)]
pub(super) struct Order {
    discipline: Discipline,
    quantum: Quantum,
    /// Virtual time: the mean of the runnable TSGs, by weight, or a little later. Wraps.
    now: u64,
    /// Rounds of credit granted.
    round: u64,
    /// The next place in the queue.
    tail: u64,
}

impl Order {
    pub(super) fn new(discipline: Discipline, quantum: Quantum) -> Self {
        Self {
            discipline,
            quantum,
            now: 0,
            round: 0,
            tail: 0,
        }
    }

    /// Changes discipline and quantum. Returns true if they are others now.
    pub(super) fn tune(&mut self, discipline: Discipline, quantum: Quantum) -> bool {
        let old = (self.discipline, self.quantum);
        (self.discipline, self.quantum) = (discipline, quantum);
        old != (discipline, quantum)
    }

    pub(super) fn quantum(&self) -> Ns {
        self.quantum.length()
    }

    /// Takes a TSG in as one that is owed nothing, at the end of the queue, without credit.
    pub(super) fn join(&mut self, e: &mut Entity) {
        e.vruntime = self.now;
        e.credit = 0;
        e.round = self.round;
        self.requeue(e);
    }

    /// Changes a weight. The lag of the TSG in GPU time stays.
    pub(super) fn set_weight(&self, e: &mut Entity, weight: Weight) {
        let old = i64::from(e.weight.number());
        let lag = self.lag(e).saturating_mul(old);
        let lag = lag.checked_div(i64::from(weight.number())).unwrap_or(0);
        e.vruntime = self.now.wrapping_add_signed(lag.saturating_neg());
        e.credit = self.credit(e);
        e.round = self.round;
        e.weight = weight;
    }

    /// Places a TSG that got something to run: at the end of the queue, and in virtual time where
    /// it was, but no more than half a quantum of its own behind, or two after a think time: so
    /// much can a TSG that is never idle be owed.
    ///
    /// So a short sleeper is soon served, and nobody saves up a long sleep. To sleep in order to be
    /// served soon gains nothing: in any stretch a TSG gets at most its share and three quanta.
    pub(super) fn wake(&mut self, e: &mut Entity) {
        let quantum = self.quantum();
        let most = match e.was_thinking {
            true => quantum.saturating_add(quantum),
            false => Ns(quantum.0 / 2),
        };
        let floor = self.now.wrapping_sub(e.weight.slow_down(most));
        if e.vruntime.wrapping_sub(floor) > FARTHEST_AHEAD {
            e.vruntime = floor;
        }
        self.requeue(e);
    }

    /// Puts a TSG at the end of the queue: its turn is over.
    pub(super) fn requeue(&mut self, e: &mut Entity) {
        e.place = self.tail;
        self.tail = self.tail.saturating_add(1);
    }

    /// Charges GPU time, however late it is seen: a TSG that had the GPU for longer than its turn
    /// pays it back. Time while no other had anything to run moves virtual time and rounds on
    /// ([`Self::advance`]), and so is not paid back. Nor is time in a queue that does not go by
    /// weight.
    pub(super) fn charge(&self, e: &mut Entity, ran: Ns) {
        if self.discipline == Discipline::RoundRobin {
            return;
        }
        let ran = ran.min(LONGEST_CHARGE);
        e.vruntime = e.vruntime.wrapping_add(e.weight.slow_down(ran));
        let debt = i64::try_from(LONGEST_CHARGE.0)
            .unwrap_or(i64::MAX)
            .saturating_neg();
        let ran = i64::try_from(ran.0).unwrap_or(i64::MAX);
        e.credit = self.credit(e).saturating_sub(ran).max(debt);
        e.round = self.round;
    }

    /// Lets virtual time and rounds follow the charged time of those that take part.
    pub(super) fn advance(&mut self, taking_part: Sums) {
        let weights = i64::try_from(taking_part.weights).unwrap_or(i64::MAX);
        // Lags times weights are small: the sums may wrap, and their difference is right.
        let all_now = taking_part.weights.wrapping_mul(self.now);
        let lags = all_now.wrapping_sub(taking_part.vruntimes) as i64;
        // Rounded down, so that somebody is always eligible. Two quanta ahead of the mean it stays:
        // else TSGs that go in their first turn would all be before others.
        if let Some(mean) = lags.saturating_neg().checked_div_euclid(weights) {
            let ahead = mean.saturating_add_unsigned(self.quantum().0.saturating_mul(2));
            self.now = self.now.wrapping_add_signed(mean.max(ahead.min(0)));
        }
        self.round = self.round.max(taking_part.ready.unwrap_or(0));
    }

    /// A TSG begins a turn. If it has no credit, nobody with some wanted the GPU when it was chosen: rounds go on
    /// until it has. Else one that is chosen at the ends of bursts of others would run up a debt without a bound,
    /// and pay for it in rounds that last as long as others like.
    pub(super) fn goes_on_for(&mut self, e: &Entity) {
        if self.discipline == Discipline::Credit {
            self.round = self.round.max(self.ready(e));
        }
    }

    /// Where a TSG stands among those that have something to run, in the order of [`Self::rank`].
    pub(super) fn key(&self, e: &Entity) -> Key {
        let ready = self.ready(e);
        let (start, end) = match self.discipline {
            Discipline::Fair => {
                let quantum = e.weight.slow_down(self.quantum());
                (e.vruntime, e.vruntime.wrapping_add(quantum))
            }
            Discipline::Credit => (ready, 0),
            Discipline::RoundRobin => (0, 0),
        };
        Key {
            start,
            end,
            place: e.place,
            ready,
        }
    }

    /// The start of those that may be next now is not behind this.
    pub(super) fn reached(&self) -> u64 {
        match self.discipline {
            Discipline::Fair => self.now,
            Discipline::Credit => self.round,
            Discipline::RoundRobin => 0,
        }
    }

    /// Where a TSG stands.
    pub(super) fn rank(&self, e: &Entity) -> Rank {
        let (later, key) = match self.discipline {
            Discipline::Fair => {
                let lag = self.lag(e);
                let quantum = i64::try_from(e.weight.slow_down(self.quantum()));
                if lag < 0 {
                    (true, lag.saturating_neg())
                } else {
                    (false, quantum.unwrap_or(i64::MAX).saturating_sub(lag))
                }
            }
            // Of those without credit, the one that has some first. A TSG that gets turns because
            // the others think would otherwise run up a debt that takes long to be paid.
            Discipline::Credit => {
                let rounds = self.rounds_needed(e);
                (rounds > 0, i64::try_from(rounds).unwrap_or(i64::MAX))
            }
            Discipline::RoundRobin => (false, 0),
        };
        Rank {
            later,
            key,
            place: e.place,
        }
    }

    /// Where a TSG will stand at the end of a burst, when it has had `ran` more.
    pub(super) fn rank_after(&self, e: &Entity, ran: Ns) -> Rank {
        let mut later = e.clone();
        self.charge(&mut later, ran);
        later.place = self.tail;
        self.rank(&later)
    }

    /// The virtual time by which a TSG is behind its share; negative if it had more.
    fn lag(&self, e: &Entity) -> i64 {
        self.now.wrapping_sub(e.vruntime) as i64
    }

    fn grant(&self, e: &Entity) -> i64 {
        let grant = e.weight.grant(self.quantum());
        i64::try_from(grant.0).unwrap_or(i64::MAX)
    }

    /// The credit of a TSG now: the last one, and the grants since. No more than one is saved.
    fn credit(&self, e: &Entity) -> i64 {
        let grant = self.grant(e);
        let rounds = self.round.saturating_sub(e.round);
        let rounds = i64::try_from(rounds).unwrap_or(i64::MAX);
        e.credit
            .saturating_add(rounds.saturating_mul(grant))
            .min(grant)
    }

    /// Rounds until a TSG has credit.
    fn rounds_needed(&self, e: &Entity) -> u64 {
        self.ready(e).saturating_sub(self.round)
    }

    /// The round in which a TSG has credit, or had.
    pub(super) fn ready(&self, e: &Entity) -> u64 {
        if e.credit > 0 {
            return e.round;
        }
        let grant = self.grant(e).unsigned_abs();
        let needed = e.credit.unsigned_abs().checked_div(grant).unwrap_or(0);
        e.round.saturating_add(needed).saturating_add(1)
    }
}

#[cfg(any(test, zernel_kunit))]
#[cfg_attr(not(test), kernel::macros::kunit_tests(zernel_policy_rotation_order))]
mod tests {
    use super::{
        super::{
            run_list::RunList,
            sets::Sets,
            standing::Set, //
        },
        *,
    };

    const MS: Ns = Ns(1_000_000);

    struct Pair([Entity; 2]);

    impl RunList for Pair {
        fn get(&self, id: usize) -> Option<&Entity> {
            self.0.get(id)
        }

        fn get_mut(&mut self, id: usize) -> Option<&mut Entity> {
            self.0.get_mut(id)
        }
    }

    /// The sets of the two, as they are now.
    fn sets(order: &Order, list: &mut Pair) -> Sets {
        let mut sets = Sets::default();
        list.0.iter_mut().for_each(|e| e.standing = None);
        for id in 0..2 {
            sets.update(order, list, id);
        }
        sets
    }

    fn advance(order: &mut Order, list: &mut Pair) {
        let sums = sets(order, list).sums(list);
        order.advance(sums);
    }

    fn order(discipline: Discipline) -> Order {
        Order::new(discipline, Quantum::new(MS).unwrap_or(Quantum::DEFAULT))
    }

    fn entity(order: &mut Order, weight: u32) -> Entity {
        let mut e = Entity::new(Weight::new(weight).unwrap_or(Weight::DEFAULT));
        order.join(&mut e);
        e.runnable = true;
        e
    }

    fn pair(order: &mut Order, weights: [u32; 2]) -> Pair {
        Pair(weights.map(|w| entity(order, w)))
    }

    /// Lets the first run for a quantum; says who it was.
    fn turn(order: &mut Order, list: &mut Pair) -> Option<usize> {
        advance(order, list);
        let id = sets(order, list).first(order, list, Set::Holding, |_| false)?;
        let e = list.get_mut(id)?;
        order.charge(e, MS);
        order.requeue(e);
        Some(id)
    }

    fn turns_of_first(discipline: Discipline, weights: [u32; 2], turns: usize) -> usize {
        let mut order = order(discipline);
        let mut list = pair(&mut order, weights);
        (0..turns)
            .filter(|_| turn(&mut order, &mut list) == Some(0))
            .count()
    }

    #[test]
    fn turns_follow_the_weights() {
        for discipline in [Discipline::Fair, Discipline::Credit] {
            assert_eq!(turns_of_first(discipline, [1024, 1024], 400), 200);
            assert_eq!(turns_of_first(discipline, [3072, 1024], 400), 300);
            assert_eq!(turns_of_first(discipline, [1, 1], 400), 200);
        }
        assert_eq!(turns_of_first(Discipline::Fair, [10_000, 2_500], 400), 320);
        assert_eq!(
            turns_of_first(Discipline::RoundRobin, [10_000, 1], 400),
            200
        );
    }

    #[test]
    fn the_heavy_one_does_not_run_in_one_stretch() {
        let mut order = order(Discipline::Fair);
        let mut list = pair(&mut order, [3072, 1024]);
        let mut last = [0; 2];
        for n in 1..100 {
            if let Some(at) = turn(&mut order, &mut list).and_then(|id| last.get_mut(id)) {
                assert!(n - *at <= 5);
                *at = n;
            }
        }
    }

    #[test]
    fn sleep_is_not_saved_up() {
        let mut order = order(Discipline::Fair);
        let mut list = pair(&mut order, [1024, 1024]);
        let [sleeper, _] = &mut list.0;
        sleeper.runnable = false;
        for _ in 0..1000 {
            assert_eq!(turn(&mut order, &mut list), Some(1));
        }
        advance(&mut order, &mut list);
        let [sleeper, _] = &mut list.0;
        order.wake(sleeper);
        sleeper.runnable = true;
        // Half a quantum in advance, and equal from there.
        assert_eq!(turn(&mut order, &mut list), Some(0));
        let of_sleeper = (0..100)
            .filter(|_| turn(&mut order, &mut list) == Some(0))
            .count();
        assert!((49..=51).contains(&of_sleeper));
    }

    #[test]
    fn think_time_does_not_forgive() {
        let mut order = order(Discipline::Fair);
        let mut list = pair(&mut order, [1024, 1024]);
        let [thinker, _] = &mut list.0;
        order.charge(thinker, MS);
        let before = thinker.vruntime;
        order.wake(thinker);
        assert_eq!(thinker.vruntime, before);
    }

    #[test]
    fn virtual_time_wraps() {
        let mut order = order(Discipline::Fair);
        order.now = u64::MAX - 3;
        let mut list = pair(&mut order, [1024, 1024]);
        for n in 0..100 {
            assert_eq!(turn(&mut order, &mut list), Some(n % 2));
        }
        assert!(order.now < u64::MAX / 2);
        // Asleep for so long that the difference wraps.
        let [old, _] = &mut list.0;
        old.vruntime = order.now.wrapping_add(1 << 63);
        order.wake(old);
        assert!(order.lag(old) > 0);
    }

    #[test]
    fn a_stretch_alone_is_not_paid_back() {
        for discipline in [Discipline::Fair, Discipline::Credit] {
            let mut order = order(discipline);
            let mut list = pair(&mut order, [1024, 1024]);
            let [alone, sleeper] = &mut list.0;
            sleeper.runnable = false;
            order.charge(alone, Ns(1_000_000_000));
            advance(&mut order, &mut list);
            let [_, sleeper] = &mut list.0;
            order.wake(sleeper);
            sleeper.runnable = true;
            let of_sleeper = (0..10)
                .filter(|_| turn(&mut order, &mut list) == Some(1))
                .count();
            assert!((4..=6).contains(&of_sleeper));
        }
    }

    #[test]
    fn an_overrun_is_paid_back() {
        for discipline in [Discipline::Fair, Discipline::Credit] {
            let mut order = order(discipline);
            let mut list = pair(&mut order, [1024, 1024]);
            let [late, _] = &mut list.0;
            order.charge(late, Ns(50_000_000));
            let of_other = (0..100)
                .filter(|_| turn(&mut order, &mut list) == Some(1))
                .count();
            // 50 turns of 1 ms in advance, and equal from there.
            assert!((74..=76).contains(&of_other));
        }
    }

    #[test]
    fn turns_without_weight_are_not_paid_back() {
        let mut order = order(Discipline::RoundRobin);
        let mut list = pair(&mut order, [3072, 1024]);
        for _ in 0..1000 {
            turn(&mut order, &mut list);
        }
        for discipline in [Discipline::Fair, Discipline::Credit] {
            order.discipline = discipline;
            let of_heavy = (0..100)
                .filter(|_| turn(&mut order, &mut list) == Some(0))
                .count();
            assert!((73..=77).contains(&of_heavy));
        }
    }

    #[test]
    fn a_charge_is_bounded() {
        let order = order(Discipline::Credit);
        let mut e = Entity::new(Weight::DEFAULT);
        order.charge(&mut e, Ns(u64::MAX));
        assert_eq!(order.lag(&e), -4_000_000_000);
        order.charge(&mut e, Ns(u64::MAX));
        assert_eq!(order.credit(&e), -4_000_000_000);
    }

    #[test]
    fn of_those_without_credit_the_nearest_to_some_is_next() {
        let mut order = order(Discipline::Credit);
        let mut deep = entity(&mut order, 1024);
        let mut shallow = entity(&mut order, 1024);
        order.charge(&mut deep, Ns(3_000_000));
        order.charge(&mut shallow, Ns(1_500_000));
        assert!(order.rank(&shallow) < order.rank(&deep));
        let mut equal = entity(&mut order, 1024);
        order.charge(&mut equal, Ns(1_900_000));
        assert!(order.rank(&shallow) < order.rank(&equal));
        order.requeue(&mut shallow);
        assert!(order.rank(&equal) < order.rank(&shallow));
    }

    #[test]
    fn credit_is_not_hoarded() {
        let mut order = order(Discipline::Credit);
        let e = entity(&mut order, 2048);
        assert_eq!((order.credit(&e), order.rounds_needed(&e)), (0, 1));
        order.round = u64::MAX;
        assert_eq!((order.credit(&e), order.rounds_needed(&e)), (2_000_000, 0));
    }

    #[test]
    fn another_weight_keeps_the_lag_in_gpu_time() {
        let mut order = order(Discipline::Fair);
        let mut e = entity(&mut order, 1024);
        order.charge(&mut e, MS);
        if let Ok(heavy) = Weight::new(2048) {
            order.set_weight(&mut e, heavy);
        }
        assert_eq!(order.lag(&e), -500_000);
        assert_eq!(e.weight().number(), 2048);
    }

    #[test]
    fn nobody_is_next_of_nobody() {
        let mut order = order(Discipline::Fair);
        let mut list = pair(&mut order, [1, 1]);
        for e in &mut list.0 {
            e.runnable = false;
        }
        assert_eq!(turn(&mut order, &mut list), None);
    }
}
