// SPDX-License-Identifier: MIT OR Apache-2.0
//! The longest holds: one process with as much of everything as there can be makes one call after
//! the other, and the kernel's meter is read after each.

use std::fs;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::atomic::AtomicU32;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use libzernel::class::Attributes;
use libzernel::request::{Begin, Slots};
use libzernel::sim::{Context, ContextSpec, Item, Sim};
use libzernel::{tsg, EventStream, Level, Target, Timestamp, Tracking, Weight, Zernel};
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::process::{setrlimit, Resource, Rlimit};
use rustix::thread::futex;
use serde::{Deserialize, Serialize};
use testkit::child::Child;
use testkit::{sys, wait_until};
use zernel_report::figures::Table;

use crate::meter::{self, Hold, Meter};
use crate::{ground, Holds};

/// Longest hold of a spinlock, and section without interrupts or preemption, in instructions.
const MOST_SPINNING: u64 = 20_000;

/// Longest hold of a sleeping lock.
const MOST_SLEEPING: u64 = 200_000;

/// Holds of a call that are told.
const TOLD: usize = 6;

/// Time in which the kernel frees what calls before have let go.
const SETTLES: Duration = Duration::from_millis(400);

/// Time in which as many threads as there are run once.
const RUN: Duration = Duration::from_secs(2);

/// Keys that come where there is no room.
const NEW_KEYS: u64 = 256;

/// The word that threads wait for.
static WORD: AtomicU32 = AtomicU32::new(0);

/// A call, and the holds of locks in it and its consequences.
#[derive(Debug, Serialize, Deserialize)]
struct Row {
    call: String,
    /// Time of the call itself, in nanoseconds.
    ns: u64,
    holds: Vec<Hold>,
}

impl Row {
    /// Says how far it is.
    fn tell(&self) {
        let longest = self.holds.first();
        let (ns, place) = longest.map_or((0, "none"), |hold| (hold.ns, &hold.place));
        eprintln!("{}: {ns}: {place}", self.call);
    }
}

/// Measures and prints.
pub fn run(options: &Holds) -> Result<()> {
    ground::prepare(&options.load)?;
    let mut bench = Bench {
        meter: Meter::of_kernel()?,
        zernel: Zernel::open()?,
        rows: Vec::new(),
        share: options.share,
        json: options.json.clone(),
    };
    unlimit()?;
    if bench.meter == Meter::Locks {
        println!("{}", readers(&bench.zernel)?);
    }
    bench.gpu()?;
    bench.requests()?;
    bench.threads()?;
    println!("{}", bench.table(&bench.rows));
    Ok(())
}

fn unlimit() -> Result<()> {
    let limit = |value| Rlimit {
        current: value,
        maximum: value,
    };
    setrlimit(Resource::Nofile, limit(Some(1 << 20)))?;
    setrlimit(Resource::Nproc, limit(None))?;
    Ok(())
}

struct Bench {
    meter: Meter,
    zernel: Zernel,
    rows: Vec<Row>,
    /// Share of the full sizes.
    share: f64,
    /// File of the rows.
    json: Option<PathBuf>,
}

impl Bench {
    fn size(&self, full: u32) -> u32 {
        ((f64::from(full) * self.share) as u32).max(1)
    }

    /// Makes a call, and waits until its consequences are over.
    fn call<T>(&mut self, call: &str, run: impl FnOnce(&Zernel) -> Result<T>) -> Result<T> {
        self.settle()?;
        self.meter.clear()?;
        let begin = Instant::now();
        let done = run(&self.zernel).with_context(|| call.to_owned())?;
        let ns = begin.elapsed().as_nanos() as u64;
        self.settle()?;
        let holds = self.meter.read()?;
        let row = Row {
            call: call.to_owned(),
            ns,
            holds,
        };
        row.tell();
        self.rows.push(row);
        if let Some(path) = &self.json {
            fs::write(path, serde_json::to_vec_pretty(&self.rows)?)?;
        }
        Ok(done)
    }

    fn settle(&self) -> Result<()> {
        sleep(SETTLES);
        wait_until("everything is set", || {
            let mut gpus = self.zernel.gpus();
            Ok(gpus.all(|gpu| gpu.is_ok_and(|gpu| gpu.pending == 0)))
        })
    }

