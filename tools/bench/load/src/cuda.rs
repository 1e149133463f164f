// SPDX-License-Identifier: MIT OR Apache-2.0
//! A client process that is a program of CUDA, and whose requests are those of the runtime.

use std::ffi::CStr;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{bail, ensure, Context as _, Result};
use cuda::{Attribute, Driver, Function, Grid, Module, Own, OwnStream, Registered, Stream};
use libzernel::sim::{OwnTsg, TsgStats};
use libzernel::sys::memory::SharedMemory;
use libzernel::{Timestamp, Zernel};
use zernel_report::outcome::HintUse;
use zernel_report::requests::Requests;
use zernel_runtime::{Mode, Options, Request, Runtime, Spec};
use zernel_workload::{ClientSpec, Schedule};

use crate::client::{self, Machine};
use crate::hint::{self, Hint};
use crate::sys::{self, Copies};
use crate::worker::{hear_start, say, sleep_until, take_class, Order, Ready, Report, SETTLE};

/// The kernel of an inference.
const KERNELS: &CStr = c"
.version 6.4
.target sm_70
.address_size 64
.visible .entry zernel_spin(.param .u64 ns) { ret; }
.visible .entry zernel_holder(.param .u64 held, .param .u64 release, .param .u32 number,
                              .param .u64 bound) { ret; }
";

/// Threads of a block: two of them fill a multiprocessor.
const THREADS: u32 = 1024;
const BLOCKS_PER_SM: u32 = 2;

/// Bytes of a copy. The CPU moves the bytes of the stand-in, and would take longer for those of a
/// network than a GPU does: the client sleeps for the rest of that time.
const COPY: usize = 4_096;

/// The calls of CUDA that requests make, without requests.
struct Calls {
    holder: Function,
    memory: Registered,
    page: SharedMemory,
    number: u32,
}

impl Calls {
    fn new(driver: &Arc<Driver>, context: cuda::Context, module: &Module) -> Result<Self> {
        let page = SharedMemory::anonymous()?;
        Ok(Self {
            holder: sys::holder(module, c"zernel_holder")?,
            memory: driver.register(context, page.address(), page.length())?,
            page,
            number: 0,
        })
    }

    /// Waits for a word and launches a holder that waits for one; both words are there.
    fn make(&mut self, driver: &Driver, context: cuda::Context, stream: Stream) -> Result<()> {
        self.number += 1;
        for word in &self.page.words()[..2] {
            word.store(self.number, Ordering::Release);
        }
        let [trigger, release, held] = [0, 4, 8].map(|offset| self.memory.base() + offset);
        let entered = driver.enter(context)?;
        entered.wait_word(stream, trigger, self.number)?;
        sys::hold(&self.holder, stream, held, release, self.number)
    }
}

/// The way in which a client begins.
enum Begin {
    /// With the same calls of CUDA as a request.
    Alone(Calls),
    /// With a request.
    Asking(Runtime),
}

/// A client. Its fields end before its context.
struct Program {
    request: Option<Request>,
    begin: Begin,
    kernel: Function,
    kernels: u32,
    grid: Grid,
    ns: u64,
    copies: Copies,
    copy_in: Duration,
    copy_out: Duration,
    /// The stream of its work, and that of a lane's calls without requests.
    stream: OwnStream,
    lane: OwnStream,
    own: Own,
    driver: Arc<Driver>,
    start: Timestamp,
}

impl Program {
    /// On the first device; `asks`: with requests.
    fn new(spec: &ClientSpec, asks: bool) -> Result<Self> {
        let driver = Driver::open(Path::new(cuda::LIBRARY))?;
        let device = driver.devices()?.next().context("CUDA has no device")?;
        let own = driver.create_context(device)?;
        let module = driver.load(own.context(), KERNELS)?;
        let sms = driver.attribute(device, Attribute::Multiprocessors)? as u32;
        let network = &spec.network;
        let begin = match asks {
            false => Begin::Alone(Calls::new(&driver, own.context(), &module)?),
            true => Begin::Asking(Runtime::attach(&Options::default().mode(Mode::Require))?),
        };
        Ok(Self {
            request: None,
            begin,
            kernel: sys::spin(&module, c"zernel_spin")?,
            kernels: network.kernels(),
            grid: Grid {
                blocks: sms * BLOCKS_PER_SM * network.demand_permille() / 1000,
                threads: THREADS,
            },
            ns: (network.service() / network.kernels()).as_nanos() as u64,
            copies: Copies::new(COPY)?,
            copy_in: spec.copy_in(),
            copy_out: spec.copy_out(),
            stream: driver.create_usual_stream(own.context())?,
            lane: driver.create_stream(own.context())?,
            own,
            driver,
            start: Timestamp::now(),
        })
    }

