// SPDX-License-Identifier: MIT OR Apache-2.0
//! A driver without hooks, on the software resource manager: what zernel sees of it, what it can do,
//! and what it cannot.

use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{ensure, Context as _, Result};
use libzernel::{Level, Target};
use rustix::io::Errno;
use testkit::harness::{case, Outcome, Suite};
use testkit::module::FOLDER;
use testkit::{check_eq, wait_until, zernelctl};

use crate::lab::{
    agree, faults, load_driver, load_zernel, make_nodes, set_faults, wait_slice, Lab, ALL, BARE,
    GPUS, LOADED, ORIGINAL_LEVEL, ORIGINAL_US,
};
use crate::modules::{is_loaded, load, try_unload, unload_each, STOCK};
use crate::rm::abi::{control, engine};
use crate::rm::runtime;
use crate::rm::truth::{self, Counts};
use crate::rm::{status_of, Form, Handle, Runtime, Status};

/// The suite.
pub const SUITE: Suite = Suite::new(
    "stock",
    &[
        case("mode_is_told", mode_is_told),
        case("owners_changes_are_put_right", owners_changes_are_put_right),
        case("levels_are_put_right", levels_are_put_right),
        case("handle_is_used_again", handle_is_used_again),
        case("device_is_used_again", device_is_used_again),
        case("gpu_stops_and_starts", gpu_stops_and_starts),
        case("patience_has_bounds", patience_has_bounds),
    ],
    LOADED,
);

/// The module that comes and goes.
pub const MODULES: Suite = Suite::new(
    "stock.modules",
    &[
        case("older_tsgs_are_not_seen", older_tsgs_are_not_seen),
        case("a_call_outlives_the_probes", a_call_outlives_the_probes),
        case("users_keep_it", users_keep_it),
        case("another_version_is_refused", another_version_is_refused),
        case("gpus_come_and_go", gpus_come_and_go),
    ],
    BARE,
);

fn mode_is_told() -> Outcome {
    let lab = Lab::open()?;
    let mut count = 0;
    for gpu in lab.zernel.gpus() {
        let gpu = gpu?;
        check_eq!(gpu.provider, "nvidia");
        ensure!(
            gpu.driver.ends_with(" observe+control"),
            "driver: {}",
            gpu.driver
        );
        ensure!(!gpu.can.control, "it refuses owners' changes");
        ensure!(gpu.can.timeslice && gpu.can.interleave && gpu.can.preempt && gpu.can.enable);
        ensure!(!gpu.turns, "it has turns without registers");
        count += 1;
    }
    check_eq!(count, GPUS);
    let text = zernelctl::says(&["gpu", "list"])?;
    ensure!(text.contains("observe+control"), "{text}");
    Ok(())
}

/// They are denied where they can be; here they have happened when they are seen.
fn owners_changes_are_put_right() -> Outcome {
    let lab = Lab::open()?;
    let runtime = Runtime::open()?;
    let tsg = runtime.compute()?;
    lab.class(&runtime, tsg, Level::BE)?;
    wait_slice(&runtime, tsg, 200)?;
    let before = lab.stats()?;
    for _ in 0..5 {
        runtime.set_timeslice(tsg, 100_000)?;
        wait_slice(&runtime, tsg, 200)?;
    }
    let after = lab.stats()?;
    check_eq!(after.controls_denied, before.controls_denied);
    check_eq!(after.controls_reapplied, before.controls_reapplied + 5);
    Ok(())
}

fn levels_are_put_right() -> Outcome {
    let lab = Lab::open()?;
    let runtime = Runtime::open()?;
    let tsg = runtime.compute()?;
    lab.class(&runtime, tsg, Level::LC)?;
    lab.quiet()?;
    let level = truth::tsg(runtime.client, tsg)?.interleave;
    let mut other = if level == 0 { 2u32 } else { 0 };
    runtime.control(tsg, control::SET_INTERLEAVE, &mut other)?;
    wait_until("the level is zernel's again", || {
        Ok(truth::tsg(runtime.client, tsg)?.interleave == level)
    })
}

/// Runs `make` over and over while another thread frees `object`, and waits for both; then what is
/// listed is what there is.
fn race(runtime: &Runtime, object: Handle, make: impl Fn() -> Result<()> + Sync) -> Result<()> {
    const ROUNDS: u32 = 3_000;
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| -> Result<()> {
        let freeing = scope.spawn(|| -> Result<()> {
            while !over.load(Ordering::Relaxed) {
                runtime.free(object)?;
            }
            Ok(())
        });
        let made = (0..ROUNDS).try_for_each(|_| make());
        over.store(true, Ordering::Relaxed);
        freeing.join().expect("a thread that does not panic")?;
        made
    })?;
    agree()
}