    fn gpu(&mut self) -> Result<()> {
        let me = Target::current_process();
        let be = |weight| {
            let weight = Weight::new(weight).unwrap_or_default();
            Attributes::from(Level::BE).weight(weight)
        };
        let sim = Sim::open()?;
        let count = self.size(4_090);
        let contexts = self.call("TSGs added", |_| make(&sim, count))?;
        let some = self.zernel.tsgs_of(&me).next().context("no TSG")??;
        let one = Target::Tsg(some.id);
        self.call("CLASS_GET of a process", |zernel| Ok(zernel.class(&me)?))?;
        self.call("CLASS_GET of a TSG", |zernel| Ok(zernel.class(&one)?))?;
        self.call("LIST_TSGS", |zernel| Ok(zernel.tsgs().count()))?;
        self.call("LIST_GPUS", |zernel| Ok(zernel.gpus().count()))?;
        self.call("CLASS_SET of a TSG", |z| Ok(z.set_class(&one, be(1))?))?;
        self.call("CLASS_SET of a process", |z| Ok(z.set_class(&me, be(2))?))?;
        self.call("CLASS_CLEAR of a process", |z| Ok(z.clear_class(&me)?))?;
        let streams = self.watch()?;
        self.call("CLASS_SET of a TSG, watched", |z| {
            Ok(z.set_class(&one, be(3))?)
        })?;
        self.call("CLASS_SET of a process, watched", |z| {
            Ok(z.set_class(&me, be(4))?)
        })?;
        drop(streams);
        for (name, value) in [
            ("level7_timeslice_us", "700"),
            ("rotation_timeslice_us", "60"),
            ("default_class", "be"),
            ("enabled", "0"),
            ("enabled", "1"),
        ] {
            self.call(&format!("{name}={value}"), |_| Ok(tune(name, value)?))?;
        }
        self.call("turns of 8 TSGs for 100 ms", |_| take_turns(&contexts))?;
        self.call("CLASS_CLEAR of a process", |z| Ok(z.clear_class(&me)?))?;
        self.call("TSGs removed", |_| {
            drop(contexts);
            drop(sim);
            Ok(())
        })
    }

    /// 64 streams, one of them with 10,000 watchers.
    fn watch(&mut self) -> Result<(Vec<EventStream>, Vec<std::os::fd::OwnedFd>)> {
        let streams: Vec<_> = (0..64)
            .map(|_| EventStream::open())
            .collect::<libzernel::Result<_>>()?;
        let mut watching = Vec::new();
        for _ in 0..self.size(10_000) {
            let one = epoll::create(CreateFlags::CLOEXEC)?;
            epoll::add(&one, &streams[0], EventData::new_u64(0), EventFlags::IN)?;
            watching.push(one);
        }
        Ok((streams, watching))
    }

    fn requests(&mut self) -> Result<()> {
        let sim = Sim::open()?;
        let _contexts = make(&sim, 1)?;
        let me = Target::current_process();
        let tsg = self.zernel.tsgs_of(&me).next().context("no TSG")??.id;
        self.keys(tsg)?;
        let most = self.zernel.info()?.slots_max;
        let file = Zernel::open()?;
        let slots = self.call("slots mapped", |_| {
            Ok(Slots::map(&file, 0..most.min(16_384))?)
        })?;
        let ahead = Duration::from_millis(200);
        self.call("requests triggered at one instant", |_| {
            let at = Timestamp::now() + ahead;
            for slot in slots.slots() {
                let left = at.since(Timestamp::now());
                slot.begin(&Begin::new(tsg).expected(left).exact())?;
            }
            sleep(at.since(Timestamp::now()) + ahead);
            Ok(())
        })?;
        for slot in slots.slots() {
            slot.begin(&Begin::new(tsg).expected(ahead * 50).exact())?;
        }
        self.call("file with all slots closed", |_| {
            drop(slots);
            drop(file);
            Ok(())
        })
    }

    /// All keys that there can be, the oldest of them used again, and then new ones.
    fn keys(&mut self, tsg: tsg::Id) -> Result<()> {
        let file = Zernel::open()?;
        let slots = Slots::map(&file, 0..1)?;
        let slot = slots.slot(0).context("no slot")?;
        let all = self.size(65_536) as u64;
        let begin = |keys: Range<u64>| -> Result<()> {
            for key in keys {
                slot.begin(&Begin::new(tsg).key(key))?;
            }
            Ok(())
        };
        begin(0..all)?;
        for _ in 0..3 {
            begin(0..NEW_KEYS.min(all))?;
        }
        self.call("requests of new keys, where there is no room", |_| {
            begin(all..all + NEW_KEYS)
        })
    }

