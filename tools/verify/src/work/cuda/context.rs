// SPDX-License-Identifier: MIT OR Apache-2.0
//! A context of CUDA: its TSGs as zernel lists them, spinning work, items, holders.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::ffi::CStr;
use std::rc::Rc;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{bail, Context as _, Result};
use cuda::Grid;
use libzernel::request::{Number, Slot, Slots, Word};
use libzernel::sys::abi::ZERNEL_SIM_MEMORY_WORD;
use libzernel::sys::memory::SharedMemory;
use libzernel::{tsg, Target, Timestamp};
use rustix::fs::{ftruncate, memfd_create, MemfdFlags};

use super::device::{Gpu, Kernel, Stream};
use super::page::{self, Mark, Page};
use super::Shared;
use crate::work::{not_here, Answer, Context, Ran, Ticket, HOLDER_BOUND};

/// The kernels.
const KERNELS: &CStr =
    match CStr::from_bytes_with_nul(concat!(include_str!("kernels.ptx"), "\0").as_bytes()) {
        Ok(text) => text,
        Err(_) => panic!("the text of the kernels has a zero"),
    };

/// A spinning kernel ends by itself after so long: longer than any check.
const SPIN_BOUND: Duration = Duration::from_secs(150);

/// One thread.
const ONE: Grid = Grid {
    blocks: 1,
    threads: 1,
};

/// Threads of a block of a spinning kernel.
const SPIN_THREADS: u32 = 256;

/// A gap in a kernel's time: longer than a round of its loop, shorter than a context switch.
const GAP: Duration = Duration::from_micros(8);

/// Longest wait for the end of work that was told to end.
const END: Duration = Duration::from_secs(5);

/// The memory of a context, and the moment from which its runs are recorded.
pub struct Spinner {
    memory: SharedMemory,
    tsg: Cell<tsg::Id>,
    spins: Cell<bool>,
    mark: Cell<Mark>,
}

impl Spinner {
    /// Its words.
    pub fn page(&self) -> Page<'_> {
        Page(self.memory.long_words())
    }

    /// True if its kernel was told to spin, and not to stop.
    pub fn spins(&self) -> bool {
        self.spins.get()
    }

    /// Its TSG.
    pub fn tsg(&self) -> tsg::Id {
        self.tsg.get()
    }

    /// Runs are recorded from now on.
    pub fn mark(&self) {
        self.mark.set(self.page().mark());
    }

    /// Its runs since then, by the GPU's clock.
    pub fn runs(&self) -> Result<Vec<(u64, u64)>> {
        self.page().runs_since(self.mark.get())
    }
}

/// A context. The GPU's side is dropped first, as it uses the memory.
pub struct Plan {
    gpu: Gpu,
    spinner: Rc<Spinner>,
    shared: Rc<Shared>,
    /// Address of the memory as the GPU sees it.
    base: u64,
    /// The same of slots.
    slots: Option<u64>,
    tsgs: Vec<tsg::Id>,
    items: Cell<u64>,
    /// When each item that is not known to be over was submitted.
    submitted: RefCell<HashMap<u64, Timestamp>>,
}

impl Plan {
    /// A new one.
    pub(super) fn new(shared: Rc<Shared>) -> Result<Self> {
        let file = memfd_create("zernel-verify", MemfdFlags::CLOEXEC)?;
        ftruncate(&file, page::BYTES.next_multiple_of(4096) as u64)?;
        let memory = SharedMemory::of_file(std::os::fd::AsFd::as_fd(&file), 0, page::BYTES)
            .context("cannot map memory")?;
        let last = newest(&shared)?;
        let mut gpu = Gpu::new(shared.driver.clone(), shared.device, KERNELS)?;
        let base = gpu.register(memory.address(), memory.length())?;
        let spinner = Spinner {
            memory,
            tsg: Cell::new(tsg::Id::new(0)),
            spins: Cell::default(),
            mark: Cell::default(),
        };
        let mut plan = Self {
            gpu,
            spinner: Rc::new(spinner),
            shared,
            base,
            slots: None,
            tsgs: Vec::new(),
            items: Cell::new(0),
            submitted: RefCell::default(),
        };
        // The runtime makes some of its objects for the first kernel.
        let first = plan.item(Duration::from_micros(1))?;
        plan.wait("the first item", || Ok(plan.ran(first)?.is_some()))?;
        plan.tsgs = plan.made_since(last)?;
        plan.spinner.tsg.set(plan.tsgs[0]);
        let mut known = plan.shared.spinners.borrow_mut();
        known.push(Rc::downgrade(&plan.spinner));
        drop(known);
        Ok(plan)
    }

