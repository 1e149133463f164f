// SPDX-License-Identifier: MIT OR Apache-2.0
//! Requests end to end: which TSGs the driver preempts, disables and enables for them.

use std::mem::offset_of;
use std::time::Duration;

use crate::modules::{load, unload};
use anyhow::{Context as _, Result};
use libzernel::request::{Begin, Number, Of, RequestStats, Slot, Slots};
use libzernel::{Level, Timestamp, Zernel};
use testkit::harness::{case, Outcome, Suite};
use testkit::sys::Area;
use testkit::{check_eq, wait_until, wait_until_within, SOON};

use crate::lab::{agree, faults, set_faults, tune, wait_slice, Lab, LOADED};
use crate::rm::abi::{class, control, ChannelParams};
use crate::rm::truth::{self, Counts};
use crate::rm::{Form, Handle, Runtime, Spec};

/// The suite.
pub const SUITE: Suite = Suite::new(
    "simrm.request",
    &[
        case("without_a_holder", without_a_holder),
        case("with_a_holder", with_a_holder),
        case("freed_subdevice_does_not_help", freed_subdevice),
        case("other_gpus_are_left_alone", other_gpus),
        case("preempt_times_out", preempt_times_out),
        case("preempt_is_refused", preempt_is_refused),
        case("disable_fails", disable_fails),
        case("later_lot_fails", later_lot_fails),
        case("enable_fails", enable_fails),
        case(
            "dead_channel_is_in_the_way_once",
            dead_channel_is_in_the_way_once,
        ),
        case("stopped_gpu", stopped_gpu),
        case("no_client_is_left", no_client_is_left),
    ],
    LOADED,
);

/// The driver disables so many channels at a time.
const LOT: u32 = 64;

/// One TSG of a runtime.
pub(super) struct Owner {
    pub(super) runtime: Runtime,
    pub(super) tsg: Handle,
}

impl Owner {
    pub(super) fn new(lab: &Lab, spec: Spec, channels: u32, level: Level) -> Result<Self> {
        let runtime = Runtime::with(spec)?;
        let tsg = runtime.compute()?;
        for _ in 0..channels {
            runtime.channel(tsg)?;
        }
        lab.class(&runtime, tsg, level)?;
        let slice = if level == Level::LC { 5_000_000 } else { 200 };
        wait_slice(&runtime, tsg, slice)?;
        Ok(Self { runtime, tsg })
    }

    pub(super) fn truth(&self) -> Result<truth::Tsg> {
        truth::tsg(self.runtime.client, self.tsg)
    }

    fn is_off(&self) -> Result<bool> {
        let held = self.truth()?;
        Ok(held.disabled == held.channels)
    }

    fn is_on(&self) -> Result<bool> {
        Ok(self.truth()?.disabled == 0)
    }
}

/// Latency-critical requests beside best-effort TSGs.
pub(super) struct Stage {
    pub(super) lab: Lab,
    slots: Slots,
    pub(super) lc: Owner,
    pub(super) others: Vec<Owner>,
    before: RequestStats,
}

impl Stage {
    /// With others that have so many channels.
    pub(super) fn new(channels: &[u32]) -> Result<Self> {
        let lab = Lab::open()?;
        // On a slow machine they could be over before they are looked at.
        tune("lease_us", "10000000")?;
        tune("no_holder", "exclude")?;
        tune("level0_budget_us", "100000")?;
        let other = |&count: &u32| Owner::new(&lab, Spec::USUAL, count, Level::BE);
        let others = channels.iter().map(other).collect::<Result<_>>()?;
        let lc = Owner::new(&lab, Spec::USUAL, 2, Level::LC)?;
        Ok(Self {
            slots: Slots::map(&Zernel::open()?, 0..4)?,
            before: lab.zernel.request_stats(Of::Level(Level::LC))?,
            lab,
            lc,
            others,
        })
    }

