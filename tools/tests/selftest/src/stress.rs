// SPDX-License-Identifier: GPL-2.0
//! Hostile clients for a minute: afterwards everything works, and nothing was lost or leaked.

mod hostile;
mod raw;

use std::fs;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::chown;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{ensure, Context as _, Result};
use libzernel::sim::{Condition, ContextSpec, Item, Sim};
use libzernel::{Level, Target, Timestamp};
use rustix::io::Errno;

use crate::check_eq;
use crate::child::{in_child, Child};
use crate::common::{slice_of, wait_until, Lab, SOON};
use crate::harness::{case, suite, Outcome, Suite};
use crate::sys;
use hostile::Client;
use testkit::passing;

/// The suite.
pub const SUITE: Suite = suite("stress", &[case("hostile_clients", hostile_clients)]);

/// The time for which the clients go on.
const LENGTH: Duration = Duration::from_secs(60);

/// The first client's seed; each further one has the next number.
const SEED: u64 = 0x5eed_2e47;

/// Users of the clients: alice, bob, and two without a name.
const USERS: [u32; 4] = [1000, 1001, 1002, 65534];

/// Requests that an LC client must get through in [`LENGTH`] at least: one a second.
const SERVED: u32 = 60;

/// Longest time that one of its requests may take.
const PATIENCE: Duration = Duration::from_secs(15);

/// The goal of that client. On a machine that needs a short run the clients keep one another from
/// the processors for longer.
fn asked() -> (u32, Duration) {
    if testkit::is_short() {
        (1, SOON)
    } else {
        (SERVED, PATIENCE)
    }
}

/// A cgroup that a user may change; removed with all below it when dropped.
struct Delegated(PathBuf);

impl Delegated {
    fn new(uid: u32) -> Result<Self> {
        let path = PathBuf::from(format!("/sys/fs/cgroup/stress-{uid}"));
        fs::create_dir(&path).with_context(|| path.display().to_string())?;
        for name in [
            "",
            "cgroup.procs",
            "cgroup.threads",
            "cgroup.subtree_control",
        ] {
            chown(path.join(name), Some(uid), Some(uid))?;
        }
        Ok(Self(path))
    }

    fn remove(&self) -> std::io::Result<()> {
        for entry in fs::read_dir(&self.0)? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                fs::remove_dir(entry.path())?;
            }
        }
        fs::remove_dir(&self.0)
    }
}