    fn threads(&mut self) -> Result<()> {
        let me = Target::current_process();
        // Of its own process, as this one's threads are tracked with it.
        let child = Child::idle(|| Ok(()))?;
        let one = Target::Thread(child.pid());
        // Without zernel first: the kernel's own sections.
        let count = self.size(32_768);
        delay_dequeue(false)?;
        self.call("threads started", |_| {
            for _ in 1..count {
                sys::spawn_waiter(&WORD)?;
            }
            sleep(RUN);
            Ok(())
        })?;
        delay_dequeue(true)?;
        self.call("threads woken", |_| {
            futex::wake(&WORD, futex::Flags::PRIVATE, count)?;
            sleep(RUN);
            Ok(())
        })?;
        delay_dequeue(false)?;
        self.call("TRACK of a process", |z| Ok(z.track(&me, Tracking::ML)?))?;
        self.call("LIST_PROCESSES", |z| Ok(z.processes().count()))?;
        self.call("LIST_THREADS", |z| Ok(z.threads().count()))?;
        self.call("TRACK of a thread", |z| Ok(z.track(&one, Tracking::PLAIN)?))?;
        self.call("UNTRACK of a thread", |z| Ok(z.untrack(&one)?))?;
        self.call("UNTRACK of a process", |z| Ok(z.untrack(&me)?))?;
        Ok(())
    }

    fn table(&self, rows: &[Row]) -> String {
        let mut table = Table::new(["call", "its time", "longest", "bound", "place"], 1..3);
        for row in rows {
            for (at, hold) in row.holds.iter().take(TOLD).enumerate() {
                let bound = match self.meter {
                    Meter::Sections => MOST_SPINNING,
                    Meter::Locks => MOST_SLEEPING,
                };
                let (call, ns) = match at {
                    0 => (row.call.clone(), row.ns.to_string()),
                    _ => Default::default(),
                };
                let within = if hold.ns <= bound { "" } else { "over" };
                let place = hold.place.clone();
                table.add([call, ns, hold.ns.to_string(), within.to_owned(), place]);
            }
        }
        format!("{table}\n")
    }
}

/// Threads that went to sleep stay on the run queue until a choice of the scheduler takes them off,
/// the kernel's default, or are taken off one by one.
fn delay_dequeue(on: bool) -> Result<()> {
    const FEATURES: &str = "/sys/kernel/debug/sched/features";
    let feature = match on {
        true => "DELAY_DEQUEUE",
        false => "NO_DELAY_DEQUEUE",
    };
    fs::write(FEATURES, feature).context(FEATURES)
}

fn make(sim: &Sim, count: u32) -> Result<Vec<Context>> {
    let one = |_| sim.create_context(&ContextSpec::compute("holds"));
    Ok((0..count).map(one).collect::<libzernel::Result<_>>()?)
}

fn tune(name: &str, value: &str) -> std::io::Result<()> {
    fs::write(format!("/sys/class/misc/zernel/{name}"), value)
}

fn take_turns(contexts: &[Context]) -> Result<()> {
    let work = [Item::work(Duration::from_millis(50))];
    for context in contexts.iter().take(8) {
        context.submit(0, &work)?;
    }
    sleep(Duration::from_millis(100));
    Ok(())
}

/// The locks that calls of readers take.
fn readers(zernel: &Zernel) -> Result<String> {
    const TIMES: u64 = 1_000;
    let sim = Sim::open()?;
    let _contexts = make(&sim, 1)?;
    let me = Target::current_process();
    let tsg = Target::Tsg(zernel.tsgs_of(&me).next().context("no TSG")??.id);
    let mut text = String::from("Locks that a call takes:\n");
    for (name, target) in [
        ("CLASS_GET of a process", &me),
        ("CLASS_GET of a TSG", &tsg),
    ] {
        sleep(Duration::from_millis(50));
        Meter::Locks.clear()?;
        for _ in 0..TIMES {
            zernel.class(target)?;
        }
        let taken = meter::all_locks()?;
        let each = taken.iter().filter(|lock| lock.count >= TIMES);
        let names: Vec<_> = each
            .map(|lock| format!("{} ({} times)", lock.place, lock.count / TIMES))
            .collect();
        let names = match names.is_empty() {
            true => "none".to_owned(),
            false => names.join(", "),
        };
        text += &format!("  {name}: {names}\n");
    }
    Ok(text)
}