/// A handle is freed and given anew side by side: no TSG is lost, and none is left.
fn handle_is_used_again() -> Outcome {
    const OBJECT: Handle = Handle(0xa06c_7777);
    let lab = Lab::open()?;
    let runtime = Runtime::open()?;
    let make = || {
        let (file, client) = (&runtime.file, runtime.client);
        let made = runtime::tsg(
            file,
            Form::USUAL,
            client,
            runtime.device,
            OBJECT,
            Handle::NONE,
            engine::GR0,
        );
        let status = status_of(made)?;
        ensure!(
            [Status::OK, Status::INSERT_DUPLICATE_NAME].contains(&status),
            "{status:?}"
        );
        Ok(())
    };
    race(&runtime, OBJECT, make)?;
    make()?;
    lab.tsg(&runtime, OBJECT)?;
    agree()
}

/// The same with what it hangs on.
fn device_is_used_again() -> Outcome {
    const DEVICE: Handle = Handle(0xd000_7777);
    let lab = Lab::open()?;
    let runtime = Runtime::open()?;
    let make = || {
        let (file, client) = (&runtime.file, runtime.client);
        // Each may go before the next.
        let device = runtime::device(file, Form::USUAL, client, DEVICE, 0);
        if status_of(device)? == Status::OK {
            let tsg = runtime::tsg(
                file,
                Form::USUAL,
                client,
                DEVICE,
                Handle::NONE,
                Handle::NONE,
                engine::GR0,
            );
            status_of(tsg)?;
        }
        Ok(())
    };
    race(&runtime, DEVICE, make)?;
    check_eq!(lab.tsgs()?.len() as u64, Counts::of_rm()?.get("tsgs")?);
    Ok(())
}

fn gpu_stops_and_starts() -> Outcome {
    let lab = Lab::open()?;
    for _ in 0..5 {
        let runtime = Runtime::open()?;
        let tsg = runtime.compute()?;
        lab.class(&runtime, tsg, Level::BE)?;
        wait_slice(&runtime, tsg, 200)?;
        drop(runtime);
        wait_until("the GPU is stopped", || {
            Ok(Counts::of_rm()?.get("started_gpus")? == 0)
        })?;
        agree()?;
        check_eq!(lab.tsgs()?, []);
    }
    Ok(())
}

/// Without patience a call goes on at once, and is replayed all the same.
fn patience_has_bounds() -> Outcome {
    const FILE: &str = "/sys/module/zernel_nvidia_stock/parameters/patience_ms";
    let usual = fs::read_to_string(FILE)?;
    for odd in ["10001", "-1", "soon"] {
        let refused = fs::write(FILE, odd).expect_err("a value out of bounds");
        check_eq!(
            refused.raw_os_error(),
            Some(Errno::INVAL.raw_os_error()),
            "{odd:?}"
        );
        check_eq!(fs::read_to_string(FILE)?, usual, "after {odd:?}");
    }
    fs::write(FILE, "0")?;
    let seen = (|| {
        let lab = Lab::open()?;
        let runtime = Runtime::open()?;
        let tsg = runtime.compute()?;
        wait_until("it is listed", || Ok(lab.find(&runtime, tsg)?.is_some()))
    })();
    fs::write(FILE, usual)?;
    seen
}

/// One that is older than the probes is listed as soon as its owner makes a channel on it.
fn older_tsgs_are_not_seen() -> Outcome {
    load_driver()?;
    unload_each(&[STOCK])?;
    let runtime = Runtime::open()?;
    let tsg = runtime.compute()?;
    load(STOCK, "")?;
    load_zernel()?;
    let lab = Lab::open()?;
    check_eq!(lab.tsgs()?, []);
    runtime.channel(tsg)?;
    check_eq!(lab.tsgs()?.len(), 1);
    check_eq!(lab.tsgs()?[0].hw_tsg, runtime.number(tsg)?);
    // The GPU was started before, too: its run lists can be told to heed levels.
    let id = lab.tsgs()?[0].id;
    lab.zernel.set_class(&Target::Tsg(id), Level::LC)?;
    wait_until("its level is higher", || {
        Ok(truth::tsg(runtime.client, tsg)?.interleave > ORIGINAL_LEVEL)
    })?;
    drop(runtime);
    wait_until("it goes with its file", || Ok(lab.tsgs()?.is_empty()))
}

