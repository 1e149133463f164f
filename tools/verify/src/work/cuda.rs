// SPDX-License-Identifier: MIT OR Apache-2.0
//! Work by CUDA's driver API.
//!
//! Kernels write times of the GPU's clock to memory of the host. A spinning kernel also answers
//! questions for its time, which tell the offset of that clock from the kernel's.

mod context;
mod device;
mod page;

use std::cell::{Cell, RefCell};
use std::path::Path;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{bail, Result};
use cuda::{Attribute, Device, Driver, LIBRARY};
use libzernel::{gpu, Gpu, Timestamp, Zernel};

use self::context::{Plan, Spinner};
use super::{not_here, Clocks, Context, Work};
use crate::runs::{Run, Runs};

/// Generation of the first GPU that the open driver knows: Turing is a later one of it.
const VOLTA: i32 = 7;

/// CUDA on one GPU.
pub struct Cuda {
    shared: Rc<Shared>,
    /// Answers questions for the time while nobody else spins.
    clock: RefCell<Option<Plan>>,
}

struct Shared {
    driver: Arc<Driver>,
    zernel: Zernel,
    gpu: gpu::Id,
    device: Device,
    /// Blocks of a spinning kernel: one for each multiprocessor.
    blocks: u32,
    spinners: RefCell<Vec<Weak<Spinner>>>,
    /// The last look at both clocks.
    clocks: Cell<Option<Clocks>>,
}

impl Cuda {
    /// That GPU of zernel.
    ///
    /// Errors: [`NotHere`](super::NotHere) without CUDA, or for a GPU that it cannot use so.
    pub fn open(zernel: Zernel, gpu: &Gpu) -> Result<Self> {
        if cfg!(target_feature = "crt-static") {
            return not_here(
                "this zernelctl is linked statically and cannot load CUDA: build it with \
                 scripts/tools --shared zernelctl",
            );
        }
        let driver = match Driver::open(Path::new(LIBRARY)) {
            Err(cuda::Error::NotHere(why)) => return not_here(why),
            other => other?,
        };
        let device = driver.device(&gpu.bus)?;
        let attribute = |attribute| driver.attribute(device, attribute);
        if attribute(Attribute::Major)? < VOLTA {
            return not_here(format!(
                "{} is older than the kernels of the checks",
                gpu.name
            ));
        }
        let blocks = attribute(Attribute::Multiprocessors)?.unsigned_abs().max(1);
        let shared = Shared {
            driver,
            zernel,
            gpu: gpu.id,
            device,
            blocks,
            spinners: RefCell::default(),
            clocks: Cell::default(),
        };
        let cuda = Self {
            shared: Rc::new(shared),
            clock: RefCell::default(),
        };
        let plan = Plan::new(cuda.shared.clone())?;
        *cuda.clock.borrow_mut() = Some(plan);
        cuda.clocks()?;
        Ok(cuda)
    }
}

impl Shared {
    /// Contexts whose kernels spin.
    fn spinners(&self) -> Vec<Rc<Spinner>> {
        let mut known = self.spinners.borrow_mut();
        known.retain(|spinner| spinner.strong_count() > 0);
        let there = known.iter().filter_map(Weak::upgrade);
        there.filter(|spinner| spinner.spins()).collect()
    }

    /// Asks the spinning kernels for the time, until one answers; the best answer of some.
    fn ask(&self, patience: Duration) -> Option<Clocks> {
        const QUESTIONS: usize = 16;
        let spinners = self.spinners();
        let answers = (0..QUESTIONS).map_while(|_| ask_once(&spinners, patience));
        let best = answers.min_by_key(|clocks| clocks.error);
        if best.is_some() {
            self.clocks.set(best);
        }
        best
    }

    /// `CLOCK_MONOTONIC` at a time of the GPU.
    fn timestamp(&self, gpu_ns: u64) -> Timestamp {
        let Some(clocks) = self.clocks.get() else {
            return Timestamp::from_ns(gpu_ns);
        };
        let ns = i128::from(gpu_ns) - i128::from(clocks.gpu_ns) + i128::from(clocks.cpu.as_ns());
        Timestamp::from_ns(u64::try_from(ns).unwrap_or_default())
    }
}

/// Asks all of them at once, because one of them has the GPU.
fn ask_once(spinners: &[Rc<Spinner>], patience: Duration) -> Option<Clocks> {
    if spinners.is_empty() {
        return None;
    }
    let before = Timestamp::now();
    let asked: Vec<_> = spinners.iter().map(|s| s.page().ask()).collect();
    loop {
        for (spinner, question) in spinners.iter().zip(&asked) {
            if let Some(gpu_ns) = spinner.page().answer(*question) {
                let error = Timestamp::now().since(before) / 2;
                return Some(Clocks {
                    gpu_ns,
                    cpu: before + error,
                    error,
                });
            }
        }
        if Timestamp::now().since(before) > patience {
            return None;
        }
        std::hint::spin_loop();
    }
}

impl Work for Cuda {
    fn name(&self) -> &'static str {
        "CUDA"
    }

    fn is_hardware(&self) -> bool {
        true
    }

    fn context(&self, _label: &str) -> Result<Box<dyn Context>> {
        Ok(Box::new(Plan::new(self.shared.clone())?))
    }

    fn record(&self) -> Result<()> {
        // Clocks drift apart; who has the GPU answers soon.
        self.shared.ask(Duration::from_millis(20));
        for spinner in self.shared.spinners() {
            spinner.mark();
        }
        Ok(())
    }

    fn runs(&self) -> Result<Runs> {
        let mut runs = Vec::new();
        for spinner in self.shared.spinners() {
            for (from, until) in spinner.runs()? {
                runs.push(Run {
                    tsg: spinner.tsg(),
                    from: self.shared.timestamp(from),
                    until: self.shared.timestamp(until),
                });
            }
        }
        Ok(Runs::new(runs))
    }

    fn clocks(&self) -> Result<Clocks> {
        const PATIENCE: Duration = Duration::from_secs(2);
        if let Some(clocks) = self.shared.ask(PATIENCE) {
            return Ok(clocks);
        }
        let clock = self.clock.borrow();
        let Some(clock) = clock.as_ref() else {
            bail!("no context for the clock");
        };
        clock.spin()?;
        let answer = self.shared.ask(PATIENCE);
        clock.stop()?;
        match answer {
            Some(clocks) => Ok(clocks),
            None => bail!("no kernel answers"),
        }
    }

    fn call_driver(&self) -> Result<()> {
        match self.clock.borrow().as_ref() {
            Some(clock) => clock.ask_memory(),
            None => bail!("no context for a call"),
        }
    }
}
