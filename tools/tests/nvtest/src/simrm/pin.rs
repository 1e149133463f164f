// SPDX-License-Identifier: MIT OR Apache-2.0
//! Slots that a GPU is given, as by `cuMemHostRegister()`: pinned by the driver's own
//! `os_lock_user_pages()`.

use anyhow::Result;
use libzernel::request::{Begin, Of, Slots, Word};
use libzernel::Zernel;
use testkit::check_eq;
use testkit::harness::{case, Outcome, Suite};

use crate::lab::{tune, Lab, LOADED};
use crate::rm::abi::{control, Pin};
use crate::rm::{status_of, Runtime, Status};

/// The suite.
pub const SUITE: Suite = Suite::new(
    "simrm.pin",
    &[case("slots_are_pinned", slots_are_pinned)],
    LOADED,
);

/// Actions of [`control::PIN`].
const PIN: u32 = 1;
const UNPIN: u32 = 2;
const STORE: u32 = 3;
const LOAD: u32 = 4;

/// Words of a slot.
const WORDS: u64 = 16;

/// The memory that a GPU was given.
struct Pinned<'a>(&'a Runtime);

impl<'a> Pinned<'a> {
    fn new(runtime: &'a Runtime, slots: &Slots) -> Result<Self> {
        let mut pin = Pin {
            address: slots.memory().address(),
            count: slots.memory().length() / 4096,
            action: PIN,
            ..Pin::default()
        };
        runtime.control(runtime.client, control::PIN, &mut pin)?;
        Ok(Self(runtime))
    }

    fn act(&self, action: u32, slot: u32, word: u64, value: u32) -> Result<u32> {
        let mut pin = Pin {
            word: u64::from(slot) * WORDS + word,
            action,
            value,
            ..Pin::default()
        };
        self.0.control(self.0.client, control::PIN, &mut pin)?;
        Ok(pin.value)
    }
}

impl Drop for Pinned<'_> {
    fn drop(&mut self) {
        self.act(UNPIN, 0, 0, 0).expect("it is pinned");
    }
}

/// The GPU sees what zernel and the program store, they see what it stores; and it keeps the memory
/// when mapping and file are gone.
fn slots_are_pinned() -> Outcome {
    let lab = Lab::open()?;
    let runtime = Runtime::open()?;
    let tsg = lab.tsg(&runtime, runtime.compute()?)?;
    let zernel = Zernel::open()?;
    let slots = Slots::map(&zernel, 0..128)?;
    let gpu = Pinned::new(&runtime, &slots)?;
    let slot = slots.slot(100).expect("it was mapped");
    let begin = Begin::new(tsg.id).key(1);

    // However slow the guest is.
    tune("lease_us", "10000000")?;
    let request = slot.begin(&begin)?.number;
    check_eq!(gpu.act(LOAD, 100, 0, 0)?, request.get(), "zernel's trigger");
    gpu.act(STORE, 100, 3, request.get())?;
    check_eq!(slot.load(Word::Held), request.get(), "the holder's word");
    slot.ready(request);
    check_eq!(gpu.act(LOAD, 100, 1, 0)?, request.get(), "the release");
    // A stream can tell the end, too: zernel reads it where the GPU has stored it.
    gpu.act(STORE, 100, 2, request.get())?;
    let stats = lab.zernel.request_stats(Of::Tsg(tsg.id))?;
    check_eq!((stats.begun, stats.done), (1, 1), "{stats:?}");

    slot.begin(&begin)?;
    drop((slots, zernel));
    let stats = lab.zernel.request_stats(Of::Tsg(tsg.id))?;
    check_eq!((stats.begun, stats.closed), (2, 1), "{stats:?}");
    check_eq!(gpu.act(LOAD, 100, 1, 0)?, 2, "released at the end");
    check_eq!(gpu.act(STORE, 0, 0, 77)?, 77, "after the file");
    drop(gpu);

    // Memory that is not there, as a check of the check.
    let mut nothing = Pin {
        address: 4096,
        count: 1,
        action: PIN,
        ..Pin::default()
    };
    let answer = status_of(runtime.control(runtime.client, control::PIN, &mut nothing))?;
    check_eq!(answer, Status::INVALID_ADDRESS, "no memory");
    Ok(())
}
