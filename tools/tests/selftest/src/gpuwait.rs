// SPDX-License-Identifier: GPL-2.0
//! Waits for the GPU: what providers and probes tell, how they end, and who may probe.

mod costs;
mod ends;
mod hammer;
mod refusals;
mod told;

use std::fs::File;
use std::hint::{black_box, spin_loop};
use std::io::Write;
use std::time::{Duration, Instant};

use anyhow::{bail, Context as _, Result};
use libzernel::thread::Sum;
use libzernel::{Target, Thread, Tracking, Zernel};

use crate::common::{tid, wait_until};
use crate::harness::{case, suite, Suite};
use crate::track::thread;

pub use costs::costs;

/// The suite.
pub const SUITE: Suite = suite(
    "gpuwait",
    &[
        case("of_the_provider", told::provider),
        case("of_a_function", told::function),
        case("within_another", told::nested),
        case("of_another_thread", told::another_thread),
        case("of_one_that_is_not_tracked", told::untracked),
        case("begun_anew", told::begun_anew),
        case("jump_out", ends::jump_out),
        case("jump_out_for_good", ends::jump_out_for_good),
        case("fork", ends::fork),
        case("exec", ends::exec),
        case("exit_and_kill", ends::exit_and_kill),
        case("probe_is_removed", ends::removed),
        case("file_is_closed", ends::closed),
        case("unload_is_refused", ends::unload),
        case("files", refusals::files),
        case("who_may", refusals::who_may),
        case("bounds", refusals::bounds),
        case("hammer", hammer::hammer),
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
        let own = File::open("/proc/self/exe")?;
        let functions = [synchronize as *const (), synchronize_context as *const ()];
        let mut numbers = [0; 2];
        for (number, function) in numbers.iter_mut().zip(functions) {
            *number = zernel.add_probe(&own, offset_of(function as usize)?)?;
        }
        Ok(Self { zernel, numbers })
    }
}

/// Where [`synchronize`] begins in the file of this program.
pub fn offset_of_synchronize() -> Result<u64> {
    offset_of(synchronize as *const () as usize)
}

/// Where in the file an address is mapped from.
fn offset_of(address: usize) -> Result<u64> {
    for line in std::fs::read_to_string("/proc/self/maps")?.lines() {
        let mut fields = line.split_whitespace();
        let (range, _access, offset) = (fields.next(), fields.next(), fields.next());
        let ends = range.and_then(|range| range.split_once('-'));
        let ((start, end), offset) = ends.zip(offset).context("a line of the kernel's")?;
        let hex = |text| usize::from_str_radix(text, 16);
        if (hex(start)?..hex(end)?).contains(&address) {
            return Ok((address - hex(start)? + hex(offset)?) as u64);
        }
    }
    bail!("{address:#x} is mapped nowhere");
}

/// Where the first function of [`library`] begins in the file.
pub const FIRST: u64 = 0x200;

/// A library of one function, whose instructions do nothing and end.
pub fn library() -> Result<File> {
    file_of(&elf(&[[0x90; 64], [0xc3; 64]].concat(), &[0]))
}

/// An ELF file with this code, in which functions begin at these places.
fn elf(code: &[u8], functions: &[u64]) -> Vec<u8> {
    const ADDRESS: u64 = 0x40_0000;
    let half = u16::to_ne_bytes;
    let words = |words: &[u64]| {
        words
            .iter()
            .flat_map(|w| w.to_ne_bytes())
            .collect::<Vec<_>>()
    };
    let symbols = FIRST + code.len() as u64;
    let symbols = symbols.next_multiple_of(8);
    let length = 24 * (functions.len() as u64 + 1);
    let mut file = b"\x7fELF\x02\x01\x01".to_vec();
    file.resize(16, 0);
    for number in [3, 62, 1, 0] {
        file.extend(half(number));
    }
    // No entry; where headers of segments and sections lie.
    file.extend(words(&[0, 64, 128, 0]));
    file.truncate(52);
    for number in [64, 56, 1, 64, 2, 0] {
        file.extend(half(number));
    }
    // One segment, which is loaded, read and executed.
    file.extend(words(&[1 | 5 << 32, FIRST, ADDRESS, ADDRESS]));
    file.extend(words(&[code.len() as u64, code.len() as u64, 0x1000]));
    file.resize(128 + 64, 0);
    // Symbols.
    file.extend(words(&[2 << 32, 0, 0, symbols, length, 0, 8, 24]));
    file.resize(FIRST as usize, 0);
    file.extend(code);
    file.resize(symbols as usize + 24, 0);
    for function in functions {
        // A global function of the first section.
        file.extend(words(&[0x12 << 32 | 1 << 48, ADDRESS + function, 1]));
    }
    file
}

/// A file with these bytes, of which nobody else knows.
fn file_of(bytes: &[u8]) -> Result<File> {
    let path = std::env::temp_dir().join(format!("zernel-probed-{}-{}", std::process::id(), tid()));
    let mut file = File::options()
        .read(true)
        .write(true)
        .create(true)
        .truncate(true)
        .open(&path)
        .with_context(|| format!("make {}", path.display()))?;
    std::fs::remove_file(&path)?;
    file.write_all(bytes)?;
    Ok(file)
}

/// Tracks the calling process and what it makes.
fn track(zernel: &Zernel) -> Result<()> {
    zernel.track(&Target::current_process(), Tracking::CHILDREN)?;
    Ok(())
}

/// The calling thread, which is tracked.
fn own(zernel: &Zernel) -> Result<Thread> {
    thread(zernel, tid())?.context("the calling thread is not listed")
}

/// The waits of a tracked thread.
fn waits(zernel: &Zernel, tid: u32) -> Result<(bool, Sum)> {
    let thread = thread(zernel, tid)?.with_context(|| format!("{tid} is not listed"))?;
    Ok((thread.gpu_wait, thread.gpu_waits))
}

/// Waits until a tracked thread waits for the GPU, or does not any more.
fn wait_waiting(zernel: &Zernel, tid: u32, waiting: bool) -> Result<Sum> {
    let mut seen = None;
    wait_until(&format!("{tid} waits for the GPU: {waiting}"), || {
        seen = thread(zernel, tid)?.map(|thread| (thread.gpu_wait, thread.gpu_waits));
        Ok(seen.is_some_and(|(waits, _)| waits == waiting))
    })
    .with_context(|| format!("{seen:?}"))?;
    Ok(seen.map(|(_, sum)| sum).unwrap_or_default())
}
