// SPDX-License-Identifier: GPL-2.0
//! The context switches of each GPU and MIG instance, followed by records while somebody asks for
//! the load.

use crate::{
    clock::{
        Clock,
        Pair, //
    },
    counters,
    glue::{
        debugfs::Text,
        errno,
        nvidia::records::{
            self,
            Batch,
            Time,
            INSTANCES, //
        },
        provider_side::{
            Herald,
            Start, //
        },
        time::now_ns,
    },
    histogram::Histogram,
    meters::{
        Meters,
        Part, //
    },
    switches::{
        Reader,
        Record, //
    },
    units::{
        Ns,
        Ppm, //
    },
};
use kernel::{
    fmt::Write as _,
    prelude::*,
    sync::{
        Arc,
        Mutex, //
    }, //
};

/// Durations up to 2 s, with an error of 13 % at most: 8 buckets would be none the wiser.
type Durations = Histogram<2, 104>;

/// Durations of the halves of switches.
struct Costs {
    saves: Durations,
    restores: Durations,
}

/// A GPU, or a MIG instance of one.
struct Trace {
    of: Part,
    herald: Arc<Herald>,
    /// The number of the driver's ring.
    ring: Option<u32>,
    reader: Reader,
    clock: Clock,
    costs: KBox<Costs>,
    /// Time that the driver took for the last read, its fetch of records included, and the longest.
    took: Ns,
    took_longest: Ns,
    /// Time of all reads, of the driver and of this module.
    fetched: Ns,
    handled: Ns,
    /// Of a GPU: when the driver was asked last.
    asked: Ns,
    /// That ended with the last read, and is to be settled.
    interval: Option<Interval>,
    /// The GPU's time at the last read.
    until: Option<Ns>,
    /// The clock was set since then: records of this read are from before, or from after that.
    is_torn: bool,
    /// Something was lost since the last read that came to its end.
    is_partial: bool,
    /// Faults of the reader by then.
    faults: u64,
    /// The driver is not asked until then: it has no records for the instance.
    rests_until: Ns,
}

/// The context switches of all GPUs.
pub(crate) struct Traces {
    list: KVec<Trace>,
    /// Room for a read; empty without a GPU.
    room: KVec<records::Record>,
}

/// From a refusal of the driver to the next question for an instance, which may be there by then; and
/// from another failure.
const REST: Ns = Ns(10_000_000_000);
const SHORT_REST: Ns = Ns(1_000_000_000);

/// The time between two reads.
struct Interval {
    /// All records were read, and fit each other.
    is_whole: bool,
    /// When it began, by the GPU's clock.
    begun: Option<Ns>,
}

/// Reads until there are no more records, but no more often: the driver may write as fast.
const READS: usize = 64;

impl Traces {
    /// Records are read no more often: the GPU hands them out 30 times a second by itself, and each
    /// read has the driver take its locks.
    pub(crate) const INTERVAL: Ns = Ns(33_000_000);
    /// Records of a read.
    pub(crate) const BATCH: usize = 256;

    /// No GPU is there.
    pub(crate) const fn new() -> Self {
        Self {
            list: KVec::new(),
            room: KVec::new(),
        }
    }

    /// A GPU is there.
    pub(crate) fn add(&mut self, gpu: u32, herald: Arc<Herald>) -> Result {
        if self.room.is_empty() {
            self.room
                .resize(Self::BATCH, records::Record::default(), GFP_KERNEL)?;
        }
        self.add_part(Part { gpu, mig: None }, herald)
    }

    fn add_part(&mut self, of: Part, herald: Arc<Herald>) -> Result {
        let costs = Costs {
            saves: Durations::EMPTY,
            restores: Durations::EMPTY,
        };
        let trace = Trace {
            of,
            herald,
            ring: None,
            reader: Reader::default(),
            clock: Clock::default(),
            costs: KBox::new(costs, GFP_KERNEL)?,
            took: Ns::ZERO,
            took_longest: Ns::ZERO,
            fetched: Ns::ZERO,
            handled: Ns::ZERO,
            asked: Ns::ZERO,
            interval: None,
            until: None,
            is_torn: false,
            is_partial: false,
            faults: 0,
            rests_until: Ns::ZERO,
        };
        self.list.push(trace, GFP_KERNEL)?;
        Ok(())
    }

    /// A GPU is gone.
    pub(crate) fn remove(&mut self, gpu: u32) {
        self.list.retain(|trace| trace.of.gpu != gpu);
    }

