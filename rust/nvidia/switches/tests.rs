// SPDX-License-Identifier: GPL-2.0
//! Tests of the reader of records.

use super::*;

/// Later than any record.
const NOW: Ns = Ns(u64::MAX);
const ACK: u8 = 0x0d;

/// Writes records as the driver does.
struct Log {
    reader: Reader,
    number: u16,
    /// That the records are about.
    engine: usize,
}

impl Log {
    fn new() -> Self {
        Self {
            reader: Reader::default(),
            number: 65_530,
            engine: 0,
        }
    }

    /// Of the first engine that has one.
    fn holder(&self) -> Option<(u64, Ns)> {
        self.reader.holders().next()
    }

    fn of(&mut self, tag: u8, owner: Owner, at: u64) -> News {
        let record = Record {
            owner,
            engine: self.engine,
            number: self.number,
            tag,
            at: Ns(at),
        };
        self.number = self.number.wrapping_add(1);
        self.reader.read(&record, NOW)
    }

    fn tell(&mut self, tag: u8, tsg: u64, at: u64) -> News {
        self.of(tag, Some(tsg), at)
    }

    /// Reports that the driver drops.
    fn lose(&mut self, count: u16) {
        self.number = self.number.wrapping_add(count);
    }

    /// A switch from one TSG to the next: 5 ns until the engine is left, a save of 20, 1 between,
    /// a restore of 30. Returns the time that the first one had.
    fn switch(&mut self, from: u64, to: u64, at: u64) -> Option<(u64, Ns)> {
        self.tell(tag::ASKED, from, at);
        let ran = self.tell(ACK, from, at + 5).ran;
        self.tell(tag::SAVED, from, at + 25);
        self.tell(tag::RESTORES, to, at + 26);
        self.tell(tag::RUNS, to, at + 56);
        ran
    }
}

#[cfg_attr(test, allow(clippy::module_inception))]
#[cfg_attr(not(test), kernel::macros::kunit_tests(zernel_nvidia_switches))]
mod tests {
    use super::*;

    #[test]
    fn a_switch_tells_run_time_and_costs() {
        let mut log = Log::new();
        assert_eq!(log.tell(tag::RUNS, 1, 100), News::default());
        assert_eq!(log.holder(), Some((1, Ns(100))));
        assert_eq!(log.tell(tag::ASKED, 1, 1_100), News::default());
        assert_eq!(log.holder(), Some((1, Ns(100))));
        // It runs until the engine lets go of it.
        let news = log.tell(ACK, 1, 1_150);
        assert_eq!(news.ran, Some((1, Ns(1_050))));
        assert_eq!(log.holder(), None);
        assert_eq!(log.tell(tag::SAVED, 1, 1_200).saved, Some(Ns(50)));
        assert_eq!(log.tell(tag::RESTORES, 2, 1_210), News::default());
        let news = log.tell(tag::RUNS, 2, 1_280);
        assert_eq!(news.restored, Some(Ns(70)));
        let start = Start {
            tsg: 2,
            at: Ns(1_280),
            switch: Ns(180),
        };
        assert_eq!((news.started, news.ran), (Some(start), None));
        assert_eq!(log.holder(), Some((2, Ns(1_280))));
        let Reader {
            read,
            lost,
            odd,
            jumps,
            ..
        } = log.reader;
        assert_eq!((read, lost, odd, jumps), (6, 0, 0, 0));
    }

    #[test]
    fn without_an_acknowledgement_the_request_is_the_end() {
        let mut log = Log::new();
        log.tell(tag::RUNS, 1, 100);
        log.tell(tag::ASKED, 1, 300);
        let news = log.tell(tag::SAVED, 1, 340);
        assert_eq!((news.ran, news.saved), (Some((1, Ns(200))), Some(Ns(40))));
        assert_eq!(log.reader.odd, 0);
    }

