// SPDX-License-Identifier: MIT OR Apache-2.0
//! The attacks: what tenants do that is theirs to do, as much as they can.

mod classes;
mod events;
mod faults;
mod forks;
mod groups;
mod idle;
mod probes;
mod requests;
mod threads;

use anyhow::{Context as _, Result};
use libzernel::sim::{Context, ContextSpec, Sim};
use libzernel::{Level, Target};

use crate::troop::{size, Troop};

/// An attack.
pub struct Attack {
    /// Its name.
    pub name: &'static str,
    /// Its description.
    pub about: &'static str,
    /// Gathers its tenants, who make ready.
    pub muster: fn(&mut Troop) -> Result<()>,
}

const fn attack(
    name: &'static str,
    about: &'static str,
    muster: fn(&mut Troop) -> Result<()>,
) -> Attack {
    Attack {
        name,
        about,
        muster,
    }
}

/// All of them.
pub const ALL: &[Attack] = &[
    attack(
        "watchers-1000",
        "64 streams, 1,000 epoll watchers of one, own class set to and fro",
        |troop| events::watched(troop, size(1_000)),
    ),
    attack("watchers-10000", "the same with 10,000 watchers", |troop| {
        events::watched(troop, size(10_000))
    }),
    attack(
        "class-3840",
        "class of a cgroup with 3,840 TSGs of four users set to and fro",
        classes::of_cgroup,
    ),
    attack(
        "lists-1000",
        "LIST_PROCESSES and LIST_THREADS over 1,000 own threads",
        |troop| threads::listed(troop, size(1_000)),
    ),
    attack("lists-32768", "the same over 32,768", |troop| {
        threads::listed(troop, size(32_768))
    }),
    attack(
        "idle-readers",
        "SCHED_IDLE readers of LIST_TSGS beside four busy threads",
        idle::readers,
    ),
    attack(
        "idle-writers",
        "SCHED_IDLE writers of classes beside four busy threads",
        idle::writers,
    ),
    attack(
        "idle-trackers",
        "SCHED_IDLE trackers and listers of threads beside four busy threads",
        idle::trackers,
    ),
    attack(
        "class-storm",
        "own classes changed at full rate by four users",
        classes::storm,
    ),
    attack(
        "timers",
        "256 pages of slots whose timers expire at one instant",
        requests::timers,
    ),
    attack(
        "begins",
        "256 pages of slots, again and again, with time for their timers",
        requests::begins,
    ),
    attack(
        "keys",
        "requests of ever new keys by four users",
        requests::keys,
    ),
    attack(
        "requests",
        "requests at full rate, with a holder and without",
        requests::rate,
    ),
    attack(
        "forks",
        "tracked processes that make processes and threads",
        |troop| forks::storm(troop, Zernel::Used),
    ),
    attack("lists", "lists of everything", threads::everything),
    attack("unread", "64 streams that nobody reads", events::unread),
    attack(
        "memory",
        "streams and tracked forks in a cgroup at its memory limit",
        |troop| groups::full(troop, Zernel::Used),
    ),
    attack(
        "cgroups",
        "64 TSGs moved between cgroups that come and go",
        |troop| groups::moved(troop, Zernel::Used),
    ),
    attack(
        "faults",
        "TSGs whose settings fail, class set to and fro",
        faults::failing,
    ),
    attack(
        "probes",
        "waits at a probe at full rate, by new threads too",
        probes::waits,
    ),
    attack(
        "all-own",
        "all of these together but forks, memory and cgroups, see the bare rows",
        |troop| together(ALL.iter().filter(|one| is_own(one)), troop),
    ),
    attack("all", "all of these together", |troop| {
        together(ALL.iter(), troop)
    }),
];

/// Some of these without zernel: the loss that the kernel itself makes possible.
pub const BARE: &[Attack] = &[
    attack(
        "bare-forks",
        "processes that make processes and threads, without zernel",
        |troop| forks::storm(troop, Zernel::Unused),
    ),
    attack(
        "bare-memory",
        "a cgroup at its memory limit, without zernel",
        |troop| groups::full(troop, Zernel::Unused),
    ),
    attack(
        "bare-cgroups",
        "a process moved between cgroups that come and go, without zernel",
        |troop| groups::moved(troop, Zernel::Unused),
    ),
    attack("bare-all", "all of these together", |troop| {
        together(BARE.iter(), troop)
    }),
];

/// Use of zernel by an attack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Zernel {
    /// As much as there can be.
    Used,
    /// None.
    Unused,
}

/// Every row but that without an attack.
pub fn every() -> impl Iterator<Item = &'static Attack> {
    ALL.iter().chain(BARE)
}

/// The attack of this name.
pub fn named(name: &str) -> Result<&'static Attack> {
    let mut all = every();
    all.find(|attack| attack.name == name)
        .with_context(|| format!("there is no attack {name}; `list` prints them"))
}

/// True if the kernel's own part in an attack is small: there is no bare row of it.
fn is_own(attack: &Attack) -> bool {
    let bare = |other: &Attack| other.name.strip_prefix("bare-") == Some(attack.name);
    !BARE.iter().any(bare)
}

/// All of these that are not such a sum themselves, of as many users.
fn together(attacks: impl Iterator<Item = &'static Attack>, troop: &mut Troop) -> Result<()> {
    const SUMS: [&str; 3] = ["all-own", "all", "bare-all"];
    attacks
        .filter(|one| !SUMS.contains(&one.name))
        .try_for_each(|one| (one.muster)(troop).with_context(|| format!("muster {}", one.name)))
}

/// So many compute contexts of the caller.
fn contexts(sim: &Sim, count: usize) -> Result<Vec<Context>> {
    let one = |_| sim.create_context(&ContextSpec::compute("tenant"));
    (0..count)
        .map(one)
        .collect::<libzernel::Result<_>>()
        .context("make contexts")
}

/// Gives a target a class and takes it away, for ever. Who does so is a member of the group that may
/// raise: any other tenant can only lower, a thousand times or so for each target.
fn set_to_and_fro(zernel: &libzernel::Zernel, target: &Target) -> Result<()> {
    loop {
        zernel.set_class(target, Level::BE)?;
        zernel.clear_class(target)?;
    }
}
