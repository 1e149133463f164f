// SPDX-License-Identifier: GPL-2.0
//! The thread of an LC request is preferred from the trigger to the end, and not for longer.

use std::sync::mpsc;
use std::time::Duration;

use anyhow::Result;
use libzernel::request::{Begin, Number, Slots, Word};
use libzernel::{Level, Phase, Target, Tracking, Zernel};

use super::{at_once, far, longest_lease, slot, Client};
use crate::check_eq;
use crate::child::{in_child, Child};
use crate::common::{load_all, tid, tune, unload_all, wait_until, Lab};
use crate::harness::Outcome;
use crate::phase::nice::{nice, nice_of};
use crate::sim::turns::Suspended;

/// Preferred by 7, by requests of an LC client.
struct Stage {
    lab: Lab,
    client: Client,
}

impl Stage {
    fn new() -> Result<Self> {
        longest_lease()?;
        tune("request_nice", -7)?;
        let lab = Lab::open()?;
        let client = Client::new(&lab)?;
        lab.zernel.set_class(&Target::Tsg(client.tsg), Level::LC)?;
        Ok(Self { lab, client })
    }

    fn far(&self) -> Begin {
        far(self.client.tsg)
    }

    /// A request of slot 0 whose thread is preferred.
    fn preferred(&self) -> Result<Number> {
        let number = self.client.slot(0).begin(&at_once(self.client.tsg))?.number;
        wait_nice(-7)?;
        Ok(number)
    }
}

/// Waits until the calling thread has this nice value.
fn wait_nice(expected: i32) -> Outcome {
    wait_nice_of(tid(), expected)
}

fn wait_nice_of(tid: u32, expected: i32) -> Outcome {
    let mut last = 0;
    wait_until(&format!("a nice value of {expected}"), || {
        last = nice_of(tid)?;
        Ok(last == expected)
    })
    .map_err(|error| error.context(format!("it is {last}")))
}

/// Longer than it takes.
fn pause() {
    std::thread::sleep(Duration::from_millis(20));
}

/// All that the process itself ends a request with.
pub(super) fn until_the_end() -> Outcome {
    let stage = Stage::new()?;
    let slot = stage.client.slot(0);
    for _ in 0..3 {
        // Before the trigger there is nothing.
        let waits = slot.begin(&stage.far())?.number;
        pause();
        check_eq!(nice()?, 0);
        // Ready comes first, and is the trigger.
        slot.ready_call(waits)?;
        wait_nice(-7)?;
        slot.done_call(waits)?;
        wait_nice(0)?;
        // By stores alone.
        let number = stage.preferred()?;
        slot.ready(number);
        pause();
        check_eq!(nice()?, -7);
        slot.done(number);
        wait_nice(0)?;
        let number = stage.preferred()?;
        slot.cancel(number)?;
        wait_nice(0)?;
        // One that follows upon another.
        stage.preferred()?;
        stage.preferred()?;
        let next = slot.begin(&stage.far())?.number;
        wait_nice(0)?;
        slot.cancel(next)?;
    }
    // Its data does not come.
    tune("lease_us", 20_000)?;
    let late = slot.begin(&at_once(stage.client.tsg))?.number;
    wait_until("its lease is over", || {
        Ok(slot.load(Word::Release) == late.get())
    })?;
    wait_nice(0)?;
    longest_lease()?;
    // Those whom it makes are not preferred.
    stage.preferred()?;
    let thread = std::thread::spawn(nice).join().expect("a thread");
    check_eq!(thread?, 0, "a thread");
    in_child(|| {
        check_eq!(nice()?, 0, "a process");
        Ok(())
    })?;
    check_eq!(nice()?, -7);
    Ok(())
}