    #[test]
    fn an_engine_without_a_context_restores_only() {
        let mut log = Log::new();
        log.tell(tag::RESTORES, 1, 50);
        let news = log.tell(tag::RUNS, 1, 90);
        assert_eq!(news.restored, Some(Ns(40)));
        assert_eq!(news.started.map(|start| start.switch), Some(Ns(40)));
        assert_eq!(log.reader.odd, 0);
    }

    #[test]
    fn unknown_contexts_cost_and_count_for_nobody() {
        let mut log = Log::new();
        log.of(tag::RUNS, None, 0);
        assert_eq!(log.holder(), None);
        log.of(tag::ASKED, None, 100);
        assert_eq!(log.of(ACK, None, 100).ran, None);
        assert_eq!(log.of(tag::SAVED, None, 140).saved, Some(Ns(40)));
        log.of(tag::RESTORES, None, 140);
        let news = log.of(tag::RUNS, None, 160);
        assert_eq!((news.restored, news.started), (Some(Ns(20)), None));
        log.of(tag::ASKED, None, 200);
        assert_eq!((log.of(ACK, None, 200).ran, log.reader.odd), (None, 0));
        // One that is known has not been there.
        log.of(tag::RUNS, None, 300);
        log.of(tag::ASKED, Some(1), 400);
        assert_eq!((log.of(ACK, Some(1), 400).ran, log.reader.odd), (None, 2));
    }

    #[test]
    fn another_context_than_the_one_that_was_there_gets_nothing() {
        let mut log = Log::new();
        log.tell(tag::RUNS, 1, 0);
        log.tell(tag::ASKED, 2, 100);
        let news = log.tell(ACK, 2, 100);
        assert_eq!((news.ran, log.reader.odd), (None, 1));
        assert_eq!(log.tell(tag::SAVED, 2, 130).saved, Some(Ns(30)));
        // Nor one that begins where another one is.
        log.tell(tag::RUNS, 1, 200);
        log.tell(tag::RUNS, 2, 300);
        assert_eq!(log.reader.odd, 3);
        assert_eq!(log.holder(), Some((2, Ns(300))));
        log.tell(tag::RESTORES, 1, 400);
        assert_eq!(log.tell(tag::RUNS, 2, 500).restored, None);
        assert_eq!(log.reader.odd, 5);
        assert_eq!(log.tell(tag::SAVED, 1, 600), News::default());
        assert_eq!(log.tell(ACK, 1, 600), News::default());
        assert_eq!(log.reader.odd, 7);
    }

    #[test]
    fn lost_records_count_for_nobody() {
        let mut log = Log::new();
        log.tell(tag::RUNS, 1, 0);
        log.lose(5);
        assert_eq!(log.tell(tag::ASKED, 1, 1_000), News::default());
        assert_eq!(log.tell(ACK, 1, 1_010).ran, None);
        assert_eq!((log.reader.lost, log.reader.odd), (5, 0));
        assert_eq!(log.tell(tag::SAVED, 1, 1_040).saved, Some(Ns(30)));
        log.lose(u16::MAX);
        log.tell(tag::RUNS, 2, 1_100);
        assert_eq!(log.reader.lost, 5 + u64::from(u16::MAX));
        assert_eq!(log.switch(2, 1, 2_000), Some((2, Ns(905))));
    }

    #[test]
    fn an_overflow_is_counted_once() {
        let mut log = Log::new();
        log.tell(tag::RUNS, 1, 0);
        log.reader.overflow(7);
        assert_eq!(log.holder(), None);
        log.lose(7);
        assert_eq!(log.tell(tag::ASKED, 1, 100), News::default());
        assert_eq!(log.reader.lost, 7);
        // More than the numbers tell.
        log.reader.overflow(0x2_0003);
        log.lose(4);
        log.tell(tag::RUNS, 1, 200);
        assert_eq!(log.reader.lost, 7 + 0x1_0004);
        log.reader.overflow(0);
        assert_eq!(log.holder(), Some((1, Ns(200))));
        // Before the first record of a ring.
        log.reader.restart();
        log.reader.overflow(3);
        log.tell(tag::RUNS, 1, 300);
        assert_eq!(log.reader.lost, 7 + 0x1_0004 + 3);
    }

