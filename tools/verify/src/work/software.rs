// SPDX-License-Identifier: MIT OR Apache-2.0
//! Work on the software GPU, be it one of zernel or of NVIDIA's driver on simrm.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::time::Duration;

use anyhow::{ensure, Context as _, Result};
use libzernel::request::{Number, Slot, Slots, Word};
use libzernel::sim::{
    self, Activity, Completion, Condition, ContextSpec, Item, Record, Sim, Trace,
};
use libzernel::{gpu, tsg, Gpu, Target, Timestamp, Zernel};
use nvrm::{Handle, Program, Status};

use super::{not_here, Answer, Clocks, Context, Ran, Ticket, Work, HOLDER_BOUND};
use crate::runs::{Run, Runs};

/// Longest work item: several of them are work without end for a check.
const LONG: Duration = Duration::from_secs(60);
/// So many are queued.
const MANY: usize = 16;
/// Shortest kernel: the part of a holder that runs before it stores its word.
const LEAST: Duration = Duration::from_micros(1);
/// Share of the GPU that a holder uses.
const HOLDER_PERMILLE: u32 = 10;
/// Records of a trace that are kept until they are read.
const TRACE: u32 = 1 << 18;
/// Completions that are taken at a time.
const COMPLETIONS: usize = 64;
/// Channel for all work.
const CHANNEL: u32 = 0;

/// The software GPU.
pub struct Software {
    shared: Rc<Shared>,
}

struct Shared {
    sim: Sim,
    zernel: Zernel,
    gpu: gpu::Id,
    number: u32,
    program: Program,
    trace: RefCell<Option<Trace>>,
    /// Records of the trace that were read.
    records: RefCell<Vec<Record>>,
    /// The TSG of each handle.
    tsgs: RefCell<HashMap<u64, tsg::Id>>,
    /// Items that are over, by their tags.
    over: RefCell<HashMap<u64, Completion>>,
    tag: Cell<u64>,
    /// Doorbells are lost.
    deaf: Cell<bool>,
}

impl Software {
    /// True if this GPU of NVIDIA's driver is a software GPU.
    pub fn is_at(gpu: &Gpu) -> bool {
        let sim = Sim::open();
        sim.is_ok_and(|sim| sim.version().is_ok_and(|v| v.attach) && find(&sim, gpu).is_ok())
    }

    /// That GPU of zernel, if it is one.
    pub fn open(zernel: Zernel, gpu: &Gpu) -> Result<Self> {
        let sim = Sim::open()?;
        let (number, program) = find(&sim, gpu)?;
        let shared = Shared {
            sim,
            zernel,
            gpu: gpu.id,
            number,
            program,
            trace: RefCell::default(),
            records: RefCell::default(),
            tsgs: RefCell::default(),
            over: RefCell::default(),
            tag: Cell::new(0),
            deaf: Cell::new(false),
        };
        Ok(Self {
            shared: Rc::new(shared),
        })
    }
}

impl Software {
    /// From now on the GPU hears of no item that comes while its TSG is disabled, for tests.
    pub fn lose_doorbells(&self) {
        self.shared.deaf.set(true);
    }
}

/// The number of zernel's GPU among the software GPUs, and a program on it.
fn find(sim: &Sim, gpu: &Gpu) -> Result<(u32, Program)> {
    let version = sim.version()?;
    for number in 0..version.gpus {
        if !version.attach {
            if gpu.bus == format!("sim:{number}") {
                return Ok((number, Program::open(sim, number)?));
            }
            continue;
        }
        let Ok(program) = Program::open(sim, number) else {
            // The driver has fewer than the module that simulates them.
            break;
        };
        if program.client().is_some_and(|c| c.bus() == gpu.bus) {
            return Ok((number, program));
        }
    }
    not_here(format!(
        "{} is no software GPU: {} has none at {}",
        gpu.name,
        Sim::PATH,
        gpu.bus
    ))
}

