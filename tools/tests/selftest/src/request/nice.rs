// SPDX-License-Identifier: MIT OR Apache-2.0
//! The thread of an LC request is preferred from the trigger to the end, and not for longer.

use std::time::Duration;

use anyhow::Result;
use libzernel::request::{Number, Word};
use libzernel::{Level, Phase, Target, Tracking};

use super::{at_once, far, lab, longest_lease, new_key, Client, UPDATES};
use crate::check_eq;
use crate::child::{in_child, Child};
use crate::common::{level, load_all, tid, tune, unload_all, wait_until, Lab};
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
        tune("request_nice", -7)?;
        let (lab, client) = lab()?;
        lab.zernel.set_class(&Target::Tsg(client.tsg), Level::LC)?;
        Ok(Self { lab, client })
    }

    /// A request of slot 0 that is triggered at once.
    fn begin(&self) -> Result<Number> {
        Ok(self.client.slot(0).begin(&at_once(self.client.tsg))?.number)
    }

    /// The same; its thread is preferred.
    fn preferred(&self) -> Result<Number> {
        let number = self.begin()?;
        wait_nice(-7)?;
        Ok(number)
    }
}

/// Waits until the calling thread has this nice value.
fn wait_nice(expected: i32) -> Outcome {
    wait_nice_of(tid(), expected)
}

fn wait_nice_of(tid: u32, expected: i32) -> Outcome {
    wait_until(&format!("a nice value of {expected}"), || {
        Ok(nice_of(tid)? == expected)
    })
    .map_err(|error| error.context(format!("it is {:?}", nice_of(tid))))
}

/// Fails unless the calling thread still has this nice value after longer than a change takes.
fn stays(expected: i32, what: &str) -> Outcome {
    std::thread::sleep(Duration::from_millis(20));
    check_eq!(nice()?, expected, "{what}");
    Ok(())
}

/// All that the process itself ends a request with.
pub(super) fn until_the_end() -> Outcome {
    let stage = Stage::new()?;
    let slot = stage.client.slot(0);
    for _ in 0..3 {
        for (_, end) in &UPDATES[1..] {
            let waits = slot.begin(&far(stage.client.tsg))?.number;
            stays(0, "before the trigger")?;
            // Ready comes first, and is the trigger.
            slot.ready_call(waits)?;
            wait_nice(-7)?;
            end(&slot, waits)?;
            wait_nice(0)?;
        }
        // By stores alone.
        let number = stage.preferred()?;
        slot.ready(number);
        stays(-7, "ready")?;
        slot.done(number);
        wait_nice(0)?;
        // One that follows upon another.
        stage.preferred()?;
        stage.preferred()?;
        let next = slot.begin(&far(stage.client.tsg))?.number;
        wait_nice(0)?;
        slot.cancel(next)?;
    }
    // Its data does not come.
    tune("lease_us", 20_000)?;
    let late = stage.begin()?;
    wait_until("its lease is over", || {
        Ok(slot.load(Word::Release) == late.get())
    })?;
    wait_nice(0)?;
    longest_lease()?;
    // Its children are not preferred.
    let request = stage.preferred()?;
    let thread = std::thread::spawn(nice).join().expect("a thread");
    check_eq!(thread?, 0, "a thread");
    in_child(|| {
        check_eq!(nice()?, 0, "a process");
        Ok(())
    })?;
    check_eq!(nice()?, -7);
    // A change is complete when the tunable is written.
    for delta in [-12, -1, -20, 0] {
        tune("request_nice", delta)?;
        check_eq!(nice()?, delta);
    }
    // Back on it is for those that are triggered from now on.
    tune("request_nice", -7)?;
    stays(0, "triggered before")?;
    slot.done_call(request)?;
    stage.preferred()?;
    Ok(())
}

/// The file, the TSG or the GPU goes.
pub(super) fn until_an_end_by_others() -> Outcome {
    let ends: [fn(Lab, Client) -> Outcome; 3] = [
        |_, client| {
            drop(client.slots);
            wait_nice(0)
        },
        |_, client| {
            client.context.destroy()?;
            wait_nice(0)
        },
        |lab, client| {
            let _asleep = Suspended::new(&lab.sim, 0)?;
            // zernel learns it from what the provider answers next.
            lab.zernel.set_class(&Target::Tsg(client.tsg), Level::BE)?;
            wait_nice(0)
        },
    ];
    for end in ends {
        let stage = Stage::new()?;
        stage.preferred()?;
        end(stage.lab, stage.client)?;
    }
    Ok(())
}

