// SPDX-License-Identifier: MIT OR Apache-2.0
//! The registers of run lists and channels show what the engine does.

use std::fs::OpenOptions;
use std::os::fd::AsFd;
use std::sync::atomic::Ordering;
use std::time::Duration;

use anyhow::{ensure, Context as _, Result};
use libzernel::sim::{Condition, Item, Sim, TsgStats};
use libzernel::sys::memory::SharedMemory;
use rustix::io::Errno;
use testkit::check_eq;
use testkit::harness::{case, Outcome, Suite};
use testkit::random::Random;

use super::plan::{self, errno_of, Plan, TICK};
use crate::lab::ENGINE;
use crate::options;
use crate::rm::abi::{self, control, engine};
use crate::rm::truth::{self, Place};
use crate::rm::{status_of, Runtime, Spec, Status};

/// The suite.
pub const SUITE: Suite = Suite::new(
    "simrm.registers",
    &[
        case(
            "places_are_told_to_the_kernel",
            places_are_told_to_the_kernel,
        ),
        case("a_channel_shows_its_work", a_channel_shows_its_work),
        case("they_agree_with_the_truth", they_agree_with_the_truth),
        case("they_lie_on_demand", they_lie_on_demand),
        case("a_false_pending_stays", a_false_pending_stays),
        case("a_doorbell_is_lost", a_doorbell_is_lost),
    ],
    ENGINE,
);

const PAGE: u64 = 4096;
/// Where a run list tells of its channels and of its engine.
const CHANNEL_CONFIG: u32 = 0x004;
const ENGINE_STATUS0: u32 = 0x200;

/// Fields of the state of an engine.
const VALID: u32 = 1;
const BUSY_ENGINE: u32 = 1 << 31;

/// Bits of a channel.
const ENABLE: u32 = 1 << 1;
const BUSY: u32 = 1 << 3;
const ON_ENG: u32 = 1 << 7;
const PENDING: u32 = 1 << 8;
const CTX_RELOAD: u32 = 1 << 9;
const ACQUIRE_FAIL: u32 = 1 << 12;

/// The registers of a run list.
struct Registers {
    runlist: SharedMemory,
    channels: SharedMemory,
}

impl Registers {
    fn of(runtime: &Runtime, place: Place) -> Result<Self> {
        let path = format!("/sys/bus/pci/devices/{}/resource0", runtime.bus());
        let bar = OpenOptions::new().read(true).write(true).open(&path);
        let bar = bar.context(path)?;
        let map = |offset: u32, pages: usize| {
            SharedMemory::of_file(bar.as_fd(), u64::from(offset), pages).context("map registers")
        };
        Ok(Self {
            runlist: map(place.runlist, 1)?,
            channels: map(place.channels, 2)?,
        })
    }

    fn of_plan(plan: &Plan) -> Result<Self> {
        let held = truth::tsg(plan.runtime.client, plan.tsg)?;
        Self::of(&plan.runtime, truth::registers(held.runlist)?)
    }

    fn runlist(&self, offset: u32) -> u32 {
        self.runlist.words()[offset as usize / 4].load(Ordering::Acquire)
    }

    fn status(&self) -> u32 {
        self.runlist(ENGINE_STATUS0)
    }

    fn channel(&self, chid: u32) -> u32 {
        self.channels.words()[chid as usize].load(Ordering::Acquire)
    }
}

/// The state of the context and the TSG of an engine.
fn holder(status: u32) -> (u32, u32) {
    (status >> 13 & 7, status & 0xfff)
}

/// The numbers of a plan's TSG and of its channels.
fn numbers(plan: &Plan) -> Result<(u32, Vec<u32>)> {
    let held = truth::tsg(plan.runtime.client, plan.tsg)?;
    Ok((held.number, held.chids))
}

fn places_are_told_to_the_kernel() -> Outcome {
    let runtime = Runtime::open()?;
    let mut places = truth::places()?;
    let engines = places.iter().map(|place| place.engine);
    ensure!(engines.eq(engine::GR0..engine::COPY0 + 10), "{places:?}");
    for place in &places {
        check_eq!(place.runlist % 1024, 0, "a run list");
        check_eq!(u64::from(place.channels) % PAGE, 0, "its channels");
    }
    let first = Registers::of(&runtime, places[0])?;
    let config = first.runlist(CHANNEL_CONFIG);
    check_eq!(config & !0xf, places[0].channels, "as the run list says");
    check_eq!(config & 0xf, 11, "2,048 channels");
    places.dedup();
    check_eq!(places.len(), 18, "each has its own");
    let subdevice = runtime.subdevice.context("a subdevice")?;
    let mut table = abi::DeviceTable::default();
    let answer = runtime.control(subdevice, control::DEVICE_TABLE, &mut table);
    check_eq!(status_of(answer)?, Status::INSUFFICIENT_PERMISSIONS);
    let mut list = abi::ChannelList::default();
    let answer = runtime.control(runtime.device, control::CHANNEL_LIST, &mut list);
    check_eq!(status_of(answer)?, Status::INSUFFICIENT_PERMISSIONS);
    Ok(())
}

