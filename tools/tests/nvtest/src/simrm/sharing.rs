// SPDX-License-Identifier: MIT OR Apache-2.0
//! TSGs that outlive or exceed their maker: passed files, forks, MPS servers, parts of a GPU.

use std::os::fd::AsFd;

use anyhow::{ensure, Context as _, Result};
use bytemuck::{bytes_of_mut, Zeroable};
use libzernel::{Level, Target};
use rustix::io::Errno;
use testkit::child::{Child, End};
use testkit::harness::{case, Outcome, Suite};
use testkit::{check_eq, passing, wait_until, Repeat};

use crate::lab::{agree, set_faults, wait_slice, Lab, LOADED, ORIGINAL_US};
use crate::rm::abi::{class, engine, MigParams};
use crate::rm::file::open_node;
use crate::rm::truth::{self, Counts};
use crate::rm::{status_of, ControlFile, Handle, Runtime, Status};

/// The suite.
pub const SUITE: Suite = Suite::new(
    "simrm.sharing",
    &[
        case("passed_file_keeps_the_tsg", passed_file_keeps_the_tsg),
        case("forked_file_keeps_the_tsg", forked_file_keeps_the_tsg),
        case(
            "killed_process_leaves_nothing",
            killed_process_leaves_nothing,
        ),
        case("late_clean_up_is_followed", late_clean_up_is_followed),
        case("aliases_in_a_chain", aliases_in_a_chain),
        case("mps_server_is_shared", mps_server_is_shared),
        case("mps_sheds_no_class", mps_sheds_no_class),
        case("parts_of_a_gpu_have_their_run_lists", parts_of_a_gpu),
    ],
    LOADED,
);

/// A process that makes a TSG in a file of its own, hands the file over and then does as told.
fn maker(end: impl FnOnce() -> Result<()>) -> Result<(ControlFile, Handle, Handle, Child)> {
    let (ours, its) = passing::pair()?;
    let child = Child::spawn(move || {
        let runtime = Runtime::open()?;
        let tsg = runtime.compute()?;
        runtime.channel(tsg)?;
        passing::send(&its, runtime.file.as_fd())?;
        passing::send_number(&its, u64::from(runtime.client.0))?;
        passing::send_number(&its, u64::from(tsg.0))?;
        end()
    })?;
    let file = ControlFile::from_fd(passing::receive(&ours)?);
    let client = Handle(u32::try_from(passing::receive_number(&ours)?)?);
    let tsg = Handle(u32::try_from(passing::receive_number(&ours)?)?);
    Ok((file, client, tsg, child))
}

fn passed_file_keeps_the_tsg() -> Outcome {
    let lab = Lab::open()?;
    // A GPU that nobody has open stops, and all that is on it ends.
    let _started = open_node("/dev/nvidia0")?;
    let (file, client, tsg, child) = maker(|| Ok(()))?;
    check_eq!(child.end()?, End::Exit(0));
    // Its maker is gone; the file, and so the TSG, is not.
    let listed = lab.tsgs()?;
    check_eq!(listed.len(), 1);
    check_eq!(listed[0].pid, 0, "a process that was reaped");
    agree()?;
    lab.zernel
        .set_class(&Target::Tsg(listed[0].id), Level::BE)?;
    lab.quiet()?;
    let mut slice = 0u64;
    let get = crate::rm::abi::control::GET_TIMESLICE;
    file.control(client, tsg, get, 0, &mut slice)?;
    check_eq!(slice, 200);
    drop(file);
    wait_until("the TSG is gone with its file", || {
        Ok(lab.tsgs()?.is_empty())
    })?;
    agree()
}

fn forked_file_keeps_the_tsg() -> Outcome {
    let lab = Lab::open()?;
    let (ours, its) = passing::pair()?;
    let child = Child::spawn(move || {
        let runtime = Runtime::open()?;
        runtime.compute()?;
        // Lives until the other end is closed.
        let grandchild = Child::spawn(|| {
            let _ = passing::receive_number(&its);
            drop(runtime);
            Ok(())
        })?;
        std::mem::forget(grandchild);
        Ok(())
    })?;
    check_eq!(child.end()?, End::Exit(0));
    check_eq!(lab.tsgs()?.len(), 1, "after its maker's end");
    agree()?;
    passing::send_number(&ours, 1)?;
    wait_until("the last descriptor is closed", || {
        Ok(lab.tsgs()?.is_empty())
    })?;
    agree()
}