    pub(super) fn slot(&self) -> Slot<'_> {
        self.slots.slot(0).expect("it was mapped")
    }

    /// A request that is triggered at once.
    fn at_once(&self) -> Result<Begin> {
        let id = self.lab.tsg(&self.lc.runtime, self.lc.tsg)?.id;
        Ok(Begin::new(id).key(Timestamp::now().as_ns()))
    }

    pub(super) fn begin(&self) -> Result<Number> {
        let begin = self.at_once()?.without_holder();
        Ok(self.slot().begin(&begin)?.number)
    }

    pub(super) fn end(&self, number: Number) -> Outcome {
        self.slot().ready_call(number)?;
        self.slot().done_call(number)?;
        Ok(())
    }

    /// The others, true where one is off.
    fn off(&self) -> Result<Vec<bool>> {
        self.others.iter().map(Owner::is_off).collect()
    }

    fn one_is_off(&self) -> Outcome {
        let off = self.off()?;
        check_eq!(off.iter().filter(|off| **off).count(), 1, "{off:?}");
        Ok(())
    }

    fn wait_off(&self) -> Outcome {
        self.wait_off_within(SOON)
    }

    fn wait_off_within(&self, patience: Duration) -> Outcome {
        wait_until_within(patience, "all others are off", || {
            Ok(self.off()?.iter().all(|off| *off))
        })
    }

    fn wait_on(&self) -> Outcome {
        wait_until("all others are on", || {
            let on = self.others.iter().map(Owner::is_on);
            Ok(on.collect::<Result<Vec<_>>>()?.iter().all(|on| *on))
        })
    }

    /// A request goes well. A worker that comes late takes it for the one before, in which a TSG
    /// that failed is not tried again: then it is the next one's turn.
    pub(super) fn goes_on(&self) -> Outcome {
        let mut last = Ok(());
        for _ in 0..10 {
            let request = self.begin()?;
            last = self.wait_off_within(Duration::from_secs(5));
            self.end(request)?;
            self.wait_on()?;
            if last.is_ok() {
                break;
            }
        }
        last
    }

    /// Others that are off: in time, after a time-out, of an unresponsive GPU; and those that are
    /// not.
    fn wait_verdicts(&self, expected: [u64; 4]) -> Outcome {
        let mut found = [0; 4];
        wait_until(&format!("verdicts {expected:?}"), || {
            let now = self.lab.zernel.request_stats(Of::Level(Level::LC))?;
            let then = &self.before;
            found = [
                now.preempt_done - then.preempt_done,
                now.preempt_timeouts - then.preempt_timeouts,
                now.preempt_unresponsive - then.preempt_unresponsive,
                now.preempt_invalid - then.preempt_invalid,
            ];
            Ok(found == expected)
        })
        .with_context(|| format!("{found:?}"))
    }
}

/// From the trigger to ready all others are off, in however many lots, and nobody else is.
fn without_a_holder() -> Outcome {
    let stage = Stage::new(&[1, 3, LOT, 2 * LOT + 1])?;
    for round in 1..=3 {
        let calls = truth::kernel_calls(control::DISABLE_CHANNELS)?;
        let request = stage.begin()?;
        stage.wait_off()?;
        stage.wait_verdicts([4 * round, 0, 0, 0])?;
        check_eq!(stage.lc.truth()?.disabled, 0, "of the LC TSG");
        for other in &stage.others {
            check_eq!(u64::from(other.truth()?.preempts), round, "preemptions");
        }
        check_eq!(stage.lc.truth()?.preempts, 0, "preemptions of the LC TSG");
        // Those with up to a lot take one call each, the last one three.
        let made = truth::kernel_calls(control::DISABLE_CHANNELS)? - calls;
        check_eq!(made, 3 + 3, "calls that disable");
        stage.slot().ready_call(request)?;
        stage.wait_on()?;
        let made = truth::kernel_calls(control::DISABLE_CHANNELS)? - calls;
        check_eq!(made, 2 * (3 + 3), "calls in all");
        stage.slot().done_call(request)?;
    }
    agree()
}