    fn stream(&self) -> Stream {
        self.stream.stream()
    }

    fn wait(&self) -> Result<()> {
        let entered = self.driver.enter(self.own.context())?;
        Ok(entered.wait_idle(self.stream())?)
    }

    fn used(&self) -> Result<Option<HintUse>> {
        let tsg = match &self.begin {
            Begin::Alone(_) => None,
            Begin::Asking(runtime) => runtime.tsg(),
        };
        tsg.map(|tsg| hint::used(&Zernel::open()?, tsg)).transpose()
    }
}

impl Machine for Program {
    fn now(&mut self) -> Duration {
        Timestamp::now().since(self.start)
    }

    fn sleep_until(&mut self, time: Duration) -> Result<()> {
        sleep_until(self.start + time)
    }

    fn begin(&mut self, start: Duration) -> Result<Duration> {
        match &mut self.begin {
            Begin::Alone(calls) => {
                calls.make(&self.driver, self.own.context(), self.lane.stream())?;
            }
            Begin::Asking(runtime) => {
                let request = runtime.begin(&Spec::new())?;
                ensure!(request.idle().is_none(), "no request: {:?}", request.idle());
                self.request = Some(request);
            }
        }
        // The time of the hint comes on top of the preparation.
        Ok(self.now().max(start))
    }

    fn prepare(&mut self, until: Duration) -> Result<()> {
        sleep_until(self.start + until)
    }

    fn copy_in(&mut self) -> Result<()> {
        let end = Timestamp::now() + self.copy_in;
        self.copies.copy_in(self.stream(), COPY)?;
        self.wait()?;
        sleep_until(end)
    }

    fn infer(&mut self) -> Result<()> {
        for number in 0..self.kernels {
            sys::launch(&self.kernel, self.grid, self.stream(), self.ns)?;
            // From here on the GPU has work of this program when the holder ends.
            if let Some(request) = self.request.as_mut().filter(|_| number == 0) {
                request.ready();
            }
        }
        self.wait()
    }

    fn copy_out(&mut self) -> Result<()> {
        let end = Timestamp::now() + self.copy_out;
        self.copies.copy_out(self.stream(), COPY)?;
        self.wait()?;
        sleep_until(end)
    }

    fn over(&mut self) -> Result<()> {
        if let Some(request) = self.request.take() {
            request.done();
        }
        Ok(())
    }
}

/// Statistics of the compute TSG of this process on the software GPU.
fn compute() -> Result<TsgStats> {
    let tsg = OwnTsg::for_compute()?.into_iter().next();
    let tsg = tsg.context("CUDA is not that of the software GPU: it has no context there")?;
    Ok(tsg.stats)
}

/// Runs the client of `order`, as [`crate::worker::run`] does.
pub fn run(order: &Order) -> Result<()> {
    let [client] = order.clients.as_slice() else {
        bail!("a program of CUDA is one client: use the deployment per-client");
    };
    let asks = match order.hint {
        None => false,
        Some(Hint::Request) => true,
        Some(Hint::Constant(_)) => bail!("the runtime has no constant hints"),
    };
    take_class(order.class, order.weight)?;
    let spec = &client.spec;
    let mut program = Program::new(spec, asks)?;
    // No measured request pays for first uses.
    let now = program.now();
    let prepare = spec.prepare_us.sample(client.seed, 0, Duration::ZERO);
    client::request(prepare, &mut program, now)?;
    program.over()?;
    let before = program.used()?;
    let tsg = compute()?.tsg;
    say(&Ready { tsg })?;

    let start = hear_start()?;
    let duration = Duration::from_nanos(order.duration_ns);
    let phase = Duration::from_nanos(client.phase_ns);
    let schedule = Schedule::new(spec.arrival, phase, client.seed);
    let requests = Requests::for_run(spec, duration);
    program.start = start;
    sleep_until(start)?;
    let served = client::serve(
        spec,
        schedule,
        client.seed,
        &mut program,
        duration,
        requests,
    )?;
    sleep_until(start + duration + SETTLE)?;
    if let Begin::Asking(runtime) = &program.begin {
        let failed = runtime.counters().failed_calls;
        ensure!(failed == 0, "{failed} calls of the runtime failed");
    }
    let uses = before.zip(program.used()?);
    say(&Report {
        timeslice_us: compute()?.timeslice_us,
        requests: vec![served],
        held_ns: 0,
        held_each_ns: Vec::new(),
        holds_expired: 0,
        hints: uses.map(|(before, after)| after.since(&before)),
    })
}