fn killed_process_leaves_nothing() -> Outcome {
    let lab = Lab::open()?;
    for _ in Repeat::new(10, "processes") {
        let (ours, its) = passing::pair()?;
        let child = Child::spawn(move || {
            let runtimes: Vec<_> = (0..4).map(|_| Runtime::open()).collect::<Result<_>>()?;
            for runtime in runtimes.iter().cycle() {
                let tsg = runtime.compute()?;
                runtime.channel(tsg)?;
                if lab_is_full(runtime)? {
                    break;
                }
            }
            passing::send_number(&its, 1)?;
            loop {
                let tsg = runtimes[0].compute()?;
                runtimes[0].free(tsg)?;
            }
        })?;
        passing::receive_number(&ours)?;
        ensure!(lab.tsgs()?.len() >= 40, "too few TSGs");
        child.kill()?;
        check_eq!(child.end()?, End::Signal(9));
        wait_until("its TSGs are gone", || Ok(lab.tsgs()?.is_empty()))?;
        agree()?;
    }
    Ok(())
}

fn lab_is_full(runtime: &Runtime) -> Result<bool> {
    let listed = Lab::open()?;
    Ok(listed.gpu(&runtime.bus())?.tsgs >= 40)
}

/// The driver may free what a closed file leaves later, when the handles are somebody else's.
fn late_clean_up_is_followed() -> Outcome {
    let path = "/sys/module/nvidia/parameters/simrm_deferred_ms";
    std::fs::write(path, "10000")?;
    let outcome = (|| {
        let lab = Lab::open()?;
        let runtime = Runtime::open()?;
        let tsg = runtime.compute()?;
        lab.class(&runtime, tsg, Level::BE)?;
        drop(runtime);
        wait_until("zernel forgets it with the file", || {
            Ok(lab.tsgs()?.is_empty())
        })?;
        Counts::of_table()?.nothing()?;
        let dying = Counts::of_rm()?.get("dying_clients")?;
        ensure!(dying == 1, "{dying} clients wait for their end");
        // The next one may have the same numbers.
        let next = Runtime::open()?;
        let other = next.compute()?;
        lab.tsg(&next, other)?;
        wait_until("the driver has cleaned up", || {
            Ok(Counts::of_rm()?.get("dying_clients")? == 0)
        })?;
        lab.tsg(&next, other)?;
        agree()
    })();
    std::fs::write(path, "0")?;
    outcome
}

/// A TSG passed on from client to client: it lives as long as the last handle.
fn aliases_in_a_chain() -> Outcome {
    const LINKS: usize = 8;
    let lab = Lab::open()?;
    let mut runtime = Runtime::open()?;
    let mut tsg = runtime.compute()?;
    let listed = lab.tsg(&runtime, tsg)?;
    for link in 0..LINKS {
        let next = Runtime::open()?;
        let none = Handle::NONE;
        let alias = next
            .file
            .dup(next.client, next.device, none, runtime.client, tsg)?;
        check_eq!(lab.tsgs()?.len(), 1, "link {link}");
        match link % 4 {
            0 => runtime.free(tsg)?,
            1 => runtime.free(runtime.device)?,
            2 => runtime.free(runtime.client)?,
            _ => {}
        }
        drop(std::mem::replace(&mut runtime, next));
        tsg = alias;
        wait_until("the table has only the last handle", || {
            let table = Counts::of_table()?;
            Ok(table.get("tsg_handles")? == 1 && table.get("clients")? == 1)
        })?;
        agree()?;
        let now = lab.tsg(&runtime, tsg)?;
        check_eq!(now.id, listed.id, "link {link}");
    }
    // A channel below a later handle counts as well.
    runtime.channel(tsg)?;
    check_eq!(lab.tsg(&runtime, tsg)?.channels, 1);
    runtime.free(tsg)?;
    check_eq!(lab.tsgs()?, []);
    agree()
}

fn mps_server_is_shared() -> Outcome {
    let lab = Lab::open()?;
    let runtime = Runtime::open()?;
    let early = runtime.compute()?;
    runtime.make(runtime.client, class::MPS, &mut [])?;
    let late = runtime.compute()?;
    let bystander = Runtime::open()?;
    let other = bystander.compute()?;
    for (tsg, what) in [(early, "before"), (late, "after")] {
        let listed = lab.tsg(&runtime, tsg)?;
        ensure!(listed.shared, "a TSG that was made {what} is not shared");
        let refused = lab.zernel.set_class(&Target::Tsg(listed.id), Level::LC);
        let errno = refused.err().and_then(|error| error.errno());
        check_eq!(errno, Some(Errno::OPNOTSUPP), "made {what}");
    }
    // A class of the process that raises passes them by; one that holds down does not.
    lab.zernel
        .set_class(&Target::current_process(), Level::LC)?;
    wait_slice(&bystander, other, 5_000_000)?;
    lab.quiet()?;
    for tsg in [early, late] {
        check_eq!(runtime.timeslice(tsg)?, ORIGINAL_US);
        check_eq!(lab.tsg(&runtime, tsg)?.level, None);
    }
    lab.zernel
        .set_class(&Target::current_process(), Level::BE)?;
    for tsg in [early, late] {
        wait_slice(&runtime, tsg, 200)?;
        check_eq!(lab.tsg(&runtime, tsg)?.level, Some(Level::BE));
    }
    Ok(())
}

