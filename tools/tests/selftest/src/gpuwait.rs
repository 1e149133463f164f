// SPDX-License-Identifier: MIT OR Apache-2.0
//! Waits for the GPU: what providers and probes tell, and who may probe what.

mod counted;

use std::fs::File;
use std::hint::{black_box, spin_loop};
use std::io::Write;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use libzernel::probe::{MAX, MAX_PER_FILE};
use libzernel::thread::Sum;
use libzernel::{Target, Tracking, Zernel};
use rustix::fs::{memfd_create, MemfdFlags, Mode, OFlags};
use rustix::io::Errno;
use testkit::own::place_of;

use crate::abi::unchanged;
use crate::check_eq;
use crate::child::in_child;
use crate::common::{errno, tid, wait_until};
use crate::harness::{case, suite, Outcome, Suite};
use crate::list::PERFMON;
use crate::permit::{ALICE, NICE};
use crate::sys;
use crate::track::thread;

/// The suite.
pub const SUITE: Suite = suite(
    "gpuwait",
    &[
        case("of_the_provider", counted::provider),
        case("of_a_function", counted::function),
        case("within_another", counted::nested),
        case("of_another_thread", counted::another_thread),
        case("begun_anew", counted::begun_anew),
        case("jump_out", counted::jump_out),
        case("fork", counted::fork),
        case("exec", counted::exec),
        case("exit_and_kill", counted::exit_and_kill),
        case("unload_is_refused", counted::unload_is_refused),
        case("files", files),
        case("who_may", who_may_probe),
        case("bounds", bounds),
        case("hammer", counted::hammer),
    ],
);

const MS: Duration = Duration::from_millis(1);

/// Waits as a runtime does that spins: runs `wait`, in a function that can be probed.
#[inline(never)]
pub fn synchronize(wait: &mut dyn FnMut()) {
    wait();
    // So that the call above is not a jump, and the function no other one's twin.
    black_box(1);
}

/// The same.
#[inline(never)]
fn synchronize_context(wait: &mut dyn FnMut()) {
    wait();
    black_box(2);
}

/// Spins for so long.
pub fn spin(duration: Duration) {
    let begin = Instant::now();
    while begin.elapsed() < duration {
        spin_loop();
    }
}

/// [`synchronize`] is probed until this is dropped, and so is [`synchronize_context`].
pub struct Probed {
    zernel: Zernel,
    /// The numbers of the probes.
    numbers: [u32; 2],
}

impl Probed {
    /// Probes them.
    pub fn new() -> Result<Self> {
        let zernel = Zernel::open()?;
        let functions = [synchronize as *const (), synchronize_context as *const ()];
        let mut numbers = [0; 2];
        for (number, function) in numbers.iter_mut().zip(functions) {
            let (own, place) = place_of(function as usize)?;
            *number = zernel.add_probe(&own, place)?;
        }
        Ok(Self { zernel, numbers })
    }
}

/// This program as a library, with the place of a function.
pub fn library() -> Result<(File, u64)> {
    place_of(synchronize as *const () as usize)
}

/// Tracks the calling process and what it makes.
fn track(zernel: &Zernel) -> Result<()> {
    zernel.track(&Target::current_process(), Tracking::CHILDREN)?;
    Ok(())
}

/// Runs `run` in a process that is tracked and whose functions are probed.
fn probed_child(run: impl FnOnce(&Probed) -> Outcome) -> Outcome {
    in_child(|| {
        let probed = Probed::new()?;
        track(&probed.zernel)?;
        run(&probed)
    })
}

/// True for a tracked thread that waits, and its waits.
fn waits(zernel: &Zernel, tid: u32) -> Result<(bool, Sum)> {
    let thread = thread(zernel, tid)?.with_context(|| format!("{tid} is not listed"))?;
    Ok((thread.gpu_wait, thread.gpu_waits))
}

/// The calling thread does not wait; its waits.
fn own_waits(zernel: &Zernel) -> Result<Sum> {
    let (waiting, sum) = waits(zernel, tid())?;
    check_eq!(waiting, false, "who runs waits: {sum:?}");
    Ok(sum)
}

