// SPDX-License-Identifier: MIT OR Apache-2.0
//! A client process on the software GPU, and how it talks with the one that started it.
//!
//! It says [`Ready`] on a line, is told the start time on a line, runs, and says its [`Report`].

use std::io::{self, BufRead, Write};
use std::num::NonZeroU64;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use anyhow::{anyhow, Context as _, Result};
use libzernel::class::Attributes;
use libzernel::request::{Features, Number};
use libzernel::sim::{Completion, Condition, Context, ContextSpec, Item, Sim, Words};
use libzernel::{Level, Target, Timestamp, Weight, Zernel};
use nvrm::Program;
use rustix::io::Errno;
use rustix::thread::{clock_nanosleep_absolute, set_current_timer_slack};
use rustix::time::ClockId;
use serde::{Deserialize, Serialize};
use zernel_report::breakdown::{Mark, Stamps};
use zernel_report::outcome::HintUse;
use zernel_report::requests::Requests;
use zernel_workload::{ClientSpec, Draw, Next, Role, Schedule, Traced};

use crate::client::{self, Machine};
use crate::hint::{self, Held, Hint, Hints, Stream, DATA, WORDS};
use crate::kernels::items;
use crate::spin::Spin;
use crate::stamps::{report_kernels, tag, Stamper};
use crate::{cuda, sys};

/// Longest time that one step of a request may take before the run is given up.
const STUCK: Duration = Duration::from_secs(30);

/// Time after a run in which no client writes its report, so that the last ones are not disturbed.
pub const SETTLE: Duration = Duration::from_millis(100);

/// Requests of a run for which there is room at its start.
const EACH: usize = 8_192;

/// Most items of a submission.
const SUBMIT: usize = 256;

/// Items before the kernels of an inference: those of a hint, and the wait for the data.
const HEAD: usize = 5;

/// Order to a client process.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Order {
    /// Its clients: a channel each of its TSGs.
    pub clients: Vec<ClientOrder>,
    /// Duration, in nanoseconds.
    pub duration_ns: u64,
    /// Class that it gives itself.
    pub class: Option<Level>,
    /// Weight that it gives itself with its class.
    #[serde(default)]
    pub weight: Option<Weight>,
    /// Its hint that it will need the GPU.
    pub hint: Option<Hint>,
    /// It is a program of CUDA, whose requests are those of the runtime.
    #[serde(default)]
    pub cuda: bool,
    /// It keeps the time stamps of its requests; for one client.
    #[serde(default)]
    pub breakdown: bool,
    /// Its preparations compute.
    #[serde(default)]
    pub compute: bool,
}

/// Order to a client.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ClientOrder {
    /// The client.
    pub spec: ClientSpec,
    /// When its first request arrives, in nanoseconds from the start.
    pub phase_ns: u64,
    /// Seed of its random numbers.
    pub seed: u64,
}

impl ClientOrder {
    /// Its schedule and room for its requests: made before it is ready, as a trace of many requests
    /// takes longer to read than there is between the signal and the start.
    pub fn ahead(&self, duration: Duration) -> Result<(Schedule, Requests)> {
        let phase = Duration::from_nanos(self.phase_ns);
        let schedule = Schedule::new(&self.spec.arrival, phase, self.seed)?;
        Ok((schedule, Requests::for_run(&self.spec, duration)))
    }
}

/// Report of a client process that can start.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ready {
    /// Handle of its compute TSG.
    pub tsg: u64,
}

/// Report of a client process at its end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// Time slice of its compute TSG at the end, in microseconds.
    pub timeslice_us: u32,
    /// The requests of each client.
    pub requests: Vec<Requests>,
    /// Nanoseconds that its holders have held the GPU for.
    pub held_ns: u64,
    /// The same for each request, in the order in which they were over.
    pub held_each_ns: Vec<u64>,
    /// Holders that ended by their bound.
    pub holds_expired: u64,
    /// Counters of its hints.
    pub hints: Option<HintUse>,
    /// Time stamps of its requests, if it keeps them.
    #[serde(default)]
    pub stamps: Vec<Stamps>,
}