/// The level counts that was in force when the request began.
pub(super) fn of_lc_alone() -> Outcome {
    let stage = Stage::new()?;
    let target = Target::Tsg(stage.client.tsg);
    for number in 1..8 {
        stage.lab.zernel.set_class(&target, level(number))?;
        stage.begin()?;
        stays(0, &format!("level {number}"))?;
    }
    stage.lab.zernel.clear_class(&target)?;
    stage.begin()?;
    stays(0, "without a class")?;
    stage.lab.zernel.set_class(&target, Level::LC)?;
    let request = stage.preferred()?;
    stage.lab.zernel.set_class(&target, Level::BE)?;
    stays(-7, "as it was")?;
    stage.client.slot(0).done_call(request)?;
    wait_nice(0)
}

/// The lower of both counts.
pub(super) fn beside_a_phase() -> Outcome {
    in_child(|| {
        let stage = Stage::new()?;
        tune("phase_nice", 1)?;
        let zernel = &stage.lab.zernel;
        let target = Target::current_process();
        zernel.track(&target, Tracking::ML)?;
        let hint = |phase| zernel.hint(&Target::CurrentThread, phase, Duration::from_secs(60));
        hint(Phase::GpuCompute)?;
        check_eq!(nice()?, 5);
        let request = stage.preferred()?;
        hint(Phase::DataLoading)?;
        check_eq!(nice()?, -7);
        tune("nice_data_loading", -9)?;
        check_eq!(nice()?, -9);
        stage.client.slot(0).done_call(request)?;
        stays(-9, "the phase's")?;
        hint(Phase::GpuCompute)?;
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

/// The thread is preferred that uses a slot first, or first for another TSG or key; it may exit, or
/// be killed, with a request under way.
pub(super) fn of_threads() -> Outcome {
    let stage = Stage::new()?;
    let begin = at_once(stage.client.tsg);
    for number in 0..4 {
        let slot = stage.client.slot(number);
        slot.begin(&begin)?;
        wait_nice(-7)?;
        std::thread::scope(|scope| {
            let other = scope.spawn(|| -> Outcome {
                // As the one before it: that is whose request it is taken for.
                slot.begin(&begin)?;
                stays(0, "who has not bound the slot")?;
                slot.begin(&begin.key(new_key()))?;
                match number % 2 {
                    0 => wait_nice(-7),
                    _ => Ok(()),
                }
            });
            other.join().expect("a thread that ends")
        })?;
        wait_nice(0)?;
    }
    let child = Child::spawn(|| {
        let client = Client::new(&stage.lab)?;
        let target = Target::Tsg(client.tsg);
        stage.lab.zernel.set_class(&target, Level::LC)?;
        client.slot(0).begin(&at_once(client.tsg))?;
        std::thread::sleep(super::FAR);
        Ok(())
    })?;
    wait_nice_of(child.pid(), -7)?;
    drop(child);
    check_eq!(nice()?, 0);
    Ok(())
}

/// A thread is preferred as long as one of its requests is under way; those of several threads at
/// once, begun and ended all the time, leave nothing.
pub(super) fn of_many_slots() -> Outcome {
    let stage = Stage::new()?;
    let mut last = None;
    for slot in stage.client.slots.slots().take(8) {
        // Each of a key of its own: what is learned from one puts off the trigger of the next.
        let number = slot.begin(&at_once(stage.client.tsg))?.number;
        if let Some((slot, number)) = last.replace((slot, number)) {
            wait_nice(-7)?;
            slot.done_call(number)?;
        }
    }
    // Its trigger may come late, and the ends of those before it.
    wait_until("the last one's thread stays preferred", || {
        Ok(stays(-7, "the last one").is_ok())
    })?;
    if let Some((slot, number)) = last {
        slot.cancel(number)?;
    }
    wait_nice(0)?;
    let thread = &|first: u32| -> Outcome {
        for turn in 0..200 {
            let slot = stage.client.slot(first + turn % 4);
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
        wait_nice(0)
    };
    std::thread::scope(|scope| -> Outcome {
        let threads = [10, 14, 18].map(|first| scope.spawn(move || thread(first)));
        for delta in [0, -7, -3, 0, -7] {
            tune("request_nice", delta)?;
            std::thread::sleep(Duration::from_millis(20));
        }
        let mut ends = threads.into_iter().map(|thread| thread.join());
        ends.try_for_each(|end| end.expect("one that begins requests"))
    })?;
    check_eq!(nice()?, 0);
    Ok(())
}

/// Modules go as soon as the files are closed, with requests under way.
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