/// Waits until a tracked thread waits for the GPU, or does not any more.
fn wait_waiting(zernel: &Zernel, tid: u32, waiting: bool) -> Result<Sum> {
    let mut seen = Default::default();
    wait_until(&format!("{tid} waits for the GPU: {waiting}"), || {
        seen = waits(zernel, tid)?;
        Ok(seen.0 == waiting)
    })
    .with_context(|| format!("{seen:?}"))?;
    Ok(seen.1)
}

const CAP_SYS_ADMIN: u32 = 21;

/// A file with these bytes, of which nobody else knows.
fn file_of(bytes: &[u8]) -> Result<File> {
    let mut file = File::from(memfd_create("library", MemfdFlags::CLOEXEC)?);
    file.write_all(bytes)?;
    Ok(file)
}

fn files() -> Outcome {
    let zernel = Zernel::open()?;
    let (library, place) = library()?;
    let whole = std::fs::read("/proc/self/exe")?;
    let cut = place as usize;
    // No instruction in 64-bit mode, and a trap of its own.
    let beginning_with = |byte| {
        let mut bytes = whole.clone();
        bytes[cut] = byte;
        file_of(&bytes)
    };
    let open = |path, flags| rustix::fs::open(path, flags, Mode::empty()).map(File::from);
    let hostname = open("/proc/sys/kernel/hostname", OFlags::WRONLY)?;
    for (file, offset, expected) in [
        (&library, whole.len() as u64, Errno::RANGE),
        (&file_of(&[])?, 0, Errno::RANGE),
        // Within a function; and where the file is no ELF file, or ends early.
        (&library, place + 1, Errno::NOEXEC),
        (&file_of(&[0x90; 4096])?, 0, Errno::NOEXEC),
        (&file_of(&whole[..cut + 64])?, place, Errno::NOEXEC),
        (&beginning_with(0x06)?, place, Errno::NOEXEC),
        (&beginning_with(0xcc)?, place, Errno::NOEXEC),
        (&open("/", OFlags::RDONLY)?, 0, Errno::NODEV),
        (&open("/proc/self/exe", OFlags::PATH)?, 0, Errno::BADF),
        (&hostname, 0, Errno::ACCESS),
        // None of the kernel's own files has a size.
        (&open("/proc/version", OFlags::RDONLY)?, 0, Errno::RANGE),
    ] {
        let answer = unchanged(&zernel, || Ok(errno(zernel.add_probe(file, offset))))?;
        check_eq!(answer, Some(expected), "{file:?} at {offset:#x}");
    }
    Ok(())
}

fn who_may_probe() -> Outcome {
    let (library, place) = library()?;
    let zernel = Zernel::open()?;
    let denied = zernel.stats()?.denied;
    let refused = |zernel: &Zernel| {
        check_eq!(errno(zernel.add_probe(&library, place)), Some(Errno::PERM));
        Ok(())
    };
    // To see what others do is not enough.
    for capability in [PERFMON, NICE] {
        in_child(|| {
            sys::become_user_with(ALICE, ALICE, capability)?;
            refused(&Zernel::open()?)
        })?;
    }
    in_child(|| {
        sys::become_user_with(ALICE, ALICE, CAP_SYS_ADMIN)?;
        let zernel = Zernel::open()?;
        let handle = zernel.add_probe(&library, place)?;
        // An object that is there goes without it.
        sys::set_capabilities(0)?;
        refused(&zernel)?;
        Ok(zernel.remove_probe(handle)?)
    })?;
    check_eq!(zernel.stats()?.denied, denied + 3);
    Ok(())
}

fn bounds() -> Outcome {
    let (library, place) = library()?;
    let add = |zernel: &Zernel| errno(zernel.add_probe(&library, place));
    let mut files = Vec::new();
    for _ in 0..MAX / MAX_PER_FILE {
        let zernel = Zernel::open()?;
        for _ in 0..MAX_PER_FILE {
            check_eq!(add(&zernel), None);
        }
        check_eq!(add(&zernel), Some(Errno::DQUOT));
        files.push(zernel);
    }
    let another = Zernel::open()?;
    check_eq!(add(&another), Some(Errno::NOSPC));
    // A probe that is removed makes room.
    files[1].remove_probe(9)?;
    check_eq!(add(&another), None);
    check_eq!(add(&another), Some(Errno::NOSPC));
    drop(another);
    check_eq!(add(&files[1]), None);
    drop(files);
    // All of them have gone.
    check_eq!(add(&Zernel::open()?), None);
    Ok(())
}