/// Gives this process its class, if any, and exact wake-ups.
pub fn take_class(class: Option<Level>, weight: Option<Weight>) -> Result<()> {
    // Without slack the kernel may not delay the wake-ups of a request.
    set_current_timer_slack(NonZeroU64::new(1)).context("cannot set the timer slack")?;
    if let Some(level) = class {
        let mut class = Attributes::from(level);
        class.weight = weight;
        Zernel::open()?.set_class(&Target::current_process(), class)?;
    }
    Ok(())
}

/// Objects of a process on the software GPU.
#[derive(Debug)]
pub struct Gpu {
    sim: Sim,
    compute: Context,
    copy: Context,
    /// That has both contexts.
    _program: Program,
    /// Semaphore words of `compute`.
    words: Arc<Words>,
    hints: Option<Hints>,
    held: Mutex<(Held, Vec<u64>)>,
}

impl Gpu {
    /// Gives this process its class, if any, and makes its contexts.
    pub fn open(
        label: &str,
        channels: u32,
        class: Option<Level>,
        weight: Option<Weight>,
        hint: Option<Hint>,
    ) -> Result<Self> {
        take_class(class, weight)?;
        let sim = Sim::open()?;
        let spec = |spec| ContextSpec { channels, ..spec };
        let program = Program::open(&sim, 0)?;
        let compute = program.context(&spec(ContextSpec::compute(label)))?;
        let copy = program.context(&spec(ContextSpec::copy(label)))?;
        let words = Arc::new(compute.words(sim.version()?.words)?);
        let hints = hint
            .map(|hint| Hints::open(hint, &compute, &words))
            .transpose()?;
        Ok(Self {
            sim,
            compute,
            copy,
            _program: program,
            words,
            hints,
            held: Mutex::default(),
        })
    }

    /// Takes the reports of a request that is over.
    fn collect(&self) -> Result<Vec<Completion>> {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let (held, each) = &mut *held;
        let before = held.ns;
        let reports = held.collect(&self.sim)?;
        each.push(held.ns - before);
        Ok(reports)
    }
}

/// A channel of each context as a client's machine.
pub struct Device<'a> {
    gpu: &'a Gpu,
    channel: u32,
    stream: Option<Stream<'a>>,
    spec: &'a ClientSpec,
    seed: u64,
    /// The next request as a trace tells of it, and its arrival.
    traced: Traced,
    tick: Duration,
    /// Its features.
    features: Option<Features>,
    /// The kernels of an inference, behind their waits.
    inference: Vec<Item>,
    /// The request that it is at, and the last item of its inference.
    request: Number,
    last_item: u64,
    copy_in: [Item; 1],
    copy_out: [Item; 1],
    copying: Duration,
    /// Times of its kernels and of its copy out alone.
    kernels: Duration,
    copying_out: Duration,
    start: Timestamp,
    stamps: Option<Box<Stamper>>,
    /// Preparations compute.
    spin: Option<Spin>,
}

impl<'a> Device<'a> {
    /// For the client of a channel.
    pub fn new(gpu: &'a Gpu, channel: u32, spec: &'a ClientSpec, seed: u64) -> Self {
        let mut inference = vec![Item::fence(); HEAD];
        let pieces = spec.pieces(&Draw::default());
        inference.extend(items(&pieces));
        let hints = gpu.hints.as_ref();
        Self {
            gpu,
            channel,
            stream: hints.map(|hints| Stream::new(hints, channel, channel.into())),
            spec,
            seed,
            traced: Traced::default(),
            tick: Duration::ZERO,
            features: None,
            inference,
            request: Number::new(u32::MAX).expect("it is not 0"),
            last_item: 0,
            copy_in: [Item::work(spec.copy_in(0))],
            copy_out: [Item::work(spec.copy_out(0))],
            copying: spec.copy_in(0),
            kernels: pieces.iter().map(|piece| piece.time).sum(),
            copying_out: spec.copy_out(0),
            start: Timestamp::now(),
            stamps: None,
            spin: None,
        }
    }