    /// The GPUs.
    pub(crate) fn gpus(&self) -> impl Iterator<Item = u32> + '_ {
        let all = self.list.iter().filter(|trace| trace.of.mig.is_none());
        all.map(|trace| trace.of.gpu)
    }

    /// Reads the records of a GPU and of its MIG instances by `read`, if that was not done for
    /// [`Self::INTERVAL`] or it is `forced`. The first one that has some has the driver fetch them.
    pub(crate) fn follow(
        &mut self,
        gpu: u32,
        meters: &Mutex<Meters>,
        forced: bool,
        read: impl Fn(Option<u32>, bool, &mut [records::Record]) -> Result<Batch>,
    ) {
        let now = Ns(now_ns());
        let whole = Part { gpu, mig: None };
        let Some(trace) = self.list.iter_mut().find(|trace| trace.of == whole) else {
            return;
        };
        if !forced && now.saturating_sub(trace.asked) < Self::INTERVAL {
            return;
        }
        // A program that asks may not be the first, on any instance: then it puts off no read of the
        // worker.
        if !forced {
            trace.asked = now;
        }
        let herald = trace.herald.clone();
        let instances = meters.lock().instances(gpu);
        // Of the whole there are none then, and a bind that fails takes others' timer away.
        let there = |of: Part| {
            let is_read = of
                .mig
                .map_or(instances == 0, |mig| instances >> mig & 1 != 0);
            of.gpu == gpu && is_read
        };
        for mig in (0..INSTANCES as u32).filter(|mig| instances >> mig & 1 != 0) {
            let of = Part {
                gpu,
                mig: Some(mig),
            };
            if self.list.iter().all(|trace| trace.of != of) {
                // Without memory, looks tell the time of its TSGs.
                let _ = self.add_part(of, herald.clone());
            }
        }
        let (mut is_fetched, mut has_failed) = (false, false);
        let Self { list, room } = self;
        for trace in list.iter_mut().filter(|trace| there(trace.of)) {
            let mig = trace.of.mig;
            trace.follow(room, meters, now, forced, |list| {
                let answer = read(mig, !is_fetched, list);
                is_fetched |= answer.is_ok();
                has_failed |= answer.is_err_and(|error| error != errno::unsupported());
                answer
            });
        }
        if !is_fetched {
            return;
        }
        self.settle(gpu, meters);
        let whole = self.list.iter_mut().find(|trace| trace.of == whole);
        if let Some(trace) = whole.filter(|_| !has_failed) {
            trace.asked = now;
        }
    }

    /// The records of a GPU and of its instances have been read.
    fn settle(&mut self, gpu: u32, meters: &Mutex<Meters>) {
        meters.lock().settle(gpu, |of, tsg| {
            let trace = self.list.iter().find(|trace| trace.of == of)?;
            let interval = trace.interval.as_ref()?;
            Some((interval.is_whole, trace.running(interval, tsg)))
        });
        for trace in self.list.iter_mut().filter(|trace| trace.of.gpu == gpu) {
            trace.interval = None;
        }
    }

    /// Shows what was learned: a line per GPU, and per MIG instance.
    pub(crate) fn show(&self, out: &mut Text) -> Result {
        for trace in &self.list {
            trace.show(out)?;
        }
        Ok(())
    }
}

impl Trace {
    /// A switch may have begun so long before it is told.
    const LATE: Ns = Ns(100_000_000);

    /// Reads records into `room`, as [`Traces::follow`].
    fn follow(
        &mut self,
        room: &mut [records::Record],
        meters: &Mutex<Meters>,
        now: Ns,
        forced: bool,
        mut read: impl FnMut(&mut [records::Record]) -> Result<Batch>,
    ) {
        if now < self.rests_until {
            return;
        }
        self.is_partial |= self.ring.is_none();
        let mut time = None;
        for _ in 0..READS {
            let begin = now_ns();
            let answer = read(room);
            self.took = Ns(now_ns().saturating_sub(begin));
            self.took_longest = self.took_longest.max(self.took);
            self.fetched = self.fetched.saturating_add(self.took);
            let batch = match answer {
                Ok(batch) => batch,
                // The time until the next read that succeeds is a part of the interval then, with its
                // losses.
                Err(error) => {
                    self.rest(error, now, forced);
                    return;
                }
            };
            self.rests_until = Ns::ZERO;
            self.is_partial |= !self.begin(&batch);
            let records = room.get(..batch.count).unwrap_or(room);
            {
                let mut meters = meters.lock();
                let begin = now_ns();
                self.read(records, batch.time, &mut meters);
                let took = Ns(now_ns().saturating_sub(begin));
                self.handled = self.handled.saturating_add(took);
            }
            self.reader.overflow(batch.dropped);
            time = batch.time;
            if !batch.is_more {
                self.is_torn = false;
                break;
            }
        }
        let faults = self.reader.faults();
        let lost = faults.saturating_sub(core::mem::replace(&mut self.faults, faults));
        counters::RECORDS_LOST.add(lost);
        self.interval = Some(Interval {
            is_whole: !core::mem::take(&mut self.is_partial) && lost == 0,
            begun: core::mem::replace(&mut self.until, time.map(|time| Ns(time.gpu))),
        });
    }

    /// The time until the interval began of a TSG that has an engine as it ends.
    ///
    /// The GPU may have lost the end of a run, and tells only with a later record. So a run that goes on
    /// counts up to the last read: nothing has come since then that does not fit.
    fn running(&self, interval: &Interval, tsg: u64) -> Option<Ns> {
        let begun = interval.begun.filter(|_| interval.is_whole)?;
        let mut holders = self.reader.holders();
        let (_, since) = holders.find(|(holder, _)| *holder == tsg)?;
        Some(begun.saturating_sub(since))
    }