pub(super) fn until_an_end_by_others() -> Outcome {
    {
        let stage = Stage::new()?;
        stage.preferred()?;
        drop(stage.client.slots);
        wait_nice(0)?;
    }
    {
        let stage = Stage::new()?;
        let zernel = Zernel::open()?;
        let slots = Slots::map(&zernel, 0..64)?;
        slot(&slots, 0).begin(&at_once(stage.client.tsg))?;
        wait_nice(-7)?;
        drop((slots, zernel));
        wait_nice(0)?;
    }
    {
        let stage = Stage::new()?;
        stage.preferred()?;
        stage.client.context.destroy()?;
        wait_nice(0)?;
    }
    let stage = Stage::new()?;
    stage.preferred()?;
    let asleep = Suspended::new(&stage.lab.sim, 0)?;
    // zernel learns it from what the provider answers next.
    let target = Target::Tsg(stage.client.tsg);
    stage.lab.zernel.set_class(&target, Level::BE)?;
    wait_nice(0)?;
    drop(asleep);
    Ok(())
}

/// The level counts that was in force when the request began.
pub(super) fn of_lc_alone() -> Outcome {
    let stage = Stage::new()?;
    let slot = stage.client.slot(0);
    let target = Target::Tsg(stage.client.tsg);
    for number in 1..8 {
        let level = crate::common::level(number);
        stage.lab.zernel.set_class(&target, level)?;
        let request = slot.begin(&at_once(stage.client.tsg))?.number;
        pause();
        check_eq!(nice()?, 0, "level {number}");
        slot.done_call(request)?;
    }
    stage.lab.zernel.clear_class(&target)?;
    slot.begin(&at_once(stage.client.tsg))?;
    pause();
    check_eq!(nice()?, 0, "without a class");
    stage.lab.zernel.set_class(&target, Level::LC)?;
    let request = stage.preferred()?;
    stage.lab.zernel.set_class(&target, Level::BE)?;
    pause();
    check_eq!(nice()?, -7, "as it was");
    slot.done_call(request)?;
    wait_nice(0)
}

pub(super) fn tuned_at_once() -> Outcome {
    let stage = Stage::new()?;
    let request = stage.preferred()?;
    for delta in [-12, -1, -20] {
        tune("request_nice", delta)?;
        check_eq!(nice()?, delta);
    }
    tune("request_nice", 0)?;
    check_eq!(nice()?, 0);
    // Those that are triggered from now on.
    tune("request_nice", -7)?;
    pause();
    check_eq!(nice()?, 0);
    stage.client.slot(0).done_call(request)?;
    stage.preferred()?;
    Ok(())
}

/// The lower of both counts.
pub(super) fn beside_a_phase() -> Outcome {
    in_child(|| {
        let stage = Stage::new()?;
        tune("phase_nice", 1)?;
        let zernel = &stage.lab.zernel;
        let target = Target::current_process();
        zernel.track(&target, Tracking::ML)?;
        let long = Duration::from_secs(60);
        zernel.hint(&Target::CurrentThread, Phase::GpuCompute, long)?;
        check_eq!(nice()?, 5);
        let request = stage.preferred()?;
        zernel.hint(&Target::CurrentThread, Phase::DataLoading, long)?;
        check_eq!(nice()?, -7);
        tune("nice_data_loading", -9)?;
        check_eq!(nice()?, -9);
        stage.client.slot(0).done_call(request)?;
        pause();
        check_eq!(nice()?, -9);
        zernel.hint(&Target::CurrentThread, Phase::GpuCompute, long)?;
        // The end of the request is seen by a worker.
        wait_nice(5)?;
        stage.preferred()?;
        zernel.untrack(&target)?;
        check_eq!(nice()?, -7);
        tune("request_nice", 0)?;
        check_eq!(nice()?, 0);
        Ok(())
    })
}

/// The thread that uses a slot first, or first for another TSG or key.
pub(super) fn of_who_binds() -> Outcome {
    let stage = Stage::new()?;
    let begin = at_once(stage.client.tsg);
    stage.client.slot(0).begin(&begin)?;
    wait_nice(-7)?;
    std::thread::scope(|scope| -> Outcome {
        let other = scope.spawn(|| -> Outcome {
            let slot = stage.client.slot(0);
            // As the one before it: that is whose request it is taken for.
            slot.begin(&begin)?;
            pause();
            check_eq!(nice()?, 0, "who has not bound the slot");
            slot.begin(&begin.key(super::new_key()))?;
            wait_nice(-7)
        });
        other.join().expect("another thread")
    })?;
    wait_nice(0)
}