    /// Keeps time stamps of its requests from now on, the only ones of its process.
    pub fn keep_stamps(&mut self) {
        self.stamps = Some(Box::new(Stamper::with_room(EACH)));
        self.report();
    }

    /// Has preparations compute from now on.
    pub fn compute(&mut self, spin: Spin) {
        self.spin = Some(spin);
    }

    /// Has the GPU report the copies and kernels of the next request, if time stamps are kept.
    fn report(&mut self) {
        if self.stamps.is_some() {
            report_kernels(&mut self.inference[HEAD..]);
            self.copy_in = self.copy_in.map(|item| item.notify().tag(tag::COPY_IN));
            self.copy_out = self.copy_out.map(|item| item.notify().tag(tag::COPY_OUT));
        }
    }

    /// A moment of the request.
    fn stamp(&mut self, mark: Mark, at: impl FnOnce() -> Timestamp) {
        if let Some(stamps) = &mut self.stamps {
            stamps.set(mark, at());
        }
    }

    /// The time stamps that it has kept.
    pub fn into_stamps(self) -> Vec<Stamps> {
        self.stamps
            .map_or_else(Vec::new, |stamps| stamps.into_all())
    }

    /// Serves one request ahead of the run, so that no measured one pays for first uses.
    pub fn warm_up(&mut self) -> Result<()> {
        let now = self.now();
        let prepare = self.spec.prepare_us.sample(self.seed, 0, Duration::ZERO);
        client::request(prepare, self, now)?;
        self.over()
    }

    /// Sleeps until `start` and serves from then on for `duration`.
    pub fn serve(
        &mut self,
        (schedule, requests): (Schedule, Requests),
        start: Timestamp,
        duration: Duration,
    ) -> Result<Requests> {
        let (spec, seed) = (self.spec, self.seed);
        self.start = start;
        if let Some(stamps) = &mut self.stamps {
            stamps.clear();
        }
        sleep_until(start)?;
        client::serve(spec, schedule, seed, self, duration, requests)
    }