fn a_channel_shows_its_work() -> Outcome {
    let sim = Sim::open()?;
    let (first, second) = plan::holder_and_next(&sim)?;
    let (id, chids) = numbers(&first)?;
    let (next, waiting) = numbers(&second)?;
    ensure!(
        id != next && !chids.contains(&waiting[0]),
        "{chids:?} {waiting:?}"
    );
    let registers = Registers::of_plan(&first)?;
    check_eq!(registers.status(), BUSY_ENGINE | VALID << 13 | id);
    let on = registers.channel(chids[0]);
    ensure!(on & ON_ENG != 0 && on & PENDING == 0, "{on:#x}");
    check_eq!(registers.channel(chids[1]), ENABLE, "an idle channel");
    first.submit(1, &[Item::wait(0, Condition::AtLeast, 1)])?;
    let blocked = registers.channel(chids[1]);
    check_eq!(blocked, ENABLE | BUSY | PENDING | ACQUIRE_FAIL, "blocked");
    check_eq!(registers.channel(waiting[0]), ENABLE, "before its work");
    let done = second.submit(0, &[Item::work(TICK)])?;
    check_eq!(registers.channel(waiting[0]), ENABLE | BUSY | PENDING);
    first.disable(&first.channels, true)?;
    second.wait(0, done)?;
    check_eq!(registers.channel(chids[0]), BUSY | CTX_RELOAD, "disabled");
    check_eq!(registers.channel(waiting[0]), ENABLE, "done");
    let (state, holds) = holder(registers.status());
    check_eq!((state, holds), (VALID, next), "still loaded");
    check_eq!(registers.status() & BUSY_ENGINE, 0, "and idle");
    // Nothing is left of a TSG that is given back.
    drop((first, second));
    check_eq!(registers.status(), 0);
    for chid in chids.into_iter().chain(waiting) {
        check_eq!(registers.channel(chid), 0, "channel {chid}");
    }
    Ok(())
}

/// A TSG's figures that a moment changes.
fn moment(stats: &TsgStats) -> (bool, bool, u64, u64, u64) {
    (
        stats.on_engine,
        stats.enabled,
        stats.queued,
        stats.completed,
        stats.switches,
    )
}

/// Compares the registers with the truth, if that was the same before and after.
fn compare(plans: &[Plan], registers: &Registers, numbers: &[(u32, Vec<u32>)]) -> Result<bool> {
    let truth = || -> Result<Vec<TsgStats>> {
        let stats = plans.iter().map(|plan| Ok(plan.context.stats()?));
        stats.collect()
    };
    let before = truth()?;
    let status = registers.status();
    let channels: Vec<Vec<u32>> = numbers
        .iter()
        .map(|(_, chids)| chids.iter().map(|&chid| registers.channel(chid)).collect())
        .collect();
    let after = truth()?;
    if before.iter().map(moment).ne(after.iter().map(moment)) {
        return Ok(false);
    }
    let running = before.iter().position(|stats| stats.on_engine);
    if let Some(at) = running {
        check_eq!(
            holder(status),
            (VALID, numbers[at].0),
            "{status:#x}: the TSG"
        );
        ensure!(status & BUSY_ENGINE != 0, "{status:#x}: works");
    }
    for (stats, words) in before.iter().zip(&channels) {
        let all = words.iter().fold(0, |all, word| all | word);
        let what = format!("{words:x?} of {stats:?}, status {status:#x}");
        check_eq!(all & ENABLE != 0, stats.enabled, "{what}: enabled");
        check_eq!(all & ON_ENG != 0, stats.on_engine, "{what}: on the engine");
        check_eq!(all & BUSY != 0, stats.queued != 0, "{what}: has work");
        if stats.on_engine {
            check_eq!(all & CTX_RELOAD, 0, "{what}");
        }
    }
    Ok(true)
}