impl Work for Software {
    fn name(&self) -> &'static str {
        match self.shared.program.client() {
            Some(_) => "simrm: NVIDIA's driver on a software resource manager",
            None => "the software GPU",
        }
    }

    fn is_hardware(&self) -> bool {
        false
    }

    fn context(&self, label: &str) -> Result<Box<dyn Context>> {
        Ok(Box::new(Plan::new(self.shared.clone(), label)?))
    }

    fn record(&self) -> Result<()> {
        let mut trace = self.shared.trace.borrow_mut();
        // The GPU has one trace at a time.
        *trace = None;
        self.shared.records.borrow_mut().clear();
        *trace = Some(self.shared.sim.trace(self.shared.number, TRACE)?);
        Ok(())
    }

    fn runs(&self) -> Result<Runs> {
        let trace = self.shared.trace.borrow();
        let trace = trace.as_ref().context("runs are not recorded")?;
        let (more, dropped) = trace.read()?;
        ensure!(dropped == 0, "{dropped} records of runs were lost");
        let mut records = self.shared.records.borrow_mut();
        records.extend(
            more.into_iter()
                .filter(|record| record.engine == sim::COMPUTE_ENGINE),
        );
        let tsgs = self.shared.tsgs.borrow();
        let run = |record: &Record| {
            let run = Run {
                tsg: *tsgs.get(&record.tsg)?,
                from: record.start_ns,
                until: record.end_ns,
            };
            (record.activity == Activity::Run).then_some(run)
        };
        let mut runs: Vec<_> = records.iter().filter_map(run).collect();
        // A run that goes on is not recorded yet: it has begun where the records end.
        if let Some(last) = records.last() {
            for (&handle, &tsg) in &*tsgs {
                let stats = self.shared.sim.tsg_stats(handle);
                if let Some(stats) = stats.ok().filter(|stats| stats.on_engine) {
                    runs.push(Run {
                        tsg,
                        from: last.end_ns,
                        until: stats.now_ns,
                    });
                }
            }
        }
        Ok(Runs::new(runs))
    }

    fn clocks(&self) -> Result<Clocks> {
        let before = Timestamp::now();
        let stats = self
            .shared
            .sim
            .engine_stats(self.shared.number, sim::COMPUTE_ENGINE)?;
        let error = Timestamp::now().since(before) / 2;
        Ok(Clocks {
            gpu_ns: stats.now_ns.as_ns(),
            cpu: before + error,
            error,
        })
    }

    fn call_driver(&self) -> Result<()> {
        let Some(client) = self.shared.program.client() else {
            return not_here("the software GPU has no driver with a lock");
        };
        let tsg = client.compute().context("make a TSG")?;
        let slice = client.timeslice(tsg).context("ask for a time slice");
        client.free(tsg).context("free a TSG")?;
        slice.map(drop)
    }
}

/// A context of the software GPU.
struct Plan {
    shared: Rc<Shared>,
    context: sim::Context,
    /// The driver's TSG.
    object: Option<Handle>,
    tsgs: [tsg::Id; 1],
}

impl Plan {
    fn new(shared: Rc<Shared>, label: &str) -> Result<Self> {
        let mine = Target::current_process();
        let known = || shared.zernel.tsgs_of(&mine).collect::<Result<Vec<_>, _>>();
        let last = known()?.last().map(|tsg| tsg.id);
        let spec = ContextSpec {
            gpu: shared.number,
            ..ContextSpec::compute(label)
        };
        let (context, object) = shared.program.context_with_tsg(&spec)?;
        let gpu = shared.gpu;
        let is_new = |tsg: &libzernel::Tsg| tsg.gpu == gpu && tsg.compute && Some(tsg.id) > last;
        let id = known()?.into_iter().rfind(is_new);
        let id = id
            .context("zernel does not list the TSG of a new context")?
            .id;
        shared.tsgs.borrow_mut().insert(context.tsg(), id);
        Ok(Self {
            shared,
            context,
            object,
            tsgs: [id],
        })
    }