    /// An instance whose records could not be read is left alone for a while: it may not be there, and
    /// each try takes the driver's locks.
    fn rest(&mut self, error: Error, now: Ns, forced: bool) {
        let pause = match error == errno::unsupported() {
            true => REST,
            // A program is refused that would be the first.
            false if forced => return,
            false => SHORT_REST,
        };
        if self.of.mig.is_some() {
            self.rests_until = now.saturating_add(pause);
        }
    }

    /// Takes the clock of a read. Returns whether its records follow those of the last one.
    fn begin(&mut self, batch: &Batch) -> bool {
        let is_new = self.ring.replace(batch.ring) != Some(batch.ring);
        if is_new {
            self.clock.forget();
        }
        let jumped = batch.time.is_some_and(|time| {
            self.clock.take(Pair {
                gpu: Ns(time.gpu),
                cpu: Ns(time.cpu),
                error: Ns(time.error),
            })
        });
        if is_new {
            self.reader.restart();
        }
        self.is_torn |= jumped;
        if let Some(time) = batch.time.filter(|_| is_new || jumped) {
            // A switch that goes on has begun before.
            let floor = Ns(time.gpu).saturating_sub(Self::LATE);
            self.reader.set_floor(floor);
        }
        counters::CLOCK_JUMPS.add(jumped.into());
        // Without a clock nobody would notice that it is set.
        !is_new && !jumped && batch.time.is_some()
    }

    /// Reads records.
    fn read(&mut self, list: &[records::Record], time: Option<Time>, meters: &mut Meters) {
        counters::RECORDS.add(list.len() as u64);
        // Those that the driver has fetched since the clock was read are younger.
        const SLACK: Ns = Ns(1_000_000);
        let latest = time.map_or(Ns(u64::MAX), |time| {
            let since = now_ns().saturating_sub(time.cpu).saturating_add(time.error);
            Ns(time.gpu.saturating_add(since)).saturating_add(SLACK)
        });
        for record in list {
            if self.is_torn {
                self.reader.skip(record.number());
                continue;
            }
            let record = Record {
                owner: record.tsg(),
                engine: record
                    .compute()
                    .map_or(0, |compute| usize::from(compute) + 1),
                number: record.number(),
                tag: record.tag(),
                at: Ns(record.at()),
            };
            let news = self.reader.read(&record, latest);
            if let Some((tsg, ran)) = news.ran {
                let _ = meters.has_run(self.of, tsg, ran);
            }
            if let Some(saved) = news.saved {
                self.costs.saves.record(saved);
            }
            if let Some(restored) = news.restored {
                self.costs.restores.record(restored);
            }
            let Some(start) = news.started else {
                continue;
            };
            let is_here = meters.has_run(self.of, start.tsg, Ns::ZERO);
            if let Some(at) = self.clock.cpu(start.at).filter(|_| is_here) {
                let start = Start {
                    tsg: start.tsg,
                    at: at.0,
                    since: None,
                    switch: start.switch.0,
                };
                self.herald.started(self.of.gpu.into(), &start);
            }
        }
    }

    fn show(&self, out: &mut Text) -> Result {
        let Reader {
            read,
            lost,
            odd,
            jumps,
            ..
        } = self.reader;
        out.write_fmt(fmt!("gpu={:#x}", self.of.gpu))?;
        if let Some(mig) = self.of.mig {
            out.write_fmt(fmt!(" mig={mig}"))?;
        }
        out.write_fmt(fmt!(
            " records={read} lost={lost} odd={odd} out_of_time={jumps}"
        ))?;
        for (name, times) in [
            ("save", &self.costs.saves),
            ("restore", &self.costs.restores),
        ] {
            out.write_fmt(fmt!(" {name}s={}", times.count()))?;
            let median = times.quantile(Ppm(500_000));
            for (what, time) in [
                ("min", times.min()),
                ("median", median),
                ("mean", times.mean()),
                ("max", times.max()),
            ] {
                out.write_fmt(fmt!(" {name}_{what}_ns={}", time.unwrap_or_default().0))?;
            }
        }
        out.write_fmt(fmt!(
            " flush_ns={} flush_max_ns={} fetched_ns={} handled_ns={} clock_jumps={}",
            self.took.0,
            self.took_longest.0,
            self.fetched.0,
            self.handled.0,
            self.clock.jumps
        ))?;
        if let Some((offset, error)) = self.clock.offset() {
            out.write_fmt(fmt!(" clock_ns={offset} clock_error_ns={}", error.0))?;
        }
        if let Some(drift) = self.clock.drift() {
            out.write_fmt(fmt!(
                " drift_ppb={} drift_error_ppb={}",
                drift.ppb,
                drift.error_ppb
            ))?;
        }
        out.write_fmt(fmt!("\n"))?;
        Ok(())
    }
}
