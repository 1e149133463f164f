// SPDX-License-Identifier: MIT OR Apache-2.0
//! The state of the library in a process: devices, and all that the program has handles of.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::mem::ManuallyDrop;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock};

use libzernel::sim::{GpuInfo, Sim};
use libzernel::Zernel;

use crate::capture;
use crate::context::Context;
use crate::event::Event;
use crate::graph::{Exec, Graph, NodeOf};
use crate::helper;
use crate::module::{Function, Module};
use crate::queue::LEGACY;
use crate::space::Space;
use crate::status::{Result, Status};
use crate::stream::Stream;
use crate::sys::process::{is_main_thread, Mark, MARK};

/// The first handle. Those of the header for default streams are below.
const FIRST: u64 = 1 << 20;
/// Handles look like addresses.
const STEP: u64 = 16;
/// Numbers of the default streams of threads.
const THREADS: u64 = 1 << 62;

/// A device.
#[derive(Debug, Clone)]
pub(crate) struct Device {
    pub(crate) number: u32,
    pub(crate) info: GpuInfo,
    /// By which zernel lists it.
    pub(crate) bus: String,
    pub(crate) uuid: [u8; 16],
}

/// A primary context.
#[derive(Debug, Default)]
pub(crate) struct Primary {
    pub(crate) context: Option<Arc<Context>>,
    pub(crate) count: u32,
    pub(crate) flags: u32,
}

/// Declares the kinds of objects, and how each is found.
macro_rules! objects {
    ($($kind:ident($type:ty) $find:ident $error:ident;)*) => {
        /// An object with a handle.
        #[derive(Debug, Clone)]
        pub(crate) enum Object {
            $($kind($type),)*
        }

        impl Driver {
            $(
                pub(crate) fn $find(&self, handle: u64) -> Result<$type> {
                    let table = self.table.read().unwrap_or_else(PoisonError::into_inner);
                    match table.get(&handle) {
                        Some(Object::$kind(found)) => Ok(found.clone()),
                        _ => Err(Status::$error),
                    }
                }
            )*
        }
    };
}

objects! {
    Context(Arc<Context>) context INVALID_CONTEXT;
    Stream(Arc<Stream>) stream INVALID_HANDLE;
    Event(Arc<Event>) event INVALID_HANDLE;
    Module(Arc<Module>) module INVALID_HANDLE;
    Function(Arc<Function>) function INVALID_HANDLE;
    Graph(Arc<Graph>) graph INVALID_VALUE;
    Node(NodeOf) node INVALID_VALUE;
    Exec(Arc<Exec>) exec INVALID_VALUE;
}

/// The state.
#[derive(Debug)]
pub(crate) struct Driver {
    table: RwLock<HashMap<u64, Object>>,
    last: AtomicU64,
    pub(crate) devices: Vec<Device>,
    primaries: Mutex<BTreeMap<u32, Primary>>,
}

static DRIVER: OnceLock<Driver> = OnceLock::new();
static SPACE: OnceLock<Mutex<Space>> = OnceLock::new();

/// A thread with a default stream.
struct Thread(u64);

impl Drop for Thread {
    fn drop(&mut self) {
        if let Ok(driver) = driver() {
            for context in driver.contexts() {
                context.remove_stream(self.0);
            }
        }
        // The main thread makes its last calls later, in functions for the end of the process.
        if !is_main_thread() {
            let stack = STACK.with_borrow_mut(|stack| std::mem::take(&mut **stack));
            drop(stack);
        }
    }
}

thread_local! {
    // Nothing drops it, so that it is there for the last calls of the process.
    static STACK: RefCell<ManuallyDrop<Vec<Arc<Context>>>> =
        const { RefCell::new(ManuallyDrop::new(Vec::new())) };
    static THREAD: Thread = {
        static LAST: AtomicU64 = AtomicU64::new(THREADS);
        Thread(LAST.fetch_add(1, Ordering::Relaxed))
    };
}

/// Locks a mutex, after a panic, too.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Addresses as the GPU sees them.
pub(crate) fn space() -> MutexGuard<'static, Space> {
    lock(SPACE.get_or_init(Mutex::default))
}

