// SPDX-License-Identifier: MIT OR Apache-2.0
//! The state of the library in a process: devices, contexts, and all that the program has handles of.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use libzernel::sim::{Condition, Sim};
use libzernel::Zernel;

use crate::context::{Context, Mark, Region};
use crate::module::{self, Kernel};
use crate::status::{Result, Status};

/// Version of the interface that it has.
pub(crate) const VERSION: i32 = 12_080;

/// Distance from an address of the host to that which the GPU sees, so that one is not taken for the
/// other.
const DEVICE: u64 = 1 << 52;

/// An event, and its last record.
#[derive(Debug)]
struct Event {
    context: u64,
    mark: Option<Mark>,
}

/// All that programs have handles of.
#[derive(Debug, Default)]
struct State {
    last: u64,
    contexts: BTreeMap<u64, Context>,
    /// The primary context of each device, and how often it is retained.
    primary: BTreeMap<u32, (u64, u32)>,
    /// The context of each stream.
    streams: BTreeMap<u64, u64>,
    events: BTreeMap<u64, Event>,
    /// The context of each module, and its kernels.
    modules: BTreeMap<u64, (u64, Vec<Kernel>)>,
    /// The module of each function.
    functions: BTreeMap<u64, (u64, Kernel)>,
    regions: Vec<Region>,
}

/// The library, initialised.
#[derive(Debug)]
pub(crate) struct Driver {
    sim: Sim,
    devices: u32,
    process: u32,
    state: Mutex<State>,
}

static DRIVER: OnceLock<Driver> = OnceLock::new();

thread_local! {
    /// The contexts of this thread; the last is current.
    static STACK: RefCell<Vec<u64>> = const { RefCell::new(Vec::new()) };
}

/// Initialises the library.
pub(crate) fn init() -> Result<()> {
    if DRIVER.get().is_none() {
        let sim = Sim::open().map_err(|_| Status::NoDevice)?;
        let version = sim.version().map_err(|_| Status::NoDevice)?;
        if version.attach {
            // The GPUs are those of another driver.
            return Err(Status::NoDevice);
        }
        let new = Driver {
            sim,
            devices: version.gpus,
            process: std::process::id(),
            state: Mutex::default(),
        };
        DRIVER.get_or_init(|| new);
    }
    driver().map(|_| ())
}

/// The library.
pub(crate) fn driver() -> Result<&'static Driver> {
    let driver = DRIVER.get().ok_or(Status::NotInitialized)?;
    match driver.process == std::process::id() {
        true => Ok(driver),
        false => Err(Status::NotInitialized),
    }
}

/// The handle of the context of this thread; 0: none.
pub(crate) fn current() -> u64 {
    STACK.with_borrow(|stack| stack.last().copied().unwrap_or(0))
}

impl State {
    fn handle(&mut self) -> u64 {
        const FIRST: u64 = 1 << 20;
        const STEP: u64 = 16;
        self.last = self.last.max(FIRST) + STEP;
        self.last
    }

    /// A context that works.
    fn context(&mut self, handle: u64) -> Result<&mut Context> {
        let context = self.contexts.get_mut(&handle);
        let context = context.ok_or(match handle {
            0 => Status::InvalidContext,
            _ => Status::ContextIsDestroyed,
        })?;
        context.failed.map_or(Ok(context), Err)
    }

    /// The context of a stream, and its handle there.
    fn stream(&mut self, handle: u64) -> Result<(&mut Context, u64)> {
        let (owner, handle) = match handle {
            0 => (current(), Context::LEGACY),
            Context::LEGACY | Context::PER_THREAD => (current(), handle),
            other => (
                *self.streams.get(&other).ok_or(Status::InvalidHandle)?,
                other,
            ),
        };
        let context = self.context(owner)?;
        match context.has_stream(handle) {
            true => Ok((context, handle)),
            false => Err(Status::InvalidHandle),
        }
    }