/// Where the GPU itself waits, the driver has nothing to do.
fn with_a_holder() -> Outcome {
    let stage = Stage::new(&[1, 2])?;
    let calls = || -> Result<[u64; 2]> {
        let of = truth::kernel_calls;
        Ok([of(control::DISABLE_CHANNELS)?, of(control::PREEMPT)?])
    };
    let before = calls()?;
    for _ in 0..3 {
        let request = stage.slot().begin(&stage.at_once()?)?.number;
        wait_until("the trigger", || {
            let word = libzernel::request::Word::Trigger;
            Ok(stage.slot().load(word) == request.get())
        })?;
        std::thread::sleep(Duration::from_millis(20));
        stage.end(request)?;
    }
    check_eq!(calls()?, before, "calls that disable or preempt");
    stage.wait_on()
}

/// A tenant who frees its subdevice, or never had one, is kept off like others.
fn freed_subdevice() -> Outcome {
    let mut stage = Stage::new(&[2])?;
    let runtime = &stage.others[0].runtime;
    runtime.free(runtime.subdevice.context("a subdevice")?)?;
    let without = Spec {
        subdevice: false,
        ..Spec::USUAL
    };
    let other = Owner::new(&stage.lab, without, 2, Level::BE)?;
    stage.others.push(other);
    agree()?;
    stage.goes_on()?;
    stage.wait_verdicts([2, 0, 0, 0])
}

/// TSGs on another GPU, also of a client that tells nothing about it, go on.
fn other_gpus() -> Outcome {
    let stage = Stage::new(&[1])?;
    for subdevice in [true, false] {
        let spec = Spec {
            subdevice,
            ..Spec::on(1)
        };
        let far = Owner::new(&stage.lab, spec, 1, Level::BE)?;
        let request = stage.begin()?;
        stage.wait_off()?;
        check_eq!(far.truth()?.disabled, 0);
        check_eq!(far.truth()?.preempts, 0);
        stage.end(request)?;
        stage.wait_on()?;
    }
    Ok(())
}

/// The GPU may still finish it: the TSG is told to stay off all the same.
fn preempt_times_out() -> Outcome {
    let stage = Stage::new(&[1, 2])?;
    set_faults("control:0xa06c0105 timeout kernel")?;
    let request = stage.begin()?;
    stage.wait_verdicts([1, 1, 0, 0])?;
    stage.wait_off()?;
    stage.end(request)?;
    stage.wait_on()?;
    stage.goes_on()
}

/// One TSG that cannot be preempted goes on, the other one does not.
fn preempt_is_refused() -> Outcome {
    let stage = Stage::new(&[1, 2])?;
    set_faults("control:0xa06c0105 status=0x1f kernel")?;
    let request = stage.begin()?;
    stage.wait_verdicts([1, 0, 0, 1])?;
    stage.one_is_off()?;
    stage.end(request)?;
    stage.wait_on()?;
    stage.goes_on()
}

/// As before, at the next step.
fn disable_fails() -> Outcome {
    for status in [0x1f, 0x40, 0x57] {
        let stage = Stage::new(&[1, 2])?;
        set_faults(&format!("control:0x2080110b status={status:#x} kernel"))?;
        let request = stage.begin()?;
        stage.wait_verdicts([1, 0, 0, 1])?;
        stage.one_is_off()?;
        stage.end(request)?;
        stage.wait_on()?;
        stage.goes_on()?;
    }
    Ok(())
}

/// No TSG is left half disabled: the lots before the one that fails are undone.
fn later_lot_fails() -> Outcome {
    let stage = Stage::new(&[2 * LOT + 1])?;
    for good in 0..3 {
        for _ in 0..good {
            set_faults("control:0x2080110b us=1 kernel")?;
        }
        set_faults("control:0x2080110b status=0x40 kernel")?;
        let request = stage.begin()?;
        stage.wait_verdicts([good, 0, 0, good + 1])?;
        check_eq!(stage.others[0].truth()?.disabled, 0, "after {good} lots");
        stage.end(request)?;
        stage.goes_on()?;
    }
    agree()
}

/// A TSG that could not be enabled is enabled later.
fn enable_fails() -> Outcome {
    let stage = Stage::new(&[1, LOT + 1])?;
    for status in [0x40, 0x65, 0x03] {
        let request = stage.begin()?;
        stage.wait_off()?;
        set_faults(&format!("control:0x2080110b status={status:#x} kernel"))?;
        stage.end(request)?;
        stage
            .wait_on()
            .with_context(|| format!("status {status:#x}"))?;
        stage.goes_on()?;
    }
    Ok(())
}