fn they_agree_with_the_truth() -> Outcome {
    const MOMENTS: u32 = 1_000;
    let sim = Sim::open()?;
    let plans = (0..4).map(|_| Plan::new(&sim, Spec::USUAL, 2));
    let plans: Vec<Plan> = plans.collect::<Result<_>>()?;
    for plan in &plans {
        plan.runtime.set_timeslice(plan.tsg, 3_000)?;
    }
    let numbers: Vec<_> = plans.iter().map(numbers).collect::<Result<_>>()?;
    let registers = Registers::of_plan(&plans[0])?;
    let mut random = Random::new(options::seed());
    let (mut same, mut tries, mut ran) = (0, 0, 0);
    while same < MOMENTS {
        tries += 1;
        ensure!(tries < 100 * MOMENTS, "{same} moments of {tries}");
        let plan = &plans[random.below(4) as usize];
        match random.below(8) {
            0..=3 => {
                let time = Duration::from_micros(50 + random.below(9_000));
                let channel = random.below(2) as u32;
                match plan.submit(channel, &[Item::work(time)]) {
                    Ok(_) => {}
                    Err(error) => return Err(error),
                }
            }
            4 => plan.disable(&plan.channels, random.below(2) == 0)?,
            5 => plan.restart(random.below(2) == 0)?,
            _ => std::thread::sleep(Duration::from_micros(random.below(3_000))),
        }
        if plan.context.stats()?.queued > 100 {
            plan.disable(&plan.channels, false)?;
            let last = plan.submit(0, &[Item::fence()])?;
            plan.wait(0, last)?;
        }
        if compare(&plans, &registers, &numbers)? {
            same += 1;
            ran += u32::from(holder(registers.status()).0 == VALID);
        }
    }
    ensure!(ran > MOMENTS / 10, "{ran} moments with a TSG on the engine");
    Ok(())
}

fn they_lie_on_demand() -> Outcome {
    let sim = Sim::open()?;
    let plan = Plan::new(&sim, Spec::USUAL, 1)?;
    let other = Plan::new(&sim, Spec::on(1), 1)?;
    let (_, chids) = numbers(&plan)?;
    let (of_plan, of_other) = (Registers::of_plan(&plan)?, Registers::of_plan(&other)?);
    for value in [0xbadf_5040, u32::MAX] {
        sim.lie(0, Some(value))?;
        check_eq!(of_plan.status(), value);
        check_eq!(of_plan.channel(chids[0]), value);
        let done = plan.submit(0, &[Item::work(TICK)])?;
        plan.wait(0, done)?;
        check_eq!(of_plan.channel(chids[0]), value, "after work");
        let (_, elsewhere) = numbers(&other)?;
        check_eq!(of_other.channel(elsewhere[0]), ENABLE, "of another GPU");
    }
    sim.lie(0, None)?;
    check_eq!(of_plan.channel(chids[0]), ENABLE, "the truth");
    ensure!(holder(of_plan.status()).0 == VALID, "the truth");
    check_eq!(errno_of(sim.lie(77, None)), Some(Errno::NOENT), "no GPU");
    Ok(())
}

fn a_false_pending_stays() -> Outcome {
    let sim = Sim::open()?;
    let plan = Plan::new(&sim, Spec::USUAL, 2)?;
    let (_, chids) = numbers(&plan)?;
    let registers = Registers::of_plan(&plan)?;
    check_eq!(
        errno_of(plan.context.lie_pending(2)),
        Some(Errno::NOENT),
        "a third channel"
    );
    plan.context.lie_pending(0)?;
    check_eq!(registers.channel(chids[0]), ENABLE | PENDING);
    check_eq!(registers.channel(chids[1]), ENABLE, "the other one");
    let done = plan.submit(0, &[Item::work(TICK)])?;
    plan.wait(0, done)?;
    check_eq!(registers.channel(chids[0]), ENABLE | PENDING, "after work");
    plan.disable(&plan.channels, true)?;
    check_eq!(registers.channel(chids[0]), PENDING, "disabled");
    sim.lie(0, None)?;
    check_eq!(registers.channel(chids[0]), 0, "the truth");
    Ok(())
}

fn a_doorbell_is_lost() -> Outcome {
    let sim = Sim::open()?;
    let plan = Plan::new(&sim, Spec::USUAL, 2)?;
    let (_, chids) = numbers(&plan)?;
    let registers = Registers::of_plan(&plan)?;
    let third = errno_of(plan.context.lose_doorbell(2));
    check_eq!(third, Some(Errno::NOENT), "a third channel");
    for more in [false, true] {
        plan.disable(&plan.channels, true)?;
        plan.context.lose_doorbell(0)?;
        let mut done = plan.submit(0, &[Item::work(TICK)])?;
        check_eq!(registers.channel(chids[0]), 0, "not heard of");
        check_eq!(plan.context.stats()?.queued, 1, "and yet there");
        if more {
            done = plan.submit(0, &[Item::work(TICK)])?;
            check_eq!(registers.channel(chids[0]), BUSY | PENDING, "the next one");
        }
        plan.disable(&plan.channels, false)?;
        plan.wait(0, done)?;
    }
    // One that is enabled hears it.
    plan.context.lose_doorbell(1)?;
    let done = plan.submit(1, &[Item::work(TICK)])?;
    plan.wait(1, done)?;
    // Nobody but an administrator makes registers lie.
    testkit::sys::become_user(1000, 1000, &[])?;
    check_eq!(errno_of(sim.lie(0, None)), Some(Errno::PERM));
    check_eq!(errno_of(plan.context.lose_doorbell(0)), Some(Errno::PERM));
    Ok(())
}