    fn forget(&mut self, context: u64) {
        self.contexts.remove(&context);
        self.streams.retain(|_, owner| *owner != context);
        self.events.retain(|_, event| event.context != context);
        let modules = &mut self.modules;
        modules.retain(|_, (owner, _)| *owner != context);
        self.functions
            .retain(|_, (module, _)| modules.contains_key(module));
        self.primary.retain(|_, (handle, _)| *handle != context);
    }
}

impl Driver {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn devices(&self) -> u32 {
        self.devices
    }

    /// A device by its number.
    pub(crate) fn device(&self, number: i32) -> Result<u32> {
        let device = u32::try_from(number).ok();
        device
            .filter(|&device| device < self.devices)
            .ok_or(Status::InvalidDevice)
    }

    /// The address of a device: that by which zernel lists the GPU.
    pub(crate) fn bus(device: u32) -> String {
        format!("sim:{device}")
    }

    /// Its UUID: that by which zernel lists it, if it does.
    pub(crate) fn uuid(device: u32) -> [u8; 16] {
        let bus = Self::bus(device);
        let listed = Zernel::open().ok().and_then(|zernel| {
            let gpu = zernel.gpus().flatten().find(|gpu| gpu.bus == bus);
            gpu?.uuid.map(|uuid| *uuid.as_bytes())
        });
        listed.unwrap_or_else(|| u128::from(device + 1).to_be_bytes())
    }

    /// Its name and multiprocessors.
    pub(crate) fn describe(&self, device: u32) -> Result<(String, u32)> {
        let info = self.sim.gpu_info(device)?;
        Ok((format!("software GPU {}", info.preset), info.sms))
    }

    pub(crate) fn create_context(&self, device: u32) -> Result<u64> {
        let context = Context::new(&self.sim, device)?;
        let mut state = self.state();
        let handle = state.handle();
        state.contexts.insert(handle, context);
        STACK.with_borrow_mut(|stack| stack.push(handle));
        Ok(handle)
    }

    /// Ends a context when its work is over.
    pub(crate) fn destroy_context(&self, handle: u64) -> Result<()> {
        let state = self.state();
        let context = state.contexts.get(&handle).ok_or(Status::InvalidContext)?;
        let (gpu, items) = (context.gpu(), context.all_items());
        drop(state);
        // It may have failed, or be gone.
        let _ = gpu.wait(&items);
        self.state().forget(handle);
        STACK.with_borrow_mut(|stack| stack.retain(|&other| other != handle));
        Ok(())
    }

    pub(crate) fn retain_primary(&self, device: u32) -> Result<u64> {
        if let Some((handle, count)) = self.state().primary.get_mut(&device) {
            *count += 1;
            return Ok(*handle);
        }
        let context = Context::new(&self.sim, device)?;
        let mut state = self.state();
        let handle = state.handle();
        state.contexts.insert(handle, context);
        state.primary.insert(device, (handle, 1));
        Ok(handle)
    }

    pub(crate) fn release_primary(&self, device: u32) -> Result<()> {
        let mut state = self.state();
        let primary = state.primary.get_mut(&device);
        let (handle, count) = primary.ok_or(Status::InvalidContext)?;
        *count -= 1;
        let (handle, is_last) = (*handle, *count == 0);
        drop(state);
        match is_last {
            true => self.destroy_context(handle),
            false => Ok(()),
        }
    }

    /// Makes a context current, in place of the one before or on top of it; 0: none.
    pub(crate) fn set_current(&self, handle: u64, on_top: bool) -> Result<()> {
        if handle != 0 && !self.state().contexts.contains_key(&handle) {
            return Err(Status::InvalidContext);
        }
        STACK.with_borrow_mut(|stack| {
            if !on_top {
                stack.pop();
            }
            if handle != 0 {
                stack.push(handle);
            }
        });
        Ok(())
    }

    /// Takes the current context off.
    pub(crate) fn pop_current(&self) -> Result<u64> {
        STACK
            .with_borrow_mut(Vec::pop)
            .ok_or(Status::InvalidContext)
    }

    /// The device of the current context.
    pub(crate) fn current_device(&self) -> Result<u32> {
        Ok(self.state().context(current())?.device)
    }