impl Drop for Delegated {
    fn drop(&mut self) {
        // Processes that were killed leave their cgroup a moment later.
        let end = Instant::now() + SOON;
        while self.remove().is_err() && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

fn hostile_clients() -> Outcome {
    let lab = Lab::open()?;
    let before = lab.stats()?;
    // All clients write to and read from this socket.
    let (one, other) = passing::pair()?;
    let mut clients = Vec::new();
    let mut groups = Vec::new();
    for (seed, uid) in (SEED..).zip(USERS) {
        println!("    # hostile client of user {uid}: seed {seed:#x}");
        let group = Delegated::new(uid)?;
        let sockets = [one.try_clone()?, other.try_clone()?];
        let path = group.0.clone();
        clients.push(Child::session(move || {
            fs::write(path.join("cgroup.procs"), "0")?;
            sys::become_user(uid, uid, &[])?;
            Client::new(seed, path, sockets)?.go_on()
        })?);
        groups.push(group);
    }
    let (least, patience) = asked();
    let (served, longest) = serve(&lab, &clients, patience)?;
    println!("    # latency-critical client: {served} requests, the longest took {longest:?}");
    for client in clients {
        client.kill()?;
        drop(client);
    }
    drop((one, other));
    drop(groups);
    ensure!(served >= least, "{served} requests were served");
    ensure!(longest < patience, "a request took {longest:?}");

    let mut left = None;
    wait_until("nothing of the clients is left", || {
        let stats = lab.stats()?;
        left = Some((stats.tsgs, stats.classes, stats.streams));
        Ok(left == Some((0, 0, 0)))
    })
    .with_context(|| format!("TSGs, assignments and streams: {left:?}"))?;
    let stats = lab.stats()?;
    check_eq!(
        stats.tsgs_added - stats.tsgs_removed,
        0,
        "TSGs added and not removed"
    );
    ensure!(stats.tsgs_added > before.tsgs_added, "no TSG was made");
    ensure!(stats.denied > before.denied, "nothing was denied");
    ensure!(
        stats.classes_expired > before.classes_expired,
        "no class expired"
    );
    check_eq!(stats.errors - before.errors, 0, "errors of the provider");
    check_eq!(stats.gpus, 2);
    for gpu in 0..2 {
        check_eq!(lab.sim.gpu_info(gpu)?.tsgs, 0, "TSGs of GPU {gpu}");
        for engine in 0..3 {
            let stats = lab.sim.engine_stats(gpu, engine)?;
            let sum = stats.busy_ns + stats.switch_ns + stats.idle_ns;
            check_eq!(
                sum,
                stats.now_ns.as_ns() - stats.created_ns.as_ns(),
                "engine {engine}"
            );
        }
    }
    lab.wait_set()?;
    for gpu in lab.zernel.gpus() {
        let gpu = gpu?;
        check_eq!(gpu.tsgs, 0, "GPU {}", gpu.id);
    }
    quotas_are_back()?;
    still_works(&lab)
}

/// A latency-critical client among them: each request is served in bounded time.
fn serve(lab: &Lab, clients: &[Child], patience: Duration) -> Result<(u32, Duration)> {
    let me = Target::current_process();
    let (context, _) = lab.compute()?;
    lab.zernel.set_class(&me, Level::LC)?;
    let (mut served, mut longest) = (0, Duration::ZERO);
    let end = Instant::now() + LENGTH;
    while Instant::now() < end {
        let began = Instant::now();
        let submitted = context.submit(0, &[Item::work(Duration::from_micros(100))])?;
        context
            .wait(0, submitted.last_seq, Timestamp::now() + patience)
            .with_context(|| format!("request {served}"))?;
        longest = longest.max(began.elapsed());
        served += 1;
        let ended = clients
            .iter()
            .any(|client| client.wait_ended(Duration::ZERO).is_ok());
        ensure!(!ended, "a hostile client ended on its own");
        std::thread::sleep(Duration::from_millis(10));
    }
    lab.zernel.clear_class(&me)?;
    Ok((served, longest))
}

/// Every user can have all that it may have.
fn quotas_are_back() -> Result<()> {
    for uid in USERS {
        in_child(|| {
            sys::become_user(uid, uid, &[])?;
            let sim = Sim::open()?;
            let version = sim.version()?;
            let blocked = [Item::wait(0, Condition::Equal, 1); 256];
            let mut contexts = Vec::new();
            for _ in 0..version.user_contexts {
                contexts.push(sim.create_context(&ContextSpec::compute("quota"))?);
            }
            for number in 0..version.user_items / 256 {
                contexts[number as usize / 4].submit(0, &blocked)?;
            }
            let more = contexts[255]
                .submit(0, &blocked[..1])
                .map_err(|error| error.errno());
            check_eq!(more, Err(Some(Errno::DQUOT)), "an item more than all");
            Ok(())
        })
        .with_context(|| format!("quotas of user {uid}"))?;
    }
    Ok(())
}

fn still_works(lab: &Lab) -> Result<()> {
    let mut events = lab.zernel.events()?;
    let (context, tsg) = lab.compute()?;
    lab.zernel.set_class(&Target::Tsg(tsg.id), Level::BE)?;
    lab.wait_slice(&context, slice_of(7))?;
    lab.zernel.clear_class(&Target::Tsg(tsg.id))?;
    lab.wait_slice(&context, 1024)?;
    ensure!(events.next_within(Some(SOON))?.is_some(), "no event");
    Ok(())
}

/// Sends a descriptor without waiting; a full socket is no error.
fn throw(socket: &OwnedFd, fd: impl AsFd) {
    let _ = passing::send_now(socket, fd.as_fd());
}