    fn wait(&self, context: &Context, seq: u64) -> Result<()> {
        let until = Timestamp::now() + STUCK;
        loop {
            match context.wait(self.channel, seq, until) {
                Ok(_) => return Ok(()),
                Err(error) if error.errno() == Some(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Triggers the request, if that is this client's to do until `time`, when it is time.
    fn trigger_until(&mut self, time: Timestamp) -> Result<()> {
        let Some(stream) = &mut self.stream else {
            return Ok(());
        };
        match stream.trigger_at() {
            Some(at) if at <= time => {
                sleep_until(at)?;
                stream.trigger()?;
                Ok(self.gpu.compute.doorbell()?)
            }
            _ => Ok(()),
        }
    }

    /// Puts the inference of this request into the stream, where it waits for its data: beside the
    /// preparation, as by another thread of a runtime.
    fn launch(&mut self, holder: Option<[Item; HEAD - 1]>) -> Result<()> {
        let number = self.request.get();
        let holder = holder.map(|holder| match (holder, &self.stamps) {
            ([wait, taken, held, hold], Some(_)) => [
                wait.notify().tag(tag::TRIGGER),
                taken.notify().tag(tag::TAKEN),
                held,
                hold,
            ],
            (holder, None) => holder,
        });
        let data = Item::wait(self.data_word(), Condition::AtLeast, number).rung();
        let first = match holder {
            Some(holder) => {
                self.inference[..HEAD - 1].copy_from_slice(&holder);
                0
            }
            None => HEAD - 1,
        };
        self.inference[HEAD - 1] = data;
        for items in self.inference[first..].chunks(SUBMIT) {
            self.last_item = self.gpu.compute.submit(self.channel, items)?.last_seq;
        }
        Ok(())
    }

    fn data_word(&self) -> u32 {
        self.channel * WORDS + DATA
    }
}

impl Machine for Device<'_> {
    fn now(&mut self) -> Duration {
        Timestamp::now().since(self.start)
    }

    fn sleep_until(&mut self, time: Duration) -> Result<()> {
        sleep_until(self.start + time)
    }

    fn expect(&mut self, next: &Next) -> Result<bool> {
        (self.traced, self.tick) = (next.traced, next.tick);
        self.features = hint::features(self.spec, self.seed, next);
        if !self.spec.varies() {
            return Ok(self.features.is_some());
        }
        let size = next.traced.size;
        let pieces = self.spec.pieces(&next.draw(self.seed));
        self.inference.truncate(HEAD);
        self.inference.extend(items(&pieces));
        self.copying = self.spec.copy_in(size);
        self.copy_in = [Item::work(self.copying)];
        self.copy_out = [Item::work(self.spec.copy_out(size))];
        self.kernels = pieces.iter().map(|piece| piece.time).sum();
        self.copying_out = self.spec.copy_out(size);
        self.report();
        Ok(true)
    }

    fn begin(&mut self, start: Duration) -> Result<Duration> {
        let late = start.saturating_sub(self.tick);
        let started = self.start + start;
        if let Some(stamps) = &mut self.stamps {
            stamps.begin([self.copying, self.kernels, self.copying_out]);
            for mark in [Mark::Start, Mark::Begun, Mark::Due, Mark::Woken] {
                stamps.set(mark, started);
            }
        }
        let Some(stream) = &mut self.stream else {
            self.request = self.request.next();
            self.launch(None)?;
            return Ok(start);
        };
        let (request, holder) = stream.begin(&self.traced, late, self.features)?;
        let told = stream.told();
        // The time of the hint comes on top of the preparation.
        let begun = self.now();
        if let (Some(stamps), Some(told)) = (&mut self.stamps, told) {
            for mark in [Mark::Begun, Mark::Due, Mark::Woken] {
                stamps.set(mark, self.start + begun);
            }
            stamps.set(Mark::TriggerDue, told.trigger_at);
            if let Some(predicted) = told.predicted {
                stamps.set(Mark::Expected, started + predicted);
            }
        }
        self.request = request;
        self.launch(Some(holder))?;
        self.trigger_until(Timestamp::now())?;
        Ok(begun)
    }

    fn prepare(&mut self, until: Duration) -> Result<()> {
        let until = self.start + until;
        match self.spin {
            Some(spin) => spin.run(until.since(Timestamp::now())),
            None => {
                self.trigger_until(until)?;
                sleep_until(until)?;
            }
        }
        self.stamp(Mark::Due, || until);
        self.stamp(Mark::Woken, Timestamp::now);
        Ok(())
    }

    fn copy_in(&mut self) -> Result<()> {
        let submission = self.gpu.copy.submit(self.channel, &self.copy_in)?;
        self.stamp(Mark::CopyQueued, || submission.at);
        self.trigger_until(submission.at + self.copying)?;
        self.wait(&self.gpu.copy, submission.last_seq)?;
        self.stamp(Mark::CopySeen, Timestamp::now);
        Ok(())
    }

    fn infer(&mut self) -> Result<()> {
        self.gpu.words.store(self.data_word(), self.request.get());
        if let Some(stream) = &mut self.stream {
            stream.ready()?;
        }
        self.stamp(Mark::Ready, Timestamp::now);
        // A GPU sees a store by itself; this one looks now and then unless it is told.
        self.gpu.compute.doorbell()?;
        self.wait(&self.gpu.compute, self.last_item)?;
        self.stamp(Mark::ResultSeen, Timestamp::now);
        Ok(())
    }

    fn copy_out(&mut self) -> Result<()> {
        let submission = self.gpu.copy.submit(self.channel, &self.copy_out)?;
        self.stamp(Mark::OutQueued, || submission.at);
        self.wait(&self.gpu.copy, submission.last_seq)?;
        self.stamp(Mark::End, Timestamp::now);
        Ok(())
    }

    fn over(&mut self) -> Result<()> {
        if let Some(stream) = &self.stream {
            stream.done()?;
        } else if self.stamps.is_none() {
            return Ok(());
        }
        let reports = self.gpu.collect()?;
        if let Some(stamps) = &mut self.stamps {
            stamps.end(&reports);
        }
        Ok(())
    }
}

/// Sleeps until `time`, through any signals.
pub fn sleep_until(time: Timestamp) -> Result<()> {
    loop {
        match clock_nanosleep_absolute(ClockId::Monotonic, &time.timespec()) {
            Ok(()) => return Ok(()),
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno).context("cannot sleep"),
        }
    }
}

/// Runs the client process of `order`, talking over standard input and output.
pub fn run(order: &Order) -> Result<()> {
    let first = order.clients.first().context("the order names no client")?;
    let label = first.spec.network.name();
    if first.spec.role == Role::Lc {
        // The GPU's worker in the kernel runs beside a client where there are several CPUs; under
        // icount there is one, and it must not run instead of a latency-critical client.
        if let Err(error) = sys::run_in_real_time() {
            eprintln!("zernel-load: no real-time priority for the LC client: {error}");
        }
    }
    if order.cuda {
        return cuda::run(order);
    }
    let channels = order.clients.len() as u32;
    let gpu = Gpu::open(label, channels, order.class, order.weight, order.hint)?;
    let mut devices: Vec<Device<'_>> = (0..)
        .zip(&order.clients)
        .map(|(channel, client)| Device::new(&gpu, channel, &client.spec, client.seed))
        .collect();
    if let ([device], true) = (devices.as_mut_slice(), order.breakdown) {
        device.keep_stamps();
    }
    if order.compute {
        let spin = Spin::measured();
        devices.iter_mut().for_each(|device| device.compute(spin));
    }
    for device in &mut devices {
        device.warm_up()?;
    }
    // Writing to the memory makes the kernel give it now, as for the requests.
    let mut each = vec![1; EACH];
    each.clear();
    *gpu.held.lock().unwrap_or_else(PoisonError::into_inner) = (Held::default(), each);
    let used = |hints: &Hints| hints.used();
    let before = gpu.hints.as_ref().map(used).transpose()?;
    let duration = Duration::from_nanos(order.duration_ns);
    let ahead = order.clients.iter().map(|client| client.ahead(duration));
    let mut ahead = ahead.collect::<Result<Vec<_>>>()?;
    say(&Ready {
        tsg: gpu.compute.tsg(),
    })?;

    let start = hear_start()?;
    let requests = match (devices.as_mut_slice(), ahead.len()) {
        ([device], 1) => vec![device.serve(ahead.remove(0), start, duration)?],
        (devices, _) => thread::scope(|scope| {
            let threads: Vec<_> = devices
                .iter_mut()
                .zip(ahead)
                .map(|(device, ahead)| scope.spawn(move || device.serve(ahead, start, duration)))
                .collect();
            threads
                .into_iter()
                .map(|thread| {
                    thread
                        .join()
                        .map_err(|_| anyhow!("a client has panicked"))?
                })
                .collect::<Result<Vec<_>>>()
        })?,
    };
    sleep_until(start + duration + SETTLE)?;
    let after = gpu.hints.as_ref().map(used).transpose()?;
    let held = gpu.held.lock().unwrap_or_else(PoisonError::into_inner);
    let (held, each) = (held.0, held.1.clone());
    let stamps = devices.into_iter().flat_map(Device::into_stamps).collect();
    say(&Report {
        timeslice_us: gpu.compute.stats()?.timeslice_us,
        requests,
        held_ns: held.ns,
        held_each_ns: each,
        holds_expired: held.expired,
        hints: before
            .zip(after)
            .map(|(before, after)| after.since(&before)),
        stamps,
    })
}

/// The time at which all clients start.
pub fn hear_start() -> Result<Timestamp> {
    let mut line = String::new();
    io::stdin().lock().read_line(&mut line)?;
    let start = line.trim().parse().context("the start time is missing")?;
    Ok(Timestamp::from_ns(start))
}

/// Tells the one that started this process.
pub fn say(what: &impl Serialize) -> Result<()> {
    let mut line = serde_json::to_vec(what)?;
    line.push(b'\n');
    let mut out = io::stdout().lock();
    out.write_all(&line)?;
    Ok(out.flush()?)
}