/// Any program can say that it serves MPS clients. Its class stays, and is not its to undo.
fn mps_sheds_no_class() -> Outcome {
    let lab = Lab::open()?;
    let runtime = Runtime::open()?;
    let tsg = runtime.compute()?;
    lab.class(&runtime, tsg, Level::BE)?;
    lab.quiet()?;
    let before = lab.stats()?;
    runtime.make(runtime.client, class::MPS, &mut [])?;
    ensure!(lab.tsg(&runtime, tsg)?.shared, "not shared");
    let late = runtime.compute()?;
    lab.class(&runtime, late, Level::BE)?;
    lab.quiet()?;
    for tsg in [tsg, late] {
        let status = status_of(runtime.set_timeslice(tsg, 10_000_000))?;
        check_eq!(status, Status::INSUFFICIENT_PERMISSIONS);
        lab.quiet()?;
        check_eq!(runtime.timeslice(tsg)?, 200);
        check_eq!(lab.tsg(&runtime, tsg)?.level, Some(Level::BE));
    }
    check_eq!(lab.stats()?.controls_denied, before.controls_denied + 2);
    Ok(())
}

/// A client with a part of the GPU, and perhaps a part of that.
pub(super) fn part_of_a_gpu(id: u32, compute: Option<u32>) -> Result<Runtime> {
    let runtime = Runtime::open()?;
    let params = |id| MigParams {
        id,
        ..MigParams::zeroed()
    };
    let subdevice = runtime.subdevice.context("a subdevice")?;
    let part = runtime
        .make(subdevice, class::MIG_GPU, bytes_of_mut(&mut params(id)))
        .context("take part of the GPU")?;
    if let Some(id) = compute {
        runtime
            .make(part, class::MIG_COMPUTE, bytes_of_mut(&mut params(id)))
            .context("take part of the part")?;
    }
    Ok(runtime)
}

/// The run list of a new TSG, which is given a class.
fn runlist_of_new(lab: &Lab, runtime: &Runtime, number: u32) -> Result<u32> {
    let before = lab.tsgs()?;
    let tsg = runtime.tsg(number)?;
    let mut listed = lab.tsgs()?;
    listed.retain(|tsg| before.iter().all(|known| known.id != tsg.id));
    check_eq!(listed.len(), 1);
    check_eq!(listed[0].engine, number);
    check_eq!(listed[0].compute, number == engine::GR0);
    lab.zernel
        .set_class(&Target::Tsg(listed[0].id), Level::BE)?;
    lab.quiet()?;
    // Copies have short slices.
    let slice = if listed[0].compute { 200 } else { 10 };
    check_eq!(runtime.timeslice(tsg)?, slice);
    Ok(listed[0].runlist)
}

/// Graphics engines of instances, also of compute instances of one, have run lists of their own;
/// copy engines those of the instance. With the driver's word, and without it.
fn parts_of_a_gpu() -> Outcome {
    let lab = Lab::open()?;
    let whole = Runtime::open()?;
    let whole_tsg = whole.compute()?;
    for told in [true, false] {
        if !told {
            set_faults("control:0x20800179 status=0x56 kernel forever")?;
        }
        let mut lists = vec![lab.tsg(&whole, whole_tsg)?.runlist];
        let mut copies = Vec::new();
        let mut runtimes = Vec::new();
        for (id, compute) in [(3, None), (5, Some(0)), (5, Some(2)), (7, Some(0))] {
            let runtime = part_of_a_gpu(id, compute)?;
            let list = runlist_of_new(&lab, &runtime, engine::GR0)?;
            ensure!(
                !lists.contains(&list),
                "instance {id}, {compute:?} shares run list {list}: {lists:?}"
            );
            lists.push(list);
            copies.push(runlist_of_new(&lab, &runtime, engine::COPY0)?);
            runtimes.push(runtime);
        }
        check_eq!(copies[1], copies[2], "of compute instances of one instance");
        copies.dedup();
        copies.extend(lists);
        let count = copies.len();
        copies.sort_unstable();
        copies.dedup();
        check_eq!(copies.len(), count, "run lists {copies:x?}");
        if told {
            for tsg in truth::tsgs()? {
                ensure!(copies.contains(&tsg.runlist), "{tsg:?}: {copies:x?}");
            }
        }
    }
    check_eq!(whole.timeslice(whole_tsg)?, ORIGINAL_US);
    agree()
}