    /// Waits for all work of the current context.
    pub(crate) fn synchronize(&self) -> Result<()> {
        let mut state = self.state();
        let context = state.context(current())?;
        let (gpu, items) = (context.gpu(), context.all_items());
        drop(state);
        gpu.wait(&items)?;
        self.state().context(current()).map(|_| ())
    }

    pub(crate) fn load(&self, text: &str) -> Result<u64> {
        let kernels = module::kernels(text).ok_or(Status::InvalidImage)?;
        let mut state = self.state();
        state.context(current())?;
        let handle = state.handle();
        state.modules.insert(handle, (current(), kernels));
        Ok(handle)
    }

    /// Unloads a module when all work of its context is over.
    pub(crate) fn unload(&self, handle: u64) -> Result<()> {
        if !self.state().modules.contains_key(&handle) {
            return Err(Status::InvalidHandle);
        }
        self.synchronize()?;
        let mut state = self.state();
        state.modules.remove(&handle);
        state.functions.retain(|_, (module, _)| *module != handle);
        Ok(())
    }

    pub(crate) fn function(&self, module: u64, name: &str) -> Result<u64> {
        let mut state = self.state();
        let (_, kernels) = state.modules.get(&module).ok_or(Status::InvalidHandle)?;
        let kernel = kernels.iter().find(|kernel| kernel.name == name);
        let kernel = kernel.cloned().ok_or(Status::NotFound)?;
        let handle = state.handle();
        state.functions.insert(handle, (module, kernel));
        Ok(handle)
    }

    /// The sizes of the parameters of a function, in bytes.
    pub(crate) fn parameters(&self, function: u64) -> Result<Vec<usize>> {
        let state = self.state();
        let found = state.functions.get(&function);
        let (_, kernel) = found.ok_or(Status::InvalidHandle)?;
        Ok(kernel.parameters.clone())
    }

    pub(crate) fn launch(&self, function: u64, stream: u64, values: &[u64]) -> Result<()> {
        let mut state = self.state();
        let found = state.functions.get(&function);
        let (_, kernel) = found.ok_or(Status::InvalidHandle)?;
        let launch = module::launch(kernel, values);
        let (context, stream) = state.stream(stream)?;
        context.launch(stream, launch)
    }

    pub(crate) fn create_stream(&self, blocks: bool) -> Result<u64> {
        let mut state = self.state();
        let handle = state.handle();
        state.context(current())?.add_stream(handle, blocks)?;
        state.streams.insert(handle, current());
        Ok(handle)
    }

    pub(crate) fn destroy_stream(&self, stream: u64) -> Result<()> {
        let mut state = self.state();
        let (context, handle) = state.stream(stream)?;
        context.remove_stream(handle)?;
        state.streams.remove(&handle);
        Ok(())
    }

    /// The handle of the context of a stream.
    pub(crate) fn context_of(&self, stream: u64) -> Result<u64> {
        let mut state = self.state();
        state.stream(stream)?;
        Ok(state.streams.get(&stream).copied().unwrap_or_else(current))
    }

    pub(crate) fn is_idle(&self, stream: u64) -> Result<bool> {
        let mut state = self.state();
        let (context, stream) = state.stream(stream)?;
        context.is_idle(stream)
    }

    pub(crate) fn wait_idle(&self, stream: u64) -> Result<()> {
        let mut state = self.state();
        let (context, handle) = state.stream(stream)?;
        let (gpu, items) = (context.gpu(), context.last_items(handle)?);
        drop(state);
        gpu.wait(&items)?;
        self.state().stream(stream).map(|_| ())
    }

    pub(crate) fn wait_word(
        &self,
        stream: u64,
        address: u64,
        condition: Condition,
        value: u32,
    ) -> Result<()> {
        let mut state = self.state();
        let (context, stream) = state.stream(stream)?;
        context.wait_word(stream, address, condition, value)
    }

    pub(crate) fn write_word(&self, stream: u64, address: u64, value: u32) -> Result<()> {
        let mut state = self.state();
        let (context, stream) = state.stream(stream)?;
        context.write_word(stream, address, value)
    }

