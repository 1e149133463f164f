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
use zernel_runtime::{Mode, Options, Request, Runtime, Spec};
use zernel_workload::{ClientSpec, Draw, Next, Piece, Traced};

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

/// A kernel of an inference.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Launch {
    grid: Grid,
    ns: u64,
}

/// The kernels of a request on a device with so many multiprocessors.
fn launches(pieces: &[Piece], sms: u32) -> Vec<Launch> {
    let each = pieces.iter().map(|piece| {
        let launch = Launch {
            grid: Grid {
                blocks: (sms * BLOCKS_PER_SM * piece.share_permille / 1000).max(1),
                threads: THREADS,
            },
            ns: (piece.time / piece.count).as_nanos() as u64,
        };
        std::iter::repeat_n(launch, piece.count as usize)
    });
    each.flatten().collect()
}

/// Checks that a program of CUDA can make the requests of a client.
///
/// # Errors
///
/// Its kernels lose the GPU at the end of blocks only, which none here can be told.
pub fn check(spec: &ClientSpec) -> Result<()> {
    let has_blocks = |piece: &Piece| piece.block.is_some();
    ensure!(
        !spec.pieces(&Draw::default()).iter().any(has_blocks),
        "{} has kernels with the granularity block, which programs of CUDA cannot have here; leave \
         --runtime out",
        spec.network.name()
    );
    Ok(())
}

/// A client. Its fields end before its context.
struct Program {
    request: Option<Request>,
    begin: Begin,
    kernel: Function,
    kernels: Vec<Launch>,
    /// Multiprocessors of the device.
    sms: u32,
    spec: ClientSpec,
    seed: u64,
    /// The next request as a trace tells of it, and its arrival.
    traced: Traced,
    tick: Duration,
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
    fn new(spec: &ClientSpec, seed: u64, asks: bool) -> Result<Self> {
        check(spec)?;
        let driver = Driver::open(Path::new(cuda::LIBRARY))?;
        let device = driver.devices()?.next().context("CUDA has no device")?;
        let own = driver.create_context(device)?;
        let module = driver.load(own.context(), KERNELS)?;
        let sms = driver.attribute(device, Attribute::Multiprocessors)? as u32;
        let begin = match asks {
            false => Begin::Alone(Calls::new(&driver, own.context(), &module)?),
            true => Begin::Asking(Runtime::attach(&Options::default().mode(Mode::Require))?),
        };
        Ok(Self {
            request: None,
            begin,
            kernel: sys::spin(&module, c"zernel_spin")?,
            kernels: launches(&spec.pieces(&Draw::default()), sms),
            sms,
            spec: spec.clone(),
            seed,
            traced: Traced::default(),
            tick: Duration::ZERO,
            copies: Copies::new(COPY)?,
            copy_in: spec.copy_in(0),
            copy_out: spec.copy_out(0),
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

    fn expect(&mut self, next: &Next) -> Result<bool> {
        (self.traced, self.tick) = (next.traced, next.tick);
        if !self.spec.varies() {
            return Ok(false);
        }
        let size = next.traced.size;
        let pieces = self.spec.pieces(&next.draw(self.seed));
        self.kernels = launches(&pieces, self.sms);
        self.copy_in = self.spec.copy_in(size);
        self.copy_out = self.spec.copy_out(size);
        Ok(true)
    }

    fn begin(&mut self, start: Duration) -> Result<Duration> {
        match &mut self.begin {
            Begin::Alone(calls) => {
                calls.make(&self.driver, self.own.context(), self.lane.stream())?;
            }
            Begin::Asking(runtime) => {
                let late = start.saturating_sub(self.tick);
                let request = runtime.begin(&told(&self.traced, late))?;
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
        for (number, kernel) in self.kernels.iter().enumerate() {
            sys::launch(&self.kernel, kernel.grid, self.stream.stream(), kernel.ns)?;
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

/// A request that arrived `late` ago, with what a trace tells of it.
fn told(traced: &Traced, late: Duration) -> Spec {
    let spec = Spec::new().key(traced.key.unwrap_or(0));
    match traced.left(late, hint::SHORTEST_SLO) {
        Some(left) => spec.slo(left),
        None => spec,
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
    let mut program = Program::new(spec, client.seed, asks)?;
    // No measured request pays for first uses.
    let now = program.now();
    let prepare = spec.prepare_us.sample(client.seed, 0, Duration::ZERO);
    client::request(prepare, &mut program, now)?;
    program.over()?;
    let before = program.used()?;
    let tsg = compute()?.tsg;
    let duration = Duration::from_nanos(order.duration_ns);
    let (schedule, requests) = client.ahead(duration)?;
    say(&Ready { tsg })?;

    let start = hear_start()?;
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
        stamps: Vec::new(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use zernel_workload::Workload;

    fn client(kernels: &str) -> ClientSpec {
        let text = format!(
            "
            name: mine
            seconds: 1
            clients:
              - {{role: lc, network: {{name: mine, kernels: {kernels}}}, arrival: closed}}
            "
        );
        Workload::from_yaml(&text).unwrap().clients[0].clone()
    }

    #[test]
    fn kernels_of_a_list_have_their_times_and_shares() {
        let spec = client("[{us: 9, times: 2, share_permille: 500}, {us: 4, share_permille: 1}]");
        check(&spec).unwrap();
        let launch = |blocks, ns| Launch {
            grid: Grid {
                blocks,
                threads: THREADS,
            },
            ns,
        };
        let expected = [launch(10, 9_000), launch(10, 9_000), launch(1, 4_000)];
        assert_eq!(launches(&spec.pieces(&Draw::default()), 10), expected);
    }

    #[test]
    fn blocks_are_refused_by_name() {
        let error = check(&client("[{us: 9}, {us: 9, granularity: {block: 2}}]")).unwrap_err();
        let error = error.to_string();
        assert!(
            error.contains("mine has kernels with the granularity block"),
            "{error}"
        );
    }
}