/// Makes a channel whose end the hook does not see: its parameters name the memory that it ends
/// with only while the driver reads them. Returns that memory.
pub(super) fn unseen_channel(runtime: &Runtime, tsg: Handle) -> Result<Handle> {
    let memory = runtime.make(runtime.device, class::MEMORY, &mut [0; 4])?;
    let mut params = Area::new()?;
    let address = params.address(0);
    set_faults(&format!("alloc:{:#x} us=60000000 users", class::CHANNEL))?;
    std::thread::scope(|scope| -> Result<()> {
        let attempt = scope.spawn(|| {
            let none = Handle::NONE;
            let size = size_of::<ChannelParams>() as u32;
            let (file, client) = (&runtime.file, runtime.client);
            file.alloc_at(
                Form::USUAL,
                client,
                tsg,
                none,
                class::CHANNEL,
                address,
                size,
            )
        });
        let begun = wait_until("the driver is asked", || Ok(faults()?.is_empty()));
        params.put(offset_of!(ChannelParams, memory), &memory.0.to_ne_bytes());
        // Ends the delay.
        set_faults("none")?;
        attempt.join().expect("a thread that does not panic")?;
        begun
    })?;
    Ok(memory)
}

/// A channel that ends unseen, before its TSG is disabled or while it is, costs one more call, and
/// is forgotten.
fn dead_channel_is_in_the_way_once() -> Outcome {
    let calls = || truth::kernel_calls(control::DISABLE_CHANNELS);
    // With the dead one, so many lots; without it, so many.
    for (channels, with, without) in [(1, 1, 1), (LOT, 2, 1), (LOT + 1, 2, 2)] {
        let stage = Stage::new(&[channels])?;
        let owner = &stage.others[0];
        for is_off in [false, true] {
            let memory = unseen_channel(&owner.runtime, owner.tsg)?;
            agree()?;
            let free = || -> Outcome {
                owner.runtime.free(memory)?;
                check_eq!(owner.truth()?.channels, channels, "live channels");
                let known = Counts::of_table()?.get("channels")?;
                check_eq!(known, Counts::of_rm()?.get("channels")? + 1, "known ones");
                Ok(())
            };
            if !is_off {
                free()?;
            }
            let before = calls()?;
            let request = stage.begin()?;
            stage.wait_off()?;
            if is_off {
                free()?;
            }
            stage.end(request)?;
            stage.wait_on()?;
            agree()?;
            let usual = if is_off { with } else { without };
            let made = calls()? - before;
            check_eq!(made, usual + with + without, "calls, off: {is_off}");
            let before = calls()?;
            stage.goes_on()?;
            check_eq!(calls()? - before, 2 * without, "calls without it");
        }
        stage.wait_verdicts([4, 0, 0, 0])?;
    }
    Ok(())
}

/// zernel's client on a GPU goes when that is stopped, and comes anew.
fn stopped_gpu() -> Outcome {
    for _ in 0..3 {
        let stage = Stage::new(&[1, 2])?;
        stage.goes_on()?;
        drop(stage);
        wait_until("the GPU is stopped", || {
            Ok(Counts::of_rm()?.get("started_gpus")? == 0)
        })?;
        wait_until("zernel's clients are gone with it", || {
            Ok(Counts::of_rm()?.get("kernel_clients")? == 0)
        })?;
    }
    Ok(())
}

/// When zernel goes, while others are off, they go on, and no client of it is left.
fn no_client_is_left() -> Outcome {
    let runtime = {
        let stage = Stage::new(&[2])?;
        stage.begin()?;
        stage.wait_off()?;
        let Stage { mut others, .. } = stage;
        others.pop().context("the other one")?
    };
    unload("zernel_nvidia")?;
    check_eq!(runtime.truth()?.disabled, 0);
    check_eq!(Counts::of_rm()?.get("kernel_clients")?, 0);
    check_eq!(Counts::of_rm()?.get("started_gpus")?, 1);
    load("zernel_nvidia", "")
}