    /// The compute TSGs of this process on the GPU that are newer than `last`.
    fn made_since(&self, last: Option<tsg::Id>) -> Result<Vec<tsg::Id>> {
        let mut found = Vec::new();
        self.wait("zernel lists the TSG of a new context", || {
            for tsg in self.shared.zernel.tsgs_of(&Target::current_process()) {
                let tsg = tsg?;
                if tsg.gpu == self.shared.gpu && tsg.compute && Some(tsg.id) > last {
                    found.push(tsg.id);
                }
            }
            Ok(!found.is_empty())
        })?;
        Ok(found)
    }

    fn wait(&self, what: &str, mut ask: impl FnMut() -> Result<bool>) -> Result<()> {
        let begin = Instant::now();
        while !ask()? {
            if begin.elapsed() > END {
                bail!("not within {END:?}: {what}");
            }
            sleep(Duration::from_micros(50));
        }
        Ok(())
    }

    /// Ends the spinning work.
    pub fn stop(&self) -> Result<()> {
        self.spinner.page().stop();
        self.spinner.spins.set(false);
        self.wait("the spinning kernel ends", || {
            self.gpu.is_idle(Stream::Spin)
        })
    }

    /// Makes a call of the driver.
    pub fn ask_memory(&self) -> Result<()> {
        self.gpu.ask_memory()
    }

    /// Room for an item that is submitted now: its number, and the address of its words.
    fn next_item(&self) -> (u64, u64) {
        let number = self.items.replace(self.items.get() + 1);
        let mut submitted = self.submitted.borrow_mut();
        submitted.insert(number, Timestamp::now());
        (number, self.base + self.spinner.page().new_item(number))
    }
}

/// The newest TSG of this process.
fn newest(shared: &Shared) -> Result<Option<tsg::Id>> {
    let mut newest = None;
    for tsg in shared.zernel.tsgs_of(&Target::current_process()) {
        newest = newest.max(Some(tsg?.id));
    }
    Ok(newest)
}

impl Drop for Plan {
    fn drop(&mut self) {
        // A context with work that does not end is destroyed when its bound is over.
        let _ = self.stop();
    }
}

/// Nanoseconds as kernels take them.
fn ns(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

impl Context for Plan {
    fn tsgs(&self) -> &[tsg::Id] {
        &self.tsgs
    }

    fn spin(&self) -> Result<()> {
        self.spinner.page().start();
        let arguments = [self.base, ns(GAP), ns(SPIN_BOUND)];
        let grid = Grid {
            blocks: self.shared.blocks,
            threads: SPIN_THREADS,
        };
        self.gpu
            .launch(Kernel::Spin, Stream::Spin, grid, arguments)?;
        self.spinner.spins.set(true);
        Ok(())
    }

    fn progress(&self) -> Result<u64> {
        Ok(self.spinner.page().time())
    }

    fn item(&self, length: Duration) -> Result<Ticket> {
        let (number, stamps) = self.next_item();
        let arguments = [stamps, ns(length)];
        self.gpu
            .launch(Kernel::Item, Stream::Items, ONE, arguments)?;
        Ok(Ticket(number))
    }

    fn use_slots(&mut self, slots: &Slots) -> Result<()> {
        let memory = slots.memory();
        self.slots = Some(self.gpu.register(memory.address(), memory.length())?);
        Ok(())
    }

    fn hold(&self, slot: &Slot<'_>, request: Number) -> Result<Ticket> {
        let base = self.slots.context("the context has no slots")?;
        let address = |word| base + 4 * u64::from(slot.word(word) - ZERNEL_SIM_MEMORY_WORD);
        let number = request.get();
        let (item, stamps) = self.next_item();
        self.gpu
            .wait_word(Stream::Items, address(Word::Trigger), number)?;
        let (held, release) = (address(Word::Held), address(Word::Release));
        let arguments = [stamps, held, release, number.into(), ns(HOLDER_BOUND)];
        self.gpu
            .launch(Kernel::Holder, Stream::Items, ONE, arguments)?;
        Ok(Ticket(item))
    }

    fn ran(&self, ticket: Ticket) -> Result<Option<Ran>> {
        let Some((begin, end)) = self.spinner.page().item(ticket.0) else {
            return Ok(None);
        };
        let submitted = self.submitted.borrow_mut().remove(&ticket.0);
        Ok(Some(Ran {
            submitted: submitted.context("an item that was told to be over before")?,
            started: self.shared.timestamp(begin),
            ended: self.shared.timestamp(end),
        }))
    }

    fn ask_slice(&self, _us: u32) -> Result<Answer> {
        not_here("CUDA has no call for the slice of a TSG")
    }

    fn slice_us(&self) -> Result<u64> {
        not_here("CUDA has no call for the slice of a TSG")
    }
}