/// Threads that exit with a request of theirs under way.
pub(super) fn of_who_exits() -> Outcome {
    let stage = Stage::new()?;
    for number in 0..8 {
        std::thread::scope(|scope| {
            let other = scope.spawn(|| -> Outcome {
                let slot = stage.client.slot(number);
                slot.begin(&at_once(stage.client.tsg))?;
                match number % 2 {
                    0 => wait_nice(-7),
                    _ => Ok(()),
                }
            });
            other.join().expect("a thread that ends")
        })?;
    }
    // And one that is killed.
    let child = Child::spawn(|| {
        let client = Client::new(&stage.lab)?;
        let target = Target::Tsg(client.tsg);
        stage.lab.zernel.set_class(&target, Level::LC)?;
        client.slot(0).begin(&at_once(client.tsg))?;
        wait_nice(-7)?;
        sys_sleep()
    })?;
    wait_nice_of(child.pid(), -7)?;
    drop(child);
    check_eq!(nice()?, 0);
    Ok(())
}

fn sys_sleep() -> Outcome {
    loop {
        std::thread::sleep(Duration::from_secs(60));
    }
}

/// A thread is preferred as long as one of its requests is under way; those of several threads at
/// once, begun and ended all the time, leave nothing.
pub(super) fn of_many_slots() -> Outcome {
    let stage = Stage::new()?;
    let slots: Vec<_> = (0..8).map(|number| stage.client.slot(number)).collect();
    let mut last = None;
    for slot in &slots {
        // Each of a key of its own: what is learned from one puts off the trigger of the next.
        let number = slot.begin(&at_once(stage.client.tsg))?.number;
        if let Some((slot, number)) = last.replace((slot, number)) {
            wait_nice(-7)?;
            libzernel::request::Slot::done_call(slot, number)?;
        }
    }
    pause();
    check_eq!(nice()?, -7, "the last one");
    if let Some((slot, number)) = last {
        slot.cancel(number)?;
    }
    wait_nice(0)?;
    let (tell, told) = mpsc::channel();
    std::thread::scope(|scope| -> Outcome {
        let threads: Vec<_> = (0..3)
            .map(|thread| {
                let (tell, stage) = (tell.clone(), &stage);
                scope.spawn(move || -> Outcome {
                    for turn in 0..200 {
                        let slot = stage.client.slot(10 + 4 * thread + turn % 4);
                        let begin = at_once(stage.client.tsg).key(u64::from(turn % 3));
                        let number = slot.begin(&begin)?.number;
                        match turn % 3 {
                            0 => slot.done_call(number)?,
                            1 => slot.cancel(number)?,
                            _ => slot.done(number),
                        }
                        if turn % 16 == 0 {
                            std::thread::spawn(|| ()).join().expect("a thread");
                        }
                    }
                    tell.send(tid()).expect("somebody listens");
                    wait_nice(0)
                })
            })
            .collect();
        for delta in [0, -7, -3, 0, -7] {
            tune("request_nice", delta)?;
            pause();
        }
        for thread in threads {
            thread.join().expect("one that begins requests")?;
        }
        Ok(())
    })?;
    drop(tell);
    check_eq!(told.iter().count(), 3);
    check_eq!(nice()?, 0);
    Ok(())
}

/// Modules go as soon as the files are closed, whatever was under way.
pub(super) fn unload() -> Outcome {
    for _ in 0..3 {
        load_all()?;
        let stage = Stage::new()?;
        stage.preferred()?;
        drop(stage);
        wait_until("nobody uses them", || Ok(unload_all().is_ok()))?;
        check_eq!(nice()?, 0);
    }
    load_all()
}