    #[test]
    fn a_clock_that_jumps_takes_no_time() {
        let mut log = Log::new();
        log.tell(tag::RUNS, 1, 5_000);
        assert_eq!(log.tell(tag::ASKED, 1, 1_000), News::default());
        assert_eq!(log.tell(ACK, 1, 1_100).ran, None);
        assert_eq!(log.reader.jumps, 1);
        log.tell(tag::RUNS, 1, 2_000);
        assert_eq!(log.switch(1, 2, 3_000), Some((1, Ns(1_005))));
        // Nor one that is ahead of now, which is not believed.
        let record = Record {
            owner: Some(2),
            engine: 0,
            number: log.number,
            tag: tag::ASKED,
            at: Ns(9_000),
        };
        assert_eq!(log.reader.read(&record, Ns(8_000)), News::default());
        assert_eq!((log.reader.jumps, log.holder()), (2, None));
        log.number = log.number.wrapping_add(1);
        log.tell(tag::RUNS, 2, 8_001);
        assert_eq!(log.reader.jumps, 2);
    }

    #[test]
    fn records_that_are_passed_over_are_not_lost() {
        let mut log = Log::new();
        log.tell(tag::RUNS, 1, 5_000);
        log.reader.skip(log.number);
        log.number = log.number.wrapping_add(1);
        assert_eq!(log.holder(), None);
        log.tell(tag::RUNS, 1, 100);
        assert_eq!(log.switch(1, 2, 200), Some((1, Ns(105))));
        assert_eq!(log.reader.faults(), 0);
        log.reader.skip(log.number.wrapping_add(3));
        assert_eq!((log.reader.lost, log.reader.faults()), (3, 3));
    }

    #[test]
    fn records_from_before_the_clock_was_set_tell_nothing() {
        let mut log = Log::new();
        log.reader.set_floor(Ns(5_000));
        assert_eq!(log.tell(tag::RUNS, 1, 4_999), News::default());
        assert_eq!(log.reader.jumps, 1);
        log.tell(tag::RUNS, 1, 5_000);
        assert_eq!(log.switch(1, 2, 6_000), Some((1, Ns(1_005))));
        assert_eq!(log.reader.jumps, 1);
        log.reader.restart();
        log.tell(tag::RUNS, 1, 100);
        assert_eq!(log.reader.jumps, 1);
    }

    #[test]
    fn a_run_from_before_the_clock_was_set_has_no_holder() {
        let mut log = Log::new();
        log.tell(tag::RUNS, 1, 9_000);
        assert_eq!(log.holder(), Some((1, Ns(9_000))));
        // Back, with no record until then.
        log.reader.set_floor(Ns(5_000));
        assert_eq!(log.holder(), None);
        assert_eq!(log.switch(1, 2, 6_000), None);
        assert_eq!(log.switch(2, 1, 7_000), Some((2, Ns(949))));
        assert_eq!(log.reader.faults(), 0);
    }

    #[test]
    fn unknown_steps_end_what_is_known() {
        for tag in [0x00, 0x06, 0x07, 0xfe, 0xff] {
            let mut log = Log::new();
            log.tell(tag::RUNS, 1, 0);
            assert_eq!(log.tell(tag, 1, 100), News::default());
            assert_eq!((log.reader.odd, log.holder()), (1, None));
        }
    }

    #[test]
    fn a_new_ring_begins_anew() {
        let mut log = Log::new();
        log.tell(tag::RUNS, 1, 5_000);
        log.reader.restart();
        assert_eq!(log.holder(), None);
        log.number = 0;
        log.tell(tag::RUNS, 1, 100);
        assert_eq!((log.reader.lost, log.reader.jumps), (0, 0));
        assert_eq!(log.switch(1, 2, 200), Some((1, Ns(105))));
    }