    pub(crate) fn create_event(&self) -> Result<u64> {
        let mut state = self.state();
        state.context(current())?;
        let handle = state.handle();
        let event = Event {
            context: current(),
            mark: None,
        };
        state.events.insert(handle, event);
        Ok(handle)
    }

    pub(crate) fn destroy_event(&self, event: u64) -> Result<()> {
        let removed = self.state().events.remove(&event);
        removed.map(|_| ()).ok_or(Status::InvalidHandle)
    }

    pub(crate) fn record(&self, event: u64, stream: u64) -> Result<()> {
        let mut state = self.state();
        if !state.events.contains_key(&event) {
            return Err(Status::InvalidHandle);
        }
        let (context, stream) = state.stream(stream)?;
        let mark = context.mark(stream)?;
        if let Some(event) = state.events.get_mut(&event) {
            event.mark = Some(mark);
        }
        Ok(())
    }

    /// The context and the last record of an event; none: it is over.
    fn event(state: &State, event: u64) -> Result<(u64, Option<Mark>)> {
        let event = state.events.get(&event).ok_or(Status::InvalidHandle)?;
        Ok((event.context, event.mark))
    }

    pub(crate) fn has_passed(&self, event: u64) -> Result<bool> {
        let mut state = self.state();
        match Self::event(&state, event)? {
            (context, Some(mark)) => state.context(context)?.has_passed(&mark),
            (_, None) => Ok(true),
        }
    }

    pub(crate) fn wait_passed(&self, event: u64) -> Result<()> {
        let mut state = self.state();
        let (context, Some(mark)) = Self::event(&state, event)? else {
            return Ok(());
        };
        let gpu = state.context(context)?.gpu();
        drop(state);
        gpu.wait(&[Context::item_of(&mark)])
    }

    pub(crate) fn wait_event(&self, stream: u64, event: u64) -> Result<()> {
        let mut state = self.state();
        let (owner, mark) = Self::event(&state, event)?;
        let is_own = state.context(owner)?.has_stream(stream) || stream <= Context::PER_THREAD;
        let (context, stream) = state.stream(stream)?;
        match mark {
            None => Ok(()),
            Some(mark) if is_own => context.wait_mark(stream, &mark),
            // Words of another context are not known to the stream.
            Some(_) => Err(Status::NotSupported),
        }
    }

    /// Gives memory of the host to the current context.
    pub(crate) fn register(&self, host: u64, length: u64) -> Result<()> {
        const PAGE: u64 = 4096;
        if host == 0 || length == 0 || host.checked_add(length).is_none() {
            return Err(Status::InvalidValue);
        }
        let start = host - host % PAGE;
        let length = (host + length - start).next_multiple_of(PAGE);
        let region = Region {
            host: start,
            device: start + DEVICE,
            length,
        };
        let mut state = self.state();
        let overlaps =
            |other: &Region| start < other.host + other.length && other.host < start + length;
        if state.regions.iter().any(overlaps) {
            return Err(Status::AlreadyRegistered);
        }
        let context = state.context(current())?;
        if context.has_memory() {
            return Err(Status::NotSupported);
        }
        context.add_memory(&self.sim, region)?;
        state.regions.push(region);
        Ok(())
    }

    /// Takes memory back, by its first address, when all work of the context is over.
    pub(crate) fn unregister(&self, host: u64) -> Result<()> {
        let is_its = |region: &Region| region.host == host - host % 4096;
        if !self.state().regions.iter().any(is_its) {
            return Err(Status::NotRegistered);
        }
        self.synchronize()?;
        self.state().regions.retain(|region| !is_its(region));
        Ok(())
    }

    /// The address of memory of the host as the GPU sees it.
    pub(crate) fn device_address(&self, host: u64) -> Result<u64> {
        let state = self.state();
        let holds = |region: &&Region| {
            host.checked_sub(region.host)
                .is_some_and(|offset| offset < region.length)
        };
        let region = state.regions.iter().find(holds);
        let region = region.ok_or(Status::InvalidValue)?;
        Ok(host - region.host + region.device)
    }
}