/// The probes go while a call that they saw is in the driver.
fn a_call_outlives_the_probes() -> Outcome {
    load_driver()?;
    load_zernel()?;
    let runtime = Runtime::open()?;
    let tsg = runtime.compute()?;
    set_faults("control:0xa06c0103 us=3000000 users")?;
    std::thread::scope(|scope| -> Result<()> {
        let call = scope.spawn(|| runtime.set_timeslice(tsg, 100_000));
        wait_until("the call is in the driver", || Ok(faults()?.is_empty()))?;
        unload_each(&["zernel_nvidia", STOCK])?;
        ensure!(!call.is_finished(), "the call was too short");
        let answer = call.join().expect("a thread that does not panic");
        check_eq!(status_of(answer)?, Status::OK);
        Ok(())
    })?;
    check_eq!(truth::tsg(runtime.client, tsg)?.slice_us, 100_000);
    load(STOCK, "")?;
    load_zernel()?;
    let second = runtime.compute()?;
    Lab::open()?.tsg(&runtime, second)?;
    Ok(())
}

fn users_keep_it() -> Outcome {
    load_driver()?;
    load_zernel()?;
    check_eq!(try_unload(STOCK), Err(Errno::AGAIN), "with the provider");
    unload_each(&["zernel_nvidia"])?;
    check_eq!(try_unload("nvidia"), Err(Errno::AGAIN), "with the probes");
    unload_each(&[STOCK])?;
    ensure!(
        load("zernel_nvidia", "").is_err(),
        "the provider loads on a driver without hooks"
    );
    // Each goes and comes without the others.
    for _ in 0..5 {
        load(STOCK, "")?;
        let runtime = Runtime::open()?;
        let tsg = runtime.compute()?;
        load_zernel()?;
        let lab = Lab::open()?;
        lab.class(&runtime, tsg, Level::BE)?;
        wait_slice(&runtime, tsg, 200)?;
        drop(lab);
        unload_each(&["zernel_nvidia", STOCK])?;
        check_eq!(truth::tsg(runtime.client, tsg)?.slice_us, ORIGINAL_US);
    }
    Ok(())
}

/// The driver's own check of versions: types may differ in any other one.
fn another_version_is_refused() -> Outcome {
    const OTHER: &str = "/tmp/nvidia-of-another-version.ko";
    load_driver()?;
    let version = fs::read_to_string("/sys/module/nvidia/version")?;
    let version = version.trim().as_bytes().to_vec();
    unload_each(&ALL)?;
    let mut module = fs::read(format!("{FOLDER}/nvidia.ko"))?;
    let mut found = 0;
    for at in 0..module.len() - version.len() {
        if module[at..].starts_with(&version) {
            module[at + version.len() - 1] ^= 1;
            found += 1;
        }
    }
    ensure!(found > 0, "nvidia.ko does not hold its version");
    fs::write(OTHER, &module)?;
    load("fakegpu", "")?;
    let file = fs::File::open(OTHER)?;
    rustix::system::finit_module(&file, c"", 0).context("load another version")?;
    let refused = load(STOCK, "").expect_err("a version that is not known");
    check_eq!(
        refused.downcast_ref::<Errno>(),
        Some(&Errno::PROTONOSUPPORT)
    );
    unload_each(&["nvidia", "fakegpu"])?;
    fs::remove_file(OTHER)?;
    // The right one is taken again.
    load_driver()?;
    ensure!(is_loaded(STOCK));
    Ok(())
}

fn gpus_come_and_go() -> Outcome {
    load("fakegpu", &format!("gpus={GPUS}"))?;
    load("nvidia", "")?;
    load("zernel", "")?;
    load("zernel_nvidia", "")?;
    make_nodes()?;
    let lab = Lab::open()?;
    for _ in 0..3 {
        check_eq!(lab.stats()?.gpus, u64::from(GPUS));
        unload_each(&["fakegpu"])?;
        wait_until("zernel forgets them", || Ok(lab.stats()?.gpus == 0))?;
        load("fakegpu", &format!("gpus={GPUS}"))?;
        wait_until("zernel has them again", || {
            Ok(lab.stats()?.gpus == u64::from(GPUS))
        })?;
    }
    let runtime = Runtime::open()?;
    let tsg = runtime.compute()?;
    lab.class(&runtime, tsg, Level::BE)?;
    wait_slice(&runtime, tsg, 200)?;
    Ok(())
}