    #[test]
    fn engines_of_a_ring_do_not_mix() {
        let mut log = Log::new();
        log.tell(tag::RUNS, 1, 5_000);
        // Another one's records come later, and are older.
        log.engine = 8;
        log.tell(tag::RUNS, 2, 1_000);
        let expected = [(1, Ns(5_000)), (2, Ns(1_000))];
        assert!(log.reader.holders().eq(expected));
        assert_eq!(log.switch(2, 3, 2_000), Some((2, Ns(1_005))));
        log.engine = 0;
        assert_eq!(log.switch(1, 2, 6_000), Some((1, Ns(1_005))));
        assert_eq!((log.reader.odd, log.reader.jumps), (0, 0));
        // Nobody knows whose this is; its number counts.
        log.engine = ENGINES;
        assert_eq!(log.tell(tag::ASKED, 2, 7_000), News::default());
        assert_eq!(log.reader.holders().count(), 2);
        // Its time is none of a switch that it comes between.
        log.engine = 0;
        log.tell(tag::ASKED, 2, 8_000);
        log.tell(tag::SAVED, 2, 8_010);
        log.engine = ENGINES;
        log.tell(tag::RUNS, 2, 8_020);
        log.engine = 0;
        log.tell(tag::RESTORES, 4, 9_000);
        let start = log.tell(tag::RUNS, 4, 9_030).started;
        assert_eq!(start.map(|start| start.switch), Some(Ns(30)));
        assert_eq!((log.reader.odd, log.reader.jumps), (0, 0));
        // A loss may be of any.
        log.lose(1);
        log.engine = 8;
        log.tell(tag::ASKED, 3, 10_000);
        assert_eq!((log.reader.lost, log.reader.holders().count()), (1, 0));
        // So may what the driver drops, and a clock that is set.
        let faults: [fn(&mut Reader); 2] = [
            |reader| reader.overflow(1),
            |reader| reader.set_floor(Ns::ZERO),
        ];
        for fault in faults {
            let mut reader = Reader::default();
            for engine in 0..ENGINES {
                let record = Record {
                    owner: Some(1),
                    engine,
                    number: engine as u16,
                    tag: tag::RUNS,
                    at: Ns(100),
                };
                reader.read(&record, NOW);
            }
            assert_eq!(reader.holders().count(), ENGINES);
            fault(&mut reader);
            assert_eq!(reader.holders().count(), 0);
        }
    }

    #[test]
    fn residence_never_shrinks_and_makes_up() {
        let mut residence = Residence::default();
        residence.end(Ns(100));
        assert_eq!(residence.take(Ns(50)), Ns(150));
        // The run that went on had ended 20 ns earlier.
        residence.end(Ns(30));
        assert_eq!(residence.take(Ns::ZERO), Ns::ZERO);
        residence.end(Ns(15));
        assert_eq!(residence.take(Ns::ZERO), Ns::ZERO);
        residence.end(Ns(15));
        assert_eq!(residence.take(Ns::ZERO), Ns(10));
        // A run of 40 whose end is lost, and another one.
        assert_eq!(residence.take(Ns(40)), Ns(40));
        residence.lose();
        residence.end(Ns(5));
        assert_eq!(residence.take(Ns::ZERO), Ns(5));
        residence.end(Ns(u64::MAX));
        assert_eq!(residence.take(Ns(1)), Ns(u64::MAX - 205));
    }

    /// No time is told twice, with records of any kind and loss.
    #[test]
    fn run_times_never_exceed_the_time_that_passed() {
        let mut random = 0x9e37_79b9_7f4a_7c15_u64;
        let mut log = Log::new();
        let (mut at, mut sum) = (0, 0);
        for _ in 0..20_000 {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            if random % 16 == 0 {
                log.lose((random >> 32) as u16);
            }
            at += random >> 8 & 0xff;
            let tag = (random >> 16) as u8 % 16;
            let tsg = (random >> 24) % 3;
            if let Some((_, ran)) = log.tell(tag, tsg, at).ran {
                sum += ran.0;
            }
        }
        assert!(sum > 0 && sum <= at);
    }
}