/// Initialises the library.
pub(crate) fn init() -> Result<()> {
    if MARK.get().is_some_and(Mark::is_child) {
        return Err(Status::NOT_INITIALIZED);
    }
    if DRIVER.get().is_some() {
        return Ok(());
    }
    let sim = Sim::open().map_err(|_| Status::NO_DEVICE)?;
    let count = sim.version().map_err(|_| Status::NO_DEVICE)?.gpus;
    let listed: Vec<_> =
        Zernel::open().map_or(Vec::new(), |zernel| zernel.gpus().flatten().collect());
    let devices = (0..count).map(|number| {
        let bus = format!("sim:{number}");
        let uuid = listed
            .iter()
            .find(|gpu| gpu.bus == bus)
            .and_then(|gpu| gpu.uuid);
        Ok(Device {
            number,
            info: sim.gpu_info(number)?,
            uuid: uuid.map_or_else(|| own_uuid(number), |uuid| *uuid.as_bytes()),
            bus,
        })
    });
    let devices = devices.collect::<Result<Vec<_>>>()?;
    if devices.is_empty() {
        return Err(Status::NO_DEVICE);
    }
    MARK.get_or_init(Mark::new);
    DRIVER.get_or_init(|| Driver {
        table: RwLock::default(),
        last: AtomicU64::new(FIRST),
        devices,
        primaries: Mutex::default(),
    });
    Ok(())
}

/// The UUID of a device that zernel does not list: as the software GPU would give it.
fn own_uuid(number: u32) -> [u8; 16] {
    let mut uuid = *b"zernel\x80\0\x80sim\0\0\0\0";
    uuid[12..].copy_from_slice(&number.to_be_bytes());
    uuid
}

/// The state, in a call of the program.
pub(crate) fn driver() -> Result<&'static Driver> {
    let driver = DRIVER.get().ok_or(Status::NOT_INITIALIZED)?;
    if MARK.get().is_some_and(Mark::is_child) {
        return Err(Status::NOT_INITIALIZED);
    }
    match helper::is_callback() {
        true => Err(Status::NOT_PERMITTED),
        false => Ok(driver),
    }
}

/// The context of this thread, if it works.
pub(crate) fn current() -> Result<Arc<Context>> {
    driver()?;
    let context = top().ok_or(Status::INVALID_CONTEXT)?;
    context.status()?;
    Ok(context)
}

/// The context of this thread in any state.
pub(crate) fn top() -> Option<Arc<Context>> {
    STACK.with_borrow(|stack| stack.last().cloned())
}

/// Makes a context that of this thread, on top of the one before.
pub(crate) fn push(context: Arc<Context>) {
    // A thread that ends takes its contexts off.
    let _ = THREAD.try_with(|_| ());
    STACK.with_borrow_mut(|stack| stack.push(context));
}

/// Takes the context of this thread off.
pub(crate) fn pop() -> Option<Arc<Context>> {
    STACK.with_borrow_mut(|stack| stack.pop())
}

/// Number of the default stream of this thread.
pub(crate) fn thread_stream() -> u64 {
    // A thread that ends has none; its last calls share one.
    THREAD.try_with(|thread| thread.0).unwrap_or(THREADS - 1)
}

/// A stream as calls name it: its context, and its number there.
#[derive(Debug, Clone)]
pub(crate) struct Target {
    pub(crate) context: Arc<Context>,
    pub(crate) number: u64,
}

/// Handle of the legacy default stream, as is 0.
pub(crate) const LEGACY_HANDLE: u64 = 1;
/// Handle of the default stream of a thread.
pub(crate) const PER_THREAD_HANDLE: u64 = 2;

impl Driver {
    pub(crate) fn new_handle(&self) -> u64 {
        self.last.fetch_add(STEP, Ordering::Relaxed) + STEP
    }

    pub(crate) fn insert(&self, handle: u64, object: Object) {
        let mut table = self.table.write().unwrap_or_else(PoisonError::into_inner);
        table.insert(handle, object);
    }

