// SPDX-License-Identifier: MIT OR Apache-2.0
//! Hostile clients for a minute: afterwards everything works, and nothing was lost or leaked. Tenants that
//! try to have more than their part, and policies that are switched under load.

mod hostile;
mod policies;
mod tenants;

use std::time::{Duration, Instant};

use anyhow::{ensure, Context as _, Result};
use libzernel::sim::{Condition, ContextSpec, Item, Sim};
use libzernel::{Level, Target, Timestamp};
use rustix::io::Errno;
use testkit::passing;

use crate::check_eq;
use crate::child::{in_child, Child};
use crate::common::{errno, slice_of, wait_until, Lab, DRIVER_SLICE, SOON};
use crate::group::Group;
use crate::harness::{case, suite, Outcome, Suite};
use crate::permit::{ALICE, BOB};
use crate::sys;

/// The suite.
pub const SUITE: Suite = suite(
    "stress",
    &[
        case("hostile_clients", hostile_clients),
        case("own_slices_gain_nothing", tenants::slices),
        case("deadlines_gain_nothing", tenants::deadlines),
        case("features_gain_nothing", tenants::features),
        case(
            "policies_switched_under_load",
            policies::switched_under_load,
        ),
    ],
);

/// The time for which the clients go on.
const LENGTH: Duration = Duration::from_secs(60);

/// The first client's seed; each further one has the next number.
const SEED: u64 = 0x5eed_2e47;

/// Users of the clients, two of them without a name.
const USERS: [u32; 4] = [ALICE, BOB, 1002, 65534];

/// Requests that an LC client must get through in [`LENGTH`] at least, and the longest time of one
/// of them. On a machine that needs a short run the clients keep one another from the processors
/// for longer.
fn asked() -> (u32, Duration) {
    match testkit::is_short() {
        true => (1, SOON),
        false => (60, Duration::from_secs(15)),
    }
}

fn hostile_clients() -> Outcome {
    let lab = Lab::open()?;
    let before = lab.stats()?;
    // All clients write to and read from this socket.
    let sockets: [_; 2] = passing::pair()?.into();
    let mut clients = Vec::new();
    for (seed, uid) in (SEED..).zip(USERS) {
        println!("    # hostile client of user {uid}: seed {seed:#x}");
        let group = Group::new(&uid.to_string())?;
        group.delegate(uid)?;
        let client = Child::session(|| {
            group.enter(0)?;
            sys::become_user(uid, uid, &[])?;
            hostile::client(seed, group.path(), &sockets)
        })?;
        clients.push((client, group));
    }
    let (least, patience) = asked();
    let (served, longest) = serve(&lab, &clients, patience)?;
    println!("    # latency-critical client: {served} requests, the longest took {longest:?}");
    drop(clients);
    drop(sockets);
    // With those below them.
    Group::remove_all()?;
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
    ensure!(stats.tsgs_added > before.tsgs_added, "no TSG was made");
    ensure!(stats.denied > before.denied, "nothing was denied");
    ensure!(
        stats.classes_expired > before.classes_expired,
        "no class expired"
    );
    check_eq!(stats.errors, before.errors, "errors of the provider");
    check_eq!(stats.gpus, 2);
    for gpu in 0..2 {
        check_eq!(lab.sim.gpu_info(gpu)?.tsgs, 0, "TSGs of GPU {gpu}");
        for engine in 0..3 {
            let stats = lab.sim.engine_stats(gpu, engine)?;
            let sum = stats.busy_ns + stats.switch_ns + stats.idle_ns;
            let age = stats.now_ns.as_ns() - stats.created_ns.as_ns();
            check_eq!(sum, age, "engine {engine}");
        }
    }
    quotas_are_back()?;
    still_works(&lab)
}

/// A latency-critical client among them: each request is served in bounded time.
fn serve(lab: &Lab, clients: &[(Child, Group)], patience: Duration) -> Result<(u32, Duration)> {
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
        for (client, _) in clients {
            let ended = client.wait_ended(Duration::ZERO).is_ok();
            ensure!(!ended, "a hostile client ended on its own");
        }
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
            let contexts: Vec<_> = (0..version.user_contexts)
                .map(|_| sim.create_context(&ContextSpec::compute("quota")))
                .collect::<Result<_, _>>()?;
            for number in 0..version.user_items / 256 {
                contexts[number as usize / 4].submit(0, &blocked)?;
            }
            let more = errno(contexts[255].submit(0, &blocked[..1]));
            check_eq!(more, Some(Errno::DQUOT), "an item more than all");
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
    lab.wait_slice(&context, DRIVER_SLICE)?;
    ensure!(events.next_within(Some(SOON))?.is_some(), "no event");
    Ok(())
}
