// SPDX-License-Identifier: MIT OR Apache-2.0
//! The contexts of the program, each with a runtime or with none.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{PoisonError, RwLock, RwLockWriteGuard, TryLockError};

use cuda::{Attribute, Context, Device, Driver, LIBRARY};
use zernel_runtime::{Mode, Options, Runtime, TsgsBefore};

use crate::settings::Settings;
use crate::{sys, tell};

/// Contexts of a process that can have requests.
const MOST: usize = 16;

#[derive(Debug)]
struct Known {
    context: Context,
    /// The device whose primary context it is.
    device: Option<i32>,
    /// None: its runtime is being made, or it has none.
    runtime: Option<Runtime>,
}

/// All contexts that are known. Readers use a runtime as long as they hold it.
static KNOWN: RwLock<Vec<Known>> = RwLock::new(Vec::new());

/// There were several contexts at once.
static ARE_SEVERAL: AtomicBool = AtomicBool::new(false);

/// True if there were several contexts at once.
#[inline]
pub fn are_several() -> bool {
    ARE_SEVERAL.load(Relaxed)
}

fn write() -> RwLockWriteGuard<'static, Vec<Known>> {
    KNOWN.write().unwrap_or_else(PoisonError::into_inner)
}

/// Uses the runtime of a context, if it has one. It never waits for a thread that makes or ends
/// one. A context that is not known is looked at first, once.
pub fn with_runtime<T>(
    context: Context,
    settings: &Settings,
    run: impl FnOnce(&Runtime) -> T,
) -> Option<T> {
    let of = |all: &[Known]| all.iter().position(|known| known.context == context);
    for is_last in [false, true] {
        let known = match KNOWN.try_read() {
            Ok(known) => known,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        match of(&known) {
            Some(at) => return known.get(at)?.runtime.as_ref().map(run),
            None if is_last => return None,
            None => {}
        }
        drop(known);
        add(context, None, None, settings);
    }
    None
}

/// True if there is room for it, and nobody has it: it is this thread's then.
fn claim(context: Context, device: Option<i32>, is_new: bool) -> bool {
    let mut all = write();
    if let Some(known) = all.iter_mut().find(|known| known.context == context) {
        if !is_new || device.is_some() {
            known.device = device.or(known.device);
            return false;
        }
        // The driver gives the number of one that has ended without a word to another one. What the
        // runtime had there is gone.
        std::mem::forget(known.runtime.take());
        return true;
    }
    if all.len() >= MOST {
        drop(all);
        tell::aside(&format!("more than {MOST} contexts in one process"));
        return false;
    }
    all.push(Known {
        context,
        device,
        runtime: None,
    });
    if all.len() > 1 {
        ARE_SEVERAL.store(true, Relaxed);
    }
    true
}

fn add(context: Context, device: Option<i32>, before: Option<TsgsBefore>, settings: &Settings) {
    let is_new = before.is_some();
    if !claim(context, device, is_new) {
        return;
    }
    let runtime = match attach(context, before, settings) {
        Ok(runtime) => runtime,
        Err(why) => return tell::aside(&why),
    };
    let mut all = write();
    let known = all.iter_mut().find(|known| known.context == context);
    let unused = match known {
        Some(known) => known.runtime.replace(runtime),
        // It has ended meanwhile.
        None => Some(runtime),
    };
    drop(all);
    drop(unused);
}

fn attach(
    context: Context,
    before: Option<TsgsBefore>,
    settings: &Settings,
) -> Result<Runtime, String> {
    let driver = Driver::open(Path::new(LIBRARY)).map_err(|error| error.to_string())?;
    let entered = driver.enter(context).map_err(|error| error.to_string())?;
    // Another thread may capture a graph, which calls that allocate would end.
    let _quiet = sys::Quiet::begin();
    let device = entered.device().map_err(|error| error.to_string())?;
    if is_shared(&driver, device) {
        return Err("MPS is on: the TSG of the context is not this program's alone".to_owned());
    }
    let options = Options::default().mode(Mode::Require).lanes(settings.lanes);
    let options = match before {
        Some(before) => options.before(before),
        None => options,
    };
    Runtime::attach(&options).map_err(|error| error.to_string())
}

fn is_shared(driver: &Driver, device: Device) -> bool {
    // A driver that does not know the attribute has no such thing.
    driver
        .attribute(device, Attribute::Mps)
        .is_ok_and(|value| value != 0)
}

/// The program has made a context, before which there were these TSGs.
pub fn made(context: Context, before: TsgsBefore, settings: &Settings) {
    add(context, None, Some(before), settings);
}

/// The program has retained the primary context of a device.
pub fn retained(context: Context, device: i32, before: TsgsBefore, settings: &Settings) {
    add(context, Some(device), Some(before), settings);
}

/// A context of the program is about to end, or has ended.
pub fn end(context: Context) {
    take(|known| known.context == context);
}

/// As [`end`], for the primary context of a device.
pub fn end_primary(device: i32) {
    take(|known| known.device == Some(device));
}

/// The only context that is known, if there is one alone.
pub fn only() -> Option<Context> {
    let all = KNOWN.try_read().ok()?;
    match all[..] {
        [ref known] => Some(known.context),
        _ => None,
    }
}

/// The primary context of a device, if it is known.
pub fn primary(device: i32) -> Option<Context> {
    let all = KNOWN.read().unwrap_or_else(PoisonError::into_inner);
    let known = all.iter().find(|known| known.device == Some(device));
    known.map(|known| known.context)
}

fn take(is_meant: impl Fn(&Known) -> bool) {
    let mut all = write();
    let at = all.iter().position(is_meant);
    let known = at.map(|at| all.swap_remove(at));
    drop(all);
    // It waits for the GPU, perhaps.
    drop(known);
}