    pub(crate) fn remove(&self, handle: u64) -> Option<Object> {
        let mut table = self.table.write().unwrap_or_else(PoisonError::into_inner);
        table.remove(&handle)
    }

    pub(crate) fn retain(&self, keep: impl Fn(&Object) -> bool) {
        let mut table = self.table.write().unwrap_or_else(PoisonError::into_inner);
        // Objects are dropped without the lock.
        let gone: Vec<u64> = table
            .iter()
            .filter(|(_, object)| !keep(object))
            .map(|(&handle, _)| handle)
            .collect();
        let gone: Vec<_> = gone.iter().map(|handle| table.remove(handle)).collect();
        drop(table);
        drop(gone);
    }

    fn contexts(&self) -> Vec<Arc<Context>> {
        let table = self.table.read().unwrap_or_else(PoisonError::into_inner);
        let contexts = table.values().filter_map(|object| match object {
            Object::Context(context) => Some(context.clone()),
            _ => None,
        });
        contexts.collect()
    }

    /// Tells all contexts that a range has ended.
    pub(crate) fn take_back(&self, id: u64) {
        for context in self.contexts() {
            context.gpu.take_back(id);
        }
    }

    pub(crate) fn device(&self, number: i32) -> Result<&Device> {
        let number = usize::try_from(number).ok();
        let device = number.and_then(|number| self.devices.get(number));
        device.ok_or(Status::INVALID_DEVICE)
    }

    pub(crate) fn primaries(&self) -> MutexGuard<'_, BTreeMap<u32, Primary>> {
        lock(&self.primaries)
    }

    /// Makes a context, which is not current.
    pub(crate) fn create_context(&self, device: u32, flags: u32) -> Result<Arc<Context>> {
        let handle = self.new_handle();
        let context = Context::new(handle, device, flags)?;
        self.insert(handle, Object::Context(context.clone()));
        Ok(context)
    }

    /// Ends a context, with all that it has.
    pub(crate) fn destroy_context(&self, context: &Arc<Context>) {
        let handle = context.handle;
        self.remove(handle);
        capture::forget(handle);
        context.end();
        let gone = space().remove_all(handle);
        for id in gone {
            self.take_back(id);
        }
        self.retain(|object| match object {
            Object::Stream(stream) => stream.context.handle != handle,
            Object::Event(event) => event.context.handle != handle,
            Object::Module(module) => module.context != handle,
            Object::Function(function) => function.context != handle,
            _ => true,
        });
        STACK.with_borrow_mut(|stack| {
            if stack.last().is_some_and(|top| top.handle == handle) {
                stack.pop();
            }
        });
    }

    /// The stream of a handle.
    pub(crate) fn target(&self, handle: u64) -> Result<Target> {
        if handle <= PER_THREAD_HANDLE {
            let context = current()?;
            let number = match handle {
                PER_THREAD_HANDLE => thread_stream(),
                _ => LEGACY,
            };
            if !context.has_stream(number) {
                context.add_stream(number, true)?;
            }
            return Ok(Target { context, number });
        }
        let stream = self.stream(handle)?;
        stream.context.status()?;
        Ok(Target {
            context: stream.context.clone(),
            number: stream.number,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_the_software_gpu_there_is_no_device() {
        if std::path::Path::new(Sim::PATH).exists() {
            return;
        }
        assert_eq!(init(), Err(Status::NO_DEVICE));
        assert_eq!(driver().err(), Some(Status::NOT_INITIALIZED));
        assert_eq!(current().err(), Some(Status::NOT_INITIALIZED));
    }

    #[test]
    fn uuids_are_those_of_the_module() {
        assert_eq!(&own_uuid(0x0102)[..], b"zernel\x80\0\x80sim\0\0\x01\x02");
    }

    #[test]
    fn threads_have_default_streams_of_their_own() {
        let own = thread_stream();
        assert_eq!(thread_stream(), own);
        let other = std::thread::spawn(thread_stream).join().unwrap();
        assert!(other != own && own >= THREADS && other >= THREADS);
    }
}