    fn tag(&self) -> u64 {
        self.shared.tag.set(self.shared.tag.get() + 1);
        self.shared.tag.get()
    }
}

impl Drop for Plan {
    fn drop(&mut self) {
        self.shared.tsgs.borrow_mut().remove(&self.context.tsg());
        // The client would keep it until its own end. What is gone already needs no more.
        if let (Some(client), Some(object)) = (self.shared.program.client(), self.object) {
            let _ = client.free(object);
        }
    }
}

impl Context for Plan {
    fn tsgs(&self) -> &[tsg::Id] {
        &self.tsgs
    }

    fn spin(&self) -> Result<()> {
        self.context.submit(CHANNEL, &[Item::work(LONG); MANY])?;
        Ok(())
    }

    fn progress(&self) -> Result<u64> {
        Ok(self.context.stats()?.busy_ns)
    }

    fn item(&self, length: Duration) -> Result<Ticket> {
        let tag = self.tag();
        if self.shared.deaf.get() {
            self.context.lose_doorbell(CHANNEL)?;
        }
        let item = Item::work(length).notify().tag(tag);
        self.context.submit(CHANNEL, &[item])?;
        Ok(Ticket(tag))
    }

    fn use_slots(&mut self, slots: &Slots) -> Result<()> {
        Ok(self.context.add_memory(slots.memory())?)
    }

    fn hold(&self, slot: &Slot<'_>, request: Number) -> Result<Ticket> {
        let (number, tag) = (request.get(), self.tag());
        let word = |word| slot.word(word);
        let items = [
            Item::wait(word(Word::Trigger), Condition::AtLeast, number),
            Item::work(LEAST).demand_permille(HOLDER_PERMILLE),
            Item::release(word(Word::Held), number),
            Item::hold(
                word(Word::Release),
                Condition::AtLeast,
                number,
                HOLDER_BOUND,
            )
            .demand_permille(HOLDER_PERMILLE)
            .notify()
            .tag(tag),
        ];
        self.context.submit(CHANNEL, &items)?;
        Ok(Ticket(tag))
    }

    fn stored(&self) -> Result<()> {
        Ok(self.context.doorbell()?)
    }

    fn ran(&self, ticket: Ticket) -> Result<Option<Ran>> {
        let mut over = self.shared.over.borrow_mut();
        loop {
            let (taken, dropped) = self.shared.sim.completions(COMPLETIONS)?;
            ensure!(dropped == 0, "{dropped} ends of items were lost");
            let count = taken.len();
            over.extend(taken.into_iter().map(|done| (done.tag, done)));
            if count < COMPLETIONS {
                break;
            }
        }
        Ok(over.remove(&ticket.0).map(|done| Ran {
            submitted: done.queued,
            started: done.start,
            ended: done.end,
        }))
    }

    fn ask_slice(&self, us: u32) -> Result<Answer> {
        let (Some(client), Some(object)) = (self.shared.program.client(), self.object) else {
            return match self.context.set_timeslice(us) {
                Ok(()) => Ok(Answer::Done),
                Err(error) if error.cause() == libzernel::Cause::NotPermitted => {
                    Ok(Answer::Refused)
                }
                Err(error) => Err(error.into()),
            };
        };
        match client.set_timeslice(object, us.into()) {
            Ok(()) => Ok(Answer::Done),
            Err(nvrm::Error::Status(Status::INSUFFICIENT_PERMISSIONS)) => Ok(Answer::Refused),
            Err(error) => Err(error).context("set a time slice"),
        }
    }

    fn slice_us(&self) -> Result<u64> {
        match (self.shared.program.client(), self.object) {
            (Some(client), Some(object)) => {
                client.timeslice(object).context("ask for a time slice")
            }
            _ => Ok(self.context.stats()?.timeslice_us.into()),
        }
    }
}
