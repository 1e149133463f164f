// SPDX-License-Identifier: GPL-2.0
//! The context switches of each GPU, followed by its records while somebody asks for the load.

use crate::{
    clock::{
        Clock,
        Pair, //
    },
    counters,
    glue::{
        debugfs::Text,
        nvidia::records::{
            self,
            Batch,
            Time, //
        },
        provider_side::{
            Herald,
            Start, //
        },
        time::now_ns,
    },
    histogram::Histogram,
    meters::{
        Interval,
        Meters, //
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

/// A GPU.
struct Trace {
    gpu: u32,
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
    /// When the driver was asked last.
    asked: Ns,
    /// The GPU's time at the last read.
    read: Option<Ns>,
    /// The clock was set since then: records of this read are from before, or from after that.
    is_torn: bool,
    /// Something was lost since the last read that came to its end.
    is_partial: bool,
    /// Faults of the reader by then.
    faults: u64,
}

/// The context switches of all GPUs.
pub(crate) struct Traces {
    gpus: KVec<Trace>,
    /// Room for a read; empty without a GPU.
    list: KVec<records::Record>,
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
            gpus: KVec::new(),
            list: KVec::new(),
        }
    }

    /// A GPU is there.
    pub(crate) fn add(&mut self, gpu: u32, herald: Arc<Herald>) -> Result {
        if self.list.is_empty() {
            self.list
                .resize(Self::BATCH, records::Record::default(), GFP_KERNEL)?;
        }
        let costs = Costs {
            saves: Durations::EMPTY,
            restores: Durations::EMPTY,
        };
        let trace = Trace {
            gpu,
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
            read: None,
            is_torn: false,
            is_partial: false,
            faults: 0,
        };
        self.gpus.push(trace, GFP_KERNEL)?;
        Ok(())
    }

    /// A GPU is gone.
    pub(crate) fn remove(&mut self, gpu: u32) {
        self.gpus.retain(|trace| trace.gpu != gpu);
    }

    /// The GPUs.
    pub(crate) fn gpus(&self) -> impl Iterator<Item = u32> + '_ {
        self.gpus.iter().map(|trace| trace.gpu)
    }

    /// Reads the records of a GPU by `read`, if that was not done for [`Self::INTERVAL`] or it is
    /// `forced`.
    pub(crate) fn follow(
        &mut self,
        gpu: u32,
        meters: &Mutex<Meters>,
        forced: bool,
        read: impl Fn(&mut [records::Record]) -> Result<Batch>,
    ) {
        let Self { gpus, list } = self;
        let Some(trace) = gpus.iter_mut().find(|trace| trace.gpu == gpu) else {
            return;
        };
        let now = Ns(now_ns());
        if !forced && now.saturating_sub(trace.asked) < Self::INTERVAL {
            return;
        }
        // A program that asks may not be the first: its failure does not put off the worker's read.
        if !forced {
            trace.asked = now;
        }
        trace.is_partial |= trace.ring.is_none();
        let mut time = None;
        for _ in 0..READS {
            let begin = now_ns();
            let answer = read(list);
            trace.took = Ns(now_ns().saturating_sub(begin));
            trace.took_longest = trace.took_longest.max(trace.took);
            trace.fetched = trace.fetched.saturating_add(trace.took);
            let Ok(batch) = answer else {
                // The time until the next read that succeeds is a part of the interval then, with its
                // losses.
                return;
            };
            trace.is_partial |= !trace.begin(&batch);
            let records = list.get(..batch.count).unwrap_or(list);
            {
                let mut meters = meters.lock();
                let begin = now_ns();
                trace.read(records, batch.time, &mut meters);
                let took = Ns(now_ns().saturating_sub(begin));
                trace.handled = trace.handled.saturating_add(took);
            }
            trace.reader.overflow(batch.dropped);
            time = batch.time;
            if !batch.is_more {
                trace.is_torn = false;
                break;
            }
        }
        trace.asked = now;
        let faults = trace.reader.faults();
        let lost = faults.saturating_sub(core::mem::replace(&mut trace.faults, faults));
        let is_whole = !core::mem::take(&mut trace.is_partial) && lost == 0;
        // The GPU may have lost the end of a run, and tells only with a later record. So a run that
        // goes on counts up to the last read: nothing has come since then that does not fit.
        let until = core::mem::replace(&mut trace.read, time.map(|time| Ns(time.gpu)));
        let holder = trace.reader.holder().zip(until.filter(|_| is_whole));
        let running = holder.map(|((tsg, since), until)| (tsg, until.saturating_sub(since)));
        meters.lock().settle(gpu, Interval { is_whole, running });
        counters::RECORDS_LOST.add(lost);
    }

    /// Shows what was learned: a line per GPU.
    pub(crate) fn show(&self, out: &mut Text) -> Result {
        for trace in &self.gpus {
            trace.show(out)?;
        }
        Ok(())
    }
}

impl Trace {
    /// A switch may have begun so long before it is told.
    const LATE: Ns = Ns(100_000_000);

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
                number: record.number(),
                tag: record.tag(),
                at: Ns(record.at()),
            };
            let news = self.reader.read(&record, latest);
            if let Some((tsg, ran)) = news.ran {
                meters.has_run(tsg, ran);
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
            meters.has_run(start.tsg, Ns::ZERO);
            if let Some(at) = self.clock.cpu(start.at) {
                let start = Start {
                    tsg: start.tsg,
                    at: at.0,
                    since: None,
                    switch: start.switch.0,
                };
                self.herald.started(self.gpu.into(), &start);
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
        out.write_fmt(fmt!(
            "gpu={:#x} records={read} lost={lost} odd={odd} out_of_time={jumps}",
            self.gpu
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
